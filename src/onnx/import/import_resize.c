/* Resize and Upsample: along one axis after the other, each result is a sum of a few weighted
 * neighbours (one, two, four; more when it makes smaller and smooths). Where they lie and what
 * they weigh is computed with ops too, in f64: for known sizes at once. */
#include "onnx/import/import.h"

#include <math.h>

/* As the table has them; linear has another name, too. */
typedef enum mode { NEAREST, LINEAR, CUBIC, BILINEAR } mode;
typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL } rounding;
typedef enum coordinate {
    HALF_PIXEL,
    ASYMMETRIC,
    PYTORCH_HALF_PIXEL,
    TF_HALF_PIXEL,
    ALIGN_CORNERS,
    SYMMETRIC,
    CROP
} coordinate;
enum { STRETCH, NOT_LARGER };

typedef struct resize {
    tpi_onnx_op *o;
    mode mode;
    bool smooth;  /* antialias */
    bool exclude; /* neighbours outside count nothing */
    coordinate where;
    rounding nearest;
    double a, outside;
} resize;

/* One axis: sizes may be symbolic. */
typedef struct line {
    int axis;
    int64_t in, out;
    double scale; /* 0: out / in */
    double start, end;
} line;

/* ---- numbers ------------------------------------------------------------------------------------ */

static tp_tensor *num(tpi_onnx_op *o, double v)
{
    return tp_scalar(o->ctx, TP_F64, v);
}

static tp_tensor *size_of(tpi_onnx_op *o, int64_t size)
{
    return tpi_onnx_size_of(o, size, TP_F64);
}

/* ---- where a result lies in the operand ------------------------------------------------------------ */

static tp_tensor *half_pixel(tpi_onnx_op *o, tp_tensor *i, tp_tensor *scale)
{
    return tpi_onnx_plus(o, tp_div(tpi_onnx_plus(o, i, 0.5), scale), -0.5);
}

static tp_tensor *coordinates(const resize *r, const line *l, tp_tensor *scale)
{
    tpi_onnx_op *o = r->o;
    tp_tensor *i = tp_cast(tpi_onnx_iota(o, l->out, TP_I64), TP_F64);
    tp_tensor *in = size_of(o, l->in), *out = size_of(o, l->out), *zero = num(o, 0);
    tp_tensor *gaps = tp_max(tpi_onnx_plus(o, out, -1), num(o, 1)),
              *last = tpi_onnx_plus(o, in, -1);
    tp_tensor *many = tp_gt(out, num(o, 1));
    tp_tensor *part;
    switch (r->where) {
    case HALF_PIXEL:
        return half_pixel(o, i, scale);
    case ASYMMETRIC:
        return tp_div(i, scale);
    case PYTORCH_HALF_PIXEL:
        return tp_where(many, half_pixel(o, i, scale), zero);
    case TF_HALF_PIXEL:
        return tp_div(tpi_onnx_plus(o, i, 0.5), scale);
    case ALIGN_CORNERS:
        if (l->scale > 0) /* of the size before it is rounded */
            gaps = tpi_onnx_plus(o, tp_mul(in, scale), -1);
        return tp_where(many, tp_div(tp_mul(i, last), gaps), zero);
    case SYMMETRIC:
        part = tp_div(out, tp_mul(in, scale));
        part = tp_mul(tpi_onnx_times(o, in, 0.5), tp_sub(num(o, 1), part));
        return tp_add(part, half_pixel(o, i, scale));
    default:
        part = tp_div(tpi_onnx_times(o, last, l->end - l->start), gaps);
        return tp_where(many, tp_add(tpi_onnx_times(o, last, l->start), tp_mul(i, part)),
                        tpi_onnx_times(o, last, 0.5 * (l->start + l->end)));
    }
}

/* ---- what neighbours weigh --------------------------------------------------------------------------- */

