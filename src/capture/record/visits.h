/* All recordings of a flow as visits of its basic blocks.
 *
 * The items of all recordings are numbered through, and so are these visits and the edges of all nodes. The value of an
 * operand is the number of the item that made it, or ~extern. */
#ifndef TAPIR_VISITS_H
#define TAPIR_VISITS_H

#include "capture/record/flow.h"

typedef struct tpi_visits {
    const tpi_flow *w;
    int32_t *all; /* the memory of all lists */
    size_t bytes;
    int32_t *first_item, *first_visit; /* by recording, and one more */
    int32_t *start,
        *entered; /* by visit: its first item; the edge by which the block was entered */
    int32_t *visit_of, *next;   /* by item: its visit; where its node runs again */
    int32_t *first_run, *runs;  /* by node, and one more: its items, in order */
    int32_t *first_edge, *from; /* by node: its first edge; by edge: its node */
    int32_t *first_in, *in;     /* by node, and one more: edges that lead to it */
    int32_t *block;             /* by node: the one that its basic block begins with */
} tpi_visits;

/* Also marks which nodes begin a basic block, and of which some recording computed nothing. False: memory is out. To
 * be freed either way. */
bool tpi_visits_find(tpi_visits *p, tpi_flow *w);
void tpi_visits_free(tpi_visits *p);

/* Which recording an item is of. */
int tpi_trace_of(const tpi_visits *p, int32_t item);
/* What operand k of the item was. */
int32_t tpi_value_read(const tpi_visits *p, int trace, int32_t item, int k);
/* The node that an item is. */
int tpi_node_run(const tpi_visits *p, int trace, int32_t item);
/* The last item before this one that is of the node; -1: none. */
int32_t tpi_last_run(const tpi_visits *p, int node, int32_t before);
const tpi_edge *tpi_edge_numbered(const tpi_visits *p, int32_t edge);

#endif
