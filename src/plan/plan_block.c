/* Plans of blocks: their bodies, and the memory that goes between them and the plan they are in. */
#include "op/random_position.h"
#include "plan/plan.h"

#include <string.h>

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

static tpi_plan *plan_body(tpi_plan *whole, tpi_body *b, tpi_fusing fuse)
{
    tpi_plan *p = tpi_bump_take(&whole->memory, 1, sizeof *p);
    if (!p || !tpi_plan_copies(b->graph, b->n_outputs, b->outputs))
        return NULL;
    const tpi_roots roots = {.n = b->n_outputs, .v = b->outputs};
    p->whole = whole;
    return tpi_plan_graph(p, b->graph, &roots, fuse) ? p : NULL;
}

/* NULL: no memory, or the context's error tells. */
static tpi_section *section_new(tpi_plan *whole, const tp_tensor *node, tpi_fusing fuse)
{
    const size_t n = (size_t)tpi_n_outputs_of(node), all = 3 * n + (size_t)node->n_in;
    tpi_section *s = tpi_bump_take(&whole->memory, 1, sizeof *s);
    int *none = tpi_bump_take(&whole->memory, all, sizeof *none);
    bool *stays = tpi_bump_take(&whole->memory, n, sizeof *stays);
    if (!stays)
        return NULL;
    memset(none, -1, all * sizeof *none);
    *s = (tpi_section){.node = node,
                       .port = none,
                       .spare = none + n,
                       .second = none + 2 * n,
                       .copy = none + 3 * n,
                       .stays = stays};
    s->n_bodies = tpi_bodies_of(node, s->body);
    for (int i = 0; i < s->n_bodies; i++) {
        s->plan[i] = plan_body(whole, s->body[i], fuse);
        if (!s->plan[i])
            return NULL;
    }
    if (tpi_loop_of(node))
        find_stays(s);
    return s;
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
        if (!p->sections)
            p->sections =
                tpi_bump_take(&p->whole->memory, (size_t)p->n_values, sizeof *p->sections);
        tpi_section *s = p->sections ? section_new(p->whole, t, fuse) : NULL;
        if (!s)
            return false;
        p->sections[i] = s;
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

static void section_buffers(tpi_plan *p, tpi_section *s)
{
    const tpi_loop_attrs *a = tpi_loop_of(s->node);
    const int n = tpi_n_outputs_of(s->node), pred = s->body[0]->n_outputs - n;
    int first, end;
    find_slices(s->node, &first, &end);
    for (int i = 0; i < s->node->n_in; i++) {
        const tp_tensor *x = s->node->in[i];
        const bool carried = a && i >= a->has_pred && i < first; /* into its buffer */
        if (!carried && !tpi_plan_runs_on(p, x, i >= first && i < end))
            s->copy[i] = own_buffer(p, s, x, NULL);
    }
    for (int i = 0; i < n; i++) {
        const tp_tensor *each = s->body[0]->outputs[pred + i];
        const bool carried = a && i < a->n_carried;
        const bool two = carried && !s->stays[i];
        if (two || s->port[i] < 0)
            s->spare[i] = own_buffer(p, s, each, NULL);
        if (two && s->port[i] < 0)
            s->second[i] = own_buffer(p, s, each, NULL);
    }
    s->arena = own_buffer(p, s, NULL, s);
}

void tpi_plan_section_buffers(tpi_plan *p)
{
    for (int i = 0; i < p->n_values && p->sections; i++)
        if (p->sections[i])
            section_buffers(p, p->sections[i]);
}

int tpi_plan_most_section_buffers(const tpi_plan *p)
{
    int most = 0;
    for (int i = 0; i < p->n_values && p->sections; i++)
        if (p->sections[i])
            most += p->values[i].node->n_in + 2 * tpi_n_outputs_of(p->values[i].node) + 1;
    return most;
}

/* ---- numbers ----------------------------------------------------------------------------------------- */

/* Where a stream is among those of the plan, or would be. */
static int place_of(const tpi_plan *p, uint64_t stream)
{
    int i = 0;
    while (i < p->n_streams && p->streams[i] < stream)
        i++;
    return i;
}

int tpi_plan_stream(const tpi_plan *p, const tp_tensor *draw)
{
    return place_of(p->whole, (uint64_t)((const tpi_random_attrs *)draw->attrs)->stream);
}

static bool list_streams(const tpi_plan *p, tpi_plan *whole)
{
    for (int i = 0; i < p->n_kernels; i++) {
        const tp_tensor *t = p->values[p->kernels[i].root].node;
        if (!t->op->draws)
            continue;
        const uint64_t stream = (uint64_t)((const tpi_random_attrs *)t->attrs)->stream;
        const int at = place_of(whole, stream);
        if (at < whole->n_streams && whole->streams[at] == stream)
            continue;
        uint64_t *v = tpi_bump_grow(&whole->memory, whole->streams, whole->n_streams,
                                    &whole->streams_size, sizeof *v);
        if (!v)
            return false;
        memmove(v + at + 1, v + at, (size_t)(whole->n_streams - at) * sizeof *v);
        v[at] = stream;
        whole->streams = v;
        whole->n_streams++;
    }
    return true;
}

/* The plans inside p are numbered from what is left on; outer->all_* counts. */
static bool number(tpi_plan *p, tpi_plan *outer)
{
    bool ok = list_streams(p, outer);
    for (int i = 0; i < p->n_values && p->sections; i++)
        for (int k = 0; p->sections[i] && k < p->sections[i]->n_bodies; k++) {
            tpi_plan *inner = p->sections[i]->plan[k];
            inner->first_kernel = outer->all_kernels;
            inner->first_buffer = outer->all_buffers;
            outer->all_kernels += inner->n_kernels;
            outer->all_buffers += inner->n_buffers;
            for (int n = 0; n < inner->n_kernels; n++)
                outer->draws |= inner->values[inner->kernels[n].root].node->op->draws;
            ok = number(inner, outer) && ok;
        }
    return ok;
}

bool tpi_plan_number(tpi_plan *p)
{
    p->all_kernels = p->n_kernels;
    p->all_buffers = p->n_buffers;
    return number(p, p);
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
