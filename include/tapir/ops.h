/* tapir: the vocabulary.
 *
 * Every op takes concrete tensors (computed now), symbolic ones (a node is added to their
 * graph) or a mixture of the two (concrete operands become constants, variables are read at
 * each run). A failed operand comes back as the result. Results belong to the open scope.
 * Shapes are written [m, n]; operands of elementwise ops broadcast: sizes are matched from the
 * last axis, and a size 1 or a missing axis stretches. A negative axis counts from the end.
 * Bits are fixed by docs/numerics.md. */
#ifndef TAPIR_OPS_H
#define TAPIR_OPS_H

#include "pair.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise, one operand: y has x's shape and type ------------------------------- */

TP_FN(tp_tensor *, tp_neg, tp_tensor *x); /* -x; wraps for integers */
#define tp_neg(x) tp_neg_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_abs, tp_tensor *x); /* gradient 0 at 0 */
#define tp_abs(x) tp_abs_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_sign, tp_tensor *x); /* -1, 0, 1; gradient 0 */
#define tp_sign(x) tp_sign_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_relu, tp_tensor *x); /* max(x, 0); gradient 0 at 0 */
#define tp_relu(x) tp_relu_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_exp, tp_tensor *x); /* from here on x is float */
#define tp_exp(x) tp_exp_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_log, tp_tensor *x); /* natural */
#define tp_log(x) tp_log_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_exp2, tp_tensor *x); /* 2^x */
#define tp_exp2(x) tp_exp2_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_log2, tp_tensor *x); /* exact for powers of 2 */
#define tp_log2(x) tp_log2_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_log10, tp_tensor *x); /* exact for powers of 10 */
#define tp_log10(x) tp_log10_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_expm1, tp_tensor *x); /* exp(x) - 1, accurate near 0 */
#define tp_expm1(x) tp_expm1_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_log1p, tp_tensor *x); /* log(1 + x), accurate near 0 */
#define tp_log1p(x) tp_log1p_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_sqrt, tp_tensor *x);
#define tp_sqrt(x) tp_sqrt_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_rsqrt, tp_tensor *x); /* 1 / sqrt(x), two roundings */
#define tp_rsqrt(x) tp_rsqrt_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_sin, tp_tensor *x);
#define tp_sin(x) tp_sin_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_cos, tp_tensor *x);
#define tp_cos(x) tp_cos_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_tanh, tp_tensor *x);
#define tp_tanh(x) tp_tanh_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_sigmoid, tp_tensor *x); /* 1 / (1 + exp(-x)) */
#define tp_sigmoid(x) tp_sigmoid_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_erf, tp_tensor *x);
#define tp_erf(x) tp_erf_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_erfinv,
      tp_tensor *x); /* erf(erfinv(x)) = x; infinite at -1 and 1, NaN outside */
#define tp_erfinv(x) tp_erfinv_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_floor, tp_tensor *x); /* floor, ceil, round: gradient 0 */
#define tp_floor(x) tp_floor_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_ceil, tp_tensor *x);
#define tp_ceil(x) tp_ceil_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_round, tp_tensor *x); /* halves to even */
#define tp_round(x) tp_round_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_not, tp_tensor *x); /* bool: not; integers: every bit */
#define tp_not(x) tp_not_at(TP_PLACE, TP_OPERAND(x))

/* To another element type. Float to integer rounds toward zero and saturates, NaN gives 0;
 * integers wrap; to bool asks "not zero". The gradient is cast back; none through integers. */
TP_FN(tp_tensor *, tp_cast, tp_tensor *x, tp_dtype dtype);
#define tp_cast(x, ...) tp_cast_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* The value of x, seen as a constant by gradients. */
TP_FN(tp_tensor *, tp_detach, tp_tensor *x);
#define tp_detach(x) tp_detach_at(TP_PLACE, TP_OPERAND(x))

/* ---- elementwise, two operands: broadcast; types meet as tp_promote says ---------------
 *
 * One of the two may be a number of C, which takes the other's type: tp_mul(x, 0.5), tp_sub(1, x). */

