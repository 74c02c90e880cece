/* Plans of blocks: their bodies, and the memory that goes between them and the plan they are in. */
#include "plan/plan.h"

#include <string.h>

static bool no_memory(const tpi_plan *p)
{
    tpi_no_memory(p->graph->ctx, TPI_AT(NULL, 0), "compile");
    return false;
}

/* ---- bodies ------------------------------------------------------------------------------------- */

/* Does a plan compute it into memory of the caller's choice? A view, a param, a constant or a
 * number has its own place or none; two roots have two places. */
static bool is_own(int n, tp_tensor *const *roots)
{
    const tp_tensor *t = roots[n];
    bool own = t->op->kind != TPI_SOURCE && t->op->kind != TPI_VIEW &&
               t->op->kind != TPI_BLOCK && !tpi_assigned_of(t);
    for (int i = 0; i < n && own; i++)
        own = roots[i] != t;
    return own || t->op == &tpi_op_copy;
}

bool tpi_plan_copies(tp_graph *g, int n, tp_tensor **roots)
{
    bool ok = tp_scope_begin(g->ctx) == TP_OK;
    const bool scope = ok;
    for (int i = 0; i < n && ok; i++) {
        tp_tensor *t = roots[i];
        bool twice = false;
        for (int k = 0; k < i; k++)
            twice |= roots[k] == t;
        if (is_own(i, roots) && !twice)
            continue;
        roots[i] = tpi_graph_node(g, TPI_AT(t->file, t->line), &tpi_op_copy, 1, &t, NULL,
                                  (tp_dtype)t->dtype, t->rank, t->shape);
        ok = roots[i]->status == TP_OK;
        if (!ok)
            roots[i] = t;
    }
    if (scope)
        tp_scope_end(g->ctx);
    if (!ok)
        tpi_no_memory(g->ctx, TPI_AT(NULL, 0), "compile");
    return ok;
}

static void section_free(const tpi_plan *p, tpi_section *s)
{
    tpi_mem *m = &p->graph->ctx->mem;
    const size_t n = (size_t)tpi_n_outputs_of(s->node) * sizeof(int),
                 n_in = (size_t)s->node->n_in * sizeof(int);
    for (int i = 0; i < s->n_bodies; i++)
        tpi_plan_free(s->plan[i]);
    tpi_give_back(m, s->port, n);
    tpi_give_back(m, s->spare, n);
    tpi_give_back(m, s->second, n);
    tpi_give_back(m, s->copy, n_in);
    tpi_give_back(m, s->stays, n);
    tpi_give_back(m, s, sizeof *s);
}

void tpi_plan_free_sections(tpi_plan *p)
{
    for (int i = 0; p->sections && i < p->n_values; i++)
        if (p->sections[i])
            section_free(p, p->sections[i]);
    tpi_give_back(&p->graph->ctx->mem, p->sections, (size_t)p->n_values * sizeof *p->sections);
}

/* Does kernel k, which makes t, leave what it does not write, or read each element that it writes? */
static bool writes_over(const tpi_kernel *k, const tp_tensor *t)
{
    if (k->kind == TPI_KERNEL_CALL)
        return t->op->updates;
    return k->kind == TPI_KERNEL_LOOP && !k->has_reduced;
}

/* Is operand o of t, in that kernel, read at no place but the one that is written? */
static bool reads_own_place(const tp_tensor *t, int o, const tp_tensor *param)
{
    return t->in[o] == param && tpi_same_shape(t, param) && (!t->op->updates || o == 0);
}

/* Is a carried value's next one written over it? Every reader is part of the kernel that makes it, and
 * reads the element that it writes. */
static bool is_written_over(const tpi_plan *p, const tp_tensor *param, const tp_tensor *next)
{
    const int kernel = p->values[next->index].kernel;
    bool over = kernel >= 0 && writes_over(&p->kernels[kernel], next);
    for (int i = 0; i < p->n_values && over; i++) {
        const tp_tensor *t = p->values[i].node;
        for (int k = 0; t->op->kind != TPI_SOURCE && k < t->n_in && over; k++)
            if (p->values[t->in[k]->index].layout.root == param->index &&
                t->op->kind != TPI_SHAPE)
                over = p->values[i].kernel == kernel && reads_own_place(t, k, param);
    }
    return over;
}

