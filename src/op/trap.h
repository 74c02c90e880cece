/* The NaN trap (tp_trap_nan): the first op that makes a NaN fails. */
#ifndef TAPIR_TRAP_H
#define TAPIR_TRAP_H

#include "ir/node.h"

/* Has the result of a run a NaN that comes from no operand? *at is then its row-major position. */
bool tpi_makes_nan(const tpi_run *r, int64_t *at);
/* False: r->failed says where the NaN is. */
bool tpi_trap(tpi_run *r);

#endif
