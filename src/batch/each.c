#include "batch/each.h"

#include "base/env.h"
#include "base/fiber.h"
#include "base/log.h"
#include "core/dim.h"
#include "op/random_position.h"

#include <stdint.h>
#include <string.h>

enum {
    MOST = 1024,   /* samples that wait at a time */
    ROOM = 1 << 20 /* of the numbers of a sample, for what one call makes */
};
#define RANGE (UINT64_C(1) << 24)
#define LAST (UINT64_C(1) << 57) /* of all numbers; a tensor's `read` has 58 bits for one */

static const char *const what = "tp_batch_each";

typedef enum sample_state {
    IS_NEW,
    MAY_GO_ON,
    WAITS,          /* for values */
    WAITS_FOR_TURN, /* for all samples before it to end */
    WANTS_VALUES,   /* at once */
    HAS_ENDED
} sample_state;

typedef struct sample {
    tpi_samples *of;
    tpi_fiber
        *fiber; /* NULL: it has not begun, or runs on the stack of who called, and alone */
    tpi_caller caller; /* while it does not run */
    uint64_t first;    /* of its numbers of program order */
    int32_t number;
    uint8_t state;
} sample;

struct tpi_samples {
    tpi_queue *w;
    tpi_caller *around; /* who waits outside of it */
    tp_sample_body body;
    void *user;
    int32_t n, n_taken; /* samples, and those of them that are live or have been */
    bool together;      /* each has a fiber; else one comes after the other */
    bool reversed;      /* those that may go on do so from the last one on */
    bool opened;        /* the queue, for this alone */
    tpi_stack above; /* the stack of who called, as far as frames there are around this one */
    tpi_caller outside; /* who called, while a sample does */
    uint64_t first;     /* numbers from there on are those of samples */
    sample *now;        /* that calls; NULL: who called */
    int32_t n_live, n_idle;
    sample *live[MOST]; /* in order */
    sample *idle[MOST];
};

static tp_ctx *ctx_of(const tpi_samples *s)
{
    return s->w->ctx;
}

/* ---- who calls -------------------------------------------------------------------------------------------------------- */

/* What one of them owns goes along, so that a tensor has one owner; its place in the list does not. */
static void move_caller(tpi_caller *to, tpi_caller *from)
{
    tpi_caller *const next = to->next;
    *to = *from;
    to->next = next;
    from->n_owned = 0;
}

/* From here on sample x calls, or (NULL) who called tp_batch_each. */
static void become(tpi_samples *s, sample *x)
{
    if (s->now == x)
        return;
    move_caller(s->now ? &s->now->caller : &s->outside, &ctx_of(s)->caller);
    move_caller(&ctx_of(s)->caller, x ? &x->caller : &s->outside);
    s->now = x;
}

static void flush(tpi_samples *s)
{
    become(s, NULL);
    tpi_queue_flush(s->w);
}

/* What the body left to who called: as if it had been made there. */
static void hand_over(tp_ctx *ctx, tpi_caller *from)
{
    const int32_t n = from->n_owned, kept = from->n_scopes ? from->scopes[0].mark : 0;
    from->n_owned = from->n_scopes = 0;
    for (int32_t i = 0; i < n; i++) {
        tp_tensor *t = from->owned[i];
        t->owned_at = -1;
        if (!tpi_own(t))
            tpi_no_memory(ctx, TPI_AT(NULL, 0), what);
        else if (i < kept)
            tp_keep(t);
    }
}

/* ---- a sample ----------------------------------------------------------------------------------------------------------- */

static void run_body(tp_ctx *ctx, tp_sample_body body, void *user, int64_t i)
{
    tpi_user_code code;
    tpi_user_code_enter(&code, ctx, what);
    body(user, i);
    tpi_user_code_end_blocks(&code);
    tpi_user_code_leave(&code);
}

static void run_sample(void *user)
{
    const sample *x = user;
    run_body(ctx_of(x->of), x->of->body, x->of->user, x->number);
}

/* One that is live from now on; NULL: no memory. */
static sample *take_sample(tpi_samples *s)
{
    tpi_mem *m = &ctx_of(s)->mem;
    if (s->n_idle)
        return s->idle[--s->n_idle];
    sample *x = tpi_take(m, sizeof *x);
    tpi_scope *scopes = x ? tpi_take(m, sizeof *scopes) : NULL;
    if (!scopes) {
        tpi_give_back(m, x, x ? sizeof *x : 0);
        return NULL;
    }
    *x = (sample){
        .of = s, .caller = {.scopes = scopes, .scopes_size = 1, .next = s->outside.next}
    };
    s->outside.next = &x->caller;
    return x;
}

