/* Operators with indices: gather, scatter, one-hot. */
#include "onnx/import/import.h"

#include <string.h>

tp_tensor *tpi_onnx_import_gather(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_gather(x, o->x[1], o->axis);
}

tp_tensor *tpi_onnx_import_gather_elements(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *index = o->x[1];
    for (int i = 0; i < tp_rank(x) && tp_rank(index) == x->rank && !tp_failed(index); i++) {
        const int64_t many = index->shape[i];
        const bool numbers = !tpi_dim_is_symbolic(many) && !tpi_dim_is_symbolic(x->shape[i]);
        if (i != o->axis && many != x->shape[i] &&
            !numbers) /* as many as are read; a run sees it */
            x = tp_slice(tp_graph_read(o->g, x), i, 0, many, 1);
    }
    return tp_take_along(x, index, o->axis);
}

/* Places counted from the end are counted from the start, and those out of range refused when it runs:
 * in one number with others they would be other places. */
static tp_tensor *positive(tpi_onnx_op *o, tp_tensor *index, int64_t size)
{
    return tp_gather(tpi_onnx_iota(o, size, TP_I64), index, 0);
}

/* 0, 1, ... below a size, along the first of so many axes. */
static tp_tensor *own_places(tpi_onnx_op *o, int64_t size, int rank)
{
    tp_tensor *at = tpi_onnx_iota(o, size, TP_I64);
    for (int k = 1; k < rank; k++)
        at = tp_unsqueeze(at, tp_rank(at));
    return at;
}

/* Places along one more axis, which is the fastest then; `flat` NULL: along the first one. */
static tp_tensor *next_places(tpi_onnx_op *o, tp_tensor *flat, int64_t size, tp_tensor *at)
{
    return flat ? tp_add(tp_mul(flat, tpi_onnx_size_of(o, size, TP_I64)), at) : at;
}

/* ---- places told by several coordinates ------------------------------------------------------------ */

typedef struct places {
    int k;           /* coordinates */
    int64_t n, rest; /* elements along the indexed axes, and of what lies at one place */
    int rank;        /* of the index without its last axis */
    int64_t shape[TP_MAX_RANK];
    tp_tensor *flat; /* the places in one number each */
} places;

/* The last axis of `index` holds coordinates of axes batch, batch + 1, ... of x; the leading axes
 * of both are `batch` equal ones. */
static bool flat_places(tpi_onnx_op *o, const tp_tensor *x, tp_tensor *index, int batch,
                        places *p)
{
    *p = (places){0};
    if (index->rank < 1 || index->rank - 1 < batch ||
        tpi_dim_is_symbolic(index->shape[index->rank - 1]))
        return tpi_onnx_refuse(o, "the indices %s do not fit %s", SHAPE(index), SHAPE(x));
    p->k = (int)(index->shape[index->rank - 1] < 100 ? index->shape[index->rank - 1] : 100);
    if (p->k < 1 || batch + p->k > x->rank)
        return tpi_onnx_refuse(o, "the indices %s do not fit %s", SHAPE(index), SHAPE(x));
    p->rank = index->rank - 1;
    memcpy(p->shape, index->shape, (size_t)p->rank * sizeof *p->shape);
    const int n = batch + p->k;
    p->n = tpi_onnx_dim_product(o, n, x->shape);
    p->rest = tpi_onnx_dim_product(o, x->rank - n, x->shape + n);
    for (int i = 0; i < n; i++) {
        tp_tensor *at = i < batch ? own_places(o, x->shape[i], p->rank - i)
                                  : positive(o, tp_select(index, -1, i - batch), x->shape[i]);
        p->flat = next_places(o, p->flat, x->shape[i], at);
    }
    return true;
}

static tp_tensor *for_sizes(tpi_onnx_op *o, tp_tensor *x, int n, const int64_t *sizes)
{
    bool symbolic = false;
    for (int i = 0; i < n; i++)
        symbolic |= tpi_dim_is_symbolic(sizes[i]);
    return symbolic ? tp_graph_read(o->g, x) : x;
}

tp_tensor *tpi_onnx_import_gather_nd(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *index = o->x[1];
    const int64_t batch = tpi_onnx_int(o, "batch_dims");
    places p;
    if (batch < 0 || batch > x->rank)
        return tpi_onnx_refuse(o, "batch_dims %lld", (long long)batch);
    for (int i = 0; i < batch && i < tp_rank(index) && !tp_failed(x); i++)
        tpi_onnx_agree_on(o, &x, i, &index, i);
    if (!tpi_onnx_good(o, x) || !tpi_onnx_good(o, index) ||
        !flat_places(o, x, index, (int)batch, &p))
        return NULL;
    int64_t shape[2 * TP_MAX_RANK];
    int rank = p.rank;
    memcpy(shape, p.shape, sizeof p.shape);
    for (int i = (int)batch + p.k; i < x->rank; i++)
        shape[rank++] = x->shape[i];
    if (rank > TP_MAX_RANK)
        return tpi_onnx_refuse(o, "the result has %d axes: at most %d are supported", rank,
                               TP_MAX_RANK);
    x = for_sizes(o, x, rank, shape);
    x = tp_gather(tp_reshape(x, TP_DIMS(p.n, p.rest)), p.flat, 0);
    return tp_reshape(x, rank, shape);
}

typedef enum reduction { NONE, ADD, MUL, MAX, MIN } reduction; /* as the table has them */

