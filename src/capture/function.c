/* Captured functions: calls. */
#include "base/env.h"
#include "batch/function_call.h"
#include "capture/record/trace.h"
#include "op/call.h"

#include <string.h>

/* ---- life ------------------------------------------------------------------------------------------ */

static void function_free(tpi_owned *o);

/* The next function after o; NULL: there is none. */
static tp_function *next_function(const tp_ctx *ctx, tpi_owned *o)
{
    do
        o = o->next;
    while (o != &ctx->objects && o->free != function_free);
    return o == &ctx->objects ? NULL : (tp_function *)o;
}

/* Nobody watches what g watched. */
static void forget_called(tp_function *g)
{
    for (tp_function *f = next_function(g->ctx, &g->ctx->objects); f;
         f = next_function(g->ctx, &f->owned)) {
        const int i = tpi_find_called(f, g);
        if (i < 0)
            continue;
        f->pure.called[i] = f->pure.called[--f->pure.n_called];
        f->pure.stale = true;
    }
}

/* What a tp_batch keeps for it. */
static void forget_kept(tp_function *f)
{
    if (f->pure.kept)
        f->pure.kept->free(f->pure.kept);
    f->pure.kept = NULL;
}

static void function_free(tpi_owned *o)
{
    tp_function *f = (tp_function *)o;
    tp_ctx *ctx = f->ctx;
    tpi_frame *fr = &f->frame;
    tpi_dry_free(ctx, f->pure.dry);
    tpi_pure_reset(f);
    forget_kept(f);
    forget_called(f);
    tpi_give_back(&ctx->mem, f->pure.called,
                  (size_t)f->pure.called_size * sizeof *f->pure.called);
    tpi_give_back(&ctx->mem, f->pure.watches,
                  (size_t)f->pure.watches_size * sizeof *f->pure.watches);
    tpi_tree_free(&f->forward, ctx);
    tpi_tree_free(&f->backward, ctx);
    tpi_shared_free(f);
    tpi_give_back(&ctx->mem, fr->pending, (size_t)fr->pending_size * sizeof *fr->pending);
    tpi_give_back(&ctx->mem, fr->operands, (size_t)fr->operands_size * sizeof *fr->operands);
    tpi_strfree(&ctx->mem, f->name);
    tpi_give_back(&ctx->mem, f, sizeof *f);
}

static tp_function *find_function(tp_ctx *ctx, int64_t serial)
{
    tp_function *f = next_function(ctx, &ctx->objects);
    while (f && f->serial != serial)
        f = next_function(ctx, &f->owned);
    return f;
}

/* The gradient inside a call is captured too, in a tree of its own. Of functions that are asked for one no such call is
 * replayed any more. */
static void *sweep_begin(tp_ctx *ctx, const tp_tensor *call, tpi_at at)
{
    const int64_t number = ((const tpi_call_attrs *)call->attrs)->function;
    const bool replayed = tpi_is_replayed_call(call);
    if (ctx->frame && !replayed)
        return NULL;
    tp_function *f = find_function(ctx, replayed ? tpi_replayed_call_of(number) : number);
    if (f && !f->pure.asked)
        f->pure.asked = f->pure.stale = true;
    if (!f || replayed || f->running || f->options.eager || ctx->trap_nan)
        return NULL;
    return tpi_frame_open(f, &f->backward, at, 0, NULL) ? f : NULL;
}

static void sweep_end(tp_ctx *ctx, void *begun)
{
    tp_function *f = begun;
    (void)ctx;
    if (f)
        tpi_frame_close(&f->frame, f->at, 0, NULL);
}

static const tpi_call_hooks hooks = {.sweep_begin = sweep_begin, .sweep_end = sweep_end};

