/* Element types and values of ONNX tensors. The bytes that the shape needs are there before memory
 * is taken. */
#include "base/file.h"
#include "base/float_mode.h"
#include "base/half.h"
#include "ir/notation.h"
#include "onnx/format/model.h"
#include "tapir/onnx.h"

#include <stdio.h>
#include <string.h>

typedef struct type_row {
    const char *name;
    tp_dtype dtype;  /* TP_N_DTYPES: none */
    int field, kind; /* where values are that are not raw, and how they are stored */
    int bytes;       /* of a raw element; 0: not read */
} type_row;

static const type_row types[TPI_PB_N_TYPES] = {
    [TPI_PB_NO_TYPE] = {"undefined",      TP_N_DTYPES, 0,                         0,              0},
    [TPI_PB_F32] = {"float",          TP_F32,      TPI_PB_TENSOR_FLOAT_DATA,  TPI_PB_FIXED32, 4},
    [TPI_PB_U8] = {"uint8",          TP_U8,       TPI_PB_TENSOR_INT32_DATA,  TPI_PB_VARINT,  1},
    [TPI_PB_I8] = {"int8",           TP_I8,       TPI_PB_TENSOR_INT32_DATA,  TPI_PB_VARINT,  1},
    [TPI_PB_U16] = {"uint16",         TP_U16,      TPI_PB_TENSOR_INT32_DATA,  TPI_PB_VARINT,  2},
    [TPI_PB_I16] = {"int16",          TP_I16,      TPI_PB_TENSOR_INT32_DATA,  TPI_PB_VARINT,  2},
    [TPI_PB_I32] = {"int32",          TP_I32,      TPI_PB_TENSOR_INT32_DATA,  TPI_PB_VARINT,  4},
    [TPI_PB_I64] = {"int64",          TP_I64,      TPI_PB_TENSOR_INT64_DATA,  TPI_PB_VARINT,  8},
    [TPI_PB_TEXT] = {"string",         TP_N_DTYPES, 0,                         0,              0},
    [TPI_PB_BOOL] = {"bool",           TP_BOOL,     TPI_PB_TENSOR_INT32_DATA,  TPI_PB_VARINT,  1},
    [TPI_PB_F16] = {"float16",        TP_F32,      TPI_PB_TENSOR_INT32_DATA,  TPI_PB_VARINT,  2},
    [TPI_PB_F64] = {"double",         TP_F64,      TPI_PB_TENSOR_DOUBLE_DATA, TPI_PB_FIXED64, 8},
    [TPI_PB_U32] = {"uint32",         TP_U32,      TPI_PB_TENSOR_UINT64_DATA, TPI_PB_VARINT,  4},
    [TPI_PB_U64] = {"uint64",         TP_U64,      TPI_PB_TENSOR_UINT64_DATA, TPI_PB_VARINT,  8},
    [TPI_PB_COMPLEX64] = {"complex64",      TP_N_DTYPES, 0,                         0,              0},
    [TPI_PB_COMPLEX128] = {"complex128",     TP_N_DTYPES, 0,                         0,              0},
    [TPI_PB_BF16] = {"bfloat16",       TP_F32,      TPI_PB_TENSOR_INT32_DATA,  TPI_PB_VARINT,  2},
    [17] = {"float8e4m3fn",   TP_N_DTYPES, 0,                         0,              0},
    [18] = {"float8e4m3fnuz", TP_N_DTYPES, 0,                         0,              0},
    [19] = {"float8e5m2",     TP_N_DTYPES, 0,                         0,              0},
    [20] = {"float8e5m2fnuz", TP_N_DTYPES, 0,                         0,              0},
    [21] = {"uint4",          TP_N_DTYPES, 0,                         0,              0},
    [22] = {"int4",           TP_N_DTYPES, 0,                         0,              0},
    [23] = {"float4e2m1",     TP_N_DTYPES, 0,                         0,              0},
    [24] = {"float8e8m0",     TP_N_DTYPES, 0,                         0,              0},
    [25] = {"uint2",          TP_N_DTYPES, 0,                         0,              0},
    [26] = {"int2",           TP_N_DTYPES, 0,                         0,              0},
};

tp_dtype tpi_onnx_dtype(int type)
{
    return type >= 0 && type < TPI_PB_N_TYPES ? types[type].dtype : TP_N_DTYPES;
}

const char *tpi_onnx_type_name(int type)
{
    return type >= 0 && type < TPI_PB_N_TYPES ? types[type].name : "?";
}

/* ---- elements -------------------------------------------------------------------------------- */

static tpi_half half_of(int type)
{
    return type == TPI_PB_F16 ? TPI_FLOAT16 : TPI_BFLOAT16;
}

/* The little-endian 16-bit floats lie at the end of the memory of the 32-bit ones that they
 * become: each is read before its place is written. */
