#include "pass/pass.h"

#include "ir/check.h"
#include "op/op.h"

#include <string.h>

static const tpi_pass *const passes[] = {
    &tpi_pass_restack, &tpi_pass_checkpoint, &tpi_pass_hoist,
    &tpi_pass_fold,    &tpi_pass_algebra,    &tpi_pass_cse,
    &tpi_pass_sparse,  &tpi_pass_pick,       NULL};
enum { MAX_ROUNDS = 8 };

bool tpi_list_has(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *p = list; p && *p;) {
        const size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, name, len) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

/* fuse and bands are the plan's (plan/plan.c, steps.c) */
const char tpi_pass_names[] =
    "restack,checkpoint,hoist,fold,algebra,cse,sparse,pick,remake,fuse,bands";

static const char no_pass[] = "prune"; /* as a pass to stop after */
const char tpi_stop_names[] =
    "prune,restack,checkpoint,hoist,fold,algebra,cse,sparse,pick,remake";

bool tpi_is_stop(const char *name)
{
    return !strchr(name, ',') && tpi_list_has(tpi_stop_names, name);
}

const char *tpi_unknown_pass(const char *list)
{
    for (const char *p = list; p && *p;) {
        const size_t n = strcspn(p, ",");
        char name[16] = "";
        if (n < sizeof name)
            memcpy(name, p, n);
        if (!tpi_list_has(tpi_pass_names, name))
            return p;
        p += n + (p[n] == ',');
    }
    return NULL;
}