tp_function *tp_function_new_at(const char *file, int line, tp_ctx *tp, const char *name,
                                tp_body body, void *user, const tp_function_options *opt)
{
    static const char what[] = "tp_function_new";
    const tpi_at at = TPI_AT(file, line);
    if (!tp)
        return NULL;
    if (!body || !name) {
        tpi_fail_status(tp, at, what, TP_E_NULL, "the %s is NULL", name ? "body" : "name");
        return NULL;
    }
    if (opt && (unsigned)opt->engine > TP_ENGINE_TILES) {
        tpi_fail_status(tp, at, what, TP_E_VALUE, "%d is no engine", (int)opt->engine);
        return NULL;
    }
    tp_function *f = tpi_take(&tp->mem, sizeof *f);
    if (!f) {
        tpi_no_memory(tp, at, what);
        return NULL;
    }
    memset(f, 0, sizeof *f);
    f->ctx = tp;
    f->at = at;
    f->body = body;
    f->user = user;
    f->options = opt ? *opt : (tp_function_options){0};
    f->options.eager |= tpi_env(TPI_ENV_EAGER) != NULL;
    f->options.check |= tpi_env(TPI_ENV_CHECK_PURE) != NULL;
    f->serial = (int64_t)tp->caller.seq++;
    f->forward.top.number = f->backward.top.number = -1;
    f->forward.top.cut = f->backward.top.cut = true;
    f->name = tpi_strdup(&tp->mem, name);
    if (!f->name) {
        tpi_give_back(&tp->mem, f, sizeof *f);
        tpi_no_memory(tp, at, what);
        return NULL;
    }
    tpi_object_add(tp, &f->owned, function_free);
    tp->call_hooks = &hooks;
    return f;
}

TPI_BARE(tp_function *, tp_function_new,
         (tp_ctx * tp, const char *name, tp_body body, void *user,
          const tp_function_options *opt),
         tp, name, body, user, opt)

void tp_function_free(tp_function *f)
{
    if (!f)
        return;
    if (f->running || f->ctx->frame == &f->frame.head) {
        tpi_fail_status(f->ctx, TPI_AT(NULL, 0), "tp_function_free", TP_E_STATE,
                        "\"%s\" is freed while a call of it runs", f->name);
        return;
    }
    tpi_object_remove(&f->owned);
    function_free(&f->owned);
}

/* ---- one node to gradients ------------------------------------------------------------------------- */

static bool is_older(void *user, const tp_tensor *t)
{
    return t->seq < *(const uint64_t *)user;
}

/* Ties what was computed since `entry` to the tensors from before that a gradient may be asked of. */
static void tie(tp_function *f, tpi_at at, uint64_t entry, int n, tp_tensor **out)
{
    tpi_nodes operands = {.ctx = f->ctx};
    const bool ok = tpi_call_operands(&operands, n, out, is_older, &entry);
    if (ok && operands.n)
        tpi_call_tie(f->ctx, at, f->serial, operands.n, operands.v, n, out, out);
    for (int i = 0; i < n && !ok; i++)
        out[i] = tpi_no_memory(f->ctx, at, f->name);
    tpi_nodes_free(&operands);
}

/* ---- calls -------------------------------------------------------------------------------------------- */

static void check_results(tp_function *f, tpi_at at, int n, tp_tensor **out)
{
    for (int i = 0; i < n; i++) {
        if (!out[i])
            out[i] = tpi_fail(f->ctx, at, f->name, TP_E_NULL, "result %d was not set", i);
        else if (!tpi_is_live(out[i]) || (out[i]->ctx && out[i]->ctx != f->ctx))
            out[i] = tpi_refuse_operand(f->ctx, at, f->name, i, out[i]);
    }
}

/* Can the call be left to something else than its body, who stands between ops and their execution aside? */
static bool is_free(const tp_function *f, int n_in, tp_tensor *const *in)
{
    const tp_ctx *ctx = f->ctx;
    if (ctx->tracing || f->options.eager || ctx->trap_nan || f->running > 0)
        return false;
    for (int i = 0; i < n_in; i++)
        if (!tpi_is_live(in[i]) || in[i]->status != TP_OK || in[i]->graph || in[i]->ctx != ctx)
            return false;
    return true;
}

