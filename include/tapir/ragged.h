/* tapir: rows of different lengths, packed one behind the other, and what is done to each row by itself.
 *
 *     values [7, 2]    a0 a1 a2 b0 b1 b2 b3
 *     offsets [4]      0 3 3 7                  rows of 3, 0 and 4 elements
 *
 * An element is a slice of the values along their first axis: a word of a sentence with its numbers, say. Whatever
 * treats each element by itself (tp_dense_apply, activations, a norm over the last axis, tp_embedding_apply) takes
 * r.values as it is:  r.values = tp_relu(r.values). There is no padding, so no gradient can see any.
 *
 * All of it are functions over the ops, which have gradients and run in every mode as those do. In a graph sizes are
 * symbols of the two tensors, so one program serves all offsets. What is said at the head of ops.h holds here too.
 * docs/ragged.md has examples.
 *
 * Order: what is added up in a row is added one element after the other, in their order, from +0. So the bits depend
 * neither on other rows nor on the mode. They are those of tp_sum along axis 0 for values of two axes or more and rows
 * of up to 4,096 elements. */
#ifndef TAPIR_RAGGED_H
#define TAPIR_RAGGED_H

#include "indexing.h"
#include "nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `total` elements in `rows` rows. A pair of tensors like any other: copied freely, and owned by nobody but the scopes
 * of the two. */
typedef struct tp_ragged {
    tp_tensor *values; /* [total, ...] */
    /* [rows + 1], integers: row i is values[offsets[i]] to before values[offsets[i + 1]] */
    tp_tensor *offsets;
} tp_ragged;

/* ---- making --------------------------------------------------------------------------------
 *
 * Offsets begin at 0, do not fall, and end at `total`; TP_E_VALUE if not, with the numbers. Functions of this header
 * look at what is there when they are called. Where offsets come later, in a graph or in the replay of a captured
 * function, a run looks at those that these makers were given, and fails (TP_E_VALUE); a pair that was put together by
 * hand is taken as it is there: no memory outside of it is touched, but what rows have is not said. Results: i64
 * offsets. What fails has two failed tensors. */

/* values and offsets, looked at. */
TP_FN(tp_ragged, tp_ragged_new, tp_tensor *values, tp_tensor *offsets);
#define tp_ragged_new(values, offsets)                                                         \
    tp_ragged_new_at(TP_PLACE, TP_OPERAND(values), TP_OPERAND(offsets))
/* By the lengths [rows] of its rows, integers, which are at least 0 and add up to `total`. */
TP_FN(tp_ragged, tp_ragged_of_lengths, tp_tensor *values, tp_tensor *lengths);
#define tp_ragged_of_lengths(values, lengths)                                                  \
    tp_ragged_of_lengths_at(TP_PLACE, TP_OPERAND(values), TP_OPERAND(lengths))
/* The first lengths[i] elements of each row i of padded [rows, most, ...]; lengths are 0 to `most`, or a run fails
 * (TP_E_VALUE). `total` is a size that values decide (indexing.h). */
TP_FN(tp_ragged, tp_ragged_of_padded, tp_tensor *padded, tp_tensor *lengths);
#define tp_ragged_of_padded(padded, lengths)                                                   \
    tp_ragged_of_padded_at(TP_PLACE, TP_OPERAND(padded), TP_OPERAND(lengths))

/* ---- what is where: i64 -------------------------------------------------------------------- */

/* Of each row how many elements it has: [rows]. */
TP_FN(tp_tensor *, tp_ragged_lengths, tp_ragged r);
#define tp_ragged_lengths(...) tp_ragged_lengths_at(TP_PLACE, __VA_ARGS__)
/* Of each element the number of its row (its segment's id), and its place in it: [total]. */
TP_FN(tp_tensor *, tp_ragged_ids, tp_ragged r);
#define tp_ragged_ids(...) tp_ragged_ids_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_ragged_positions, tp_ragged r);
#define tp_ragged_positions(...) tp_ragged_positions_at(TP_PLACE, __VA_ARGS__)
/* The elements' numbers ordered by time, [total]: the first ones of all rows, then the second ones, ...; rows keep
 * their order. tp_gather(r.values, order, 0) is what a packed sequence of PyTorch has where lengths do not rise. */
TP_FN(tp_tensor *, tp_ragged_by_time, tp_ragged r);
#define tp_ragged_by_time(...) tp_ragged_by_time_at(TP_PLACE, __VA_ARGS__)

/* ---- padding ------------------------------------------------------------------------------- */

/* [rows, most, ...]: each row from the left, and `fill` behind it. `most` is a size, and a run with a longer row fails
 * (TP_E_VALUE); 0: as long as the longest row, a size that values decide (indexing.h). */
