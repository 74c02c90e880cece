/* Calls of ops. */
#include "monkey.h"

#include <string.h>

/* ---- ops by their operands ----------------------------------------------------------------------- */

#define UNARY(f)                                                                               \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = below(m, 2) ? number_like(m) : tensor(m);                               \
        return put(m, BOTH(m, f, x));                                                          \
    }
#define BINARY(f)                                                                              \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m), *y = fellow(m, x);                                           \
        return put(m, BOTH(m, f, x, y));                                                       \
    }
#define LOGICAL(f) /* few things are bool */                                                   \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m), *y = fellow(m, x);                                           \
        if (below(m, 4) == 0) {                                                                \
            y = tp_gt(x, 0);                                                                   \
            x = tp_ne(x, x);                                                                   \
        }                                                                                      \
        return put(m, BOTH(m, f, x, y));                                                       \
    }
#define TERNARY(f)                                                                             \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m), *y = fellow(m, x), *z = fellow(m, x);                        \
        return put(m, BOTH(m, f, x, y, z));                                                    \
    }
#define REDUCTION(f)                                                                           \
    CALL(f)                                                                                    \
    {                                                                                          \
        list l;                                                                                \
        tp_tensor *x = tensor(m);                                                              \
        axes(m, x, &l);                                                                        \
        const bool keep = below(m, 2);                                                         \
        return put(m, BOTH(m, f, x, l.n, l.v, keep));                                          \
    }
#define ALONG(f, ...) /* x, an axis, flags */                                                  \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m);                                                              \
        const int a = axis(m);                                                                 \
        const bool b = below(m, 2), c = below(m, 2);                                           \
        (void)b;                                                                               \
        (void)c;                                                                               \
        return put(m, BOTH(m, f, x, a, ##__VA_ARGS__));                                        \
    }
#define SPREAD_OVER(f) /* x, axes, a correction */                                             \
    CALL(f)                                                                                    \
    {                                                                                          \
        list l;                                                                                \
        tp_tensor *x = number_like(m);                                                         \
        axes(m, x, &l);                                                                        \
        const int c = below(m, 4) - 1;                                                         \
        const bool keep = below(m, 2);                                                         \
        return put(m, BOTH(m, f, x, l.n, l.v, c, keep));                                       \
    }
#define OF_INDEX(f) /* x, a number that may be below 0 */                                      \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m);                                                              \
        const int64_t k = index_of(m);                                                         \
        return put(m, BOTH(m, f, x, k));                                                       \
    }
#define OF_VECTORS(f)                                                                          \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m), *y = fellow(m, x);                                           \
        if (below(m, 3) == 0)                                                                  \
            x = y = fresh(m, TP_F32, TP_DIMS(3));                                              \
        return put(m, BOTH(m, f, x, y));                                                       \
    }
#define POOLING(f)                                                                             \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_window w;                                                                           \
        tp_tensor *x = image(m);                                                               \
        const tp_window *of = window(m, &w, true);                                             \
        return put(m, BOTH(m, f, x, of));                                                      \
    }
#define INDEXED(f)                                                                             \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m), *i = integers(m);                                            \
        const int a = axis(m);                                                                 \
        if (below(m, 6) == 0) {                                                                \
            x = fresh(m, TP_F32, TP_DIMS(3, 3));                                               \
            i = fresh(m, TP_I64, TP_DIMS(3, 3));                                               \
        }                                                                                      \
        return put(m, BOTH(m, f, x, i, a));                                                    \
    }
#define PLACED(f)                                                                              \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m), *i = integers(m), *s = fellow(m, x);                         \
        if (below(m, 3) == 0) {                                                                \
            x = fresh(m, TP_F32, TP_DIMS(3));                                                  \
            i = fresh(m, TP_I64, TP_DIMS(2));                                                  \
            s = fresh(m, TP_F32, TP_DIMS(2));                                                  \
        }                                                                                      \
        const int a = axis(m);                                                                 \
        return put(m, BOTH(m, f, x, i, s, a));                                                 \
    }
#define DRAWN(f)                                                                               \
    CALL(f)                                                                                    \
    {                                                                                          \
        list l;                                                                                \
        tp_ctx *tp = ctx(m);                                                                   \
        const tp_dtype t = below(m, 3) ? TP_F32 : dtype(m);                                    \
        sizes(m, &l);                                                                          \
        const double a = number(m), b = number(m);                                             \
        return put(m, BOTH(m, f, tp, t, l.n, l.v, a, b));                                      \
    }
