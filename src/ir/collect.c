/* Lists of tensors, and walks from what is asked for back to what it was computed from. */
#include "ir/graph_def.h"

#include <string.h>

void tpi_nodes_push(tpi_nodes *l, tp_tensor *t)
{
    tp_tensor **v = l->failed ? NULL
                    : l->room ? tpi_bump_grow(l->room, l->v, l->n, &l->size, sizeof *v)
                              : tpi_grow(&l->ctx->mem, l->v, l->n, &l->size, sizeof *v);
    l->failed = !v;
    if (!v)
        return;
    l->v = v;
    l->v[l->n++] = t;
}

void tpi_nodes_free(tpi_nodes *l)
{
    tpi_give_back(&l->ctx->mem, l->v, (size_t)l->size * sizeof *l->v);
    *l = (tpi_nodes){.ctx = l->ctx};
}

/* By seq. Walks meet nodes nearly in reverse order, so the list is turned first; then runs are
 * merged (at most as many passes as the list has bits). */
static bool sort_by_seq(tpi_nodes *l)
{
    for (int i = 0, j = l->n - 1; i < j; i++, j--) {
        tp_tensor *t = l->v[i];
        l->v[i] = l->v[j];
        l->v[j] = t;
    }
    bool sorted = true;
    for (int i = 1; i < l->n && sorted; i++)
        sorted = l->v[i - 1]->seq <= l->v[i]->seq;
    if (sorted)
        return true;
    const size_t bytes = (size_t)l->n * sizeof *l->v;
    tp_tensor **tmp = tpi_take(&l->ctx->mem, bytes);
    if (!tmp)
        return false;
    for (int width = 1; width < l->n; width *= 2) {
        for (int at = 0; at < l->n; at += 2 * width) {
            const int mid = at + width < l->n ? at + width : l->n;
            const int end = at + 2 * width < l->n ? at + 2 * width : l->n;
            int a = at, b = mid;
            for (int k = at; k < end; k++)
                tmp[k] = b >= end || (a < mid && l->v[a]->seq <= l->v[b]->seq) ? l->v[a++]
                                                                               : l->v[b++];
        }
        memcpy(l->v, tmp, bytes);
    }
    tpi_give_back(&l->ctx->mem, tmp, bytes);
    return true;
}

/* Marked is what is in the list, and nothing else, also when memory is out. */
static void take_once(tpi_nodes *out, tp_tensor *t)
{
    if (t->flags & TPI_MARK)
        return;
    tpi_nodes_push(out, t);
    if (!out->failed)
        t->flags |= TPI_MARK;
}

/* Does what stands for several nodes stay as it is? A result of a call does as long as the call is one node. */
static bool is_kept(const tpi_nodes *out, const tp_tensor *t)
{
    return t->op->awaits ? out->whole && t->in[t->op->awaits - 1]->op->joins : out->folded;
}

/* Takes what those in the list from `at` on were computed from; the list is the queue. */
static bool collect(tpi_nodes *out, int at, bool (*stop)(void *user, const tp_tensor *t),
                    void *user)
{
    for (; at < out->n; at++) {
        tp_tensor *t = out->v[at];
        if (!t->in || (t->op && t->op->kind == TPI_SOURCE) || (stop && stop(user, t)))
            continue;
        if (t->op && t->op->unfold && !is_kept(out, t) && !t->op->unfold(t)) {
            out->failed = true;
            break;
        }
        const int first = tpi_way_first(out->way, t);
        for (int i = tpi_way_end(out->way, t) - 1; i >= first; i--)
            take_once(out, t->in[i]);
    }
    for (int i = 0; i < out->n; i++)
        out->v[i]->flags &= (uint8_t)~TPI_MARK;
    return !out->failed && sort_by_seq(out);
}

bool tpi_collect(tpi_nodes *out, int n_roots, tp_tensor *const *roots,
                 bool (*stop)(void *user, const tp_tensor *t), void *user)
{
    for (int i = 0; i < n_roots; i++)
        take_once(out, roots[i]);
    return collect(out, 0, stop, user);
}

bool tpi_collect_from(tpi_nodes *out, int n_roots, tp_tensor *const *roots, int n_ends,
                      tp_tensor *const *ends)
{
    for (int i = 0; i < n_ends; i++)
        take_once(out, ends[i]);
    const int at = out->n;
    for (int i = 0; i < n_roots; i++)
        take_once(out, roots[i]);
    return collect(out, at, NULL, NULL);
}
