/* Where neighbours lie and what they weigh is computed with ops too, in f64: for known sizes at once. */
#include "composite/resize.h"

/* ---- where a result lies in the operand ------------------------------------------------------------ */

static tp_tensor *half_pixel(tpi_at at, tp_tensor *i, tp_tensor *scale)
{
    return tp_add(tp_div(tp_add(i, 0.5), scale), -0.5);
}

/* The corners of both lie at each other. */
static tp_tensor *aligned(const tpi_line *l, tpi_at at, tp_tensor *i, tp_tensor *in,
                          tp_tensor *out, tp_tensor *scale)
{
    tp_tensor *last = tp_add(in, -1);
    tp_tensor *gaps = tp_max(tp_add(out, -1), 1);
    if (l->scale > 0) /* of the size before it is rounded */
        gaps = tp_add(tp_mul(in, scale), -1);
    return tp_where(tp_gt(out, 1), tp_div(tp_mul(i, last), gaps), 0);
}

/* Half pixels, of which the middles lie at each other although the size was rounded. */
static tp_tensor *symmetric(tpi_at at, tp_tensor *i, tp_tensor *in, tp_tensor *out,
                            tp_tensor *scale)
{
    tp_tensor *part = tp_div(out, tp_mul(in, scale));
    part = tp_mul(tp_mul(in, 0.5), tp_sub(1, part));
    return tp_add(part, half_pixel(at, i, scale));
}

/* From l->start to l->end. */
static tp_tensor *cropped(const tpi_line *l, tpi_at at, tp_tensor *i, tp_tensor *in,
                          tp_tensor *out)
{
    tp_tensor *last = tp_add(in, -1);
    tp_tensor *gaps = tp_max(tp_add(out, -1), 1);
    tp_tensor *part = tp_div(tp_mul(last, l->end - l->start), gaps);
    return tp_where(tp_gt(out, 1), tp_add(tp_mul(last, l->start), tp_mul(i, part)),
                    tp_mul(last, 0.5 * (l->start + l->end)));
}

static tp_tensor *coordinates(const tpi_resizing *r, tp_tensor *x, const tpi_line *l,
                              tp_tensor *scale)
{
    const tpi_at at = r->at;
    tp_tensor *i = tp_cast(tpi_iota(at, x, l->out), TP_F64);
    tp_tensor *in = tpi_size_of(at, x, l->in, TP_F64);
    tp_tensor *out = tpi_size_of(at, x, l->out, TP_F64);
    switch (r->where) {
    case TP_HALF_PIXEL:
        return half_pixel(at, i, scale);
    case TP_ASYMMETRIC:
        return tp_div(i, scale);
    case TPI_ALIGNED_HALF_PIXEL:
        return tp_where(tp_gt(out, 1), half_pixel(at, i, scale), 0);
    case TPI_HALF_PIXEL_UP:
        return tp_div(tp_add(i, 0.5), scale);
    case TP_ALIGN_CORNERS:
        return aligned(l, at, i, in, out, scale);
    case TPI_SYMMETRIC:
        return symmetric(at, i, in, out, scale);
    default:
        return cropped(l, at, i, in, out);
    }
}

/* ---- what neighbours weigh --------------------------------------------------------------------------- */

/* A piecewise polynomial in the distance d >= 0. */
static tp_tensor *weigh(const tpi_resizing *r, tp_tensor *d)
{
    const tpi_at at = r->at;
    if (r->mode == TP_INTERPOLATE_LINEAR)
        return tp_max(tp_sub(1, d), 0);
    return tp_where(tp_lt(d, 2), tpi_cubic(at, d, r->a), 0);
}

static tp_tensor *last_of(tpi_at at, tp_tensor *x, const tpi_line *l)
{
    return tp_add(tpi_size_of(at, x, l->in, TP_F64), -1);
}

/* Is a place inside? */
static tp_tensor *inside(tpi_at at, tp_tensor *x, const tpi_line *l, tp_tensor *place)
{
    return tp_and(tp_ge(place, 0), tp_le(place, last_of(at, x, l)));
}

