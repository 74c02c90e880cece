/* tp_batch: trees of any form, with gradients and optimisers: the bits are those without it. What flushes, what waits for
 * nothing, what is computed as one, mistakes and memory. */
#include "forest.h"

#include <inttypes.h>

/* ---- a network over trees ------------------------------------------------------------------------------------- */

typedef struct net {
    tp_tensor *words, *w_left, *w_right, *b, *gate, *out, *out_b;
    tp_optimizer *o;
    int64_t nodes;
} net;

static net net_of(tp_ctx *tp)
{
    uint64_t s = 7;
    net m = {.words = parameter(tp, &s, "words", TP_DIMS(WORDS, WIDTH)),
             .w_left = parameter(tp, &s, "left", TP_DIMS(WIDTH, WIDTH)),
             .w_right = parameter(tp, &s, "right", TP_DIMS(WIDTH, WIDTH)),
             .b = parameter(tp, &s, "b", TP_DIMS(WIDTH)),
             .gate = parameter(tp, &s, "gate", TP_DIMS(WIDTH, WIDTH)),
             .out = parameter(tp, &s, "out", TP_DIMS(WIDTH, CLASSES)),
             .out_b = parameter(tp, &s, "out_b", TP_DIMS(CLASSES))};
    m.o =
        tp_adam_new(tp, 0.05, NULL, 7,
                    (tp_tensor *[]){m.words, m.w_left, m.w_right, m.b, m.gate, m.out, m.out_b});
    return m;
}

static tp_tensor *integer(tp_ctx *tp, int64_t v)
{
    return tp_tensor_new(tp, TP_I64, 1, (int64_t[]){1}, &v);
}

/* [1, WIDTH] of a node, and its loss is added to *loss. */
static tp_tensor *state_of(net *m, const tree *t, tp_tensor **loss)
{
    tp_ctx *tp = tp_ctx_of(m->b);
    tp_tensor *h;
    m->nodes++;
    if (t->left) {
        tp_tensor *l = state_of(m, t->left, loss), *r = state_of(m, t->right, loss);
        h = tp_add(tp_add(tp_matmul(l, m->w_left), tp_matmul(r, m->w_right)), m->b);
        tp_tensor *g = tp_sigmoid(tp_matmul(l, m->gate));
        h = tp_add(tp_mul(g, tp_tanh(h)), tp_mul(tp_sub(1, g), r));
    } else {
        h = tp_tanh(tp_gather(m->words, integer(tp, t->word), 0));
    }
    tp_tensor *scores = tp_add(tp_matmul(h, m->out), m->out_b);
    tp_tensor *own = tp_cross_entropy(scores, integer(tp, t->label));
    *loss = *loss ? tp_add(*loss, own) : own;
    return h;
}

enum { TREES = 8, NODES = 4000 };

static tp_tensor *step(net *m, tree *const *trees)
{
    tp_tensor *loss[TREES];
    for (int i = 0; i < TREES; i++) {
        loss[i] = NULL;
        state_of(m, trees[i], &loss[i]);
    }
    tp_tensor *all = tp_mean(tp_stack(TREES, loss, 0), TP_ALL, false);
    tp_tensor *done = tp_optimizer_step(m->o, all);
    return tp_failed(done) ? done : all;
}

/* Losses and parameters of some steps, as bytes. */
static float *train(tp_ctx *tp, bool batched, int steps, size_t *n)
{
    net m = net_of(tp);
    static tree nodes[NODES];
    float *v = malloc(10000 * sizeof *v);
    uint64_t seed = 99;
    assert_non_null(v);
    *n = 0;
    for (int i = 0; i < steps; i++) {
        tree *free_node = nodes, *trees[TREES];
        for (int k = 0; k < TREES; k++)
            trees[k] = grow(&seed, 6, &free_node);
        tp_scope_begin(tp);
        tp_tensor *loss = NULL;
        if (batched)
            tp_batch (tp) {
                loss = step(&m, trees);
            }
        else
            loss = step(&m, trees);
        if (tp_failed(loss))
            fail_msg("step %d: %s", i, tp_error_message(tp));
        v[(*n)++] = (float)tp_item(loss);
        tp_scope_end(tp);
    }
    tp_tensor *const all[] = {m.words, m.w_left, m.w_right, m.b, m.gate, m.out, m.out_b};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tp_read(all[i], v + *n, (size_t)tp_count(all[i]) * sizeof *v);
        *n += (size_t)tp_count(all[i]);
    }
    tp_optimizer_free(m.o);
    return v;
}

