/* Bodies of blocks: making, owning, finding out where a tensor is. */
#include "ir/body.h"

#include <stdio.h>
#include <string.h>

/* ---- life -------------------------------------------------------------------------------- */

static void body_free(tpi_body *b)
{
    tpi_mem *m = &b->graph->ctx->mem;
    tpi_give_back(m, b->params, (size_t)b->params_size * sizeof *b->params);
    tpi_give_back(m, b->outers, (size_t)b->params_size * sizeof *b->outers);
    tpi_give_back(m, b->outputs, (size_t)b->outputs_size * sizeof *b->outputs);
    tp_graph_free(b->graph);
    tpi_give_back(m, b, sizeof *b);
}

void tpi_bodies_free(tp_graph *g)
{
    for (int i = 0; i < g->n_bodies; i++)
        body_free(g->bodies[i]);
    tpi_give_back(&g->ctx->mem, g->bodies, (size_t)g->bodies_size * sizeof *g->bodies);
    g->bodies = NULL;
    g->n_bodies = g->bodies_size = 0;
}

static bool own(tp_graph *g, tpi_body *b)
{
    tpi_body **v =
        tpi_grow(&g->ctx->mem, g->bodies, g->n_bodies, &g->bodies_size, sizeof *g->bodies);
    if (!v)
        return false;
    g->bodies = v;
    v[g->n_bodies++] = b;
    return true;
}

tpi_body *tpi_body_new(tp_graph *g, tpi_at at)
{
    tp_ctx *ctx = g->ctx;
    int depth = 0;
    for (const tp_graph *around = g; around->parent; around = around->parent)
        depth++;
    if (depth >= TPI_MAX_NESTING) {
        tpi_fail_status(ctx, at, "block", TP_E_STATE, "blocks nest deeper than %d",
                        TPI_MAX_NESTING);
        return NULL;
    }
    tpi_body *b = tpi_take(&ctx->mem, sizeof *b);
    tp_graph *inner = b ? tp_graph_new(ctx) : NULL;
    if (!inner) {
        tpi_give_back(&ctx->mem, b, sizeof *b);
        tpi_no_memory(ctx, at, "block");
        return NULL;
    }
    *b = (tpi_body){.graph = inner, .at = at};
    tpi_object_remove(&inner->owned); /* its parent owns it */
    inner->owned.next = inner->owned.prev = &inner->owned;
    tpi_dims_free(inner->dims);
    inner->dims = g->dims;
    inner->parent = g;
    inner->body = b;
    if (own(g, b))
        return b;
    body_free(b);
    tpi_no_memory(ctx, at, "block");
    return NULL;
}

void tpi_body_drop(tp_graph *g, tpi_body *b)
{
    int i = 0;
    while (g->bodies[i] != b)
        i++;
    g->n_bodies--;
    memmove(g->bodies + i, g->bodies + i + 1, (size_t)(g->n_bodies - i) * sizeof b);
    body_free(b);
}

bool tpi_bodies_move(tp_graph *from, tp_graph *to)
{
    for (int i = 0; i < from->n_bodies; i++) {
        tpi_body *b = from->bodies[i];
        if (!own(to, b)) {
            memmove(from->bodies, from->bodies + i, (size_t)(from->n_bodies - i) * sizeof b);
            from->n_bodies -= i;
            return false;
        }
        b->graph->parent = to;
        b->graph->dims = to->dims;
    }
    from->n_bodies = 0;
    return true;
}

/* ---- params and outputs ---------------------------------------------------------------------- */

tp_tensor *tpi_body_param(tpi_body *b, tpi_at at, tp_dtype dtype, int rank,
                          const int64_t *shape, tp_tensor *outer)
{
    tp_ctx *ctx = b->graph->ctx;
    const tpi_index_attrs attrs = {.index = b->n_params};
    if (b->n_params == b->params_size) {
        const int size = b->params_size ? b->params_size * 2 : 8;
        const size_t old = (size_t)b->params_size * sizeof *b->params,
                     bytes = (size_t)size * sizeof *b->params;
        tp_tensor **params = tpi_take(&ctx->mem, bytes), **outers = tpi_take(&ctx->mem, bytes);
        if (!params || !outers) {
            tpi_give_back(&ctx->mem, params, bytes);
            tpi_give_back(&ctx->mem, outers, bytes);
            return tpi_no_memory(ctx, at, "param");
        }
        if (old) {
            memcpy(params, b->params, old);
            memcpy(outers, b->outers, old);
        }
        tpi_give_back(&ctx->mem, b->params, old);
        tpi_give_back(&ctx->mem, b->outers, old);
        b->params = params;
        b->outers = outers;
        b->params_size = size;
    }
    tp_tensor *t =
        tpi_graph_node(b->graph, at, &tpi_op_param, 0, NULL, &attrs, dtype, rank, shape);
    if (t->status != TP_OK)
        return t;
    t->flags |= TPI_REQUIRES;
    b->params[b->n_params] = t;
    b->outers[b->n_params++] = outer;
    return t;
}