/* Places along the axis as an index; of those outside the nearest inside. */
static tp_tensor *index_of(tpi_at at, tp_tensor *x, const tpi_line *l, tp_tensor *place)
{
    place = tp_max(tp_min(place, last_of(at, x, l)), 0);
    return tp_cast(place, TP_I64);
}

/* v [out] along the axis of something of x's rank and type. */
static tp_tensor *along(tpi_at at, tp_tensor *v, const tp_tensor *x, int axis)
{
    return tp_cast(tpi_along(at, v, x->rank, axis), (tp_dtype)x->dtype);
}

static tp_tensor *nearest(const tpi_resizing *r, tp_tensor *x, const tpi_line *l,
                          tp_tensor *place)
{
    const tpi_at at = r->at;
    if (r->rounding == TP_ROUND_HALF_UP)
        place = tp_add(place, 0.5);
    if (r->rounding == TP_ROUND_HALF_DOWN)
        place = tp_add(place, -0.5);
    const bool down = r->rounding == TP_ROUND_DOWN || r->rounding == TP_ROUND_HALF_UP;
    return index_of(at, x, l, down ? tp_floor(place) : tp_ceil(place));
}

/* The sum of neighbours first .. first + n - 1 of the one below each place; distances are made `narrow`. */
static tp_tensor *sum_of(const tpi_resizing *r, tp_tensor *x, const tpi_line *l,
                         tp_tensor *place, int64_t first, int64_t n, double narrow)
{
    const tpi_at at = r->at;
    tp_tensor *base = tp_floor(place), *total = NULL, *y = NULL;
    for (int pass = 0; pass < 2; pass++) /* the sum of weights first */
        for (int64_t k = first; k < first + n; k++) {
            tp_tensor *p = tp_add(base, (double)k);
            tp_tensor *d = tp_abs(tp_sub(p, place));
            tp_tensor *w = weigh(r, narrow == 1 ? d : tp_mul(d, narrow));
            if (r->exclude)
                w = tp_where(inside(at, x, l, p), w, 0);
            if (pass == 0) {
                total = total ? tp_add(total, w) : w;
                continue;
            }
            if (r->exclude || narrow < 1)
                w = tp_div(w, total);
            tp_tensor *part =
                tp_mul(tp_gather(x, index_of(at, x, l, p), l->axis), along(at, w, x, l->axis));
            y = y ? tp_add(y, part) : part;
        }
    return y;
}

static tp_tensor *weighted(const tpi_resizing *r, tp_tensor *x, const tpi_line *l,
                           tp_tensor *place, double scale)
{
    const double most = 1000;
    const int reach = r->mode == TP_INTERPOLATE_CUBIC ? 2 : 1;
    const double narrow = r->smooth && scale < 1 ? scale : 1;
    const double wide = narrow < 1e-4 ? most : reach / narrow;
    const int64_t whole = (int64_t)wide, first = 1 - whole - ((double)whole < wide);
    if (wide >= most)
        return tpi_fail(x->ctx, r->at, r->what, TP_E_VALUE,
                        "a scale of %g has too many neighbours", scale);
    return sum_of(r, x, l, place, first, 2 - 2 * first, narrow);
}

/* 0: only a run knows it. */
static double known_scale(const tpi_line *l)
{
    const bool known = l->in > 0 && l->out >= 0;
    return l->scale != 0 ? l->scale : known ? (double)l->out / (double)l->in : 0;
}

/* Where the results along an axis lie in the operand; *scale is what it is, 0: not known. */
static tp_tensor *find(const tpi_resizing *r, tp_tensor *x, const tpi_line *l, double *scale)
{
    const tpi_at at = r->at;
    *scale = known_scale(l);
    tp_tensor *by = *scale != 0 ? tp_scalar(x->ctx, TP_F64, *scale)
                                : tp_div(tpi_size_of(at, x, l->out, TP_F64),
                                         tpi_size_of(at, x, l->in, TP_F64));
    if (r->smooth && *scale == 0)
        return tpi_fail(x->ctx, at, r->what, TP_E_VALUE,
                        "antialias needs sizes that are numbers: axis %d of x is %s", l->axis,
                        SHAPE(x));
    return coordinates(r, x, l, by);
}

