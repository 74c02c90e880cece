/* A recursive network: a binary Tree-LSTM (Tai and others, 2015) that walks each tree by plain C
 * recursion, so that no two samples have the same graph, and is trained eagerly.
 *
 *     recursion [FILE]    trees of the Stanford treebank, or as words in postfix order, see
 *         common/trees.h; without a file it makes some up
 *         --trees N --epochs N --hidden N --batch N --rate X */
#include "show.h"
#include "trees.h"

#include <tapir/tapir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct model {
    tp_tensor *words;     /* [n_words, hidden] */
    tp_dense leaf, inner; /* hidden -> i o u; 2 * hidden -> i o fl fr u */
    tp_dense out;
} model;

/* What a node knows: each [1, hidden]. */
typedef struct state {
    tp_tensor *h, *c;
} state;

static state inner_state(const model *m, state l, state r)
{
    tp_tensor *both = tp_concat(2, (tp_tensor *[]){l.h, r.h}, 1);
    tp_tensor *g[5]; /* i o fl fr u */
    tp_split(tp_dense_apply(&m->inner, both), 1, 5, NULL, g);
    tp_tensor *c = tp_add(tp_mul(tp_sigmoid(g[0]), tp_tanh(g[4])),
                          tp_add(tp_mul(tp_sigmoid(g[2]), l.c), tp_mul(tp_sigmoid(g[3]), r.c)));
    return (state){tp_mul(tp_sigmoid(g[1]), tp_tanh(c)), c};
}

/* leaves: the state of each leaf, in order; *next is the first that was not used yet. */
static state walk(const model *m, const tree *t, int32_t at, const state *leaves, int *next)
{
    const tree_node *n = &t->nodes[at];
    if (n->left < 0)
        return leaves[(*next)++];
    const state l = walk(m, t, n->left, leaves, next);
    return inner_state(m, l, walk(m, t, n->right, leaves, next));
}

/* A score for each label [1, TREE_LABELS]. */
static tp_tensor *scores(tp_ctx *tp, const model *m, const tree *t)
{
    int64_t words[TREE_LEAVES];
    int n = 0;
    for (int32_t i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].left < 0)
            words[n++] = t->nodes[i].word;
    tp_tensor *x = tp_gather(m->words, tp_tensor_new(tp, TP_I64, TP_DIMS(n), words), 0);
    tp_tensor *g[3], *h[TREE_LEAVES], *c[TREE_LEAVES]; /* g: i o u, of all leaves */
    tp_split(tp_dense_apply(&m->leaf, x), 1, 3, NULL, g);
    x = tp_mul(tp_sigmoid(g[0]), tp_tanh(g[2]));
    tp_split(x, 0, n, NULL, c);
    tp_split(tp_mul(tp_sigmoid(g[1]), tp_tanh(x)), 0, n, NULL, h);
    state leaves[TREE_LEAVES];
    for (int i = 0; i < n; i++)
        leaves[i] = (state){h[i], c[i]};
    int next = 0;
    return tp_dense_apply(&m->out, walk(m, t, t->n_nodes - 1, leaves, &next).h);
}

/* One step on the summed loss of n trees. */
static double train(tp_ctx *tp, const model *m, tp_optimizer *o, const tree *t, int64_t n,
                    int64_t *right)
{
    tp_scope_begin(tp);
    tp_tensor *loss = NULL;
    for (int64_t i = 0; i < n; i++) {
        const int64_t label = t[i].label;
        tp_tensor *score = scores(tp, m, &t[i]);
        tp_tensor *y = tp_tensor_new(tp, TP_I64, TP_DIMS(1), &label);
        tp_tensor *one = tp_cross_entropy(score, y);
        loss = loss ? tp_add(loss, one) : one;
        *right += tp_item_i64(tp_argmax(score, 1, false)) == label;
    }
    tp_optimizer_step(o, loss);
    const double value = tp_item(loss);
    tp_scope_end(tp);
    return value;
}

typedef struct settings {
    const char *file;
    int64_t trees, epochs, hidden, batch;
    double rate;
} settings;

