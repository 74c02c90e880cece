/* A run of the body: what its op calls become. */
#include "capture/record/launches.h"
#include "control/open_block.h"
#include "op/waiting.h"

#include <string.h>

enum { FEW = 8 };

/* ---- what is pending --------------------------------------------------------------------------- */

static bool grow(tpi_frame *fr, int n_in)
{
    tpi_mem *m = &fr->ctx->mem;
    tpi_pending *p = tpi_grow(m, fr->pending, fr->n_pending, &fr->pending_size, sizeof *p);
    if (!p)
        return false;
    fr->pending = p;
    if (fr->n_operands + n_in > fr->operands_size) {
        const int32_t size = (fr->n_operands + n_in) * 2 + 64;
        tp_tensor **v = tpi_resize(m, fr->operands, (size_t)fr->operands_size * sizeof *v,
                                   (size_t)size * sizeof *v);
        if (!v)
            return false;
        fr->operands = v;
        fr->operands_size = size;
    }
    return true;
}

static inline bool push(tpi_frame *fr, tpi_step *step, tp_tensor *value, const void *attrs,
                        int n_in, tp_tensor *const *in, uint64_t assigned)
{
    if ((fr->n_pending == fr->pending_size || fr->n_operands + n_in > fr->operands_size) &&
        !grow(fr, n_in))
        return false;
    void *own = NULL;
    if (attrs) {
        own = tpi_take(&fr->ctx->mem, step->op->attrs_size);
        if (!own)
            return false;
        memcpy(own, attrs, step->op->attrs_size);
    }
    fr->pending[fr->n_pending++] = (tpi_pending){.step = step,
                                                 .value = value,
                                                 .attrs = own,
                                                 .operands = fr->n_operands,
                                                 .n_in = n_in,
                                                 .assigned = assigned};
    value->refs++;
    tp_tensor **operands = fr->operands + fr->n_operands;
    fr->n_operands += n_in;
    for (int i = 0; i < n_in; i++) {
        operands[i] = in[i];
        in[i]->refs++;
    }
    return true;
}

/* ---- finding the step ------------------------------------------------------------------------------ */

/* A segment has ended: the next one. */
static inline void begin_segment(tpi_frame *fr)
{
    tp_ctx *ctx = fr->ctx;
    fr->ended = false;
    fr->start = fr->position + 1;
    fr->n_incoming = 0;
    ctx->frames += 2; /* after 2^31 of them a number may meet an old one */
    if (!ctx->frames)
        ctx->frames += 2;
    fr->visit = ctx->frames;
}

/* What t is in the segment. */
static inline int32_t code_of(tpi_frame *fr, tp_tensor *t)
{
    if ((t->frame & ~1u) != fr->visit) {
        if (!tpi_has_number(fr, t))
            t->number = ~fr->n_outside++;
        t->frame = fr->visit;
        t->code = ~fr->n_incoming++;
    }
    return t->code;
}

/* Of the step that was just arrived at. */
static inline void give_number(const tpi_frame *fr, tp_tensor *t)
{
    t->frame = fr->visit;
    t->number = fr->position;
    t->code = fr->position - fr->start;
}

/* Room for the codes of a call's operands. */
typedef struct room {
    int32_t in[FEW];
    tp_tensor *new[FEW];
} room;

static void find_codes(tpi_frame *fr, tpi_call_of *c)
{
    if (fr->ended)
        begin_segment(fr);
    c->n_new = 0;
    c->n_outside = fr->n_outside;
    for (int i = 0; i < c->n_in; i++) {
        const int32_t before = fr->n_incoming;
        c->in[i] = code_of(fr, c->operands[i]);
        if (fr->n_incoming != before)
            c->new[c->n_new++] = c->operands[i];
    }
}

/* What the operands are, and which of them come in; false when memory is out. */
static inline bool number_all(tpi_frame *fr, tpi_call_of *c, room *r, int n,
                              tp_tensor *const *in)
{
    c->n_in = n;
    c->operands = in;
    c->in = r->in;
    c->new = r->new;
    c->n_outside = fr->n_outside;
    if (n > FEW) {
        c->in = tpi_take(&fr->ctx->mem, (size_t)n * sizeof *c->in);
        c->new = tpi_take(&fr->ctx->mem, (size_t)n * sizeof(tp_tensor *));
    }
    if (!c->in || !c->new)
        return false;
    find_codes(fr, c);
    return true;
}

static inline void numbers_done(tpi_frame *fr, const tpi_call_of *c)
{
    if (c->n_in > FEW) {
        const size_t n = (size_t)c->n_in;
        tpi_give_back(&fr->ctx->mem, c->in, n * sizeof *c->in);
        tpi_give_back(&fr->ctx->mem, c->new, n * sizeof(tp_tensor *));
    }
}

