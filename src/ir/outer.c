/* Lifting: how a graph reads what is outside of it, and the one rule for reading variables.
 *
 * A variable's handle always reads what was assigned last, in program order. A view of it shares its
 * memory on concrete tensors, and so shows what is assigned later; in a graph it is what the
 * variable was when it was made. So a graph refuses to read a view that was made before the
 * last assignment: then what it does read has the eager bits. The same holds for a node that was
 * once the variable itself (tp_graph_read, the result of tp_assign). */
#include "ir/body.h"
#include "ir/effects.h"

#include <string.h>

/* ---- the table ------------------------------------------------------------------------------- */

/* The slot of a concrete tensor, or the free one where it belongs. */
static tpi_lifted *lifted_slot(tpi_lifted *table, int size, const tp_tensor *t)
{
    size_t i = ((uintptr_t)t >> 6) * 0x9E3779B97F4A7C15u >> 32;
    while (table[i & (size_t)(size - 1)].concrete &&
           table[i & (size_t)(size - 1)].concrete != t)
        i++;
    return &table[i & (size_t)(size - 1)];
}

static bool lifted_reserve(tp_graph *g)
{
    if (g->n_lifted * 2 < g->lifted_size)
        return true;
    const int size = g->lifted_size ? g->lifted_size * 2 : 32;
    tpi_lifted *v = tpi_take(&g->ctx->mem, (size_t)size * sizeof *v);
    if (!v)
        return false;
    memset(v, 0, (size_t)size * sizeof *v);
    for (int i = 0; i < g->lifted_size; i++)
        if (g->lifted[i].concrete)
            *lifted_slot(v, size, g->lifted[i].concrete) = g->lifted[i];
    tpi_give_back(&g->ctx->mem, g->lifted, (size_t)g->lifted_size * sizeof *v);
    g->lifted = v;
    g->lifted_size = size;
    return true;
}

tp_tensor *tpi_graph_lifted(const tp_graph *g, const tp_tensor *t)
{
    const tpi_lifted *slot = g->lifted_size ? lifted_slot(g->lifted, g->lifted_size, t) : NULL;
    return slot && slot->concrete ? slot->node : NULL;
}

static bool stop_at_lifted(void *user, const tp_tensor *t)
{
    return tpi_graph_lifted(user, t) != NULL;
}

/* From now on `key` is read as `node`; false: no memory. */
static bool remember(tp_graph *g, const tp_tensor *key, tp_tensor *node)
{
    if (!lifted_reserve(g))
        return false;
    tpi_lifted *slot = lifted_slot(g->lifted, g->lifted_size, key);
    if (!slot->concrete) {
        tpi_ref(key); /* its address stands for it as long as the graph lives */
        g->n_lifted++;
    }
    *slot = (tpi_lifted){.concrete = key, .node = node};
    return true;
}

/* ---- assignments ----------------------------------------------------------------------------- */

bool tpi_graph_assigned(tp_graph *g, const tp_tensor *variable, tp_tensor *node)
{
    if (g->n_assigned == g->assigned_size) {
        const int size = g->assigned_size ? g->assigned_size * 2 : 8;
        tpi_lifted *v =
            tpi_resize(&g->ctx->mem, g->assigned, (size_t)g->assigned_size * sizeof *v,
                       (size_t)size * sizeof *v);
        if (!v)
            return false;
        g->assigned = v;
        g->assigned_size = size;
    }
    g->assigned[g->n_assigned++] = (tpi_lifted){.concrete = variable, .node = node};
    return remember(g, variable, node);
}

/* The variable that was assigned when node was made, and was node from then on; NULL: none. */
static const tp_tensor *assigned_as(const tp_tensor *node)
{
    const tp_graph *g = node->graph;
    for (int i = g->n_assigned - 1; i >= 0; i--)
        if (g->assigned[i].node == node)
            return g->assigned[i].concrete;
    return NULL;
}

