/* Messages that name what to do: it is done here, and works. Texts of graphs that were hard to print. */
#include "common/unit.h"
#include "ir/graph_def.h"
#include "tapir/tapir.h"

/* ---- sizes of feeds ----------------------------------------------------------------------------- */

static void sizes_have_givers(void **state)
{
    tp_ctx *tp = *state;
    static const char *const feed[] = {"x", "b2"}, *const fetch[] = {"y"};
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(4, n));
    tp_tensor *b = tp_placeholder(g, "b2", TP_F32, TP_DIMS(n));
    tp_name(tp_add(x, b), "y");
    tp_program *p = tp_graph_compile(g, 2, feed, 1, fetch,
                                     &(tp_compile_options){.engine = TP_ENGINE_TILES});
    tp_tensor *y,
        *in[] = {tp_full(tp, TP_F32, TP_DIMS(4, 2), 1), tp_full(tp, TP_F32, TP_DIMS(3), 1)};
    assert_int_equal(tp_program_run(p, in, &y), TP_E_SHAPE);
    EXPECT_ERROR(tp, TP_E_SHAPE, "\"b2\" takes f32 [n], not f32 [3]: n is 2 (axis 1 of \"x\")");
    in[1] = tp_full(tp, TP_F64, TP_DIMS(2), 1);
    assert_int_equal(tp_program_run(p, in, &y), TP_E_DTYPE);
    EXPECT_ERROR(tp, TP_E_DTYPE, "\"b2\" takes f32 [n], not f64 [2]");
    in[0] = tp_full(tp, TP_F32, TP_DIMS(3, 2), 1);
    in[1] = tp_full(tp, TP_F32, TP_DIMS(2), 1);
    assert_int_equal(tp_program_run(p, in, &y), TP_E_SHAPE);
    EXPECT_ERROR(tp, TP_E_SHAPE, "\"x\" takes f32 [4, n], not f32 [3, 2]");
    /* in an expression, of two symbols */
    g = tp_graph_new(tp);
    const int64_t a = tp_symbol(g, "a"), c = tp_symbol(g, "c");
    tp_tensor *two = tp_placeholder(g, "p", TP_F32, TP_DIMS(a, c));
    tp_tensor *one = tp_placeholder(g, "q", TP_F32, TP_DIMS(tp_dim_add(g, a, c)));
    tp_name(tp_concat(2, (tp_tensor *[]){one, tp_flatten(two, 0)}, 0), "y");
    static const char *const feeds[] = {"p", "q"};
    p = tp_graph_compile(g, 2, feeds, 1, fetch,
                         &(tp_compile_options){.engine = TP_ENGINE_TILES});
    in[0] = tp_full(tp, TP_F32, TP_DIMS(3, 2), 1);
    in[1] = tp_full(tp, TP_F32, TP_DIMS(6), 1);
    assert_int_equal(tp_program_run(p, in, &y), TP_E_SHAPE);
    EXPECT_ERROR(
        tp, TP_E_SHAPE,
        "\"q\" takes f32 [a+c], not f32 [6]: a is 3 (axis 0 of \"p\"), c is 2 (axis 1 of "
        "\"p\")");
}

/* ---- views of a variable that was assigned ------------------------------------------------------------ */

static void views_made_again(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *v = tp_variable(tp_arange(tp, TP_F32, 4, 0, 1), "v");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(4));
    tp_assign(v, tp_add(v, x));
    for (int again = 0; again < 2;
         again++) { /* made of the concrete variable it is the old one */
        tp_tensor *view = tp_slice(v, 0, 0, 2, 1);
        assert_true(tp_failed(tp_add(view, tp_slice(x, 0, 0, 2, 1))));
        if (!strstr(tp_error_message(tp), "take it from tp_graph_read of the variable now"))
            fail_msg("%s", tp_error_message(tp));
        tp_clear_error(tp);
    }
    tp_tensor *view = tp_slice(tp_graph_read(g, v), 0, 0, 2, 1), *y;
    tp_name(tp_add(view, tp_slice(x, 0, 0, 2, 1)), "y");
    const float ones[] = {1, 2, 3, 4}, want[] = {2, 5};
    const tp_feed feed = {"x", tp_tensor_new(tp, TP_F32, TP_DIMS(4), ones)};
    assert_int_equal(tp_graph_run(g, 1, &feed, TP_NAMES("y"), &y), TP_OK);
    assert_memory_equal(tp_data(y), want, sizeof want);
}

