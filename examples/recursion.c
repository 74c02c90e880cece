/* A recursive network: a binary Tree-LSTM (Tai and others, 2015) over trees of which no two are
 * alike, trained eagerly: each sample has a graph of its own, which is what C happened to run.
 *
 *     recursion [FILE]    trees of the Stanford treebank, or as words in postfix order, see
 *         common/trees.h; without a file it makes some up
 *         --trees N --epochs N --hidden N --batch N --rate X
 *         --together    all nodes of one height in a batch at once, instead of one by one */
#include "show.h"
#include "trees.h"
#include <tapir/tapir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BATCH = 64 };

typedef struct model {
    tp_tensor *words;     /* [n_words, hidden] */
    tp_dense leaf, inner; /* hidden -> i o u; 2 * hidden -> i o fl fr u */
    tp_dense out;
} model;

/* What nodes know, a row for each: [n, 2 * hidden], first h, then c. */
static tp_tensor *state(tp_tensor *c, tp_tensor *output_gate)
{
    tp_tensor *h = tp_mul(tp_sigmoid(output_gate), tp_tanh(c));
    return tp_concat(2, (tp_tensor *[]){h, c}, 1);
}

static tp_tensor *leaf_states(tp_ctx *tp, const model *m, int64_t n, const int64_t *words)
{
    tp_tensor *g[3]; /* i o u */
    tp_tensor *x = tp_gather(m->words, tp_tensor_new(tp, TP_I64, TP_DIMS(n), words), 0);
    tp_split(tp_dense_apply(&m->leaf, x), 1, 3, NULL, g);
    return state(tp_mul(tp_sigmoid(g[0]), tp_tanh(g[2])), g[1]);
}

/* h: those of the left and the right child side by side, [n, 2 * hidden]. */
static tp_tensor *inner_states(const model *m, tp_tensor *h, tp_tensor *left_c,
                               tp_tensor *right_c)
{
    tp_tensor *g[5]; /* i o fl fr u */
    tp_split(tp_dense_apply(&m->inner, h), 1, 5, NULL, g);
    tp_tensor *kept =
        tp_add(tp_mul(tp_sigmoid(g[2]), left_c), tp_mul(tp_sigmoid(g[3]), right_c));
    return state(tp_add(tp_mul(tp_sigmoid(g[0]), tp_tanh(g[4])), kept), g[1]);
}

/* ---- one node after the other, as C recursion walks the tree ------------------------------- */

/* leaves: the state of each leaf, in order; *next is the first that was not used yet. */
static tp_tensor *walk(const model *m, const tree *t, int32_t at, tp_tensor **leaves, int *next)
{
    const tree_node *n = &t->nodes[at];
    if (n->left < 0)
        return leaves[(*next)++];
    tp_tensor *l[2], *r[2]; /* h c */
    tp_split(walk(m, t, n->left, leaves, next), 1, 2, NULL, l);
    tp_split(walk(m, t, n->right, leaves, next), 1, 2, NULL, r);
    return inner_states(m, tp_concat(2, (tp_tensor *[]){l[0], r[0]}, 1), l[1], r[1]);
}

/* The states of the roots of n trees [n, 2 * hidden]. */
static tp_tensor *roots_one_by_one(tp_ctx *tp, const model *m, const tree *t, int64_t n)
{
    tp_tensor *roots[MAX_BATCH], *leaves[TREE_LEAVES];
    int64_t words[TREE_LEAVES];
    for (int64_t i = 0; i < n; i++) {
        int n_leaves = 0, next = 0;
        for (int32_t k = 0; k < t[i].n_nodes; k++)
            if (t[i].nodes[k].left < 0)
                words[n_leaves++] = t[i].nodes[k].word;
        tp_split(leaf_states(tp, m, n_leaves, words), 0, n_leaves, NULL, leaves);
        roots[i] = walk(m, &t[i], t[i].n_nodes - 1, leaves, &next);
    }
    return tp_concat((int)n, roots, 0);
}

/* ---- all nodes of one height together -------------------------------------------------------- */

typedef struct place {
    int32_t height; /* 0: a leaf */
    int64_t row;    /* among the states of all */
} place;

