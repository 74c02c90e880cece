/* Nodes that are there for what they stand for, not for a value: call and result (op/call.h), assign and
 * group. */
#ifndef TAPIR_EFFECTS_H
#define TAPIR_EFFECTS_H

#include "ir/graph_def.h"

/* Numbers that are no function's: of all turns of blocks, of the sweep inside one, and of the first function when its
 * call was replayed, so that nothing inside is kept. */
enum { TPI_CALL_BLOCK = -1, TPI_CALL_SWEEP = -2, TPI_CALL_REPLAYED = -3 };

typedef struct tpi_call_attrs {
    int64_t function; /* a number for the reader of a graph */
} tpi_call_attrs;

/* The number of a replayed call of a function, and back. */
static inline int64_t tpi_replayed_call_of(int64_t function)
{
    return TPI_CALL_REPLAYED - function;
}
static inline bool tpi_is_replayed_call(const tp_tensor *call)
{
    return ((const tpi_call_attrs *)call->attrs)->function <= TPI_CALL_REPLAYED;
}

#endif
