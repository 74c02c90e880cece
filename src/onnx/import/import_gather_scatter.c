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
