#include "plan/work.h"

#include "op/contractions.h"

static double count_at(const tpi_run_sizes *sizes, const tp_tensor *t)
{
    int64_t shape[TP_MAX_RANK];
    tpi_shape_at(sizes, t, shape);
    return tpi_elements_at(t->rank, shape);
}

double tpi_node_flops(const tpi_run_sizes *sizes, const tp_tensor *t)
{
    tpi_contraction c;
    if (!t->op->contract)
        return 0;
    tp_tensor sized[] = {*t->in[0], *t->in[1], *t};
    for (int k = 0; k < 3; k++)
        tpi_shape_at(sizes, &sized[k], sized[k].shape);
    const tpi_run r = {
        .op = t->op,
        .n_in = 2,
        .in = (tp_tensor *[]){&sized[0], &sized[1]},
        .attrs = t->attrs,
        .out = &sized[2]
    };
    t->op->contract(&r, &c);
    return 2 * tpi_contraction_multiply_adds(&c);
}

/* The turns of a loop that a condition ends are those of the last run, or, when nobody asks for them,
 * counted as one. */
static double turns_of(const tpi_run_sizes *sizes, const tp_tensor *loop)
{
    const tpi_loop_attrs *a = loop->attrs;
    const int64_t turns = tpi_size_at(sizes, a->has_pred && a->length ? a->length
                                             : a->counted             ? a->count
                                                                      : 1);
    return turns > 0 ? (double)turns : 0;
}

typedef double flops_fn(const tpi_run_sizes *sizes, const tp_tensor *t);

static double flops_of(const tpi_run_sizes *sizes, const tp_tensor *t, flops_fn *of_op);

static double sum_flops(const tpi_run_sizes *sizes, const tp_graph *g, flops_fn *of_op)
{
    double flops = 0;
    for (int i = 0; i < g->n_nodes; i++)
        flops += flops_of(sizes, g->nodes[i], of_op);
    return flops;
}

/* Of a block: its body's, once per turn; of a cond the side that has more to do. */
static double flops_of(const tpi_run_sizes *sizes, const tp_tensor *t, flops_fn *of_op)
{
    if (!tpi_is_block(t))
        return of_op(sizes, t);
    if (!tpi_loop_of(t)) {
        const tpi_cond_attrs *a = t->attrs;
        const double then = sum_flops(sizes, a->then->graph, of_op),
                     other = sum_flops(sizes, a->other->graph, of_op);
        return then > other ? then : other;
    }
    const tpi_loop_attrs *a = t->attrs;
    return turns_of(sizes, t) * sum_flops(sizes, a->body->graph, of_op);
}

double tpi_graph_flops(const tpi_run_sizes *sizes, const tp_graph *g)
{
    return sum_flops(sizes, g, tpi_node_flops);
}

static double op_operations(const tpi_run_sizes *sizes, const tp_tensor *t)
{
    const bool is_reduction = t->op->kind == TPI_REDUCE;
    return t->op->kind == TPI_ELEMENT || is_reduction
               ? count_at(sizes, is_reduction ? t->in[0] : t)
               : tpi_node_flops(sizes, t);
}

double tpi_node_operations(const tpi_run_sizes *sizes, const tp_tensor *t)
{
    return flops_of(sizes, t, op_operations);
}

/* ---- kernels --------------------------------------------------------------------------------- */

double tpi_node_bytes(const tpi_run_sizes *sizes, const tp_tensor *t)
{
    return count_at(sizes, t) * (double)tp_dtype_size((tp_dtype)t->dtype);
}

/* What a kernel's nodes read of other memory, each node once. */
typedef struct reads {
    int n;
    struct {
        int root; /* node whose memory it is */
        double bytes;
        const tp_tensor *node;
    } v[TPI_MAX_NEST_OPERANDS];
    double more; /* bytes of those for which there is no room */
} reads;

static void add_read(reads *r, const tp_tensor *t, int root, double bytes)
{
    for (int i = 0; i < r->n; i++)
        if (r->v[i].node == t)
            return;
    if (r->n == TPI_MAX_NEST_OPERANDS) {
        r->more += bytes;
        return;
    }
    r->v[r->n].root = root;
    r->v[r->n].node = t;
    r->v[r->n++].bytes = bytes;
}

