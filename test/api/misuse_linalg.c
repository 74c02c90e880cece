/* Misuse of linalg.h. */
#include "misuse.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

static tp_tensor *square(bed *b)
{
    return tp_tensor_new(b->tp, TP_F32, TP_DIMS(2, 2), (float[]){2, 1, 1, 2});
}

static tp_tensor *ones(bed *b)
{
    return tp_full(b->tp, TP_F32, TP_DIMS(2, 2), 1);
}

static tp_tensor *pairs(bed *b)
{
    return tp_full(b->tp, TP_F32, TP_DIMS(3, 2), 1);
}

#define SQUARE(fn, ...)                                                                        \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, square(b), fn(x, ##__VA_ARGS__));                                           \
        BAD(b, TP_E_SHAPE, fn(b->f, ##__VA_ARGS__));                                           \
        BAD(b, TP_E_SHAPE, fn(b->c, ##__VA_ARGS__));                                           \
        BAD(b, TP_E_SHAPE, fn(b->batch, ##__VA_ARGS__));                                       \
        BAD(b, TP_E_DTYPE, fn(tp_full(b->tp, TP_I32, TP_DIMS(2, 2), 1), ##__VA_ARGS__));       \
    }
#define TWO_OF(fn, good)                                                                       \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        tp_tensor *p, *q;                                                                      \
        OPERAND(b, good, fn(x, &p, &q));                                                       \
        BAD(b, TP_E_SHAPE, fn(b->c, &p, &q));                                                  \
        assert_true(tp_failed(p) && tp_failed(q));                                             \
        BAD(b, TP_E_DTYPE, fn(b->along, &p, &q));                                              \
        BAD(b, TP_E_NULL, fn(square(b), NULL, &q));                                            \
        BAD(b, TP_E_NULL, fn(square(b), &p, NULL));                                            \
    }

SQUARE(tp_cholesky, false)
SQUARE(tp_inverse)
SQUARE(tp_det)
TWO_OF(tp_lu, square(b))
TWO_OF(tp_slogdet, square(b))
TWO_OF(tp_qr, b->f)
TWO_OF(tp_eigh, square(b))

MISUSE(tp_solve_triangular)
{
    OPERAND(b, square(b), tp_solve_triangular(x, b->f, true, false, false));
    OPERAND(b, b->f, tp_solve_triangular(square(b), x, true, false, false));
    BAD(b, TP_E_SHAPE, tp_solve_triangular(b->f, b->f, true, false, false));
    BAD(b, TP_E_SHAPE, tp_solve_triangular(square(b), b->t, true, false, false));
    BAD(b, TP_E_DTYPE, tp_solve_triangular(b->along, b->along, true, false, false));
    BAD(b, TP_E_VALUE, tp_solve_triangular(tp_full(b->tp, TP_F32, TP_DIMS(2, 2), 0), b->f, true, false, false));
}

MISUSE(tp_solve)
{
    OPERAND(b, square(b), tp_solve(x, b->f));
    OPERAND(b, b->f, tp_solve(square(b), x));
    BAD(b, TP_E_SHAPE, tp_solve(b->f, b->f));
    BAD(b, TP_E_SHAPE, tp_solve(square(b), b->t));
    BAD(b, TP_E_VALUE, tp_solve(ones(b), b->f));
}

MISUSE(tp_svd)
{
    tp_tensor *u, *s, *vt;
    OPERAND(b, b->f, tp_svd(x, &u, &s, &vt));
    BAD(b, TP_E_SHAPE, tp_svd(b->c, &u, &s, &vt));
    assert_true(tp_failed(u) && tp_failed(s) && tp_failed(vt));
    BAD(b, TP_E_NULL, tp_svd(b->f, NULL, &s, &vt));
    BAD(b, TP_E_NULL, tp_svd(b->f, &u, NULL, &vt));
    BAD(b, TP_E_NULL, tp_svd(b->f, &u, &s, NULL));
}

MISUSE(tp_lstsq)
{
    OPERAND(b, b->f, tp_lstsq(x, b->f, 1e-6));
    OPERAND(b, b->f, tp_lstsq(b->f, x, 1e-6));
    BAD(b, TP_E_SHAPE, tp_lstsq(b->f, b->t, 1e-6));
    BAD(b, TP_E_SHAPE, tp_lstsq(b->c, b->f, 1e-6));
    BAD(b, TP_E_VALUE, tp_lstsq(b->f, b->f, 1));
    BAD(b, TP_E_VALUE, tp_lstsq(b->f, b->f, -1e-6));
    BAD(b, TP_E_VALUE, tp_lstsq(b->f, b->f, 0.0 / 0.0));
}

#define OF_PAIRS(fn, ...)                                                                      \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, pairs(b), fn(x, 0, ##__VA_ARGS__));                                         \
        BAD(b, TP_E_AXIS, fn(pairs(b), 1, ##__VA_ARGS__));                                     \
        BAD(b, TP_E_AXIS, fn(pairs(b), -3, ##__VA_ARGS__));                                    \
        BAD(b, TP_E_SHAPE, fn(b->f, 0, ##__VA_ARGS__));                                        \
        BAD(b, TP_E_DTYPE, fn(b->along, 0, ##__VA_ARGS__));                                    \
        BAD(b, TP_E_SHAPE, fn(tp_slice(b->batch, 1, 0, 2, 1), 0, ##__VA_ARGS__));              \
    }
OF_PAIRS(tp_fft)
OF_PAIRS(tp_ifft)

MISUSE(tp_rfft)
{
    OPERAND(b, b->f, tp_rfft(x, 0));
    BAD(b, TP_E_AXIS, tp_rfft(b->f, 2));
    BAD(b, TP_E_SHAPE, tp_rfft(b->batch, 0));
    BAD(b, TP_E_DTYPE, tp_rfft(b->along, 0));
}

MISUSE(tp_irfft)
{
    OPERAND(b, pairs(b), tp_irfft(x, 0, 4));
    BAD(b, TP_E_AXIS, tp_irfft(pairs(b), 1, 4));
    BAD(b, TP_E_SHAPE, tp_irfft(pairs(b), 0, 6));
    BAD(b, TP_E_SHAPE, tp_irfft(pairs(b), 0, -1));
    BAD(b, TP_E_SHAPE, tp_irfft(b->f, 0, 4));
}

const misuse misuse_linalg[] = {
    LISTED(tp_cholesky),
    LISTED(tp_solve_triangular),
    LISTED(tp_lu),
    LISTED(tp_solve),
    LISTED(tp_inverse),
    LISTED(tp_det),
    LISTED(tp_slogdet),
    LISTED(tp_qr),
    LISTED(tp_eigh),
    LISTED(tp_svd),
    LISTED(tp_lstsq),
    LISTED(tp_fft),
    LISTED(tp_ifft),
    LISTED(tp_rfft),
    LISTED(tp_irfft),
    {0},
};