#define WITH_NUMBER(f)                                                                         \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m);                                                              \
        const double v = number(m);                                                            \
        return put(m, BOTH(m, f, x, v));                                                       \
    }
#define WITH_NUMBERS(f)                                                                        \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m);                                                              \
        const double v = number(m), w = number(m);                                             \
        return put(m, BOTH(m, f, x, v, w));                                                    \
    }

UNARY(tp_neg)
UNARY(tp_abs)
UNARY(tp_sign)
UNARY(tp_relu)
UNARY(tp_exp)
UNARY(tp_log)
UNARY(tp_exp2)
UNARY(tp_log2)
UNARY(tp_log10)
UNARY(tp_expm1)
UNARY(tp_log1p)
UNARY(tp_sqrt)
UNARY(tp_rsqrt)
UNARY(tp_sin)
UNARY(tp_cos)
UNARY(tp_tanh)
UNARY(tp_sigmoid)
UNARY(tp_erf)
UNARY(tp_erfinv)
UNARY(tp_floor)
UNARY(tp_ceil)
UNARY(tp_round)
UNARY(tp_not)
UNARY(tp_detach)
UNARY(tp_contiguous)
UNARY(tp_square)
UNARY(tp_gelu)
UNARY(tp_reciprocal)
UNARY(tp_tan)
UNARY(tp_asin)
UNARY(tp_acos)
UNARY(tp_atan)
UNARY(tp_sinh)
UNARY(tp_cosh)
UNARY(tp_asinh)
UNARY(tp_acosh)
UNARY(tp_atanh)
UNARY(tp_erfc)
UNARY(tp_lgamma)
UNARY(tp_gelu_tanh)
UNARY(tp_softplus)
UNARY(tp_logsigmoid)
UNARY(tp_mish)
UNARY(tp_selu)
UNARY(tp_relu6)
UNARY(tp_hardsigmoid)
UNARY(tp_hardswish)
UNARY(tp_softsign)
UNARY(tp_isnan)
UNARY(tp_isinf)
UNARY(tp_isfinite)
UNARY(tp_silu)
UNARY(tp_trace)
UNARY(tp_require_grad)
UNARY(tp_grad_of)
BINARY(tp_add)
BINARY(tp_sub)
BINARY(tp_mul)
BINARY(tp_div)
BINARY(tp_pow)
BINARY(tp_min)
BINARY(tp_max)
BINARY(tp_mod)
BINARY(tp_eq)
BINARY(tp_ne)
BINARY(tp_lt)
BINARY(tp_le)
BINARY(tp_gt)
BINARY(tp_ge)
LOGICAL(tp_and)
LOGICAL(tp_or)
LOGICAL(tp_xor)
BINARY(tp_atan2)
BINARY(tp_floor_div)
BINARY(tp_fmod)
BINARY(tp_prelu)
BINARY(tp_matmul)
BINARY(tp_mse)
BINARY(tp_grad)
BINARY(tp_kron)
OF_VECTORS(tp_dot)
OF_VECTORS(tp_outer)
CALL(tp_where)
{
    tp_tensor *x = tensor(m), *y = fellow(m, x);
    tp_tensor *pred = below(m, 4) ? tensor(m) : tp_ne(y, y); /* few things are bool */
    return put(m, BOTH(m, tp_where, pred, x, y));
}
TERNARY(tp_lerp)
REDUCTION(tp_sum)
REDUCTION(tp_prod)
REDUCTION(tp_reduce_max)
REDUCTION(tp_reduce_min)
REDUCTION(tp_mean)
REDUCTION(tp_any)
REDUCTION(tp_all)
REDUCTION(tp_logsumexp)
SPREAD_OVER(tp_var)
SPREAD_OVER(tp_std)
ALONG(tp_argmax, b)
ALONG(tp_argmin, b)
ALONG(tp_argsort, b)
ALONG(tp_sort, b)
ALONG(tp_cumsum, b, c)
ALONG(tp_cumprod, b, c)
ALONG(tp_argcummax)
ALONG(tp_argcummin)
ALONG(tp_cummax)
ALONG(tp_cummin)
ALONG(tp_median, b)
ALONG(tp_flatten)
ALONG(tp_unsqueeze)
ALONG(tp_glu)
ALONG(tp_swiglu)
ALONG(tp_softmax)
ALONG(tp_log_softmax)
ALONG(tp_hardmax)
POOLING(tp_max_pool)
POOLING(tp_max_pool_index)
POOLING(tp_avg_pool)
INDEXED(tp_gather)
INDEXED(tp_take_along)
PLACED(tp_scatter_add)
PLACED(tp_scatter)
PLACED(tp_put_along_add)
DRAWN(tp_uniform)
DRAWN(tp_normal)
OF_INDEX(tp_diagonal)
OF_INDEX(tp_diag)
OF_INDEX(tp_tril)
OF_INDEX(tp_triu)
WITH_NUMBER(tp_scalar_like)
WITH_NUMBER(tp_number)
CALL(tp_integer)
{
    tp_tensor *x = tensor(m);
    const int64_t v = (int64_t)below(m, 300) - 100;
    return put(m, BOTH(m, tp_integer, x, v));
}
CALL(tp_natural)
{
    tp_tensor *x = tensor(m);
    const uint64_t v = (uint64_t)below(m, 300);
    return put(m, BOTH(m, tp_natural, x, v));
}
WITH_NUMBER(tp_dropout)
WITH_NUMBER(tp_swish)
WITH_NUMBER(tp_elu)
WITH_NUMBER(tp_celu)
WITH_NUMBER(tp_leaky_relu)
WITH_NUMBER(tp_clip_min)
WITH_NUMBER(tp_clip_max)
WITH_NUMBERS(tp_clip)
WITH_NUMBERS(tp_threshold)
WITH_NUMBERS(tp_shrink)
WITH_NUMBERS(tp_uniform_like)
WITH_NUMBERS(tp_normal_like)
WITH_NUMBER(tp_exponential_like)
UNARY(tp_bernoulli)
UNARY(tp_gamma)
CALL(tp_truncated_normal)
{
    list l;
    tp_ctx *tp = ctx(m);
    const tp_dtype t = below(m, 3) ? TP_F32 : dtype(m);
    sizes(m, &l);
    const double a = number(m), b = number(m), lo = number(m), hi = number(m);
    return put(m, BOTH(m, tp_truncated_normal, tp, t, l.n, l.v, a, b, lo, hi));
}
CALL(tp_truncated_normal_like)
{
    tp_tensor *x = tensor(m);
    const double a = number(m), b = number(m), lo = number(m), hi = number(m);
    return put(m, BOTH(m, tp_truncated_normal_like, x, a, b, lo, hi));
}
CALL(tp_exponential)
{
    list l;
    tp_ctx *tp = ctx(m);
    const tp_dtype t = below(m, 3) ? TP_F32 : dtype(m);
    sizes(m, &l);
    const double rate = number(m);
    return put(m, BOTH(m, tp_exponential, tp, t, l.n, l.v, rate));
}
CALL(tp_randint)
{
    list l;
    tp_ctx *tp = ctx(m);
    const tp_dtype t = below(m, 3) ? TP_I64 : dtype(m);
    sizes(m, &l);
    const int64_t lo = size(m), hi = (int64_t)((uint64_t)size(m) + 2); /* INT64_MAX + 2 */
    return put(m, BOTH(m, tp_randint, tp, t, l.n, l.v, lo, hi));
}
CALL(tp_randint_like)
{
    tp_tensor *x = tensor(m);
    const int64_t lo = size(m), hi = (int64_t)((uint64_t)size(m) + 2); /* INT64_MAX + 2 */
    return put(m, BOTH(m, tp_randint_like, x, lo, hi));
}
CALL(tp_permutation)
{
    tp_ctx *tp = ctx(m);
    const int64_t n = size(m);
    return put(m, BOTH(m, tp_permutation, tp, n));
}
CALL(tp_permutation_like)
{
    tp_tensor *x = tensor(m);
    const int a = axis(m);
    return put(m, BOTH(m, tp_permutation_like, x, a));
}
CALL(tp_categorical)
{
    tp_tensor *x = tensor(m);
    const int64_t n = size(m);
    return put(m, BOTH(m, tp_categorical, x, n));
}