static void trees_train_as_one_by_one(void **state)
{
    tp_ctx *tp = *state;
    size_t n, m;
    float *want = train(tp, false, 20, &n), *got = train(tp, true, 20, &m);
    assert_int_equal(n, m);
    expect_equal(got, want, n);
    free(want);
    free(got);
    const tp_batch_counts c = tp_batch_counts_of(tp);
    if (c.kernels * 5 > c.ops)
        fail_msg("%" PRId64 " ops were computed by %" PRId64 " kernels, %" PRId64 " alone",
                 c.ops, c.kernels, c.alone);
}

/* Whatever the budget, and so when what waits is computed. */
static void budgets(void **state)
{
    tp_ctx *tp = *state;
    size_t n, m;
    float *want = train(tp, false, 3, &n);
    const size_t was = tp_batch_budget(tp, 0);
    assert_true(was > 0);
    for (size_t bytes = 0; bytes < 100000; bytes = bytes * 7 + 100) {
        tp_batch_budget(tp, bytes);
        float *got = train(tp, true, 3, &m);
        expect_equal(got, want, n);
        free(got);
    }
    assert_true(tp_batch_budget(tp, was) > 0);
    free(want);
}

/* ---- what is computed as one --------------------------------------------------------------------------------- */

static tp_tensor *row(tp_ctx *tp, int n, double from)
{
    float v[16];
    for (int i = 0; i < n; i++)
        v[i] = (float)(from + 0.25 * i);
    return tp_tensor_new(tp, TP_F32, 1, (int64_t[]){n}, v);
}

static void alike_ops_are_one(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *y[10], *first[10];
    for (int i = 0; i < 10; i++)
        first[i] = row(tp, 4 + i % 2, i);
    tp_batch (tp) {
        for (int i = 0; i < 10; i++)
            y[i] = tp_exp(tp_mul(first[i], 2));
    }
    const tp_batch_counts c = tp_batch_counts_of(tp);
    assert_int_equal(c.ops, 20);
    assert_int_equal(c.kernels, 4); /* of two ops and sizes */
    assert_int_equal(c.least, 0);   /* nobody measured */
    assert_int_equal(c.alone, 0);
    for (int i = 0; i < 10; i++) {
        tp_tensor *want = tp_exp(tp_mul(first[i], 2));
        assert_memory_equal(tp_data(y[i]), tp_data(want), (size_t)tp_count(want) * 4);
    }
}

/* Samples of 1 to 8 steps: what is done with the last state of each is done once for all, and no better order is there. */
static void what_comes_last_waits_for_all(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *y[8];
    const bool was = tp_batch_measure(tp, true);
    tp_batch (tp) {
        for (int i = 0; i < 8; i++) {
            tp_tensor *h = row(tp, 4, i);
            for (int k = 0; k <= i; k++)
                h = tp_tanh(tp_mul(h, 0.5));
            y[i] = tp_cos(tp_sin(h));
        }
    }
    const tp_batch_counts c = tp_batch_counts_of(tp);
    assert_false(was);
    assert_int_equal(c.ops, 2 * 36 + 16);
    assert_int_equal(c.kernels, 2 * 8 + 2);
    assert_int_equal(c.least, c.kernels);
    assert_int_equal(tp_count(y[7]), 4);
}

static void what_nobody_holds_is_not_computed(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = row(tp, 4, 0), *kept = NULL;
    tp_batch (tp) {
        tp_scope_begin(tp);
        tp_tensor *y = tp_exp(x);
        tp_sin(y);
        kept = tp_keep(tp_cos(y));
        tp_scope_end(tp);
    }
    assert_int_equal(tp_batch_counts_of(tp).ops, 2);
    assert_false(tp_failed(kept));
}

static void weights_are_not_copied(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_full(tp, TP_F32, TP_DIMS(64, 64), 0.5), "w"), *y[32];
    const size_t before = tp_memory_bytes(tp);
    tp_batch (tp) {
        for (int i = 0; i < 32; i++)
            y[i] = tp_matmul(tp_full(tp, TP_F32, TP_DIMS(1, 64), i), w);
    }
    assert_int_equal(tp_batch_counts_of(tp).kernels, 1);
    assert_true(tp_memory_bytes(tp) - before < 16 * 64 * 64 * 4);
    assert_true(tp_item(tp_select(tp_flatten(y[3], 0), 0, 5)) == 96);
}

