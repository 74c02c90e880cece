/* tapir: linear algebra. What is said at the head of ops.h holds here too. Matrices are the last two axes of a
 * tensor of floats, [..., m, n]; axes before them are a stack, each matrix of which is worked on by itself. */
#ifndef TAPIR_LINALG_H
#define TAPIR_LINALG_H

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- square matrices ------------------------------------------------------------------------
 *
 * A run that comes to a matrix which cannot be solved or factored fails with TP_E_VALUE and the number of that
 * matrix in its stack, as one does that comes to an index out of range. */

/* L, lower triangular, with L L' = a, of which the lower triangle is read; upper: U with U' U = a, from the upper one.
 * TP_E_VALUE when a is not positive definite. The gradient is symmetric. */
TP_FN(tp_tensor *, tp_cholesky, tp_tensor *a, bool upper);
#define tp_cholesky(a, ...) tp_cholesky_at(TP_PLACE, TP_OPERAND(a), __VA_ARGS__)
/* x with a x = b, or with a' x = b if `transposed`, where a is taken to be triangular: the other triangle, and with
 * `unit` the diagonal, which counts as 1, are not read.
 *
 *     a [..., n, n],  b [..., n, k] or [n], leading axes broadcast, types meet  ->  b's shape
 *
 * TP_E_VALUE when a diagonal has a 0. */
TP_FN(tp_tensor *, tp_solve_triangular, tp_tensor *a, tp_tensor *b, bool upper, bool transposed,
      bool unit);
#define tp_solve_triangular(a, b, ...)                                                         \
    tp_solve_triangular_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b), __VA_ARGS__)
/* Factors with partial pivoting: L, whose diagonal of ones is left out, below the diagonal of `lu` and U from it on;
 * `rows` [..., n], i64: row i of L U is row rows[i] of a. Singular matrices have them, too; their gradient is refused
 * in a run (TP_E_VALUE). */
TP_FN(tp_status, tp_lu, tp_tensor *a, tp_tensor **lu, tp_tensor **rows);
#define tp_lu(a, ...) tp_lu_at(TP_PLACE, TP_OPERAND(a), __VA_ARGS__)
/* x with a x = b:  a [..., n, n],  b [..., n, k] or [n], leading axes broadcast, types meet. TP_E_VALUE when a is
 * singular, that is when a pivot is 0. */
TP_FN(tp_tensor *, tp_solve, tp_tensor *a, tp_tensor *b);
#define tp_solve(a, b) tp_solve_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b))
/* TP_E_VALUE when a is singular. To solve, tp_solve is better. */
TP_FN(tp_tensor *, tp_inverse, tp_tensor *a);
#define tp_inverse(a) tp_inverse_at(TP_PLACE, TP_OPERAND(a))
/* [..., n, n] -> [...]; 0 of a singular matrix, whose gradient is refused in a run (TP_E_VALUE). */
TP_FN(tp_tensor *, tp_det, tp_tensor *a);
#define tp_det(a) tp_det_at(TP_PLACE, TP_OPERAND(a))
/* The determinant as its sign, -1, 0 or 1, and the logarithm of its size, -infinity of a singular matrix. */
TP_FN(tp_status, tp_slogdet, tp_tensor *a, tp_tensor **sign, tp_tensor **log_abs);
#define tp_slogdet(a, ...) tp_slogdet_at(TP_PLACE, TP_OPERAND(a), __VA_ARGS__)

/* ---- orthogonal factors ----------------------------------------------------------------------- */

/* a = q r with k = min(m, n): q [..., m, k], whose columns are orthogonal and of length 1, r [..., k, n], upper triangular
 * with a diagonal of any signs. The gradient is refused in a run where the first k columns of r are singular (TP_E_VALUE). */
TP_FN(tp_status, tp_qr, tp_tensor *a, tp_tensor **q, tp_tensor **r);
#define tp_qr(a, ...) tp_qr_at(TP_PLACE, TP_OPERAND(a), __VA_ARGS__)
/* a v = v diag(w) of symmetric a, of which the lower triangle is read: w [..., n] rising, v [..., n, n] with a vector in
 * each column, of length 1 and of either sign. The gradient is symmetric; through vectors whose values are equal it is
 * infinite or NaN, not through w alone. NaN everywhere if a has a NaN or an
 * infinity. */
TP_FN(tp_status, tp_eigh, tp_tensor *a, tp_tensor **w, tp_tensor **v);
#define tp_eigh(a, ...) tp_eigh_at(TP_PLACE, TP_OPERAND(a), __VA_ARGS__)
/* a = u diag(s) vt with k = min(m, n): u [..., m, k], s [..., k] falling, none below 0, vt [..., k, n]. The gradient through
 * u and vt is infinite or NaN where singular values are equal, or 0, not through s alone; NaN everywhere as for tp_eigh. */
TP_FN(tp_status, tp_svd, tp_tensor *a, tp_tensor **u, tp_tensor **s, tp_tensor **vt);
#define tp_svd(a, ...) tp_svd_at(TP_PLACE, TP_OPERAND(a), __VA_ARGS__)
/* The x of least length among those with which a x - b is shortest, by singular values; those not above eps times the
 * greatest, 0 <= eps < 1, count as 0.
 *
 *     a [..., m, n],  b [..., m, k] or [m], leading axes broadcast, types meet  ->  [..., n, k] or [n] */
TP_FN(tp_tensor *, tp_lstsq, tp_tensor *a, tp_tensor *b, double eps);
#define tp_lstsq(a, b, ...) tp_lstsq_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b), __VA_ARGS__)

/* ---- Fourier transforms -----------------------------------------------------------------------
 *
 * Along one axis, of any length, which is a number also in a graph (TP_E_SHAPE). Complex numbers are pairs of a real
 * and an imaginary part, the last axis of a tensor of floats, which is not counted among those that can be transformed.
 * Those of f32 are computed in f64, and rounded once. */

/* y[k] = sum over j of x[j] exp(-2 pi i j k / n):  [..., n, ..., 2] -> the same shape. */
TP_FN(tp_tensor *, tp_fft, tp_tensor *x, int axis);
#define tp_fft(x, ...) tp_fft_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Its inverse: with exp(2 pi i j k / n), divided by n. */
TP_FN(tp_tensor *, tp_ifft, tp_tensor *x, int axis);
#define tp_ifft(x, ...) tp_ifft_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The first n / 2 + 1 numbers of the transform of real ones, of which the others are conjugates:
 * [..., n, ...] -> [..., n / 2 + 1, ..., 2]. */
TP_FN(tp_tensor *, tp_rfft, tp_tensor *x, int axis);
#define tp_rfft(x, ...) tp_rfft_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Its inverse, n real numbers; n is told, as n / 2 + 1 leaves two. Imaginary parts of the first number, and of the last
 * one of an even n, do not count. */
TP_FN(tp_tensor *, tp_irfft, tp_tensor *x, int axis, int64_t n);
#define tp_irfft(x, ...) tp_irfft_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