TP_FN(tp_tensor *, tp_add, tp_tensor *a, tp_tensor *b);
#define tp_add(a, b) TP_PAIR(tp_add_at, a, b)
TP_FN(tp_tensor *, tp_sub, tp_tensor *a, tp_tensor *b);
#define tp_sub(a, b) TP_PAIR(tp_sub_at, a, b)
TP_FN(tp_tensor *, tp_mul, tp_tensor *a, tp_tensor *b);
#define tp_mul(a, b) TP_PAIR(tp_mul_at, a, b)
TP_FN(tp_tensor *, tp_div, tp_tensor *a, tp_tensor *b); /* integers: toward zero, x / 0 = 0 */
#define tp_div(a, b) TP_PAIR(tp_div_at, a, b)
TP_FN(tp_tensor *, tp_pow, tp_tensor *a, tp_tensor *b);
#define tp_pow(a, b) TP_PAIR(tp_pow_at, a, b)
TP_FN(tp_tensor *, tp_min, tp_tensor *a, tp_tensor *b); /* NaN if either is; ties share the */
#define tp_min(a, b) TP_PAIR(tp_min_at, a, b)           /* gradient in halves */
TP_FN(tp_tensor *, tp_max, tp_tensor *a, tp_tensor *b);
#define tp_max(a, b) TP_PAIR(tp_max_at, a, b)
TP_FN(tp_tensor *, tp_mod, tp_tensor *a,
      tp_tensor *b); /* the sign of b; integers: x mod 0 = 0 */
#define tp_mod(a, b) TP_PAIR(tp_mod_at, a, b)

TP_FN(tp_tensor *, tp_eq, tp_tensor *a, tp_tensor *b); /* comparisons: bool */
#define tp_eq(a, b) TP_PAIR(tp_eq_at, a, b)
TP_FN(tp_tensor *, tp_ne, tp_tensor *a, tp_tensor *b);
#define tp_ne(a, b) TP_PAIR(tp_ne_at, a, b)
TP_FN(tp_tensor *, tp_lt, tp_tensor *a, tp_tensor *b);
#define tp_lt(a, b) TP_PAIR(tp_lt_at, a, b)
TP_FN(tp_tensor *, tp_le, tp_tensor *a, tp_tensor *b);
#define tp_le(a, b) TP_PAIR(tp_le_at, a, b)
TP_FN(tp_tensor *, tp_gt, tp_tensor *a, tp_tensor *b);
#define tp_gt(a, b) TP_PAIR(tp_gt_at, a, b)
TP_FN(tp_tensor *, tp_ge, tp_tensor *a, tp_tensor *b);
#define tp_ge(a, b) TP_PAIR(tp_ge_at, a, b)
TP_FN(tp_tensor *, tp_and, tp_tensor *a, tp_tensor *b); /* bool: logic; integers: every bit */
#define tp_and(a, b) TP_PAIR(tp_and_at, a, b)
TP_FN(tp_tensor *, tp_or, tp_tensor *a, tp_tensor *b);
#define tp_or(a, b) TP_PAIR(tp_or_at, a, b)
TP_FN(tp_tensor *, tp_xor, tp_tensor *a, tp_tensor *b);
#define tp_xor(a, b) TP_PAIR(tp_xor_at, a, b)

/* c ? a : b, element by element; c bool, a and b meet in one type, all three broadcast. */
TP_FN(tp_tensor *, tp_where, tp_tensor *c, tp_tensor *a, tp_tensor *b);
#define tp_where(c, a, b) TP_PAIR_BEHIND(c, tp_where_at, a, b)

/* ---- reductions over axes (TP_ALL: all); keep: reduced axes stay with size 1 ------------ */

/* Integers are summed in their own type and wrap; a bool is cast first. */
TP_FN(tp_tensor *, tp_sum, tp_tensor *x, int n_axes, const int64_t *axes, bool keep);
#define tp_sum(x, ...) tp_sum_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_prod, tp_tensor *x, int n_axes, const int64_t *axes, bool keep);
#define tp_prod(x, ...) tp_prod_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Of no elements: the least value of the type (-inf for floats). Equal maxima share the
 * gradient. */
