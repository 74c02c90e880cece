/* Ranges along an axis: what they contribute to the tensor that they are of as one. And what is such a range, or slices
 * at places, whose contributions are put together in sweep_places.c. */
#include "grad/sweep.h"
#include "op/sizes.h"

#include <stdlib.h>
#include <string.h>

/* Flags of `ranged`: what is no range reads it behind all of those, so its contribution is there before theirs; and they
 * are no ranges, but slices at places. */
enum { READ_LATER = 32, PLACES = 64, AXIS = 15 /* the bits of 1 and the axis */ };

/* What `ranged` is of operand k of t if all that reads it is of its like; 0: t is none of those. */
static int8_t like_of(const tpi_sweep *s, const tp_tensor *t, int k)
{
    tpi_range r = {0};
    int axis = 0;
    if (t->op->range && !t->op->awaits && t->op->range(t, &r))
        return (int8_t)(1 + r.axis);
    const bool slices =
        s->now && k == 0 && t->op->places && !t->graph && t->op->places(t, &axis);
    return slices ? (int8_t)(PLACES + 1 + axis) : 0;
}

/* Does node t contribute to operand k where it is met itself, and not with others of its like? */
static bool gives_at_once(const tpi_sweep *s, const tp_tensor *t, int k)
{
    return !tpi_has_results(t) && !t->op->awaits && !t->op->range &&
           !(k == 1 && tpi_sweep_is_product(s, t->slot));
}

/* What a recorded turn contributes enters as nodes of its own, in the order of the nodes: there none are joined, so
 * joining may never change a bit. */
void tpi_sweep_find_ranges(tpi_sweep *s)
{
    memset(s->ranged, 0, (size_t)s->nodes.n);
    memset(s->joined, 0, (size_t)s->nodes.n);
    for (int i = 0; i < s->nodes.n && !s->enters; i++) {
        const tp_tensor *t = s->nodes.v[i];
        if (!tpi_sweep_goes_through(s, i))
            continue;
        for (int k = tpi_way_first(s->nodes.way, t); k < t->n_in; k++) {
            int8_t *ranged = &s->ranged[t->in[k]->slot];
            const int8_t like = like_of(s, t, k);
            const bool first = *ranged == 0 || *ranged == like;
            s->joined[i] |= like && first;
            if (like && first)
                *ranged = like;
            else if (like && like == (*ranged & ~READ_LATER))
                *ranged = -1;
            else
                *ranged = *ranged > 0 && gives_at_once(s, t, k) ? *ranged | READ_LATER : -1;
        }
    }
}

bool tpi_sweep_is_part(const tpi_sweep *s, const tp_tensor *t)
{
    return s->joined[t->slot] && s->ranged[t->in[0]->slot] > 0;
}

/* What one of them gives. */
typedef struct part {
    tpi_range at;
    int slot;
    tp_tensor *dx;
} part;

static int newest_first(const void *a, const void *b)
{
    return ((const part *)b)->slot - ((const part *)a)->slot;
}

static int by_place(const void *a, const void *b)
{
    const tpi_range *x = &((const part *)a)->at, *y = &((const part *)b)->at;
    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    return x->hi != y->hi ? (x->hi < y->hi ? -1 : 1) : newest_first(a, b);
}

static bool same_range(const part *a, const part *b)
{
    return a->at.lo == b->at.lo && a->at.hi == b->at.hi;
}

/* Puts them in order. False: some overlap, or are equal and `first`, what comes before them in the sum, is there. */
static bool sort_parts(int n, part *v, const tp_tensor *first)
{
    bool ok = true;
    qsort(v, (size_t)n, sizeof *v, by_place);
    for (int i = 1; i < n && ok; i++)
        ok = same_range(&v[i], &v[i - 1]) ? !first : v[i].at.lo >= v[i - 1].at.hi;
    return ok;
}

/* What the same range gets is added up: how many are left. */
static int merge_parts(const tpi_sweep *s, int n, part *v)
{
    int left = 1;
    for (int i = 1; i < n; i++) {
        const tp_tensor *t = s->nodes.v[v[i].slot];
        part *last = &v[left - 1];
        if (same_range(&v[i], last))
            last->dx = tp_add_at(t->file, t->line, last->dx, v[i].dx);
        else
            v[left++] = v[i];
    }
    return left;
}

/* The parts one after the other along the axis of x, or of `rows`, which lack it, at their places; zeros between them.
 * NULL: no memory. */
