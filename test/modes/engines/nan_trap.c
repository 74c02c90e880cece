/* The NaN trap: the first op that makes a NaN fails at its line, in every mode, and changes
 * nothing. */
#include "common/unit.h"
#include "tapir/nn.h"
#include "tapir/tapir.h"

#include <math.h>

static tp_tensor *numbers(tp_ctx *tp, float a, float b, float c, float d)
{
    const float v[] = {a, b, c, d};
    return tp_tensor_new(tp, TP_F32, TP_DIMS(2, 2), v);
}

static void expect_trapped(tp_ctx *tp, int line, const char *text)
{
    char want[200];
    snprintf(want, sizeof want, "nan_trap.c:%d: %s", line, text);
    if (tp_error(tp) != TP_E_VALUE || !strstr(tp_error_message(tp), want))
        fail_msg("expected \"%s\", got %s \"%s\"", want, tp_status_name(tp_error(tp)),
                 tp_error_message(tp));
    tp_clear_error(tp);
}

static void eager(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, 1, 2, 3, -4);
    tp_tensor *quiet = tp_log(x); /* the trap is off */
    assert_false(tp_failed(quiet));
    assert_false(tp_trap_nan(NULL, true));
    assert_false(tp_trap_nan(tp, true));
    assert_true(tp_trap_nan(tp, true));
    tp_tensor *y = tp_log(x);
    const int line = __LINE__ - 1;
    assert_true(tp_failed(y));
    expect_trapped(tp, line, "log: NaN at element [1, 1], and none in the operands");
    assert_true(tp_failed(tp_add(y, x))); /* sticks, and is no new error */
    assert_int_equal(tp_error(tp), TP_OK);

    /* what has a NaN already, or is fed or made with one, is left alone */
    assert_false(tp_failed(tp_add(quiet, x)));
    assert_false(tp_failed(tp_mul(numbers(tp, 0, NAN, 0, 0), x)));
    assert_false(tp_failed(tp_full(tp, TP_F64, TP_DIMS(3), NAN)));
    assert_false(tp_failed(tp_transpose(quiet, TP_DIMS(1, 0))));
    assert_false(tp_failed(tp_cast(quiet, TP_I32)));
    /* infinities are none, what becomes of them may be */
    tp_tensor *big = tp_exp(tp_scalar(tp, TP_F64, 1e4)), *z = tp_sub(big, big);
    assert_true(tp_failed(z));
    expect_trapped(tp, __LINE__ - 2, "sub: NaN at element [], and none in the operands");
    /* of views: positions are those of the result */
    tp_tensor *turned = tp_transpose(numbers(tp, 1, 1, -1, 1), TP_DIMS(1, 0));
    assert_true(tp_failed(tp_sqrt(turned)));
    expect_trapped(tp, __LINE__ - 1, "sqrt: NaN at element [0, 1], and none in the operands");
    tp_tensor *flipped = tp_flip(tp_slice(numbers(tp, 5, 0, -7, 0), 1, 0, 1, 1), TP_DIMS(0));
    assert_true(tp_failed(tp_log(tp_broadcast(flipped, TP_DIMS(3, 2, 1)))));
    expect_trapped(tp, __LINE__ - 1, "log: NaN at element [0, 0, 0], and none in the operands");
    assert_false(tp_failed(tp_sum(tp_full(tp, TP_I32, TP_DIMS(3), 2), TP_ALL, false)));
    assert_true(tp_trap_nan(tp, false));
    assert_false(tp_failed(tp_log(x)));
}

/* A rule of a gradient is blamed on the line of the op it is for; gradients that were there stay. */
static void gradients(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(numbers(tp, 4, 9, 16, 0), "w");
    assert_int_equal(tp_backward(tp_sum(w, TP_ALL, false)), TP_OK);
    tp_trap_nan(tp, true);
    tp_tensor *root = tp_sqrt(w);
    const int line = __LINE__ - 1;
    tp_tensor *y = tp_sum(tp_mul(root, numbers(tp, 1, 1, 1, 0)), TP_ALL, false);
    assert_int_equal(tp_backward(y), TP_E_VALUE); /* 0 * 1 / (2 * 0) */
    expect_trapped(tp, line, "");
    float d[4];
    assert_int_equal(tp_read(tp_grad_of(w), d, sizeof d), TP_OK);
    assert_true(d[0] == 1 && d[3] == 1);
    /* a sum of contributions: inf - inf at one operand */
    tp_tensor *v = tp_param(numbers(tp, 1, 1, 1, 1), "v");
    tp_tensor *inf = tp_full(tp, TP_F32, TP_DIMS(2, 2), INFINITY);
    tp_tensor *weights[2] = {tp_mul(v, inf), tp_mul(v, tp_neg(inf))};
    tp_tensor *both = tp_concat(2, weights, 0);
    assert_int_equal(tp_backward(tp_sum(both, TP_ALL, false)), TP_E_VALUE);
    assert_non_null(strstr(tp_error_message(tp), "NaN at element ["));
    tp_clear_error(tp);
}