static void find_stays(tpi_section *s)
{
    const tpi_loop_attrs *a = s->node->attrs;
    for (int64_t i = 0; i < a->n_carried; i++) {
        const tp_tensor *param = a->body->params[1 + i],
                        *next = a->body->outputs[a->has_pred + i];
        s->stays[i] = is_written_over(s->plan[0], param, next);
        if (s->stays[i])
            s->plan[0]->values[param->index].over = next->index;
    }
}

static tpi_section *section_new(tpi_plan *p, const tp_tensor *node, tpi_fusing fuse)
{
    tpi_mem *m = &p->graph->ctx->mem;
    const size_t n = (size_t)tpi_n_outputs_of(node) * sizeof(int),
                 n_in = (size_t)node->n_in * sizeof(int);
    tpi_section *s = tpi_take(m, sizeof *s);
    if (!s) {
        no_memory(p);
        return NULL;
    }
    *s = (tpi_section){.node = node,
                       .port = tpi_take(m, n),
                       .spare = tpi_take(m, n),
                       .second = tpi_take(m, n),
                       .copy = tpi_take(m, n_in),
                       .stays = tpi_take(m, n)};
    s->n_bodies = tpi_bodies_of(node, s->body);
    bool ok = (s->port && s->spare && s->second && s->copy && s->stays) || no_memory(p);
    if (ok) {
        memset(s->port, -1, n);
        memset(s->spare, -1, n);
        memset(s->second, -1, n);
        memset(s->copy, -1, n_in);
        memset(s->stays, 0, n);
    }
    for (int i = 0; i < s->n_bodies && ok; i++) {
        ok = tpi_plan_copies(s->body[i]->graph, s->body[i]->n_outputs, s->body[i]->outputs);
        const tpi_roots roots = {.n = s->body[i]->n_outputs, .v = s->body[i]->outputs};
        s->plan[i] = ok ? tpi_plan_graph(s->body[i]->graph, &roots, fuse) : NULL;
        ok = s->plan[i];
    }
    if (ok && tpi_loop_of(node))
        find_stays(s);
    if (ok)
        return s;
    section_free(p, s);
    return NULL;
}

int tpi_plan_port(const tpi_plan *p, const tp_tensor *t)
{
    const tpi_section *s = p->sections ? p->sections[t->in[0]->index] : NULL;
    return s ? s->port[tpi_index_of(t)] : -1;
}

