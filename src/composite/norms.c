/* Normalisations. */
#include "composite/composite.h"

#include <float.h>
#include <math.h>

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

tpi_standard tpi_standardise(tpi_at at, tp_tensor *x, int n, const int64_t *axes, double eps)
{
    tpi_standard s;
    tp_tensor *away = tpi_centred(at, x, n, axes, &s.mean);
    s.var = tp_mean(tp_square(away), n, axes, true);
    s.factor = tp_rsqrt(tp_add(s.var, tp_scalar_like(s.var, eps)));
    s.y = tp_mul(away, s.factor);
    return s;
}

tp_tensor *tpi_over_rms(tpi_at at, tp_tensor *x, int n, const int64_t *axes, double eps)
{
    tp_tensor *square = tp_mean(tp_square(x), n, axes, true);
    return tp_mul(x, tp_rsqrt(tp_add(square, tp_scalar_like(square, eps))));
}

/* y * scale + shift; what is NULL is left out. */
static tp_tensor *scaled(tpi_at at, tp_tensor *y, tp_tensor *scale, tp_tensor *shift)
{
    y = scale ? tp_mul(y, scale) : y;
    return shift ? tp_add(y, shift) : y;
}

/* ---- over the last axis -------------------------------------------------------------------------- */

static tp_tensor *refuse_last(tpi_at at, const char *what, tp_tensor *x, tp_tensor *scale,
                              tp_tensor *shift, double eps)
{
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(x, scale, shift));
    if (failed)
        return failed;
    if (x->rank == 0)
        return tpi_fail(x->ctx, at, what, TP_E_AXIS, "x has no axes");
    if ((failed = tpi_refuse_channels(at, what, "scale", x, x->rank - 1, scale)) ||
        (failed = tpi_refuse_channels(at, what, "shift", x, x->rank - 1, shift)))
        return failed;
    return tpi_refuse_number(at, what, x, "eps", eps, 0, DBL_MAX);
}

static tp_tensor *layer_norm_of(tpi_at at, tp_tensor *x, tp_tensor *scale, tp_tensor *shift,
                                double eps)
{
    tp_tensor *failed = refuse_last(at, "layer_norm", x, scale, shift, eps);
    if (failed)
        return failed;
    const int64_t last = x->rank - 1;
    return scaled(at, tpi_standardise(at, x, 1, &last, eps).y, scale, shift);
}

TPI_FUSED(layer_norm, SCALED, in[0], in[1], in[2], v[0])
TPI_COMPOSITE(tp_layer_norm, (tp_tensor * x, tp_tensor *scale, tp_tensor *shift, double eps), x,
              scale, shift, eps)
{
    return TPI_FUSE(layer_norm, (x, scale, shift), eps);
}

static tp_tensor *rms_norm_of(tpi_at at, tp_tensor *x, tp_tensor *scale, double eps)
{
    tp_tensor *failed = refuse_last(at, "rms_norm", x, scale, NULL, eps);
    if (failed)
        return failed;
    const int64_t last = x->rank - 1;
    return scaled(at, tpi_over_rms(at, x, 1, &last, eps), scale, NULL);
}

TPI_FUSED(rms_norm, SCALED, in[0], in[1], v[0])
TPI_COMPOSITE(tp_rms_norm, (tp_tensor * x, tp_tensor *scale, double eps), x, scale, eps)
{
    return TPI_FUSE(rms_norm, (x, scale), eps);
}

/* ---- with channels along axis 1 -------------------------------------------------------------------- */

/* [c] as [c, 1, ...], which broadcasts along axis 1 of x. */
static tp_tensor *per_channel(tpi_at at, const tp_tensor *x, tp_tensor *p)
{
    const int64_t shape[TP_MAX_RANK] = {x->shape[1], 1, 1, 1, 1, 1, 1, 1};
    p = tpi_beside(at, x, p);
    return !p || x->rank == 2 ? p : tp_reshape(p, x->rank - 1, shape);
}

static tp_tensor *refuse_channels(tpi_at at, const char *what, tp_tensor *x, tp_tensor *scale,
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
    return failed ? failed : tpi_refuse_number(at, what, x, "eps", eps, 0, DBL_MAX);
}

static tp_tensor *scaled_channels(tpi_at at, const tp_tensor *x, tp_tensor *y, tp_tensor *scale,
                                  tp_tensor *shift)
{
    return scaled(at, y, per_channel(at, x, scale), per_channel(at, x, shift));
}