/* The same op is found in programs, whatever their engine; a failed run changes nothing. */
static void programs(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(numbers(tp, 1, 2, 3, 4), "w");
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 2));
    tp_tensor *h = tp_log(tp_add(tp_exp(tp_matmul(x, w)), tp_scalar(tp, TP_F32, -1)));
    const int line = __LINE__ - 1;
    tp_tensor *y = tp_name(tp_sum(tp_relu(h), TP_ALL, false), "y");
    tp_name(tp_assign(w, tp_mul(w, y)), "step");
    tp_tensor *half = tp_mul(tp_scalar(tp, TP_F32, 0), tp_log(tp_mul(tp_tanh(y), y)));
    tp_name(half, "half");
    static const tp_engine engines[] = {TP_ENGINE_AUTO, TP_ENGINE_TILES, TP_ENGINE_REFERENCE,
                                        TP_ENGINE_C};
    for (int e = 0; e < 4; e++) {
        const tp_compile_options options = {.engine = engines[e]};
        tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y", "step"), &options);
        assert_non_null(p);
        tp_tensor *good = numbers(tp, 1, 1, 2, 1), *bad = numbers(tp, 1, 1, -3, 1), *out[2];
        float before[4], after[4];
        tp_trap_nan(tp, true);
        assert_int_equal(tp_program_run(p, &good, out), TP_OK);
        assert_string_equal(tp_program_engine(p), e < 2 ? "eager" : "reference");
        const float with = (float)tp_item(out[0]);
        tp_assign(w, numbers(tp, 1, 2, 3, 4));
        assert_int_equal(tp_read(w, before, sizeof before), TP_OK);
        assert_int_equal(tp_program_run(p, &bad, out), TP_E_VALUE);
        expect_trapped(tp, line, "log: NaN at element [1, 1], and none in the operands");
        assert_true(tp_failed(out[0]) && tp_failed(out[1]));
        assert_int_equal(tp_read(w, after, sizeof after), TP_OK);
        assert_memory_equal(before, after, sizeof before);
        tp_trap_nan(tp, false);
        if (engines[e] == TP_ENGINE_C && system("cc --version > /dev/null 2>&1") != 0) {
            printf("skipped: there is no compiler\n");
            continue;
        }
        assert_int_equal(tp_program_run(p, &good, out), TP_OK);
        assert_true(tp_item(out[0]) == (double)with);
        tp_assign(w, numbers(tp, 1, 2, 3, 4));
        assert_int_equal(tp_program_run(p, &bad, out), TP_OK);
        assert_true(isnan(tp_item(out[0])));
        tp_assign(w, numbers(tp, 1, 2, 3, 4));
    }
}

/* What is computed when the program is made is no value that was fed. */
static void constants(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 2));
    tp_tensor *zero =
        tp_sub(tp_graph_read(g, tp_scalar(tp, TP_F32, 3)), tp_scalar(tp, TP_F32, 3));
    tp_tensor *none = tp_div(zero, zero);
    const int line = __LINE__ - 1;
    tp_name(tp_add(x, none), "y");
    tp_tensor *value = numbers(tp, 1, 2, 3, 4), *out;
    for (int early = 0; early < 2; early++) { /* the trap is set before it is made, or after */
        tp_trap_nan(tp, early);
        tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), NULL);
        assert_non_null(p);
        tp_trap_nan(tp, true);
        assert_int_equal(tp_program_run(p, &value, &out), TP_E_VALUE);
        expect_trapped(tp, line, "div: NaN at element [], and none in the operands");
        tp_trap_nan(tp, false);
        assert_int_equal(tp_program_run(p, &value, &out), TP_OK);
    }
}

/* Ordinary training has no NaN on the way: rules do not compute what they then leave out. */
static void training(void **state)
{
    tp_ctx *tp = *state;
    tp_trap_nan(tp, true);
    tp_tensor *x = tp_require_grad(numbers(tp, 0, 2, 3, 0));
    tp_tensor *p = tp_require_grad(numbers(tp, 0, 1, 0.5f, 2));
    tp_tensor *y = tp_add(tp_pow(x, p), tp_max(x, p));
    y = tp_add(y, tp_mul(tp_gelu(x), tp_softmax(tp_mul(x, p), 1)));
    y = tp_add(y, tp_relu(tp_sub(x, p)));
    assert_int_equal(tp_backward(tp_sum(y, TP_ALL, false)), TP_OK);
    assert_string_equal(tp_error_message(tp), "");
}

static int line_of_log;

static void logarithm(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    tp_tensor *y = tp_sub(in[0], tp_scalar_like(in[0], 1));
    if (user)
        tp_trap_nan(user, true);
    out[0] = tp_log(y);
    line_of_log = __LINE__ - 1;
}

/* Captured functions run eagerly, and op by op what waits when the trap is switched on inside. */
static void functions(void **state)
{
    tp_ctx *tp = *state;
    for (int inside = 0; inside < 2; inside++) {
        tp_function *f = tp_function_new(tp, "f", logarithm, inside ? tp : NULL, NULL);
        tp_tensor *good = numbers(tp, 2, 3, 4, 5), *bad = numbers(tp, 2, 3, 0, 5);
        for (int i = 0; i < 3; i++)
            assert_false(tp_failed(tp_function_apply(f, TP_TENSORS(good))));
        tp_trap_nan(tp, !inside);
        assert_true(tp_failed(tp_function_apply(f, TP_TENSORS(bad))));
        expect_trapped(tp, line_of_log, "log: NaN at element [1, 0], and none in the operands");
        tp_trap_nan(tp, false);
        tp_function_free(f);
    }
}

static void environment(void **state)
{
    (void)state;
    assert_int_equal(setenv("TAPIR_TRAP", "nan", 1), 0);
    tp_ctx *tp = tp_open(NULL);
    assert_true(tp_failed(tp_log(tp_scalar(tp, TP_F32, -1))));
    assert_true(tp_trap_nan(tp, true));
    tp_close(tp);
    assert_int_equal(setenv("TAPIR_TRAP", "other", 1), 0);
    tp = tp_open(NULL);
    assert_false(tp_trap_nan(tp, false));
    tp_close(tp);
    assert_int_equal(unsetenv("TAPIR_TRAP"), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(eager),    CASE(gradients), CASE(programs),   CASE(constants),
        CASE(training), CASE(functions), CASE(environment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