/* A piecewise polynomial in the distance d >= 0. */
static tp_tensor *weigh(const resize *r, tp_tensor *d)
{
    tpi_onnx_op *o = r->o;
    tp_tensor *zero = num(o, 0);
    if (r->mode == LINEAR)
        return tp_max(tp_sub(num(o, 1), d), zero);
    return tp_where(tp_lt(d, num(o, 2)), tpi_onnx_cubic(o, d, r->a), zero);
}

/* Is a place inside? */
static tp_tensor *inside(tpi_onnx_op *o, tp_tensor *at, int64_t size)
{
    tp_tensor *last = tpi_onnx_plus(o, size_of(o, size), -1);
    return tp_and(tp_ge(at, num(o, 0)), tp_le(at, last));
}

/* Places `at` along the axis as an index; of those outside the nearest inside. */
static tp_tensor *index_of(tpi_onnx_op *o, const line *l, tp_tensor *at)
{
    tp_tensor *last = tpi_onnx_plus(o, size_of(o, l->in), -1);
    return tp_cast(tp_max(tp_min(at, last), num(o, 0)), TP_I64);
}

/* v [out] along the axis of something of x's rank and type. */
static tp_tensor *along(tpi_onnx_op *o, tp_tensor *v, const tp_tensor *x, int axis)
{
    return tp_cast(tpi_onnx_along(o, v, x->rank, axis), (tp_dtype)x->dtype);
}

static tp_tensor *nearest(const resize *r, const line *l, tp_tensor *at)
{
    tpi_onnx_op *o = r->o;
    if (r->nearest == PREFER_CEIL)
        at = tpi_onnx_plus(o, at, 0.5);
    if (r->nearest == PREFER_FLOOR)
        at = tpi_onnx_plus(o, at, -0.5);
    const bool down = r->nearest == FLOOR || r->nearest == PREFER_CEIL;
    return index_of(o, l, down ? tp_floor(at) : tp_ceil(at));
}

static tp_tensor *weighted(const resize *r, tp_tensor *x, const line *l, tp_tensor *at,
                           double scale)
{
    tpi_onnx_op *o = r->o;
    const int reach = r->mode == CUBIC ? 2 : 1;
    const double narrow = r->smooth && scale < 1 ? scale : 1;
    const double wide = narrow < 1e-4 ? 0 : reach / narrow;
    const int64_t whole = (int64_t)wide, first = 1 - whole - ((double)whole < wide);
    const int64_t n = 2 - 2 * first;
    if (narrow < 1e-4 || !tpi_onnx_spend(o, 20 * n))
        return tpi_fail(o->ctx, o->at, o->name, TP_E_VALUE,
                        "a scale of %g has too many neighbours", scale);
    tp_tensor *base = tp_floor(at), *total = NULL, *y = NULL;
    for (int pass = 0; pass < 2; pass++) /* the sum of weights first */
        for (int64_t k = first; k < first + n; k++) {
            tp_tensor *p = tpi_onnx_plus(o, base, (double)k);
            tp_tensor *w = weigh(r, tpi_onnx_times(o, tp_abs(tp_sub(p, at)), narrow));
            if (r->exclude)
                w = tp_where(inside(o, p, l->in), w, num(o, 0));
            if (pass == 0) {
                total = total ? tp_add(total, w) : w;
                continue;
            }
            if (r->exclude || narrow < 1)
                w = tp_div(w, total);
            tp_tensor *part =
                tp_mul(tp_gather(x, index_of(o, l, p), l->axis), along(o, w, x, l->axis));
            y = y ? tp_add(y, part) : part;
        }
    return y;
}

/* 0: only a run knows it. */
static double known_scale(const line *l)
{
    const bool known = l->in > 0 && l->out >= 0;
    return l->scale != 0 ? l->scale : known ? (double)l->out / (double)l->in : 0;
}

