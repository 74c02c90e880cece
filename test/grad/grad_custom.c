/* Gradients of the user's own, straight-through ones, hooks, and blocks without gradients: eagerly, in graphs, and in
 * captured functions. That rules are as good as ops is a matter of the op cases. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

static const float *values(tp_tensor *t)
{
    const float *v = tp_data(tp_contiguous(t));
    assert_non_null(v);
    return v;
}

static tp_tensor *marked(tp_ctx *tp)
{
    const float v[3] = {-1.5f, 0.25f, 2};
    return tp_require_grad(tp_tensor_new(tp, TP_F32, TP_DIMS(3), v));
}

static void expect_values(tp_tensor *t, float a, float b, float c)
{
    const float *v = values(t), want[3] = {a, b, c};
    assert_int_equal(tp_count(t), 3);
    for (int i = 0; i < 3; i++)
        if (v[i] != want[i])
            fail_msg("element %d: expected %g, got %g", i, (double)want[i], (double)v[i]);
}

/* ---- rules --------------------------------------------------------------------------------------- */

typedef struct scaled {
    double by;
    int backwards; /* how often backward was called */
    bool all_wanted;
} scaled;

static void twice(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in;
    out[0] = tp_add(in[0], in[0]);
    if (n_out > 1)
        out[1] = tp_square(in[0]);
}

/* No derivative of anything: so it is seen whose it is. */
static void by_user(void *user, const tp_vjp *v)
{
    scaled *s = user;
    s->backwards++;
    s->all_wanted = v->n_in < 2 || v->wanted[1];
    v->din[0] = tp_mul(v->dout[0], s->by);
    if (v->n_out > 1)
        v->din[0] = tp_add(v->din[0], tp_mul(v->dout[1], v->in[0]));
}

static const tp_custom rule = {.name = "twice", .forward = twice, .backward = by_user};

static void test_the_rule_is_the_gradient(void **state)
{
    scaled s = {.by = 10};
    tp_tensor *x = marked(*state), *in[2] = {x, tp_scalar(*state, TP_F32, 1)};
    tp_tensor *y = tp_custom_apply(&rule, &s, 2, in);
    expect_values(y, -3, 0.5f, 4);
    expect_values(tp_grad(tp_mul(y, y), x), -60, 10, 80);
    assert_int_equal(s.backwards, 1);
    assert_false(s.all_wanted);
}

static void test_one_call_for_all_results(void **state)
{
    scaled s = {.by = 10};
    tp_tensor *x = marked(*state), *y[2];
    assert_int_equal(tp_custom_call(&rule, &s, 1, &x, 2, y), TP_OK);
    expect_values(tp_grad(tp_add(y[0], tp_mul(y[1], 2)), x), 7, 10.5f, 14);
    assert_int_equal(s.backwards, 1);
    expect_values(tp_grad(y[1], x), -1.5f, 0.25f, 2); /* zeros came of the other */
    assert_int_equal(s.backwards, 2);
}

/* Gradients inside of a rule: what forward would have kept is computed again. */
static void recompute(void *user, const tp_vjp *v)
{
    (void)user;
    tp_ctx *tp = tp_ctx_of(v->in[0]);
    const bool was = tp_recording(tp, true);
    tp_tensor *y[1], *x = tp_require_grad(tp_contiguous(tp_detach(v->in[0])));
    twice(NULL, 1, &x, 1, y);
    tp_grads(tp_mul(tp_sin(y[0]), v->in[0]), v->dout[0], 1, &x, v->din);
    tp_recording(tp, was);
}

static void test_a_sweep_within_a_sweep(void **state)
{
    static const tp_custom inner = {.name = "inner", .forward = twice, .backward = recompute};
    tp_tensor *x = marked(*state), *h = tp_exp(x);
    tp_tensor *y = tp_mul(tp_custom_apply(&inner, NULL, 1, &h), h);
    tp_tensor *dx = tp_grad(y, x);
    const float *v = values(x), *got = values(dx);
    for (int i = 0; i < 3; i++) {
        const double e = exp((double)v[i]), dh = e * (2 * cos(2 * e)) * e + 2 * e;
        assert_true(fabs(got[i] - dh * e) < 1e-4 * (1 + fabs(dh * e)));
    }
    assert_int_equal(tp_backward(y), TP_OK);
    assert_memory_equal(values(tp_grad_of(x)), got, 3 * sizeof *got);
}

/* The same bits in a graph, in a loop of one, after its text was read, and as C. */
static tp_tensor *turned(tp_tensor *x, scaled *s)
{
    tp_tensor *h = x;
    tp_for (3, &h) {
        tp_tensor *y[2];
        tp_custom_call(&rule, s, 1, &h, 2, y);
        h = tp_tanh(tp_sub(y[0], y[1]));
    }
    return tp_grad(h, x);
}

