/* Misuse of ops.h. */
#include "misuse.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

static const int64_t absurd[TP_MAX_RANK + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

/* ---- one operand, and nothing else ------------------------------------------------------- */

#define ONE(fn, GOOD)                                                                          \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->GOOD, fn(x));                                                            \
    }
#define FLOAT_ONE(fn)                                                                          \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x));                                                               \
        BAD(b, TP_E_DTYPE, fn(b->i));                                                          \
        BAD(b, TP_E_DTYPE, fn(b->flag));                                                       \
    }

MISUSE(tp_neg)
{
    OPERAND(b, b->f, tp_neg(x));
    BAD(b, TP_E_DTYPE, tp_neg(b->flag));
}

MISUSE(tp_not)
{
    OPERAND(b, b->flag, tp_not(x));
    BAD(b, TP_E_DTYPE, tp_not(b->f));
}

ONE(tp_abs, f)
ONE(tp_sign, f)
ONE(tp_relu, f)
ONE(tp_detach, f)
MISUSE(tp_contiguous)
{
    what = "tp_contiguous|copy";
    OPERAND(b, b->f, tp_contiguous(x));
}

FLOAT_ONE(tp_exp)
FLOAT_ONE(tp_log)
FLOAT_ONE(tp_expm1)
FLOAT_ONE(tp_log1p)
FLOAT_ONE(tp_sqrt)
FLOAT_ONE(tp_rsqrt)
FLOAT_ONE(tp_sin)
FLOAT_ONE(tp_cos)
FLOAT_ONE(tp_tanh)
FLOAT_ONE(tp_sigmoid)
FLOAT_ONE(tp_erf)
FLOAT_ONE(tp_floor)
FLOAT_ONE(tp_ceil)
FLOAT_ONE(tp_round)
FLOAT_ONE(tp_gelu)
FLOAT_ONE(tp_silu)
FLOAT_ONE(tp_exp2)
FLOAT_ONE(tp_log2)
FLOAT_ONE(tp_log10)
FLOAT_ONE(tp_reciprocal)
FLOAT_ONE(tp_tan)
FLOAT_ONE(tp_asin)
FLOAT_ONE(tp_acos)
FLOAT_ONE(tp_atan)
FLOAT_ONE(tp_sinh)
FLOAT_ONE(tp_cosh)
FLOAT_ONE(tp_asinh)
FLOAT_ONE(tp_acosh)
FLOAT_ONE(tp_atanh)
FLOAT_ONE(tp_erfc)
FLOAT_ONE(tp_erfinv)
FLOAT_ONE(tp_lgamma)
FLOAT_ONE(tp_gelu_tanh)
FLOAT_ONE(tp_softplus)
FLOAT_ONE(tp_logsigmoid)
FLOAT_ONE(tp_mish)
FLOAT_ONE(tp_selu)
FLOAT_ONE(tp_relu6)
FLOAT_ONE(tp_hardsigmoid)
FLOAT_ONE(tp_hardswish)
FLOAT_ONE(tp_softsign)
ONE(tp_isnan, f)
ONE(tp_isinf, f)
ONE(tp_isfinite, f)

#define FLOAT_WITH(fn, ...)                                                                    \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, __VA_ARGS__));                                                  \
        BAD(b, TP_E_DTYPE, fn(b->i, __VA_ARGS__));                                             \
        BAD(b, TP_E_DTYPE, fn(b->flag, __VA_ARGS__));                                          \
    }
FLOAT_WITH(tp_swish, 0.5)
FLOAT_WITH(tp_elu, 0.5)
FLOAT_WITH(tp_celu, 0.5)
FLOAT_WITH(tp_leaky_relu, 0.5)
FLOAT_WITH(tp_threshold, 0.5, 1)

MISUSE(tp_square)
{
    what = "mul";
    OPERAND(b, b->f, tp_square(x));
}

MISUSE(tp_cast)
{
    OPERAND(b, b->f, tp_cast(x, TP_I32));
    BAD(b, TP_E_DTYPE, tp_cast(b->f, TP_N_DTYPES));
    BAD(b, TP_E_DTYPE, tp_cast(b->node, (tp_dtype)-1));
}

MISUSE(tp_clip)
{
    what = "clip|max|tp_scalar_like";
    OPERAND(b, b->f, tp_clip(x, 0, 1));
}

MISUSE(tp_clip_min)
{
    what = "max|tp_scalar_like";
    OPERAND(b, b->f, tp_clip_min(x, 0));
}

MISUSE(tp_clip_max)
{
    what = "min|tp_scalar_like";
    OPERAND(b, b->f, tp_clip_max(x, 0));
}

MISUSE(tp_shrink)
{
    what = "shrink|tp_scalar_like";
    OPERAND(b, b->f, tp_shrink(x, 0.5, 0.5));
}

#define HALVES(fn)                                                                             \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, 0));                                                            \
        BAD(b, TP_E_DTYPE, fn(b->i, 0));                                                       \
        BAD(b, TP_E_SHAPE, fn(b->f, 1));                                                       \
        BAD(b, TP_E_AXIS, fn(b->f, 2));                                                        \
        BAD(b, TP_E_AXIS, fn(b->f, -3));                                                       \
    }
HALVES(tp_glu)
HALVES(tp_swiglu)

/* ---- two operands that broadcast --------------------------------------------------------- */

static tp_tensor *other_graph(bed *b)
{
    tp_graph *g = tp_graph_new(b->tp);
    return tp_placeholder(g, "z", TP_F32, TP_DIMS(2, 3));
}

#define TWO_SHAPED(fn) TWO_SHAPED_OF(fn, what)
/* `inner`: what names two graphs. */
#define TWO_SHAPED_OF(fn, inner)                                                               \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, b->f));                                                         \
        OPERAND(b, b->f, fn(b->f, x));                                                         \
        BAD(b, TP_E_NULL, fn(b->f, NULL));                                                     \
        BAD(b, TP_E_NULL, fn(NULL, b->f));                                                     \
        BAD(b, TP_E_CTX, fn(b->f, b->foreign));                                                \
        BAD(b, TP_E_SHAPE, fn(b->f, b->t));                                                    \
        BAD(b, TP_E_SHAPE, fn(b->node, b->t));                                                 \
        BAD_AS(b, inner, TP_E_CTX, fn(b->node, other_graph(b)));                               \
    }
MISUSE(tp_lerp)
{
    OPERAND(b, b->f, tp_lerp(x, b->f, b->f));
    OPERAND(b, b->f, tp_lerp(b->f, x, b->f));
    OPERAND(b, b->f, tp_lerp(b->f, b->f, x));
    BAD(b, TP_E_SHAPE, tp_lerp(b->f, b->t, b->f));
    BAD(b, TP_E_SHAPE, tp_lerp(b->f, b->f, b->t));
    BAD(b, TP_E_DTYPE, tp_lerp(b->i, b->i, b->i));
    BAD(b, TP_E_CTX, tp_lerp(b->f, b->f, b->foreign));
}

TWO_SHAPED(tp_add)
TWO_SHAPED(tp_sub)
TWO_SHAPED(tp_mul)
TWO_SHAPED(tp_div)
TWO_SHAPED(tp_pow)
TWO_SHAPED(tp_min)
TWO_SHAPED(tp_max)
TWO_SHAPED(tp_mod)
TWO_SHAPED_OF(tp_atan2, "gt")
TWO_SHAPED_OF(tp_floor_div, "mod")
TWO_SHAPED_OF(tp_fmod, "mod")
TWO_SHAPED_OF(tp_prelu, "mul")
TWO_SHAPED(tp_eq)
TWO_SHAPED(tp_ne)
TWO_SHAPED(tp_lt)
TWO_SHAPED(tp_le)
TWO_SHAPED(tp_gt)
TWO_SHAPED(tp_ge)

#define LOGIC(fn)                                                                              \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->flag, fn(x, b->flag));                                                   \
        OPERAND(b, b->flag, fn(b->flag, x));                                                   \
        BAD(b, TP_E_NULL, fn(NULL, b->flag));                                                  \
        BAD(b, TP_E_CTX, fn(b->flag, b->foreign));                                             \
        BAD(b, TP_E_DTYPE, fn(b->f, b->f));                                                    \
        BAD(b, TP_E_SHAPE, fn(b->flag, b->i));                                                 \
    }
LOGIC(tp_and)
LOGIC(tp_or)
LOGIC(tp_xor)

MISUSE(tp_where)
{
    OPERAND(b, b->flag, tp_where(x, b->f, b->f));
    OPERAND(b, b->f, tp_where(b->flag, x, b->f));
    OPERAND(b, b->f, tp_where(b->flag, b->f, x));
    BAD(b, TP_E_DTYPE, tp_where(b->f, b->f, b->f));
    BAD(b, TP_E_SHAPE, tp_where(b->flag, b->f, b->t));
    BAD(b, TP_E_CTX, tp_where(b->flag, b->f, b->foreign));
}

/* ---- reductions -------------------------------------------------------------------------- */