/* The call comes to nothing: what it met first has not been met. */
static void take_back(tpi_frame *fr, tpi_call_of *c)
{
    for (int i = 0; i < c->n_new; i++) {
        tp_tensor *t = c->new[i];
        const bool has_number = t->number >= 0 || ~t->number < c->n_outside;
        t->frame = has_number ? fr->serial : 0;
    }
    fr->n_incoming -= c->n_new;
    fr->n_outside = c->n_outside;
    c->n_new = 0;
}

/* For a model that is written, in which it would be a constant. A long one is not looked through. */
static bool same_elements(const tp_tensor *a, const tp_tensor *b)
{
    enum { LONG = 1 << 16 };
    return a->buf && b->buf && a->flags & b->flags & TPI_CONTIGUOUS && tpi_same_shape(a, b) &&
           tpi_bytes(a) <= LONG && memcmp(a->data, b->data, tpi_bytes(a)) == 0;
}

/* Is it an argument, or did the call make it? */
static inline bool is_passed_on(const tpi_frame *fr, const tp_tensor *t)
{
    return tpi_has_number(fr, t) && t->number >= -fr->n_arguments;
}

/* Has one of the operands another shape than when the step was recorded? */
static bool is_resized(const tpi_call_of *c)
{
    for (int i = 0; i < c->n_in; i++)
        if (c->operands[i]->frame & 1)
            return true;
    return false;
}

/* The sizes of a call's arguments, when they differ from those it was recorded with. */
static void keep_seen(const tpi_step *s, const tpi_call_of *c)
{
    for (int i = 0; i < s->n_new; i++) {
        tpi_incoming *o = &s->new[i];
        o->n_seen += o->n_seen < TPI_MAX_OBSERVED;
        memcpy(o->seen[o->n_seen - 1], c->new[i]->shape, sizeof(int64_t) * o->rank);
    }
}

/* What comes in here in this run: its sizes, and a tensor from outside, which is kept until the next one. */
static inline void meet(tpi_frame *fr, const tpi_step *s, const tpi_call_of *c)
{
    for (int i = 0; i < s->n_new; i++) {
        tpi_incoming *o = &s->new[i];
        tp_tensor *t = c->new[i];
        for (int a = 0; a < o->rank; a++)
            if (o->shape[a] != t->shape[a]) {
                t->frame |= 1;
                fr->as_recorded = false;
                o->varied |= (uint8_t)(1 << a);
            }
        o->moved |= o->source != t->number;
        if (o->tensor == t || s->kind == TPI_STEP_ENTRY || is_passed_on(fr, t))
            continue;
        if (!o->swapped && o->tensor)
            o->swapped = !same_elements(o->tensor, t);
        tpi_unref(o->tensor);
        o->tensor = t->buf && t->buf->size ? t : NULL;
        tpi_ref(o->tensor);
    }
    if (s->kind == TPI_STEP_ENTRY && is_resized(c))
        keep_seen(s, c);
}

/* The next call will ask for the step behind this one: after a program has run, it is in no cache
 * any more. */
static inline tpi_step *arrive(tpi_frame *fr, tpi_step *s)
{
    const char *next = (const char *)s->first;
    __builtin_prefetch(next);
    __builtin_prefetch(next + 64);
    __builtin_prefetch(next + 128);
    s->taken++;
    fr->position++;
    fr->ended = s->cut;
    return fr->at = s;
}

/* Goes on eagerly until the frame is closed. */
static void lose(tpi_frame *fr, tpi_at at, tpi_why why)
{
    tpi_function_lost(fr->f, at, why);
    fr->lost = true;
    tpi_settle(fr);
    fr->ctx->frame = NULL;
}

static const char *name_of(tpi_step_kind kind, const tpi_op *op)
{
    static const char *const names[] = {[TPI_STEP_ENTRY] = "a call",
                                        [TPI_STEP_SCALAR] = "a number",
                                        [TPI_STEP_ASSIGN] = "assign",
                                        [TPI_STEP_LOOK] = "a look at a value",
                                        [TPI_STEP_RETURN] = "the return"};
    return kind == TPI_STEP_OP ? op->name : names[kind];
}

/* The run goes on as none did before, so its segment ends; the operands are now what they are in the next one. False:
 * memory is out. */
static bool end_segment(tpi_frame *fr, tpi_call_of *c)
{
    take_back(fr, c);
    if (!tpi_turn_off(fr, c))
        return false;
    fr->ended = true;
    find_codes(fr, c);
    return true;
}

