/* Softmax along rows, its logarithm, and the logarithm of its sum. */
#include "composite/packed.h"

static tp_tensor *float_rows(tpi_at at, const char *what, tp_ragged r, tpi_ragged *p)
{
    tp_tensor *failed = tpi_ragged_of(at, what, r, p, 0, NULL);
    return failed ? failed : tpi_refuse_float(at, what, TPI_IN(p->values));
}

/* The values less the greatest of their row, which shifts no softmax and so has no gradient. */
static tp_tensor *below_max(tpi_at at, tpi_ragged *p)
{
    return tp_sub(p->values, tpi_spread(at, tp_detach(tpi_row_extrema(at, p, true)), p));
}

TPI_COMPOSITE(tp_ragged_softmax, (tp_ragged r), r)
{
    tpi_ragged p;
    tp_tensor *failed = float_rows(at, "ragged_softmax", r, &p);
    if (failed)
        return failed;
    tp_tensor *e = tp_exp(below_max(at, &p));
    tp_tensor *share = tp_div(tp_scalar_like(e, 1), tpi_row_sums(at, &p, e)); /* one division */
    return tp_mul(e, tpi_spread(at, share, &p));
}

TPI_COMPOSITE(tp_ragged_log_softmax, (tp_ragged r), r)
{
    tpi_ragged p;
    tp_tensor *failed = float_rows(at, "ragged_log_softmax", r, &p);
    if (failed)
        return failed;
    tp_tensor *below = below_max(at, &p);
    return tp_sub(below, tpi_spread(at, tp_log(tpi_row_sums(at, &p, tp_exp(below))), &p));
}

/* The greatest is taken out of the exponents, unless it is infinite. */
TPI_COMPOSITE(tp_ragged_logsumexp, (tp_ragged r), r)
{
    tpi_ragged p;
    tp_tensor *failed = float_rows(at, "ragged_logsumexp", r, &p);
    if (failed)
        return failed;
    tp_tensor *top = tp_detach(tpi_row_extrema(at, &p, true));
    tp_tensor *zero = tp_sub(top, top); /* 0, or NaN of an infinity */
    top = tp_where(tp_eq(zero, zero), top, tp_scalar_like(top, 0));
    tp_tensor *e = tp_exp(tp_sub(p.values, tpi_spread(at, top, &p)));
    return tp_add(tp_log(tpi_row_sums(at, &p, e)), top);
}
