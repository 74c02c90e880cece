/* SPINN (Bowman and others, 2016): a network that reads a sentence word by word, builds the tree of its parse with what it has
 * read, and tells from that how much the writer liked a film. In each turn it says whether the next word goes on the stack or
 * the two trees on top of it become one, and does what it says, while it learns too. So each sentence takes a way of its
 * own, that depends on values: plain C says so, and tp_batch_each runs many side by side.
 *
 *     spinn [FILE]        trees of the Stanford treebank, or as words in postfix order, see
 *         common/trees.h; without a file it makes some up
 *         --trees N --epochs N --hidden N --batch N
 *         --check         trains as well in a loop over the sentences, which gives the same bits */
#include "sample_loop.h"
#include "show.h"
#include "trees.h"

#include <stdio.h>

enum { MOST_BATCH = 64, MOST_PARAMS = 12, MOST_WORDS = 80, CHECKED = 24 };

typedef struct model {
    tp_params *params;
    tp_tensor *words; /* [n_words, hidden] */
    tp_dense leaf, join, track, turn, out;
    tp_function *of_leaf, *of_join, *of_turn;
    tp_optimizer *adam;
} model;

typedef struct state {
    tp_tensor *h, *c; /* [1, hidden] */
} state;

/* Gates i o f... and a candidate u, and the cells that the f's keep -> h, c. */
static void lstm(int n_kept, tp_tensor *gates, tp_tensor *const *kept, tp_tensor **out)
{
    tp_tensor *g[5];
    tp_split(gates, 1, 3 + n_kept, NULL, g);
    out[1] = tp_mul(tp_sigmoid(g[0]), tp_tanh(g[2]));
    for (int i = 0; i < n_kept; i++)
        out[1] = tp_add(out[1], tp_mul(tp_sigmoid(g[3 + i]), kept[i]));
    out[0] = tp_mul(tp_sigmoid(g[1]), tp_tanh(out[1]));
}

/* A word [1, hidden] -> h, c. */
static void leaf_cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    lstm(0, tp_dense_apply(&((model *)user)->leaf, in[0]), NULL, out);
}

/* c of two trees; h of both, and of the tracker -> h, c of one. */
static void join_cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    lstm(2, tp_dense_apply(&((model *)user)->join, tp_concat(3, in + 2, 1)), in, out);
}

/* c of the tracker; its h, and those of the next word and of the two trees on top -> h, c, and scores of both turns. */
static void turn_cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    lstm(1, tp_dense_apply(&m->track, tp_concat(4, in + 1, 1)), in, out);
    out[2] = tp_dense_apply(&m->turn, out[0]); /* [1, 2]: shift, reduce */
}

static void model_make(model *m, tp_ctx *tp, int64_t n_words, int64_t hidden)
{
    const tp_function_options pure = {.pure = true};
    tp_params *p = tp_params_new(tp);
    *m = (model){.params = p,
                 .words = tp_params_add(
                     p, "words", tp_normal(tp, TP_F32, TP_DIMS(n_words, hidden), 0, 0.5)),
                 .leaf = tp_dense_new(p, "leaf", hidden, 3 * hidden, NULL),
                 .join = tp_dense_new(p, "join", 3 * hidden, 5 * hidden, NULL),
                 .track = tp_dense_new(p, "track", 4 * hidden, 4 * hidden, NULL),
                 .turn = tp_dense_new(p, "turn", hidden, 2, NULL),
                 .out = tp_dense_new(p, "out", hidden, TREE_LABELS, NULL)};
    m->of_leaf = tp_function_new(tp, "leaf", leaf_cell, m, &pure);
    m->of_join = tp_function_new(tp, "join", join_cell, m, &pure);
    m->of_turn = tp_function_new(tp, "turn", turn_cell, m, &pure);
    m->adam = tp_adam_new(tp, 2e-3, NULL, TP_TRAINED(p));
}

/* Sentences of one step. */
typedef struct batch {
    tp_ctx *tp;
    const model *m;
    const tree *v;
    tp_tensor *loss[MOST_BATCH];
    int64_t right, as_taught, turns;
} batch;