static void log_branch(const tpi_frame *fr, const tpi_call_of *c, const tpi_step *other)
{
    if (c->kind == TPI_STEP_LOOK && c->look == TPI_LOOK_TRUTH)
        tpi_capture_log(fr->f, c->at, "branch: tp_truth is %s for the first time",
                        c->truth ? "true" : "false");
    else
        tpi_capture_log(fr->f, c->at, "branch: %s, where %s followed before",
                        name_of(c->kind, c->op),
                        name_of((tpi_step_kind)other->kind, other->op));
}

/* Goes on to the step that is this call, adding it when it is new; NULL: the frame is lost. */
static tpi_step *go_on(tpi_frame *fr, tpi_call_of *c, bool *same)
{
    tpi_why why = TPI_WHY_memory;
    tpi_step *s = tpi_step_find(fr->at, c, same);
    const bool ok = s || !fr->at->first || end_segment(fr, c);
    if (!s && ok) /* loops may have been rolled, and then it is there */
        s = tpi_step_find(fr->at, c, same);
    if (!s && ok) {
        const tpi_step *other = fr->at->first ? fr->at->first : fr->at->again;
        s = tpi_step_add(fr->tree, fr->ctx, fr->at, c, &why);
        fr->new_steps |= s != NULL;
        *same = true;
        if (s && other)
            log_branch(fr, c, other);
    }
    if (!s) {
        lose(fr, c->at, why);
        return NULL;
    }
    meet(fr, s, c);
    return arrive(fr, s);
}

/* ---- op calls ---------------------------------------------------------------------------------------- */

/* Small conversions of what is known are done at once: of labels to indices, which can then be
 * checked. */
static bool is_index_cast(const tpi_infer *q)
{
    const tp_tensor *x = q->in[0];
    return q->op->code == TPI_OP_cast && x->buf && q->dtype == TP_I64 && x->dtype < TP_F32 &&
           tpi_count(x) <= 1 << 16;
}

/* The value, pending or there already; a failed tensor when memory is out. */
static tp_tensor *declare(tpi_frame *fr, const tpi_infer *q, bool *view)
{
    *view = false;
    tp_tensor *y = tpi_tensor(q->ctx, q->at, q->dtype, q->rank, q->shape);
    if (!y)
        return tpi_no_memory(q->ctx, q->at, q->op->name);
    if (q->op->kind == TPI_VIEW && q->in[0]->buf && tpi_share(q, y))
        return y;
    if (q->n_in == 1 && is_index_cast(q)) {
        tpi_frame_head *frame = q->ctx->frame;
        q->ctx->frame = NULL;
        tpi_launched_other(fr);
        y = tpi_compute(q, y);
        q->ctx->frame = frame;
        return y;
    }
    *view = tpi_waiting_lay_out(q, y);
    return y;
}

static bool is_hollow(const tpi_frame *fr, const tp_tensor *t)
{
    return t->flags & TPI_LAZY && tpi_pending_of(fr, t) < 0;
}

static void settle_for(tpi_frame *fr, tpi_at at, const tp_tensor *t, tpi_look look);

/* A variable stands for its pending new value. Its views share its memory: for them, and to make
 * one, it is brought up to date first. */
static bool resolve(tpi_frame *fr, tpi_at at, bool view, int n_in, tp_tensor **in,
                    uint64_t *assigned)
{
    *assigned = 0;
    for (int i = 0; i < n_in; i++)
        if (in[i]->buf && in[i]->buf->assigned &&
            !(in[i]->flags & TPI_STATE && i < 64 && !view))
            settle_for(fr, at, in[i], TPI_LOOK_OTHER);
    for (int i = 0; i < n_in; i++) {
        const tp_tensor *t = in[i];
        if (is_hollow(fr, t))
            return false;
        if (!t->buf || !t->buf->assigned)
            continue;
        in[i] = t->buf->assigned;
        *assigned |= (uint64_t)1 << i;
    }
    return true;
}

/* The step of this op call, with the shape of its result in q; NULL: *failed, or the frame is
 * lost. */
static tpi_step *find_op(tpi_frame *fr, tpi_infer *q, tpi_call_of *c, bool *same,
                         tp_tensor **failed)
{
    tpi_step *s = tpi_is_draw(q->op) ? NULL : tpi_step_find(fr->at, c, same);
    if (s)
        meet(fr, s, c);
    if (s && *same && !s->any_number &&
        !is_resized(c)) { /* then its result is as it was, too */
        q->dtype = (tp_dtype)s->dtype;
        q->rank = s->rank;
        for (int i = 0; i < s->rank; i++)
            q->shape[i] = s->shape[i];
        return arrive(fr, s);
    }
    *failed = tpi_infer_op(q);
    if (*failed)
        return NULL;
    c->dtype = (uint8_t)q->dtype;
    s = go_on(fr, c, same);
    if (!s)
        return NULL;
    if (s->taken == 1) {
        s->rank = (uint8_t)q->rank;
        memcpy(s->shape, q->shape, sizeof(int64_t) * (size_t)q->rank);
    }
    if (!*same && !tpi_is_draw(q->op)) {
        fr->as_recorded = false;
        s->varied = true;
    }
    return s;
}

