#include "onnx/import/import.h"

tp_tensor *tpi_onnx_full(tpi_onnx_op *o, tp_dtype dtype, int rank, const int64_t *shape,
                         double value)
{
    tp_tensor *one = tp_scalar(o->ctx, dtype, value);
    return tp_broadcast(tpi_onnx_for_shape(o, one, rank, shape), rank, shape);
}

tp_tensor *tpi_onnx_per_channel(tpi_onnx_op *o, tp_tensor *p, int rank)
{
    const int64_t shape[TP_MAX_RANK] = {-1, 1, 1, 1, 1, 1, 1, 1};
    return rank <= 2 ? p : tp_reshape(p, rank - 1, shape);
}

tp_tensor *tpi_onnx_along(tpi_onnx_op *o, tp_tensor *v, int rank, int axis)
{
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < rank; i++)
        shape[i] = i == axis ? -1 : 1;
    return tp_reshape(v, rank, shape);
}

tp_tensor *tpi_onnx_move_axis(tpi_onnx_op *o, tp_tensor *x, int from, int to)
{
    int64_t perm[TP_MAX_RANK];
    const int rank = tp_rank(x);
    for (int i = 0, k = 0; i < rank; i++)
        perm[i] = i == to ? from : (k += k == from, k++);
    return from == to ? x : tp_transpose(x, rank, perm);
}

bool tpi_onnx_known_floats(tpi_onnx_op *o, int i, int most, int *n, double *v)
{
    tp_tensor *t = tpi_onnx_known(o, i);
    if (!t)
        return false;
    const int64_t count = tpi_count(t);
    if (t->rank > 1 || count > most)
        return tpi_onnx_refuse(o, "input %d is %s where at most %d numbers are needed", i,
                               SHAPE(t), most);
    for (int64_t k = 0; k < count; k++)
        v[k] = tpi_load_f64((tp_dtype)t->dtype, tpi_onnx_element(t, k));
    *n = (int)count;
    return true;
}
