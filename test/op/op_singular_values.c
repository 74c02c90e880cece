/* Singular vectors and least squares of matrices whose rows depend on each other or are of very different lengths, by what
 * is known of them. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

enum { MOST = 64 };

static tp_tensor *matrix(tp_ctx *tp, tp_dtype dtype, int n, const double *v)
{
    return tp_cast(tp_tensor_new(tp, TP_F64, TP_DIMS(n, n), v), dtype);
}

/* The largest element of U'U - 1, and of V V' - 1. */
static double off_unit(tp_tensor *u, tp_tensor *vt)
{
    tp_tensor *v = tp_transpose(vt, 0, NULL), *both[] = {u, v};
    double most = 0;
    for (int i = 0; i < 2; i++) {
        tp_tensor *q = tp_cast(both[i], TP_F64);
        tp_tensor *product = tp_matmul(tp_transpose(q, 0, NULL), q);
        tp_tensor *unit = tp_eye(tp_ctx_of(u), TP_F64, tp_size(q, 1), tp_size(q, 1), 0);
        most = fmax(most, tp_item(tp_reduce_max(tp_abs(tp_sub(product, unit)), TP_ALL, false)));
    }
    return most;
}

static void expect_factors(tp_tensor *a, const char *name, int rank, double first)
{
    tp_tensor *u, *s, *vt;
    const bool wide = tp_dtype_of(a) == TP_F64;
    const int n = (int)tp_size(a, 0);
    const double eps = (wide ? 1e-15 : 6e-7) * 20;
    double got[MOST];
    assert_int_equal(tp_svd(a, &u, &s, &vt), TP_OK);
    assert_int_equal(tp_read(tp_cast(s, TP_F64), got, sizeof(double) * (size_t)n), TP_OK);
    tp_tensor *again = tp_matmul(tp_mul(u, tp_unsqueeze(s, 0)), vt);
    const double off = tp_item(tp_reduce_max(tp_abs(tp_sub(again, a)), TP_ALL, false));
    if (!(off <= eps * got[0]) || !(off_unit(u, vt) <= eps))
        fail_msg("%s, %d rows, %s: off by %.3g, vectors by %.3g", name, n, wide ? "f64" : "f32",
                 off, off_unit(u, vt));
    if (first > 0 && !(fabs(got[0] - first) <= eps * first))
        fail_msg("%s, %d rows: the first value is %.17g, not %.17g", name, n, got[0], first);
    for (int i = rank; i < n; i++)
        if (!(got[i] <= eps * got[0]))
            fail_msg("%s, %d rows: value %d is %.3g", name, n, i, got[i]);
}

static void dependent_rows(void **state)
{
    tp_ctx *tp = *state;
    for (int wide = 0; wide < 2; wide++)
        for (int n = 2; n <= 40; n++) {
            const tp_dtype dtype = wide ? TP_F64 : TP_F32;
            double ones[MOST * MOST], classes[MOST * MOST], outer[MOST * MOST];
            tp_scope_begin(tp);
            for (int i = 0; i < n * n; i++) {
                const int r = i / n, c = i % n;
                ones[i] = 1;
                classes[i] = r % 5 == c;
                outer[i] = sin(r + 1.0) * cos(2.0 * c) + (r == c / 2) * 0.5;
            }
            expect_factors(matrix(tp, dtype, n, ones), "ones", 1, n);
            expect_factors(matrix(tp, dtype, n, classes), "classes", n < 5 ? n : 5, 0);
            expect_factors(matrix(tp, dtype, n, outer), "nearly one product", n, 0);
            tp_scope_end(tp);
        }
}

static void graded_columns(void **state)
{
    tp_ctx *tp = *state;
    uint64_t seed = 3;
    double v[52 * 52];
    for (int i = 0; i < 52 * 52; i++)
        v[i] = ((double)(unit_random(&seed) % 2000) / 1000 - 1) * pow(10, -0.35 * (i % 52));
    expect_factors(matrix(tp, TP_F32, 52, v), "graded columns", 52, 0);
    expect_factors(matrix(tp, TP_F64, 52, v), "graded columns", 52, 0);
}

static void least_squares(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *a = tp_full(tp, TP_F64, TP_DIMS(8, 8), 1),
              *b = tp_full(tp, TP_F64, TP_DIMS(8), 8);
    double x[8];
    assert_int_equal(tp_read(tp_lstsq(a, b, 1e-10), x, sizeof x), TP_OK);
    for (int i = 0; i < 8; i++)
        assert_true(fabs(x[i] - 1) < 1e-14);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(dependent_rows), CASE(graded_columns),
                                              CASE(least_squares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