/* ---- other ops ----------------------------------------------------------------------------------- */

CALL(tp_cast)
{
    tp_tensor *x = tensor(m);
    const tp_dtype t = dtype(m);
    return put(m, BOTH(m, tp_cast, x, t));
}

CALL(tp_argtopk)
{
    tp_tensor *x = tensor(m);
    const int a = axis(m);
    const int64_t k = size(m);
    return put(m, tp_argtopk(x, a, k, below(m, 2)));
}

CALL(tp_recur)
{
    tp_tensor *x = tensor(m), *y = fellow(m, x);
    const int a = axis(m);
    return put(m, tp_recur(x, y, a, below(m, 2)));
}

CALL(tp_extent)
{
    list l;
    tp_tensor *x = tensor(m);
    axes(m, x, &l);
    const tp_dtype t = below(m, 4) ? TP_I64 : dtype(m);
    return put(m, tp_extent(x, l.n, l.v, t));
}

CALL(tp_reshape)
{
    list l;
    tp_tensor *x = tensor(m);
    sizes_like(m, x, &l);
    return put(m, tp_reshape(x, l.n, l.v));
}

CALL(tp_transpose)
{
    list l;
    tp_tensor *x = tensor(m);
    axes(m, x, &l);
    if (x && !tp_failed(x) && below(m, 4))
        l.n = tp_rank(x);
    return put(m, tp_transpose(x, l.n, l.v));
}

