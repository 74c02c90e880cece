/* Nodes of a graph computed again and in another order, for a memory limit (plan/budget.c). */
#ifndef TAPIR_REARRANGE_H
#define TAPIR_REARRANGE_H

#include "ir/graph_def.h"

typedef struct tpi_rearrangement {
    const bool
        *again; /* by node: it is computed once more; no source, no block. NULL: none is */
    const bool *late;   /* by node: it reads what is computed once more, not the first value */
    const int64_t *key; /* by node: where it stands, as far as its operands allow */
    int64_t again_key;  /* where the copies stand */
} tpi_rearrangement;
/* In place, to be followed by tpi_tidy. False: no memory. */
bool tpi_rearrange(tp_graph *g, const tpi_rearrangement *r);

#endif