/* ---- sizes that have to come out even ------------------------------------------------------------------- */

static void halves(void **state)
{
    tp_ctx *tp = *state;
    static const char *const feed[] = {"x"}, *const fetch[] = {"y", "dx", "back"};
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n"), m = tp_symbol(g, "m");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n));
    const int line = __LINE__ + 1;
    tp_tensor *y = tp_reshape(tp_mul(x, x), TP_DIMS(tp_dim_div(g, n, 2), 2));
    y = tp_transpose(y, TP_ALL);
    tp_name(y, "y");
    tp_name(tp_grad(tp_mul(y, y), x), "dx");
    tp_name(tp_reshape(tp_exp(y), TP_DIMS(n)), "back");
    assert_string_equal(tp_error_message(tp), "");
    char *text = tp_graph_text(g);
    assert_non_null(tp_graph_parse(tp, text, strlen(text)));
    tp_free(tp, text);
    for (size_t e = 0; e < sizeof engines / sizeof *engines; e++) {
        tp_program *p =
            tp_graph_compile(g, 1, feed, 3, fetch, &(tp_compile_options){.engine = engines[e]});
        for (int size = 0; size <= 7; size++) {
            tp_tensor *data = tp_arange(tp, TP_F32, size, -1, 0.75), *out[3];
            const tp_status status = tp_program_run(p, &data, out);
            if (size % 2) {
                assert_int_equal(status, TP_E_SHAPE);
                char says[100];
                snprintf(says, sizeof says,
                         "ir_cures.c:%d: reshape: [%d] has %d elements, [%d, 2] has %d", line,
                         size, size, size / 2, size / 2 * 2);
                if (!strstr(tp_error_message(tp), says))
                    fail_msg("\"%s\" does not say \"%s\"", tp_error_message(tp), says);
                tp_clear_error(tp);
                continue;
            }
            assert_int_equal(status, TP_OK);
            tp_require_grad(data);
            tp_tensor *want =
                tp_transpose(tp_reshape(tp_mul(data, data), TP_DIMS(size / 2, 2)), TP_ALL);
            tp_tensor *same[] = {want, tp_grad(tp_mul(want, want), data),
                                 tp_reshape(tp_exp(want), TP_DIMS(size))};
            for (int i = 0; i < 3; i++) {
                float a[8], b[8];
                assert_int_equal(tp_read(out[i], a, (size_t)size * 4), TP_OK);
                assert_int_equal(tp_read(same[i], b, (size_t)size * 4), TP_OK);
                assert_memory_equal(a, b, (size_t)size * 4);
            }
        }
    }
    /* what no division explains is refused as ever */
    assert_true(tp_failed(tp_reshape(x, TP_DIMS(tp_dim_div(g, n, 2), 3))));
    tp_clear_error(tp);
    assert_true(tp_failed(tp_reshape(x, TP_DIMS(m))));
    tp_clear_error(tp);
    assert_false(tp_failed(tp_reshape(x, TP_DIMS(tp_dim_div(g, n, m), m))));
}

/* ---- slices that no run has ---------------------------------------------------------------------------- */

