/* A recursive network: a binary Tree-LSTM (Tai and others, 2015) that tells from the tree of a sentence how much its writer
 * liked a film. No two trees are alike; each is walked by plain recursion. In a tp_batch the nodes of all trees of
 * a step that are ready are computed together, and so is the way back: nothing else is said about it here.
 *
 *     recursion [FILE]    trees of the Stanford treebank, or as words in postfix order, see
 *         common/trees.h; without a file it makes some up
 *         --trees N --epochs N --hidden N --batch N
 *         --check         trains as well without the tp_batch, which gives the same bits */
#include "sample_loop.h"
#include "show.h"
#include "trees.h"

#include <stdio.h>

enum { MOST_BATCH = 256, MOST_PARAMS = 7, CHECKED = 32 };

typedef struct model {
    tp_ctx *tp;
    tp_params *params;
    tp_tensor *words;     /* [n_words, hidden] */
    tp_dense leaf, inner; /* hidden -> i o u; 2 * hidden -> i o fl fr u */
    tp_dense out;         /* hidden -> labels */
    tp_function *of_leaf, *of_inner;
    tp_optimizer *adam;
} model;

typedef struct state {
    tp_tensor *h, *c; /* [1, hidden] */
} state;

static tp_tensor *gated(tp_tensor *gate, tp_tensor *x)
{
    return tp_mul(tp_sigmoid(gate), x);
}

/* A word [1, hidden] -> h, c. */
static void leaf_cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *g[3]; /* i o u */
    tp_split(tp_dense_apply(&m->leaf, in[0]), 1, 3, NULL, g);
    out[1] = gated(g[0], tp_tanh(g[2]));
    out[0] = gated(g[1], tp_tanh(out[1]));
}

/* h, c of the left and of the right child -> h, c. */
static void inner_cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *g[5]; /* i o fl fr u */
    tp_tensor *both = tp_concat(2, (tp_tensor *[]){in[0], in[2]}, 1);
    tp_split(tp_dense_apply(&m->inner, both), 1, 5, NULL, g);
    tp_tensor *kept = tp_add(gated(g[2], in[1]), gated(g[3], in[3]));
    out[1] = tp_add(gated(g[0], tp_tanh(g[4])), kept);
    out[0] = gated(g[1], tp_tanh(out[1]));
}

static void model_make(model *m, tp_ctx *tp, int64_t n_words, int64_t hidden)
{
    const tp_function_options pure = {.pure = true};
    tp_params *p = m->params = tp_params_new(tp);
    m->tp = tp;
    m->words =
        tp_params_add(p, "words", tp_normal(tp, TP_F32, TP_DIMS(n_words, hidden), 0, 0.5));
    m->leaf = tp_dense_new(p, "leaf", hidden, 3 * hidden, NULL);
    m->inner = tp_dense_new(p, "inner", 2 * hidden, 5 * hidden, NULL);
    m->out = tp_dense_new(p, "out", hidden, TREE_LABELS, NULL);
    m->of_leaf = tp_function_new(tp, "leaf", leaf_cell, m, &pure);
    m->of_inner = tp_function_new(tp, "inner", inner_cell, m, &pure);
    m->adam = tp_adam_new(tp, 2e-3, NULL, TP_TRAINED(p));
}

static state walk(const model *m, const tree *t, int32_t at)
{
    const tree_node *n = &t->nodes[at];
    tp_tensor *out[2];
    if (n->left < 0) {
        tp_tensor *word = tp_tensor_new(m->tp, TP_I64, TP_DIMS(1), &(int64_t){n->word});
        tp_function_call(m->of_leaf, TP_TENSORS(tp_gather(m->words, word, 0)), 2, out);
    } else {
        const state l = walk(m, t, n->left), r = walk(m, t, n->right);
        tp_function_call(m->of_inner, TP_TENSORS(l.h, l.c, r.h, r.c), 2, out);
    }
    return (state){out[0], out[1]};
}

/* One step on n trees; the mean of their losses, and what is thought of each. */
static tp_tensor *step(const model *m, const tree *t, int64_t n, tp_tensor **guess)
{
    tp_tensor *loss[MOST_BATCH];
    for (int64_t i = 0; i < n; i++) {
        tp_tensor *label = tp_tensor_new(m->tp, TP_I64, TP_DIMS(1), &(int64_t){t[i].label});
        tp_tensor *score = tp_dense_apply(&m->out, walk(m, &t[i], t[i].n_nodes - 1).h);
        loss[i] = tp_cross_entropy(score, label);
        guess[i] = tp_argmax(score, 1, false);
    }
    tp_tensor *mean = tp_mean(tp_stack((int)n, loss, 0), TP_ALL, false);
    tp_optimizer_step(m->adam, mean);
    return mean;
}

