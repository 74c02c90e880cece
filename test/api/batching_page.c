/* All that docs/batching.md has: its functions and lines as they stand there. That nothing is missing here is looked at by
 * tools/check_docs.sh. */
#include <tapir/tapir.h>

#include <stdio.h>

typedef struct tree {
    const struct tree *left, *right; /* NULL: a leaf */
    int64_t word;
} tree;

typedef struct model {
    tp_ctx *tp;
    tp_tensor *words, *w_left, *w_right;
    tp_function *cell;
} model;

static tp_tensor *word_of(const model *m, const tree *t)
{
    return tp_tensor_new(m->tp, TP_I64, 1, (int64_t[]){1}, &t->word);
}

/* [1, width], of a tree and all that is in it */
static tp_tensor *state_of(const model *m, const tree *t)
{
    if (!t->left)
        return tp_gather(m->words, word_of(m, t), 0);
    tp_tensor *l = state_of(m, t->left), *r = state_of(m, t->right);
    return tp_tanh(tp_add(tp_matmul(l, m->w_left), tp_matmul(r, m->w_right)));
}

/* h of both children -> h */
static void cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const model *m = user;
    (void)n_in, (void)n_out;
    out[0] = tp_tanh(tp_add(tp_matmul(in[0], m->w_left), tp_matmul(in[1], m->w_right)));
}

static tp_tensor *state_by_cell(const model *m, const tree *t)
{
    if (!t->left)
        return tp_gather(m->words, word_of(m, t), 0);
    tp_tensor *l = state_by_cell(m, t->left), *r = state_by_cell(m, t->right);
    return tp_function_apply(m->cell, TP_TENSORS(l, r));
}

enum { N = 5 };

static tp_tensor *cells_in(const model *m, const tree *t)
{
    return tp_mean(tp_square(state_by_cell(m, t)), TP_ALL, false);
}

/* The same in a block or without. */
static void by_cells(bool batched, const model *m, tp_optimizer *o, int n,
                     const tree *const *trees, tp_tensor **loss)
{
    tp_batch_block b = batched ? tp_batch_begin(m->tp) : (tp_batch_block){0};
    for (int i = 0; i < n; i++)
        loss[i] = cells_in(m, trees[i]);
    tp_optimizer_step(o, tp_mean(tp_stack(n, loss, 0), TP_ALL, false));
    if (batched)
        tp_batch_left(&b);
}

static void together(tp_ctx *tp, model m, tp_optimizer *o, int n, const tree *const *trees,
                     tp_tensor **loss)
{
    tp_batch (tp) {
        for (int i = 0; i < n; i++)
            loss[i] = tp_mean(tp_square(state_of(&m, trees[i])), TP_ALL, false);
        tp_optimizer_step(o, tp_mean(tp_stack(n, loss, 0), TP_ALL, false));
    }
}

static void one_by_one(model m, tp_optimizer *o, int n, const tree *const *trees,
                       tp_tensor **loss)
{
    for (int i = 0; i < n; i++)
        loss[i] = tp_mean(tp_square(state_of(&m, trees[i])), TP_ALL, false);
    tp_optimizer_step(o, tp_mean(tp_stack(n, loss, 0), TP_ALL, false));
}

/* A loss after a few steps; 0: something failed. */
static double train(bool cells, bool batched)
{
    static const tree a = {.word = 0}, b = {.word = 1}, c = {.word = 2}, ab = {&a, &b, 0},
                      bc = {&b, &c, 0}, ab_c = {&ab, &c, 0}, all = {&ab_c, &bc, 0};
    const tree *const trees[N] = {&ab, &all, &ab_c, &bc, &a};
    tp_ctx *tp = tp_open(&(tp_options){.seed = 3});
    model m = {.tp = tp,
               .words = tp_param(tp_normal(tp, TP_F32, TP_DIMS(3, 8), 0, 1), "words"),
               .w_left = tp_param(tp_normal(tp, TP_F32, TP_DIMS(8, 8), 0, 0.5), "left"),
               .w_right = tp_param(tp_normal(tp, TP_F32, TP_DIMS(8, 8), 0, 0.5), "right")};
    m.cell = tp_function_new(tp, "cell", cell, &m, &(tp_function_options){.pure = true});
    tp_optimizer *o =
        tp_adam_new(tp, 0.01, NULL, 3, (tp_tensor *[]){m.words, m.w_left, m.w_right});
    tp_tensor *loss[N];
    for (int step = 0; step < 5; step++)
        if (cells)
            by_cells(batched, &m, o, N, trees, loss);
        else if (batched)
            together(tp, m, o, N, trees, loss);
        else
            one_by_one(m, o, N, trees, loss);
    const double last = tp_failed(loss[1]) ? 0 : tp_item(loss[1]);
    if (batched && tp_batch_counts_of(tp).kernels >= tp_batch_counts_of(tp).ops)
        printf("nothing was computed together\n");
    if (cells && batched && tp_function_stats_of(m.cell).user_calls > 1)
        printf("the cell is none\n");
    tp_optimizer_free(o);
    tp_close(tp);
    return last;
}

typedef struct roots {
    tp_tensor *of[N], *root[N];
} roots;

/* Newton's method for the square root of each; how many steps it takes is told by its values. */
static void find_root(void *user, int64_t i)
{
    roots *r = user;
    tp_tensor *x = r->of[i];
    while (tp_truth(tp_gt(tp_abs(tp_sub(tp_square(x), r->of[i])), 1e-9)))
        x = tp_mul(tp_add(x, tp_div(r->of[i], x)), 0.5);
    r->root[i] = x;
}

/* The roots of 1, 4, 9, ...; false: they are not. */
static bool finds_roots(void)
{
    enum { n = N };
    tp_ctx *tp = tp_open(NULL);
    roots r;
    bool good = true;
    for (int i = 0; i < n; i++)
        r.of[i] = tp_scalar(tp, TP_F64, (i + 1) * (i + 1));
    tp_batch_each(tp, n, find_root, &r);
    for (int i = 0; i < n && good; i++)
        good = tp_item(tp_abs(tp_sub(r.root[i], i + 1))) < 1e-9;
    if (tp_batch_counts_of(tp).waits == 0)
        printf("no sample waited\n");
    tp_close(tp);
    return good;
}

int main(void)
{
    bool wrong = !finds_roots();
    for (int cells = 0; cells < 2; cells++) {
        const double want = train(cells, false), got = train(cells, true);
        if (want == 0 || want != got)
            printf("batching_page%s: %.9g, not %.9g\n", cells ? ", cells" : "", got, want);
        wrong |= want == 0 || want != got;
    }
    return wrong;
}