static tp_tensor *resize_axis(const tpi_resizing *r, tp_tensor *x, const tpi_line *l)
{
    const tpi_at at = r->at;
    double scale;
    tp_tensor *place = find(r, x, l, &scale);
    if (place->status != TP_OK)
        return place;
    tp_tensor *y = r->mode == TP_INTERPOLATE_NEAREST
                       ? tp_gather(x, nearest(r, x, l, place), l->axis)
                       : weighted(r, x, l, place, scale);
    if (r->where != TPI_CROP || y->status != TP_OK)
        return y;
    tp_tensor *good =
        tp_cast(along(at, tp_cast(inside(at, x, l, place), TP_U8), x, l->axis), TP_BOOL);
    return tp_where(good, y, r->outside);
}

/* Is there nothing to do along this axis? */
static bool stays(const tpi_resizing *r, const tpi_line *l)
{
    const bool same = l->in == l->out && (l->scale == 1 || (l->scale == 0 && r->by_sizes));
    return same && !(r->where == TPI_CROP && (l->start != 0 || l->end != 1));
}

/* ---- neighbours that are only picked ------------------------------------------------------------------- */

/* Nothing is computed between the axes, so they may be read together. */
static tp_tensor *gather_nearest(const tpi_resizing *r, tp_tensor *x, int n,
                                 const tpi_line *lines)
{
    tp_tensor *places[TP_MAX_RANK];
    int axes[TP_MAX_RANK], n_axes = 0;
    for (int axis = 0; axis < x->rank; axis++)
        for (int i = 0; i < n; i++) {
            double scale;
            if (lines[i].axis != axis || stays(r, &lines[i]))
                continue;
            tp_tensor *place = find(r, x, &lines[i], &scale);
            if (place->status != TP_OK)
                return place;
            axes[n_axes] = axis;
            places[n_axes++] = nearest(r, x, &lines[i], place);
        }
    return tpi_at_places(r->at, x, n_axes, axes, places, r->by_sizes);
}

/* How often each element is repeated along the axis, where nearest neighbours are that; 0: they are not. With a
 * whole scale s, result q * s + r lies at q + r / s (asymmetric) or q + (r + 0.5) / s, of which the floor is q; at
 * q + (r + 0.5) / s - 0.5 (half_pixel) it is less than 0.5 from q, to which both ways of rounding then lead. */
static int64_t repeats(const tpi_resizing *r, const tpi_line *l)
{
    enum { MOST = 1024 }; /* beyond it positions need not be exact */
    const double scale = r->by_sizes ? known_scale(l) : l->scale;
    const bool floors = r->where == TP_ASYMMETRIC || r->where == TPI_HALF_PIXEL_UP;
    const bool rounds = r->where == TP_HALF_PIXEL || r->where == TPI_ALIGNED_HALF_PIXEL;
    if (!(scale >= 1 && scale <= (double)MOST) || scale != (double)(int64_t)scale)
        return 0;
    const int64_t times = (int64_t)scale;
    if (r->rounding == TP_ROUND_UP || (l->in > 0 && l->out >= 0 && l->out != l->in * times))
        return 0;
    return (r->rounding == TP_ROUND_DOWN ? floors : rounds) ? times : 0;
}

