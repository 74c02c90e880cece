/* Trigonometric and hyperbolic functions that are no ops of ours, in ops that are. Both sides of a
 * tp_where are finite wherever the other one is taken, so that gradients are too. */
#include "onnx/import/import.h"

/* log(1 + x): what 1 + x rounds off is made up for. */
static tp_tensor *log_1p(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = tp_scalar_like(x, 1), *u = tp_add(one, x);
    tp_tensor *lost = tp_sub(u, one);
    tp_tensor *none = tp_eq(lost, tp_scalar_like(x, 0));
    tp_tensor *y = tp_div(tp_mul(tp_log(u), x), tp_where(none, one, lost));
    return tp_where(none, x, y);
}

/* The angle of |x| <= 1 is halved twice, to at most pi / 16; then a power series. */
tp_tensor *tpi_onnx_import_atan(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = tp_scalar_like(x, 1), *size = tp_abs(x);
    tp_tensor *large = tp_gt(size, one);
    tp_tensor *t = tp_where(large, tp_div(one, tp_where(large, size, one)), size);
    for (int i = 0; i < 2; i++)
        t = tp_div(t, tp_add(one, tp_sqrt(tp_add(one, tp_mul(t, t)))));
    tp_tensor *square = tp_mul(t, t);
    const int last = tp_dtype_of(x) == TP_F64 ? 11 : 5;
    tp_tensor *sum = tp_scalar_like(x, 1.0 / (2 * last + 1));
    for (int k = last - 1; k >= 0; k--)
        sum = tp_sub(tp_scalar_like(x, 1.0 / (2 * k + 1)), tp_mul(square, sum));
    tp_tensor *angle = tpi_onnx_times(o, tp_mul(t, sum), 4);
    angle = tp_where(large, tp_sub(tp_scalar_like(x, 1.5707963267948966), angle), angle);
    return tp_where(tp_lt(x, tp_scalar_like(x, 0)), tp_neg(angle), angle);
}

tp_tensor *tpi_onnx_import_asin(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = tp_scalar_like(x, 1);
    tp_tensor *other = tp_sqrt(tp_mul(tp_sub(one, x), tp_add(one, x)));
    return tpi_onnx_times(o, tpi_onnx_import_atan(o, tp_div(x, tp_add(one, other))), 2);
}

tp_tensor *tpi_onnx_import_acos(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = tp_scalar_like(x, 1);
    return tpi_onnx_times(
        o, tpi_onnx_import_atan(o, tp_div(tp_sqrt(tp_sub(one, x)), tp_sqrt(tp_add(one, x)))),
        2);
}

tp_tensor *tpi_onnx_import_asinh(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = tp_scalar_like(x, 1), *size = tp_abs(x), *square = tp_mul(x, x);
    tp_tensor *rest = tp_div(square, tp_add(one, tp_sqrt(tp_add(one, square))));
    tp_tensor *y = log_1p(o, tp_add(size, rest));
    return tp_where(tp_lt(x, tp_scalar_like(x, 0)), tp_neg(y), y);
}

tp_tensor *tpi_onnx_import_acosh(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *t = tp_sub(x, tp_scalar_like(x, 1));
    return log_1p(o, tp_add(t, tp_sqrt(tp_add(tp_mul(t, t), tpi_onnx_times(o, t, 2)))));
}

tp_tensor *tpi_onnx_import_atanh(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = tp_scalar_like(x, 1);
    return tpi_onnx_times(o, log_1p(o, tp_div(tpi_onnx_times(o, x, 2), tp_sub(one, x))), 0.5);
}

tp_tensor *tpi_onnx_import_cosh(tpi_onnx_op *o, tp_tensor *x)
{
    return tpi_onnx_times(o, tp_add(tp_exp(x), tp_exp(tp_neg(x))), 0.5);
}

/* For small x by way of tanh(x / 2), where the difference of two powers would lose digits. */
tp_tensor *tpi_onnx_import_sinh(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = tp_scalar_like(x, 1);
    tp_tensor *small = tp_lt(tp_abs(x), one);
    tp_tensor *t = tp_tanh(tpi_onnx_times(o, tp_where(small, x, one), 0.5));
    tp_tensor *near = tp_div(tpi_onnx_times(o, t, 2), tp_mul(tp_sub(one, t), tp_add(one, t)));
    return tp_where(small, near, tpi_onnx_times(o, tp_sub(tp_exp(x), tp_exp(tp_neg(x))), 0.5));
}

tp_tensor *tpi_onnx_import_tan(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_div(tp_sin(x), tp_cos(x));
}
