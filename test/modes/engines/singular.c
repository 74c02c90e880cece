/* Matrices that cannot be solved or factored: a run that comes to one fails with its number, in every mode; and what
 * gradients are where results are not differentiable. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

/* [2, 2, 2]: one that can, and one of these numbers. */
static tp_tensor *stack_with(tp_ctx *tp, double a, double b, double c, double d)
{
    const double v[] = {2, 1, 1, 2, a, b, c, d};
    return tp_tensor_new(tp, TP_F64, TP_DIMS(2, 2, 2), v);
}

typedef struct refusal {
    const char *text;
    tp_tensor *(*of)(tp_tensor *a);
    const char
        *eager; /* where what is called is told, and not the op that it is made of; or NULL */
} refusal;

static tp_tensor *solved(tp_tensor *a)
{
    return tp_solve(a, tp_slice(a, -1, 0, 1, 1));
}

static tp_tensor *inverted(tp_tensor *a)
{
    return tp_inverse(a);
}

static tp_tensor *rooted(tp_tensor *a)
{
    return tp_cholesky(a, false);
}

static tp_tensor *of_triangle(tp_tensor *a)
{
    return tp_solve_triangular(a, a, true, false, false);
}

static const refusal refusals[] = {
    {"solve: matrix 1 is singular",                 solved,      NULL                           },
    {"solve: matrix 1 is singular",                 inverted,    "inverse: matrix 1 is singular"},
    {"cholesky: matrix 1 is not positive definite", rooted,      NULL                           },
    {"solve_triangular: matrix 1 is singular",      of_triangle, NULL                           },
};
enum { N_REFUSALS = sizeof refusals / sizeof *refusals };

static void expect(tp_ctx *tp, const char *text)
{
    if (tp_error(tp) != TP_E_VALUE || !strstr(tp_error_message(tp), text))
        fail_msg("expected \"%s\", got %s \"%s\"", text, tp_status_name(tp_error(tp)),
                 tp_error_message(tp));
    tp_clear_error(tp);
}

static void eager(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < N_REFUSALS; i++) {
        tp_tensor *bad = stack_with(tp, 0, 0, 0, 0), *good = stack_with(tp, 3, 1, 1, 3);
        assert_false(tp_failed(refusals[i].of(good)));
        assert_true(tp_failed(refusals[i].of(bad)));
        expect(tp, refusals[i].eager ? refusals[i].eager : refusals[i].text);
    }
}

static void programs(void **state)
{
    static const tp_engine engines[] = {TP_ENGINE_AUTO, TP_ENGINE_TILES, TP_ENGINE_REFERENCE,
                                        TP_ENGINE_C};
    tp_ctx *tp = *state;
    for (int i = 0; i < N_REFUSALS; i++) {
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *a = tp_placeholder(g, "a", TP_F64, TP_DIMS(tp_symbol(g, "b"), 2, 2));
        tp_name(tp_neg(refusals[i].of(tp_add(a, a))), "y");
        for (int e = 0; e < 4; e++) {
            if (engines[e] == TP_ENGINE_C && system("cc --version > /dev/null 2>&1") != 0)
                continue;
            const tp_compile_options options = {.engine = engines[e]};
            tp_program *p = tp_graph_compile(g, TP_NAMES("a"), TP_NAMES("y"), &options);
            tp_tensor *good = stack_with(tp, 3, 1, 1, 3), *bad = stack_with(tp, 0, 0, 0, 0), *y;
            assert_non_null(p);
            assert_int_equal(tp_program_run(p, &good, &y), TP_OK);
            assert_int_equal(tp_program_run(p, &bad, &y), TP_E_VALUE);
            expect(tp, refusals[i].text);
            assert_int_equal(tp_program_run(p, &good, &y), TP_OK);
            tp_program_free(p);
        }
    }
}

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const refusal *r = user;
    (void)n_in, (void)n_out;
    out[0] = tp_neg(r->of(tp_add(in[0], in[0])));
}

static void captured(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < N_REFUSALS; i++) {
        tp_function *f = tp_function_new(tp, "f", body, (void *)(uintptr_t)&refusals[i], NULL);
        for (int call = 0; call < 8; call++) {
            const bool bad = call % 4 == 3;
            tp_tensor *a = stack_with(tp, bad ? 0 : 3, !bad, !bad, bad ? 0 : 3), *y;
            tp_tensor *in[] = {a};
            const tp_status s = tp_function_call(f, 1, in, 1, &y);
            const bool failed =
                s != TP_OK || tp_failed(y) || isnan(tp_item(tp_sum(y, TP_ALL, false)));
            assert_int_equal(failed, bad);
            if (bad)
                expect(tp, refusals[i].text);
        }
        tp_function_free(f);
    }
}

