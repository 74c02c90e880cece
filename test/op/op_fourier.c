/* Fourier transforms of many lengths against their definition, there and back, in programs, and their gradients. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

static const int lengths[] = {1,  2,   3,   4,   7,   9,   12,  22,  49,  60,
                              64, 100, 121, 127, 131, 169, 256, 257, 262, 1024};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths, MOST = 1024 };

static void draw(int64_t n, double *v)
{
    uint64_t seed = 7;
    for (int64_t i = 0; i < n; i++)
        v[i] = (double)(unit_random(&seed) % 2000) / 1000 - 1;
}

/* By the definition, in long double. */
static void transform(int n, const double *x, double *y)
{
    for (int k = 0; k < n; k++) {
        long double re = 0, im = 0;
        for (int j = 0; j < n; j++) {
            const long double t =
                -6.283185307179586476925L * (long double)(j * (int64_t)k % n) / n;
            re += (long double)x[2 * j] * cosl(t) - (long double)x[2 * j + 1] * sinl(t);
            im += (long double)x[2 * j] * sinl(t) + (long double)x[2 * j + 1] * cosl(t);
        }
        y[2 * k] = (double)re;
        y[2 * k + 1] = (double)im;
    }
}

static void expect_near(int n, int64_t count, const double *got, const double *want,
                        double most)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= most))
            fail_msg("length %d: element %d is %.17g, not %.17g", n, (int)i, got[i], want[i]);
}

static void lengths_match_the_definition(void **state)
{
    tp_ctx *tp = *state;
    static double x[2 * MOST], want[2 * MOST], got[2 * MOST];
    for (int l = 0; l < N_LENGTHS; l++) {
        const int n = lengths[l];
        const size_t bytes = sizeof(double) * 2 * (size_t)n;
        draw(2 * n, x);
        transform(n, x, want);
        tp_tensor *t = tp_tensor_new(tp, TP_F64, TP_DIMS(n, 2), x), *y = tp_fft(t, 0);
        assert_int_equal(tp_read(y, got, bytes), TP_OK);
        expect_near(n, 2 * n, got, want, 1e-15 * 20 * sqrt((double)n));
        assert_int_equal(tp_read(tp_ifft(y, 0), got, bytes), TP_OK);
        expect_near(n, 2 * n, got, x, 1e-14);
        /* Of f32, rounded once: half a unit of its last place. */
        double once[2 * MOST];
        for (int i = 0; i < 2 * n; i++)
            once[i] = (double)(float)x[i];
        transform(n, once, want);
        tp_tensor *f32 = tp_cast(tp_fft(tp_cast(t, TP_F32), 0), TP_F64);
        assert_int_equal(tp_read(f32, got, bytes), TP_OK);
        for (int i = 0; i < 2 * n; i++)
            expect_near(n, 1, got + i, want + i, 0x1.0001p-24 * fabs(want[i]) + 1e-12);
        tp_tensor *real = tp_select(t, -1, 0);
        assert_int_equal(tp_read(tp_irfft(tp_rfft(real, 0), 0, n), got, bytes / 2), TP_OK);
        for (int i = 0; i < n; i++)
            expect_near(n, 1, got + i, x + 2 * i, 1e-14);
    }
}

static void programs_have_the_same_bits(void **state)
{
    static const tp_engine engines[] = {TP_ENGINE_TILES, TP_ENGINE_REFERENCE, TP_ENGINE_C};
    tp_ctx *tp = *state;
    static double x[2 * MOST];
    float want[2 * 2 * 262], got[2 * 2 * 262];
    for (int i = 0; i < 2; i++) {
        const int n = i ? 262 : 60;
        const size_t bytes = sizeof(float) * 4 * (size_t)n;
        draw(4 * n, x);
        tp_tensor *t = tp_cast(tp_tensor_new(tp, TP_F64, TP_DIMS(2, n, 2), x), TP_F32), *y;
        assert_int_equal(tp_read(tp_ifft(tp_square(tp_fft(t, 1)), 1), want, bytes), TP_OK);
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "b"), n, 2));
        tp_name(tp_ifft(tp_square(tp_fft(in, 1)), 1), "y");
        for (int e = 0; e < 3; e++) {
            if (engines[e] == TP_ENGINE_C && system("cc --version > /dev/null 2>&1") != 0)
                continue;
            const tp_compile_options options = {.engine = engines[e]};
            tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &options);
            assert_non_null(p);
            assert_int_equal(tp_program_run(p, &t, &y), TP_OK);
            assert_int_equal(tp_read(y, got, bytes), TP_OK);
            assert_memory_equal(got, want, bytes);
            tp_program_free(p);
        }
    }
}

static tp_tensor *there_and_back(void *user, int n, tp_tensor *const *x)
{
    (void)user, (void)n;
    return tp_ifft(tp_mul(tp_fft(x[0], 0), tp_flip(x[0], TP_DIMS(0))), 0);
}

static void gradients(void **state)
{
    tp_ctx *tp = *state;
    static const int sizes[] = {22, 131};
    double x[2 * 131], error;
    for (int i = 0; i < 2; i++) {
        draw(2 * sizes[i], x);
        tp_tensor *t = tp_tensor_new(tp, TP_F64, TP_DIMS(sizes[i], 2), x);
        assert_int_equal(tp_grad_check(there_and_back, NULL, 1, &t, &error), TP_OK);
        assert_true(error < 1e-6);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(lengths_match_the_definition), CASE(programs_have_the_same_bits), CASE(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