/* What the graph assigned last to the variable with that memory; NULL: nothing. */
static const tp_tensor *last_assigned(const tp_graph *g, const tpi_buf *buf)
{
    for (int i = g->n_assigned - 1; i >= 0; i--)
        if (g->assigned[i].concrete->buf == buf)
            return g->assigned[i].node;
    return NULL;
}

/* The node of the graph around that a body's param stands for; NULL: a value of the turn's. */
static const tp_tensor *captured_by(const tp_tensor *param)
{
    const tpi_body *b = param->graph->body;
    const tpi_index_attrs *a = param->attrs;
    const tp_tensor *outer = b ? b->outers[a->index] : NULL;
    return outer && tpi_graph_lifted(param->graph, outer) == param ? outer : NULL;
}

/* On concrete tensors a view shares memory; a copy never does. */
static bool is_view(const tp_tensor *t)
{
    return t->op->kind == TPI_VIEW && t->op->code != TPI_OP_copy;
}

/* The node through which t, of a graph, shows a variable, whose memory is *buf: t is that node, or
 * a view of it. NULL: t is a value. */
static const tp_tensor *shown_by(const tp_tensor *t, const tpi_buf **buf)
{
    while (t) {
        const tp_tensor *variable = t->op == &tpi_op_variable ? t->in[0] : assigned_as(t);
        if (variable) {
            *buf = variable->buf;
            return t;
        }
        t = t->op == &tpi_op_param ? captured_by(t) : is_view(t) ? t->in[0] : NULL;
    }
    return NULL;
}

bool tpi_shows(const tp_tensor *t, const tp_tensor *variable)
{
    const tpi_buf *buf = t->flags & TPI_VARIABLE ? t->buf : NULL;
    return t->graph ? shown_by(t, &buf) && buf == variable->buf : buf && buf == variable->buf;
}

/* The assignment, in g or a graph around it, that t does not show though it shows the variable;
 * NULL: what g reads is what t is on concrete tensors. */
static const tp_tensor *overtaken_by(const tp_graph *g, const tp_tensor *t)
{
    bool any = false;
    for (const tp_graph *h = g; h && !any; h = h->parent)
        any = h->n_assigned > 0;
    if (!any || g->ctx->sweeps ||
        (!t->graph && (t->flags & TPI_STATE || !(t->flags & TPI_VARIABLE))))
        return NULL;
    const tpi_buf *buf = t->buf;
    const tp_tensor *shown = t->graph ? shown_by(t, &buf) : NULL;
    if (t->graph && !shown)
        return NULL;
    for (const tp_graph *h = g; h; h = shown && h == shown->graph ? NULL : h->parent) {
        const tp_tensor *last = last_assigned(h, buf);
        if (last)
            return last == shown ? NULL : last;
    }
    return NULL;
}

static tp_tensor *refuse_overtaken(const tp_graph *g, tpi_at at, const tp_tensor *t,
                                   const tp_tensor *assigned)
{
    const tp_tensor *variable = assigned_as(assigned);
    return tpi_fail(
        g->ctx, at, NULL, TP_E_STATE,
        "what is read here is (a view of) the variable \"%s\" as it was at line %d, "
        "before the assignment of line %d: take it from tp_graph_read of the variable now, or "
        "compute a value from it before",
        variable->name ? variable->name : "", t->line, assigned->line);
}

/* ---- lifting ----------------------------------------------------------------------------------- */

/* What is read of memory: a constant, or a variable or a view of one. */
static tp_tensor *lift_leaf(tp_graph *g, tpi_at at, tp_tensor *t)
{
    const tpi_op *op = t->flags & TPI_VARIABLE ? &tpi_op_variable : &tpi_op_const;
    tp_tensor *node =
        tpi_graph_node(g, at, op, 1, &t, NULL, (tp_dtype)t->dtype, t->rank, t->shape);
    if (node->status != TP_OK)
        return node;
    node->flags = TPI_REQUIRES;
    node->from = t->from; /* not found through it in the graph either */
    node->since = t->flags & TPI_LEAF ? 0 : t->since;
    return tpi_graph_named(g, node, t->name);
}