static tp_tensor *roots_together(tp_ctx *tp, const model *m, const tree *t, int64_t n)
{
    static place places[MAX_BATCH][2 * TREE_LEAVES];
    static int64_t picked[MAX_BATCH * TREE_LEAVES * 2];
    int32_t highest = 0;
    tp_tensor *all = NULL;
    int64_t n_rows = 0;
    for (int32_t height = 0; height <= highest; height++) {
        int64_t n_picked = 0, first = n_rows;
        for (int64_t i = 0; i < n; i++) {
            for (int32_t k = 0; k < t[i].n_nodes; k++) {
                const tree_node *node = &t[i].nodes[k];
                place *p = &places[i][k];
                if (height == 0 && node->left >= 0) {
                    const int32_t l = p[node->left - k].height, r = p[node->right - k].height;
                    p->height = (l > r ? l : r) + 1;
                    highest = p->height > highest ? p->height : highest;
                } else if (height == 0) {
                    *p = (place){0, n_rows++};
                    picked[n_picked++] = node->word;
                } else if (p->height == height) {
                    p->row = n_rows++;
                    picked[n_picked++] = p[node->left - k].row;
                    picked[n_picked++] = p[node->right - k].row;
                }
            }
        }
        if (height == 0) {
            all = leaf_states(tp, m, n_picked, picked);
            continue;
        }
        tp_tensor *pairs = tp_tensor_new(tp, TP_I64, TP_DIMS(n_rows - first, 2), picked), *s[2];
        tp_split(tp_gather(all, pairs, 0), 2, 2, NULL, s); /* h and c [rows, 2, hidden] */
        tp_tensor *made =
            inner_states(m, tp_flatten(s[0], 1), tp_select(s[1], 1, 0), tp_select(s[1], 1, 1));
        all = tp_concat(2, (tp_tensor *[]){all, made}, 0);
    }
    for (int64_t i = 0; i < n; i++)
        picked[i] = places[i][t[i].n_nodes - 1].row;
    return tp_gather(all, tp_tensor_new(tp, TP_I64, TP_DIMS(n), picked), 0);
}

/* ---- training ---------------------------------------------------------------------------------- */

typedef struct settings {
    const char *file;
    int64_t trees, epochs, hidden, batch;
    double rate;
    bool together;
} settings;

/* One step on the summed loss of n trees. */
static double train(tp_ctx *tp, const settings *s, const model *m, tp_optimizer *o,
                    const tree *t, int64_t n, int64_t *n_right)
{
    int64_t labels[MAX_BATCH], guesses[MAX_BATCH];
    for (int64_t i = 0; i < n; i++)
        labels[i] = t[i].label;
    tp_scope_begin(tp);
    tp_tensor *roots = (s->together ? roots_together : roots_one_by_one)(tp, m, t, n);
    tp_tensor *score = tp_dense_apply(&m->out, tp_slice(roots, 1, 0, s->hidden, 1));
    tp_tensor *mean = tp_cross_entropy(score, tp_tensor_new(tp, TP_I64, TP_DIMS(n), labels));
    tp_tensor *loss = tp_mul(mean, (double)n);
    tp_optimizer_step(o, loss);
    const double value = tp_item(loss);
    if (tp_read(tp_argmax(score, 1, false), guesses, (size_t)n * sizeof *guesses) == TP_OK)
        for (int64_t i = 0; i < n; i++)
            *n_right += guesses[i] == labels[i];
    tp_scope_end(tp);
    return value;
}

static bool run(tp_ctx *tp, const settings *s, const trees *data)
{
    tp_params *params = tp_params_new(tp);
    model m = {.leaf = tp_dense_new(params, "leaf", s->hidden, 3 * s->hidden, NULL),
               .inner = tp_dense_new(params, "inner", 2 * s->hidden, 5 * s->hidden, NULL),
               .out = tp_dense_new(params, "out", s->hidden, TREE_LABELS, NULL)};
    tp_tensor *drawn = tp_normal(tp, TP_F32, TP_DIMS(data->n_words, s->hidden), 0, 1);
    m.words = tp_params_add(params, "words", drawn);
    tp_optimizer *o = tp_sgd_new(tp, s->rate, NULL, TP_TRAINED(params));
    int64_t n_nodes = 0;
    for (int64_t i = 0; i < data->n; i++)
        n_nodes += data->v[i].n_nodes;
    printf("%lld trees of %.1f nodes on average, %d words, hidden size %d\n",
           (long long)data->n, (double)n_nodes / (double)data->n, (int)data->n_words,
           (int)s->hidden);
    double first = 0, loss = 0, best = 0;
    for (int64_t e = 0; e < s->epochs && tp_error(tp) == TP_OK; e++) {
        const double start = seconds_now();
        int64_t right = 0;
        loss = 0;
        for (int64_t i = 0; i < data->n && tp_error(tp) == TP_OK; i += s->batch) {
            const int64_t n = data->n - i < s->batch ? data->n - i : s->batch;
            loss += train(tp, s, &m, o, data->v + i, n, &right);
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
        if (strcmp(name, "--together") == 0) {
            s->together = true;
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
           s->batch > 0 && s->batch <= MAX_BATCH && s->rate > 0;
}

int main(int argc, char **argv)
{
    settings s = {.trees = 1000, .epochs = 6, .hidden = 32, .batch = 4, .rate = 0.03};
    if (!parse(argc, argv, &s)) {
        fprintf(stderr, "usage: recursion [FILE] [--trees N] [--epochs N] [--hidden N] "
                        "[--batch N] [--rate X] [--together]\n");
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