TP_FN(tp_tensor *, tp_reduce_max, tp_tensor *x, int n_axes, const int64_t *axes, bool keep);
#define tp_reduce_max(x, ...) tp_reduce_max_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_reduce_min, tp_tensor *x, int n_axes, const int64_t *axes, bool keep);
#define tp_reduce_min(x, ...) tp_reduce_min_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The sum divided by the number of elements; x float. */
TP_FN(tp_tensor *, tp_mean, tp_tensor *x, int n_axes, const int64_t *axes, bool keep);
#define tp_mean(x, ...) tp_mean_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Index of the first greatest (least) element along one axis, i64. NaN is greatest (least); 0
 * when there are no elements. */
TP_FN(tp_tensor *, tp_argmax, tp_tensor *x, int axis, bool keep);
#define tp_argmax(x, ...) tp_argmax_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_argmin, tp_tensor *x, int axis, bool keep);
#define tp_argmin(x, ...) tp_argmin_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The same of each element and those before it along the axis, [x's shape]; of equal ones the last, as
 * PyTorch has it. */
TP_FN(tp_tensor *, tp_argcummax, tp_tensor *x, int axis);
#define tp_argcummax(x, ...) tp_argcummax_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_argcummin, tp_tensor *x, int axis);
#define tp_argcummin(x, ...) tp_argcummin_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The greatest (least) of an element and those before it; NaN from the first NaN on. Of equal ones the last has
 * the gradient. */
TP_FN(tp_tensor *, tp_cummax, tp_tensor *x, int axis);
#define tp_cummax(x, ...) tp_cummax_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_cummin, tp_tensor *x, int axis);
#define tp_cummin(x, ...) tp_cummin_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Places (i64) of the k greatest (least) elements along an axis, which has so many, in their order;
 * of equal ones the first, and NaN is above every number. Values: tp_take_along(x, places, axis). */
TP_FN(tp_tensor *, tp_argtopk, tp_tensor *x, int axis, int64_t k, bool largest);
#define tp_argtopk(x, ...) tp_argtopk_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The same of the whole axis; and x in that order. */
TP_FN(tp_tensor *, tp_argsort, tp_tensor *x, int axis, bool descending);
#define tp_argsort(x, ...) tp_argsort_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_sort, tp_tensor *x, int axis, bool descending);
#define tp_sort(x, ...) tp_sort_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Running sums along an axis, in plain order; exclusive: without the element itself;
 * reverse: from the end. */
TP_FN(tp_tensor *, tp_cumsum, tp_tensor *x, int axis, bool exclusive, bool reverse);
#define tp_cumsum(x, ...) tp_cumsum_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Linear recurrence along an axis:  y[0] = b[0],  y[i] = a[i] * y[i - 1] + b[i];  a and b of one
 * shape, types meet; reverse: from the end. Discounted sums, running products. */
TP_FN(tp_tensor *, tp_recur, tp_tensor *a, tp_tensor *b, int axis, bool reverse);
#define tp_recur(a, b, ...) tp_recur_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b), __VA_ARGS__)
/* Product of x's sizes over the axes, as a rank-0 tensor of type `dtype`; symbolic when x is. */
TP_FN(tp_tensor *, tp_extent, tp_tensor *x, int n_axes, const int64_t *axes, tp_dtype dtype);
#define tp_extent(x, ...) tp_extent_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* ---- moving elements --------------------------------------------------------------------- */

/* Same elements, row-major; one size may be -1 (what is left). [n] is made [n/2, 2] too: a run in which
 * such a division does not come out even fails. */
