/* Looking at a program: its graph after the passes, its kernels, and where its values live. */
#include "look/inspect.h"

#include "base/float_mode.h"
#include "ir/notation.h"
#include "lower/block_code.h"
#include "lower/call_code.h"
#include "lower/loop_text.h"
#include "lower/nest.h"
#include "plan/work.h"

#include <inttypes.h>
#include <string.h>

/* ---- figures ---------------------------------------------------------------------------------- */

tp_program_stats tp_program_stats_of(const tp_program *p)
{
    TPI_DEFAULT_FLOAT_MODE;
    if (!p)
        return (tp_program_stats){0};
    tp_program_stats stats = p->stats;
    const tpi_run_sizes sizes = tpi_program_sizes(p);
    if (p->checked)
        stats.flops = tpi_graph_flops(&sizes, p->graph);
    return stats;
}

/* ---- the graph ------------------------------------------------------------------------------- */

const tp_graph *tp_program_graph(const tp_program *p)
{
    if (!p)
        return NULL;
    tp_program *shown = (tp_program *)p;
    shown->constants.keeps = true;
    if (tpi_program_unpack(shown))
        return p->graph;
    tpi_no_memory(p->ctx, TPI_AT(NULL, 0), "tp_program_graph");
    return NULL;
}

/* ---- kernels and memory ---------------------------------------------------------------------- */

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
            tpi_str_printf(s, " b%d", plan->first_buffer + b);
    }
    tpi_str_put(s, s->len == len ? " nothing" : "");
}

/* `body`: the number of the body whose plan it is, as in the graph's text; 0: none. */
static void put_kernel(tpi_str *s, const tpi_plan *plan, int body, int kernel)
{
    static const char *const kinds[] = {"loop", "call", "copy", "block"};
    const tpi_kernel *k = &plan->kernels[kernel];
    const tp_tensor *root = plan->values[k->root].node;
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    const int n = k->n_nodes ? k->n_nodes : 1;
    tpi_str_printf(s, "k%d = %s", plan->first_kernel + kernel, kinds[k->kind]);
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
    for (int i = 0; i < n; i++) {
        tpi_str_put(s, i ? ", " : "");
        tpi_put_number(s, body, nodes[i]);
        tpi_str_printf(s, " %s", plan->values[nodes[i]].node->op->name);
    }
    tpi_str_put(s, "}");
    for (int b = 0, written = 0; b < plan->n_buffers; b++)
        if (plan->buffers[b].node >= 0 && plan->values[plan->buffers[b].node].kernel == kernel)
            tpi_str_printf(s, "%s b%d", written++ ? "" : " ->", plan->first_buffer + b);
    if (tpi_lies_under(&plan->values[k->root]))
        tpi_str_printf(s, " -> b%d", plan->first_buffer + plan->values[k->root].buffer);
    put_reads(s, plan, kernel, nodes, n);
    tpi_put_place(s, root->file, root->line);
    tpi_str_put(s, "\n");
}

static const char *place_name(const tpi_buffer *b, const tp_tensor *source)
{
    return b->storage == TPI_IN_ARENA     ? "arena"
           : b->storage == TPI_IN_OUTPUT  ? "result"
           : tpi_param_of(b->like)        ? "given"
           : !source                      ? "fed"
           : source->flags & TPI_VARIABLE ? "variable"
                                          : "constant";
}

void tpi_put_owner(tpi_str *s, int body, const tpi_buffer *b)
{
    if (b->section) {
        tpi_str_put(s, " of the bodies of ");
        tpi_put_number(s, body, b->section->node->index);
    } else if (b->node < 0) {
        tpi_str_put(s, " spare");
    } else if (b->storage != TPI_IN_SOURCE) {
        tpi_str_put(s, " ");
        tpi_put_number(s, body, b->node);
    }
}

void tpi_put_like(tpi_str *s, const tpi_plan *plan, const tpi_buffer *b)
{
    const tp_tensor *t = b->like, *source = t ? tpi_source_of(t) : NULL;
    const char *name = source && source->name ? source->name : t ? t->name : NULL;
    if (name) {
        tpi_str_put(s, " ");
        tpi_put_string(s, name, strlen(name));
    }
    if (t) {
        tpi_str_put(s, " : ");
        tpi_put_type(s, plan->graph->dims, (tp_dtype)t->dtype, t->rank, t->shape);
    }
}

/* bytes and offset: by the number in the program; NULL: not known. */
static void put_buffer(tpi_str *s, const tpi_plan *plan, int body, int i, const int64_t *bytes,
                       const int64_t *offset)
{
    const tpi_buffer *b = &plan->buffers[i];
    const int number = plan->first_buffer + i;
    tpi_str_printf(s, "b%d = %s", number,
                   place_name(b, b->like ? tpi_source_of(b->like) : NULL));
    tpi_put_owner(s, body, b);
    if (b->storage == TPI_IN_ARENA) {
        tpi_str_printf(s, ", k%d to k%d", plan->first_kernel + b->first,
                       plan->first_kernel + b->last);
        if (bytes)
            tpi_str_printf(s, ", %" PRId64 " bytes at %" PRId64, bytes[number], offset[number]);
    }
    tpi_put_like(s, plan, b);
    tpi_str_put(s, "\n");
}