/* Where the results along an axis lie in the operand; *scale is what it is, 0: not known. NULL: refused. */
static tp_tensor *find(const resize *r, const line *l, double *scale)
{
    tpi_onnx_op *o = r->o;
    *scale = known_scale(l);
    tp_tensor *by =
        *scale != 0 ? num(o, *scale) : tp_div(size_of(o, l->out), size_of(o, l->in));
    if (r->smooth && *scale == 0)
        return tpi_fail(o->ctx, o->at, o->name, TP_E_VALUE,
                        "antialias needs sizes that are known when the model is loaded");
    return coordinates(r, l, by);
}

static tp_tensor *resize_axis(const resize *r, tp_tensor *x, const line *l)
{
    tpi_onnx_op *o = r->o;
    double scale;
    tp_tensor *at = find(r, l, &scale);
    if (!at || at->status != TP_OK)
        return at;
    tp_tensor *y = r->mode == NEAREST ? tp_gather(x, nearest(r, l, at), l->axis)
                                      : weighted(r, x, l, at, scale);
    if (r->where != CROP || y->status != TP_OK)
        return y;
    tp_tensor *good =
        tp_cast(along(o, tp_cast(inside(o, at, l->in), TP_U8), x, l->axis), TP_BOOL);
    return tp_where(good, y, tp_scalar_like(y, r->outside));
}

/* Is there nothing to do along this axis? */
static bool stays(const resize *r, const line *l)
{
    const bool same = l->in == l->out && (l->scale == 0 || l->scale == 1);
    return same && !(r->where == CROP && (l->start != 0 || l->end != 1));
}

static tp_tensor *resize_axes(const resize *r, tp_tensor *x, int n, const line *lines)
{
    for (int i = 0; i < n && x && x->status == TP_OK; i++)
        if (!stays(r, &lines[i]))
            x = resize_axis(r, x, &lines[i]);
    return x;
}

/* Nothing is computed between the axes, so they may be read together. */
static tp_tensor *gather_nearest(const resize *r, tp_tensor *x, int n, const line *lines)
{
    tp_tensor *places[TP_MAX_RANK];
    int axes[TP_MAX_RANK], n_axes = 0;
    for (int axis = 0; axis < x->rank; axis++)
        for (int i = 0; i < n; i++) {
            double scale;
            if (lines[i].axis != axis || stays(r, &lines[i]))
                continue;
            tp_tensor *at = find(r, &lines[i], &scale);
            if (!at || at->status != TP_OK)
                return at;
            axes[n_axes] = axis;
            places[n_axes++] = nearest(r, &lines[i], at);
        }
    return tpi_onnx_at_places(r->o, x, n_axes, axes, places);
}

/* How often each element is repeated along the axis, where nearest neighbours are that; 0: they are not. With a
 * whole scale s, result q * s + r lies at q + r / s (asymmetric) or q + (r + 0.5) / s, of which the floor is q; at
 * q + (r + 0.5) / s - 0.5 (half_pixel) it is less than 0.5 from q, to which both ways of rounding then lead. */
static int64_t repeats(const resize *r, const line *l)
{
    enum { MOST = 1024 }; /* beyond it positions need not be exact */
    const double scale = known_scale(l);
    const bool floors = r->where == ASYMMETRIC || r->where == TF_HALF_PIXEL;
    const bool rounds = r->where == HALF_PIXEL || r->where == PYTORCH_HALF_PIXEL;
    if (!(scale >= 1 && scale <= (double)MOST) || scale != (double)(int64_t)scale)
        return 0;
    const int64_t times = (int64_t)scale;
    if (r->nearest == CEIL || (l->in > 0 && l->out >= 0 && l->out != l->in * times))
        return 0;
    return (r->nearest == FLOOR ? floors : rounds) ? times : 0;
}

/* Each element as often as `times` says along its axis; NULL: an axis more for each would be too many. */
static tp_tensor *repeat(tpi_onnx_op *o, tp_tensor *x, const int64_t *times)
{
    int64_t apart[2 * TP_MAX_RANK], many[2 * TP_MAX_RANK], shape[TP_MAX_RANK];
    int rank = 0;
    for (int axis = 0; axis < x->rank; axis++) {
        shape[axis] = tpi_onnx_dim_mul(o, x->shape[axis], times[axis]);
        apart[rank] = many[rank] = x->shape[axis];
        rank++;
        if (times[axis] == 1)
            continue;
        apart[rank] = 1;
        many[rank++] = times[axis];
    }
    if (rank > TP_MAX_RANK)
        return NULL;
    if (rank == x->rank)
        return x;
    return tp_reshape(tp_broadcast(tp_reshape(x, rank, apart), rank, many), x->rank, shape);
}

