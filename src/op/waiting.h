/* Ops that are called and not computed yet (TPI_LAZY), for who stands between the two: captured functions (capture/run)
 * and queues (batch). */
#ifndef TAPIR_WAITING_H
#define TAPIR_WAITING_H

#include "op/op.h"

/* y, which has type and shape, gets strides and waits. True: it will be a view of its operand. */
bool tpi_waiting_lay_out(const tpi_infer *q, tp_tensor *y);
/* Gives it its value; where the op fails, or an operand has, it becomes a failed tensor. False: it has. */
bool tpi_waiting_compute(const tpi_infer *q, tp_tensor *y);
void tpi_waiting_fail(tp_tensor *y, const tp_tensor *failed);
/* The op at once, whoever stands between. A draw has its position. Never NULL. */
tp_tensor *tpi_apply_now(tp_ctx *ctx, tpi_at at, const tpi_op *op, int n_in,
                         tp_tensor *const *in, const void *attrs);
/* tp_scalar, whoever stands between. */
tp_tensor *tpi_scalar_now(tp_ctx *ctx, tpi_at at, tp_dtype dtype, double value);

#endif
