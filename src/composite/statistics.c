/* Over axes: truths, variances, norms, the logarithm of a sum of exponentials. */
#include "composite/composite.h"

#include <math.h>

/* ---- any, all ---------------------------------------------------------------------------------- */

TPI_COMPOSITE(tp_any, (tp_tensor * x, int n_axes, const int64_t *axes, bool keep), x, n_axes,
              axes, keep)
{
    tpi_list over;
    tp_tensor *failed;
    if (!tpi_find_axes(at, "any", x, n_axes, axes, &over, &failed))
        return failed;
    return tp_reduce_max(tp_cast(x, TP_BOOL), (int)over.n, over.v, keep);
}

TPI_COMPOSITE(tp_all, (tp_tensor * x, int n_axes, const int64_t *axes, bool keep), x, n_axes,
              axes, keep)
{
    tpi_list over;
    tp_tensor *failed;
    if (!tpi_find_axes(at, "all", x, n_axes, axes, &over, &failed))
        return failed;
    return tp_reduce_min(tp_cast(x, TP_BOOL), (int)over.n, over.v, keep);
}

/* ---- var, std, norm ---------------------------------------------------------------------------- */

/* NULL, and the axes, or the failed tensor to return. */
static tp_tensor *refuse(tpi_at at, const char *what, tp_tensor *x, int n_axes,
                         const int64_t *axes, tpi_list *over)
{
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(x));
    if (!failed)
        tpi_find_axes(at, what, x, n_axes, axes, over, &failed);
    return failed;
}

/* x to the power of p > 0, x not below 0. At 0 it has the gradient 0, also where p < 1. */
static tp_tensor *power(tpi_at at, tp_tensor *x, double p)
{
    tp_tensor *zero = tp_scalar_like(x, 0), *is_zero = tp_eq(x, zero);
    tp_tensor *above = tp_where(is_zero, tp_scalar_like(x, 1), x);
    tp_tensor *y = p == 0.5 ? tp_sqrt(above) : tp_pow(above, tp_scalar_like(x, p));
    return tp_where(is_zero, zero, y);
}

static tp_tensor *variance(tpi_at at, const char *what, tp_tensor *x, int n_axes,
                           const int64_t *axes, int correction, bool keep)
{
    tpi_list over;
    tp_tensor *failed = refuse(at, what, x, n_axes, axes, &over);
    if (failed)
        return failed;
    if (correction < 0)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "correction is %d, not at least 0",
                        correction);
    const int n = (int)over.n;
    tp_tensor *squares = tp_square(tpi_centred(at, x, n, over.v, NULL));
    if (correction == 0)
        return tp_mean(squares, n, over.v, keep);
    tp_tensor *count = tp_extent(x, n, over.v, (tp_dtype)x->dtype);
    count = tp_sub(count, tp_scalar_like(x, correction));
    return tp_div(tp_sum(squares, n, over.v, keep), tp_max(count, tp_scalar_like(x, 0)));
}

TPI_COMPOSITE(tp_var,
              (tp_tensor * x, int n_axes, const int64_t *axes, int correction, bool keep), x,
              n_axes, axes, correction, keep)
{
    return variance(at, "var", x, n_axes, axes, correction, keep);
}

TPI_COMPOSITE(tp_std,
              (tp_tensor * x, int n_axes, const int64_t *axes, int correction, bool keep), x,
              n_axes, axes, correction, keep)
{
    tp_tensor *var = variance(at, "std", x, n_axes, axes, correction, keep);
    return var->status == TP_OK ? power(at, var, 0.5) : var;
}

TPI_COMPOSITE(tp_norm, (tp_tensor * x, double p, int n_axes, const int64_t *axes, bool keep), x,
              p, n_axes, axes, keep)
{
    tpi_list over;
    tp_tensor *failed = refuse(at, "norm", x, n_axes, axes, &over);
    if (failed)
        return failed;
    if (tpi_is_near_handle(x->ctx, p))
        return tpi_fail_near_handle(x->ctx, at, "norm", p);
    if (!(p > 0))
        return tpi_fail(x->ctx, at, "norm", TP_E_VALUE, "p is %g, not above 0", p);
    const int n = (int)over.n;
    if (p == 2)
        return power(at, tp_sum(tp_square(x), n, over.v, keep), 0.5);
    tp_tensor *size = tp_abs(x);
    if (p == 1)
        return tp_sum(size, n, over.v, keep);
    if (isinf(p)) /* of no elements 0 */
        return tp_max(tp_reduce_max(size, n, over.v, keep), tp_scalar_like(x, 0));
    return power(at, tp_sum(power(at, size, p), n, over.v, keep), 1 / p);
}

/* ---- logsumexp --------------------------------------------------------------------------------- */

/* The greatest is taken out of the exponents, unless it is infinite. */
TPI_COMPOSITE(tp_logsumexp, (tp_tensor * x, int n_axes, const int64_t *axes, bool keep), x,
              n_axes, axes, keep)
{
    tpi_list over;
    tp_tensor *failed = refuse(at, "logsumexp", x, n_axes, axes, &over);
    if (failed)
        return failed;
    const int n = (int)over.n;
    tp_tensor *top = tp_detach(tp_reduce_max(x, n, over.v, true));
    tp_tensor *zero = tp_sub(top, top); /* 0, or NaN of an infinity */
    top = tp_where(tp_eq(zero, zero), top, tp_scalar_like(top, 0));
    tp_tensor *logs = tp_log(tp_sum(tp_exp(tp_sub(x, top)), n, over.v, keep));
    return tp_add(logs, keep ? top : tp_reshape(top, tp_rank(logs), logs->shape));
}
