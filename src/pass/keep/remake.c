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
#include "pass/keep/copies.h"
#include "pass/pass.h"

enum { MOST_OPS = 8 };

typedef struct remake {
    const tp_graph *g;
    int *level; /* by node */
    bool *kept; /* by node: has memory, as an operand of what is no loop nest */
} remake;

/* Levels, and what has memory however it is read. */
static void look(remake *r)
{
    for (int i = 0; i < r->g->n_nodes; i++) {
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
static bool can_remake(const remake *r, const tp_tensor *t, int level, const tp_tensor **from,
                       int *n_ops)
{
    const int i = t->index;
    if (t->op->kind != TPI_ELEMENT || t->op->effort != TPI_CHEAP || tpi_retypes(t->op) ||
        r->kept[i] || r->level[i] >= level || t->name || ++*n_ops > MOST_OPS)
        return false;
    for (int k = 0; k < t->n_in; k++) {
        const tp_tensor *x = t->in[k], *before = *from;
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

static int level_of(void *user, const tp_tensor *t)
{
    return ((const remake *)user)->level[t->index];
}

/* What is made again reads what is of its own shape. */
static bool wants(void *user, const tp_tensor *reader, const tp_tensor *x, int level)
{
    const remake *r = user;
    const tp_tensor *from = NULL;
    int n_ops = 0;
    return tpi_is_loop_op(reader) &&
           (r->level[reader->index] == level || tpi_same_shape(x, reader)) &&
           can_remake(r, x, level, &from, &n_ops);
}

/* Bodies last, as in restack.c. */
static bool remake_graph(tp_graph *g, int *n_changes)
{
    const int n = g->n_nodes;
    tpi_bump memory = TPI_BUMP(&g->ctx->mem);
    remake r = {.g = g, .level = tpi_bump_take(&memory, (size_t)n, sizeof *r.level)};
    r.kept = tpi_bump_take(&memory, (size_t)n, sizeof *r.kept);
    bool ok = r.kept;
    if (ok) {
        look(&r);
        tpi_copies a = {
            .memory = &memory, .g = g, .user = &r, .part = level_of, .wants = wants};
        ok = tpi_copies_make(&a, n_changes);
    }
    tpi_bump_free(&memory);
    return ok && tpi_each_body(g, n, remake_graph, n_changes);
}

const tpi_pass tpi_pass_remake = {.name = "remake",
                                  .about = "cheap values are computed where they are read",
                                  .prepare = remake_graph,
                                  .visit = tpi_keep_node};
