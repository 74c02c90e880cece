/* What a graph takes, gives and reads. */
#include "ir/body.h"

#include <string.h>

int tp_graph_n_inputs(const tp_graph *g)
{
    int n = 0;
    for (int i = 0; g && i < g->n_nodes; i++)
        n += g->nodes[i]->op == &tpi_op_placeholder;
    return n;
}

tp_tensor *tp_graph_input_at(const char *file, int line, tp_graph *g, int i)
{
    if (!g)
        return (tp_tensor *)&tpi_nil;
    int n = 0;
    for (int k = 0; k < g->n_nodes; k++)
        if (g->nodes[k]->op == &tpi_op_placeholder && n++ == i)
            return g->nodes[k];
    return tpi_fail(g->ctx, TPI_AT(file, line), "tp_graph_input", TP_E_VALUE,
                    "input %d is not one of the %d of the graph", i, n);
}

TPI_BARE(tp_tensor *, tp_graph_input, (tp_graph * g, int i), g, i)

static bool is_state(const tp_tensor *node)
{
    return node->op == &tpi_op_variable && node->in[0]->flags & TPI_STATE;
}

int tp_graph_n_variables(const tp_graph *g)
{
    int n = 0;
    for (int i = 0; g && i < g->n_nodes; i++)
        n += is_state(g->nodes[i]);
    return n;
}

tp_tensor *tp_graph_nth_variable_at(const char *file, int line, tp_graph *g, int i)
{
    if (!g)
        return (tp_tensor *)&tpi_nil;
    int n = 0;
    for (int k = 0; k < g->n_nodes; k++)
        if (is_state(g->nodes[k]) && n++ == i)
            return g->nodes[k]->in[0];
    return tpi_fail(g->ctx, TPI_AT(file, line), "tp_graph_nth_variable", TP_E_VALUE,
                    "variable %d is not one of the %d of the graph", i, n);
}

TPI_BARE(tp_tensor *, tp_graph_nth_variable, (tp_graph * g, int i), g, i)

tp_tensor *tp_graph_variable_at(const char *file, int line, tp_graph *g, const char *name)
{
    if (!g)
        return (tp_tensor *)&tpi_nil;
    tp_tensor *found = NULL;
    for (int i = 0; i < g->n_nodes; i++) {
        tp_tensor *t = g->nodes[i];
        if (t->op != &tpi_op_variable || !t->in[0]->name || !name ||
            strcmp(t->in[0]->name, name) != 0 || t->in[0] == found)
            continue;
        if (found)
            return tpi_fail(g->ctx, TPI_AT(file, line), "tp_graph_variable", TP_E_NAME,
                            "the graph reads two variables \"%s\", of lines %d and %d: "
                            "tp_graph_nth_variable tells them apart",
                            name, found->line, t->in[0]->line);
        found = t->in[0];
    }
    return found ? found
                 : tpi_fail(g->ctx, TPI_AT(file, line), "tp_graph_variable", TP_E_NAME,
                            "the graph reads no variable \"%s\"", name ? name : "(null)");
}

TPI_BARE(tp_tensor *, tp_graph_variable, (tp_graph * g, const char *name), g, name)

int tp_graph_n_outputs(const tp_graph *g)
{
    if (g && g->body)
        return g->body->n_outputs;
    return g ? g->n_outputs : 0;
}

tp_tensor *tp_graph_output_at(const char *file, int line, tp_graph *g, int i)
{
    if (!g)
        return (tp_tensor *)&tpi_nil;
    if (i >= 0 && i < g->n_outputs)
        return g->outputs[i];
    return tpi_fail(
        g->ctx, TPI_AT(file, line), "tp_graph_output", TP_E_VALUE,
        "output %d is not one of the %d of the graph: tp_graph_set_outputs names them", i,
        g->n_outputs);
}

TPI_BARE(tp_tensor *, tp_graph_output, (tp_graph * g, int i), g, i)

static tp_status set_outputs(tp_graph *g, tpi_at at, int n, tp_tensor *const *outputs)
{
    static const char what[] = "tp_graph_set_outputs";
    tp_ctx *ctx = g->ctx;
    if (ctx->tracing && tpi_graph_within(ctx->tracing, g))
        return tpi_fail_status(ctx, at, what, TP_E_STATE,
                               "the block of line %d is still open: set them behind it",
                               ctx->tracing->body->at.line);
    if (n < 0 || (n > 0 && !outputs))
        return tpi_fail_status(ctx, at, what, n < 0 ? TP_E_VALUE : TP_E_NULL,
                               "%d outputs are no list", n);
    for (int i = 0; i < n; i++) {
        const tp_tensor *failed = tpi_refuse_operand(ctx, at, what, i, outputs[i]);
        if (failed)
            return (tp_status)failed->status;
        if (outputs[i]->graph && outputs[i]->graph->parent)
            return (tp_status)tpi_refuse_outside(g, at, what, outputs[i])->status;
        if (outputs[i]->graph != g)
            return tpi_fail_status(ctx, at, what, TP_E_CTX, "output %d is no node of the graph",
                                   i);
        if (tpi_is_block(outputs[i]))
            return tpi_fail_status(ctx, at, what, TP_E_VALUE,
                                   "output %d is a block, which is read through its outputs",
                                   i);
        if (!outputs[i]->name)
            return tpi_fail_status(ctx, at, what, TP_E_NAME,
                                   "output %d has no name: tp_name gives it one", i);
    }
    tp_tensor **copy = tpi_take(&ctx->mem, (size_t)n * sizeof *copy);
    if (!copy) {
        tpi_no_memory(ctx, at, what);
        return TP_E_MEMORY;
    }
    if (n)
        memcpy(copy, outputs, (size_t)n * sizeof *copy);
    tpi_graph_free_outputs(g);
    g->outputs = copy;
    g->n_outputs = n;
    return TP_OK;
}

tp_status tp_graph_set_outputs_at(const char *file, int line, tp_graph *g, int n,
                                  tp_tensor *const *outputs)
{
    return g ? set_outputs(g, TPI_AT(file, line), n, outputs) : TP_E_NULL;
}

TPI_BARE(tp_status, tp_graph_set_outputs, (tp_graph * g, int n, tp_tensor *const *outputs), g,
         n, outputs)
