/* Operands of cases: numbers by kind, then memory by layout. */
#include "case.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* xorshift64*: the same numbers everywhere. */
static uint64_t next(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * UINT64_C(0x2545f4914f6cdd1d);
}

static double unit(uint64_t *s)
{
    return (double)(next(s) >> 11) * 0x1p-53;
}

/* A number that is hard for floats of that type. */
static double special(uint64_t *s, tp_dtype t)
{
    const double tiny = t == TP_F32 ? 0x1p-149 : 0x1p-1074;
    const double least = t == TP_F32 ? (double)FLT_MIN : DBL_MIN;
    const double most = t == TP_F32 ? (double)FLT_MAX : DBL_MAX;
    const double list[] = {0,
                           -0.0,
                           (double)NAN,
                           (double)INFINITY,
                           -(double)INFINITY,
                           1,
                           -1,
                           0.5,
                           -0.5,
                           2.5,
                           tiny,
                           -tiny,
                           1e5 * tiny,
                           least,
                           -least,
                           most,
                           -most,
                           most / 3,
                           1e-3,
                           -1e-3,
                           88.5,
                           -103.0,
                           709.5,
                           -745.0,
                           1e6,
                           3e9,
                           -3e9,
                           1e19,
                           16777217.0,
                           -2147483648.5};
    enum { N = sizeof list / sizeof *list };
    const uint64_t pick = next(s) >> 33;
    return pick % 4 == 0 ? 8 * unit(s) - 4 : list[pick / 4 % N];
}

/* The same for integers: its bits. */
static uint64_t special_int(uint64_t *s, tp_dtype t)
{
    const unsigned bits = 8 * (unsigned)tp_dtype_size(t);
    const uint64_t top = UINT64_C(1) << (bits - 1);
    const uint64_t list[] = {0, 1, 2, 7, ~UINT64_C(0), ~UINT64_C(1), top, top - 1, top + 1};
    const uint64_t pick = next(s) >> 33;
    return pick % 3 == 0 ? next(s) >> 20 : list[pick / 3 % (sizeof list / sizeof *list)];
}

static void store_bits(tp_dtype t, void *p, uint64_t bits)
{
    const uint8_t b1 = (uint8_t)bits;
    const uint16_t b2 = (uint16_t)bits;
    const uint32_t b4 = (uint32_t)bits;
    switch (tp_dtype_size(t)) {
    case 1:
        memcpy(p, &b1, 1);
        break;
    case 2:
        memcpy(p, &b2, 2);
        break;
    case 4:
        memcpy(p, &b4, 4);
        break;
    default:
        memcpy(p, &bits, 8);
    }
}

static void draw_one(uint64_t *s, const case_operand *o, tp_dtype t, void *p)
{
    if (o->draw == DRAW_RANGE || t == TP_BOOL) {
        const double v = o->lo + (o->hi - o->lo) * unit(s);
        tpi_store_f64(t, p, t == TP_BOOL ? (double)(v > 0.5) : v);
    } else if (o->draw == DRAW_INTS) {
        tpi_store_f64(t, p, o->lo + floor((o->hi - o->lo + 1) * unit(s)));
    } else if (case_is_float(t)) {
        tpi_store_f64(t, p, special(s, t));
    } else {
        store_bits(t, p, special_int(s, t));
    }
}

static tp_tensor *lay_out(tp_ctx *tp, case_layout layout, tp_tensor *x)
{
    const int last = tp_rank(x) - 1;
    const int64_t axis = last;
    if (last < 0 || layout == LAYOUT_PACKED)
        return x;
    if (layout == LAYOUT_TURNED)
        return tp_swap(tp_contiguous(tp_swap(x, 0, last)), 0, last);
    if (layout == LAYOUT_FLIPPED)
        return tp_flip(tp_contiguous(tp_flip(x, 1, &axis)), 1, &axis);
    if (layout == LAYOUT_SLICED) {
        tp_tensor *gap = tp_full(tp, tp_dtype_of(x), tp_rank(x), x->shape, 1);
        tp_tensor *pairs = tp_stack(2, (tp_tensor *[]){gap, x}, last + 1);
        return tp_slice(tp_flatten(pairs, last), last, 1, TP_END, 2);
    }
    return tp_broadcast(tp_slice(x, 0, 0, 1, 1), tp_rank(x), x->shape);
}

void case_draw_operands(tp_ctx *tp, const op_case *c, uint64_t seed, bool wide, tp_tensor **x)
{
    uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (const char *p = c->name; *p; p++)
        s = (s ^ (uint64_t)*p) * UINT64_C(0x100000001b3);
    memset(x, 0, CASE_MAX_IN * sizeof *x);
    for (int i = 0; i < c->n_in; i++) {
        const case_operand *o = &c->in[i];
        const tp_dtype t = wide && case_is_float(o->dtype) ? TP_F64 : o->dtype;
        const size_t size = tp_dtype_size(t);
        size_t n = 1, row = 1;
        for (int k = 0; k < o->rank; k++) {
            n *= (size_t)o->shape[k];
            row *= k ? (size_t)o->shape[k] : 1;
        }
        char *data = calloc(n ? n : 1, size);
        if (!data)
            abort();
        for (int k = 0; k < 16; k++)
            next(&s);
        for (size_t k = 0; k < n; k++)
            if (o->layout == LAYOUT_SPREAD && k >= row)
                memcpy(data + k * size, data + (k - row) * size, size);
            else
                draw_one(&s, o, t, data + k * size);
        x[i] = lay_out(tp, o->layout, tp_tensor_new(tp, t, o->rank, o->shape, data));
        free(data);
    }
}

const char *case_shapes(const op_case *c, char *out, size_t size)
{
    size_t at = 0;
    *out = 0;
    for (int i = 0; i < c->n_in && at < size; i++) {
        const case_operand *o = &c->in[i];
        at += (size_t)snprintf(out + at, size - at, "%s%s[", i ? " " : "",
                               tp_dtype_name(o->dtype));
        for (int k = 0; k < o->rank && at < size; k++)
            at +=
                (size_t)snprintf(out + at, size - at, "%s%" PRId64, k ? "," : "", o->shape[k]);
        if (at < size)
            at += (size_t)snprintf(out + at, size - at, "]");
    }
    return out;
}
