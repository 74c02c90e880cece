/* tapir: functions over the ops, which have gradients and run in every mode as those do. What is said
 * at the head of ops.h holds here too. */
#ifndef TAPIR_COMPOSITES_H
#define TAPIR_COMPOSITES_H

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise: docs/numerics.md has their errors ------------------------------------------ */

TP_FN(tp_tensor *, tp_square, tp_tensor *x);
#define tp_square(x) tp_square_at(TP_PLACE, TP_OPERAND(x))

/* min(max(x, lo), hi), and with one bound; where a bound is met the gradient is half. Bounds that are tensors:
 * tp_max(x, lo), tp_min(x, hi). */
TP_FN(tp_tensor *, tp_clip, tp_tensor *x, double lo, double hi);
#define tp_clip(x, ...) tp_clip_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_clip_min, tp_tensor *x, double lo);
#define tp_clip_min(x, ...) tp_clip_min_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_clip_max, tp_tensor *x, double hi);
#define tp_clip_max(x, ...) tp_clip_max_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

TP_FN(tp_tensor *, tp_reciprocal, tp_tensor *x); /* 1 / x; from here to lgamma x is float */
#define tp_reciprocal(x) tp_reciprocal_at(TP_PLACE, TP_OPERAND(x))

/* Angles in radians. */
TP_FN(tp_tensor *, tp_tan, tp_tensor *x);
#define tp_tan(x) tp_tan_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_asin,
      tp_tensor *x); /* NaN outside of [-1, 1]; at the ends the gradient is infinite */
#define tp_asin(x) tp_asin_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_acos, tp_tensor *x); /* likewise */
#define tp_acos(x) tp_acos_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_atan, tp_tensor *x);
#define tp_atan(x) tp_atan_at(TP_PLACE, TP_OPERAND(x))
/* The angle of the point (x, y), from -pi to pi, with the signed zeros and infinities of C's atan2; y and x broadcast.
 * Gradient 0 at (0, 0). */
TP_FN(tp_tensor *, tp_atan2, tp_tensor *y, tp_tensor *x);
#define tp_atan2(y, x) tp_atan2_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(x))

TP_FN(tp_tensor *, tp_sinh, tp_tensor *x);
#define tp_sinh(x) tp_sinh_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_cosh, tp_tensor *x);
#define tp_cosh(x) tp_cosh_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_asinh, tp_tensor *x);
#define tp_asinh(x) tp_asinh_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_acosh, tp_tensor *x); /* NaN below 1; at 1 the gradient is infinite */
#define tp_acosh(x) tp_acosh_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_atanh, tp_tensor *x); /* NaN outside of [-1, 1]; at the ends infinite */
#define tp_atanh(x) tp_atanh_at(TP_PLACE, TP_OPERAND(x))

TP_FN(tp_tensor *, tp_erfc, tp_tensor *x); /* 1 - erf(x), accurate where that is small */
#define tp_erfc(x) tp_erfc_at(TP_PLACE, TP_OPERAND(x))
/* log |gamma(x)|, infinite at 0, -1, -2, ... Accurate near 1 and 2; near its zeros below 0 within an absolute error. */
TP_FN(tp_tensor *, tp_lgamma, tp_tensor *x);
#define tp_lgamma(x) tp_lgamma_at(TP_PLACE, TP_OPERAND(x))

/* Bool, of any type: no integer is NaN or infinite. */
TP_FN(tp_tensor *, tp_isnan, tp_tensor *x);
#define tp_isnan(x) tp_isnan_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_isinf, tp_tensor *x);
#define tp_isinf(x) tp_isinf_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_isfinite, tp_tensor *x);
#define tp_isfinite(x) tp_isfinite_at(TP_PLACE, TP_OPERAND(x))

/* Of two that broadcast and meet in one type of numbers; one of them may be a number of C. tp_floor_div is Python's
 * a // b, to which tp_mod is a % b: the quotient rounded down, also of integers; x / 0 is 0 for them. Gradient 0. */
