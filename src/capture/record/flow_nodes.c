/* Flows: their nodes and edges, and what a trace does beside them. */
#include "capture/record/flow.h"
#include "op/random_position.h"

#include <string.h>

static bool same_bytes(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && tpi_same_shape(a, b) &&
           memcmp(a->data, b->data, tpi_bytes(a)) == 0;
}

int tpi_flow_extern(const tpi_flow *w, const tpi_origin *o)
{
    for (int i = 0; i < w->n_externs; i++) {
        const tpi_extern *e = &w->externs[i];
        if (e->from != o->from)
            continue;
        if (e->from == TPI_FROM_ARG     ? e->arg == o->arg
            : e->from == TPI_FROM_STATE ? e->tensor == o->tensor
                                        : same_bytes(e->tensor, o->tensor))
            return i;
    }
    return -1;
}

tpi_edge *tpi_flow_edge(const tpi_node *n, const char *seen, int size)
{
    for (int i = 0; i < n->n_edges; i++)
        if (n->edges[i].size == size && memcmp(n->edges[i].seen, seen, (size_t)size) == 0)
            return &n->edges[i];
    return NULL;
}

tpi_edge *tpi_flow_edge_behind(const tpi_flow *w, int node, const tpi_trace *t, int i)
{
    const tpi_node *n = &w->nodes[node];
    if (n->kind != TPI_STEP_LOOK)
        return n->n_edges ? &n->edges[0] : NULL;
    return tpi_flow_edge(n, t->items[i].seen, t->items[i].size);
}

static bool same_place(tpi_at a, tpi_at b)
{
    return a.line == b.line &&
           (a.file == b.file || (a.file && b.file && strcmp(a.file, b.file) == 0));
}

static bool same_attrs(const tpi_op *op, const void *a, const void *b)
{
    if (!tpi_is_draw(op))
        return !op->attrs_size || memcmp(a, b, op->attrs_size) == 0;
    tpi_random_attrs x = *(const tpi_random_attrs *)a; /* drawn from where the context is */
    const tpi_random_attrs *y = b;
    x.seed = y->seed;
    x.at = y->at;
    return memcmp(&x, y, sizeof x) == 0;
}

static tpi_value_form form_of(const tpi_flow *w, const tpi_trace *t, tpi_code c)
{
    if (c >= 0)
        return (tpi_value_form){t->items[c].dtype, t->items[c].rank, t->items[c].shape};
    const tp_tensor *x = w->externs[~c].tensor;
    return (tpi_value_form){x->dtype, x->rank, x->shape};
}

tpi_value_form tpi_flow_operand_form(const tpi_flow *w, const tpi_node *n, int k)
{
    return form_of(w, n->trace, tpi_item_in(n->trace, n->item)[k]);
}

/* A program is made for the sizes of its operands, which those of its results do not tell (a sum). */
bool tpi_same_form(tpi_value_form a, tpi_value_form b)
{
    return a.dtype == b.dtype && a.rank == b.rank &&
           memcmp(a.shape, b.shape, sizeof(int64_t) * a.rank) == 0;
}

bool tpi_flow_same(const tpi_flow *w, const tpi_node *n, const tpi_trace *t, const tpi_item *x)
{
    if (n->hash != x->hash || n->kind != x->kind || n->op != x->op || n->n_in != x->n_in ||
        n->look != x->look || n->dtype != x->dtype || n->rank != x->rank ||
        !same_place(n->at, x->at) ||
        memcmp(n->item->shape, x->shape, sizeof(int64_t) * x->rank) != 0)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const tpi_code c = tpi_item_in(t, x)[k];
        if (c < 0 && n->in[k].outside != TPI_NO_EXTERN && n->in[k].outside != ~c)
            return false;
        if (!tpi_same_form(tpi_flow_operand_form(w, n, k), form_of(w, t, c)))
            return false;
    }
    if (x->kind == TPI_STEP_RETURN)
        return memcmp(n->item->seen, x->seen, (size_t)x->n_in) == 0;
    return x->kind != TPI_STEP_OP || same_attrs(x->op, n->attrs, x->attrs);
}
