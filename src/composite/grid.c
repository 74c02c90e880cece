/* Grids of places, and what lies at them. */
#include "composite/places.h"
#include "op/window.h"

/* ---- affine_grid -------------------------------------------------------------------------------- */

/* Places along an axis of that size, from -1 to 1: of its first and last element, or (not `corners`) of their
 * outer edges. */
static tp_tensor *axis_places(tpi_at at, tp_tensor *like, int64_t size, bool corners)
{
    const tp_dtype dtype = (tp_dtype)like->dtype;
    tp_tensor *place = tp_cast(tpi_iota(at, like, size), dtype);
    tp_tensor *all = tpi_size_of(at, like, size, dtype);
    place = tp_add(tp_mul(place, 2), corners ? 0 : 1);
    return tp_add(tp_div(place, corners ? tp_add(all, -1) : all), -1);
}

/* Sums, over the axes x, y (and z), of a column of theta times the place along the axis, and the last
 * column. */
TPI_COMPOSITE(tp_affine_grid,
              (tp_tensor * theta, int n_sizes, const int64_t *sizes, bool align_corners), theta,
              n_sizes, sizes, align_corners)
{
    const char *what = "affine_grid";
    const int n = n_sizes;
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(theta));
    if (failed ||
        (failed = tpi_refuse_sizes(at, what, theta, n < 2 || n > 3 ? 2 : n, n, sizes)))
        return failed;
    if (theta->rank != 3 || theta->shape[1] != n || theta->shape[2] != n + 1)
        return tpi_fail(theta->ctx, at, what, TP_E_SHAPE, "theta is %s, not [n, %d, %d]",
                        SHAPE(theta), n, n + 1);
    int64_t column[5] = {theta->shape[0], 1, 1, 1, 1}, shape[5] = {theta->shape[0]};
    column[n + 1] = shape[n + 1] = n;
    for (int i = 0; i < n; i++)
        shape[i + 1] = sizes[i];
    tp_tensor *y = tp_reshape(tp_select(theta, 2, n), n + 2, column);
    y = tp_broadcast(y, n + 2, shape);
    for (int k = 0; k < n; k++) {
        tp_tensor *place = axis_places(at, theta, sizes[n - 1 - k], align_corners);
        place = tpi_along(at, place, n + 2, n - k);
        y = tp_add(y, tp_mul(place, tp_reshape(tp_select(theta, 2, k), n + 2, column)));
    }
    return y;
}

/* ---- grid_sample -------------------------------------------------------------------------------- */

typedef struct sampling {
    tpi_at at;
    int n;    /* spatial axes */
    int taps; /* along each: 1, 2 or 4 */
    tp_padding padding;
    bool corners;
    int64_t places;                        /* of one sample of the batch; may be symbolic */
    tp_tensor *place[TPI_MAX_SPATIAL];     /* along each axis [n, p] */
    tp_tensor *size[TPI_MAX_SPATIAL];      /* of each axis */
    tp_tensor *index[TPI_MAX_SPATIAL][4];  /* the neighbours along each axis, i64 [n, p] */
    tp_tensor *weight[TPI_MAX_SPATIAL][4]; /* NULL: 1 */
} sampling;

/* Within [lo, hi], thrown back at both ends as often as need be. */
static tp_tensor *reflect(tpi_at at, tp_tensor *x, tp_tensor *lo, tp_tensor *hi)
{
    tp_tensor *span = tp_sub(hi, lo), *twice = tp_mul(span, 2);
    tp_tensor *safe = tp_max(twice, 1e-9);
    tp_tensor *off = tp_mod(tp_sub(x, lo), safe);
    return tp_add(lo, tp_min(off, tp_sub(twice, off)));
}

static tp_tensor *put_inside(const sampling *s, int axis, tp_tensor *x)
{
    const tpi_at at = s->at;
    tp_tensor *size = s->size[axis], *last = tp_add(size, -1);
    tp_tensor *zero = tp_scalar_like(size, 0);
    if (s->padding == TP_PAD_REFLECT)
        x = s->corners ? reflect(at, x, zero, last)
                       : reflect(at, x, tp_add(zero, -0.5), tp_add(size, -0.5));
    return s->padding == TP_PAD_ZEROS ? x : tp_max(tp_min(x, last), 0);
}

/* What neighbour k weighs, where `off` is how far the place is behind the one before it. */
static tp_tensor *weight_of(const sampling *s, tp_tensor *off, int k)
{
    const tpi_at at = s->at;
    if (s->taps == 1)
        return NULL;
    if (s->taps == 2)
        return k == 1 ? off : tp_sub(1, off);
    tp_tensor *d = k < 2 ? tp_add(off, 1 - k) : tp_sub(k - 1, off);
    return tpi_cubic(at, d, -0.75);
}

static void find_neighbours(sampling *s, int axis)
{
    const tpi_at at = s->at;
    tp_tensor *place = s->place[axis], *last = tp_add(s->size[axis], -1);
    tp_tensor *base = tp_floor(place);
    tp_tensor *off = tp_sub(place, base);
    for (int k = 0; k < s->taps; k++) {
        tp_tensor *p = s->taps == 1 ? tp_round(place) : tp_add(base, k + 1 - s->taps / 2);
        tp_tensor *w = weight_of(s, off, k);
        if (s->padding == TP_PAD_ZEROS) {
            tp_tensor *good = tp_and(tp_ge(p, 0), tp_le(p, last));
            good = tp_cast(good, (tp_dtype)place->dtype);
            w = w ? tp_mul(w, good) : good;
        }
        p = put_inside(s, axis, p);
        s->index[axis][k] = tp_cast(tp_max(tp_min(p, last), 0), TP_I64);
        s->weight[axis][k] = w;
    }
}

