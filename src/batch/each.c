#include "batch/each.h"

#include "base/env.h"
#include "base/fiber.h"
#include "base/log.h"
#include "core/dim.h"
#include "op/random_position.h"

#include <stdint.h>
#include <string.h>

/* Samples that wait at a time; and stacks that are kept for the next time, since what they needed once stays with them. */
enum { MOST = 1024, MOST_IDLE = 32 };
#define RANGE ((uint64_t)TPI_SAMPLE_RANGE)
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
    tpi_fiber *fiber;  /* NULL: it has not begun, or has the stack of who called, alone */
    tpi_caller caller; /* while it does not run */
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
    tpi_stack stack;    /* of who called; none where it is not known */
    const char *frame;  /* there */
    bool lost;          /* a result, for want of memory */
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

static bool is_in(tpi_stack stack, const char *frame)
{
    return frame >= stack.low && frame < stack.high;
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

/* What the body left to who called, as if it had been made there; false: some is lost, for want of memory. */
static bool hand_over(tpi_caller *from)
{
    bool ok = true;
    const int32_t n = from->n_owned, kept = from->n_scopes ? from->scopes[0].mark : 0;
    from->n_owned = from->n_scopes = 0;
    for (int32_t i = 0; i < n; i++) {
        tp_tensor *t = from->owned[i];
        t->owned_at = -1;
        if (!tpi_own(t))
            ok = false;
        else if (i < kept)
            tp_keep(t);
    }
    return ok;
}

/* ---- a sample ----------------------------------------------------------------------------------------------------------- */

/* What it sets of these holds until it ends. */
static void run_body(tp_ctx *ctx, tp_sample_body body, void *user, int64_t i)
{
    const uint64_t stream = ctx->caller.stream;
    const bool recording = ctx->caller.recording, training = ctx->caller.training;
    tpi_user_code code;
    tpi_user_code_enter(&code, ctx, what);
    body(user, i);
    tpi_user_code_end_blocks(&code);
    tpi_user_code_leave(&code);
    ctx->caller.stream = stream;
    ctx->caller.recording = recording;
    ctx->caller.training = training;
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
    c->others = s->first;
    c->first = s->together ? s->first + RANGE * (uint64_t)number : from->seq;
    c->seq = c->first;
    c->sample = number + 1;
    c->function = from->function;
    c->calls = from->calls;
    c->stack = from->stack;
    c->blocks = from->blocks;
    c->stream = from->stream;
    c->recording = from->recording;
    c->training = from->training;
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
    s->lost |= !hand_over(&x->caller);
}

static bool is_first(const tpi_samples *s, const sample *x)
{
    int32_t i = 0;
    while (s->live[i]->state == HAS_ENDED)
        i++;
    return s->live[i] == x;
}

/* False: there is no stack for it now. */
static bool has_stack(tpi_samples *s, sample *x)
{
    if (s->together)
        x->fiber = tpi_fiber_take(&ctx_of(s)->fibers);
    if (x->fiber)
        x->caller.stack = tpi_fiber_stack(x->fiber);
    return x->fiber || is_first(s, x);
}

/* Its body, from the beginning or from where it waits; true: it has ended. */
static bool go_on(tpi_samples *s, sample *x)
{
    const bool begins = x->state == IS_NEW;
    x->state = MAY_GO_ON;
    become(s, x);
    if (x->fiber)
        return begins ? tpi_fiber_start(x->fiber, run_sample, x) : tpi_fiber_go_on(x->fiber);
    run_sample(x);
    return true;
}

/* Until it waits or ends. False: there is no stack for it now. */
static bool run(tpi_samples *s, sample *x)
{
    if (x->state == IS_NEW && !has_stack(s, x))
        return false;
    ctx_of(s)->batch_counts.samples += x->state == IS_NEW;
    bool ended = go_on(s, x);
    while (!ended && x->state == WANTS_VALUES) {
        flush(s);
        ended = go_on(s, x);
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
    tpi_fibers_close(&ctx->fibers, MOST_IDLE);
    tpi_give_back(&ctx->mem, s, sizeof *s);
}

/* One after the other: the same in all but the time. */
static bool goes_together(const tp_ctx *ctx, const char *fibers, int32_t n)
{
    const bool has_numbers = ctx->caller.seq + RANGE * ((uint64_t)n + 2) < LAST;
    if (!has_numbers)
        tpi_log(TPI_LOG_batch,
                "no numbers of program order are left: samples run one after the other");
    return has_numbers && !(fibers && strcmp(fibers, "0") == 0);
}

static tp_status run_in(tpi_queue *w, bool opened, tpi_at at, int32_t n, tp_sample_body body,
                        void *user)
{
    tp_ctx *ctx = w->ctx;
    const char *fibers = tpi_env(TPI_ENV_FIBERS);
    const char *frame = __builtin_frame_address(0);
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
        .stack = is_in(ctx->caller.stack, frame) ? ctx->caller.stack : (tpi_stack){NULL, NULL},
        .frame = frame,
        .outside = {.next = ctx->callers   },
        .first = ctx->caller.seq + (together ? RANGE : 0)
    };
    ctx->callers = &s->outside;
    w->samples = s;
    const bool ok = run_all(s) && !s->lost;
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
    tpi_come_back(tp);
    if (!body)
        return tpi_fail_status(tp, at, what, TP_E_NULL, "body is NULL");
    if (tpi_is_spoilt(n))
        return (tp_status)tpi_fail_spoilt(tp, at, what, TP_E_VALUE, n)->status;
    if (n < 0 || n >= INT32_MAX)
        return tpi_fail_status(tp, at, what, TP_E_VALUE, "there are no %lld samples",
                               (long long)n);
    tp_status status = TP_OK;
    const bool alone = tp->trap_nan || tp->caller.sample;
    tpi_queue *opened = tp->frame || alone ? NULL : tpi_queue_open(tp);
    tpi_queue *w = alone ? NULL : tpi_queue_of(tp);
    if (w)
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

void tpi_queue_settle(tpi_queue *w, tpi_others others)
{
    tpi_samples *s = w->samples;
    if (w->running || !w->n)
        return;
    if (!has_fiber(s)) {
        tpi_queue_flush(w);
    } else if (others == TPI_OTHERS_STAY || !may_wait(w->ctx, w)) {
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
        return s->now->fiber && !is_first(s, s->now)
                   ? tpi_fail(ctx, at, "tp_random_stream", TP_E_STATE,
                              "numbers are drawn in the midst of something by a sample that is "
                              "not the first: choose a stream of its own")
                   : NULL;
    }
    const uint64_t mark = ctx->caller.first + 1;
    if (stream->sample > s->first && stream->sample != mark)
        return tpi_fail(ctx, at, "tp_random_stream", TP_E_STATE,
                        "another sample of tp_batch_each has drawn from stream %llu",
                        (unsigned long long)stream->number);
    stream->sample = mark;
    return NULL;
}

/* ---- bodies that were left by longjmp ------------------------------------------------------------------------------------------ */

bool tpi_samples_left(const tpi_queue *w)
{
    const tpi_samples *s = w->samples;
    const char *here = __builtin_frame_address(0);
    /* Where a fiber runs nothing else does on that stack; else it shows by frames around that of the call. */
    return s && is_in(s->stack, here) && ((s->now && s->now->fiber) || here > s->frame);
}

void tpi_samples_give_up(tpi_queue *w)
{
    tpi_samples *s = w->samples;
    tp_ctx *ctx = w->ctx;
    const bool opened = s->opened;
    become(s, NULL);
    for (int32_t i = 0; i < s->n_live; i++) {
        sample *x = s->live[i];
        hand_over(&x->caller);
        if (x->fiber && !is_in(tpi_fiber_stack(x->fiber), __builtin_frame_address(0)))
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
