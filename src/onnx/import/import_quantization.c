/* Quantised numbers: small integers that stand for (q - zero point) * scale. */
#include "onnx/import/import.h"

/* ---- scales and zero points ---------------------------------------------------------------------- */

/* A scale or zero point as it meets x: one number, one for each place of the axis, or one for each
 * block of an axis. */
static tp_tensor *beside(tpi_onnx_op *o, tp_tensor *p, const tp_tensor *x)
{
    const int64_t block = tpi_onnx_int(o, "block_size");
    int axis;
    if (p->status != TP_OK || p->rank == 0 || (p->rank == 1 && p->shape[0] == 1))
        return p->status == TP_OK && p->rank == 1 ? tp_squeeze(p, 0) : p;
    if (!tpi_onnx_axis(o, "axis", x->rank, &axis))
        return NULL;
    if (block > 0 && p->rank == x->rank) {
        tp_tensor *at = tpi_onnx_iota(o, x->shape[axis], TP_I64);
        return tp_gather(p, tp_div(at, tpi_onnx_size_of(o, block, TP_I64)), axis);
    }
    return tpi_onnx_along(o, p, x->rank, axis);
}

/* Operand i as above, of type `dtype`; NULL when it is left out, or after an error. */
static tp_tensor *beside_in(tpi_onnx_op *o, int i, const tp_tensor *x, tp_dtype dtype)
{
    tp_tensor *p = o->x[i] ? beside(o, o->x[i], x) : NULL;
    return p ? tp_cast(p, dtype) : NULL;
}

/* To a type of at most 16 bits: rounded, moved, and held in its range. */
static tp_tensor *quantise(tpi_onnx_op *o, tp_tensor *x, tp_tensor *zero, tp_dtype dtype)
{
    const bool whole = dtype == TP_U8 || dtype == TP_U16;
    const int bits = 8 * (int)tp_dtype_size(dtype);
    if (!whole && dtype != TP_I8 && dtype != TP_I16)
        return tpi_onnx_refuse(o, "quantised numbers of type %s are not supported",
                               tp_dtype_name(dtype));
    const double lo = whole ? 0 : -(double)(1 << (bits - 1)),
                 hi = lo + (double)((1 << bits) - 1);
    tp_tensor *q = tp_round(x);
    q = zero ? tpi_onnx_joined(o, tp_add_at, q, tp_cast(zero, tp_dtype_of(q))) : q;
    return tp_cast(tp_clip(q, lo, hi), dtype);
}

/* ---- one way and back ----------------------------------------------------------------------------- */

tp_tensor *tpi_onnx_import_quantize(tpi_onnx_op *o, tp_tensor *x)
{
    if (x->dtype < TP_F32)
        x = tp_cast(x, TP_F32);
    const tp_dtype dtype =
        o->x[2] ? tp_dtype_of(o->x[2]) : tpi_onnx_type_or(o, "output_dtype", TP_U8);
    if (!tpi_onnx_good(o, x))
        return NULL;
    tp_tensor *scale = beside_in(o, 1, x, (tp_dtype)x->dtype);
    tp_tensor *zero = beside_in(o, 2, x, (tp_dtype)x->dtype);
    if (!scale || (!zero && o->x[2]))
        return tpi_onnx_refuse(o, "it has no scale");
    tp_tensor *y = quantise(o, tpi_onnx_joined(o, tp_div_at, x, scale), zero, dtype);
    return y;
}

tp_tensor *tpi_onnx_import_dequantize(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *scale = o->x[1];
    const tp_dtype dtype = tpi_onnx_type_or(o, "output_dtype", tp_dtype_of(scale));
    scale = beside(o, scale, x);
    tp_tensor *zero = beside_in(o, 2, x, TP_I32);
    if (!scale || (!zero && o->x[2]))
        return NULL;
    tp_tensor *whole = tp_cast(x, TP_I32);
    whole = zero ? tpi_onnx_joined(o, tp_sub_at, whole, zero) : whole;
    whole = tp_cast(whole, tp_dtype_of(scale));
    return tp_cast(tpi_onnx_joined(o, tp_mul_at, whole, scale), dtype);
}

/* To u8, the scale taken from x's range, which has 0 in it. */
bool tpi_onnx_import_dynamic_quantize(tpi_onnx_op *o)
{
    tp_tensor *x = o->x[0], *none = tp_scalar_like(x, 0), *steps = tp_scalar_like(x, UINT8_MAX);
    tp_tensor *lo = tp_min(tp_reduce_min(x, TP_ALL, false), none);
    tp_tensor *hi = tp_max(tp_reduce_max(x, TP_ALL, false), none);
    tp_tensor *scale = tp_div(tp_sub(hi, lo), steps);
    tp_tensor *zero = tp_round(tp_clip(tp_div(tp_neg(lo), scale), 0, UINT8_MAX));
    return tpi_onnx_out(o, 0, quantise(o, tp_div(x, scale), zero, TP_U8)) &&
           tpi_onnx_out(o, 1, scale) && tpi_onnx_out(o, 2, tp_cast(zero, TP_U8));
}