static void test_graphs(void **state)
{
    tp_ctx *tp = *state;
    scaled s = {.by = 1.25};
    tp_tensor *x = marked(tp), *want = turned(x, &s), *got;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n")));
    tp_name(turned(in, &s), "dx");
    assert_int_equal(tp_graph_verify(g), TP_OK);
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    for (int e = 0; e < 3; e++) {
        const tp_compile_options options = {.engine = engines[e]};
        tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("dx"), &options);
        assert_int_equal(tp_program_run(p, &x, &got), TP_OK);
        assert_memory_equal(values(got), values(want), 3 * sizeof(float));
    }
    char *text = tp_graph_text(g);
    assert_non_null(strstr(text, " = custom %"));
    tp_graph *back = tp_graph_parse(tp, text, strlen(text));
    tp_free(tp, text);
    assert_int_equal(tp_graph_verify(back), TP_OK);
    tp_program *p = tp_graph_compile(back, TP_NAMES("x"), TP_NAMES("dx"), NULL);
    assert_int_equal(tp_program_run(p, &x, &got), TP_OK);
    assert_memory_equal(values(got), values(want), 3 * sizeof(float));
}

static void test_a_text_has_no_rule(void **state)
{
    tp_ctx *tp = *state;
    scaled s = {.by = 1};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(3));
    tp_name(tp_custom_apply(&rule, &s, 1, &in), "y");
    char *text = tp_graph_text(g);
    tp_graph *back = tp_graph_parse(tp, text, strlen(text));
    tp_free(tp, text);
    tp_tensor *dx = tp_grad(tp_graph_find(back, "y"), tp_graph_find(back, "x"));
    assert_int_equal(tp_status_of(dx), TP_E_STATE);
    assert_non_null(strstr(tp_error_text(dx), "was a C function"));
    tp_clear_error(tp);
}

/* ---- captured functions ------------------------------------------------------------------------ */

static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    tp_tensor *y[2];
    tp_custom_call(&rule, user, 1, in, 2, y);
    out[0] = tp_mul(tp_sigmoid(y[0]), y[1]);
    out[1] = tp_grad(out[0], in[0]);
}

static void captured(tp_ctx *tp, bool pure)
{
    scaled s = {.by = 3};
    const tp_function_options options = {.engine = TP_ENGINE_TILES, .pure = pure};
    tp_function *f = tp_function_new(tp, "step", step, &s, &options);
    tp_tensor *x = marked(tp), *want[2], *got[2];
    step(&s, 1, &x, 2, want);
    tp_tensor *outer = tp_grad(want[0], x);
    for (int turn = 0; turn < 5; turn++) {
        assert_int_equal(tp_function_call(f, 1, &x, 2, got), TP_OK);
        assert_memory_equal(values(got[0]), values(want[0]), 3 * sizeof(float));
        assert_memory_equal(values(got[1]), values(want[1]), 3 * sizeof(float));
        assert_memory_equal(values(tp_grad(got[0], x)), values(outer), 3 * sizeof(float));
    }
    tp_function_free(f);
}

static void test_captured(void **state)
{
    captured(*state, false);
}

static void test_pure(void **state)
{
    captured(*state, true);
}

/* ---- what is wrong ----------------------------------------------------------------------------------- */

static void expect_failure(tp_tensor *t, tp_status status, const char *text)
{
    assert_int_equal(tp_status_of(t), status);
    if (!strstr(tp_error_text(t), text))
        fail_msg("\"%s\" is not in \"%s\"", text, tp_error_text(t));
    tp_clear_error(tp_ctx_of(t));
}

static void wrong_shape(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] = tp_sum(v->dout[0], TP_ALL, false);
}

static void without_context(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] = tp_scalar(NULL, TP_F32, 1);
}

static void no_gradient(void *user, const tp_vjp *v)
{
    (void)user, (void)v;
}

static void leaves_things_open(void *user, const tp_vjp *v)
{
    (void)user;
    tp_ctx *tp = tp_ctx_of(v->in[0]);
    tp_scope_begin(tp);
    v->din[0] = tp_keep(tp_neg(v->dout[0]));
    tp_scope_begin(tp);
}

static void sets_nothing(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)in, (void)n_out, (void)out;
}

static void two_types(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_neg(in[0]);
    out[1] = tp_cast(in[0], TP_F64);
}

