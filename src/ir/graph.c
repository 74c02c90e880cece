#include "base/hash.h"
#include "ir/body.h"

#include <string.h>

/* ---- sources ---------------------------------------------------------- */

static bool infer_operand(tpi_infer *q)
{
    const tp_tensor *t = q->in[0];
    q->dtype = (tp_dtype)t->dtype;
    q->rank = t->rank;
    memcpy(q->shape, t->shape, sizeof(int64_t) * t->rank);
    return true;
}

const tpi_op tpi_op_placeholder = {
    .name = "placeholder", .code = TPI_OP_placeholder, .kind = TPI_SOURCE};
const tpi_op tpi_op_variable = {.name = "variable",
                                .code = TPI_OP_variable,
                                .kind = TPI_SOURCE,
                                .n_in = 1,
                                .infer = infer_operand};
const tpi_op tpi_op_const = {.name = "const",
                             .code = TPI_OP_const,
                             .kind = TPI_SOURCE,
                             .n_in = 1,
                             .infer = infer_operand};
/* ---- graphs -------------------------------------------------------------------------------- */

static void graph_free(tpi_owned *o)
{
    tp_graph *g = (tp_graph *)((char *)o - offsetof(tp_graph, owned));
    tp_ctx *ctx = g->ctx;
    if (g->programs)
        g->free_programs(g->programs);
    tpi_bodies_free(g);
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
        tpi_strfree(ctx, g->strings[i]);
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
    while (ctx->tracing && tpi_graph_within(ctx->tracing, g) && ctx->blocks)
        ctx->block_rules->leave(ctx, "was open when its graph was freed");
    tpi_object_remove(&g->owned);
    graph_free(&g->owned);
}

/* The node for a concrete t in like's graph; t itself when like is concrete; failed when like is of a
 * block that has ended. */
static tp_tensor *lift_like(const tp_tensor *like, tpi_at at, const char *what, tp_tensor *t)
{
    if (!like->graph || t->status != TP_OK)
        return t;
    tp_tensor *failed = tpi_refuse_like(like, at, what);
    return failed ? failed : tpi_graph_lift(tpi_graph_here(like), at, t);
}

tp_tensor *tp_scalar_like_at(const char *file, int line, tp_tensor *x, double value)
{
    const tpi_at at = TPI_AT(file, line);
    if (!tpi_is_live(x) || x->status != TP_OK)
        return tpi_refuse_operand(x ? x->ctx : NULL, at, "tp_scalar_like", 0, x);
    TPI_ALONE(x->ctx, at, "tp_scalar_like");
    return lift_like(x, at, "tp_scalar_like",
                     tpi_make_scalar(x->ctx, at, "tp_scalar_like", (tp_dtype)x->dtype, value));
}

TPI_BARE(tp_tensor *, tp_scalar_like, (tp_tensor * x, double value), x, value)

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
    t->flags |= ctx->recording ? TPI_REQUIRES : TPI_CONSTANT;
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
    node->name = tpi_strdup(g->ctx, name);
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

tp_tensor *tp_graph_read_at(const char *file, int line, tp_graph *g, tp_tensor *t)
{
    const tpi_at at = TPI_AT(file, line);
    if (!g)
        return (tp_tensor *)&tpi_nil;
    TPI_ALONE(g->ctx, at, "tp_graph_read");
    tp_tensor *failed = tpi_refuse_operand(g->ctx, at, "tp_graph_read", 0, t);
    if (g->ctx->tracing && tpi_graph_within(g->ctx->tracing, g))
        g = g->ctx->tracing; /* an open block of it reads */
    if (!failed && t->graph && !tpi_graph_within(g, t->graph))
        failed = tpi_refuse_outside(g, at, "tp_graph_read", t);
    return failed ? failed : tpi_graph_lift(g, at, t);
}

TPI_BARE(tp_tensor *, tp_graph_read, (tp_graph * g, tp_tensor *t), g, t)

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

tp_tensor *tp_graph_variable_at(const char *file, int line, tp_graph *g, const char *name)
{
    if (!g)
        return (tp_tensor *)&tpi_nil;
    tp_tensor *found = NULL;
    for (int i = 0; i < g->n_nodes; i++) {
        tp_tensor *t = g->nodes[i];
        if (t->op != &tpi_op_variable || !t->in[0]->name || !name ||
            strcmp(t->in[0]->name, name) != 0 || t->in[0] == found)
            continue;
        if (found)
            return tpi_fail(g->ctx, TPI_AT(file, line), "tp_graph_variable", TP_E_NAME,
                            "the graph reads two variables \"%s\", of lines %d and %d: "
                            "tp_graph_nth_variable tells them apart",
                            name, found->line, t->in[0]->line);
        found = t->in[0];
    }
    return found ? found
                 : tpi_fail(g->ctx, TPI_AT(file, line), "tp_graph_variable", TP_E_NAME,
                            "the graph reads no variable \"%s\"", name ? name : "(null)");
}

