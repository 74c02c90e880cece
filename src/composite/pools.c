/* Poolings over windows that x's sizes tell, norms of windows, and back from the places of the greatest. */
#include "composite/places.h"
#include "op/window.h"

#include <math.h>

/* ---- adaptive ----------------------------------------------------------------------------------- */

/* One axis whose windows are uneven: the i-th of o begins at floor(i s / o) and ends before
 * ceil((i + 1) s / o). */
typedef struct cut {
    int axis;
    int64_t s, o, most; /* elements in the longest window */
    tp_tensor *width;   /* of each window, [o, 1] */
    tp_tensor *place;   /* of its elements, [o, most]; those beyond it are some of x */
    tp_tensor *inside;  /* are they its own? */
} cut;

/* Window i begins r = i s mod o behind a multiple of o, and has ceil((r + s) / o) elements; the greatest r
 * is o less what divides both. */
static int64_t longest(int64_t s, int64_t o)
{
    int64_t a = s, divides = o;
    while (a % divides != 0) {
        const int64_t left = a % divides;
        a = divides;
        divides = left;
    }
    return (2 * o - divides + s - 1) / o;
}

static void make_cut(tpi_at at, tp_tensor *x, cut *c)
{
    c->most = longest(c->s, c->o);
    tp_tensor *s = tpi_size_of(at, x, c->s, TP_I64), *o = tpi_size_of(at, x, c->o, TP_I64);
    tp_tensor *first = tp_mul(tpi_along(at, tpi_iota(at, x, c->o), 2, 0), s);
    tp_tensor *end = tp_div(tp_add(first, tpi_size_of(at, x, c->s + c->o - 1, TP_I64)), o);
    first = tp_div(first, o);
    tp_tensor *k = tpi_iota(at, x, c->most);
    c->width = tp_sub(end, first);
    c->inside = tp_lt(k, c->width);
    c->place = tp_min(tp_add(first, k), tp_sub(s, 1));
}

/* The windows along the axis, which become two: [..., o, most, ...]. What is beyond one is `other`. */
static tp_tensor *windows(tpi_at at, tp_tensor *x, const cut *c, double other)
{
    int64_t shape[TP_MAX_RANK];
    tp_tensor *y = tp_gather(x, c->place, c->axis);
    for (int i = 0; i <= x->rank; i++)
        shape[i] = i == c->axis ? c->o : i == c->axis + 1 ? c->most : 1;
    return tp_where(tp_reshape(c->inside, x->rank + 1, shape), y, other);
}

static tp_tensor *pool_axis(tpi_at at, tp_tensor *x, int axis, int64_t o, bool greatest)
{
    cut c = {.axis = axis, .s = x->shape[axis], .o = o};
    const int64_t along = axis + 1;
    make_cut(at, x, &c);
    tp_tensor *y = windows(at, x, &c, greatest ? -INFINITY : 0);
    if (greatest)
        return tp_reduce_max(y, 1, &along, false);
    y = tp_sum(y, 1, &along, false);
    return tp_div(y, tp_cast(tpi_along(at, c.width, x->rank, axis), (tp_dtype)x->dtype));
}

/* The mean or the greatest over all axes that are to have one place: of any size. */
static tp_tensor *whole_axes(tpi_at at, tp_tensor *x, const int64_t *sizes, bool greatest)
{
    int64_t axes[TPI_MAX_SPATIAL];
    int n = 0;
    for (int i = 0; i < x->rank - 2; i++)
        if (sizes[i] == 1)
            axes[n++] = i + 2;
    if (n == 0)
        return x;
    return greatest ? tp_reduce_max(x, n, axes, true) : tp_mean(x, n, axes, true);
}

