/* tapir: functions over the ops, which have gradients and run in every mode as those do. What is said
 * at the head of ops.h holds here too. */
#ifndef TAPIR_COMPOSITES_H
#define TAPIR_COMPOSITES_H

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise ------------------------------------------------------------------------ */

TP_FN(tp_tensor *, tp_square, tp_tensor *x);
#define tp_square(x) tp_square_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_clip, tp_tensor *x, double lo, double hi); /* min(max(x, lo), hi) */
#define tp_clip(x, ...) tp_clip_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* ---- activations; x is float --------------------------------------------------------------- */

TP_FN(tp_tensor *, tp_gelu, tp_tensor *x); /* x / 2 * (1 + erf(x / sqrt(2))) */
#define tp_gelu(x) tp_gelu_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_silu, tp_tensor *x); /* x * sigmoid(x) */
#define tp_silu(x) tp_silu_at(TP_PLACE, TP_OPERAND(x))

/* ---- along axes ------------------------------------------------------------------------------
 *
 * Axes, TP_ALL and keep as of tp_sum. An order along an axis has NaN above every number. */

/* Is any element, are all, other than 0? bool. Of no elements: no; yes. */
TP_FN(tp_tensor *, tp_any, tp_tensor *x, int n_axes, const int64_t *axes, bool keep);
#define tp_any(x, ...) tp_any_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_all, tp_tensor *x, int n_axes, const int64_t *axes, bool keep);
#define tp_all(x, ...) tp_all_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Variance and its root: the squares of what x is away from its mean, their sum divided by the number of
 * elements less `correction`, which is 0 (of all there is) or 1 (of a sample) or more. Of one element less
 * 1 it is NaN. x float. Where it is 0 the root has the gradient 0. */
TP_FN(tp_tensor *, tp_var, tp_tensor *x, int n_axes, const int64_t *axes, int correction,
      bool keep);
#define tp_var(x, ...) tp_var_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_std, tp_tensor *x, int n_axes, const int64_t *axes, int correction,
      bool keep);
#define tp_std(x, ...) tp_std_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The norm of order p of a vector, (sum |x|^p)^(1/p); p above 0, INFINITY: the greatest |x|. x float. At 0
 * the gradient is 0. */
TP_FN(tp_tensor *, tp_norm, tp_tensor *x, double p, int n_axes, const int64_t *axes, bool keep);
#define tp_norm(x, ...) tp_norm_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* log(sum(exp(x))) without overflow; -inf of elements that all are, or of none. x float. */
TP_FN(tp_tensor *, tp_logsumexp, tp_tensor *x, int n_axes, const int64_t *axes, bool keep);
#define tp_logsumexp(x, ...) tp_logsumexp_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* Running products, as the sums of tp_cumsum. */
TP_FN(tp_tensor *, tp_cumprod, tp_tensor *x, int axis, bool exclusive, bool reverse);
#define tp_cumprod(x, ...) tp_cumprod_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The greatest (least) of an element and those before it; NaN from the first NaN on. Of equal ones the last has
 * the gradient. */
TP_FN(tp_tensor *, tp_cummax, tp_tensor *x, int axis);
#define tp_cummax(x, ...) tp_cummax_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_cummin, tp_tensor *x, int axis);
#define tp_cummin(x, ...) tp_cummin_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* The k-th least element along an axis, k from 1 to its size (TP_E_VALUE): the value that PyTorch's kthvalue
 * gives. */
TP_FN(tp_tensor *, tp_kth, tp_tensor *x, int64_t k, int axis, bool keep);
#define tp_kth(x, ...) tp_kth_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The element in the middle of that order, of two the lesser one, as PyTorch has it (the mean of both, as
 * NumPy has it, is tp_quantile(x, 0.5, ...)); NaN where there is one. TP_E_SHAPE of no elements. */
TP_FN(tp_tensor *, tp_median, tp_tensor *x, int axis, bool keep);
#define tp_median(x, ...) tp_median_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The element at q * (size - 1) in that order, 0 <= q <= 1; between two of them on the line from one to
 * the other. x float. NaN and no elements as above. */
TP_FN(tp_tensor *, tp_quantile, tp_tensor *x, double q, int axis, bool keep);
#define tp_quantile(x, ...) tp_quantile_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* ---- making: beside the makers of tensor.h --------------------------------------------------- */

/* [n, m] of 0, with 1 at [i, i + k]. */
TP_FN(tp_tensor *, tp_eye, tp_ctx *tp, tp_dtype dtype, int64_t n, int64_t m, int64_t k);
#define tp_eye(...) tp_eye_at(TP_PLACE, __VA_ARGS__)
/* n numbers in equal steps, [n]: the first is lo, the last hi exactly (of one: lo). Cast to `dtype` as tp_cast
 * does. */