CALL(tp_swap)
{
    tp_tensor *x = tensor(m);
    const int a = axis(m), b = axis(m);
    return put(m, tp_swap(x, a, b));
}

CALL(tp_squeeze)
{
    tp_tensor *x = tensor(m);
    const int a = axis(m);
    if (below(m, 6) == 0)
        x = tp_unsqueeze(x, a);
    return put(m, BOTH(m, tp_squeeze, x, a));
}

CALL(tp_broadcast)
{
    list l;
    tp_tensor *x = tensor(m);
    sizes_like(m, x, &l);
    return put(m, tp_broadcast(x, l.n, l.v));
}

CALL(tp_slice)
{
    tp_tensor *x = tensor(m);
    const int a = axis(m);
    const int64_t start = index_of(m), stop = index_of(m), step = index_of(m);
    return put(m, tp_slice(x, a, start, stop, below(m, 2) ? 1 : step));
}

CALL(tp_select)
{
    tp_tensor *x = tensor(m);
    const int a = axis(m);
    return put(m, tp_select(x, a, index_of(m)));
}

CALL(tp_flip)
{
    list l;
    tp_tensor *x = tensor(m);
    axes(m, x, &l);
    return put(m, tp_flip(x, l.n, l.v));
}

CALL(tp_pad)
{
    list lo, hi;
    tp_tensor *x = tensor(m);
    sizes(m, &lo);
    sizes(m, &hi);
    if (x && !tp_failed(x) && below(m, 8))
        lo.n = tp_rank(x);
    return put(m, tp_pad(x, lo.n, lo.v, hi.v, number(m)));
}

CALL(tp_concat)
{
    many l;
    tensors(m, &l, 1 + below(m, 3));
    const int a = axis(m);
    return put(m, tp_concat(l.n, l.in, a));
}

CALL(tp_stack)
{
    many l;
    tensors(m, &l, 1 + below(m, 3));
    const int a = axis(m);
    return put(m, tp_stack(l.n, l.in, a));
}

CALL(tp_split)
{
    many out;
    list l;
    tp_tensor *x = tensor(m);
    const int a = below(m, 4) ? 0 : axis(m);
    tensors(m, &out, 1 + below(m, 2));
    sizes(m, &l);
    if (x && !tp_failed(x) && tp_rank(x) && below(m, 4))
        l.own[0] = out.n == 1 ? tp_dim(x, 0) : 1;
    return put_many(m, &out, tp_split(x, a, out.n, l.v, out.out));
}

CALL(tp_one_hot)
{
    tp_tensor *x = integers(m);
    const int64_t n = size(m);
    return put(m, tp_one_hot(x, n, dtype(m)));
}

CALL(tp_conv)
{
    tp_window w;
    tp_tensor *x = tensor(m), *k = fellow(m, x);
    if (below(m, 3) == 0) {
        x = fresh(m, TP_F32, TP_DIMS(1, 2, 4, 4));
        k = fresh(m, TP_F32, TP_DIMS(2, 2, 3, 3));
    }
    return put(m, tp_conv(x, k, window(m, &w, false)));
}