static tp_tensor *label_of(const batch *b, int64_t label)
{
    return tp_tensor_new(b->tp, TP_I64, TP_DIMS(1), &label);
}

/* The words of a sentence, and in front of them the empty stack. */
static int leaves(const batch *b, const tree *t, state *to)
{
    int n = 0;
    for (int k = 0; k < t->n_nodes; k++)
        if (t->nodes[k].left < 0) {
            tp_tensor *out[2], *word = tp_gather(b->m->words, label_of(b, t->nodes[k].word), 0);
            tp_function_call(b->m->of_leaf, TP_TENSORS(word), 2, out);
            to[n++] = (state){out[0], out[1]};
        }
    return n;
}

/* Reads sentence i; its loss. */
static void parse(void *user, int64_t i)
{
    batch *b = user;
    const model *m = b->m;
    const tree *t = &b->v[i];
    state word[MOST_WORDS], stack[MOST_WORDS + 2], now;
    tp_tensor *out[3], *loss = tp_scalar(b->tp, TP_F32, 0);
    const int n_words = leaves(b, t, word);
    int next = 0, top = 1, as_taught = 0;
    now.h = now.c = tp_full(b->tp, TP_F32, TP_DIMS(1, tp_size(m->words, 1)), 0);
    stack[0] = stack[1] = now;
    for (int k = 0; k < t->n_nodes; k++) {
        const state *two = stack + top - 1;
        tp_tensor *ahead = next < n_words ? word[next].h : stack[0].h;
        tp_function_call(m->of_turn, TP_TENSORS(now.c, now.h, ahead, two[0].h, two[1].h), 3,
                         out);
        now = (state){out[0], out[1]};
        const bool may_shift = next<n_words, may_join = top> 2;
        const bool taught = t->nodes[k].left >= 0;
        bool joins = may_join;
        if (may_shift && may_join) {
            tp_tensor *score = tp_reshape(out[2], TP_DIMS(2));
            loss = tp_add(loss, tp_cross_entropy(out[2], label_of(b, taught)));
            joins = tp_truth(tp_gt(tp_select(score, 0, 1), tp_select(score, 0, 0)));
        }
        as_taught += joins == taught;
        if (joins) {
            tp_function_call(m->of_join,
                             TP_TENSORS(two[0].c, two[1].c, two[0].h, two[1].h, now.h), 2, out);
            stack[--top] = (state){out[0], out[1]};
        } else {
            stack[++top] = word[next++];
        }
    }
    tp_tensor *score = tp_dense_apply(&m->out, stack[top].h);
    b->loss[i] = tp_add(tp_cross_entropy(score, label_of(b, t->label)),
                        tp_div(loss, (double)t->n_nodes));
    const bool right = tp_item_i64(tp_argmax(score, 1, false)) == t->label;
    b->right += right; /* without a look between reading and writing it */
    b->as_taught += as_taught;
    b->turns += t->n_nodes;
}

/* One step on n sentences; the mean of their losses. */
static tp_tensor *step(batch *b, int64_t n, bool together)
{
    if (together)
        tp_batch_each(b->tp, n, parse, b);
    for (int64_t i = 0; i < n && !together; i++)
        parse(b, i);
    tp_tensor *mean = tp_mean(tp_stack((int)n, b->loss, 0), TP_ALL, false);
    tp_optimizer_step(b->m->adam, mean);
    return mean;
}

/* Goes through all trees; the mean of the losses. */
static double epoch(batch *b, const trees *d, int64_t size, bool together)
{
    double loss = 0;
    b->right = b->as_taught = b->turns = 0;
    for (int64_t i = 0; i < d->n && tp_error(b->tp) == TP_OK; i += size) {
        const int64_t n = d->n - i < size ? d->n - i : size;
        tp_tensor *mean = NULL;
        b->v = d->v + i;
        tp_scope_begin(b->tp);
        if (together)
            tp_batch (b->tp)
                mean = step(b, n, true);
        else
            mean = step(b, n, false);
        loss += tp_item(mean) * (double)n / (double)d->n;
        tp_scope_end(b->tp);
        show_progress("training", i + n, d->n);
    }
    return loss;
}

