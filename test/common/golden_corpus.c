#include "golden_corpus.h"

static tp_tensor *input(tp_graph *g, const char *name, int rank, const int64_t *shape)
{
    return tp_placeholder(g, name, TP_F32, rank, shape);
}

static void outputs(tp_graph *g, int n, tp_tensor *const *all)
{
    static const char *const names[] = {"y0", "y1", "y2", "y3", "y4", "y5"};
    tp_tensor *named[6];
    for (int i = 0; i < n; i++) {
        named[i] = tp_graph_read(g, all[i]);
        if (!tp_name_of(named[i]))
            tp_name(named[i], names[i]);
    }
    tp_graph_set_outputs(g, n, named);
}
#define OUTPUTS(g, ...)                                                                        \
    outputs(g, (int)(sizeof((tp_tensor *[]){__VA_ARGS__}) / sizeof(tp_tensor *)),              \
            (tp_tensor *const[]){__VA_ARGS__})

/* ---- one loop nest each ------------------------------------------------------------------ */

static void chain(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *x = input(g, "x", TP_DIMS(n, 64)), *b = input(g, "b", TP_DIMS(64));
    tp_tensor *h = tp_gelu(tp_add(x, b));
    OUTPUTS(g, h, tp_add(tp_clip(h, -1, 1), tp_where(tp_gt(x, b), x, tp_exp(tp_neg(x)))));
}

static void softmax(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    tp_tensor *x = input(g, "x", TP_DIMS(tp_symbol(g, "rows"), tp_symbol(g, "columns")));
    OUTPUTS(g, tp_softmax(x, -1), tp_softmax(x, 0));
}

static void layer_norm(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    tp_tensor *x = input(g, "x", TP_DIMS(tp_symbol(g, "n"), 96));
    tp_tensor *scale = input(g, "scale", TP_DIMS(96)), *shift = input(g, "shift", TP_DIMS(96));
    tp_tensor *y = tp_layer_norm(x, scale, shift, 1e-5), *dx[3];
    tp_grads(y, y, 3, (tp_tensor *const[]){x, scale, shift}, dx);
    OUTPUTS(g, y, dx[0], dx[1], dx[2]);
}

static void moves(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *x = input(g, "x", TP_DIMS(n, 8, 6));
    tp_tensor *turned = tp_swap(tp_slice(x, 1, 1, TP_END, 2), 0, 2);
    tp_tensor *joined = tp_concat(2, (tp_tensor *[]){turned, tp_tanh(turned)}, 1);
    OUTPUTS(
        g,
        tp_pad(tp_flip(joined, TP_DIMS(0)), 3, (int64_t[]){0, 1, 0}, (int64_t[]){2, 0, 0}, 0.5),
        tp_sum(tp_select(x, 0, -1), TP_DIMS(1), true));
}

static void integers(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    tp_tensor *a = tp_placeholder(g, "a", TP_I32, TP_DIMS(tp_symbol(g, "n")));
    tp_tensor *b = tp_placeholder(g, "b", TP_I32, TP_DIMS(tp_symbol(g, "n")));
    tp_tensor *bits = tp_xor(tp_and(a, b), tp_not(tp_or(a, b)));
    OUTPUTS(g, tp_mod(tp_div(a, b), tp_abs(bits)),
            tp_cumsum(tp_cast(tp_gt(a, b), TP_I64), 0, false, false),
            tp_argmax(bits, 0, false));
}

/* ---- contractions with what is around them ----------------------------------------------- */

static void linear(tp_ctx *tp, tp_graph *g)
{
    const tp_dense l = tp_dense_new(tp_params_new(tp), "layer", 6, 4, NULL);
    tp_tensor *x = input(g, "x", TP_DIMS(tp_symbol(g, "batch"), 6));
    tp_tensor *y = tp_relu(tp_dense_apply(&l, x)), *dx[3];
    tp_grads(tp_mean(tp_square(y), TP_ALL, false), NULL, 3, (tp_tensor *const[]){x, l.w, l.b},
             dx);
    OUTPUTS(g, y, dx[0], dx[1], dx[2]);
}

