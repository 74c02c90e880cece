#include "base/float_mode.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "core/dim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_names[TP_N_STATUS] = {
    "ok",   "null",   "shape", "dtype",  "axis",     "value", "state", "symbolic", "context",
    "name", "memory", "io",    "format", "compiler", "bug",   "limit", "stopped",
};

const tp_tensor tpi_nil = {.refs = 1, .status = TP_E_NULL, .owned_at = -1};

const char *tp_status_name(tp_status s)
{
    return (unsigned)s < TP_N_STATUS ? status_names[s] : "?";
}

static void write_text(char *out, size_t size, tpi_at at, const char *what, const char *fmt,
                       va_list ap)
{
    int n = 0;
    if (at.file)
        n = snprintf(out, size, "%s:%d: ", at.file, at.line);
    if (what && n >= 0 && (size_t)n < size)
        n += snprintf(out + n, size - (size_t)n, "%s: ", what);
    if (n >= 0 && (size_t)n < size)
        tpi_vprint(out + n, size - (size_t)n, fmt, ap);
}

/* Of a tp_batch_each. */
static void add_sample(char *text, size_t size, int32_t sample)
{
    const size_t n = strlen(text);
    snprintf(text + n, size - n, " (sample %d)", (int)sample);
}

static tp_tensor *born(tp_ctx *ctx, tpi_at at, const char *what, tp_status status, bool tensor,
                       const char *fmt, va_list ap)
{
    if (ctx && ctx->frame)
        ctx->frame->rules->before_error(ctx, false); /* an older op may have failed first */
    TPI_DEFAULT_FLOAT_MODE;                          /* texts have numbers */
    char text[TPI_ERROR_TEXT];
    write_text(text, sizeof text, at, what, fmt, ap);
    if (ctx && ctx->caller.sample)
        add_sample(text, sizeof text, ctx->caller.sample - 1);
    if (!ctx || !ctx->attempts)
        tpi_log(TPI_LOG_error, "%s", text);
    if (!ctx)
        return (tp_tensor *)&tpi_nil;
    ctx->failures++;
    if (ctx->status == TP_OK) {
        ctx->status = status;
        memcpy(ctx->error, text, sizeof text);
    }
    if (!tensor)
        return NULL;
    tpi_error *e = tpi_take(&ctx->mem, sizeof *e);
    tp_tensor *t = e ? tpi_tensor(ctx, at, TP_F32, 0, NULL) : NULL;
    if (!t) {
        tpi_give_back(&ctx->mem, e, sizeof *e);
        return &ctx->nil;
    }
    e->status = status;
    e->refs = 1;
    memcpy(e->text, text, sizeof text);
    t->error = e;
    t->status = (uint8_t)status;
    return t;
}

tp_tensor *tpi_fail(tp_ctx *ctx, tpi_at at, const char *what, tp_status status, const char *fmt,
                    ...)
{
    va_list ap;
    va_start(ap, fmt);
    tp_tensor *t = born(ctx, at, what, status, true, fmt, ap);
    va_end(ap);
    return t;
}

tp_status tpi_fail_status(tp_ctx *ctx, tpi_at at, const char *what, tp_status status,
                          const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    born(ctx, at, what, status, false, fmt, ap);
    va_end(ap);
    return status;
}

void tpi_error_aside(tp_ctx *ctx, tpi_aside *a)
{
    a->status = ctx->status;
    if (a->status != TP_OK)
        memcpy(a->text, ctx->error, sizeof a->text);
    ctx->status = TP_OK;
    ctx->attempts++;
}

void tpi_error_back(tp_ctx *ctx, const tpi_aside *a)
{
    if (--ctx->attempts == 0 && ctx->status != TP_OK) /* nobody forgot it */
        tpi_log(TPI_LOG_error, "%s", ctx->error);
    if (a->status == TP_OK)
        return;
    ctx->status = a->status;
    memcpy(ctx->error, a->text, sizeof a->text);
}

