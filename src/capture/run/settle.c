/* Computing what is pending. */
#include "capture/record/launches.h"
#include "op/waiting.h"

#include <stddef.h>
#include <string.h>

/* ---- whose elements are wanted ----------------------------------------------------------------- */

static void count_one(tpi_frame *fr, const tp_tensor *t)
{
    const int i = tpi_pending_of(fr, t);
    if (i >= 0)
        fr->pending[i].counted++;
}

/* When a body is long, what is pending lies in no near cache any more: what the i-th step after next will be asked. */
static inline void fetch_ahead(const tpi_frame *fr, int i, size_t what)
{
    enum { AHEAD = 8 };
    if (i + AHEAD >= fr->n_pending)
        return;
    const tpi_pending *p = &fr->pending[i + AHEAD];
    __builtin_prefetch(p->value);
    for (int k = 0; k < p->n_in && k < 3; k++)
        __builtin_prefetch((const char *)tpi_operand(fr, p, k) + what);
}

/* Counts the references of a pending value that the frame itself and the tape hold; those beyond
 * are somebody's handles. (Not in the tensors' slots: a gradient may be under way.) True: there are
 * assignments. *crossing: there are several segments. */
static bool count_references(tpi_frame *fr, bool *crossing)
{
    bool assigns = false;
    *crossing = false;
    for (int i = 0; i < fr->n_pending; i++) { /* operands come before what is made of them */
        tpi_pending *p = &fr->pending[i];
        fetch_ahead(fr, i, offsetof(tp_tensor, number));
        p->counted = 1;
        p->need = p->alive = false;
        *crossing |= p->step->cut && i + 1 < fr->n_pending;
        for (int k = 0; k < p->n_in; k++)
            count_one(fr, tpi_operand(fr, p, k));
        if (p->step->kind ==
            TPI_STEP_ASSIGN) { /* one reference, however often it was assigned */
            tp_tensor *var = tpi_operand(fr, p, 0);
            assigns = true;
            if (var->buf->assigned == tpi_operand(fr, p, 1) && !(var->flags & TPI_MARK)) {
                count_one(fr, var->buf->assigned);
                var->flags |= TPI_MARK;
            }
            continue;
        }
        for (int k = 0; k < p->value->n_in; k++)
            count_one(fr, p->value->in[k]);
    }
    for (int i = 0; i < fr->n_pending && assigns; i++)
        if (fr->pending[i].step->kind == TPI_STEP_ASSIGN)
            tpi_operand(fr, &fr->pending[i], 0)->flags &= (uint8_t)~TPI_MARK;
    return assigns;
}

static void want(tpi_frame *fr, const tp_tensor *t)
{
    const int i = tpi_pending_of(fr, t);
    if (i >= 0)
        fr->pending[i].need = true;
}

/* What another segment computes with is wanted. */
static void mark_crossing(tpi_frame *fr)
{
    int start = 0;
    for (int i = 0; i < fr->n_pending; i++) {
        const tpi_pending *p = &fr->pending[i];
        for (int k = 0; k < p->n_in && start; k++) {
            const int x = tpi_pending_of(fr, tpi_operand(fr, p, k));
            if (x >= 0 && x < start)
                fr->pending[x].need = true;
        }
        if (p->step->cut)
            start = i + 1;
    }
}

/* Going back: a value is alive when somebody holds it, or what was recorded from it is alive. */
static void mark_needed(tpi_frame *fr)
{
    const bool turns = fr->has_turns || fr->f->ctx->caller.blocks;
    for (int i = fr->n_pending - 1; i >= 0; i--) {
        tpi_pending *p = &fr->pending[i];
        if (p->step->kind == TPI_STEP_ASSIGN) {
            want(fr, tpi_operand(fr, p, 1));
            continue;
        }
        const tpi_op *op = p->step->op;
        const bool held = p->value->refs > p->counted;
        p->alive |= held;
        p->need |= held;
        if (p->alive && p->value->n_in) {
            for (int k = 0; k < p->value->n_in; k++) {
                const int x = tpi_pending_of(fr, p->value->in[k]);
                if (x < 0)
                    continue;
                fr->pending[x].alive = true;
                fr->pending[x].need |= op->grad_reads_x || turns;
            }
            p->need |= op->grad_reads_y || turns;
        }
        if (p->need && p->view)
            want(fr, tpi_operand(fr, p, 0)); /* whose memory it will share */
        p->step->needed |= p->need;
    }
}

