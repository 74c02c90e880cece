/* Windows as columns and back, and the transposed convolution. */
#include "composite/places.h"
#include "op/window.h"

/* Windows over [n, c, s...]: sizes and places of one are the other's. */
typedef struct columns {
    int n; /* spatial axes */
    tpi_window window;
    int64_t taps[TPI_MAX_SPATIAL], places[TPI_MAX_SPATIAL];
    int64_t padded[TPI_MAX_SPATIAL]; /* sizes with the padding */
    int64_t all_taps, all_places;
} columns;

/* NULL, or the failed tensor: a number of the window is none of windows. Its kernel, where it has one (k), is
 * looked at, too. */
static tp_tensor *refuse_numbers(tpi_at at, const char *what, const tp_tensor *x,
                                 const tpi_window *w, int n, const int64_t *k)
{
    for (int i = 0; i < n; i++) {
        const int64_t of[] = {w->stride.v[i], w->dilation.v[i], k ? k[i] : 1, w->pad_lo.v[i],
                              w->pad_hi.v[i]};
        for (int j = 0; j < 5; j++) {
            if (tpi_is_spoilt(of[j]))
                return tpi_fail_spoilt(x->ctx, at, what, TP_E_VALUE, of[j]);
            if (of[j] < (j < 3) || of[j] > INT32_MAX)
                return tpi_fail(
                    x->ctx, at, what, TP_E_VALUE,
                    "stride %lld, dilation %lld, kernel %lld, padding %lld and %lld "
                    "along axis %d",
                    (long long)of[0], (long long)of[1], (long long)of[2], (long long)of[3],
                    (long long)of[4], i + 2);
        }
    }
    return NULL;
}

/* NULL, or the failed tensor: those are no windows, or one does not fit. */
static tp_tensor *find_columns(tpi_at at, const char *what, const tp_tensor *x,
                               const tp_window *window, int n, const int64_t *sizes, columns *c)
{
    tpi_dims *dims = tpi_dims_of(x);
    if (!window)
        return tpi_fail(x->ctx, at, what, TP_E_NULL, "the window is NULL");
    *c = (columns){.n = n, .all_taps = 1, .all_places = 1};
    tpi_window_fill(&c->window, window, n, NULL);
    const tpi_window *w = &c->window;
    tp_tensor *failed = refuse_numbers(at, what, x, w, n, window->kernel);
    for (int i = 0; i < n && !failed; i++) {
        const int64_t k = window->kernel[i];
        c->taps[i] = k;
        c->padded[i] = tpi_dim_add(dims, sizes[i], w->pad_lo.v[i] + w->pad_hi.v[i]);
        c->places[i] = tpi_window_places(dims, w, i, sizes[i], k);
        c->all_taps = tpi_dim_mul(dims, c->all_taps, k);
        c->all_places = tpi_dim_mul(dims, c->all_places, c->places[i]);
    }
    return failed || (c->all_taps != TPI_NO_DIM && c->all_places != TPI_NO_DIM)
               ? failed
               : tpi_fail(x->ctx, at, what, TP_E_SHAPE, "kernel %s does not fit into %s",
                          SIZES(x->ctx, NULL, n, c->taps), SIZES(x->ctx, dims, n, sizes));
}

/* Where each tap of each window along axis i lies, [taps, places]. */
static tp_tensor *places_of(tpi_at at, tp_tensor *like, const columns *c, int i)
{
    tp_tensor *tap = tpi_iota(at, like, c->taps[i]), *place = tpi_iota(at, like, c->places[i]);
    tap = tp_mul(tap, tpi_size_of(at, like, c->window.dilation.v[i], TP_I64));
    place = tp_mul(place, tpi_size_of(at, like, c->window.stride.v[i], TP_I64));
    return tp_add(tp_unsqueeze(tap, 1), place);
}

/* Axes n, c, k0, o0, k1, o1, ... have all k first. */
static tp_tensor *turn_axes(tpi_at at, tp_tensor *x, int n)
{
    int64_t perm[2 + 2 * TPI_MAX_SPATIAL] = {0, 1};
    for (int i = 0; i < n; i++) {
        perm[2 + i] = 2 + 2 * i;
        perm[2 + n + i] = 3 + 2 * i;
    }
    return tp_transpose(x, 2 + 2 * n, perm);
}

