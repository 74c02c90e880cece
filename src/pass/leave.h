/* Graphs that leave the process as a file. What is made to leave from the beginning, a captured function's graph, never
 * has what could not (tp_graph.leaves). */
#ifndef TAPIR_LEAVE_H
#define TAPIR_LEAVE_H

#include "pass/pass.h"

/* Has it no kernel of the user's? */
bool tpi_leaves_as_it_is(const tp_graph *g);
/* That of a pruned graph, which is used up; NULL: the context's error tells. */
tp_graph *tpi_make_leave(tp_graph *g, int n_feeds, tp_tensor **feeds, int n_roots,
                         tp_tensor **roots);

#endif
