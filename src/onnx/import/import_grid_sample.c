/* AffineGrid, GridSample: grids of places, and what lies at them. */
#include "onnx/import/import.h"

tp_tensor *tpi_onnx_import_affine_grid(tpi_onnx_op *o, tp_tensor *theta)
{
    tpi_onnx_ints size;
    const bool corners = tpi_onnx_int(o, "align_corners") != 0;
    if (!tpi_onnx_ints_of(o, 1, &size))
        return NULL;
    const int n = size.n - 2;
    if (n < 2 || n > 3)
        return tpi_onnx_refuse(o, "theta is %s for %d spatial axes", SHAPE(theta), n);
    for (int i = 0; i < size.n; i++)
        if (size.v[i] < 0)
            theta = tp_graph_read(o->g, theta);
    theta = tpi_onnx_fitted(o, theta, 0, size.v[0]);
    return tp_affine_grid(theta, n, size.v + 2, corners);
}

tp_tensor *tpi_onnx_import_grid_sample(tpi_onnx_op *o, tp_tensor *x)
{
    static const tp_interpolation modes[] = {
        TP_INTERPOLATE_LINEAR, TP_INTERPOLATE_NEAREST, TP_INTERPOLATE_CUBIC,
        TP_INTERPOLATE_LINEAR, TP_INTERPOLATE_CUBIC}; /* and what they were called */
    const tp_interpolation mode = modes[tpi_onnx_choice(o, "mode")];
    const tp_padding padding = (tp_padding)tpi_onnx_choice(o, "padding_mode");
    tp_tensor *grid = tpi_onnx_fitted(o, o->x[1], 0, x->shape[0]);
    return tp_grid_sample(x, grid, mode, padding, tpi_onnx_int(o, "align_corners") != 0);
}
