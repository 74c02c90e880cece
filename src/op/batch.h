/* Batching rules: what an op on one sample becomes on many (src/transform goes over the nodes of a graph with them).
 *
 * Most ops go on with one axis more in front: their attributes say what that does to them (tpi_op.lead), and operands
 * that all samples share are stretched along it. A rule of an op (tpi_op.batch) is written in public ops, as a gradient
 * rule is, and gives each sample the bits that the op alone gives it. */
#ifndef TAPIR_BATCH_RULE_H
#define TAPIR_BATCH_RULE_H

#include "op/op.h"

/* The op on all samples, which lie along the first axis of the result: by its rule, or with one axis more. NULL: it takes
 * one after the other. */
tp_tensor *tpi_batch_op(const tpi_batch *b);

/* In rules. Operand k with the samples along its first axis: */
tp_tensor *tpi_batch_operand(const tpi_batch *b, int k);
/* the same with axes of one element behind that, up to `rank` behind it, so that it broadcasts as it does alone; what all
 * samples share stays as it is; */
tp_tensor *tpi_batch_aligned(const tpi_batch *b, int k, int rank);
/* [samples, m, rest...] as [samples m, rest...], and back. */
tp_tensor *tpi_batch_joined(const tpi_batch *b, int k);
tp_tensor *tpi_batch_parted(const tpi_batch *b, tp_tensor *y);
/* The node's op on in[], with one axis more in front; as it is. */
tp_tensor *tpi_batch_led(const tpi_batch *b, tp_tensor *const *in);
tp_tensor *tpi_batch_same(const tpi_batch *b, tp_tensor *const *in);
#define TPI_OPERANDS(...)                                                                      \
    (tp_tensor *[])                                                                            \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }
/* Axis `from` becomes axis `to`; the others keep their order. */
tp_tensor *tpi_move_axis(tpi_at at, tp_tensor *x, int from, int to);
/* Rules: of most ops; of ops on images [m, channels, ...], which are computed by themselves; of ops that take one sample after the
 * other. */
tp_tensor *tpi_batch_by_axis(const tpi_batch *b);
tp_tensor *tpi_batch_images(const tpi_batch *b);
tp_tensor *tpi_batch_none(const tpi_batch *b);
/* Of gather, scatter and those like it, whose only attribute is the axis (index_batch.c). */
tp_tensor *tpi_batch_slices(const tpi_batch *b);

#endif