static void test_bad_rules(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = marked(tp), *y[2];
    const tp_custom bad_shape = {"bad", twice, wrong_shape, false};
    expect_failure(tp_grad(tp_custom_apply(&bad_shape, NULL, 1, &x), x), TP_E_SHAPE,
                   "argument 0 is f32 [3], and the gradient that backward gives is f32 []");
    const tp_custom lost = {"lost", twice, without_context, false};
    expect_failure(tp_grad(tp_custom_apply(&lost, NULL, 1, &x), x), TP_E_NULL,
                   "lost: operand 0 is what a call gave that had NULL for its context");
    const tp_custom none = {"none", twice, no_gradient, false};
    expect_values(tp_grad(tp_custom_apply(&none, NULL, 1, &x), x), 0, 0, 0);
    const tp_custom open = {"open", twice, leaves_things_open, false};
    expect_values(tp_grad(tp_custom_apply(&open, NULL, 1, &x), x), -1, -1, -1);
    const tp_custom unset = {"unset", sets_nothing, no_gradient, false};
    expect_failure(tp_custom_apply(&unset, NULL, 1, &x), TP_E_NULL, "result 0 was not set");
    const tp_custom mixed = {"mixed", two_types, no_gradient, false};
    assert_int_equal(tp_custom_call(&mixed, NULL, 1, &x, 2, y), TP_E_DTYPE);
    tp_clear_error(tp);
}

static void test_check(void **state)
{
    tp_ctx *tp = *state;
    scaled s = {.by = 2};
    tp_tensor *x = marked(tp);
    tp_custom checked = rule;
    checked.check = true;
    expect_values(tp_custom_apply(&checked, &s, 1, &x), -3, 0.5f, 4);
    s.by = 2.01;
    expect_failure(tp_custom_apply(&checked, &s, 1, &x), TP_E_VALUE,
                   "twice: backward gives -2.72174495 as the gradient of element 2");
    expect_failure(tp_custom_apply(&checked, &s, 1, &x), TP_E_VALUE,
                   "of argument 0, where differences of forward give -2.708203");
    expect_failure(tp_custom_apply(&checked, &s, 1, &x), TP_E_VALUE, "off by 0.005");
}

static void count(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_gt(in[0], 0);
}

static void fails(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    int *calls = user;
    tp_tensor *bad = tp_fail(tp_ctx_of(in[0]), TP_E_STATE, "forward has enough");
    out[0] = --*calls < 0 ? bad : tp_neg(in[0]);
    if (*calls >= 0)
        tp_clear_error(tp_ctx_of(in[0]));
}

/* What has no gradient has nothing to check; what fails in forward or backward is the error. */
static void test_check_of_what_fails(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = marked(tp), *y;
    const tp_custom none = {"none", count, no_gradient, true};
    y = tp_custom_apply(&none, NULL, 1, &x);
    assert_string_equal(tp_error_message(tp), "");
    assert_int_equal(tp_dtype_of(y), TP_BOOL);
    const tp_custom failing = {"failing", fails, no_gradient, true};
    for (int calls = 0; calls < 4; calls++) {
        int left = calls;
        expect_failure(tp_custom_apply(&failing, &left, 1, &x), TP_E_STATE,
                       "forward has enough");
    }
    const tp_custom bad_shape = {"bad", twice, wrong_shape, true};
    expect_failure(tp_custom_apply(&bad_shape, NULL, 1, &x), TP_E_SHAPE,
                   "the gradient that backward gives is f64 []");
    const tp_custom lost = {"lost", twice, without_context, true};
    expect_failure(tp_custom_apply(&lost, NULL, 1, &x), TP_E_NULL, "had NULL for its context");
}

/* ---- straight through ----------------------------------------------------------------------------------- */

static void test_straight_through(void **state)
{
    tp_tensor *x = marked(*state), *y = tp_straight_through(tp_round(x), x);
    expect_values(y, -2, 0, 2);
    expect_values(tp_grad(tp_mul(y, 3), x), 3, 3, 3);
}

/* ---- hooks --------------------------------------------------------------------------------------------------- */

static tp_tensor *halve(void *user, tp_tensor *g)
{
    ++*(int *)user;
    return tp_mul(g, 0.5);
}

static tp_tensor *look(void *user, tp_tensor *g)
{
    (void)g;
    ++*(int *)user;
    return NULL;
}

static void test_hook_on_a_value(void **state)
{
    tp_ctx *tp = *state;
    int n = 0;
    tp_hook *h = tp_hook_new(tp, halve, &n);
    tp_tensor *x = marked(tp), *y = tp_hooked(tp_mul(x, 4), h);
    tp_tensor *all = tp_add(tp_mul(y, y), y);
    expect_values(tp_grad(all, x), -22, 6, 34);
    assert_int_equal(n, 1); /* of the sum, not of its parts */
    tp_hook_free(h);
    expect_values(tp_grad(all, x), -44, 12, 68);
    assert_int_equal(n, 1);
}