/* The last pending value, whose step is s. */
static void note_shape(tpi_frame *fr, const tpi_step *s, tp_tensor *y)
{
    bool resized = false;
    for (int a = 0; a < y->rank; a++)
        resized |= y->shape[a] != s->shape[a];
    y->frame |= resized;
    fr->pending[fr->n_pending - 1].resized = resized;
    fr->as_recorded &= !resized;
}

static tp_tensor *foreseen(tpi_frame *fr, tp_tensor *t, int64_t *left);

/* A pending value, computed beside the frame; NULL: something is in the way. */
static tp_tensor *computed_aside(tpi_frame *fr, const tpi_pending *p, int64_t *left)
{
    enum { MOST_IN = 3 };
    tp_ctx *ctx = fr->ctx;
    const tp_tensor *t = p->value;
    tp_tensor *in[MOST_IN], *y = NULL;
    int n = 0;
    for (; n < p->n_in && n < MOST_IN; n++)
        if (!(in[n] = foreseen(fr, tpi_operand(fr, p, n), left)))
            break;
    if (n == p->n_in) {
        const tpi_infer q = {.op = p->step->op,
                             .at = TPI_AT(t->file, t->line),
                             .ctx = ctx,
                             .n_in = n,
                             .in = in,
                             .attrs = tpi_attrs_of(p)};
        y = tpi_tensor(ctx, q.at, (tp_dtype)t->dtype, t->rank, t->shape);
        if (y && tpi_compute(&q, y) == y)
            tpi_ref(y);
        else
            y = NULL;
    }
    while (n > 0)
        tpi_unref(in[--n]);
    return y;
}

/* With a reference of the caller's. */
static tp_tensor *foreseen(tpi_frame *fr, tp_tensor *t, int64_t *left)
{
    enum { A_CALL = 256 }; /* elements that take as long as a call */
    if (!(t->flags & TPI_LAZY)) {
        if (!t->data || (t->buf && t->buf->assigned))
            return NULL;
        tpi_ref(t);
        return t;
    }
    const int i = t->dtype < TP_F32 ? tpi_pending_of(fr, t) : -1;
    const tpi_pending *p = i < 0 ? NULL : &fr->pending[i];
    const bool cheap = p && p->step->kind == TPI_STEP_OP && !p->assigned &&
                       (p->step->op->kind == TPI_ELEMENT || p->step->op->kind == TPI_VIEW);
    *left -= cheap ? A_CALL + tpi_count(t) : 0;
    return cheap && *left >= 0 ? computed_aside(fr, p, left) : NULL;
}

/* Integers that are here, or that a few elementwise ops and views make of such, as a loss does with labels: with a
 * reference of the caller's. NULL: they are not known yet. */
static tp_tensor *known_integers(tpi_frame *fr, tp_tensor *t)
{
    int64_t left = 1 << 18; /* elements that may be computed for that */
    if (!(t->flags & TPI_LAZY))
        return foreseen(fr, t, &left);
    tp_ctx *ctx = fr->ctx;
    tpi_frame_head *frame = ctx->frame;
    ctx->frame = NULL; /* first: what asks for errors settles */
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    tp_tensor *known = foreseen(fr, t, &left);
    tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    ctx->frame = frame;
    return known;
}

/* An index out of range is told now, when it can be known; otherwise the op may fail later. */
static bool refused_index(tpi_frame *fr, tpi_infer *q, tp_tensor *const *tape, tp_tensor **y,
                          bool *may_fail)
{
    *may_fail = q->op->refuses != TPI_REFUSES_NOTHING;
    if (!q->op->index_in)
        return false;
    tp_tensor **in = (tp_tensor **)q->in, *const own = in[q->op->index_in];
    tp_tensor *index = known_integers(fr, own);
    if (!index) {
        *may_fail = true;
        return false;
    }
    *y = tpi_infer_op(q);
    in[q->op->index_in] = index;
    const bool good = !*y && tpi_indices_in_range(in, q->attrs);
    in[q->op->index_in] = own;
    tpi_unref(index);
    if (*y || good)
        return *y != NULL;
    tpi_settle(fr);
    *y = tpi_apply_now(q->ctx, q->at, q->op, q->n_in, tape, q->attrs);
    return true;
}