/* ---- one by one, as eagerly --------------------------------------------------------------------------- */

/* The last pending assignment of this variable, at or before i, whose value is good; -1: none. */
static int last_good(const tpi_frame *fr, const tp_tensor *var, int i)
{
    for (; i >= 0; i--) {
        const tpi_pending *p = &fr->pending[i];
        if (p->step->kind == TPI_STEP_ASSIGN && tpi_operand(fr, p, 0) == var &&
            tpi_operand(fr, p, 1)->status == TP_OK)
            return i;
    }
    return -1;
}

/* An assignment that failed leaves the variable as it was, for what comes after it too. */
static tp_tensor *operand_now(const tpi_frame *fr, int i, int k)
{
    const tpi_pending *p = &fr->pending[i];
    tp_tensor *x = tpi_operand(fr, p, k);
    if (x->status == TP_OK || k >= 64 || !(p->assigned >> k & 1))
        return x;
    for (int a = i - 1; a >= 0; a--) {
        const tpi_pending *q = &fr->pending[a];
        if (q->step->kind != TPI_STEP_ASSIGN || tpi_operand(fr, q, 1) != x)
            continue;
        tp_tensor *var = tpi_operand(fr, q, 0);
        const int good = last_good(fr, var, a);
        return good < 0 ? var : tpi_operand(fr, &fr->pending[good], 1);
    }
    return x;
}

static void compute_one(tpi_frame *fr, int i)
{
    enum { FEW = 16 };
    tp_ctx *ctx = fr->ctx;
    tpi_pending *p = &fr->pending[i];
    tp_tensor *y = p->value, *few[FEW], **in = few;
    const tpi_step *s = p->step;
    if (s->kind != TPI_STEP_OP || !(y->flags & TPI_LAZY))
        return;
    const size_t bytes = (size_t)p->n_in * sizeof *in;
    const tpi_at at = TPI_AT(y->file, y->line);
    if (p->n_in > FEW)
        in = tpi_take(&ctx->mem, bytes);
    if (!in) {
        tpi_waiting_fail(y, tpi_no_memory(ctx, at, s->op->name));
        return;
    }
    for (int k = 0; k < p->n_in; k++)
        in[k] = operand_now(fr, i, k);
    tpi_infer q = {
        .op = s->op, .at = at, .ctx = ctx, .n_in = p->n_in, .in = in, .attrs = tpi_attrs_of(p)};
    if (tpi_waiting_compute(&q, y))
        tpi_launched_op(fr, &q, y);
    if (in != few)
        tpi_give_back(&ctx->mem, in, bytes);
}

bool tpi_pending_share(const tpi_frame *fr, const tpi_pending *p)
{
    tp_tensor *y = p->value;
    if (!p->view || !(y->flags & TPI_LAZY) || !tpi_operand(fr, p, 0)->buf)
        return false;
    tp_tensor *in[] = {tpi_operand(fr, p, 0)};
    const tpi_infer q = {
        .op = p->step->op, .ctx = fr->ctx, .n_in = 1, .in = in, .attrs = tpi_attrs_of(p)};
    if (!tpi_share(&q, y))
        return false;
    y->flags &= (uint8_t)~TPI_LAZY;
    return true;
}

/* ---- assignments ------------------------------------------------------------------------------------------- */

/* Counted are the assignments of a value that are still to be done: the last one may exchange. */
static void move_in(tpi_frame *fr, tp_tensor *var, tp_tensor *value)
{
    const int i = tpi_pending_of(fr, value);
    tpi_launched_assign(fr, var, value);
    tpi_move_in(var, value, i >= 0 && !fr->pending[i].alive && !fr->pending[i].counted);
}

static void commit(tpi_frame *fr, int i, bool none)
{
    const tpi_pending *p = &fr->pending[i];
    tp_tensor *var = tpi_operand(fr, p, 0), *value = tpi_operand(fr, p, 1);
    const int maker = tpi_pending_of(fr, value);
    if (maker >= 0)
        fr->pending[maker].counted--;
    if (var->buf->assigned != value)
        return; /* assigned again later */
    var->buf->assigned = NULL;
    tpi_unref(value);
    const int good = none ? -1 : last_good(fr, var, i);
    if (good >= 0)
        move_in(fr, var, tpi_operand(fr, &fr->pending[good], 1));
}