/* The numbers of its tensors begin where they would in the loop, or behind those of samples before it. */
static void begin_sample(tpi_samples *s, sample *x, int32_t number)
{
    const tpi_caller *from = &ctx_of(s)->caller;
    tpi_caller *c = &x->caller;
    x->number = number;
    x->state = IS_NEW;
    x->first = s->together ? s->first + RANGE * (uint64_t)number : from->seq;
    c->seq = x->first;
    c->function = from->function;
    c->calls = from->calls;
    c->stack = from->stack;
    c->blocks = NULL;
    c->stream = from->stream;
    c->recording = from->recording;
    c->training = from->training;
    c->sample = number + 1;
    c->scopes[0].mark = 0;
    c->n_scopes = 1;
    c->scope_floor = 1;
}

static void end_sample(tpi_samples *s, sample *x)
{
    tp_ctx *ctx = ctx_of(s);
    become(s, NULL);
    if (x->fiber)
        tpi_fiber_give_back(&ctx->fibers, x->fiber);
    x->fiber = NULL;
    x->state = HAS_ENDED;
    if (!s->together)
        ctx->caller.seq = x->caller.seq;
    hand_over(ctx, &x->caller);
}

static bool is_first(const tpi_samples *s, const sample *x)
{
    int32_t i = 0;
    while (s->live[i]->state == HAS_ENDED)
        i++;
    return s->live[i] == x;
}

/* Until it waits or ends. False: there is no stack for it now. */
static bool run(tpi_samples *s, sample *x)
{
    const bool begins = x->state == IS_NEW;
    if (begins && s->together)
        x->fiber = tpi_fiber_take(&ctx_of(s)->fibers);
    if (begins && !x->fiber && !is_first(s, x))
        return false;
    if (begins && x->fiber)
        x->caller.stack = tpi_fiber_stack(x->fiber);
    ctx_of(s)->batch_counts.samples += begins;
    bool ended = true;
    for (bool starts = begins;; starts = false) {
        x->state = MAY_GO_ON;
        become(s, x);
        if (!x->fiber)
            run_sample(x);
        else
            ended =
                starts ? tpi_fiber_start(x->fiber, run_sample, x) : tpi_fiber_go_on(x->fiber);
        if (ended || x->state != WANTS_VALUES)
            break;
        flush(s);
    }
    if (ended)
        end_sample(s, x);
    return true;
}

/* ---- all of them ---------------------------------------------------------------------------------------------------------- */

static void take_more(tpi_samples *s)
{
    const int32_t most = s->together ? MOST : 1;
    while (s->n_live < most && s->n_taken < s->n) {
        become(s, NULL);
        sample *x = take_sample(s);
        if (!x)
            return;
        begin_sample(s, x, s->n_taken++);
        s->live[s->n_live++] = x;
    }
}

static void drop_ended(tpi_samples *s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_live; i++)
        if (s->live[i]->state == HAS_ENDED)
            s->idle[s->n_idle++] = s->live[i];
        else
            s->live[n++] = s->live[i];
    s->n_live = n;
}

/* All that may go on do, once; false: none did. */
static bool run_some(tpi_samples *s)
{
    bool any = false;
    for (int32_t i = 0; i < s->n_live; i++) {
        sample *x = s->live[s->reversed ? s->n_live - 1 - i : i];
        if (x->state == IS_NEW || x->state == MAY_GO_ON ||
            (x->state == WAITS_FOR_TURN && is_first(s, x)))
            any |= run(s, x);
    }
    return any;
}

/* False: no memory for any sample that is left. */
static bool run_all(tpi_samples *s)
{
    for (take_more(s); s->n_live; take_more(s)) {
        const bool any = run_some(s);
        drop_ended(s);
        if (any)
            continue;
        flush(s);
        for (int32_t i = 0; i < s->n_live; i++)
            if (s->live[i]->state == WAITS)
                s->live[i]->state = MAY_GO_ON;
    }
    return s->n_taken == s->n;
}

static void free_sample(tpi_samples *s, sample *x)
{
    tpi_caller_free(ctx_of(s), &x->caller);
    tpi_give_back(&ctx_of(s)->mem, x, sizeof *x);
}

