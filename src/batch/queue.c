/* tp_batch: what op calls, looks and assignments are in a queue. */
#include "batch/each.h"
#include "core/variable.h"
#include "tapir/batching.h"

/* ---- ops --------------------------------------------------------------------------------------------------------- */

static bool any_waits(const tpi_queue *w, int n, tp_tensor *const *t)
{
    bool any = false;
    for (int i = 0; i < n && !any; i++)
        any = tpi_unit_of(w, t[i]) >= 0;
    return any;
}

/* Memory of the user's, who may write to it after the call. */
static bool any_wrapped(int n, tp_tensor *const *t)
{
    bool any = false;
    for (int i = 0; i < n && !any; i++)
        any = tpi_is_wrapped(t[i]);
    return any;
}

/* What needs no elements, or only looks at memory that is there, waits for nothing; a draw has its position. */
static bool comes_now(const tpi_queue *w, const tpi_op *op, int n_in, tp_tensor *const *in)
{
    return op->kind == TPI_SHAPE || op->kind == TPI_EFFECT || n_in == 0 ||
           (op->kind == TPI_VIEW && !any_waits(w, n_in < 1 ? n_in : 1, in));
}

static bool has_known_index(const tpi_infer *q)
{
    const tp_tensor *index = q->op->index_in ? q->in[q->op->index_in] : NULL;
    return index && !(index->flags & TPI_LAZY) && q->op->refuses == TPI_REFUSES_NOTHING;
}

static tp_tensor *wait(tpi_queue *w, const tpi_infer *q, bool requires)
{
    tp_ctx *ctx = w->ctx;
    tp_tensor *y = tpi_tensor(ctx, q->at, q->dtype, q->rank, q->shape);
    if (!y)
        return tpi_no_memory(ctx, q->at, q->op->name);
    const bool view = tpi_waiting_lay_out(q, y);
    if (tpi_records(ctx, q->op, (int)q->dtype, requires)) {
        if (!tpi_record(y, q->op, q->n_in, q->in, q->attrs, q->op->attrs_size))
            return tpi_no_memory(ctx, q->at, q->op->name);
        y->flags |= TPI_REQUIRES;
    }
    if (tpi_queue_add(w, q, y, view))
        return y;
    tp_tensor *failed = tpi_no_memory(ctx, q->at, q->op->name);
    tpi_waiting_fail(y, failed);
    return failed;
}

/* After a longjmp out of a sample there may be no queue any more. */
static bool is_over(tp_ctx *ctx, tpi_queue *w)
{
    if (tpi_samples_left(w))
        tpi_samples_give_up(w);
    return !ctx->frame;
}

static void queue_before_error(tp_ctx *ctx, bool asks)
{
    tpi_queue *w = (tpi_queue *)ctx->frame;
    if (!is_over(ctx, w) && w->may_fail)
        tpi_queue_settle(w, asks ? TPI_OTHERS_GO_ON : TPI_OTHERS_STAY);
}

static tp_tensor *queue_apply(tp_ctx *ctx, tpi_at at, const tpi_op *op, int n_in,
                              tp_tensor *const *in, const void *attrs, bool requires)
{
    tpi_queue *w = (tpi_queue *)ctx->frame;
    if (ctx->trap_nan || any_wrapped(n_in, in)) {
        tpi_queue_settle(w, TPI_OTHERS_STAY);
        return tpi_apply_now(ctx, at, op, n_in, in, attrs);
    }
    if (op->kind == TPI_EFFECT) /* which fails where an operand has */
        queue_before_error(ctx, true);
    if (comes_now(w, op, n_in, in))
        return tpi_apply_now(ctx, at, op, n_in, in, attrs);
    tpi_infer q = {.op = op, .at = at, .ctx = ctx, .n_in = n_in, .in = in, .attrs = attrs};
    tp_tensor *failed = tpi_infer_op(&q);
    if (failed)
        return failed;
    const bool known = has_known_index(&q);
    if (known && !tpi_indices_in_range(in, attrs)) { /* it is told at once */
        tpi_queue_settle(w, TPI_OTHERS_STAY);
        return tpi_apply_now(ctx, at, op, n_in, in, attrs);
    }
    w->may_fail |= tpi_may_refuse(op) && !known;
    tp_tensor *y = wait(w, &q, requires);
    if (w->bytes > ctx->batch_budget)
        tpi_queue_settle(w, TPI_OTHERS_STAY);
    return y;
}

