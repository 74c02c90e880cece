/* Which nodes make a kernel.
 *
 * Nodes are taken from last to first. The kernel that reads one first is the last place where it
 * can be computed. Where that is a loop nest, reads it at the very point at which it is computed, and
 * leaves room for it there, the node joins it; else it starts a nest of its own. It needs no memory
 * when nobody but that nest reads it. Views are not computed: they are strides, through which
 * readers look.
 *
 *     %1 = max x, %2 = sub x %1, %3 = exp %2, %4 = sum %3, %5 = div %3 %4     (softmax)
 *
 * is one nest over x's shape with the last axis reduced, in three phases per row: max; sub, exp
 * and sum; div. */
#include "ir/factors.h"
#include "kernel/host/team_host.h"
#include "op/sizes.h"
#include "plan/arena.h"

#include <string.h>

static bool too_large(tpi_plan *p, const tp_tensor *t)
{
    tpi_fail_status(p->graph->ctx, TPI_AT(t->file, t->line), t->op->name, TP_E_SHAPE,
                    "the strides of %s are too large", SHAPE(t));
    return false;
}

static int64_t row_major(tpi_dims *dims, const tp_tensor *t, int64_t *stride)
{
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step = tpi_dim_mul(dims, step, t->shape[i]);
    }
    return step;
}

/* Numbers that are written into the text. */
static bool is_literal(const tp_tensor *t)
{
    if (t->op->kind == TPI_SHAPE)
        return true;
    return tpi_constant_of(t) && tpi_count(t->in[0]) == 1;
}

/* ---- values -------------------------------------------------------------------------------------- */

static bool follow_view(tpi_plan *p, tpi_value *v)
{
    const tp_tensor *t = v->node;
    const tpi_value *x = &p->values[t->in[0]->index];
    tpi_view view = {.dims = p->graph->dims,
                     .in = t->in[0],
                     .out = t,
                     .in_stride = x->layout.stride,
                     .attrs = t->attrs};
    if (!t->op->view(&view))
        return false;
    for (int i = 0; i < t->rank; i++)
        if (view.stride[i] == TPI_NO_DIM)
            return false;
    const int64_t offset = tpi_stride_add(p->graph->dims, x->layout.offset, view.offset);
    if (offset == TPI_NO_DIM)
        return false;
    v->layout = (tpi_layout){.root = x->layout.root, .offset = offset};
    memcpy(v->layout.stride, view.stride, sizeof view.stride);
    return true;
}

static bool lay_out(tpi_plan *p)
{
    for (int i = 0; i < p->n_values; i++) {
        tpi_value *v = &p->values[i];
        const tp_tensor *t = p->graph->nodes[i];
        *v = (tpi_value){.node = t, .kernel = -1, .buffer = -1, .last = -1, .over = -1};
        v->layout.root = i;
        if (row_major(p->graph->dims, t, v->layout.stride) == TPI_NO_DIM)
            return false;
        v->storage = t->op->kind == TPI_SOURCE ? TPI_IN_SOURCE : TPI_IN_ARENA;
        if (t->op->kind == TPI_VIEW && follow_view(p, v))
            v->storage = TPI_IN_ALIAS;
        else if (t->op->kind == TPI_VIEW && !t->op->in_order)
            return too_large(p, t); /* a copy in row-major order is another thing */
        else if (tpi_assigned_of(t)) {
            v->layout = p->values[tpi_assigned_of(t)->index].layout;
            v->storage = TPI_IN_ALIAS;
        } else if (t->op->kind == TPI_PORT && tpi_plan_port(p, t) >= 0 &&
                   tpi_plan_port(p, t) != i) { /* read under two names */
            v->layout = p->values[tpi_plan_port(p, t)].layout;
            v->storage = TPI_IN_ALIAS;
        }
    }
    return true;
}

/* ---- readers ---------------------------------------------------------------------------------------- */

/* Who reads each node's memory, views seen through: lists in one array. Who reads its sizes does
 * not count. */