/* The greatest, least or product of x's row and all sources that go there: each row looks at every
 * source, so the work is a product of their numbers. x [n, rest], index [m], src [m, rest]. */
static tp_tensor *reduced(tpi_onnx_op *o, tp_tensor *x, tp_tensor *index, tp_tensor *src,
                          reduction how)
{
    tp_tensor *row = tpi_onnx_iota(o, x->shape[0], TP_I64);
    tp_tensor *here = tp_eq(tp_unsqueeze(row, 1), tp_unsqueeze(index, 0));
    tp_tensor *all = tp_unsqueeze(src, 0), *each = tp_unsqueeze(x, 1);
    for (int i = 1; i < x->rank; i++)
        here = tp_unsqueeze(here, 2);
    if (how == MUL) {
        tp_tensor *one = tp_scalar_like(src, 1);
        return tp_mul(x, tp_prod(tp_where(here, all, one), TP_DIMS(1), false));
    }
    all = tp_where(here, all, each); /* others count as the row itself */
    return how == MAX ? tp_max(x, tp_reduce_max(all, TP_DIMS(1), false))
                      : tp_min(x, tp_reduce_min(all, TP_DIMS(1), false));
}

/* Sources that meet x's elements. */
static tp_tensor *scattered(tpi_onnx_op *o, tp_tensor *x, tp_tensor *index, tp_tensor *src)
{
    const reduction how = (reduction)tpi_onnx_choice(o, "reduction");
    return how == NONE  ? tp_scatter(x, index, src, 0)
           : how == ADD ? tp_scatter_add(x, index, src, 0)
                        : reduced(o, x, index, src, how);
}

tp_tensor *tpi_onnx_import_scatter_nd(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *index = o->x[1], *src = o->x[2];
    places p;
    if (!flat_places(o, x, index, 0, &p))
        return NULL;
    for (int i = 0; i < tp_rank(src) && tp_rank(src) == p.rank + x->rank - p.k; i++)
        src = tpi_onnx_fitted(o, src, i, i < p.rank ? p.shape[i] : x->shape[p.k + i - p.rank]);
    const int64_t many = tpi_onnx_dim_product(o, p.rank, p.shape);
    const int64_t sizes[3] = {p.n, p.rest, many};
    tp_tensor *rows = tp_reshape(for_sizes(o, x, 3, sizes), TP_DIMS(p.n, p.rest));
    src = tp_reshape(for_sizes(o, src, 3, sizes), TP_DIMS(many, p.rest));
    tp_tensor *flat = tp_reshape(for_sizes(o, p.flat, 3, sizes), 1, &many);
    tp_tensor *y = scattered(o, rows, flat, src);
    return tp_reshape(y, x->rank, x->shape);
}

/* Every source has its own place in the row of all elements of x. */
tp_tensor *tpi_onnx_import_scatter_elements(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *index = o->x[1], *src = o->x[2];
    if (index->rank != x->rank || src->rank != x->rank)
        return tpi_onnx_refuse(o, "%s, indices %s and updates %s have different ranks",
                               SHAPE(x), SHAPE(index), SHAPE(src));
    tp_tensor *flat = NULL;
    for (int i = 0; i < x->rank && !tp_failed(index) && !tp_failed(src); i++)
        tpi_onnx_agree_on(o, &index, i, &src, i);
    if (!tpi_onnx_good(o, index) || !tpi_onnx_good(o, src))
        return NULL;
    for (int i = 0; i < x->rank; i++) {
        tp_tensor *at = i == o->axis ? positive(o, index, x->shape[i])
                                     : own_places(o, index->shape[i], x->rank - i);
        flat = next_places(o, flat, x->shape[i], at);
    }
    if (!flat)
        return tpi_onnx_refuse(o, "the input has no axis");
    const int64_t n = tpi_onnx_dim_product(o, x->rank, x->shape),
                  many = tpi_onnx_dim_product(o, x->rank, index->shape);
    const int64_t sizes[2] = {n, many};
    flat = tp_reshape(for_sizes(o, flat, 2, sizes), 1, &many);
    src = tp_reshape(for_sizes(o, src, 2, sizes), 1, &many);
    tp_tensor *y = scattered(o, tp_reshape(for_sizes(o, x, 2, sizes), 1, &n), flat, src);
    return tp_reshape(y, x->rank, x->shape);
}

/* ---- one-hot --------------------------------------------------------------------------------------- */

tp_tensor *tpi_onnx_import_one_hot(tpi_onnx_op *o, tp_tensor *index)
{
    tp_tensor *values = o->x[2];
    double depth;
    if (!tpi_onnx_number_of(o, 1, &depth))
        return NULL;
    if (!(depth >= 1 && depth < 1e15) || index->rank == TP_MAX_RANK)
        return tpi_onnx_refuse(o, "depth %g, indices %s", depth, SHAPE(index));
    const int rank = index->rank + 1;
    int axis;
    if (!tpi_onnx_axis(o, "axis", rank, &axis))
        return NULL;
    const int64_t n = (int64_t)depth;
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, index->shape, sizeof shape);
    shape[rank - 1] = n;
    index = tpi_onnx_for_shape(o, index, rank, shape);
    tp_tensor *hot = tp_one_hot(tp_cast(index, TP_I64), n, TP_BOOL);
    tp_tensor *off = tp_select(values, 0, 0), *on = tp_select(values, 0, 1);
    return tp_where(tpi_onnx_move_axis(o, hot, rank - 1, axis), on, off);
}
