/* A call of a function as one node to gradients.
 *
 *     %4 = ... what is computed inside ...
 *     %5 = call %0, %1 {function=3}      all that a gradient may be asked of through the call
 *     %6 = result %4, %5                 what outside computes with; shares %4's memory
 *
 * A sweep that comes to a result goes on at the call, and at the call runs a sweep of its own
 * inside, from the results to the operands: contributions inside are added up inside first. To
 * all else a result is what it shares memory with, and programs never see either. */
#ifndef TAPIR_CALL_H
#define TAPIR_CALL_H

#include "ir/effects.h"

/* A call of that number over operands; a value inside, as one of the results of a call. */
tp_tensor *tpi_call_new(tpi_at at, int64_t function, int n, tp_tensor *const *operands);
tp_tensor *tpi_call_result(tpi_at at, tp_tensor *inside, tp_tensor *call);

/* Ties n values computed inside a call to it. out[i] is a `result` of one `call` over the
 * operands; or inner[i] itself when nothing is recorded, when it is no computed float that requires
 * a gradient, or when it is an operand. Equal inner[i] have equal out[i]; the arrays may be one.
 *
 * Operands, symbolic or concrete, are all tensors that require a gradient and that the inside
 * used, or returns, but did not compute: what is missing here gets no gradient. Others among
 * them do no harm. False: out[] has failed tensors, because memory is out. */
bool tpi_call_tie(tp_ctx *ctx, tpi_at at, int64_t function, int n_operands,
                  tp_tensor *const *operands, int n, tp_tensor *const *inner, tp_tensor **out);

/* All that require a gradient among the tensors at which a walk from out[n] stops: the operands of a
 * call whose results these are, in a list that the caller frees. None when nothing is recorded.
 * False: no memory. */
bool tpi_call_operands(tpi_nodes *operands, int n, tp_tensor *const *out,
                       bool (*stop)(void *user, const tp_tensor *t), void *user);

/* The same for a turn of a block, over what out[n] were computed from: the operands are the tensors
 * at which a walk from them stops. Every out[i] that may be asked gets a result of its own, also
 * when it is an operand, or another's equal: as every output of a block is a node of its own. */
bool tpi_call_tie_turn(tp_ctx *ctx, tpi_at at, bool (*stop)(void *user, const tp_tensor *t),
                       void *user, int n, tp_tensor **out);

#endif
