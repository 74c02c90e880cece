/* A binary Tree-LSTM over trees that are all different, trained eagerly by plain recursion, tree by tree and in a tp_batch. */
#include "bench.h"
#include "trees.h"

#include <stdio.h>

enum { HIDDEN = 150, MOST = 256 };

typedef struct forest {
    tp_ctx *tp;
    tp_tensor *words; /* [n_words, HIDDEN] */
    tp_dense leaf, inner, out;
    tp_function *cell;
    tp_optimizer *sgd;
    trees data;
} forest;

typedef struct epochs {
    const forest *f;
    int64_t batch; /* trees a step */
    bool together; /* in a tp_batch */
} epochs;

typedef struct state {
    tp_tensor *h, *c; /* [1, HIDDEN] */
} state;

static tp_tensor *gated(tp_tensor *gate, tp_tensor *x)
{
    return tp_mul(tp_sigmoid(gate), x);
}

/* h, c of the children -> h, c. */
static void cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const forest *f = user;
    tp_tensor *g[5]; /* i o fl fr u */
    (void)n_in, (void)n_out;
    tp_tensor *both = tp_concat(2, (tp_tensor *[]){in[0], in[2]}, 1);
    tp_split(tp_dense_apply(&f->inner, both), 1, 5, NULL, g);
    tp_tensor *kept = tp_add(gated(g[2], in[1]), gated(g[3], in[3]));
    out[1] = tp_add(gated(g[0], tp_tanh(g[4])), kept);
    out[0] = gated(g[1], tp_tanh(out[1]));
}

static state walk(const forest *f, bool together, const tree *t, int32_t at,
                  const state *leaves, int *next)
{
    const tree_node *n = &t->nodes[at];
    if (n->left < 0)
        return leaves[(*next)++];
    const state l = walk(f, together, t, n->left, leaves, next);
    const state r = walk(f, together, t, n->right, leaves, next);
    tp_tensor *in[] = {l.h, l.c, r.h, r.c}, *out[2];
    if (together)
        tp_function_call(f->cell, 4, in, 2, out);
    else
        cell((void *)f, 4, in, 2, out);
    return (state){out[0], out[1]};
}

static tp_tensor *loss_of(const forest *f, bool together, const tree *t)
{
    int64_t words[TREE_LEAVES], n = 0;
    for (int32_t i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].left < 0)
            words[n++] = t->nodes[i].word;
    tp_tensor *index = tp_tensor_new(f->tp, TP_I64, TP_DIMS(n), words);
    tp_tensor *g[3], *c[TREE_LEAVES], *h[TREE_LEAVES]; /* g: i o u, of all leaves */
    tp_split(tp_dense_apply(&f->leaf, tp_gather(f->words, index, 0)), 1, 3, NULL, g);
    tp_tensor *cell = gated(g[0], tp_tanh(g[2]));
    tp_split(cell, 0, (int)n, NULL, c);
    tp_split(gated(g[1], tp_tanh(cell)), 0, (int)n, NULL, h);
    state leaves[TREE_LEAVES] = {
        {NULL, NULL}
    };
    for (int i = 0; i < n; i++)
        leaves[i] = (state){h[i], c[i]};
    int next = 0;
    const state root = walk(f, together, t, t->n_nodes - 1, leaves, &next);
    tp_tensor *label = tp_tensor_new(f->tp, TP_I64, TP_DIMS(1), &(int64_t){t->label});
    return tp_cross_entropy(tp_dense_apply(&f->out, root.h), label);
}

static void step(const forest *f, bool together, int64_t from, int64_t to)
{
    tp_tensor *loss = NULL;
    for (int64_t i = from; i < to && i < f->data.n; i++) {
        tp_tensor *one = loss_of(f, together, &f->data.v[i]);
        loss = loss ? tp_add(loss, one) : one;
    }
    tp_optimizer_step(f->sgd, loss);
}

static void epoch(void *arg, int64_t n)
{
    const epochs *e = arg;
    tp_ctx *tp = e->f->tp;
    for (; n > 0; n--) {
        for (int64_t start = 0; start < e->f->data.n; start += e->batch) {
            tp_scope_begin(tp);
            if (!e->together)
                step(e->f, e->together, start, start + e->batch);
            else
                tp_batch (tp)
                    step(e->f, e->together, start, start + e->batch);
            tp_scope_end(tp);
        }
    }
}

static const struct {
    const char *name;
    epochs e;
    const char *peer;
} rows[] = {
    {"Tree-LSTM, eager training",       {.batch = 16},                   "tree_lstm/b16"},
    {"Tree-LSTM, batched training, 16", {.batch = 16, .together = true}, "tree_lstm/b16"},
    {"Tree-LSTM, batched training, 64", {.batch = 64, .together = true}, "tree_lstm/b64"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool wants_any(const bench *b)
{
    bool any = false;
    for (int i = 0; i < ROWS; i++)
        any |= bench_wants(b, rows[i].name);
    return any;
}

/* A row for each way, as far as it is asked for. */
static void add_rows(bench *b, const forest *f, double gflop)
{
    for (int i = 0; i < ROWS; i++) {
        epochs *e = bench_wants(b, rows[i].name) ? tp_alloc(b->tp, sizeof *e) : NULL;
        if (!e)
            continue;
        *e = rows[i].e;
        e->f = f;
        bench_add(b, (figure){.name = rows[i].name,
                              .unit = "trees/s",
                              .run = epoch,
                              .arg = e,
                              .scale = (double)f->data.n,
                              .rate = true,
                              .gflop = gflop,
                              .peer_workload = rows[i].peer,
                              .peer_metric = "rate"});
    }
}

void bench_add_trees(bench *b)
{
    forest *f = wants_any(b) ? tp_alloc(b->tp, sizeof *f) : NULL;
    if (!f)
        return;
    f->tp = b->tp;
    /* The trees are needed until the program ends, which frees them. */
    if (!b->trees || !trees_read(b->trees, MOST, &f->data)) {
        fprintf(stderr, "bench: no file of trees: the figure of the Tree-LSTM is left out\n");
        return;
    }
    f->words =
        tp_param(tp_normal(b->tp, TP_F32, TP_DIMS(f->data.n_words, HIDDEN), 0, 1), "words");
    f->leaf = tp_dense_new(tp_params_new(b->tp), "leaf", HIDDEN, 3 * HIDDEN, NULL);
    f->inner = tp_dense_new(tp_params_new(b->tp), "inner", 2 * HIDDEN, 5 * HIDDEN, NULL);
    f->out = tp_dense_new(tp_params_new(b->tp), "out", HIDDEN, TREE_LABELS, NULL);
    tp_tensor *const params[] = {f->words,   f->leaf.w, f->leaf.b, f->inner.w,
                                 f->inner.b, f->out.w,  f->out.b};
    f->cell = tp_function_new(b->tp, "cell", cell, f, &(tp_function_options){.pure = true});
    f->sgd = tp_sgd_new(b->tp, 0.01, NULL, 7, params);
    int64_t n_inner = 0, n_leaves = 0;
    for (int64_t i = 0; i < f->data.n; i++) {
        n_inner += f->data.v[i].n_nodes / 2;
        n_leaves += f->data.v[i].n_nodes / 2 + 1;
    }
    /* Forward, and twice that backward; the rest is little. */
    const double flops =
        3 * 2.0 * HIDDEN * HIDDEN * (10.0 * (double)n_inner + 3.0 * (double)n_leaves);
    add_rows(b, f, 1e-9 * flops);
}