static tp_tensor *add_pending(tpi_frame *fr, const tpi_infer *q, tpi_step *s, bool same,
                              tp_tensor *const *tape, uint64_t assigned, bool requires)
{
    tp_ctx *ctx = fr->ctx;
    bool view;
    tp_tensor *y = declare(fr, q, &view);
    if (y->status != TP_OK)
        return y;
    give_number(fr, y);
    if (tpi_records(ctx, q->op, (int)q->dtype, requires)) {
        if (!tpi_record(y, q->op, q->n_in, tape, q->attrs, q->op->attrs_size))
            return tpi_no_memory(ctx, q->at, q->op->name);
        y->flags |= TPI_REQUIRES;
    }
    const bool own_attrs = !same || tpi_is_draw(q->op);
    if (!push(fr, s, y, own_attrs ? q->attrs : NULL, q->n_in, q->in, assigned))
        return tpi_no_memory(ctx, q->at, q->op->name);
    fr->pending[fr->n_pending - 1].view = view;
    fr->has_views |= view;
    if (fr->trace)
        tpi_traced_op(fr, y, q->op, q->attrs, q->n_in, tape);
    return y;
}

/* The tensor that was met there in the last run, or one of this call, with the first sizes. */
static inline bool is_met_again(const tpi_frame *fr, const tpi_incoming *o, const tp_tensor *t)
{
    bool same =
        o->tensor == t || (is_passed_on(fr, t) && o->dtype == t->dtype && o->rank == t->rank);
    for (int a = 0; a < o->rank && same; a++)
        same = o->shape[a] == t->shape[a];
    return same;
}

/* What happens nearly always, in one go: the op that followed last time, on the same operands.
 * NULL: something is different. */
static inline tp_tensor *match(tpi_frame *fr, tpi_infer *q, bool requires)
{
    if (fr->ended)
        begin_segment(fr);
    tpi_step *s = fr->at->again ? fr->at->again : fr->at->first;
    const tpi_op *op = q->op;
    if (!s || s->op != op || s->kind != TPI_STEP_OP || s->n_in != q->n_in ||
        tpi_may_refuse(op) || q->n_in > FEW)
        return NULL;
    int n_new = 0;
    for (int i = 0; i < q->n_in; i++) {
        const tp_tensor *t = q->in[i];
        const bool met = t->frame == fr->visit; /* with the recorded shape */
        if (met ? t->code != s->in[i]
                : n_new == s->n_new || s->in[i] != ~(fr->n_incoming + n_new) ||
                      !is_met_again(fr, &s->new[n_new], t))
            return NULL;
        if (t->frame == (fr->visit | 1) ||
            (t->flags & TPI_LAZY ? tpi_pending_of(fr, t) < 0 : !t->buf || t->buf->assigned))
            return NULL;
        for (int k = 0; k < i && n_new; k++)
            if (!met && q->in[k] == t) /* it comes in once */
                return NULL;
        n_new += !met;
    }
    if (n_new != s->n_new ||
        (op->attrs_size && memcmp(s->attrs, q->attrs, op->attrs_size) != 0))
        return NULL;
    for (int i = 0, k = 0; k < n_new; i++) {
        tp_tensor *t = q->in[i];
        if (t->frame == fr->visit)
            continue;
        code_of(fr, t);
        s->new[k].moved |= s->new[k].source != t->number;
        k++;
    }
    q->dtype = (tp_dtype)s->dtype;
    q->rank = s->rank;
    for (int i = 0; i < s->rank; i++)
        q->shape[i] = s->shape[i];
    tp_tensor *y = add_pending(fr, q, arrive(fr, s), true, q->in, 0, requires);
    if (y->status != TP_OK)
        lose(fr, q->at, TPI_WHY_memory);
    return y;
}

static tp_tensor *apply_resolved(tpi_frame *fr, tpi_infer *q, tpi_call_of *c,
                                 tp_tensor *const *tape, uint64_t assigned, bool requires)
{
    tp_tensor *y = NULL;
    bool may_fail;
    if (refused_index(fr, q, tape, &y, &may_fail))
        return y;
    room r;
    bool same = false;
    tpi_step *s = NULL;
    if (number_all(fr, c, &r, q->n_in, q->in))
        s = find_op(fr, q, c, &same, &y);
    else
        y = tpi_no_memory(q->ctx, q->at, q->op->name);
    if (!s)
        take_back(fr, c);
    numbers_done(fr, c);
    if (y)
        return y;
    if (!s)
        return tpi_apply_now(q->ctx, q->at, q->op, q->n_in, tape, q->attrs);
    y = add_pending(fr, q, s, same, tape, assigned, requires);
    fr->may_fail |= may_fail;
    if (y->status == TP_OK)
        note_shape(fr, s, y);
    else /* its step is without it: what is pending would be shifted */
        lose(fr, q->at, TPI_WHY_memory);
    return y;
}

