/* What a block would read of the turns of another one is computed again. */
#ifndef TAPIR_RECOMPUTE_H
#define TAPIR_RECOMPUTE_H

#include "ir/graph_def.h"

/* One level of tpi_make_runnable, in place. False: the error is set, or no memory. */
bool tpi_again(tp_graph *g, int *n_changes);

#endif