static void free_samples(tpi_samples *s)
{
    tp_ctx *ctx = ctx_of(s);
    s->w->samples = NULL;
    ctx->callers = s->around;
    for (int32_t i = 0; i < s->n_idle; i++)
        free_sample(s, s->idle[i]);
    tpi_give_back(&ctx->mem, s, sizeof *s);
}

/* One after the other: the same in all but the time. */
static bool goes_together(const tp_ctx *ctx, const char *fibers, int32_t n)
{
    const bool has_numbers = ctx->caller.seq + RANGE * ((uint64_t)n + 2) < LAST;
    if (!has_numbers)
        tpi_log(TPI_LOG_batch,
                "no numbers of program order are left: samples run one after the other");
    return n > 1 && has_numbers && !(fibers && strcmp(fibers, "0") == 0);
}

static tp_status run_in(tpi_queue *w, bool opened, tpi_at at, int32_t n, tp_sample_body body,
                        void *user)
{
    tp_ctx *ctx = w->ctx;
    const char *fibers = tpi_env(TPI_ENV_FIBERS);
    (void)tpi_stack_is_low(&ctx->caller.stack); /* finds it */
    const bool together = goes_together(ctx, fibers, n);
    tpi_samples *s = tpi_take(&ctx->mem, sizeof *s);
    if (!s)
        return (tp_status)tpi_no_memory(ctx, at, what)->status;
    *s = (tpi_samples){
        .w = w,
        .around = ctx->callers,
        .body = body,
        .user = user,
        .n = n,
        .opened = opened,
        .together = together,
        .reversed = fibers && strcmp(fibers, "reverse") == 0,
        .above = {__builtin_frame_address(0), ctx->caller.stack.high},
        .outside = {.next = ctx->callers                         },
        .first = ctx->caller.seq + (together ? RANGE : 0)
    };
    ctx->callers = &s->outside;
    w->samples = s;
    const bool ok = run_all(s);
    become(s, NULL);
    if (s->together)
        ctx->caller.seq = s->first + RANGE * (uint64_t)n;
    free_samples(s);
    return ok ? TP_OK : (tp_status)tpi_no_memory(ctx, at, what)->status;
}

tp_status tp_batch_each_at(const char *file, int line, tp_ctx *tp, int64_t n,
                           tp_sample_body body, void *user)
{
    const tpi_at at = TPI_AT(file, line);
    if (!tp)
        return TP_E_NULL;
    TPI_ALONE_STATUS(tp, at, what);
    if (!body)
        return tpi_fail_status(tp, at, what, TP_E_NULL, "body is NULL");
    if (tpi_is_spoilt(n))
        return (tp_status)tpi_fail_spoilt(tp, at, what, TP_E_VALUE, n)->status;
    if (n < 0 || n >= INT32_MAX)
        return tpi_fail_status(tp, at, what, TP_E_VALUE, "there are no %lld samples",
                               (long long)n);
    tp_status status = TP_OK;
    tpi_queue *opened = tp->frame || tp->trap_nan ? NULL : tpi_queue_open(tp);
    tpi_queue *w = tpi_queue_of(tp);
    if (w && !w->samples && !tp->trap_nan)
        status = run_in(w, opened, at, (int32_t)n, body, user);
    else
        for (int64_t i = 0; i < n; i++)
            run_body(tp, body, user, i);
    if (opened && tp->frame == &opened->head)
        tpi_queue_close(opened);
    return status;
}

TPI_BARE(tp_status, tp_batch_each, (tp_ctx * tp, int64_t n, tp_sample_body body, void *user),
         tp, n, body, user)

/* ---- in a sample ------------------------------------------------------------------------------------------------------------- */

/* Others may go on meanwhile: the library is in the midst of nothing that they would find half done. */
static bool may_wait(const tp_ctx *ctx, const tpi_queue *w)
{
    return !ctx->sweeps && !ctx->tracing && !ctx->unfolding && !ctx->attempts &&
           ctx->frame == &w->head;
}

static bool is_in(tpi_stack stack, const char *frame)
{
    return frame >= stack.low && frame < stack.high;
}

/* Does a sample run that can wait? Another context's sample in it has a stack of its own, and stays there. */
static bool has_fiber(const tpi_samples *s)
{
    return s && s->now && s->now->fiber &&
           is_in(tpi_fiber_stack(s->now->fiber), __builtin_frame_address(0));
}

