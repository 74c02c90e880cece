/* AffineGrid, GridSample: grids of places, and what lies at them. */
#include "onnx/import/import.h"

/* ---- AffineGrid ----------------------------------------------------------------------------------- */

/* Sums, over the axes x, y (and z), of a column of theta times the place along the axis, from -1 to
 * 1, and the last column. */
tp_tensor *tpi_onnx_import_affine_grid(tpi_onnx_op *o, tp_tensor *theta)
{
    tpi_onnx_ints size;
    const bool corners = tpi_onnx_int(o, "align_corners") != 0;
    if (!tpi_onnx_ints_of(o, 1, &size))
        return NULL;
    const int n = size.n - 2;
    const tp_dtype dtype = (tp_dtype)theta->dtype;
    if (n < 2 || n > 3 || theta->rank != 3 || theta->shape[1] != n || theta->shape[2] != n + 1)
        return tpi_onnx_refuse(o, "theta is %s for %d spatial axes", SHAPE(theta), n);
    int64_t column[5] = {size.v[0], 1, 1, 1, 1}, shape[5] = {size.v[0]};
    column[n + 1] = shape[n + 1] = n;
    for (int i = 0; i < n; i++)
        shape[i + 1] = size.v[i + 2];
    tp_tensor *y = tp_reshape(tp_select(theta, 2, n), n + 2, column);
    y = tp_broadcast(y, n + 2, shape);
    for (int k = 0; k < n; k++) {
        const int64_t length = size.v[size.n - 1 - k];
        tp_tensor *at = tp_cast(tpi_onnx_iota(o, length, TP_I64), dtype);
        tp_tensor *all = tpi_onnx_size_of(o, length, dtype);
        at = tpi_onnx_plus(o, tpi_onnx_times(o, at, 2), corners ? 0 : 1);
        at = tpi_onnx_plus(o, tp_div(at, corners ? tpi_onnx_plus(o, all, -1) : all), -1);
        at = tpi_onnx_along(o, at, n + 2, n - k);
        y = tp_add(y, tp_mul(at, tp_reshape(tp_select(theta, 2, k), n + 2, column)));
    }
    return y;
}

/* ---- GridSample -------------------------------------------------------------------------------------- */

typedef enum padding { ZEROS, BORDER, REFLECTION } padding; /* as the table has them */

typedef struct sampling {
    tpi_onnx_op *o;
    int n;    /* spatial axes */
    int taps; /* along each: 1, 2 or 4 */
    padding padding;
    bool corners;
    tp_dtype dtype;
    int64_t places;         /* of one sample of the batch; may be symbolic */
    tp_tensor *at[3];       /* places along each axis [n, p] */
    tp_tensor *size[3];     /* of each axis */
    tp_tensor *index[3][4]; /* the neighbours along each axis, i64 [n, p] */
    tp_tensor *weight[3][4];
} sampling;

/* Within [lo, hi], thrown back at both ends as often as need be. */
static tp_tensor *reflect(tpi_onnx_op *o, tp_tensor *x, tp_tensor *lo, tp_tensor *hi)
{
    tp_tensor *span = tp_sub(hi, lo), *twice = tpi_onnx_times(o, span, 2);
    tp_tensor *safe = tp_max(twice, tp_scalar_like(twice, 1e-9));
    tp_tensor *off = tp_mod(tp_sub(x, lo), safe);
    return tp_add(lo, tp_min(off, tp_sub(twice, off)));
}

static tp_tensor *put_inside(const sampling *s, int axis, tp_tensor *x)
{
    tpi_onnx_op *o = s->o;
    tp_tensor *size = s->size[axis], *last = tpi_onnx_plus(o, size, -1);
    tp_tensor *zero = tp_scalar(o->ctx, s->dtype, 0);
    if (s->padding == REFLECTION)
        x = s->corners
                ? reflect(o, x, zero, last)
                : reflect(o, x, tpi_onnx_plus(o, zero, -0.5), tpi_onnx_plus(o, size, -0.5));
    return s->padding == ZEROS ? x : tp_max(tp_min(x, last), zero);
}

