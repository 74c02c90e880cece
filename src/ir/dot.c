/* Drawings for Graphviz:  dot -Tpng graph.dot -o graph.png */
#include "ir/notation.h"

#include <string.h>

typedef struct look {
    const char *shape, *colour;
} look;

static look look_of(const tp_tensor *t)
{
    const tp_tensor *source = tpi_source_of(t);
    if (source && (source->flags & TPI_VARIABLE))
        return source->flags & TPI_LEAF ? (look){"cylinder", "#ffd8a8"}
                                        : (look){"cylinder", "#ffec99"};
    if (source)
        return (look){"box", "#e9ecef"};
    if (t->op == &tpi_op_placeholder)
        return (look){"ellipse", "#a5d8ff"};
    if (t->op == &tpi_op_assign)
        return (look){"box", "#ffc9c9"};
    if (t->op == &tpi_op_call)
        return (look){"component", "#d3f9d8"};
    return t->flags & TPI_CONSTANT ? (look){"box", "#f3f0ff"} : (look){"box", "#ffffff"};
}

/* Any text within the quotes of a label: a byte that is no UTF-8 or no character is shown as
 * \xHH, and every backslash is doubled, so that none is an escape of Graphviz's. */
static void put_label(tpi_str *s, const char *text, size_t len)
{
    for (const char *p = text, *limit = text + len; p < limit;) {
        const unsigned char c = (unsigned char)*p;
        const int n = tpi_utf8_length(p, limit);
        if (n == 0 || c < 0x20 || c == 0x7f)
            tpi_str_printf(s, "\\\\x%02x", c);
        else if (c == '"' || c == '\\')
            tpi_str_printf(s, "\\%c", c);
        else
            tpi_str_add(s, p, (size_t)n);
        p += n ? n : 1;
    }
}

static void put_type_label(tpi_str *s, const tpi_dims *dims, const tp_tensor *t)
{
    tpi_str part = TPI_STR(s->mem);
    tpi_put_type(&part, dims, (tp_dtype)t->dtype, t->rank, t->shape);
    if (part.failed)
        s->failed = true;
    else
        put_label(s, part.text, part.len);
    tpi_str_free(&part);
}

/* The value of a small constant, or the attributes. */
static void put_details(tpi_str *s, const tpi_dims *dims, const tpi_values *v, int i,
                        const tp_tensor *t)
{
    enum { LONGEST = 60 };
    const tp_tensor *source = tpi_source_of(t);
    tpi_str part = TPI_STR(s->mem);
    if (source && !(source->flags & TPI_VARIABLE) && v->number[i] < 0)
        tpi_put_constant(&part, source);
    else if (t->op && t->op->attrs)
        tpi_put_attrs(&part, dims, t->op, t->attrs);
    if (part.len) {
        const bool cut = part.len > LONGEST;
        const char *text = part.text + (*part.text == ' ');
        tpi_str_put(s, "\\n");
        put_label(s, text, (cut ? LONGEST : part.len) - (size_t)(text - part.text));
        tpi_str_put(s, cut ? "..." : "");
    }
    s->failed |= part.failed;
    tpi_str_free(&part);
}

static void put_node(tpi_str *s, const tpi_dims *dims, const tpi_values *v, int i,
                     const tp_tensor *t)
{
    const look l = look_of(t);
    const tp_tensor *source = tpi_source_of(t);
    const char *name = t->name ? t->name : source ? source->name : NULL;
    const char *word = t->op                                      ? t->op->name
                       : source && (source->flags & TPI_VARIABLE) ? "variable"
                                                                  : "const";
    tpi_str_printf(s, "  n%d [shape=%s, fillcolor=\"%s\", label=\"", i, l.shape, l.colour);
    if (name) {
        put_label(s, name, strlen(name));
        tpi_str_put(s, "\\n");
    }
    tpi_str_put(s, word);
    put_details(s, dims, v, i, t);
    tpi_str_put(s, "\", tooltip=\"");
    tpi_str_printf(s, "%%%d : ", i);
    put_type_label(s, dims, t);
    if (t->file) {
        tpi_str_put(s, " ; ");
        put_label(s, t->file, strlen(t->file));
        tpi_str_printf(s, ":%d", t->line);
    }
    tpi_str_put(s, "\"];\n");
    for (int k = 0; !source && k < t->n_in; k++) {
        const bool tie = t->op == &tpi_op_call || (t->op == &tpi_op_result && k == 1);
        tpi_str_printf(s, "  n%d -> n%d [%slabel=\"", t->in[k]->slot, i,
                       tie ? "style=dashed, " : "");
        put_type_label(s, dims, t->in[k]);
        tpi_str_put(s, "\"];\n");
    }
}

/* Nothing uses it: what comes out is drawn too, with its type. */
static void put_ends(tpi_str *s, const tpi_dims *dims, int n, tp_tensor *const *nodes)
{
    for (int i = 0; i < n; i++)
        nodes[i]->flags &= (uint8_t)~TPI_MARK;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < nodes[i]->n_in && !tpi_source_of(nodes[i]); k++)
            nodes[i]->in[k]->flags |= TPI_MARK;
    for (int i = 0; i < n; i++) {
        const bool used = nodes[i]->flags & TPI_MARK;
        nodes[i]->flags &= (uint8_t)~TPI_MARK;
        if (used)
            continue;
        tpi_str_printf(s, "  e%d [shape=point];\n  n%d -> e%d [label=\"", i, i, i);
        put_type_label(s, dims, nodes[i]);
        tpi_str_put(s, "\"];\n");
    }
}

static char *dot_of(tp_ctx *ctx, const char *what, const tpi_dims *dims, int n,
                    tp_tensor *const *nodes)
{
    tpi_str s = TPI_STR(&ctx->mem);
    tpi_values v;
    s.failed = !tpi_values_collect(&v, ctx, n, nodes);
    tpi_str_put(&s, "digraph tapir {\n"
                    "  node [style=filled, ordering=in, fontname=\"Helvetica\", fontsize=11];\n"
                    "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#495057\"];\n");
    for (int i = 0; i < n; i++)
        nodes[i]->slot = i;
    for (int i = 0; i < n && !s.failed; i++)
        put_node(&s, dims, &v, i, nodes[i]);
    put_ends(&s, dims, n, nodes);
    tpi_str_put(&s, "}\n");
    tpi_values_free(&v);
    return tpi_str_hand_over(ctx, &s, what);
}

char *tp_graph_dot(const tp_graph *g)
{
    return g ? dot_of(g->ctx, "tp_graph_dot", g->dims, g->n_nodes, g->nodes) : NULL;
}

char *tp_tape_dot(const tp_tensor *y)
{
    if (!tpi_is_live(y) || y->status != TP_OK)
        return NULL;
    tp_tensor *root = (tp_tensor *)y;
    tpi_nodes nodes = {.ctx = y->ctx};
    char *text = NULL;
    if (tpi_collect(&nodes, 1, &root, NULL, NULL))
        text = dot_of(y->ctx, "tp_tape_dot", tpi_dims_of(y), nodes.n, nodes.v);
    else
        tpi_no_memory(y->ctx, TPI_AT(NULL, 0), "tp_tape_dot");
    tpi_nodes_free(&nodes);
    return text;
}
