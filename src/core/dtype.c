#include "base/float_mode.h"
#include "core/core.h"

#include <math.h>

static const struct {
    const char *name;
    uint8_t size;
} types[TP_N_DTYPES] = {
    [TP_BOOL] = {"bool", 1},
      [TP_I8] = {"i8",   1},
      [TP_I16] = {"i16",  2},
    [TP_I32] = {"i32",  4},
      [TP_I64] = {"i64",  8},
      [TP_U8] = {"u8",   1},
    [TP_U16] = {"u16",  2},
      [TP_U32] = {"u32",  4},
      [TP_U64] = {"u64",  8},
    [TP_F32] = {"f32",  4},
      [TP_F64] = {"f64",  8},
};

const char *tp_dtype_name(tp_dtype t)
{
    return (unsigned)t < TP_N_DTYPES ? types[t].name : "?";
}

size_t tp_dtype_size(tp_dtype t)
{
    return (unsigned)t < TP_N_DTYPES ? types[t].size : 0;
}

/* 0 bool, 1 unsigned, 2 signed, 3 float */
static int class_of(tp_dtype t)
{
    if (t == TP_BOOL)
        return 0;
    if (t >= TP_F32)
        return 3;
    return t >= TP_U8 ? 1 : 2;
}

tp_dtype tp_promote(tp_dtype a, tp_dtype b)
{
    if ((unsigned)a >= TP_N_DTYPES)
        return b;
    if ((unsigned)b >= TP_N_DTYPES)
        return a;
    if (class_of(a) < class_of(b)) {
        const tp_dtype t = a;
        a = b;
        b = t;
    }
    if (class_of(a) == class_of(b))
        return types[a].size >= types[b].size ? a : b;
    if (class_of(a) == 3 || class_of(b) == 0 || types[a].size > types[b].size)
        return a;
    /* signed with an unsigned at least as wide: the next wider signed type */
    return b == TP_U64 ? TP_I64 : (tp_dtype)(TP_I16 + (b - TP_U8));
}

double tpi_load_f64(tp_dtype dtype, const void *p)
{
    TPI_DEFAULT_FLOAT_MODE;
    switch (dtype) {
    case TP_BOOL:
        return *(const uint8_t *)p != 0;
    case TP_I8:
        return *(const int8_t *)p;
    case TP_I16:
        return *(const int16_t *)p;
    case TP_I32:
        return *(const int32_t *)p;
    case TP_I64:
        return (double)*(const int64_t *)p;
    case TP_U8:
        return *(const uint8_t *)p;
    case TP_U16:
        return *(const uint16_t *)p;
    case TP_U32:
        return *(const uint32_t *)p;
    case TP_U64:
        return (double)*(const uint64_t *)p;
    case TP_F32:
        return (double)*(const float *)p;
    default:
        return *(const double *)p;
    }
}

/* NaN is 0; what is beyond the ends is the nearest end. Both ends, and `high` + 1, must be
 * exact as doubles or round away from zero. */
static int64_t saturate(double v, int64_t low, int64_t high)
{
    if (isnan(v))
        return 0;
    if (v <= (double)low)
        return low;
    return v >= (double)high ? high : (int64_t)v;
}

static uint64_t saturate_u64(double v)
{
    if (!(v > 0)) /* NaN too */
        return 0;
    return v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

int64_t tpi_load_i64(tp_dtype dtype, const void *p)
{
    TPI_DEFAULT_FLOAT_MODE;
    switch (dtype) {
    case TP_I64:
        return *(const int64_t *)p;
    case TP_U64: {
        const uint64_t v = *(const uint64_t *)p;
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    }
    default: /* exact as a double, or a float */
        return saturate(tpi_load_f64(dtype, p), INT64_MIN, INT64_MAX);
    }
}

void tpi_store_f64(tp_dtype dtype, void *p, double value)
{
    TPI_DEFAULT_FLOAT_MODE;
    switch (dtype) {
    case TP_BOOL:
        *(uint8_t *)p = value != 0;
        break;
    case TP_I8:
        *(int8_t *)p = (int8_t)saturate(value, INT8_MIN, INT8_MAX);
        break;
    case TP_I16:
        *(int16_t *)p = (int16_t)saturate(value, INT16_MIN, INT16_MAX);
        break;
    case TP_I32:
        *(int32_t *)p = (int32_t)saturate(value, INT32_MIN, INT32_MAX);
        break;
    case TP_I64:
        *(int64_t *)p = saturate(value, INT64_MIN, INT64_MAX);
        break;
    case TP_U8:
        *(uint8_t *)p = (uint8_t)saturate(value, 0, UINT8_MAX);
        break;
    case TP_U16:
        *(uint16_t *)p = (uint16_t)saturate(value, 0, UINT16_MAX);
        break;
    case TP_U32:
        *(uint32_t *)p = (uint32_t)saturate(value, 0, UINT32_MAX);
        break;
    case TP_U64:
        *(uint64_t *)p = saturate_u64(value);
        break;
    case TP_F32:
        *(float *)p = (float)value;
        break;
    default:
        *(double *)p = value;
    }
}