static bool can_capture(const tp_function *f, int n_in, tp_tensor *const *in)
{
    return !f->ctx->frame && is_free(f, n_in, in);
}

/* As a whole by who stands there, in a tp_batch. */
static bool is_taken(tp_function *f, tpi_at at, int n_in, tp_tensor *const *in, int n_out,
                     tp_tensor **out, bool **looked)
{
    const tpi_frame_head *frame = f->ctx->frame;
    char watched[TPI_MAX_WATCHED];
    if (!frame || !frame->rules->call || !f->options.pure || f->options.check ||
        !is_free(f, n_in, in))
        return false;
    const tpi_function_call c = {.at = at,
                                 .name = f->name,
                                 .body = f->body,
                                 .user = f->user,
                                 .n_in = n_in,
                                 .n_out = n_out,
                                 .in = in,
                                 .out = out,
                                 .engine = f->options.engine,
                                 .watched = watched,
                                 .n_watched = tpi_watched_bytes(f),
                                 .kept = &f->pure.kept,
                                 .looked = looked};
    if (c.n_watched > sizeof watched)
        return false;
    tpi_watched_copy(f, watched);
    f->running++;
    const bool taken = frame->rules->call(f->ctx, &c);
    f->running--;
    return taken;
}

/* A function may call itself, or another that calls it, so deep; NULL: it may. */
static tp_tensor *refuse_depth(tp_function *f, tpi_at at)
{
    enum { MAX_DEPTH = 1000 }; /* as deep as gradients go (grad/sweep.c) */
    tp_ctx *ctx = f->ctx;
    if (ctx->caller.calls == 0 ||
        (ctx->caller.calls < MAX_DEPTH && !tpi_stack_is_low(&ctx->caller.stack)))
        return NULL;
    return tpi_fail(ctx, at, f->name, TP_E_LIMIT,
                    ctx->caller.calls < MAX_DEPTH
                        ? "%d calls in each other leave too little of the thread's stack"
                        : "more than %d calls in each other",
                    (int)ctx->caller.calls);
}

/* A call whose body runs. */
typedef struct running {
    tp_function *f;
    tpi_at at;
    int n_in, n_out;
    tp_tensor *const *in;
    tp_tensor **out;
    tpi_trace *trace; /* what it does is recorded for replays; NULL */
    tpi_dry *dry;     /* it is compared with a replay; NULL */
    bool *
        looked; /* is to tell whether C looked at values, of which there were so many before; or NULL */
    uint64_t looks;
    bool captured;
    bool paced; /* how long it takes tells whether calls are to run captured or eagerly */
    uint64_t entry;
    tpi_user_code code;
} running;

static void enter(running *r)
{
    tp_function *f = r->f;
    tp_ctx *ctx = f->ctx;
    tpi_frame *around = tpi_frame_of(ctx);
    if (around && around->trace)
        tpi_traced_call(around, r->at, f);
    if (ctx->frame && ctx->frame->rules->entered)
        ctx->frame->rules->entered(ctx);
    r->looks = ctx->looks;
    f->running++;
    ctx->caller.calls++;
    f->stats.calls++;
    f->stats.user_calls++;
    r->entry = ctx->caller.seq;
    tpi_user_code_enter(&r->code, ctx, f->name);
}

/* Begins to record, or to compare with what was recorded. */
static void watch(running *r, bool can)
{
    tp_function *f = r->f;
    r->trace = can && f->options.pure ? tpi_pure_begin(f, r->at, r->n_in, r->in) : NULL;
    r->paced = can && !r->trace && !r->dry;
    const bool eager = !can || (r->paced && tpi_pace_begin(f));
    r->captured = !eager && tpi_frame_open(f, &f->forward, r->at, r->n_in, r->in);
    r->paced &= r->captured || eager; /* one that could not be captured is of neither kind */
    if (!r->captured) {
        tpi_trace_free(r->trace);
        r->trace = NULL;
    } else {
        f->frame.trace = r->trace;
    }
    if (r->dry)
        f->pure.dry = r->dry;
}