/* Each element as often as `times` says along its axis; NULL: an axis more for each would be too many. */
static tp_tensor *repeat(tpi_at at, tp_tensor *x, const int64_t *times)
{
    int64_t apart[2 * TP_MAX_RANK], many[2 * TP_MAX_RANK], shape[TP_MAX_RANK];
    int rank = 0;
    for (int axis = 0; axis < x->rank; axis++) {
        shape[axis] = tpi_dim_mul(tpi_dims_of(x), x->shape[axis], times[axis]);
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
static tp_tensor *repeat_nearest(const tpi_resizing *r, tp_tensor *x, int n,
                                 const tpi_line *lines)
{
    int64_t times[TP_MAX_RANK];
    for (int axis = 0; axis < x->rank; axis++)
        times[axis] = 1;
    for (int i = 0; i < n; i++)
        if (!stays(r, &lines[i]) && (times[lines[i].axis] = repeats(r, &lines[i])) == 0)
            return NULL;
    return repeat(r->at, x, times);
}

tp_tensor *tpi_resized(const tpi_resizing *r, tp_tensor *x, int n, const tpi_line *lines)
{
    if (r->mode == TP_INTERPOLATE_NEAREST && r->where != TPI_CROP) {
        tp_tensor *repeated = repeat_nearest(r, x, n, lines);
        return repeated ? repeated : gather_nearest(r, x, n, lines);
    }
    for (int i = 0; i < n && x->status == TP_OK; i++)
        if (!stays(r, &lines[i]))
            x = resize_axis(r, x, &lines[i]);
    return x;
}

/* ---- the functions ------------------------------------------------------------------------------------- */

static tp_tensor *refuse_mode(tpi_at at, const char *what, tp_tensor *x, tp_interpolation mode)
{
    if ((unsigned)mode > TP_INTERPOLATE_CUBIC)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "interpolation %d", (int)mode);
    return mode == TP_INTERPOLATE_NEAREST ? NULL : tpi_refuse_float(at, what, TPI_IN(x));
}

TPI_COMPOSITE(tp_resize,
              (tp_tensor * x, int n_sizes, const int64_t *sizes, const tp_resize_options *opt),
              x, n_sizes, sizes, opt)
{
    const char *what = "resize";
    const tp_resize_options o = opt ? *opt : (tp_resize_options){0};
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (failed || (failed = refuse_mode(at, what, x, o.mode)) ||
        (failed = tpi_refuse_sizes(at, what, x, n_sizes > x->rank ? x->rank : n_sizes, n_sizes,
                                   sizes)))
        return failed;
    if ((unsigned)o.where > TP_ASYMMETRIC || (unsigned)o.rounding > TP_ROUND_UP)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "coordinates %d and rounding %d",
                        (int)o.where, (int)o.rounding);
    if (tpi_is_near_handle(x->ctx, o.cubic))
        return tpi_fail_near_handle(x->ctx, at, what, o.cubic);
    const tpi_resizing r = {.at = at,
                            .what = what,
                            .mode = o.mode,
                            .rounding = o.rounding,
                            .where = (int)o.where,
                            .smooth = o.antialias,
                            .exclude = o.exclude_outside,
                            .a = o.cubic != 0 ? o.cubic : -0.75};
    tpi_line lines[TP_MAX_RANK] = {0};
    for (int i = 0; i < n_sizes; i++) {
        const int axis = x->rank - n_sizes + i;
        lines[i] = (tpi_line){.axis = axis, .in = x->shape[axis], .out = sizes[i]};
        if (lines[i].in == 0)
            return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "axis %d of x %s has no elements",
                            axis, SHAPE(x));
    }
    return tpi_resized(&r, x, n_sizes, lines);
}

TPI_COMPOSITE(tp_upsample, (tp_tensor * x, int64_t times, tp_interpolation mode), x, times,
              mode)
{
    const char *what = "upsample";
    tp_tensor *failed = tpi_refuse_image(at, what, TPI_IN(x));
    if (failed || (failed = refuse_mode(at, what, x, mode)))
        return failed;
    if (tpi_is_spoilt(times))
        return tpi_fail_spoilt(x->ctx, at, what, TP_E_VALUE, times);
    if (times < 1 || times > 1 << 20)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "%lld times as large", (long long)times);
    const tpi_resizing r = {
        .at = at, .what = what, .mode = mode, .where = TP_HALF_PIXEL, .a = -0.75};
    tpi_line lines[TP_MAX_RANK] = {0};
    for (int i = 2; i < x->rank; i++)
        lines[i - 2] = (tpi_line){.axis = i,
                                  .in = x->shape[i],
                                  .out = tpi_dim_mul(tpi_dims_of(x), x->shape[i], times),
                                  .scale = (double)times};
    return tpi_resized(&r, x, x->rank - 2, lines);
}