/* Do the windows along each axis have one length, and none an element of another? */
static bool is_even(const tp_tensor *x, const int64_t *sizes, tp_window *w)
{
    bool even = true;
    for (int i = 0; i < x->rank - 2 && even; i++) {
        const int64_t s = x->shape[i + 2];
        even = s % sizes[i] == 0;
        w->kernel[i] = even ? s / sizes[i] : 0;
    }
    return even;
}

static tp_tensor *refuse_adaptive(tpi_at at, const char *what, tp_tensor *x, int n,
                                  const int64_t *sizes)
{
    tp_tensor *failed = tpi_refuse_image(at, what, TPI_IN(x));
    if (failed || (failed = tpi_refuse_sizes(at, what, x, x->rank - 2, n, sizes)))
        return failed;
    const int64_t most = (int64_t)1 << 40; /* larger ones multiply beyond the integers */
    for (int i = 0; i < n; i++)
        if (sizes[i] > most || x->shape[i + 2] > most)
            return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                            "axis %d of x %s is too long, or is to become so", i + 2, SHAPE(x));
    for (int i = 0; i < n; i++)
        if (sizes[i] != 1 && (x->shape[i + 2] < 1 || sizes[i] < 0))
            return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                            "axis %d of x %s is to become %s: both have to be numbers, not 0",
                            i + 2, SHAPE(x), SIZE(x->ctx, tpi_dims_of(x), sizes[i]));
    return NULL;
}

static tp_tensor *adaptive(tpi_at at, const char *what, tp_tensor *x, int n,
                           const int64_t *sizes, bool greatest)
{
    tp_window w = {0};
    tp_tensor *failed = refuse_adaptive(at, what, x, n, sizes);
    if (failed)
        return failed;
    bool all_whole = true;
    for (int i = 0; i < n; i++)
        all_whole &= sizes[i] == 1;
    x = whole_axes(at, x, sizes, greatest);
    if (all_whole || x->status != TP_OK)
        return x;
    if (is_even(x, sizes, &w))
        return greatest ? tp_max_pool(x, &w) : tp_avg_pool(x, &w);
    for (int i = 0; i < n && x->status == TP_OK; i++)
        if (sizes[i] != x->shape[i + 2])
            x = pool_axis(at, x, i + 2, sizes[i], greatest);
    return x;
}

TPI_COMPOSITE(tp_adaptive_avg_pool, (tp_tensor * x, int n_sizes, const int64_t *sizes), x,
              n_sizes, sizes)
{
    return adaptive(at, "adaptive_avg_pool", x, n_sizes, sizes, false);
}

TPI_COMPOSITE(tp_adaptive_max_pool, (tp_tensor * x, int n_sizes, const int64_t *sizes), x,
              n_sizes, sizes)
{
    return adaptive(at, "adaptive_max_pool", x, n_sizes, sizes, true);
}

/* ---- whole planes ---------------------------------------------------------------------------------- */

static int spatial_axes(const tp_tensor *x, int64_t *axes)
{
    for (int i = 2; i < x->rank; i++)
        axes[i - 2] = i;
    return x->rank - 2;
}

TPI_COMPOSITE(tp_global_avg_pool, (tp_tensor * x), x)
{
    int64_t axes[TP_MAX_RANK];
    tp_tensor *failed = tpi_refuse_image(at, "global_avg_pool", TPI_IN(x));
    return failed ? failed : tp_mean(x, spatial_axes(x, axes), axes, true);
}

TPI_COMPOSITE(tp_global_max_pool, (tp_tensor * x), x)
{
    int64_t axes[TP_MAX_RANK];
    tp_tensor *failed = tpi_refuse_image(at, "global_max_pool", TPI_IN(x));
    return failed ? failed : tp_reduce_max(x, spatial_axes(x, axes), axes, true);
}

/* ---- norms of windows ---------------------------------------------------------------------------- */

