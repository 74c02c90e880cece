/* Sizes that only a run tells: the number of turns of a loop that a condition ends. Until the loop
 * has run, its symbol has no value; what depends on it is looked at afterwards, node by node.
 *
 * A C program has memory for a number of turns at most (the symbol's capacity). A loop that would
 * take more gives up, and the program runs again from the start with twice as much: nothing has
 * been written yet that anyone sees. */
#include "ir/body.h"
#include "ir/factors.h"
#include "op/sizes.h"
#include "run/program.h"

#include <string.h>

enum { FIRST_CAPACITY = 16, UNKNOWN = -1 };

/* ---- which symbols ------------------------------------------------------------------------------ */

static void find_in(tp_program *p, const tp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        tpi_body *bodies[2];
        const int n = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0;
        for (int k = 0; k < n; k++)
            find_in(p, bodies[k]->graph);
        const tpi_loop_attrs *a = t->attrs;
        int symbol;
        if (!tpi_loop_of(t) || !a->has_pred ||
            !tpi_dim_as_symbol(g->dims, a->length, &symbol) || p->late[symbol])
            continue;
        p->late[symbol] = true;
        p->capacity[symbol] = FIRST_CAPACITY;
        p->n_late++;
    }
}

bool tpi_find_late(tp_program *p)
{
    const size_t n = (size_t)p->n_symbols;
    p->late = tpi_bump_take(&p->lists, n, sizeof *p->late);
    if (!p->late)
        return false;
    memset(p->capacity, 0, n * sizeof *p->capacity);
    find_in(p, p->graph);
    return true;
}

void tpi_late_begin(tp_program *p)
{
    for (int i = 0; i < p->n_symbols && p->n_late; i++)
        if (p->late[i])
            p->symbols[i] = UNKNOWN;
}

void tpi_late_most(tp_program *p)
{
    for (int i = 0; i < p->n_symbols && p->n_late; i++)
        if (p->late[i])
            p->symbols[i] = p->capacity[i];
}

/* ---- what depends on them ------------------------------------------------------------------------ */

/* Of a part of an expression. */
enum { FIXED, GROWS, /* with the late symbols, or stays */ SHRINKS };

typedef struct growth {
    const tp_program *p;
    unsigned char of[64]; /* by step */
    int n;
} growth;

static int put_growth(growth *g, int of)
{
    enum { LAST = sizeof g->of - 1 };
    if (g->n > LAST) { /* too long to be followed */
        g->of[LAST] = SHRINKS;
        return LAST;
    }
    g->of[g->n] = (unsigned char)of;
    return g->n++;
}

static int number_grows(void *user, int64_t n)
{
    (void)n;
    return put_growth(user, FIXED);
}

static int symbol_grows(void *user, int i)
{
    growth *g = user;
    return put_growth(g, g->p->late[i] ? GROWS : FIXED);
}

static int step_grows(void *user, char op, int a, int b)
{
    growth *g = user;
    const int x = g->of[a], y = g->of[b];
    const bool turns = (op == '-' || op == '/') && y != FIXED;
    return put_growth(g, turns ? SHRINKS : x > y ? x : y);
}

static int growth_of(const tp_program *p, int64_t dim)
{
    static const tpi_dim_steps steps = {number_grows, symbol_grows, step_grows};
    if (!p->n_late || !tpi_dim_is_symbolic(dim))
        return FIXED;
    growth g = {.p = p};
    const int last = tpi_dim_build(p->graph->dims, dim, &steps, &g);
    return last < 0 ? FIXED : g.of[last];
}

bool tpi_dim_is_late(const tp_program *p, int64_t dim)
{
    return growth_of(p, dim) != FIXED;
}

/* The worst of a node's own sizes. */
static int growth_of_node(const tp_program *p, const tp_tensor *t)
{
    int worst = FIXED;
    for (int i = 0; i < t->rank; i++) {
        const int of = growth_of(p, t->shape[i]);
        worst = of > worst ? of : worst;
    }
    for (const tpi_attr *a = t->op->attrs; a && a->name; a++) {
        const int64_t *v = (const int64_t *)(const void *)((const char *)t->attrs + a->offset);
        const int64_t n = a->type == TPI_ATTR_DIMS ? *v++ : a->type == TPI_ATTR_DIM;
        for (int64_t k = 0; k < n; k++) {
            const int of = growth_of(p, v[k]);
            worst = of > worst ? of : worst;
        }
    }
    return worst;
}

bool tpi_is_late(const tp_program *p, const tp_tensor *t)
{
    bool late = p->n_late && growth_of_node(p, t) != FIXED;
    for (int k = 0; p->n_late && t->op->kind != TPI_SOURCE && k < t->n_in && !late; k++)
        late = growth_of_node(p, t->in[k]) != FIXED;
    return late;
}

/* ---- can a C program run it? ---------------------------------------------------------------------- */

/* Is it a range of an axis whose size is known when the run begins? Along others it takes any size. */
static bool is_fixed_range(const tp_program *p, const tp_tensor *t)
{
    bool fixed = t->op->range;
    tpi_factor f[TP_MAX_RANK];
    tpi_factors_of(t, 0, f);
    for (int a = 0; fixed && a < t->in[0]->rank; a++)
        fixed = f[a].use == TPI_AXIS_PASSED || !tpi_dim_is_late(p, t->in[0]->shape[a]);
    return fixed;
}

static const tp_tensor *find_refuser(const tp_program *p, const tp_graph *g)
{
    const tp_tensor *found = NULL;
    for (int i = 0; i < g->n_nodes && !found; i++) {
        const tp_tensor *t = g->nodes[i];
        tpi_body *bodies[2];
        const int n = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0;
        for (int k = 0; k < n && !found; k++)
            found = find_refuser(p, bodies[k]->graph);
        const bool takes = tpi_takes_any_size(t) || is_fixed_range(p, t) || !tpi_is_late(p, t);
        if (!found && (growth_of_node(p, t) == SHRINKS || !takes))
            found = t;
    }
    return found;
}

const tp_tensor *tpi_late_refuser(const tp_program *p)
{
    return p->n_late ? find_refuser(p, p->graph) : NULL;
}