static void widen(tp_tensor *t, int type)
{
    const int64_t n = tpi_count(t);
    const unsigned char *from = (const unsigned char *)t->data + 2 * n;
    float *to = (float *)(void *)t->data;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t h = (uint16_t)(from[2 * i] | from[2 * i + 1] << 8);
        to[i] = tpi_half_to_float(half_of(type), h);
    }
}

/* What was little-endian and raw becomes elements. */
static void settle(tp_tensor *t, int type)
{
    if (type == TPI_PB_F16 || type == TPI_PB_BF16) {
        widen(t, type);
    } else if (t->dtype == TP_BOOL) { /* any true byte is 1 */
        for (int64_t i = 0, n = tpi_count(t); i < n; i++)
            t->data[i] = t->data[i] != 0;
    } else if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) {
        tpi_swap_bytes(t->data, tpi_bytes(t), tp_dtype_size((tp_dtype)t->dtype));
    }
}

static bool wrong_count(tpi_onnx_model *m, const tpi_onnx_tensor *t)
{
    return tpi_onnx_bad(m, TP_E_FORMAT,
                        "tensor \"%.*s\" does not have the %lld elements of its shape",
                        TPI_SPAN(t->name), (long long)t->count);
}

/* From the repeated field of its type, as bytes that are raw. */
static bool read_numbers(tpi_onnx_model *m, const tpi_onnx_tensor *t, char *at)
{
    const type_row *row = &types[t->type];
    tpi_wire w = tpi_wire_open(t->message);
    tpi_field f;
    int64_t n = 0;
    while (tpi_wire_next(&w, &f)) {
        if (f.number != (uint32_t)row->field)
            continue;
        tpi_numbers numbers = tpi_numbers_open(&f, row->kind);
        for (uint64_t v; tpi_numbers_next(&numbers, &v); n++) {
            if (n == t->count)
                return wrong_count(m, t);
            for (int k = 0; k < row->bytes; k++, v >>= 8)
                *at++ = (char)(unsigned char)(v & 255);
        }
        if (numbers.rest.bad)
            return wrong_count(m, t);
    }
    return n == t->count ? true : wrong_count(m, t);
}

static int64_t raw_size(const tpi_onnx_tensor *t)
{
    return t->count * types[t->type].bytes;
}

/* `at` NULL: are they there? */
static bool read_external(tpi_onnx_model *m, const tpi_onnx_tensor *t, char *at)
{
    char why[200];
    const tp_status s = tpi_external_read(&m->external, t->location, t->offset, raw_size(t), at,
                                          why, sizeof why);
    return s == TP_OK || tpi_onnx_bad(m, s, "tensor \"%.*s\": %s", TPI_SPAN(t->name), why);
}

static bool fill(tpi_onnx_model *m, const tpi_onnx_tensor *t, tp_tensor *out)
{
    const size_t raw = (size_t)raw_size(t);
    const bool wide = t->type == TPI_PB_F16 || t->type == TPI_PB_BF16;
    char *at = wide ? out->data + raw : out->data;
    if (t->external ? !read_external(m, t, at) : !t->has_raw && !read_numbers(m, t, at))
        return false;
    m->own_bytes += t->external ? raw : 0;
    if (t->has_raw && !t->external && raw && m->map)
        tpi_file_map_copy(m->map, at, t->raw.at, raw);
    else if (t->has_raw && !t->external && raw)
        memcpy(at, t->raw.at, raw);
    settle(out, t->type);
    return true;
}

/* Are there as many bytes as the elements need? */
static bool check_bytes(tpi_onnx_model *m, const tpi_onnx_tensor *t)
{
    const int64_t raw = raw_size(t);
    if (t->external)
        return t->length >= 0 && t->length != raw ? wrong_count(m, t)
                                                  : read_external(m, t, NULL);
    return (t->has_raw ? (uint64_t)raw == t->raw.size
                       : (uint64_t)t->count <= t->message.size) ||
           wrong_count(m, t);
}

tp_tensor *tpi_onnx_tensor_make(tpi_onnx_model *m, const tpi_onnx_tensor *t, tpi_at at)
{
    TPI_DEFAULT_FLOAT_MODE;
    const tp_dtype dtype = tpi_onnx_dtype(t->type);
    if (dtype == TP_N_DTYPES) {
        tpi_onnx_bad(m, TP_E_VALUE,
                     "tensor \"%.*s\" has elements of type %s, which is not supported",
                     TPI_SPAN(t->name), tpi_onnx_type_name(t->type));
        return NULL;
    }
    if (!check_bytes(m, t))
        return NULL;
    tp_tensor *out = tpi_tensor(m->ctx, at, dtype, t->rank, t->dims);
    if (!out || !tpi_tensor_alloc(out)) {
        tpi_onnx_bad(m, TP_E_MEMORY, "out of memory");
        return NULL;
    }
    m->read_bytes += tpi_bytes(out);
    return fill(m, t, out) ? out : NULL;
}
