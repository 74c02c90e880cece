/* tapir/indexing.h: gradients where several sources meet, and sizes that values decide in every form of
 * a program. What each function gives is in test/modes/op/cases.def. */
#include "common/same.h"
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

static tp_tensor *f64s(tp_ctx *tp, int64_t n, const double *v)
{
    return tp_tensor_new(tp, TP_F64, 1, &n, v);
}

static tp_tensor *i64s(tp_ctx *tp, int64_t n, const int64_t *v)
{
    return tp_tensor_new(tp, TP_I64, 1, &n, v);
}

static void expect(tp_tensor *t, int64_t n, const double *want)
{
    const double *v = tp_data(tp_contiguous(t));
    assert_non_null(v);
    assert_int_equal(tp_count(t), n);
    for (int64_t i = 0; i < n; i++)
        if (!(v[i] == want[i]))
            fail_msg("element %d is %g, not %g", (int)i, v[i], want[i]);
}

/* ---- gradients where sources meet ---------------------------------------------------------------- */

static void equal_ones_share(void **state)
{
    tp_ctx *tp = *state;
    const double x_of[] = {1, 5, 3, 7}, src_of[] = {5, 2, 9, 9};
    const int64_t at[] = {1, 1, -1, 3};
    tp_tensor *x = tp_require_grad(f64s(tp, 4, x_of)),
              *s = tp_require_grad(f64s(tp, 4, src_of));
    tp_tensor *of[] = {x, s}, *d[2], *dd[2];
    tp_tensor *y = tp_square(tp_scatter_max(x, i64s(tp, 4, at), s, 0));
    assert_int_equal(tp_grads(tp_sum(y, TP_ALL, false), NULL, 2, of, d), TP_OK);
    expect(d[0], 4, (const double[]){2, 5, 6, 0});
    expect(d[1], 4, (const double[]){5, 0, 9, 9});
    tp_tensor *sum = tp_add(tp_sum(d[0], TP_ALL, false), tp_sum(d[1], TP_ALL, false));
    assert_int_equal(tp_grads(sum, NULL, 2, of, dd), TP_OK);
    expect(dd[0], 4, (const double[]){2, 1, 2, 0});
    expect(dd[1], 4, (const double[]){1, 0, 1, 1});
}

static void a_nan_takes_the_gradient(void **state)
{
    tp_ctx *tp = *state;
    const double x_of[] = {NAN, 5, 3}, src_of[] = {1, NAN, 2};
    const int64_t at[] = {0, 1, 2};
    tp_tensor *x = tp_require_grad(f64s(tp, 3, x_of)),
              *s = tp_require_grad(f64s(tp, 3, src_of));
    tp_tensor *of[] = {x, s}, *d[2];
    tp_tensor *y = tp_scatter_min(x, i64s(tp, 3, at), s, 0);
    assert_int_equal(tp_grads(tp_sum(y, TP_ALL, false), NULL, 2, of, d), TP_OK);
    expect(d[0], 3, (const double[]){1, 0, 0});
    expect(d[1], 3, (const double[]){0, 1, 1});
}

/* y0 = 2 * 0 * 4, y1 = 3. */
static void zeros_have_their_gradients(void **state)
{
    tp_ctx *tp = *state;
    const double x_of[] = {2, 3}, src_of[] = {0, 4};
    const int64_t at[] = {0, -2};
    tp_tensor *x = tp_require_grad(f64s(tp, 2, x_of)),
              *s = tp_require_grad(f64s(tp, 2, src_of));
    tp_tensor *of[] = {x, s}, *d[2], *dd[2];
    tp_tensor *y = tp_scatter_mul(x, i64s(tp, 2, at), s, 0);
    assert_int_equal(tp_grads(tp_sum(y, TP_ALL, false), NULL, 2, of, d), TP_OK);
    expect(d[0], 2, (const double[]){0, 1});
    expect(d[1], 2, (const double[]){8, 0});
    tp_tensor *sum = tp_add(tp_sum(d[0], TP_ALL, false), tp_sum(d[1], TP_ALL, false));
    assert_int_equal(tp_grads(sum, NULL, 2, of, dd), TP_OK);
    expect(dd[0], 2, (const double[]){4, 0});
    expect(dd[1], 2, (const double[]){6, 2});
}

/* ---- sizes that values decide -------------------------------------------------------------------- */

enum { N_OUT = 6 };

/* Of x [n] f64: what is positive, where, its distinct whole parts, how often each; the sum of squares of the first, and its
 * gradient. */
static void find(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    tp_tensor *x = in[0], *is = tp_gt(x, tp_scalar_like(x, 0));
    tp_tensor *kept = tp_masked_select(x, is);
    out[0] = kept;
    out[1] = tp_nonzero(is);
    out[2] = tp_unique(tp_floor(kept), NULL, NULL, &out[3]);
    out[4] = tp_sum(tp_square(kept), TP_ALL, false);
    out[5] =
        user ? out[4] : tp_grad(out[4], x); /* of a call of a pure function nobody may ask */
}

