#include "base/env.h"
#include "base/log.h"
#include "base/workers.h"
#include "core/core.h"
#include "kernel/host/kernels_host.h"
#include "tapir/grad.h"

#include <stdlib.h>
#include <string.h>

/* ---- contexts --------------------------------------------------------------------------- */

const char *tp_version(void)
{
#define STR(x) #x
#define TEXT(major, minor) STR(major) "." STR(minor) ".0"
    return TEXT(TP_VERSION_MAJOR, TP_VERSION_MINOR);
}

/* TAPIR_THREADS, or 1. */
static int threads_asked_for(void)
{
    const char *text = tpi_env(TPI_ENV_THREADS);
    char *end;
    const long n = text ? strtol(text, &end, 10) : 1;
    if (!text || (!*end && n >= 1 && n <= TPI_MAX_THREADS))
        return (int)n;
    tpi_log_always(TPI_LOG_environment,
                   "TAPIR_THREADS is \"%.40s\", no number from 1 to %d: 1 is taken", text,
                   TPI_MAX_THREADS);
    return 1;
}

static bool is_nan_trapped(void)
{
    const char *text = tpi_env(TPI_ENV_TRAP);
    const bool is = text && strcmp(text, "nan") == 0;
    if (text && !is)
        tpi_log_always(TPI_LOG_environment, "TAPIR_TRAP is \"%.40s\": there is nan alone",
                       text);
    return is;
}

int tp_threads(tp_ctx *tp, int n)
{
    if (!tp)
        return 0;
    if (n <= 0 || n == tpi_pool_threads(tp->pool))
        return tpi_pool_workers(tp->pool);
    char why[80];
    tpi_pool_close(&tp->mem, tp->pool);
    tp->pool = NULL;
    if (n > 1) {
        tp->pool =
            tpi_pool_open(&tp->mem, n < TPI_MAX_THREADS ? n : TPI_MAX_THREADS, why, sizeof why);
        if (!tp->pool)
            tpi_log(TPI_LOG_threads, "one thread instead of %d: %s", n, why);
    }
    return tpi_pool_workers(tp->pool);
}

tp_ctx *tp_open(const tp_options *opt)
{
    tpi_mem mem;
    tpi_mem_init(&mem, opt ? opt->allocator : NULL);
    tp_ctx *c = mem.user.alloc(mem.user.user, sizeof *c);
    if (!c)
        return NULL;
    memset(c, 0, sizeof *c);
    c->mem = mem;
    c->recording = true;
    c->training = true;
    c->trap_nan = is_nan_trapped();
    tpi_log_check();
    c->seed = opt ? opt->seed : 0;
    c->batch_budget = (size_t)256 << 20;
    c->max_turns = opt && opt->max_turns > 0 ? opt->max_turns : INT64_MAX;
    c->kernels = tpi_kernels_choose(false);
    c->near_bytes = tpi_near_bytes();
    c->far_bytes = 4 << 20;
    c->objects.next = c->objects.prev = &c->objects;
    c->allocs.next = c->allocs.prev = &c->allocs;
    c->nil_error = (tpi_error){.status = TP_E_MEMORY, .refs = 1, .text = "out of memory"};
    c->nil = (tp_tensor){.ctx = c,
                         .refs = 1,
                         .status = TP_E_MEMORY,
                         .dtype = TP_F32,
                         .error = &c->nil_error,
                         .owned_at = -1};
    if (opt) {
        c->cache_dir = opt->cache_dir ? tpi_strdup(c, opt->cache_dir) : NULL;
        c->compiler = opt->compiler ? tpi_strdup(c, opt->compiler) : NULL;
        if ((opt->cache_dir && !c->cache_dir) || (opt->compiler && !c->compiler)) {
            tp_close(c);
            return NULL;
        }
    }
    c->direct_conv = opt && opt->direct_conv;
    tp_threads(c, opt && opt->threads ? opt->threads : threads_asked_for());
    return c;
}

static void forget_numbers(tp_ctx *tp)
{
    for (int i = 0; i < TPI_NUMBERS; i++)
        if (tp->numbers[i].t)
            tpi_unref(tp->numbers[i].t);
    memset(tp->numbers, 0, sizeof tp->numbers);
}