typedef struct readers {
    int *start, *list; /* list[start[i]] .. list[start[i + 1]) */
    bool *pinned;      /* has to have memory: a root, or read by a call */
    const bool *live;
    tpi_kernel **made; /* by number, from last to first */
} readers;

/* Who is needed for the roots, or draws: the rest is no reader. */
static void find_live(const tpi_plan *p, const tpi_roots *roots, bool *live)
{
    for (int i = 0; i < roots->n; i++)
        live[roots->v[i]->index] = true;
    for (int i = p->n_values - 1; i >= 0; i--) {
        const tp_tensor *t = p->graph->nodes[i];
        live[i] |= tpi_node_draws(t);
        for (int k = 0; live[i] && t->op->kind != TPI_SOURCE && k < t->n_in; k++)
            live[t->in[k]->index] = true;
    }
}

static bool find_readers(tpi_plan *p, const tpi_roots *roots, readers *r)
{
    tpi_bump *room = &p->whole->room;
    const size_t n = (size_t)p->n_values;
    size_t n_list = 0;
    for (int i = 0; i < p->n_values; i++)
        n_list += (size_t)p->graph->nodes[i]->n_in;
    r->start = tpi_bump_take(room, n + 1, sizeof *r->start);
    r->list = tpi_bump_take(room, n_list, sizeof *r->list);
    r->pinned = tpi_bump_take(room, n, sizeof *r->pinned);
    r->made = tpi_bump_take(room, n, sizeof *r->made);
    if (!r->made)
        return false;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < p->n_values; i++) {
            const tp_tensor *t = p->graph->nodes[i];
            if (t->op->kind == TPI_SOURCE || t->op->kind == TPI_SHAPE ||
                t->op->kind == TPI_PORT || p->values[i].storage == TPI_IN_ALIAS || !r->live[i])
                continue;
            for (int k = 0; k < t->n_in; k++) {
                const int root = p->values[t->in[k]->index].layout.root;
                if (!tpi_is_loop_op(t))
                    r->pinned[root] = true;
                if (pass == 0)
                    r->start[root + 1]++;
                else
                    r->list[r->start[root]++] = i;
            }
        }
        for (int i = 0; i < p->n_values && pass == 0; i++)
            r->start[i + 1] += r->start[i];
    }
    for (int i = p->n_values; i > 0; i--) /* filling moved each start to its end */
        r->start[i] = r->start[i - 1];
    r->start[0] = 0;
    for (int i = 0; i < roots->n; i++)
        r->pinned[p->values[roots->v[i]->index].layout.root] = true;
    return true;
}

/* ---- loop nests ----------------------------------------------------------------------------------------- */

/* NULL: no memory. */
static tpi_kernel *new_kernel(tpi_plan *p, readers *r, tpi_kernel_kind kind, int root)
{
    tpi_kernel *k = tpi_bump_take(&p->whole->room, 1, sizeof *k);
    if (!k)
        return NULL;
    *k = (tpi_kernel){.kind = kind, .root = root};
    r->made[p->n_kernels] = k;
    p->values[root].kernel = p->n_kernels++;
    return k;
}

static void count_node(tpi_kernel *k, const tp_tensor *t)
{
    k->n_nodes++;
    k->n_operands += t->n_in;
    k->n_reductions += t->op->kind == TPI_REDUCE;
}

static bool same_space(const tpi_kernel *k, const tp_tensor *t)
{
    return k->rank == t->rank &&
           memcmp(k->shape, t->shape, sizeof(int64_t) * (size_t)k->rank) == 0;
}

/* The axes that a reduction combines; for its own axes, which are those of the space; -1 where it has none. */
static unsigned reduction_axes(const tp_tensor *t, int *axis_of)
{
    tpi_factor f[TP_MAX_RANK];
    unsigned reduced = 0;
    tpi_factors_of(t, 0, f);
    for (int i = 0; i < t->rank; i++)
        axis_of[i] = -1;
    for (int i = 0; i < t->in[0]->rank; i++)
        if (f[i].use == TPI_AXIS_PASSED)
            axis_of[f[i].id] = i;
        else
            reduced |= 1u << i;
    return reduced;
}

