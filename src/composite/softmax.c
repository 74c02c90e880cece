/* Softmax, its logarithm and its limit, along an axis. */
#include "composite/composite.h"

/* x minus its greatest value along the axis, which shifts no softmax and so has no gradient.
 * NULL, and *failed, when x or the axis is no good. */
static tp_tensor *below_max(tpi_at at, const char *what, tp_tensor *x, int64_t *axis,
                            tp_tensor **failed)
{
    *failed = tpi_refuse_float(at, what, TPI_IN(x));
    if (*failed)
        return NULL;
    *axis = tpi_own_axis(at, what, x, *axis, failed);
    if (*failed)
        return NULL;
    return tp_sub(x, tp_detach(tp_reduce_max(x, 1, axis, true)));
}

static tp_tensor *softmax_of(tpi_at at, tp_tensor *x, int axis)
{
    tp_tensor *failed;
    int64_t a = axis;
    tp_tensor *below = below_max(at, "softmax", x, &a, &failed);
    if (!below)
        return failed;
    tp_tensor *e = tp_exp(below);
    tp_tensor *share = tp_div(tp_scalar_like(e, 1), tp_sum(e, 1, &a, true)); /* one division */
    return tp_mul(e, share);
}

TPI_FUSED(softmax, AXES, in[0], (int)v[0])
TPI_COMPOSITE(tp_softmax, (tp_tensor * x, int axis), x, axis)
{
    return TPI_FUSE(softmax, (x), axis);
}

tp_tensor *tpi_log_softmax(tpi_at at, const char *what, tp_tensor *x, int64_t axis)
{
    tp_tensor *failed;
    tp_tensor *below = below_max(at, what, x, &axis, &failed);
    if (!below)
        return failed;
    return tp_sub(below, tp_log(tp_sum(tp_exp(below), 1, &axis, true)));
}

static tp_tensor *log_softmax_of(tpi_at at, tp_tensor *x, int axis)
{
    return tpi_log_softmax(at, "log_softmax", x, axis);
}

TPI_FUSED(log_softmax, AXES, in[0], (int)v[0])
TPI_COMPOSITE(tp_log_softmax, (tp_tensor * x, int axis), x, axis)
{
    return TPI_FUSE(log_softmax, (x), axis);
}

TPI_COMPOSITE(tp_hardmax, (tp_tensor * x, int axis), x, axis)
{
    tp_tensor *failed = tpi_refuse_float(at, "hardmax", TPI_IN(x));
    if (failed)
        return failed;
    const int along = tpi_own_axis(at, "hardmax", x, axis, &failed);
    if (failed)
        return failed;
    int64_t perm[TP_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        perm[i] = i < along ? i : i == along ? x->rank - 1 : i - 1;
    tp_tensor *top = tp_argmax(x, along, false);
    return tp_transpose(tp_one_hot(top, x->shape[along], (tp_dtype)x->dtype), x->rank, perm);
}
