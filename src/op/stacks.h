/* Stacks of matrices [..., m, n], as the ops of linear algebra use them. */
#ifndef TAPIR_STACKS_H
#define TAPIR_STACKS_H

#include "op/sizes.h"

/* In shape rules: operand i has at least two axes and floats; and its last two are one size. */
bool tpi_infer_stack(tpi_infer *q, int i);
bool tpi_infer_square(tpi_infer *q, int i);
/* In wrappers: the failed tensor when x is no good stack of matrices of floats, or, `square`, of square ones. */
tp_tensor *tpi_refuse_stack(tpi_at at, const char *what, const char *name, tp_tensor *x,
                            bool square);
/* The leading axes are passed, matrices are needed whole. */
void tpi_stack_factors(const tp_tensor *node, int k, tpi_factor *f);

/* x with zeros below (above) the diagonal, on it too if `strict`. */
tp_tensor *tpi_triangle(tpi_at at, tp_tensor *x, bool upper, bool strict);
/* The unit matrix of the last axis of x, for every matrix of its stack. */
tp_tensor *tpi_unit(tpi_at at, tp_tensor *x);

#endif