#define CONV_OF(f, ...) /* sizes of a good second operand */                                   \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_window w;                                                                           \
        list l;                                                                                \
        tp_tensor *x = tensor(m), *k = fellow(m, x);                                           \
        if (below(m, 3) == 0)                                                                  \
            return put(m, f(fresh(m, TP_F32, TP_DIMS(1, 2, 4, 4)),                             \
                            fresh(m, TP_F32, TP_DIMS(__VA_ARGS__)), TP_DIMS(4, 4), NULL));     \
        sizes(m, &l);                                                                          \
        if (x && !tp_failed(x) && below(m, 8))                                                 \
            l.n = tp_rank(x) - 2;                                                              \
        return put(m, f(x, k, l.n, l.v, window(m, &w, false)));                                \
    }
CONV_OF(tp_conv_dx, 2, 3, 1, 1)
CONV_OF(tp_conv_dw, 1, 3, 1, 1)

CALL(tp_linear)
{
    tp_tensor *x = tensor(m), *w = fellow(m, x), *b = fellow(m, x);
    if (below(m, 12) == 0) {
        x = fresh(m, TP_F32, TP_DIMS(2, 3));
        w = fresh(m, TP_F32, TP_DIMS(3, 2));
        b = fresh(m, TP_F32, TP_DIMS(2));
    }
    return put(m, BOTH(m, tp_linear, x, w, b));
}

CALL(tp_cross_entropy)
{
    tp_tensor *x = tensor(m), *l = integers(m);
    if (below(m, 12) == 0) {
        x = fresh(m, TP_F32, TP_DIMS(2, 3));
        l = fresh(m, TP_I64, TP_DIMS(2));
    }
    return put(m, tp_cross_entropy(x, l));
}

CALL(tp_layer_norm)
{
    tp_tensor *x = number_like(m), *a = tensor(m), *b = tensor(m);
    if (below(m, 3) == 0) {
        x = fresh(m, TP_F32, TP_DIMS(2, 3));
        a = b = fresh(m, TP_F32, TP_DIMS(3));
    }
    return put(m, tp_layer_norm(x, a, b, number(m)));
}

CALL(tp_batch_norm)
{
    tp_tensor *of[5];
    for (int i = 0; i < 5; i++)
        of[i] = i ? fellow(m, of[0]) : tensor(m);
    if (below(m, 3) == 0)
        for (int i = 0; i < 5; i++)
            of[i] = i ? fresh(m, TP_F32, TP_DIMS(3)) : fresh(m, TP_F32, TP_DIMS(2, 3));
    return put(m, tp_batch_norm(of[0], of[1], of[2], of[3], of[4], number(m)));
}

CALL(tp_batch_norm_train)
{
    tp_tensor *of[5];
    for (int i = 0; i < 5; i++)
        of[i] = i > 2 ? variable(m) : tensor(m);
    if (below(m, 3) == 0 && m->depth == 0)
        for (int i = 0; i < 5; i++) {
            of[i] = i ? fresh(m, TP_F32, TP_DIMS(3)) : fresh(m, TP_F32, TP_DIMS(2, 3));
            of[i] = i > 2 ? tp_variable(of[i], i == 3 ? "mean" : "variance") : of[i];
        }
    const double momentum = number(m);
    return put(m, tp_batch_norm_train(of[0], of[1], of[2], of[3], of[4], momentum, number(m)));
}

/* ---- linear algebra --------------------------------------------------------------------------------- */

/* Often the square of a tensor by itself. */
static tp_tensor *matrix(monkey *m)
{
    tp_tensor *x = tensor(m);
    const bool turn = x && !tp_failed(x) && tp_rank(x) >= 2 && below(m, 4);
    return turn ? tp_matmul(tp_swap(x, -2, -1), x) : x;
}

