/* Misuse of random.h. */
#include "misuse_forms.h"

#include <math.h>

/* Each case's head looks like a call to it. */
/* clang-format off */

static const int64_t absurd[1] = {1};

#define MAKER(fn, good, ...)                                                                   \
    {                                                                                          \
        assert_true(tp_failed(fn(NULL, good, TP_DIMS(2), __VA_ARGS__)));                       \
        BAD(b, TP_E_DTYPE, fn(b->tp, TP_N_DTYPES, TP_DIMS(2), __VA_ARGS__));                   \
        BAD(b, TP_E_DTYPE, fn(b->tp, TP_BOOL, TP_DIMS(2), __VA_ARGS__));                       \
        BAD(b, TP_E_DTYPE, fn(b->tp, good == TP_I32 ? TP_F32 : TP_I32, TP_DIMS(2), __VA_ARGS__)); \
        BAD(b, TP_E_SHAPE, fn(b->tp, good, TP_DIMS(-2), __VA_ARGS__));                         \
        BAD(b, TP_E_SHAPE, fn(b->tp, good, TP_DIMS(INT64_MAX, 2), __VA_ARGS__));               \
        BAD(b, TP_E_SHAPE, fn(b->tp, good, -1, absurd, __VA_ARGS__));                          \
        BAD(b, TP_E_SHAPE, fn(b->tp, good, TP_DIMS(tp_symbol(b->g, "n")), __VA_ARGS__));       \
        BAD(b, TP_E_NULL, fn(b->tp, good, 1, NULL, __VA_ARGS__));                              \
        BAD_AS(b, "", TP_E_MEMORY, fn(b->tp, good, TP_DIMS((int64_t)1 << 30, (int64_t)1 << 27), __VA_ARGS__)); \
    }
/* Two numbers that are wrong make the same error of both forms. */
#define WRONG(fn, like, good, x, ...)                                                          \
    {                                                                                          \
        BAD(b, TP_E_VALUE, fn(b->tp, good, TP_DIMS(2), __VA_ARGS__));                          \
        BAD(b, TP_E_VALUE, like(x, __VA_ARGS__));                                              \
    }

MISUSE(tp_uniform)
{
    MAKER(tp_uniform, TP_F32, 0, 1)
    WRONG(tp_uniform, tp_uniform_like, TP_F32, b->f, 1, 1)
    WRONG(tp_uniform, tp_uniform_like, TP_F32, b->f, NAN, 1)
}

MISUSE(tp_normal)
{
    MAKER(tp_normal, TP_F32, 0, 1)
    WRONG(tp_normal, tp_normal_like, TP_F32, b->f, 0, -1)
    WRONG(tp_normal, tp_normal_like, TP_F32, b->f, INFINITY, 1)
}

MISUSE(tp_truncated_normal)
{
    MAKER(tp_truncated_normal, TP_F32, 0, 1, -2, 2)
    WRONG(tp_truncated_normal, tp_truncated_normal_like, TP_F32, b->f, 0, 0, -2, 2)
    WRONG(tp_truncated_normal, tp_truncated_normal_like, TP_F32, b->f, 0, NAN, -2, 2)
    WRONG(tp_truncated_normal, tp_truncated_normal_like, TP_F32, b->f, INFINITY, 1, -2, 2)
    WRONG(tp_truncated_normal, tp_truncated_normal_like, TP_F32, b->f, 0, 1, 2, 2)
    WRONG(tp_truncated_normal, tp_truncated_normal_like, TP_F32, b->f, 0, 1, NAN, 2)
    WRONG(tp_truncated_normal, tp_truncated_normal_like, TP_F32, b->f, 0, 1, 3.2, INFINITY)
}

MISUSE(tp_exponential)
{
    MAKER(tp_exponential, TP_F32, 1)
    WRONG(tp_exponential, tp_exponential_like, TP_F32, b->f, 0)
    WRONG(tp_exponential, tp_exponential_like, TP_F32, b->f, -1)
    WRONG(tp_exponential, tp_exponential_like, TP_F32, b->f, NAN)
    WRONG(tp_exponential, tp_exponential_like, TP_F32, b->f, INFINITY)
}

MISUSE(tp_randint)
{
    MAKER(tp_randint, TP_I32, 0, 2)
    WRONG(tp_randint, tp_randint_like, TP_I64, b->i, 3, 3)
    WRONG(tp_randint, tp_randint_like, TP_I64, b->i, 3, INT64_MIN)
    BAD(b, TP_E_VALUE, tp_randint(b->tp, TP_U8, TP_DIMS(2), -1, 2));
    BAD(b, TP_E_VALUE, tp_randint(b->tp, TP_I32, TP_DIMS(2), 0, ((int64_t)1 << 31) + 1));
}

#define LIKE(fn, good, bad, ...)                                                               \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        what = "uniform|normal|randint|" #fn;                                                  \
        OPERAND(b, b->good, fn(x, __VA_ARGS__));                                               \
        BAD(b, TP_E_DTYPE, fn(b->bad, __VA_ARGS__));                                           \
    }
LIKE(tp_uniform_like, batch, i, 0, 1)
LIKE(tp_normal_like, f, i, 0, 1)
LIKE(tp_truncated_normal_like, batch, i, 0, 1, -2, 2)
LIKE(tp_exponential_like, batch, i, 1)
LIKE(tp_randint_like, along, f, 0, 1)

MISUSE(tp_permutation)
{
    assert_true(tp_failed(tp_permutation(NULL, 3)));
    BAD(b, TP_E_SHAPE, tp_permutation(b->tp, -1));
    BAD(b, TP_E_SHAPE, tp_permutation(b->tp, tp_symbol(b->g, "n")));
    BAD_AS(b, "", TP_E_MEMORY, tp_permutation(b->tp, (int64_t)1 << 38));
}

MISUSE(tp_permutation_like)
{
    OPERAND(b, b->batch, tp_permutation_like(x, 0));
    BAD(b, TP_E_AXIS, tp_permutation_like(b->f, 2));
    BAD(b, TP_E_AXIS, tp_permutation_like(b->f, -3));
}

FLOAT_ONE(tp_bernoulli)
FLOAT_ONE(tp_gamma)

MISUSE(tp_categorical)
{
    OPERAND(b, b->batch, tp_categorical(x, 2));
    BAD(b, TP_E_DTYPE, tp_categorical(b->i, 2));
    BAD(b, TP_E_SHAPE, tp_categorical(tp_scalar(b->tp, TP_F32, 1), 2));
    BAD(b, TP_E_SHAPE, tp_categorical(tp_full(b->tp, TP_F32, TP_DIMS(3, 0), 1), 2));
    BAD(b, TP_E_VALUE, tp_categorical(b->f, -1));
    BAD(b, TP_E_VALUE, tp_categorical(b->f, tp_symbol(b->g, "n")));
    BAD_AS(b, "", TP_E_VALUE, tp_categorical(tp_full(b->tp, TP_F32, TP_DIMS(3), (double)NAN), 2));
}

const misuse misuse_random[] = {
    LISTED(tp_uniform),
    LISTED(tp_normal),
    LISTED(tp_uniform_like),
    LISTED(tp_normal_like),
    LISTED(tp_truncated_normal),
    LISTED(tp_truncated_normal_like),
    LISTED(tp_exponential),
    LISTED(tp_exponential_like),
    LISTED(tp_randint),
    LISTED(tp_randint_like),
    LISTED(tp_permutation),
    LISTED(tp_permutation_like),
    LISTED(tp_bernoulli),
    LISTED(tp_gamma),
    LISTED(tp_categorical),
    {0},
};