#define REDUCE(fn)                                                                             \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, TP_ALL, false));                                                \
        BAD(b, TP_E_AXIS, fn(b->f, TP_DIMS(2), false));                                        \
        BAD(b, TP_E_AXIS, fn(b->f, TP_DIMS(-3), true));                                        \
        BAD(b, TP_E_AXIS, fn(b->f, TP_DIMS(0, -2), false));                                    \
        BAD(b, TP_E_AXIS, fn(b->node, TP_DIMS(INT64_MAX), false));                             \
        BAD(b, TP_E_AXIS, fn(b->f, TP_DIMS(INT64_MIN), false));                                \
        BAD(b, TP_E_VALUE, fn(b->f, -1, absurd, false));                                       \
        BAD(b, TP_E_AXIS, fn(b->f, INT32_MAX, absurd, false));                                 \
        BAD(b, TP_E_VALUE, fn(b->f, 2, NULL, false));                                          \
    }
REDUCE(tp_sum)
REDUCE(tp_prod)
REDUCE(tp_reduce_max)
REDUCE(tp_reduce_min)
REDUCE(tp_mean)

#define ALONG(fn, ...)                                                                         \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, 0 __VA_ARGS__));                                                \
        BAD(b, TP_E_AXIS, fn(b->f, 2 __VA_ARGS__));                                            \
        BAD(b, TP_E_AXIS, fn(b->node, -3 __VA_ARGS__));                                        \
        BAD(b, TP_E_AXIS, fn(b->f, INT32_MIN __VA_ARGS__));                                    \
        BAD(b, TP_E_AXIS, fn(b->f, INT32_MAX __VA_ARGS__));                                    \
    }
#define COMMA ,
ALONG(tp_argmax, COMMA false)
ALONG(tp_argmin, COMMA true)
ALONG(tp_cumsum, COMMA false, true)
MISUSE(tp_argtopk)
{
    OPERAND(b, b->f, tp_argtopk(x, 0, 1, true));
    BAD(b, TP_E_AXIS, tp_argtopk(b->f, 2, 1, true));
    BAD(b, TP_E_AXIS, tp_argtopk(b->node, INT32_MIN, 1, false));
    BAD(b, TP_E_SHAPE, tp_argtopk(b->f, 1, 4, true));
    BAD(b, TP_E_SHAPE, tp_argtopk(b->node, 1, -1, true));
    BAD(b, TP_E_SHAPE, tp_argtopk(b->batch, 0, INT64_MIN, true));
    BAD(b, TP_E_SHAPE, tp_argtopk(b->f, 0, tp_dim(b->batch, 0), false));
}

MISUSE(tp_argsort)
{
    what = "argsort|argtopk";
    OPERAND(b, b->f, tp_argsort(x, 0, true));
    BAD(b, TP_E_AXIS, tp_argsort(b->f, 2, false));
    BAD(b, TP_E_AXIS, tp_argsort(b->node, INT32_MIN, false));
}

MISUSE(tp_sort)
{
    what = "sort|argtopk";
    OPERAND(b, b->f, tp_sort(x, 0, true));
    BAD(b, TP_E_AXIS, tp_sort(b->f, 2, false));
    BAD(b, TP_E_AXIS, tp_sort(b->node, INT32_MAX, false));
}

ALONG(tp_softmax, )
ALONG(tp_log_softmax, )

MISUSE(tp_recur)
{
    OPERAND(b, b->f, tp_recur(x, b->f, 0, false));
    OPERAND(b, b->f, tp_recur(b->f, x, 0, false));
    BAD(b, TP_E_AXIS, tp_recur(b->f, b->f, 2, false));
    BAD(b, TP_E_SHAPE, tp_recur(b->f, b->t, 0, false));
    BAD(b, TP_E_CTX, tp_recur(b->f, b->foreign, 0, false));
}

MISUSE(tp_extent)
{
    OPERAND(b, b->f, tp_extent(x, TP_ALL, TP_I64));
    BAD(b, TP_E_AXIS, tp_extent(b->f, TP_DIMS(2), TP_I64));
    BAD(b, TP_E_VALUE, tp_extent(b->f, -1, absurd, TP_I64));
    BAD(b, TP_E_DTYPE, tp_extent(b->f, TP_ALL, TP_N_DTYPES));
    BAD(b, TP_E_DTYPE, tp_extent(b->batch, TP_ALL, (tp_dtype)99));
}

/* ---- moves ------------------------------------------------------------------------------- */

MISUSE(tp_reshape)
{
    OPERAND(b, b->f, tp_reshape(x, TP_DIMS(6)));
    BAD(b, TP_E_SHAPE, tp_reshape(b->f, TP_DIMS(5)));
    BAD(b, TP_E_SHAPE, tp_reshape(b->f, TP_DIMS(-1, -1)));
    BAD(b, TP_E_SHAPE, tp_reshape(b->f, TP_DIMS(4, -1)));
    BAD(b, TP_E_SHAPE, tp_reshape(b->f, TP_DIMS(0, -1)));
    BAD(b, TP_E_SHAPE, tp_reshape(b->f, TP_DIMS(-2, 3)));
    BAD(b, TP_E_SHAPE, tp_reshape(b->f, TP_DIMS(INT64_MAX, INT64_MAX)));
    BAD(b, TP_E_SHAPE, tp_reshape(b->f, TP_DIMS(INT64_MIN)));
    BAD(b, TP_E_SHAPE, tp_reshape(b->f, TP_MAX_RANK + 1, absurd));
    BAD(b, TP_E_SHAPE, tp_reshape(b->f, -1, absurd));
    BAD(b, TP_E_NULL, tp_reshape(b->f, 1, NULL));
    BAD(b, TP_E_SHAPE, tp_reshape(b->f, TP_DIMS(tp_symbol(b->g, "n"))));
    BAD(b, TP_E_SHAPE, tp_reshape(b->node, TP_DIMS(7)));
}

MISUSE(tp_flatten)
{
    OPERAND(b, b->f, tp_flatten(x, 1));
    BAD(b, TP_E_AXIS, tp_flatten(b->f, 7));
    BAD(b, TP_E_AXIS, tp_flatten(b->f, INT32_MIN));
}

MISUSE(tp_transpose)
{
    OPERAND(b, b->f, tp_transpose(x, TP_ALL));
    BAD(b, TP_E_AXIS, tp_transpose(b->f, TP_DIMS(0, 0)));
    BAD(b, TP_E_AXIS, tp_transpose(b->f, TP_DIMS(0)));
    BAD(b, TP_E_AXIS, tp_transpose(b->f, TP_DIMS(0, 2)));
    BAD(b, TP_E_SHAPE, tp_transpose(b->f, -5, absurd));
    BAD(b, TP_E_NULL, tp_transpose(b->f, 2, NULL));
}

MISUSE(tp_swap)
{
    OPERAND(b, b->f, tp_swap(x, 0, 1));
    BAD(b, TP_E_AXIS, tp_swap(b->f, 0, 2));
    BAD(b, TP_E_AXIS, tp_swap(b->f, INT32_MIN, 0));
}

MISUSE(tp_unsqueeze)
{
    OPERAND(b, b->f, tp_unsqueeze(x, 0));
    BAD(b, TP_E_AXIS, tp_unsqueeze(b->f, 4));
    BAD(b, TP_E_AXIS, tp_unsqueeze(b->f, INT32_MIN));
    tp_tensor *deep = tp_full(b->tp, TP_F32, TP_MAX_RANK, absurd, 1);
    BAD(b, TP_E_SHAPE, tp_unsqueeze(deep, 0));
}

MISUSE(tp_squeeze)
{
    OPERAND(b, b->image, tp_squeeze(x, 0));
    BAD(b, TP_E_SHAPE, tp_squeeze(b->f, 0));
    BAD(b, TP_E_AXIS, tp_squeeze(b->f, 2));
}

MISUSE(tp_broadcast)
{
    OPERAND(b, b->c, tp_broadcast(x, TP_DIMS(4, 3)));
    BAD(b, TP_E_SHAPE, tp_broadcast(b->f, TP_DIMS(3)));
    BAD(b, TP_E_SHAPE, tp_broadcast(b->f, TP_DIMS(2, 4)));
    BAD(b, TP_E_SHAPE, tp_broadcast(b->c, TP_DIMS(-1, 3)));
    BAD(b, TP_E_SHAPE, tp_broadcast(b->c, TP_DIMS(INT64_MAX, 3)));
    BAD(b, TP_E_SHAPE, tp_broadcast(b->c, TP_MAX_RANK + 1, absurd));
    BAD(b, TP_E_NULL, tp_broadcast(b->c, 2, NULL));
}

MISUSE(tp_slice)
{
    OPERAND(b, b->f, tp_slice(x, 0, 0, TP_END, 1));
    BAD(b, TP_E_AXIS, tp_slice(b->f, 2, 0, 1, 1));
    BAD(b, TP_E_VALUE, tp_slice(b->f, 0, 0, 1, 0));
    /* absurd ends are clamped */
    assert_int_equal(tp_size(tp_slice(b->f, 0, INT64_MIN, INT64_MAX, INT64_MAX), 0), 1);
    assert_int_equal(tp_size(tp_slice(b->f, 0, INT64_MAX, INT64_MIN, INT64_MIN), 0), 1);
    assert_int_equal(tp_size(tp_slice(b->f, 1, INT64_MAX, INT64_MIN, -1), 1), 3);
}

MISUSE(tp_select)
{
    OPERAND(b, b->f, tp_select(x, 0, 0));
    BAD(b, TP_E_AXIS, tp_select(b->f, 2, 0));
    BAD(b, TP_E_VALUE, tp_select(b->f, 0, 2));
    BAD(b, TP_E_VALUE, tp_select(b->f, 0, -3));
    BAD(b, TP_E_VALUE, tp_select(b->node, 0, INT64_MAX));
    BAD(b, TP_E_VALUE, tp_select(b->f, 0, INT64_MIN));
}

