/* A body of one sample, run on many: each node becomes one op on all samples (op/batch.h). */
#ifndef TAPIR_MANY_H
#define TAPIR_MANY_H

#include "ir/body.h"

/* What stands for a node of the body. */
typedef struct tpi_many_value tpi_many_value;
struct tpi_many_value {
    tp_tensor *t;            /* NULL: none yet */
    tpi_many_value *outputs; /* of a block */
    bool many; /* the samples lie along its first axis; else it is the same for all */
};

typedef struct tpi_many {
    tp_ctx *ctx;
    tpi_at at;        /* of tp_vmap */
    int64_t samples;  /* a size */
    tp_graph *around; /* in which nodes are put; NULL: all is concrete */
    bool draws_once;  /* random numbers are the same for all samples */
    tpi_bump *memory; /* of what lives as long as the call */
} tpi_many;

extern const char tpi_many_draws[]; /* why it is refused, else */

/* All that outputs of the body need, from what its params have in value[], by node. NULL, or the failed tensor. */
tp_tensor *tpi_many_run(const tpi_many *m, const tpi_body *body, tpi_many_value *value);
/* A block: sets to->outputs. NULL, or the failed tensor (many_block.c). */
tp_tensor *tpi_many_block(const tpi_many *m, const tp_tensor *block, tpi_many_value *value);
/* A value with the samples along its first axis. */
tp_tensor *tpi_many_spread(const tpi_many *m, tpi_many_value v);

#endif
