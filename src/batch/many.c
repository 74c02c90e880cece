#include "batch/many.h"

#include "base/log.h"
#include "op/batch.h"
#include "op/random_position.h"
#include "op/sizes.h"
#include "tapir/control.h"

#include <string.h>

/* As an operand of what is computed here: in a graph a node of it. */
static tp_tensor *here(const tpi_many *m, tpi_at at, tp_tensor *t)
{
    tp_graph *g = m->ctx->tracing ? m->ctx->tracing : m->around;
    return g && t->status == TP_OK ? tpi_graph_lift(g, at, t) : t;
}

/* One node on its way to all samples. */
typedef struct use {
    const tpi_many *m;
    const tp_tensor *node;
    tpi_at at;
    tp_tensor **x; /* its operands for all samples, by operand, */
    bool *many;    /* and which lie along the first axis */
} use;

/* ---- one sample after the other ------------------------------------------------------------------- */

/* Operands of one sample: those of tp_scan's turn, and what all share. */
static void one_sample(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x,
                       int n_ys, tp_tensor **y)
{
    const use *u = user;
    const tp_tensor *t = u->node;
    tpi_nodes in = {.ctx = t->ctx};
    (void)n, (void)v, (void)n_xs, (void)n_ys;
    for (int k = 0, next = 0; k < t->n_in; k++)
        tpi_nodes_push(&in, u->many[k] ? x[next++] : u->x[k]);
    y[0] = in.failed ? tpi_no_memory(t->ctx, u->at, t->op->name)
                     : tpi_apply(u->at, t->op, t->n_in, in.v, t->attrs);
    tpi_nodes_free(&in);
}

static tp_tensor *none(const use *u)
{
    const tp_tensor *t = u->node;
    int64_t shape[TP_MAX_RANK + 1] = {0};
    memcpy(shape + 1, t->shape, sizeof *shape * (size_t)t->rank);
    tp_tensor *zero = tp_scalar_at(u->at.file, u->at.line, t->ctx, (tp_dtype)t->dtype, 0);
    return tp_broadcast_at(u->at.file, u->at.line, zero, t->rank + 1, shape);
}

static tp_tensor *one_by_one(const use *u)
{
    const tp_tensor *t = u->node;
    tpi_nodes xs = {.ctx = t->ctx};
    tp_tensor *y = NULL;
    tpi_log(TPI_LOG_vmap, "%s:%d: %s takes one sample after the other",
            u->at.file ? u->at.file : "?", u->at.line, t->op->name);
    if (u->m->samples == 0)
        return none(u);
    for (int k = 0; k < t->n_in; k++)
        if (u->many[k])
            tpi_nodes_push(&xs, u->x[k]);
    if (!xs.failed) { /* a loop is in the graph of what it carries */
        tp_tensor *carried = tp_scalar_like_at(u->at.file, u->at.line, xs.v[0], 0);
        tp_scan_at(u->at.file, u->at.line, u->m->samples, NULL, one_sample, (void *)u, 1,
                   &carried, xs.n, xs.v, 1, &y);
    }
    tpi_nodes_free(&xs);
    return y ? y : tpi_no_memory(t->ctx, u->at, t->op->name);
}

/* ---- nodes ------------------------------------------------------------------------------------------ */

const char tpi_many_draws[] = "the function draws random numbers: draw them before, for all "
                              "samples, and pass them as an argument; or ask for the "
                              "same numbers for all (same_draws)";

/* NULL: it may be computed. */
static tp_tensor *refuse_effect(const use *u)
{
    const tp_tensor *t = u->node;
    if (t->op->draws && !u->m->draws_once)
        return tpi_fail(t->ctx, u->at, "tp_vmap", TP_E_STATE, "%s", tpi_many_draws);
    if (t->op->kind == TPI_EFFECT)
        return tpi_fail(t->ctx, u->at, "tp_vmap", TP_E_STATE,
                        "the function has the effect \"%s\", which is one for all samples",
                        t->op->name);
    return NULL;
}