TP_FN(tp_tensor *, tp_ragged_pad, tp_ragged r, int64_t most, double fill);
#define tp_ragged_pad(...) tp_ragged_pad_at(TP_PLACE, __VA_ARGS__)
/* Back: the elements of padded [rows, most, ...] that are in r's rows, [total, ...]. Of r the values count by their
 * number alone. TP_E_VALUE: a row is longer than `most`. */
TP_FN(tp_tensor *, tp_ragged_unpad, tp_tensor *padded, tp_ragged r);
#define tp_ragged_unpad(padded, ...)                                                           \
    tp_ragged_unpad_at(TP_PLACE, TP_OPERAND(padded), __VA_ARGS__)

/* ---- choosing and joining rows ---------------------------------------------------------------- */

/* The rows that index [n] names, in its order. Negative indices count from the end; out of range: TP_E_VALUE. `total`
 * of the result is a size that values decide. */
TP_FN(tp_ragged, tp_ragged_take, tp_ragged r, tp_tensor *index);
#define tp_ragged_take(r, index) tp_ragged_take_at(TP_PLACE, r, TP_OPERAND(index))
/* Rows of rows: `outer` are offsets over the rows of r, from 0 to `rows`, checked as those of a maker. The result has a
 * row of elements for each of outer's. */
TP_FN(tp_ragged, tp_ragged_join, tp_ragged r, tp_tensor *outer);
#define tp_ragged_join(r, outer) tp_ragged_join_at(TP_PLACE, r, TP_OPERAND(outer))
/* Numbers of rows, the longest first, of equally long ones the first, in groups that padded have at most so many
 * elements: a ragged of [rows] whose rows are the groups. A row of more is a group of its own. most is at least 1
 * (TP_E_VALUE). The number of groups is a size that values decide. It is a loop (control.h) over rows. */
TP_FN(tp_ragged, tp_ragged_bucket, tp_ragged r, int64_t most);
#define tp_ragged_bucket(...) tp_ragged_bucket_at(TP_PLACE, __VA_ARGS__)

/* ---- over the elements of each row -------------------------------------------------------------- */

/* x [rows, ...] for each element that which is of its row, [total, ...]: the opposite of the sum, and its gradient. Of
 * r the values count by their number alone. */
TP_FN(tp_tensor *, tp_ragged_spread, tp_tensor *x, tp_ragged r);
#define tp_ragged_spread(x, ...) tp_ragged_spread_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* [total, ...] -> [rows, ...]. Of an empty row the sum is 0, the mean NaN, the greatest and the least what
 * tp_reduce_max and tp_reduce_min have of nothing. Sums are of numbers, means of floats. Equal greatest (least)
 * elements share the gradient, as of tp_reduce_max; in a row of floats that all are -inf (inf) each of n has 1 / (n +
 * 1) of it. */
TP_FN(tp_tensor *, tp_ragged_sum, tp_ragged r);
#define tp_ragged_sum(...) tp_ragged_sum_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_ragged_mean, tp_ragged r);
#define tp_ragged_mean(...) tp_ragged_mean_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_ragged_max, tp_ragged r);
#define tp_ragged_max(...) tp_ragged_max_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_ragged_min, tp_ragged r);
#define tp_ragged_min(...) tp_ragged_min_at(TP_PLACE, __VA_ARGS__)
/* log(sum(exp(x))) without overflow; -inf of an empty row. Floats, here and below. */
TP_FN(tp_tensor *, tp_ragged_logsumexp, tp_ragged r);
#define tp_ragged_logsumexp(...) tp_ragged_logsumexp_at(TP_PLACE, __VA_ARGS__)
/* [total, ...] -> [total, ...]: tp_softmax, tp_log_softmax along each row. */
TP_FN(tp_tensor *, tp_ragged_softmax, tp_ragged r);
#define tp_ragged_softmax(...) tp_ragged_softmax_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_ragged_log_softmax, tp_ragged r);
#define tp_ragged_log_softmax(...) tp_ragged_log_softmax_at(TP_PLACE, __VA_ARGS__)

/* Attention of each row by itself: row i of q sees row i of k, and nothing else.
 *     q [total, h, d],  k [total', hk, d],  v [total', hk, e], in the rows of k  ->  [total, h, e], in the rows of q
 * as tp_attention says; q and k have as many rows. It is computed padded: `most` is at least as long as any row of both
 * (0: as the longest), as in tp_ragged_pad. A row has the bits that tp_attention gives for it alone, but where it has
 * fewer than 256 keys and `most` is 256 or more: then its sums have the order of 256 and more (docs/numerics.md). A
 * query of a row without keys gives 0. Of the options, which may be NULL, mask, lengths and a past have no meaning here
 * (TP_E_VALUE). */
TP_FN(tp_tensor *, tp_ragged_attention, tp_ragged q, tp_ragged k, tp_tensor *v, int64_t most,
      const tp_attention_options *options);
#define tp_ragged_attention(q, k, v, ...)                                                      \
    tp_ragged_attention_at(TP_PLACE, q, k, TP_OPERAND(v), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
