/* From a loop nest of the plan to its loop program. */
#ifndef TAPIR_NEST_H
#define TAPIR_NEST_H

#include "lower/loop.h"
#include "plan/plan.h"

/* What of a nest is computed at a time: boxes of outer places and rows, whose axes stay apart. Before: axes of the
 * plan's space. After: of the program. */
typedef struct tpi_nest_box {
    int n_outer; /* the first so many axes; */
    int row;     /* one behind them; -1: none */
    int64_t
        per_row; /* after: elements of the row's axis for each row, since other axes joined it */
} tpi_nest_box;

/* The program of kernel k, a loop nest. `symbols`: their values, and all sizes are numbers; NULL: they stay symbolic.
 * `box`: NULL, or what is computed at a time. False: no memory, and memory->failed is set. */
bool tpi_lower_nest(tpi_bump *memory, const tpi_plan *plan, const tpi_kernel *k,
                    const int64_t *symbols, tpi_nest_box *box, tpi_loop *out);

/* The program of each nest keeps the rules (lower/loop_verify.h). False: TP_E_BUG with the program, or no memory. */
bool tpi_verify_nests(const tpi_plan *plan);

#endif