/* What was recorded is computed again in the graph, of what the variables are there. */
/* What a replay gave was computed from what is kept nowhere; NULL: t is no such call. */
static tp_tensor *refuse_replayed(const tp_graph *g, tpi_at at, const tp_tensor *t)
{
    if (t->op != &tpi_op_call || !tpi_is_replayed_call(t))
        return NULL;
    return tpi_fail(
        g->ctx, at, NULL, TP_E_STATE,
        "what is read here a replayed call of a pure function gave, so that a graph "
        "can't compute it again: tp_detach makes it a constant");
}

static tp_tensor *lift_recorded(tp_graph *g, tpi_at at, tp_tensor *t)
{
    tp_tensor *const failed = refuse_replayed(g, at, t);
    if (failed)
        return failed;
    tp_tensor *few[16], **in = few;
    const size_t bytes = (size_t)t->n_in * sizeof *in;
    if (t->n_in > 16)
        in = tpi_take(&g->ctx->mem, bytes);
    if (!in)
        return tpi_no_memory(g->ctx, at, NULL);
    const tp_tensor *variable = NULL;
    for (int i = 0; i < t->n_in && !variable; i++) {
        in[i] = tpi_graph_lifted(g, t->in[i]);
        variable = assigned_as(in[i]);
    }
    tp_tensor *node;
    if (variable)
        node = tpi_fail(g->ctx, at, NULL, TP_E_STATE,
                        "what is read here was computed from the variable \"%s\" before the "
                        "graph assigned it: compute it from the assigned value",
                        variable->name ? variable->name : "");
    else
        node = tpi_graph_node(g, TPI_AT(t->file, t->line), t->op, t->n_in, in, t->attrs,
                              (tp_dtype)t->dtype, t->rank, t->shape);
    if (in != few)
        tpi_give_back(&g->ctx->mem, in, bytes);
    if (node->status == TP_OK && !(t->flags & TPI_REQUIRES))
        node->flags = TPI_CONSTANT; /* to gradients, as eagerly */
    return node;
}

static tp_tensor *lift_one(tp_graph *g, tpi_at at, tp_tensor *t)
{
    tp_tensor *node = tpi_graph_lifted(g, t);
    if (node)
        return node;
    node = t->in && !g->borrows ? lift_recorded(g, at, t) : lift_leaf(g, at, t);
    if (node->status != TP_OK)
        return node;
    node->seq = t->seq; /* its place in program order */
    return remember(g, t, node) ? node : tpi_no_memory(g->ctx, at, NULL);
}

tp_tensor *tpi_capture(tp_graph *g, tpi_at at, tp_tensor *t)
{
    tp_tensor *node = tpi_graph_lifted(g, t);
    if (node)
        return node;
    tp_tensor *outer = tpi_graph_lift(g->parent, at, t);
    if (outer->status != TP_OK)
        return outer;
    node = tpi_graph_lifted(g, outer);
    if (!node) {
        if (g->body->closed)
            return tpi_fail(g->ctx, at, NULL, TP_E_STATE, "the block of line %d has ended",
                            g->body->at.line);
        node = tpi_body_param(g->body, at, (tp_dtype)outer->dtype, outer->rank, outer->shape,
                              outer);
        if (node->status != TP_OK)
            return node;
        node->seq = outer->seq; /* its place in program order: older than what is in the body */
        if (!remember(g, outer, node))
            return tpi_no_memory(g->ctx, at, NULL);
    }
    return t == outer || remember(g, t, node) ? node : tpi_no_memory(g->ctx, at, NULL);
}

/* What is computed from nothing that can change has a place of its own in a body. */
static bool is_plain_constant(const tp_tensor *t)
{
    return !t->graph && !t->in && !(t->flags & (TPI_VARIABLE | TPI_LEAF));
}

static bool borrows(const tp_graph *g)
{
    while (g->parent)
        g = g->parent;
    return g->borrows;
}

