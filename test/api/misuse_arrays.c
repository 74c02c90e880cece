/* Misuse of composites.h: along axes, making, arranging, products; and of running places of extremes. */
#include "misuse.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

/* ---- along axes ---------------------------------------------------------------------------- */

#define OVER_AXES(fn, ...)                                                                     \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        const int64_t twice[] = {0, 0};                                                        \
        OPERAND(b, b->f, fn(x, ##__VA_ARGS__, TP_ALL, false));                                 \
        BAD(b, TP_E_AXIS, fn(b->f, ##__VA_ARGS__, TP_DIMS(2), false));                         \
        BAD(b, TP_E_AXIS, fn(b->node, ##__VA_ARGS__, 2, twice, false));                        \
        BAD(b, TP_E_VALUE, fn(b->f, ##__VA_ARGS__, 1, NULL, false));                           \
        BAD(b, TP_E_VALUE, fn(b->f, ##__VA_ARGS__, -1, twice, false));                         \
    }
OVER_AXES(tp_any)
OVER_AXES(tp_all)
OVER_AXES(tp_logsumexp)

#define SPREAD_OVER(fn)                                                                        \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, TP_ALL, 1, false));                                             \
        BAD(b, TP_E_AXIS, fn(b->f, TP_DIMS(2), 1, false));                                     \
        BAD(b, TP_E_VALUE, fn(b->f, 1, NULL, 1, false));                                       \
        BAD(b, TP_E_VALUE, fn(b->f, TP_ALL, -1, false));                                       \
        BAD(b, TP_E_DTYPE, fn(b->i, TP_ALL, 1, false));                                        \
    }
SPREAD_OVER(tp_var)
SPREAD_OVER(tp_std)

MISUSE(tp_norm)
{
    OPERAND(b, b->f, tp_norm(x, 2, TP_ALL, false));
    BAD(b, TP_E_AXIS, tp_norm(b->f, 1, TP_DIMS(2), false));
    BAD(b, TP_E_VALUE, tp_norm(b->f, 1, 1, NULL, false));
    BAD(b, TP_E_VALUE, tp_norm(b->f, 0, TP_ALL, false));
    BAD(b, TP_E_VALUE, tp_norm(b->node, -1, TP_ALL, false));
    BAD(b, TP_E_VALUE, tp_norm(b->f, 0.0 / 0.0, TP_ALL, false));
    BAD(b, TP_E_DTYPE, tp_norm(b->i, 2, TP_ALL, false));
}

#define RUNNING(fn)                                                                            \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, 0));                                                            \
        BAD(b, TP_E_AXIS, fn(b->node, 2));                                                     \
        BAD(b, TP_E_DTYPE, fn(b->flag, 0));                                                    \
    }
RUNNING(tp_argcummax)
RUNNING(tp_argcummin)
RUNNING(tp_cummax)
RUNNING(tp_cummin)

MISUSE(tp_cumprod)
{
    OPERAND(b, b->f, tp_cumprod(x, 0, false, false));
    BAD(b, TP_E_AXIS, tp_cumprod(b->f, 2, false, false));
    BAD(b, TP_E_DTYPE, tp_cumprod(b->flag, 0, false, false));
}

MISUSE(tp_kth)
{
    OPERAND(b, b->f, tp_kth(x, 1, 0, false));
    BAD(b, TP_E_AXIS, tp_kth(b->f, 1, 2, false));
    BAD(b, TP_E_VALUE, tp_kth(b->f, 0, 1, false));
    BAD(b, TP_E_VALUE, tp_kth(b->f, -1, 1, false));
    BAD(b, TP_E_VALUE, tp_kth(b->node, 4, 1, false));
    BAD(b, TP_E_VALUE, tp_kth(b->batch, 0, 0, false));
    BAD(b, TP_E_VALUE, tp_kth(b->f, tp_dim(b->batch, 0), 0, false));
}

MISUSE(tp_median)
{
    OPERAND(b, b->f, tp_median(x, 0, false));
    BAD(b, TP_E_AXIS, tp_median(b->f, -3, false));
    BAD(b, TP_E_SHAPE, tp_median(tp_full(b->tp, TP_F32, TP_DIMS(2, 0), 1), 1, false));
}

MISUSE(tp_quantile)
{
    OPERAND(b, b->f, tp_quantile(x, 0.5, 0, false));
    BAD(b, TP_E_AXIS, tp_quantile(b->f, 0.5, 2, false));
    BAD(b, TP_E_VALUE, tp_quantile(b->f, -0.1, 0, false));
    BAD(b, TP_E_VALUE, tp_quantile(b->node, 1.5, 0, false));
    BAD(b, TP_E_VALUE, tp_quantile(b->f, 0.0 / 0.0, 0, false));
    BAD(b, TP_E_DTYPE, tp_quantile(b->i, 0.5, 0, false));
    BAD(b, TP_E_SHAPE, tp_quantile(tp_full(b->tp, TP_F32, TP_DIMS(0), 1), 0.5, 0, false));
}

/* ---- making -------------------------------------------------------------------------------- */

MISUSE(tp_eye)
{
    BAD_NIL(b, tp_eye(NULL, TP_F32, 2, 2, 0));
    BAD(b, TP_E_DTYPE, tp_eye(b->tp, TP_N_DTYPES, 2, 2, 0));
    BAD(b, TP_E_SHAPE, tp_eye(b->tp, TP_F32, -1, 2, 0));
    BAD(b, TP_E_SHAPE, tp_eye(b->tp, TP_F32, INT64_MAX / 8, INT64_MAX / 8, 0));
}

MISUSE(tp_linspace)
{
    BAD_NIL(b, tp_linspace(NULL, TP_F32, 0, 1, 2));
    BAD(b, TP_E_DTYPE, tp_linspace(b->tp, TP_N_DTYPES, 0, 1, 2));
    BAD(b, TP_E_SHAPE, tp_linspace(b->tp, TP_F32, 0, 1, -1));
    BAD(b, TP_E_SHAPE, tp_linspace(b->tp, TP_F32, 0, 1, INT64_MAX));
}

MISUSE(tp_meshgrid)
{
    tp_tensor *out[9];
    OPERAND(b, b->c, tp_meshgrid(2, ((tp_tensor *[]){b->c, x}), out));
    BAD_NIL(b, tp_meshgrid(0, &b->c, out));
    BAD_NIL(b, tp_meshgrid(1, NULL, out));
    BAD(b, TP_E_NULL, tp_meshgrid(1, &b->c, NULL));
    BAD(b, TP_E_SHAPE, tp_meshgrid(1, &b->f, out));
    BAD(b, TP_E_CTX, tp_meshgrid(2, ((tp_tensor *[]){b->c, b->foreign}), out));
    tp_tensor *const many[9] = {b->c, b->c, b->c, b->c, b->c, b->c, b->c, b->c, b->c};
    BAD(b, TP_E_VALUE, tp_meshgrid(9, many, out));
}

/* ---- arranging ----------------------------------------------------------------------------- */

#define DIAGONAL(fn)                                                                           \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, 1));                                                            \
        BAD(b, TP_E_SHAPE, fn(b->c, 0));                                                       \
        BAD(b, TP_E_VALUE, fn(b->f, INT64_MIN));                                               \
        BAD(b, TP_E_VALUE, fn(b->f, tp_dim(b->batch, 0)));                                     \
    }
DIAGONAL(tp_diagonal)
DIAGONAL(tp_tril)
DIAGONAL(tp_triu)

MISUSE(tp_diag)
{
    OPERAND(b, b->f, tp_diag(x, 1));
    BAD(b, TP_E_SHAPE, tp_diag(tp_scalar(b->tp, TP_F32, 1), 0));
    BAD(b, TP_E_SHAPE, tp_diag(tp_full(b->tp, TP_F32, TP_DIMS(1, 1, 1, 1, 1, 1, 1, 1), 1), 0));
    BAD(b, TP_E_VALUE, tp_diag(b->f, INT64_MIN));
    BAD(b, TP_E_VALUE, tp_diag(b->f, tp_dim(b->batch, 0)));
}

MISUSE(tp_tile)
{
    OPERAND(b, b->f, tp_tile(x, TP_DIMS(2)));
    BAD(b, TP_E_VALUE, tp_tile(b->f, TP_DIMS(-1)));
    BAD(b, TP_E_VALUE, tp_tile(b->f, TP_DIMS(INT64_MAX / 2, 2))); /* nothing is left for the second */
    BAD(b, TP_E_VALUE, tp_tile(b->node, 1, NULL));
    BAD(b, TP_E_VALUE, tp_tile(b->f, -1, &(int64_t){2}));
    BAD(b, TP_E_VALUE, tp_tile(b->f, TP_DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1)));
    BAD(b, TP_E_VALUE, tp_tile(b->f, TP_DIMS(tp_dim(b->batch, 0))));
    BAD(b, TP_E_VALUE, tp_tile(b->f, TP_DIMS(INT64_MAX)));
}

MISUSE(tp_repeat_each)
{
    OPERAND(b, b->f, tp_repeat_each(x, 2, 0));
    BAD(b, TP_E_AXIS, tp_repeat_each(b->f, 2, 2));
    BAD(b, TP_E_VALUE, tp_repeat_each(b->f, -1, 0));
    BAD(b, TP_E_VALUE, tp_repeat_each(b->f, tp_dim(b->batch, 0), 0));
    BAD(b, TP_E_VALUE, tp_repeat_each(b->f, INT64_MAX, 0));
}

MISUSE(tp_roll)
{
    OPERAND(b, b->f, tp_roll(x, 1, 0));
    BAD(b, TP_E_AXIS, tp_roll(b->f, 1, 2));
    BAD(b, TP_E_VALUE, tp_roll(b->f, INT64_MIN, 0));
    BAD(b, TP_E_VALUE, tp_roll(b->f, tp_dim(b->batch, 0), 0));
}

/* ---- products ------------------------------------------------------------------------------ */

MISUSE(tp_trace)
{
    OPERAND(b, b->f, tp_trace(x));
    BAD(b, TP_E_SHAPE, tp_trace(b->c));
}

#define OF_VECTORS(fn)                                                                         \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->c, fn(x, b->c));                                                         \
        OPERAND(b, b->c, fn(b->c, x));                                                         \
        BAD(b, TP_E_CTX, fn(b->c, b->foreign));                                                \
        BAD(b, TP_E_SHAPE, fn(b->c, b->f));                                                    \
        BAD(b, TP_E_SHAPE, fn(b->node, b->c));                                                 \
    }
OF_VECTORS(tp_outer)
OF_VECTORS(tp_dot)

MISUSE(tp_kron)
{
    tp_tensor *five = tp_full(b->tp, TP_F32, TP_DIMS(1, 1, 1, 1, 1), 1);
    OPERAND(b, b->f, tp_kron(x, b->f));
    OPERAND(b, b->f, tp_kron(b->f, x));
    BAD(b, TP_E_CTX, tp_kron(b->f, b->foreign));
    BAD(b, TP_E_SHAPE, tp_kron(b->f, five));
}

MISUSE(tp_tensordot)
{
    const int64_t one = 1, zero = 0, twice[] = {0, 0};
    OPERAND(b, b->f, tp_tensordot(x, b->t, 1, &one, &zero));
    OPERAND(b, b->t, tp_tensordot(b->f, x, 1, &one, &zero));
    BAD(b, TP_E_CTX, tp_tensordot(b->f, b->foreign, 1, &one, &one));
    BAD(b, TP_E_SHAPE, tp_tensordot(b->f, b->t, 1, &one, &one));
    BAD(b, TP_E_AXIS, tp_tensordot(b->f, b->c, 1, &one, &one));
    BAD(b, TP_E_AXIS, tp_tensordot(b->f, b->f, 2, twice, twice));
    BAD(b, TP_E_VALUE, tp_tensordot(b->f, b->t, 1, &one, NULL));
    BAD(b, TP_E_VALUE, tp_tensordot(b->f, b->t, -1, &one, &zero));
    BAD(b, TP_E_SHAPE, tp_tensordot(b->image, tp_unsqueeze(b->image, 0), 0, NULL, NULL));
}

MISUSE(tp_einsum)
{
    tp_tensor *const two[] = {b->f, b->t};
    OPERAND(b, b->f, tp_einsum("ij,jk->ik", 2, ((tp_tensor *[]){x, b->t})));
    OPERAND(b, b->t, tp_einsum("ij,jk", 2, ((tp_tensor *[]){b->f, x})));
    BAD_NIL(b, tp_einsum("ij", 0, two));
    BAD_NIL(b, tp_einsum("ij", 1, NULL));
    BAD(b, TP_E_NULL, tp_einsum(NULL, 1, two));
    BAD(b, TP_E_CTX, tp_einsum("ij,ij", 2, ((tp_tensor *[]){b->f, b->foreign})));
    BAD(b, TP_E_DTYPE, tp_einsum("ij->i", 1, &b->flag));
    BAD(b, TP_E_SHAPE, tp_einsum("ij,ij", 2, two));
    BAD(b, TP_E_SHAPE, tp_einsum("ii", 1, two));
    static const char *const wrong[] = {"",        "ij",       "ij,j",    "ij,jk,k", "ij,jk->l",
                                        "ij,jk-ik", "i.,jk",   "ij,jk->ii", "i1,jk",
                                        "ij,jk>i", "ij,jk->i,j", "......,jk", "ijk...,jk",
                                        "abcdefghi,jk"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        BAD(b, TP_E_VALUE, tp_einsum(wrong[i], 2, two));
    tp_tensor *many[17];
    for (int i = 0; i < 17; i++)
        many[i] = b->c;
    BAD(b, TP_E_VALUE, tp_einsum("a", 17, many));
}

const misuse misuse_arrays[] = {
    LISTED(tp_any),
    LISTED(tp_all),
    LISTED(tp_var),
    LISTED(tp_std),
    LISTED(tp_norm),
    LISTED(tp_logsumexp),
    LISTED(tp_cumprod),
    LISTED(tp_argcummax),
    LISTED(tp_argcummin),
    LISTED(tp_cummax),
    LISTED(tp_cummin),
    LISTED(tp_kth),
    LISTED(tp_median),
    LISTED(tp_quantile),
    LISTED(tp_eye),
    LISTED(tp_linspace),
    LISTED(tp_meshgrid),
    LISTED(tp_diagonal),
    LISTED(tp_diag),
    LISTED(tp_tril),
    LISTED(tp_triu),
    LISTED(tp_tile),
    LISTED(tp_repeat_each),
    LISTED(tp_roll),
    LISTED(tp_trace),
    LISTED(tp_dot),
    LISTED(tp_outer),
    LISTED(tp_kron),
    LISTED(tp_tensordot),
    LISTED(tp_einsum),
    {0},
};
