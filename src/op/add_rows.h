/* The gradient of a right matrix when the rows that it is a sum over come a few at a time.
 *
 * dw = x^T dy is a sum over rows, in the order of a contraction. A loop meets some of the rows in each
 * turn, so it carries what is known after them: a state [2 k + 1, n] for dw of [k, n], of which
 * kernel/text/addrows.h says what it holds. In the end dw has the bits of one product of all rows joined. */
#ifndef TAPIR_ADD_ROWS_H
#define TAPIR_ADD_ROWS_H

#include "op/op.h"

/* The shape of w's state: two sizes. False: too large. */
bool tpi_rows_shape(const tp_tensor *w, int64_t *shape);
/* No rows yet, for a matrix like w. */
tp_tensor *tpi_rows_none(tpi_at at, const tp_tensor *w);
/* And then those of x [m, k] and dy [m, n]. */
tp_tensor *tpi_rows_add(tpi_at at, tp_tensor *state, tp_tensor *x, tp_tensor *dy);
/* Their sum, like w; zeros of no rows. */
tp_tensor *tpi_rows_sum(tpi_at at, tp_tensor *state, const tp_tensor *w);

#endif
