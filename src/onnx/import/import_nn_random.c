/* Random numbers: drawn anew at each run, from the context's generator. A seed in the model is not
 * heeded: other numbers come from it anyway. */
#include "onnx/import/import_nn.h"

/* Draws of like's shape and type. */
static tp_tensor *draw(tpi_onnx_op *o, tp_tensor *like)
{
    const bool normal =
        o->row == TPI_OPERATOR_RandomNormal || o->row == TPI_OPERATOR_RandomNormalLike;
    return normal ? tp_normal_like(like, tpi_onnx_float(o, "mean", 0),
                                   tpi_onnx_float(o, "scale", 1))
                  : tp_uniform_like(like, tpi_onnx_float(o, "low", 0),
                                    tpi_onnx_float(o, "high", 1));
}

tp_tensor *tpi_onnx_import_random(tpi_onnx_op *o)
{
    tpi_onnx_ints shape;
    const tp_dtype dtype = tpi_onnx_elem_type(o, tpi_onnx_int(o, "dtype", TPI_PB_FLOAT));
    if (dtype == TP_N_DTYPES || !tpi_onnx_int_list(o, "shape", &shape))
        return NULL;
    tp_tensor *one = tp_graph_read(o->g, tp_scalar(o->ctx, dtype, 0));
    return draw(o, tp_broadcast(one, shape.n, shape.v));
}

/* The type that the node names, or x's; TP_N_DTYPES after an error. */
static tp_dtype dtype_or(tpi_onnx_op *o, tp_dtype own)
{
    return tpi_onnx_attr_of(o, "dtype") ? tpi_onnx_elem_type(o, tpi_onnx_int(o, "dtype", 0))
                                        : own;
}

tp_tensor *tpi_onnx_import_random_like(tpi_onnx_op *o, tp_tensor *x)
{
    const tp_dtype dtype = dtype_or(o, (tp_dtype)x->dtype);
    x = tp_graph_read(o->g, x);
    return dtype != TP_N_DTYPES ? draw(o, tp_cast(x, dtype)) : NULL;
}

/* 1 with probability x. */
tp_tensor *tpi_onnx_import_bernoulli(tpi_onnx_op *o, tp_tensor *x)
{
    const tp_dtype dtype = dtype_or(o, (tp_dtype)x->dtype);
    x = tp_graph_read(o->g, x);
    return dtype != TP_N_DTYPES ? tp_cast(tp_lt(tp_uniform_like(x, 0, 1), x), dtype) : NULL;
}
