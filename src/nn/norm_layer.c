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

/* What is no size is told as such. */
static tp_tensor *refuse_groups(const char *file, int line, tp_ctx *tp, int64_t c,
                                int64_t groups)
{
    tp_tensor *t = tp_full(tp, TP_F32, TP_DIMS(c, groups, 0), 0);
    return tp_failed(t) ? t
                        : tpi_layer_fail(file, line, tp, TP_E_SHAPE,
                                         "%lld groups do not divide %lld channels",
                                         (long long)groups, (long long)c);
}

TPI_LAYER(tp_norm_layer, tp_group_norm_new,
          (tp_params * p, const char *name, int64_t c, int64_t groups, double eps), p, name, c,
          groups, eps)
{
    tp_params *part = tpi_layer_part(file, line, p, name);
    tp_norm_layer l = {0};
    if (groups > 0 && c % groups == 0)
        l = rows(file, line, part, c, eps);
    else
        l.scale = l.shift = refuse_groups(file, line, tp_params_ctx(part), c, groups);
    l.kind = TP_NORM_GROUP;
    l.groups = groups;
    return l;
}

TPI_LAYER(tp_norm_layer, tp_rms_norm_new,
          (tp_params * p, const char *name, int64_t c, double eps), p, name, c, eps)
{
    tp_params *part = tpi_layer_part(file, line, p, name);
    return (tp_norm_layer){.kind = TP_NORM_RMS,
                           .scale = tpi_layer_row(file, line, part, "scale", c, 1, true),
                           .eps = or_else(eps, 1e-5)};
}

TPI_LAYER(tp_norm_layer, tp_batch_norm_new,
          (tp_params * p, const char *name, int64_t c, double momentum, double eps), p, name, c,
          momentum, eps)
{
    tp_params *part = tpi_layer_part(file, line, p, name);
    tp_norm_layer l = rows(file, line, part, c, eps);
    l.kind = TP_NORM_BATCH;
    l.momentum = or_else(momentum, 0.1);
    l.mean =
        tp_failed(l.shift) ? l.shift : tpi_layer_row(file, line, part, "mean", c, 0, false);
    l.var = tp_failed(l.mean) ? l.mean : tpi_layer_row(file, line, part, "var", c, 1, false);
    return l;
}

static tp_tensor *batch_norm(const char *file, int line, const tp_norm_layer *l, tp_tensor *x)
{
    return tp_trains(tp_ctx_of(x))
               ? tp_batch_norm_train(x, l->scale, l->shift, l->mean, l->var, l->momentum,
                                     l->eps)
               : tp_batch_norm(x, l->scale, l->shift, l->mean, l->var, l->eps);
}

TPI_LAYER(tp_tensor *, tp_norm_layer_apply, (const tp_norm_layer *l, tp_tensor *x), l, x)
{
    if (!l)
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL");
    switch (l->kind) {
    case TP_NORM_LAYER:
        return tp_layer_norm(x, l->scale, l->shift, l->eps);
    case TP_NORM_GROUP:
        return tp_group_norm(x, l->groups, l->scale, l->shift, l->eps);
    case TP_NORM_RMS:
        return tp_rms_norm(x, l->scale, l->eps);
    case TP_NORM_BATCH:
        return batch_norm(file, line, l, x);
    }
    return tp_fail(tp_ctx_of(x), TP_E_VALUE, "there is no such kind of norm");
}

TPI_LAYER(tp_tensor *, tp_dropout_apply, (tp_tensor * x, double p), x, p)
{
    tp_ctx *tp = tp_ctx_of(x);
    return tp && !tp_trains(tp) ? x : tp_dropout(x, p);
}

TPI_LAYER_OF(tp_layer_of_norm, tp_norm_layer, "norm", tp_norm_layer_apply(l, x))

TPI_LAYER_OF(tp_layer_of_dropout, tp_dropout_layer, "dropout",
             l ? tp_dropout_apply(x, l->p)
               : tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL"))