/* Where memory was out for one new value, no variable changes. */
static void commit_all(tpi_frame *fr)
{
    bool none = false;
    for (int i = 0; i < fr->n_pending; i++)
        fr->pending[i].counted = 0;
    for (int i = 0; i < fr->n_pending; i++)
        if (fr->pending[i].step->kind == TPI_STEP_ASSIGN) {
            const tp_tensor *value = tpi_operand(fr, &fr->pending[i], 1);
            none |= value->status == TP_E_MEMORY;
            count_one(fr, value);
        }
    for (int i = 0; i < fr->n_pending; i++)
        if (fr->pending[i].step->kind == TPI_STEP_ASSIGN)
            commit(fr, i, none);
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static void release(tpi_frame *fr, int i)
{
    tpi_pending *p = &fr->pending[i];
    for (int k = 0; k < p->n_in; k++) {
        tpi_unref(tpi_operand(fr, p, k));
        fr->operands[p->operands + k] = NULL;
    }
    if (p->attrs)
        tpi_give_back(&fr->ctx->mem, p->attrs, p->step->op->attrs_size);
    tpi_unref(p->value);
    p->value = NULL;
}

/* One by one, what nobody needs any more being freed at once. */
static void compute_all(tpi_frame *fr, int from, int to)
{
    for (int i = from; i < to; i++) {
        compute_one(fr, i);
        if (fr->pending[i].step->kind != TPI_STEP_ASSIGN)
            release(fr, i);
    }
}

/* The end of the segment that begins at `from`. */
static int end_of_segment(const tpi_frame *fr, int from)
{
    int to = from + 1;
    while (to < fr->n_pending && !fr->pending[to - 1].step->cut)
        to++;
    return to;
}

static void run(tpi_frame *fr, bool crossing)
{
    for (int from = 0, to; from < fr->n_pending; from = to) {
        to = crossing ? end_of_segment(fr, from) : fr->n_pending;
        if (!tpi_segment_run(fr, from, to)) {
            fr->launches &= fr->pending[from].step->any_number;
            compute_all(fr, from, to);
        }
        for (int i = from; i < to && (fr->has_views || fr->has_turns); i++) {
            const tpi_pending *p = &fr->pending[i];
            if (!p->value)
                continue;
            if (p->need && p->step->op == &tpi_op_call) /* which no program computes */
                compute_one(fr, i);
            if (p->need)
                tpi_pending_share(fr, p);
        }
    }
}

/* In what is too long for a program loops are cut at their turns, the first time. */
static void roll_long(tpi_frame *fr)
{
    for (int from = 0, to; from < fr->n_pending; from = to) {
        to = end_of_segment(fr, from);
        tpi_step *last = fr->pending[to - 1].step;
        if (to - from > TPI_MAX_PROGRAM_STEPS && last->taken == 1)
            tpi_roll_long(fr, last);
    }
}

/* Where no segment ends behind what is settled, later steps would be taken for steps of it: none come. */
static void lose(tpi_frame *fr)
{
    tpi_function_lost(fr->f, fr->at->at, TPI_WHY_memory);
    fr->lost = true;
    fr->ctx->frame = NULL;
}

void tpi_settle(tpi_frame *fr)
{
    tp_ctx *ctx = fr->ctx;
    bool cut = true;
    if (fr->n_pending && !fr->settling) {
        tpi_frame_head *frame = ctx->frame;
        const bool recording = ctx->caller.recording;
        fr->settling = true;
        ctx->frame = NULL;
        fr->ended = cut = tpi_step_cut(ctx, fr->at);
        if (fr->n_pending > TPI_MAX_PROGRAM_STEPS)
            roll_long(fr);
        fr->launches &= !fr->has_turns;
        bool crossing;
        const bool assigns = count_references(fr, &crossing);
        if (crossing)
            mark_crossing(fr);
        mark_needed(fr);
        run(fr, crossing);
        if (assigns)
            commit_all(fr);
        for (int i = 0; i < fr->n_pending; i++) {
            fetch_ahead(fr, i, offsetof(tp_tensor, refs));
            if (fr->pending[i].value)
                release(fr, i);
        }
        ctx->caller.recording = recording;
        ctx->frame = frame;
        fr->settling = false;
    }
    fr->n_pending = fr->n_operands = 0;
    fr->base = fr->position + 1;
    fr->as_recorded = true;
    fr->may_fail = fr->has_views = false;
    if (!cut && !fr->lost)
        lose(fr);
}
