/* One op in place of many that are alike: operands that differ are put side by side, and each unit's result is a part of the
 * one. */
#include "base/log.h"
#include "batch/queue.h"
#include "core/copy.h"
#include "transform/batch.h"

#include <string.h>

void tpi_unit_run(tpi_queue *w, int32_t unit)
{
    enum { FEW = 16 };
    tpi_queue_unit *u = &w->units[unit];
    tp_ctx *ctx = w->ctx;
    tp_tensor *few[FEW], **in = few;
    const tpi_at at = TPI_AT(u->y->file, u->y->line);
    const size_t bytes = (size_t)u->n_in * sizeof *in;
    if (u->n_in > FEW)
        in = tpi_take(&ctx->mem, bytes);
    if (!in) {
        tpi_waiting_fail(u->y, tpi_no_memory(ctx, at, u->op->name));
        return;
    }
    for (int k = 0; k < u->n_in; k++)
        in[k] = w->operands[u->first + k].t;
    const tpi_infer q = {
        .op = u->op, .at = at, .ctx = ctx, .n_in = u->n_in, .in = in, .attrs = u->attrs};
    tpi_waiting_compute(&q, u->y);
    if (in != few)
        tpi_give_back(&ctx->mem, in, bytes);
}

typedef struct group {
    tpi_queue *w;
    int32_t n;
    const int32_t *units;
} group;

static tp_tensor *operand(const group *g, int i, int k)
{
    return g->w->operands[g->w->units[g->units[i]].first + k].t;
}

/* Have all units the same elements there? */
static bool is_one(const group *g, int k)
{
    const tp_tensor *first = operand(g, 0, k);
    bool is = true;
    for (int i = 1; i < g->n && is; i++) {
        const tp_tensor *t = operand(g, i, k);
        is = t == first ||
             (t->data == first->data &&
              memcmp(t->stride, first->stride, sizeof *t->stride * (size_t)t->rank) == 0);
    }
    return is;
}

/* Do they lie side by side already, as parts of what a group gave do? */
static bool is_row_by_row(const group *g, int k, size_t bytes)
{
    const tp_tensor *first = operand(g, 0, k);
    const char *at = first->data;
    bool is = first->buf != NULL;
    for (int i = 0; i < g->n && is; i++, at += bytes) {
        const tp_tensor *t = operand(g, i, k);
        is = t->data == at && t->buf == first->buf && t->flags & TPI_CONTIGUOUS;
    }
    return is;
}

/* Operand k of all units, [n, ...]; NULL: no memory. */
static tp_tensor *side_by_side(const group *g, tpi_at at, int k)
{
    tp_tensor *first = operand(g, 0, k);
    int64_t shape[TP_MAX_RANK + 1] = {g->n};
    memcpy(shape + 1, first->shape, sizeof *shape * (size_t)first->rank);
    tp_tensor *all = tpi_tensor(g->w->ctx, at, (tp_dtype)first->dtype, first->rank + 1, shape);
    const size_t bytes = tpi_bytes(first);
    if (!all)
        return NULL;
    if (is_row_by_row(g, k, bytes)) {
        tpi_set_strides(all);
        tpi_tensor_share(all, first, 0);
        tpi_note_contiguous(all);
        return all;
    }
    if (!tpi_tensor_alloc(all))
        return NULL;
    char *to = all->data;
    for (int i = 0; i < g->n; i++, to += bytes) {
        const tp_tensor *t = operand(g, i, k);
        if (t->flags & TPI_CONTIGUOUS)
            memcpy(to, t->data, bytes);
        else
            tpi_copy_strided(tp_dtype_size((tp_dtype)t->dtype), t->rank, t->shape, to,
                             all->stride + 1, t->data, t->stride);
    }
    return all;
}

