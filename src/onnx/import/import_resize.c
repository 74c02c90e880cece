/* Resize and Upsample: which sizes an axis gets, and what composite/resize.c is asked for. */
#include "composite/resize.h"
#include "onnx/import/import.h"

#include <math.h>

#undef TP_PLACE
#define TP_PLACE o->at.file, o->at.line

/* As the table has them; linear has another name, too. */
enum { BILINEAR = TP_INTERPOLATE_CUBIC + 1 };
static const int coordinates[] = {TP_HALF_PIXEL,     TP_ASYMMETRIC,    TPI_ALIGNED_HALF_PIXEL,
                                  TPI_HALF_PIXEL_UP, TP_ALIGN_CORNERS, TPI_SYMMETRIC,
                                  TPI_CROP};
enum { STRETCH, NOT_LARGER };

/* ---- sizes ---------------------------------------------------------------------------------------------- */

/* floor(in * scale); a free size by a fraction of small numbers. */
static bool scaled_size(tpi_onnx_op *o, int64_t in, double scale, int64_t *out)
{
    if (!(scale > 0) || scale > 1e6)
        return tpi_onnx_refuse(o, "a scale of %g", scale);
    if (in >= 0) {
        const float size = (float)in * (float)scale;
        *out = size < (float)INT32_MAX ? (int64_t)size : INT32_MAX;
        return true;
    }
    for (int64_t q = 1; q <= 64; q++) {
        const int64_t p = (int64_t)(scale * (double)q + 0.5);
        const double off = scale * (double)q - (double)p;
        if (p > 0 && off < 1e-6 * (double)p && off > -1e-6 * (double)p) {
            *out = tpi_onnx_dim_div(o, tpi_onnx_dim_mul(o, in, p), q);
            return true;
        }
    }
    return tpi_onnx_refuse(
        o, "a scale of %g needs sizes that are known when the model is loaded", scale);
}

/* The factor that all axes are scaled by, so that none is larger (smaller) than asked for. */
static bool keep_aspect(tpi_onnx_op *o, bool larger, const tp_tensor *x, int n, tpi_line *lines)
{
    double scale = larger ? 0 : INFINITY;
    for (int i = 0; i < n; i++) {
        const double s = (double)lines[i].out / (double)lines[i].in;
        if (lines[i].in <= 0 || lines[i].out < 0)
            return tpi_onnx_refuse(o, "keep_aspect_ratio_policy needs known sizes: x is %s",
                                   SHAPE(x));
        scale = (larger ? s > scale : s < scale) ? s : scale;
    }
    for (int i = 0; i < n; i++) {
        if (scale * (double)lines[i].in > (double)INT32_MAX)
            return tpi_onnx_refuse(o, "a scale of %g for %s", scale, SHAPE(x));
        lines[i].scale = scale;
        lines[i].out = (int64_t)(scale * (double)lines[i].in + 0.5);
    }
    return true;
}

/* The axes that are resized, and to what: by scales, operand `si`, or sizes, the one after it; 0: by those of
 * Upsample. */
static bool read_lines(tpi_onnx_op *o, const tp_tensor *x, int si, int *n, tpi_line *lines)
{
    tpi_onnx_ints axes = {0}, sizes;
    double scales[TP_MAX_RANK];
    int n_scales = 0;
    if (si && !tpi_onnx_read_list(o, "axes", &axes))
        return false;
    *n = axes.n > 0 ? axes.n : x->rank;
    if (*n > x->rank)
        return tpi_onnx_refuse(o, "%d axes of %s", *n, SHAPE(x));
    for (int i = 0; i < *n; i++) {
        if (!tpi_onnx_positive(o, axes.n > 0 ? axes.v[i] : i, x->rank, &lines[i].axis))
            return false;
        lines[i].in = x->shape[lines[i].axis];
    }
    if (!si ? !tpi_onnx_floats(o, "scales", TP_MAX_RANK, &n_scales, scales)
            : tpi_onnx_has(o, si) &&
                  !tpi_onnx_known_floats(o, si, TP_MAX_RANK, &n_scales, scales))
        return false;
    if (n_scales == 0) { /* an empty list of scales stands for none */
        if (!si || !tpi_onnx_has(o, si + 1))
            return tpi_onnx_refuse(o, "neither scales nor sizes are given");
        if (!tpi_onnx_ints_of(o, si + 1, &sizes))
            return false;
    }
    if (n_scales ? n_scales != *n : sizes.n != *n)
        return tpi_onnx_refuse(o, "%d scales or sizes for %d axes",
                               n_scales ? n_scales : sizes.n, *n);
    for (int i = 0; i < *n; i++) {
        lines[i].scale = n_scales ? scales[i] : 0;
        if (!n_scales)
            lines[i].out = sizes.v[i];
        else if (!scaled_size(o, lines[i].in, scales[i], &lines[i].out))
            return false;
    }
    const int policy = n_scales ? STRETCH : tpi_onnx_choice(o, "keep_aspect_ratio_policy");
    return policy == STRETCH || keep_aspect(o, policy != NOT_LARGER, x, *n, lines);
}

