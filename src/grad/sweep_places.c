/* Slices at places along an axis, as rows of an embedding: what they contribute to the tensor that they are of, as one. */
#include "grad/sweep.h"
#include "op/sizes.h"

#include <string.h>

/* What is put together. */
typedef struct places {
    tpi_sweep *s;
    const tp_tensor *x;
    int axis, n_nodes;
    int32_t *nodes;  /* slots, newest first */
    tp_tensor **dy;  /* by node, with one slice for each of its places */
    int32_t *last;   /* by place: where in `to` it is, counted from 1, if it is there */
    int64_t *to, n;  /* the places of one node after the other */
    int64_t *within; /* by slice of a node: which of its places that is */
} places;

static tp_tensor *node_of(const places *p, int k)
{
    return p->s->nodes.v[p->nodes[k]];
}

static int64_t count_of(const places *p, int k)
{
    return tpi_count(node_of(p, k)->in[1]);
}

static const int64_t *index_of(const places *p, int k)
{
    return (const int64_t *)(const void *)node_of(p, k)->in[1]->data;
}

/* Are all places in the table, and so few that they do not take more memory than some tables of its size? */
static bool are_few(const places *p)
{
    enum { TABLES = 4 };
    const int64_t size = p->x->shape[p->axis],
                  most = size < INT32_MAX / TABLES ? TABLES * size : INT32_MAX;
    bool few = true;
    int64_t n = 0;
    for (int k = 0; k < p->n_nodes && few; k++) {
        const int64_t *at = index_of(p, k), count = count_of(p, k);
        n += count;
        few = n <= most;
        for (int64_t i = 0; i < count && few; i++)
            few = at[i] >= -size && at[i] < size;
    }
    return few;
}

static bool give_by_rule(const places *p)
{
    bool ok = true;
    for (int k = 0; k < p->n_nodes && ok; k++)
        ok = tpi_sweep_rule(p->s, node_of(p, k));
    return ok;
}

/* dy of a node's slices [a..., index..., b...] as [a..., n, b...]. */
static tp_tensor *in_a_line(const places *p, const tp_tensor *t, tp_tensor *dy, int64_t n)
{
    int64_t shape[TP_MAX_RANK];
    if (t->in[1]->rank == 1)
        return dy;
    memcpy(shape, p->x->shape, sizeof shape);
    shape[p->axis] = n;
    return tp_reshape_at(t->file, t->line, dy, p->x->rank, shape);
}

/* What a node gives one place it adds up first, in the order of its slices. */
static tp_tensor *sum_by_place(const places *p, const tp_tensor *t, tp_tensor *dy, int64_t n,
                               int64_t n_places)
{
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, p->x->shape, sizeof shape);
    shape[p->axis] = n_places;
    tp_tensor *zeros = tpi_zeros(TPI_AT(t->file, t->line), dy, p->x->rank, shape);
    tp_tensor *index = tp_tensor_new_at(t->file, t->line, p->s->ctx, TP_I64, 1, &n, p->within);
    return tp_scatter_add_at(t->file, t->line, zeros, index, dy, p->axis);
}

/* False: something was assigned since, and the error is set. */
static bool add_node(places *p, int k)
{
    const tp_tensor *t = node_of(p, k);
    const int64_t n = count_of(p, k), before = p->n, size = p->x->shape[p->axis];
    const int64_t *at = index_of(p, k);
    for (int i = 0; i < t->n_in; i++)
        if (tpi_refuse_stale(t, p->s->at, t->op->name, i))
            return false;
    for (int64_t i = 0; i < n; i++) {
        const int64_t place = at[i] < 0 ? at[i] + size : at[i];
        if (p->last[place] <= before) {
            p->to[p->n++] = place;
            p->last[place] = (int32_t)p->n;
        }
        p->within[i] = p->last[place] - 1 - before;
    }
    tp_tensor *dy = in_a_line(p, t, p->s->grad[p->nodes[k]], n);
    p->dy[k] = p->n - before == n ? dy : sum_by_place(p, t, dy, n, p->n - before);
    return true;
}

/* To what is there already. By itself each node would give all of x, zeros where it has no place, and -0 and +0 are +0: so no -0
 * is left. */
static bool add_all(places *p, int slot)
{
    const tp_tensor *oldest = node_of(p, p->n_nodes - 1);
    const char *file = oldest->file;
    const int line = oldest->line;
    tp_tensor **sum = &p->s->grad[slot];
    for (int k = 0; k < p->n_nodes; k++)
        if (!add_node(p, k))
            return false;
    tp_tensor *base = *sum ? tp_add_at(file, line, *sum, tp_scalar_like_at(file, line, *sum, 0))
                           : tpi_zeros(TPI_AT(file, line), p->dy[0], p->x->rank, p->x->shape);
    tp_tensor *index = tp_tensor_new_at(file, line, p->s->ctx, TP_I64, 1, &p->n, p->to);
    tp_tensor *dy = tp_concat_at(file, line, p->n_nodes, p->dy, p->axis);
    tp_tensor *all = tp_scatter_add_at(file, line, base, index, dy, p->axis);
    tpi_ref(all);
    tpi_unref(*sum);
    *sum = all;
    return true;
}

static bool no_memory(const places *p)
{
    tpi_no_memory(p->s->ctx, p->s->at, "gradient");
    return false;
}

static bool add_with_room(places *p, int slot)
{
    tpi_mem *m = &p->s->ctx->mem;
    const int64_t size = p->x->shape[p->axis];
    int64_t n = 0, most = 0;
    for (int k = 0; k < p->n_nodes; k++) {
        n += count_of(p, k);
        most = count_of(p, k) > most ? count_of(p, k) : most;
    }
    const size_t bytes = (size_t)(n + most) * sizeof *p->to + (size_t)size * sizeof *p->last;
    p->to = tpi_take(m, bytes);
    if (!p->to)
        return no_memory(p);
    p->within = p->to + n;
    p->last = (int32_t *)(void *)(p->within + most);
    memset(p->last, 0, (size_t)size * sizeof *p->last);
    const bool ok = add_all(p, slot);
    tpi_give_back(m, p->to, bytes);
    return ok;
}

bool tpi_sweep_places(tpi_sweep *s, const tp_tensor *x, int slot, int axis)
{
    places p = {.s = s, .x = x, .axis = axis};
    for (int i = s->met[slot]; i >= 0; i = s->met[i])
        p.n_nodes++;
    const size_t bytes = (size_t)p.n_nodes * (sizeof *p.dy + sizeof *p.nodes);
    p.dy = tpi_take(&s->ctx->mem, bytes);
    if (!p.dy || tp_scope_begin(s->ctx) != TP_OK) {
        tpi_give_back(&s->ctx->mem, p.dy, p.dy ? bytes : 0);
        return no_memory(&p);
    }
    p.nodes = (int32_t *)(void *)(p.dy + p.n_nodes);
    for (int i = s->met[slot], k = p.n_nodes - 1; i >= 0; i = s->met[i], k--)
        p.nodes[k] = i;
    const bool ok = p.n_nodes > 1 && are_few(&p) ? add_with_room(&p, slot) : give_by_rule(&p);
    s->met[slot] = -1;
    tp_scope_end(s->ctx);
    tpi_give_back(&s->ctx->mem, p.dy, bytes);
    return ok;
}
