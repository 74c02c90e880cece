/* Rules along one axis that gradients share. */
#ifndef TAPIR_LINES_H
#define TAPIR_LINES_H

#include "op/op.h"

/* Every element of t moves one place on along the axis, and `value` comes in at the start;
 * reverse: toward the start, and in at the end. */
tp_tensor *tpi_move_on(const tpi_grad *g, tp_tensor *t, int axis, bool reverse, double value);

#endif
