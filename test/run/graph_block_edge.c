/* Programs with blocks at their edges: what fails inside, memory that is out, what is refused, what a
 * program says of itself. */
#include "common/unit.h"
#include "run/program.h"
#include <tapir/control.h>
#include <tapir/tapir.h>

static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_AUTO, TP_ENGINE_TILES,
                                    TP_ENGINE_C};
enum { N_ENGINES = sizeof engines / sizeof *engines };

static tp_program *compile(tp_graph *g, int n_feeds, const char *const *feeds, int n,
                           const char *const *fetches, tp_engine engine)
{
    const tp_compile_options opt = {.engine = engine};
    return tp_graph_compile(g, n_feeds, feeds, n, fetches, &opt);
}

/* ---- an index out of range in a later turn ------------------------------------------------------- */

enum { GATHER_LINE = __LINE__ + 4 };
static tp_tensor *add_picked(tp_tensor *table, tp_tensor *index, tp_tensor *sum)
{
    tp_tensor *noise = tp_uniform_like(sum, 0, 1);
    tp_tensor *picked = tp_gather(table, index, 0);
    return tp_add(tp_add(sum, picked), noise);
}

static tp_graph *picking(tp_ctx *tp)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *table = tp_placeholder(g, "table", TP_F32, TP_DIMS(4));
    tp_tensor *index = tp_placeholder(g, "index", TP_I64, TP_DIMS(tp_symbol(g, "n")));
    tp_tensor *sum = tp_graph_read(g, tp_scalar(tp, TP_F32, 0));
    tp_for (tp_dim(index, 0), &sum) {
        tp_tensor *i = tp_each(index);
        tp_if (tp_gt(tp_sum(table, TP_ALL, false), tp_scalar(tp, TP_F32, 0)), &sum) {
            sum = add_picked(table, i, sum);
        }
    }
    tp_name(sum, "sum");
    return g;
}

static void fails_inside(void **state)
{
    tp_ctx *tp = *state;
    const float rows[4] = {1, 2, 3, 4};
    const int64_t good[5] = {0, 3, 1, 1, 2}, bad[5] = {0, 3, 1, 7, 2};
    tp_tensor *feeds[2] = {tp_tensor_new(tp, TP_F32, TP_DIMS(4), rows), NULL}, *out[1];
    char line[64];
    snprintf(line, sizeof line, "graph_block_edge.c:%d: gather: index 7", GATHER_LINE);
    for (int e = 0; e < N_ENGINES; e++) {
        tp_program *p =
            compile(picking(tp), TP_NAMES("table", "index"), TP_NAMES("sum"), engines[e]);
        assert_non_null(p);
        const uint64_t at = tp->random_at;
        for (int k = 0; k < 3; k++) {
            feeds[1] = tp_tensor_new(tp, TP_I64, TP_DIMS(5), k == 1 ? bad : good);
            assert_int_equal(tp_program_run(p, feeds, out), k == 1 ? TP_E_VALUE : TP_OK);
            if (k == 1 && !strstr(tp_error_text(out[0]), line))
                fail_msg("\"%s\" does not say \"%s\"", tp_error_text(out[0]), line);
            /* a run that fails draws nothing */
            assert_true(tp->random_at == at + (k == 2 ? 10 : 5));
            tp_clear_error(tp);
        }
    }
}

/* ---- a loop that takes as many turns as its operand says --------------------------------------------- */

/* ys [turns]: v, v - 1, ... while above 0. */
static tp_tensor *count_down(tp_tensor *v, tp_tensor **ys)
{
    tp_tensor *zero = tp_scalar_like(v, 0), *one = tp_scalar_like(v, 1);
    *ys = NULL;
    tp_while (tp_gt(v, zero), &v) {
        tp_emit(ys, v);
        v = tp_sub(v, one);
    }
    return v;
}

static tp_graph *counting(tp_ctx *tp)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *ys, *v = count_down(tp_placeholder(g, "v", TP_F32, 0, NULL), &ys);
    tp_name(v, "last");
    tp_name(ys, "ys");
    tp_tensor *sum = tp_sum(tp_mul(ys, ys), TP_ALL, false);
    tp_tensor *turns = tp_extent(ys, TP_DIMS(0), TP_F32); /* a size that is read as a value */
    tp_name(sum, "sum");
    tp_name(tp_where(tp_gt(turns, tp_scalar(tp, TP_F32, 0)), tp_add(sum, turns),
                     tp_scalar(tp, TP_F32, -1)),
            "known");
    return g;
}