/* ---- the operators ------------------------------------------------------------------------------------------ */

/* Neighbours are weighed by nodes; lines of sizes that a run knows are resized in the graph. */
static bool spend(tpi_onnx_op *o, const tpi_resizing *r, tp_tensor **x, int n,
                  const tpi_line *lines)
{
    double nodes = 0;
    for (int i = 0; i < n; i++) {
        const bool smaller = r->smooth && lines[i].in > 0 && lines[i].out > 0;
        nodes += smaller ? 40.0 * (double)lines[i].in / (double)lines[i].out : 0;
        if (lines[i].in < 0 || lines[i].out < 0)
            *x = tp_graph_read(o->g, *x);
    }
    return tpi_onnx_spend(o, nodes < 1e9 ? (int64_t)nodes : 1000000000);
}

static tp_tensor *resized(tpi_onnx_op *o, tpi_resizing *r, tp_tensor *x, int si)
{
    tpi_line lines[TP_MAX_RANK] = {0};
    double roi[2 * TP_MAX_RANK];
    int n, n_roi = 0;
    const int mode = tpi_onnx_choice(o, "mode");
    r->at = o->at;
    r->by_sizes = true;
    r->what = o->name;
    r->mode = mode == BILINEAR ? TP_INTERPOLATE_LINEAR : (tp_interpolation)mode;
    if (!read_lines(o, x, si, &n, lines))
        return NULL;
    if (r->where == TPI_CROP &&
        (!tpi_onnx_known_floats(o, 1, 2 * TP_MAX_RANK, &n_roi, roi) || n_roi != 2 * n))
        return tpi_onnx_refuse(o, "roi has %d numbers for %d axes", n_roi, n);
    const tp_dtype dtype = (tp_dtype)x->dtype;
    if (dtype < TP_F32 && r->mode != TP_INTERPOLATE_NEAREST)
        x = tp_cast(x, TP_F32);
    for (int i = 0; i < n; i++) {
        lines[i].start = n_roi ? roi[i] : 0;
        lines[i].end = n_roi ? roi[n + i] : 1;
    }
    if (!spend(o, r, &x, n, lines))
        return NULL;
    x = tpi_resized(r, x, n, lines);
    if (dtype < TP_F32 && r->mode != TP_INTERPOLATE_NEAREST)
        x = tp_round(x);
    return tp_cast(x, dtype);
}

tp_tensor *tpi_onnx_import_resize(tpi_onnx_op *o, tp_tensor *x)
{
    const bool old = o->opset < 11;
    tpi_resizing r = {
        .smooth = tpi_onnx_int(o, "antialias") != 0,
        .exclude = tpi_onnx_int(o, "exclude_outside") != 0,
        .where = old ? TP_ASYMMETRIC
                     : coordinates[tpi_onnx_choice(o, "coordinate_transformation_mode")],
        .rounding = old ? TP_ROUND_DOWN : (tp_rounding)tpi_onnx_choice(o, "nearest_mode"),
        .a = tpi_onnx_float(o, "cubic_coeff_a"),
        .outside = tpi_onnx_float(o, "extrapolation_value")};
    return resized(o, &r, x, old ? 1 : 2);
}

tp_tensor *tpi_onnx_import_upsample(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_resizing r = {.where = TP_ASYMMETRIC, .rounding = TP_ROUND_DOWN};
    return resized(o, &r, x, 0);
}
