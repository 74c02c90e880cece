/* What an op on one sample becomes on many. */
#ifndef TAPIR_BATCH_H
#define TAPIR_BATCH_H

#include "op/op.h"

/* One use of an op on many samples at once. */
typedef struct tpi_batch {
    const tp_tensor *node; /* the op on one sample: its attributes, types and sizes */
    tpi_at at;
    int64_t n;           /* samples: a size */
    tp_tensor *const *x; /* the operands: */
    const bool *many;    /* the samples lie along its first axis; else it is the same for all */
} tpi_batch;

/* The op on all samples, which lie along the first axis of the result. Each has the bits that the op alone gives it.
 * NULL: it takes one after the other. */
tp_tensor *tpi_batch_op(const tpi_batch *b);

/* In rules. Operand k with the samples along its first axis: */
tp_tensor *tpi_batch_operand(const tpi_batch *b, int k);
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
/* Of gather, scatter and those like it, whose only attribute is the axis (batch_slices.c). */
tp_tensor *tpi_batch_slices(const tpi_batch *b);

#endif
