/* Drawings for Graphviz:  dot -Tpng graph.dot -o graph.png */
#include "ir/body.h"
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
    if (t->op->kind == TPI_SOURCE)
        return (look){"ellipse", tpi_param_of(t) ? "#d0ebff" : "#a5d8ff"};
    if (tpi_is_block(t))
        return (look){tpi_loop_of(t) ? "hexagon" : "diamond", "#ffe3e3"};
    if (tpi_block_of(t))
        return (look){"box", "#e6fcf5"};
    if (tpi_assigned_of(t))
        return (look){"box", "#ffc9c9"};
    if (tpi_has_inside(t))
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

/* Where in a drawing: the nodes of one body, or of none. A node's slot is its name, n12. */
typedef struct canvas {
    tpi_str *s;
    const tpi_dims *dims;
    const tpi_values *v;
    const tp_tensor *block; /* whose body; NULL: none */
    int body;               /* its number in the text, 0: none */
    int *n_bodies;          /* numbers given away */
} canvas;

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
        tpi_put_attrs(&part, dims, t->op, t->attrs, 0);
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

/* "for n, while" */
static void put_turns(tpi_str *s, const tpi_dims *dims, const tpi_loop_attrs *a)
{
    if (a->counted) {
        tpi_str part = TPI_STR(s->mem);
        tpi_dim_print(dims, a->count, &part);
        tpi_str_put(s, "for ");
        if (part.failed)
            s->failed = true;
        else
            put_label(s, part.text, part.len);
        tpi_str_free(&part);
    }
    tpi_str_put(s, a->back ? ", backwards" : "");
    tpi_str_put(s, a->counted && a->has_pred ? ", while" : a->has_pred ? "while" : "");
    tpi_str_put(s, a->checkpoint ? "\\ncheckpoint" : "");
}

/* What a node is, and what makes it another than its like. */
static void put_words(const canvas *c, const tp_tensor *t)
{
    const tp_tensor *source = tpi_source_of(t);
    const bool is_param = t->op && tpi_param_of(t);
    if (!t->op) {
        tpi_str_put(c->s, source->flags & TPI_VARIABLE ? "variable" : "const");
    } else if (tpi_loop_of(t)) {
        put_turns(c->s, c->dims, t->attrs);
        return;
    } else if (tpi_is_block(t)) {
        tpi_str_put(c->s, "if");
        return;
    } else if (is_param || tpi_block_of(t)) {
        const int64_t index = tpi_index_of(t);
        if (is_param && c->block) {
            const char *word = tpi_param_role(c->block->op, c->block->attrs, index).word;
            tpi_str_put(c->s, *word ? word : "captured");
        } else {
            tpi_str_printf(c->s, "%s %lld", t->op->name, (long long)index);
        }
        return;
    } else {
        tpi_str_put(c->s, t->op->name);
    }
    put_details(c->s, c->dims, c->v, t->slot, t);
}

/* What it shows when the pointer is on it: its line of the text, in short. */
static void put_tooltip(const canvas *c, int i, const tp_tensor *t)
{
    tpi_put_number(c->s, c->body, i);
    tpi_str_put(c->s, " : ");
    put_type_label(c->s, c->dims, t);
    if (t->file) {
        tpi_str_put(c->s, " ; ");
        put_label(c->s, t->file, strlen(t->file));
        tpi_str_printf(c->s, ":%d", t->line);
    }
}

static void put_edge(const canvas *c, tp_tensor *from, const tp_tensor *to, const char *style)
{
    tpi_str_printf(c->s, "  n%d -> n%d [%slabel=\"", from->slot, to->slot, style);
    put_type_label(c->s, c->dims, from);
    tpi_str_put(c->s, "\"];\n");
    from->flags |= TPI_MARK; /* it is used */
}

static const char back_edge[] = "style=dashed, constraint=false, ";

/* From what the bodies give to output node `t`. */
static void put_output_edges(const canvas *c, const tp_tensor *t)
{
    const tp_tensor *block = t->in[0];
    tpi_body *bodies[2];
    const tpi_loop_attrs *loop = tpi_loop_of(block);
    const int64_t index = tpi_index_of(t) + (loop ? loop->has_pred : 0);
    for (int k = 0, n = tpi_bodies_of(block, bodies); k < n; k++)
        if (index < bodies[k]->n_outputs)
            put_edge(c, bodies[k]->outputs[index], t, "");
}

/* Operands go to the params; what is carried goes back to them. */
static void put_block_edges(const canvas *c, const tp_tensor *t)
{
    tpi_body *bodies[2];
    const int n_bodies = tpi_bodies_of(t, bodies);
    const tpi_loop_attrs *loop = tpi_loop_of(t);
    if (t->n_in && (!loop || loop->has_pred))
        put_edge(c, t->in[0], t, "");
    for (int k = 0; k < n_bodies; k++)
        for (int i = 0; i < bodies[k]->n_params; i++) {
            const tpi_role role = tpi_param_role(t->op, t->attrs, i);
            if (role.operand >= 0 && role.operand < t->n_in)
                put_edge(c, t->in[role.operand], bodies[k]->params[i], "");
        }
    if (!loop)
        return;
    const tpi_body *b = bodies[0];
    if (b->n_params)
        tpi_str_printf(c->s, "  n%d -> n%d [style=dotted];\n", t->slot, b->params[0]->slot);
    if (loop->has_pred && b->n_outputs)
        put_edge(c, b->outputs[0], t, back_edge);
    for (int64_t i = 0;
         i < loop->n_carried && i + loop->has_pred < b->n_outputs && i + 1 < b->n_params; i++)
        put_edge(c, b->outputs[i + loop->has_pred], b->params[i + 1], back_edge);
}

