/* Graphs, the bodies that they own, and their nodes: life, names, sizes. */
#include "base/hash.h"
#include "ir/body.h"
#include "ir/op_rules.h"

#include <stdio.h>
#include <string.h>

/* ---- sources ---------------------------------------------------------- */

const tpi_op tpi_op_placeholder = {
    .name = "placeholder", .code = TPI_OP_placeholder, .kind = TPI_SOURCE};
const tpi_op tpi_op_variable = {.name = "variable",
                                .code = TPI_OP_variable,
                                .kind = TPI_SOURCE,
                                .n_in = 1,
                                .infer = tpi_same_infer};
const tpi_op tpi_op_const = {.name = "const",
                             .code = TPI_OP_const,
                             .kind = TPI_SOURCE,
                             .n_in = 1,
                             .infer = tpi_same_infer};

/* ---- where a graph is ---------------------------------------------------------------------- */

bool tpi_graph_within(const tp_graph *g, const tp_graph *outer)
{
    while (g && g != outer)
        g = g->parent;
    return g;
}

tp_graph *tpi_graph_root(tp_graph *g)
{
    while (g->parent)
        g = g->parent;
    return g;
}

/* ---- graphs -------------------------------------------------------------------------------- */

static void body_free(tpi_body *b)
{
    tpi_mem *m = &b->graph->ctx->mem;
    tpi_give_back(m, b->params, (size_t)b->params_size * sizeof *b->params);
    tpi_give_back(m, b->outers, (size_t)b->params_size * sizeof *b->outers);
    tpi_give_back(m, b->outputs, (size_t)b->outputs_size * sizeof *b->outputs);
    tp_graph_free(b->graph);
    tpi_give_back(m, b, sizeof *b);
}

static void free_bodies(tp_graph *g)
{
    for (int i = 0; i < g->n_bodies; i++)
        body_free(g->bodies[i]);
    tpi_give_back(&g->ctx->mem, g->bodies, (size_t)g->bodies_size * sizeof *g->bodies);
    g->bodies = NULL;
    g->n_bodies = g->bodies_size = 0;
}

void tpi_graph_free_outputs(tp_graph *g)
{
    tpi_give_back(&g->ctx->mem, g->outputs, (size_t)g->n_outputs * sizeof *g->outputs);
    g->outputs = NULL;
    g->n_outputs = 0;
}

static void graph_free(tpi_owned *o)
{
    tp_graph *g = (tp_graph *)((char *)o - offsetof(tp_graph, owned));
    tp_ctx *ctx = g->ctx;
    if (g->programs)
        g->free_programs(g->programs);
    free_bodies(g);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        tp_tensor *t = g->nodes[i];
        t->graph = NULL; /* a handle that outlives the graph is dead to ops */
        if (t->status == TP_OK)
            t->status = TP_E_STATE;
        tpi_unref(t);
    }
    for (int i = 0; i < g->lifted_size; i++)
        tpi_unref(g->lifted[i].concrete);
    for (int i = 0; i < g->n_strings; i++)
        tpi_strfree(&ctx->mem, g->strings[i]);
    tpi_give_back(&ctx->mem, g->strings, (size_t)g->n_strings * sizeof *g->strings);
    tpi_graph_free_outputs(g);
    tpi_give_back(&ctx->mem, g->equations, (size_t)g->equations_size * sizeof *g->equations);
    tpi_give_back(&ctx->mem, g->nodes, (size_t)g->nodes_size * sizeof *g->nodes);
    tpi_give_back(&ctx->mem, g->lifted, (size_t)g->lifted_size * sizeof *g->lifted);
    tpi_give_back(&ctx->mem, g->assigned, (size_t)g->assigned_size * sizeof *g->assigned);
    tpi_give_back(&ctx->mem, g->named, (size_t)g->named_size * sizeof *g->named);
    if (!g->parent)
        tpi_dims_free(g->dims);
    if (ctx->tracing == g)
        ctx->tracing = NULL;
    tpi_give_back(&ctx->mem, g, sizeof *g);
}

