/* More of the same elements, and elements moved along an axis. */
#include "composite/composite.h"
#include "composite/places.h"

#include <string.h>

/* ---- tile, repeat_each ----------------------------------------------------------------------------- */

/* NULL when `times` is a number from 0, or a size of x's graph. */
static tp_tensor *refuse_times(tpi_at at, const char *what, const tp_tensor *x, int64_t times)
{
    tpi_dims *dims = tpi_dims_of(x);
    if (tpi_is_spoilt_size(times))
        return tpi_fail_spoilt(x->ctx, at, what, TP_E_VALUE, times);
    if (tpi_dim_is_size(dims, times))
        return NULL;
    return tpi_fail(x->ctx, at, what, TP_E_VALUE, "%s times: no number from 0, and no size",
                    SIZE(x->ctx, dims, times));
}

/* An axis becomes one more behind it (each) or before it, and both one axis again. */
static tp_tensor *repeated(tpi_at at, const char *what, tp_tensor *x, int axis, int64_t times,
                           bool each)
{
    tpi_dims *dims = tpi_dims_of(x);
    int64_t shape[TP_MAX_RANK];
    const int rank = x->rank, before = axis + each;
    if (times == 1)
        return x;
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = tpi_dim_mul(dims, shape[axis], times);
    if (shape[axis] == TPI_NO_DIM)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "axis %d of %s, %s times, is too large",
                        axis, SHAPE(x), SIZE(x->ctx, dims, times));
    int64_t apart[3] = {tpi_sizes_product(dims, before, x->shape), 1,
                        tpi_sizes_product(dims, rank - before, x->shape + before)};
    x = tp_reshape(x, 3, apart);
    apart[1] = times;
    return tp_reshape(tp_broadcast(x, 3, apart), rank, shape);
}

/* x with axes of size 1 in front, `rank` in all. */
static tp_tensor *with_rank(tpi_at at, tp_tensor *x, int rank)
{
    int64_t shape[TP_MAX_RANK];
    const int more = rank - x->rank;
    if (more <= 0)
        return x;
    for (int i = 0; i < rank; i++)
        shape[i] = i < more ? 1 : x->shape[i - more];
    return tp_reshape(x, rank, shape);
}

TPI_COMPOSITE(tp_tile, (tp_tensor * x, int n, const int64_t *times), x, n, times)
{
    const char *what = "tile";
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (failed)
        return failed;
    if (n < 0 || n > TP_MAX_RANK || (n > 0 && !times))
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "%d numbers in %s, of at most %d", n,
                        times ? "an array" : "no array", TP_MAX_RANK);
    for (int i = 0; i < n && !failed; i++)
        failed = refuse_times(at, what, x, times[i]);
    if (failed)
        return failed;
    x = with_rank(at, x, n);
    for (int i = 0; i < n && x->status == TP_OK; i++)
        x = repeated(at, what, x, x->rank - n + i, times[i], false);
    return x;
}

TPI_COMPOSITE(tp_repeat_each, (tp_tensor * x, int64_t times, int axis), x, times, axis)
{
    tp_tensor *failed;
    const int own = tpi_own_axis(at, "repeat_each", x, axis, &failed);
    if (own < 0 || (failed = refuse_times(at, "repeat_each", x, times)) != NULL)
        return failed;
    return repeated(at, "repeat_each", x, own, times, true);
}

/* ---- roll ------------------------------------------------------------------------------------------ */

/* The last `shift` before the others, 0 < shift < size. */
static tp_tensor *last_first(tpi_at at, tp_tensor *x, int axis, int64_t shift)
{
    const int64_t cut = x->shape[axis] - shift;
    tp_tensor *parts[2] = {tp_slice(x, axis, cut, TP_END, 1), tp_slice(x, axis, 0, cut, 1)};
    return tp_concat(2, parts, axis);
}

TPI_COMPOSITE(tp_roll, (tp_tensor * x, int64_t shift, int axis), x, shift, axis)
{
    tp_tensor *failed;
    const int own = tpi_own_axis(at, "roll", x, axis, &failed);
    if (own < 0 || (failed = tpi_refuse_size(at, "roll", "shift", x, shift)) != NULL)
        return failed;
    const int64_t size = x->shape[own];
    if (tpi_dim_is_symbolic(size) || tpi_dim_is_symbolic(shift)) { /* how far, a run knows */
        tp_tensor *from = tp_sub(tpi_iota(at, x, size), tpi_size_of(at, x, shift, TP_I64));
        return tp_gather(x, tp_mod(from, tpi_size_of(at, x, size, TP_I64)), own);
    }
    const int64_t on = size ? (shift % size + size) % size : 0;
    return on ? last_first(at, x, own, on) : x;
}
