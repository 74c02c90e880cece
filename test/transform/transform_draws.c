/* Random numbers of samples: those that each has in a loop over the samples, of all kinds, streams and modes. */
#include "samples.h"

/* Each sample by itself, then a draw that shows where the streams are; in y[n_out + 2]. */
static void loop_over(tp_ctx *tp, tp_body f, void *user, tp_tensor *x, int n_out, tp_tensor **y)
{
    enum { MOST = 8 };
    const int n = (int)tp_dim(x, 0);
    tp_tensor *all[3][MOST], *out[3];
    assert_true(n <= MOST && n_out <= 3);
    tp_seed(tp, 7);
    for (int i = 0; i < n; i++) {
        tp_tensor *one = tp_select(x, 0, i);
        f(user, 1, &one, n_out, out);
        for (int k = 0; k < n_out; k++)
            all[k][i] = out[k];
    }
    for (int k = 0; k < n_out; k++)
        y[k] = tp_stack(n, all[k], 0);
}

static void where_streams_are(tp_ctx *tp, tp_tensor **y)
{
    y[0] = tp_uniform(tp, TP_F32, TP_DIMS(3), 0, 1);
    const uint64_t was = tp_random_stream(tp, 9);
    y[1] = tp_uniform(tp, TP_F32, TP_DIMS(3), 0, 1);
    tp_random_stream(tp, was);
}

static void expect_all(int n, tp_tensor *const *got, tp_tensor *const *want)
{
    for (int i = 0; i < n; i++)
        expect_same(got[i], want[i]);
}

/* ---- functions ------------------------------------------------------------------------------------------------ */

/* A draw that nothing reads is made all the same, in its place. */
static void second_draw(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    (void)tp_uniform_like(in[0], 0, 1);
    out[0] = tp_add(in[0], tp_uniform_like(in[0], 0, 1));
}

/* All kinds and types, of two streams, rows that end inside a position; f32 [4], f64 [3], i32 [5]. */
static void all_kinds(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_ctx *tp = user;
    (void)n_in, (void)n_out;
    tp_tensor *x = tp_add(in[0], tp_uniform_like(in[0], -1, 1));
    tp_tensor *wide = tp_normal(tp, TP_F64, TP_DIMS(3), 0.5, 2);
    const uint64_t was = tp_random_stream(tp, 9);
    out[0] = tp_mul(x, tp_normal_like(x, 0, 1));
    out[2] = tp_randint(tp, TP_I32, TP_DIMS(5), -3, 10);
    tp_random_stream(tp, was);
    out[1] = tp_add(wide, tp_uniform(tp, TP_F64, TP_DIMS(1), 0, 1));
}

/* In the turns of a loop, of a loop in it, and behind them. */
static void in_turns(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *h = in[0];
    tp_for (3, &h) {
        h = tp_add(tp_mul(h, 0.5), tp_uniform_like(h, 0, 1));
        tp_for (2, &h) {
            h = tp_add(h, tp_normal_like(h, 0, 1));
        }
    }
    out[0] = tp_mul(h, tp_uniform_like(h, 1, 2));
}

/* A layer of its own for each row of the sample, and each has noise. */
static void nested(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *rows = tp_reshape(in[0], TP_DIMS(2, 2));
    (void)n_in;
    tp_vmap(second_draw, user, 1, &rows, n_out, out, NULL);
    out[0] = tp_add(out[0], tp_uniform_like(out[0], 0, 1));
}

static void nested_by_loop(void *user, int n_in, tp_tensor *const *in, int n_out,
                           tp_tensor **out)
{
    tp_tensor *y[2];
    for (int i = 0; i < 2; i++) {
        tp_tensor *row = tp_slice(in[0], 0, 2 * i, 2 * i + 2, 1);
        second_draw(user, n_in, &row, n_out, &y[i]);
    }
    tp_tensor *all = tp_stack(2, y, 0);
    out[0] = tp_add(all, tp_uniform_like(all, 0, 1));
}