TP_FN(tp_tensor *, tp_reshape, tp_tensor *x, int rank, const int64_t *shape);
#define tp_reshape(x, ...) tp_reshape_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Axes before `axis` stay, the others become one:  [2, 3, 4], 1 -> [2, 12]. */
TP_FN(tp_tensor *, tp_flatten, tp_tensor *x, int axis);
#define tp_flatten(x, ...) tp_flatten_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Axis i of the result is axis perm[i] of x; no axes: reversed. */
TP_FN(tp_tensor *, tp_transpose, tp_tensor *x, int n_axes, const int64_t *perm);
#define tp_transpose(x, ...) tp_transpose_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_swap, tp_tensor *x, int axis_a, int axis_b); /* two axes trade places */
#define tp_swap(x, ...) tp_swap_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_unsqueeze, tp_tensor *x, int axis); /* a new axis of size 1 at `axis` */
#define tp_unsqueeze(x, ...) tp_unsqueeze_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_squeeze, tp_tensor *x, int axis); /* drops an axis of size 1 */
#define tp_squeeze(x, ...) tp_squeeze_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_broadcast, tp_tensor *x, int rank, const int64_t *shape);
#define tp_broadcast(x, ...) tp_broadcast_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Elements start, start + step, ... before `stop` of one axis. Negative start and stop count
 * from the end, both are clamped to the axis as in Python; step is not 0.
 * TP_END as stop: to the end (also backwards). A symbolic axis is not clamped: a run in which it
 * is too short fails, and a start or stop that is outside in every run is refused at once. */
#define TP_END INT64_MAX
TP_FN(tp_tensor *, tp_slice, tp_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
#define tp_slice(x, ...) tp_slice_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Row `index` along an axis; the axis goes. */
TP_FN(tp_tensor *, tp_select, tp_tensor *x, int axis, int64_t index);
#define tp_select(x, ...) tp_select_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_flip, tp_tensor *x, int n_axes, const int64_t *axes);
#define tp_flip(x, ...) tp_flip_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* lo[i] and hi[i] more elements before and after axis i (one per axis, >= 0), all `value`. */
TP_FN(tp_tensor *, tp_pad, tp_tensor *x, int rank, const int64_t *lo, const int64_t *hi,
      double value);
#define tp_pad(x, ...) tp_pad_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Joins n tensors along an axis; the other sizes are equal. n >= 1; types meet. */
TP_FN(tp_tensor *, tp_concat, int n, tp_tensor *const *xs, int axis);
#define tp_concat(...) tp_concat_at(TP_PLACE, __VA_ARGS__)
/* Joins along a new axis. */
TP_FN(tp_tensor *, tp_stack, int n, tp_tensor *const *xs, int axis);
#define tp_stack(...) tp_stack_at(TP_PLACE, __VA_ARGS__)
/* Cuts an axis into n parts of the given sizes (NULL: n equal ones) and puts them in out[n]. */
TP_FN(tp_status, tp_split, tp_tensor *x, int axis, int n, const int64_t *sizes,
      tp_tensor **out);
#define tp_split(x, ...) tp_split_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* A copy without gaps; x itself when it has none. */
TP_FN(tp_tensor *, tp_contiguous, tp_tensor *x);
#define tp_contiguous(x) tp_contiguous_at(TP_PLACE, TP_OPERAND(x))

/* ---- indices: integer tensors; negative ones count from the end; out of range: TP_E_VALUE - */

/* Slices of x along `axis`:  y[..., i..., ...] = x[..., index[i...], ...]. */
TP_FN(tp_tensor *, tp_gather, tp_tensor *x, tp_tensor *index, int axis);
#define tp_gather(x, index, ...)                                                               \
    tp_gather_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), __VA_ARGS__)
/* One element each:  y[i, j] = x[index[i, j], j] for axis 0. index has x's rank, and sizes no
 * larger than x's off the axis. */
TP_FN(tp_tensor *, tp_take_along, tp_tensor *x, tp_tensor *index, int axis);
#define tp_take_along(x, index, ...)                                                           \
    tp_take_along_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), __VA_ARGS__)
/* x with src added (replaced) at the places that tp_gather(x, index, axis) reads; sources are
 * taken in row-major order. */
TP_FN(tp_tensor *, tp_scatter_add, tp_tensor *x, tp_tensor *index, tp_tensor *src, int axis);
#define tp_scatter_add(x, index, src, ...)                                                     \
    tp_scatter_add_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src), __VA_ARGS__)
TP_FN(tp_tensor *, tp_scatter, tp_tensor *x, tp_tensor *index, tp_tensor *src, int axis);
#define tp_scatter(x, index, src, ...)                                                         \
    tp_scatter_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src), __VA_ARGS__)