/* From a mean in which padding counts. */
TPI_COMPOSITE(tp_lp_pool, (tp_tensor * x, double p, const tp_window *window), x, p, window)
{
    tp_tensor *failed = tpi_refuse_image(at, "lp_pool", TPI_IN(x));
    if (failed)
        return failed;
    if (!window)
        return tpi_fail(x->ctx, at, "lp_pool", TP_E_NULL, "the window is NULL");
    if (tpi_is_near_handle(x->ctx, p))
        return tpi_fail_near_handle(x->ctx, at, "lp_pool", p);
    if (!(p >= 1 && p < 1e300))
        return tpi_fail(x->ctx, at, "lp_pool", TP_E_VALUE, "p is %g, not at least 1", p);
    tp_window w = *window;
    double taps = 1;
    for (int i = 0; i < x->rank - 2; i++)
        taps *= (double)w.kernel[i];
    w.count_pad = true;
    tp_tensor *power = p == 1 ? tp_abs(x) : p == 2 ? tp_square(x) : tp_pow(tp_abs(x), p);
    tp_tensor *sum = tp_avg_pool(power, &w);
    sum = tp_mul(sum, taps);
    return p == 1 ? sum : p == 2 ? tp_sqrt(sum) : tp_pow(sum, 1 / p);
}

/* ---- back ------------------------------------------------------------------------------------------ */

/* Places in planes of so many elements as places among all of them; one that is outside of its plane is
 * put where none is. */
static tp_tensor *whole_places(tpi_at at, tp_tensor *x, tp_tensor *index, int64_t plane)
{
    tpi_dims *dims = tpi_dims_of(x);
    int64_t planes[TP_MAX_RANK] = {x->shape[0], x->shape[1], 1, 1, 1};
    const int64_t n = tpi_dim_mul(dims, x->shape[0], x->shape[1]);
    tp_tensor *size = tpi_size_of(at, x, plane, TP_I64);
    tp_tensor *none = tp_mul(size, tpi_size_of(at, x, n, TP_I64));
    tp_tensor *number = tp_mul(tp_reshape(tpi_iota(at, x, n), x->rank, planes), size);
    tp_tensor *inside = tp_and(tp_ge(index, 0), tp_lt(index, size));
    return tp_where(inside, tp_add(index, number), none);
}

TPI_COMPOSITE(tp_max_unpool,
              (tp_tensor * x, tp_tensor *index, int n_sizes, const int64_t *sizes), x, index,
              n_sizes, sizes)
{
    const char *what = "max_unpool";
    tp_tensor *failed = tpi_refuse_image(at, what, TPI_IN(x, index));
    if (failed || (failed = tpi_refuse_operand(x->ctx, at, what, 1, index)))
        return failed;
    x = tpi_beside(at, index, x);
    if ((failed = tpi_refuse_sizes(at, what, x, x->rank - 2, n_sizes, sizes)))
        return failed;
    if (!tpi_same_shape(x, index) || index->dtype == TP_BOOL || index->dtype >= TP_F32)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                        "index is %s %s, not an integer for each of x %s",
                        tp_dtype_name((tp_dtype)index->dtype), SHAPE(index), SHAPE(x));
    tpi_dims *dims = tpi_dims_of(x);
    int64_t shape[TP_MAX_RANK] = {x->shape[0], x->shape[1]};
    for (int i = 0; i < n_sizes; i++)
        shape[i + 2] = sizes[i];
    const int64_t plane = tpi_sizes_product(dims, n_sizes, sizes);
    const int64_t all = tpi_sizes_product(dims, x->rank, shape);
    if (plane == TPI_NO_DIM || all == TPI_NO_DIM)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "%s are too many elements",
                        SIZES(x->ctx, dims, x->rank, shape));
    index = tpi_as_index(at, tpi_beside(at, x, index));
    index = tp_flatten(whole_places(at, x, index, plane), 0);
    tp_tensor *y = tp_scatter(tpi_zeros(at, x, 1, &all), index, tp_flatten(x, 0), 0);
    return tp_reshape(y, x->rank, shape);
}
