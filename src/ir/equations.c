/* Equations between sizes. An assume node is dead code where only its shape is used, and what it says
 * has to hold nevertheless: so graphs of programs list it. */
#include "ir/graph_def.h"

#include <string.h>

static bool intern(tp_graph *g, const char **text)
{
    if (*text)
        *text = tpi_graph_intern(g, *text, strlen(*text));
    return *text;
}

bool tpi_graph_equate(tp_graph *g, const tpi_equation *e)
{
    for (int i = 0; i < g->n_equations; i++) {
        const tpi_equation *k = &g->equations[i];
        if ((k->a == e->a && k->b == e->b) || (k->a == e->b && k->b == e->a))
            return true;
    }
    if (g->n_equations == g->equations_size) {
        const int more = g->equations_size ? 2 * g->equations_size : 4;
        tpi_equation *v =
            tpi_resize(&g->ctx->mem, g->equations, (size_t)g->equations_size * sizeof *v,
                       (size_t)more * sizeof *v);
        if (!v)
            return false;
        g->equations = v;
        g->equations_size = more;
    }
    tp_graph *root = g;
    while (root->parent)
        root = root->parent;
    tpi_equation own = *e;
    if ((e->name && !intern(root, &own.name)) || (e->at.file && !intern(root, &own.at.file)))
        return false;
    g->equations[g->n_equations++] = own;
    return true;
}

bool tpi_graph_equation_of(const tp_tensor *t, int axis, tpi_equation *e)
{
    if (!t->graph || t->op->code != TPI_OP_assume || axis >= t->rank ||
        t->in[0]->shape[axis] == t->shape[axis])
        return false;
    *e = (tpi_equation){.a = t->in[0]->shape[axis],
                        .b = t->shape[axis],
                        .name = t->name,
                        .at = TPI_AT(t->file, t->line)};
    return true;
}