/* Strides of reader t's operand k over the axes of the space. */
static void reading_strides(const tpi_plan *p, const tpi_kernel *k, const tpi_value *reader,
                            int operand, tpi_layout *l, int64_t *over)
{
    tpi_operand_layout(p, reader->node, operand, l);
    if (reader->node->op->kind == TPI_REDUCE)
        memcpy(over, l->stride, sizeof(int64_t) * (size_t)k->rank);
    else
        tpi_domain_strides(k, reader, l->stride, over);
}

static bool is_in(const readers *r, const tpi_kernel *k, const tpi_value *v)
{
    return v->kernel >= 0 && r->made[v->kernel] == k;
}

/* The strides of every reader in the nest; false when they differ. */
static bool common_strides(const tpi_plan *p, const tpi_kernel *k, int node, const readers *r,
                           int64_t *over)
{
    bool first = true;
    for (int i = r->start[node]; i < r->start[node + 1]; i++) {
        const tpi_value *reader = &p->values[r->list[i]];
        if (!is_in(r, k, reader))
            continue;
        for (int o = 0; o < reader->node->n_in; o++) {
            if (p->values[reader->node->in[o]->index].layout.root != node)
                continue;
            tpi_layout l;
            int64_t mine[TP_MAX_RANK];
            reading_strides(p, k, reader, o, &l, mine);
            if (l.offset != 0 ||
                (!first && memcmp(mine, over, sizeof(int64_t) * (size_t)k->rank) != 0))
                return false;
            memcpy(over, mine, sizeof(int64_t) * (size_t)k->rank);
            first = false;
        }
    }
    return !first;
}

/* The axes of the space for an elementwise row value that is read with the strides `over`:
 * each own axis is the one over which it has that stride. */
static bool row_axes(const tpi_kernel *k, const tpi_value *v, const int64_t *over, int *axis_of)
{
    int at = 0;
    for (int i = 0; i < v->node->rank; i++) {
        axis_of[i] = -1;
        if (v->node->shape[i] == 1)
            continue;
        while (at < k->rank && (over[at] == 0 || k->shape[at] != v->node->shape[i] ||
                                over[at] != v->layout.stride[i]))
            at++;
        if (at == k->rank)
            return false;
        axis_of[i] = at++;
    }
    return true;
}

/* The axes along which a row value is the same, when these are the last ones. */
static bool lacks_last_axes(const tpi_kernel *k, const int64_t *over, unsigned *axes)
{
    bool kept = false;
    *axes = 0;
    for (int i = k->rank - 1; i >= 0; i--) {
        if (k->shape[i] == 1)
            continue;
        if (over[i] != 0)
            kept = true;
        else if (kept)
            return false;
        else
            *axes |= 1u << i;
    }
    return *axes != 0;
}

/* Is the nest so small that it may run on one thread, whatever joins it? */
static bool stays_small(const tpi_kernel *k)
{
    const double small = 400000;
    double work = TPI_MAX_NEST_NODES;
    for (int i = 0; i < k->rank; i++) {
        if (tpi_dim_is_symbolic(k->shape[i]))
            return false;
        work *= (double)k->shape[i];
    }
    return work < small;
}

/* Readers in the loops over all axes: full values, and reductions of what does not vary. */
static bool has_full_readers(const tpi_plan *p, const tpi_kernel *k, int node, const readers *r)
{
    bool has = false;
    for (int i = r->start[node]; i < r->start[node + 1] && !has; i++) {
        const tpi_value *v = &p->values[r->list[i]];
        has = is_in(r, k, v) && (!v->row || v->node->op->kind == TPI_REDUCE);
    }
    return has;
}