tp_tensor *tp_fail_at(const char *file, int line, tp_ctx *tp, tp_status status,
                      const char *text)
{
    const bool known = status > TP_OK && status < TP_N_STATUS;
    return tpi_fail(tp, TPI_AT(file, line), NULL, known ? status : TP_E_VALUE, "%s",
                    text ? text : "");
}

TPI_BARE(tp_tensor *, tp_fail, (tp_ctx * tp, tp_status status, const char *text), tp, status,
         text)

tp_tensor *tpi_no_memory(tp_ctx *ctx, tpi_at at, const char *what)
{
    if (!ctx)
        return (tp_tensor *)&tpi_nil;
    tpi_fail_status(ctx, at, what, TP_E_MEMORY, "out of memory");
    return &ctx->nil;
}

tp_tensor *tpi_fail_shared(tp_ctx *ctx, tpi_at at, const char *what)
{
    return tpi_fail(
        ctx, at, what, TP_E_STATE,
        "a sample of tp_batch_each changes what other samples see: do it before that call, or "
        "behind it");
}

tp_tensor *tpi_refuse_others(tp_ctx *ctx, tpi_at at, const char *what, int n,
                             tp_tensor *const *in)
{
    const tpi_caller *c = &ctx->caller;
    if (!c->sample || ctx->sweeps) /* gradients are added to what others have given */
        return NULL;
    for (int k = 0; k < n; k++)
        if (in[k]->seq >= c->others && (in[k]->seq < c->first || in[k]->seq >= c->seq) &&
            !tpi_is_kept_number(in[k]))
            return tpi_fail(ctx, at, what, TP_E_STATE,
                            "operand %d was made by another sample of tp_batch_each, which may "
                            "not be there yet: samples give results to who called it alone",
                            k);
    if (c->seq - c->first > TPI_SAMPLE_RANGE - TPI_SAMPLE_ROOM)
        return tpi_fail(ctx, at, what, TP_E_LIMIT, "more than %d tensors in one sample",
                        TPI_SAMPLE_RANGE - TPI_SAMPLE_ROOM);
    return NULL;
}

tp_tensor *tpi_fail_kept_number(const tp_tensor *t, tpi_at at, const char *what)
{
    return tpi_fail(t->ctx, at, what, TP_E_STATE,
                    "the number is the context's; tp_scalar_like makes a tensor of one's own");
}

tp_tensor *tpi_refuse_operand(tp_ctx *ctx, tpi_at at, const char *what, int i,
                              const tp_tensor *t)
{
    if (!t)
        return tpi_fail(ctx, at, what, TP_E_NULL, "operand %d is NULL", i);
    if (t->refs <= 0)
        return tpi_fail(ctx ? ctx : t->ctx, at, what, TP_E_STATE,
                        "operand %d was used after its scope ended (tp_keep hands a tensor to "
                        "the scope outside; only listed variables leave a block)",
                        i);
    if (t->status != TP_OK && !t->error && t->ctx) /* see tp_graph_free */
        return tpi_fail(t->ctx, at, what, TP_E_STATE, "operand %d is of a graph that was freed",
                        i);
    if (t->status != TP_OK)
        return t->ctx || !ctx ? (tp_tensor *)t
                              : tpi_fail(ctx, at, what, (tp_status)t->status,
                                         "operand %d is what a call gave that had NULL for its "
                                         "context, or for all operands",
                                         i);
    if (ctx && t->ctx != ctx)
        return tpi_fail(ctx, at, what, TP_E_CTX, "operand %d belongs to another context", i);
    return NULL;
}

/* Whether a pending op failed shows when it has run. */
static void settle(const tp_ctx *tp, bool asks)
{
    if (tp && tp->frame)
        tp->frame->rules->before_error((tp_ctx *)tp, asks);
}

tp_status tp_error(const tp_ctx *tp)
{
    settle(tp, true);
    return tp ? tp->status : TP_E_NULL;
}

