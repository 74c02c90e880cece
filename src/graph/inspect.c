/* Looking at a program: its graph after the passes, its kernels, where its values live, and how
 * much it multiplies. */
#include "graph/program.h"
#include "ir/notation.h"

#include <inttypes.h>
#include <string.h>

/* ---- work ---------------------------------------------------------------------------------- */

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

tp_program_stats tp_program_stats_of(const tp_program *p)
{
    if (!p)
        return (tp_program_stats){0};
    tp_program_stats stats = p->stats;
    for (int i = 0; i < p->graph->n_nodes && p->checked; i++)
        stats.flops += flops_of(p, p->graph->nodes[i]);
    return stats;
}

/* ---- the graph ------------------------------------------------------------------------------- */

const tp_graph *tp_program_graph(const tp_program *p)
{
    return p ? p->graph : NULL;
}

/* ---- kernels and memory ---------------------------------------------------------------------- */

static void put_node_type(tpi_str *s, const tpi_plan *plan, const tp_tensor *t)
{
    tpi_str_put(s, " : ");
    tpi_put_type(s, plan->graph->dims, (tp_dtype)t->dtype, t->rank, t->shape);
}

/* The buffer of each operand that is memory, once. */
static void put_reads(tpi_str *s, const tpi_plan *plan, int kernel, const int *nodes, int n)
{
    tpi_str_put(s, " <-");
    const size_t len = s->len;
    for (int b = 0; b < plan->n_buffers; b++) {
        bool reads = false;
        for (int i = 0; i < n && !reads; i++) {
            const tp_tensor *t = plan->values[nodes[i]].node;
            for (int k = 0; k < t->n_in && !reads; k++) {
                const tpi_value *v = &plan->values[t->in[k]->index];
                const tpi_value *memory = &plan->values[v->layout.root];
                reads = memory->buffer == b && memory->kernel != kernel;
            }
        }
        if (reads)
            tpi_str_printf(s, " b%d", b);
    }
    tpi_str_put(s, s->len == len ? " nothing" : "");
}

static void put_kernel(tpi_str *s, const tpi_plan *plan, int kernel)
{
    static const char *const kinds[] = {"loop", "call", "copy"};
    const tpi_kernel *k = &plan->kernels[kernel];
    const tp_tensor *root = plan->values[k->root].node;
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    const int n = k->n_nodes ? k->n_nodes : 1;
    tpi_str_printf(s, "k%d = %s", kernel, kinds[k->kind]);
    if (k->kind == TPI_KERNEL_LOOP) {
        tpi_str_put(s, " over [");
        for (int i = 0; i < k->rank; i++) {
            tpi_str_put(s, i ? "," : "");
            tpi_dim_print(plan->graph->dims, k->shape[i], s);
            tpi_str_put(s, (k->reduced >> i) & 1 ? "!" : "");
        }
        tpi_str_put(s, "]");
    }
    tpi_str_put(s, " {");
    for (int i = 0; i < n; i++)
        tpi_str_printf(s, "%s%%%d %s", i ? ", " : "", nodes[i],
                       plan->values[nodes[i]].node->op->name);
    tpi_str_put(s, "}");
    for (int b = 0, written = 0; b < plan->n_buffers; b++)
        if (plan->values[plan->buffers[b].node].kernel == kernel)
            tpi_str_printf(s, "%s b%d", written++ ? "" : " ->", b);
    put_reads(s, plan, kernel, nodes, n);
    tpi_put_place(s, root->file, root->line);
    tpi_str_put(s, "\n");
}

static void put_buffer(tpi_str *s, const tpi_plan *plan, int i, const int64_t *bytes,
                       const int64_t *offset)
{
    const tpi_buffer *b = &plan->buffers[i];
    const tp_tensor *t = plan->values[b->node].node, *source = tpi_source_of(t);
    const char *name = source && source->name ? source->name : t->name;
    const char *place = b->place == TPI_AT_ARENA       ? "arena"
                        : b->place == TPI_AT_OUTPUT    ? "result"
                        : !source                      ? "fed"
                        : source->flags & TPI_VARIABLE ? "variable"
                                                       : "constant";
    tpi_str_printf(s, "b%d = %s", i, place);
    if (b->place != TPI_AT_SOURCE)
        tpi_str_printf(s, " %%%d", b->node);
    if (b->place == TPI_AT_ARENA) {
        tpi_str_printf(s, ", k%d to k%d", b->first, b->last);
        if (bytes)
            tpi_str_printf(s, ", %" PRId64 " bytes at %" PRId64, bytes[i], offset[i]);
    }
    if (name) {
        tpi_str_put(s, " ");
        tpi_put_string(s, name, strlen(name));
    }
    put_node_type(s, plan, t);
    tpi_str_put(s, "\n");
}

/* Is every size a number, or known from the last run? */
static bool knows_sizes(const tp_program *p)
{
    for (int i = 0; i < p->graph->n_nodes && !p->checked; i++)
        for (int a = 0; a < p->graph->nodes[i]->rank; a++)
            if (tpi_dim_is_symbolic(p->graph->nodes[i]->shape[a]))
                return false;
    return true;
}

/* bytes[n] and offset[n] of the plan's buffers; NULL when sizes are not known, or too large
 * together to be placed. */
static int64_t *place(const tp_program *p, const tpi_plan *plan, int64_t *arena, bool *ok)
{
    const size_t n = (size_t)plan->n_buffers;
    if (!knows_sizes(p))
        return NULL;
    int64_t *bytes = tpi_take(&p->ctx->mem, 2 * n * sizeof *bytes);
    *ok = bytes;
    double all = 0;
    for (size_t i = 0; i < n && bytes; i++) {
        const tp_tensor *t = p->graph->nodes[plan->buffers[i].node];
        const double size = count_at(p, t) * (double)tp_dtype_size((tp_dtype)t->dtype);
        all += size + 64;
        bytes[i] = all < 9e18 ? (int64_t)size : 0;
    }
    if (bytes && all >= 9e18) {
        tpi_give_back(&p->ctx->mem, bytes, 2 * n * sizeof *bytes);
        return NULL;
    }
    if (bytes)
        *arena = tpi_place_buffers((int)n, plan->buffers, bytes, bytes + n);
    return bytes;
}

static void put_program(tpi_str *s, const tp_program *p, const tpi_plan *plan)
{
    const size_t n = (size_t)plan->n_buffers;
    int64_t arena = 0;
    bool ok = true;
    int64_t *bytes = place(p, plan, &arena, &ok);
    for (int i = 0; i < plan->n_kernels; i++)
        put_kernel(s, plan, i);
    for (int i = 0; i < plan->n_buffers; i++)
        put_buffer(s, plan, i, bytes, bytes ? bytes + n : NULL);
    if (bytes) {
        tpi_str_printf(s, "arena %" PRId64 " bytes\n", arena);
        tpi_give_back(&p->ctx->mem, bytes, 2 * n * sizeof *bytes);
    }
    s->failed |= !ok;
}

char *tp_program_text(tp_program *p)
{
    if (!p)
        return NULL;
    tpi_plan *plan = p->plan;
    if (!plan) { /* a program for the reference engine has none */
        const tpi_roots roots = {.n = p->n_roots, .v = p->roots};
        plan = tpi_plan_new(p->graph, &roots, true);
        if (!plan)
            return NULL;
    }
    tpi_str s = TPI_STR(&p->ctx->mem);
    put_program(&s, p, plan);
    if (plan != p->plan)
        tpi_plan_free(plan);
    return tpi_str_hand_over(p->ctx, &s, "tp_program_text");
}
