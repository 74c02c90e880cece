/* Distributions against closed forms, from fixed seeds: distances of Kolmogorov and Smirnov, sums of squares, ends. */
#include "common/unit.h"
#include "kernel/text/philox.h"
#include "tapir/grad.h"
#include "tapir/nn.h"
#include "tapir/random.h"

#include <math.h>

enum { N = 20000 };
static const int64_t n = N;

/* ---- floats ------------------------------------------------------------------------------------------- */

typedef double cdf(double x, const double *of);

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Below 1.95 / sqrt(n) in 999 of 1000 samples. */
static void check_distance(const char *what, tp_tensor *t, cdf *f, const double *of)
{
    static double x[N];
    double most = 0;
    assert_int_equal(tp_read(tp_cast(t, TP_F64), x, sizeof x), TP_OK);
    qsort(x, N, sizeof *x, ascending);
    for (int i = 0; i < N; i++) {
        const double p = f(x[i], of);
        most = fmax(most, fmax(p - (double)i / (double)N, (double)(i + 1) / (double)N - p));
    }
    if (!(most * sqrt(N) < 1.95))
        fail_msg("%s of %s: distance %g", what, tp_dtype_name(tp_dtype_of(t)), most * sqrt(N));
}

static void check_ends(tp_tensor *t, double lo, double hi)
{
    const double least = tp_item(tp_cast(tp_reduce_min(t, TP_ALL, false), TP_F64));
    const double most = tp_item(tp_cast(tp_reduce_max(t, TP_ALL, false), TP_F64));
    if (!(least >= lo && most <= hi))
        fail_msg("numbers from %g to %g, not in [%g, %g]", least, most, lo, hi);
}

static double exponential(double x, const double *of)
{
    return -expm1(-x * of[0]);
}

static void exponentials(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 11);
    for (tp_dtype t = TP_F32; t <= TP_F64; t++) {
        tp_tensor *x = tp_exponential(tp, t, 1, &n, 2.5);
        check_distance("exponential", x, exponential, &(double){2.5});
        check_distance("exponential_like", tp_exponential_like(x, 0.1), exponential,
                       &(double){0.1});
    }
    /* Of 2^24 numbers each comes as often as another: the first one is 0 for u, and above it here. */
    const int64_t many = 1 << 22;
    tp_tensor *x = tp_exponential(tp, TP_F32, 1, &many, 1);
    check_ends(x, 0x1p-25, 16.7);
    assert_true(tp_item(tp_mean(x, TP_ALL, false)) > 0.998 &&
                tp_item(tp_mean(x, TP_ALL, false)) < 1.002);
}

