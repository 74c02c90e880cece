/* Flows: variables that C sets in a branch to what was there before it.
 *
 *     if (tp_truth(tp_gt(score, best)))
 *         best = score;
 *
 * Nothing is made in the branch, so what `best` is does not follow from what ran, but from the
 * edges that were taken. An edge may be the one that sets the variable to a source when, wherever a
 * trace has taken it, the operand is that source's value of then when it is read the next time. It has to be
 * seen to do so alone; where several do, or it is left open, nothing is found. */
#include "capture/record/flow.h"

#include <string.h>

enum { MAX_SOURCES = 6, MAX_EDGES = 512 };

/* One edge of a look, seen from one source. */
typedef struct candidate {
    int32_t node, edge;
    bool bad;   /* the operand was something else afterwards */
    bool alone; /* it was, and no other of them was taken */
    int32_t hits;
    bool taken;    /* in this trace, since the operand was read */
    tpi_code then; /* what the source was */
} candidate;

typedef struct sets {
    tpi_flow *w;
    tpi_var *v;
    int node, k;
    int n_sources;
    tpi_source sources[MAX_SOURCES];
    int n_edges;  /* of looks with several outcomes */
    candidate *c; /* by source, then by edge */
} sets;

static bool shares_maker(const tpi_var *a, const tpi_var *b)
{
    for (int i = 0; i < a->n; i++)
        if (tpi_var_has(b, a->makers[i]))
            return true;
    return false;
}

static void find_sources(sets *u)
{
    const tpi_flow *w = u->w;
    for (int i = 0; i < w->n_vars && u->n_sources < MAX_SOURCES; i++) {
        const tpi_var *v = &w->vars[i];
        if (v != u->v && v->age == 0 && v->n_sets == 0 && shares_maker(v, u->v))
            u->sources[u->n_sources++] = (tpi_source){TPI_SOURCE_VAR, i};
    }
    for (int i = 0; i < u->v->n && u->n_sources < MAX_SOURCES; i++)
        u->sources[u->n_sources++] = (tpi_source){TPI_SOURCE_NODE, u->v->makers[i]};
    if (u->v->init[0] >= 0 && u->n_sources < MAX_SOURCES)
        u->sources[u->n_sources++] = (tpi_source){TPI_SOURCE_EXTERN, u->v->init[0]};
}

static bool find_edges(sets *u)
{
    const tpi_flow *w = u->w;
    for (int i = 0; i < w->n_nodes; i++)
        if (w->nodes[i].kind == TPI_STEP_LOOK && w->nodes[i].n_edges > 1)
            u->n_edges += w->nodes[i].n_edges;
    if (u->n_edges == 0 || u->n_edges > MAX_EDGES)
        return false;
    const size_t n = (size_t)(u->n_edges * u->n_sources);
    u->c = tpi_take(&u->w->ctx->mem, n * sizeof *u->c);
    if (!u->c)
        return false;
    memset(u->c, 0, n * sizeof *u->c);
    for (int s = 0, at = 0; s < u->n_sources; s++)
        for (int i = 0; i < w->n_nodes; i++)
            for (int e = 0; e < w->nodes[i].n_edges; e++)
                if (w->nodes[i].kind == TPI_STEP_LOOK && w->nodes[i].n_edges > 1) {
                    u->c[at].node = i;
                    u->c[at++].edge = e;
                }
    return true;
}

static candidate *of_source(const sets *u, int s)
{
    return u->c + (size_t)s * (size_t)u->n_edges;
}

static void pass_look(sets *u, const tpi_trace *t, int i)
{
    const tpi_flow *w = u->w;
    const tpi_item *x = &t->items[i];
    const tpi_node *n = &w->nodes[x->node];
    for (int s = 0; s < u->n_sources; s++)
        for (int e = 0; e < u->n_edges; e++) {
            candidate *c = of_source(u, s) + e;
            if (c->node != x->node || &n->edges[c->edge] != tpi_flow_edge(n, x->seen, x->size))
                continue;
            c->taken = tpi_source_value(w, u->sources[s], t, i, &c->then);
            c->bad |= !c->taken;
        }
}

