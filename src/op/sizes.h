/* Sizes and axes, as the rules of moves, indices, contractions and windows use them. */
#ifndef TAPIR_SIZES_H
#define TAPIR_SIZES_H

#include "ir/sizes_at.h"
#include "op/op.h"

typedef struct tpi_sizes_text {
    char text[120];
} tpi_sizes_text;
/* "[2, batch, -1]" in a buffer of the caller's. */
const char *tpi_sizes_format(tpi_sizes_text *buf, tp_ctx *ctx, const tpi_dims *dims, int64_t n,
                             const int64_t *v);
#define SIZES(ctx, dims, n, v) tpi_sizes_format(&(tpi_sizes_text){{0}}, (ctx), (dims), (n), (v))
#define SIZE(ctx, dims, d) SIZES(ctx, dims, -1, &(d)) /* one, without brackets */

/* Their product, TPI_NO_DIM when one is no size or it is too large. */
int64_t tpi_sizes_product(tpi_dims *dims, int64_t n, const int64_t *v);
/* Row-major strides. False: too large. */
bool tpi_sizes_strides(tpi_dims *dims, int64_t n, const int64_t *v, int64_t *stride);

/* The sum of two strides or offsets, and a size times one: numbers or expressions that may be
 * negative (move.c). TPI_NO_DIM: out of memory, or too large. */
int64_t tpi_stride_add(tpi_dims *dims, int64_t a, int64_t b);
int64_t tpi_stride_mul(tpi_dims *dims, int64_t size, int64_t stride);

/* Attributes of a node with the sizes of a run; `out` has op->attrs_size bytes. */
void tpi_attrs_at(const tpi_run_sizes *r, const tp_tensor *node, void *out);

/* May two sizes be equal in a run although they are not the same expression? */
bool tpi_sizes_may_agree(tpi_dims *dims, int64_t a, int64_t b);
/* x of sizes, as many as it has, that a run has to find its own to be (move.c). */
tp_tensor *tpi_assume(tpi_at at, tp_tensor *x, const int64_t *shape);

/* Is it of an op that takes operands of any sizes, once their symbols have been found to fit? Then no run refuses it. */
bool tpi_takes_any_size(const tp_tensor *t);

/* In wrappers of several operands: the failed tensor to return, NULL when all are good. */
tp_tensor *tpi_refuse_operands(tpi_at at, const char *what, int n, tp_tensor *const *in);

/* In shape rules: is `axis` an axis of operand 0? */
bool tpi_refuse_axis(tpi_infer *q, int64_t axis);
/* In wrappers: an axis counted from the end made positive; one out of range stays as it is and
 * is refused by the shape rule. */
static inline int64_t tpi_positive_axis(const tp_tensor *x, int64_t axis)
{
    const int found = tpi_is_live(x) ? tpi_axis(axis, x->rank) : -1;
    return found < 0 ? axis : found;
}

/* In wrappers: the axes of x that are named, sorted and positive; all of them when none is. False:
 * *failed says why. (reduction.c) */
bool tpi_find_axes(tpi_at at, const char *what, const tp_tensor *x, int n_axes,
                   const int64_t *axes, tpi_list *out, tp_tensor **failed);

/* Has it one element, whatever its rank is? */
static inline bool tpi_is_number(const tp_tensor *t)
{
    bool is = true;
    for (int i = 0; i < t->rank && is; i++)
        is = t->shape[i] == 1;
    return is;
}

/* x[lo], x[lo + step], ... of one axis, without the last `hi` (move.c); and back: zeros of
 * size `size` with x in those places (concat.c). */
tp_tensor *tpi_slice(tpi_at at, tp_tensor *x, int axis, int64_t lo, int64_t hi, int64_t step);
tp_tensor *tpi_pad_slice(tpi_at at, tp_tensor *x, int axis, int64_t lo, int64_t step,
                         int64_t size);
/* Is t a pad by zeros (+0) along one axis, of known sizes? That axis, or -1; *lo: how many are in front. */
int tpi_padded_axis(const tp_tensor *t, int64_t *lo);
/* The attributes of a concat along the axis. */
typedef struct tpi_concat_attrs {
    int64_t axis;
} tpi_concat_attrs;

/* Stacks of matrices a and b, of rank 2 at least, with leading axes that broadcast to each other's. The failed
 * tensor when they do not, else NULL. (matmul.c) */
tp_tensor *tpi_stretch_stacks(tpi_at at, const char *what, tp_tensor **a, tp_tensor **b);

/* Zeros of a shape, symbolic when `like` is, of like's type. */
tp_tensor *tpi_zeros(tpi_at at, tp_tensor *like, int rank, const int64_t *shape);

/* 0, 1, ... of like's type, so many; symbolic when `like` is. (index.c) */
tp_tensor *tpi_iota(tpi_at at, tp_tensor *like, int64_t size);
/* Of indices [n] into an axis of that size: for each the number of the last one that names its place.
 * *number: 0, 1, ... n - 1, unless the indices are a failed tensor, which is returned. (index.c) */
tp_tensor *tpi_last_writer(tpi_at at, tp_tensor *flat, int64_t size, tp_tensor **number);
/* Of tp_sort along an axis whose size is a number, those from one place on to another. (sort.c) */
tp_tensor *tpi_sorted_part(tpi_at at, tp_tensor *x, int axis, int64_t from, int64_t to);

#endif
