/* Before a graph is written to a file: kernels of the user's become what stands for them there.
 *
 *     %1 = own_kernel %0 {dtype=f32, shape=[n]}      ->      %1 = relu %0      as its reference says */
#include "pass/leave.h"

#include "ir/body.h"
#include "op/op.h"

static tp_tensor *leave(tpi_rewrite *rw, const tp_tensor *node, tp_tensor *const *in)
{
    const tpi_at at = TPI_AT(node->file, node->line);
    if (!node->op->own)
        return NULL;
    const tpi_body *body = rw->to->body;
    const int n_params = body ? body->n_params : 0;
    tp_tensor *y = node->op->own->leave(rw->to, at, node->n_in, in, node->attrs);
    if (y->status != TP_OK || !body || body->n_params == n_params)
        return y;
    return tpi_fail(
        rw->ctx, at, node->op->name, TP_E_STATE,
        "in a block, a reference that is to leave reads nothing but its operands and "
        "constants");
}

bool tpi_leaves_as_it_is(const tp_graph *g)
{
    bool may = true;
    for (int i = 0; i < g->n_nodes && may; i++) {
        const tp_tensor *t = g->nodes[i];
        tpi_body *bodies[2];
        const int n = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0;
        may = !t->op->own;
        for (int k = 0; k < n && may; k++)
            may = tpi_leaves_as_it_is(bodies[k]->graph);
    }
    return may;
}

tp_graph *tpi_make_leave(tp_graph *g, int n_feeds, tp_tensor **feeds, int n_roots,
                         tp_tensor **roots)
{
    static const tpi_pass pass = {.name = "leave", .visit = leave};
    int unused = 0;
    return tpi_leaves_as_it_is(g)
               ? g
               : tpi_run_pass(g, &pass, NULL, n_feeds, feeds, n_roots, roots, &unused);
}
