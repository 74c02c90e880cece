/* Padding by elements of x. */
#include "composite/places.h"

/* Where the elements of an axis of size n come from that has lo more in front and hi behind. */
static tp_tensor *sources(tpi_at at, tp_tensor *x, int axis, int64_t lo, int64_t hi,
                          tp_padding padding)
{
    tpi_dims *dims = tpi_dims_of(x);
    const int64_t n = x->shape[axis];
    tp_tensor *i = tpi_iota(at, x, tpi_dim_add(dims, n, tpi_dim_add(dims, lo, hi)));
    tp_tensor *size = tpi_size_of(at, x, n, TP_I64), *last = tp_sub(size, 1);
    i = tp_sub(i, tpi_size_of(at, x, lo, TP_I64));
    if (padding == TP_PAD_WRAP)
        return tp_mod(i, size);
    if (padding == TP_PAD_EDGE)
        return tp_max(tp_min(i, last), 0);
    tp_tensor *period = tp_add(last, last);
    i = tp_mod(i, period);
    return tp_min(i, tp_sub(period, i));
}

/* NULL, or the failed tensor: those are no paddings of x. */
static tp_tensor *refuse_padding(tpi_at at, tp_tensor *x, int rank, const int64_t *lo,
                                 const int64_t *hi, tp_padding padding)
{
    const char *what = "pad_with";
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (failed)
        return failed;
    tpi_dims *dims = tpi_dims_of(x);
    if (rank != x->rank || (rank && (!lo || !hi)))
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "paddings of %d axes for x %s", rank,
                        SHAPE(x));
    if ((unsigned)padding > TP_PAD_WRAP)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "padding %d", (int)padding);
    for (int i = 0; i < rank; i++) {
        if (tpi_is_spoilt_size(lo[i]) || tpi_is_spoilt_size(hi[i]))
            return tpi_fail_spoilt(x->ctx, at, what, TP_E_VALUE,
                                   tpi_is_spoilt_size(lo[i]) ? lo[i] : hi[i]);
        if (!tpi_dim_is_size(dims, lo[i]) || !tpi_dim_is_size(dims, hi[i]) ||
            tpi_dim_add(dims, x->shape[i], tpi_dim_add(dims, lo[i], hi[i])) == TPI_NO_DIM)
            return tpi_fail(x->ctx, at, what, TP_E_VALUE,
                            "%s and %s more along axis %d of x %s", SIZE(x->ctx, dims, lo[i]),
                            SIZE(x->ctx, dims, hi[i]), i, SHAPE(x));
        if ((lo[i] || hi[i]) && x->shape[i] == 0)
            return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "axis %d of x %s has no elements", i,
                            SHAPE(x));
    }
    return NULL;
}

tp_tensor *tpi_padded_with(tpi_at at, tp_tensor *x, const int64_t *lo, const int64_t *hi,
                           tp_padding padding, bool together)
{
    tp_tensor *places[TP_MAX_RANK];
    int axes[TP_MAX_RANK], n = 0;
    for (int i = 0; i < x->rank; i++)
        if (lo[i] || hi[i]) {
            axes[n] = i;
            places[n++] = sources(at, x, i, lo[i], hi[i], padding);
        }
    return tpi_at_places(at, x, n, axes, places, together);
}

TPI_COMPOSITE(tp_pad_with,
              (tp_tensor * x, int rank, const int64_t *lo, const int64_t *hi,
               tp_padding padding),
              x, rank, lo, hi, padding)
{
    tp_tensor *failed = refuse_padding(at, x, rank, lo, hi, padding);
    if (failed)
        return failed;
    return padding == TP_PAD_ZEROS ? tp_pad(x, rank, lo, hi, 0)
                                   : tpi_padded_with(at, x, lo, hi, padding, false);
}