static void expect_count(tp_program *p, double v, bool reads)
{
    tp_tensor *feed = tp_scalar(p->ctx, TP_F32, v), *out[4];
    assert_int_equal(tp_program_run(p, &feed, out), TP_OK);
    assert_true(tp_dim(out[1], 0) == (int64_t)v);
    const double sum = v * (v + 1) * (2 * v + 1) / 6;
    assert_true(tp_item(out[2]) == sum);
    assert_true(tp_item(out[3]) == (v > 0 ? sum + v : -1));
    float *ys = malloc(tpi_bytes(out[1]) + 1);
    assert_int_equal(tp_read(out[1], ys, tpi_bytes(out[1])), TP_OK);
    for (int64_t i = 0; i < (int64_t)v && reads; i++)
        assert_true(ys[i] == (float)v - (float)i);
    free(ys);
}

/* Two programs of one context, with different turns by turns. */
static void takes_any_turns(void **state)
{
    tp_ctx *tp = *state;
    static const int turns[] = {3, 0, 15, 16, 17, 100, 5, 1};
    for (int e = 0; e < N_ENGINES; e++) {
        tp_graph *g = counting(tp);
        tp_program *p =
            compile(g, TP_NAMES("v"), TP_NAMES("last", "ys", "sum", "known"), engines[e]);
        tp_program *q =
            compile(g, TP_NAMES("v"), TP_NAMES("last", "ys", "sum", "known"), engines[e]);
        assert_true(p && q);
        for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
            expect_count(p, turns[i], true);
            expect_count(q, turns[i] / 2 + 1, true);
        }
    }
}

/* ---- sizes that an op may refuse ----------------------------------------------------------------------- */

static void refuses_late(void **state)
{
    tp_ctx *tp = *state;
    for (int e = 0; e < N_ENGINES; e++) {
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *ys;
        count_down(tp_placeholder(g, "v", TP_F32, 0, NULL), &ys);
        tp_tensor *row = tp_unsqueeze(tp_unsqueeze(ys, 0), 0);
        const tp_window three = {.kernel = {3}, .stride = {1}};
        const int line = __LINE__ + 1;
        tp_name(tp_reduce_min(tp_max_pool(row, &three), TP_ALL, false), "third");
        tp_program *p = compile(g, TP_NAMES("v"), TP_NAMES("third"), engines[e]);
        assert_non_null(p);
        for (int v = 5; v >= 0; v--) {
            tp_tensor *feed = tp_scalar(tp, TP_F32, v), *out[1];
            const tp_status status = tp_program_run(p, &feed, out);
            char where[64];
            snprintf(where, sizeof where, "graph_block_edge.c:%d: max_pool", line);
            if (v >= 3)
                assert_true(status == TP_OK && tp_item(out[0]) == 3);
            else if (status == TP_OK || !strstr(tp_error_text(out[0]), where))
                fail_msg("%d turns: \"%s\"", v, tp_error_text(out[0]));
            tp_clear_error(tp);
        }
        assert_string_equal(tp_program_engine(p), e == 0 ? "reference" : "eager");
        assert_int_equal(tp_program_wait(p), TP_E_COMPILER);
        tp_clear_error(tp);
    }
}