TPI_COMPOSITE(tp_unfold, (tp_tensor * x, const tp_window *window), x, window)
{
    columns c;
    tp_tensor *failed = tpi_refuse_image(at, "unfold", TPI_IN(x));
    if (failed ||
        (failed = find_columns(at, "unfold", x, window, x->rank - 2, x->shape + 2, &c)))
        return failed;
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    bool padded = false;
    for (int i = 0; i < c.n; i++) {
        lo[i + 2] = c.window.pad_lo.v[i];
        hi[i + 2] = c.window.pad_hi.v[i];
        padded |= lo[i + 2] || hi[i + 2];
    }
    const int64_t shape[3] = {x->shape[0], tpi_dim_mul(tpi_dims_of(x), x->shape[1], c.all_taps),
                              c.all_places};
    tp_tensor *y = padded ? tp_pad(x, x->rank, lo, hi, 0) : x;
    for (int i = c.n - 1; i >= 0; i--)
        y = tp_gather(y, places_of(at, x, &c, i), i + 2);
    return tp_reshape(turn_axes(at, y, c.n), 3, shape);
}

/* Adds up what lies at the same place, tap after tap. y [n, c, k0, k1, ..., o0, o1, ...] */
static tp_tensor *add_up(tpi_at at, tp_tensor *y, const columns *c)
{
    int64_t shape[TP_MAX_RANK] = {y->shape[0], y->shape[1]}, flat[3] = {shape[0], shape[1]};
    tp_tensor *index = NULL;
    for (int i = 0; i < c->n; i++) {
        int64_t apart[2 * TPI_MAX_SPATIAL];
        for (int k = 0; k < c->n; k++) {
            apart[k] = k == i ? c->taps[i] : 1;
            apart[c->n + k] = k == i ? c->places[i] : 1;
        }
        tp_tensor *own = tp_reshape(tpi_beside(at, y, places_of(at, y, c, i)), 2 * c->n, apart);
        if (index)
            index = tp_mul(index, tpi_size_of(at, y, c->padded[i], TP_I64));
        index = index ? tp_add(index, own) : own;
        shape[i + 2] = c->padded[i];
    }
    flat[2] = tpi_sizes_product(tpi_dims_of(y), c->n, c->padded);
    return tp_reshape(tp_scatter_add(tpi_zeros(at, y, 3, flat), index, y, 2), 2 + c->n, shape);
}

/* The channels of x [n, channels * taps, places]; TPI_NO_DIM: it is no such thing. */
static int64_t channels_of(const tp_tensor *x, const columns *c)
{
    tpi_dims *dims = tpi_dims_of(x);
    const int64_t channels = tpi_dim_div(dims, x->shape[1], c->all_taps);
    const bool fits =
        tpi_dim_mul(dims, channels, c->all_taps) == x->shape[1] && x->shape[2] == c->all_places;
    return fits ? channels : TPI_NO_DIM;
}

TPI_COMPOSITE(tp_fold,
              (tp_tensor * x, int n_sizes, const int64_t *sizes, const tp_window *window), x,
              n_sizes, sizes, window)
{
    columns c;
    const char *what = "fold";
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(x));
    if (failed)
        return failed;
    if (x->rank != 3 || n_sizes < 1 || n_sizes > TPI_MAX_SPATIAL)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                        "x is %s, not [n, channels * taps, places], or %d sizes, not 1 to %d",
                        SHAPE(x), n_sizes, TPI_MAX_SPATIAL);
    if ((failed = tpi_refuse_sizes(at, what, x, n_sizes, n_sizes, sizes)) ||
        (failed = find_columns(at, what, x, window, n_sizes, sizes, &c)))
        return failed;
    int64_t apart[TP_MAX_RANK] = {x->shape[0], channels_of(x, &c)};
    if (apart[1] == TPI_NO_DIM)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                        "x is %s, not [n, channels * %lld taps, %s places]", SHAPE(x),
                        (long long)c.all_taps, SIZE(x->ctx, tpi_dims_of(x), c.all_places));
    for (int i = 0; i < c.n; i++) {
        apart[2 + i] = c.taps[i];
        apart[2 + c.n + i] = c.places[i];
    }
    x = add_up(at, tp_reshape(x, 2 + 2 * c.n, apart), &c);
    for (int i = 0; i < c.n; i++)
        if (c.window.pad_lo.v[i] || c.window.pad_hi.v[i])
            x = tpi_slice(at, x, i + 2, c.window.pad_lo.v[i], c.window.pad_hi.v[i], 1);
    return x;
}

