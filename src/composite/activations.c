/* Activations: functions of single elements, and gates of two halves. */
#include "composite/composite.h"

/* ---- of Gauss, and gates by the sigmoid ------------------------------------------------------------ */

TPI_ELEMENT_COMPOSITE(gelu, (tp_tensor * x), x)
{
    tp_tensor *normal = tp_erf(tp_mul(x, 0.70710678118654752));
    return tp_mul(tp_mul(x, 0.5), tp_add(normal, 1));
}

TPI_ELEMENT_COMPOSITE(gelu_tanh, (tp_tensor * x), x)
{
    tp_tensor *cube = tp_mul(tp_mul(x, tp_mul(x, x)), 0.044715);
    tp_tensor *t = tp_tanh(tp_mul(tp_add(x, cube), 0.7978845608028654));
    return tp_mul(tp_mul(x, 0.5), tp_add(t, 1));
}

TPI_ELEMENT_COMPOSITE(silu, (tp_tensor * x), x)
{
    return tp_mul(x, tp_sigmoid(x));
}

TPI_ELEMENT_COMPOSITE(swish, (tp_tensor * x, double alpha), x, alpha)
{
    return tp_mul(x, tp_sigmoid(tp_mul(x, alpha)));
}

/* log(1 + exp(x)) = log(1 + exp(-|x|)) + max(x, 0) */
TPI_ELEMENT_COMPOSITE(softplus, (tp_tensor * x), x)
{
    tp_tensor *negative = tp_lt(x, 0);
    tp_tensor *rest = tp_log1p(tp_exp(tp_neg(tpi_turned(at, negative, x))));
    return tp_add(tp_where(negative, 0, x), rest);
}

TPI_ELEMENT_COMPOSITE(logsigmoid, (tp_tensor * x), x)
{
    return tp_neg(softplus_of(at, tp_neg(x)));
}

TPI_ELEMENT_COMPOSITE(mish, (tp_tensor * x), x)
{
    return tp_mul(x, tp_tanh(softplus_of(at, x)));
}

/* ---- exponential below 0 ------------------------------------------------------------------------- */

/* x > 0; and x, but 0 where that holds, so that nothing overflows which is not taken. */
static tp_tensor *below_0(tpi_at at, tp_tensor *x, tp_tensor **low)
{
    tp_tensor *above = tp_gt(x, 0);
    *low = tp_where(above, 0, x);
    return above;
}

TPI_ELEMENT_COMPOSITE(elu, (tp_tensor * x, double alpha), x, alpha)
{
    tp_tensor *low, *above = below_0(at, x, &low);
    return tp_where(above, x, tp_mul(tp_expm1(low), alpha));
}

TPI_ELEMENT_COMPOSITE(celu, (tp_tensor * x, double alpha), x, alpha)
{
    tp_tensor *low, *above = below_0(at, x, &low), *scale = tp_scalar_like(x, alpha);
    return tp_where(above, x, tp_mul(tp_expm1(tp_div(low, scale)), scale));
}

TPI_ELEMENT_COMPOSITE(selu, (tp_tensor * x), x)
{
    return tp_mul(elu_of(at, x, 1.6732632423543772), 1.0507009873554805);
}

/* ---- pieces of lines --------------------------------------------------------------------------------- */

TPI_ELEMENT_COMPOSITE(leaky_relu, (tp_tensor * x, double slope), x, slope)
{
    return tp_where(tp_gt(x, 0), x, tp_mul(x, slope));
}

static tp_tensor *prelu_of(tpi_at at, tp_tensor *x, tp_tensor *slope)
{
    tp_tensor *failed = tpi_refuse_pair(at, "prelu", false, &x, &slope);
    if (failed)
        return failed;
    tp_tensor *low, *above = below_0(at, x, &low);
    return tp_where(above, x, tp_mul(low, slope));
}