static tp_tensor *heads(tp_tensor *x, int64_t seq)
{
    return tp_swap(tp_reshape(x, TP_DIMS(seq, 4, 16)), 0, 1);
}

static void attention(tp_ctx *tp, tp_graph *g)
{
    const int64_t seq = tp_symbol(g, "seq");
    const tp_dense q = tp_dense_new(tp_params_new(tp), "query", 64, 64, NULL),
                   k = tp_dense_new(tp_params_new(tp), "key", 64, 64, NULL),
                   v = tp_dense_new(tp_params_new(tp), "value", 64, 64, NULL);
    tp_tensor *x = input(g, "x", TP_DIMS(seq, 64)), *dx[1];
    tp_tensor *mask = tp_placeholder(g, "mask", TP_BOOL, TP_DIMS(seq, seq));
    tp_tensor *keys = tp_swap(heads(tp_dense_apply(&k, x), seq), -1, -2);
    tp_tensor *scores = tp_matmul(heads(tp_dense_apply(&q, x), seq), keys);
    scores = tp_mul(scores, tp_scalar_like(scores, 0.25));
    scores = tp_where(mask, scores, tp_scalar_like(scores, -1e9));
    tp_tensor *values = heads(tp_dense_apply(&v, x), seq);
    tp_tensor *y = tp_matmul(tp_softmax(scores, -1), values);
    y = tp_add(x, tp_reshape(tp_contiguous(tp_swap(y, 0, 1)), TP_DIMS(seq, 64)));
    tp_grads(tp_sum(y, TP_ALL, false), NULL, 1, &x, dx);
    OUTPUTS(g, y, dx[0]);
}

static void separable(tp_ctx *tp, tp_graph *g)
{
    tp_tensor *deep = tp_param(tp_uniform(tp, TP_F32, TP_DIMS(8, 1, 3, 3), -1, 1), "deep");
    tp_tensor *flat = tp_param(tp_uniform(tp, TP_F32, TP_DIMS(12, 8, 1, 1), -1, 1), "flat");
    tp_tensor *x = input(
        g, "x", TP_DIMS(tp_symbol(g, "batch"), 8, tp_symbol(g, "side"), tp_symbol(g, "side")));
    const tp_window half = {
        .stride = {2, 2},
          .pad_lo = {1, 1},
          .pad_hi = {1, 1},
          .groups = 8
    };
    x = tp_clip(tp_conv(x, deep, &half), 0, 6);
    x = tp_conv(x, flat, NULL);
    OUTPUTS(g, tp_avg_pool(tp_silu(x), &(tp_window){
                                           .kernel = {2, 2}
    }));
}

static void lenet_step(tp_ctx *tp, tp_graph *g)
{
    const tp_conv_layer conv1 = tp_conv_layer_new(tp_params_new(tp), "conv1", 1, 6,
                                                  TP_SQUARE(5, 1, 2), NULL),
                        conv2 = tp_conv_layer_new(tp_params_new(tp), "conv2", 6, 12,
                                                  TP_SQUARE(5, 1, 0), NULL);
    const tp_dense dense1 = tp_dense_new(tp_params_new(tp), "dense1", 12 * 5 * 5, 32, NULL),
                   dense2 = tp_dense_new(tp_params_new(tp), "dense2", 32, 10, NULL);
    tp_tensor *const params[] = {conv1.w,  conv1.b,  conv2.w,  conv2.b,
                                 dense1.w, dense1.b, dense2.w, dense2.b};
    tp_optimizer *adam = tp_adam_new(tp, 0.01, &(tp_adam_options){.decay = 0.01}, 8, params);
    const int64_t batch = tp_symbol(g, "batch");
    const tp_window two = {
        .kernel = {2, 2}
    };
    tp_tensor *x = input(g, "image", TP_DIMS(batch, 1, 28, 28));
    tp_tensor *label = tp_placeholder(g, "label", TP_I64, TP_DIMS(batch));
    x = tp_max_pool(tp_relu(tp_conv_layer_apply(&conv1, x)), &two);
    x = tp_max_pool(tp_relu(tp_conv_layer_apply(&conv2, x)), &two);
    x = tp_dropout(tp_relu(tp_dense_apply(&dense1, tp_flatten(x, 1))), 0.2);
    tp_tensor *loss = tp_cross_entropy(tp_dense_apply(&dense2, x), label);
    OUTPUTS(g, loss, tp_optimizer_step(adam, loss));
    tp_optimizer_free(adam);
}

