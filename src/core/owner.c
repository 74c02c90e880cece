/* Scopes, what they own, and what lives longer. */
#include "core/core.h"

/* ---- scopes ------------------------------------------------------------------------------------------------------- */

void tpi_drop_owned(tpi_caller *c, int32_t mark)
{
    enum { AHEAD = 8 };
    while (c->n_owned > mark) {
        if (c->n_owned > mark + AHEAD)
            __builtin_prefetch(c->owned[c->n_owned - 1 - AHEAD], 1);
        tp_tensor *t = c->owned[--c->n_owned];
        t->owned_at = -1;
        tpi_unref(t);
    }
}

void tpi_caller_free(tp_ctx *ctx, tpi_caller *c)
{
    tpi_drop_owned(c, 0);
    tpi_give_back(&ctx->mem, c->owned, (size_t)c->owned_size * sizeof *c->owned);
    tpi_give_back(&ctx->mem, c->scopes, (size_t)c->scopes_size * sizeof *c->scopes);
    c->owned = NULL;
    c->scopes = NULL;
    c->n_scopes = c->owned_size = c->scopes_size = 0;
}

tp_status tp_scope_begin(tp_ctx *tp)
{
    if (!tp)
        return TP_E_NULL;
    TPI_ALONE_STATUS(tp, TPI_AT(NULL, 0), "tp_scope_begin");
    tpi_come_back(tp);
    tpi_caller *c = &tp->caller;
    tpi_scope *s = tpi_grow(&tp->mem, c->scopes, c->n_scopes, &c->scopes_size, sizeof *s);
    if (!s) {
        tpi_no_memory(tp, TPI_AT(NULL, 0), "tp_scope_begin");
        return TP_E_MEMORY;
    }
    c->scopes = s;
    c->scopes[c->n_scopes++].mark = c->n_owned;
    return TP_OK;
}

tp_status tp_scope_end_at(const char *file, int line, tp_ctx *tp)
{
    if (!tp)
        return TP_E_NULL;
    TPI_ALONE_STATUS(tp, TPI_AT(file, line), "tp_scope_end");
    tpi_come_back(tp);
    tpi_caller *c = &tp->caller;
    if (c->n_scopes == 0)
        return tpi_fail_status(tp, TPI_AT(file, line), "tp_scope_end", TP_E_STATE,
                               "no scope is open");
    if (c->n_scopes <= c->scope_floor)
        return tpi_fail_status(tp, TPI_AT(file, line), "tp_scope_end", TP_E_STATE,
                               "the body of \"%s\" ends a scope that it did not begin",
                               c->function);
    tpi_drop_owned(c, c->scopes[--c->n_scopes].mark);
    return TP_OK;
}

TPI_BARE(tp_status, tp_scope_end, (tp_ctx * tp), tp)

/* ---- code of the user's -------------------------------------------------------------------------------------------- */

void tpi_user_code_enter(tpi_user_code *u, tp_ctx *ctx, const char *name)
{
    *u = (tpi_user_code){ctx, ctx->caller.function, ctx->caller.blocks, ctx->caller.scope_floor,
                         ctx->caller.n_scopes};
    ctx->caller.scope_floor = ctx->caller.n_scopes;
    ctx->caller.function = name;
}

void tpi_user_code_end_blocks(const tpi_user_code *u)
{
    while (u->ctx->caller.blocks && u->ctx->caller.blocks != u->blocks)
        u->ctx->block_rules->leave(u->ctx, NULL);
}

void tpi_user_code_leave(const tpi_user_code *u)
{
    while (u->ctx->caller.n_scopes > u->scopes)
        tp_scope_end(u->ctx);
    u->ctx->caller.scope_floor = u->floor;
    u->ctx->caller.function = u->outside;
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
    if (u.ctx->caller.scope_floor != u.scopes) /* it ended with one around it */
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

/* ---- what they own -------------------------------------------------------------------------------------------------- */

static void move_owned(tpi_caller *c, tp_tensor *t, int32_t at)
{
    c->owned[at] = t;
    t->owned_at = at;
}

static bool owns(const tpi_caller *c, const tp_tensor *t)
{
    return t->owned_at < c->n_owned && c->owned[t->owned_at] == t;
}

/* Of t, which a scope owns. */
static tpi_caller *owner_of(tp_ctx *ctx, const tp_tensor *t)
{
    tpi_caller *c = ctx->callers;
    if (owns(&ctx->caller, t))
        return &ctx->caller;
    while (!owns(c, t))
        c = c->next;
    return c;
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
    if (!t || !t->ctx || is_dead(t, "tp_keep") || t->owned_at < 0)
        return t;
    tp_ctx *ctx = t->ctx;
    tpi_caller *c = owner_of(ctx, t);
    /* In a sample: of who called, whose innermost scope is that of the body itself. */
    if (c->n_scopes == 0 || (c != &ctx->caller && ctx->caller.n_scopes > 1))
        return t;
    TPI_ALONE(ctx, TPI_AT(NULL, 0), "tp_keep");
    tpi_scope *s = &c->scopes[c->n_scopes - 1];
    if (t->owned_at < s->mark)
        return t;
    tpi_note_effect(ctx, t, TPI_LOOK_KEEP);
    move_owned(c, c->owned[s->mark], t->owned_at);
    move_owned(c, t, s->mark++);
    return t;
}

void tpi_disown(tp_tensor *t)
{
    int32_t hole = t->owned_at;
    if (hole < 0)
        return;
    tpi_caller *c = owner_of(t->ctx, t);
    /* The hole goes to the end through the first places of the scopes above it, so that each
     * scope keeps its own. */
    for (int32_t s = 0; s < c->n_scopes; s++) {
        const int32_t first = c->scopes[s].mark;
        if (first <= hole)
            continue;
        if (first - 1 != hole)
            move_owned(c, c->owned[first - 1], hole);
        hole = first - 1;
        c->scopes[s].mark--;
    }
    if (--c->n_owned != hole)
        move_owned(c, c->owned[c->n_owned], hole);
    t->owned_at = -1;
}

bool tpi_own(tp_tensor *t)
{
    tp_ctx *ctx = t->ctx;
    tpi_caller *c = &ctx->caller;
    if (c->n_owned == c->owned_size) {
        tp_tensor **v = tpi_grow(&ctx->mem, c->owned, c->n_owned, &c->owned_size, sizeof *v);
        if (!v) {
            tpi_unref(t);
            return false;
        }
        c->owned = v;
    }
    move_owned(c, t, c->n_owned++);
    return true;
}

/* ---- tp_retain ------------------------------------------------------------------------------------------------------- */

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
