#include "pass/keep/copies.h"

#include "pass/bodies.h"

static bool read_copies(tpi_copies *a, const tp_tensor *reader, tp_tensor *t, int part,
                        int *n_changes);

/* What the reader reads instead of x; NULL: failed. */
static tp_tensor *copy_for(tpi_copies *a, const tp_tensor *reader, tp_tensor *x, int part)
{
    const int i = x->index;
    if (i >= a->n || !a->wants(a->user, reader, x, part))
        return x;
    if (a->made[i] && a->made_in[i] == part)
        return a->made[i];
    tp_tensor *made = tpi_graph_node(a->g, TPI_AT(x->file, x->line), x->op, x->n_in, x->in,
                                     x->attrs, (tp_dtype)x->dtype, x->rank, x->shape);
    if (made->status != TP_OK)
        return NULL;
    made->seq = x->seq;
    a->made[i] = made;
    a->made_in[i] = part;
    int unused = 0;
    return read_copies(a, x, made, part, &unused) ? made : NULL;
}

/* t, which is the reader or a copy of it, reads copies where it can. */
static bool read_copies(tpi_copies *a, const tp_tensor *reader, tp_tensor *t, int part,
                        int *n_changes)
{
    for (int k = 0; k < t->n_in; k++) {
        tp_tensor *x = copy_for(a, reader, t->in[k], part);
        if (!x)
            return false;
        *n_changes += x != t->in[k];
        tpi_replace_operand(t, k, x);
    }
    return true;
}

bool tpi_copies_make(tpi_copies *a, int *n_changes)
{
    a->n = a->g->n_nodes;
    a->made = tpi_bump_take(a->memory, (size_t)a->n, sizeof *a->made);
    a->made_in = tpi_bump_take(a->memory, (size_t)a->n, sizeof *a->made_in);
    bool ok = a->made_in;
    for (int i = a->n - 1; i >= 0 && ok; i--) { /* what is copied reads no copies yet */
        tp_tensor *t = a->g->nodes[i];
        ok = t->op->kind == TPI_SOURCE || read_copies(a, t, t, a->part(a->user, t), n_changes);
    }
    return ok;
}