/* ---- numbers, assignments, looks ------------------------------------------------------------------------ */

static tp_tensor *new_scalar(tp_ctx *ctx, tpi_at at, tp_dtype dtype, double value)
{
    tp_tensor *t = tpi_tensor_new(ctx, at, dtype, 0, NULL);
    if (t->status == TP_OK)
        tpi_store_f64(dtype, t->data, value);
    return t;
}

static tp_tensor *frame_scalar(tp_ctx *ctx, tpi_at at, tp_dtype dtype, double value)
{
    tpi_frame *fr = (tpi_frame *)ctx->frame;
    room r;
    tpi_call_of c = {
        .kind = TPI_STEP_SCALAR, .at = at, .dtype = (uint8_t)dtype, .value = value};
    number_all(fr, &c, &r, 0, NULL);
    bool same;
    tpi_step *s = go_on(fr, &c, &same);
    if (!s)
        return new_scalar(ctx, at, dtype, value);
    s->varied |= !same;
    tp_tensor *t = s->scalar;
    if (!same || !t || t->refs > 1 || t->flags & TPI_REQUIRES || t->name) {
        t = new_scalar(ctx, at, dtype, value);
        if (t->status != TP_OK)
            return t;
        if (same && !s->scalar) {
            s->scalar = t;
            tpi_ref(t);
        }
    } else {
        tpi_ref(t);
        if (!tpi_own(t))
            return tpi_no_memory(ctx, at, NULL);
    }
    give_number(fr, t);
    if (!push(fr, s, t, NULL, 0, NULL, 0)) {
        lose(fr, at, TPI_WHY_memory);
        return tpi_no_memory(ctx, at, NULL);
    }
    if (fr->trace)
        tpi_traced_number(fr, t);
    return t;
}

static __attribute__((noinline)) tp_tensor *apply_unmatched(tpi_frame *fr, tpi_infer *q,
                                                            bool requires)
{
    tp_ctx *ctx = fr->ctx;
    const tpi_op *op = q->op;
    tp_tensor *const *in = q->in;
    const int n_in = q->n_in;
    tp_tensor *few[FEW], **now = few;
    if (n_in > FEW)
        now = tpi_take(&ctx->mem, (size_t)n_in * sizeof *now);
    if (!now)
        return tpi_no_memory(ctx, q->at, op->name);
    for (int i = 0; i < n_in; i++)
        now[i] = in[i];
    uint64_t assigned;
    tp_tensor *y;
    q->in = now;
    tpi_call_of c = {.kind = TPI_STEP_OP, .at = q->at, .op = op, .attrs = q->attrs};
    if (!resolve(fr, q->at, op->kind == TPI_VIEW, n_in, now, &assigned))
        y = tpi_fail(ctx, q->at, op->name, TP_E_BUG, "a value that was thought unused is used");
    else if (ctx->frame) /* a look may have lost it */
        y = apply_resolved(fr, q, &c, in, assigned, requires);
    else
        y = tpi_apply_now(ctx, q->at, op, n_in, in, q->attrs);
    if (now != few)
        tpi_give_back(&ctx->mem, now, (size_t)n_in * sizeof *now);
    return y;
}

static tp_tensor *frame_apply(tp_ctx *ctx, tpi_at at, const tpi_op *op, int n_in,
                              tp_tensor *const *in, const void *attrs, bool requires)
{
    tpi_frame *fr = (tpi_frame *)ctx->frame;
    if (op->kind == TPI_SHAPE) { /* a number, to which no elements are needed */
        const tp_tensor *size = tpi_apply_now(ctx, at, op, n_in, in, attrs);
        return size->status == TP_OK
                   ? frame_scalar(ctx, at, (tp_dtype)size->dtype,
                                  tpi_load_f64((tp_dtype)size->dtype, size->data))
                   : (tp_tensor *)size;
    }
    fr->has_turns |= op == &tpi_op_call || op == &tpi_op_enter;
    tpi_infer q; /* not zeroed: its shape is an answer */
    q.op = op;
    q.at = at;
    q.ctx = ctx;
    q.dims = NULL;
    q.n_in = n_in;
    q.in = in;
    q.attrs = attrs;
    tp_tensor *y = match(fr, &q, requires);
    return y ? y : apply_unmatched(fr, &q, requires);
}

/* Can it wait? The variable has to be whole, at an address that nobody was told, and the value one
 * that cannot change. */
static bool can_wait(const tpi_frame *fr, const tp_tensor *var, const tp_tensor *value)
{
    return var->flags & TPI_STATE && var->buf->size && !var->buf->exposed && !var->buf->lent &&
           tpi_count(var) > 0 && value->flags & TPI_LAZY && tpi_pending_of(fr, value) >= 0 &&
           !fr->may_fail;
}