void tpi_body_order(tpi_body *b, tp_tensor *const *params)
{
    for (int i = 0; i < b->n_params; i++) { /* both arrays as params[] says, by selection */
        int k = i;
        while (b->params[k] != params[i])
            k++;
        tp_tensor *param = b->params[k], *outer = b->outers[k];
        b->params[k] = b->params[i], b->outers[k] = b->outers[i];
        b->params[i] = param, b->outers[i] = outer;
        tpi_index_attrs *attrs;
        memcpy(&attrs, &param->attrs, sizeof attrs); /* the body's own node, not yet used */
        attrs->index = i;
    }
}

bool tpi_body_output(tpi_body *b, tp_tensor *t)
{
    tp_tensor **v = tpi_grow(&b->graph->ctx->mem, b->outputs, b->n_outputs, &b->outputs_size,
                             sizeof *b->outputs);
    if (!v) {
        tpi_no_memory(b->graph->ctx, b->at, "block");
        return false;
    }
    b->outputs = v;
    v[b->n_outputs++] = t;
    return true;
}

/* ---- nodes --------------------------------------------------------------------------------------- */

int tpi_bodies_of(const tp_tensor *block, tpi_body **out)
{
    if (block->op == &tpi_op_cond) {
        const tpi_cond_attrs *a = block->attrs;
        out[0] = a->then;
        out[1] = a->other;
        return 2;
    }
    out[0] = ((const tpi_loop_attrs *)block->attrs)->body;
    return 1;
}

int tpi_n_outputs_of(const tp_tensor *block)
{
    tpi_body *bodies[2];
    tpi_bodies_of(block, bodies);
    const bool pred =
        block->op == &tpi_op_loop && ((const tpi_loop_attrs *)block->attrs)->has_pred;
    return bodies[0]->n_outputs - pred;
}

int tpi_n_writes_of(const tp_tensor *block)
{
    return (int)(block->op == &tpi_op_cond ? ((const tpi_cond_attrs *)block->attrs)->n_writes
                                           : ((const tpi_loop_attrs *)block->attrs)->n_writes);
}

bool tpi_node_draws(const tp_tensor *t)
{
    tpi_body *bodies[2];
    const bool block = tpi_is_block(t) && !(t->flags & TPI_REPLACED);
    bool does = t->op->code == TPI_OP_random;
    for (int k = block ? tpi_bodies_of(t, bodies) : 0; k-- > 0 && !does;)
        does = tpi_graph_draws(bodies[k]->graph);
    return does;
}

bool tpi_graph_draws(const tp_graph *g)
{
    bool does = false;
    for (int i = 0; i < g->n_nodes && !does; i++)
        does = tpi_node_draws(g->nodes[i]);
    return does;
}

void tpi_push_draws(tpi_nodes *l, const tp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (tpi_node_draws(g->nodes[i]))
            tpi_nodes_push(l, g->nodes[i]);
}

bool tpi_collect_run(tpi_nodes *out, const tp_graph *g, int n_roots, tp_tensor *const *roots)
{
    tpi_nodes all = {.ctx = out->ctx};
    for (int i = 0; i < n_roots; i++)
        tpi_nodes_push(&all, roots[i]);
    tpi_push_draws(&all, g);
    const bool ok = !all.failed && tpi_collect(out, all.n, all.v, NULL, NULL);
    tpi_nodes_free(&all);
    return ok;
}

tp_tensor *tpi_cond_node(tp_graph *g, tpi_at at, const tpi_cond_attrs *a, int n_in,
                         tp_tensor *const *in)
{
    return tpi_graph_node(g, at, &tpi_op_cond, n_in, in, a, TP_BOOL, 0, NULL);
}

/* What `from` takes of outside, `to` takes too: its params for them. NULL: good; or what failed. */
static tp_tensor *take_too(tpi_at at, tpi_body *to, const tpi_body *from, tp_tensor **params)
{
    for (int i = 0; i < from->n_params; i++) {
        params[i] = tpi_graph_lift(to->graph, at, from->outers[i]);
        if (params[i]->status != TP_OK)
            return params[i];
    }
    return NULL;
}