/* [c] as [groups, c / groups, 1]. */
static tp_tensor *per_group(tpi_at at, const tp_tensor *x, tp_tensor *p, const int64_t *grouped)
{
    const int64_t shape[3] = {grouped[1], grouped[2], 1};
    return p ? tp_reshape(tpi_beside(at, x, p), 3, shape) : NULL;
}

static tp_tensor *group_norm_of(tpi_at at, tp_tensor *x, int64_t groups, tp_tensor *scale,
                                tp_tensor *shift, double eps)
{
    const char *what = "group_norm";
    tp_tensor *failed = refuse_channels(at, what, x, scale, shift, eps);
    if (failed || (failed = tpi_refuse_count(at, what, x, "groups", groups, 1)))
        return failed;
    if (x->shape[1] >= 0 && x->shape[1] % groups != 0)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                        "%lld groups do not divide axis 1 of x %s", (long long)groups,
                        SHAPE(x));
    /* Channels of a group are an axis of their own, along which scale and shift lie, if it is known how many. Not
     * before a last axis of size 1: along that one nothing is added up in the gradients of these, which is in their
     * order. */
    tpi_dims *dims = tpi_dims_of(x);
    const int64_t each = tpi_dim_div(dims, x->shape[1], groups);
    const int64_t rest = tpi_sizes_product(dims, x->rank - 2, x->shape + 2);
    const bool apart = tpi_dim_mul(dims, each, groups) == x->shape[1] &&
                       (x->shape[x->rank - 1] != 1 || rest == 1);
    const int64_t grouped[4] = {x->shape[0], groups, apart ? each : -1, rest};
    static const int64_t inner[2] = {2, 3};
    tp_tensor *y = tp_reshape(x, 3 + apart, grouped);
    y = tpi_standardise(at, y, 1 + apart, inner, eps).y;
    if (!apart)
        return scaled_channels(at, x, tp_reshape(y, x->rank, x->shape), scale, shift);
    y = scaled(at, y, per_group(at, x, scale, grouped), per_group(at, x, shift, grouped));
    return tp_reshape(y, x->rank, x->shape);
}

TPI_FUSED(group_norm, SCALED, in[0], (int64_t)v[0], in[1], in[2], v[1])
TPI_COMPOSITE(tp_group_norm,
              (tp_tensor * x, int64_t groups, tp_tensor *scale, tp_tensor *shift, double eps),
              x, groups, scale, shift, eps)
{
    if (groups < 1 || groups > INT32_MAX) /* no such double may be an int64_t */
        return group_norm_of(at, x, groups, scale, shift, eps);
    return TPI_FUSE(group_norm, (x, scale, shift), (double)groups, eps);
}

static tp_tensor *instance_norm_of(tpi_at at, tp_tensor *x, tp_tensor *scale, tp_tensor *shift,
                                   double eps)
{
    const char *what = "instance_norm";
    tp_tensor *failed = refuse_channels(at, what, x, scale, shift, eps);
    if (failed)
        return failed;
    if (x->rank < 3)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "x is %s, without spatial axes",
                        SHAPE(x));
    static const int64_t spatial[] = {2, 3, 4, 5, 6, 7};
    tp_tensor *y = tpi_standardise(at, x, x->rank - 2, spatial, eps).y;
    return scaled_channels(at, x, y, scale, shift);
}

TPI_FUSED(instance_norm, SCALED, in[0], in[1], in[2], v[0])
TPI_COMPOSITE(tp_instance_norm, (tp_tensor * x, tp_tensor *scale, tp_tensor *shift, double eps),
              x, scale, shift, eps)
{
    return TPI_FUSE(instance_norm, (x, scale, shift), eps);
}

/* The squares of `size` neighbouring channels are added up as slices of one padded tensor. */
static tp_tensor *sum_of_neighbours(tpi_at at, tp_tensor *x, int64_t size)
{
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    lo[1] = (size - 1) / 2;
    hi[1] = size - 1 - lo[1];
    tp_tensor *square = tp_pad(tp_square(x), x->rank, lo, hi, 0), *sum = NULL;
    for (int64_t i = 0; i < size; i++) {
        tp_tensor *part = tpi_slice(at, square, 1, i, size - 1 - i, 1);
        sum = sum ? tp_add(sum, part) : part;
    }
    return sum;
}