bool tpi_plan_sections(tpi_plan *p, const bool *live, tpi_fusing fuse)
{
    for (int i = 0; i < p->n_values; i++) {
        const tp_tensor *t = p->graph->nodes[i];
        if (t->op->kind == TPI_PORT && live[i]) {
            int *port = &p->sections[t->in[0]->index]->port[tpi_index_of(t)];
            *port = *port < 0 ? i : *port;
        }
        if (!tpi_is_block(t) || !live[i])
            continue;
        const size_t bytes = (size_t)p->n_values * sizeof *p->sections;
        if (!p->sections) {
            p->sections = tpi_take(&p->graph->ctx->mem, bytes);
            if (!p->sections)
                return no_memory(p);
            memset(p->sections, 0, bytes);
        }
        p->sections[i] = section_new(p, t, fuse);
        if (!p->sections[i])
            return false;
    }
    return true;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

bool tpi_plan_runs_on(const tpi_plan *p, const tp_tensor *t, int first)
{
    const tpi_layout *l = &p->values[t->index].layout;
    int64_t step = 1;
    bool on = true;
    for (int i = t->rank - 1; i >= first && on; i--) {
        on = l->stride[i] == step || t->shape[i] == 1;
        step = tpi_dim_mul(p->graph->dims, step, t->shape[i]);
    }
    return on;
}

/* Which operand of a loop is slice 0, and which is the first behind the slices. */
static void find_slices(const tp_tensor *node, int *first, int *end)
{
    *first = *end = 0;
    const tpi_loop_attrs *a = tpi_loop_of(node);
    if (!a)
        return;
    *first = (int)(a->has_pred + a->n_carried);
    *end = *first + (int)a->n_slices;
}

/* A buffer of the block's own, live while it runs. */
static int own_buffer(tpi_plan *p, const tpi_section *s, const tp_tensor *like,
                      const tpi_section *arena)
{
    const int kernel = p->values[s->node->index].kernel;
    return tpi_plan_buffer(p, (tpi_buffer){.node = -1,
                                           .like = like,
                                           .section = arena,
                                           .storage = TPI_IN_ARENA,
                                           .first = kernel,
                                           .last = kernel});
}

static bool section_buffers(tpi_plan *p, tpi_section *s)
{
    const tpi_loop_attrs *a = tpi_loop_of(s->node);
    const int n = tpi_n_outputs_of(s->node), pred = s->body[0]->n_outputs - n;
    int first, end;
    find_slices(s->node, &first, &end);
    bool ok = true;
    for (int i = 0; i < s->node->n_in && ok; i++) {
        const tp_tensor *x = s->node->in[i];
        const bool carried = a && i >= a->has_pred && i < first; /* into its buffer */
        if (carried || tpi_plan_runs_on(p, x, i >= first && i < end))
            continue;
        s->copy[i] = own_buffer(p, s, x, NULL);
        ok = s->copy[i] >= 0;
    }
    for (int i = 0; i < n && ok; i++) {
        const tp_tensor *each = s->body[0]->outputs[pred + i];
        const bool carried = a && i < a->n_carried;
        const bool two = carried && !s->stays[i];
        if (two || s->port[i] < 0)
            ok = (s->spare[i] = own_buffer(p, s, each, NULL)) >= 0;
        if (two && s->port[i] < 0 && ok)
            ok = (s->second[i] = own_buffer(p, s, each, NULL)) >= 0;
    }
    s->arena = ok ? own_buffer(p, s, NULL, s) : -1;
    return s->arena >= 0;
}

bool tpi_plan_section_buffers(tpi_plan *p)
{
    bool ok = true;
    for (int i = 0; i < p->n_values && p->sections && ok; i++)
        ok = !p->sections[i] || section_buffers(p, p->sections[i]);
    return ok;
}

/* ---- numbers ----------------------------------------------------------------------------------------- */

/* The plans inside p are numbered from what is left on; outer->all_* counts. */
static void number(tpi_plan *p, tpi_plan *outer)
{
    for (int i = 0; i < p->n_values && p->sections; i++)
        for (int k = 0; p->sections[i] && k < p->sections[i]->n_bodies; k++) {
            tpi_plan *inner = p->sections[i]->plan[k];
            inner->first_kernel = outer->all_kernels;
            inner->first_buffer = outer->all_buffers;
            outer->all_kernels += inner->n_kernels;
            outer->all_buffers += inner->n_buffers;
            for (int n = 0; n < inner->n_kernels; n++)
                outer->draws |= inner->values[inner->kernels[n].root].node->op->draws;
            number(inner, outer);
        }
}

void tpi_plan_number(tpi_plan *p)
{
    p->all_kernels = p->n_kernels;
    p->all_buffers = p->n_buffers;
    number(p, p);
}

const tpi_plan *tpi_plan_of_kernel(const tpi_plan *p, int kernel)
{
    if (kernel >= p->first_kernel && kernel < p->first_kernel + p->n_kernels)
        return p;
    const tpi_plan *found = NULL;
    for (int i = 0; i < p->n_values && p->sections && !found; i++)
        for (int k = 0; p->sections[i] && k < p->sections[i]->n_bodies && !found; k++)
            found = tpi_plan_of_kernel(p->sections[i]->plan[k], kernel);
    return found;
}
