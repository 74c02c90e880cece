/* tapir: gradients, by one reverse sweep over what ran or over a static graph.
 *
 * Ops on tensors that require a gradient are recorded while recording is on (as it is at
 * first). Gradients are made of ordinary ops, so gradients of gradients need nothing more. */
#ifndef TAPIR_GRAD_H
#define TAPIR_GRAD_H

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks a concrete float tensor that nothing was computed from yet as one gradients may be
 * asked of. What was computed from it before, while recording was on, is not recorded: where y depends on
 * it that way, tp_grad and tp_backward fail (TP_E_STATE); all else is taken, but for what was computed
 * between the first use and the mark in a program that reads more than 64 tensors without one. Symbolic
 * tensors need no mark.
 * Returns `t`. */
TP_FN(tp_tensor *, tp_require_grad, tp_tensor *t);
#define tp_require_grad(t) tp_require_grad_at(TP_PLACE, TP_OPERAND(t))
/* Is `t` marked, recorded as computed from something marked, or symbolic? */
TP_API bool tp_requires_grad(const tp_tensor *t);
#define tp_requires_grad(t) tp_requires_grad(TP_READ_OPERAND(t))

/* Turns recording on or off; returns how it was. What is made while it is off, in a graph too,
 * is a constant to gradients. */
TP_API bool tp_recording(tp_ctx *tp, bool on);

/* Adds d(sum of y's elements)/dt to the gradient of every marked t that y was computed from.
 * y is concrete. The sweep itself is not recorded. */
TP_FN(tp_status, tp_backward, tp_tensor *y);
#define tp_backward(y) tp_backward_at(TP_PLACE, TP_OPERAND(y))
/* What tp_backward has added up so far; zeros when nothing was. Like any result it belongs to the open
 * scope and keeps its value, also when more is added, or after tp_zero_grad. */
TP_FN(tp_tensor *, tp_grad_of, tp_tensor *t);
#define tp_grad_of(t) tp_grad_of_at(TP_PLACE, TP_OPERAND(t))
TP_API void tp_zero_grad(tp_tensor *t);
#define tp_zero_grad(t) tp_zero_grad(TP_OPERAND(t))

/* d(sum of y's elements)/dx, of x's shape; zeros when y does not depend on x, as a concrete y does not on
 * a symbolic x. A concrete x has to require a gradient (TP_E_STATE, as for what a captured function computed and did not
 * return). Recorded like any other computation. In a graph it adds nodes. Contributions to dx
 * add up in reverse order of the calls that made them. */
TP_FN(tp_tensor *, tp_grad, tp_tensor *y, tp_tensor *x);
#define tp_grad(y, x) tp_grad_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(x))
/* The same for n tensors at once, in one sweep, into dx[n]. `dy` of y's shape weighs its
 * elements (NULL: ones): the vector-Jacobian product. Every dx is set, failed ones included. */
TP_FN(tp_status, tp_grads, tp_tensor *y, tp_tensor *dy, int n, tp_tensor *const *xs,
      tp_tensor **dx);
#define tp_grads(y, dy, ...) tp_grads_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(dy), __VA_ARGS__)

/* Compares the gradient of f at xs (concrete f64) with central differences. f gives any shape;
 * its elements are weighed by fixed random numbers. `max_error` gets the largest difference,
 * relative to max(1, |difference quotient|). */
typedef tp_tensor *(*tp_checked_function)(void *user, int n, tp_tensor *const *xs);
TP_FN(tp_status, tp_grad_check, tp_checked_function f, void *user, int n, tp_tensor *const *xs,
      double *max_error);
#define tp_grad_check(...) tp_grad_check_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
