/* A loop or a cond that reads what others keep for it is built anew, so that it computes some of that again. */
#ifndef TAPIR_REBUILD_H
#define TAPIR_REBUILD_H

#include "ir/graph_def.h"

/* What the new reader computes again, and what is kept for it. */
typedef struct tpi_keeping {
    void *user;
    /* Is x, an operand of the reader or of a block that it reads, a value that is computed again? */
    bool (*is_again)(void *user, const tp_tensor *x);
    /* Does a block keep this node of its body? Else it is made again of its operands. NULL: no block does. */
    bool (*is_kept)(void *user, const tp_tensor *x);
    bool must; /* blocks cannot keep the others, so what else reads them is refused */
} tpi_keeping;

/* The new block, the last node of g, takes the place of `reader`. False: the error is set, or no memory. */
bool tpi_rebuild_reader(const tpi_keeping *keeping, tp_graph *g, tp_tensor *reader);

#endif