/* By whole numbers no places are read. NULL: others are among them. */
static tp_tensor *repeat_nearest(const resize *r, tp_tensor *x, int n, const line *lines)
{
    int64_t times[TP_MAX_RANK];
    for (int axis = 0; axis < x->rank; axis++)
        times[axis] = 1;
    for (int i = 0; i < n; i++)
        if (!stays(r, &lines[i]) && (times[lines[i].axis] = repeats(r, &lines[i])) == 0)
            return NULL;
    return repeat(r->o, x, times);
}

/* Of nearest neighbours nothing is computed, along no axis. */
static tp_tensor *resize_nearest(const resize *r, tp_tensor *x, int n, const line *lines)
{
    tp_tensor *repeated = repeat_nearest(r, x, n, lines);
    return repeated ? repeated : gather_nearest(r, x, n, lines);
}

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
static bool keep_aspect(tpi_onnx_op *o, bool larger, const tp_tensor *x, int n, line *lines)
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
static bool read_lines(tpi_onnx_op *o, const tp_tensor *x, int si, int *n, line *lines)
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

static tp_tensor *resized(resize *r, tp_tensor *x, int si)
{
    tpi_onnx_op *o = r->o;
    line lines[TP_MAX_RANK] = {0};
    double roi[2 * TP_MAX_RANK];
    int n, n_roi = 0;
    r->mode = (mode)tpi_onnx_choice(o, "mode");
    r->mode = r->mode == BILINEAR ? LINEAR : r->mode;
    if (!read_lines(o, x, si, &n, lines))
        return NULL;
    if (r->where == CROP &&
        (!tpi_onnx_known_floats(o, 1, 2 * TP_MAX_RANK, &n_roi, roi) || n_roi != 2 * n))
        return tpi_onnx_refuse(o, "roi has %d numbers for %d axes", n_roi, n);
    const tp_dtype dtype = (tp_dtype)x->dtype;
    if (dtype < TP_F32 && r->mode != NEAREST)
        x = tp_cast(x, TP_F32);
    for (int i = 0; i < n; i++) {
        line *l = &lines[i];
        l->start = n_roi ? roi[i] : 0;
        l->end = n_roi ? roi[n + i] : 1;
    }
    x = r->mode == NEAREST && r->where != CROP ? resize_nearest(r, x, n, lines)
                                               : resize_axes(r, x, n, lines);
    if (!x)
        return NULL;
    if (dtype < TP_F32 && r->mode != NEAREST)
        x = tp_round(x);
    return tp_cast(x, dtype);
}

tp_tensor *tpi_onnx_import_resize(tpi_onnx_op *o, tp_tensor *x)
{
    const bool old = o->opset < 11;
    resize r = {.o = o,
                .smooth = tpi_onnx_int(o, "antialias") != 0,
                .exclude = tpi_onnx_int(o, "exclude_outside") != 0,
                .where = old ? ASYMMETRIC
                             : (coordinate)tpi_onnx_choice(o, "coordinate_transformation_mode"),
                .nearest = old ? FLOOR : (rounding)tpi_onnx_choice(o, "nearest_mode"),
                .a = tpi_onnx_float(o, "cubic_coeff_a"),
                .outside = tpi_onnx_float(o, "extrapolation_value")};
    return resized(&r, x, old ? 1 : 2);
}

tp_tensor *tpi_onnx_import_upsample(tpi_onnx_op *o, tp_tensor *x)
{
    resize r = {.o = o, .where = ASYMMETRIC, .nearest = FLOOR};
    return resized(&r, x, 0);
}