/* Operands that differ as one; true: one does, and there was memory. */
static bool find_operands(const group *g, tpi_at at, int n_in, tp_tensor **x, bool *many)
{
    bool any = false;
    for (int k = 0; k < n_in; k++) {
        many[k] = !is_one(g, k);
        x[k] = many[k] ? side_by_side(g, at, k) : operand(g, 0, k);
        if (!x[k])
            return false;
        any |= many[k];
    }
    return any;
}

/* The op on one unit, as a node of its attributes and sizes. */
static tp_tensor *apply(const group *g, tpi_at at, int n_in, tp_tensor **in, tp_tensor **x,
                        bool *many)
{
    const tpi_queue_unit *u = &g->w->units[g->units[0]];
    tp_tensor node = *u->y;
    node.op = u->op;
    node.attrs = u->attrs;
    node.n_in = n_in;
    node.in = in;
    for (int k = 0; k < n_in; k++)
        in[k] = operand(g, 0, k);
    if (!find_operands(g, at, n_in, x, many))
        return NULL;
    return tpi_batch_op(&(tpi_batch){&node, at, g->n, x, many});
}

static bool is_whole(const group *g, const tp_tensor *all)
{
    const tp_tensor *y = g->w->units[g->units[0]].y;
    return all && all->status == TP_OK && all->dtype == y->dtype && all->rank == y->rank + 1 &&
           all->shape[0] == g->n &&
           memcmp(all->shape + 1, y->shape, sizeof *y->shape * (size_t)y->rank) == 0;
}

/* Each unit's result is a part of it. */
static void hand_out(const group *g, tp_tensor *all)
{
    for (int i = 0; i < g->n; i++) {
        tp_tensor *y = g->w->units[g->units[i]].y;
        y->flags &= (uint8_t)~TPI_LAZY;
        memcpy(y->stride, all->stride + 1, sizeof *y->stride * (size_t)y->rank);
        tpi_tensor_share(y, all, i * all->stride[0]);
        tpi_note_contiguous(y);
    }
}

static bool has_failed_operands(const group *g)
{
    const tpi_queue_unit *u = &g->w->units[g->units[0]];
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < u->n_in; k++)
            if (operand(g, i, k)->status != TP_OK)
                return true;
    return false;
}

/* All at once; false: each by itself, since there is no op for them, or it failed. */
static bool run_together(const group *g)
{
    tp_ctx *ctx = g->w->ctx;
    const tpi_queue_unit *u = &g->w->units[g->units[0]];
    const tpi_at at = TPI_AT(u->y->file, u->y->line);
    const size_t bytes = (size_t)u->n_in * (2 * sizeof(tp_tensor *) + sizeof(bool));
    tp_tensor **in = g->n < 2 || has_failed_operands(g) ? NULL : tpi_take(&ctx->mem, bytes);
    if (!in)
        return false;
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    bool ok = tp_scope_begin(ctx) == TP_OK;
    if (ok) {
        tp_tensor *all = apply(g, at, u->n_in, in, in + u->n_in, (bool *)(in + 2 * u->n_in));
        if (all && all->status == TP_OK && !(all->flags & TPI_CONTIGUOUS))
            all = tp_contiguous_at(at.file, at.line, all);
        ok = is_whole(g, all);
        if (ok)
            hand_out(g, all);
        tp_scope_end(ctx);
    }
    if (!ok)
        tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    tpi_give_back(&ctx->mem, in, bytes);
    return ok;
}

void tpi_group_run(tpi_queue *w, int32_t n, const int32_t *units)
{
    const group g = {w, n, units};
    const bool together = run_together(&g);
    const tpi_queue_unit *u = &w->units[units[0]];
    tpi_log(TPI_LOG_batch, "%s:%d: %s, %s%d", u->y->file ? u->y->file : "?", u->y->line,
            u->op->name, together ? "as one for " : "one by one for ", (int)n);
    w->ctx->batch_counts.kernels += together ? 1 : n;
    w->ctx->batch_counts.alone += together ? 0 : n;
    for (int i = 0; i < n && !together; i++)
        tpi_unit_run(w, units[i]);
}
