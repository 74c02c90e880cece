/* tp_jvp, tp_jacobian, tp_hessian, tp_hvp: closed forms, loops and branches, graphs, captured functions, and what they
 * refuse. That each op is right is a matter of the op cases (op_jvp). */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

static tp_tensor *vector(tp_ctx *tp, int n, const double *v)
{
    return tp_tensor_new(tp, TP_F64, TP_DIMS(n), v);
}

static void expect_values(tp_tensor *t, int64_t n, const double *want, double tolerance)
{
    tp_ctx *tp = tp_ctx_of(t);
    if (tp_failed(t))
        fail_msg("failed: %s", tp ? tp_error_message(tp) : "no context");
    t = tp_contiguous(t);
    const double *got = tp_data(t);
    assert_int_equal(tp_count(t), n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * fmax(1, fabs(want[i]))))
            fail_msg("element %d is %.17g, not %.17g", (int)i, got[i], want[i]);
}

/* ---- closed forms ------------------------------------------------------------------------------------ */

/* x0^2 x1, sin x1 */
static void two(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *a = tp_select(in[0], 0, 0), *b = tp_select(in[0], 0, 1);
    out[0] = tp_stack(2, (tp_tensor *[]){tp_mul(tp_mul(a, a), b), tp_sin(b)}, 0);
}

/* The sum of x^3, and a number that is no float. */
static void cubes(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in;
    out[0] = tp_sum(tp_mul(tp_square(in[0]), in[0]), TP_ALL, false);
    if (n_out > 1)
        out[1] = tp_argmax(in[0], 0, false);
    if (n_out > 2)
        out[2] = tp_scalar_like(in[0], 3);
}

static void along_a_direction(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = vector(tp, 2, (double[]){2, 0.5}), *d = vector(tp, 2, (double[]){1, -1});
    tp_tensor *y, *dy;
    assert_int_equal(tp_jvp(two, NULL, 1, &x, &d, 1, &y, &dy), TP_OK);
    expect_values(y, 2, (double[]){2, sin(0.5)}, 1e-15);
    expect_values(dy, 2, (double[]){2 * 2 * 0.5 - 4, -cos(0.5)}, 1e-14);
}

static void what_has_no_derivative_has_zeros(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = vector(tp, 2, (double[]){2, 0.5}), *none = NULL, *y[3], *dy[3];
    assert_int_equal(tp_jvp(cubes, NULL, 1, &x, &none, 3, y, dy), TP_OK);
    expect_values(dy[0], 1, (double[]){0}, 0);
    assert_int_equal(tp_dtype_of(dy[1]), TP_I64);
    assert_int_equal(((const int64_t *)tp_data(dy[1]))[0], 0);
    expect_values(dy[2], 1, (double[]){0}, 0);
}

static void jacobians(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = vector(tp, 2, (double[]){2, 0.5});
    tp_tensor *j = tp_jacobian(two, NULL, 1, &x, 0);
    assert_int_equal(tp_rank(j), 2);
    expect_values(j, 4, (double[]){2, 4, 0, cos(0.5)}, 1e-14);
    j = tp_jacobian(cubes, NULL, 1, &x, 0);
    assert_int_equal(tp_rank(j), 1);
    expect_values(j, 2, (double[]){12, 0.75}, 1e-14);
}

static void hessians(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = vector(tp, 2, (double[]){2, 0.5}), *v = vector(tp, 2, (double[]){1, 2});
    expect_values(tp_hessian(cubes, NULL, 1, &x, 0), 4, (double[]){12, 0, 0, 3}, 1e-14);
    expect_values(tp_hvp(cubes, NULL, 1, &x, 0, v), 2, (double[]){12, 6}, 1e-14);
    /* of the sum of two: d2 / da2 = 2 b, d2 / da db = 2 a, d2 / db2 = -sin b */
    expect_values(tp_hessian(two, NULL, 1, &x, 0), 4, (double[]){1, 4, 4, -sin(0.5)}, 1e-14);
    expect_values(tp_hvp(two, NULL, 1, &x, 0, v), 2, (double[]){9, 4 - 2 * sin(0.5)}, 1e-14);
}

static void counted(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    ++*(int *)user;
    two(NULL, n_in, in, n_out, out);
}

/* Of results of any number, each row of the matrix. */
static void the_function_runs_once(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = vector(tp, 2, (double[]){2, 0.5});
    int calls = 0;
    assert_false(tp_failed(tp_jacobian(counted, &calls, 1, &x, 0)));
    assert_int_equal(calls, 1);
    assert_false(tp_failed(tp_hessian(counted, &calls, 1, &x, 0)));
    assert_int_equal(calls, 2);
}

/* What has a derivative text, and what goes by reverse mode twice. */
static void running_product(void *user, int n_in, tp_tensor *const *in, int n_out,
                            tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_cumprod(tp_exp(in[0]), 0, false, false);
}

