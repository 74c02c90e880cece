#include "ir/check.h"
#include "ir/notation.h"

#include <stdlib.h>
#include <string.h>

/* ---- one node, as far as reading a text needs it --------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool because(tpi_rule_error *why, const char *fmt,
                                                          ...)
{
    va_list ap;
    va_start(ap, fmt);
    tpi_vprint(why->text, sizeof why->text, fmt, ap);
    va_end(ap);
    return false;
}

bool tpi_check_operands(const tpi_op *op, int n_in, tpi_rule_error *why)
{
    if (op->n_in < 0 ? n_in >= (op != &tpi_op_loop) : n_in == op->n_in)
        return true;
    if (op->n_in < 0)
        return because(why, "%s takes operands, and has none", op->name);
    return because(why, "%s takes %d operands, and has %d", op->name, op->n_in, n_in);
}

bool tpi_check_place(const tpi_op *op, const tpi_body *body, tpi_rule_error *why)
{
    if (!body)
        return op != &tpi_op_param || because(why, "only a body has params");
    if (op == &tpi_op_placeholder || op == &tpi_op_variable || op == &tpi_op_assign)
        return because(why,
                       "a body has no %s: what it reads is a param, what it changes an output",
                       op->name);
    return true;
}

bool tpi_check_reads(const tpi_op *op, int n_in, tp_tensor *const *in, tpi_rule_error *why)
{
    for (int i = 0; i < n_in && op != &tpi_op_output; i++)
        if (in[i]->op && tpi_is_block(in[i]))
            return because(why, "operand %d is a block, which is read through its outputs", i);
    return true;
}

bool tpi_check_attrs(const tpi_dims *dims, const tpi_op *op, const void *attrs,
                     tpi_rule_error *why)
{
    if (op->attrs && !attrs)
        return because(why, "%s has no attributes", op->name);
    for (const tpi_attr *a = op->attrs; a && a->name; a++) {
        const void *p = (const char *)attrs + a->offset;
        const int64_t v = *(const int64_t *)p;
        const tpi_list *list = p;
        bool ok = true;
        switch (a->type) {
        case TPI_ATTR_BOOL:
            ok = v == 0 || v == 1;
            break;
        case TPI_ATTR_DTYPE:
            ok = v >= 0 && v < TP_N_DTYPES;
            break;
        case TPI_ATTR_DIM:
            ok = tpi_dim_is_size(dims, v);
            break;
        case TPI_ATTR_LIST:
            ok = list->n >= 0 && list->n <= TP_MAX_RANK;
            break;
        case TPI_ATTR_DIMS:
            ok = list->n >= 0 && list->n <= TP_MAX_RANK;
            for (int64_t i = 0; ok && i < list->n; i++)
                ok = tpi_dim_is_size(dims, list->v[i]);
            break;
        case TPI_ATTR_BODY:
            ok = v != 0;
            break;
        case TPI_ATTR_INT:
        case TPI_ATTR_F64:
            break;
        }
        if (!ok)
            return because(why, "attribute %s of %s is not valid", a->name, op->name);
    }
    return true;
}

tp_status tpi_infer_again(tpi_infer *q, tpi_rule_error *why)
{
    tp_ctx *ctx = q->ctx;
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    why->text[0] = 0;
    q->failed = NULL;
    q->dtype = TP_F32;
    q->rank = 0;
    tp_status s = tp_scope_begin(ctx);
    if (s == TP_OK) {
        if (!q->op->infer(q)) {
            s = q->failed ? (tp_status)q->failed->status : TP_E_BUG;
            because(why, "%s", q->failed ? tp_error_text(q->failed) : q->op->name);
        }
        tp_scope_end(ctx);
    }
    tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    return s;
}

bool tpi_check_answer(const tpi_infer *q, tp_dtype dtype, int rank, const int64_t *shape,
                      tpi_rule_error *why)
{
    if (q->dtype == dtype && q->rank == rank &&
        memcmp(q->shape, shape, (size_t)rank * sizeof *shape) == 0)
        return true;
    tpi_str s = TPI_STR(&q->ctx->mem);
    for (int side = 0; side < 2; side++) {
        const int n = side ? q->rank : rank;
        const int64_t *v = side ? q->shape : shape;
        tpi_str_printf(&s, "%s%s[", side ? ", its rule gives " : "it is ",
                       tp_dtype_name(side ? q->dtype : dtype));
        for (int i = 0; i < n; i++) {
            tpi_str_put(&s, i ? "," : "");
            tpi_dim_print(q->dims, v[i], &s);
        }
        tpi_str_put(&s, "]");
    }
    because(why, "%s", s.failed ? "its type or shape is not what its rule gives" : s.text);
    tpi_str_free(&s);
    return false;
}

/* ---- all nodes ------------------------------------------------------------------------------- */