/* The same for the places that tp_take_along reads. */
TP_FN(tp_tensor *, tp_put_along_add, tp_tensor *x, tp_tensor *index, tp_tensor *src, int axis);
#define tp_put_along_add(x, index, src, ...)                                                   \
    tp_put_along_add_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src),           \
                        __VA_ARGS__)
/* [...] integer -> [..., n] of `dtype`: 1 at the index, else 0; all 0 where out of range. */
TP_FN(tp_tensor *, tp_one_hot, tp_tensor *index, int64_t n, tp_dtype dtype);
#define tp_one_hot(index, ...) tp_one_hot_at(TP_PLACE, TP_OPERAND(index), __VA_ARGS__)

/* ---- contractions and windows -------------------------------------------------------------- */

/* Matrix product over the last two axes; leading axes broadcast. Types meet.
 *     a [..., m, k],  b [..., k, n]  ->  [..., m, n]
 * A rank-1 a is [1, k], a rank-1 b is [k, 1], and the 1 goes from the result. */
TP_FN(tp_tensor *, tp_matmul, tp_tensor *a, tp_tensor *b);
#define tp_matmul(a, b) tp_matmul_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b))

/* Of convolution and pooling, one entry per spatial axis (of 1 to 3); a zeroed struct is
 * stride 1, no padding. kernel is used by pooling only, and groups by convolution only. */
typedef struct tp_window {
    int64_t kernel[3];
    int64_t stride[3]; /* 0: 1; pooling: the kernel */
    int64_t pad_lo[3]; /* before and after each axis */
    int64_t pad_hi[3];
    int64_t dilation[3]; /* 0: 1 */
    int64_t groups;      /* 0: 1 */
    bool count_pad;      /* average pooling divides by the whole kernel, padding included */
} tp_window;

/* Convolution (correlation, as in all such libraries), window NULL: the zeroed one.
 *     x [n, c, d..., h, w],  w [oc, c / groups, k...]  ->  [n, oc, o...],
 *     o = (size + pad_lo + pad_hi - dilation * (k - 1) - 1) / stride + 1
 * x and w float, of one type. */
TP_FN(tp_tensor *, tp_conv, tp_tensor *x, tp_tensor *w, const tp_window *window);
#define tp_conv(x, w, ...) tp_conv_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(w), __VA_ARGS__)
/* The transposed convolution: the gradient of tp_conv to its x, of the given spatial sizes.
 *     dy [n, oc, o...],  w [oc, c / groups, k...]  ->  [n, c, sizes...] */
TP_FN(tp_tensor *, tp_conv_dx, tp_tensor *dy, tp_tensor *w, int n_sizes, const int64_t *sizes,
      const tp_window *window);
#define tp_conv_dx(dy, w, ...)                                                                 \
    tp_conv_dx_at(TP_PLACE, TP_OPERAND(dy), TP_OPERAND(w), __VA_ARGS__)
/* The gradient of tp_conv to its w, of the given kernel sizes.
 *     x [n, c, s...],  dy [n, oc, o...]  ->  [oc, c / groups, sizes...] */
TP_FN(tp_tensor *, tp_conv_dw, tp_tensor *x, tp_tensor *dy, int n_sizes, const int64_t *sizes,
      const tp_window *window);
#define tp_conv_dw(x, dy, ...)                                                                 \
    tp_conv_dw_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(dy), __VA_ARGS__)
/* Greatest value, mean of each window; padding is never the greatest. x [n, c, s...] float. */
TP_FN(tp_tensor *, tp_max_pool, tp_tensor *x, const tp_window *window);
#define tp_max_pool(x, ...) tp_max_pool_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Where in its plane [s...], row-major, the greatest of each window lies, i64: of equal ones the
 * first, of NaNs the first. */
TP_FN(tp_tensor *, tp_max_pool_index, tp_tensor *x, const tp_window *window);
#define tp_max_pool_index(x, ...) tp_max_pool_index_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_avg_pool, tp_tensor *x, const tp_window *window);
#define tp_avg_pool(x, ...) tp_avg_pool_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