MISUSE(tp_flip)
{
    OPERAND(b, b->f, tp_flip(x, TP_ALL));
    BAD(b, TP_E_AXIS, tp_flip(b->f, TP_DIMS(0, 0)));
    BAD(b, TP_E_AXIS, tp_flip(b->f, TP_DIMS(3)));
    BAD(b, TP_E_SHAPE, tp_flip(b->f, -1, absurd));
}

MISUSE(tp_pad)
{
    const int64_t one[] = {1, 1}, less[] = {0, -1}, most[] = {INT64_MAX, INT64_MAX};
    OPERAND(b, b->f, tp_pad(x, 2, one, one, 0));
    BAD(b, TP_E_SHAPE, tp_pad(b->f, 1, one, one, 0));
    BAD(b, TP_E_SHAPE, tp_pad(b->f, -1, one, one, 0));
    BAD(b, TP_E_NULL, tp_pad(b->f, 2, NULL, one, 0));
    BAD(b, TP_E_NULL, tp_pad(b->f, 2, one, NULL, 0));
    BAD(b, TP_E_VALUE, tp_pad(b->f, 2, less, one, 0));
    BAD(b, TP_E_SHAPE, tp_pad(b->f, 2, most, most, 0));
}

MISUSE(tp_concat)
{
    OPERAND(b, b->f, tp_concat(2, (tp_tensor *[]){x, b->f}, 0));
    OPERAND(b, b->f, tp_concat(2, (tp_tensor *[]){b->f, x}, 0));
    tp_tensor *two[] = {b->f, b->t};
    BAD(b, TP_E_AXIS, tp_concat(2, (tp_tensor *[]){b->f, b->f}, 2));
    BAD(b, TP_E_SHAPE, tp_concat(2, two, 0));
    BAD(b, TP_E_CTX, tp_concat(2, (tp_tensor *[]){b->f, b->foreign}, 0));
    BAD_NIL(b, tp_concat(0, two, 0));
    BAD_NIL(b, tp_concat(-1, two, 0));
    BAD_NIL(b, tp_concat(2, NULL, 0));
}

MISUSE(tp_stack)
{
    what = "stack|unsqueeze|concat";
    OPERAND(b, b->f, tp_stack(2, (tp_tensor *[]){x, b->f}, 0));
    tp_tensor *two[] = {b->f, b->t};
    BAD(b, TP_E_AXIS, tp_stack(2, (tp_tensor *[]){b->f, b->f}, 4));
    BAD(b, TP_E_SHAPE, tp_stack(2, two, 0));
    BAD(b, TP_E_CTX, tp_stack(2, (tp_tensor *[]){b->f, b->foreign}, 0));
    BAD_NIL(b, tp_stack(0, two, 0));
    BAD_NIL(b, tp_stack(-1, two, 0));
    BAD_NIL(b, tp_stack(2, NULL, 0));
}

MISUSE(tp_split)
{
    tp_tensor *out[3];
    const int64_t sizes[] = {1, 2}, wrong[] = {1, 1}, negative[] = {-1, 4},
                  huge[] = {INT64_MAX, INT64_MAX - 4};
    OPERAND(b, b->f, tp_split(x, 1, 2, sizes, out));
    BAD(b, TP_E_AXIS, tp_split(b->f, 2, 2, sizes, out));
    assert_true(tp_failed(out[0]) && tp_failed(out[1]));
    BAD(b, TP_E_SHAPE, tp_split(b->f, 1, 2, wrong, out));
    BAD(b, TP_E_SHAPE, tp_split(b->f, 1, 2, negative, out));
    BAD(b, TP_E_SHAPE, tp_split(b->f, 1, 2, huge, out));
    BAD(b, TP_E_SHAPE, tp_split(b->f, 1, 2, NULL, out));
    BAD(b, TP_E_VALUE, tp_split(b->f, 1, 0, NULL, out));
    BAD(b, TP_E_VALUE, tp_split(b->f, 1, -1, NULL, out));
    BAD(b, TP_E_VALUE, tp_split(b->f, 1, 3, NULL, NULL));
}

/* ---- indices ----------------------------------------------------------------------------- */

static tp_tensor *far(bed *b, int rank, const int64_t *shape)
{
    return tp_full(b->tp, TP_I64, rank, shape, 1e18);
}

/* 2^64 - 1, which is no -1; and where one more is added to the least i64. */
static tp_tensor *unsigned_far(bed *b, int rank, const int64_t *shape)
{
    return tp_not(tp_full(b->tp, TP_U64, rank, shape, 0));
}

static void unsigned_indices(bed *b)
{
    tp_tensor *one = unsigned_far(b, TP_DIMS(2)), *all = unsigned_far(b, TP_DIMS(2, 3));
    BAD_AS(b, "gather", TP_E_VALUE, tp_gather(b->f, one, 0));
    BAD_AS(b, "gather", TP_E_VALUE, tp_gather(b->f, tp_full(b->tp, TP_U64, TP_DIMS(2), 0x1p63), 0));
    BAD_AS(b, "take_along", TP_E_VALUE, tp_take_along(b->f, all, 0));
    BAD_AS(b, "scatter", TP_E_VALUE, tp_scatter(b->f, one, b->f, 0));
    BAD_AS(b, "scatter_add", TP_E_VALUE, tp_scatter_add(b->f, one, b->f, 0));
    BAD_AS(b, "put_along_add", TP_E_VALUE, tp_put_along_add(b->f, all, b->f, 0));
    assert_true(tp_failed(tp_cross_entropy(b->f, one)));
    assert_int_equal(tp_error(b->tp), TP_E_VALUE);
    tp_clear_error(b->tp);
    /* What is outside is nowhere. */
    assert_true(tp_item(tp_sum(tp_one_hot(one, 3, TP_F32), TP_ALL, false)) == 0);
    tp_tensor *last = tp_gather(b->f, tp_full(b->tp, TP_U64, TP_DIMS(2), 1), 0);
    assert_true(tp_truth(tp_eq(tp_sum(tp_abs(tp_sub(tp_select(last, 0, 0), tp_select(b->f, 0, 1))),
                                      TP_ALL, false),
                               tp_scalar(b->tp, TP_F32, 0))));
    assert_int_equal(tp_error(b->tp), TP_OK);
}

MISUSE(tp_gather)
{
    OPERAND(b, b->f, tp_gather(x, b->i, 0));
    OPERAND(b, b->i, tp_gather(b->f, x, 0));
    BAD(b, TP_E_DTYPE, tp_gather(b->f, b->c, 0));
    BAD(b, TP_E_AXIS, tp_gather(b->f, b->i, 2));
    BAD(b, TP_E_VALUE, tp_gather(b->f, far(b, TP_DIMS(2)), 0));
    BAD(b, TP_E_CTX, tp_gather(b->f, b->foreign, 0));
    tp_tensor *deep = tp_full(b->tp, TP_I64, TP_MAX_RANK, absurd, 0);
    BAD(b, TP_E_SHAPE, tp_gather(b->f, deep, 0));
    unsigned_indices(b);
}

MISUSE(tp_take_along)
{
    OPERAND(b, b->f, tp_take_along(x, b->along, 0));
    OPERAND(b, b->along, tp_take_along(b->f, x, 0));
    BAD(b, TP_E_DTYPE, tp_take_along(b->f, b->f, 0));
    BAD(b, TP_E_AXIS, tp_take_along(b->f, b->along, 2));
    BAD(b, TP_E_SHAPE, tp_take_along(b->f, b->i, 0));
    BAD(b, TP_E_VALUE, tp_take_along(b->f, far(b, TP_DIMS(2, 3)), 0));
}

#define SCATTER(fn)                                                                            \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, b->i, b->f, 0));                                                \
        OPERAND(b, b->i, fn(b->f, x, b->f, 0));                                                \
        OPERAND(b, b->f, fn(b->f, b->i, x, 0));                                                \
        BAD(b, TP_E_DTYPE, fn(b->f, b->f, b->f, 0));                                           \
        BAD(b, TP_E_AXIS, fn(b->f, b->i, b->f, 2));                                            \
        BAD(b, TP_E_SHAPE, fn(b->f, b->i, b->t, 0));                                           \
        BAD(b, TP_E_VALUE, fn(b->f, far(b, TP_DIMS(2)), b->f, 0));                             \
        BAD(b, TP_E_CTX, fn(b->f, b->i, b->foreign, 0));                                       \
    }
SCATTER(tp_scatter_add)
SCATTER(tp_scatter)

MISUSE(tp_put_along_add)
{
    OPERAND(b, b->f, tp_put_along_add(x, b->along, b->f, 0));
    OPERAND(b, b->along, tp_put_along_add(b->f, x, b->f, 0));
    OPERAND(b, b->f, tp_put_along_add(b->f, b->along, x, 0));
    BAD(b, TP_E_DTYPE, tp_put_along_add(b->f, b->f, b->f, 0));
    BAD(b, TP_E_AXIS, tp_put_along_add(b->f, b->along, b->f, 2));
    BAD(b, TP_E_SHAPE, tp_put_along_add(b->f, b->along, b->t, 0));
    BAD(b, TP_E_VALUE, tp_put_along_add(b->f, far(b, TP_DIMS(2, 3)), b->f, 0));
}