/* ---- looks, assignments, blocks, functions ----------------------------------------------------------------- */

static void looks_and_assignments_see_what_came_before(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *v = tp_variable(tp_scalar(tp, TP_F32, 3), "v"), *a = NULL, *b = NULL;
    double seen = 0;
    tp_batch (tp) {
        a = tp_mul(v, 2);
        tp_assign(v, tp_add(v, 1));
        b = tp_mul(v, 2);
        seen = tp_item(b);
        tp_assign(v, tp_add(b, a));
    }
    assert_true(seen == 8);
    assert_true(tp_item(a) == 6);
    assert_true(tp_item(v) == 14);
}

static void views_and_their_operands(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_reshape(row(tp, 12, 1), TP_DIMS(3, 4)), *y[3], *all = NULL;
    tp_batch (tp) {
        tp_tensor *t = tp_transpose(tp_exp(x), TP_DIMS(1, 0));
        for (int i = 0; i < 3; i++)
            y[i] = tp_sum(tp_slice(t, 1, i, i + 1, 1), TP_ALL, false);
        all = tp_reshape(t, TP_DIMS(2, 6));
    }
    tp_tensor *t = tp_transpose(tp_exp(x), TP_DIMS(1, 0)), *want = tp_reshape(t, TP_DIMS(2, 6));
    assert_memory_equal(tp_data(tp_contiguous(all)), tp_data(tp_contiguous(want)), 48);
    for (int i = 0; i < 3; i++)
        assert_true(tp_item(y[i]) ==
                    tp_item(tp_sum(tp_slice(t, 1, i, i + 1, 1), TP_ALL, false)));
}

static void twice(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_ctx *tp = user;
    (void)n_in, (void)n_out;
    tp_batch (tp) {
        out[0] = tp_mul(in[0], 2);
    }
}

static void with_captured_functions_and_blocks(void **state)
{
    tp_ctx *tp = *state;
    tp_function *f = tp_function_new(tp, "twice", twice, tp, NULL);
    tp_tensor *x = row(tp, 4, 1), *y = NULL, *z = NULL;
    for (int i = 0; i < 4; i++) {
        tp_batch (tp) {
            tp_batch (tp) {
                y = tp_add(tp_function_apply(f, 1, &x), 1);
            }
            z = tp_function_apply(f, 1, &y);
        }
        assert_true(tp_item(tp_select(z, 0, 0)) == 6);
        assert_true(tp_item(tp_select(tp_function_apply(f, 1, &x), 0, 0)) == 2);
    }
    tp_function_free(f);
    tp_tensor *h = tp_scalar(tp, TP_F32, 1);
    tp_batch (tp) {
        tp_while (tp_lt(h, 100), &h) {
            h = tp_mul(h, 3);
        }
        tp_if (tp_gt(h, 200), &h) {
            h = tp_neg(h);
        }
    }
    assert_true(tp_item(h) == -243);
}

static bool left_by_return(tp_ctx *tp, tp_tensor *x, tp_tensor **y)
{
    tp_batch (tp) {
        *y = tp_mul(x, 2);
        if (tp_rank(*y) == 1)
            return true;
    }
    return false;
}

static void a_block_may_be_left(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = row(tp, 4, 1), *y = NULL;
    assert_true(left_by_return(tp, x, &y));
    assert_null(tp->frame);
    assert_true(tp_item(tp_select(y, 0, 0)) == 2);
    for (int i = 0; i < 3; i++)
        tp_batch (tp) {
            y = tp_mul(y, 2);
            if (i == 1)
                break;
        }
    assert_true(tp_item(tp_select(y, 0, 0)) == 16);
}

/* Memory of the user's is read when the op is called. */
static void wrapped_memory_is_read_at_once(void **state)
{
    tp_ctx *tp = *state;
    float mine[2] = {1, 2};
    tp_tensor *y = NULL;
    tp_batch (tp) {
        tp_tensor *x = tp_tensor_wrap(tp, TP_F32, 1, (int64_t[]){2}, mine, NULL, NULL);
        y = tp_mul(x, 10);
        mine[0] = 7;
    }
    assert_true(tp_item(tp_select(y, 0, 0)) == 10);
}

