/* Recurrent layers: the cell in a loop, sequences in pieces, and operands of which only some are symbolic. */
#include "common/same.h"
#include "common/unit.h"
#include "tapir/tapir.h"

enum { STEPS = 4, BATCH = 2, INPUTS = 3, STATE = 2 };

static tp_tensor *drawn(tp_ctx *tp, int rank, const int64_t *shape)
{
    return tp_uniform(tp, TP_F32, rank, shape, -1, 1);
}

static tp_recurrent weights(tp_ctx *tp, int gates)
{
    return (tp_recurrent){.w = drawn(tp, TP_DIMS(INPUTS, gates * STATE)),
                          .r = drawn(tp, TP_DIMS(STATE, gates * STATE)),
                          .wb = drawn(tp, TP_DIMS(gates * STATE)),
                          .rb = drawn(tp, TP_DIMS(gates * STATE))};
}

static void expect_same(tp_tensor *got, tp_tensor *want)
{
    char why[300];
    if (!same_tensors(got, want, SAME_ZEROS_BITS, why, sizeof why))
        fail_msg("%s", why);
}

/* A layer is its cell, step by step. */
static void cells_in_a_loop(void **state)
{
    tp_ctx *tp = *state;
    const tp_recurrent w = weights(tp, 4), u = weights(tp, 3);
    tp_tensor *x = drawn(tp, TP_DIMS(STEPS, BATCH, INPUTS)), *ys = NULL, *zs = NULL;
    tp_tensor *zeros = tp_full(tp, TP_F32, TP_DIMS(BATCH, STATE), 0);
    tp_tensor *h = zeros, *c = zeros, *g = zeros;
    tp_for (STEPS, &h, &c, &g) {
        h = tp_lstm_cell(tp_each(x), h, &c, &w, NULL);
        g = tp_gru_cell(tp_each(x), g, &u, NULL);
        tp_emit(&ys, h);
        tp_emit(&zs, g);
    }
    tp_tensor *last_h = NULL, *last_c = NULL, *last_g = NULL;
    expect_same(tp_lstm(x, &w, NULL, &last_h, &last_c), ys);
    expect_same(last_h, h);
    expect_same(last_c, c);
    expect_same(tp_gru(x, &u, NULL, &last_g), zs);
    expect_same(last_g, g);
}

/* The state that one call leaves begins the next. */
static void in_pieces(void **state)
{
    tp_ctx *tp = *state;
    const tp_recurrent w = weights(tp, 4);
    tp_tensor *x = drawn(tp, TP_DIMS(STEPS, BATCH, INPUTS)), *y[2];
    tp_tensor *h = NULL, *c = NULL, *whole_h = NULL;
    for (int i = 0; i < 2; i++)
        y[i] = tp_lstm(tp_slice(x, 0, 2 * i, 2 * i + 2, 1), &w, NULL, &h, &c);
    expect_same(tp_concat(2, y, 0), tp_lstm(x, &w, NULL, &whole_h, NULL));
    expect_same(h, whole_h);
}

/* Steps beyond its length change nothing for a sequence, and give 0. */
static void ends_of_sequences(void **state)
{
    tp_ctx *tp = *state;
    const tp_recurrent w[2] = {weights(tp, 3), weights(tp, 3)};
    tp_tensor *x = drawn(tp, TP_DIMS(STEPS, BATCH, INPUTS));
    const int64_t length[BATCH] = {3, 0};
    const tp_recurrent_options cut = {
        .both = true, .lengths = tp_tensor_new(tp, TP_I64, TP_DIMS(BATCH), length)};
    tp_tensor *h = NULL, *alone = NULL, *y = tp_gru(x, w, &cut, &h);
    tp_tensor *first = tp_slice(tp_slice(x, 0, 0, 3, 1), 1, 0, 1, 1);
    const tp_recurrent_options both = {.both = true};
    tp_tensor *want = tp_gru(first, w, &both, &alone);
    expect_same(tp_slice(tp_slice(y, 0, 0, 3, 1), 1, 0, 1, 1), want);
    expect_same(tp_slice(h, 1, 0, 1, 1), alone);
    assert_true(tp_item(tp_reduce_max(tp_abs(tp_select(y, 0, 3)), TP_ALL, false)) == 0);
    assert_true(tp_item(tp_reduce_max(tp_abs(tp_select(h, 1, 1)), TP_ALL, false)) == 0);
}