#define SQUARE(f, ...)                                                                         \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = matrix(m);                                                              \
        return put(m, BOTH(m, f, x, ##__VA_ARGS__));                                           \
    }
SQUARE(tp_cholesky, below(m, 2))
SQUARE(tp_inverse)
SQUARE(tp_det)

#define FACTORS(f, of)                                                                         \
    CALL(f)                                                                                    \
    {                                                                                          \
        many l;                                                                                \
        tp_tensor *x = of(m);                                                                  \
        tensors(m, &l, 2);                                                                     \
        return put_many(m, &l, f(x, l.out, l.out ? l.out + 1 : NULL));                         \
    }
FACTORS(tp_lu, matrix)
FACTORS(tp_slogdet, matrix)
FACTORS(tp_qr, tensor)
FACTORS(tp_eigh, matrix)

CALL(tp_svd)
{
    many l;
    tp_tensor *x = tensor(m);
    tensors(m, &l, 3);
    return put_many(m, &l,
                    tp_svd(x, l.out, l.out ? l.out + 1 : NULL, l.out ? l.out + 2 : NULL));
}

CALL(tp_solve)
{
    tp_tensor *x = matrix(m), *y = fellow(m, x);
    if (below(m, 6) == 0) {
        x = tp_eye(m->tp, TP_F32, 3, 3, 0);
        y = fresh(m, TP_F32, TP_DIMS(3, 2));
    }
    return put(m, tp_solve(x, y));
}

CALL(tp_solve_triangular)
{
    tp_tensor *x = matrix(m), *y = fellow(m, x);
    if (below(m, 8) == 0)
        y = x;
    const bool upper = below(m, 2), transposed = below(m, 2);
    return put(m, tp_solve_triangular(x, y, upper, transposed, below(m, 2)));
}

CALL(tp_lstsq)
{
    tp_tensor *x = tensor(m), *y = fellow(m, x);
    return put(m, tp_lstsq(x, y, below(m, 2) ? 1e-6 : number(m)));
}

/* Often pairs of it and itself. */
static tp_tensor *complex_numbers(monkey *m)
{
    tp_tensor *x = tensor(m), *both[] = {x, x};
    const bool can = x && !tp_failed(x) && tp_rank(x) < TP_MAX_RANK && below(m, 4);
    return can ? tp_stack(2, both, -1) : x;
}

#define TRANSFORM(f, of)                                                                       \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = of(m);                                                                  \
        const int a = axis(m);                                                                 \
        return put(m, BOTH(m, f, x, a));                                                       \
    }
TRANSFORM(tp_fft, complex_numbers)
TRANSFORM(tp_ifft, complex_numbers)
TRANSFORM(tp_rfft, tensor)

CALL(tp_irfft)
{
    tp_tensor *x = complex_numbers(m);
    const int a = axis(m);
    const bool known = x && !tp_failed(x) && tp_rank(x) && a >= 0 && a < tp_rank(x);
    const int64_t n = known && below(m, 4) ? 2 * (tp_dim(x, a) - 1) + below(m, 2) : size(m);
    return put(m, tp_irfft(x, a, n));
}

CALL(tp_group)
{
    many l;
    tensors(m, &l, 1 + below(m, 3));
    return put(m, tp_group(l.n, l.in));
}

/* ---- composites of arrays ------------------------------------------------------------------------ */

CALL(tp_norm)
{
    list l;
    tp_tensor *x = number_like(m);
    axes(m, x, &l);
    const double p = below(m, 4) ? 0.5 * below(m, 6) : number(m);
    return put(m, tp_norm(x, p, l.n, l.v, below(m, 2)));
}

CALL(tp_kth)
{
    tp_tensor *x = tensor(m);
    const int a = axis(m);
    const int64_t k = size(m);
    return put(m, tp_kth(x, k, a, below(m, 2)));
}

CALL(tp_quantile)
{
    tp_tensor *x = number_like(m);
    const int a = axis(m);
    const double q = below(m, 4) ? 0.25 * below(m, 5) : number(m);
    return put(m, tp_quantile(x, q, a, below(m, 2)));
}

CALL(tp_meshgrid)
{
    many l;
    tensors(m, &l, 1 + below(m, 2));
    if (below(m, 3) == 0)
        for (int i = 0; i < 5; i++)
            l.of[i] = fresh(m, TP_F32, TP_DIMS(3));
    return put_many(m, &l, tp_meshgrid(l.n, l.in, l.out));
}

CALL(tp_tile)
{
    list l;
    tp_tensor *x = tensor(m);
    sizes(m, &l);
    return put(m, tp_tile(x, l.n, l.v));
}

CALL(tp_repeat_each)
{
    tp_tensor *x = tensor(m);
    const int64_t times = size(m);
    return put(m, tp_repeat_each(x, times, axis(m)));
}

CALL(tp_roll)
{
    tp_tensor *x = tensor(m);
    const int64_t shift = index_of(m);
    return put(m, tp_roll(x, shift, axis(m)));
}