static bool run(tp_ctx *tp, const settings *s, const trees *data)
{
    model m = {.leaf = tp_dense_new(tp, "leaf", s->hidden, 3 * s->hidden),
               .inner = tp_dense_new(tp, "inner", 2 * s->hidden, 5 * s->hidden),
               .out = tp_dense_new(tp, "out", s->hidden, TREE_LABELS)};
    tp_tensor *drawn = tp_normal(tp, TP_F32, TP_DIMS(data->n_words, s->hidden), 0, 1);
    m.words = tp_param(drawn, "words");
    tp_tensor *const params[] = {m.words,   m.leaf.w, m.leaf.b, m.inner.w,
                                 m.inner.b, m.out.w,  m.out.b};
    tp_optimizer *o = tp_sgd_new(tp, s->rate, 0, 7, params);
    int64_t n_nodes = 0;
    for (int64_t i = 0; i < data->n; i++)
        n_nodes += data->v[i].n_nodes;
    printf("%lld trees of %.1f nodes on average, %d words, hidden size %d\n", (long long)data->n,
           (double)n_nodes / (double)data->n, (int)data->n_words, (int)s->hidden);
    double first = 0, loss = 0, best = 0;
    for (int64_t e = 0; e < s->epochs && tp_error(tp) == TP_OK; e++) {
        const double start = seconds_now();
        int64_t right = 0;
        loss = 0;
        for (int64_t i = 0; i < data->n && tp_error(tp) == TP_OK; i += s->batch) {
            const int64_t n = data->n - i < s->batch ? data->n - i : s->batch;
            loss += train(tp, &m, o, data->v + i, n, &right);
            show_progress("training", i + n, data->n);
        }
        const double rate = (double)data->n / (seconds_now() - start);
        printf("epoch %2d   loss %.5f   right %5.1f %%   %6.0f trees/s\n", (int)e + 1,
               loss / (double)data->n, 100.0 * (double)right / (double)data->n, rate);
        fflush(stdout);
        first = e ? first : loss;
        best = rate > best ? rate : best;
    }
    tp_optimizer_free(o);
    printf("%.0f trees per second, forward, backward and update\n", best);
    if (tp_error(tp) == TP_OK && s->epochs > 1 && !(loss < first))
        fprintf(stderr, "recursion: it learnt nothing\n");
    return tp_error(tp) == TP_OK && (s->epochs == 1 || loss < first);
}

static bool parse(int argc, char **argv, settings *s)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (name[0] != '-') {
            s->file = name;
            continue;
        }
        const long long n = atoll(value);
        if (strcmp(name, "--rate") == 0)
            s->rate = atof(value);
        else if (strcmp(name, "--trees") == 0)
            s->trees = n;
        else if (strcmp(name, "--epochs") == 0)
            s->epochs = n;
        else if (strcmp(name, "--hidden") == 0)
            s->hidden = n;
        else if (strcmp(name, "--batch") == 0)
            s->batch = n;
        else
            return false;
        i++;
    }
    return s->trees > 0 && s->epochs > 0 && s->hidden > 0 && s->hidden <= 10000 &&
           s->batch > 0 && s->rate > 0;
}

int main(int argc, char **argv)
{
    settings s = {.trees = 1000, .epochs = 6, .hidden = 32, .batch = 4, .rate = 0.03};
    if (!parse(argc, argv, &s)) {
        fprintf(stderr, "usage: recursion [FILE] [--trees N] [--epochs N] [--hidden N] "
                        "[--batch N] [--rate X]\n");
        return 2;
    }
    trees data;
    if (!(s.file ? trees_read(s.file, s.trees, &data) : trees_make(s.trees, 1, &data)))
        return 1;
    tp_ctx *tp = tp_open(&(tp_options){.seed = 5});
    const bool good = run(tp, &s, &data);
    if (tp_error(tp) != TP_OK)
        fprintf(stderr, "recursion: %s\n", tp_error_message(tp));
    tp_close(tp);
    trees_free(&data);
    return !good;
}
