/* Values of the types that tapir has not: rounded to them, and kept as f32. */
#include "onnx/import/import.h"

#include <math.h>

/* Significant bits of x's type. */
static int digits_of(const tp_tensor *x)
{
    return tp_dtype_of(x) == TP_F64 ? 53 : 24;
}

/* x rounded to a multiple of 2^quantum, to even; |x| < 2^(quantum + digits - 2). What becomes 0 keeps its
 * sign. */
static tp_tensor *round_fixed(tpi_onnx_op *o, tp_tensor *x, int quantum)
{
    tp_tensor *magic = tp_scalar_like(x, ldexp(1.5, quantum + digits_of(x) - 1));
    tp_tensor *y = tp_sub(tp_add(x, magic), magic), *zero = tp_scalar_like(x, 0);
    return tp_where(tp_eq(y, zero), tp_mul(x, zero), y);
}

/* x rounded to so many bits, to even (Dekker's split); |x| * 2^(digits - bits) finite. */
static tp_tensor *round_bits(tpi_onnx_op *o, tp_tensor *x, int bits)
{
    tp_tensor *c = tp_mul(x, tp_scalar_like(x, ldexp(1, digits_of(x) - bits) + 1));
    return tp_sub(c, tp_sub(c, x));
}

/* What x is as a float of `bits` significant bits, whose smallest normal number is 2^least, and whose numbers
 * end below 2^(most + 1): rounded once, in x's own type, where all of them are numbers. */
static tp_tensor *round_float(tpi_onnx_op *o, tp_tensor *x, int bits, int least, int most)
{
    /* What is large is rounded so many binades further down. */
    const int away = tp_dtype_of(x) == TP_F64 ? 70 : 32;
    tp_tensor *size = tp_abs(x), *down = tp_scalar_like(x, ldexp(1, -away)),
              *up = tp_scalar_like(x, ldexp(1, away));
    tp_tensor *large = tp_mul(round_bits(o, tp_mul(x, down), bits), up);
    tp_tensor *y = tp_where(tp_lt(size, tp_scalar_like(x, ldexp(1, most - away))),
                            round_bits(o, x, bits), large);
    y = tp_where(tp_lt(size, tp_scalar_like(x, ldexp(1, least))),
                 round_fixed(o, x, least + 1 - bits), y);
    tp_tensor *end = tp_scalar_like(x, ldexp(1, most) * 2);
    tp_tensor *none = tp_mul(tp_sign(x), tp_scalar_like(x, (double)INFINITY));
    y = tp_where(tp_ge(tp_abs(y), end), none, y);
    return tp_where(tp_lt(size, tp_scalar_like(x, (double)INFINITY)), y, x);
}

tp_tensor *tpi_onnx_round(tpi_onnx_op *o, tp_tensor *x, int64_t type)
{
    if (type == TPI_PB_F16)
        return round_float(o, x, 11, -14, 15);
    return type == TPI_PB_BF16 ? round_float(o, x, 8, -126, 127) : x;
}
