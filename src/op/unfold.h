/* What a tape has as one node becomes the nodes of its ops, which are called for that (tpi_op.unfold). */
#ifndef TAPIR_UNFOLD_H
#define TAPIR_UNFOLD_H

#include "ir/graph_def.h"

/* Around the calls: recorded, on concrete tensors that have their values, at once, whatever goes on. */
typedef struct tpi_unfolding {
    tp_ctx *ctx;
    tpi_aside earlier;
    tpi_paused around;
    bool recording, unfolding, trap_nan, reads_file, open;
    uint64_t began; /* nodes that are not older were made since */
} tpi_unfolding;
bool tpi_unfold_begin(tpi_unfolding *u, tp_ctx *ctx);
/* Restores all; what failed is forgotten. Returns ok. */
bool tpi_unfold_end(tpi_unfolding *u, bool ok);
/* What y[n] are computed by was called where t was: at most `most` numbers of program order before it, and with t's
 * operands as they were. False: no memory, or too many. */
bool tpi_unfold_order(const tpi_unfolding *u, const tp_tensor *t, uint64_t most, int n,
                      tp_tensor *const *y);
/* t and y take each other's place on the tape. */
void tpi_unfold_exchange(tp_tensor *t, tp_tensor *y);

#endif