static tp_tensor *too_small(void *user, tp_tensor *g)
{
    (void)user;
    return tp_sum(g, TP_ALL, false);
}

static void test_hook_of_another_shape(void **state)
{
    tp_ctx *tp = *state;
    tp_hook *h = tp_hook_new(tp, too_small, NULL);
    tp_tensor *x = marked(tp);
    assert_true(tp_failed(tp_grad(tp_hooked(tp_mul(x, 4), h), x)));
    assert_non_null(strstr(tp_error_message(tp), "the gradient that the hook gives is f32 []"));
    tp_clear_error(tp);
    tp_hook_free(h);
}

static void test_hooks_on_a_parameter(void **state)
{
    tp_ctx *tp = *state;
    int n = 0, seen = 0;
    tp_hook *h = tp_hook_new(tp, halve, &n), *l = tp_hook_new(tp, look, &seen);
    tp_tensor *x = marked(tp), *y = tp_mul(x, x);
    assert_int_equal(tp_hook_on(x, h), TP_OK);
    assert_int_equal(tp_hook_on(x, l), TP_OK);
    expect_values(tp_grad(y, x), -1.5f, 0.25f, 2);
    assert_int_equal(tp_backward(y), TP_OK);
    assert_int_equal(tp_backward(y), TP_OK);
    expect_values(tp_grad_of(x), -3, 0.5f, 4);
    assert_int_equal(n, 3);
    assert_int_equal(seen, 3);
    tp_hook_free(h);
    expect_values(tp_grad(y, x), -3, 0.5f, 4);
    assert_int_equal(seen, 4);
}

static void gradient(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    out[0] = tp_detach(tp_grad(tp_mul(tp_square(user), in[0]), user));
}

/* In a captured step a hook works as long as it is there; in a pure one too. */
static void hooked_steps(tp_ctx *tp, bool pure)
{
    int n = 0;
    const tp_function_options options = {.engine = TP_ENGINE_TILES, .pure = pure};
    tp_tensor *w = tp_param(tp_detach(marked(tp)), pure ? "v" : "w");
    tp_tensor *one = tp_full(tp, TP_F32, TP_DIMS(3), 1), *dw;
    tp_function *f = tp_function_new(tp, "gradient", gradient, w, &options);
    tp_hook *h = NULL;
    for (int turn = 0; turn < 15; turn++) {
        if (turn == 5)
            assert_int_equal(tp_hook_on(w, h = tp_hook_new(tp, halve, &n)), TP_OK);
        if (turn == 10)
            tp_hook_free(h);
        assert_int_equal(tp_function_call(f, 1, &one, 1, &dw), TP_OK);
        if (turn / 5 == 1)
            expect_values(dw, -1.5f, 0.25f, 2);
        else
            expect_values(dw, -3, 0.5f, 4);
    }
    if (pure ? n < 1 || n > 4 : n != 5)
        fail_msg("%s: the hook was called %d times in 5 calls", pure ? "pure" : "matched", n);
}

static void test_hooks_in_captured_steps(void **state)
{
    hooked_steps(*state, false);
    hooked_steps(*state, true);
}

static void test_hooks_in_graphs(void **state)
{
    tp_ctx *tp = *state;
    int n = 0;
    tp_hook *h = tp_hook_new(tp, halve, &n);
    tp_tensor *w = tp_param(tp_detach(marked(tp)), "w"), *got;
    tp_hook_on(w, h);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_SCALAR);
    tp_name(tp_grad(tp_mul(tp_square(w), tp_hooked(x, h)), w), "dw");
    tp_hook_free(h);
    tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("dw"), NULL);
    tp_tensor *two = tp_scalar(tp, TP_F32, 2);
    assert_int_equal(tp_program_run(p, &two, &got), TP_OK);
    expect_values(got, -3, 0.5f, 4);
    assert_int_equal(n, 1);
}

static tp_tensor *grows(void *user, tp_tensor *g)
{
    (void)user;
    return tp_concat(2, (tp_tensor *[]){g, g}, 0);
}

static void test_bad_hooks(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = marked(tp);
    tp_hook *h = tp_hook_new(tp, grows, NULL);
    expect_failure(tp_grad(tp_hooked(x, h), x), TP_E_SHAPE, "f32 [6]");
    tp_hook_on(x, h);
    expect_failure(tp_grad(tp_neg(x), x), TP_E_SHAPE, "what the hook gave is f32 [6]");
    assert_int_equal(tp_backward(tp_neg(x)), TP_E_SHAPE);
    tp_clear_error(tp);
    expect_values(tp_grad_of(x), 0, 0, 0);
    assert_int_equal(tp_hook_on(tp_neg(x), h), TP_E_STATE);
    tp_clear_error(tp);
}