static tp_tensor *apply(const use *u, bool any)
{
    const tp_tensor *t = u->node;
    const tpi_batch b = {t, u->at, u->m->samples, u->x, u->many};
    if (t->op->draws)
        return tpi_random_again(u->at, t->ctx, t->ctx->tracing ? t->ctx->tracing : u->m->around,
                                t->attrs);
    if (!any)
        return tpi_batch_same(&b, u->x);
    tp_tensor *y = tpi_batch_op(&b);
    return y ? y : one_by_one(u);
}

/* The node's operands are in value[]. */
static tpi_many_value compute(const use *u, const tpi_many_value *value)
{
    const tp_tensor *t = u->node;
    tp_ctx *ctx = t->ctx;
    bool any = false;
    for (int k = 0; k < t->n_in; k++) {
        u->x[k] = here(u->m, u->at, value[t->in[k]->index].t);
        u->many[k] = value[t->in[k]->index].many;
        any |= u->many[k];
    }
    tp_tensor *failed = refuse_effect(u);
    if (failed)
        return (tpi_many_value){.t = failed};
    /* what was computed while recording was off is a constant to gradients here too */
    const bool was = tp_recording(ctx, ctx->recording && !(t->flags & TPI_CONSTANT));
    tp_tensor *y = apply(u, any);
    tp_recording(ctx, was);
    return (tpi_many_value){.t = y, .many = any && t->op->kind != TPI_SHAPE};
}

static tp_tensor *run_node(const tpi_many *m, const tp_tensor *t, tpi_many_value *value)
{
    tpi_many_value *to = &value[t->index];
    if (to->t || t->op == &tpi_op_call)
        return NULL;
    if (tpi_constant_of(t)) {
        to->t = tpi_constant_of(t);
        return NULL;
    }
    if (tpi_is_block(t))
        return to->outputs ? NULL : tpi_many_block(m, t, value);
    if (tpi_block_of(t)) {
        *to = value[tpi_block_of(t)->index].outputs[tpi_index_of(t)];
        return NULL;
    }
    if (tpi_inside_of(t)) {
        *to = value[tpi_inside_of(t)->index];
        return NULL;
    }
    const size_t bytes = (size_t)t->n_in * (sizeof(tp_tensor *) + sizeof(bool)) + 1;
    tp_tensor **x = tpi_take(&m->ctx->mem, bytes);
    if (!x)
        return tpi_no_memory(m->ctx, m->at, "tp_vmap");
    const tpi_at at = t->file ? TPI_AT(t->file, t->line) : m->at;
    *to = compute(&(use){m, t, at, x, (bool *)(x + t->n_in)}, value);
    tpi_give_back(&m->ctx->mem, x, bytes);
    return to->t->status == TP_OK ? NULL : to->t;
}

tp_tensor *tpi_many_run(const tpi_many *m, const tpi_body *body, tpi_many_value *value)
{
    tpi_nodes needed = {.ctx = m->ctx, .way = TPI_WAY_VALUES};
    tp_tensor *failed = NULL;
    if (!tpi_collect(&needed, body->n_outputs, body->outputs, NULL, NULL))
        failed = tpi_no_memory(m->ctx, m->at, "tp_vmap");
    for (int i = 0; i < needed.n && !failed; i++)
        failed = run_node(m, needed.v[i], value);
    tpi_nodes_free(&needed);
    return failed;
}

tp_tensor *tpi_many_spread(const tpi_many *m, tpi_many_value v)
{
    int64_t shape[TP_MAX_RANK + 1] = {m->samples};
    if (v.many || v.t->status != TP_OK)
        return v.t;
    memcpy(shape + 1, v.t->shape, sizeof *shape * (size_t)v.t->rank);
    return tp_broadcast_at(m->at.file, m->at.line, here(m, m->at, v.t), v.t->rank + 1, shape);
}
