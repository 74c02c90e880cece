/* What composites refuse, with their name and the user's line. */
#include "composite/composite.h"

#include "base/float_mode.h"
#include "ir/graph_def.h"

tp_tensor *tpi_refuse_float(tpi_at at, const char *what, int n, tp_tensor *const *in)
{
    const tp_tensor *x = in[0];
    tp_tensor *failed =
        x ? tpi_refuse_operand(NULL, at, what, 0, x) : tpi_refuse_operands(at, what, n, in);
    if (failed || x->dtype >= TP_F32)
        return failed;
    return tpi_fail(x->ctx, at, what, TP_E_DTYPE, "x is %s; tp_cast it to f32 or f64 first",
                    tp_dtype_name((tp_dtype)x->dtype));
}

tp_tensor *tpi_refuse_channels(tpi_at at, const char *what, const char *name,
                               const tp_tensor *x, int axis, tp_tensor *p)
{
    if (!p)
        return NULL;
    tp_tensor *failed = tpi_refuse_operand(x->ctx, at, what, 0, p);
    if (failed || (p->rank == 1 && p->shape[0] == x->shape[axis]))
        return failed;
    return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                    "%s is %s, not one number for axis %d of x %s", name, SHAPE(p), axis,
                    SHAPE(x));
}

tp_tensor *tpi_refuse_eps(tpi_at at, const char *what, const tp_tensor *x, double eps)
{
    TPI_DEFAULT_FLOAT_MODE;
    if (tpi_is_near_handle(x->ctx, eps))
        return tpi_fail_near_handle(x->ctx, at, what, eps);
    if (eps >= 0 && eps < 1e300)
        return NULL;
    return tpi_fail(x->ctx, at, what, TP_E_VALUE, "eps is %g, not at least 0", eps);
}

tp_tensor *tpi_beside(tpi_at at, const tp_tensor *x, tp_tensor *p)
{
    return p && x->graph && !p->graph ? tpi_graph_lift(tpi_graph_here(x), at, p) : p;
}
