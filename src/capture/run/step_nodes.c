/* What was recorded as nodes of a graph. */
#include "capture/run/step_nodes.h"

#include <stdio.h>

static tp_tensor *draw_node(tp_graph *g, tpi_at at, const tpi_op *op, const void *attrs,
                            int draw)
{
    tpi_random_attrs r = *(const tpi_random_attrs *)attrs;
    if (draw == TPI_OWN_DRAW)
        return tpi_random_node(g, at, &r);
    r.seed = 0;
    r.at = -1 - draw;
    return tpi_graph_node(g, at, op, 0, NULL, &r, (tp_dtype)r.dtype, (int)r.shape.n, r.shape.v);
}

tp_tensor *tpi_step_node(tp_graph *g, tpi_at at, const tpi_op *op, const void *attrs, int n_in,
                         tpi_operand_fn operand, void *user, int draw)
{
    enum { FEW = 32 };
    tpi_mem *m = &g->ctx->mem;
    tp_tensor *few[FEW], **in = few, *y = NULL;
    const size_t bytes = (size_t)n_in * sizeof *in;
    if (tpi_is_draw(op))
        return draw_node(g, at, op, attrs, draw);
    if (n_in > FEW && !(in = tpi_take(m, bytes)))
        return tpi_no_memory(g->ctx, at, op->name);
    bool ok = true;
    for (int k = 0; k < n_in && ok; k++)
        ok = (in[k] = operand(user, k)) != NULL;
    if (ok)
        y = tpi_apply(at, op, n_in, in, attrs);
    if (in != few)
        tpi_give_back(m, in, bytes);
    return y;
}

tp_tensor *tpi_program_input(tp_graph *g, int i, tp_dtype dtype, int rank, const int64_t *shape)
{
    char name[24];
    snprintf(name, sizeof name, "i%d", i);
    return tp_placeholder(g, name, dtype, rank, shape);
}

bool tpi_program_output(tp_graph *g, int i, tp_tensor *y)
{
    char name[24];
    snprintf(name, sizeof name, "o%d", i);
    if (y->name)
        y = tpi_apply(TPI_AT(y->file, y->line), &tpi_op_copy, 1, &y, NULL);
    return y->status == TP_OK && tpi_graph_name(g, y, name) == TP_OK;
}
