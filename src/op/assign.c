/* Makers of assign and group: what a run does to variables. */
#include "core/variable.h"
#include "ir/body.h"
#include "op/op.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line

static tp_tensor *assign_in_graph(tpi_at at, tp_graph *g, tp_tensor *var, tp_tensor *value)
{
    tp_tensor *v = tpi_graph_lift(g, at, var);
    if (v->status != TP_OK)
        return v;
    const tp_tensor *state = v;
    while (state->op == &tpi_op_assign)
        state = state->in[0];
    state = state->op == &tpi_op_variable ? state->in[0] : NULL;
    if (!state || !(state->flags & TPI_STATE))
        return tpi_fail(g->ctx, at, "assign", TP_E_STATE,
                        "only a variable can be assigned in a graph, not a view of one or a "
                        "computed value (make it with tp_variable)");
    tp_tensor *node = tpi_apply(at, &tpi_op_assign, TPI_IN(v, value), NULL);
    if (node->status == TP_OK && !tpi_graph_assigned(g, state, node))
        return tpi_no_memory(g->ctx, at, "assign");
    return node;
}

tp_tensor *tp_assign_at(const char *file, int line, tp_tensor *var, tp_tensor *value)
{
    const tpi_at at = TPI_AT(file, line);
    tp_ctx *ctx = var ? var->ctx : value ? value->ctx : NULL;
    tp_tensor *failed = tpi_refuse_operand(ctx, at, "assign", 0, var);
    if (!failed)
        failed = tpi_refuse_operand(ctx, at, "assign", 1, value);
    if (failed)
        return failed;
    TPI_ALONE(ctx, at, "assign");
    const tp_tensor *node = value->graph ? value : var;
    tp_graph *g = ctx->tracing ? ctx->tracing : node->graph;
    if (!tpi_may_read(g, node->graph))
        return tpi_refuse_outside(g, at, "assign", node);
    if (tpi_is_transformed(g))
        return tpi_fail(ctx, at, "assign", TP_E_STATE,
                        "a function that is transformed (tp_vmap, tp_jvp) assigns a variable: "
                        "let it return the value");
    if (g && g->parent)
        return ctx->block_rules->assign(at, g, var, value);
    if (!g && ctx->frame)
        return ctx->frame->rules->assign(at, var, value);
    return g ? assign_in_graph(at, g, var, value) : tpi_assign_concrete(at, var, value);
}

TPI_BARE(tp_tensor *, tp_assign, (tp_tensor * var, tp_tensor *value), var, value)

tp_tensor *tp_group_at(const char *file, int line, int n, tp_tensor *const *xs)
{
    return tpi_apply(TPI_AT(file, line), &tpi_op_group, xs ? n : 0, xs, NULL);
}

TPI_BARE(tp_tensor *, tp_group, (int n, tp_tensor *const *xs), n, xs)
