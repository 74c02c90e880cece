#include "op/unfold.h"

bool tpi_unfold_begin(tpi_unfolding *u, tp_ctx *ctx)
{
    *u = (tpi_unfolding){.ctx = ctx};
    tpi_error_aside(ctx, &u->earlier);
    u->open = tp_scope_begin(ctx) == TP_OK;
    if (!u->open)
        return false;
    u->around = (tpi_paused){ctx->frame, ctx->tracing};
    u->recording = ctx->caller.recording;
    u->unfolding = ctx->unfolding;
    u->trap_nan = ctx->trap_nan;
    u->reads_file = ctx->reads_file;
    ctx->frame = NULL;
    ctx->tracing = NULL;
    ctx->caller.recording = ctx->unfolding = true;
    ctx->trap_nan = ctx->reads_file = false;
    u->began = ctx->caller.seq;
    return true;
}

bool tpi_unfold_end(tpi_unfolding *u, bool ok)
{
    tp_ctx *ctx = u->ctx;
    if (u->open) {
        tpi_resume(ctx, u->around);
        ctx->caller.recording = u->recording;
        ctx->unfolding = u->unfolding;
        ctx->trap_nan = u->trap_nan;
        ctx->reads_file = u->reads_file;
        tp_scope_end(ctx);
    }
    if (!ok)
        tpi_forget_error(ctx);
    tpi_error_back(ctx, &u->earlier);
    return ok;
}

static bool is_older(void *began, const tp_tensor *t)
{
    return t->seq < *(const uint64_t *)began;
}

bool tpi_unfold_order(const tpi_unfolding *u, const tp_tensor *t, uint64_t most, int n_y,
                      tp_tensor *const *y)
{
    tpi_nodes all = {.ctx = t->ctx};
    uint64_t began = u->began;
    bool ok = tpi_collect(&all, n_y, y, is_older, &began);
    uint64_t n = 0;
    for (int i = 0; i < all.n && ok; i++) {
        tp_tensor *node = all.v[i];
        if (node->seq < began)
            continue;
        ok = n < most;
        node->seq = t->seq - most + n++;
        for (int k = 0; k < node->n_in; k++)
            for (int x = 0; x < t->n_in; x++)
                if (node->in[k]->buf == t->in[x]->buf)
                    node->in_version[k] = t->in_version[x];
    }
    tpi_nodes_free(&all);
    return ok;
}

#define EXCHANGE(type, field)                                                                  \
    {                                                                                          \
        type field = t->field;                                                                 \
        t->field = y->field;                                                                   \
        y->field = field;                                                                      \
    }

void tpi_unfold_exchange(tp_tensor *t, tp_tensor *y)
{
    EXCHANGE(const tpi_op *, op)
    EXCHANGE(tp_tensor **, in)
    EXCHANGE(uint32_t *, in_version)
    EXCHANGE(const void *, attrs)
    EXCHANGE(size_t, block_size)
    EXCHANGE(int32_t, n_in)
}