/* A row value that is computed element by element has no full operands. */
static bool has_row_readers(const tpi_plan *p, const tpi_kernel *k, int node, const readers *r)
{
    bool has = false;
    for (int i = r->start[node]; i < r->start[node + 1] && !has; i++) {
        const tpi_value *v = &p->values[r->list[i]];
        has = is_in(r, k, v) && v->row && v->node->op->kind != TPI_REDUCE;
    }
    return has;
}

static bool has_room(const tpi_kernel *k, const tp_tensor *t)
{
    return k->n_nodes < TPI_MAX_NEST_NODES &&
           k->n_operands + t->n_in <= TPI_MAX_NEST_OPERANDS &&
           k->n_reductions + (t->op->kind == TPI_REDUCE) <= TPI_MAX_NEST_REDUCTIONS;
}

/* Makes room in k for `node`, which some of its nodes read; false: it does not fit. `kept`: it has memory,
 * for others. */
static bool joins(tpi_plan *p, tpi_kernel *k, int node, const readers *r, bool kept)
{
    tpi_value *v = &p->values[node];
    const tp_tensor *t = v->node;
    int64_t over[TP_MAX_RANK], own[TP_MAX_RANK];
    if (!has_room(k, t) || !common_strides(p, k, node, r, over))
        return false;
    tpi_value as = *v;
    unsigned reduced = k->reduced;
    if (t->op->kind == TPI_REDUCE) {
        if (!same_space(k, t->in[0]))
            return false;
        as.row = true;
        reduced = reduction_axes(t, as.axis_of);
    } else if (same_space(k, t)) {
        if (has_row_readers(p, k, node, r))
            return false;
        as.row = false;
        for (int i = 0; i < t->rank; i++)
            as.axis_of[i] = t->shape[i] == 1 ? -1 : i;
    } else {
        as.row = true;
        if (!row_axes(k, v, over, as.axis_of))
            return false;
        if (!k->has_reduced && !lacks_last_axes(k, over, &reduced))
            return false;
        if (!k->has_reduced && tpi_is_number(t) && !stays_small(k))
            return false; /* with it no axis would be left to share */
    }
    if (k->has_reduced && reduced != k->reduced)
        return false;
    tpi_domain_strides(k, &as, as.layout.stride, own);
    for (int i = 0; i < k->rank; i++) {
        const bool varies = !as.row || !((reduced >> i) & 1);
        if (k->shape[i] != 1 && (own[i] != over[i] || (kept && varies && own[i] == 0)))
            return false; /* each element of what is kept is computed once */
    }
    if (as.row) {
        const bool last = k->rank > 0 && (reduced >> (k->rank - 1)) & 1;
        for (int i = 0; i < k->rank; i++)
            if (own[i] != 0 && (reduced >> i) & 1)
                return false;
        if (!last && has_full_readers(p, k, node, r))
            return false; /* columns are streamed once */
        k->reduced = reduced;
        k->has_reduced = true;
    }
    *v = as;
    return true;
}

/* Is t computed from what is the same along its last axis (of a row: its sum), some ops back? */
static bool comes_of_rows(const tp_tensor *t, int back)
{
    bool comes = false;
    for (int i = 0; i < t->n_in && !comes; i++) {
        const tp_tensor *x = t->in[i];
        if (!tpi_is_loop_op(x))
            continue;
        comes = tpi_same_shape(x, t)
                    ? back > 0 && x->op->kind == TPI_ELEMENT && comes_of_rows(x, back - 1)
                    : x->rank > 0 && x->shape[x->rank - 1] == 1 && t->shape[t->rank - 1] != 1;
    }
    return comes;
}

/* What has memory anyway is better computed in rows, with what it comes of, than where columns of it
 * are added up. */
static bool belongs_to_rows(const tpi_kernel *k, const tp_tensor *t)
{
    return k->has_reduced && !tpi_reduces_last(k) && t->op->kind == TPI_ELEMENT &&
           t->rank > 0 && comes_of_rows(t, 4);
}

