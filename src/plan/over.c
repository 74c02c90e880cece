/* Results that are written over what they are computed from.
 *
 *     k0 = matmul x w, k1 = gelu (k0 + b)          k0's memory is k1's
 *
 * A loop nest writes its root over memory that nothing else reads, when all of it reads the element that
 * it writes, in the phase in which it writes it or before. A scatter leaves what it does not write. */
#include "plan/plan.h"

#include <string.h>

/* Does k's node read operand o, if that is the memory of x, where the nest writes? */
static bool reads_same(const tpi_plan *p, const tpi_kernel *k, const tpi_value *v, int o, int x)
{
    const tpi_value *root = &p->values[k->root];
    int64_t read[TP_MAX_RANK], written[TP_MAX_RANK];
    tpi_layout l;
    tpi_operand_layout(p, v->node, o, &l);
    if (l.root != x)
        return true;
    memcpy(read, l.stride, sizeof read);
    if (v->node->op->kind != TPI_REDUCE)
        tpi_domain_strides(k, v, l.stride, read);
    tpi_domain_strides(k, root, root->layout.stride, written);
    /* It is written in the loop of the root's phase, behind which come that phase's reductions. */
    bool same = l.offset == 0 && (v->node->op->kind != TPI_REDUCE || v->phase < root->phase) &&
                v->phase <= root->phase;
    for (int a = 0; a < k->rank && same; a++)
        same = k->shape[a] == 1 || read[a] == written[a];
    return same;
}

/* Is memory x read by no kernel but the nest `kernel`, which reads what it writes? */
static bool is_free_for(const tpi_plan *p, int x, int kernel)
{
    const tpi_kernel *k = &p->kernels[kernel];
    bool is_free = true;
    for (int i = 0; i < k->n_nodes && is_free; i++) {
        const tpi_value *v = &p->values[k->nodes[i]];
        for (int o = 0; o < v->node->n_in && is_free; o++)
            is_free = reads_same(p, k, v, o, x);
    }
    return is_free;
}

/* Could t, the result of a kernel, be written over memory x, if that is as it wants it? */
static bool may_hold(const tpi_plan *p, int x, const tp_tensor *t, const int *reader)
{
    const tpi_value *v = &p->values[x];
    const int kernel = p->values[t->index].kernel;
    return v->storage == TPI_IN_ARENA && v->kernel >= 0 && v->kernel != kernel &&
           reader[x] == kernel && v->node->dtype == t->dtype && tpi_same_shape(v->node, t) &&
           v->node->op->kind != TPI_PORT;
}

/* The memory that a call may find its result in, but for what it writes; -1. */
static int updated_by(const tpi_plan *p, const tp_tensor *t, const int *reader)
{
    const tpi_layout *own = &p->values[t->index].layout, *l;
    if (!t->op->updates)
        return -1;
    l = &p->values[t->in[0]->index].layout;
    bool fits = may_hold(p, l->root, t, reader) && l->offset == 0 &&
                memcmp(l->stride, own->stride, sizeof(int64_t) * t->rank) == 0;
    for (int o = 1; o < t->n_in; o++)
        fits = fits && p->values[t->in[o]->index].layout.root != l->root;
    return fits ? l->root : -1;
}

/* The operand whose memory nest k may write over; -1. A contraction's, if there is one: it is the largest
 * part of the work. */
static int operand_for(const tpi_plan *p, int kernel, const int *reader)
{
    const tpi_kernel *k = &p->kernels[kernel];
    const tp_tensor *t = p->values[k->root].node;
    int best = -1;
    for (int i = 0; i < k->n_nodes; i++) {
        const tp_tensor *node = p->values[k->nodes[i]].node;
        for (int o = 0; o < node->n_in; o++) {
            const int x = p->values[node->in[o]->index].layout.root;
            const tpi_value *v = &p->values[x];
            if (!may_hold(p, x, t, reader) || !is_free_for(p, x, kernel))
                continue;
            if (best < 0 || p->kernels[v->kernel].kind == TPI_KERNEL_CALL)
                best = x;
        }
    }
    return best;
}

/* The only kernel that reads each memory; -1: none, -2: several, or the caller. */
static void find_readers(const tpi_plan *p, const tpi_roots *roots, int *reader)
{
    for (int i = 0; i < p->n_values; i++)
        reader[i] = -1;
    for (int i = 0; i < p->n_values; i++) {
        const tpi_value *v = &p->values[i];
        for (int o = 0; o < v->node->n_in && v->kernel >= 0; o++) {
            int *r = &reader[p->values[v->node->in[o]->index].layout.root];
            *r = *r == -1 || *r == v->kernel ? v->kernel : -2;
        }
    }
    for (int i = 0; i < roots->n; i++)
        reader[p->values[roots->v[i]->index].layout.root] = -2;
}

bool tpi_plan_over(tpi_plan *p, const tpi_roots *roots)
{
    int *reader = tpi_bump_take(&p->whole->room, (size_t)p->n_values, sizeof *reader);
    if (!reader)
        return false;
    find_readers(p, roots, reader);
    for (int i = 0; i < p->n_kernels; i++) {
        const tpi_kernel *k = &p->kernels[i];
        const int root = k->root;
        /* Columns are added up where they are written. What a body gives may lie where what it was
         * given does. */
        const bool columns = k->has_reduced && k->reduced && !tpi_reduces_last(k);
        const bool call = k->kind == TPI_KERNEL_CALL;
        if ((k->kind != TPI_KERNEL_LOOP && !call) || columns ||
            (p->graph->parent && reader[root] == -2))
            continue;
        const int x =
            call ? updated_by(p, p->values[root].node, reader) : operand_for(p, i, reader);
        if (x < 0)
            continue;
        p->values[x].over = root;
        p->kernels[i].since = p->kernels[p->values[x].kernel].since;
    }
    return true;
}
