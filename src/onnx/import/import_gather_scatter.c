/* Operators with indices: gather, scatter, one-hot. */
#include "composite/places.h"
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

tp_tensor *tpi_onnx_import_gather_nd(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *index = o->x[1];
    const int64_t batch = tpi_onnx_int(o, "batch_dims");
    if (batch < 0 || batch > x->rank)
        return tpi_onnx_refuse(o, "batch_dims %lld", (long long)batch);
    for (int i = 0; i < batch && i < tp_rank(index) && !tp_failed(x); i++)
        tpi_onnx_agree_on(o, &x, i, &index, i);
    return tp_gather_nd(x, index, (int)batch);
}

typedef enum reduction { NONE, ADD, MUL, MAX, MIN } reduction; /* as the table has them */

tp_tensor *tpi_onnx_import_scatter_nd(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *index = o->x[1], *src = o->x[2];
    const int last = tp_rank(index) - 1;
    const int64_t k = last < 0 ? -1 : index->shape[last];
    for (int i = 0;
         k > 0 && k <= x->rank && i < tp_rank(src) && src->rank == last + x->rank - (int)k; i++)
        src = tpi_onnx_fitted(o, src, i, i < last ? index->shape[i] : x->shape[k + i - last]);
    switch ((reduction)tpi_onnx_choice(o, "reduction")) {
    case ADD:
        return tp_scatter_nd_add(x, index, src);
    case MUL:
        return tp_scatter_nd_mul(x, index, src);
    case MAX:
        return tp_scatter_nd_max(x, index, src);
    case MIN:
        return tp_scatter_nd_min(x, index, src);
    default:
        return tp_scatter_nd(x, index, src);
    }
}

tp_tensor *tpi_onnx_import_scatter_elements(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *index = o->x[1], *src = o->x[2];
    for (int i = 0; i < x->rank && tp_rank(index) == x->rank && tp_rank(src) == x->rank; i++)
        tpi_onnx_agree_on(o, &index, i, &src, i);
    switch ((reduction)tpi_onnx_choice(o, "reduction")) {
    case ADD:
        return tp_put_along_add(x, index, src, o->axis);
    case MUL:
        return tp_put_along_mul(x, index, src, o->axis);
    case MAX:
        return tp_put_along_max(x, index, src, o->axis);
    case MIN:
        return tp_put_along_min(x, index, src, o->axis);
    default:
        return tp_put_along(x, index, src, o->axis);
    }
}

/* ---- one-hot --------------------------------------------------------------------------------------- */

/* Of n classes, as tp_one_hot; n is a size. */
static tp_tensor *marks(tpi_onnx_op *o, tp_tensor *index, int64_t n)
{
    index = tp_cast(index, TP_I64);
    if (!tpi_dim_is_symbolic(n))
        return tp_one_hot(index, n, TP_BOOL);
    tp_tensor *size = tpi_size_of(o->at, index, n, TP_I64);
    tp_tensor *counted = tp_where(tp_lt(index, 0), tp_add(index, size), index);
    return tp_eq(tp_unsqueeze(counted, -1), tpi_iota(o->at, index, n));
}

/* The number of classes: a number, or a size. */
static bool depth_of(tpi_onnx_op *o, int64_t *n)
{
    tpi_onnx_ints k;
    if (tpi_onnx_try_ints(o, 1, &k) && k.n == 1 && tpi_dim_is_symbolic(k.v[0])) {
        *n = k.v[0];
        return true;
    }
    double depth;
    if (!tpi_onnx_number_of(o, 1, &depth))
        return false;
    *n = depth >= 1 && depth < 1e15 ? (int64_t)depth : 0;
    if (*n == 0)
        tpi_onnx_refuse(o, "depth is %g", depth);
    return *n != 0;
}

tp_tensor *tpi_onnx_import_one_hot(tpi_onnx_op *o, tp_tensor *index)
{
    tp_tensor *values = o->x[2];
    int64_t n;
    if (!depth_of(o, &n))
        return NULL;
    if (index->rank == TP_MAX_RANK)
        return tpi_onnx_refuse(o, "indices are %s", SHAPE(index));
    const int rank = index->rank + 1;
    int axis;
    if (!tpi_onnx_axis(o, "axis", rank, &axis))
        return NULL;
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, index->shape, sizeof shape);
    shape[rank - 1] = n;
    index = tpi_onnx_for_shape(o, index, rank, shape);
    tp_tensor *hot = marks(o, index, n);
    tp_tensor *off = tp_select(values, 0, 0), *on = tp_select(values, 0, 1);
    return tp_where(tpi_onnx_move_axis(o, hot, rank - 1, axis), on, off);
}