/* Before its first kernel: that a band may be run part by part. */
static void put_band(tpi_str *s, const tpi_plan *plan, int indent, int kernel)
{
    const tpi_plan_step *step = &plan->steps[plan->kernels[kernel].step];
    if (tpi_is_band(step) && step->first == kernel)
        tpi_str_printf(s, "%*sk%d to k%d, part by part:\n", indent, "",
                       plan->first_kernel + kernel, plan->first_kernel + kernel + step->n - 1);
}

static void put_block(tpi_str *s, tpi_bump *room, const tpi_plan *plan, int indent,
                      const tpi_kernel *k)
{
    const tpi_block *b = tpi_lower_block(room, plan, plan->sections[k->root]);
    if (b)
        tpi_block_print(b, indent, s);
}

static void put_call(tpi_str *s, tpi_bump *room, const tpi_plan *plan, int indent,
                     const tpi_kernel *k)
{
    const tpi_call_code *c = tpi_lower_call(room, plan, k);
    if (c)
        tpi_call_print(c, plan->graph->dims, indent, s);
}

static void put_nest(tpi_str *s, tpi_bump *room, const tpi_plan *plan, int indent,
                     const tpi_kernel *k)
{
    tpi_loop l;
    if (tpi_lower_nest(room, plan, k, NULL, NULL, &l))
        tpi_loop_print(&l, indent, s);
}

/* The program of a loop nest, or of a block, or a call in full. */
static void put_loops(tpi_str *s, const tpi_plan *plan, int indent, const tpi_kernel *k)
{
    tpi_bump room = TPI_BUMP(s->mem);
    (k->kind == TPI_KERNEL_BLOCK  ? put_block
     : k->kind == TPI_KERNEL_LOOP ? put_nest
                                  : put_call)(s, &room, plan, indent, k);
    s->failed |= room.failed;
    tpi_bump_free(&room);
}

/* Kernels, then buffers; those of bodies behind the block they are of, further in. With `loops`, the program of each
 * loop nest and block, and no buffers. */
static void put_plan(tpi_str *s, const tpi_plan *root, const tpi_plan *plan, int indent,
                     bool loops, const int64_t *bytes, const int64_t *offset)
{
    const int body = tpi_body_number(root->graph, plan->graph);
    for (int i = 0; i < plan->n_kernels; i++) {
        put_band(s, plan, indent, i);
        tpi_str_printf(s, "%*s", indent, "");
        put_kernel(s, plan, body, i);
        if (loops)
            put_loops(s, plan, indent + 2, &plan->kernels[i]);
    }
    for (int i = 0; i < plan->n_buffers && !loops; i++) {
        tpi_str_printf(s, "%*s", indent, "");
        put_buffer(s, plan, body, i, bytes, offset);
    }
    for (int i = 0; i < plan->n_kernels; i++) {
        if (plan->kernels[i].kind != TPI_KERNEL_BLOCK)
            continue;
        const tpi_section *section = plan->sections[plan->kernels[i].root];
        for (int k = 0; k < section->n_bodies; k++) {
            tpi_str_printf(s, "%*sbody (%d) of k%d\n", indent, "",
                           tpi_body_number(root->graph, section->plan[k]->graph),
                           plan->first_kernel + i);
            put_plan(s, root, section->plan[k], indent + 2, loops, bytes, offset);
        }
    }
}

static void put_program(tpi_str *s, const tp_program *p, const tpi_plan *plan)
{
    const size_t n = (size_t)plan->all_buffers;
    int64_t arena = 0, *bytes = NULL;
    if (tpi_program_knows_sizes(p)) {
        bytes = tpi_take(&p->ctx->mem, 2 * n * sizeof *bytes);
        s->failed |= !bytes;
    }
    const bool placed = bytes && tpi_program_place(p, plan, bytes, bytes + n, &arena);
    put_plan(s, plan, plan, 0, false, placed ? bytes : NULL, placed ? bytes + n : NULL);
    if (placed)
        tpi_str_printf(s, "arena %" PRId64 " bytes\n", arena);
    tpi_give_back(&p->ctx->mem, bytes, 2 * n * sizeof *bytes);
}

tpi_plan *tpi_shown_plan(tp_program *p)
{
    TPI_DEFAULT_FLOAT_MODE;
    const tpi_roots roots = {.n = p->n_roots, .v = p->roots};
    if (p->plan)
        return p->plan;
    tpi_plan *plan = tpi_plan_new(p->graph, &roots, TPI_FUSE_ALL);
    if (!plan || tpi_plan_arena(plan))
        return plan;
    tpi_plan_free(plan);
    return NULL;
}

void tpi_shown_plan_free(const tp_program *p, tpi_plan *plan)
{
    if (plan != p->plan)
        tpi_plan_free(plan);
}

char *tp_program_text(tp_program *p)
{
    tpi_plan *plan = p ? tpi_shown_plan(p) : NULL;
    if (!plan)
        return NULL;
    tpi_str s = TPI_STR(&p->ctx->mem);
    put_program(&s, p, plan);
    tpi_shown_plan_free(p, plan);
    return tpi_str_hand_over(p->ctx, &s, "tp_program_text");
}

char *tp_program_loops_text(tp_program *p)
{
    tpi_plan *plan = p ? tpi_shown_plan(p) : NULL;
    if (!plan)
        return NULL;
    tpi_str s = TPI_STR(&p->ctx->mem);
    put_plan(&s, plan, plan, 0, true, NULL, NULL);
    tpi_shown_plan_free(p, plan);
    return tpi_str_hand_over(p->ctx, &s, "tp_program_loops_text");
}
