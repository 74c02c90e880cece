/* What several families of operators share. */
#ifndef TAPIR_ONNX_IMPORT_COMMON_H
#define TAPIR_ONNX_IMPORT_COMMON_H

#include "core/dim.h"
#include "onnx/import/import.h"

/* `value` in every element; sizes may be symbolic. */
tp_tensor *tpi_onnx_full(tpi_onnx_op *o, tp_dtype dtype, int rank, const int64_t *shape,
                         double value);
/* p [c] as [c, 1, ...], which broadcasts along axis 1 of something of the given rank. */
tp_tensor *tpi_onnx_per_channel(tpi_onnx_op *o, tp_tensor *p, int rank);
/* v [n] as something of the given rank, along one of its axes. */
tp_tensor *tpi_onnx_along(tpi_onnx_op *o, tp_tensor *v, int rank, int axis);
/* log(1 + exp(x)). */
tp_tensor *tpi_onnx_softplus(tpi_onnx_op *o, tp_tensor *x);
/* What a neighbour at the distance d, 0 to 2, weighs in a cubic interpolation. */
tp_tensor *tpi_onnx_cubic(tpi_onnx_op *o, tp_tensor *d, double a);
/* x with axis `from` put at `to`. */
tp_tensor *tpi_onnx_move_axis(tpi_onnx_op *o, tp_tensor *x, int from, int to);
/* The attribute's numbers as f64, at most `most`; n 0 when it is not there. False after an error. */
bool tpi_onnx_floats(tpi_onnx_op *o, const char *name, int most, int *n, double *v);
/* Numbers of operand i, known, as f64; as above. */
bool tpi_onnx_known_floats(tpi_onnx_op *o, int i, int most, int *n, double *v);

/* Makes the sizes of two factors of a matrix product go with each other. */
void tpi_onnx_agree_product(tpi_onnx_op *o, tp_tensor **in);
/* The convolution that o's attributes tell; NULL after an error. */
tp_tensor *tpi_onnx_conv(tpi_onnx_op *o, tp_tensor *x, tp_tensor *weights);

/* The axes from, ..., rank - 1. */
static inline int tpi_onnx_axes_from(int from, int rank, int64_t *axes)
{
    int n = 0;
    for (int i = from; i < rank; i++)
        axes[n++] = i;
    return n;
}

#endif