/* Ends scopes and blocks that the body left open, and holds the results. */
static tp_status leave(const running *r)
{
    tp_function *f = r->f;
    tp_ctx *ctx = f->ctx;
    tpi_user_code_end_blocks(&r->code);
    check_results(f, r->at, r->n_out, r->out);
    tp_tensor *stopped = tpi_refuse_interrupted(ctx, r->at, f->name);
    const tp_status status = stopped ? tpi_fail_all(stopped, r->n_out, r->out) : TP_OK;
    for (int i = 0; i < r->n_out; i++)
        tpi_ref(r->out[i]);
    tpi_user_code_leave(&r->code);
    tp_scope_end(ctx);
    return status;
}

static void settle(const running *r)
{
    tp_function *f = r->f;
    if (r->looked)
        *r->looked |= f->ctx->looks != r->looks;
    if (r->captured) {
        tpi_frame_close(&f->frame, r->at, r->n_out, r->out);
        f->frame.trace = NULL;
    }
    if (r->dry)
        tpi_check_purity(f, r->at, r->trace, r->n_out, r->out);
    else if (r->trace)
        tpi_pure_end(f, r->at, r->trace, r->in, r->n_out, r->out);
    for (int i = 0; i < r->n_out; i++)
        r->out[i] = tpi_hand_out(r->out[i], r->at);
    tie(f, r->at, r->entry, r->n_out, r->out);
    if (r->paced)
        tpi_pace_end(f, r->captured);
    f->running--;
    f->ctx->caller.calls--;
}

static tp_status status_of(int n, tp_tensor *const *out)
{
    tp_status status = TP_OK;
    for (int i = 0; i < n && status == TP_OK; i++)
        status = (tp_status)out[i]->status;
    return status;
}

static tp_status call(tp_function *f, tpi_at at, int n_in, tp_tensor *const *in, int n_out,
                      tp_tensor **out)
{
    tp_ctx *ctx = f->ctx;
    running r = {.f = f, .at = at, .n_in = n_in, .n_out = n_out, .in = in, .out = out};
    if ((f->pure.stale || f->pure.hooks != ctx->hooks_changed) && !f->running) {
        tpi_pure_reset(f);
        forget_kept(f);
    }
    const bool can = can_capture(f, n_in, in);
    const bool check = f->options.check && can && f->pure.n_flows;
    if (is_taken(f, at, n_in, in, n_out, out, &r.looked)) {
        f->stats.calls++;
        return status_of(n_out, out);
    }
    if (can && (f->pure.n_flows || f->pure.n_relaunches) && !check &&
        tpi_replay(f, at, n_in, in, n_out, out)) {
        f->stats.calls++;
        return TP_OK;
    }
    tp_tensor *refused = tpi_refuse_interrupted(ctx, at, f->name);
    refused = refused ? refused : refuse_depth(f, at);
    if (refused)
        return tpi_fail_all(refused, n_out, out);
    r.dry = check ? tpi_replay_dry(f, at, n_in, in, n_out) : NULL;
    if (tp_scope_begin(ctx) != TP_OK) {
        tpi_dry_free(ctx, r.dry);
        return TP_E_MEMORY;
    }
    enter(&r);
    watch(&r, can);
    f->body(f->user, n_in, in, n_out, out);
    tp_status status = leave(&r);
    settle(&r);
    return status == TP_OK ? status_of(n_out, out) : status;
}

