/* Nodes one by one, for who draws or lists a graph (tapir/graph.h). */
#include "ir/body.h"
#include "ir/notation.h"

#include <string.h>

static const tp_tensor *node_of(const tp_graph *g, int i)
{
    return g && i >= 0 && i < g->n_nodes ? g->nodes[i] : NULL;
}

int tp_graph_n_nodes(const tp_graph *g)
{
    return g ? g->n_nodes : 0;
}

/* The constant that a text has the elements of. */
static const tp_tensor *written_value(const tp_tensor *t)
{
    const tp_tensor *source = tpi_source_of(t);
    return source && !(source->flags & TPI_VARIABLE) && tpi_count(source) <= TPI_INLINE_MAX
               ? source
               : NULL;
}

/* As of tp_node. */
static int view_of(const tp_graph *g, const tp_tensor *value)
{
    int first = -1;
    if (!value || !(value->flags & TPI_VARIABLE) || value->flags & TPI_STATE)
        return -1;
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *other = tpi_source_of(g->nodes[i]);
        if (!other || other->buf != value->buf)
            continue;
        if (other->flags & TPI_STATE)
            return i;
        first = first < 0 ? i : first;
    }
    return first;
}

static bool has_body(const tp_tensor *t, const tp_graph *body)
{
    tpi_body *bodies[2];
    for (int k = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0; k > 0; k--)
        if (bodies[k - 1]->graph == body)
            return true;
    return false;
}

static void tell_origin(tp_node *n, const tp_tensor *param, const tp_graph *body)
{
    const tp_graph *around = body->parent;
    for (int i = 0; around && i < around->n_nodes; i++) {
        const tp_tensor *block = around->nodes[i];
        if (!has_body(block, body))
            continue;
        const tpi_role role = tpi_param_role(block->op, block->attrs, tpi_index_of(param));
        n->takes = role.word;
        if (role.operand >= 0 && role.operand < block->n_in)
            n->from = block->in[role.operand]->index;
    }
}

tp_node tp_graph_node(const tp_graph *g, int i)
{
    tp_node n = {.view_of = -1, .from = -1};
    const tp_tensor *t = node_of(g, i);
    if (!t)
        return n;
    n.op = t->op->name;
    n.name = t->name;
    n.file = t->file;
    n.line = t->line;
    n.dtype = (tp_dtype)t->dtype;
    n.rank = t->rank;
    memcpy(n.shape, t->shape, t->rank * sizeof *n.shape);
    n.constant = t->flags & TPI_CONSTANT;
    n.value = tpi_source_of(t);
    n.view_of = view_of(g, n.value);
    n.n_operands = n.value ? 0 : t->n_in;
    n.n_attributes = written_value(t) != NULL;
    while (tpi_written_attr(t->op, t->attrs, n.n_attributes))
        n.n_attributes++;
    tpi_body *bodies[2];
    n.n_bodies = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0;
    if (tpi_param_of(t))
        tell_origin(&n, t, g);
    return n;
}

int tp_node_operand(const tp_graph *g, int i, int k)
{
    const tp_tensor *t = node_of(g, i);
    return t && !tpi_source_of(t) && k >= 0 && k < t->n_in ? t->in[k]->index : -1;
}

char *tp_node_attribute(const tp_graph *g, int i, int k, const char **name)
{
    const tp_tensor *t = node_of(g, i), *value = t && k == 0 ? written_value(t) : NULL;
    const tpi_attr *a = t && k >= 0 ? tpi_written_attr(t->op, t->attrs, k) : NULL;
    if (!value && !a)
        return NULL;
    if (name)
        *name = value ? "value" : a->name;
    tpi_str s = TPI_STR(&g->ctx->mem);
    if (value)
        tpi_put_constant(&s, value);
    else
        tpi_put_attr(&s, g->dims, a, t->attrs);
    return tpi_str_hand_over(g->ctx, &s, "tp_node_attribute");
}

tp_node_body tp_node_body_of(const tp_graph *g, int i, int k)
{
    const tp_tensor *t = node_of(g, i);
    tpi_body *bodies[2];
    if (!t || !tpi_is_block(t) || k < 0 || k >= tpi_bodies_of(t, bodies))
        return (tp_node_body){0};
    return (tp_node_body){.graph = bodies[k]->graph,
                          .word = t->op->attrs[k].name, /* bodies come first */
                          .file = bodies[k]->at.file,
                          .line = bodies[k]->at.line};
}

int tp_node_of_output(const tp_graph *g, int k)
{
    if (k < 0 || k >= tp_graph_n_outputs(g))
        return -1;
    return (g->body ? g->body->outputs : g->outputs)[k]->index;
}

char *tp_dim_text(const tp_graph *g, int64_t size)
{
    static const char what[] = "tp_dim_text";
    if (!g)
        return NULL;
    if (tpi_is_spoilt_size(size)) {
        tpi_fail_spoilt(g->ctx, TPI_AT(NULL, 0), what, TP_E_SHAPE, size);
        return NULL;
    }
    if (!tpi_dim_is_size(g->dims, size)) {
        tpi_fail_status(g->ctx, TPI_AT(NULL, 0), what, TP_E_SHAPE,
                        "%lld is no size of the graph", (long long)size);
        return NULL;
    }
    tpi_str s = TPI_STR(&g->ctx->mem);
    tpi_dim_print(g->dims, size, &s);
    return tpi_str_hand_over(g->ctx, &s, what);
}