static double normal(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

static double truncated(double x, const double *of)
{
    const double lo = normal((of[2] - of[0]) / of[1]), hi = normal((of[3] - of[0]) / of[1]);
    return (normal((x - of[0]) / of[1]) - lo) / (hi - lo);
}

static void truncated_normals(void **state)
{
    static const double rows[][4] = {
        {0,  1,   -2,        2       },
        {3,  0.5, 3.5,       5       },
        {-1, 2,   -INFINITY, -3      },
        {0,  1,   3,         INFINITY},
        {5,  7,   -INFINITY, INFINITY}
    };
    tp_ctx *tp = *state;
    tp_seed(tp, 12);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (tp_dtype t = TP_F32; t <= TP_F64; t++) {
            const double *r = rows[i];
            tp_tensor *x = tp_truncated_normal(tp, t, 1, &n, r[0], r[1], r[2], r[3]);
            check_distance("truncated_normal", x, truncated, r);
            check_ends(x, r[2], r[3]);
            check_distance("truncated_normal_like",
                           tp_truncated_normal_like(x, r[0], r[1], r[2], r[3]), truncated, r);
        }
}

/* The series of the distribution. */
static double gamma_below(double x, const double *of)
{
    const double a = of[0];
    double term = exp(a * log(x) - x - lgamma(a + 1)), sum = term;
    for (double i = 1; i < x || term > 1e-17 * sum; i++)
        sum += term *= x / (a + i);
    return x > 0 ? fmin(sum, 1) : 0;
}

static void gammas(void **state)
{
    static const double a[] = {0.05, 0.5, 1, 1.5, 7, 60, 900};
    tp_ctx *tp = *state;
    tp_seed(tp, 18);
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        for (tp_dtype t = TP_F32; t <= TP_F64; t++) {
            uint64_t before, after;
            tp_random_position(tp, NULL, &before);
            tp_tensor *x = tp_gamma(tp_full(tp, t, 1, &n, a[i]));
            tp_random_position(tp, NULL, &after);
            assert_int_equal(after - before, N);
            check_distance("gamma", x, gamma_below, &a[i]);
        }
    static const float bad[] = {0, -1, INFINITY, NAN};
    const float *v = tp_data(tp_gamma(tp_tensor_new(tp, TP_F32, TP_DIMS(4), bad)));
    assert_true(isnan(v[0]) && isnan(v[1]) && isnan(v[2]) && isnan(v[3]));
}

/* By differences of the series, x at the same probability. */
static double gamma_slope(double a, double x)
{
    const double h = 1e-4 * a, up[] = {a + h}, down[] = {a - h};
    const double p = (gamma_below(x, up) - gamma_below(x, down)) / (2 * h);
    return -p / exp((a - 1) * log(x) - x - lgamma(a));
}

static void gamma_gradients(void **state)
{
    static const double a[] = {0.1, 0.7, 1, 3, 20, 150, 999, 1001};
    tp_ctx *tp = *state;
    tp_seed(tp, 19);
    for (int i = 0; i < 8; i++) {
        tp_tensor *c = tp_require_grad(tp_full(tp, TP_F64, TP_DIMS(20), a[i]));
        tp_tensor *x = tp_gamma(c);
        const double *v = tp_data(x), *dx = tp_data(tp_grad(tp_sum(x, TP_ALL, false), c));
        assert_non_null(dx);
        for (int k = 0; k < 20; k++)
            if (!(fabs(dx[k] - gamma_slope(a[i], v[k])) < 1e-5 * fabs(dx[k])))
                fail_msg("gamma(%g) = %g: slope %.12g, not %.12g", a[i], v[k], dx[k],
                         gamma_slope(a[i], v[k]));
    }
    tp_tensor *c = tp_require_grad(tp_full(tp, TP_F32, TP_DIMS(3), 2));
    tp_tensor *dc = tp_grad(tp_sum(tp_gamma(c), TP_ALL, false), c);
    assert_int_equal(tp_error(tp), TP_OK);
    assert_true(tp_failed(tp_grad(tp_sum(dc, TP_ALL, false), c)));
    EXPECT_ERROR(tp, TP_E_STATE,
                 "gamma: gamma numbers have a first gradient, and no second one");
}

/* ---- counts --------------------------------------------------------------------------------------------- */

/* The sum of squares of counts of `of` draws over what is expected, which is about k - 1. */
static void check_counts(const char *what, int k, const int64_t *count, const double *p, int of)
{
    double sum = 0;
    for (int i = 0; i < k; i++) {
        const double expected = p ? p[i] * of : (double)of / k;
        sum += expected > 0 ? pow((double)count[i] - expected, 2) / expected
                            : (count[i] ? INFINITY : 0);
    }
    if (!(fabs(sum - (k - 1)) < 4.5 * sqrt(2 * (k - 1))))
        fail_msg("%s: sum of squares %g of %d counts", what, sum, k);
}

static const int64_t *whole(tp_tensor *t)
{
    const int64_t *v = tp_data(tp_cast(t, TP_I64));
    assert_non_null(v);
    return v;
}

static void whole_numbers(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 13);
    for (tp_dtype t = TP_I8; t <= TP_U64; t++) {
        const int64_t lo = t >= TP_U8 ? 0 : -50;
        const int64_t *v = whole(tp_randint(tp, t, 1, &n, lo, lo + 101));
        int64_t count[101] = {0};
        for (int i = 0; i < N; i++) {
            assert_in_range(v[i] - lo, 0, 100);
            count[v[i] - lo]++;
        }
        check_counts(tp_dtype_name(t), 101, count, NULL, N);
    }
    const int64_t *v = whole(tp_randint(tp, TP_I64, 1, &n, INT64_MIN, INT64_MAX));
    int64_t count[64] = {0};
    for (int i = 0; i < N; i++)
        count[((uint64_t)v[i] ^ (uint64_t)1 << 63) >> 58]++;
    check_counts("all of i64", 64, count, NULL, N);
    v = whole(tp_randint_like(tp_full(tp, TP_U8, 1, &n, 0), 255, 256));
    for (int i = 0; i < N; i++)
        assert_int_equal(v[i], 255);
}

/* What the header says of words: floor(w count / 2^64), or of all four words. */
static void as_philox_says(void **state)
{
    static const int64_t ends[][2] = {
        {0,         10                    },
        {-5,        ((int64_t)1 << 32) - 5},
        {-5,        ((int64_t)1 << 32) - 4},
        {7,         (int64_t)1 << 50      },
        {INT64_MIN, INT64_MAX             }
    };
    __extension__ typedef unsigned __int128 u128;
    tp_ctx *tp = *state;
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        const uint64_t count = (uint64_t)ends[k][1] - (uint64_t)ends[k][0];
        const int per = count <= (uint64_t)1 << 32 ? 2 : 1;
        tp_set_random_position(tp, 5, 3);
        const int64_t *v = whole(tp_randint(tp, TP_I64, TP_DIMS(131), ends[k][0], ends[k][1]));
        uint64_t position;
        tp_random_position(tp, NULL, &position);
        assert_int_equal(position, 3 + (131 + per - 1) / per);
        for (int i = 0; i < 131; i++) {
            const tpk_words b = tpk_philox(5, 0, 3 + (uint64_t)(i / per));
            const uint64_t low = (uint64_t)b.w[1] << 32 | b.w[0];
            const uint64_t high = (uint64_t)b.w[3] << 32 | b.w[2];
            const u128 rest = (u128)low * count >> 64;
            const uint64_t below = per == 2
                                       ? (uint64_t)((u128)(i % 2 ? high : low) * count >> 64)
                                       : (uint64_t)(((u128)high * count + rest) >> 64);
            assert_int_equal((uint64_t)v[i] - (uint64_t)ends[k][0], below);
        }
    }
}