static bool queue_wait(tp_ctx *ctx, const tpi_cell_side *s, tp_tensor *const *in,
                       tp_tensor *const *y)
{
    return tpi_queue_add_call((tpi_queue *)ctx->frame, s, in, y);
}

static bool queue_call(tp_ctx *ctx, const tpi_function_call *call)
{
    tpi_queue *w = (tpi_queue *)ctx->frame;
    if (is_over(ctx, w) || ctx->trap_nan || any_wrapped(call->n_in, call->in))
        return false;
    tp_tensor *failed = tpi_refuse_others(ctx, call->at, call->name, call->n_in, call->in);
    if (failed) {
        tpi_fail_all(failed, call->n_out, call->out);
        return true;
    }
    tpi_batch_cell *c = tpi_cell_of(ctx, call);
    tp_tensor *y[2 * TPI_CELL_MOST], *in[TPI_CELL_MOST];
    if (!c)
        return false;
    for (int i = 0, n = 0; i < c->forward->n_in; i++)
        if (!c->forward->in[i].shared)
            in[n++] = call->in[c->forward->in[i].n];
    const bool ok = tpi_cell_start(c->forward, call->at, in, y) &&
                    tpi_cell_record(c, call->at, call->in, y);
    for (int i = 0; i < c->n_out; i++)
        call->out[i] = ok ? y[i] : tpi_no_memory(ctx, call->at, call->name);
    if (w->bytes > ctx->batch_budget)
        tpi_queue_settle(w, TPI_OTHERS_STAY);
    return true;
}

/* What reads the variable comes before. */
static tp_tensor *queue_assign(tpi_at at, tp_tensor *var, tp_tensor *value)
{
    tpi_queue *w = (tpi_queue *)var->ctx->frame;
    if (!is_over(var->ctx, w) && tpi_is_shared(var->ctx, var))
        return tpi_fail_shared(var->ctx, at, "tp_assign");
    tp_tensor *failed = tpi_refuse_assign(at, var, value);
    if (failed)
        return failed;
    var->ctx->looks++;
    if (var->ctx->frame)
        tpi_queue_settle(w, TPI_OTHERS_GO_ON);
    return value->status == TP_OK ? tpi_assign_concrete(at, var, value) : value;
}

/* ---- looks --------------------------------------------------------------------------------------------------------- */

/* Is it of more than a sample's own values, or seen outside of the program? */
static bool takes_turn(const tp_tensor *t, tpi_look look)
{
    return look == TPI_LOOK_EFFECT || look == TPI_LOOK_SHOW || (!t && look < TPI_LOOK_EFFECT);
}

static void queue_look(tp_ctx *ctx, tpi_at at, const tp_tensor *t, tpi_look look)
{
    tpi_queue *w = (tpi_queue *)ctx->frame;
    (void)at;
    if (look == TPI_LOOK_SYMBOL || is_over(ctx, w))
        return;
    ctx->looks++;
    if (takes_turn(t, look))
        tpi_samples_take_turn(w);
    if (look < TPI_LOOK_EFFECT && (!t || tpi_unit_of(w, t) >= 0 || t->flags & TPI_VARIABLE))
        tpi_queue_settle(w, TPI_OTHERS_GO_ON);
}

static void queue_take_turn(tp_ctx *ctx)
{
    tpi_queue *w = (tpi_queue *)ctx->frame;
    if (!is_over(ctx, w))
        tpi_samples_take_turn(w);
}

