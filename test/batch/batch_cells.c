/* Calls of pure functions in a tp_batch: each is one unit, and the bits are those without the block. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <inttypes.h>

enum { WIDTH = 6, WORDS = 11 };

/* ---- a Tree-LSTM --------------------------------------------------------------------------------------------------- */

typedef struct tree {
    struct tree *left, *right; /* NULL: a leaf */
    int64_t word;
} tree;

typedef struct net {
    tp_ctx *tp;
    tp_tensor *words, *w, *b, *peep, *leaf;
    tp_function *cell, *at_leaf; /* NULL: the bodies are called */
    tp_optimizer *o;
} net;

typedef struct state {
    tp_tensor *h, *c; /* [1, WIDTH] */
} state;

/* h, c of both children -> h, c. */
static void cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const net *m = user;
    tp_tensor *g[5]; /* i o fl fr u */
    (void)n_in;
    tp_tensor *both = tp_concat(2, (tp_tensor *[]){in[0], in[2]}, 1);
    tp_split(tp_add(tp_matmul(both, m->w), m->b), 1, 5, NULL, g);
    tp_tensor *i = tp_sigmoid(tp_add(g[0], tp_mul(in[1], m->peep)));
    tp_tensor *kept = tp_add(tp_mul(tp_sigmoid(g[2]), in[1]), tp_mul(tp_sigmoid(g[3]), in[3]));
    tp_tensor *c = tp_add(tp_mul(i, tp_tanh(g[4])), kept);
    out[0] = tp_mul(tp_sigmoid(g[1]), tp_tanh(c));
    if (n_out > 1)
        out[1] = c;
}

/* A row of words -> h, c. */
static void at_leaf(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const net *m = user;
    (void)n_in, (void)n_out;
    tp_tensor *z = tp_matmul(in[0], m->leaf);
    out[0] = tp_tanh(z);
    out[1] = tp_mul(tp_sigmoid(z), z);
}

static tp_tensor *parameter(tp_ctx *tp, uint64_t *seed, const char *name, int rank,
                            const int64_t *shape)
{
    float v[2 * WIDTH * 5 * WIDTH];
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(unit_random(seed) >> 40) * 0x1p-24f - 0.5f;
    return tp_param(tp_tensor_new(tp, TP_F32, rank, shape, v), name);
}

static void net_make(net *m, tp_ctx *tp, bool functions)
{
    uint64_t s = 7;
    *m = (net){.tp = tp,
               .words = parameter(tp, &s, "words", TP_DIMS(WORDS, WIDTH)),
               .w = parameter(tp, &s, "w", TP_DIMS(2 * WIDTH, 5 * WIDTH)),
               .b = parameter(tp, &s, "b", TP_DIMS(5 * WIDTH)),
               .peep = parameter(tp, &s, "peep", TP_DIMS(WIDTH)),
               .leaf = parameter(tp, &s, "leaf", TP_DIMS(WIDTH, WIDTH))};
    m->o = tp_adam_new(tp, 0.05, NULL, 5,
                       (tp_tensor *[]){m->words, m->w, m->b, m->peep, m->leaf});
    const tp_function_options pure = {.pure = true, .engine = TP_ENGINE_TILES};
    if (functions) {
        m->cell = tp_function_new(tp, "cell", cell, m, &pure);
        m->at_leaf = tp_function_new(tp, "at_leaf", at_leaf, m, &pure);
    }
}

static tree *grow(uint64_t *seed, int depth, tree **free_node)
{
    tree *t = (*free_node)++;
    const uint64_t r = unit_random(seed) >> 20;
    *t = (tree){.word = (int64_t)(r % WORDS)};
    if (depth > 0 && (r >> 12) % 4) {
        t->left = grow(seed, depth - 1, free_node);
        t->right = grow(seed, depth - 1, free_node);
    }
    return t;
}

static state state_of(const net *m, const tree *t)
{
    tp_tensor *out[2];
    if (!t->left) {
        tp_tensor *i = tp_tensor_new(m->tp, TP_I64, 1, (int64_t[]){1}, &t->word);
        tp_function_call(m->at_leaf, 1, (tp_tensor *[]){tp_gather(m->words, i, 0)}, 2, out);
    } else {
        const state l = state_of(m, t->left), r = state_of(m, t->right);
        tp_function_call(m->cell, 4, (tp_tensor *[]){l.h, l.c, r.h, r.c}, 2, out);
    }
    return (state){out[0], out[1]};
}

enum { TREES = 8, NODES = 4000 };

static tp_tensor *loss_of(const net *m, tree *const *trees)
{
    tp_tensor *loss[TREES];
    for (int i = 0; i < TREES; i++)
        loss[i] = tp_mean(tp_square(state_of(m, trees[i]).h), TP_ALL, false);
    return tp_mean(tp_stack(TREES, loss, 0), TP_ALL, false);
}

