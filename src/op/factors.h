/* Axis factors of a node's operands (ir/node.h), and what is asked of them. */
#ifndef TAPIR_FACTORS_H
#define TAPIR_FACTORS_H

#include "op/op.h"

/* Of elementwise ops and of broadcast, whose operands have the last axes of the result. */
void tpi_stretch_factors(const tp_tensor *node, int k, tpi_factor *f);
/* Of ops that keep the rank and need one axis whole, that of the attribute which comes first. */
void tpi_along_factors(const tp_tensor *node, int k, tpi_factor *f);

/* Of operand k of a node, by its axes. */
void tpi_factors_of(const tp_tensor *node, int k, tpi_factor f[TP_MAX_RANK]);
/* Are positions of the result along `axis` computed from those positions of operands, and from what all of
 * them read? Then some of them can be computed by themselves. */
bool tpi_passes(const tp_tensor *node, int axis);
/* The axis of operand k that is passed to `axis` of the result; -1: none is. */
int tpi_passed_from(const tp_tensor *node, int k, int axis);

#endif
