/* An MLP with Adam; an LSTM and a transformer over 64 letters with AdamW. Their losses are cross
 * entropies. */
#include "train_nets.h"

#include <math.h>
#include <stdio.h>

enum { VOCABULARY = 96, LENGTH = 64, WIDTH = 128, HEADS = 4 };

static tp_tensor *keep(net *m, tp_tensor *param)
{
    return m->params[m->n_params++] = param;
}

static tp_tensor *drawn(net *m, tp_ctx *tp, const char *name, int rank, const int64_t *shape,
                        double bound)
{
    return keep(m, tp_param(tp_uniform(tp, TP_F32, rank, shape, -bound, bound), name));
}

static tp_dense dense(net *m, tp_ctx *tp, const char *name, int64_t n_in, int64_t n_out)
{
    const tp_dense l = tp_dense_new(tp_params_new(tp), name, n_in, n_out, NULL);
    keep(m, l.w);
    keep(m, l.b);
    return l;
}

static net_norm norm(net *m, tp_ctx *tp, const char *name)
{
    char full[40];
    net_norm l;
    snprintf(full, sizeof full, "%s.scale", name);
    l.scale = keep(m, tp_param(tp_full(tp, TP_F32, TP_DIMS(WIDTH), 1), full));
    snprintf(full, sizeof full, "%s.shift", name);
    l.shift = keep(m, tp_param(tp_full(tp, TP_F32, TP_DIMS(WIDTH), 0), full));
    return l;
}

static tp_tensor *norm_apply(const net_norm *l, tp_tensor *x)
{
    return tp_layer_norm(x, l->scale, l->shift, 1e-5);
}

/* h [batch, LENGTH, WIDTH] */
static tp_tensor *loss_of_letters(const net *m, tp_tensor *h, tp_tensor *y)
{
    tp_tensor *logits = tp_reshape(tp_dense_apply(&m->head, h), TP_DIMS(-1, VOCABULARY));
    return tp_cross_entropy(logits, tp_reshape(y, TP_DIMS(-1)));
}

/* ---- MLP 784-256-256-10 ----------------------------------------------------------------------- */

static void mlp_make(tp_ctx *tp, net *m)
{
    static const int64_t widths[] = {784, 256, 256, 10};
    static const char *const names[] = {"dense1", "dense2", "dense3"};
    for (int i = 0; i < 3; i++)
        m->dense[i] = dense(m, tp, names[i], widths[i], widths[i + 1]);
    m->adam = tp_adam_new(tp, 1e-3, NULL, m->n_params, m->params);
}

static tp_tensor *mlp_loss(const net *m, tp_tensor *x, tp_tensor *y)
{
    for (int i = 0; i < 2; i++)
        x = tp_relu(tp_dense_apply(&m->dense[i], x));
    return tp_cross_entropy(tp_dense_apply(&m->dense[2], x), tp_reshape(y, TP_DIMS(-1)));
}

/* ---- char-LSTM ----------------------------------------------------------------------------------- */

static void lstm_make(tp_ctx *tp, net *m)
{
    const double bound = 1 / sqrt(WIDTH);
    m->token = drawn(m, tp, "token", TP_DIMS(VOCABULARY, WIDTH), 1.7);
    m->wx = drawn(m, tp, "wx", TP_DIMS(WIDTH, 4 * WIDTH), bound);
    m->wh = drawn(m, tp, "wh", TP_DIMS(WIDTH, 4 * WIDTH), bound);
    m->bx = drawn(m, tp, "bx", TP_DIMS(4 * WIDTH), bound);
    m->bh = drawn(m, tp, "bh", TP_DIMS(4 * WIDTH), bound);
    m->head = dense(m, tp, "head", WIDTH, VOCABULARY);
    m->adam = tp_adam_new(tp, 1e-3, &(tp_adam_options){.decay = 0.01}, m->n_params, m->params);
}

static void lstm_cell(const net *m, tp_tensor *x, tp_tensor **h, tp_tensor **c)
{
    tp_tensor *gate[4]; /* in, forget, new, out */
    tp_split(tp_add(x, tp_linear(*h, m->wh, m->bh)), 1, 4, NULL, gate);
    tp_tensor *kept = tp_mul(tp_sigmoid(gate[1]), *c);
    *c = tp_add(kept, tp_mul(tp_sigmoid(gate[0]), tp_tanh(gate[2])));
    *h = tp_mul(tp_sigmoid(gate[3]), tp_tanh(*c));
}

static tp_tensor *lstm_loss(const net *m, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *letters = tp_gather(m->token, tp_transpose(x, 0, NULL), 0);
    tp_tensor *gates = tp_linear(letters, m->wx, m->bx), *states = NULL;
    tp_tensor *h = tp_mul(tp_select(letters, 0, 0), tp_scalar_like(letters, 0)), *c = h;
    tp_for (LENGTH, &h, &c) {
        lstm_cell(m, tp_each(gates), &h, &c);
        tp_emit(&states, h);
    }
    return loss_of_letters(m, tp_swap(states, 0, 1), y);
}

/* ---- char-transformer ------------------------------------------------------------------------------ */

