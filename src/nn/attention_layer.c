/* Attention of several heads, between dense layers. */
#include "nn/layer.h"

/* What is no size is told as such; NULL: the heads divide the size, and those of keys divide them. */
static tp_tensor *refuse_heads(const char *file, int line, tp_ctx *tp, int64_t size,
                               int64_t heads, int64_t kv_heads)
{
    tp_tensor *t = tp_full(tp, TP_F32, TP_DIMS(size, heads, kv_heads, 0), 0);
    if (tp_failed(t))
        return t;
    return size > 0 && heads > 0 && kv_heads > 0 && size % heads == 0 && heads % kv_heads == 0
               ? NULL
               : tpi_layer_fail(file, line, tp, TP_E_SHAPE,
                                "%lld heads do not divide the size %lld, or %lld of keys not "
                                "the heads",
                                (long long)heads, (long long)size, (long long)kv_heads);
}

TPI_LAYER(tp_attention_layer, tp_attention_layer_new,
          (tp_params * p, const char *name, int64_t size, int64_t heads, int64_t kv_heads,
           const tp_layer_options *opt),
          p, name, size, heads, kv_heads, opt)
{
    tp_params *part = tpi_layer_part(file, line, p, name);
    tp_attention_layer l = {.heads = heads, .kv_heads = kv_heads == 0 ? heads : kv_heads};
    tp_tensor *failed = refuse_heads(file, line, tp_params_ctx(part), size, heads, l.kv_heads);
    tp_dense *const all[] = {&l.q, &l.k, &l.v, &l.out};
    static const char *const names[] = {"q", "k", "v", "out"};
    for (int i = 0; i < 4; i++) {
        const bool of_keys = i == 1 || i == 2;
        if (failed)
            *all[i] = (tp_dense){failed, failed};
        else
            *all[i] = tp_dense_new(part, names[i], size,
                                   of_keys ? size / heads * l.kv_heads : size, opt);
        failed = tp_failed(all[i]->w)                ? all[i]->w
                 : all[i]->b && tp_failed(all[i]->b) ? all[i]->b
                                                     : NULL;
    }
    return l;
}

/* [n, s, heads * d] -> [n, heads, s, d]. */
static tp_tensor *apart(const char *file, int line, tp_tensor *x, int64_t heads)
{
    if (tp_failed(x))
        return x;
    const int64_t shape[4] = {tp_dim(x, 0), tp_dim(x, 1), heads, -1};
    return tp_swap(tp_reshape(x, 4, shape), 1, 2);
}

/* Back. */
static tp_tensor *together(const char *file, int line, tp_tensor *x)
{
    if (tp_failed(x))
        return x;
    const int64_t shape[3] = {tp_dim(x, 0), tp_dim(x, 2), -1};
    return tp_reshape(tp_swap(x, 1, 2), 3, shape);
}

/* NULL, or the failed tensor. */
static tp_tensor *refuse(const char *file, int line, const tp_attention_layer *l, tp_tensor *x,
                         tp_tensor *memory)
{
    if (!l)
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL");
    if (l->heads < 1 || l->kv_heads < 1)
        return tp_fail(tp_ctx_of(x), TP_E_VALUE, "the layer has no heads");
    if (tp_failed(x) || tp_failed(memory))
        return tp_linear(tp_failed(x) ? x : memory, l->q.w, l->q.b);
    return tp_rank(x) == 3 && tp_rank(memory) == 3
               ? NULL
               : tpi_layer_fail(file, line, tp_ctx_of(x), TP_E_SHAPE,
                                "x is %s, the memory %s, not [n, places, size] each",
                                tpi_layer_shape_text(&(tpi_layer_shape){{0}}, x),
                                tpi_layer_shape_text(&(tpi_layer_shape){{0}}, memory));
}

TPI_LAYER(tp_tensor *, tp_attention_layer_apply,
          (const tp_attention_layer *l, tp_tensor *x, tp_tensor *memory,
           const tp_attention_options *options, tp_tensor **present),
          l, x, memory, options, present)
{
    memory = memory ? memory : x;
    tp_tensor *failed = refuse(file, line, l, x, memory);
    if (failed) {
        for (int i = 0; present && i < 2; i++)
            present[i] = failed;
        return failed;
    }
    tp_tensor *q = apart(file, line, tp_linear(x, l->q.w, l->q.b), l->heads),
              *k = apart(file, line, tp_linear(memory, l->k.w, l->k.b), l->kv_heads),
              *v = apart(file, line, tp_linear(memory, l->v.w, l->v.b), l->kv_heads);
    tp_tensor *y = together(file, line, tp_attention(q, k, v, options, present));
    return tp_linear(y, l->out.w, l->out.b);
}

TPI_LAYER_OF(tp_layer_of_attention, tp_attention_layer, "attention",
             tp_attention_layer_apply(l, x, NULL, NULL, NULL))