static void embedding(tp_ctx *tp, tp_graph *g)
{
    tp_tensor *table = tp_param(tp_uniform(tp, TP_F32, TP_DIMS(50, 24), -1, 1), "table");
    tp_tensor *words = tp_placeholder(g, "words", TP_I64, TP_DIMS(tp_symbol(g, "n"))), *d[1];
    tp_tensor *y = tp_tanh(tp_gather(table, words, 0));
    tp_grads(tp_sum(y, TP_ALL, false), NULL, 1, &table, d);
    OUTPUTS(g, y, d[0]);
}

/* ---- blocks ------------------------------------------------------------------------------ */

static void branch(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    tp_tensor *x = input(g, "x", TP_DIMS(tp_symbol(g, "n"), 16)), *h = x, *dx[1];
    tp_if (tp_gt(tp_mean(x, TP_ALL, false), tp_scalar_like(x, 0.5)), &h) {
        h = tp_tanh(x);
    }
    tp_else
    {
        h = tp_mul(tp_relu(x), x);
    }
    tp_tensor *y = tp_sum(h, TP_DIMS(1), false);
    tp_grads(y, NULL, 1, &x, dx);
    OUTPUTS(g, y, dx[0]);
}

static void lstm(tp_ctx *tp, tp_graph *g)
{
    const tp_dense cell = tp_dense_new(tp_params_new(tp), "cell", 24 + 32, 4 * 32, NULL);
    const int64_t seq = tp_symbol(g, "seq"), batch = tp_symbol(g, "batch");
    tp_tensor *xs = input(g, "xs", TP_DIMS(seq, batch, 24)), *ys = NULL, *dw[2];
    tp_tensor *h = input(g, "h", TP_DIMS(batch, 32)), *c = input(g, "c", TP_DIMS(batch, 32));
    tp_for (seq, &h, &c) {
        tp_tensor *x = tp_concat(2, (tp_tensor *[]){tp_each(xs), h}, 1), *gate[4];
        tp_tensor *all = tp_dense_apply(&cell, x);
        tp_split(all, 1, 4, (int64_t[]){32, 32, 32, 32}, gate);
        c = tp_add(tp_mul(tp_sigmoid(gate[1]), c),
                   tp_mul(tp_sigmoid(gate[0]), tp_tanh(gate[2])));
        h = tp_mul(tp_sigmoid(gate[3]), tp_tanh(c));
        tp_emit(&ys, h);
    }
    tp_grads(tp_mean(ys, TP_ALL, false), NULL, 2, (tp_tensor *const[]){cell.w, cell.b}, dw);
    OUTPUTS(g, ys, h, dw[0], dw[1]);
}

static void newton(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    tp_tensor *a = tp_placeholder(g, "a", TP_F64, TP_SCALAR), *z = a, *path = NULL;
    tp_tensor *err = tp_abs(tp_sub(tp_mul(z, z), a));
    tp_while (tp_gt(err, tp_scalar_like(err, 1e-9)), &z, &err) {
        z = tp_mul(tp_add(z, tp_div(a, z)), tp_scalar_like(z, 0.5));
        err = tp_abs(tp_sub(tp_mul(z, z), a));
        tp_emit(&path, z);
    }
    OUTPUTS(g, z, path);
}

const golden_case golden_corpus[] = {
    {"chain",      chain,      false},
    {"softmax",    softmax,    false},
    {"layer_norm", layer_norm, false},
    {"moves",      moves,      false},
    {"integers",   integers,   false},
    {"linear",     linear,     true },
    {"attention",  attention,  false},
    {"separable",  separable,  false},
    {"lenet_step", lenet_step, false},
    {"embedding",  embedding,  false},
    {"branch",     branch,     false},
    {"lstm",       lstm,       false},
    {"newton",     newton,     true },
    {NULL,         NULL,       false},
};
