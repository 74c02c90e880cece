/* Nodes that are there for what they stand for, not for a value: call and result (op/call.h), assign and
 * group. */
#ifndef TAPIR_EFFECTS_H
#define TAPIR_EFFECTS_H

#include "ir/graph_def.h"

enum { TPI_CALL_BLOCK = -1 }; /* the number of all turns of blocks */

typedef struct tpi_call_attrs {
    int64_t function; /* a number for the reader of a graph */
} tpi_call_attrs;

#endif
