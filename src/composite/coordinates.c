/* Places told by several coordinates: each is a number in row-major order of the axes that are told, which then
 * are one axis to gather from, or to scatter to. */
#include "composite/composite.h"
#include "ir/graph_def.h"

#include <string.h>

/* 0, 1, ... of i64 along the first of `rank` axes of which the others have size 1; symbolic when `like` is. */
static tp_tensor *along_first(tpi_at at, tp_tensor *like, int64_t size, int rank)
{
    tp_tensor *number = tpi_iota(at, tpi_whole(at, like, 1), size);
    const int64_t shape[TP_MAX_RANK] = {size, 1, 1, 1, 1, 1, 1, 1};
    return rank == 1 ? number : tp_reshape(number, rank, shape);
}

/* Places along some axes as one number, in which the last axis is the fastest. */
typedef struct joint {
    tp_tensor *number; /* NULL: of no axis yet */
    tp_tensor *out;    /* which are out of range; NULL: none, or they were refused */
} joint;

/* Places along an axis of x, counted from its start. Those out of range would be other places in one number with
 * others: what is here is refused here, in a graph they become a number that is out of range. */
static tp_tensor *counted(tpi_at at, tp_tensor *x, int axis, tp_tensor *index, joint *j)
{
    index = tpi_as_index(at, index);
    if (!index->graph)
        return tp_gather(along_first(at, x, x->shape[axis], 1), index, 0);
    tp_tensor *size = tp_extent(x, 1, (int64_t[]){axis}, TP_I64),
              *zero = tpi_whole(at, index, 0);
    tp_tensor *place = tp_where(tp_lt(index, zero), tp_add(index, size), index);
    tp_tensor *out = tp_or(tp_lt(place, zero), tp_ge(place, size));
    j->out = j->out ? tp_or(j->out, out) : out;
    return place;
}

/* Places along one more axis of x. */
static void join(tpi_at at, tp_tensor *x, int axis, tp_tensor *place, joint *j)
{
    tp_tensor *size = j->number ? tp_extent(x, 1, (int64_t[]){axis}, TP_I64) : NULL;
    j->number = size ? tp_add(tp_mul(j->number, size), place) : place;
}

/* Places along the first n axes of x. */
static tp_tensor *number_of(tpi_at at, tp_tensor *x, int n, const joint *j)
{
    int64_t axes[TP_MAX_RANK];
    for (int i = 0; i < n; i++)
        axes[i] = i;
    return j->out ? tp_where(j->out, tp_extent(x, n, axes, TP_I64), j->number) : j->number;
}

/* x with its first n axes as one. */
static tp_tensor *front_joined(tpi_at at, tp_tensor *x, int n)
{
    int64_t shape[TP_MAX_RANK];
    shape[0] = tpi_sizes_product(tpi_dims_of(x), n, x->shape);
    for (int i = n; i < x->rank; i++)
        shape[i - n + 1] = x->shape[i];
    return n == 1 ? x : tp_reshape(x, x->rank - n + 1, shape);
}

/* Each as the graph of the others sees it. */
static void see_together(tpi_at at, int n, tp_tensor **t)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            t[i] = tpi_beside(at, t[k], t[i]);
}

typedef enum way { SET, ADD, MUL, MAX, MIN } way;

static tp_tensor *scattered(tpi_at at, tp_tensor *x, tp_tensor *place, tp_tensor *src, way how)
{
    return how == SET   ? tp_scatter(x, place, src, 0)
           : how == ADD ? tp_scatter_add(x, place, src, 0)
           : how == MUL ? tp_scatter_mul(x, place, src, 0)
           : how == MAX ? tp_scatter_max(x, place, src, 0)
                        : tp_scatter_min(x, place, src, 0);
}

static tp_tensor *refuse_types(tpi_at at, const char *what, const tp_tensor *x,
                               const tp_tensor *index, const tp_tensor *src)
{
    if (index->dtype == TP_BOOL || index->dtype >= TP_F32)
        return tpi_fail(x->ctx, at, what, TP_E_DTYPE, "the index is %s, not of an integer type",
                        tp_dtype_name((tp_dtype)index->dtype));
    if (src && src->dtype != x->dtype)
        return tpi_fail(x->ctx, at, what, TP_E_DTYPE, "x is %s, src is %s",
                        tp_dtype_name((tp_dtype)x->dtype), tp_dtype_name((tp_dtype)src->dtype));
    return NULL;
}

