/* A graph as the command shows it: its nodes and bodies in arrays, with the texts that are printed. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static void *take(ir *v, int n, size_t size)
{
    void *p = tp_alloc(v->tp, ((size_t)n + 1) * size);
    v->failed |= !p;
    return p;
}

static const char *text(ir *v, const char *fmt, ...) CLI_PRINTF(2, 3);
static const char *text(ir *v, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = take(v, n, 1);
    if (p)
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return p ? p : "";
}

/* A text of the library's, which may have found no memory. */
static const char *given(ir *v, const char *p)
{
    v->failed |= !p;
    return p ? p : "";
}

static const char *place_of(ir *v, const char *file, int line)
{
    return file ? text(v, "%s:%d", file, line) : "";
}

static void read_sizes(ir *v, ir_node *n)
{
    n->sizes = take(v, n->is.rank, sizeof *n->sizes);
    for (int k = 0; k < n->is.rank && n->sizes; k++) {
        n->sizes[k] = given(v, tp_dim_text(v->graph, n->is.shape[k]));
        n->dims = text(v, "%s%s%s", n->dims, k ? "," : "", n->sizes[k]);
    }
}

static void read_attrs(ir *v, const tp_graph *g, int i, ir_node *n)
{
    const int n_bodies = n->is.n_bodies, n_attrs = n_bodies + n->is.n_attributes;
    ir_attr *a = take(v, n_attrs, sizeof *a);
    n->attr = a;
    n->n_attrs = a ? n_attrs : 0;
    for (int k = 0; k < n->n_attrs; k++) {
        if (k < n_bodies)
            a[k] = (ir_attr){tp_node_body_of(g, i, k).word, text(v, "(%d)", n->body + k)};
        else
            a[k].value = given(v, tp_node_attribute(g, i, k - n_bodies, &a[k].name));
        n->attrs = text(v, "%s%s%s=%s", n->attrs, k ? ", " : "", a[k].name, a[k].value);
    }
}

static void read_node(ir *v, const tp_graph *g, int i, ir_node *n)
{
    *n = (ir_node){.is = tp_graph_node(g, i), .dims = "", .attrs = ""};
    const bool is_const = n->is.value && strcmp(n->is.op, "const") == 0;
    read_sizes(v, n);
    n->place = place_of(v, n->is.file, n->is.line);
    n->in = take(v, n->is.n_operands, sizeof *n->in);
    for (int k = 0; k < n->is.n_operands && n->in; k++)
        n->in[k] = tp_node_operand(g, i, k);
    if (n->is.n_bodies)
        n->body = v->n_bodies;
    v->n_bodies += n->is.n_bodies;
    if (!is_const)
        read_attrs(v, g, i, n);
    else if (n->is.n_attributes)
        n->value = given(v, tp_node_attribute(g, i, 0, NULL));
    else
        n->value = text(v, "#%d", v->n_long++);
}

const char *ir_attr_of(const ir_node *n, const char *name)
{
    for (int k = 0; k < n->n_attrs; k++)
        if (strcmp(n->attr[k].name, name) == 0)
            return n->attr[k].value;
    return NULL;
}

/* Of a cond all are given; of a loop the condition comes first, then what is carried, then what goes
 * into the stacks. */
static void read_results(ir *v, const ir_node *block, const tp_graph *g, ir_body *b)
{
    const char *carried = ir_attr_of(block, "carried");
    const int pred = ir_attr_of(block, "pred") != NULL;
    const int stacks = pred + (carried ? atoi(carried) : 0);
    const bool loop = strcmp(block->is.op, "loop") == 0;
    b->results = take(v, tp_graph_n_outputs(g), sizeof *b->results);
    b->n_results = b->results ? tp_graph_n_outputs(g) : 0;
    for (int k = 0; k < b->n_results; k++)
        b->results[k] = (ir_result){.word = !loop        ? "give"
                                            : k < pred   ? "while"
                                            : k < stacks ? "carry"
                                                         : "stack",
                                    .node = tp_node_of_output(g, k)};
}

/* Bodies of a block are numbered before those within them. */
static void read_nodes(ir *v, const tp_graph *g, ir_body *b)
{
    b->nodes = take(v, tp_graph_n_nodes(g), sizeof *b->nodes);
    b->n_nodes = b->nodes ? tp_graph_n_nodes(g) : 0;
    v->n_all += b->n_nodes;
    for (int i = 0; i < b->n_nodes && !v->failed; i++) {
        ir_node *n = &b->nodes[i];
        read_node(v, g, i, n);
        for (int k = 0; k < n->is.n_bodies && !v->failed; k++) {
            const tp_node_body of = tp_node_body_of(g, i, k);
            ir_body *inner = &v->bodies[n->body + k];
            *inner = (ir_body){.word = of.word, .place = place_of(v, of.file, of.line)};
            read_nodes(v, of.graph, inner);
            read_results(v, n, of.graph, inner);
        }
    }
}

static int count_bodies(const tp_graph *g)
{
    int n = 1;
    for (int i = 0; i < tp_graph_n_nodes(g); i++)
        for (int k = 0; k < tp_graph_node(g, i).n_bodies; k++)
            n += count_bodies(tp_node_body_of(g, i, k).graph);
    return n;
}

bool ir_read(ir *v, tp_ctx *tp, const tp_graph *g)
{
    *v = (ir){.tp = tp, .graph = g, .n_bodies = 1};
    v->bodies = g ? take(v, count_bodies(g), sizeof *v->bodies) : NULL;
    if (!v->bodies)
        return false;
    v->bodies->place = "";
    read_nodes(v, g, v->bodies);
    return !v->failed;
}

const ir_node *ir_find(const ir *v, const char *name)
{
    const ir_body *b = v->bodies;
    for (int i = 0; i < b->n_nodes; i++)
        if (b->nodes[i].is.name && strcmp(b->nodes[i].is.name, name) == 0)
            return &b->nodes[i];
    return NULL;
}

bool ir_port(ir_node *n, tp_ctx *tp, const tp_graph *g, const char *name)
{
    ir v = {.tp = tp, .graph = g};
    for (int i = 0; i < tp_graph_n_nodes(g); i++) {
        *n = (ir_node){.is = tp_graph_node(g, i), .dims = ""};
        if (!n->is.name || strcmp(n->is.name, name) != 0)
            continue;
        read_sizes(&v, n);
        return !v.failed;
    }
    return false;
}