static tp_tensor *put_together(tpi_at at, const tp_tensor *x, bool rows, int n, const part *v)
{
    tpi_mem *m = &x->ctx->mem;
    const int axis = v[0].at.axis;
    const int64_t size = x->shape[axis];
    const size_t bytes = (size_t)(rows ? size : 2 * (int64_t)n + 1) * sizeof(tp_tensor *);
    tp_tensor **pieces = tpi_take(m, bytes);
    tp_tensor *zero =
        rows ? tpi_all(at, v[0].dx, 0) : tp_scalar_like_at(at.file, at.line, v[0].dx, 0);
    int64_t shape[TP_MAX_RANK], end = 0;
    memcpy(shape, x->shape, sizeof shape);
    int n_pieces = 0;
    for (int k = 0; pieces && (end < size || k < n);) {
        const int64_t next = k < n ? v[k].at.lo : size;
        if (next == end) {
            end = v[k].at.hi;
            pieces[n_pieces++] = v[k++].dx;
            continue;
        }
        shape[axis] = next - end;
        pieces[n_pieces++] =
            rows ? zero : tp_broadcast_at(at.file, at.line, zero, x->rank, shape);
        end = rows ? end + 1 : next;
    }
    tp_tensor *y = !pieces ? NULL
                   : rows  ? tp_stack_at(at.file, at.line, n_pieces, pieces, 0)
                           : tp_concat_at(at.file, at.line, n_pieces, pieces, axis);
    tpi_give_back(m, pieces, bytes);
    return y;
}

static bool give_by_rule(tpi_sweep *s, int n, part *v)
{
    bool ok = true;
    qsort(v, (size_t)n, sizeof *v, newest_first);
    for (int i = 0; i < n && ok; i++)
        ok = tpi_sweep_rule(s, s->nodes.v[v[i].slot]);
    return ok;
}

/* One contribution of all. */
static bool give_parts(tpi_sweep *s, const tp_tensor *x, int slot, int n, part *v)
{
    const tp_tensor *oldest = s->nodes.v[s->met[slot]];
    const tpi_at at = TPI_AT(oldest->file, oldest->line);
    const bool rows = oldest->op->awaits;
    if (!sort_parts(n, v, rows ? NULL : s->grad[slot]) || (n == 1 && !rows))
        return give_by_rule(s, n, v);
    const int left = merge_parts(s, n, v);
    tp_tensor *dx = put_together(at, x, rows, left, v);
    if (!dx) {
        tpi_no_memory(s->ctx, s->at, "gradient");
        return false;
    }
    if (!rows && left > 1) /* each element gets +0 from the other ranges, so no -0 is left */
        dx = tp_add_at(at.file, at.line, dx, tp_scalar_like_at(at.file, at.line, dx, 0));
    tpi_ref(dx);
    tpi_sweep_fold(s, oldest, slot, dx);
    return true;
}

bool tpi_sweep_ranges(tpi_sweep *s, const tp_tensor *x, int slot)
{
    int n = 0;
    if (s->ranged[slot] > 0 && s->ranged[slot] & PLACES)
        return tpi_sweep_places(s, x, slot, (s->ranged[slot] & AXIS) - 1);
    for (int i = s->met[slot]; i >= 0; i = s->met[i])
        n++;
    const size_t bytes = (size_t)n * sizeof(part);
    part *v = tpi_take(&s->ctx->mem, bytes);
    if (!v || tp_scope_begin(s->ctx) != TP_OK) {
        tpi_give_back(&s->ctx->mem, v, bytes);
        tpi_no_memory(s->ctx, s->at, "gradient");
        return false;
    }
    for (int i = s->met[slot], k = 0; i >= 0; i = s->met[i], k++) {
        const tp_tensor *t = s->nodes.v[i];
        v[k] = (part){.slot = i, .dx = s->grad[i]};
        t->op->range(t, &v[k].at);
    }
    bool ok = !tpi_dim_is_symbolic(x->shape[v[0].at.axis]);
    if (ok)
        ok = give_parts(s, x, slot, n, v);
    else
        tpi_fail_status(
            s->ctx, s->at, "gradient", TP_E_SYMBOLIC,
            "the elements of %s, of which the number is not known, cannot be joined", SHAPE(x));
    s->met[slot] = -1;
    tp_scope_end(s->ctx);
    tpi_give_back(&s->ctx->mem, v, bytes);
    return ok;
}
