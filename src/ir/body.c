/* Bodies of blocks: what goes in and out of them, and who may read what is of one. */
#include "ir/body.h"

#include "ir/op_rules.h"

#include <string.h>

const tpi_op tpi_op_param = {.name = "param",
                             .code = TPI_OP_param,
                             .kind = TPI_SOURCE,
                             .attrs = tpi_index_table,
                             .attrs_size = sizeof(tpi_index_attrs)};

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

/* ---- where a tensor is ---------------------------------------------------------------------------- */

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
