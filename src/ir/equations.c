/* Equations between sizes. An assume node is dead code where only its shape is used, and what it says
 * has to hold nevertheless: so graphs of programs list it. */
#include "ir/graph_def.h"

#include <string.h>

static bool has_equation(const tp_graph *g, const tpi_equation *e)
{
    bool has = false;
    for (int i = 0; i < g->n_equations && !has; i++) {
        const tpi_equation *k = &g->equations[i];
        has = (k->a == e->a && k->b == e->b) || (k->a == e->b && k->b == e->a);
    }
    return has;
}

static bool add(tp_graph *g, const tpi_equation *e)
{
    tpi_equation *v =
        tpi_grow(&g->ctx->mem, g->equations, g->n_equations, &g->equations_size, sizeof *v);
    if (!v)
        return false;
    g->equations = v;
    v[g->n_equations++] = *e;
    return true;
}

static bool intern(tp_graph *g, const char **text)
{
    if (*text)
        *text = tpi_graph_intern(g, *text, strlen(*text));
    return *text;
}

bool tpi_graph_equate(tp_graph *g, const tpi_equation *e)
{
    if (has_equation(g, e))
        return true;
    tp_graph *root = g;
    while (root->parent)
        root = root->parent;
    tpi_equation own = *e;
    if ((e->name && !intern(root, &own.name)) || (e->at.file && !intern(root, &own.at.file)))
        return false;
    return add(g, &own);
}

bool tpi_graph_equate_all(tp_graph *g, const tp_graph *from)
{
    bool ok = true;
    for (int i = 0; i < from->n_equations && ok; i++)
        ok = add(g, &from->equations[i]);
    return ok;
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
