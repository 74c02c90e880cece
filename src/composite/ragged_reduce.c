/* Sums, means and extrema of rows, and what rows have for each of their elements. */
#include "composite/packed.h"
#include "composite/places.h"
#include "op/sizes.h"

#include <math.h>

static void row_shape(const tpi_ragged *p, const tp_tensor *values, int64_t *shape)
{
    shape[0] = p->rows;
    for (int i = 1; i < values->rank; i++)
        shape[i] = values->shape[i];
}

tp_tensor *tpi_spread(tpi_at at, tp_tensor *x, tpi_ragged *p)
{
    return tp_gather(x, tpi_ragged_ids(at, p), 0);
}

tp_tensor *tpi_row_sums(tpi_at at, tpi_ragged *p, tp_tensor *values)
{
    int64_t shape[TP_MAX_RANK];
    if (tp_failed(values))
        return values;
    row_shape(p, values, shape);
    return tp_scatter_add(tpi_zeros(at, values, values->rank, shape), tpi_ragged_ids(at, p),
                          values, 0);
}

/* What the greatest (least) of no elements is: [] or, of integers, [1, ...]. */
static tp_tensor *of_nothing(tpi_at at, tp_tensor *x, bool greatest)
{
    if (x->dtype >= TP_F32)
        return tp_scalar_like(x, greatest ? -INFINITY : INFINITY);
    tp_tensor *none = tp_slice(x, 0, 0, 0, 1);
    return greatest ? tp_reduce_max(none, TP_DIMS(0), true)
                    : tp_reduce_min(none, TP_DIMS(0), true);
}

tp_tensor *tpi_row_extrema(tpi_at at, tpi_ragged *p, bool greatest)
{
    int64_t shape[TP_MAX_RANK];
    row_shape(p, p->values, shape);
    tp_tensor *first =
        tp_broadcast(of_nothing(at, p->values, greatest), p->values->rank, shape);
    tp_tensor *ids = tpi_ragged_ids(at, p);
    return greatest ? tp_scatter_max(first, ids, p->values, 0)
                    : tp_scatter_min(first, ids, p->values, 0);
}

TPI_COMPOSITE(tp_ragged_spread, (tp_tensor * x, tp_ragged r), x, r)
{
    const char *what = "ragged_spread";
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, what, r, &p, 1, (tp_tensor * *const[]){&x});
    if (failed)
        return failed;
    if (x->rank == 0 || !tpi_takes_size(at, &x, 0, p.rows))
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "x is %s, not [rows, ...] for offsets %s",
                        SHAPE(x), SHAPE(p.offsets));
    return tpi_spread(at, x, &p);
}

static tp_tensor *refuse_bool(tpi_at at, const char *what, const tp_tensor *x)
{
    if (x->dtype != TP_BOOL)
        return NULL;
    return tpi_fail(x->ctx, at, what, TP_E_DTYPE,
                    "values are bool; tp_cast them to a number first");
}

TPI_COMPOSITE(tp_ragged_sum, (tp_ragged r), r)
{
    const char *what = "ragged_sum";
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, what, r, &p, 0, NULL);
    if (failed || (failed = refuse_bool(at, what, p.values)))
        return failed;
    return tpi_row_sums(at, &p, p.values);
}

TPI_COMPOSITE(tp_ragged_mean, (tp_ragged r), r)
{
    const char *what = "ragged_mean";
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, what, r, &p, 0, NULL);
    if (failed || (failed = tpi_refuse_float(at, what, TPI_IN(p.values))))
        return failed;
    tp_tensor *n = tp_cast(p.lengths, (tp_dtype)p.values->dtype);
    return tp_div(tpi_row_sums(at, &p, p.values), tpi_along(at, n, p.values->rank, 0));
}

TPI_COMPOSITE(tp_ragged_max, (tp_ragged r), r)
{
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, "ragged_max", r, &p, 0, NULL);
    return failed ? failed : tpi_row_extrema(at, &p, true);
}

TPI_COMPOSITE(tp_ragged_min, (tp_ragged r), r)
{
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, "ragged_min", r, &p, 0, NULL);
    return failed ? failed : tpi_row_extrema(at, &p, false);
}
