/* Layers: parameters drawn at random, and the ops that use them. */
#include "tapir/nn.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE file, line

/* A parameter "name.part", uniform in +-1/sqrt(product of n_in[3]). */
static tp_tensor *draw(const char *file, int line, tp_ctx *tp, const char *name,
                       const char *part, int rank, const int64_t *shape, const int64_t *n_in)
{
    if (!name)
        return tp_fail(tp, TP_E_NULL, "the layer's name is NULL");
    if (n_in[0] == 0 || n_in[1] == 0 || n_in[2] == 0)
        return tp_fail(tp, TP_E_SHAPE, "a layer of no inputs");
    const size_t length = strlen(name), size = length + strlen(part) + 1;
    char *full = tp_alloc(tp, size);
    if (!full || tp_scope_begin(tp) != TP_OK) {
        tp_free(tp, full);
        return tp_fail(tp, TP_E_MEMORY, "out of memory");
    }
    memcpy(full, name, length);
    memcpy(full + length, part, size - length);
    /* By ops: in C the caller's rounding would decide. */
    tp_tensor *inputs = tp_cast(tp_tensor_new(tp, TP_I64, TP_DIMS(3), n_in), TP_F64);
    const double bound = tp_item(tp_rsqrt(tp_prod(inputs, TP_ALL, false)));
    tp_tensor *init = tp_uniform(tp, TP_F32, rank, shape, -bound, bound);
    tp_tensor *param = tp_keep(tp_param(init, full));
    tp_scope_end(tp);
    tp_free(tp, full);
    return param;
}

/* The parameter as x's graph reads it: at each run, whatever is done to it on the way. */
static tp_tensor *beside(const char *file, int line, tp_tensor *x, tp_tensor *param)
{
    tp_graph *g = tp_graph_of(x);
    return g ? tp_graph_read(g, param) : param;
}

tp_dense tp_dense_new_at(const char *file, int line, tp_ctx *tp, const char *name, int64_t n_in,
                         int64_t n_out)
{
    const int64_t shape[2] = {n_in, n_out}, inputs[3] = {n_in, 1, 1};
    tp_dense l;
    l.w = draw(file, line, tp, name, ".w", 2, shape, inputs);
    l.b = tp_failed(l.w) ? l.w : draw(file, line, tp, name, ".b", 1, shape + 1, inputs);
    return l;
}

tp_dense(tp_dense_new)(tp_ctx *tp, const char *name, int64_t n_in, int64_t n_out)
{
    return tp_dense_new_at(NULL, 0, tp, name, n_in, n_out);
}

tp_tensor *tp_dense_apply_at(const char *file, int line, const tp_dense *l, tp_tensor *x)
{
    if (!l)
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL");
    return tp_linear(x, l->w, l->b);
}

tp_tensor *(tp_dense_apply)(const tp_dense *l, tp_tensor *x)
{
    return tp_dense_apply_at(NULL, 0, l, x);
}

tp_conv_layer tp_conv_layer_new_at(const char *file, int line, tp_ctx *tp, const char *name,
                                   int64_t c, int64_t oc, int64_t k, int64_t stride,
                                   int64_t pad)
{
    const int64_t shape[4] = {oc, c, k, k};
    tp_conv_layer l = {
        .window = {.stride = {stride, stride}, .pad_lo = {pad, pad}, .pad_hi = {pad, pad}}
    };
    l.w = draw(file, line, tp, name, ".w", 4, shape, shape + 1);
    l.b = tp_failed(l.w) ? l.w : draw(file, line, tp, name, ".b", 1, shape, shape + 1);
    return l;
}

tp_conv_layer(tp_conv_layer_new)(tp_ctx *tp, const char *name, int64_t c, int64_t oc, int64_t k,
                                 int64_t stride, int64_t pad)
{
    return tp_conv_layer_new_at(NULL, 0, tp, name, c, oc, k, stride, pad);
}

tp_tensor *tp_conv_layer_apply_at(const char *file, int line, const tp_conv_layer *l,
                                  tp_tensor *x)
{
    if (!l)
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL");
    tp_tensor *b = tp_reshape(beside(file, line, x, l->b), TP_DIMS(1, -1, 1, 1));
    return tp_add(tp_conv(x, l->w, &l->window), b);
}

tp_tensor *(tp_conv_layer_apply)(const tp_conv_layer *l, tp_tensor *x)
{
    return tp_conv_layer_apply_at(NULL, 0, l, x);
}