/* Determinants of singular matrices are 0, their gradients refused. */
static void determinants(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *a = tp_require_grad(stack_with(tp, 1, 2, 2, 4)), *sign, *size;
    double v[2];
    tp_tensor *det = tp_det(a);
    assert_int_equal(tp_read(det, v, sizeof v), TP_OK);
    assert_true(v[0] == 3 && v[1] == 0);
    assert_int_equal(tp_slogdet(a, &sign, &size), TP_OK);
    assert_int_equal(tp_read(sign, v, sizeof v), TP_OK);
    assert_true(v[0] == 1 && v[1] == 0);
    assert_int_equal(tp_read(size, v, sizeof v), TP_OK);
    assert_true(isinf(v[1]) && v[1] < 0);
    assert_true(tp_failed(tp_grad(tp_sum(det, TP_ALL, false), a)));
    expect(tp, "solve: matrix 1 is singular");
    tp_tensor *lu, *rows;
    assert_int_equal(tp_lu(a, &lu, &rows), TP_OK);
    assert_true(tp_failed(tp_grad(tp_sum(lu, TP_ALL, false), a)));
    expect(tp, "is singular");
    tp_tensor *zeros = tp_require_grad(tp_full(tp, TP_F64, TP_DIMS(3, 2), 0)), *q, *r;
    assert_int_equal(tp_qr(zeros, &q, &r), TP_OK);
    assert_true(tp_failed(tp_grad(tp_sum(tp_square(q), TP_ALL, false), zeros)));
    expect(tp, "is singular");
}

/* Is an element of the gradient of the sum of y no finite number? */
static bool is_degenerate(tp_tensor *y, tp_tensor *a)
{
    tp_tensor *d = tp_grad(tp_sum(y, TP_ALL, false), a);
    assert_false(tp_failed(d));
    return !isfinite(tp_item(tp_sum(d, TP_ALL, false)));
}

/* Through values the gradient is there, through vectors it is not. */
static void repeated(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *a = tp_require_grad(stack_with(tp, 5, 0, 0, 5)), *w, *v, *u, *s, *vt;
    tp_tensor *by = tp_tensor_new(tp, TP_F64, TP_DIMS(2, 2), (double[]){1, 2, 3, 4});
    assert_int_equal(tp_eigh(a, &w, &v), TP_OK);
    assert_true(is_degenerate(tp_mul(v, by), a));
    assert_false(is_degenerate(tp_mul(w, tp_slice(by, 0, 0, 1, 1)), a));
    assert_int_equal(tp_svd(a, &u, &s, &vt), TP_OK);
    assert_true(is_degenerate(tp_mul(u, by), a));
    assert_false(is_degenerate(tp_mul(s, tp_slice(by, 0, 0, 1, 1)), a));
    tp_tensor *x = tp_lstsq(a, by, 1e-9);
    assert_false(is_degenerate(x, a));
}

/* What is small beside its neighbours counts. */
static void small_elements(void **state)
{
    tp_ctx *tp = *state;
    const double v[] = {1, 1e-9, 3e-9, 1e-9, 2, 1, 3e-9, 1, 3};
    tp_tensor *a = tp_tensor_new(tp, TP_F64, TP_DIMS(3, 3), v), *w, *z;
    assert_int_equal(tp_eigh(a, &w, &z), TP_OK);
    tp_tensor *again = tp_matmul(tp_mul(z, tp_unsqueeze(w, 0)), tp_swap(z, 0, 1));
    assert_true(tp_item(tp_reduce_max(tp_abs(tp_sub(a, again)), TP_ALL, false)) < 1e-14);
}

/* No finite numbers: NaN everywhere, and an end. */
static void no_numbers(void **state)
{
    tp_ctx *tp = *state;
    const double odd[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        tp_tensor *a = stack_with(tp, 1, odd[i], odd[i], 1), *w, *v, *u, *s, *vt;
        double value[4];
        assert_int_equal(tp_eigh(a, &w, &v), TP_OK);
        assert_int_equal(tp_read(w, value, sizeof value), TP_OK);
        assert_true(fabs(value[0] - 1) < 1e-12 && fabs(value[1] - 3) < 1e-12 &&
                    isnan(value[2]) && isnan(value[3]));
        assert_int_equal(tp_svd(a, &u, &s, &vt), TP_OK);
        assert_int_equal(tp_read(s, value, sizeof value), TP_OK);
        assert_true(isfinite(value[0]) && isnan(value[2]) && isnan(value[3]));
        const double det = tp_item(tp_sum(tp_det(a), TP_ALL, false));
        assert_false(det - det == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(eager),        CASE(programs), CASE(captured),
                                       CASE(determinants), CASE(repeated), CASE(small_elements),
                                       CASE(no_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
