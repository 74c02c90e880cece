/* Trigonometric and hyperbolic functions that are no ops of ours, in ops that are. Both sides of a
 * tp_where are finite wherever the other one is taken, so that gradients are too. */
#include "onnx/import/import.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE o->at.file, o->at.line

static tp_tensor *number(tpi_onnx_op *o, tp_tensor *x, double v)
{
    return tp_scalar_like(x, v);
}

static tp_tensor *times(tpi_onnx_op *o, tp_tensor *x, double k)
{
    return tp_mul(x, number(o, x, k));
}

/* log(1 + x): what 1 + x rounds off is made up for. */
static tp_tensor *log_1p(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = number(o, x, 1), *u = tp_add(one, x);
    tp_tensor *lost = tp_sub(u, one);
    tp_tensor *none = tp_eq(lost, number(o, x, 0));
    tp_tensor *y = tp_div(tp_mul(tp_log(u), x), tp_where(none, one, lost));
    return tp_where(none, x, y);
}

/* The angle of |x| <= 1 is halved twice, to at most pi / 16; then a power series. */
static tp_tensor *atan_of(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = number(o, x, 1), *size = tp_abs(x);
    tp_tensor *large = tp_gt(size, one);
    tp_tensor *t = tp_where(large, tp_div(one, tp_where(large, size, one)), size);
    for (int i = 0; i < 2; i++)
        t = tp_div(t, tp_add(one, tp_sqrt(tp_add(one, tp_mul(t, t)))));
    tp_tensor *square = tp_mul(t, t);
    const int last = tp_dtype_of(x) == TP_F64 ? 11 : 5;
    tp_tensor *sum = number(o, x, 1.0 / (2 * last + 1));
    for (int k = last - 1; k >= 0; k--)
        sum = tp_sub(number(o, x, 1.0 / (2 * k + 1)), tp_mul(square, sum));
    tp_tensor *angle = times(o, tp_mul(t, sum), 4);
    angle = tp_where(large, tp_sub(number(o, x, 1.5707963267948966), angle), angle);
    return tp_where(tp_lt(x, number(o, x, 0)), tp_neg(angle), angle);
}

static tp_tensor *asin_of(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = number(o, x, 1);
    tp_tensor *other = tp_sqrt(tp_mul(tp_sub(one, x), tp_add(one, x)));
    return times(o, atan_of(o, tp_div(x, tp_add(one, other))), 2);
}

static tp_tensor *acos_of(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = number(o, x, 1);
    return times(o, atan_of(o, tp_div(tp_sqrt(tp_sub(one, x)), tp_sqrt(tp_add(one, x)))), 2);
}

static tp_tensor *asinh_of(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = number(o, x, 1), *size = tp_abs(x), *square = tp_mul(x, x);
    tp_tensor *rest = tp_div(square, tp_add(one, tp_sqrt(tp_add(one, square))));
    tp_tensor *y = log_1p(o, tp_add(size, rest));
    return tp_where(tp_lt(x, number(o, x, 0)), tp_neg(y), y);
}

static tp_tensor *acosh_of(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *t = tp_sub(x, number(o, x, 1));
    return log_1p(o, tp_add(t, tp_sqrt(tp_add(tp_mul(t, t), times(o, t, 2)))));
}

static tp_tensor *atanh_of(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = number(o, x, 1);
    return times(o, log_1p(o, tp_div(times(o, x, 2), tp_sub(one, x))), 0.5);
}

static tp_tensor *cosh_of(tpi_onnx_op *o, tp_tensor *x)
{
    return times(o, tp_add(tp_exp(x), tp_exp(tp_neg(x))), 0.5);
}

/* For small x by way of tanh(x / 2), where the difference of two powers would lose digits. */
static tp_tensor *sinh_of(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *one = number(o, x, 1);
    tp_tensor *small = tp_lt(tp_abs(x), one);
    tp_tensor *t = tp_tanh(times(o, tp_where(small, x, one), 0.5));
    tp_tensor *near = tp_div(times(o, t, 2), tp_mul(tp_sub(one, t), tp_add(one, t)));
    return tp_where(small, near, times(o, tp_sub(tp_exp(x), tp_exp(tp_neg(x))), 0.5));
}

static tp_tensor *tan_of(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_div(tp_sin(x), tp_cos(x));
}

static const struct {
    const char *name;
    tp_tensor *(*apply)(tpi_onnx_op *o, tp_tensor *x);
} functions[] = {
    {"Acos",  acos_of },
    {"Acosh", acosh_of},
    {"Asin",  asin_of },
    {"Asinh", asinh_of},
    {"Atan",  atan_of },
    {"Atanh", atanh_of},
    {"Cosh",  cosh_of },
    {"Sinh",  sinh_of },
    {"Tan",   tan_of  },
};

bool tpi_onnx_import_trig(tpi_onnx_op *o)
{
    size_t i = 0;
    while (strcmp(functions[i].name, o->name) != 0)
        i++;
    return tpi_onnx_out(o, 0, functions[i].apply(o, tpi_onnx_in(o, 0)));
}