static tp_tensor *step(const net *m, tree *const *trees)
{
    tp_tensor *loss = loss_of(m, trees);
    tp_tensor *done = tp_optimizer_step(m->o, loss);
    return tp_failed(done) ? done : loss;
}

/* Losses and parameters of some steps, as bytes. */
static float *train(tp_ctx *tp, bool batched, int steps, size_t *n)
{
    net m;
    static tree nodes[NODES];
    float *v = malloc(10000 * sizeof *v);
    uint64_t seed = 99;
    assert_non_null(v);
    net_make(&m, tp, true);
    *n = 0;
    for (int i = 0; i < steps; i++) {
        tree *free_node = nodes, *trees[TREES];
        for (int k = 0; k < TREES; k++)
            trees[k] = grow(&seed, 6, &free_node);
        tp_scope_begin(tp);
        tp_tensor *loss = NULL;
        if (batched)
            tp_batch(tp)
            {
                loss = step(&m, trees);
            }
        else
            loss = step(&m, trees);
        if (tp_failed(loss))
            fail_msg("step %d: %s", i, tp_error_message(tp));
        v[(*n)++] = (float)tp_item(loss);
        tp_scope_end(tp);
    }
    tp_tensor *const all[] = {m.words, m.w, m.b, m.peep, m.leaf};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tp_read(all[i], v + *n, (size_t)tp_count(all[i]) * sizeof *v);
        *n += (size_t)tp_count(all[i]);
    }
    tp_optimizer_free(m.o);
    return v;
}

static void expect_equal(const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("element %zu of %zu: got %a, want %a", i, n, (double)got[i], (double)want[i]);
}

static void training_has_the_bits_of_the_loop(void **ctx)
{
    size_t n, m;
    tp_ctx *tp = *ctx;
    float *want = train(tp, false, 20, &n);
    const tp_batch_counts before = tp_batch_counts_of(tp);
    float *got = train(tp, true, 20, &m);
    const tp_batch_counts after = tp_batch_counts_of(tp);
    assert_int_equal(n, m);
    expect_equal(got, want, n);
    if (after.kernels - before.kernels > (after.ops - before.ops) / 4)
        fail_msg("%" PRId64 " ops as %" PRId64 " kernels", after.ops - before.ops,
                 after.kernels - before.kernels);
    free(want);
    free(got);
}

static void ask(tp_tensor *loss, bool again, tp_tensor *const *xs, tp_tensor **dx)
{
    tp_ctx *tp = tp_ctx_of(loss);
    const bool was = tp_recording(tp, again);
    tp_grads(loss, NULL, 5, xs, dx);
    tp_recording(tp, was);
}

/* Gradients of all parameters, asked for in the block or behind it, of which gradients could be asked `again` or not. */
static float *gradients(tp_ctx *tp, int way, bool again, size_t *n)
{
    net m;
    static tree nodes[NODES];
    tree *free_node = nodes, *trees[TREES];
    uint64_t seed = 5;
    float *v = malloc(10000 * sizeof *v);
    assert_non_null(v);
    net_make(&m, tp, true);
    for (int k = 0; k < TREES; k++)
        trees[k] = grow(&seed, 4, &free_node);
    tp_tensor *const xs[] = {m.words, m.w, m.b, m.peep, m.leaf};
    tp_tensor *dx[5], *loss = NULL;
    if (way == 0) {
        loss = loss_of(&m, trees);
        ask(loss, again, xs, dx);
    } else {
        tp_batch(tp)
        {
            loss = loss_of(&m, trees);
            if (way == 1)
                ask(loss, again, xs, dx);
        }
        if (way == 2)
            ask(loss, again, xs, dx);
    }
    *n = 0;
    for (int i = 0; i < 5; i++) {
        if (tp_failed(dx[i]))
            fail_msg("way %d, gradient %d: %s", way, i, tp_error_message(tp));
        tp_read(dx[i], v + *n, (size_t)tp_count(dx[i]) * sizeof *v);
        *n += (size_t)tp_count(dx[i]);
    }
    tp_optimizer_free(m.o);
    return v;
}

static void gradients_in_the_block_and_behind_it(void **ctx)
{
    size_t n, k;
    float *want = gradients(*ctx, 0, false, &n);
    for (int way = 1; way < 5; way++) {
        float *got = gradients(*ctx, 1 + way % 2, way > 2, &k);
        expect_equal(got, want, n);
        free(got);
    }
    free(want);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(gradients_in_the_block_and_behind_it),
        CASE(training_has_the_bits_of_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