/* Views of one memory are together no more than it is. */
static double bytes_read(const tpi_run_sizes *sizes, const tpi_plan *plan, reads *r)
{
    double all = r->more;
    for (int i = 0; i < r->n; i++) {
        const int root = r->v[i].root;
        const double most = tpi_node_bytes(sizes, plan->values[root].node);
        double sum = 0;
        for (int k = i; k < r->n; k++)
            if (r->v[k].root == root) {
                sum += r->v[k].bytes;
                r->v[k].bytes = 0;
            }
        all += sum < most ? sum : most;
    }
    return all;
}

/* A gather reads as much of its table as it gives. */
static double operand_bytes(const tpi_run_sizes *sizes, const tp_tensor *t, int k)
{
    const double all = tpi_node_bytes(sizes, t->in[k]), given = tpi_node_bytes(sizes, t);
    const bool picks = k == 0 && t->op->index_in && !t->op->updates;
    return picks && given < all ? given : all;
}

/* Is a value that this kernel reads, or leaves for others, made and read within its band? What is
 * written over what the band made is near as well: it goes away later. */
static bool is_near(const tpi_plan *plan, int kernel, const tpi_value *v, bool read)
{
    const tpi_kernel *k = &plan->kernels[kernel];
    if (!tpi_is_band(&plan->steps[k->step]) || v->kernel < 0)
        return false;
    if (read)
        return plan->kernels[v->kernel].step == k->step;
    const bool over = k->since < kernel && plan->kernels[k->since].step == k->step;
    return over || (v->storage == TPI_IN_ARENA &&
                    plan->kernels[plan->buffers[v->buffer].last].step == k->step);
}

/* What it reads of other kernels: `near`, or not. */
static double read_of(const tpi_run_sizes *sizes, const tpi_plan *plan, int kernel,
                      const int *nodes, int n, bool near)
{
    reads r;
    r.n = 0;
    r.more = 0;
    for (int i = 0; i < n; i++) {
        const tp_tensor *t = plan->values[nodes[i]].node;
        for (int k = 0; k < t->n_in; k++) {
            const int root = plan->values[t->in[k]->index].layout.root;
            const tpi_value *memory = &plan->values[root];
            if (memory->buffer >= 0 && memory->kernel != kernel &&
                is_near(plan, kernel, memory, true) == near)
                add_read(&r, t->in[k], root, operand_bytes(sizes, t, k));
        }
    }
    return bytes_read(sizes, plan, &r);
}

static tpi_work bytes_moved(const tpi_run_sizes *sizes, const tpi_plan *plan, int kernel,
                            const int *nodes, int n)
{
    tpi_work w = {.near = read_of(sizes, plan, kernel, nodes, n, true)};
    w.bytes = w.near + read_of(sizes, plan, kernel, nodes, n, false);
    for (int i = 0; i < n; i++) { /* a nest leaves several results */
        const tpi_value *to = &plan->values[nodes[i]];
        const double bytes = to->buffer >= 0 ? tpi_node_bytes(sizes, to->node) : 0;
        w.bytes += bytes;
        w.near += to->buffer >= 0 && is_near(plan, kernel, to, false) ? bytes : 0;
    }
    w.span = w.bytes;
    return w;
}

/* Of the kernels of its bodies, in every turn; of a cond, of the side that moves more. */
static tpi_work block_work(const tpi_run_sizes *sizes, const tpi_section *block)
{
    tpi_work w = {0};
    for (int i = 0; i < block->n_bodies; i++) {
        tpi_work body = {0};
        for (int k = 0; k < block->plan[i]->n_kernels; k++) {
            const tpi_work one = tpi_kernel_work(sizes, block->plan[i], k);
            body.flops += one.flops;
            body.bytes += one.bytes;
        }
        if (i == 0 || body.bytes > w.bytes)
            w = body;
    }
    const double turns = tpi_loop_of(block->node) ? turns_of(sizes, block->node) : 1;
    return (tpi_work){.flops = turns * w.flops, .bytes = turns * w.bytes, .span = w.bytes};
}

tpi_work tpi_kernel_work(const tpi_run_sizes *sizes, const tpi_plan *plan, int kernel)
{
    const tpi_kernel *k = &plan->kernels[kernel];
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    const int n = k->n_nodes ? k->n_nodes : 1;
    if (k->kind == TPI_KERNEL_BLOCK)
        return block_work(sizes, plan->sections[k->root]);
    tpi_work w = bytes_moved(sizes, plan, kernel, nodes, n);
    for (int i = 0; i < n; i++)
        w.flops += op_operations(sizes, plan->values[nodes[i]].node);
    return w;
}