typedef struct verifier {
    tp_ctx *ctx;
    tpi_dims *dims;
    const char *after;
    int n;
    tp_tensor *const *nodes;
    const tpi_body *body; /* whose nodes they are; NULL: of no body */
    int number, depth;    /* of the body, as in the text; 0: none */
    int *n_bodies;        /* numbers given away */
    uint64_t refused;     /* of the context's memory, at the start */
} verifier;

__attribute__((format(printf, 3, 4))) static tp_status broken(const verifier *v, int i,
                                                              const char *fmt, ...)
{
    char number[32];
    tpi_rule_error why;
    va_list ap;
    if (v->ctx->mem.refused != v->refused) /* sizes and rules fail then too */
        return tpi_fail_status(v->ctx, TPI_AT(NULL, 0), "verify", TP_E_MEMORY, "out of memory");
    va_start(ap, fmt);
    tpi_vprint(why.text, sizeof why.text, fmt, ap);
    va_end(ap);
    const tp_tensor *t = v->nodes[i];
    if (v->number)
        snprintf(number, sizeof number, "%d.%d", v->number, i);
    else
        snprintf(number, sizeof number, "%d", i);
    return tpi_fail_status(v->ctx, TPI_AT(t->file, t->line), "verify", TP_E_BUG,
                           "%s%snode %%%s (%s%s%s): %s", v->after ? v->after : "",
                           v->after ? ": " : "", number, t->op ? t->op->name : "leaf",
                           t->name ? " " : "", t->name ? t->name : "", why.text);
}

static bool same_type(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, sizeof(int64_t) * a->rank) == 0;
}

/* What only nodes without a computation have to keep. NULL: all is well. */
static const char *source_rule(const tp_tensor *t)
{
    if (t->op == &tpi_op_placeholder)
        return t->name ? NULL : "a placeholder has a name";
    if (!t->n_in)
        return NULL;
    const tp_tensor *x = t->in[0];
    switch (t->op->code) {
    case TPI_OP_variable:
    case TPI_OP_const:
        if (x->graph || !x->buf)
            return "it stands for a tensor that has a value";
        if (!(x->flags & TPI_VARIABLE) != (t->op == &tpi_op_const))
            return "a variable is read by a variable node, anything else is a const";
        return same_type(t, x) ? NULL : "it has the type and shape of the tensor it stands for";
    case TPI_OP_assign:
        if (x->op != &tpi_op_variable && x->op != &tpi_op_assign)
            return "what is assigned is a variable or its newest value";
        return same_type(x, t->in[1]) ? NULL : "a value has its variable's type and shape";
    case TPI_OP_result:
        return t->in[1]->op == &tpi_op_call ? NULL : "a result is one of a call";
    default:
        return NULL;
    }
}

static tp_status check_bodies(const verifier *v, int i);

/* A computed leaf or node of a recorded past, or a node of a graph. */
static tp_status check_node(const verifier *v, int i)
{
    const tp_tensor *t = v->nodes[i];
    if (!tpi_is_live(t))
        return tpi_fail_status(v->ctx, TPI_AT(NULL, 0), "verify", TP_E_BUG,
                               "%s%snode %%%d: a node is alive", v->after ? v->after : "",
                               v->after ? ": " : "", i);
    if (t->ctx != v->ctx)
        return broken(v, i, "a node belongs to its graph's context");
    if (t->status != TP_OK)
        return broken(v, i, "a node has not failed, and this one says: %s", tp_error_text(t));
    if (t->flags & TPI_MARK)
        return broken(v, i, "a node is in its list once");
    if (!tp_dtype_size((tp_dtype)t->dtype) || t->rank > TP_MAX_RANK)
        return broken(v, i, "a node has an element type and a shape");
    for (int k = 0; k < t->rank; k++)
        if (!tpi_dim_is_size(t->graph ? v->dims : NULL, t->shape[k]))
            return broken(v, i, "size of axis %d is no size of this graph", k);
    if (!t->op)
        return t->graph || !t->buf ? broken(v, i, "a node has an op, a leaf has a value")
                                   : TP_OK;

    tpi_rule_error why;
    if (!tpi_check_operands(t->op, t->n_in, &why))
        return broken(v, i, "%s", why.text);
    for (int k = 0; k < t->n_in; k++) {
        const tp_tensor *x = t->in[k];
        if (!tpi_is_live(x) || x->status != TP_OK || x->ctx != v->ctx)
            return broken(v, i, "operand %d is a good tensor of the same context", k);
        if (t->op->kind != TPI_SOURCE && !(x->flags & TPI_MARK))
            return broken(v, i, "operand %d comes before its user", k);
        if (t->op->kind != TPI_SOURCE && x->graph != t->graph)
            return broken(v, i, "operand %d is of the same graph", k);
    }
    if (!tpi_check_place(t->op, v->body, &why) ||
        !tpi_check_reads(t->op, t->n_in, t->in, &why) ||
        !tpi_check_attrs(v->dims, t->op, t->attrs, &why))
        return broken(v, i, "%s", why.text);
    if (t->op->kind == TPI_BLOCK) {
        const tp_status s = check_bodies(v, i);
        if (s != TP_OK)
            return s;
    }
    const char *rule = source_rule(t);
    if (rule)
        return broken(v, i, "%s", rule);
    if (!t->op->infer)
        return TP_OK;

    tpi_infer q = {.op = t->op,
                   .at = TPI_AT(NULL, 0),
                   .ctx = v->ctx,
                   .dims = v->dims,
                   .n_in = t->n_in,
                   .in = t->in,
                   .attrs = t->attrs};
    const tp_status s = tpi_infer_again(&q, &why);
    if (s != TP_OK)
        return broken(v, i, "its rule refuses it: %s", why.text);
    if (!tpi_check_answer(&q, (tp_dtype)t->dtype, t->rank, t->shape, &why))
        return broken(v, i, "%s", why.text);
    return TP_OK;
}