TPI_FUSED(prelu, SCALED, in[0], in[1])
TPI_COMPOSITE(tp_prelu, (tp_tensor * x, tp_tensor *slope), x, slope)
{
    return TPI_FUSE(prelu, (x, slope));
}

TPI_ELEMENT_COMPOSITE(relu6, (tp_tensor * x), x)
{
    tp_tensor *six = tp_scalar_like(x, 6);
    return tp_where(tp_ge(x, six), six, tp_relu(x));
}

TPI_ELEMENT_COMPOSITE(hardsigmoid, (tp_tensor * x), x)
{
    return tp_div(relu6_of(at, tp_add(x, 3)), 6);
}

TPI_ELEMENT_COMPOSITE(hardswish, (tp_tensor * x), x)
{
    return tp_mul(x, hardsigmoid_of(at, x));
}

TPI_ELEMENT_COMPOSITE(threshold, (tp_tensor * x, double bound, double value), x, bound, value)
{
    return tp_where(tp_le(x, bound), value, x);
}

static tp_tensor *shrink_of(tpi_at at, tp_tensor *x, double bound, double bias)
{
    tp_tensor *limit = tp_scalar_like(x, bound), *off = tp_scalar_like(x, bias);
    tp_tensor *negative = tp_lt(x, 0);
    tp_tensor *near = tp_where(negative, tp_ge(x, tp_neg(limit)), tp_le(x, limit));
    tp_tensor *nearer = tp_where(negative, tp_add(x, off), tp_sub(x, off));
    return tp_where(near, 0, nearer);
}

TPI_FUSED(shrink, ELEMENTS, in[0], v[0], v[1])
TPI_COMPOSITE(tp_shrink, (tp_tensor * x, double bound, double bias), x, bound, bias)
{
    return TPI_FUSE(shrink, (x), bound, bias);
}

TPI_ELEMENT_COMPOSITE(softsign, (tp_tensor * x), x)
{
    return tp_div(x, tp_add(tp_abs(x), 1));
}

/* ---- of two halves --------------------------------------------------------------------------------------- */

/* NULL, or the failed tensor to return when x is not two halves along the axis. */
static tp_tensor *halves(tpi_at at, const char *what, tp_tensor *x, int axis, tp_tensor **half)
{
    tp_tensor *failed;
    const int found = tpi_own_axis(at, what, x, axis, &failed);
    if (failed)
        return failed;
    tpi_dims *dims = tpi_dims_of(x);
    const int64_t n = tpi_dim_div(dims, x->shape[found], 2);
    if (tpi_dim_mul(dims, n, 2) != x->shape[found])
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "axis %d of %s is not made of two halves",
                        axis, SHAPE(x));
    half[0] = tpi_slice(at, x, found, 0, n, 1);
    half[1] = tpi_slice(at, x, found, n, 0, 1);
    return NULL;
}

static tp_tensor *glu_of(tpi_at at, tp_tensor *x, int axis)
{
    tp_tensor *half[2], *failed = tpi_refuse_float(at, "glu", TPI_IN(x));
    failed = failed ? failed : halves(at, "glu", x, axis, half);
    return failed ? failed : tp_mul(half[0], tp_sigmoid(half[1]));
}

TPI_FUSED(glu, FORWARD, in[0], (int)v[0])
TPI_COMPOSITE(tp_glu, (tp_tensor * x, int axis), x, axis)
{
    return TPI_FUSE(glu, (x), axis);
}

static tp_tensor *swiglu_of(tpi_at at, tp_tensor *x, int axis)
{
    tp_tensor *half[2], *failed = tpi_refuse_float(at, "swiglu", TPI_IN(x));
    failed = failed ? failed : halves(at, "swiglu", x, axis, half);
    return failed ? failed : tp_mul(silu_of(at, half[0]), half[1]);
}

TPI_FUSED(swiglu, FORWARD, in[0], (int)v[0])
TPI_COMPOSITE(tp_swiglu, (tp_tensor * x, int axis), x, axis)
{
    return TPI_FUSE(swiglu, (x), axis);
}
