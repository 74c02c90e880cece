/* Normalisations. */
#include "composite/composite.h"

/* The mean of numbers far from 0 is off by some units of their last place, which may be more than they
 * differ by. What is left of it is the mean of the differences, whose own rounding is that of numbers
 * as small as they are. But for rounding it is 0, whatever x is, and so it has no gradient. */
tp_tensor *tpi_centred(tpi_at at, tp_tensor *x, int n, const int64_t *axes, tp_tensor **mean)
{
    tp_tensor *about = tp_mean(x, n, axes, true), *away = tp_sub(x, about);
    tp_tensor *left = tp_detach(tp_mean(away, n, axes, true));
    if (mean)
        *mean = tp_add(about, left);
    return tp_sub(away, left);
}

TPI_COMPOSITE(tp_layer_norm, (tp_tensor * x, tp_tensor *scale, tp_tensor *shift, double eps), x,
              scale, shift, eps)
{
    const char *what = "layer_norm";
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(x, scale, shift));
    if (failed)
        return failed;
    if (x->rank == 0)
        return tpi_fail(x->ctx, at, what, TP_E_AXIS, "x has no axes");
    const int64_t last = x->rank - 1;
    if ((failed = tpi_refuse_channels(at, what, "scale", x, (int)last, scale)) ||
        (failed = tpi_refuse_channels(at, what, "shift", x, (int)last, shift)) ||
        (failed = tpi_refuse_eps(at, what, x, eps)))
        return failed;
    tp_tensor *away = tpi_centred(at, x, 1, &last, NULL);
    tp_tensor *var = tp_mean(tp_square(away), 1, &last, true);
    tp_tensor *y = tp_mul(away, tp_rsqrt(tp_add(var, tp_scalar_like(var, eps))));
    y = scale ? tp_mul(y, scale) : y;
    return shift ? tp_add(y, shift) : y;
}

/* ---- batch normalisation ------------------------------------------------------------------------ */

/* [c] as [c, 1, ...], which broadcasts along axis 1 of x. */
static tp_tensor *per_channel(tpi_at at, const tp_tensor *x, tp_tensor *p)
{
    const int64_t shape[TP_MAX_RANK] = {x->shape[1], 1, 1, 1, 1, 1, 1, 1};
    p = tpi_beside(at, x, p);
    return x->rank == 2 ? p : tp_reshape(p, x->rank - 1, shape);
}

static tp_tensor *refuse_batch(tpi_at at, const char *what, tp_tensor *x, tp_tensor *scale,
                               tp_tensor *shift, double eps)
{
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(x, scale, shift));
    if (failed)
        return failed;
    if (x->rank < 2)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "x is %s, without an axis 1 of channels",
                        SHAPE(x));
    failed = tpi_refuse_channels(at, what, "scale", x, 1, scale);
    if (!failed)
        failed = tpi_refuse_channels(at, what, "shift", x, 1, shift);
    return failed ? failed : tpi_refuse_eps(at, what, x, eps);
}

TPI_COMPOSITE(tp_batch_norm,
              (tp_tensor * x, tp_tensor *scale, tp_tensor *shift, tp_tensor *mean,
               tp_tensor *var, double eps),
              x, scale, shift, mean, var, eps)
{
    const char *what = "batch_norm";
    tp_tensor *failed = refuse_batch(at, what, x, scale, shift, eps);
    if (failed || (failed = tpi_refuse_operand(x->ctx, at, what, 3, mean)) ||
        (failed = tpi_refuse_operand(x->ctx, at, what, 4, var)) ||
        (failed = tpi_refuse_channels(at, what, "mean", x, 1, mean)) ||
        (failed = tpi_refuse_channels(at, what, "var", x, 1, var)))
        return failed;
    var = tpi_beside(at, x, var);
    tp_tensor *factor = tp_rsqrt(tp_add(var, tp_scalar_like(var, eps)));
    factor = scale ? tp_mul(factor, scale) : factor;
    tp_tensor *away = tp_sub(x, per_channel(at, x, mean));
    tp_tensor *y = tp_mul(away, per_channel(at, x, factor));
    return shift ? tp_add(y, per_channel(at, x, shift)) : y;
}

/* running += momentum * (now - running); `now` [1, c, 1, ...] */
static tp_tensor *move_toward(tpi_at at, tp_tensor *running, tp_tensor *now, double momentum)
{
    now = tp_reshape(tp_detach(now), 1, running->shape);
    now = tp_cast(now, (tp_dtype)running->dtype);
    tp_tensor *way = tp_mul(tp_sub(now, running), tp_scalar_like(running, momentum));
    return tp_assign(running, tp_add(running, way));
}

TPI_COMPOSITE(tp_batch_norm_train,
              (tp_tensor * x, tp_tensor *scale, tp_tensor *shift, tp_tensor *running_mean,
               tp_tensor *running_var, double momentum, double eps),
              x, scale, shift, running_mean, running_var, momentum, eps)
{
    const char *what = "batch_norm_train";
    tp_tensor *failed = refuse_batch(at, what, x, scale, shift, eps);
    if (failed ||
        (failed = tpi_refuse_channels(at, what, "running_mean", x, 1, running_mean)) ||
        (failed = tpi_refuse_channels(at, what, "running_var", x, 1, running_var)))
        return failed;
    int64_t axes[TP_MAX_RANK];
    int n_axes = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != 1)
            axes[n_axes++] = i;
    tp_tensor *mean = NULL;
    tp_tensor *away = tpi_centred(at, x, n_axes, axes, running_mean ? &mean : NULL);
    tp_tensor *var = tp_mean(tp_square(away), n_axes, axes, true);
    tp_tensor *factor = tp_rsqrt(tp_add(var, tp_scalar_like(var, eps)));
    factor = scale ? tp_mul(factor, per_channel(at, x, scale)) : factor;

    tp_tensor *moved[2];
    int n_moved = 0;
    if (running_mean)
        moved[n_moved++] = move_toward(at, running_mean, mean, momentum);
    if (running_var) {
        tp_tensor *one = tp_scalar_like(var, 1);
        tp_tensor *n = tp_extent(x, n_axes, axes, (tp_dtype)x->dtype);
        tp_tensor *unbiased = tp_div(n, tp_max(tp_sub(n, one), one));
        moved[n_moved++] =
            move_toward(at, running_var, tp_mul(tp_detach(var), unbiased), momentum);
    }
    if (n_moved > 0) /* a graph that needs y then needs the assignments */
        factor = tp_where(tp_group(n_moved, moved), factor, tp_scalar_like(factor, 0));
    tp_tensor *y = tp_mul(away, factor);
    return shift ? tp_add(y, per_channel(at, x, shift)) : y;
}