static void refuses_open_blocks(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *v = tp_name(tp_placeholder(g, "v", TP_F32, 0, NULL), "v");
    tp_program *p = NULL;
    tp_for (3, &v) {
        v = tp_neg(v);
        p = compile(g, TP_NAMES("v"), TP_NAMES("v"), TP_ENGINE_REFERENCE);
    }
    assert_null(p);
    assert_int_equal(tp_error(tp), TP_E_STATE);
    assert_non_null(strstr(tp_error_message(tp), "still open"));
    tp_clear_error(tp);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* Every allocation fails once, in the making and in the running. */
static void survives_no_memory(void **state)
{
    (void)state;
    for (int e = 0; e < N_ENGINES; e++) {
        bool done = false;
        for (long at = 1; !done; at += at < 40 ? 1 : 7) {
            unit_memory m = {0};
            tp_ctx *tp = unit_open(&m);
            assert_non_null(tp);
            m.fail_at = m.calls + at;
            tp_graph *g = counting(tp);
            tp_program *p = g ? compile(g, TP_NAMES("v"),
                                        TP_NAMES("last", "ys", "sum", "known"), engines[e])
                              : NULL;
            tp_tensor *feed = tp_scalar(tp, TP_F32, 40), *out[4];
            const tp_status status = p ? tp_program_run(p, &feed, out) : TP_E_MEMORY;
            done = status == TP_OK;
            if (!done && tp_error(tp) != TP_OK)
                assert_int_equal(tp_error(tp), TP_E_MEMORY);
            m.fail_at = 0;
            tp_clear_error(tp);
            /* a compiler that could not be started for want of memory is not started again */
            if (p && !done && (engines[e] != TP_ENGINE_C || tp_program_wait(p) == TP_OK))
                expect_count(p, 40, true);
            tp_close(tp);
            assert_int_equal(m.bytes, 0);
        }
    }
}

/* ---- what it says ----------------------------------------------------------------------------------------- */

static void tells_of_itself(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *xs = tp_placeholder(g, "xs", TP_F32, TP_DIMS(n, 4, 4));
    tp_tensor *w = tp_param(tp_full(tp, TP_F32, TP_DIMS(4, 4), 0.5), "w"),
              *h = tp_graph_read(g, w);
    tp_for (n, &h) {
        h = tp_tanh(tp_matmul(tp_each(xs), h));
    }
    tp_name(h, "h");
    tp_program *p = compile(g, TP_NAMES("xs"), TP_NAMES("h"), TP_ENGINE_C);
    assert_string_equal(tp_error_message(tp), "");
    assert_int_equal(tp_program_wait(p), TP_OK);
    assert_true(tp_program_stats_of(p).kernels >= 3); /* loop, matmul, tanh */
    for (int turns = 2; turns <= 7; turns += 5) {
        tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(turns, 4, 4), 0.25), *out[1];
        assert_int_equal(tp_program_run(p, &x, out), TP_OK);
        assert_string_equal(tp_program_engine(p), "c");
        assert_true(tp_program_stats_of(p).flops == 2.0 * turns * 4 * 4 * 4);
    }
    assert_true(tp_program_stats_of(p).arena_bytes >= 2 * 64);
    const char *source = tp_program_source(p);
    assert_non_null(strstr(source, "turn >= count"));
    assert_non_null(strstr(source, "graph_block_edge.c:"));
    char *text = tp_program_text(p);
    assert_non_null(strstr(text, "block {"));
    assert_non_null(strstr(text, "body"));
    assert_non_null(strstr(text, "matmul"));
    tp_free(tp, text);
    text = tp_program_loops_text(p);
    assert_non_null(strstr(text, "or b"));
    assert_non_null(strstr(text, " when the turns are even"));
    assert_non_null(strstr(text, "before each turn\n"));
    assert_non_null(strstr(text, " lies at x0 + number*4*16\n"));
    assert_non_null(strstr(text, "after each turn\n    c0, n0, o0 = n0, o0, n0\n"));
    tp_free(tp, text);
}

/* Captured variables that are frozen go inside, and are packed there. */
static void freezes(void **state)
{
    tp_ctx *tp = *state;
    float init[16];
    for (int i = 0; i < 16; i++)
        init[i] = 0.125F * (float)(i % 5) - 0.25F;
    tp_tensor *w = tp_param(tp_tensor_new(tp, TP_F32, TP_DIMS(4, 4), init), "w");
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(4, 4), init), *want = x, *out[1];
    for (int i = 0; i < 5; i++)
        want = tp_matmul(want, w);
    for (int frozen = 0; frozen < 2; frozen++) {
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *h = tp_placeholder(g, "x", TP_F32, TP_DIMS(4, 4));
        tp_for (5, &h) {
            h = tp_matmul(h, w);
        }
        tp_name(h, "h");
        const tp_compile_options opt = {.engine = TP_ENGINE_C, .freeze = frozen};
        tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("h"), &opt);
        assert_non_null(p);
        assert_int_equal(tp_program_run(p, &x, out), TP_OK);
        assert_memory_equal(tp_data(out[0]), tp_data(want), sizeof init);
        assert_true(!strstr(tp_program_source(p), ".packed_b = packed") == !frozen);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(fails_inside),
        CASE(takes_any_turns),
        CASE(refuses_late),
        CASE(refuses_open_blocks),
        CASE(survives_no_memory),
        CASE(tells_of_itself),
        CASE(freezes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