MISUSE(tp_one_hot)
{
    OPERAND(b, b->i, tp_one_hot(x, 3, TP_F32));
    BAD(b, TP_E_DTYPE, tp_one_hot(b->f, 3, TP_F32));
    BAD(b, TP_E_DTYPE, tp_one_hot(b->i, 3, TP_N_DTYPES));
    BAD(b, TP_E_SHAPE, tp_one_hot(b->i, -1, TP_F32));
    BAD(b, TP_E_SHAPE, tp_one_hot(b->i, INT64_MAX, TP_F32));
    tp_tensor *deep = tp_full(b->tp, TP_I64, TP_MAX_RANK, absurd, 0);
    BAD(b, TP_E_SHAPE, tp_one_hot(deep, 2, TP_F32));
}

/* ---- contractions and windows ------------------------------------------------------------ */

MISUSE(tp_matmul)
{
    OPERAND(b, b->f, tp_matmul(x, b->t));
    OPERAND(b, b->t, tp_matmul(b->f, x));
    BAD(b, TP_E_SHAPE, tp_matmul(b->f, b->f));
    BAD(b, TP_E_SHAPE, tp_matmul(b->f, tp_scalar(b->tp, TP_F32, 1)));
    BAD(b, TP_E_CTX, tp_matmul(b->t, b->foreign));
    BAD(b, TP_E_SHAPE, tp_matmul(b->node, b->node));
}

/* Windows no convolution has. */
static const tp_window bad_windows[] = {
    {.stride = {-1}},
    {.pad_lo = {-1}},
    {.pad_hi = {0, INT64_MIN}},
    {.dilation = {-2}},
    {.dilation = {INT64_MAX}},
    {.pad_lo = {INT64_MAX}, .pad_hi = {INT64_MAX}},
    {.dilation = {9, 9}},
};
enum { N_BAD = sizeof bad_windows / sizeof *bad_windows };

MISUSE(tp_conv)
{
    OPERAND(b, b->image, tp_conv(x, b->kernel, NULL));
    OPERAND(b, b->kernel, tp_conv(b->image, x, NULL));
    BAD(b, TP_E_SHAPE, tp_conv(b->f, b->kernel, NULL));
    BAD(b, TP_E_SHAPE, tp_conv(b->image, b->image_out, NULL));
    BAD(b, TP_E_DTYPE, tp_conv(tp_cast(b->image, TP_I32), tp_cast(b->kernel, TP_I32), NULL));
    for (int k = 0; k < N_BAD; k++) {
        assert_true(tp_failed(tp_conv(b->image, b->kernel, &bad_windows[k])));
        assert_int_not_equal(tp_error(b->tp), TP_OK);
        tp_clear_error(b->tp);
    }
    BAD(b, TP_E_VALUE, tp_conv(b->image, b->kernel, &(tp_window){.groups = -1}));
    BAD(b, TP_E_SHAPE, tp_conv(b->image, b->kernel, &(tp_window){.groups = 7}));
    tp_tensor *foreign = tp_full(b->other, TP_F32, TP_DIMS(3, 2, 2, 2), 1);
    BAD(b, TP_E_CTX, tp_conv(b->image, foreign, NULL));
}

MISUSE(tp_conv_dx)
{
    const int64_t sizes[] = {4, 4}, wrong[] = {9, 4}, negative[] = {-1, 4};
    OPERAND(b, b->image_out, tp_conv_dx(x, b->kernel, 2, sizes, NULL));
    OPERAND(b, b->kernel, tp_conv_dx(b->image_out, x, 2, sizes, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_dx(b->image_out, b->kernel, 1, sizes, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_dx(b->image_out, b->kernel, 2, wrong, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_dx(b->image_out, b->kernel, 2, negative, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_dx(b->image_out, b->kernel, -1, sizes, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_dx(b->image_out, b->kernel, 2, NULL, NULL));
}

MISUSE(tp_conv_dw)
{
    const int64_t sizes[] = {2, 2}, wrong[] = {3, 2}, negative[] = {-1, 2};
    OPERAND(b, b->image, tp_conv_dw(x, b->image_out, 2, sizes, NULL));
    OPERAND(b, b->image_out, tp_conv_dw(b->image, x, 2, sizes, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_dw(b->image, b->image_out, 1, sizes, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_dw(b->image, b->image_out, 2, wrong, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_dw(b->image, b->image_out, 2, negative, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_dw(b->image, b->image_out, 2, NULL, NULL));
}

#define POOL(fn)                                                                               \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->image, fn(x, &(tp_window){.kernel = {2, 2}}));                           \
        BAD(b, TP_E_DTYPE, fn(tp_cast(b->image, TP_I32), &(tp_window){.kernel = {2, 2}}));     \
        BAD(b, TP_E_SHAPE, fn(b->f, &(tp_window){.kernel = {2, 2}}));                          \
        BAD(b, TP_E_NULL, fn(b->image, NULL));                                                 \
        BAD(b, TP_E_VALUE, fn(b->image, &(tp_window){0}));                                     \
        for (int k = 0; k < N_BAD; k++) {                                                      \
            tp_window w = bad_windows[k];                                                      \
            w.kernel[0] = w.kernel[1] = 2;                                                     \
            assert_true(tp_failed(fn(b->image, &w)));                                          \
            assert_int_not_equal(tp_error(b->tp), TP_OK);                                      \
            tp_clear_error(b->tp);                                                             \
        }                                                                                      \
    }
POOL(tp_max_pool)
POOL(tp_max_pool_index)
POOL(tp_avg_pool)

/* ---- random ------------------------------------------------------------------------------ */

#define RANDOM(fn)                                                                             \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        assert_true(tp_failed(fn(NULL, TP_F32, TP_DIMS(2), 0, 1)));                            \
        BAD(b, TP_E_DTYPE, fn(b->tp, TP_N_DTYPES, TP_DIMS(2), 0, 1));                          \
        BAD(b, TP_E_DTYPE, fn(b->tp, TP_I32, TP_DIMS(2), 0, 1));                               \
        BAD(b, TP_E_SHAPE, fn(b->tp, TP_F32, TP_DIMS(-2), 0, 1));                              \
        BAD(b, TP_E_SHAPE, fn(b->tp, TP_F32, TP_DIMS(INT64_MAX, 2), 0, 1));                    \
        BAD(b, TP_E_SHAPE, fn(b->tp, TP_F32, -1, absurd, 0, 1));                               \
        BAD(b, TP_E_SHAPE, fn(b->tp, TP_F32, TP_DIMS(tp_symbol(b->g, "n")), 0, 1));            \
        BAD(b, TP_E_NULL, fn(b->tp, TP_F32, 1, NULL, 0, 1));                                   \
        BAD_AS(b, "", TP_E_MEMORY, fn(b->tp, TP_F32, TP_DIMS((int64_t)1 << 30, (int64_t)1 << 27), 0, 1));        \
    }
RANDOM(tp_uniform)
RANDOM(tp_normal)

#define RANDOM_LIKE(fn)                                                                        \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        what = "uniform|normal";                                                               \
        OPERAND(b, b->f, fn(x, 0, 1));                                                         \
        OPERAND(b, b->batch, fn(x, 0, 1));                                                     \
        BAD(b, TP_E_DTYPE, fn(b->i, 0, 1));                                                    \
    }
RANDOM_LIKE(tp_uniform_like)
RANDOM_LIKE(tp_normal_like)

/* ---- composites -------------------------------------------------------------------------- */

MISUSE(tp_cross_entropy)
{
    OPERAND(b, b->f, tp_cross_entropy(x, b->i));
    OPERAND(b, b->i, tp_cross_entropy(b->f, x));
    BAD(b, TP_E_DTYPE, tp_cross_entropy(b->i, b->i));
    BAD(b, TP_E_SHAPE, tp_cross_entropy(b->c, b->i));
    BAD(b, TP_E_SHAPE, tp_cross_entropy(b->t, b->i));
    BAD(b, TP_E_DTYPE, tp_cross_entropy(b->f, tp_slice(b->c, 0, 0, 2, 1)));
    assert_true(tp_failed(tp_cross_entropy(b->f, far(b, TP_DIMS(2)))));
    assert_int_equal(tp_error(b->tp), TP_E_VALUE);
    tp_clear_error(b->tp);
}

MISUSE(tp_mse)
{
    OPERAND(b, b->f, tp_mse(x, b->f));
    OPERAND(b, b->f, tp_mse(b->f, x));
    BAD(b, TP_E_SHAPE, tp_mse(b->f, b->t));
}

MISUSE(tp_layer_norm)
{
    OPERAND(b, b->f, tp_layer_norm(x, b->c, b->c, 1e-5));
    BAD(b, TP_E_SHAPE, tp_layer_norm(b->f, b->f, b->c, 1e-5));
    BAD(b, TP_E_SHAPE, tp_layer_norm(b->f, b->c, b->f, 1e-5));
    BAD(b, TP_E_VALUE, tp_layer_norm(b->f, NULL, NULL, -1));
    BAD(b, TP_E_DTYPE, tp_layer_norm(b->along, NULL, NULL, 1e-5));
    BAD(b, TP_E_CTX, tp_layer_norm(b->f, tp_full(b->other, TP_F32, TP_DIMS(3), 1), NULL, 1e-5));
    STICKS(b, tp_layer_norm(b->f, b->failed, NULL, 1e-5));
    STICKS(b, tp_layer_norm(b->f, NULL, b->gone, 1e-5));
}

MISUSE(tp_batch_norm)
{
    OPERAND(b, b->f, tp_batch_norm(x, b->c, b->c, b->c, b->c, 1e-5));
    OPERAND(b, b->c, tp_batch_norm(b->f, NULL, NULL, x, b->c, 1e-5));
    OPERAND(b, b->c, tp_batch_norm(b->f, NULL, NULL, b->c, x, 1e-5));
    BAD(b, TP_E_SHAPE, tp_batch_norm(b->f, b->f, NULL, b->c, b->c, 1e-5));
    BAD(b, TP_E_VALUE, tp_batch_norm(b->f, NULL, NULL, b->c, b->c, -1));
    BAD(b, TP_E_SHAPE, tp_batch_norm(b->c, NULL, NULL, b->c, b->c, 1e-5));
}

MISUSE(tp_batch_norm_train)
{
    OPERAND(b, b->f, tp_batch_norm_train(x, b->c, b->c, NULL, NULL, 0.1, 1e-5));
    BAD(b, TP_E_SHAPE, tp_batch_norm_train(b->c, NULL, NULL, NULL, NULL, 0.1, 1e-5));
    BAD(b, TP_E_SHAPE, tp_batch_norm_train(b->f, b->f, NULL, NULL, NULL, 0.1, 1e-5));
    BAD(b, TP_E_SHAPE, tp_batch_norm_train(b->f, NULL, NULL, b->var, b->var, 0.1, 1e-5));
    BAD(b, TP_E_VALUE, tp_batch_norm_train(b->f, NULL, NULL, NULL, NULL, 0.1, -1));
    tp_tensor *running = tp_variable(b->c, "r");
    assert_true(tp_failed(tp_batch_norm_train(b->f, NULL, NULL, b->c, b->c, 0.1, 1e-5)));
    tp_clear_error(b->tp);
    assert_true(tp_failed(tp_batch_norm_train(b->f, NULL, NULL, running, NULL, 0.1, 1e-5)) ||
                tp_error(b->tp) == TP_OK);
    tp_clear_error(b->tp);
    STICKS(b, tp_batch_norm_train(b->f, NULL, NULL, b->failed, running, 0.1, 1e-5));
}

MISUSE(tp_cross_entropy_with)
{
    OPERAND(b, b->f, tp_cross_entropy_with(x, b->i, NULL));
    OPERAND(b, b->i, tp_cross_entropy_with(b->f, x, NULL));
    BAD(b, TP_E_SHAPE, tp_cross_entropy_with(b->c, b->i, NULL));
    BAD(b, TP_E_SHAPE, tp_cross_entropy_with(b->f, b->t, NULL));
    BAD(b, TP_E_DTYPE, tp_cross_entropy_with(b->f, b->c, NULL));
    BAD(b, TP_E_DTYPE, tp_cross_entropy_with(b->f, tp_select(b->flag, 1, 0), NULL));
    BAD(b, TP_E_AXIS, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.axis = 2}));
    BAD(b, TP_E_VALUE, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.smoothing = -1}));
    BAD(b, TP_E_VALUE, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.reduction = (tp_reduction)9}));
    BAD(b, TP_E_VALUE, tp_cross_entropy_with(b->f, b->f, &(tp_loss_options){.ignores = true}));
    BAD(b, TP_E_SHAPE, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.weights = b->f}));
    BAD(b, TP_E_CTX, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.weights = tp_full(b->other, TP_F32, TP_DIMS(3), 1)}));
    STICKS(b, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.weights = b->failed}));
    STICKS(b, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.weights = b->gone}));
}