static void queue_come_back(tp_ctx *ctx)
{
    (void)is_over(ctx, (tpi_queue *)ctx->frame);
}

static tp_tensor *queue_refuse_draw(tp_ctx *ctx, tpi_at at)
{
    tpi_queue *w = (tpi_queue *)ctx->frame;
    return is_over(ctx, w) ? NULL : tpi_samples_refuse_draw(w, at);
}

static void queue_answered(tp_ctx *ctx, tpi_at at, const tp_tensor *t, bool truth)
{
    (void)ctx, (void)at, (void)t, (void)truth;
}

void tpi_queue_close(tpi_queue *w)
{
    tp_ctx *ctx = w->ctx;
    tpi_queue_flush(w);
    ctx->frame = NULL;
    tpi_queue_free(w);
}

/* What was left by longjmp. */
static void queue_leave(tp_ctx *ctx)
{
    tpi_queue *w = (tpi_queue *)ctx->frame;
    w->running = false;
    if (w->samples)
        tpi_samples_give_up(w);
    if (ctx->frame)
        tpi_queue_close(w);
}

static const tpi_frame_rules rules = {.apply = queue_apply,
                                      .scalar = tpi_scalar_now,
                                      .call = queue_call,
                                      .wait = queue_wait,
                                      .assign = queue_assign,
                                      .take_turn = queue_take_turn,
                                      .come_back = queue_come_back,
                                      .refuse_draw = queue_refuse_draw,
                                      .look = queue_look,
                                      .answered = queue_answered,
                                      .before_error = queue_before_error,
                                      .leave = queue_leave};

/* ---- the block ------------------------------------------------------------------------------------------------------ */

tpi_queue *tpi_queue_of(const tp_ctx *ctx)
{
    return ctx->frame && ctx->frame->rules == &rules ? (tpi_queue *)ctx->frame : NULL;
}

tpi_queue *tpi_queue_open(tp_ctx *ctx)
{
    tpi_queue *w = tpi_take(&ctx->mem, sizeof *w);
    if (!w)
        return NULL;
    *w = (tpi_queue){.head = {&rules}, .ctx = ctx};
    tpi_queue_clear(w);
    ctx->frame = &w->head;
    return w;
}

tp_batch_block tp_batch_begin(tp_ctx *tp)
{
    tp_batch_block b = {.tp = tp};
    if (tp)
        tpi_come_back(tp);
    if (!tp || tp->frame)
        return b;
    TPI_ALONE_OR(tp, TPI_AT(NULL, 0), "tp_batch", b);
    b.queue = tpi_queue_open(tp);
    return b;
}

bool tp_batch_next(tp_batch_block *b)
{
    if (!b)
        return false;
    const bool enters = !b->entered;
    b->entered = true;
    if (!enters)
        tp_batch_left(b);
    return enters;
}

void tp_batch_left(tp_batch_block *b)
{
    if (!b)
        return;
    if (b->tp)
        tpi_come_back(b->tp);
    if (b->tp && b->queue && b->tp->caller.sample) {
        tpi_fail_status(b->tp, TPI_AT(NULL, 0), "tp_batch", TP_E_STATE,
                        "a sample of tp_batch_each leaves the block around it");
        return;
    }
    if (b->tp && b->queue && (void *)b->tp->frame == b->queue)
        tpi_queue_close(b->queue);
    b->queue = NULL;
}

size_t tp_batch_budget(tp_ctx *tp, size_t bytes)
{
    if (!tp)
        return 0;
    const size_t was = tp->batch_budget;
    tp->batch_budget = bytes;
    return was;
}

bool tp_batch_measure(tp_ctx *tp, bool on)
{
    const bool was = tp && tp->batch_measured;
    if (tp)
        tp->batch_measured = on;
    return was;
}

tp_batch_counts tp_batch_counts_of(const tp_ctx *tp)
{
    return tp ? tp->batch_counts : (tp_batch_counts){0};
}
