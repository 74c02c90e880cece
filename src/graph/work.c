#include "graph/work.h"

static double count_at(const tp_program *p, const tp_tensor *t)
{
    int64_t shape[TP_MAX_RANK];
    double n = 1;
    tpi_program_shape(p, t, shape);
    for (int i = 0; i < t->rank; i++)
        n *= (double)shape[i];
    return n;
}

/* A convolution y of x and w, whichever of the three is the result: each element of y takes
 * the taps of one of w's filters. */
static double conv_flops(const tp_program *p, const tp_tensor *y, const tp_tensor *w)
{
    const double filters = (double)tpi_program_size(p, w->shape[0]);
    return filters > 0 ? 2 * count_at(p, y) * (count_at(p, w) / filters) : 0;
}

static double flops_of(const tp_program *p, const tp_tensor *t)
{
    if (t->op == &tpi_op_matmul)
        return 2 * count_at(p, t) *
               (double)tpi_program_size(p, t->in[0]->shape[t->in[0]->rank - 1]);
    if (t->op == &tpi_op_conv)
        return conv_flops(p, t, t->in[1]);
    if (t->op == &tpi_op_conv_dx)
        return conv_flops(p, t->in[0], t->in[1]);
    if (t->op == &tpi_op_conv_dw)
        return conv_flops(p, t->in[1], t);
    return 0;
}

/* Of a block: its body's, once per turn; of a cond the side that has more to do. The turns of a loop
 * that a condition ends are those of the last run, or, when nobody asks for them, counted as one. */
static double block_flops(const tp_program *p, const tp_tensor *t)
{
    if (t->op == &tpi_op_cond) {
        const tpi_cond_attrs *a = t->attrs;
        const double then = tpi_graph_flops(p, a->then->graph),
                     other = tpi_graph_flops(p, a->other->graph);
        return then > other ? then : other;
    }
    const tpi_loop_attrs *a = t->attrs;
    const int64_t turns = tpi_program_size(p, a->has_pred && a->length ? a->length
                                              : a->counted             ? a->count
                                                                       : 1);
    return turns > 0 ? (double)turns * tpi_graph_flops(p, a->body->graph) : 0;
}

double tpi_graph_flops(const tp_program *p, const tp_graph *g)
{
    double flops = 0;
    for (int i = 0; i < g->n_nodes; i++)
        flops +=
            tpi_is_block(g->nodes[i]) ? block_flops(p, g->nodes[i]) : flops_of(p, g->nodes[i]);
    return flops;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static double bytes_at(const tp_program *p, const tp_tensor *t)
{
    return count_at(p, t) * (double)tp_dtype_size((tp_dtype)t->dtype);
}

/* Is the memory of operand k of node i read by an earlier operand of the kernel's nodes? */
static bool seen(const tpi_plan *plan, const int *nodes, int i, int k, int root)
{
    for (int a = 0; a <= i; a++) {
        const tp_tensor *t = plan->values[nodes[a]].node;
        for (int o = 0; o < (a < i ? t->n_in : k); o++)
            if (plan->values[t->in[o]->index].layout.root == root)
                return true;
    }
    return false;
}

tpi_work tpi_kernel_work(const tp_program *p, const tpi_plan *plan, int kernel)
{
    const tpi_kernel *k = &plan->kernels[kernel];
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    const int n = k->n_nodes ? k->n_nodes : 1;
    tpi_work w = {0, 0};
    for (int i = 0; i < n; i++) {
        const tp_tensor *t = plan->values[nodes[i]].node;
        const bool is_reduction = t->op->kind == TPI_REDUCE;
        if (t->op->kind == TPI_ELEMENT || is_reduction)
            w.flops += count_at(p, is_reduction ? t->in[0] : t);
        else
            w.flops += tpi_is_block(t) ? block_flops(p, t) : flops_of(p, t);
        for (int o = 0; o < t->n_in; o++) {
            const tpi_value *memory = &plan->values[plan->values[t->in[o]->index].layout.root];
            if (memory->buffer >= 0 && memory->kernel != kernel &&
                !seen(plan, nodes, i, o, memory->layout.root))
                w.bytes += bytes_at(p, t->in[o]);
        }
    }
    for (int b = 0; b < plan->n_buffers; b++)
        if (plan->buffers[b].like && plan->buffers[b].place != TPI_AT_SOURCE &&
            plan->values[plan->buffers[b].node].kernel == kernel)
            w.bytes += bytes_at(p, plan->buffers[b].like);
    return w;
}