static void slices_outside(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n"), more = tp_dim_add(g, n, 5);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n));
    tp_tensor *four = tp_placeholder(g, "four", TP_F32, TP_DIMS(4));
    tp_slice(x, 0, 0, more, 1);
    EXPECT_ERROR(
        tp, TP_E_SHAPE,
        "slice: axis 0 has size n, and n+5 is outside in every run: symbolic sizes are not "
        "clamped (TP_END is the end)");
    tp_slice(x, 0, more, TP_END, 1);
    EXPECT_ERROR(
        tp, TP_E_SHAPE,
        "slice: axis 0 has size n, and n+5 is outside in every run: symbolic sizes are not "
        "clamped (TP_END is the end)");
    tp_slice(four, 0, more, TP_END, -1);
    EXPECT_ERROR(
        tp, TP_E_SHAPE,
        "slice: axis 0 has size 4, and n+5 is outside in every run: symbolic sizes are not "
        "clamped (TP_END is the end)");
    tp_slice(four, 0, 0, more, 2);
    EXPECT_ERROR(
        tp, TP_E_SHAPE,
        "slice: axis 0 has size 4, and n+5 is outside in every run: symbolic sizes are not "
        "clamped (TP_END is the end)");
    const int64_t far[] = {INT64_MAX - 5, -INT64_MAX, INT64_MIN};
    for (int i = 0; i < 3; i++) {
        const char *says = far[i] == INT64_MIN ? "give nothing below 0" : "(TP_END is the end)";
        tp_slice(x, 0, far[i], TP_END, 1);
        EXPECT_ERROR(tp, TP_E_SHAPE, says);
        tp_slice(x, 0, -1, far[i], -1);
        EXPECT_ERROR(tp, TP_E_SHAPE, says);
    }
    tp_slice(x, 0, tp_dim_add(g, n, -2), TP_END, 1); /* the arithmetic gives no size */
    EXPECT_ERROR(
        tp, TP_E_SHAPE,
        "slice: axis 0 has size n, and an end of the slice is no size: tp_dim_add and the "
        "like take and give nothing below 0");
    tp_slice(x, 0, n, TP_END, 1); /* what some run has is seen by the run */
    tp_slice(x, 0, 0, 1000, 1);
    tp_slice(four, 0, 0, n, 1);
    tp_slice(four, 0, n, TP_END, 1);
    assert_string_equal(tp_error_message(tp), "");
}

/* ---- texts ------------------------------------------------------------------------------------------- */

typedef struct scan {
    tp_tensor *w;
    tp_optimizer *o;
} scan;

static void step(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x, int n_ys,
                 tp_tensor **y)
{
    (void)n, (void)n_xs, (void)n_ys;
    const scan *s = user;
    tp_tensor *loss = tp_mean(tp_square(tp_mul(s->w, x[0])), TP_ALL, false);
    tp_optimizer_step(s->o, loss);
    v[0] = tp_add(v[0], loss);
    y[0] = loss;
}

static void step_then_read(void **state)
{
    tp_ctx *tp = *state;
    for (int kind = 0; kind < 4; kind++) {
        tp_graph *g = tp_graph_new(tp);
        scan s = {.w = tp_param(tp_full(tp, TP_F32, TP_DIMS(3), 2), "w")};
        s.o = kind % 2 ? tp_adam_new(tp, 0.1, NULL, 1, &s.w)
                       : tp_sgd_new(tp, 0.1, &(tp_sgd_options){.momentum = 0.9}, 1, &s.w);
        tp_tensor *xs = tp_placeholder(g, "xs", TP_F32, TP_DIMS(5, 3)), *ys;
        tp_tensor *v = tp_graph_read(g, tp_full(tp, TP_F32, TP_SCALAR, 0));
        tp_scan(5, NULL, step, &s, 1, &v, 1, &xs, 1, &ys);
        assert_string_equal(tp_error_message(tp), "");
        tp_tensor *now = tp_graph_read(g, s.w);
        tp_name(tp_mul(kind < 2 ? tp_detach(now) : now, v), "y");
        tp_name(ys, "losses");
        assert_int_equal(tp_error(tp), TP_OK);
        char *text = tp_graph_text(g);
        assert_non_null(text);
        tp_graph *again = tp_graph_parse(tp, text, strlen(text));
        if (!again)
            fail_msg("kind %d: %s\n%s", kind, tp_error_message(tp), text);
        char *same = tp_graph_text(again);
        assert_string_equal(same, text);
        tp_free(tp, text);
        tp_free(tp, same);
        tp_optimizer_free(s.o);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(sizes_have_givers), CASE(views_made_again),
                                              CASE(halves), CASE(slices_outside),
                                              CASE(step_then_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