TPI_COMPOSITE(tp_local_response_norm,
              (tp_tensor * x, int64_t size, double alpha, double beta, double bias), x, size,
              alpha, beta, bias)
{
    const char *what = "local_response_norm";
    tp_tensor *failed = refuse_channels(at, what, x, NULL, NULL, 0);
    if (failed || (failed = tpi_refuse_count(at, what, x, "size", size, 1)) ||
        (failed = tpi_refuse_number(at, what, x, "alpha", alpha, -DBL_MAX, DBL_MAX)) ||
        (failed = tpi_refuse_number(at, what, x, "beta", beta, -DBL_MAX, DBL_MAX)) ||
        (failed = tpi_refuse_number(at, what, x, "bias", bias, -DBL_MAX, DBL_MAX)))
        return failed;
    if (size > 1 << 16)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "size is %lld, not at most 65536",
                        (long long)size);
    tp_tensor *sum = sum_of_neighbours(at, x, size);
    tp_tensor *base = tp_mul(sum, tp_scalar_like(sum, alpha / (double)size));
    base = tp_add(base, tp_scalar_like(base, bias));
    return tp_div(x, tp_pow(base, tp_scalar_like(base, beta)));
}

/* ---- batch normalisation ------------------------------------------------------------------------ */

static tp_tensor *batch_norm_of(tpi_at at, tp_tensor *x, tp_tensor *scale, tp_tensor *shift,
                                tp_tensor *mean, tp_tensor *var, double eps)
{
    const char *what = "batch_norm";
    tp_tensor *failed = refuse_channels(at, what, x, scale, shift, eps);
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

TPI_FUSED(batch_norm, AXES, in[0], in[1], in[2], in[3], in[4], v[0])
TPI_COMPOSITE(tp_batch_norm,
              (tp_tensor * x, tp_tensor *scale, tp_tensor *shift, tp_tensor *mean,
               tp_tensor *var, double eps),
              x, scale, shift, mean, var, eps)
{
    return TPI_FUSE(batch_norm, (x, scale, shift, mean, var), eps);
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
    tp_tensor *failed = refuse_channels(at, what, x, scale, shift, eps);
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

/* ---- lines of norm 1 ------------------------------------------------------------------------------- */

/* (sum of |x|^p)^(1/p) along the axis, which is kept. Where that is 0 it is `none`, and has no gradient. */
static tp_tensor *norm_along(tpi_at at, tp_tensor *x, double p, int64_t axis, double none)
{
    tp_tensor *norm;
    if (p == INFINITY)
        norm = tp_reduce_max(tp_abs(x), 1, &axis, true);
    else if (p == 2)
        norm = tp_sum(tp_square(x), 1, &axis, true);
    else
        norm = tp_sum(p == 1 ? tp_abs(x) : tp_pow(tp_abs(x), tp_scalar_like(x, p)), 1, &axis,
                      true);
    tp_tensor *zero = tp_eq(norm, 0);
    norm = tp_where(zero, 1, norm);
    if (p == 2)
        norm = tp_sqrt(norm);
    else if (p != 1 && p != INFINITY)
        norm = tp_pow(norm, tp_scalar_like(norm, 1 / p));
    return tp_where(zero, tp_scalar_like(norm, none), norm);
}

tp_tensor *tpi_distance(tpi_at at, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *away = tp_sub(a, b);
    return tp_squeeze(norm_along(at, away, 2, away->rank - 1, 0), -1);
}

static tp_tensor *normalize_of(tpi_at at, tp_tensor *x, double p, int axis, double eps)
{
    const char *what = "normalize";
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(x));
    if (failed)
        return failed;
    const int along = tpi_own_axis(at, what, x, axis, &failed);
    if (failed || (failed = tpi_refuse_number(at, what, x, "p", p, DBL_MIN, INFINITY)) ||
        (failed = tpi_refuse_number(at, what, x, "eps", eps, 0, DBL_MAX)))
        return failed;
    tp_tensor *norm = norm_along(at, x, p, along, eps > 0 ? eps : 1);
    return tp_div(x, eps > 0 ? tp_max(norm, tp_scalar_like(norm, eps)) : norm);
}

TPI_FUSED(normalize, AXES, in[0], v[0], (int)v[1], v[2])
TPI_COMPOSITE(tp_normalize, (tp_tensor * x, double p, int axis, double eps), x, p, axis, eps)
{
    return TPI_FUSE(normalize, (x), p, axis, eps);
}