/* Twelve elements, of which some are kept. */
static void dropped(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *h = tp_dropout(tp_mul(in[0], 3), 0.5);
    out[0] = tp_sum(tp_square(h), TP_ALL, false);
}

/* ---- eagerly --------------------------------------------------------------------------------------------------- */

static void same_as_loop(tp_ctx *tp, tp_body f, tp_body by_loop, int n_out, tp_tensor *x)
{
    tp_tensor *want[5], *got[5];
    loop_over(tp, by_loop, tp, x, n_out, want);
    where_streams_are(tp, want + n_out);
    tp_seed(tp, 7);
    if (tp_vmap(f, tp, 1, &x, n_out, got, NULL) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    where_streams_are(tp, got + n_out);
    expect_all(n_out + 2, got, want);
}

static void as_in_a_loop(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, 2, (int64_t[]){3, 4}, 0);
    same_as_loop(tp, second_draw, second_draw, 1, x);
    same_as_loop(tp, all_kinds, all_kinds, 3, x);
    same_as_loop(tp, in_turns, in_turns, 1, x);
    same_as_loop(tp, nested, nested_by_loop, 1, x);
    tp_training(tp, true);
    same_as_loop(tp, dropped, dropped, 1, x);
}

static void no_sample_draws_nothing(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(0, 4), 0), *y[3], *want[2], *got[2];
    tp_seed(tp, 7);
    where_streams_are(tp, want);
    tp_seed(tp, 7);
    assert_int_equal(tp_vmap(all_kinds, tp, 1, &x, 3, y, NULL), TP_OK);
    assert_int_equal(tp_count(y[2]), 0);
    where_streams_are(tp, got);
    expect_all(2, got, want);
}

static tp_tensor *noisy_loss(void *user, tp_tensor *w)
{
    tp_tensor *rows = tp_reshape(w, TP_DIMS(3, 4)), *y = NULL;
    tp_vmap(dropped, user, 1, &rows, 1, &y, NULL);
    return tp_sum(y, TP_ALL, false);
}

/* What a sample kept is what its gradient goes through. */
static void gradients(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_require_grad(numbers(tp, 1, (int64_t[]){12}, 0)), *one[3];
    tp_training(tp, true);
    tp_seed(tp, 7);
    tp_tensor *got = tp_grad(noisy_loss(tp, w), w);
    tp_seed(tp, 7);
    for (int i = 0; i < 3; i++) {
        tp_tensor *row = tp_slice(w, 0, 4 * i, 4 * i + 4, 1), *y;
        dropped(tp, 1, &row, 1, &y);
        one[i] = tp_slice(tp_grad(y, w), 0, 4 * i, 4 * i + 4, 1);
    }
    expect_same(got, tp_concat(3, one, 0));
}

/* The same numbers for all, on request: those that one sample alone draws. */
static void drawn_once(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, 2, (int64_t[]){3, 4}, 0), *y[3];
    tp_seed(tp, 7);
    tp_tensor *got =
        tp_vmap_apply(second_draw, NULL, 1, &x, &(tp_vmap_options){.same_draws = true});
    for (int i = 0; i < 3; i++) {
        tp_tensor *one = tp_select(x, 0, i);
        tp_seed(tp, 7);
        second_draw(NULL, 1, &one, 1, &y[i]);
    }
    expect_same(got, tp_stack(3, y, 0));
}

