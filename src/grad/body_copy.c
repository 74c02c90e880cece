#include "grad/body_copy.h"

#include "op/op.h"

#include <string.h>

/* ---- copies ------------------------------------------------------------------------------------- */

static bool copy_bodies(tp_graph *to, const tp_tensor *block, void *attrs)
{
    for (const tpi_attr *a = block->op->attrs; a && a->name; a++) {
        if (a->type != TPI_ATTR_BODY)
            continue;
        tpi_body *from, *made;
        memcpy(&from, (char *)attrs + a->offset, sizeof from);
        made = tpi_body_new(to, from->at);
        if (!made || !tpi_copy_body(from, made))
            return false;
        memcpy((char *)attrs + a->offset, &made, sizeof made);
    }
    return true;
}

tp_tensor *tpi_copy_node(tp_ctx *ctx, tp_graph *to, const tp_tensor *t, tp_tensor *const *in)
{
    const tpi_at at = TPI_AT(t->file, t->line);
    _Alignas(8) char attrs[1024];
    if (t->op->attrs_size > sizeof attrs)
        return tpi_fail(ctx, at, t->op->name, TP_E_BUG, "attributes of %zu bytes",
                        t->op->attrs_size);
    if (t->op->attrs_size)
        memcpy(attrs, t->attrs, t->op->attrs_size);
    if (!copy_bodies(to, t, attrs))
        return tpi_no_memory(ctx, at, t->op->name);
    tp_tensor *made =
        tpi_param_of(t)
            ? tpi_body_param(to->body, at, (tp_dtype)t->dtype, t->rank, t->shape, NULL)
            : tpi_graph_node(to, at, t->op, t->n_in, t->op->kind == TPI_SOURCE ? t->in : in,
                             attrs, (tp_dtype)t->dtype, t->rank, t->shape);
    if (made->status == TP_OK) {
        const uint8_t kept = TPI_REQUIRES | TPI_CONSTANT;
        made->flags = (uint8_t)((made->flags & ~kept) | (t->flags & kept));
    }
    return made;
}

tp_tensor *tpi_copy_over(tp_graph *to, const tp_tensor *t, tp_tensor *const *map)
{
    if (tpi_inside_of(t))
        return map[t->in[0]->index];
    tpi_nodes in = {.ctx = to->ctx};
    for (int k = 0; k < t->n_in && t->op->kind != TPI_SOURCE; k++)
        tpi_nodes_push(&in, map[t->in[k]->index]);
    tp_tensor *made = in.failed ? tpi_no_memory(to->ctx, TPI_AT(t->file, t->line), t->op->name)
                                : tpi_copy_node(to->ctx, to, t, in.v);
    tpi_nodes_free(&in);
    return made;
}

/* Nodes first.. of one body to another, whose node i is the copy of node i. */
static bool copy_nodes(const tp_graph *from, int first, tp_graph *to)
{
    tp_ctx *ctx = to->ctx;
    tpi_nodes in = {.ctx = ctx};
    bool ok = true;
    for (int i = first; i < from->n_nodes && ok; i++) {
        const tp_tensor *t = from->nodes[i];
        in.n = 0;
        for (int k = 0; k < t->n_in && t->op->kind != TPI_SOURCE; k++)
            tpi_nodes_push(&in, to->nodes[t->in[k]->index]);
        ok = !in.failed;
        if (!ok)
            tpi_no_memory(ctx, TPI_AT(t->file, t->line), t->op->name);
        ok = ok && tpi_copy_node(ctx, to, t, in.v)->status == TP_OK;
    }
    tpi_nodes_free(&in);
    return ok;
}

static bool copy_outputs(const tpi_body *from, tpi_body *to)
{
    bool ok = true;
    for (int i = to->n_outputs; i < from->n_outputs && ok; i++)
        ok = tpi_body_output(to, to->graph->nodes[from->outputs[i]->index]);
    return ok;
}

bool tpi_copy_body(const tpi_body *from, tpi_body *to)
{
    tp_ctx *ctx = to->graph->ctx;
    if (!copy_nodes(from->graph, 0, to->graph))
        return false;
    tpi_nodes params = {.ctx = ctx};
    for (int i = 0; i < from->n_params; i++)
        tpi_nodes_push(&params, to->graph->nodes[from->params[i]->index]);
    if (!params.failed)
        tpi_body_order(to, params.v);
    else
        tpi_no_memory(ctx, to->at, "block");
    const bool ok = !params.failed && copy_outputs(from, to);
    tpi_nodes_free(&params);
    to->closed = true;
    return ok;
}

bool tpi_copy_rest(const tpi_body *from, tpi_body *to, tp_tensor **map)
{
    const tp_graph *g = from->graph;
    bool ok = tpi_graph_equate_all(to->graph, g);
    for (int i = 0; i < g->n_nodes && ok; i++) {
        if (map[i] || tpi_param_of(g->nodes[i]))
            continue;
        map[i] = tpi_copy_over(to->graph, g->nodes[i], map);
        ok = map[i]->status == TP_OK;
    }
    for (int i = 0; i < from->n_outputs && ok; i++)
        ok = tpi_body_output(to, map[from->outputs[i]->index]);
    to->closed = true;
    return ok;
}

static bool mirror_body(const tpi_body *copy, tpi_body *original)
{
    const int n = original->graph->n_nodes;
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        if (tpi_is_block(original->graph->nodes[i]))
            ok = tpi_mirror_block(copy->graph->nodes[i], original->graph->nodes[i]);
    return ok && copy_nodes(copy->graph, n, original->graph) && copy_outputs(copy, original);
}

bool tpi_mirror_block(const tp_tensor *copy, tp_tensor *original)
{
    tpi_body *from[2], *to[2];
    const int n = tpi_bodies_of(copy, from);
    tpi_bodies_of(original, to);
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        ok = mirror_body(from[i], to[i]);
    const tpi_loop_attrs *loop = tpi_loop_of(copy);
    if (loop) {
        tpi_loop_attrs *to_loop = tpi_loop_of(original);
        to_loop->n_stacked = loop->n_stacked;
        to_loop->length = loop->length;
    }
    return ok;
}

tp_tensor *tpi_zeros_in(tp_graph *body, tpi_at at, const tp_tensor *like)
{
    tp_tensor *zero = tp_scalar_at(at.file, at.line, like->ctx, (tp_dtype)like->dtype, 0);
    if (zero->status == TP_OK)
        zero = tpi_graph_lift(body, at, zero);
    return like->rank && zero->status == TP_OK
               ? tp_broadcast_at(at.file, at.line, zero, like->rank, like->shape)
               : zero;
}