static tp_tensor *frame_assign(tpi_at at, tp_tensor *var, tp_tensor *value)
{
    tp_ctx *ctx = var->ctx;
    tpi_frame *fr = (tpi_frame *)ctx->frame;
    tp_tensor *failed = tpi_refuse_assign(at, var, value);
    if (failed)
        return failed;
    uint64_t assigned;
    tp_tensor *now = value;
    if (!resolve(fr, at, false, 1, &now, &assigned))
        return tpi_fail(ctx, at, "assign", TP_E_BUG, "a value that was thought unused is used");
    if (!ctx->frame || !can_wait(fr, var, now)) {
        tpi_look_at(at, var, TPI_LOOK_ASSIGN);
        tpi_launched_other(fr);
        tp_tensor *done = value->status == TP_OK ? tpi_assign_concrete(at, var, value) : value;
        if (ctx->frame && fr->trace && done == var)
            tpi_traced_assign(fr, at, var, value);
        return done;
    }
    room r;
    tp_tensor *in[] = {var, now};
    tpi_call_of c = {.kind = TPI_STEP_ASSIGN, .at = at};
    number_all(fr, &c, &r, 2, in);
    bool same;
    tpi_step *s = go_on(fr, &c, &same);
    if (s && push(fr, s, var, NULL, 2, in, assigned << 1)) {
        tpi_ref(now);
        tpi_unref(var->buf->assigned);
        var->buf->assigned = now;
        var->buf->version++;
        if (fr->trace)
            tpi_traced_assign(fr, at, var, value);
        return var;
    }
    if (s)
        lose(fr, at, TPI_WHY_memory);
    return value->status == TP_OK ? tpi_assign_concrete(at, var, value) : value;
}

static bool waits(const tpi_frame *fr, const tp_tensor *t)
{
    return fr->n_pending > 0 && (!t || t->flags & TPI_LAZY || (t->buf && t->buf->assigned));
}

static void add_look(tpi_frame *fr, tpi_at at, const tp_tensor *t, tpi_look look, bool truth)
{
    fr->launches = false;
    tpi_launched_other(fr);
    if (fr->lost)
        return;
    room r;
    tpi_call_of c = {.kind = TPI_STEP_LOOK, .at = at, .look = (uint8_t)look, .truth = truth};
    tp_tensor *in[] = {(tp_tensor *)t};
    number_all(fr, &c, &r, t ? 1 : 0, in);
    bool same;
    if (go_on(fr, &c, &same))
        fr->base = fr->position + 1;
}

static void settle_for(tpi_frame *fr, tpi_at at, const tp_tensor *t, tpi_look look)
{
    const bool settle = look == TPI_LOOK_ASSIGN ? fr->n_pending > 0 : waits(fr, t);
    if (settle)
        tpi_settle(fr);
    /* what tp_truth told follows; other looks are remembered when they end a segment */
    if (look == TPI_LOOK_TRUTH || (t && t->status != TP_OK))
        return;
    if (settle || look == TPI_LOOK_ASSIGN)
        add_look(fr, at, NULL, look, false);
}

/* In a trace each read is a look of its own. */
static void look_traced(tpi_frame *fr, tpi_at at, tp_tensor *t, tpi_look look)
{
    if (look == TPI_LOOK_OTHER || look == TPI_LOOK_SHOW)
        tpi_traced_stop(fr, at, look == TPI_LOOK_SHOW ? TPI_WHY_shown : TPI_WHY_effects);
    if (look != TPI_LOOK_READ || !t) {
        settle_for(fr, at, t, look);
        return;
    }
    if (fr->n_pending)
        tpi_settle(fr);
    if (t->status != TP_OK)
        return;
    add_look(fr, at, t, look, false);
    if (fr->ctx->frame)
        tpi_traced_look(fr, at, t, look, false);
}

/* Only a replay would leave them out. */
static void note_effect(tpi_frame *fr, tpi_at at, const tp_tensor *t, tpi_look look)
{
    const tpi_trace *trace = fr->trace;
    if (trace && (look == TPI_LOOK_KEEP   ? fr->ctx->caller.n_scopes <= trace->scopes
                  : look == TPI_LOOK_MARK ? t->seq < trace->entry
                                          : true))
        tpi_traced_stop(fr, at, TPI_WHY_outside);
}

static void frame_look(tp_ctx *ctx, tpi_at at, const tp_tensor *t, tpi_look look)
{
    tpi_frame *fr = (tpi_frame *)ctx->frame;
    if (fr->settling || look == TPI_LOOK_SYMBOL)
        return;
    if (look >= TPI_LOOK_EFFECT) {
        note_effect(fr, at, t, look);
        return;
    }
    fr->at->reads |= look == TPI_LOOK_READ;
    if (fr->trace)
        look_traced(fr, at, (tp_tensor *)t, look);
    else
        settle_for(fr, at, t, look);
}