tp_status tp_function_call_at(const char *file, int line, tp_function *f, int n_in,
                              tp_tensor *const *in, int n_out, tp_tensor **out)
{
    static const char what[] = "tp_function_call";
    const tpi_at at = TPI_AT(file, line);
    if (!f)
        return TP_E_NULL;
    if (n_in < 0 || n_out < 0 || (n_in && !in) || (n_out && !out))
        return tpi_fail_status(f->ctx, at, what, TP_E_NULL, "the %s are missing",
                               n_in < 0 || (n_in && !in) ? "arguments"
                                                         : "places for the results");
    TPI_ALONE_OR(f->ctx, at, what, tpi_fail_all((tp_tensor *)crowd, n_out, out));
    for (int i = 0; i < n_out; i++)
        out[i] = NULL;
    const tp_status status = call(f, at, n_in, in, n_out, out);
    for (int i = 0; i < n_out; i++)
        if (!out[i])
            out[i] = tpi_no_memory(f->ctx, at, what);
    return status;
}

tp_status(tp_function_call)(tp_function *f, int n_in, tp_tensor *const *in, int n_out,
                            tp_tensor **out)
{
    return tp_function_call_at(NULL, 0, f, n_in, in, n_out, out);
}

tp_tensor *tp_function_apply_at(const char *file, int line, tp_function *f, int n_in,
                                tp_tensor *const *in)
{
    if (!f)
        return (tp_tensor *)&tpi_nil;
    tp_tensor *y = NULL;
    tp_function_call_at(file, line, f, n_in, in, 1, &y);
    return y ? y : &f->ctx->nil;
}

TPI_BARE(tp_tensor *, tp_function_apply, (tp_function * f, int n_in, tp_tensor *const *in), f,
         n_in, in)

/* ---- pure functions: what they look at ----------------------------------------------------------------- */

tp_status tp_function_watch_at(const char *file, int line, tp_function *f, const void *bytes,
                               size_t n)
{
    static const char what[] = "tp_function_watch";
    const tpi_at at = TPI_AT(file, line);
    if (!f)
        return TP_E_NULL;
    tpi_pure *p = &f->pure;
    if (!bytes)
        return tpi_fail_status(f->ctx, at, what, TP_E_NULL, "the bytes are NULL");
    if (f->running)
        return tpi_fail_status(f->ctx, at, what, TP_E_STATE, "a call of \"%s\" runs", f->name);
    if (n > TPI_MAX_WATCHED || p->n_watched + n > TPI_MAX_WATCHED)
        return tpi_fail_status(f->ctx, at, what, TP_E_VALUE,
                               "%zu bytes beside the %zu that are watched: at most %d are, as "
                               "they are compared at each call; what is longer can be a tensor",
                               n, p->n_watched, (int)TPI_MAX_WATCHED);
    tpi_watch *v =
        tpi_grow(&f->ctx->mem, p->watches, p->n_watches, &p->watches_size, sizeof *v);
    if (!v) {
        tpi_no_memory(f->ctx, at, what);
        return TP_E_MEMORY;
    }
    p->watches = v;
    tpi_pure_reset(f); /* what was recorded says nothing of them */
    v[p->n_watches++] = (tpi_watch){bytes, n};
    p->n_watched += n;
    for (tp_function *o = next_function(f->ctx, &f->ctx->objects); o;
         o = next_function(f->ctx, &o->owned))
        o->pure.stale |= tpi_find_called(o, f) >= 0;
    return TP_OK;
}

tp_status(tp_function_watch)(tp_function *f, const void *bytes, size_t n)
{
    return tp_function_watch_at(NULL, 0, f, bytes, n);
}

/* ---- asking ------------------------------------------------------------------------------------------- */

tp_function_stats tp_function_stats_of(const tp_function *f)
{
    if (!f)
        return (tp_function_stats){0};
    tp_function_stats stats = f->stats;
    stats.segments = tpi_count_segments(f);
    return stats;
}

tp_status tp_function_wait(tp_function *f)
{
    if (!f)
        return TP_E_NULL;
    if (tpi_shared_wait(f))
        return TP_OK;
    return tpi_fail_status(
        f->ctx, TPI_AT(NULL, 0), "tp_function_wait", TP_E_COMPILER,
        "a segment of \"%s\" has no program and stays eager: TAPIR_LOG=compile "
        "tells more",
        f->name);
}