CALL(tp_tensordot)
{
    list of_x, of_y;
    tp_tensor *x = tensor(m), *y = fellow(m, x);
    axes(m, x, &of_x);
    axes(m, y, &of_y);
    if (below(m, 3) == 0)
        return put(m, tp_tensordot(x, x, of_x.n, of_x.v, of_x.v));
    return put(m, tp_tensordot(x, y, of_x.n, of_x.v, of_y.v));
}

CALL(tp_einsum)
{
    static const char *const equations[] = {
        "ij,jk->ik", "ij,ij", "...,...", "ii->i", "i...->...", "ij", "ij,ik->jk", "a,b", NULL};
    many l;
    tensors(m, &l, 1 + below(m, 2));
    return put(m, tp_einsum(equations[below(m, 9)], l.n, l.in));
}

/* ---- recurrent ----------------------------------------------------------------------------------- */

/* Weights of so many gates for x [n, 3] and a state [n, 2], mostly good ones. */
static tp_recurrent recurrent(monkey *m, int gates)
{
    tp_recurrent w = {.w = below(m, 8) ? fresh(m, TP_F32, TP_DIMS(3, 2 * gates)) : tensor(m),
                      .r = below(m, 8) ? fresh(m, TP_F32, TP_DIMS(2, 2 * gates)) : tensor(m)};
    if (below(m, 3) == 0)
        w.wb = below(m, 8) ? fresh(m, TP_F32, TP_DIMS(2 * gates)) : tensor(m);
    if (below(m, 3) == 0)
        w.rb = below(m, 8) ? fresh(m, TP_F32, TP_DIMS(2 * gates)) : tensor(m);
    if (below(m, 6) == 0)
        w.peephole = below(m, 2) ? fresh(m, TP_F32, TP_DIMS(6)) : tensor(m);
    return w;
}

static tp_recurrent_options how(monkey *m)
{
    return (tp_recurrent_options){.batch_first = below(m, 4) == 0,
                                  .reverse = below(m, 4) == 0,
                                  .both = below(m, 4) == 0,
                                  .reset_before = below(m, 2) == 0,
                                  .couple = below(m, 4) == 0,
                                  .clip = below(m, 4) == 0 ? number(m) : 0,
                                  .lengths = below(m, 6) == 0 ? integers(m) : NULL};
}

