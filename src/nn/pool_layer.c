#include "nn/layer.h"

TPI_LAYER(tp_tensor *, tp_pool_layer_apply, (const tp_pool_layer *l, tp_tensor *x), l, x)
{
    if (!l)
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL");
    const int axes = tp_rank(x) - 2;
    if (!tp_failed(x) && (axes < 1 || axes > 3))
        return tp_fail(tp_ctx_of(x), TP_E_SHAPE, "x is not [n, c, s...] of 1 to 3 axes s");
    switch (l->kind) {
    case TP_POOL_MAX:
        return tp_max_pool(x, &l->window);
    case TP_POOL_AVG:
        return tp_avg_pool(x, &l->window);
    case TP_POOL_ADAPTIVE_MAX:
        return tp_adaptive_max_pool(x, axes, l->sizes);
    case TP_POOL_ADAPTIVE_AVG:
        return tp_adaptive_avg_pool(x, axes, l->sizes);
    case TP_POOL_GLOBAL_MAX:
        return tp_global_max_pool(x);
    case TP_POOL_GLOBAL_AVG:
        return tp_global_avg_pool(x);
    }
    return tp_fail(tp_ctx_of(x), TP_E_VALUE, "there is no such kind of pooling");
}

TPI_LAYER_OF(tp_layer_of_pool, tp_pool_layer, "pool", tp_pool_layer_apply(l, x))