static void frame_answered(tp_ctx *ctx, tpi_at at, const tp_tensor *t, bool truth)
{
    tpi_frame *fr = (tpi_frame *)ctx->frame;
    if (fr->n_pending)
        tpi_settle(fr);
    add_look(fr, at, t, TPI_LOOK_TRUTH, truth);
    const tp_block *b = ctx->caller.blocks;
    if (ctx->frame)
        fr->at->by_block = b && b->at.file == at.file && b->at.line == at.line;
    if (fr->trace && ctx->frame)
        tpi_traced_look(fr, at, (tp_tensor *)t, TPI_LOOK_TRUTH, truth);
}

static void frame_before_error(tp_ctx *ctx, bool asks)
{
    (void)asks;
    tpi_frame *fr = (tpi_frame *)ctx->frame;
    if (fr->settling || !fr->may_fail || !fr->n_pending)
        return;
    tpi_settle(fr);
    add_look(fr, TPI_AT(NULL, 0), NULL, TPI_LOOK_OTHER, false);
}

static void frame_leave(tp_ctx *ctx)
{
    tpi_frame *fr = (tpi_frame *)ctx->frame;
    tpi_settle(fr);
    ctx->frame = NULL;
    tpi_trace_free(fr->trace);
    fr->trace = NULL;
}

const tpi_frame_rules tpi_capture_rules = {.apply = frame_apply,
                                           .scalar = frame_scalar,
                                           .assign = frame_assign,
                                           .look = frame_look,
                                           .answered = frame_answered,
                                           .before_error = frame_before_error,
                                           .leave = frame_leave};

/* ---- a whole run -------------------------------------------------------------------------------------------- */

bool tpi_frame_open(tp_function *f, tpi_tree *tree, tpi_at at, int n_in, tp_tensor *const *in)
{
    tp_ctx *ctx = f->ctx;
    tpi_frame *fr = &f->frame;
    fr->ctx = ctx;
    fr->f = f;
    fr->tree = tree;
    fr->at = &tree->top;
    fr->position = -1;
    begin_segment(fr); /* its number is of no segment */
    fr->serial = fr->visit;
    fr->ended = true;
    fr->n_arguments = fr->n_outside = 0;
    fr->as_recorded = true;
    fr->may_fail = fr->settling = fr->new_steps = fr->lost = fr->has_turns = fr->has_views =
        false;
    fr->trace = NULL;
    fr->launches = true;
    fr->base = 1;
    room r;
    tpi_call_of c = {.kind = TPI_STEP_ENTRY, .at = at};
    if (!number_all(fr, &c, &r, n_in, in)) {
        numbers_done(fr, &c);
        return false;
    }
    fr->n_arguments = fr->n_outside;
    fr->head.rules = &tpi_capture_rules;
    ctx->frame = &fr->head;
    if (!tree->top.first)
        tpi_capture_log(f, at, "%s: recording",
                        tree == &f->forward ? "first call" : "first gradient");
    bool same;
    const bool ok = go_on(fr, &c, &same) != NULL;
    numbers_done(fr, &c);
    return ok;
}

static void add_return(tpi_frame *fr, tpi_at at, int n_out, tp_tensor *const *out)
{
    room r;
    bool good = true;
    for (int i = 0; i < n_out; i++)
        good &= tpi_is_live(out[i]) && out[i]->status == TP_OK && !out[i]->graph;
    const bool failed = fr->trace && fr->ctx->failures != fr->trace->failures;
    tpi_call_of c = {.kind = TPI_STEP_RETURN, .at = at};
    bool same;
    if (number_all(fr, &c, &r, good ? n_out : 0, out))
        go_on(fr, &c, &same);
    numbers_done(fr, &c);
    if (fr->trace && good && !failed)
        tpi_traced_return(fr, at, n_out, out);
    else if (fr->trace)
        fr->trace->partial = true;
}

void tpi_frame_close(tpi_frame *fr, tpi_at at, int n_out, tp_tensor *const *out)
{
    if (!fr->lost)
        tpi_settle(fr);
    if (!fr->lost)
        add_return(fr, at, n_out, out);
    else if (fr->trace)
        fr->trace->partial = true;
    if (fr->tree == &fr->f->forward)
        fr->f->pure.rolls = fr->launches && fr->tree->rolled && !fr->lost && !fr->new_steps;
    if (fr->new_steps) {
        fr->f->stats.recordings++;
        tpi_capture_log(fr->f, at, "recorded: %lld steps now", (long long)fr->tree->n_steps);
    }
    fr->ctx->frame = NULL;
}
