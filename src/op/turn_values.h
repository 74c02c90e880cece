/* enter, row, stack: what goes into the turns of a loop, and what comes out, so that gradients add
 * up in one order in tapes and graphs.
 *
 * enter is x itself: every tensor that a loop carries or goes over passes one, made before the
 * first turn. row is one element of it, and stack makes one tensor of the elements of all turns.
 * The contributions of all rows to the gradient of what they are of are joined (grad/sweep_ranges.c):
 * one tensor, where a padded one for each would take the square of the time. */
#ifndef TAPIR_TURN_VALUES_H
#define TAPIR_TURN_VALUES_H

#include "op/op.h"

tp_tensor *tpi_enter_turns(tpi_at at, tp_tensor *x);
/* What entered loops as x; x, if it is of none. */
tp_tensor *tpi_behind_enter(tp_tensor *x);
tp_tensor *tpi_turn_row(tpi_at at, tp_tensor *xs, int64_t index);

#endif