static void find_neighbours(sampling *s, int axis)
{
    tpi_onnx_op *o = s->o;
    tp_tensor *at = s->at[axis], *last = tpi_onnx_plus(o, s->size[axis], -1);
    tp_tensor *zero = tp_scalar(o->ctx, s->dtype, 0), *base = tp_floor(at);
    const int first = 1 - s->taps / 2;
    for (int k = 0; k < s->taps; k++) {
        tp_tensor *p = s->taps == 1 ? tp_round(at) : tpi_onnx_plus(o, base, first + k),
                  *w = NULL;
        if (s->taps > 1) {
            tp_tensor *d = tp_abs(tp_sub(p, at));
            w = s->taps == 4 ? tpi_onnx_cubic(o, d, -0.75) : tp_sub(tp_scalar_like(d, 1), d);
        }
        if (s->padding == ZEROS) {
            tp_tensor *good = tp_cast(tp_and(tp_ge(p, zero), tp_le(p, last)), s->dtype);
            w = w ? tp_mul(w, good) : good;
        }
        p = put_inside(s, axis, p);
        s->index[axis][k] = tp_cast(tp_max(tp_min(p, last), zero), TP_I64);
        s->weight[axis][k] = w;
    }
}

/* The sum over all combinations of neighbours; x [n, c, elements of a plane]. */
static tp_tensor *combine(const sampling *s, tp_tensor *x)
{
    tpi_onnx_op *o = s->o;
    const int64_t shape[3] = {x->shape[0], x->shape[1], s->places};
    tp_tensor *y = NULL;
    int all = 1;
    for (int i = 0; i < s->n; i++)
        all *= s->taps;
    for (int k = 0; k < all; k++) {
        tp_tensor *index = NULL, *weight = NULL;
        for (int i = 0, left = k; i < s->n; i++, left /= s->taps) {
            tp_tensor *p = s->index[i][left % s->taps], *w = s->weight[i][left % s->taps];
            index = index ? tp_add(tp_mul(index, tp_cast(s->size[i], TP_I64)), p) : p;
            weight = weight && w ? tp_mul(weight, w) : w ? w : weight;
        }
        index = tp_broadcast(tp_unsqueeze(index, 1), 3, shape);
        tp_tensor *part = tp_take_along(x, index, 2);
        part = weight ? tp_mul(part, tp_unsqueeze(weight, 1)) : part;
        y = y ? tp_add(y, part) : part;
    }
    return y;
}

tp_tensor *tpi_onnx_import_grid_sample(tpi_onnx_op *o, tp_tensor *x)
{
    static const int taps[] = {2, 1, 4, 2,
                               4}; /* linear, nearest, cubic, and what they were called */
    sampling s = {.o = o,
                  .taps = taps[tpi_onnx_choice(o, "mode")],
                  .padding = (padding)tpi_onnx_choice(o, "padding_mode"),
                  .corners = tpi_onnx_int(o, "align_corners") != 0};
    tp_tensor *grid = o->x[1];
    int64_t shape[TP_MAX_RANK];
    s.n = x->rank - 2;
    s.dtype = (tp_dtype)grid->dtype;
    if (s.n < 1 || s.n > 3 || grid->rank != x->rank || grid->shape[grid->rank - 1] != s.n)
        return tpi_onnx_refuse(o, "x is %s, the grid is %s", SHAPE(x), SHAPE(grid));
    shape[0] = x->shape[0];
    shape[1] = x->shape[1];
    for (int i = 0; i < s.n; i++)
        shape[i + 2] = grid->shape[i + 1];
    s.places = tpi_onnx_dim_product(o, s.n, grid->shape + 1);
    const int64_t flat[2] = {x->shape[0], s.places};
    for (int i = 0; i < s.n; i++) { /* the grid has the last axis first */
        tp_tensor *size = s.size[i] = tpi_onnx_size_of(o, x->shape[i + 2], s.dtype);
        tp_tensor *g = tp_reshape(tp_select(grid, s.n + 1, s.n - 1 - i), 2, flat);
        g = tpi_onnx_plus(o, g, 1);
        g = s.corners ? tp_mul(g, tpi_onnx_times(o, tpi_onnx_plus(o, size, -1), 0.5))
                      : tpi_onnx_times(o, tpi_onnx_plus(o, tp_mul(g, size), -1), 0.5);
        s.at[i] = s.taps == 4 ? g : put_inside(&s, i, g);
        find_neighbours(&s, i);
    }
    tp_tensor *y = combine(&s, tp_flatten(x, 2));
    return tp_cast(tp_reshape(y, x->rank, shape), (tp_dtype)x->dtype);
}