static void transformer_make(tp_ctx *tp, net *m)
{
    m->token = drawn(m, tp, "token", TP_DIMS(VOCABULARY, WIDTH), 1.7);
    m->place = drawn(m, tp, "place", TP_DIMS(LENGTH, WIDTH), 1.7);
    for (int i = 0; i < NET_BLOCKS; i++) {
        net_block *b = &m->block[i];
        char name[20];
#define NAMED(part) (snprintf(name, sizeof name, "%d.%s", i, part), name)
        b->before[0] = norm(m, tp, NAMED("norm1"));
        b->before[1] = norm(m, tp, NAMED("norm2"));
        b->qkv = dense(m, tp, NAMED("qkv"), WIDTH, 3 * WIDTH);
        b->out = dense(m, tp, NAMED("out"), WIDTH, WIDTH);
        b->up = dense(m, tp, NAMED("up"), WIDTH, 4 * WIDTH);
        b->down = dense(m, tp, NAMED("down"), 4 * WIDTH, WIDTH);
#undef NAMED
    }
    m->norm = norm(m, tp, "norm");
    m->head = dense(m, tp, "head", WIDTH, VOCABULARY);
    m->adam = tp_adam_new(tp, 1e-3, &(tp_adam_options){.decay = 0.01}, m->n_params, m->params);
}

static tp_tensor *gelu_by_tanh(tp_tensor *x)
{
    tp_tensor *cube = tp_mul(tp_mul(x, tp_square(x)), tp_scalar_like(x, 0.044715));
    tp_tensor *t = tp_tanh(tp_mul(tp_add(x, cube), tp_scalar_like(x, 0.79788456080286536)));
    return tp_mul(tp_mul(x, tp_scalar_like(x, 0.5)), tp_add(t, tp_scalar_like(x, 1)));
}

/* What is later than a place is out of its sight: `later` [LENGTH, LENGTH], bool. */
static tp_tensor *attend(const net_block *b, tp_tensor *x, tp_tensor *later)
{
    tp_tensor *part[3]; /* queries, keys, values */
    tp_split(tp_dense_apply(&b->qkv, x), 2, 3, NULL, part);
    for (int i = 0; i < 3; i++)
        part[i] = tp_swap(tp_reshape(part[i], TP_DIMS(-1, LENGTH, HEADS, WIDTH / HEADS)), 1, 2);
    tp_tensor *scores = tp_matmul(part[0], tp_swap(part[1], 2, 3));
    scores = tp_mul(scores, tp_scalar_like(scores, 1 / sqrt((double)WIDTH / HEADS)));
    scores = tp_where(later, tp_scalar_like(scores, -INFINITY), scores);
    tp_tensor *y = tp_swap(tp_matmul(tp_softmax(scores, 3), part[2]), 1, 2);
    return tp_dense_apply(&b->out, tp_reshape(y, TP_DIMS(-1, LENGTH, WIDTH)));
}

static tp_tensor *transformer_loss(const net *m, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *ones = tp_full(tp_ctx_of(x), TP_I64, TP_DIMS(LENGTH), 1);
    tp_tensor *at = tp_cumsum(ones, 0, true, false);
    tp_tensor *later = tp_gt(at, tp_unsqueeze(at, 1));
    tp_tensor *h = tp_add(tp_gather(m->token, x, 0), m->place);
    for (int i = 0; i < NET_BLOCKS; i++) {
        const net_block *b = &m->block[i];
        h = tp_add(h, attend(b, norm_apply(&b->before[0], h), later));
        tp_tensor *up = tp_dense_apply(&b->up, norm_apply(&b->before[1], h));
        h = tp_add(h, tp_dense_apply(&b->down, gelu_by_tanh(up)));
    }
    return loss_of_letters(m, norm_apply(&m->norm, h), y);
}

/* ---- all -------------------------------------------------------------------------------------------- */

/* Flops: three times the forward products, less the gradient to the first layer's input. */
const net_kind net_kinds[NET_KINDS] = {
    {
     .name = "mlp",
     .batch = 32,
     .width = 784,
     .type = TP_F32,
     .answers = 1,
     .classes = 10,
     .flops = 2 * (2 * 784.0 * 256 + 3 * (256.0 * 256 + 2560)),
     .make = mlp_make,
     .loss = mlp_loss,
     },
    {
     .name = "charlstm",
     .batch = 32,
     .width = LENGTH,
     .type = TP_I64,
     .answers = LENGTH,
     .classes = VOCABULARY,
     .flops = 3.0 * LENGTH * (2 * 8 * WIDTH * WIDTH + 2 * WIDTH * VOCABULARY),
     .make = lstm_make,
     .loss = lstm_loss,
     },
    {
     .name = "chartransformer",
     .batch = 16,
     .width = LENGTH,
     .type = TP_I64,
     .answers = LENGTH,
     .classes = VOCABULARY,
     .flops =
            3.0 * LENGTH *
            (NET_BLOCKS * (24 * WIDTH * WIDTH + 4 * LENGTH * WIDTH) + 2 * WIDTH * VOCABULARY),
     .make = transformer_make,
     .loss = transformer_loss,
     },
};