/* ---- products ----------------------------------------------------------------------------------------- */

/* x less its zero point, operand `zero`, as `dtype`; a list of those goes with the axis that
 * `after` axes follow. */
static tp_tensor *centred(tpi_onnx_op *o, tp_tensor *x, int zero, int after, tp_dtype dtype)
{
    x = tp_cast(x, dtype);
    if (!o->x[zero])
        return x;
    tp_tensor *z = tp_cast(o->x[zero], dtype);
    for (int k = 0; k < after && tp_rank(z) > 0; k++)
        z = tp_unsqueeze(z, -1);
    return tpi_onnx_joined(o, tp_sub_at, x, z);
}

/* The product of numbers of 8 bits less their zero points, as i32. It is computed by floats, many times
 * faster than by integers, and exact: a product is below 2^16, so a sum of EXACT of them is one of the
 * whole numbers up to 2^24 that f32 has, in any order. What is longer is cut, and the parts are added
 * as integers; f64 has room for all sums that there can be. */
static tp_tensor *whole_product(tpi_onnx_op *o, tp_tensor *a, tp_tensor *b)
{
    enum { EXACT = 256, MOST_PARTS = 32 };
    tp_tensor *in[2] = {a, b};
    tpi_onnx_agree_product(o, in);
    a = in[0];
    b = in[1];
    if (a->status != TP_OK || b->status != TP_OK || a->rank < 1 || b->rank < 1)
        return tp_matmul(a, b);
    const int row = b->rank > 1 ? b->rank - 2 : 0;
    const int64_t k = a->shape[a->rank - 1];
    if (tpi_dim_is_symbolic(k) || k != b->shape[row] || k > EXACT * MOST_PARTS)
        return tp_cast(tp_cast(tp_matmul(tp_cast(a, TP_F64), tp_cast(b, TP_F64)), TP_I64),
                       TP_I32);
    tp_tensor *sum = NULL;
    for (int64_t at = 0; at < k || !sum; at += EXACT) {
        const int64_t end = at + EXACT < k ? at + EXACT : k;
        tp_tensor *part = tp_matmul(tp_slice(a, -1, at, end, 1), tp_slice(b, row, at, end, 1));
        part = tp_cast(part, TP_I32);
        sum = sum ? tp_add(sum, part) : part;
    }
    return sum;
}

tp_tensor *tpi_onnx_import_matmul_integer(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *a = centred(o, x, 2, 1, TP_F32);
    return whole_product(o, a, centred(o, o->x[1], 3, 0, TP_F32));
}

/* Sums of products are whole numbers, exact in f64. */
tp_tensor *tpi_onnx_import_conv_integer(tpi_onnx_op *o, tp_tensor *x)
{
    x = centred(o, x, 2, 0, TP_F64);
    tp_tensor *y = tpi_onnx_conv(o, x, centred(o, o->x[1], 3, o->x[1]->rank - 1, TP_F64));
    return y ? tp_cast(y, TP_I32) : NULL;
}

/* A scale, operand i; a list of those goes with the axis that `after` axes follow. */
static tp_tensor *scale_in(tpi_onnx_op *o, int i, int after)
{
    tp_tensor *s = tp_cast(o->x[i], TP_F32);
    if (s->status == TP_OK && s->rank == 1 && s->shape[0] == 1)
        return tp_squeeze(s, 0);
    for (int k = 0; k < after && tp_rank(s) > 0; k++)
        s = tp_unsqueeze(s, -1);
    return s;
}

/* y times the product of two scales over that of operand 6, to the type of operand 7. */
static tp_tensor *requantised(tpi_onnx_op *o, tp_tensor *y, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *scale = tp_div(tp_mul(a, b), scale_in(o, 6, 0));
    return quantise(o, tpi_onnx_joined(o, tp_mul_at, tp_cast(y, TP_F32), scale), o->x[7],
                    (tp_dtype)o->x[7]->dtype);
}

tp_tensor *tpi_onnx_import_qlinear_matmul(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *a = centred(o, x, 2, 1, TP_F32);
    tp_tensor *y = whole_product(o, a, centred(o, o->x[3], 5, 0, TP_F32));
    return requantised(o, y, scale_in(o, 1, 1), scale_in(o, 4, 0));
}

tp_tensor *tpi_onnx_import_qlinear_conv(tpi_onnx_op *o, tp_tensor *x)
{
    const tp_tensor *w = o->x[3];
    x = centred(o, x, 2, 0, TP_F64);
    tp_tensor *y = tpi_onnx_conv(o, x, centred(o, o->x[3], 5, w->rank - 1, TP_F64));
    if (!y)
        return NULL;
    if (o->x[8])
        y = tpi_onnx_joined(o, tp_add_at, y,
                            tpi_onnx_per_channel(o, tp_cast(o->x[8], TP_F64), w->rank));
    return requantised(o, y, scale_in(o, 1, 0), scale_in(o, 4, w->rank - 2));
}
