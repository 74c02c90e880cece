/* Random tensors: known words of Philox, positions, intervals and moments. */
#include "common/unit.h"
#include "kernel/text/philox.h"
#include "op/random_position.h"
#include "tapir/nn.h"
#include "tapir/random.h"

#include <math.h>

/* Counter 0, key 0 of Philox 4x32-10, as published with Random123. */
static const uint32_t first_block[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};

static void known_words(void **state)
{
    tp_ctx *tp = *state;
    const float *f = tp_data(tp_uniform(tp, TP_F32, TP_DIMS(4), 0, 1));
    for (int i = 0; i < 4; i++)
        assert_true(f[i] == (float)(first_block[i] >> 8) * 0x1p-24f);
    assert_int_equal(tp->random_at, 1);
    tp_seed(tp, 0);
    assert_int_equal(tp->random_at, 0);
    const double *d = tp_data(tp_uniform(tp, TP_F64, TP_DIMS(2), 0, 1));
    for (int i = 0; i < 2; i++) {
        const uint64_t w = (uint64_t)first_block[2 * i + 1] << 32 | first_block[2 * i];
        assert_true(d[i] == (double)(w >> 11) * 0x1p-53);
    }
}

/* A draw takes whole blocks; what follows does not depend on how it was drawn before. */
static void positions(void **state)
{
    tp_ctx *tp = *state;
    static const struct {
        tp_dtype dtype;
        int64_t n, blocks;
    } draws[] = {
        {TP_F32, 0,    0  },
        {TP_F32, 1,    1  },
        {TP_F32, 4,    1  },
        {TP_F32, 5,    2  },
        {TP_F64, 1,    1  },
        {TP_F64, 2,    1  },
        {TP_F64, 3,    2  },
        {TP_F32, 1001, 251}
    };
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++) {
        tp_normal(tp, draws[i].dtype, 1, &draws[i].n, 0, 1);
        at += (uint64_t)draws[i].blocks;
        assert_int_equal(tp->random_at, at);
        const tpi_random_attrs a = {.dtype = draws[i].dtype};
        assert_int_equal(tpi_random_moves(NULL, &a, 1, &draws[i].n), draws[i].blocks);
    }
    tp_seed(tp, 5);
    tp_tensor *all = tp_uniform(tp, TP_F32, TP_DIMS(12), 0, 1);
    tp_seed(tp, 5);
    tp_uniform(tp, TP_F32, TP_DIMS(2, 2), 0, 1);
    const float *rest = tp_data(tp_uniform(tp, TP_F32, TP_DIMS(8), 0, 1));
    assert_memory_equal((const float *)tp_data(all) + 4, rest, 8 * sizeof *rest);
    tp_seed(tp, 5);
    tp_tensor *like = tp_uniform_like(tp_full(tp, TP_F32, TP_DIMS(3, 4), 0), 0, 1);
    assert_int_equal(tp_rank(like), 2);
    assert_memory_equal(tp_data(all), tp_data(like), 12 * sizeof *rest);
}

