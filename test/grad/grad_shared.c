/* Gradients of a matrix that several products share: against difference quotients, the same bits
 * eagerly and in graphs, and without memory. */
#include "common/unit.h"
#include "tapir/graph.h"
#include "tapir/nn.h"
#include "tapir/random.h"

enum { SIZE = 5, ROWS = 3 };

/* Four steps of a recurrence, another use of w that is no product, and one on the left. */
static tp_tensor *recurrence(void *user, int n, tp_tensor *const *in)
{
    (void)user, (void)n;
    tp_tensor *x = in[0], *w = in[1], *h = x;
    for (int i = 0; i < 4; i++)
        h = tp_tanh(tp_add(tp_matmul(h, w), x));
    tp_tensor *y = tp_sum(tp_square(h), TP_ALL, false);
    y = tp_add(y, tp_sum(tp_sin(w), TP_ALL, false));
    return tp_add(y, tp_sum(tp_matmul(w, tp_matmul(w, tp_swap(x, 0, 1))), TP_ALL, false));
}

/* Of the first gradients' squares: the sweep that joins rows is itself swept. */
static tp_tensor *steepness(void *user, int n, tp_tensor *const *in)
{
    tp_tensor *dx[2];
    for (int i = 0; i < 2; i++)
        if (!tp_requires_grad(in[i]))
            tp_require_grad(in[i]);
    const bool was = tp_recording(tp_ctx_of(in[0]), true);
    tp_tensor *y = recurrence(user, n, in);
    tp_grads(y, NULL, 2, in, dx);
    tp_recording(tp_ctx_of(in[0]), was);
    return tp_add(tp_sum(tp_square(dx[0]), TP_ALL, false),
                  tp_sum(tp_square(dx[1]), TP_ALL, false));
}

static void draw(tp_ctx *tp, tp_dtype dtype, int64_t rows, tp_tensor *in[2])
{
    tp_seed(tp, 11);
    in[0] = tp_uniform(tp, dtype, TP_DIMS(rows, SIZE), -1, 1);
    in[1] = tp_param(tp_uniform(tp, dtype, TP_DIMS(SIZE, SIZE), -1, 1), "w");
}

static void test_quotients(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *in[2];
    double error = 1;
    tp_seed(tp, 11);
    in[0] = tp_uniform(tp, TP_F64, TP_DIMS(ROWS, SIZE), -1, 1);
    in[1] = tp_uniform(tp, TP_F64, TP_DIMS(SIZE, SIZE), -1, 1);
    assert_int_equal(tp_grad_check(recurrence, NULL, 2, in, &error), TP_OK);
    assert_true(error < 1e-6);
    assert_int_equal(tp_grad_check(steepness, NULL, 2, in, &error), TP_OK);
    if (!(error < 1e-5))
        fail_msg("error %g: %s", error, tp_error_message(tp));
}

static void expect_same(const tp_tensor *want, const tp_tensor *got, const char *what)
{
    assert_int_equal(tp_count(want), tp_count(got));
    const uint32_t *a = tp_data(want), *b = tp_data(got);
    assert_true(a && b);
    for (int64_t i = 0; i < tp_count(want); i++)
        if (a[i] != b[i])
            fail_msg("%s, element %d: eager %08x, in the graph %08x (bits, seed 11)", what,
                     (int)i, (unsigned)a[i], (unsigned)b[i]);
}

static void test_modes(void **state)
{
    tp_ctx *tp = *state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_C};
    for (int64_t rows = 1; rows <= 20; rows += 19) {
        tp_tensor *in[2], *dx[2];
        draw(tp, TP_F32, rows, in);
        tp_require_grad(in[0]);
        tp_grads(recurrence(NULL, 2, in), NULL, 2, in, dx);
        tp_backward(recurrence(NULL, 2, in));
        expect_same(dx[0], tp_grad_of(in[0]), "tp_grad_of x");
        expect_same(dx[1], tp_grad_of(in[1]), "tp_grad_of w");

        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "rows"), SIZE));
        tp_tensor *symbolic[2] = {x, in[1]}, *sdx[2];
        tp_grads(recurrence(NULL, 2, symbolic), NULL, 2, symbolic, sdx);
        tp_name(sdx[0], "dx");
        tp_name(sdx[1], "dw");
        assert_string_equal(tp_error_message(tp), "");
        for (int e = 0; e < 2; e++) {
            const tp_compile_options options = {.engine = engines[e]};
            tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("dx", "dw"), &options);
            tp_tensor *out[2];
            assert_int_equal(tp_program_run(p, in, out), TP_OK);
            expect_same(dx[0], out[0], "dx");
            expect_same(dx[1], out[1], "dw");
        }
    }
}

/* Fails one allocation after the other. */
static void test_memory(void **state)
{
    tp_ctx *tp = *state;
    unit_memory *m = tp->mem.user.user;
    tp_tensor *in[2];
    draw(tp, TP_F32, ROWS, in);
    tp_require_grad(in[0]);
    bool done = false;
    for (long at = 1; !done && at < 5000; at++) {
        tp_scope_begin(tp);
        tp_tensor *y = recurrence(NULL, 2, in);
        assert_int_equal(tp_error(tp), TP_OK);
        m->fail_at = m->calls + at;
        const tp_status status = tp_backward(y);
        done = m->calls < m->fail_at;
        m->fail_at = 0;
        assert_int_equal(status, done ? TP_OK : TP_E_MEMORY);
        tp_clear_error(tp);
        tp_zero_grad(in[0]);
        tp_zero_grad(in[1]);
        tp_scope_end(tp);
    }
    assert_true(done);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(test_quotients), CASE(test_modes),
                                              CASE(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
