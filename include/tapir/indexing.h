/* tapir: choosing elements, by ranges and by indices that are tensors. What is said at the head of ops.h
 * holds here too; tp_slice, tp_gather, tp_take_along and their opposites are there. To assign where a
 * mask holds is tp_where(mask, value, x). */
#ifndef TAPIR_INDEXING_H
#define TAPIR_INDEXING_H

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ranges ------------------------------------------------------------------------------- */

/* As NumPy reads x[...]:  tp_index(x, "1:, ::2, ..., -1").  An entry is
 *
 *     3            row 3 of an axis, which goes; -1 is the last one, out of range: TP_E_VALUE
 *     1:-1, ::-2   a range, start:stop:step, each of which may be missing; ends as in tp_slice
 *     ...          whole axes, so many that the others are the last ones of x
 *     None         a new axis of size 1; newaxis is the same
 *
 * Axes without an entry stay whole. A text that is no such list is TP_E_FORMAT; errors quote it, and the column.
 * Numbers that only a run knows, and symbolic ends, go to tp_slice; rows that a tensor names to tp_gather. */
TP_FN(tp_tensor *, tp_index, tp_tensor *x, const char *text);
#define tp_index(x, text) tp_index_at(TP_PLACE, TP_OPERAND(x), text)

/* ---- putting, where sources meet ------------------------------------------------------------
 *
 * Places are those of tp_scatter: x[..., index[i...], ...] for src [..., i..., ...]. src has x's type. Sources
 * are taken in row-major order, so the bits do not depend on anything else. Here and below negative indices count from
 * the end, and one out of range is TP_E_VALUE. */

/* The greatest (least) of x's element and the sources that go there; NaN if one is. Of those that are equal
 * each has an equal share of the gradient. */
TP_FN(tp_tensor *, tp_scatter_max, tp_tensor *x, tp_tensor *index, tp_tensor *src, int axis);
#define tp_scatter_max(x, index, src, ...)                                                     \
    tp_scatter_max_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src), __VA_ARGS__)
TP_FN(tp_tensor *, tp_scatter_min, tp_tensor *x, tp_tensor *index, tp_tensor *src, int axis);
#define tp_scatter_min(x, index, src, ...)                                                     \
    tp_scatter_min_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src), __VA_ARGS__)
/* x's element times the sources that go there; gradients are exact at zeros too. */
TP_FN(tp_tensor *, tp_scatter_mul, tp_tensor *x, tp_tensor *index, tp_tensor *src, int axis);
#define tp_scatter_mul(x, index, src, ...)                                                     \
    tp_scatter_mul_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src), __VA_ARGS__)

/* One source each, at the places of tp_take_along:  y[index[i, j], j] = src[i, j] for axis 0. The last one
 * stays (tp_put_along_add adds them). src has index's shape. */
TP_FN(tp_tensor *, tp_put_along, tp_tensor *x, tp_tensor *index, tp_tensor *src, int axis);
#define tp_put_along(x, index, src, ...)                                                       \
    tp_put_along_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src), __VA_ARGS__)
/* The greatest, the least, the product, as in tp_scatter_max, _min, _mul. */
TP_FN(tp_tensor *, tp_put_along_max, tp_tensor *x, tp_tensor *index, tp_tensor *src, int axis);
#define tp_put_along_max(x, index, src, ...)                                                   \
    tp_put_along_max_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src),           \
                        __VA_ARGS__)
TP_FN(tp_tensor *, tp_put_along_min, tp_tensor *x, tp_tensor *index, tp_tensor *src, int axis);
#define tp_put_along_min(x, index, src, ...)                                                   \
    tp_put_along_min_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src),           \
                        __VA_ARGS__)
TP_FN(tp_tensor *, tp_put_along_mul, tp_tensor *x, tp_tensor *index, tp_tensor *src, int axis);
#define tp_put_along_mul(x, index, src, ...)                                                   \
    tp_put_along_mul_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src),           \
                        __VA_ARGS__)

/* ---- places along several axes at once -------------------------------------------------------- */

/* What lies at x[i, j, ...]: n index tensors, which broadcast to [i...], for the first n axes of x; the result is
 * [i..., the other axes]. */
TP_FN(tp_tensor *, tp_index_by, tp_tensor *x, int n, tp_tensor *const *index);
#define tp_index_by(x, ...) tp_index_by_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The same with the n coordinates of a place along index's last axis, [b..., i..., n], for the axes of x behind
 * its first `batch` ones b..., which both have:  y[b..., i..., ...] = x[b..., index[b..., i..., 0], ..., ...]. */
TP_FN(tp_tensor *, tp_gather_nd, tp_tensor *x, tp_tensor *index, int batch);
#define tp_gather_nd(x, index, ...)                                                            \
    tp_gather_nd_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), __VA_ARGS__)