/* ---- one element for each index ----------------------------------------------------------------- */

static bool both_numbers(const tp_tensor *x, const tp_tensor *index, int axis)
{
    return x->shape[axis] >= 0 && index->shape[axis] >= 0;
}

static tp_tensor *refuse_along(tpi_at at, const char *what, tp_tensor *x, tp_tensor *index,
                               tp_tensor *src, int axis)
{
    tp_tensor *failed = tpi_refuse_operands(at, what, TPI_IN(x, index, src));
    if (failed || (failed = refuse_types(at, what, x, index, src)))
        return failed;
    const int place = tpi_own_axis(at, what, x, axis, &failed);
    if (failed)
        return failed;
    bool fits = index->rank == x->rank;
    for (int i = 0; i < x->rank && fits; i++)
        fits = i == place || !both_numbers(x, index, i) || index->shape[i] <= x->shape[i];
    if (!fits)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                        "index %s is larger than x %s off axis %d", SHAPE(index), SHAPE(x),
                        place);
    if (!tpi_same_shape(src, index))
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "src is %s, and index %s", SHAPE(src),
                        SHAPE(index));
    return NULL;
}

/* Every source has its own place in the row of all elements of x. */
static tp_tensor *put_along(tpi_at at, const char *what, tp_tensor *x, tp_tensor *index,
                            tp_tensor *src, int axis, way how)
{
    tp_tensor *failed = refuse_along(at, what, x, index, src, axis), *t[] = {x, index, src};
    if (failed)
        return failed;
    see_together(at, 3, t);
    joint j = {NULL, NULL};
    for (int i = 0; i < x->rank; i++) {
        const bool is_axis = i == tpi_axis(axis, x->rank);
        tp_tensor *place = is_axis ? t[1] : along_first(at, t[1], index->shape[i], x->rank - i);
        if (is_axis || (x->shape[i] != index->shape[i] && !both_numbers(x, index, i)))
            place = counted(at, t[0], i, place,
                            &j); /* there are no more than in x, as a run sees */
        join(at, t[0], i, place, &j);
    }
    tp_tensor *y =
        scattered(at, tp_flatten(t[0], 0), number_of(at, t[0], x->rank, &j), t[2], how);
    return tp_reshape(y, x->rank, x->shape);
}

#define PUT_ALONG(name, how)                                                                   \
    TPI_COMPOSITE(tp_##name, (tp_tensor * x, tp_tensor * index, tp_tensor * src, int axis), x, \
                  index, src, axis)                                                            \
    {                                                                                          \
        return put_along(at, #name, x, index, src, axis, how);                                 \
    }
PUT_ALONG(put_along, SET)
PUT_ALONG(put_along_max, MAX)
PUT_ALONG(put_along_min, MIN)
PUT_ALONG(put_along_mul, MUL)

/* ---- an index for each axis ----------------------------------------------------------------------- */

/* x and the n indices, which were looked at, seen together. */
static tp_tensor *refuse_indices(tpi_at at, tp_tensor *x, int n, tp_tensor *const *index,
                                 tp_tensor **t)
{
    const char *what = "index_by";
    const int most = n < 0 || !index ? 0 : n < TP_MAX_RANK ? n : TP_MAX_RANK;
    t[0] = x;
    for (int i = 0; i < most; i++)
        t[i + 1] = index[i];
    tp_tensor *failed = tpi_refuse_operands(at, what, most + 1, t);
    if (failed)
        return failed;
    if (most < 1 || n > x->rank)
        return tpi_fail(x->ctx, at, what, TP_E_AXIS, "%d indices for x %s", n, SHAPE(x));
    for (int i = 0; i < n && !failed; i++)
        failed = refuse_types(at, what, x, t[i + 1], NULL);
    if (!failed)
        see_together(at, n + 1, t);
    return failed;
}

TPI_COMPOSITE(tp_index_by, (tp_tensor * x, int n, tp_tensor *const *index), x, n, index)
{
    joint j = {NULL, NULL};
    tp_tensor *t[TP_MAX_RANK + 1], *failed = refuse_indices(at, x, n, index, t);
    if (failed)
        return failed;
    if (n == 1)
        return tp_gather(x, index[0], 0);
    for (int i = 0; i < n; i++)
        join(at, t[0], i, counted(at, t[0], i, t[i + 1], &j), &j);
    return tp_gather(front_joined(at, t[0], n), number_of(at, t[0], n, &j), 0);
}

/* ---- coordinates along an axis of the index --------------------------------------------------------- */

/* How many axes of x are told, the first `batch` among them; 0: *failed says why. */
static int axes_told(tpi_at at, const char *what, const tp_tensor *x, const tp_tensor *index,
                     int batch, tp_tensor **failed)
{
    const int last = index->rank - 1;
    const int64_t k = last < 0 ? 0 : index->shape[last];
    bool fits = batch >= 0 && last >= batch && k >= 1 && k <= x->rank - batch;
    for (int i = 0; i < batch && fits; i++)
        fits = x->shape[i] == index->shape[i];
    if (fits)
        return batch + (int)k;
    *failed =
        tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                 "the index %s does not tell places of x %s behind %d axes that both have",
                 SHAPE(index), SHAPE(x), batch);
    return 0;
}

