#include "composite/composite.h"

TPI_COMPOSITE(tp_dropout, (tp_tensor * x, double p), x, p)
{
    tp_tensor *failed = tpi_refuse_float(at, "dropout", TPI_IN(x));
    if (failed)
        return failed;
    if (tpi_is_near_handle(x->ctx, p))
        return tpi_fail_near_handle(x->ctx, at, "dropout", p);
    if (!(p >= 0 && p < 1))
        return tpi_fail(x->ctx, at, "dropout", TP_E_VALUE, "p is %g, not in [0, 1)", p);
    tp_tensor *kept = tp_ge(tp_uniform_like(x, 0, 1), tp_scalar_like(x, p));
    tp_tensor *grown = tp_div(x, tp_scalar_like(x, 1 - p));
    return tp_where(kept, grown, tp_scalar_like(x, 0));
}
