/* What a memory limit changes in a graph (plan/budget.c says what): nodes stand in another order,
 * and some are computed once more, for those that read them late.
 *
 *     %4 = relu %3, ... much else ..., %90 = mul %89 %4
 *  -> %4 = relu %3, ... much else ..., %90 = relu %3, %91 = mul %89 %90 */
#include "pass/keep/rearrange.h"

#include "op/op.h"

#include <stdlib.h>
#include <string.h>

/* Nodes and copies, in an order in which operands come first: by index, copies behind what they are
 * of. */
typedef struct item {
    int node, copy; /* -1: it is the node itself */
    int64_t key;
} item;

typedef struct rearranging {
    const tpi_rearrangement *r;
    tp_graph *g;
    int n;        /* nodes that there were */
    int *copy_of; /* by node: which of r->again it is; -1 */
    int *place;   /* items by node; copies behind the nodes */
    item *items;
    int n_items;
} rearranging;

static int by_key(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->node != y->node)
        return x->node - y->node;
    return (x->copy >= 0) - (y->copy >= 0);
}

/* The item that `t`, or its copy, reads as operand k. */
static int item_read(const rearranging *a, const item *reader, int k)
{
    const tp_tensor *t = a->g->nodes[reader->node];
    const int x = t->in[k]->index, copy = a->copy_of[x];
    const bool late = reader->copy >= 0 || a->r->late[reader->node];
    return a->place[copy >= 0 && late ? a->n + copy : x];
}

/* What is read comes before who reads it, whatever the keys say. */
static void keep_order(rearranging *a)
{
    for (int i = a->n_items - 1; i >= 0; i--) {
        const item *reader = &a->items[i];
        const tp_tensor *t = a->g->nodes[reader->node];
        for (int k = 0; k < t->n_in && t->op->kind != TPI_SOURCE; k++) {
            item *x = &a->items[item_read(a, reader, k)];
            x->key = x->key < reader->key ? x->key : reader->key;
        }
    }
}

static void make_items(rearranging *a)
{
    for (int i = 0; i < a->n; i++) {
        a->place[i] = a->n_items;
        a->items[a->n_items++] = (item){.node = i, .copy = -1, .key = a->r->key[i]};
        const int copy = a->copy_of[i];
        if (copy < 0)
            continue;
        a->place[a->n + copy] = a->n_items;
        a->items[a->n_items++] = (item){.node = i, .copy = copy, .key = a->r->again_key};
    }
    keep_order(a);
}

static bool copy_nodes(const rearranging *a, tp_tensor **copies)
{
    bool ok = true;
    for (int c = 0; c < a->r->n_again && ok; c++) {
        const tp_tensor *t = a->g->nodes[a->r->again[c]];
        tpi_nodes in = {.ctx = a->g->ctx};
        for (int k = 0; k < t->n_in; k++) {
            const int other = a->copy_of[t->in[k]->index];
            tpi_nodes_push(&in, other >= 0 ? copies[other] : t->in[k]);
        }
        copies[c] = in.failed
                        ? NULL
                        : tpi_graph_node(a->g, TPI_AT(t->file, t->line), t->op, t->n_in, in.v,
                                         t->attrs, (tp_dtype)t->dtype, t->rank, t->shape);
        ok = copies[c] && copies[c]->status == TP_OK;
        tpi_nodes_free(&in);
    }
    return ok;
}

/* Late readers take the copies. */
static void redirect(const rearranging *a, tp_tensor *const *copies)
{
    for (int i = 0; i < a->n; i++) {
        tp_tensor *t = a->g->nodes[i];
        for (int k = 0; k < t->n_in && a->r->late[i] && t->op->kind != TPI_SOURCE; k++) {
            const int c = a->copy_of[t->in[k]->index];
            if (c < 0)
                continue;
            tpi_ref(copies[c]);
            tpi_unref(t->in[k]);
            t->in[k] = copies[c];
        }
    }
}

static bool change(rearranging *a)
{
    tpi_mem *m = &a->g->ctx->mem;
    const size_t bytes = (size_t)a->r->n_again * sizeof(tp_tensor *);
    tp_tensor **copies = tpi_take(m, bytes);
    make_items(a);
    const bool ok = copies && copy_nodes(a, copies);
    if (ok) {
        redirect(a, copies);
        qsort(a->items, (size_t)a->n_items, sizeof *a->items, by_key);
        for (int i = 0; i < a->n_items; i++) {
            const item *x = &a->items[i];
            tp_tensor *t = x->copy >= 0 ? copies[x->copy] : a->g->nodes[x->node];
            t->seq = a->g->ctx->seq++;
        }
    }
    tpi_give_back(m, copies, bytes);
    return ok;
}

bool tpi_rearrange(tp_graph *g, const tpi_rearrangement *r)
{
    tpi_mem *m = &g->ctx->mem;
    const size_t n = (size_t)g->n_nodes, all = n + (size_t)r->n_again;
    rearranging a = {.r = r, .g = g, .n = g->n_nodes};
    a.copy_of = tpi_take(m, n * sizeof *a.copy_of);
    a.place = tpi_take(m, all * sizeof *a.place);
    a.items = tpi_take(m, all * sizeof *a.items);
    bool ok = a.copy_of && a.place && a.items && tp_scope_begin(g->ctx) == TP_OK;
    if (ok) {
        for (size_t i = 0; i < n; i++)
            a.copy_of[i] = -1;
        for (int c = 0; c < r->n_again; c++)
            a.copy_of[r->again[c]] = c;
        ok = change(&a);
        tp_scope_end(g->ctx);
    }
    tpi_give_back(m, a.copy_of, n * sizeof *a.copy_of);
    tpi_give_back(m, a.place, all * sizeof *a.place);
    tpi_give_back(m, a.items, all * sizeof *a.items);
    return ok;
}