/* Each stream has its own numbers, those of Philox, and its own position. */
static void streams(void **state)
{
    tp_ctx *tp = *state;
    static const uint64_t numbers[] = {3, UINT64_MAX - 1, 0, UINT64_C(0x80000000005a5a5a), 3};
    static const uint64_t drawn[] = {0, 0, 0, 0, 2}; /* before it */
    tp_seed(tp, 7);
    for (int i = 0; i < 5; i++) {
        uint64_t at, seed;
        assert_true(tp_random_stream(tp, numbers[i]) == (i ? numbers[i - 1] : 0));
        tp_random_position(tp, &seed, &at);
        assert_true(seed == 7 && at == drawn[i]);
        const float *f = tp_data(tp_uniform(tp, TP_F32, TP_DIMS(4), 0, 1));
        const double *d = tp_data(tp_uniform(tp, TP_F64, TP_DIMS(2), 0, 1));
        const int64_t *w = tp_data(tp_randint(tp, TP_I64, TP_DIMS(2), 0, (int64_t)1 << 32));
        const tpk_words first = tpk_philox(7, numbers[i], at),
                        second = tpk_philox(7, numbers[i], at + 1),
                        third = tpk_philox(7, numbers[i], at + 2);
        for (int k = 0; k < 4; k++)
            assert_true(f[k] == (float)(first.w[k] >> 8) * 0x1p-24f);
        double two[2];
        tpk_uniform_of_f64(second.w, two);
        for (int k = 0; k < 2; k++)
            assert_true(d[k] == two[k] && w[k] == third.w[2 * k + 1]);
        tp_set_random_position(tp, 7, at + 2);
    }
    assert_int_equal(tp->n_streams, 3);
    assert_true(tp->random_at == 2);
    tp_random_stream(tp, UINT64_MAX);
    assert_int_equal(tp_error(tp), TP_E_VALUE);
    assert_non_null(strstr(tp_error_message(tp), "op_random.c"));
    tp_clear_error(tp);
    assert_true(tp_random_stream(tp, 3) == 3);
    tp_seed(tp, 7); /* in all streams */
    for (int i = 0; i < 4; i++) {
        uint64_t at;
        tp_random_stream(tp, numbers[i]);
        tp_random_position(tp, NULL, &at);
        assert_true(at == 0);
    }
    tp_random_stream(tp, 0);
}

/* Of `n` draws the mean and the variance, within five standard errors. */
static void check_moments(const tp_tensor *t, double mean, double var, double fourth)
{
    const int64_t n = tp_count(t);
    double sum = 0, square = 0;
    const size_t size = tp_dtype_size(tp_dtype_of(t));
    const char *p = tp_data(t);
    for (int64_t i = 0; i < n; i++) {
        const double v = tpi_load_f64(tp_dtype_of(t), p + (size_t)i * size) - mean;
        sum += v;
        square += v * v;
    }
    const double m = sum / (double)n, v = square / (double)n;
    if (!(fabs(m) < 5 * sqrt(var / (double)n)) ||
        !(fabs(v - var) < 5 * sqrt((fourth - var * var) / (double)n)))
        fail_msg("%s: mean off by %g, variance %g, not %g", tp_dtype_name(tp_dtype_of(t)), m, v,
                 var);
}

static void moments(void **state)
{
    tp_ctx *tp = *state;
    const int64_t n = 200000;
    tp_seed(tp, 2024);
    for (tp_dtype t = TP_F32; t <= TP_F64; t++) {
        tp_tensor *u = tp_uniform(tp, t, 1, &n, -3, 5); /* width 8: w^2 / 12, w^4 / 80 */
        check_moments(u, 1, 64.0 / 12, 4096.0 / 80);
        const double lo = tp_item(tp_cast(tp_reduce_min(u, TP_ALL, false), TP_F64));
        const double hi = tp_item(tp_cast(tp_reduce_max(u, TP_ALL, false), TP_F64));
        assert_true(lo >= -3 && lo < -2.999 && hi < 5 && hi > 4.999);
        check_moments(tp_normal(tp, t, 1, &n, 10, 2), 10, 4, 3 * 16);
    }
    tp_tensor *x = tp_full(tp, TP_F32, 1, &n, 3);
    tp_tensor *y =
        tp_dropout(x, 0.25); /* 0 or 4: mean 3, variance 3, fourth 0.25 * 81 + 0.75 */
    check_moments(y, 3, 3, 0.25 * 81 + 0.75);
    /* One step above 1 there is room for one value only, and b stays out. */
    tp_tensor *narrow = tp_uniform(tp, TP_F32, 1, &n, 1, 1 + 0x1p-23);
    assert_true(tp_item(tp_reduce_max(narrow, TP_ALL, false)) == 1);
}

