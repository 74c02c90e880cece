#include "nn/layer.h"

/* Spatial axes that have a kernel size. */
static int count_axes(const tp_window *window)
{
    int n = 3;
    while (n > 0 && window->kernel[n - 1] == 0)
        n--;
    return n;
}

/* The shape of the weights, [oc, c / groups, k...], and how many inputs an output has; false: they make none. */
static bool weight_shape(const tp_window *window, int n_axes, int64_t c, int64_t oc,
                         int64_t *shape, int64_t *n_in)
{
    const int64_t groups = window->groups ? window->groups : 1;
    if (n_axes == 0 || groups < 1 || c < 1 || oc < 1 || c % groups || oc % groups)
        return false;
    shape[0] = oc;
    shape[1] = *n_in = c / groups;
    bool fits = true;
    for (int i = 0; i < n_axes && fits; i++) {
        shape[2 + i] = window->kernel[i];
        fits = window->kernel[i] > 0 && !__builtin_mul_overflow(*n_in, window->kernel[i], n_in);
    }
    return fits;
}

/* What is no size is told as such. */
static tp_tensor *refuse(const char *file, int line, tp_ctx *tp, const tp_window *window,
                         int64_t c, int64_t oc)
{
    if (!window)
        return tp_fail(tp, TP_E_NULL, "the window is NULL");
    const int64_t *k = window->kernel;
    tp_tensor *t = tp_full(tp, TP_F32, TP_DIMS(c, oc, window->groups, k[0], k[1], k[2], 0), 0);
    return tp_failed(t)
               ? t
               : tpi_layer_fail(
                     file, line, tp, TP_E_SHAPE,
                     "a kernel of [%lld, %lld, %lld] and %lld groups for %lld to %lld "
                     "channels: "
                     "the sizes of 1 to 3 axes are there, and groups divide the channels",
                     (long long)k[0], (long long)k[1], (long long)k[2],
                     (long long)window->groups, (long long)c, (long long)oc);
}

/* Weights of a convolution from c channels to oc, and a bias of n_bias numbers. */
static tp_conv_layer layer(const char *file, int line, tp_params *part, int64_t c, int64_t oc,
                           const tp_window *window, const tp_layer_options *opt, int64_t n_bias)
{
    const int n_axes = window ? count_axes(window) : 0;
    tp_conv_layer l = {0};
    int64_t shape[5], n_in, n_out;
    if (!window || !weight_shape(window, n_axes, c, oc, shape, &n_in) ||
        __builtin_mul_overflow(n_in / shape[1], oc, &n_out)) {
        l.w = l.b = refuse(file, line, tp_params_ctx(part), window, c, oc);
        return l;
    }
    l.window = *window;
    l.w = tpi_layer_weight(file, line, part, opt, n_axes + 2, shape, n_in, n_out);
    l.b = tp_failed(l.w) ? l.w : tpi_layer_bias(file, line, part, opt, n_bias, n_in);
    return l;
}

TPI_LAYER(tp_conv_layer, tp_conv_layer_new,
          (tp_params * p, const char *name, int64_t c, int64_t oc, const tp_window *window,
           const tp_layer_options *opt),
          p, name, c, oc, window, opt)
{
    return layer(file, line, tpi_layer_part(file, line, p, name), c, oc, window, opt, oc);
}

TPI_LAYER(tp_conv_layer, tp_conv_transpose_new,
          (tp_params * p, const char *name, int64_t c, int64_t oc, const tp_window *window,
           const int64_t *more, const tp_layer_options *opt),
          p, name, c, oc, window, more, opt)
{
    tp_params *part = tpi_layer_part(file, line, p, name);
    tp_conv_layer l = layer(file, line, part, oc, c, window, opt, oc);
    l.transposed = true;
    for (int i = 0; more && !tp_failed(l.w) && i < tp_rank(l.w) - 2; i++)
        l.more[i] = more[i];
    return l;
}

TPI_LAYER(tp_tensor *, tp_conv_layer_apply, (const tp_conv_layer *l, tp_tensor *x), l, x)
{
    if (!l)
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL");
    tp_tensor *y = l->transposed ? tp_conv_transpose(x, l->w, &l->window, l->more)
                                 : tp_conv(x, l->w, &l->window);
    if (!l->b || tp_failed(y))
        return y;
    const int64_t shape[5] = {1, -1, 1, 1, 1};
    tp_graph *g = tp_graph_of(
        x); /* which reads the parameter at each run, whatever is done to it on the way */
    return tp_add(y, tp_reshape(g ? tp_graph_read(g, l->b) : l->b, tp_rank(y), shape));
}

TPI_LAYER_OF(tp_layer_of_conv, tp_conv_layer, "conv", tp_conv_layer_apply(l, x))