static void put_edges(const canvas *c, const tp_tensor *t)
{
    if (t->op && tpi_is_block(t)) {
        put_block_edges(c, t);
    } else if (tpi_block_of(t)) {
        put_output_edges(c, t);
    } else if (!tpi_source_of(t)) {
        for (int k = 0; k < t->n_in; k++) {
            const bool tie = tpi_has_inside(t) || t->in[k] == tpi_token_of(t);
            put_edge(c, t->in[k], t, tie ? "style=dashed, " : "");
        }
    }
}

static void put_node(const canvas *c, int i, const tp_tensor *t)
{
    const look l = look_of(t);
    const tp_tensor *source = tpi_source_of(t);
    const char *name = t->name ? t->name : source ? source->name : NULL;
    tpi_str_printf(c->s, "  n%d [shape=%s, fillcolor=\"%s\", label=\"", t->slot, l.shape,
                   l.colour);
    if (name) {
        put_label(c->s, name, strlen(name));
        tpi_str_put(c->s, "\\n");
    }
    put_words(c, t);
    tpi_str_put(c->s, "\", tooltip=\"");
    put_tooltip(c, i, t);
    tpi_str_put(c->s, "\"];\n");
}

static void put_frame(const canvas *c, int block, int body, const char *word, const char *file,
                      int line)
{
    tpi_str_printf(c->s, "  subgraph cluster_%d_%d {\n    label=\"%s", block, body, word);
    if (file) {
        tpi_str_put(c->s, " ");
        put_label(c->s, file, strlen(file));
        tpi_str_printf(c->s, ":%d", line);
    }
    tpi_str_put(c->s, "\"; fontname=\"Helvetica\"; fontsize=11; style=\"rounded,filled\"; "
                      "color=\"#adb5bd\"; fillcolor=\"#f8f9fa\";\n");
}

static void put_nodes(const canvas *c, int n, tp_tensor *const *nodes);

/* A block is a frame around its node and its body; the sides of a cond have frames of their own. */
static void put_block(const canvas *c, int i, const tp_tensor *t)
{
    static const char *const sides[] = {"then", "else"};
    tpi_body *bodies[2];
    const int n = tpi_bodies_of(t, bodies);
    canvas inner = *c;
    inner.block = t;
    inner.body = *c->n_bodies + 1;
    *c->n_bodies += n;
    put_frame(c, t->slot, 0, t->op->name, t->file, t->line);
    put_node(c, i, t);
    for (int k = 0; k < n; k++, inner.body++) {
        if (n > 1)
            put_frame(c, t->slot, k + 1, sides[k], bodies[k]->at.file, bodies[k]->at.line);
        put_nodes(&inner, bodies[k]->graph->n_nodes, bodies[k]->graph->nodes);
        tpi_str_put(c->s, n > 1 ? "  }\n" : "");
    }
    tpi_str_put(c->s, "  }\n");
}

static void put_nodes(const canvas *c, int n, tp_tensor *const *nodes)
{
    for (int i = 0; i < n && !c->s->failed; i++) {
        if (nodes[i]->op && tpi_is_block(nodes[i]))
            put_block(c, i, nodes[i]);
        else
            put_node(c, i, nodes[i]);
        /* A line within a frame would pull its ends into it. */
        const int end = i + 1 < n ? nodes[i + 1]->slot : c->v->all.n;
        for (int k = nodes[i]->slot; k < end && !c->block; k++)
            put_edges(c, c->v->all.v[k]);
    }
}

/* Nothing uses it: what comes out is drawn too, with its type. */
static void put_ends(const canvas *c)
{
    for (int i = 0; i < c->v->all.n; i++) {
        tp_tensor *t = c->v->all.v[i];
        const bool used =
            t->flags & TPI_MARK || (t->op && (tpi_is_block(t) || tpi_param_of(t)));
        t->flags &= (uint8_t)~TPI_MARK;
        if (used)
            continue;
        tpi_str_printf(c->s, "  e%d [shape=point];\n  n%d -> e%d [label=\"", i, i, i);
        put_type_label(c->s, c->dims, t);
        tpi_str_put(c->s, "\"];\n");
    }
}

static char *dot_of(tp_ctx *ctx, const char *what, const tpi_dims *dims, int n,
                    tp_tensor *const *nodes)
{
    tpi_str s = TPI_STR(&ctx->mem);
    tpi_values v;
    int n_bodies = 0;
    s.failed = !tpi_values_collect(&v, ctx, n, nodes);
    const canvas c = {.s = &s, .dims = dims, .v = &v, .n_bodies = &n_bodies};
    tpi_str_put(&s, "digraph tapir {\n"
                    "  node [style=filled, ordering=in, fontname=\"Helvetica\", fontsize=11];\n"
                    "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#495057\"];\n");
    for (int i = 0; i < v.all.n; i++) {
        v.all.v[i]->slot = i;
        v.all.v[i]->flags &= (uint8_t)~TPI_MARK;
    }
    if (!s.failed)
        put_nodes(&c, n, nodes);
    put_ends(&c);
    tpi_str_put(&s, "}\n");
    tpi_values_free(&v);
    return tpi_str_hand_over(ctx, &s, what);
}

char *tp_graph_dot(const tp_graph *g)
{
    return g ? dot_of(g->ctx, "tp_graph_dot", g->dims, g->n_nodes, g->nodes) : NULL;
}

char *(tp_tape_dot)(const tp_tensor *y)
{
    if (tpi_is_live(y) && y->ctx) /* all that it was computed from is shown, not y alone */
        tpi_look_at_all(y->ctx, TPI_AT(NULL, 0), TPI_LOOK_SHOW);
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