MISUSE(tp_nll)
{
    OPERAND(b, b->f, tp_nll(x, b->i, NULL));
    OPERAND(b, b->i, tp_nll(b->f, x, NULL));
    BAD(b, TP_E_DTYPE, tp_nll(b->along, b->i, NULL));
    BAD(b, TP_E_SHAPE, tp_nll(b->f, b->along, NULL));
    BAD(b, TP_E_SHAPE, tp_nll(tp_scalar(b->tp, TP_F32, 1), b->i, NULL));
}

#define PAIR(fn)                                                                               \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, b->f, TP_NONE));                                                \
        OPERAND(b, b->f, fn(b->f, x, TP_NONE));                                                \
        BAD(b, TP_E_SHAPE, fn(b->f, b->t, TP_MEAN));                                           \
        BAD(b, TP_E_DTYPE, fn(b->along, b->f, TP_MEAN));                                       \
        BAD(b, TP_E_VALUE, fn(b->f, b->f, (tp_reduction)-1));                                  \
    }
PAIR(tp_l1)
PAIR(tp_hinge)
PAIR(tp_bce)
PAIR(tp_kl_div)
PAIR(tp_poisson_nll)

MISUSE(tp_huber)
{
    OPERAND(b, b->f, tp_huber(x, b->f, 1, TP_MEAN));
    OPERAND(b, b->f, tp_huber(b->f, x, 1, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_huber(b->f, b->c, 1, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_huber(b->f, b->f, -1, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_huber(b->f, b->f, 0.0 / 0.0, TP_MEAN));
}

MISUSE(tp_bce_with_logits)
{
    OPERAND(b, b->f, tp_bce_with_logits(x, b->f, NULL, b->c, TP_MEAN));
    OPERAND(b, b->f, tp_bce_with_logits(b->f, x, b->c, NULL, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_bce_with_logits(b->f, b->t, NULL, NULL, TP_MEAN));
    STICKS(b, tp_bce_with_logits(b->f, b->f, b->t, NULL, TP_MEAN));
    STICKS(b, tp_bce_with_logits(b->f, b->f, b->failed, NULL, TP_MEAN));
    STICKS(b, tp_bce_with_logits(b->f, b->f, NULL, b->gone, TP_MEAN));
}

MISUSE(tp_cosine_similarity)
{
    OPERAND(b, b->f, tp_cosine_similarity(x, b->f, 1, 0));
    OPERAND(b, b->f, tp_cosine_similarity(b->f, x, 1, 0));
    BAD(b, TP_E_SHAPE, tp_cosine_similarity(b->f, b->c, 0, 0));
    BAD(b, TP_E_AXIS, tp_cosine_similarity(b->f, b->f, -3, 0));
    BAD(b, TP_E_VALUE, tp_cosine_similarity(b->f, b->f, 1, -1));
}

MISUSE(tp_cosine_loss)
{
    OPERAND(b, b->f, tp_cosine_loss(x, b->f, b->i, 0, TP_MEAN));
    OPERAND(b, b->f, tp_cosine_loss(b->f, x, b->i, 0, TP_MEAN));
    OPERAND(b, b->i, tp_cosine_loss(b->f, b->f, x, 0, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_cosine_loss(b->f, b->f, b->c, 0, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_cosine_loss(b->f, b->f, b->i, 1.0 / 0.0, TP_MEAN));
}

MISUSE(tp_triplet)
{
    OPERAND(b, b->f, tp_triplet(x, b->f, b->f, 1, TP_MEAN));
    OPERAND(b, b->f, tp_triplet(b->f, x, b->f, 1, TP_MEAN));
    OPERAND(b, b->f, tp_triplet(b->f, b->f, x, 1, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_triplet(b->f, b->f, b->c, 1, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_triplet(b->f, b->f, b->f, 0.0 / 0.0, TP_MEAN));
}

MISUSE(tp_ctc_loss)
{
    tp_tensor *logs = tp_full(b->tp, TP_F32, TP_DIMS(4, 2, 3), -1);
    tp_tensor *of = tp_full(b->tp, TP_I64, TP_DIMS(2, 2), 1), *n = tp_full(b->tp, TP_I64, TP_DIMS(2), 2);
    OPERAND(b, logs, tp_ctc_loss(x, of, n, n, 0, TP_MEAN));
    OPERAND(b, of, tp_ctc_loss(logs, x, n, n, 0, TP_MEAN));
    OPERAND(b, n, tp_ctc_loss(logs, of, x, n, 0, TP_MEAN));
    OPERAND(b, n, tp_ctc_loss(logs, of, n, x, 0, TP_MEAN));
    BAD(b, TP_E_DTYPE, tp_ctc_loss(logs, b->f, n, n, 0, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_ctc_loss(b->f, of, n, n, 0, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_ctc_loss(logs, b->along, b->along, n, 0, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_ctc_loss(logs, of, n, n, 3, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_ctc_loss(logs, of, n, n, -1, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_ctc_loss(logs, of, n, n, 0, (tp_reduction)3));
    assert_true(tp_failed(tp_ctc_loss(logs, tp_full(b->tp, TP_I64, TP_DIMS(2, 2), 3), n, n, 0, TP_MEAN)));
    tp_clear_error(b->tp);
}

MISUSE(tp_hardmax)
{
    OPERAND(b, b->f, tp_hardmax(x, 1));
    BAD(b, TP_E_AXIS, tp_hardmax(b->f, 2));
    BAD(b, TP_E_DTYPE, tp_hardmax(b->i, 0));
}

MISUSE(tp_rms_norm)
{
    OPERAND(b, b->f, tp_rms_norm(x, b->c, 1e-5));
    BAD(b, TP_E_SHAPE, tp_rms_norm(b->f, b->f, 1e-5));
    BAD(b, TP_E_VALUE, tp_rms_norm(b->f, NULL, -1));
    BAD(b, TP_E_AXIS, tp_rms_norm(tp_scalar(b->tp, TP_F32, 1), NULL, 0));
    BAD(b, TP_E_DTYPE, tp_rms_norm(b->along, NULL, 1e-5));
    STICKS(b, tp_rms_norm(b->f, b->failed, 1e-5));
}

MISUSE(tp_group_norm)
{
    OPERAND(b, b->f, tp_group_norm(x, 3, b->c, b->c, 1e-5));
    BAD(b, TP_E_SHAPE, tp_group_norm(b->f, 2, NULL, NULL, 1e-5));
    BAD(b, TP_E_SHAPE, tp_group_norm(b->c, 1, NULL, NULL, 1e-5));
    BAD(b, TP_E_SHAPE, tp_group_norm(b->f, 1, b->f, NULL, 1e-5));
    BAD(b, TP_E_VALUE, tp_group_norm(b->f, 0, NULL, NULL, 1e-5));
    BAD(b, TP_E_VALUE, tp_group_norm(b->f, 3, NULL, NULL, -1));
    STICKS(b, tp_group_norm(b->f, 3, NULL, b->gone, 1e-5));
}

MISUSE(tp_instance_norm)
{
    OPERAND(b, b->image, tp_instance_norm(x, NULL, NULL, 1e-5));
    BAD(b, TP_E_SHAPE, tp_instance_norm(b->f, NULL, NULL, 1e-5));
    BAD(b, TP_E_SHAPE, tp_instance_norm(b->image, b->c, NULL, 1e-5));
    BAD(b, TP_E_VALUE, tp_instance_norm(b->image, NULL, NULL, -1));
    STICKS(b, tp_instance_norm(b->image, b->failed, NULL, 1e-5));
}

MISUSE(tp_local_response_norm)
{
    OPERAND(b, b->image, tp_local_response_norm(x, 3, 1, 0.5, 1));
    BAD(b, TP_E_SHAPE, tp_local_response_norm(b->c, 3, 1, 0.5, 1));
    BAD(b, TP_E_VALUE, tp_local_response_norm(b->image, 0, 1, 0.5, 1));
    BAD(b, TP_E_VALUE, tp_local_response_norm(b->image, 1 << 20, 1, 0.5, 1));
    BAD(b, TP_E_VALUE, tp_local_response_norm(b->image, 3, 0.0 / 0.0, 0.5, 1));
}

MISUSE(tp_normalize)
{
    OPERAND(b, b->f, tp_normalize(x, 2, 1, 0));
    BAD(b, TP_E_AXIS, tp_normalize(b->f, 2, 2, 0));
    BAD(b, TP_E_VALUE, tp_normalize(b->f, 0, 1, 0));
    BAD(b, TP_E_VALUE, tp_normalize(b->f, 2, 1, -1));
    BAD(b, TP_E_DTYPE, tp_normalize(b->i, 2, 0, 0));
}

MISUSE(tp_attention)
{
    what = "attention|concat";
    OPERAND(b, b->image, tp_attention(x, b->image, b->image, NULL, NULL));
    OPERAND(b, b->image, tp_attention(b->image, x, b->image, NULL, NULL));
    OPERAND(b, b->image, tp_attention(b->image, b->image, x, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_attention(b->f, b->f, b->f, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_attention(b->image, b->image_out, b->image, NULL, NULL));
    tp_tensor *present[2];
#define OPTION(...) tp_attention(b->image, b->image, b->image, &(tp_attention_options){__VA_ARGS__}, present)
    BAD(b, TP_E_VALUE, OPTION(.scale = 1.0 / 0.0));
    BAD(b, TP_E_VALUE, OPTION(.softcap = -1));
    BAD(b, TP_E_VALUE, OPTION(.before = -1));
    BAD(b, TP_E_VALUE, OPTION(.after = -1));
    BAD(b, TP_E_DTYPE, OPTION(.mask = b->along));
    BAD(b, TP_E_DTYPE, OPTION(.lengths = b->c));
    BAD(b, TP_E_SHAPE, OPTION(.lengths = b->along));
    BAD(b, TP_E_SHAPE, OPTION(.past_key = b->kernel, .past_value = b->image));
    BAD(b, TP_E_SHAPE, OPTION(.past_key = b->image, .past_value = tp_slice(b->image, 2, 0, 1, 1)));
    BAD(b, TP_E_NULL, OPTION(.past_key = b->image));
    STICKS(b, OPTION(.mask = b->f));
    STICKS(b, OPTION(.mask = b->failed));
    STICKS(b, OPTION(.past_key = b->image, .past_value = b->gone));
    assert_true(tp_failed(OPTION(.softcap = -1)) && tp_failed(present[0]) && tp_failed(present[1]));
    tp_clear_error(b->tp);
#undef OPTION
}

MISUSE(tp_rotary)
{
    tp_tensor *turn = tp_full(b->tp, TP_F32, TP_DIMS(2, 1), 1);
    OPERAND(b, b->f, tp_rotary(x, turn, turn, false));
    OPERAND(b, turn, tp_rotary(b->f, x, turn, false));
    OPERAND(b, turn, tp_rotary(b->f, turn, x, true));
    BAD(b, TP_E_SHAPE, tp_rotary(b->f, b->f, b->f, false));
    BAD(b, TP_E_SHAPE, tp_rotary(b->f, turn, b->f, false));
    BAD(b, TP_E_SHAPE, tp_rotary(b->c, turn, turn, false));
}

MISUSE(tp_dropout)
{
    OPERAND(b, b->f, tp_dropout(x, 0.5));
    BAD(b, TP_E_VALUE, tp_dropout(b->f, 1));
    BAD(b, TP_E_VALUE, tp_dropout(b->f, -0.1));
    BAD(b, TP_E_VALUE, tp_dropout(b->f, 0.0 / 0.0));
    BAD(b, TP_E_DTYPE, tp_dropout(b->i, 0.5));
}

MISUSE(tp_linear)
{
    what = "matmul";
    OPERAND(b, b->f, tp_linear(x, b->t, NULL));
    OPERAND(b, b->t, tp_linear(b->f, x, NULL));
    what = "linear|matmul|add";
    BAD(b, TP_E_SHAPE, tp_linear(b->f, b->f, NULL));
    BAD(b, TP_E_SHAPE, tp_linear(b->f, b->t, b->c));
}

/* ---- recurrent --------------------------------------------------------------------------- */

/* Weights of so many gates for the inputs b->f [2, 3] and a state [2, 2]. */
static tp_recurrent recurrent(bed *b, int gates)
{
    return (tp_recurrent){.w = tp_full(b->tp, TP_F32, TP_DIMS(3, 2 * gates), 1),
                          .r = tp_full(b->tp, TP_F32, TP_DIMS(2, 2 * gates), 1)};
}

static tp_tensor *nothing(void *user, int k, tp_tensor *x)
{
    (void)user, (void)k, (void)x;
    return NULL;
}

#define CELL(fn, gates, CALL)                                                                  \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        const tp_recurrent w = recurrent(b, gates);                                            \
        tp_tensor *h = tp_full(b->tp, TP_F32, TP_DIMS(2, 2), 1);                               \
        OPERAND(b, b->f, CALL(x, h, &w, NULL));                                                \
        STICKS(b, CALL(b->f, b->failed, &w, NULL));                                            \
        BAD(b, TP_E_NULL, CALL(b->f, h, NULL, NULL));                                          \
        BAD(b, TP_E_NULL, CALL(b->f, h, &(tp_recurrent){.w = w.w}, NULL));                     \
        BAD(b, TP_E_SHAPE, CALL(b->t, h, &w, NULL));                                           \
        BAD(b, TP_E_SHAPE, CALL(b->c, h, &w, NULL));                                           \
        BAD(b, TP_E_SHAPE, CALL(b->f, b->f, &w, NULL));                                        \
        BAD(b, TP_E_SHAPE, CALL(b->f, h, (&(tp_recurrent){.w = w.w, .r = w.w}), NULL));        \
        BAD(b, TP_E_SHAPE, CALL(b->f, h, (&(tp_recurrent){.w = w.w, .r = w.r, .wb = b->f}), NULL)); \
        BAD(b, TP_E_DTYPE, CALL(b->along, h, &w, NULL));                                       \
        BAD(b, TP_E_VALUE, CALL(b->f, h, &w, &(tp_recurrent_options){.clip = -1}));            \
        BAD(b, TP_E_NULL, CALL(b->f, h, &w, &(tp_recurrent_options){.activation = nothing}));  \
    }
#define LSTM_CELL(x, h, ...) tp_lstm_cell(x, h, NULL, __VA_ARGS__)
CELL(tp_rnn_cell, 1, tp_rnn_cell)
CELL(tp_gru_cell, 3, tp_gru_cell)
CELL(tp_lstm_cell, 4, LSTM_CELL)

#define LAYER(fn, gates, ...) /* what comes behind the state */                                \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        const tp_recurrent w[2] = {recurrent(b, gates), recurrent(b, gates)};                  \
        tp_tensor *xs = tp_unsqueeze(b->f, 0), *h = NULL;                                      \
        OPERAND(b, xs, fn(x, w, NULL, NULL, ##__VA_ARGS__));                                   \
        BAD(b, TP_E_NULL, fn(xs, NULL, NULL, NULL, ##__VA_ARGS__));                            \
        BAD(b, TP_E_SHAPE, fn(b->f, w, NULL, &h, ##__VA_ARGS__));                              \
        assert_true(tp_failed(h)); /* the state is the failed tensor, too */                   \
        STICKS(b, fn(xs, w, NULL, &h, ##__VA_ARGS__));                                         \
        const tp_recurrent_options both = {.both = true, .reverse = true};                     \
        BAD(b, TP_E_VALUE, fn(xs, w, &both, NULL, ##__VA_ARGS__));                             \
        h = b->f;                                                                              \
        BAD(b, TP_E_SHAPE, fn(xs, w, &(tp_recurrent_options){.both = true}, &h, ##__VA_ARGS__)); \
        const tp_recurrent_options ends = {.lengths = b->c};                                   \
        BAD(b, TP_E_SHAPE, fn(xs, w, &ends, NULL, ##__VA_ARGS__));                             \
    }
LAYER(tp_rnn, 1)
LAYER(tp_gru, 3)
LAYER(tp_lstm, 4, NULL)

/* ---- windows and images ------------------------------------------------------------------ */

#define ADAPTIVE(fn)                                                                           \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->image, fn(x, TP_DIMS(3, 2)));                                            \
        BAD(b, TP_E_SHAPE, fn(b->image, TP_DIMS(3)));                                          \
        BAD(b, TP_E_SHAPE, fn(b->image, TP_DIMS(3, -2)));                                      \
        BAD(b, TP_E_SHAPE, fn(b->image, 2, NULL));                                             \
        BAD(b, TP_E_SHAPE, fn(b->f, TP_DIMS(3)));                                              \
        BAD(b, TP_E_DTYPE, fn(b->along, TP_DIMS(3)));                                          \
        BAD(b, TP_E_SHAPE, fn(tp_reshape(b->batch, TP_DIMS(1, 3, -1)), TP_DIMS(2)));           \
    }
ADAPTIVE(tp_adaptive_avg_pool)
ADAPTIVE(tp_adaptive_max_pool)

#define GLOBAL_POOL(fn)                                                                        \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->image, fn(x));                                                           \
        BAD(b, TP_E_SHAPE, fn(b->f));                                                          \
        BAD(b, TP_E_DTYPE, fn(b->i));                                                          \
    }
GLOBAL_POOL(tp_global_avg_pool)
GLOBAL_POOL(tp_global_max_pool)

MISUSE(tp_lp_pool)
{
    const tp_window w = {.kernel = {2, 2}};
    OPERAND(b, b->image, tp_lp_pool(x, 2, &w));
    BAD(b, TP_E_NULL, tp_lp_pool(b->image, 2, NULL));
    BAD(b, TP_E_VALUE, tp_lp_pool(b->image, 0, &w));
    BAD(b, TP_E_VALUE, tp_lp_pool(b->image, 0.0 / 0.0, &w));
    BAD(b, TP_E_SHAPE, tp_lp_pool(b->f, 2, &w));
    what = "avg_pool";
    BAD(b, TP_E_VALUE, tp_lp_pool(b->image, 2, &(tp_window){0}));
}

MISUSE(tp_max_unpool)
{
    tp_tensor *index = tp_cast(b->image, TP_I64);
    OPERAND(b, b->image, tp_max_unpool(x, index, TP_DIMS(8, 8)));
    OPERAND(b, index, tp_max_unpool(b->image, x, TP_DIMS(8, 8)));
    BAD(b, TP_E_SHAPE, tp_max_unpool(b->image, b->i, TP_DIMS(8, 8)));
    BAD(b, TP_E_SHAPE, tp_max_unpool(b->image, b->image, TP_DIMS(8, 8)));
    BAD(b, TP_E_SHAPE, tp_max_unpool(b->image, index, TP_DIMS(8)));
    BAD(b, TP_E_SHAPE, tp_max_unpool(b->image, index, TP_DIMS(INT64_MAX / 2, 8)));
}

MISUSE(tp_unfold)
{
    OPERAND(b, b->image, tp_unfold(x, &(tp_window){.kernel = {2, 2}}));
    BAD(b, TP_E_NULL, tp_unfold(b->image, NULL));
    BAD(b, TP_E_VALUE, tp_unfold(b->image, &(tp_window){0}));
    BAD(b, TP_E_SHAPE, tp_unfold(b->image, &(tp_window){.kernel = {5, 1}}));
    BAD(b, TP_E_SHAPE, tp_unfold(b->f, &(tp_window){.kernel = {1}}));
    BAD(b, TP_E_VALUE, tp_unfold(b->image, (&(tp_window){.kernel = {2, 2}, .pad_lo = {-1}})));
}

MISUSE(tp_fold)
{
    const tp_window w = {.kernel = {2, 2}};
    tp_tensor *columns = tp_full(b->tp, TP_F32, TP_DIMS(1, 4, 9), 1);
    OPERAND(b, columns, tp_fold(x, TP_DIMS(4, 4), &(tp_window){.kernel = {2, 2}, .stride = {1, 1}}));
    BAD(b, TP_E_NULL, tp_fold(columns, TP_DIMS(4, 4), NULL));
    BAD(b, TP_E_SHAPE, tp_fold(columns, TP_DIMS(5, 4), &w));
    BAD(b, TP_E_SHAPE, tp_fold(columns, TP_DIMS(1, 1, 1, 1), &w));
    BAD(b, TP_E_SHAPE, tp_fold(columns, 2, NULL, &w));
    BAD(b, TP_E_SHAPE, tp_fold(b->image, TP_DIMS(4, 4), &w));
    BAD(b, TP_E_VALUE, tp_fold(columns, TP_DIMS(4, 4), &(tp_window){0}));
}

MISUSE(tp_conv_transpose)
{
    what = "conv_transpose|conv_dx";
    OPERAND(b, b->image_out, tp_conv_transpose(x, b->kernel, NULL, NULL));
    OPERAND(b, b->kernel, tp_conv_transpose(b->image_out, x, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_transpose(b->image_out, b->f, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_transpose(b->image, b->kernel, NULL, NULL));
    BAD(b, TP_E_VALUE, tp_conv_transpose(b->image_out, b->kernel, NULL, ((const int64_t[]){0, -1})));
    BAD(b, TP_E_SHAPE, tp_conv_transpose(b->image_out, b->kernel, &(tp_window){.pad_lo = {9}}, NULL));
    BAD(b, TP_E_VALUE, tp_conv_transpose(b->image_out, b->kernel, &(tp_window){.stride = {-1}}, NULL));
}

#define BLOCKS(fn, ...) /* sizes of a good operand */                                          \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, tp_full(b->tp, TP_F32, TP_DIMS(__VA_ARGS__), 1), fn(x, 2));                 \
        BAD(b, TP_E_VALUE, fn(b->image, 0));                                                   \
        BAD(b, TP_E_VALUE, fn(b->image, INT64_MAX / 3));                                       \
        BAD(b, TP_E_SHAPE, fn(b->image, 3));                                                   \
        BAD(b, TP_E_SHAPE, fn(b->f, 2));                                                       \
    }
BLOCKS(tp_pixel_shuffle, 1, 4, 2, 2)
BLOCKS(tp_pixel_unshuffle, 1, 1, 2, 2)
BLOCKS(tp_depth_to_space, 1, 4, 2, 2)
BLOCKS(tp_space_to_depth, 1, 1, 2, 2)

MISUSE(tp_resize)
{
    const tp_resize_options linear = {.mode = TP_INTERPOLATE_LINEAR};
    OPERAND(b, b->image, tp_resize(x, TP_DIMS(3, 5), &linear));
    BAD(b, TP_E_SHAPE, tp_resize(b->f, TP_DIMS(1, 2, 3), NULL));
    BAD(b, TP_E_SHAPE, tp_resize(b->f, -1, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_resize(b->f, TP_DIMS(0), NULL));
    BAD(b, TP_E_DTYPE, tp_resize(b->along, TP_DIMS(2), &linear));
    BAD(b, TP_E_VALUE, tp_resize(b->f, TP_DIMS(2), &(tp_resize_options){.mode = (tp_interpolation)7}));
    BAD(b, TP_E_VALUE, tp_resize(b->f, TP_DIMS(2), &(tp_resize_options){.where = (tp_coordinates)7}));
    BAD(b, TP_E_VALUE, tp_resize(b->f, TP_DIMS(2), &(tp_resize_options){.rounding = (tp_rounding)7}));
    BAD(b, TP_E_VALUE, tp_resize(tp_reshape(b->batch, TP_DIMS(3, -1)), TP_DIMS(2),
                                 (&(tp_resize_options){.mode = TP_INTERPOLATE_LINEAR, .antialias = true})));
    BAD(b, TP_E_SHAPE, tp_resize(tp_slice(b->f, 1, 0, 0, 1), TP_DIMS(2), NULL));
}

MISUSE(tp_upsample)
{
    OPERAND(b, b->image, tp_upsample(x, 2, TP_INTERPOLATE_LINEAR));
    BAD(b, TP_E_SHAPE, tp_upsample(b->f, 2, TP_INTERPOLATE_LINEAR));
    BAD(b, TP_E_VALUE, tp_upsample(b->image, 0, TP_INTERPOLATE_NEAREST));
    BAD(b, TP_E_VALUE, tp_upsample(b->image, 2, (tp_interpolation)-1));
}

MISUSE(tp_pad_with)
{
    const int64_t one[] = {1, 1}, less[] = {-1, 0}, many[] = {INT64_MAX, 0};
    OPERAND(b, b->f, tp_pad_with(x, 2, one, one, TP_PAD_REFLECT));
    BAD(b, TP_E_SHAPE, tp_pad_with(b->f, 1, one, one, TP_PAD_EDGE));
    BAD(b, TP_E_SHAPE, tp_pad_with(b->f, 2, NULL, one, TP_PAD_EDGE));
    BAD(b, TP_E_VALUE, tp_pad_with(b->f, 2, less, one, TP_PAD_EDGE));
    BAD(b, TP_E_VALUE, tp_pad_with(b->f, 2, many, one, TP_PAD_EDGE));
    BAD(b, TP_E_VALUE, tp_pad_with(b->f, 2, one, one, (tp_padding)9));
    BAD(b, TP_E_SHAPE, tp_pad_with(tp_slice(b->f, 1, 0, 0, 1), 2, one, one, TP_PAD_WRAP));
}

MISUSE(tp_grid_sample)
{
    tp_tensor *grid = tp_full(b->tp, TP_F32, TP_DIMS(1, 3, 2, 2), 0);
    OPERAND(b, b->image, tp_grid_sample(x, grid, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false));
    OPERAND(b, grid, tp_grid_sample(b->image, x, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false));
    BAD(b, TP_E_SHAPE, tp_grid_sample(b->image, b->f, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false));
    BAD(b, TP_E_SHAPE, tp_grid_sample(b->image, b->image, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false));
    BAD(b, TP_E_DTYPE, tp_grid_sample(b->image, b->along, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false));
    BAD(b, TP_E_VALUE, tp_grid_sample(b->image, grid, TP_INTERPOLATE_LINEAR, TP_PAD_WRAP, false));
    BAD(b, TP_E_VALUE, tp_grid_sample(b->image, grid, (tp_interpolation)9, TP_PAD_EDGE, false));
}

MISUSE(tp_affine_grid)
{
    tp_tensor *theta = tp_full(b->tp, TP_F32, TP_DIMS(1, 2, 3), 1);
    OPERAND(b, theta, tp_affine_grid(x, TP_DIMS(3, 2), false));
    BAD(b, TP_E_SHAPE, tp_affine_grid(theta, TP_DIMS(3, 2, 2), false));
    BAD(b, TP_E_SHAPE, tp_affine_grid(theta, TP_DIMS(3), false));
    BAD(b, TP_E_SHAPE, tp_affine_grid(theta, TP_DIMS(0, 3), false));
    BAD(b, TP_E_SHAPE, tp_affine_grid(b->f, TP_DIMS(3, 2), false));
    BAD(b, TP_E_DTYPE, tp_affine_grid(b->along, TP_DIMS(3, 2), false));
}

const misuse misuse_ops[] = {
    LISTED(tp_neg),
    LISTED(tp_not),
    LISTED(tp_abs),
    LISTED(tp_sign),
    LISTED(tp_relu),
    LISTED(tp_detach),
    LISTED(tp_contiguous),
    LISTED(tp_exp),
    LISTED(tp_log),
    LISTED(tp_expm1),
    LISTED(tp_log1p),
    LISTED(tp_sqrt),
    LISTED(tp_rsqrt),
    LISTED(tp_sin),
    LISTED(tp_cos),
    LISTED(tp_tanh),
    LISTED(tp_sigmoid),
    LISTED(tp_erf),
    LISTED(tp_floor),
    LISTED(tp_ceil),
    LISTED(tp_round),
    LISTED(tp_gelu),
    LISTED(tp_silu),
    LISTED(tp_square),
    LISTED(tp_cast),
    LISTED(tp_clip),
    LISTED(tp_exp2),
    LISTED(tp_log2),
    LISTED(tp_log10),
    LISTED(tp_reciprocal),
    LISTED(tp_tan),
    LISTED(tp_asin),
    LISTED(tp_acos),
    LISTED(tp_atan),
    LISTED(tp_sinh),
    LISTED(tp_cosh),
    LISTED(tp_asinh),
    LISTED(tp_acosh),
    LISTED(tp_atanh),
    LISTED(tp_erfc),
    LISTED(tp_erfinv),
    LISTED(tp_lgamma),
    LISTED(tp_gelu_tanh),
    LISTED(tp_softplus),
    LISTED(tp_logsigmoid),
    LISTED(tp_mish),
    LISTED(tp_selu),
    LISTED(tp_relu6),
    LISTED(tp_hardsigmoid),
    LISTED(tp_hardswish),
    LISTED(tp_softsign),
    LISTED(tp_swish),
    LISTED(tp_elu),
    LISTED(tp_celu),
    LISTED(tp_leaky_relu),
    LISTED(tp_threshold),
    LISTED(tp_shrink),
    LISTED(tp_clip_min),
    LISTED(tp_clip_max),
    LISTED(tp_lerp),
    LISTED(tp_glu),
    LISTED(tp_swiglu),
    LISTED(tp_isnan),
    LISTED(tp_isinf),
    LISTED(tp_isfinite),
    LISTED(tp_atan2),
    LISTED(tp_floor_div),
    LISTED(tp_fmod),
    LISTED(tp_prelu),
    LISTED(tp_add),
    LISTED(tp_sub),
    LISTED(tp_mul),
    LISTED(tp_div),
    LISTED(tp_pow),
    LISTED(tp_min),
    LISTED(tp_max),
    LISTED(tp_mod),
    LISTED(tp_eq),
    LISTED(tp_ne),
    LISTED(tp_lt),
    LISTED(tp_le),
    LISTED(tp_gt),
    LISTED(tp_ge),
    LISTED(tp_and),
    LISTED(tp_or),
    LISTED(tp_xor),
    LISTED(tp_where),
    LISTED(tp_sum),
    LISTED(tp_prod),
    LISTED(tp_reduce_max),
    LISTED(tp_reduce_min),
    LISTED(tp_mean),
    LISTED(tp_argmax),
    LISTED(tp_argmin),
    LISTED(tp_argtopk),
    LISTED(tp_argsort),
    LISTED(tp_sort),
    LISTED(tp_cumsum),
    LISTED(tp_softmax),
    LISTED(tp_log_softmax),
    LISTED(tp_recur),
    LISTED(tp_extent),
    LISTED(tp_reshape),
    LISTED(tp_flatten),
    LISTED(tp_transpose),
    LISTED(tp_swap),
    LISTED(tp_unsqueeze),
    LISTED(tp_squeeze),
    LISTED(tp_broadcast),
    LISTED(tp_slice),
    LISTED(tp_select),
    LISTED(tp_flip),
    LISTED(tp_pad),
    LISTED(tp_concat),
    LISTED(tp_stack),
    LISTED(tp_split),
    LISTED(tp_gather),
    LISTED(tp_take_along),
    LISTED(tp_scatter_add),
    LISTED(tp_scatter),
    LISTED(tp_put_along_add),
    LISTED(tp_one_hot),
    LISTED(tp_matmul),
    LISTED(tp_conv),
    LISTED(tp_conv_dx),
    LISTED(tp_conv_dw),
    LISTED(tp_max_pool),
    LISTED(tp_max_pool_index),
    LISTED(tp_avg_pool),
    LISTED(tp_uniform),
    LISTED(tp_normal),
    LISTED(tp_uniform_like),
    LISTED(tp_normal_like),
    LISTED(tp_cross_entropy),
    LISTED(tp_mse),
    LISTED(tp_layer_norm),
    LISTED(tp_batch_norm),
    LISTED(tp_batch_norm_train),
    LISTED(tp_cross_entropy_with),
    LISTED(tp_nll),
    LISTED(tp_l1),
    LISTED(tp_hinge),
    LISTED(tp_bce),
    LISTED(tp_kl_div),
    LISTED(tp_poisson_nll),
    LISTED(tp_huber),
    LISTED(tp_bce_with_logits),
    LISTED(tp_cosine_similarity),
    LISTED(tp_cosine_loss),
    LISTED(tp_triplet),
    LISTED(tp_ctc_loss),
    LISTED(tp_hardmax),
    LISTED(tp_rms_norm),
    LISTED(tp_group_norm),
    LISTED(tp_instance_norm),
    LISTED(tp_local_response_norm),
    LISTED(tp_normalize),
    LISTED(tp_attention),
    LISTED(tp_rotary),
    LISTED(tp_dropout),
    LISTED(tp_linear),
    LISTED(tp_rnn_cell),
    LISTED(tp_gru_cell),
    LISTED(tp_lstm_cell),
    LISTED(tp_rnn),
    LISTED(tp_gru),
    LISTED(tp_lstm),
    LISTED(tp_adaptive_avg_pool),
    LISTED(tp_adaptive_max_pool),
    LISTED(tp_global_avg_pool),
    LISTED(tp_global_max_pool),
    LISTED(tp_lp_pool),
    LISTED(tp_max_unpool),
    LISTED(tp_unfold),
    LISTED(tp_fold),
    LISTED(tp_conv_transpose),
    LISTED(tp_pixel_shuffle),
    LISTED(tp_pixel_unshuffle),
    LISTED(tp_depth_to_space),
    LISTED(tp_space_to_depth),
    LISTED(tp_resize),
    LISTED(tp_upsample),
    LISTED(tp_pad_with),
    LISTED(tp_grid_sample),
    LISTED(tp_affine_grid),
    {0},
};
