/* One pass over a graph: see pass.h. */
#include "pass/pass.h"

#include "op/op.h"
#include "pass/bodies.h"

#include <string.h>

tp_tensor *tpi_rewrite_const(tpi_rewrite *rw, const tp_tensor *like, tp_tensor *concrete)
{
    return tpi_graph_constant(rw->to, TPI_AT(like->file, like->line), concrete);
}

tp_tensor *tpi_rewrite_node(tpi_rewrite *rw, const tp_tensor *node, const tpi_op *op, int n_in,
                            tp_tensor *const *in, const void *attrs)
{
    return tpi_graph_node(rw->to, TPI_AT(node->file, node->line), op, n_in, in, attrs,
                          (tp_dtype)node->dtype, node->rank, node->shape);
}

tp_tensor *tpi_rewrite_source(tp_graph *to, tpi_at at, const tp_tensor *node)
{
    if (to->parent) /* lifting would ask what it is to the graphs around */
        return tpi_graph_node(to, at, node->op, 1, node->in, NULL, (tp_dtype)node->dtype,
                              node->rank, node->shape);
    return tpi_graph_lift(to, at, node->in[0]);
}

tp_graph *tpi_program_graph(tp_ctx *ctx)
{
    tp_graph *g = tp_graph_new(ctx);
    if (g)
        tpi_object_remove(&g->owned);
    return g;
}

/* A pass over one graph, and over the bodies in it, which have states of their own. */
typedef struct rewriting {
    const tpi_pass *pass;
    tpi_rewrite *rw;        /* of the innermost graph */
    tpi_rewrites *rewrites; /* NULL: all are done */
    int n_changes;          /* of those that are done */
} rewriting;

typedef struct entered {
    tpi_rewrite rw, *outer;
} entered;

static tp_tensor *keep(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    if (t->op->kind == TPI_SOURCE && t->n_in)
        return tpi_rewrite_source(rw->to, TPI_AT(t->file, t->line), t);
    return tpi_rewrite_node(rw, t, t->op, t->n_in, in, t->attrs);
}

static bool same_shape(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, sizeof(int64_t) * a->rank) == 0;
}

static tp_tensor *rewrite_one(void *user, tp_graph *to, const tp_tensor *t,
                              tp_tensor *const *in)
{
    rewriting *r = user;
    tpi_rewrite *rw = r->rw;
    tpi_rewrites *limit = r->rewrites;
    const bool may = !limit || limit->n < limit->most;
    tp_tensor *made = may ? r->pass->visit(rw, t, in) : NULL;
    if (made) {
        rw->n_changes++;
        if (limit)
            *limit = (tpi_rewrites){limit->most, limit->n + 1, t->op->name,
                                    TPI_AT(t->file, t->line)};
        if (made->status == TP_OK && !same_shape(made, t))
            made = tpi_fail(rw->ctx, TPI_AT(t->file, t->line), r->pass->name, TP_E_BUG,
                            "%s changed type or shape", t->op->name);
    } else {
        made = keep(rw, t, in);
    }
    return tpi_graph_named(to, made, t->name);
}

static tpi_at same_place(void *user, const tp_tensor *t)
{
    (void)user;
    return TPI_AT(t->file, t->line);
}

static bool same_sizes(void *user, int64_t n, const int64_t *from, int64_t *to)
{
    (void)user;
    memmove(to, from, (size_t)n * sizeof *to);
    return true;
}

static bool begin_rewrite(tpi_rewrite *rw, const tpi_pass *pass, tpi_bump *memory, tp_graph *to)
{
    *rw = (tpi_rewrite){.ctx = to->ctx, .to = to, .memory = memory};
    rw->state = tpi_bump_take(memory, 1, pass->state_size);
    return rw->state;
}