static void nothing_is_recorded_where_recording_is_off(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_require_grad(vector(tp, 2, (double[]){2, 0.5})), *y = NULL, *dy = NULL;
    tp_no_grad(tp)
        assert_int_equal(tp_jvp(running_product, NULL, 1, &x, &x, 1, &y, &dy), TP_OK);
    assert_false(tp_requires_grad(y));
    assert_false(tp_requires_grad(dy));
    assert_int_equal(tp_jvp(running_product, NULL, 1, &x, &x, 1, &y, &dy), TP_OK);
    assert_true(tp_requires_grad(y));
    assert_true(tp_requires_grad(dy));
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

/* h = tanh(h + x[t]) over the elements, all h kept. */
static void running(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *h = tp_scalar_like(in[0], 0), *all = NULL;
    tp_for (tp_dim(in[0], 0), &h) {
        h = tp_tanh(tp_add(h, tp_each(in[0])));
        tp_emit(&all, h);
    }
    out[0] = all;
}

/* Doubles while below 10, then one of two. */
static void branches(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *x = tp_sum(in[0], TP_ALL, false), *y = NULL;
    tp_while (tp_lt(x, 10), &x) {
        x = tp_mul(x, 2);
    }
    tp_if (tp_gt(x, 12), &y) {
        y = tp_square(x);
    }
    tp_else
    {
        y = tp_scalar_like(x, 1);
    }
    out[0] = y;
}

static void through_loops(void **state)
{
    tp_ctx *tp = *state;
    const double v[3] = {0.3, -0.2, 0.6}, w[3] = {1, 2, -0.5};
    tp_tensor *x = vector(tp, 3, v), *d = vector(tp, 3, w), *y, *dy;
    double h = 0, dh = 0, want[3];
    for (int i = 0; i < 3; i++) {
        h = tanh(h + v[i]);
        dh = (1 - h * h) * (dh + w[i]);
        want[i] = dh;
    }
    assert_int_equal(tp_jvp(running, NULL, 1, &x, &d, 1, &y, &dy), TP_OK);
    expect_values(dy, 3, want, 1e-14);
}

static void through_branches(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = vector(tp, 2, (double[]){3, 0.5}), *d = vector(tp, 2, (double[]){1, 1}), *y,
              *dy;
    assert_int_equal(tp_jvp(branches, NULL, 1, &x, &d, 1, &y, &dy), TP_OK);
    expect_values(y, 1, (double[]){14 * 14}, 1e-15); /* 3.5, 7, 14 */
    expect_values(dy, 1, (double[]){2 * 14 * 8}, 1e-15);
    x = vector(tp, 2, (double[]){2.5, 0.25}); /* 2.75, 5.5, 11 */
    assert_int_equal(tp_jvp(branches, NULL, 1, &x, &d, 1, &y, &dy), TP_OK);
    expect_values(y, 1, (double[]){1}, 0);
    expect_values(dy, 1, (double[]){0}, 0);
}

/* ---- around it --------------------------------------------------------------------------------------------- */

static void derivative(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *y;
    (void)user, (void)n_out;
    tp_jvp(running, NULL, 1, in, in + 1, 1, &y, out);
    (void)n_in;
}

static void in_functions_and_programs(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *in[2] = {vector(tp, 3, (double[]){0.3, -0.2, 0.6}),
                        vector(tp, 3, (double[]){1, 2, -0.5})};
    tp_tensor *want, *y;
    assert_int_equal(tp_jvp(running, NULL, 1, in, in + 1, 1, &y, &want), TP_OK);
    const double *w = tp_data(tp_contiguous(want));
    for (int pure = 0; pure < 2; pure++) {
        tp_function *f = tp_function_new(tp, "derivative", derivative, NULL,
                                         &(tp_function_options){.pure = pure});
        for (int call = 0; call < 3; call++)
            expect_values(tp_function_apply(f, 2, in), 3, w, 0);
        tp_function_free(f);
    }
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *x[2] = {tp_placeholder(g, "x", TP_F64, 1, &n),
                       tp_placeholder(g, "d", TP_F64, 1, &n)};
    derivative(NULL, 2, x, 1, &y);
    tp_name(tp_add(y, 0), "dy");
    for (int e = 0; e < 3; e++) {
        tp_program *p =
            tp_graph_compile(g, 2, (const char *[]){"x", "d"}, 1, (const char *[]){"dy"},
                             &(tp_compile_options){.engine = engines[e]});
        assert_non_null(p);
        if (tp_program_run(p, in, &y) != TP_OK)
            fail_msg("%s", tp_error_message(tp));
        expect_values(y, 3, w, 0);
    }
    tp_graph_free(g);
}

/* The derivative of a derivative along directions, and of samples. */
static void nested(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *in[2] = {vector(tp, 3, (double[]){0.3, -0.2, 0.6}),
                        vector(tp, 3, (double[]){1, 2, -0.5})};
    tp_tensor *din[2] = {in[1], NULL}, *y, *second, *rows[2], *d0, *y0;
    assert_int_equal(tp_jvp(derivative, NULL, 2, in, din, 1, &y, &second), TP_OK);
    double want[3];
    for (int side = 0; side < 2; side++) { /* by differences */
        tp_tensor *moved[2] = {tp_add(in[0], tp_mul(in[1], side ? -1e-5 : 1e-5)), in[1]};
        tp_jvp(running, NULL, 1, moved, moved + 1, 1, &y0, &d0);
        const double *v = tp_data(tp_contiguous(d0));
        for (int i = 0; i < 3; i++)
            want[i] = side ? (want[i] - v[i]) / 2e-5 : v[i];
    }
    expect_values(second, 3, want, 1e-7);
    for (int k = 0; k < 2; k++)
        rows[k] = tp_stack(2, (tp_tensor *[]){in[k], tp_mul(in[k], 0.5)}, 0);
    tp_tensor *all = tp_vmap_apply(derivative, NULL, 2, rows, NULL);
    derivative(NULL, 2, in, 1, &y);
    expect_values(tp_select(all, 0, 0), 3, tp_data(tp_contiguous(y)), 0);
}

/* ---- mistakes ------------------------------------------------------------------------------------------------- */

static void failing(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_reshape(in[0], TP_DIMS(7));
}

static void mistakes_are_told(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = vector(tp, 2, (double[]){2, 0.5}), *d = vector(tp, 3, (double[]){1, 1, 1});
    tp_tensor *i = tp_cast(x, TP_I64), *y, *dy;
    tp_jvp(two, NULL, 1, &x, &d, 1, &y, &dy);
    assert_true(tp_failed(y) && tp_failed(dy));
    EXPECT_ERROR_WITH(tp, TP_E_SHAPE, "argument 0 is f64 [2], its direction f64 [3]");
    tp_jvp(two, NULL, 1, &i, &i, 1, &y, &dy);
    EXPECT_ERROR_WITH(tp, TP_E_DTYPE, "argument 0 is i64 [2], its direction i64 [2]");
    tp_jvp(two, NULL, 1, &x, NULL, 1, &y, &dy);
    EXPECT_ERROR_WITH(tp, TP_E_NULL, "the directions are missing");
    tp_jvp(NULL, NULL, 1, &x, &x, 1, &y, &dy);
    EXPECT_ERROR_WITH(tp, TP_E_NULL, "the function is NULL");
    tp_jacobian(two, NULL, 1, &x, 1);
    EXPECT_ERROR_WITH(tp, TP_E_VALUE, "there is no argument 1 of 1");
    tp_hessian(two, NULL, 1, &i, 0);
    EXPECT_ERROR_WITH(tp, TP_E_DTYPE, "argument 0 is i64: derivatives are by f32 and f64");
    tp_hessian(NULL, NULL, 1, &x, 0);
    EXPECT_ERROR_WITH(tp, TP_E_NULL, "the function is NULL");
    tp_hvp(two, NULL, 1, &x, 0, NULL);
    EXPECT_ERROR_WITH(tp, TP_E_NULL, "the direction is NULL");
    tp_hvp(two, NULL, 1, &x, 0, d);
    EXPECT_ERROR_WITH(tp, TP_E_SHAPE, "its direction f64 [3]");
    tp_jacobian(failing, NULL, 1, &x, 0);
    assert_int_not_equal(tp_error(tp), TP_OK);
    tp_clear_error(tp);
    assert_int_equal(tp_jvp(two, NULL, 1, &x, &x, 0, NULL, NULL), TP_E_NULL);
    tp_clear_error(tp);
}

static void all_of_it(tp_ctx *tp, tp_tensor **y)
{
    tp_tensor *x = vector(tp, 3, (double[]){0.3, -0.2, 0.6}), *dy;
    tp_jvp(running, NULL, 1, &x, &x, 1, &y[0], &dy);
    y[1] = tp_jacobian(running, NULL, 1, &x, 0);
    y[2] = tp_hvp(cubes, NULL, 1, &x, 0, x);
    tp_jvp(branches, NULL, 1, &x, &x, 1, &y[3], &dy);
}

static void memory_runs_out(void **state)
{
    (void)state;
    unit_no_memory(all_of_it, 4);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(along_a_direction),
        CASE(what_has_no_derivative_has_zeros),
        CASE(jacobians),
        CASE(hessians),
        CASE(the_function_runs_once),
        CASE(nothing_is_recorded_where_recording_is_off),
        CASE(through_loops),
        CASE(through_branches),
        CASE(in_functions_and_programs),
        CASE(nested),
        CASE(mistakes_are_told),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
