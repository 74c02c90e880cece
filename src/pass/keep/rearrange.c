/* What a memory limit changes in a graph (plan/budget.c says what): nodes stand in another order,
 * and some are computed once more, for those that read them late.
 *
 *     %4 = relu %3, ... much else ..., %90 = mul %89 %4
 *  -> %4 = relu %3, ... much else ..., %90 = relu %3, %91 = mul %89 %90 */
#include "pass/keep/rearrange.h"

#include "op/op.h"

#include <string.h>

typedef struct rearranging {
    const tpi_rearrangement *r;
    tp_graph *g;
    int n;            /* nodes that there were; the copies are behind them */
    tp_tensor **copy; /* by node: NULL: none */
    int64_t *key;     /* by node, copies among them */
} rearranging;

static bool copy_nodes(const rearranging *a)
{
    bool ok = true;
    for (int i = 0; i < a->n && ok; i++) {
        const tp_tensor *t = a->g->nodes[i];
        tpi_nodes in = {.ctx = a->g->ctx};
        if (!a->r->again || !a->r->again[i])
            continue;
        for (int k = 0; k < t->n_in; k++) {
            tp_tensor *copy = a->copy[t->in[k]->index];
            tpi_nodes_push(&in, copy ? copy : t->in[k]);
        }
        tp_tensor *made =
            in.failed ? &a->g->ctx->nil
                      : tpi_graph_node(a->g, TPI_AT(t->file, t->line), t->op, t->n_in, in.v,
                                       t->attrs, (tp_dtype)t->dtype, t->rank, t->shape);
        ok = made->status == TP_OK;
        a->copy[i] = made;
        tpi_nodes_free(&in);
    }
    return ok;
}

/* Late readers take the copies. */
static void redirect(const rearranging *a)
{
    for (int i = 0; i < a->n; i++) {
        tp_tensor *t = a->g->nodes[i];
        for (int k = 0; k < t->n_in && a->r->late[i] && t->op->kind != TPI_SOURCE; k++) {
            tp_tensor *copy = a->copy[t->in[k]->index];
            if (!copy)
                continue;
            tpi_ref(copy);
            tpi_unref(t->in[k]);
            t->in[k] = copy;
        }
    }
}

/* What is read comes before who reads it, whatever the keys say. */
static void keep_order(const rearranging *a, const tp_tensor *reader)
{
    for (int k = 0; k < reader->n_in && reader->op->kind != TPI_SOURCE; k++) {
        int64_t *key = &a->key[reader->in[k]->index];
        *key = *key < a->key[reader->index] ? *key : a->key[reader->index];
    }
}

/* By key, then as the nodes were, a copy behind what it is of. */
static void put_in_order(const rearranging *a)
{
    const uint64_t first = a->g->ctx->seq, each = 2 * (uint64_t)a->n;
    for (int i = a->n - 1; i >= 0; i--) {
        if (a->copy[i])
            keep_order(a, a->copy[i]);
        keep_order(a, a->g->nodes[i]);
    }
    for (int i = 0; i < 2 * a->n; i++) {
        tp_tensor *t = i % 2 ? a->copy[i / 2] : a->g->nodes[i / 2];
        if (!t)
            continue;
        t->seq = first + (uint64_t)a->key[t->index] * each + (uint64_t)i;
        a->g->ctx->seq = t->seq >= a->g->ctx->seq ? t->seq + 1 : a->g->ctx->seq;
    }
}

bool tpi_rearrange(tp_graph *g, const tpi_rearrangement *r)
{
    tpi_mem *m = &g->ctx->mem;
    const size_t n = (size_t)g->n_nodes,
                 bytes = n * (sizeof(tp_tensor *) + 2 * sizeof(int64_t));
    rearranging a = {.r = r, .g = g, .n = g->n_nodes, .copy = tpi_take(m, bytes)};
    bool ok = a.copy && tp_scope_begin(g->ctx) == TP_OK;
    if (ok) {
        memset(a.copy, 0, n * sizeof *a.copy);
        a.key = (int64_t *)(a.copy + n);
        for (size_t i = 0; i < 2 * n; i++)
            a.key[i] = i < n ? r->key[i] : r->again_key;
        ok = copy_nodes(&a);
        if (ok) {
            redirect(&a);
            put_in_order(&a);
        }
        tp_scope_end(g->ctx);
    }
    tpi_give_back(m, a.copy, bytes);
    return ok;
}