static bool train(batch *b, const trees *d, int64_t epochs, int64_t size)
{
    double first = 0, loss = 0;
    tp_batch_measure(b->tp, true);
    for (int64_t e = 0; e < epochs && tp_error(b->tp) == TP_OK; e++) {
        const double start = seconds_now();
        loss = epoch(b, d, size, true);
        first = e ? first : loss;
        printf("epoch %2d   loss %.4f   right %5.1f %%   turns as taught %5.1f %%   %6.0f "
               "sentences/s\n",
               (int)e + 1, loss, 100.0 * (double)b->right / (double)d->n,
               100.0 * (double)b->as_taught / (double)b->turns,
               (double)d->n / (seconds_now() - start));
        /* The first epoch is measured, and takes longer. */
        if (tp_batch_measure(b->tp, false)) {
            const tp_batch_counts c = tp_batch_counts_of(b->tp);
            printf("  %lld ops and calls by %lld kernels, of at least %lld: quality %.2f; "
                   "samples waited %lld times\n",
                   (long long)c.ops, (long long)c.kernels, (long long)c.least,
                   (double)c.least / (double)c.kernels, (long long)c.waits);
        }
    }
    if (epochs > 1 && !(loss < first))
        fprintf(stderr, "spinn: it learnt nothing\n");
    return epochs == 1 || loss < first;
}

/* Two models that start alike read the same sentences, one of them one after the other. */
static bool check(const trees *d, int64_t hidden, int64_t size)
{
    const trees few = {d->n < CHECKED ? d->n : CHECKED, d->n_words, d->v};
    batch b[2];
    model m[2];
    tp_tensor *trained[2][MOST_PARAMS];
    int n = 0;
    for (int k = 0; k < 2; k++) {
        b[k] = (batch){.tp = tp_open(NULL), .m = &m[k]};
        model_make(&m[k], b[k].tp, d->n_words, hidden);
        for (int e = 0; e < 2; e++)
            epoch(&b[k], &few, size, k == 1);
        n = tp_params_n(m[k].params);
        for (int i = 0; i < n && i < MOST_PARAMS; i++)
            trained[k][i] = tp_params_tensor(m[k].params, i);
    }
    const bool same =
        tp_error(b[0].tp) == TP_OK && tp_error(b[1].tp) == TP_OK &&
        show_bits_equal(n < MOST_PARAMS ? n : MOST_PARAMS, trained[0], trained[1]);
    return close_and_tell(b[0].tp, "spinn", same) + close_and_tell(b[1].tp, "spinn", same) == 0;
}

/* Those that have a place on the stack. */
static void drop_long(trees *d)
{
    int64_t n = 0;
    for (int64_t i = 0; i < d->n; i++) {
        const tree t = d->v[i];
        d->v[i] = d->v[n];
        d->v[n] = t;
        n += t.n_nodes < 2 * MOST_WORDS;
    }
    d->n = n;
}

int main(int argc, char **argv)
{
    const char *file;
    bool checks;
    int64_t most = 400, epochs = 4, hidden = 32, size = 32;
    const argument arguments[] = {
        {"--trees",  &most  },
        {"--epochs", &epochs},
        {"--hidden", &hidden},
        {"--batch",  &size  }
    };
    if (!read_arguments(argc, argv, 4, arguments, &checks, &file))
        return 2;
    trees data;
    if (!(file ? trees_read(file, most, &data) : trees_make(most, 1, &data)))
        return 1;
    drop_long(&data);
    size = size < MOST_BATCH ? size : MOST_BATCH;
    model m;
    batch b = {.tp = tp_open(NULL), .m = &m};
    model_make(&m, b.tp, data.n_words, hidden);
    printf("%lld sentences, %d words, hidden size %lld\n", (long long)data.n, (int)data.n_words,
           (long long)hidden);
    bool good = train(&b, &data, epochs, size);
    good = good && (!checks || check(&data, hidden, size));
    trees_free(&data);
    return close_and_tell(b.tp, "spinn", good);
}
