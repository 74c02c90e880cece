/* Misuse of ops.h. */
#include "misuse_forms.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

static const int64_t absurd[TP_MAX_RANK + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

/* ---- one operand, and nothing else ------------------------------------------------------- */

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
FLOAT_ONE(tp_exp2)
FLOAT_ONE(tp_log2)
FLOAT_ONE(tp_log10)
FLOAT_ONE(tp_expm1)
FLOAT_ONE(tp_log1p)
FLOAT_ONE(tp_sqrt)
FLOAT_ONE(tp_rsqrt)
FLOAT_ONE(tp_sin)
FLOAT_ONE(tp_cos)
FLOAT_ONE(tp_tanh)
FLOAT_ONE(tp_sigmoid)
FLOAT_ONE(tp_erf)
FLOAT_ONE(tp_erfinv)
FLOAT_ONE(tp_floor)
FLOAT_ONE(tp_ceil)
FLOAT_ONE(tp_round)

MISUSE(tp_cast)
{
    OPERAND(b, b->f, tp_cast(x, TP_I32));
    BAD(b, TP_E_DTYPE, tp_cast(b->f, TP_N_DTYPES));
    BAD(b, TP_E_DTYPE, tp_cast(b->node, (tp_dtype)-1));
}

/* ---- two operands that broadcast --------------------------------------------------------- */

TWO_SHAPED(tp_add)
TWO_SHAPED(tp_sub)
TWO_SHAPED(tp_mul)
TWO_SHAPED(tp_div)
TWO_SHAPED(tp_pow)
TWO_SHAPED(tp_min)
TWO_SHAPED(tp_max)
TWO_SHAPED(tp_mod)
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
    LISTED(tp_exp2),
    LISTED(tp_log2),
    LISTED(tp_log10),
    LISTED(tp_expm1),
    LISTED(tp_log1p),
    LISTED(tp_sqrt),
    LISTED(tp_rsqrt),
    LISTED(tp_sin),
    LISTED(tp_cos),
    LISTED(tp_tanh),
    LISTED(tp_sigmoid),
    LISTED(tp_erf),
    LISTED(tp_erfinv),
    LISTED(tp_floor),
    LISTED(tp_ceil),
    LISTED(tp_round),
    LISTED(tp_cast),
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
    {0},
};
