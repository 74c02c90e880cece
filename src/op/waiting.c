#include "op/waiting.h"

#include "op/random_position.h"

#include <string.h>

bool tpi_waiting_lay_out(const tpi_infer *q, tp_tensor *y)
{
    y->flags |= TPI_LAZY;
    if (q->op->kind == TPI_VIEW) {
        const tp_tensor *x = q->in[0];
        tpi_view v = {.in = x, .out = y, .in_stride = x->stride, .attrs = q->attrs};
        if (q->op->view(&v)) {
            memcpy(y->stride, v.stride, sizeof(int64_t) * y->rank);
            tpi_note_contiguous(y);
            return true;
        }
    }
    tpi_set_strides(y);
    return false;
}

void tpi_waiting_fail(tp_tensor *y, const tp_tensor *failed)
{
    if (y->buf)
        tpi_buf_unref(y->ctx, y->buf);
    y->buf = NULL;
    y->data = NULL;
    y->status = failed->status;
    y->rank = 0;
    y->dtype = TP_F32;
    y->flags &= (uint8_t)~TPI_LAZY;
    if (failed->error) {
        y->error = failed->error;
        y->error->refs++;
    }
}

bool tpi_waiting_compute(const tpi_infer *q, tp_tensor *y)
{
    const tp_tensor *failed = NULL;
    for (int k = 0; k < q->n_in && !failed; k++)
        failed = q->in[k]->status == TP_OK ? NULL : q->in[k];
    if (!failed) {
        y->flags &= (uint8_t) ~(TPI_LAZY | TPI_CONTIGUOUS);
        const tp_tensor *done = tpi_compute(q, y);
        failed = done == y ? NULL : done;
    }
    if (failed)
        tpi_waiting_fail(y, failed);
    return !failed;
}

tp_tensor *tpi_apply_now(tp_ctx *ctx, tpi_at at, const tpi_op *op, int n_in,
                         tp_tensor *const *in, const void *attrs)
{
    tpi_frame_head *frame = ctx->frame;
    ctx->frame = NULL;
    tp_tensor *y;
    if (op->draws) { /* it has no operand to find the context by, and has its position */
        const tpi_random_attrs *r = attrs;
        const tpi_infer q = {.op = op, .at = at, .ctx = ctx, .attrs = attrs};
        y = tpi_tensor(ctx, at, (tp_dtype)r->dtype, (int)r->shape.n, r->shape.v);
        y = y ? tpi_compute(&q, y) : tpi_no_memory(ctx, at, op->name);
    } else {
        y = tpi_apply(at, op, n_in, in, attrs);
    }
    ctx->frame = frame;
    return y;
}

tp_tensor *tpi_scalar_now(tp_ctx *ctx, tpi_at at, tp_dtype dtype, double value)
{
    tpi_frame_head *frame = ctx->frame;
    ctx->frame = NULL;
    tp_tensor *t = tpi_make_scalar(ctx, at, "tp_scalar", dtype, value);
    ctx->frame = frame;
    return t;
}
