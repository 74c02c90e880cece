/* Running products. */
#include "composite/composite.h"

static tp_tensor *refuse(tpi_at at, const tp_tensor *x, int axis)
{
    tp_tensor *failed;
    if (tpi_own_axis(at, "cumprod", x, axis, &failed) < 0)
        return failed;
    if (x->dtype == TP_BOOL)
        return tpi_fail(x->ctx, at, "cumprod", TP_E_DTYPE,
                        "x is bool; tp_cast it to a number first");
    return NULL;
}

/* x moved on by one along the axis, behind a 1. */
static tp_tensor *behind_one(tpi_at at, tp_tensor *x, int axis, bool reverse)
{
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    (reverse ? hi : lo)[axis] = 1;
    tp_tensor *longer = tp_pad(x, x->rank, lo, hi, 1);
    return reverse ? tp_slice(longer, axis, 1, TP_END, 1) : tp_slice(longer, axis, 0, -1, 1);
}

/* Which elements along the axis are the first: broadcasts against x. */
static tp_tensor *is_first(tpi_at at, tp_tensor *x, int axis, bool reverse)
{
    const int64_t shape[TP_MAX_RANK] = {x->shape[axis], 1, 1, 1, 1, 1, 1, 1};
    tp_tensor *place = tpi_iota(at, x, x->shape[axis]);
    tp_tensor *is = tp_eq(place, tp_scalar_like(place, 0));
    return tp_reshape(reverse ? tp_flip(is, TP_ALL) : is, x->rank - axis, shape);
}

/* y[i] = x[i] * y[i - 1], from y[0] = x[0]. What the recurrence adds is -0, which changes no product. */
static tp_tensor *cumprod_of(tpi_at at, tp_tensor *x, int axis, bool exclusive, bool reverse)
{
    const int own = tpi_axis(axis, x->rank);
    tp_tensor *first = is_first(at, x, own, reverse);
    x = exclusive ? behind_one(at, x, own, reverse) : x;
    tp_tensor *start = tp_where(first, x, tp_scalar_like(x, -0.0));
    return tp_recur(x, start, own, reverse);
}

TPI_FUSED(cumprod, AXES, in[0], (int)v[0], v[1] != 0, v[2] != 0)
TPI_COMPOSITE(tp_cumprod, (tp_tensor * x, int axis, bool exclusive, bool reverse), x, axis,
              exclusive, reverse)
{
    tp_tensor *failed = refuse(at, x, axis);
    return failed ? failed : TPI_FUSE(cumprod, (x), axis, exclusive, reverse);
}