/* The kernel that reads `node` first, if it is a nest; -1. `only`: no other kernel reads it. */
static int first_reader(const tpi_plan *p, int node, const readers *r, bool *only)
{
    int first = -1;
    *only = !r->pinned[node];
    for (int i = r->start[node]; i < r->start[node + 1]; i++) {
        const int kernel = p->values[r->list[i]].kernel;
        if (kernel < 0) /* of this one only the sizes are read */
            continue;
        *only = *only && (first < 0 || kernel == first);
        if (first < 0 || r->made[kernel]->root < r->made[first]->root)
            first = kernel;
    }
    return first >= 0 && r->made[first]->kind == TPI_KERNEL_LOOP ? first : -1;
}

static bool start_nest(tpi_plan *p, readers *r, int node)
{
    tpi_value *v = &p->values[node];
    const tp_tensor *t = v->node;
    tpi_kernel *k = new_kernel(p, r, TPI_KERNEL_LOOP, node);
    if (!k)
        return false;
    const tp_tensor *space = t->op->kind == TPI_REDUCE ? t->in[0] : t;
    k->rank = space->rank;
    memcpy(k->shape, space->shape, sizeof(int64_t) * (size_t)k->rank);
    if (t->op->kind == TPI_REDUCE) {
        k->reduced = reduction_axes(t, v->axis_of);
        k->has_reduced = true;
        v->row = true;
    } else {
        for (int i = 0; i < t->rank; i++)
            v->axis_of[i] = t->shape[i] == 1 ? -1 : i;
    }
    count_node(k, t);
    return true;
}

static bool make_kernels(tpi_plan *p, const tpi_roots *roots, readers *r, bool fuse)
{
    bool ok = find_readers(p, roots, r);
    for (int i = p->n_values - 1; i >= 0 && ok; i--) {
        tpi_value *v = &p->values[i];
        const tp_tensor *t = v->node;
        const bool draws = r->live[i] && t->op->draws;
        const bool read = r->start[i + 1] > r->start[i] || r->pinned[i] || draws;
        if (p->sections && p->sections[i]) {
            ok = new_kernel(p, r, TPI_KERNEL_BLOCK, i);
            if (!read)
                v->storage = TPI_IN_INNER; /* the token itself is nothing */
            continue;
        }
        if (v->storage == TPI_IN_SOURCE || v->storage == TPI_IN_ALIAS || !read ||
            t->op->kind == TPI_PORT)
            continue;
        if (is_literal(t) && !r->pinned[i]) {
            v->storage = TPI_IN_LITERAL;
            continue;
        }
        if (!tpi_is_loop_op(t)) {
            ok = new_kernel(p, r, t->op->kind == TPI_VIEW ? TPI_KERNEL_COPY : TPI_KERNEL_CALL,
                            i);
            continue;
        }
        bool only;
        const int nest = fuse ? first_reader(p, i, r, &only) : -1;
        if (nest >= 0 && (only || !belongs_to_rows(r->made[nest], t)) &&
            joins(p, r->made[nest], i, r, !only)) {
            v->kernel = nest;
            v->storage = only ? TPI_IN_INNER : TPI_IN_ARENA;
            count_node(r->made[nest], t);
        } else {
            ok = start_nest(p, r, i);
        }
    }
    for (int i = 0; i < p->n_values && ok; i++)
        if (p->values[i].storage == TPI_IN_SOURCE && is_literal(p->values[i].node) &&
            !r->pinned[i])
            p->values[i].storage = TPI_IN_LITERAL;
    return ok;
}

/* ---- order, phases, buffers ------------------------------------------------------------------------------ */

/* A nest runs where its root stands in program order: all that it reads from outside is made by
 * nests whose roots are older. */
