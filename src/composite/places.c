#include "composite/places.h"

#include "op/window.h"

tp_tensor *tpi_size_of(tpi_at at, tp_tensor *like, int64_t size, tp_dtype dtype)
{
    if (!tpi_dim_is_symbolic(size))
        return tp_cast(tp_tensor_new(like->ctx, TP_I64, 0, NULL, &size), dtype);
    tp_tensor *axis = tp_broadcast(tp_scalar_like(like, 0), 1, &size);
    return tp_extent(axis, TP_ALL, dtype);
}

tp_tensor *tpi_along(tpi_at at, tp_tensor *v, int rank, int axis)
{
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < rank; i++)
        shape[i] = i == axis ? -1 : 1;
    return tp_reshape(v, rank, shape);
}

tp_tensor *tpi_cubic(tpi_at at, tp_tensor *d, double a)
{
    tp_tensor *near = tp_add(tp_mul(d, a + 2), -(a + 3));
    near = tp_add(tp_mul(tp_mul(near, d), d), 1);
    tp_tensor *far = tp_add(tp_mul(d, a), -5 * a);
    far = tp_add(tp_mul(tp_add(tp_mul(far, d), 8 * a), d), -4 * a);
    return tp_where(tp_le(d, 1), near, far);
}

/* ---- gathers ------------------------------------------------------------------------------------ */

/* Along several axes at once there is a place for each combination: is that little beside x? */
static bool few_together(const tp_tensor *x, int from, int to, tp_tensor *const *places)
{
    enum { FEW = 1 << 16, MANY_LINES = 8 };
    int64_t together = 1, lines = 1;
    for (int i = 0; i < x->rank; i++)
        if ((i < from || i > to) && !tpi_dim_is_symbolic(x->shape[i]))
            lines *= x->shape[i];
    for (int i = from; i <= to; i++)
        together = tpi_dim_mul(tpi_dims_of(x), together, places[i - from]->shape[0]);
    if (together == TPI_NO_DIM || lines < MANY_LINES)
        return false;
    return tpi_dim_is_symbolic(together) || together <= FEW;
}

static tp_tensor *at_places_together(tpi_at at, tp_tensor *x, int from, int to,
                                     tp_tensor *const *places)
{
    int64_t flat[TP_MAX_RANK], shape[TP_MAX_RANK];
    tp_tensor *index = NULL;
    int rank = 0;
    for (int i = 0; i < x->rank; i++) {
        const bool joined = i > from && i <= to;
        shape[i] = i < from || i > to ? x->shape[i] : places[i - from]->shape[0];
        rank -= joined;
        flat[rank] =
            joined ? tpi_dim_mul(tpi_dims_of(x), flat[rank], x->shape[i]) : x->shape[i];
        rank++;
        if (i == from)
            index = places[0];
        if (!joined)
            continue;
        index = tp_mul(index, tpi_size_of(at, x, x->shape[i], TP_I64));
        index = tp_add(tp_unsqueeze(index, 1), places[i - from]);
        index = tp_flatten(index, 0);
    }
    return tp_reshape(tp_gather(tp_reshape(x, rank, flat), index, from), x->rank, shape);
}

/* Will no gradient go back through what is made of x now? Then none tells how it was read. */
static bool is_unrecorded(const tp_tensor *x)
{
    return !x->graph && tpi_is_unwatched(x->ctx) &&
           !(x->ctx->caller.recording && x->flags & TPI_REQUIRES);
}

tp_tensor *tpi_at_places(tpi_at at, tp_tensor *x, int n, const int *axes,
                         tp_tensor *const *places, bool together)
{
    together |= is_unrecorded(x);
    for (int i = 0, end; i < n && x->status == TP_OK; i = end) {
        for (int k = i; k < n; k++)
            if (places[k]->status != TP_OK)
                return places[k];
        for (end = i + 1; together && end < n && axes[end] == axes[end - 1] + 1;)
            end++;
        if (end > i + 1 && few_together(x, axes[i], axes[end - 1], places + i)) {
            x = at_places_together(at, x, axes[i], axes[end - 1], places + i);
            continue;
        }
        for (int k = i; k < end && x->status == TP_OK; k++)
            x = tp_gather(x, places[k], axes[k]);
    }
    return x;
}

/* ---- what is refused ------------------------------------------------------------------------------ */

tp_tensor *tpi_refuse_sizes(tpi_at at, const char *what, const tp_tensor *x, int wanted, int n,
                            const int64_t *sizes)
{
    tpi_dims *dims = tpi_dims_of(x);
    if (n != wanted || !sizes)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "%d sizes for x %s, which takes %d", n,
                        SHAPE(x), wanted);
    for (int i = 0; i < n; i++) {
        if (tpi_is_spoilt_size(sizes[i]))
            return tpi_fail_spoilt(x->ctx, at, what, TP_E_SHAPE, sizes[i]);
        if (!tpi_dim_is_size(dims, sizes[i]) || sizes[i] == 0)
            return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "%s are no sizes for x %s",
                            SIZES(x->ctx, dims, n, sizes), SHAPE(x));
    }
    return NULL;
}

tp_tensor *tpi_refuse_image(tpi_at at, const char *what, int n, tp_tensor *const *in)
{
    tp_tensor *failed = tpi_refuse_float(at, what, n, in);
    if (failed || tpi_spatial(in[0]))
        return failed;
    return tpi_fail(in[0]->ctx, at, what, TP_E_SHAPE,
                    "x is %s, not [n, c, ...] with 1 to %d spatial axes", SHAPE(in[0]),
                    TPI_MAX_SPATIAL);
}
