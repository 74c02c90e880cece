/* What an unrecorded tensor was computed from is let go. So that a mark that comes afterwards is noticed, each
 * has a set of the tensors that it was computed from (`from` of core.h), in which a tensor takes a bit when it is
 * read for the first time. There are 64: of programs with more such tensors one can be refused because another
 * one's bit is the same, unless the order in which things were computed and marked speaks against it. */
#include "grad/late.h"

#include <stdio.h>

/* Room for one more; false: no memory. */
static bool reserve(tp_ctx *ctx)
{
    if (ctx->n_late < ctx->late_size)
        return true;
    int n = 0;
    for (int i = 0; i < ctx->n_late; i++)
        if (tpi_late_is_same(&ctx->late[i]))
            ctx->late[n++] = ctx->late[i];
    ctx->n_late = n;
    if (n < ctx->late_size / 2)
        return true;
    tpi_late *v = tpi_grow(&ctx->mem, ctx->late, n, &ctx->late_size, sizeof *v);
    ctx->late = v ? v : ctx->late;
    return v;
}

bool tpi_note_mark(tp_tensor *t)
{
    tp_ctx *ctx = t->ctx;
    if (t->read && !reserve(ctx))
        return false;
    t->since = ctx->caller.seq;
    if (t->read)
        ctx->late[ctx->n_late++] = (tpi_late){.t = t, .since = t->since};
    return true;
}

void tpi_unrecorded_start(tpi_unrecorded *u, tp_ctx *ctx, tp_tensor *y)
{
    *u = (tpi_unrecorded){.ctx = ctx, .y = y, .nodes = {.ctx = ctx}};
}

/* Those of all nodes that y was computed from, inside calls too, that were not recorded. */
static bool collect(tpi_unrecorded *u)
{
    u->collected = true;
    if (!tpi_collect(&u->nodes, 1, &u->y, NULL, NULL)) {
        u->nodes.failed = true;
        return false;
    }
    int n = 0;
    for (int i = 0; i < u->nodes.n; i++) {
        u->from |= u->nodes.v[i]->from;
        if (u->nodes.v[i]->from)
            u->nodes.v[n++] = u->nodes.v[i];
    }
    u->nodes.n = n;
    return true;
}

bool tpi_misses(tpi_unrecorded *u, const tp_tensor *x)
{
    /* In a graph a tensor needs no mark. */
    const uint64_t marked = x->flags & TPI_LEAF ? x->since : UINT64_MAX;
    if (!x->read || x->read >> 6 >= marked)
        return false;
    if (!u->collected && !collect(u))
        return true;
    for (int i = 0; i < u->nodes.n && u->from & tpi_from_bit(x); i++) {
        const tp_tensor *t = u->nodes.v[i];
        /* Of a marked one `since` no longer tells what it was computed from. */
        const bool before = t->flags & TPI_LEAF || t->since < marked;
        const bool lifted = t->graph && t->op && t->op->kind == TPI_SOURCE && t->n_in;
        const uint64_t made = lifted ? t->in[0]->seq : t->seq;
        if (t != x && t->from & tpi_from_bit(x) && made >= x->read >> 6 && before)
            return true;
    }
    return false;
}

tp_tensor *tpi_refuse_late(const tpi_unrecorded *u, tpi_at at, const char *what, int i)
{
    char which[24] = "a tensor";
    if (u->nodes.failed)
        return tpi_no_memory(u->ctx, at, what);
    if (i >= 0)
        snprintf(which, sizeof which, "x %d", i);
    return tpi_fail(
        u->ctx, at, what, TP_E_STATE,
        "%s was used before tp_require_grad marked it, and what y was computed from "
        "then was not recorded: call tp_require_grad before it is used",
        which);
}