/* Places [b..., i...] of an index [b..., i..., k]. */
static tp_tensor *told(tpi_at at, tp_tensor *x, tp_tensor *index, int batch, int n)
{
    joint j = {NULL, NULL};
    for (int i = 0; i < n; i++) {
        tp_tensor *place = i < batch ? along_first(at, x, x->shape[i], index->rank - 1 - i)
                                     : counted(at, x, i, tp_select(index, -1, i - batch), &j);
        join(at, x, i, place, &j);
    }
    return number_of(at, x, n, &j);
}

TPI_COMPOSITE(tp_gather_nd, (tp_tensor * x, tp_tensor *index, int batch), x, index, batch)
{
    const char *what = "gather_nd";
    tp_tensor *failed = tpi_refuse_operands(at, what, TPI_IN(x, index)), *t[] = {x, index};
    if (failed || (failed = refuse_types(at, what, x, index, NULL)))
        return failed;
    const int n = axes_told(at, what, x, index, batch, &failed);
    if (!n)
        return failed;
    see_together(at, 2, t);
    if (n == 1)
        return tp_gather(t[0], tp_select(t[1], -1, 0), 0);
    return tp_gather(front_joined(at, t[0], n), told(at, t[0], t[1], batch, n), 0);
}

static tp_tensor *refuse_sources(tpi_at at, const char *what, const tp_tensor *x,
                                 const tp_tensor *index, const tp_tensor *src, int n)
{
    const int told = index->rank - 1;
    bool fits = src->rank == told + x->rank - n;
    for (int i = 0; i < src->rank && fits; i++)
        fits = src->shape[i] == (i < told ? index->shape[i] : x->shape[n + i - told]);
    if (fits)
        return NULL;
    return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                    "src is %s, which is not what index %s tells "
                    "of x %s",
                    SHAPE(src), SHAPE(index), SHAPE(x));
}

static tp_tensor *scatter_nd(tpi_at at, const char *what, tp_tensor *x, tp_tensor *index,
                             tp_tensor *src, way how)
{
    tp_tensor *failed = tpi_refuse_operands(at, what, TPI_IN(x, index, src));
    tp_tensor *t[] = {x, index, src};
    if (failed || (failed = refuse_types(at, what, x, index, src)))
        return failed;
    const int n = axes_told(at, what, x, index, 0, &failed);
    if (!n || (failed = refuse_sources(at, what, x, index, src, n)))
        return failed;
    see_together(at, 3, t);
    tp_tensor *place = n == 1 ? tp_select(t[1], -1, 0) : told(at, t[0], t[1], 0, n);
    return tp_reshape(scattered(at, front_joined(at, t[0], n), place, t[2], how), x->rank,
                      x->shape);
}

#define SCATTER_ND(name, how)                                                                  \
    TPI_COMPOSITE(tp_##name, (tp_tensor * x, tp_tensor * index, tp_tensor * src), x, index,    \
                  src)                                                                         \
    {                                                                                          \
        return scatter_nd(at, #name, x, index, src, how);                                      \
    }
SCATTER_ND(scatter_nd, SET)
SCATTER_ND(scatter_nd_add, ADD)
SCATTER_ND(scatter_nd_max, MAX)
SCATTER_ND(scatter_nd_min, MIN)
SCATTER_ND(scatter_nd_mul, MUL)