/* Goes through all trees; the mean of the losses. */
static double epoch(const model *m, const trees *d, int64_t batch, bool together,
                    int64_t *right)
{
    double loss = 0;
    *right = 0;
    for (int64_t i = 0; i < d->n && tp_error(m->tp) == TP_OK; i += batch) {
        const int64_t n = d->n - i < batch ? d->n - i : batch;
        tp_tensor *guess[MOST_BATCH], *mean = NULL;
        tp_scope_begin(m->tp);
        if (together)
            tp_batch (m->tp)
                mean = step(m, d->v + i, n, guess);
        else
            mean = step(m, d->v + i, n, guess);
        loss += tp_item(mean) * (double)n / (double)d->n;
        for (int64_t k = 0; k < n; k++)
            *right += tp_item_i64(guess[k]) == d->v[i + k].label;
        tp_scope_end(m->tp);
        show_progress("training", i + n, d->n);
    }
    return loss;
}

static bool train(const model *m, const trees *d, int64_t epochs, int64_t batch)
{
    double first = 0, loss = 0;
    tp_batch_measure(m->tp, true);
    for (int64_t e = 0; e < epochs && tp_error(m->tp) == TP_OK; e++) {
        const double start = seconds_now();
        int64_t right;
        loss = epoch(m, d, batch, true, &right);
        first = e ? first : loss;
        printf("epoch %2d   loss %.5f   right %5.1f %%   %6.0f trees/s\n", (int)e + 1, loss,
               100.0 * (double)right / (double)d->n, (double)d->n / (seconds_now() - start));
        fflush(stdout);
        /* The first epoch is measured, and takes longer. */
        if (tp_batch_measure(m->tp, false)) {
            const tp_batch_counts c = tp_batch_counts_of(m->tp);
            printf("  %lld ops and calls by %lld kernels, of at least %lld: quality %.2f\n",
                   (long long)c.ops, (long long)c.kernels, (long long)c.least,
                   (double)c.least / (double)c.kernels);
        }
    }
    if (epochs > 1 && !(loss < first))
        fprintf(stderr, "recursion: it learnt nothing\n");
    return epochs == 1 || loss < first;
}

/* Two models that start alike see the same trees, one of them one op after the other. */
static bool check(const trees *d, int64_t hidden, int64_t batch)
{
    const trees few = {d->n < CHECKED ? d->n : CHECKED, d->n_words, d->v};
    tp_ctx *tp[2];
    model m[2];
    tp_tensor *trained[2][MOST_PARAMS];
    int n = 0;
    for (int k = 0; k < 2; k++) {
        int64_t right;
        tp[k] = tp_open(NULL);
        model_make(&m[k], tp[k], d->n_words, hidden);
        for (int e = 0; e < 2; e++)
            epoch(&m[k], &few, batch, k == 1, &right);
        n = tp_params_n(m[k].params);
        n = n < MOST_PARAMS ? n : MOST_PARAMS;
        for (int i = 0; i < n; i++)
            trained[k][i] = tp_params_tensor(m[k].params, i);
    }
    const bool same = tp_error(tp[0]) == TP_OK && tp_error(tp[1]) == TP_OK &&
                      show_bits_equal(n, trained[0], trained[1]);
    return close_and_tell(tp[0], "recursion", same) +
               close_and_tell(tp[1], "recursion", same) ==
           0;
}

int main(int argc, char **argv)
{
    const char *file;
    bool checks;
    int64_t most = 1000, epochs = 6, hidden = 32, batch = 16, n_nodes = 0;
    const argument arguments[] = {
        {"--trees",  &most  },
        {"--epochs", &epochs},
        {"--hidden", &hidden},
        {"--batch",  &batch }
    };
    if (!read_arguments(argc, argv, 4, arguments, &checks, &file))
        return 2;
    trees data;
    if (!(file ? trees_read(file, most, &data) : trees_make(most, 1, &data)))
        return 1;
    batch = batch < MOST_BATCH ? batch : MOST_BATCH;
    for (int64_t i = 0; i < data.n; i++)
        n_nodes += data.v[i].n_nodes;
    printf("%lld trees of %.1f nodes on average, %d words, hidden size %lld\n",
           (long long)data.n, (double)n_nodes / (double)data.n, (int)data.n_words,
           (long long)hidden);
    tp_ctx *tp = tp_open(NULL);
    model m;
    model_make(&m, tp, data.n_words, hidden);
    bool good = train(&m, &data, epochs, batch);
    good = good && (!checks || check(&data, hidden, batch));
    trees_free(&data);
    return close_and_tell(tp, "recursion", good);
}