/* Combination k of neighbours along all axes; x [n, c, elements of a plane]. */
static tp_tensor *combination(const sampling *s, tp_tensor *x, int k)
{
    const tpi_at at = s->at;
    const int64_t shape[3] = {x->shape[0], x->shape[1], s->places};
    tp_tensor *index = NULL, *weight = NULL;
    for (int i = 0, left = k; i < s->n; i++, left /= s->taps) {
        tp_tensor *p = s->index[i][left % s->taps], *w = s->weight[i][left % s->taps];
        index = index ? tp_add(tp_mul(index, tp_cast(s->size[i], TP_I64)), p) : p;
        weight = weight && w ? tp_mul(weight, w) : w ? w : weight;
    }
    tp_tensor *y = tp_take_along(x, tp_broadcast(tp_unsqueeze(index, 1), 3, shape), 2);
    return weight ? tp_mul(y, tp_unsqueeze(weight, 1)) : y;
}

/* The sum over all combinations. */
static tp_tensor *combine(const sampling *s, tp_tensor *x)
{
    const tpi_at at = s->at;
    tp_tensor *y = NULL;
    int all = 1;
    for (int i = 0; i < s->n; i++)
        all *= s->taps;
    for (int k = 0; k < all; k++) {
        tp_tensor *part = combination(s, x, k);
        y = y ? tp_add(y, part) : part;
    }
    return y;
}

/* Axis i of the grid, in which the last one is first, in elements of x. */
static tp_tensor *grid_places(const sampling *s, tp_tensor *grid, int i)
{
    const tpi_at at = s->at;
    const int64_t flat[2] = {grid->shape[0], s->places};
    tp_tensor *g = tp_reshape(tp_select(grid, s->n + 1, s->n - 1 - i), 2, flat);
    tp_tensor *size = s->size[i];
    g = tp_add(g, 1);
    return s->corners ? tp_mul(g, tp_mul(tp_add(size, -1), 0.5))
                      : tp_mul(tp_add(tp_mul(g, size), -1), 0.5);
}

static tp_tensor *refuse_grid(tpi_at at, tp_tensor *x, tp_tensor *grid, tp_interpolation mode,
                              tp_padding padding)
{
    const char *what = "grid_sample";
    tp_tensor *failed = tpi_refuse_image(at, what, TPI_IN(x, grid));
    if (failed || (failed = tpi_refuse_operand(x->ctx, at, what, 1, grid)))
        return failed;
    if ((unsigned)mode > TP_INTERPOLATE_CUBIC || (unsigned)padding > TP_PAD_REFLECT)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "interpolation %d, padding %d", (int)mode,
                        (int)padding);
    if (grid->dtype < TP_F32)
        return tpi_fail(x->ctx, at, what, TP_E_DTYPE, "the grid is %s, not float",
                        tp_dtype_name((tp_dtype)grid->dtype));
    if (grid->rank != x->rank || grid->shape[grid->rank - 1] != x->rank - 2 ||
        grid->shape[0] != x->shape[0])
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "x is %s, the grid is %s", SHAPE(x),
                        SHAPE(grid));
    return NULL;
}

static tp_tensor *grid_sample_of(tpi_at at, tp_tensor *x, tp_tensor *grid,
                                 tp_interpolation mode, tp_padding padding, bool corners)
{
    static const int taps[] = {
        [TP_INTERPOLATE_NEAREST] = 1, [TP_INTERPOLATE_LINEAR] = 2, [TP_INTERPOLATE_CUBIC] = 4};
    x = tpi_beside(at, grid, x);
    grid = tpi_beside(at, x, grid);
    sampling s = {
        .at = at, .n = x->rank - 2, .taps = taps[mode], .padding = padding, .corners = corners};
    int64_t shape[TP_MAX_RANK] = {x->shape[0], x->shape[1]};
    for (int i = 0; i < s.n; i++)
        shape[i + 2] = grid->shape[i + 1];
    s.places = tpi_sizes_product(tpi_dims_of(x), s.n, grid->shape + 1);
    for (int i = 0; i < s.n; i++) {
        s.size[i] = tpi_size_of(at, x, x->shape[i + 2], (tp_dtype)grid->dtype);
        s.place[i] = grid_places(&s, grid, i);
        s.place[i] = s.taps == 4 ? s.place[i] : put_inside(&s, i, s.place[i]);
        find_neighbours(&s, i);
    }
    tp_tensor *y = combine(&s, tp_flatten(x, 2));
    return tp_cast(tp_reshape(y, x->rank, shape), (tp_dtype)x->dtype);
}

TPI_FUSED(grid_sample, AXES, in[0], in[1], (tp_interpolation)v[0], (tp_padding)v[1], v[2] != 0)
TPI_COMPOSITE(tp_grid_sample,
              (tp_tensor * x, tp_tensor *grid, tp_interpolation mode, tp_padding padding,
               bool align_corners),
              x, grid, mode, padding, align_corners)
{
    tp_tensor *failed = refuse_grid(at, x, grid, mode, padding);
    return failed ? failed : TPI_FUSE(grid_sample, (x, grid), mode, padding, align_corners);
}