void tp_close(tp_ctx *tp)
{
    if (!tp)
        return;
    __atomic_store_n(&tp->thread, 0, __ATOMIC_RELAXED); /* of a body that was left by longjmp */
    if (tp->frame)                                      /* likewise */
        tp->frame->rules->leave(tp);
    while (tp->objects.next != &tp->objects) {
        tpi_owned *o = tp->objects.next;
        tpi_object_remove(o);
        o->free(o);
    }
    while (tp->blocks)
        tp->block_rules->leave(tp, NULL);
    if (tp->left)
        tp->block_rules->free_left(tp);
    tp->scope_floor = 0;
    while (tp->n_scopes > 0)
        tp_scope_end(tp);
    while (tp->n_owned > 0) {
        tp_tensor *t = tp->owned[--tp->n_owned];
        t->owned_at = -1;
        tpi_unref(t);
    }
    forget_numbers(tp);
    while (tp->retained) {
        tp_tensor *t = tp->retained;
        t->refs -= t->retains - 1; /* each tp_retain took one */
        t->retains = 1;
        tp_release(t);
    }
    while (tp->allocs.next != &tp->allocs)
        tp_free(tp, tp->allocs.next + 1);
    tpi_heads_free(tp);
    tpi_strfree(tp, tp->cache_dir);
    tpi_strfree(tp, tp->compiler);
    tpi_pool_close(&tp->mem, tp->pool);
    tpi_give_back(&tp->mem, tp->owned, (size_t)tp->owned_size * sizeof *tp->owned);
    tpi_give_back(&tp->mem, tp->late, (size_t)tp->late_size * sizeof *tp->late);
    tpi_give_back(&tp->mem, tp->scopes, (size_t)tp->scopes_size * sizeof *tp->scopes);
    tpi_give_back(&tp->mem, tp->streams, (size_t)tp->streams_size * sizeof *tp->streams);
    tpi_undones_free(&tp->undone, &tp->mem);
    tpi_mem mem = tp->mem;
    tpi_mem_done(&mem);
    mem.user.release(mem.user.user, tp, sizeof *tp);
}

bool tp_training(tp_ctx *tp, bool on)
{
    const bool was = tp_trains(tp);
    if (tp)
        tp->training = on;
    return was;
}

bool tp_trains(const tp_ctx *tp)
{
    return tp && tp->training;
}

bool tp_trap_nan(tp_ctx *tp, bool on)
{
    if (!tp)
        return false;
    tpi_note_effect(tp, NULL, TPI_LOOK_EFFECT);
    const bool was = tp->trap_nan;
    tp->trap_nan = on;
    return was;
}

size_t tp_memory_bytes(const tp_ctx *tp)
{
    return tp ? tp->mem.in_use : 0;
}

void tp_trim(tp_ctx *tp)
{
    if (!tp)
        return;
    forget_numbers(tp);
    if (tp->fused) {
        tpi_owned *o = tp->fused;
        tpi_object_remove(o);
        o->free(o);
    }
    tpi_mem_trim(&tp->mem);
}

/* ---- memory for others --------------------------------------------------------------------- */

void *tp_alloc(tp_ctx *tp, size_t size)
{
    if (!tp)
        return NULL;
    tpi_alloc_head *h = NULL;
    if (size <= SIZE_MAX - sizeof *h)
        h = tpi_take(&tp->mem, sizeof *h + size);
    if (!h) {
        tpi_no_memory(tp, TPI_AT(NULL, 0), "tp_alloc");
        return NULL;
    }
    memset(h, 0, sizeof *h + size);
    h->size = size;
    h->next = tp->allocs.next;
    h->prev = &tp->allocs;
    h->next->prev = h->prev->next = h;
    return h + 1;
}

void tp_free(tp_ctx *tp, void *p)
{
    if (!tp || !p)
        return;
    tpi_alloc_head *h = (tpi_alloc_head *)p - 1;
    h->next->prev = h->prev;
    h->prev->next = h->next;
    tpi_give_back(&tp->mem, h, sizeof *h + h->size);
}