const char *tp_error_message(const tp_ctx *tp)
{
    settle(tp, true);
    return tp ? tp->error : "the context is NULL";
}

void tpi_forget_error(tp_ctx *ctx)
{
    settle(ctx, false);
    ctx->status = TP_OK;
    ctx->error[0] = 0;
}

void tp_clear_error(tp_ctx *tp)
{
    if (!tp)
        return;
    tpi_note_effect(tp, NULL, TPI_LOOK_EFFECT);
    __atomic_store_n(&tp->interrupted, 0, __ATOMIC_RELAXED);
    tpi_forget_error(tp);
}

/* ---- one thread at a time ------------------------------------------------------------------- */

const tp_tensor tpi_crowd = {.refs = 1, .status = TP_E_STATE, .owned_at = -1};

#define BY_C_ARITHMETIC                                                                        \
    " looks like a symbolic size after arithmetic in C: tp_dim_add and the like compute "      \
    "with sizes, tp_extent gives one as a tensor"

tp_tensor *tpi_fail_spoilt(tp_ctx *ctx, tpi_at at, const char *what, tp_status status,
                           int64_t v)
{
    return tpi_fail(ctx, at, what, status, "%lld" BY_C_ARITHMETIC, (long long)v);
}

tp_tensor *tpi_fail_near_handle(tp_ctx *ctx, tpi_at at, const char *what, double v)
{
    return tpi_fail(ctx, at, what, TP_E_VALUE, "%g" BY_C_ARITHMETIC, v);
}

tp_status tpi_fail_all(tp_tensor *failed, int n, tp_tensor **out)
{
    for (int i = 0; i < n; i++)
        out[i] = failed;
    return (tp_status)failed->status;
}

tp_tensor *tpi_refuse_crowd(tp_ctx *ctx, tpi_at at, const char *what)
{
    if (ctx->status == TP_OK) {
        snprintf(ctx->error, sizeof ctx->error, "%s:%d: %s: %s", at.file ? at.file : "?",
                 at.line, what, tp_error_text(&tpi_crowd));
        tpi_log(TPI_LOG_error, "%s", ctx->error);
        ctx->status = TP_E_STATE;
    }
    ctx->failures++;
    return (tp_tensor *)&tpi_crowd;
}

tp_tensor *tpi_visit_begin(tpi_visit *a, tp_ctx *ctx, tpi_at at, const char *what)
{
    *a = (tpi_visit){NULL, 0, at, what};
    if (!ctx)
        return NULL;
    if (!tpi_enter(ctx, &a->was))
        return tpi_refuse_crowd(ctx, at, what);
    a->ctx = ctx;
    return NULL;
}

void tpi_visit_end(const tpi_visit *a)
{
    if (a->ctx && !tpi_leave(a->ctx, a->was))
        tpi_refuse_crowd(a->ctx, a->at, a->what);
}

/* ---- being stopped ------------------------------------------------------------------------ */

void tp_interrupt(tp_ctx *tp)
{
    if (tp)
        __atomic_store_n(&tp->interrupted, 1, __ATOMIC_RELAXED);
}

void tp_abandon(tp_ctx *tp)
{
    if (tp)
        tpi_undones_end(&tp->undone);
}

tp_tensor *tpi_refuse_interrupted(tp_ctx *ctx, tpi_at at, const char *what)
{
    return tpi_is_interrupted(ctx)
               ? tpi_fail(ctx, at, what, TP_E_STOPPED,
                          "stopped by tp_interrupt (tp_clear_error lets it run again)")
               : NULL;
}

tp_tensor *tpi_refuse_turn(tp_ctx *ctx, tpi_at at, const char *what, int64_t turn)
{
    return turn < ctx->max_turns
               ? tpi_refuse_interrupted(ctx, at, what)
               : tpi_fail(ctx, at, what, TP_E_LIMIT,
                          "the loop takes more than %lld turns, the limit of this context "
                          "(max_turns of tp_options)",
                          (long long)ctx->max_turns);
}