TPI_BARE(tp_tensor *, tp_graph_variable, (tp_graph * g, const char *name), g, name)

/* ---- walks ------------------------------------------------------------------------------------ */

void tpi_nodes_push(tpi_nodes *l, tp_tensor *t)
{
    if (l->n == l->size && !l->failed) {
        const int size = l->size ? l->size * 2 : 64;
        tp_tensor **v = tpi_resize(&l->ctx->mem, l->v, (size_t)l->size * sizeof *v,
                                   (size_t)size * sizeof *v);
        if (v) {
            l->v = v;
            l->size = size;
        } else {
            l->failed = true;
        }
    }
    if (!l->failed)
        l->v[l->n++] = t;
}

void tpi_nodes_free(tpi_nodes *l)
{
    tpi_give_back(&l->ctx->mem, l->v, (size_t)l->size * sizeof *l->v);
    *l = (tpi_nodes){.ctx = l->ctx};
}

/* By seq. Walks meet nodes nearly in reverse order, so the list is turned first; then runs are
 * merged (at most as many passes as the list has bits). */
static bool sort_by_seq(tpi_nodes *l)
{
    for (int i = 0, j = l->n - 1; i < j; i++, j--) {
        tp_tensor *t = l->v[i];
        l->v[i] = l->v[j];
        l->v[j] = t;
    }
    bool sorted = true;
    for (int i = 1; i < l->n && sorted; i++)
        sorted = l->v[i - 1]->seq <= l->v[i]->seq;
    if (sorted)
        return true;
    const size_t bytes = (size_t)l->n * sizeof *l->v;
    tp_tensor **tmp = tpi_take(&l->ctx->mem, bytes);
    if (!tmp)
        return false;
    for (int width = 1; width < l->n; width *= 2) {
        for (int at = 0; at < l->n; at += 2 * width) {
            const int mid = at + width < l->n ? at + width : l->n;
            const int end = at + 2 * width < l->n ? at + 2 * width : l->n;
            int a = at, b = mid;
            for (int k = at; k < end; k++)
                tmp[k] = b >= end || (a < mid && l->v[a]->seq <= l->v[b]->seq) ? l->v[a++]
                                                                               : l->v[b++];
        }
        memcpy(l->v, tmp, bytes);
    }
    tpi_give_back(&l->ctx->mem, tmp, bytes);
    return true;
}

/* Marked is what is in the list, and nothing else, also when memory is out. */
static void take_once(tpi_nodes *out, tp_tensor *t)
{
    if (t->flags & TPI_MARK)
        return;
    tpi_nodes_push(out, t);
    if (!out->failed)
        t->flags |= TPI_MARK;
}

/* Takes what those in the list from `at` on were computed from; the list is the queue. */
static bool collect(tpi_nodes *out, int at, bool (*stop)(void *user, const tp_tensor *t),
                    void *user)
{
    for (; at < out->n; at++) {
        const tp_tensor *t = out->v[at];
        if (!t->in || (t->op && t->op->kind == TPI_SOURCE) || (stop && stop(user, t)))
            continue;
        const int first = tpi_way_first(out->way, t);
        for (int i = tpi_way_end(out->way, t) - 1; i >= first; i--)
            take_once(out, t->in[i]);
    }
    for (int i = 0; i < out->n; i++)
        out->v[i]->flags &= (uint8_t)~TPI_MARK;
    return !out->failed && sort_by_seq(out);
}

bool tpi_collect(tpi_nodes *out, int n_roots, tp_tensor *const *roots,
                 bool (*stop)(void *user, const tp_tensor *t), void *user)
{
    for (int i = 0; i < n_roots; i++)
        take_once(out, roots[i]);
    return collect(out, 0, stop, user);
}

bool tpi_collect_from(tpi_nodes *out, int n_roots, tp_tensor *const *roots, int n_ends,
                      tp_tensor *const *ends)
{
    for (int i = 0; i < n_ends; i++)
        take_once(out, ends[i]);
    const int at = out->n;
    for (int i = 0; i < n_roots; i++)
        take_once(out, roots[i]);
    return collect(out, at, NULL, NULL);
}