static void hand_back(tpi_samples *s, sample_state state)
{
    s->now->state = (uint8_t)state;
    tpi_fiber_wait(s->now->fiber);
}

void tpi_queue_settle(tpi_queue *w, bool at_once)
{
    tpi_samples *s = w->samples;
    if (w->running || !w->n)
        return;
    if (!has_fiber(s)) {
        tpi_queue_flush(w);
    } else if (at_once || !may_wait(w->ctx, w)) {
        hand_back(s, WANTS_VALUES);
    } else {
        w->ctx->batch_counts.waits++;
        hand_back(s, WAITS);
    }
}

void tpi_samples_take_turn(tpi_queue *w)
{
    tpi_samples *s = w->samples;
    if (has_fiber(s) && may_wait(w->ctx, w) && !is_first(s, s->now))
        hand_back(s, WAITS_FOR_TURN);
}

tp_tensor *tpi_samples_refuse(tpi_queue *w, tpi_at at, const char *name, int n,
                              tp_tensor *const *in)
{
    const tpi_samples *s = w->samples;
    const sample *x = s ? s->now : NULL;
    if (!x || w->ctx->sweeps) /* gradients are added to what others have given */
        return NULL;
    const uint64_t end = w->ctx->caller.seq;
    for (int k = 0; k < n; k++)
        if (in[k]->seq >= s->first && (in[k]->seq < x->first || in[k]->seq >= end) &&
            !tpi_is_kept_number(in[k]))
            return tpi_fail(w->ctx, at, name, TP_E_STATE,
                            "operand %d was made by another sample of tp_batch_each, which may "
                            "not be there yet: samples give results to who called it alone",
                            k);
    if (end - x->first > RANGE - ROOM)
        return tpi_fail(w->ctx, at, name, TP_E_LIMIT, "more than %llu tensors in one sample",
                        (unsigned long long)(RANGE - ROOM));
    return NULL;
}

bool tpi_samples_share(const tpi_queue *w, const tp_tensor *t)
{
    const sample *x = w->samples ? w->samples->now : NULL;
    return x && t->seq < x->first;
}

tp_tensor *tpi_samples_refuse_assign(tpi_queue *w, tpi_at at, const tp_tensor *variable)
{
    if (!tpi_samples_share(w, variable))
        return NULL;
    return tpi_fail(
        w->ctx, at, "tp_assign", TP_E_STATE,
        "a sample of tp_batch_each assigns %s%s%s, which others read: assign it behind "
        "the call",
        variable->name ? "\"" : "", variable->name ? variable->name : "a variable",
        variable->name ? "\"" : "");
}

/* A stream that a body chose is that sample's. */
tp_tensor *tpi_samples_refuse_draw(tpi_queue *w, tpi_at at)
{
    const tpi_samples *s = w->samples;
    tp_ctx *ctx = w->ctx;
    if (!s || !s->now)
        return NULL;
    tpi_stream *stream =
        ctx->caller.stream == s->outside.stream ? NULL : tpi_stream_of(ctx, ctx->caller.stream);
    if (!stream) {
        tpi_samples_take_turn(w);
        return NULL;
    }
    if (stream->sample > s->first && stream->sample != s->now->first + 1)
        return tpi_fail(ctx, at, "tp_random_stream", TP_E_STATE,
                        "another sample of tp_batch_each has drawn from stream %llu",
                        (unsigned long long)stream->number);
    stream->sample = s->now->first + 1;
    return NULL;
}

/* ---- bodies that were left by longjmp ------------------------------------------------------------------------------------------ */

bool tpi_samples_left(const tpi_queue *w)
{
    return w->samples && is_in(w->samples->above, __builtin_frame_address(0));
}

void tpi_samples_give_up(tpi_queue *w)
{
    tpi_samples *s = w->samples;
    tp_ctx *ctx = w->ctx;
    const bool opened = s->opened;
    become(s, NULL);
    for (int32_t i = 0; i < s->n_live; i++) {
        sample *x = s->live[i];
        hand_over(ctx, &x->caller);
        if (x->fiber)
            tpi_fiber_close(x->fiber);
        free_sample(s, x);
    }
    if (s->together)
        ctx->caller.seq = s->first + RANGE * (uint64_t)s->n;
    free_samples(s);
    w->running = false;
    if (opened) {
        ctx->frame = &w->head;
        tpi_queue_close(w);
    }
}