tp_tensor *tpi_cond_close(tp_graph *g, tpi_at at, tp_tensor *pred, tpi_body *then,
                          tpi_body *other)
{
    tpi_mem *m = &g->ctx->mem;
    const size_t most = (size_t)(then->n_params + other->n_params + 1),
                 bytes = most * sizeof(tp_tensor *);
    tp_tensor **in = tpi_take(m, bytes);
    if (!in)
        return tpi_no_memory(g->ctx, at, "block");
    tp_tensor *node = take_too(at, then, other, in);
    node = node ? node : take_too(at, other, then, in);
    if (!node) {
        tpi_body_order(other, in);
        in[0] = pred;
        for (int i = 0; i < then->n_params; i++)
            in[i + 1] = then->outers[i];
        then->closed = other->closed = true;
        const tpi_cond_attrs a = {.then = then, .other = other};
        node = tpi_cond_node(g, at, &a, 1 + then->n_params, in);
    }
    tpi_give_back(m, in, bytes);
    return node;
}

tp_tensor *tpi_loop_node(tp_graph *g, tpi_at at, const tpi_loop_attrs *a, int n_in,
                         tp_tensor *const *in)
{
    return tpi_graph_node(g, at, &tpi_op_loop, n_in, in, a, TP_BOOL, 0, NULL);
}

void tpi_output_type(const tp_tensor *block, int64_t index, tp_dtype *dtype, int *rank,
                     int64_t *shape)
{
    tpi_body *bodies[2];
    tpi_bodies_of(block, bodies);
    int lead = 0;
    if (block->op == &tpi_op_loop) {
        const tpi_loop_attrs *a = block->attrs;
        lead = index >= a->n_carried;
        shape[0] = a->length;
        index += a->has_pred;
    }
    const tp_tensor *t = bodies[0]->outputs[index];
    *dtype = (tp_dtype)t->dtype;
    *rank = t->rank + lead;
    memcpy(shape + lead, t->shape, sizeof(int64_t) * t->rank);
}

tp_tensor *tpi_output_node(tp_graph *g, tpi_at at, tp_tensor *block, int64_t index)
{
    const tpi_index_attrs attrs = {.index = index};
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK + 1];
    tpi_output_type(block, index, &dtype, &rank, shape);
    if (rank > TP_MAX_RANK)
        return tpi_fail(g->ctx, at, "output", TP_E_SHAPE, "stacked, this has more than %d axes",
                        TP_MAX_RANK);
    return tpi_graph_node(g, at, &tpi_op_output, 1, &block, &attrs, dtype, rank, shape);
}

/* ---- where a tensor is ---------------------------------------------------------------------------- */

bool tpi_graph_within(const tp_graph *g, const tp_graph *outer)
{
    while (g && g != outer)
        g = g->parent;
    return g;
}

tp_graph *tpi_graph_root(tp_graph *g)
{
    while (g->parent)
        g = g->parent;
    return g;
}

bool tpi_is_over(const tp_graph *g)
{
    return g && g->body && g->body->closed && !g->ctx->sweeps;
}

bool tpi_may_read(const tp_graph *g, const tp_graph *t)
{
    return !t || (tpi_graph_within(g, t) && !tpi_is_over(t));
}

tp_tensor *tpi_refuse_like(const tp_tensor *t, tpi_at at, const char *what)
{
    const tp_graph *g = t->ctx->tracing ? t->ctx->tracing : t->graph;
    return tpi_may_read(g, t->graph) ? NULL : tpi_refuse_outside(g, at, what, t);
}

tp_tensor *tpi_refuse_outside(const tp_graph *g, tpi_at at, const char *what,
                              const tp_tensor *t)
{
    if (tpi_graph_root(t->graph) != tpi_graph_root((tp_graph *)g))
        return g->body ? tpi_fail(g->ctx, at, what, TP_E_CTX,
                                  "an operand belongs to another graph than the block of line "
                                  "%d, which is open: work on that graph behind the block",
                                  g->body->at.line)
                       : tpi_fail(g->ctx, at, what, TP_E_CTX,
                                  "the operands belong to different graphs");
    return tpi_refuse_ended(g->ctx, at, what, t, t->graph->body->at.line);
}

tp_tensor *tpi_refuse_ended(tp_ctx *ctx, tpi_at at, const char *what, const tp_tensor *t,
                            int block)
{
    return tpi_fail(
        ctx, at, what, TP_E_STATE,
        "%s of line %d was made inside the block of line %d, which has ended: list a "
        "variable for it among the block's",
        t->op ? t->op->name : "a value", t->line, block);
}

int64_t tpi_fresh_symbol(tp_graph *g, const char *stem)
{
    char name[64];
    for (int i = 1;; i++) {
        if (i == 1)
            snprintf(name, sizeof name, "%s", stem);
        else
            snprintf(name, sizeof name, "%s.%d", stem, i);
        bool taken = false;
        for (int k = 0; k < tpi_dim_n_symbols(g->dims) && !taken; k++)
            taken = strcmp(tpi_dim_symbol_name(g->dims, k), name) == 0;
        if (!taken)
            return tpi_dim_symbol(g->dims, name);
    }
}