/* Every instruction set gives the bits of the called kernel. */
static void same_bits(void **state)
{
    tp_ctx *tp = *state;
    const int64_t n = 4099;
    for (int kind = 0; kind <= TPI_RANDOM_NORMAL; kind++)
        for (tp_dtype t = TP_F32; t <= TP_F64; t++) {
            const void *v[2];
            for (int base = 0; base < 2; base++) {
                tp->kernels = tpi_kernels_choose(base);
                tp_seed(tp, 77);
                tp_tensor *y = kind == TPI_RANDOM_UNIFORM ? tp_uniform(tp, t, 1, &n, -2, 0.3)
                                                          : tp_normal(tp, t, 1, &n, -2, 0.3);
                v[base] = tp_data(y);
            }
            tp_tensor *y = tp_tensor_new(tp, t, 1, &n, NULL);
            tpi_random_attrs a = {
                .kind = kind, .dtype = t, .shape = {1, {n}},
                        .a = -2, .b = 0.3
            };
            a.seed = 77;
            tpi_run r = {.op = &tpi_op_random, .ctx = tp, .attrs = &a, .out = y};
            assert_true(tpi_run_reference(&r));
            assert_memory_equal(v[0], tp_data(y), (size_t)n * tp_dtype_size(t));
            assert_memory_equal(v[1], tp_data(y), (size_t)n * tp_dtype_size(t));
        }
}

/* Seeds of one seed: all others, known words, and what they draw has nothing in common. */
static void split(void **state)
{
    enum { SEEDS = 2000 };
    tp_ctx *tp = *state;
    static uint64_t seeds[SEEDS];
    for (int i = 0; i < SEEDS; i++) {
        const tpk_words b = tpk_philox(7, UINT64_MAX, (uint64_t)i);
        seeds[i] = tp_split_seed(7, (uint64_t)i);
        assert_true(seeds[i] == ((uint64_t)b.w[1] << 32 | b.w[0]) && seeds[i] != 7);
        for (int k = 0; k < i; k++)
            assert_true(seeds[k] != seeds[i]);
    }
    const int64_t n = 100000;
    tp_tensor *x[2];
    for (int i = 0; i < 2; i++) {
        tp_seed(tp, seeds[i]);
        x[i] = tp_normal(tp, TP_F64, 1, &n, 0, 1);
    }
    const double r = tp_item(tp_mean(tp_mul(x[0], x[1]), TP_ALL, false));
    assert_true(fabs(r) < 4 / sqrt((double)n));
}

static void refused(void **state)
{
    tp_ctx *tp = *state;
    tp_uniform(tp, TP_I32, TP_DIMS(2), 0, 1);
    EXPECT_ERROR(tp, TP_E_DTYPE,
                 "uniform: i32 has no random numbers; draw f32 or f64 and tp_cast");
    tp_uniform(tp, TP_F32, TP_DIMS(2), 1, 1);
    EXPECT_ERROR(tp, TP_E_VALUE, "uniform: no interval of f32 from 1 to 1");
    tp_normal(tp, TP_F64, TP_DIMS(2), 0, -1);
    EXPECT_ERROR(tp, TP_E_VALUE,
                 "normal: mean 0 and deviation -1 of f64 are not finite, or less than 0");
    tp_uniform(tp, TP_F32, TP_DIMS(2, -1), 0, 1);
    EXPECT_ERROR(tp, TP_E_SHAPE, "uniform: size -1 of axis 1 is negative");
    tp_dropout(tp_full(tp, TP_F32, TP_DIMS(2), 1), 1);
    EXPECT_ERROR(tp, TP_E_VALUE, "dropout: p is 1, not in [0, 1)");
    assert_int_equal(tp->random_at, 0);
    assert_true(tp_failed(tp_uniform(NULL, TP_F32, TP_SCALAR, 0, 1)));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(known_words), CASE(positions), CASE(streams),
                                              CASE(moments),     CASE(same_bits), CASE(split),
                                              CASE(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
