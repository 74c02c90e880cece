/* Elements by their place in the order along an axis. NaN is above every number. */
#include "composite/composite.h"

/* The k-th of what is sorted, counted from 1: a number or a size. */
static tp_tensor *row(tpi_at at, tp_tensor *sorted, int axis, int64_t k, bool keep)
{
    tpi_dims *dims = tpi_dims_of(sorted);
    tp_tensor *y = tp_slice(sorted, axis, tpi_dim_sub(dims, k, 1), k, 1);
    return keep ? y : tp_squeeze(y, axis);
}

/* y, but NaN where the last of what is sorted is. */
static tp_tensor *or_nan(tpi_at at, tp_tensor *y, tp_tensor *sorted, int axis, bool keep)
{
    if (sorted->dtype < TP_F32)
        return y;
    tp_tensor *last = row(at, sorted, axis, sorted->shape[axis], keep);
    return tp_where(tp_eq(last, last), y, last);
}

/* The axis of x, which is not empty; below 0 and *failed. */
static int full_axis(tpi_at at, const char *what, const tp_tensor *x, int64_t axis,
                     tp_tensor **failed)
{
    const int own = tpi_own_axis(at, what, x, axis, failed);
    if (own < 0 || x->shape[own] != 0)
        return own;
    *failed =
        tpi_fail(x->ctx, at, what, TP_E_SHAPE, "axis %d of %s has no elements", own, SHAPE(x));
    return -1;
}

TPI_COMPOSITE(tp_kth, (tp_tensor * x, int64_t k, int axis, bool keep), x, k, axis, keep)
{
    tp_tensor *failed;
    const int own = tpi_own_axis(at, "kth", x, axis, &failed);
    if (own < 0)
        return failed;
    if (tpi_is_spoilt_size(k))
        return tpi_fail_spoilt(x->ctx, at, "kth", TP_E_VALUE, k);
    tpi_dims *dims = tpi_dims_of(x);
    const int64_t size = x->shape[own];
    const bool symbolic = tpi_dim_is_symbolic(k) || tpi_dim_is_symbolic(size);
    if (!tpi_dim_is_size(dims, k) || k == 0 || (!symbolic && k > size))
        return tpi_fail(x->ctx, at, "kth", TP_E_VALUE, "k is %s, and axis %d of %s has %s",
                        SIZE(x->ctx, dims, k), own, SHAPE(x), SIZE(x->ctx, dims, size));
    return row(at, tp_sort(x, own, false), own, k, keep);
}

TPI_COMPOSITE(tp_median, (tp_tensor * x, int axis, bool keep), x, axis, keep)
{
    tp_tensor *failed;
    const int own = full_axis(at, "median", x, axis, &failed);
    if (own < 0)
        return failed;
    tpi_dims *dims = tpi_dims_of(x);
    tp_tensor *sorted = tp_sort(x, own, false);
    if (sorted->status != TP_OK)
        return sorted;
    const int64_t middle = tpi_dim_div(dims, tpi_dim_add(dims, x->shape[own], 1), 2);
    return or_nan(at, row(at, sorted, own, middle, keep), sorted, own, keep);
}

/* The rows of what is sorted at a place, f64 of rank 0. */
static tp_tensor *row_at(tpi_at at, tp_tensor *sorted, tp_tensor *place, int axis, bool keep)
{
    tp_tensor *y = tp_gather(sorted, tp_cast(place, TP_I64), axis);
    return keep ? tp_unsqueeze(y, axis) : y;
}

TPI_COMPOSITE(tp_quantile, (tp_tensor * x, double q, int axis, bool keep), x, q, axis, keep)
{
    tp_tensor *failed = tpi_refuse_float(at, "quantile", TPI_IN(x));
    const int own = failed ? -1 : full_axis(at, "quantile", x, axis, &failed);
    if (own < 0)
        return failed;
    if (tpi_is_near_handle(x->ctx, q))
        return tpi_fail_near_handle(x->ctx, at, "quantile", q);
    if (!(q >= 0 && q <= 1))
        return tpi_fail(x->ctx, at, "quantile", TP_E_VALUE, "q is %g, not in [0, 1]", q);
    tp_tensor *sorted = tp_sort(x, own, false);
    if (sorted->status != TP_OK)
        return sorted;
    tp_tensor *last = tp_extent(x, 1, &(int64_t){own}, TP_F64);
    last = tp_sub(last, tp_scalar_like(last, 1));
    tp_tensor *place = tp_mul(last, tp_scalar_like(last, q)), *below = tp_floor(place);
    tp_tensor *part = tp_cast(tp_sub(place, below), (tp_dtype)x->dtype);
    tp_tensor *lo = row_at(at, sorted, below, own, keep);
    tp_tensor *hi = row_at(at, sorted, tp_ceil(place), own, keep);
    tp_tensor *between = tp_add(lo, tp_mul(tp_sub(hi, lo), part));
    /* An infinite row that is met exactly is not subtracted from itself. */
    tp_tensor *y = tp_where(tp_eq(part, tp_scalar_like(part, 0)), lo, between);
    return or_nan(at, y, sorted, own, keep);
}