tp_tensor *tpi_rewrite_const(tpi_rewrite *rw, const tp_tensor *like, tp_tensor *concrete)
{
    if (rw->to->parent && !(concrete->flags & TPI_VARIABLE))
        return tpi_graph_node(rw->to, TPI_AT(like->file, like->line), &tpi_op_const, 1,
                              &concrete, NULL, (tp_dtype)concrete->dtype, concrete->rank,
                              concrete->shape);
    return tpi_graph_lift(rw->to, TPI_AT(like->file, like->line), concrete);
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

/* A graph that whoever makes it owns, not the context. */
static tp_graph *new_graph(tp_ctx *ctx)
{
    tp_graph *g = tp_graph_new(ctx);
    if (g)
        tpi_object_remove(&g->owned);
    return g;
}

static tp_graph *no_graph(tp_graph *g)
{
    tp_graph_free(g);
    return NULL;
}

/* ---- pruning ---------------------------------------------------------------------------------- */

typedef struct import {
    tp_graph *from, *to; /* not the bodies in them */
    bool freeze;
    int n_feeds;
    tp_tensor **feeds;
} import;

static bool is_fed(void *user, const tp_tensor *t)
{
    const import *im = user;
    for (int i = 0; i < im->n_feeds; i++)
        if (im->feeds[i] == t)
            return true;
    return false;
}

static bool import_sizes(void *user, int64_t n, const int64_t *from, int64_t *to)
{
    const import *im = user;
    for (int64_t i = 0; i < n; i++) {
        to[i] = from[i];
        if (tpi_dim_is_symbolic(from[i])) {
            to[i] = tpi_dim_import(im->to->dims, im->from->dims, from[i]);
            if (to[i] == TPI_NO_DIM)
                return false;
        }
    }
    return true;
}

/* File names are the new graph's, for those inside its bodies too. */
static tpi_at import_place(void *user, const tp_tensor *t)
{
    const import *im = user;
    const char *file = t->file ? tpi_graph_intern(im->to, t->file, strlen(t->file)) : NULL;
    return TPI_AT(file, t->line);
}

/* The attributes of a node with their symbolic sizes in the new table. */
static bool import_attrs(import *im, const tp_tensor *node, void *attrs)
{
    if (node->op->attrs_size)
        memcpy(attrs, node->attrs, node->op->attrs_size);
    for (const tpi_attr *a = node->op->attrs; a && a->name; a++) {
        char *p = (char *)attrs + a->offset;
        int64_t n = 1, *v = (int64_t *)(void *)p;
        if (a->type == TPI_ATTR_DIMS) {
            n = v[0];
            v++;
        } else if (a->type != TPI_ATTR_DIM) {
            continue;
        }
        if (!import_sizes(im, n, v, v))
            return false;
    }
    return true;
}

/* A constant in the memory of the variable, which is lent until it is written. */
static tp_tensor *frozen(tp_graph *to, tpi_at at, const tp_tensor *node)
{
    tp_tensor *variable = node->in[0];
    tp_tensor *value =
        tpi_tensor(to->ctx, at, (tp_dtype)variable->dtype, variable->rank, variable->shape);
    const bool shares = variable->buf->size && variable->flags & TPI_CONTIGUOUS;
    if (!value || (!shares && !tpi_tensor_alloc(value)))
        return tpi_no_memory(to->ctx, at, "compile");
    if (shares) {
        tpi_set_strides(value);
        tpi_tensor_share(value, variable, 0);
        value->flags &= (uint8_t)~TPI_VARIABLE;
        value->buf->lent = true;
    } else {
        tpi_copy_out(variable, value->data);
    }
    return tpi_graph_named(to, tpi_graph_lift(to, at, value), node->name);
}

static tp_tensor *import_node(void *user, tp_graph *to, const tp_tensor *node,
                              tp_tensor *const *in)
{
    import *im = user;
    tp_ctx *ctx = to->ctx;
    const tpi_at at = import_place(im, node);
    const bool fed = is_fed(im, node);
    if (!fed && node->op == &tpi_op_variable && im->freeze)
        return frozen(to, at, node);
    if (!fed && node->op->kind == TPI_SOURCE && node->n_in)
        return tpi_rewrite_source(to, at, node);
    if (!fed && node->op == &tpi_op_result) /* calls are for gradients, which have been taken */
        return tpi_graph_named(to, in[0], node->name);
    int64_t shape[TP_MAX_RANK];
    _Alignas(8) char attrs[1024];
    if (node->op->attrs_size > sizeof attrs)
        return tpi_fail(ctx, at, node->op->name, TP_E_BUG, "attributes of %zu bytes",
                        node->op->attrs_size);
    if (!import_sizes(im, node->rank, node->shape, shape) || !import_attrs(im, node, attrs))
        return tpi_no_memory(ctx, at, node->op->name);
    const tpi_op *op = fed ? &tpi_op_placeholder : node->op;
    if (op == &tpi_op_call) /* fetched: a program knows no calls */
        op = &tpi_op_group;
    tp_tensor *t = tpi_graph_node(to, at, op, fed ? 0 : node->n_in, in, attrs,
                                  (tp_dtype)node->dtype, node->rank, shape);
    return tpi_graph_named(to, t, node->name);
}

static void *import_enter(void *user, tp_graph *to)
{
    (void)user;
    return to;
}

static void import_leave(void *user, void *entered)
{
    (void)user, (void)entered;
}

/* Symbols keep their numbers, whatever is pruned. */
static bool import_symbols(const import *im)
{
    for (int i = 0; i < tpi_dim_n_symbols(im->from->dims); i++)
        if (tpi_dim_symbol(im->to->dims, tpi_dim_symbol_name(im->from->dims, i)) == TPI_NO_DIM)
            return false;
    return true;
}

/* What the roots need, and, when that draws, all that the graph draws. */
static bool collect_needed(import *im, int n_roots, tp_tensor *const *roots, tpi_nodes *nodes)
{
    tpi_nodes all = {.ctx = nodes->ctx};
    bool ok = tpi_collect(nodes, n_roots, roots, is_fed, im), draws = false;
    for (int i = 0; i < nodes->n && !draws; i++)
        draws = tpi_node_draws(nodes->v[i]) && !is_fed(im, nodes->v[i]);
    if (!ok || !draws)
        return ok;
    for (int i = 0; i < nodes->n; i++)
        tpi_nodes_push(&all, nodes->v[i]);
    tpi_push_draws(&all, im->from);
    nodes->n = 0;
    ok = !all.failed && tpi_collect(nodes, all.n, all.v, is_fed, im);
    tpi_nodes_free(&all);
    return ok;
}

tp_graph *tpi_prune(tp_graph *g, bool freeze, int n_feeds, tp_tensor **feeds, int n_roots,
                    tp_tensor **roots)
{
    tp_ctx *ctx = g->ctx;
import im = {.from = g, .freeze = freeze, .n_feeds = n_feeds, .feeds = feeds };
    im.to = new_graph(ctx);
    if (!im.to)
        return NULL;
    tpi_copier copier = {.ctx = ctx,
                         .user = &im,
                         .is_leaf = is_fed,
                         .place = import_place,
                         .sizes = import_sizes,
                         .node = import_node,
                         .enter = import_enter,
                         .leave = import_leave};
    const size_t map_bytes = (size_t)g->n_nodes * sizeof(tp_tensor *);
    tp_tensor **map = tpi_take(&ctx->mem, map_bytes);
    tpi_nodes nodes = {.ctx = ctx, .way = TPI_WAY_VALUES};
    bool ok = map && import_symbols(&im) && collect_needed(&im, n_roots, roots, &nodes) &&
              tp_scope_begin(ctx) == TP_OK;
    const bool scope = ok;
    if (map)
        memset(map, 0, map_bytes);
    ok = ok && tpi_copy_nodes(&copier, &nodes, g, im.to, map);
    for (int i = 0; i < n_roots && ok; i++)
        roots[i] = map[roots[i]->index];
    for (int i = 0; i < n_feeds && ok; i++) { /* sizes are read from every feed */
        tp_tensor **made = &map[feeds[i]->index];
        if (!*made)
            *made = import_node(&im, im.to, feeds[i], NULL);
        ok = (*made)->status == TP_OK;
    }
    for (int i = 0; i < n_feeds && ok; i++)
        feeds[i] = map[feeds[i]->index];
    im.to->own_bytes = tpi_constant_bytes(im.to, false);
    if (!ok && ctx->status == TP_OK)
        tpi_no_memory(ctx, TPI_AT(NULL, 0), "compile");
    tpi_nodes_free(&nodes);
    tpi_give_back(&ctx->mem, map, map_bytes);
    if (scope)
        tp_scope_end(ctx);
    return ok ? im.to : no_graph(im.to);
}

/* ---- rewriting ---------------------------------------------------------------------------------- */

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

static bool begin_rewrite(tpi_rewrite *rw, const tpi_pass *pass, tp_graph *to)
{
    *rw = (tpi_rewrite){.ctx = to->ctx, .to = to};
    rw->state = tpi_take(&rw->ctx->mem, pass->state_size);
    if (rw->state)
        memset(rw->state, 0, pass->state_size);
    return rw->state;
}

static void end_rewrite(tpi_rewrite *rw, const tpi_pass *pass)
{
    if (rw->state && pass->done)
        pass->done(rw);
    tpi_give_back(&rw->ctx->mem, rw->state, pass->state_size);
}

static void *enter_body(void *user, tp_graph *to)
{
    rewriting *r = user;
    entered *e = tpi_take(&to->ctx->mem, sizeof *e);
    if (!e)
        return NULL;
    e->outer = r->rw;
    if (begin_rewrite(&e->rw, r->pass, to)) {
        r->rw = &e->rw;
        return e;
    }
    tpi_give_back(&to->ctx->mem, e, sizeof *e);
    return NULL;
}

static void leave_body(void *user, void *of)
{
    rewriting *r = user;
    entered *e = of;
    r->n_changes += e->rw.n_changes;
    r->rw = e->outer;
    end_rewrite(&e->rw, r->pass);
    tpi_give_back(&r->rw->ctx->mem, e, sizeof *e);
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

/* What a pass does before the copy, if anything. */
static bool prepare(const char *name, bool (*change)(tp_graph *g, int *n_changes), tp_graph *g,
                    int *n_changes)
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
                      .to = prepare(pass->name, pass->prepare, g, n_changes) ? new_graph(ctx)
                                                                             : NULL};
    if (!rw.to)
        return no_graph(g);
    take_over(rw.to, g);
    rewriting r = {.pass = pass, .rw = &rw, .rewrites = rewrites};
    tpi_copier copier = {.ctx = ctx,
                         .user = &r,
                         .place = same_place,
                         .sizes = same_sizes,
                         .node = rewrite_one,
                         .enter = enter_body,
                         .leave = leave_body};
    const size_t map_bytes = (size_t)g->n_nodes * sizeof(tp_tensor *);
    tp_tensor **map = tpi_take(&ctx->mem, map_bytes);
    tpi_nodes nodes = {.ctx = ctx};
    bool ok = map && begin_rewrite(&rw, pass, rw.to) &&
              tpi_collect_run(&nodes, g, n_roots, roots) && tp_scope_begin(ctx) == TP_OK;
    if (!ok)
        tpi_no_memory(ctx, TPI_AT(NULL, 0), pass->name);
    if (map)
        memset(map, 0, map_bytes);
    const bool scope = ok;
    ok = ok && tpi_copy_nodes(&copier, &nodes, g, rw.to, map);
    for (int i = 0; i < n_feeds && ok; i++) {
        tp_tensor **made = &map[feeds[i]->index];
        if (!*made)
            *made = rewrite_one(&r, rw.to, feeds[i], NULL);
        ok = (*made)->status == TP_OK;
    }
    for (int i = 0; i < n_roots && ok; i++)
        roots[i] = map[roots[i]->index];
    for (int i = 0; i < n_feeds && ok; i++)
        feeds[i] = map[feeds[i]->index];
    if (!ok && ctx->status == TP_OK)
        tpi_no_memory(ctx, TPI_AT(NULL, 0), pass->name);
    end_rewrite(&rw, pass);
    tpi_give_back(&ctx->mem, map, map_bytes);
    tpi_nodes_free(&nodes);
    if (scope)
        tp_scope_end(ctx);
    tp_graph_free(g);
    *n_changes += rw.n_changes + r.n_changes + copier.n_changes;
    return ok ? rw.to : no_graph(rw.to);
}