static void *enter_body(void *user, tp_graph *to)
{
    rewriting *r = user;
    tpi_bump *memory = r->rw->memory;
    entered *e = tpi_bump_take(memory, 1, sizeof *e);
    if (!e || !begin_rewrite(&e->rw, r->pass, memory, to))
        return NULL;
    e->outer = r->rw;
    r->rw = &e->rw;
    return e;
}

static void leave_body(void *user, void *of)
{
    rewriting *r = user;
    entered *e = of;
    r->n_changes += e->rw.n_changes;
    r->rw = e->outer;
}

/* Table of sizes and file names change hands. */
static void take_over(tp_graph *to, tp_graph *from)
{
    tpi_dims *dims = to->dims;
    to->dims = from->dims;
    from->dims = dims;
    char **strings = to->strings;
    const int n_strings = to->n_strings;
    to->strings = from->strings, to->n_strings = from->n_strings;
    from->strings = strings, from->n_strings = n_strings;
    to->own_bytes = from->own_bytes;
    to->may_fold = from->may_fold;
    to->was_folded = from->was_folded;
}

tp_tensor *tpi_keep_node(tpi_rewrite *rw, const tp_tensor *node, tp_tensor *const *in)
{
    (void)rw, (void)node, (void)in;
    return NULL;
}

bool tpi_each_body(tp_graph *g, int n, bool (*change)(tp_graph *g, int *n_changes),
                   int *n_changes)
{
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        tpi_body *bodies[2];
        const int n_bodies = tpi_is_block(g->nodes[i]) ? tpi_bodies_of(g->nodes[i], bodies) : 0;
        for (int k = 0; k < n_bodies && ok; k++)
            ok = change(bodies[k]->graph, n_changes);
    }
    return ok;
}

bool tpi_change_graph(const char *name, bool (*change)(tp_graph *g, int *n_changes),
                      tp_graph *g, int *n_changes)
{
    if (!change)
        return true;
    bool ok = tp_scope_begin(g->ctx) == TP_OK;
    if (ok) {
        ok = change(g, n_changes);
        tp_scope_end(g->ctx);
    }
    if (!ok && g->ctx->status == TP_OK)
        tpi_no_memory(g->ctx, TPI_AT(NULL, 0), name);
    return ok;
}

/* The rewritten graph takes over g's table of sizes. */
tp_graph *tpi_run_pass(tp_graph *g, const tpi_pass *pass, tpi_rewrites *rewrites, int n_feeds,
                       tp_tensor **feeds, int n_roots, tp_tensor **roots, int *n_changes)
{
    tp_ctx *ctx = g->ctx;
    tpi_rewrite rw = {.ctx = ctx,
                      .to = tpi_change_graph(pass->name, pass->prepare, g, n_changes)
                                ? tpi_program_graph(ctx)
                                : NULL};
    if (!rw.to) {
        tp_graph_free(g);
        return NULL;
    }
    take_over(rw.to, g);
    tpi_bump memory = TPI_BUMP(&ctx->mem);
    rewriting r = {.pass = pass, .rw = &rw, .rewrites = rewrites};
    tpi_copier copier = {.ctx = ctx,
                         .memory = &memory,
                         .user = &r,
                         .place = same_place,
                         .sizes = same_sizes,
                         .node = rewrite_one,
                         .enter = enter_body,
                         .leave = leave_body};
    tpi_nodes nodes = {.ctx = ctx, .room = &memory};
    bool ok =
        begin_rewrite(&rw, pass, &memory, rw.to) && tpi_collect_run(&nodes, g, n_roots, roots);
    if (!ok)
        tpi_no_memory(ctx, TPI_AT(NULL, 0), pass->name);
    ok = ok &&
         tpi_copy_graph(&copier, pass->name, &nodes, g, rw.to, n_feeds, feeds, n_roots, roots);
    tpi_bump_free(&memory);
    tp_graph_free(g);
    *n_changes += rw.n_changes + r.n_changes + copier.n_changes;
    if (ok)
        return rw.to;
    tp_graph_free(rw.to);
    return NULL;
}