enum { N_ROUNDS = 12, N_X = 40 };

/* Of round r some are positive: none, all, few, many. */
static tp_tensor *operand(tp_ctx *tp, int r)
{
    double v[N_X];
    for (int i = 0; i < N_X; i++)
        v[i] = r == 1 || (r > 1 && (i * 7 + r * 3) % 11 < r) ? (i * 5 + r) % 7 + 0.25 : -i;
    return f64s(tp, N_X, v);
}

static void expect_found(tp_ctx *tp, int r, void *user, tp_tensor *const *out, const char *how)
{
    tp_tensor *x = tp_require_grad(operand(tp, r)), *want[N_OUT];
    find(user, 1, &x, N_OUT, want);
    for (int k = 0; k < N_OUT; k++) {
        char why[800];
        if (!same_tensors(out[k], want[k], SAME_ZEROS_BITS, why, sizeof why))
            fail_msg("%s, round %d, result %d: %s", how, r, k, why);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

static void in_programs(void **state)
{
    static const char *const names[] = {"kept", "where", "parts", "counts", "loss", "dx"};
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F64, TP_DIMS(tp_symbol(g, "n"))), *out[N_OUT];
    find(NULL, 1, &x, N_OUT, out);
    for (int k = 0; k < N_OUT; k++)
        tp_name(out[k], names[k]);
    assert_int_equal(tp_error(tp), TP_OK);
    for (int e = 0; e < 3; e++) {
        tp_program *p = tp_graph_compile(g, 1, (const char *[]){"x"}, N_OUT, names,
                                         &(tp_compile_options){.engine = engines[e]});
        assert_non_null(p);
        for (int r = 0; r < N_ROUNDS; r++) {
            tp_tensor *in = operand(tp, r);
            assert_int_equal(tp_program_run(p, &in, out), TP_OK);
            expect_found(tp, r, NULL, out, "program");
        }
        tp_program_free(p);
    }
}

static void call_often(tp_ctx *tp, const tp_function_options *o, const char *how)
{
    void *user = o && o->pure ? tp : NULL;
    tp_function *f = tp_function_new(tp, "find", find, user, o);
    for (int turn = 0; turn < 6; turn++)
        for (int r = 0; r < N_ROUNDS; r++) {
            tp_scope_begin(tp);
            tp_tensor *x = operand(tp, r), *out[N_OUT];
            if (!user)
                tp_require_grad(x);
            assert_int_equal(tp_function_call(f, 1, &x, N_OUT, out), TP_OK);
            expect_found(tp, r, user, out, how);
            tp_scope_end(tp);
        }
    tp_function_free(f);
}

static void in_captured_functions(void **state)
{
    tp_ctx *tp = *state;
    call_often(tp, NULL, "captured");
    call_often(tp, &(tp_function_options){.engine = TP_ENGINE_TILES}, "captured, by tiles");
    call_often(tp, &(tp_function_options){.pure = true, .check = true}, "pure");
    call_often(tp, &(tp_function_options){.pure = true, .engine = TP_ENGINE_TILES},
               "pure, by tiles");
}

/* The sum of what is positive, if there is any: in a block the number of it has no name outside. */
static tp_tensor *sum_in_block(tp_tensor *x)
{
    tp_tensor *sum = tp_sum(tp_mul(x, tp_scalar_like(x, 0)), TP_ALL, false);
    tp_tensor *is = tp_gt(x, tp_scalar_like(x, 0));
    tp_if (tp_gt(tp_reduce_max(x, TP_ALL, false), tp_scalar_like(sum, 0)), &sum)
        sum = tp_sum(tp_masked_select(x, is), TP_ALL, false);
    return sum;
}

static void in_blocks(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F64, TP_DIMS(tp_symbol(g, "n"))), *y;
    tp_name(sum_in_block(x), "sum");
    assert_int_equal(tp_error(tp), TP_OK);
    tp_program *p = tp_graph_compile(g, 1, (const char *[]){"x"}, 1, (const char *[]){"sum"},
                                     &(tp_compile_options){.engine = TP_ENGINE_TILES});
    for (int r = 0; r < N_ROUNDS; r++) {
        tp_tensor *in = operand(tp, r);
        assert_int_equal(tp_program_run(p, &in, &y), TP_OK);
        assert_true(tp_item(y) == tp_item(sum_in_block(in)));
    }
    tp_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(equal_ones_share),           CASE(a_nan_takes_the_gradient),
        CASE(zeros_have_their_gradients), CASE(in_programs),
        CASE(in_captured_functions),      CASE(in_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
