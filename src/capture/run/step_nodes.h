/* What was recorded as nodes of a graph: each op, and what goes in and out of a program. */
#ifndef TAPIR_STEP_NODES_H
#define TAPIR_STEP_NODES_H

#include "capture/capture_def.h"

enum { TPI_OWN_DRAW = -1 };

/* Operand k as a node; NULL: there is none. */
typedef tp_tensor *(*tpi_operand_fn)(void *user, int k);

/* The op as a node of g. A random op draws where the run says that its `draw`-th draw is; TPI_OWN_DRAW: where the
 * graph's own draws are. NULL: an operand is missing. */
tp_tensor *tpi_step_node(tp_graph *g, tpi_at at, const tpi_op *op, const void *attrs, int n_in,
                         tpi_operand_fn operand, void *user, int draw);
/* The placeholder i0, i1, ...; the output o0, o1, ... False: memory is out, or y failed. */
tp_tensor *tpi_program_input(tp_graph *g, int i, tp_dtype dtype, int rank,
                             const int64_t *shape);
bool tpi_program_output(tp_graph *g, int i, tp_tensor *y);

#endif