/* One program for all lengths and batches, with parameters and a state of numbers. */
static void graph_of_all_lengths(void **state)
{
    tp_ctx *tp = *state;
    tp_recurrent w = weights(tp, 4);
    w.r = tp_param(w.r, "r");
    w.rb = tp_param(w.rb, "rb");
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "t"), BATCH, INPUTS));
    tp_tensor *h0 = drawn(tp, TP_DIMS(BATCH, STATE)), *h = h0, *dr;
    tp_name(tp_lstm(x, &w, NULL, &h, NULL), "y");
    tp_name(h, "h");
    dr = tp_grad(tp_sum(h, TP_ALL, false), w.r);
    tp_name(dr, "dr");
    for (int steps = 1; steps < 6; steps += 2) {
        tp_tensor *in = drawn(tp, TP_DIMS(steps, BATCH, INPUTS)), *out[3], *last = h0;
        assert_int_equal(tp_graph_run(g, TP_FEEDS({"x", in}), TP_NAMES("y", "h", "dr"), out),
                         TP_OK);
        expect_same(out[0], tp_lstm(in, &w, NULL, &last, NULL));
        expect_same(out[1], last);
        expect_same(out[2], tp_grad(tp_sum(last, TP_ALL, false), w.r));
    }
}

/* Whichever operand is symbolic, the others follow. */
static void one_symbolic_operand(void **state)
{
    tp_ctx *tp = *state;
    tp_recurrent w = weights(tp, 3);
    tp_tensor *x = drawn(tp, TP_DIMS(STEPS, BATCH, INPUTS)),
              *h0 = drawn(tp, TP_DIMS(BATCH, STATE));
    tp_tensor *end = tp_full(tp, TP_I32, TP_DIMS(BATCH), 3), *h = h0;
    const tp_recurrent_options cut = {.lengths = end};
    tp_tensor *want = tp_gru(x, &w, &cut, &h), *out;
    tp_tensor *const values[] = {w.r, w.rb, h0, end};
    for (int i = 0; i < 4; i++) {
        tp_graph *g = tp_graph_new(tp);
        const tp_tensor *v = values[i];
        tp_tensor *p = tp_placeholder(g, "p", tp_dtype_of(v), tp_rank(v), v->shape);
        tp_recurrent u = w;
        u.r = i == 0 ? p : u.r;
        u.rb = i == 1 ? p : u.rb;
        h = i == 2 ? p : h0;
        const tp_recurrent_options opt = {.lengths = i == 3 ? p : end};
        tp_name(tp_gru(x, &u, &opt, &h), "y");
        assert_int_equal(tp_graph_run(g, TP_FEEDS({"p", values[i]}), TP_NAMES("y"), &out),
                         TP_OK);
        expect_same(out, want);
    }
}

static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const tp_recurrent *w = user;
    tp_tensor *h = NULL;
    out[0] = tp_gru(in[0], w, NULL, &h);
    out[1] = tp_grad(tp_sum(h, TP_ALL, false), w->r);
}

/* A captured function gives the bits of its body, however long the sequence is. */
static void captured(void **state)
{
    tp_ctx *tp = *state;
    tp_recurrent w = weights(tp, 3);
    w.r = tp_param(w.r, "r");
    tp_function *f = tp_function_new(tp, "step", step, &w, NULL);
    for (int i = 0; i < 12; i++) {
        tp_tensor *x = drawn(tp, TP_DIMS(i % 3 + 1, BATCH, INPUTS)), *got[2], *want[2];
        assert_int_equal(tp_function_call(f, 1, &x, 2, got), TP_OK);
        step(&w, 1, &x, 2, want);
        expect_same(got[0], want[0]);
        expect_same(got[1], want[1]);
    }
    tp_function_free(f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(cells_in_a_loop),      CASE(in_pieces),
        CASE(ends_of_sequences),    CASE(graph_of_all_lengths),
        CASE(one_symbolic_operand), CASE(captured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