static void draws_keep_their_places(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, 2, (int64_t[]){3, 4}, 0), *y[3], *value, *tangent, *after;
    for (int i = 0; i < 3; i++) {
        tp_tensor *one = tp_select(x, 0, i);
        tp_seed(tp, 7);
        second_draw(NULL, 1, &one, 1, &y[i]);
    }
    after = tp_uniform(tp, TP_F32, TP_DIMS(3), 0, 1);
    tp_seed(tp, 7);
    expect_same(tp_vmap_apply(second_draw, NULL, 1, &x, &(tp_vmap_options){.same_draws = true}),
                tp_stack(3, y, 0));
    expect_same(tp_uniform(tp, TP_F32, TP_DIMS(3), 0, 1), after);
    tp_tensor *one = tp_select(x, 0, 2);
    tp_seed(tp, 7);
    assert_int_equal(tp_jvp(second_draw, NULL, 1, &one, &one, 1, &value, &tangent), TP_OK);
    expect_same(value, y[2]);
    expect_same(tp_uniform(tp, TP_F32, TP_DIMS(3), 0, 1), after);
}

/* ---- other modes -------------------------------------------------------------------------------------------- */

typedef struct outer {
    tp_body f;
    tp_ctx *tp;
} outer;

static void mapped(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const outer *o = user;
    tp_vmap(o->f, o->tp, n_in, in, n_out, out, NULL);
}

static void in_functions(tp_ctx *tp, tp_body f, int n_out)
{
    outer o = {f, tp};
    for (int pure = 0; pure < 2; pure++) {
        tp_function *c =
            tp_function_new(tp, "mapped", mapped, &o,
                            &(tp_function_options){.pure = pure, .engine = TP_ENGINE_TILES});
        for (int call = 0; call < 8; call++) {
            tp_tensor *x = numbers(tp, 2, (int64_t[]){call < 5 ? 3 : 5, 4}, call), *want[5],
                      *got[5];
            loop_over(tp, f, tp, x, n_out, want);
            where_streams_are(tp, want + n_out);
            tp_seed(tp, 7);
            if (tp_function_call(c, 1, &x, n_out, got) != TP_OK)
                fail_msg("%s", tp_error_message(tp));
            where_streams_are(tp, got + n_out);
            expect_all(n_out + 2, got, want);
        }
        tp_function_free(c);
    }
}

static void in_captured_functions(void **state)
{
    tp_ctx *tp = *state;
    in_functions(tp, all_kinds, 3);
    in_functions(tp, in_turns, 1);
}

/* A graph of it for any number of samples: outputs y0, y1, y2. */
static tp_graph *graph_of(tp_ctx *tp, tp_body f, int n_out)
{
    static const char *const names[] = {"y0", "y1", "y2"};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "samples"), 4)), *y[3];
    if (tp_vmap(f, tp, 1, &in, n_out, y, NULL) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    for (int i = 0; i < n_out; i++)
        tp_name(y[i], names[i]);
    return g;
}

static void expect_program(tp_ctx *tp, tp_program *p, tp_body f, int n_out)
{
    for (int64_t n = 5; n >= 0; n--) {
        tp_tensor *x = numbers(tp, 2, (int64_t[]){n, 4}, 0), *want[5], *got[5];
        if (n)
            loop_over(tp, f, tp, x, n_out, want);
        else
            tp_seed(tp, 7);
        where_streams_are(tp, want + n_out);
        tp_seed(tp, 7);
        if (tp_program_run(p, &x, got) != TP_OK)
            fail_msg("%s", tp_error_message(tp));
        where_streams_are(tp, got + n_out);
        expect_all(n ? n_out + 2 : 2, got + (n ? 0 : n_out), want + (n ? 0 : n_out));
    }
}

static void in_programs(tp_ctx *tp, tp_body f, int n_out)
{
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const char *const x[] = {"x"}, *const y[] = {"y0", "y1", "y2"};
    tp_graph *g = graph_of(tp, f, n_out);
    for (size_t e = 0; e < sizeof engines / sizeof *engines; e++) {
        tp_program *p =
            tp_graph_compile(g, 1, x, n_out, y, &(tp_compile_options){.engine = engines[e]});
        assert_non_null(p);
        expect_program(tp, p, f, n_out);
    }
    tp_graph_free(g);
}