tp_graph *tp_graph_new(tp_ctx *tp)
{
    if (!tp)
        return NULL;
    tp_graph *g = tpi_take(&tp->mem, sizeof *g);
    if (g) {
        memset(g, 0, sizeof *g);
        g->ctx = tp;
        g->dims = tpi_dims_new(tp);
        if (g->dims) {
            tpi_object_add(tp, &g->owned, graph_free);
            return g;
        }
        tpi_give_back(&tp->mem, g, sizeof *g);
    }
    tpi_no_memory(tp, TPI_AT(NULL, 0), "tp_graph_new");
    return NULL;
}

void tp_graph_free(tp_graph *g)
{
    if (!g)
        return;
    tp_ctx *ctx = g->ctx;
    while (ctx->tracing && tpi_graph_within(ctx->tracing, g) && ctx->caller.blocks)
        ctx->block_rules->leave(ctx, "was open when its graph was freed");
    tpi_object_remove(&g->owned);
    graph_free(&g->owned);
}

/* ---- bodies ------------------------------------------------------------------------------- */

static bool own(tp_graph *g, tpi_body *b)
{
    tpi_body **v =
        tpi_grow(&g->ctx->mem, g->bodies, g->n_bodies, &g->bodies_size, sizeof *g->bodies);
    if (!v)
        return false;
    g->bodies = v;
    v[g->n_bodies++] = b;
    return true;
}

tpi_body *tpi_body_new(tp_graph *g, tpi_at at)
{
    tp_ctx *ctx = g->ctx;
    int depth = 0;
    for (const tp_graph *around = g; around->parent; around = around->parent)
        depth++;
    if (depth >= TPI_MAX_NESTING) {
        tpi_fail_status(ctx, at, "block", TP_E_STATE, "blocks nest deeper than %d",
                        TPI_MAX_NESTING);
        return NULL;
    }
    tpi_body *b = tpi_take(&ctx->mem, sizeof *b);
    tp_graph *inner = b ? tp_graph_new(ctx) : NULL;
    if (!inner) {
        tpi_give_back(&ctx->mem, b, sizeof *b);
        tpi_no_memory(ctx, at, "block");
        return NULL;
    }
    *b = (tpi_body){.graph = inner, .at = at};
    tpi_object_remove(&inner->owned); /* its parent owns it */
    inner->owned.next = inner->owned.prev = &inner->owned;
    tpi_dims_free(inner->dims);
    inner->dims = g->dims;
    inner->parent = g;
    inner->body = b;
    if (own(g, b))
        return b;
    body_free(b);
    tpi_no_memory(ctx, at, "block");
    return NULL;
}

void tpi_body_drop(tp_graph *g, tpi_body *b)
{
    int i = 0;
    while (g->bodies[i] != b)
        i++;
    g->n_bodies--;
    memmove(g->bodies + i, g->bodies + i + 1, (size_t)(g->n_bodies - i) * sizeof b);
    body_free(b);
}