static int by_name(const void *a, const void *b)
{
    const tp_tensor *x = *(tp_tensor *const *)a, *y = *(tp_tensor *const *)b;
    const int c = strcmp(x->name, y->name);
    return c ? c : x->seq < y->seq ? -1 : x->seq > y->seq;
}

static tp_status check_names(const verifier *v)
{
    const size_t bytes = (size_t)v->n * sizeof *v->nodes;
    tp_tensor **named = tpi_take(&v->ctx->mem, bytes);
    if (!named)
        return tpi_fail_status(v->ctx, TPI_AT(NULL, 0), "verify", TP_E_MEMORY, "out of memory");
    int n = 0;
    for (int i = 0; i < v->n; i++)
        if (v->nodes[i]->graph && v->nodes[i]->name)
            named[n++] = v->nodes[i];
    qsort(named, (size_t)n, sizeof(tp_tensor *), by_name);
    tp_status s = TP_OK;
    for (int i = 1; i < n && s == TP_OK; i++) {
        if (strcmp(named[i - 1]->name, named[i]->name) != 0)
            continue;
        for (int k = 0; k < v->n && s == TP_OK; k++)
            if (v->nodes[k] == named[i])
                s = broken(v, k, "no two nodes have one name");
    }
    tpi_give_back(&v->ctx->mem, named, bytes);
    return s;
}

/* Each as its rules say, all before their users. */
static tp_status check_list(const verifier *v)
{
    tp_status s = TP_OK;
    int at = 0;
    for (; at < v->n && s == TP_OK; at++) {
        s = check_node(v, at);
        if (s == TP_OK)
            v->nodes[at]->flags |= TPI_MARK;
    }
    for (int i = 0; i < at; i++)
        if (tpi_is_live(v->nodes[i]))
            v->nodes[i]->flags &= (uint8_t)~TPI_MARK;
    return s == TP_OK ? check_names(v) : s;
}

/* Nodes know where they are. */
static tp_status check_places(const verifier *v, const tp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        if (t->graph != g)
            return broken(v, i, "a node knows its graph");
        if (t->index != i)
            return broken(v, i, "a node knows its place, and this one says %d", t->index);
        if (t->name && tpi_graph_by_name(g, t->name, strlen(t->name)) != t)
            return broken(v, i, "a node is found by its name");
    }
    return TP_OK;
}

static bool is_node_of(const tp_graph *g, const tp_tensor *t)
{
    return t && t->index >= 0 && t->index < g->n_nodes && g->nodes[t->index] == t;
}

/* Params and outputs of b, the body of node i; its nodes are good. */
static tp_status check_ends(const verifier *v, int i, const tpi_body *b)
{
    int n_params = 0;
    for (int k = 0; k < b->graph->n_nodes; k++)
        n_params += b->graph->nodes[k]->op == &tpi_op_param;
    if (n_params != b->n_params)
        return broken(v, i, "its body has %d params, and knows of %d", n_params, b->n_params);
    for (int k = 0; k < b->n_params; k++) {
        const tp_tensor *t = b->params[k];
        if (!is_node_of(b->graph, t) || t->op != &tpi_op_param ||
            ((const tpi_index_attrs *)t->attrs)->index != k)
            return broken(v, i, "param %d of its body is not the one with that index", k);
    }
    for (int k = 0; k < b->n_outputs; k++)
        if (!is_node_of(b->graph, b->outputs[k]) || tpi_is_block(b->outputs[k]))
            return broken(v, i, "output %d of its body is a value of the body", k);
    return TP_OK;
}