static void permutations(void **state)
{
    tp_ctx *tp = *state;
    int64_t count[120] = {0};
    tp_seed(tp, 14);
    for (int i = 0; i < 6000; i++) {
        tp_scope_begin(tp);
        const int64_t *v = whole(tp_permutation(tp, 5));
        int number = 0, seen = 0;
        for (int k = 0; k < 5; k++) { /* Lehmer's code */
            int less = 0;
            for (int j = k + 1; j < 5; j++)
                less += v[j] < v[k];
            number = number * (5 - k) + less;
            seen |= 1 << v[k];
        }
        assert_int_equal(seen, 31);
        count[number]++;
        tp_scope_end(tp);
    }
    check_counts("permutation", 120, count, NULL, 6000);
    assert_int_equal(tp_count(tp_permutation(tp, 0)), 0);
    tp_seed(tp, 15);
    tp_tensor *a = tp_permutation(tp, 100);
    tp_seed(tp, 15);
    tp_tensor *b = tp_permutation_like(tp_full(tp, TP_F32, TP_DIMS(3, 100), 0), 1);
    assert_memory_equal(whole(a), whole(b), 100 * sizeof(int64_t));
}

static void bernoullis(void **state)
{
    static const float p[] = {0, 1, 0.25f, 0.999f, -0.1f, 1.5f, NAN};
    tp_ctx *tp = *state;
    tp_seed(tp, 16);
    tp_tensor *all = tp_broadcast(tp_tensor_new(tp, TP_F32, TP_DIMS(7, 1), p), TP_DIMS(7, N));
    const float *v = tp_data(tp_contiguous(tp_bernoulli(all)));
    for (int k = 0; k < 7; k++) {
        int64_t count[2] = {0};
        for (int i = 0; i < N; i++) {
            const float x = v[k * N + i];
            assert_true(k < 4 ? x == 0 || x == 1 : isnan(x));
            count[x == 1]++;
        }
        if (k < 2)
            assert_int_equal(count[k], N);
        else if (k < 4)
            assert_true(fabs((double)count[1] - p[k] * (float)N) <
                        4 * sqrt((float)N * p[k] * (1 - p[k])));
    }
}

/* By comparing and by sorting. */
static void categories(void **state)
{
    tp_ctx *tp = *state;
    static const double p[2][4] = {
        {0.1, 0,   0.5,  0.4 },
        {0,   0.7, 0.05, 0.25}
    };
    tp_tensor *logits = tp_log(tp_tensor_new(tp, TP_F64, TP_DIMS(2, 4), p));
    logits = tp_add(tp_cast(logits, TP_F32), 7);
    tp_seed(tp, 17);
    for (int64_t each = 20; each <= 2000; each *= 100) {
        int64_t count[2][4] = {{0}};
        for (int turn = 0; turn < 10000 / each; turn++) {
            tp_scope_begin(tp);
            tp_tensor *y = tp_categorical(logits, each);
            const int64_t *v = whole(y);
            assert_int_equal(tp_size(y, 1), each);
            for (int i = 0; i < 2 * each; i++)
                count[i / each][v[i]]++;
            tp_scope_end(tp);
        }
        for (int k = 0; k < 2; k++) { /* the class that never comes is none */
            int64_t c[3];
            double q[3];
            for (int i = 0, m = 0; i < 4; i++)
                if (p[k][i] > 0)
                    c[m] = count[k][i], q[m++] = p[k][i];
            check_counts("categorical", 3, c, q, 10000);
        }
    }
}

static void no_categories(void **state)
{
    static const float bad[][3] = {
        {0,         NAN,       0        },
        {NAN,       0,         0        },
        {0,         INFINITY,  0        },
        {-INFINITY, -INFINITY, -INFINITY}
    };
    tp_ctx *tp = *state;
    for (int i = 0; i < 4; i++)
        for (int64_t many = 1; many <= 100; many += 99) {
            tp_categorical(tp_tensor_new(tp, TP_F32, TP_DIMS(3), bad[i]), many);
            EXPECT_ERROR(tp, TP_E_VALUE,
                         ": categorical: line 0 of the logits [3] has a NaN or infinity, or "
                         "only -infinity");
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(exponentials), CASE(truncated_normals), CASE(whole_numbers), CASE(as_philox_says),
        CASE(gammas),       CASE(gamma_gradients),   CASE(permutations),  CASE(bernoullis),
        CASE(categories),   CASE(no_categories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
