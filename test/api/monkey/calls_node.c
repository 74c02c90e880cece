/* Calls that walk the nodes of graphs. */
#include "monkey.h"

/* A graph, the one that a program runs, or the body of a block of one. */
static const tp_graph *walked(monkey *m)
{
    const tp_graph *g = below(m, 4) ? graph(m) : tp_program_graph(m->program[which(m)].p);
    for (int i = tp_graph_n_nodes(g); i > 0 && below(m, 3) == 0; i--) {
        const tp_graph *body = tp_node_body_of(g, i - 1, 0).graph;
        g = body ? body : g;
    }
    return g;
}

static int node_of(monkey *m, const tp_graph *g)
{
    return below(m, tp_graph_n_nodes(g) + 2) - 1;
}

CALL(tp_graph_n_nodes)
{
    return tp_graph_n_nodes(walked(m)) > 0;
}

CALL(tp_graph_node)
{
    const tp_graph *g = walked(m);
    return tp_graph_node(g, node_of(m, g)).op != NULL;
}

CALL(tp_node_operand)
{
    const tp_graph *g = walked(m);
    const int i = node_of(m, g);
    return tp_node_operand(g, i, below(m, 4) - 1) >= 0;
}

CALL(tp_node_attribute)
{
    const char *name;
    const tp_graph *g = walked(m);
    const int i = node_of(m, g);
    const int k = below(m, 2) ? 0 : below(m, 3) - 1;
    return text(m, tp_node_attribute(g, i, k, &name));
}

/* A block is made for it, where chance would seldom find one. */
CALL(tp_node_body_of)
{
    tp_graph *g = graph(m);
    tp_tensor *h = tp_graph_read(g, number_like(m));
    tp_for (2, &h)
        h = tp_neg(h);
    int i = tp_graph_n_nodes(g) - 1;
    while (i > 0 && tp_graph_node(g, i).n_bodies == 0)
        i--;
    return tp_node_body_of(g, i, below(m, 3) - 1).graph != NULL;
}

CALL(tp_node_of_output)
{
    tp_graph *g = graph(m);
    tp_tensor *y = tp_graph_find(g, "y");
    if (tp_graph_n_outputs(g) == 0)
        tp_graph_set_outputs(g, 1, &y);
    return tp_node_of_output(below(m, 2) ? g : walked(m), below(m, 3) - 1) >= 0;
}

CALL(tp_dim_text)
{
    const tp_graph *g = walked(m);
    const tp_node n = tp_graph_node(g, node_of(m, g));
    return text(m, tp_dim_text(g, n.rank && below(m, 2) ? n.shape[0] : size(m)));
}