/* x with src [i..., the other axes] put where tp_gather_nd(x, index, 0) reads; of several the last one stays. */
TP_FN(tp_tensor *, tp_scatter_nd, tp_tensor *x, tp_tensor *index, tp_tensor *src);
#define tp_scatter_nd(x, index, src)                                                           \
    tp_scatter_nd_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src))
/* Added, and as in tp_scatter_max, _min, _mul. */
TP_FN(tp_tensor *, tp_scatter_nd_add, tp_tensor *x, tp_tensor *index, tp_tensor *src);
#define tp_scatter_nd_add(x, index, src)                                                       \
    tp_scatter_nd_add_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src))
TP_FN(tp_tensor *, tp_scatter_nd_max, tp_tensor *x, tp_tensor *index, tp_tensor *src);
#define tp_scatter_nd_max(x, index, src)                                                       \
    tp_scatter_nd_max_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src))
TP_FN(tp_tensor *, tp_scatter_nd_min, tp_tensor *x, tp_tensor *index, tp_tensor *src);
#define tp_scatter_nd_min(x, index, src)                                                       \
    tp_scatter_nd_min_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src))
TP_FN(tp_tensor *, tp_scatter_nd_mul, tp_tensor *x, tp_tensor *index, tp_tensor *src);
#define tp_scatter_nd_mul(x, index, src)                                                       \
    tp_scatter_nd_mul_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), TP_OPERAND(src))

/* ---- sizes that values decide -------------------------------------------------------------------
 *
 * In a graph the size is a symbol that each run binds, as that of what a tp_while stacks (docs/control.md).
 * Elsewhere C looks at it: in a captured function that is a value that is read. */

/* The coordinates of what is not 0, in row-major order: [n, rank] i64. (The operator of ONNX gives the
 * transpose.) NaN is not 0. */
TP_FN(tp_tensor *, tp_nonzero, tp_tensor *x);
#define tp_nonzero(x) tp_nonzero_at(TP_PLACE, TP_OPERAND(x))
/* The elements where the bool mask holds, [n], in row-major order; x and the mask broadcast. */
TP_FN(tp_tensor *, tp_masked_select, tp_tensor *x, tp_tensor *mask);
#define tp_masked_select(x, mask) tp_masked_select_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(mask))
/* The elements of x without repetitions, sorted, [k]. Where these pointers are not NULL, *first [k] is where in x, row-major,
 * each is found first, *kind, of x's shape, which of the result each of x is, and *count [k] how often each is there;
 * i64. -0 is 0; each NaN is one of its own, at the end. The gradient goes to the elements found first. */
TP_FN(tp_tensor *, tp_unique, tp_tensor *x, tp_tensor **first, tp_tensor **kind,
      tp_tensor **count);
#define tp_unique(x, ...) tp_unique_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The same of the slices of x along an axis, ordered by their first elements that differ; *kind is [n]. The sizes of other
 * axes are numbers. */
TP_FN(tp_tensor *, tp_unique_along, tp_tensor *x, int axis, tp_tensor **first, tp_tensor **kind,
      tp_tensor **count);
#define tp_unique_along(x, ...) tp_unique_along_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* ---- searching and counting ------------------------------------------------------------------------ */

/* For each of v how many of `sorted` are less; right: less or equal. NaN is above every number. i64 of v's
 * shape.  sorted [n], any v;  or sorted [..., n], v [..., m] with the same leading sizes. */
TP_FN(tp_tensor *, tp_searchsorted, tp_tensor *sorted, tp_tensor *v, bool right);
#define tp_searchsorted(sorted, v, ...)                                                        \
    tp_searchsorted_at(TP_PLACE, TP_OPERAND(sorted), TP_OPERAND(v), __VA_ARGS__)
/* Which elements of x are among those of `set`, bool of x's shape; NaN is none of any. */
TP_FN(tp_tensor *, tp_isin, tp_tensor *x, tp_tensor *set);
#define tp_isin(x, set) tp_isin_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(set))
/* How often x, integers from 0 to n - 1, has each of these; or the sums of their weights, of x's shape. [n], i64
 * or of the weights' type. Others in x: TP_E_VALUE. weights may be NULL. */
TP_FN(tp_tensor *, tp_bincount, tp_tensor *x, tp_tensor *weights, int64_t n);
#define tp_bincount(x, weights, ...)                                                           \
    tp_bincount_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(weights), __VA_ARGS__)
/* How many elements of a float x lie in each of n bins between lo and hi, [n] i64: in bin
 * (x - lo) * n / (hi - lo) rounded down, as x's type computes it; hi in the last one. Others are left out. */
TP_FN(tp_tensor *, tp_histogram, tp_tensor *x, int64_t n, double lo, double hi);
#define tp_histogram(x, ...) tp_histogram_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