/* In checked builds every pass is held to the rules of the IR. */
static bool keeps_rules(const tp_graph *g, const tpi_pass *pass)
{
#ifdef TPI_CHECKED
    return tpi_verify(g->ctx, pass->name, g->dims, g->n_nodes, g->nodes) == TP_OK;
#else
    (void)g, (void)pass;
    return true;
#endif
}

bool tpi_is_runnable(const tp_graph *g, tpi_why *why)
{
    return tpi_check_turns(g->ctx, g->dims, g->n_nodes, g->nodes, true, why);
}

static const tpi_pass clean = {.name = "recompute", .visit = tpi_keep_node, .state_size = 1};

tp_graph *tpi_tidy(tp_graph *g, int n_feeds, tp_tensor **feeds, int n_roots, tp_tensor **roots)
{
    int unused = 0;
    return tpi_run_pass(g, &clean, NULL, n_feeds, feeds, n_roots, roots, &unused);
}

tp_graph *tpi_split_loop(tp_graph *g, tp_tensor *loop, int n_feeds, tp_tensor **feeds,
                         int n_roots, tp_tensor **roots)
{
    static const tpi_pass *const needed[] = {&tpi_pass_checkpoint, &tpi_pass_fold,
                                             &tpi_pass_algebra};
    int unused = 0;
    ((tpi_loop_attrs *)loop->attrs)->checkpoint = 1;
    for (size_t i = 0; i < sizeof needed / sizeof *needed && g; i++)
        g = tpi_run_pass(g, needed[i], NULL, n_feeds, feeds, n_roots, roots, &unused);
    return g;
}