/* The operand is read: which edges may have set it? */
static void read_operand(sets *u, tpi_code value, bool settled)
{
    for (int s = 0; s < u->n_sources; s++) {
        candidate *c = of_source(u, s), *only = NULL;
        int taken = 0;
        for (int e = 0; e < u->n_edges; e++) {
            if (!c[e].taken)
                continue;
            c[e].taken = false;
            if (settled ? c[e].bad : c[e].then != value) {
                c[e].bad = true;
                continue;
            }
            c[e].hits++;
            taken++;
            only = &c[e];
        }
        if (settled && taken == 1)
            only->alone = true;
    }
}

/* First which edges are never wrong, then which of those were seen alone. */
static void watch(sets *u)
{
    for (int pass = 0; pass < 2; pass++)
        for (int a = 0; a < u->w->n_traces; a++) {
            const tpi_trace *t = u->w->traces[a];
            for (int e = 0; e < u->n_edges * u->n_sources; e++)
                u->c[e].taken = false;
            for (int i = 0; i < t->n; i++) {
                const tpi_item *x = &t->items[i];
                if (x->node == u->node)
                    read_operand(u, tpi_item_in(t, x)[u->k], pass == 1);
                if (x->kind == TPI_STEP_LOOK)
                    pass_look(u, t, i);
            }
        }
}

/* Does this choice of sources, as bits, explain all that was seen? Then the sets are taken. */
static bool try_sources(sets *u, unsigned mask)
{
    tpi_flow *w = u->w;
    tpi_var *v = u->v;
    v->n_sets = 0;
    memset(v->quiet, 0, (size_t)v->size * sizeof *v->quiet);
    for (int s = 0; s < u->n_sources; s++) {
        if (!(mask >> s & 1))
            continue;
        const candidate *c = of_source(u, s);
        const int before = v->n_sets;
        for (int e = 0; e < u->n_edges; e++) {
            if (c[e].bad || !c[e].hits)
                continue;
            if (!c[e].alone)
                return false;
            for (int i = 0; i < v->n_sets; i++)
                if (v->sets[i].node == c[e].node && v->sets[i].edge == c[e].edge)
                    return false;
            v->sets[v->n_sets++] = (tpi_set){c[e].node, c[e].edge, u->sources[s]};
        }
        if (v->n_sets == before)
            return false;
        for (int i = 0; i < v->n; i++)
            v->quiet[i] |= u->sources[s].kind == TPI_SOURCE_NODE
                               ? u->sources[s].n == v->makers[i]
                           : u->sources[s].kind == TPI_SOURCE_VAR
                               ? tpi_var_has(&w->vars[u->sources[s].n], v->makers[i])
                               : false;
    }
    for (int a = 0; a < w->n_traces; a++) {
        const tpi_trace *t = w->traces[a];
        for (int i = 0; i < t->n; i++)
            if (t->items[i].node == u->node &&
                !tpi_var_is(w, v, t, i, tpi_item_in(t, &t->items[i])[u->k]))
                return false;
    }
    return true;
}

bool tpi_find_sets(tpi_flow *w, tpi_var *v, int node, int k)
{
    tpi_mem *m = &w->ctx->mem;
    sets u = {.w = w, .v = v, .node = node, .k = k};
    find_sources(&u);
    if (!u.n_sources || !find_edges(&u))
        return false;
    const size_t most = (size_t)(u.n_edges * u.n_sources);
    v->quiet = tpi_take(m, (size_t)v->size * sizeof *v->quiet);
    v->sets = tpi_take(m, most * sizeof *v->sets);
    bool found = false;
    if (v->quiet && v->sets) {
        watch(&u);
        for (int bits = 1; bits <= u.n_sources && !found; bits++) /* few sources first */
            for (unsigned mask = 1; mask < 1u << u.n_sources && !found; mask++)
                found = __builtin_popcount(mask) == bits && try_sources(&u, mask);
    }
    const size_t n = found ? (size_t)v->n_sets : 0;
    tpi_set *kept = found ? tpi_take(m, n * sizeof *kept) : NULL;
    if (kept)
        memcpy(kept, v->sets, n * sizeof *kept);
    tpi_give_back(m, v->sets, v->sets ? most * sizeof *v->sets : 0);
    tpi_give_back(m, u.c, most * sizeof *u.c);
    v->sets = kept;
    v->n_sets = kept ? (int32_t)n : 0;
    return kept;
}
