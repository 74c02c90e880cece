/* Elements by their place in the order along an axis. NaN is above every number. */
#include "composite/composite.h"

/* The k-th of what is sorted, counted from 1: a number or a size. */
static tp_tensor *row(tpi_at at, tp_tensor *sorted, int axis, int64_t k, bool keep)
{
    tpi_dims *dims = tpi_dims_of(sorted);
    tp_tensor *y = tp_slice(sorted, axis, tpi_dim_sub(dims, k, 1), k, 1);
    return keep ? y : tp_squeeze(y, axis);
}

/* The k-th of x in order, k within its size: by it alone where both are numbers, else of all that is sorted. */
static tp_tensor *kth(tpi_at at, tp_tensor *x, int axis, int64_t k, bool keep)
{
    if (tpi_dim_is_symbolic(k) || tpi_dim_is_symbolic(x->shape[axis]))
        return row(at, tp_sort(x, axis, false), axis, k, keep);
    tp_tensor *y = tpi_sorted_part(at, x, axis, k - 1, k);
    return keep ? y : tp_squeeze(y, axis);
}

/* y, but NaN where the last of x in order is. */
static tp_tensor *or_nan(tpi_at at, tp_tensor *y, tp_tensor *x, int axis, bool keep)
{
    if (x->dtype < TP_F32)
        return y;
    tp_tensor *last = kth(at, x, axis, x->shape[axis], keep);
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
    return kth(at, x, own, k, keep);
}

TPI_COMPOSITE(tp_median, (tp_tensor * x, int axis, bool keep), x, axis, keep)
{
    tp_tensor *failed;
    const int own = full_axis(at, "median", x, axis, &failed);
    if (own < 0)
        return failed;
    tpi_dims *dims = tpi_dims_of(x);
    const int64_t middle = tpi_dim_div(dims, tpi_dim_add(dims, x->shape[own], 1), 2);
    return or_nan(at, kth(at, x, own, middle, keep), x, own, keep);
}

/* The rows of what is sorted at a place, f64 of rank 0. */
static tp_tensor *row_at(tpi_at at, tp_tensor *sorted, tp_tensor *place, int axis, bool keep)
{
    tp_tensor *y = tp_gather(sorted, tp_cast(place, TP_I64), axis);
    return keep ? tp_unsqueeze(y, axis) : y;
}

/* The two between which a part of x lies, and how far behind the first, of x's type. */
typedef struct between {
    tp_tensor *lo, *hi, *part;
} between;

static between find_by_number(tpi_at at, tp_tensor *x, double q, int axis, bool keep)
{
    const double place = (double)(x->shape[axis] - 1) * q;
    const int64_t first = (int64_t)place, n = (double)first < place ? 2 : 1;
    tp_tensor *two = tpi_sorted_part(at, x, axis, first, first + n);
    return (between){row(at, two, axis, 1, keep), row(at, two, axis, n, keep),
                     tp_scalar_like(x, place - (double)first)};
}

static between find_by_size(tpi_at at, tp_tensor *x, double q, int axis, bool keep)
{
    tp_tensor *sorted = tp_sort(x, axis, false);
    tp_tensor *last = tp_extent(x, 1, &(int64_t){axis}, TP_F64);
    last = tp_sub(last, tp_scalar_like(last, 1));
    tp_tensor *place = tp_mul(last, tp_scalar_like(last, q)), *below = tp_floor(place);
    return (between){row_at(at, sorted, below, axis, keep),
                     row_at(at, sorted, tp_ceil(place), axis, keep),
                     tp_cast(tp_sub(place, below), (tp_dtype)x->dtype)};
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
    const between b = (tpi_dim_is_symbolic(x->shape[own]) ? find_by_size : find_by_number)(
        at, x, q, own, keep);
    tp_tensor *y = tp_add(b.lo, tp_mul(tp_sub(b.hi, b.lo), b.part));
    /* An infinite row that is met exactly is not subtracted from itself. */
    y = tp_where(tp_eq(b.part, tp_scalar_like(b.part, 0)), b.lo, y);
    return or_nan(at, y, x, own, keep);
}