tp_graph *tpi_make_runnable(tp_graph *g, int n_feeds, tp_tensor **feeds, int n_roots,
                            tp_tensor **roots)
{
    tp_ctx *ctx = g->ctx;
    int n_changes = 1;
    while (g && n_changes) {
        n_changes = 0;
        if (!prepare(clean.name, tpi_again, g, &n_changes))
            return no_graph(g);
        if (n_changes)
            g = tpi_tidy(g, n_feeds, feeds, n_roots, roots);
    }
    tpi_why why;
    if (!g || tpi_is_runnable(g, &why))
        return g;
    tpi_fail_status(ctx, TPI_AT(NULL, 0), "tp_graph_compile", TP_E_STATE, "%s", why.text);
    return no_graph(g);
}

static tp_graph *optimize_once(tp_graph *g, const tpi_optimizing *how, const tpi_pass *pass,
                               int run, int n_feeds, tp_tensor **feeds, int n_roots,
                               tp_tensor **roots, int *n_changes)
{
    int n = 0;
    g = tpi_run_pass(g, pass, NULL, n_feeds, feeds, n_roots, roots, &n);
    *n_changes += n;
    if (g && !keeps_rules(g, pass))
        return no_graph(g);
    if (g && n && how->witness &&
        !how->witness->after(how->witness, pass, run, g, feeds, roots))
        return no_graph(g);
    return g;
}

tp_graph *tpi_optimize(tp_graph *g, const tpi_optimizing *how, int n_feeds, tp_tensor **feeds,
                       int n_roots, tp_tensor **roots)
{
    const tpi_pass *const *list = how->passes ? how->passes : passes;
    int n_changes = 1, run = 0;
    g = tpi_make_runnable(g, n_feeds, feeds, n_roots, roots);
    if (!g || (how->stop_after && strcmp(how->stop_after, no_pass) == 0))
        return g;
    if (how->witness)
        how->witness->begin(how->witness, g, feeds, roots);
    for (int round = 0; round < MAX_ROUNDS && n_changes; round++) {
        n_changes = 0;
        for (int i = 0; list[i] && g; i++) {
            if (!tpi_list_has(how->skip, list[i]->name)) {
                g = optimize_once(g, how, list[i], run++, n_feeds, feeds, n_roots, roots,
                                  &n_changes);
                if (run == how->most_runs)
                    return g;
            }
            if (how->stop_after && strcmp(how->stop_after, list[i]->name) == 0)
                return g;
        }
        if (!g)
            return NULL;
    }
    if (!how->passes && !tpi_list_has(how->skip, tpi_pass_remake.name)) /* cse would undo it */
        g = optimize_once(g, how, &tpi_pass_remake, run, n_feeds, feeds, n_roots, roots,
                          &n_changes);
    return g;
}
