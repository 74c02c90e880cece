/* The graph of a program: what it computes, and nothing else. */
#ifndef TAPIR_PRUNE_H
#define TAPIR_PRUNE_H

#include "ir/graph_def.h"

/* A graph of what `roots` need, of which the fed nodes are placeholders, and, with `freeze`,
 * variables are constants of the value they have now. The results of calls are the values they
 * share. On success roots[] and
 * feeds[] are its nodes, also those that nothing needs, whose sizes count. NULL: the context's
 * error tells. */
tp_graph *tpi_prune(tp_graph *g, bool freeze, int n_feeds, tp_tensor **feeds, int n_roots,
                    tp_tensor **roots);
/* The bytes of the constants in g and its bodies: of those that were folded, or of the others. */
size_t tpi_constant_bytes(const tp_graph *g, bool folded);

#endif