#define CELL(f, gates, ...) /* what comes behind x and the state */                            \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = below(m, 3) ? fresh(m, TP_F32, TP_DIMS(2, 3)) : tensor(m);              \
        tp_tensor *h = below(m, 2) ? fresh(m, TP_F32, TP_DIMS(2, 2)) : NULL;                   \
        const tp_recurrent w = recurrent(m, gates);                                            \
        const tp_recurrent_options o = how(m);                                                 \
        h = below(m, 8) ? h : tensor(m);                                                       \
        return put(m,                                                                          \
                   f(x, h, ##__VA_ARGS__, below(m, 16) ? &w : NULL, below(m, 2) ? &o : NULL)); \
    }
CELL(tp_rnn_cell, 1)
CELL(tp_gru_cell, 3)
CELL(tp_lstm_cell, 4, NULL)

#define LAYER(f, gates, ...) /* what comes behind the state */                                 \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = below(m, 3) ? fresh(m, TP_F32, TP_DIMS(2, 2, 3)) : tensor(m);           \
        tp_tensor *h = below(m, 3) ? NULL : tensor(m);                                         \
        const tp_recurrent w[2] = {recurrent(m, gates), recurrent(m, gates)};                  \
        const tp_recurrent_options o = how(m);                                                 \
        tp_tensor *y =                                                                         \
            f(x, below(m, 16) ? w : NULL, below(m, 2) ? &o : NULL, &h, ##__VA_ARGS__);         \
        put(m, h);                                                                             \
        return put(m, y);                                                                      \
    }
LAYER(tp_rnn, 1)
LAYER(tp_gru, 3)
LAYER(tp_lstm, 4, NULL)

/* ---- windows and images --------------------------------------------------------------------------- */

#define SIZED(f, ...) /* what comes behind the sizes */                                        \
    CALL(f)                                                                                    \
    {                                                                                          \
        list l;                                                                                \
        tp_tensor *x = image(m);                                                               \
        sizes(m, &l);                                                                          \
        if (x && !tp_failed(x) && below(m, 4))                                                 \
            l.n = tp_rank(x) - 2;                                                              \
        return put(m, f(x, l.n, l.v, ##__VA_ARGS__));                                          \
    }
#define BLOCKS(f)                                                                              \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = image(m);                                                               \
        return put(m, f(x, below(m, 2) ? 2 : size(m)));                                        \
    }
SIZED(tp_adaptive_avg_pool)
SIZED(tp_adaptive_max_pool)
UNARY(tp_global_avg_pool)
UNARY(tp_global_max_pool)
POOLING(tp_unfold)
BLOCKS(tp_pixel_shuffle)
BLOCKS(tp_pixel_unshuffle)
BLOCKS(tp_depth_to_space)
BLOCKS(tp_space_to_depth)

CALL(tp_lp_pool)
{
    tp_window w;
    tp_tensor *x = image(m);
    const double p = below(m, 2) ? 1 + below(m, 3) : number(m);
    return put(m, tp_lp_pool(x, p, window(m, &w, true)));
}

CALL(tp_max_unpool)
{
    list l;
    tp_tensor *x = image(m), *i = integers(m);
    sizes(m, &l);
    if (below(m, 2)) {
        x = fresh(m, TP_F32, TP_DIMS(1, 2, 3));
        i = fresh(m, TP_I64, TP_DIMS(1, 2, 3));
        l.n = 1;
    }
    return put(m, tp_max_unpool(x, i, l.n, l.v));
}

CALL(tp_fold)
{
    list l;
    tp_window w;
    tp_tensor *x = below(m, 2) ? fresh(m, TP_F32, TP_DIMS(1, 4, 3)) : tensor(m);
    const tp_window *of = window(m, &w, true);
    if (below(m, 4) == 0) /* what was unfolded */
        return put(m, tp_fold(tp_unfold(image(m), of), TP_DIMS(4, 4), of));
    sizes(m, &l);
    return put(m, tp_fold(x, l.n, l.v, of));
}

CALL(tp_conv_transpose)
{
    list more;
    tp_window w;
    tp_tensor *x = image(m),
              *k = below(m, 2) ? fresh(m, TP_F32, TP_DIMS(4, 2, 2, 2)) : tensor(m);
    sizes(m, &more);
    const bool given = below(m, 3) == 0 && x && !tp_failed(x) && more.n >= tp_rank(x) - 2;
    return put(m, tp_conv_transpose(x, k, window(m, &w, false), given ? more.v : NULL));
}

CALL(tp_resize)
{
    list l;
    tp_tensor *x = image(m);
    const tp_resize_options o = {.mode = (tp_interpolation)below(m, 4),
                                 .where = (tp_coordinates)below(m, 4),
                                 .rounding = (tp_rounding)below(m, 5),
                                 .antialias = below(m, 4) == 0,
                                 .exclude_outside = below(m, 4) == 0,
                                 .cubic = below(m, 4) == 0 ? number(m) : 0};
    sizes(m, &l);
    return put(m, tp_resize(x, l.n, l.v, below(m, 4) ? &o : NULL));
}

CALL(tp_upsample)
{
    tp_tensor *x = image(m);
    const int64_t times = below(m, 2) ? 2 : size(m);
    return put(m, tp_upsample(x, times, (tp_interpolation)below(m, 4)));
}

CALL(tp_pad_with)
{
    list lo, hi;
    tp_tensor *x = tensor(m);
    sizes(m, &lo);
    sizes(m, &hi);
    if (x && !tp_failed(x) && below(m, 8))
        lo.n = tp_rank(x);
    return put(m, tp_pad_with(x, lo.n, lo.v, hi.v, (tp_padding)below(m, 5)));
}

CALL(tp_grid_sample)
{
    tp_tensor *x = image(m),
              *grid = below(m, 2) ? fresh(m, TP_F32, TP_DIMS(1, 3, 2, 2)) : tensor(m);
    const tp_interpolation mode = (tp_interpolation)below(m, 4);
    return put(m, tp_grid_sample(x, grid, mode, (tp_padding)below(m, 4), below(m, 2)));
}

CALL(tp_affine_grid)
{
    list l;
    tp_tensor *theta = below(m, 2) ? fresh(m, TP_F32, TP_DIMS(2, 2, 3)) : tensor(m);
    sizes(m, &l);
    return put(m, tp_affine_grid(theta, l.n, l.v, below(m, 2)));
}
