/* Nodes of a graph that are computed once more, for some of those that read them.
 *
 *     %4 = relu %3, ... much else ..., %90 = mul %89 %4
 *  -> %4 = relu %3, ... much else ..., %90 = relu %3, %91 = mul %89 %90 */
#ifndef TAPIR_COPIES_H
#define TAPIR_COPIES_H

#include "base/bump.h"
#include "ir/graph_def.h"

typedef struct tpi_copies {
    tpi_bump *memory; /* of the lists */
    tp_graph *g;
    void *user;
    /* In which part of the graph does the node stand? */
    int (*part)(void *user, const tp_tensor *t);
    /* Does `reader`, which stands in that part, or a copy of it there, read a copy of x? */
    bool (*wants)(void *user, const tp_tensor *reader, const tp_tensor *x, int part);
    int n;            /* nodes that there were; the copies are behind them */
    tp_tensor **made; /* by node: its last copy; NULL: none */
    int *made_in;     /* by node: the part in which that stands */
} tpi_copies;

/* Makes the copies, in place and in time where the nodes are. Counts changes; false: no memory. */
bool tpi_copies_make(tpi_copies *a, int *n_changes);

#endif
