/* Activations: functions of single elements. */
#include "composite/composite.h"

TPI_COMPOSITE(tp_square, (tp_tensor * x), x)
{
    return tp_mul(x, x);
}

TPI_COMPOSITE(tp_gelu, (tp_tensor * x), x)
{
    tp_tensor *failed = tpi_refuse_float(at, "gelu", TPI_IN(x));
    if (failed)
        return failed;
    tp_tensor *normal = tp_erf(tp_mul(x, tp_scalar_like(x, 0.70710678118654752)));
    tp_tensor *half = tp_mul(x, tp_scalar_like(x, 0.5));
    return tp_mul(half, tp_add(normal, tp_scalar_like(x, 1)));
}

TPI_COMPOSITE(tp_silu, (tp_tensor * x), x)
{
    tp_tensor *failed = tpi_refuse_float(at, "silu", TPI_IN(x));
    return failed ? failed : tp_mul(x, tp_sigmoid(x));
}

TPI_COMPOSITE(tp_clip, (tp_tensor * x, double lo, double hi), x, lo, hi)
{
    return tp_min(tp_max(x, tp_scalar_like(x, lo)), tp_scalar_like(x, hi));
}
