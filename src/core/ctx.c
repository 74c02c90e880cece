#include "base/env.h"
#include "base/fiber.h"
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
    c->caller.recording = true;
    c->caller.training = true;
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
        c->cache_dir = opt->cache_dir ? tpi_strdup(&c->mem, opt->cache_dir) : NULL;
        c->compiler = opt->compiler ? tpi_strdup(&c->mem, opt->compiler) : NULL;
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
    while (tp->caller.blocks)
        tp->block_rules->leave(tp, NULL);
    if (tp->left)
        tp->block_rules->free_left(tp);
    tp->caller.scope_floor = 0;
    while (tp->caller.n_scopes > 0)
        tp_scope_end(tp);
    tpi_drop_owned(&tp->caller, 0);
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
    tpi_strfree(&tp->mem, tp->cache_dir);
    tpi_strfree(&tp->mem, tp->compiler);
    tpi_pool_close(&tp->mem, tp->pool);
    tpi_caller_free(tp, &tp->caller);
    tpi_give_back(&tp->mem, tp->late, (size_t)tp->late_size * sizeof *tp->late);
    tpi_give_back(&tp->mem, tp->streams, (size_t)tp->streams_size * sizeof *tp->streams);
    tpi_fibers_close(&tp->fibers, 0);
    tpi_undones_free(&tp->undone, &tp->mem);
    tpi_mem mem = tp->mem;
    tpi_mem_done(&mem);
    mem.user.release(mem.user.user, tp, sizeof *tp);
}

bool tp_training(tp_ctx *tp, bool on)
{
    if (tp)
        tpi_come_back(tp);
    const bool was = tp_trains(tp);
    if (tp)
        tp->caller.training = on;
    return was;
}

bool tp_trains(const tp_ctx *tp)
{
    return tp && tp->caller.training;
}

bool tp_trap_nan(tp_ctx *tp, bool on)
{
    if (!tp)
        return false;
    if (tpi_is_shared(tp, NULL)) {
        tpi_fail_shared(tp, TPI_AT(NULL, 0), "tp_trap_nan");
        return tp->trap_nan;
    }
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
    tpi_fibers_close(&tp->fibers, 0);
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