char *tpi_strdup(tp_ctx *ctx, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = tpi_take(&ctx->mem, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void tpi_strfree(tp_ctx *ctx, char *text)
{
    if (text)
        tpi_give_back(&ctx->mem, text, strlen(text) + 1);
}

void tpi_object_add(tp_ctx *ctx, tpi_owned *o, void (*free)(tpi_owned *o))
{
    o->free = free;
    o->next = ctx->objects.next;
    o->prev = &ctx->objects;
    o->next->prev = o->prev->next = o;
}

void tpi_object_remove(tpi_owned *o)
{
    o->next->prev = o->prev;
    o->prev->next = o->next;
    o->next = o->prev = o;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

tp_status tp_scope_begin(tp_ctx *tp)
{
    if (!tp)
        return TP_E_NULL;
    TPI_ALONE_STATUS(tp, TPI_AT(NULL, 0), "tp_scope_begin");
    if (tp->n_scopes == tp->scopes_size) {
        const int32_t size = tp->scopes_size ? tp->scopes_size * 2 : 16;
        tpi_scope *s = tpi_resize(&tp->mem, tp->scopes, (size_t)tp->scopes_size * sizeof *s,
                                  (size_t)size * sizeof *s);
        if (!s) {
            tpi_no_memory(tp, TPI_AT(NULL, 0), "tp_scope_begin");
            return TP_E_MEMORY;
        }
        tp->scopes = s;
        tp->scopes_size = size;
    }
    tp->scopes[tp->n_scopes++].mark = tp->n_owned;
    return TP_OK;
}

tp_status tp_scope_end_at(const char *file, int line, tp_ctx *tp)
{
    if (!tp)
        return TP_E_NULL;
    TPI_ALONE_STATUS(tp, TPI_AT(file, line), "tp_scope_end");
    if (tp->n_scopes == 0)
        return tpi_fail_status(tp, TPI_AT(file, line), "tp_scope_end", TP_E_STATE,
                               "no scope is open");
    if (tp->n_scopes <= tp->scope_floor)
        return tpi_fail_status(tp, TPI_AT(file, line), "tp_scope_end", TP_E_STATE,
                               "the body of \"%s\" ends a scope that it did not begin",
                               tp->function);
    enum { AHEAD = 8 };
    const int32_t mark = tp->scopes[--tp->n_scopes].mark;
    while (tp->n_owned > mark) {
        if (tp->n_owned > mark + AHEAD)
            __builtin_prefetch(tp->owned[tp->n_owned - 1 - AHEAD], 1);
        tp_tensor *t = tp->owned[--tp->n_owned];
        t->owned_at = -1;
        tpi_unref(t);
    }
    return TP_OK;
}

TPI_BARE(tp_status, tp_scope_end, (tp_ctx * tp), tp)

void tpi_user_code_enter(tpi_user_code *u, tp_ctx *ctx, const char *name)
{
    *u = (tpi_user_code){ctx, ctx->function, ctx->blocks, ctx->scope_floor, ctx->n_scopes};
    ctx->scope_floor = ctx->n_scopes;
    ctx->function = name;
}

void tpi_user_code_end_blocks(const tpi_user_code *u)
{
    while (u->ctx->blocks && u->ctx->blocks != u->blocks)
        u->ctx->block_rules->leave(u->ctx, NULL);
}

void tpi_user_code_leave(const tpi_user_code *u)
{
    while (u->ctx->n_scopes > u->scopes)
        tp_scope_end(u->ctx);
    u->ctx->scope_floor = u->floor;
    u->ctx->function = u->outside;
}

tp_callback tp_callback_begin(tp_ctx *tp, const char *name)
{
    tpi_user_code u = {0};
    if (tp)
        tpi_user_code_enter(&u, tp, name ? name : "callback");
    return (tp_callback){tp, u.outside, u.blocks, u.floor, u.scopes};
}

tp_tensor *tp_callback_end(tp_callback *c, tp_tensor *y)
{
    if (!c || !c->tp)
        return y;
    const tpi_user_code u = {c->tp, c->outside, c->blocks, c->floor, c->scopes};
    const bool ours = y && tpi_is_live(y) && y->ctx == c->tp;
    c->tp = NULL;
    if (u.ctx->scope_floor != u.scopes) /* it ended with one around it */
        return y;
    tpi_user_code_end_blocks(&u);
    if (ours)
        tpi_ref(y);
    tpi_user_code_leave(&u);
    return ours ? tpi_hand_out(y, TPI_AT(NULL, 0)) : y;
}

tp_tensor *tpi_hand_out(tp_tensor *t, tpi_at at)
{
    if (!t->ctx || t == &t->ctx->nil)
        return t;
    if (t->owned_at >= 0 || t->graph) {
        tpi_unref(t);
        return t;
    }
    tp_ctx *ctx = t->ctx;
    return tpi_own(t) ? t : tpi_no_memory(ctx, at, NULL);
}

static void move_owned(tp_ctx *ctx, tp_tensor *t, int32_t at)
{
    ctx->owned[at] = t;
    t->owned_at = at;
}

/* Too late to keep it: without an error here its handle may be another tensor's when it is read. */
static bool is_dead(const tp_tensor *t, const char *what)
{
    if (t->refs > 0)
        return false;
    tpi_refuse_operand(NULL, TPI_AT(NULL, 0), what, 0, t);
    return true;
}

tp_tensor *(tp_keep)(tp_tensor *t)
{
    if (!t || !t->ctx || is_dead(t, "tp_keep") || t->owned_at < 0 || t->ctx->n_scopes == 0)
        return t;
    tp_ctx *ctx = t->ctx;
    TPI_ALONE(ctx, TPI_AT(NULL, 0), "tp_keep");
    tpi_scope *s = &ctx->scopes[ctx->n_scopes - 1];
    if (t->owned_at < s->mark)
        return t;
    tpi_note_effect(ctx, t, TPI_LOOK_KEEP);
    move_owned(ctx, ctx->owned[s->mark], t->owned_at);
    move_owned(ctx, t, s->mark++);
    return t;
}

void tpi_disown(tp_tensor *t)
{
    tp_ctx *ctx = t->ctx;
    int32_t hole = t->owned_at;
    if (hole < 0)
        return;
    /* The hole goes to the end through the first places of the scopes above it, so that each
     * scope keeps its own. */
    for (int32_t s = 0; s < ctx->n_scopes; s++) {
        const int32_t first = ctx->scopes[s].mark;
        if (first <= hole)
            continue;
        if (first - 1 != hole)
            move_owned(ctx, ctx->owned[first - 1], hole);
        hole = first - 1;
        ctx->scopes[s].mark--;
    }
    if (--ctx->n_owned != hole)
        move_owned(ctx, ctx->owned[ctx->n_owned], hole);
    t->owned_at = -1;
}

bool tpi_own(tp_tensor *t)
{
    tp_ctx *ctx = t->ctx;
    if (ctx->n_owned == ctx->owned_size) {
        const int32_t size = ctx->owned_size ? ctx->owned_size * 2 : 64;
        tp_tensor **v = tpi_resize(&ctx->mem, ctx->owned, (size_t)ctx->owned_size * sizeof *v,
                                   (size_t)size * sizeof *v);
        if (!v) {
            tpi_unref(t);
            return false;
        }
        ctx->owned = v;
        ctx->owned_size = size;
    }
    move_owned(ctx, t, ctx->n_owned++);
    return true;
}

/* Sums of them differ where what was added differs, or nearly always. */
static uint64_t tag_of(const tp_tensor *t)
{
    const uint64_t x = (uint64_t)(uintptr_t)t * UINT64_C(0x9E3779B97F4A7C15);
    return x ^ x >> 29;
}

tp_tensor *(tp_retain)(tp_tensor *t)
{
    if (!t || !t->ctx || t == &t->ctx->nil || is_dead(t, "tp_retain"))
        return t;
    TPI_ALONE(t->ctx, TPI_AT(NULL, 0), "tp_retain");
    tpi_ref(t);
    t->ctx->retained_sum += tag_of(t);
    if (t->retains++ == 0) {
        tp_ctx *ctx = t->ctx;
        t->retained_prev = NULL;
        t->retained_next = ctx->retained;
        if (ctx->retained)
            ctx->retained->retained_prev = t;
        ctx->retained = t;
    }
    return t;
}

void(tp_release)(tp_tensor *t)
{
    if (!t || !t->ctx || t == &t->ctx->nil)
        return;
    tp_ctx *ctx = t->ctx;
    TPI_ALONE_OR(ctx, TPI_AT(NULL, 0), "tp_release", );
    if (t->refs <= 0 || t->retains == 0) {
        tpi_fail_status(ctx, TPI_AT(NULL, 0), "tp_release", TP_E_STATE,
                        "the tensor is not retained");
        return;
    }
    ctx->retained_sum -= tag_of(t);
    if (--t->retains == 0) {
        if (t->retained_prev)
            t->retained_prev->retained_next = t->retained_next;
        else
            ctx->retained = t->retained_next;
        if (t->retained_next)
            t->retained_next->retained_prev = t->retained_prev;
        t->retained_next = t->retained_prev = NULL;
    }
    tpi_unref(t);
}
