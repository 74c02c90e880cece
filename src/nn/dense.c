#include "nn/layer.h"

TPI_LAYER(tp_dense, tp_dense_new,
          (tp_params * p, const char *name, int64_t n_in, int64_t n_out,
           const tp_layer_options *opt),
          p, name, n_in, n_out, opt)
{
    tp_params *part = tpi_layer_part(file, line, p, name);
    tp_dense l = {
        .w = tpi_layer_weight(file, line, part, opt, TP_DIMS(n_in, n_out), n_in, n_out)};
    l.b = tp_failed(l.w) ? l.w : tpi_layer_bias(file, line, part, opt, n_out, n_in);
    return l;
}

TPI_LAYER(tp_tensor *, tp_dense_apply, (const tp_dense *l, tp_tensor *x), l, x)
{
    if (!l)
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL");
    return tp_linear(x, l->w, l->b);
}

TPI_LAYER_OF(tp_layer_of_dense, tp_dense, "dense", tp_dense_apply(l, x))
