/* What a block keeps for its gradient, and has sizes that only its bodies know (the turns of a loop in
 * it), cannot be an output when it runs. The block that reads it computes it again.
 *
 *     %7 = loop {%a = loop while .. binds turns; ... stacked: a}       %a [turns, 4]
 *     %9 = loop %7.. [n, turns, 4] {... reads of one turn a [turns, 4]}
 *  -> %7 = loop {... stacked: what the inner loop begins with}
 *     %9 = loop %7.. {%a = loop while .. binds turns; ... reads a}
 *
 * Gradients are built on the first form, in which every value is one node, as it is when the blocks
 * run as C; programs are made of the second. What is computed again are such values and blocks;
 * all else that they read is kept. Turns have the same numbers in both loops. A cond that reads
 * such a value of another cond is on the same condition: in each side it is that of the same side.
 * Such values that have been added up outside are added up in the reader.
 *
 * The graph is changed in place, one level of blocks at a time, from the outermost inwards. The copy
 * that every pass makes drops what nothing reads any more. */
#include "pass/keep/recompute.h"

#include "ir/body.h"
#include "pass/keep/rebuild.h"

#include <string.h>

typedef struct level {
    bool *
        inner; /* by symbol: a loop binds it that is inside of a block of the graph that is looked at */
    int n_symbols, n_changes;
} level;

/* ---- what is known ------------------------------------------------------------------------------ */

/* Notes what loops inside of the blocks of g bind; and its own, when g is inside of one. */
static void note_inner(level *l, const tp_graph *g, bool inside)
{
    const int n_nodes = g->n_bodies ? g->n_nodes : 0; /* without a body there is no block */
    for (int i = 0; i < n_nodes; i++) {
        tpi_body *bodies[2];
        const int symbol = inside ? tpi_binds(g->dims, g->nodes[i]) : -1;
        if (symbol >= 0)
            l->inner[symbol] = true;
        const int n = tpi_is_block(g->nodes[i]) ? tpi_bodies_of(g->nodes[i], bodies) : 0;
        for (int k = 0; k < n; k++)
            note_inner(l, bodies[k]->graph, true);
    }
}

static int is_inner_symbol(void *user, int i)
{
    const level *l = user;
    return i >= l->n_symbols || l->inner[i];
}

/* Has t a size that is not known in the graph that is looked at? */
static bool is_inner(void *user, const tp_tensor *t)
{
    bool is = false;
    for (int i = 0; i < t->rank && !is; i++)
        is = tpi_dim_ask(t->graph->dims, t->shape[i], is_inner_symbol, user);
    return is;
}

/* ---- where there is something to do ------------------------------------------------------------------- */

static bool is_kept(void *user, const tp_tensor *t)
{
    return !tpi_is_block(t) && !is_inner(user, t);
}

static bool reads_inner(level *l, const tp_tensor *block)
{
    bool does = false;
    for (int k = 0; k < block->n_in && !does; k++)
        does = is_inner(l, block->in[k]);
    return does;
}

/* One level: bodies are looked at when nothing changes around them. The newest reader is first: what it
 * reads of older readers leads on to where it comes from, so that each block is in it once. */
static bool settle(level *l, tp_graph *g)
{
    const tpi_keeping keeping = {l, is_inner, is_kept, .must = true};
    const int n = g->n_nodes, before = l->n_changes;
    bool ok = true;
    memset(l->inner, 0, (size_t)l->n_symbols);
    note_inner(l, g, false);
    for (int i = n - 1; i >= 0 && ok; i--)
        if (tpi_is_block(g->nodes[i]) && reads_inner(l, g->nodes[i])) {
            ok = tpi_rebuild_reader(&keeping, g, g->nodes[i]);
            l->n_changes++;
        }
    for (int i = 0; i < n && ok && l->n_changes == before; i++) {
        tpi_body *bodies[2];
        const int n_bodies = tpi_is_block(g->nodes[i]) ? tpi_bodies_of(g->nodes[i], bodies) : 0;
        for (int k = 0; k < n_bodies && ok; k++)
            ok = settle(l, bodies[k]->graph);
    }
    return ok;
}

bool tpi_again(tp_graph *g, int *n_changes)
{
    const size_t n = (size_t)tpi_dim_n_symbols(g->dims);
    level l = {.inner = tpi_take(&g->ctx->mem, n), .n_symbols = (int)n};
    if (!l.inner)
        return false;
    const bool sweeps = g->ctx->sweeps;
    g->ctx->sweeps = true; /* bodies are added to */
    const bool ok = settle(&l, g);
    g->ctx->sweeps = sweeps;
    *n_changes += l.n_changes;
    tpi_give_back(&g->ctx->mem, l.inner, n);
    return ok;
}