static bool order_kernels(tpi_plan *p, tpi_kernel *const *made)
{
    tpi_bump *memory = &p->whole->memory;
    const int last = p->n_kernels - 1;
    p->kernels = tpi_bump_take(memory, (size_t)p->n_kernels, sizeof *p->kernels);
    for (int i = 0; i <= last && p->kernels; i++) {
        tpi_kernel *k = &p->kernels[i];
        *k = *made[last - i];
        k->since = i;
        k->nodes = tpi_bump_take(memory, (size_t)k->n_nodes, sizeof *k->nodes);
        k->n_nodes = 0;
    }
    if (memory->failed)
        return false;
    for (int i = 0; i < p->n_values; i++) {
        tpi_value *v = &p->values[i];
        if (v->kernel < 0)
            continue;
        v->kernel = last - v->kernel;
        tpi_kernel *k = &p->kernels[v->kernel];
        if (k->kind == TPI_KERNEL_LOOP)
            k->nodes[k->n_nodes++] = i;
    }
    for (int i = 0; i < p->n_values && p->sections; i++) {
        const tp_tensor *t = p->graph->nodes[i];
        if (t->op->kind == TPI_PORT && p->values[i].storage != TPI_IN_ALIAS &&
            p->sections[t->in[0]->index])
            p->values[i].kernel = p->values[t->in[0]->index].kernel;
    }
    return true;
}

/* A row value is there after its phase; a full one can be had in any phase from its own on. */
static void set_phases(tpi_plan *p, const tpi_kernel *k)
{
    for (int a = 0; a < k->n_nodes; a++) {
        tpi_value *v = &p->values[k->nodes[a]];
        v->phase = v->row && v->node->op->kind == TPI_ELEMENT ? -1 : 0;
        for (int o = 0; o < v->node->n_in; o++) {
            const tpi_value *x = &p->values[p->values[v->node->in[o]->index].layout.root];
            if (x->kernel < 0 || x->kernel != v->kernel)
                continue;
            const bool in_loop = !v->row || v->node->op->kind == TPI_REDUCE;
            const int from = x->row && in_loop ? x->phase + 1 : x->phase;
            v->phase = from > v->phase ? from : v->phase;
        }
    }
}

int tpi_plan_buffer(tpi_plan *p, tpi_buffer b)
{
    p->buffers[p->n_buffers] = b;
    return p->n_buffers++;
}

static int add_buffer(tpi_plan *p, int node)
{
    const tpi_value *v = &p->values[node];
    return tpi_plan_buffer(p, (tpi_buffer){.node = node,
                                           .like = v->node,
                                           .storage = v->storage,
                                           .first = v->kernel,
                                           .last = v->last > v->kernel ? v->last : v->kernel});
}

/* Has it memory, and of its own? */
static bool needs_buffer(const tpi_value *v)
{
    const bool used = v->kernel >= 0 || v->last >= 0 || v->storage == TPI_IN_SOURCE;
    return used && v->storage != TPI_IN_INNER && v->storage != TPI_IN_ALIAS &&
           v->storage != TPI_IN_LITERAL && !tpi_lies_under(v);
}

static bool assign_buffers(tpi_plan *p, const tpi_roots *roots)
{
    for (int i = 0; i < roots->n; i++) {
        tpi_value *v = &p->values[p->values[roots->v[i]->index].layout.root];
        if (v->storage == TPI_IN_ARENA)
            v->storage = TPI_IN_OUTPUT;
    }
    for (int i = 0; i < p->n_values; i++) {
        const tpi_value *v = &p->values[i];
        if (v->kernel < 0 || v->node->op->kind == TPI_SHAPE)
            continue;
        for (int o = 0; o < v->node->n_in; o++) {
            tpi_value *x = &p->values[p->values[v->node->in[o]->index].layout.root];
            x->last = v->kernel > x->last ? v->kernel : x->last;
        }
    }
    size_t most = (size_t)tpi_plan_most_section_buffers(p);
    for (int i = 0; i < p->n_values; i++)
        most += needs_buffer(&p->values[i]);
    p->buffers = tpi_bump_take(&p->whole->memory, most, sizeof *p->buffers);
    if (!p->buffers)
        return false;
    for (int i = 0; i < p->n_values; i++)
        if (needs_buffer(&p->values[i]))
            p->values[i].buffer = add_buffer(p, i);
    for (int i = p->n_values - 1; i >= 0; i--) {
        tpi_value *v = &p->values[i];
        if (!tpi_lies_under(v))
            continue;
        v->buffer = p->values[v->over].buffer;
        if (v->kernel < p->buffers[v->buffer].first)
            p->buffers[v->buffer].first = v->kernel;
    }
    tpi_plan_section_buffers(p);
    tpi_plan_whole_steps(p);
    return true;
}

