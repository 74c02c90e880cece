/* Fused composites: which calls are. */
#include "op/fused.h"

/* Weak: what is linked with nothing that makes programs has no such function, and calls the ops. */
#pragma weak tpi_fused_run

/* Fewer elements are with their ops in the first cache. */
enum { LEAST = 4096 };

/* Is an op on them computed at once, unrecorded and unwatched? */
static bool is_plain(const tp_ctx *ctx, bool requires)
{
    return !ctx->frame && !ctx->tracing && !ctx->trap_nan && !ctx->reads_file &&
           !(requires && ctx->recording);
}

static tp_tensor *by_program(tpi_at at, const tpi_fused_call *c)
{
    const tp_tensor *x = c->in[0];
    bool good = tpi_fused_run != NULL && x, requires = false;
    for (int i = 0; i < c->n_in && good; i++) {
        const tp_tensor *t = c->in[i];
        if (!t)
            continue;
        good = tpi_is_live(t) && t->status == TP_OK && !t->graph && t->ctx == x->ctx &&
               t->dtype == x->dtype && t->dtype >= TP_F32 && t->flags & TPI_CONTIGUOUS &&
               t->rank <= x->rank;
        requires |= good && t->flags & TPI_REQUIRES;
    }
    if (!good || !is_plain(x->ctx, requires) || tpi_count(x) < LEAST)
        return NULL;
    tp_ctx *ctx = x->ctx;
    tp_tensor *y = tpi_fused_run(ctx, at, c);
    for (int i = 0; i < c->n_in && y && ctx->recording && !requires; i++)
        if (c->in[i])
            tpi_note_unrecorded(1, &c->in[i], y);
    return y;
}

tp_tensor *tpi_fuse(tpi_at at, const tpi_fused_call *c)
{
    tp_tensor *y = by_program(at, c);
    return y ? y : c->what->ops(at, c->in, c->v);
}
