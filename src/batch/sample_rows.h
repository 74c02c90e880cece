/* Tensors of single samples as parts of one tensor of all. */
#ifndef TAPIR_SAMPLE_ROWS_H
#define TAPIR_SAMPLE_ROWS_H

#include "core/core.h"

/* t[0], t[step] ... of n samples, all of one type and shape: along an axis in front, or (joined) along their first one.
 * Where they lie so already nothing is copied. NULL: no memory. */
tp_tensor *tpi_samples_join(tp_ctx *ctx, tpi_at at, int n, tp_tensor *const *t, int step,
                            bool joined);
/* The way back: y, which waits, becomes the part of sample i. */
void tpi_sample_share(tp_tensor *all, int i, tp_tensor *y, bool joined);

#endif