static void in_compiled_programs(void **state)
{
    tp_ctx *tp = *state;
    in_programs(tp, second_draw, 1);
    in_programs(tp, all_kinds, 3);
    in_programs(tp, in_turns, 1);
}

/* Its text has it all, and a model of it has the same numbers (normal ones to a rounding). */
static void in_files(void **state)
{
    static const char file[] = "transform_draws.onnx";
    static const char *const x[] = {"x"}, *const y[] = {"y0", "y1", "y2"};
    tp_ctx *tp = *state;
    tp_graph *g = graph_of(tp, second_draw, 1);
    char *text = tp_graph_text(g);
    tp_graph *again = tp_graph_parse(tp, text, strlen(text));
    tp_free(tp, text);
    assert_non_null(again);
    tp_program *p = tp_graph_compile(again, 1, x, 1, y, NULL);
    assert_non_null(p);
    expect_program(tp, p, second_draw, 1);
    tp_graph_free(again);
    tp_seed(tp, 7); /* a model begins where the context is */
    if (tp_onnx_save(g, file, 1, x, 1, y) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    again = tp_onnx_load(tp, file, NULL);
    assert_non_null(again);
    p = tp_graph_compile(again, 1, x, 1, y, NULL);
    for (int64_t n = 5; n > 0 && p; n -= 2) {
        tp_tensor *in = numbers(tp, 2, (int64_t[]){n, 4}, 0), *want, *got;
        loop_over(tp, second_draw, tp, in, 1, &want);
        assert_int_equal(tp_program_run(p, &in, &got), TP_OK);
        expect_same(got, want);
    }
    assert_non_null(p);
    tp_graph_free(again);
    tp_graph_free(g);
    remove(file);
}

/* ---- what is refused ------------------------------------------------------------------------------------------ */

static void as_many_as_values_say(void *user, int n_in, tp_tensor *const *in, int n_out,
                                  tp_tensor **out)
{
    tp_tensor *h = in[0];
    (void)user, (void)n_in, (void)n_out;
    tp_while (tp_lt(tp_sum(h, TP_ALL, false), 5), &h) {
        h = tp_add(h, tp_uniform_like(h, 0, 1));
    }
    out[0] = h;
}

static void of_eight_axes(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    (void)n_in, (void)n_out;
    tp_tensor *u = tp_uniform(user, TP_F32, TP_DIMS(1, 1, 1, 1, 1, 1, 1, 1), 0, 1);
    out[0] = tp_add(in[0], tp_sum(u, TP_ALL, false));
}

static void mistakes_are_told(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, 2, (int64_t[]){3, 4}, 0);
    tp_vmap_apply(as_many_as_values_say, NULL, 1, &x, NULL);
    EXPECT_ERROR_WITH(tp, TP_E_STATE, "values decide how many random numbers");
    tp_vmap_apply(as_many_as_values_say, NULL, 1, &x, &(tp_vmap_options){.same_draws = true});
    EXPECT_ERROR_WITH(tp, TP_E_STATE, "samples go different ways");
    tp_vmap_apply(of_eight_axes, tp, 1, &x, NULL);
    EXPECT_ERROR_WITH(tp, TP_E_AXIS, "random numbers of 8 axes");
}

static void all_of_it(tp_ctx *tp, tp_tensor **y)
{
    tp_tensor *x = numbers(tp, 2, (int64_t[]){3, 4}, 0);
    tp_vmap(all_kinds, tp, 1, &x, 3, y, NULL);
    y[3] = tp_vmap_apply(in_turns, tp, 1, &x, NULL);
}

static void memory_runs_out(void **state)
{
    (void)state;
    unit_no_memory(all_of_it, 4);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(as_in_a_loop),
        CASE(no_sample_draws_nothing),
        CASE(gradients),
        CASE(drawn_once),
        CASE(draws_keep_their_places),
        CASE(in_captured_functions),
        CASE(in_compiled_programs),
        CASE(in_files),
        CASE(mistakes_are_told),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