/* ---- transposed convolution ------------------------------------------------------------------------ */

/* The size of the result along axis i; TPI_NO_DIM: it is none. */
static int64_t size_of(const tp_tensor *x, const tp_tensor *w, const tpi_window *window, int i,
                       int64_t more)
{
    tpi_dims *dims = tpi_dims_of(x);
    const int64_t steps =
        tpi_dim_mul(dims, tpi_dim_sub(dims, x->shape[i + 2], 1), window->stride.v[i]);
    const int64_t reach =
        tpi_dim_mul(dims, tpi_dim_sub(dims, w->shape[i + 2], 1), window->dilation.v[i]);
    const int64_t size = tpi_dim_add(dims, steps, tpi_dim_add(dims, reach, 1)),
                  cut = window->pad_lo.v[i] + window->pad_hi.v[i] - more;
    return cut < 0 ? tpi_dim_add(dims, size, -cut) : tpi_dim_sub(dims, size, cut);
}

/* What a transposed convolution leaves to others: its sizes, and what is cut off or put behind. */
typedef struct region {
    tp_window window;
    int64_t sizes[TPI_MAX_SPATIAL], behind[TP_MAX_RANK];
    bool longer;
} region;

/* NULL, or the failed tensor: along axis i no result is left. */
static tp_tensor *find_region(tpi_at at, const char *what, const tp_tensor *x,
                              const tp_tensor *w, const tpi_window *window, int i, int64_t more,
                              region *r)
{
    if (tpi_is_spoilt(more))
        return tpi_fail_spoilt(x->ctx, at, what, TP_E_VALUE, more);
    if (more < 0 || more > INT32_MAX)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "%lld more elements along axis %d",
                        (long long)more, i + 2);
    const int64_t cut = window->pad_hi.v[i] - more;
    r->window.pad_hi[i] = cut < 0 ? 0 : cut;
    /* the convolution reaches less than a stride beyond its last tap; zeros do the rest */
    r->behind[i + 2] = -cut >= window->stride.v[i] ? -cut : 0;
    r->longer |= r->behind[i + 2] > 0;
    r->sizes[i] = size_of(x, w, window, i, more - r->behind[i + 2]);
    if (r->sizes[i] != TPI_NO_DIM)
        return NULL;
    return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                    "padding %lld and %lld is more than x %s and w %s make of axis %d",
                    (long long)window->pad_lo.v[i], (long long)window->pad_hi.v[i], SHAPE(x),
                    SHAPE(w), i + 2);
}

TPI_COMPOSITE(tp_conv_transpose,
              (tp_tensor * x, tp_tensor *w, const tp_window *window, const int64_t *more), x, w,
              window, more)
{
    const char *what = "conv_transpose";
    tp_tensor *failed = tpi_refuse_image(at, what, TPI_IN(x, w));
    if (failed || (failed = tpi_refuse_operand(x->ctx, at, what, 1, w)))
        return failed;
    x = tpi_beside(at, w, x);
    w = tpi_beside(at, x, w);
    const int n = x->rank - 2;
    const int64_t none[TP_MAX_RANK] = {0};
    region r = {0};
    tpi_window filled;
    if (window)
        r.window = *window;
    if (w->rank != x->rank)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "x is %s, w is %s: not of one rank",
                        SHAPE(x), SHAPE(w));
    tpi_window_fill(&filled, window, n, NULL);
    failed = refuse_numbers(at, what, x, &filled, n, NULL);
    for (int i = 0; i < n && !failed; i++)
        failed = find_region(at, what, x, w, &filled, i, more ? more[i] : 0, &r);
    if (failed)
        return failed;
    tp_tensor *y = tp_conv_dx(x, w, n, r.sizes, &r.window);
    return r.longer ? tp_pad(y, x->rank, none, r.behind, 0) : y;
}