bool tpi_plan_is_constant(const tpi_plan *p, const tp_tensor *x)
{
    return tpi_constant_of(p->graph->nodes[p->values[x->index].layout.root]);
}

int tpi_packed_operand(const tpi_plan *p, const tp_tensor *t)
{
    if (!t->op->packed_axes || t->dtype < TP_F32 || !tpi_plan_is_constant(p, t->in[1]))
        return -1;
    const tp_tensor *b = t->in[1];
    const int64_t *stride = p->values[b->index].layout.stride;
    bool once = true; /* for a whole batch */
    for (int i = 0; i < b->rank - t->op->packed_axes; i++)
        once &= stride[i] == 0 || b->shape[i] == 1;
    return once ? 1 : -1;
}

static tpi_plan *no_plan(tp_ctx *ctx, tpi_bump memory)
{
    tpi_bump_free(&memory);
    if (ctx->status == TP_OK)
        tpi_no_memory(ctx, TPI_AT(NULL, 0), "compile");
    return NULL;
}

tpi_plan *tpi_plan_new(tp_graph *g, const tpi_roots *roots, tpi_fusing fuse)
{
    tpi_bump memory = TPI_BUMP(&g->ctx->mem);
    tpi_plan *p = tpi_bump_take(&memory, 1, sizeof *p);
    if (!p)
        return no_plan(g->ctx, memory);
    *p = (tpi_plan){.whole = p, .memory = memory, .room = TPI_BUMP(&g->ctx->mem)};
    const bool ok = tpi_plan_graph(p, g, roots, fuse);
    tpi_bump_free(&p->room);
    if (!ok)
        return no_plan(g->ctx, p->memory);
    if (fuse.bands)
        tpi_plan_microbatches(p);
    return tpi_plan_number(p) ? p : no_plan(g->ctx, p->memory);
}

static bool make(tpi_plan *p, const tpi_roots *roots, tpi_fusing fuse)
{
    const size_t n = (size_t)p->n_values;
    p->values = tpi_bump_take(&p->whole->memory, n, sizeof *p->values);
    bool *live = tpi_bump_take(&p->whole->room, n, sizeof *live);
    readers r = {.live = live};
    if (!p->values || !live)
        return false;
    find_live(p, roots, live);
    if (!tpi_plan_sections(p, live, fuse) || !lay_out(p) ||
        !make_kernels(p, roots, &r, fuse.nests) || !order_kernels(p, r.made))
        return false;
    for (int i = 0; i < p->n_kernels; i++)
        set_phases(p, &p->kernels[i]);
    return tpi_plan_steps(p, fuse.bands) && (!fuse.over || tpi_plan_over(p, roots)) &&
           assign_buffers(p, roots);
}

bool tpi_plan_graph(tpi_plan *p, tp_graph *g, const tpi_roots *roots, tpi_fusing fuse)
{
    const tpi_bump mark = p->whole->room;
    p->graph = g;
    p->n_values = g->n_nodes;
    const bool ok = make(p, roots, fuse);
    tpi_bump_release(&p->whole->room, &mark);
    return ok;
}

bool tpi_plan_arena(tpi_plan *p)
{
    p->arena = tpi_arena_new(&p->memory, p, p->buffers);
    if (!p->arena)
        tpi_no_memory(p->graph->ctx, TPI_AT(NULL, 0), "compile");
    return p->arena;
}

void tpi_plan_free(tpi_plan *p)
{
    if (!p)
        return;
    tpi_bump memory = p->memory; /* p is in it */
    tpi_bump_free(&memory);
}
