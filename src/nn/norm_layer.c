#include "nn/held.h"
#include "nn/layer.h"

/* x, or another number for 0. */
static double or_else(double x, double otherwise)
{
    return tpi_held_in_range(x, 5e-324) ? otherwise : x;
}

static tp_norm_layer rows(const char *file, int line, tp_params *part, int64_t c, double eps)
{
    tp_norm_layer l = {.scale = tpi_layer_row(file, line, part, "scale", c, 1, true),
                       .eps = or_else(eps, 1e-5)};
    l.shift =
        tp_failed(l.scale) ? l.scale : tpi_layer_row(file, line, part, "shift", c, 0, true);
    return l;
}

TPI_LAYER(tp_norm_layer, tp_layer_norm_new,
          (tp_params * p, const char *name, int64_t c, double eps), p, name, c, eps)
{
    return rows(file, line, tpi_layer_part(file, line, p, name), c, eps);
}

TPI_LAYER(tp_norm_layer, tp_batch_norm_new,
          (tp_params * p, const char *name, int64_t c, double momentum, double eps), p, name, c,
          momentum, eps)
{
    tp_params *part = tpi_layer_part(file, line, p, name);
    tp_norm_layer l = rows(file, line, part, c, eps);
    l.momentum = or_else(momentum, 0.1);
    l.mean =
        tp_failed(l.shift) ? l.shift : tpi_layer_row(file, line, part, "mean", c, 0, false);
    l.var = tp_failed(l.mean) ? l.mean : tpi_layer_row(file, line, part, "var", c, 1, false);
    return l;
}

TPI_LAYER(tp_tensor *, tp_norm_layer_apply, (const tp_norm_layer *l, tp_tensor *x), l, x)
{
    if (!l)
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL");
    if (!l->mean)
        return tp_layer_norm(x, l->scale, l->shift, l->eps);
    return tp_trains(tp_ctx_of(x))
               ? tp_batch_norm_train(x, l->scale, l->shift, l->mean, l->var, l->momentum,
                                     l->eps)
               : tp_batch_norm(x, l->scale, l->shift, l->mean, l->var, l->eps);
}

TPI_LAYER(tp_tensor *, tp_dropout_apply, (tp_tensor * x, double p), x, p)
{
    tp_ctx *tp = tp_ctx_of(x);
    return tp && !tp_trains(tp) ? x : tp_dropout(x, p);
}