bool tpi_bodies_move(tp_graph *from, tp_graph *to)
{
    for (int i = 0; i < from->n_bodies; i++) {
        tpi_body *b = from->bodies[i];
        if (!own(to, b)) {
            memmove(from->bodies, from->bodies + i, (size_t)(from->n_bodies - i) * sizeof b);
            from->n_bodies -= i;
            return false;
        }
        b->graph->parent = to;
        b->graph->dims = to->dims;
    }
    from->n_bodies = 0;
    return true;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* A size that is none because memory is out is told now, others where they are used. */
static int64_t size_or_error(tp_graph *g, const char *what, uint64_t refused, int64_t dim)
{
    if (dim == TPI_NO_DIM && g->ctx->mem.refused != refused)
        tpi_no_memory(g->ctx, TPI_AT(NULL, 0), what);
    return dim;
}

int64_t tp_symbol(tp_graph *g, const char *name)
{
    if (!g || !name)
        return TPI_NO_DIM;
    const uint64_t refused = g->ctx->mem.refused;
    return size_or_error(g, "tp_symbol", refused, tpi_dim_symbol(g->dims, name));
}

static int64_t dim_of(tp_graph *g, const char *what,
                      int64_t (*rule)(tpi_dims *table, int64_t a, int64_t b), int64_t a,
                      int64_t b)
{
    if (!g)
        return TPI_NO_DIM;
    const bool spoilt = tpi_is_spoilt_size(a);
    if (spoilt || tpi_is_spoilt_size(b)) {
        tpi_fail_spoilt(g->ctx, TPI_AT(NULL, 0), what, TP_E_SHAPE, spoilt ? a : b);
        return TPI_NO_DIM;
    }
    const uint64_t refused = g->ctx->mem.refused;
    return size_or_error(g, what, refused, rule(g->dims, a, b));
}

int64_t tp_dim_add(tp_graph *g, int64_t a, int64_t b)
{
    return dim_of(g, "tp_dim_add", tpi_dim_add, a, b);
}

int64_t tp_dim_mul(tp_graph *g, int64_t a, int64_t b)
{
    return dim_of(g, "tp_dim_mul", tpi_dim_mul, a, b);
}

int64_t tp_dim_div(tp_graph *g, int64_t a, int64_t b)
{
    return dim_of(g, "tp_dim_div", tpi_dim_div, a, b);
}

int64_t tpi_fresh_symbol(tp_graph *g, const char *stem)
{
    char name[64];
    for (int i = 1;; i++) {
        if (i == 1)
            snprintf(name, sizeof name, "%s", stem);
        else
            snprintf(name, sizeof name, "%s.%d", stem, i);
        bool taken = false;
        for (int k = 0; k < tpi_dim_n_symbols(g->dims) && !taken; k++)
            taken = strcmp(tpi_dim_symbol_name(g->dims, k), name) == 0;
        if (!taken)
            return tpi_dim_symbol(g->dims, name);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

tp_tensor *tpi_graph_node(tp_graph *g, tpi_at at, const tpi_op *op, int n_in,
                          tp_tensor *const *in, const void *attrs, tp_dtype dtype, int rank,
                          const int64_t *shape)
{
    tp_ctx *ctx = g->ctx;
    if (g->n_nodes == g->nodes_size) {
        const int size = g->nodes_size ? g->nodes_size * 2 : 64;
        tp_tensor **v = tpi_resize(&ctx->mem, g->nodes, (size_t)g->nodes_size * sizeof *v,
                                   (size_t)size * sizeof *v);
        if (!v)
            return tpi_no_memory(ctx, at, op->name);
        g->nodes = v;
        g->nodes_size = size;
    }
    tp_tensor *t = tpi_tensor(ctx, at, dtype, rank, shape);
    if (!t || !tpi_record(t, op, n_in, in, attrs, op->attrs_size))
        return tpi_no_memory(ctx, at, op->name);
    t->graph = g;
    t->flags |= ctx->caller.recording ? TPI_REQUIRES : TPI_CONSTANT;
    t->index = g->n_nodes;
    tpi_ref(t);
    g->nodes[g->n_nodes++] = t;
    return t;
}

/* ---- names ------------------------------------------------------------------------------------ */

static tp_tensor **named_slot(tp_tensor **table, int size, const char *name, size_t len)
{
    size_t i = (size_t)tpi_hash64(name, len);
    for (;; i++) {
        tp_tensor **s = &table[i & (size_t)(size - 1)];
        if (!*s || (strlen((*s)->name) == len && memcmp((*s)->name, name, len) == 0))
            return s;
    }
}

tp_status tpi_graph_name(tp_graph *g, tp_tensor *node, const char *name)
{
    const size_t len = strlen(name);
    if (node->name || tpi_graph_by_name(g, name, len))
        return TP_E_NAME;
    if (g->n_named * 2 >= g->named_size) {
        const int size = g->named_size ? g->named_size * 2 : 32;
        tp_tensor **v = tpi_take(&g->ctx->mem, (size_t)size * sizeof *v);
        if (!v)
            return TP_E_MEMORY;
        memset(v, 0, (size_t)size * sizeof *v);
        for (int i = 0; i < g->named_size; i++)
            if (g->named[i])
                *named_slot(v, size, g->named[i]->name, strlen(g->named[i]->name)) =
                    g->named[i];
        tpi_give_back(&g->ctx->mem, g->named, (size_t)g->named_size * sizeof *v);
        g->named = v;
        g->named_size = size;
    }
    node->name = tpi_strdup(&g->ctx->mem, name);
    if (!node->name)
        return TP_E_MEMORY;
    *named_slot(g->named, g->named_size, name, len) = node;
    g->n_named++;
    return TP_OK;
}

tp_tensor *tpi_graph_named(tp_graph *g, tp_tensor *node, const char *name)
{
    return name && node->status == TP_OK && tpi_graph_name(g, node, name) == TP_E_MEMORY
               ? tpi_no_memory(g->ctx, TPI_AT(node->file, node->line), "tp_name")
               : node;
}

tp_tensor *tpi_graph_by_name(const tp_graph *g, const char *name, size_t len)
{
    return g->named_size ? *named_slot(g->named, g->named_size, name, len) : NULL;
}

const char *tpi_graph_intern(tp_graph *g, const char *text, size_t len)
{
    for (int i = 0; i < g->n_strings; i++)
        if (strlen(g->strings[i]) == len && memcmp(g->strings[i], text, len) == 0)
            return g->strings[i];
    char *copy = tpi_take(&g->ctx->mem, len + 1);
    char **v = copy ? tpi_resize(&g->ctx->mem, g->strings, (size_t)g->n_strings * sizeof *v,
                                 (size_t)(g->n_strings + 1) * sizeof *v)
                    : NULL;
    if (!v) {
        tpi_give_back(&g->ctx->mem, copy, len + 1);
        return NULL;
    }
    g->strings = v;
    memcpy(copy, text, len);
    copy[len] = 0;
    return v[g->n_strings++] = copy;
}

/* ---- public sources ------------------------------------------------------------------------------ */

tp_tensor *tp_placeholder_at(const char *file, int line, tp_graph *g, const char *name,
                             tp_dtype dtype, int rank, const int64_t *shape)
{
    const tpi_at at = TPI_AT(file, line);
    if (!g)
        return (tp_tensor *)&tpi_nil;
    TPI_ALONE(g->ctx, at, "placeholder");
    if (!name || !*name)
        return tpi_fail(g->ctx, at, "placeholder", TP_E_NAME, "a placeholder needs a name");
    if (!tp_dtype_size(dtype))
        return tpi_fail(g->ctx, at, "placeholder", TP_E_DTYPE, "%d is no element type", dtype);
    int64_t known[TP_MAX_RANK] = {0};
    for (int i = 0; i < rank && i < TP_MAX_RANK && shape; i++) {
        if (tpi_dim_is_symbolic(shape[i]) && tpi_dim_mul(g->dims, shape[i], 1) == TPI_NO_DIM)
            return tpi_fail(g->ctx, at, "placeholder", TP_E_SHAPE,
                            "size of axis %d is a symbol of another graph", i);
        known[i] = tpi_dim_is_symbolic(shape[i]) ? 1 : shape[i];
    }
    tp_tensor *failed;
    if (!tpi_check_shape(g->ctx, at, "placeholder", rank, rank > 0 && !shape ? NULL : known,
                         &failed))
        return failed;
    if (tpi_graph_by_name(g, name, strlen(name)))
        return tpi_fail(g->ctx, at, "placeholder", TP_E_NAME, "the name \"%s\" is taken", name);
    tp_tensor *t =
        tpi_graph_node(g, at, &tpi_op_placeholder, 0, NULL, NULL, dtype, rank, shape);
    if (t->status == TP_OK && tpi_graph_name(g, t, name) != TP_OK)
        return tpi_no_memory(g->ctx, at, "placeholder");
    return t;
}

TPI_BARE(tp_tensor *, tp_placeholder,
         (tp_graph * g, const char *name, tp_dtype dtype, int rank, const int64_t *shape), g,
         name, dtype, rank, shape)

tp_graph *(tp_graph_of)(const tp_tensor *t)
{
    return tpi_is_live(t) && t->graph ? tpi_graph_root(t->graph) : NULL;
}

tp_tensor *tp_graph_find_at(const char *file, int line, tp_graph *g, const char *name)
{
    if (!g)
        return (tp_tensor *)&tpi_nil;
    tp_tensor *t = name ? tpi_graph_by_name(g, name, strlen(name)) : NULL;
    return t ? t
             : tpi_fail(g->ctx, TPI_AT(file, line), "tp_graph_find", TP_E_NAME,
                        "the graph has no node \"%s\"", name ? name : "(null)");
}

TPI_BARE(tp_tensor *, tp_graph_find, (tp_graph * g, const char *name), g, name)
