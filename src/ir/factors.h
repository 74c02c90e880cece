/* Axis factors of a node's operands (ir/node.h): rules that ops share, and what is asked of them. */
#ifndef TAPIR_FACTORS_H
#define TAPIR_FACTORS_H

#include "ir/node.h"

/* In rules: the axes of an operand from `first` to `end` - 1 are passed to those `by` further on. */
void tpi_pass_axes(tpi_factor *f, int first, int end, int by);
/* Rules of ops that need each operand whole, that pass all axes, */
void tpi_whole_factors(const tp_tensor *node, int k, tpi_factor *f);
void tpi_same_factors(const tp_tensor *node, int k, tpi_factor *f);
/* all but one, that of the attribute which comes first, */
void tpi_along_factors(const tp_tensor *node, int k, tpi_factor *f);
/* and whose operands have the last axes of the result, as elementwise ops and broadcast. */
void tpi_stretch_factors(const tp_tensor *node, int k, tpi_factor *f);

/* Of operand k of a node, by its axes. */
void tpi_factors_of(const tp_tensor *node, int k, tpi_factor f[TP_MAX_RANK]);
/* Are positions of the result along `axis` computed from those positions of operands, and from what all of
 * them read? Then some of them can be computed by themselves. */
bool tpi_passes(const tp_tensor *node, int axis);
/* Of a view that repeats elements along some axes: what it repeats; NULL: it repeats none. */
tp_tensor *tpi_stretched_by(const tp_tensor *node);
/* Are the axes of operand 0 in another order in the result? */
bool tpi_turns_axes(const tp_tensor *node);
/* Is it a matrix product? It sums along the last axis of operand 0. */
bool tpi_is_product(const tp_tensor *node);
/* The axis of operand k that is passed to `axis` of the result; -1: none is. */
int tpi_passed_from(const tp_tensor *node, int k, int axis);

#endif
