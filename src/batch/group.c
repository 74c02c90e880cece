/* One op in place of many that are alike: operands that differ are put side by side, and each unit's result is a part of the
 * one. */
#include "base/log.h"
#include "batch/queue.h"
#include "batch/sample_rows.h"
#include "transform/batch.h"

#include <string.h>

/* ---- calls -------------------------------------------------------------------------------------------------------- */

static tp_tensor *result_of(const tpi_queue *w, const tpi_queue_unit *u, int i)
{
    return i ? w->operands[u->first + u->n_in + i - 1].t : u->y;
}

/* False: an operand has failed, and so have the results. */
static bool is_good(const tpi_queue *w, const tpi_queue_unit *u)
{
    const tp_tensor *failed = NULL;
    for (int k = 0; k < u->n_in && !failed; k++)
        if (w->operands[u->first + k].t->status != TP_OK)
            failed = w->operands[u->first + k].t;
    for (int i = 0; i < u->side->n_out && failed; i++)
        tpi_waiting_fail(result_of(w, u, i), failed);
    return !failed;
}

/* Calls of one cell, by its program. */
static void run_calls(tpi_queue *w, int32_t n, const int32_t *units)
{
    tp_ctx *ctx = w->ctx;
    const tpi_queue_unit *first = &w->units[units[0]];
    const tpi_cell_side *s = first->side;
    const tpi_at at = TPI_AT(first->y->file, first->y->line);
    const size_t bytes = (size_t)n * (size_t)(first->n_in + s->n_out) * sizeof(tp_tensor *);
    tp_tensor **in = tpi_take(&ctx->mem, bytes), **y = in + (size_t)n * (size_t)first->n_in;
    const tp_tensor *failed = in ? NULL : tpi_no_memory(ctx, at, s->cell->name);
    int good = 0;
    for (int i = 0; i < n; i++) {
        const tpi_queue_unit *u = &w->units[units[i]];
        if (failed) {
            for (int k = 0; k < s->n_out; k++)
                tpi_waiting_fail(result_of(w, u, k), failed);
        } else if (is_good(w, u)) {
            for (int k = 0; k < u->n_in; k++)
                in[good * u->n_in + k] = w->operands[u->first + k].t;
            for (int k = 0; k < s->n_out; k++)
                y[good * s->n_out + k] = result_of(w, u, k);
            good++;
        }
    }
    if (good)
        tpi_cell_run(s, at, good, in, y);
    tpi_give_back(&ctx->mem, in, in ? bytes : 0);
}

/* ---- ops ------------------------------------------------------------------------------------------------------------ */

static void run_op(tpi_queue *w, tpi_queue_unit *u, tp_tensor **in)
{
    const tpi_infer q = {.op = u->op,
                         .at = TPI_AT(u->y->file, u->y->line),
                         .ctx = w->ctx,
                         .n_in = u->n_in,
                         .in = in,
                         .attrs = u->attrs};
    for (int k = 0; k < u->n_in; k++)
        in[k] = w->operands[u->first + k].t;
    tpi_waiting_compute(&q, u->y);
}

void tpi_unit_run(tpi_queue *w, int32_t unit)
{
    enum { FEW = 16 };
    tpi_queue_unit *u = &w->units[unit];
    tp_ctx *ctx = w->ctx;
    tp_tensor *few[FEW], **in = few;
    const size_t bytes = (size_t)u->n_in * sizeof *in;
    if (u->side) {
        run_calls(w, 1, &unit);
        return;
    }
    const int32_t sample = ctx->caller.sample;
    ctx->caller.sample = u->sample; /* errors tell it */
    if (u->n_in > FEW)
        in = tpi_take(&ctx->mem, bytes);
    if (in)
        run_op(w, u, in);
    else
        tpi_waiting_fail(u->y, tpi_no_memory(ctx, TPI_AT(u->y->file, u->y->line), u->op->name));
    if (in && in != few)
        tpi_give_back(&ctx->mem, in, bytes);
    ctx->caller.sample = sample;
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
static bool is_one(int n, tp_tensor *const *t)
{
    bool is = true;
    for (int i = 1; i < n && is; i++)
        is = t[i] == t[0] || (t[i]->data == t[0]->data &&
                              memcmp(t[i]->stride, t[0]->stride,
                                     sizeof *t[0]->stride * (size_t)t[0]->rank) == 0);
    return is;
}

/* Operands that differ as one; true: one does, and there was memory. */
static bool find_operands(const group *g, tpi_at at, int n_in, tp_tensor **x, bool *many)
{
    tp_ctx *ctx = g->w->ctx;
    const size_t bytes = (size_t)g->n * sizeof(tp_tensor *);
    tp_tensor **all = tpi_take(&ctx->mem, bytes);
    bool any = false, ok = all;
    for (int k = 0; k < n_in && ok; k++) {
        for (int i = 0; i < g->n; i++)
            all[i] = operand(g, i, k);
        many[k] = !is_one(g->n, all);
        x[k] = many[k] ? tpi_samples_join(ctx, at, g->n, all, 1, false) : all[0];
        ok = x[k];
        any |= many[k];
    }
    tpi_give_back(&ctx->mem, all, all ? bytes : 0);
    return ok && any;
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
            for (int i = 0; i < g->n; i++)
                tpi_sample_share(all, i, g->w->units[g->units[i]].y, false);
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
    const tpi_queue_unit *u = &w->units[units[0]];
    const tpi_at at = TPI_AT(u->y->file ? u->y->file : "?", u->y->line);
    bool together = u->side != NULL;
    if (together)
        run_calls(w, n, units);
    else
        together = run_together(&g);
    tpi_log(TPI_LOG_batch, "%s:%d: %s, %s%d", at.file, at.line, tpi_unit_name(u),
            together ? "as one for " : "one by one for ", (int)n);
    w->ctx->batch_counts.kernels += together ? 1 : n;
    w->ctx->batch_counts.alone += together ? 0 : n;
    for (int i = 0; i < n && !together; i++)
        tpi_unit_run(w, units[i]);
}