TP_FN(tp_tensor *, tp_linspace, tp_ctx *tp, tp_dtype dtype, double lo, double hi, int64_t n);
#define tp_linspace(...) tp_linspace_at(TP_PLACE, __VA_ARGS__)
/* Of n vectors, 1 to TP_MAX_RANK, puts in out[i] xs[i] along axis i of the shape of all of them ("ij" of
 * NumPy and PyTorch):  [2], [3] -> [2, 3], [2, 3]. */
TP_FN(tp_status, tp_meshgrid, int n, tp_tensor *const *xs, tp_tensor **out);
#define tp_meshgrid(...) tp_meshgrid_at(TP_PLACE, __VA_ARGS__)

/* ---- arranging -------------------------------------------------------------------------------
 *
 * Diagonal k of a matrix has the elements [i, i + k]. Axes before the last two are a batch of
 * matrices. k, shift and times may be sizes of x's graph. */

/* [..., m, n] -> [..., elements of diagonal k]. */
TP_FN(tp_tensor *, tp_diagonal, tp_tensor *x, int64_t k);
#define tp_diagonal(x, ...) tp_diagonal_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* [..., n] -> [..., n + |k|, n + |k|]: x as diagonal k of zeros. */
TP_FN(tp_tensor *, tp_diag, tp_tensor *x, int64_t k);
#define tp_diag(x, ...) tp_diag_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* x with 0 above (below) diagonal k. */
TP_FN(tp_tensor *, tp_tril, tp_tensor *x, int64_t k);
#define tp_tril(x, ...) tp_tril_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_triu, tp_tensor *x, int64_t k);
#define tp_triu(x, ...) tp_triu_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* All of x over again, times[i] times along axis i: PyTorch's repeat. Axes are counted from the last
 * one when x or times has fewer.  [a, b], 2 -> [a, b, a, b]. */
TP_FN(tp_tensor *, tp_tile, tp_tensor *x, int n, const int64_t *times);
#define tp_tile(x, ...) tp_tile_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Each slice along an axis `times` times: NumPy's repeat, PyTorch's repeat_interleave.
 * [a, b], 2 -> [a, a, b, b]. */
TP_FN(tp_tensor *, tp_repeat_each, tp_tensor *x, int64_t times, int axis);
#define tp_repeat_each(x, ...) tp_repeat_each_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Elements move on by `shift` along an axis (below 0: back), and the last come first. */
TP_FN(tp_tensor *, tp_roll, tp_tensor *x, int64_t shift, int axis);
#define tp_roll(x, ...) tp_roll_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* ---- products: types meet -------------------------------------------------------------------- */

/* The sum of diagonal 0:  [..., m, n] -> [...]. */
TP_FN(tp_tensor *, tp_trace, tp_tensor *x);
#define tp_trace(x) tp_trace_at(TP_PLACE, TP_OPERAND(x))
/* Of two vectors:  [n], [n] -> [];  [m], [n] -> [m, n]. */
TP_FN(tp_tensor *, tp_dot, tp_tensor *a, tp_tensor *b);
#define tp_dot(a, b) tp_dot_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b))
TP_FN(tp_tensor *, tp_outer, tp_tensor *a, tp_tensor *b);
#define tp_outer(a, b) tp_outer_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b))
/* Kronecker's product:  [m, n], [p, q] -> [m * p, n * q]: blocks a[i, j] * b. Up to 4 axes. */
TP_FN(tp_tensor *, tp_kron, tp_tensor *a, tp_tensor *b);
#define tp_kron(a, b) tp_kron_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b))
/* Sums of products over n axes of each, which go in pairs; the other axes of a, then those of b, stay. */
TP_FN(tp_tensor *, tp_tensordot, tp_tensor *a, tp_tensor *b, int n, const int64_t *axes_a,
      const int64_t *axes_b);
#define tp_tensordot(a, b, ...)                                                                \
    tp_tensordot_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b), __VA_ARGS__)
/* Sums of products by labels, a letter for each axis of n operands, 1 to 16:
 *     tp_einsum("bij,bjk->bik", 2, xs)
 * An axis whose label the result does not have is summed; a label twice in one operand means its
 * diagonal; "..." stands for all other axes, which broadcast. Without an arrow the result has what "..."
 * stands for and the labels that occur once, in the order A to Z, a to z. Axes of one label have one size,
 * or 1. Operands are joined from left to right. TP_E_VALUE: an equation that is none, or not theirs. */
TP_FN(tp_tensor *, tp_einsum, const char *equation, int n, tp_tensor *const *xs);
#define tp_einsum(...) tp_einsum_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