tp_tensor *tpi_graph_lift(tp_graph *g, tpi_at at, tp_tensor *t)
{
    if (t->status != TP_OK)
        return t;
    if (t->ctx != g->ctx)
        return tpi_fail(g->ctx, at, NULL, TP_E_CTX,
                        "the tensor belongs to another context than the graph");
    if (t->graph && !tpi_graph_within(g, t->graph))
        return tpi_refuse_outside(g, at, NULL, t);
    const tp_tensor *assigned = overtaken_by(g, t);
    if (assigned)
        return refuse_overtaken(g, at, t, assigned);
    if (t->graph == g)
        return t;
    if (!t->graph && !borrows(g))
        tpi_look_at(at, t, TPI_LOOK_OTHER);
    if (g->parent && !is_plain_constant(t))
        return tpi_capture(g, at, t);
    if (!t->in || g->borrows || tpi_graph_lifted(g, t))
        return lift_one(g, at, t);
    tpi_nodes past = {.ctx = g->ctx}; /* what was recorded becomes nodes */
    tp_tensor *node = NULL;
    if (!tpi_collect(&past, 1, &t, stop_at_lifted, g))
        node = tpi_no_memory(g->ctx, at, NULL);
    for (int i = 0; i < past.n && (!node || node->status == TP_OK); i++)
        node = lift_one(g, at, past.v[i]);
    tpi_nodes_free(&past);
    return node;
}

tp_tensor *tpi_graph_constant(tp_graph *g, tpi_at at, tp_tensor *concrete)
{
    if (g->parent && !(concrete->flags & TPI_VARIABLE))
        return tpi_graph_node(g, at, &tpi_op_const, 1, &concrete, NULL,
                              (tp_dtype)concrete->dtype, concrete->rank, concrete->shape);
    return tpi_graph_lift(g, at, concrete);
}

tp_graph *tpi_graph_here(const tp_tensor *x)
{
    tp_graph *g = x->graph;
    return g && x->ctx->tracing && tpi_graph_within(x->ctx->tracing, g) ? x->ctx->tracing : g;
}

/* ---- by the user ------------------------------------------------------------------------------- */

/* The node for a concrete t in like's graph; t itself when like is concrete; failed when like is of a
 * block that has ended. */
static tp_tensor *lift_like(const tp_tensor *like, tpi_at at, const char *what, tp_tensor *t)
{
    if (!like->graph || t->status != TP_OK)
        return t;
    tp_tensor *failed = tpi_refuse_like(like, at, what);
    return failed ? failed : tpi_graph_lift(tpi_graph_here(like), at, t);
}

tp_tensor *tp_scalar_like_at(const char *file, int line, tp_tensor *x, double value)
{
    const tpi_at at = TPI_AT(file, line);
    if (!tpi_is_live(x) || x->status != TP_OK)
        return tpi_refuse_operand(x ? x->ctx : NULL, at, "tp_scalar_like", 0, x);
    TPI_ALONE(x->ctx, at, "tp_scalar_like");
    return lift_like(x, at, "tp_scalar_like",
                     tpi_make_scalar(x->ctx, at, "tp_scalar_like", (tp_dtype)x->dtype, value));
}

TPI_BARE(tp_tensor *, tp_scalar_like, (tp_tensor * x, double value), x, value)

tp_tensor *tp_graph_read_at(const char *file, int line, tp_graph *g, tp_tensor *t)
{
    const tpi_at at = TPI_AT(file, line);
    if (!g)
        return (tp_tensor *)&tpi_nil;
    TPI_ALONE(g->ctx, at, "tp_graph_read");
    tp_tensor *failed = tpi_refuse_operand(g->ctx, at, "tp_graph_read", 0, t);
    if (g->ctx->tracing && tpi_graph_within(g->ctx->tracing, g))
        g = g->ctx->tracing; /* an open block of it reads */
    if (!failed && t->graph && !tpi_graph_within(g, t->graph))
        failed = tpi_refuse_outside(g, at, "tp_graph_read", t);
    return failed ? failed : tpi_graph_lift(g, at, t);
}

TPI_BARE(tp_tensor *, tp_graph_read, (tp_graph * g, tp_tensor *t), g, t)
