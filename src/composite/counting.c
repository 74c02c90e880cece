/* What is found by an order, and counts: searchsorted, isin, bincount, histogram. */
#include "composite/composite.h"

#include <string.h>

/* ---- by an order ------------------------------------------------------------------------------------ */

/* Along the last axis of a [..., n] and v [..., m]: how many of a come before each of v in the order of all; of
 * equal ones those of a come first, or last. */
static tp_tensor *before_each(tpi_at at, tp_tensor *a, tp_tensor *v, bool first)
{
    const int last = a->rank - 1;
    const int64_t n = a->shape[last];
    tp_tensor *all = first ? tp_concat(TPI_IN(a, v), last) : tp_concat(TPI_IN(v, a), last);
    tp_tensor *order = tp_argsort(all, last, false);
    tp_tensor *size = tp_extent(first ? a : v, 1, (int64_t[]){last}, TP_I64);
    tp_tensor *is_a = first ? tp_lt(order, size) : tp_ge(order, size);
    tp_tensor *so_far = tp_cumsum(tp_cast(is_a, TP_I64), last, false, false);
    tp_tensor *of_all = last == 0 ? tp_scatter(so_far, order, so_far, 0)
                                  : tp_put_along(so_far, order, so_far, last);
    return first ? tpi_slice(at, of_all, last, n, 0, 1) : tpi_slice(at, of_all, last, 0, n, 1);
}

/* The operands of searchsorted, seen together, v with as many axes as `sorted`. */
static tp_tensor *refuse_search(tpi_at at, const char *what, tp_tensor **sorted, tp_tensor **v)
{
    tp_tensor *a = *sorted, *b = *v, *failed = tpi_refuse_operands(at, what, TPI_IN(a, b));
    if (failed)
        return failed;
    bool fits = a->rank == 1 || (a->rank > 1 && a->rank == b->rank);
    for (int i = 0; i + 1 < a->rank && fits; i++)
        fits = a->shape[i] == b->shape[i];
    if (!fits)
        return tpi_fail(a->ctx, at, what, TP_E_SHAPE,
                        "in %s along its last axis places of %s have no meaning", SHAPE(a),
                        SHAPE(b));
    *sorted = tpi_beside(at, b, a);
    *v = tpi_beside(at, a, b);
    *v = a->rank == 1 ? tp_flatten(*v, 0) : *v;
    return tp_failed(*v) ? *v : NULL;
}

TPI_COMPOSITE(tp_searchsorted, (tp_tensor * sorted, tp_tensor *v, bool right), sorted, v, right)
{
    tp_tensor *like = v, *failed = refuse_search(at, "searchsorted", &sorted, &v);
    if (failed)
        return failed;
    return tp_reshape(before_each(at, sorted, v, right), like->rank, like->shape);
}

TPI_COMPOSITE(tp_isin, (tp_tensor * x, tp_tensor *set), x, set)
{
    tp_tensor *failed = tpi_refuse_operands(at, "isin", TPI_IN(x, set));
    if (failed)
        return failed;
    tp_tensor *of_x = tpi_beside(at, set, x);
    set = tp_flatten(tpi_beside(at, x, set), 0);
    tp_tensor *y = tp_flatten(of_x, 0);
    if (tp_failed(set) || tp_failed(y))
        return tp_failed(set) ? set : y;
    tp_tensor *is = tp_ne(before_each(at, set, y, false), before_each(at, set, y, true));
    return tp_and(tp_reshape(is, x->rank, x->shape), tp_eq(of_x, of_x));
}

/* ---- counts -------------------------------------------------------------------------------------------- */

static tp_tensor *refuse_count(tpi_at at, const char *what, const tp_tensor *x, int64_t n)
{
    if (tpi_is_spoilt_size(n))
        return tpi_fail_spoilt(x->ctx, at, what, TP_E_SHAPE, n);
    if (!tpi_dim_is_size(tpi_dims_of(x), n))
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "%s is no size",
                        SIZE(x->ctx, tpi_dims_of(x), n));
    return NULL;
}

TPI_COMPOSITE(tp_bincount, (tp_tensor * x, tp_tensor *weights, int64_t n), x, weights, n)
{
    const char *what = "bincount";
    tp_tensor *failed =
        tpi_refuse_operands(at, what, weights ? 2 : 1, (tp_tensor *[]){x, weights});
    if (failed)
        return failed;
    if (x->dtype == TP_BOOL || x->dtype >= TP_F32)
        return tpi_fail(x->ctx, at, what, TP_E_DTYPE, "x is %s, not of an integer type",
                        tp_dtype_name((tp_dtype)x->dtype));
    if (weights && !tpi_same_shape(x, weights))
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "x is %s, and the weights %s", SHAPE(x),
                        SHAPE(weights));
    tp_tensor *of_x = weights ? tpi_beside(at, weights, x) : x;
    if ((failed = refuse_count(at, what, of_x, n)))
        return failed;
    tp_tensor *w = weights ? tpi_beside(at, x, weights)
                           : tp_broadcast(tpi_whole(at, of_x, 1), x->rank, x->shape);
    tp_tensor *zeros = tpi_zeros(at, w, 1, &n), *i = tpi_as_index(at, of_x);
    tp_tensor *end = tp_extent(zeros, 1, (int64_t[]){0}, TP_I64);
    return tp_scatter_add(zeros, tp_where(tp_lt(i, tpi_whole(at, i, 0)), end, i), w, 0);
}

static tp_tensor *refuse_bounds(tpi_at at, const char *what, const tp_tensor *x, double lo,
                                double hi)
{
    if (tpi_is_near_handle(x->ctx, lo) || tpi_is_near_handle(x->ctx, hi))
        return tpi_fail_near_handle(x->ctx, at, what, tpi_is_near_handle(x->ctx, lo) ? lo : hi);
    if (lo < hi && hi - lo < 1e300)
        return NULL;
    return tpi_fail(x->ctx, at, what, TP_E_VALUE, "bins from %g to %g", lo, hi);
}

/* The bin of each element, and n, the one behind them, for those outside. */
static tp_tensor *bins(tpi_at at, tp_tensor *x, tp_tensor *n, double lo, double hi)
{
    tp_tensor *low = tp_scalar_like(x, lo), *high = tp_scalar_like(x, hi);
    tp_tensor *width = tp_sub(high, low), *away = tp_sub(x, low);
    tp_tensor *bin = tp_div(tp_mul(away, tp_cast(n, (tp_dtype)x->dtype)), width);
    bin = tp_min(tp_cast(bin, TP_I64), tp_sub(n, tpi_whole(at, x, 1)));
    return tp_where(tp_and(tp_ge(x, low), tp_le(x, high)), bin, n);
}

TPI_COMPOSITE(tp_histogram, (tp_tensor * x, int64_t n, double lo, double hi), x, n, lo, hi)
{
    const char *what = "histogram";
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(x));
    if (failed || (failed = refuse_bounds(at, what, x, lo, hi)) ||
        (failed = refuse_count(at, what, x, n)))
        return failed;
    if (n == 0)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "0 bins");
    const int64_t room = tpi_dim_add(tpi_dims_of(x), n, 1);
    tp_tensor *one = tpi_whole(at, x, 1), *zeros = tpi_zeros(at, one, 1, &room);
    tp_tensor *last = tp_sub(tp_extent(zeros, 1, (int64_t[]){0}, TP_I64), one);
    tp_tensor *ones = tp_broadcast(one, x->rank, x->shape);
    tp_tensor *all = tp_scatter_add(zeros, bins(at, x, last, lo, hi), ones, 0);
    return tpi_slice(at, all, 0, 0, 1, 1);
}