TP_FN(tp_tensor *, tp_floor_div, tp_tensor *a, tp_tensor *b);
#define tp_floor_div(a, b) TP_PAIR(tp_floor_div_at, a, b)
/* The remainder that has a's sign, as C's fmod; integers: 0 where b is. */
TP_FN(tp_tensor *, tp_fmod, tp_tensor *a, tp_tensor *b);
#define tp_fmod(a, b) TP_PAIR(tp_fmod_at, a, b)
/* a + w (b - a), which is a where w is 0 and b where it is 1; w float, all three broadcast. A number w is
 * tp_scalar_like(a, w). */
TP_FN(tp_tensor *, tp_lerp, tp_tensor *a, tp_tensor *b, tp_tensor *w);
#define tp_lerp(a, b, w) tp_lerp_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b), TP_OPERAND(w))

/* ---- activations; x is float --------------------------------------------------------------- */

TP_FN(tp_tensor *, tp_gelu, tp_tensor *x); /* x / 2 * (1 + erf(x / sqrt(2))) */
#define tp_gelu(x) tp_gelu_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_gelu_tanh,
      tp_tensor *x); /* x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
#define tp_gelu_tanh(x) tp_gelu_tanh_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_silu, tp_tensor *x); /* x * sigmoid(x) */
#define tp_silu(x) tp_silu_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_swish, tp_tensor *x, double alpha); /* x * sigmoid(alpha x) */
#define tp_swish(x, ...) tp_swish_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_softplus, tp_tensor *x); /* log(1 + exp(x)) */
#define tp_softplus(x) tp_softplus_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_logsigmoid, tp_tensor *x); /* log(sigmoid(x)) */
#define tp_logsigmoid(x) tp_logsigmoid_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_mish, tp_tensor *x); /* x * tanh(softplus(x)) */
#define tp_mish(x) tp_mish_at(TP_PLACE, TP_OPERAND(x))
/* x above 0, else alpha (exp(x) - 1) and alpha (exp(x / alpha) - 1); the gradient at 0 is that of the second. */
TP_FN(tp_tensor *, tp_elu, tp_tensor *x, double alpha);
#define tp_elu(x, ...) tp_elu_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_celu, tp_tensor *x, double alpha);
#define tp_celu(x, ...) tp_celu_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_selu, tp_tensor *x); /* 1.0507 elu(x, 1.6733) */
#define tp_selu(x) tp_selu_at(TP_PLACE, TP_OPERAND(x))
/* x above 0, else slope x, of which the gradient at 0 is. The slope of tp_prelu is a tensor that broadcasts
 * with x; both may be integers. */
TP_FN(tp_tensor *, tp_leaky_relu, tp_tensor *x, double slope);
#define tp_leaky_relu(x, ...) tp_leaky_relu_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_prelu, tp_tensor *x, tp_tensor *slope);
#define tp_prelu(x, slope) tp_prelu_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(slope))
/* Gradients at the ends of their slopes: 0. */
TP_FN(tp_tensor *, tp_relu6, tp_tensor *x); /* min(max(x, 0), 6) */
#define tp_relu6(x) tp_relu6_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_hardsigmoid, tp_tensor *x); /* relu6(x + 3) / 6 */
#define tp_hardsigmoid(x) tp_hardsigmoid_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_hardswish, tp_tensor *x); /* x * hardsigmoid(x) */
#define tp_hardswish(x) tp_hardswish_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_threshold, tp_tensor *x, double bound,
      double value); /* x above bound, else value */
#define tp_threshold(x, ...) tp_threshold_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* 0 from -bound to bound, else x nearer to 0 by bias: 0 for a hard threshold, bound for a soft one. x may be of
 * integers. */
TP_FN(tp_tensor *, tp_shrink, tp_tensor *x, double bound, double bias);
#define tp_shrink(x, ...) tp_shrink_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_softsign, tp_tensor *x); /* x / (1 + |x|) */
#define tp_softsign(x) tp_softsign_at(TP_PLACE, TP_OPERAND(x))
/* x has halves a and b along the axis: a * sigmoid(b), and silu(a) * b. TP_E_SHAPE when its size is not even. */
TP_FN(tp_tensor *, tp_glu, tp_tensor *x, int axis);
#define tp_glu(x, ...) tp_glu_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_swiglu, tp_tensor *x, int axis);
#define tp_swiglu(x, ...) tp_swiglu_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

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