/* ---- blocks without gradients ------------------------------------------------------------------------------------ */

static int returns_from(tp_ctx *tp)
{
    tp_no_grad(tp)
    {
        return 7;
    }
    return 0;
}

static void test_no_grad(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = marked(tp), *y = NULL;
    int turns = 0;
    tp_no_grad(tp)
    {
        y = tp_mul(x, x);
        turns++;
    }
    assert_int_equal(turns, 1);
    assert_false(tp_requires_grad(y));
    assert_true(tp_requires_grad(tp_mul(x, x)));
    assert_int_equal(returns_from(tp), 7);
    assert_true(tp_requires_grad(tp_mul(x, x)));
    tp_no_grad(tp)
    {
        tp_no_grad(tp) y = NULL;
        assert_false(tp_requires_grad(tp_neg(x)));
        break;
    }
    assert_true(tp_recording(tp, true));
}

static tp_tensor *half_recorded(tp_tensor *x)
{
    tp_tensor *square = NULL;
    tp_no_grad(tp_ctx_of(x)) square = tp_mul(x, x);
    return square;
}

static void unrecorded(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_grad(half_recorded(in[0]), in[0]);
    out[1] = tp_grad(tp_mul(half_recorded(in[0]), in[0]), in[0]);
}

/* What was made in it is a constant: zeros, and only what comes by another way. */
static void test_constants(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = marked(tp), *out[2];
    tp_function *f = tp_function_new(tp, "unrecorded", unrecorded, NULL, NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *node = tp_placeholder(g, "x", TP_F32, TP_DIMS(3));
    unrecorded(NULL, 1, &node, 2, out);
    tp_name(out[0], "none");
    tp_name(out[1], "other");
    for (int way = 0; way < 3; way++) {
        if (way == 0)
            unrecorded(NULL, 1, &x, 2, out);
        else if (way == 1)
            assert_int_equal(tp_function_call(f, 1, &x, 2, out), TP_OK);
        else
            assert_int_equal(
                tp_graph_run(g, TP_FEEDS({"x", x}), TP_NAMES("none", "other"), out), TP_OK);
        expect_values(out[0], 0, 0, 0);
        for (int i = 0; i < 3; i++)
            assert_true(((const float *)tp_data(out[1]))[i] ==
                        ((const float *)tp_data(x))[i] * ((const float *)tp_data(x))[i]);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

/* The copy of a variable that leaves a block without recording goes into the turns of a loop: the variable is computed
 * with inside of a call, and gets nothing there. */
static void test_a_constant_in_a_call(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *p = tp_param(tp_full(tp, TP_F32, TP_DIMS(3), 0.5), "p"), *v = NULL;
    tp_tensor *x = tp_require_grad(tp_full(tp, TP_F32, TP_DIMS(2, 3), 0.25));
    tp_no_grad(tp)
    {
        tp_if (tp_gt(tp_sum(p, TP_ALL, false), 0), &v) {
            v = p;
        }
        tp_else
        {
            v = tp_neg(p);
        }
    }
    tp_for (2, &v) {
        v = tp_add(v, tp_each(x));
    }
    tp_tensor *y = tp_sum(tp_square(v), TP_ALL, false);
    expect_values(tp_grad(y, p), 0, 0, 0);
    assert_float_equal(values(tp_grad(y, x))[0], 2, 0);
    assert_int_equal(tp_error(tp), TP_OK);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(test_the_rule_is_the_gradient),
                                              CASE(test_one_call_for_all_results),
                                              CASE(test_a_sweep_within_a_sweep),
                                              CASE(test_graphs),
                                              CASE(test_a_text_has_no_rule),
                                              CASE(test_captured),
                                              CASE(test_pure),
                                              CASE(test_bad_rules),
                                              CASE(test_check),
                                              CASE(test_check_of_what_fails),
                                              CASE(test_straight_through),
                                              CASE(test_hook_on_a_value),
                                              CASE(test_hook_of_another_shape),
                                              CASE(test_hooks_on_a_parameter),
                                              CASE(test_hooks_in_captured_steps),
                                              CASE(test_hooks_in_graphs),
                                              CASE(test_bad_hooks),
                                              CASE(test_no_grad),
                                              CASE(test_constants),
                                              CASE(test_a_constant_in_a_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