/* The bodies of node i, a block. */
static tp_status check_bodies(const verifier *v, int i)
{
    const tp_tensor *t = v->nodes[i];
    tpi_body *bodies[2];
    const int n = tpi_bodies_of(t, bodies), first = *v->n_bodies + 1;
    if (v->depth >= TPI_MAX_NESTING)
        return broken(v, i, "blocks nest at most %d deep", TPI_MAX_NESTING);
    *v->n_bodies += n;
    for (int k = 0; k < n; k++) {
        const tpi_body *b = bodies[k];
        if (b->graph->body != b || b->graph->parent != t->graph || b->graph->dims != v->dims)
            return broken(v, i, "its bodies belong to its graph");
        const verifier inner = {.ctx = v->ctx,
                                .dims = v->dims,
                                .after = v->after,
                                .n = b->graph->n_nodes,
                                .nodes = b->graph->nodes,
                                .body = b,
                                .number = first + k,
                                .depth = v->depth + 1,
                                .n_bodies = v->n_bodies,
                                .refused = v->refused};
        tp_status s = check_list(&inner);
        if (s == TP_OK)
            s = check_places(&inner, b->graph);
        if (s == TP_OK)
            s = check_ends(v, i, b);
        if (s != TP_OK)
            return s;
    }
    return TP_OK;
}

tp_status tpi_verify(tp_ctx *ctx, const char *after, tpi_dims *dims, int n,
                     tp_tensor *const *nodes)
{
    int n_bodies = 0;
    const tp_graph *g = n && tpi_is_live(nodes[0]) ? nodes[0]->graph : NULL;
    const verifier v = {.ctx = ctx,
                        .dims = dims,
                        .after = after,
                        .n = n,
                        .nodes = nodes,
                        .body = g ? g->body : NULL,
                        .n_bodies = &n_bodies,
                        .refused = ctx->mem.refused};
    const tp_status s = check_list(&v);
    tpi_rule_error why;
    if (s != TP_OK || !n_bodies || tpi_check_turns(ctx, dims, n, nodes, false, &why))
        return s;
    const bool no_memory = ctx->mem.refused != v.refused;
    return tpi_fail_status(ctx, TPI_AT(NULL, 0), "verify", no_memory ? TP_E_MEMORY : TP_E_BUG,
                           "%s%s%s", after ? after : "", after ? ": " : "", why.text);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static tp_status check_lifted(const verifier *v, const tp_graph *g)
{
    int n = 0;
    for (int i = 0; i < g->lifted_size; i++) {
        const tpi_lifted *l = &g->lifted[i];
        if (!l->concrete)
            continue;
        n++;
        const tp_tensor *t = l->node;
        if (!t || t->index < 0 || t->index >= v->n || v->nodes[t->index] != t)
            return tpi_fail_status(v->ctx, TPI_AT(NULL, 0), "verify", TP_E_BUG,
                                   "a lifted tensor stands for a node of the graph");
        const int at = t->index;
        while (t->op == &tpi_op_assign)
            t = t->in[0];
        const bool reads = t->op == &tpi_op_variable || t->op == &tpi_op_const;
        const tp_tensor *x = l->concrete; /* recorded ones are computed again in the graph */
        if (reads ? t->in[0] != x : !x->in || x->op != t->op || !same_type(x, t))
            return broken(v, at, "a lifted tensor is what its node reads, or computes again");
    }
    if (n != g->n_lifted)
        return tpi_fail_status(v->ctx, TPI_AT(NULL, 0), "verify", TP_E_BUG,
                               "%d tensors are lifted, the graph counts %d", n, g->n_lifted);
    return TP_OK;
}

tp_status tp_graph_verify(const tp_graph *g)
{
    if (!g)
        return TP_E_NULL;
    const verifier v = {.ctx = g->ctx,
                        .dims = g->dims,
                        .n = g->n_nodes,
                        .nodes = g->nodes,
                        .refused = g->ctx->mem.refused};
    tp_status s = tpi_verify(g->ctx, NULL, g->dims, g->n_nodes, g->nodes);
    if (s == TP_OK)
        s = check_places(&v, g);
    return s == TP_OK && !g->body ? check_lifted(&v, g) : s;
}
