/* What is made of a shape alone: random numbers and windows of signals. Random numbers are drawn anew at each run,
 * from the context's generator, from the stream that is current when the model is loaded. A seed in the model is not
 * heeded: other numbers come from it anyway. */
#include "onnx/import/import.h"

/* Draws of like's shape and type. */
static tp_tensor *draw(tpi_onnx_op *o, tp_tensor *like)
{
    const bool normal =
        o->row == TPI_OPERATOR_RandomNormal || o->row == TPI_OPERATOR_RandomNormalLike;
    return normal ? tp_normal_like(like, tpi_onnx_float(o, "mean"), tpi_onnx_float(o, "scale"))
                  : tp_uniform_like(like, tpi_onnx_float(o, "low"), tpi_onnx_float(o, "high"));
}

tp_tensor *tpi_onnx_import_random(tpi_onnx_op *o)
{
    tpi_onnx_ints shape;
    const tp_dtype dtype = tpi_onnx_type_or(o, "dtype", TP_F32);
    if (!tpi_onnx_read_list(o, "shape", &shape))
        return NULL;
    tp_tensor *one = tp_graph_read(o->g, tp_scalar(o->ctx, dtype, 0));
    return draw(o, tp_broadcast(one, shape.n, shape.v));
}

tp_tensor *tpi_onnx_import_random_like(tpi_onnx_op *o, tp_tensor *x)
{
    return draw(o,
                tp_cast(tp_graph_read(o->g, x), tpi_onnx_type_or(o, "dtype", tp_dtype_of(x))));
}

/* 1 with probability x. */
tp_tensor *tpi_onnx_import_bernoulli(tpi_onnx_op *o, tp_tensor *x)
{
    const tp_dtype dtype = tpi_onnx_type_or(o, "dtype", tp_dtype_of(x));
    x = tp_graph_read(o->g, x);
    return tp_cast(tp_bernoulli(x), dtype);
}

/* [batch, classes] logarithms of what is proportional to the classes' probabilities: [batch, samples] classes. */
tp_tensor *tpi_onnx_import_multinomial(tpi_onnx_op *o, tp_tensor *x)
{
    const tp_dtype dtype = tpi_onnx_type_or(o, "dtype", TP_I32);
    if (tp_rank(x) != 2)
        return tpi_onnx_misfit(o, "%d axes: they are batch and classes", tp_rank(x));
    if (dtype != TP_I32 && dtype != TP_I64)
        return tpi_onnx_refuse(o, "classes are int32 or int64, not %s", tp_dtype_name(dtype));
    x = tp_graph_read(o->g, x);
    return tp_cast(tp_categorical(x, tpi_onnx_int(o, "sample_size")), dtype);
}

/* ---- windows of signals --------------------------------------------------------------------------------- */

/* a - b cos(2 pi i / n) + c cos(4 pi i / n) */
tp_tensor *tpi_onnx_import_signal_window(tpi_onnx_op *o)
{
    int64_t size;
    const bool hamming = o->row == TPI_OPERATOR_HammingWindow;
    const bool blackman = o->row == TPI_OPERATOR_BlackmanWindow;
    const double a = hamming ? 25.0 / 46 : blackman ? 0.42 : 0.5;
    const double b = hamming ? 21.0 / 46 : 0.5, c = blackman ? 0.08 : 0;
    if (!tpi_onnx_int_of(o, 0, &size))
        return NULL;
    tp_tensor *n = tpi_onnx_size_of(o, size, TP_F64);
    n = tpi_onnx_int(o, "periodic") ? n : tpi_onnx_plus(o, n, -1);
    tp_tensor *turn = tpi_onnx_times(o, tp_cast(tpi_onnx_iota(o, size, TP_I64), TP_F64),
                                     6.283185307179586477);
    turn = tp_div(turn, n);
    tp_tensor *y = tpi_onnx_plus(o, tpi_onnx_times(o, tp_cos(turn), -b), a);
    y = tp_add(y, tpi_onnx_times(o, tp_cos(tpi_onnx_times(o, turn, 2)), c));
    return tp_cast(y, tpi_onnx_type_or(o, "output_datatype", TP_F32));
}
