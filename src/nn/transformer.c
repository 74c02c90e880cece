/* A block of a transformer: attention, and two dense layers, each with a norm and a way around it. */
#include "nn/held.h"
#include "nn/layer.h"

/* The sizes are told where they are used, but for this one, which is used as four. */
static int64_t hidden_of(const tp_transformer_options *o, int64_t size)
{
    return o->hidden || size < 1 || size > INT32_MAX ? o->hidden : 4 * size;
}

static tp_norm_layer norm_of(const char *file, int line, tp_params *part, const char *name,
                             int64_t size, const tp_transformer_options *o)
{
    return o->rms ? tp_rms_norm_new(part, name, size, o->eps)
                  : tp_layer_norm_new(part, name, size, o->eps);
}

TPI_LAYER(tp_transformer_block, tp_transformer_block_new,
          (tp_params * p, const char *name, int64_t size, int64_t heads,
           const tp_transformer_options *opt),
          p, name, size, heads, opt)
{
    tp_params *part = tpi_layer_part(file, line, p, name);
    const tp_transformer_options o = opt ? *opt : (tp_transformer_options){0};
    const tp_layer_options dense = {o.init, o.gain, o.no_bias};
    const int64_t hidden = hidden_of(&o, size);
    tp_transformer_block l = {.options = o};
    l.attention = tp_attention_layer_new(part, "attn", size, heads, o.kv_heads, &dense);
    tp_tensor *failed = tp_failed(l.attention.out.w) ? l.attention.out.w : NULL;
    if (failed) {
        l.norm[0] = l.norm[1] = (tp_norm_layer){.scale = failed, .shift = failed};
        l.up = l.down = (tp_dense){failed, failed};
        return l;
    }
    l.norm[0] = norm_of(file, line, part, "norm1", size, &o);
    l.norm[1] = norm_of(file, line, part, "norm2", size, &o);
    l.up = tp_dense_new(part, "up", size, hidden, &dense);
    l.down = tp_dense_new(part, "down", hidden, size, &dense);
    return l;
}

static tp_tensor *attend(const char *file, int line, const tp_transformer_block *l,
                         tp_tensor *x, const tp_attention_options *options, tp_tensor **cache)
{
    tp_attention_options o = options ? *options : (tp_attention_options){0};
    o.causal = o.causal || l->options.causal;
    if (cache) {
        o.past_key = cache[0];
        o.past_value = cache[1];
    }
    return tp_attention_layer_apply(&l->attention, x, NULL, &o, cache);
}

static tp_tensor *feed_forward(const char *file, int line, const tp_transformer_block *l,
                               tp_tensor *x)
{
    tp_tensor *h = tp_dense_apply(&l->up, x);
    h = l->options.activation ? l->options.activation(file, line, h) : tp_gelu(h);
    return tp_dense_apply(&l->down, h);
}

/* x and what was made of it; behind that the norm, if it comes there. */
static tp_tensor *around(const char *file, int line, const tp_transformer_block *l, int i,
                         tp_tensor *x, tp_tensor *y)
{
    if (!tpi_held_in_range(l->options.dropout, 5e-324))
        y = tp_dropout_apply(y, l->options.dropout);
    y = tp_add(x, y);
    return l->options.post_norm ? tp_norm_layer_apply(&l->norm[i], y) : y;
}

TPI_LAYER(tp_tensor *, tp_transformer_block_apply,
          (const tp_transformer_block *l, tp_tensor *x, const tp_attention_options *options,
           tp_tensor **cache),
          l, x, options, cache)
{
    if (!l)
        return tp_fail(tp_ctx_of(x), TP_E_NULL, "the layer is NULL");
    const bool pre = !l->options.post_norm;
    tp_tensor *y = pre ? tp_norm_layer_apply(&l->norm[0], x) : x;
    x = around(file, line, l, 0, x, attend(file, line, l, y, options, cache));
    y = pre ? tp_norm_layer_apply(&l->norm[1], x) : x;
    return around(file, line, l, 1, x, feed_forward(file, line, l, y));
}

TPI_LAYER_OF(tp_layer_of_transformer, tp_transformer_block, "transformer",
             tp_transformer_block_apply(l, x, NULL, NULL))
