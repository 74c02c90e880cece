/* Cheap values are computed again where they are read, instead of lying in memory until then.
 *
 *     %2 = add %p, %b        %3 = tanh %2       ...       %9 = mul %dy, %2
 *  -> %2 = add %p, %b        %3 = tanh %2       ...       %8 = add %p, %b    %9 = mul %dy, %8
 *
 * where %p is a product, which lies in memory anyway, and so do the products between the two: a loop
 * nest that makes %3 cannot be the one that makes %9. Gradients read much of what the way forward
 * computed; what of it costs an addition or two is thus neither written nor read. What is made again
 * reads one value of its own shape, and the rest are smaller ones (numbers, means, a bias).
 *
 * Where nodes could share a nest is told by their level: how many kernels that are no loop nests
 * are on the way to them. */
#include "ir/body.h"
#include "op/op.h"
#include "pass/pass.h"

#include <string.h>

enum { MOST_OPS = 8 };

typedef struct remake {
    tp_graph *g;
    int n; /* nodes of g, before any is added */
    int *level;
    bool *kept;       /* has memory: an operand of what is no loop nest */
    tp_tensor **made; /* what a node is at the level of `at` */
    int *at;
} remake;

/* Levels, and what has memory however it is read. */
static void look(remake *r)
{
    for (int i = 0; i < r->n; i++) {
        const tp_tensor *t = r->g->nodes[i];
        const bool loop = tpi_is_loop_op(t), moves = t->op->kind == TPI_VIEW;
        for (int k = 0; k < t->n_in && t->op->kind != TPI_SOURCE; k++) {
            const int x = t->in[k]->index;
            r->level[i] = r->level[x] > r->level[i] ? r->level[x] : r->level[i];
            r->kept[x] |= !loop;
        }
        r->level[i] += !loop && !moves && t->op->kind != TPI_SOURCE && t->op->kind != TPI_SHAPE;
    }
}

/* Can it be made of one value in memory? *from: that one; *n_ops counts. */
static bool can_remake(const remake *r, tp_tensor *t, int level, tp_tensor **from, int *n_ops)
{
    const int i = t->index;
    if (t->op->kind != TPI_ELEMENT || t->op->effort != TPI_CHEAP || t->op == &tpi_op_cast ||
        r->kept[i] || r->level[i] >= level || t->name || ++*n_ops > MOST_OPS)
        return false;
    for (int k = 0; k < t->n_in; k++) {
        tp_tensor *x = t->in[k], *before = *from;
        const int ops = *n_ops;
        if (!tpi_same_shape(x, t) || can_remake(r, x, level, from, n_ops))
            continue;
        *from = before, *n_ops = ops;
        if ((*from && *from != x) ||
            tp_dtype_size((tp_dtype)x->dtype) > tp_dtype_size((tp_dtype)t->dtype))
            return false;
        *from = x;
    }
    return true;
}

static tp_tensor *remade(remake *r, tp_tensor *t, int level)
{
    const int i = t->index;
    tp_tensor *from = NULL, *in[3];
    int n_ops = 0;
    if (i >= r->n || !can_remake(r, t, level, &from, &n_ops))
        return t;
    if (r->made[i] && r->at[i] == level)
        return r->made[i];
    for (int k = 0; k < t->n_in; k++)
        in[k] = tpi_same_shape(t->in[k], t) ? remade(r, t->in[k], level) : t->in[k];
    tpi_rewrite rw = {.ctx = r->g->ctx, .to = r->g};
    tp_tensor *made = tpi_rewrite_node(&rw, t, t->op, t->n_in, in, t->attrs);
    if (made->status == TP_OK) {
        made->seq = t->seq;
        r->made[i] = made;
        r->at[i] = level;
    }
    return made;
}

static bool remake_nodes(remake *r, int *n_changes)
{
    look(r);
    for (int i = r->n - 1; i >= 0; i--) { /* what is made again reads nothing that is */
        tp_tensor *t = r->g->nodes[i];
        for (int k = 0; k < t->n_in && tpi_is_loop_op(t); k++) {
            tp_tensor *x = remade(r, t->in[k], r->level[i]);
            if (x->status != TP_OK)
                return false;
            if (x == t->in[k])
                continue;
            tpi_ref(x);
            tpi_unref(t->in[k]);
            t->in[k] = x;
            ++*n_changes;
        }
    }
    return true;
}

/* Bodies last, as in restack.c. */
static bool remake_graph(tp_graph *g, int *n_changes)
{
    if (!g->n_nodes)
        return true;
    tpi_mem *m = &g->ctx->mem;
    const size_t n = (size_t)g->n_nodes;
    const size_t bytes = n * (sizeof(tp_tensor *) + 2 * sizeof(int) + sizeof(bool));
    remake r = {.g = g, .n = g->n_nodes, .made = tpi_take(m, bytes)};
    bool ok = r.made;
    if (ok) {
        memset(r.made, 0, bytes);
        r.level = (int *)(r.made + n);
        r.at = r.level + n;
        r.kept = (bool *)(r.at + n);
        ok = remake_nodes(&r, n_changes);
    }
    tpi_give_back(m, r.made, bytes);
    return ok && tpi_each_body(g, (int)n, remake_graph, n_changes);
}

const tpi_pass tpi_pass_remake = {.name = "remake",
                                  .about = "cheap values are computed where they are read",
                                  .prepare = remake_graph,
                                  .visit = tpi_keep_node,
                                  .state_size = 1};