/* ---- mistakes ------------------------------------------------------------------------------------------------ */

static void mistakes_have_their_line(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = row(tp, 4, 1), *good = NULL, *bad = NULL, *after = NULL;
    tp_batch (tp) {
        bad = tp_add(x, row(tp, 3, 0));
        assert_true(tp_failed(bad)); /* at once */
        EXPECT_ERROR_WITH(tp, TP_E_SHAPE, "batch_queue.c");
        good = tp_exp(x);
        after = tp_add(bad, good);
    }
    assert_false(tp_failed(good));
    assert_true(tp_failed(after));
    tp_clear_error(tp);
    tp_tensor *y[5];
    tp_batch (tp) {
        for (int i = 0; i < 5; i++)
            y[i] = tp_gather(x, integer(tp, i == 3 ? 9 : i - 1), 0);
        after = tp_neg(y[3]);
    }
    for (int i = 0; i < 5; i++)
        assert_int_equal(tp_failed(y[i]), i == 3);
    assert_true(tp_failed(after));
    EXPECT_ERROR_WITH(tp, TP_E_VALUE, "9");
    assert_true(tp_item(tp_select(y[2], 0, 0)) == 1.25);
}

/* An index that waits itself: told at the latest where something is that fails with its operands. */
static void what_stands_for_others_fails_with_them(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = row(tp, 4, 1), *both = NULL;
    tp_batch (tp) {
        tp_tensor *index = tp_add(integer(tp, 4), integer(tp, 3));
        both = tp_group(2, (tp_tensor *[]){tp_exp(x), tp_gather(x, index, 0)});
        assert_true(tp_failed(both));
    }
    EXPECT_ERROR_WITH(tp, TP_E_VALUE, "index 7");
}

static void no_context(void **state)
{
    (void)state;
    int turns = 0;
    tp_batch (NULL)
        turns++;
    assert_int_equal(turns, 1);
    assert_int_equal(tp_batch_budget(NULL, 5), 0);
    assert_int_equal(tp_batch_counts_of(NULL).ops, 0);
}

static void a_block_left_open_is_closed(void **state)
{
    (void)state;
    unit_memory memory = {0};
    tp_ctx *tp = unit_open(&memory);
    tp_batch_block b = tp_batch_begin(tp);
    assert_true(tp_batch_next(&b));
    tp_exp(row(tp, 4, 0));
    unit_close(tp, &memory);
}

static long calls_with(long fail_at, bool once)
{
    unit_memory memory = {0};
    tp_ctx *tp = unit_open(&memory);
    assert_non_null(tp);
    net m = net_of(tp);
    static tree nodes[NODES];
    tree *free_node = nodes, *trees[TREES];
    uint64_t seed = 5;
    for (int k = 0; k < TREES; k++)
        trees[k] = grow(&seed, 1, &free_node);
    const long before = memory.calls;
    unit_fail(&memory, fail_at, once);
    tp_tensor *loss = NULL;
    tp_batch (tp) {
        loss = step(&m, trees);
    }
    const long calls = memory.calls - before;
    unit_fail(&memory, 0, false);
    if (tp_failed(loss) && tp_error(tp) != TP_E_MEMORY)
        fail_msg("allocation %ld%s: %s", fail_at, once ? " alone" : "", tp_error_message(tp));
    tp_optimizer_free(m.o);
    unit_close(tp, &memory);
    return calls;
}

static void memory_runs_out(void **state)
{
    (void)state;
    unit_fail_each(calls_with, 400);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(trees_train_as_one_by_one),
        CASE(budgets),
        CASE(alike_ops_are_one),
        CASE(what_comes_last_waits_for_all),
        CASE(what_nobody_holds_is_not_computed),
        CASE(weights_are_not_copied),
        CASE(looks_and_assignments_see_what_came_before),
        CASE(views_and_their_operands),
        CASE(with_captured_functions_and_blocks),
        CASE(a_block_may_be_left),
        CASE(wrapped_memory_is_read_at_once),
        CASE(mistakes_have_their_line),
        CASE(what_stands_for_others_fails_with_them),
        CASE(no_context),
        cmocka_unit_test(a_block_left_open_is_closed),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
