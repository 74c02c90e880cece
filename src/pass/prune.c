/* What of a graph a program needs: see prune.h. */
#include "pass/prune.h"

#include "op/op.h"
#include "pass/bodies.h"
#include "pass/pass.h"

#include <string.h>

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
    if (!fed && tpi_variable_of(node) && im->freeze)
        return frozen(to, at, node);
    if (!fed && node->op->kind == TPI_SOURCE && node->n_in)
        return tpi_rewrite_source(to, at, node);
    if (!fed && tpi_inside_of(node)) /* calls are for gradients, which have been taken */
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
    tpi_nodes all = {.ctx = nodes->ctx, .room = nodes->room};
    bool ok = tpi_collect(nodes, n_roots, roots, is_fed, im), draws = false;
    for (int i = 0; i < nodes->n && !draws; i++)
        draws = tpi_node_draws(nodes->v[i]) && !is_fed(im, nodes->v[i]);
    if (!ok || !draws)
        return ok;
    for (int i = 0; i < nodes->n; i++)
        tpi_nodes_push(&all, nodes->v[i]);
    tpi_push_draws(&all, im->from);
    nodes->n = 0;
    return !all.failed && tpi_collect(nodes, all.n, all.v, is_fed, im);
}

size_t tpi_constant_bytes(const tp_graph *g, bool folded)
{
    size_t bytes = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (tpi_constant_of(g->nodes[i]) && g->nodes[i]->in[0]->buf->folded == folded)
            bytes += tpi_bytes(g->nodes[i]);
    for (int i = 0; i < g->n_bodies; i++)
        bytes += tpi_constant_bytes(g->bodies[i]->graph, folded);
    return bytes;
}

tp_graph *tpi_prune(tp_graph *g, bool freeze, int n_feeds, tp_tensor **feeds, int n_roots,
                    tp_tensor **roots)
{
    tp_ctx *ctx = g->ctx;
import im = {.from = g, .freeze = freeze, .n_feeds = n_feeds, .feeds = feeds };
    im.to = tpi_program_graph(ctx);
    if (!im.to)
        return NULL;
    tpi_bump memory = TPI_BUMP(&ctx->mem);
    tpi_copier copier = {.ctx = ctx,
                         .memory = &memory,
                         .user = &im,
                         .prunes = true,
                         .is_leaf = is_fed,
                         .place = import_place,
                         .sizes = import_sizes,
                         .node = import_node,
                         .enter = import_enter,
                         .leave = import_leave};
    tpi_nodes nodes = {.ctx = ctx, .room = &memory, .way = TPI_WAY_VALUES};
    bool ok = import_symbols(&im) && collect_needed(&im, n_roots, roots, &nodes);
    if (!ok)
        tpi_no_memory(ctx, TPI_AT(NULL, 0), "compile");
    ok = ok &&
         tpi_copy_graph(&copier, "compile", &nodes, g, im.to, n_feeds, feeds, n_roots, roots);
    im.to->own_bytes = tpi_constant_bytes(im.to, false);
    tpi_bump_free(&memory);
    if (ok)
        return im.to;
    tp_graph_free(im.to);
    return NULL;
}
