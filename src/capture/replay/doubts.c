/* Basic blocks: where recordings leave it open which tensor C would use. */
#include "capture/replay/blocks.h"

#include <string.h>

static bool same_type(const tpi_node *n, const tp_tensor *h)
{
    return n->kind == TPI_STEP_OP && n->dtype == h->dtype && n->rank == h->rank &&
           memcmp(n->item->shape, h->shape, sizeof(int64_t) * h->rank) == 0;
}

static bool source_has(const tpi_flow *w, tpi_source s, int node)
{
    return s.kind == TPI_SOURCE_NODE  ? s.n == node
           : s.kind == TPI_SOURCE_VAR ? tpi_var_has(&w->vars[s.n], node)
                                      : false;
}

/* Has the variable something in common with the source? */
static bool meets(const tpi_flow *w, const tpi_var *v, tpi_source s)
{
    if (s.kind == TPI_SOURCE_EXTERN)
        return v->init[0] == s.n || v->init[1] == s.n;
    if (s.kind == TPI_SOURCE_NODE)
        return tpi_var_has(v, s.n);
    const tpi_var *own = &w->vars[s.n];
    for (int i = 0; i < own->n; i++)
        if (tpi_var_has(v, own->makers[i]))
            return true;
    return (own->init[0] >= 0 && own->init[0] == v->init[0]);
}

/* Nodes of the same kind and line, as those of several turns, do the same in C. */
static bool is_alike(const tpi_flow *w, int a, int b)
{
    return w->nodes[a].hash == w->nodes[b].hash;
}

static bool has_alike(const tpi_flow *w, const tpi_var *v, int node)
{
    for (int i = 0; i < v->n; i++)
        if (is_alike(w, v->makers[i], node))
            return true;
    return false;
}

/* Has the variable something in common with the source, or something alike? */
static bool meets_alike(const tpi_flow *w, const tpi_var *v, tpi_source s)
{
    if (s.kind == TPI_SOURCE_NODE)
        return has_alike(w, v, s.n);
    for (int i = 0; s.kind == TPI_SOURCE_VAR && i < w->vars[s.n].n; i++)
        if (has_alike(w, v, w->vars[s.n].makers[i]))
            return true;
    return meets(w, v, s);
}

/* Might C mean the value of node d where an operand is `s`? It might when d, or what is alike, takes the
 * place of the same in some variable, or when it has been computed for nothing so far. */
static bool may_mean(const tpi_flow *w, tpi_source s, int d)
{
    if (w->nodes[d].unused || (s.kind == TPI_SOURCE_NODE && is_alike(w, s.n, d)))
        return true;
    for (int i = 0; i < w->n_vars; i++)
        if (has_alike(w, &w->vars[i], d) && meets_alike(w, &w->vars[i], s))
            return true;
    return false;
}

/* Was the operand seen to be what it is although node d had run, with this outcome if it is a look, since
 * that was made, or `before`? */
static bool is_known_beside(const tpi_flow *w, int node, int k, int made, int d,
                            const tpi_edge *e, bool before)
{
    for (int a = 0; a < w->n_traces; a++) {
        const tpi_trace *t = w->traces[a];
        int last = -2;
        for (int i = 0; i < t->n; i++) {
            const tpi_item *x = &t->items[i];
            if (x->node == node && last >= 0) {
                const tpi_code c = tpi_item_in(t, x)[k];
                const int maker = c < 0 ? -1 : t->items[c].node;
                if ((last > c || before) &&
                    maker == made) /* one from outside was made before all */
                    return true;
            }
            if (x->node == d && (!e || tpi_flow_edge(&w->nodes[d], x->seen, x->size) == e))
                last = i;
        }
    }
    return false;
}

static bool add_doubt(tpi_flow *w, tpi_port *p, tpi_doubt d)
{
    for (int i = 0; i < p->n_doubts; i++)
        if (memcmp(&p->doubts[i], &d, sizeof d) == 0)
            return true;
    tpi_doubt *v = tpi_resize(&w->ctx->mem, p->doubts, (size_t)p->n_doubts * sizeof *v,
                              (size_t)(p->n_doubts + 1) * sizeof *v);
    if (!v)
        return false;
    p->doubts = v;
    v[p->n_doubts++] = d;
    return true;
}

static bool is_consistent(const tpi_flow *w, const tpi_var *v, int node, int k)
{
    for (int a = 0; a < w->n_traces; a++) {
        const tpi_trace *t = w->traces[a];
        for (int i = 0; i < t->n; i++)
            if (t->items[i].node == node &&
                !tpi_var_is(w, v, t, i, tpi_item_in(t, &t->items[i])[k]))
                return false;
    }
    return true;
}

/* The variable that a source is part of, and was equal to wherever it was seen; -1: none, or
 * several that differ. */
int tpi_find_alt(const tpi_flow *w, int node, int k)
{
    const tpi_source s = w->nodes[node].in[k].source;
    int found = -1;
    if (s.kind == TPI_SOURCE_EXTERN)
        return -1;
    for (int i = 0; i < w->n_vars; i++) {
        const tpi_var *v = &w->vars[i];
        if (v->age || (s.kind == TPI_SOURCE_VAR && s.n == i) || !meets(w, v, s) ||
            !is_consistent(w, v, node, k))
            continue;
        if (found >= 0 &&
            (w->vars[found].n != v->n ||
             memcmp(w->vars[found].makers, v->makers, (size_t)v->n * sizeof *v->makers) != 0))
            return -1;
        found = i;
    }
    return found < 0 ? -1 : w->vars[found].reg;
}

bool tpi_may_doubt(const tpi_flow *w, const tpi_basic_blocks *bs, const tpi_port *p)
{
    if (p->node < 0 || p->soft || bs->n == 1)
        return false;
    const tpi_source s = w->nodes[p->node].in[p->k].source;
    return s.kind != TPI_SOURCE_EXTERN || w->externs[s.n].from == TPI_FROM_ARG;
}

/* Does nothing happen behind this edge that does not happen behind the others? Then C may have set a
 * variable there that is not seen yet. */
static bool is_empty(const tpi_flow *w, const tpi_node *look, int edge)
{
    const int target = look->edges[edge].to;
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_edges; k++)
            if (w->nodes[i].edges[k].to == target && (&w->nodes[i] != look || k != edge) &&
                !w->nodes[i].edges[k].back)
                return true;
    return look->edges[edge].back;
}

/* Edges beside which an operand that was made there has not been seen. For an argument that is used as it
 * is, those on which nothing happens: others make something, and what C does with that is looked
 * at by itself. */
static bool doubt_edges(tpi_flow *w, tpi_port *p, int made)
{
    const bool computed = w->nodes[p->node].in[p->k].source.kind != TPI_SOURCE_EXTERN;
    for (int d = 1; d < w->n_nodes; d++) {
        const tpi_node *n = &w->nodes[d];
        for (int e = 0; e < n->n_edges && n->kind == TPI_STEP_LOOK && n->n_edges > 1; e++)
            if ((computed || is_empty(w, n, e)) &&
                !is_known_beside(w, p->node, p->k, made, d, &n->edges[e], false) &&
                !add_doubt(w, p, (tpi_doubt){n->block, e, made, 0}))
                return false;
    }
    return true;
}

/* Nodes that something may be computed from; those in it are marked. */
typedef struct origin {
    int32_t *list, n;
} origin;

static void add_node(tpi_flow *w, origin *o, int32_t node)
{
    if (w->nodes[node].mark)
        return;
    w->nodes[node].mark = 1;
    o->list[o->n++] = node;
}

static void add_makers(tpi_flow *w, origin *o, const tpi_var *v)
{
    for (int i = 0; i < v->n; i++)
        add_node(w, o, v->makers[i]);
    for (int i = 0; i < v->n_sets; i++)
        if (v->sets[i].from.kind == TPI_SOURCE_NODE)
            add_node(w, o, v->sets[i].from.n);
}

/* Where one node has been seen, the others of a variable may stand in. */
static void add_source(tpi_flow *w, origin *o, tpi_source s)
{
    if (s.kind == TPI_SOURCE_VAR)
        add_makers(w, o, &w->vars[s.n]);
    if (s.kind != TPI_SOURCE_NODE)
        return;
    add_node(w, o, s.n);
    for (int i = 0; i < w->n_vars; i++)
        if (tpi_var_has(&w->vars[i], s.n))
            add_makers(w, o, &w->vars[i]);
}

/* Marks what a node may be computed from, itself too. False: memory is out. */
static bool mark_origin(tpi_flow *w, int node)
{
    const size_t bytes = (size_t)w->n_nodes * sizeof(int32_t);
    origin o = {tpi_take(&w->ctx->mem, bytes), 0};
    for (int i = 0; i < w->n_nodes; i++)
        w->nodes[i].mark = 0;
    if (o.list && node >= 0)
        add_node(w, &o, node);
    for (int done = 0; done < o.n; done++)
        for (int k = 0; k < w->nodes[o.list[done]].n_in; k++)
            add_source(w, &o, w->nodes[o.list[done]].in[k].source);
    tpi_give_back(&w->ctx->mem, o.list, bytes);
    return o.list;
}

/* Does node d in another turn what makes the operand, and not what made it in this call? */
static bool is_of_other_turn(const tpi_flow *w, tpi_source s, int d, int made)
{
    return s.kind == TPI_SOURCE_VAR && (made < 0 || !is_alike(w, made, d)) &&
           has_alike(w, &w->vars[s.n], d);
}

/* Nodes that C may mean instead. One of another turn may be meant although what made the operand came later
 * and is not computed from it: that may be another C variable's. */
static bool doubt_nodes(tpi_flow *w, tpi_port *p, const tp_tensor *h, int made)
{
    const tpi_source s = w->nodes[p->node].in[p->k].source;
    bool marked = false;
    for (int d = 1; d < w->n_nodes; d++) {
        const tpi_node *n = &w->nodes[d];
        if (!same_type(n, h) || source_has(w, s, d) || !may_mean(w, s, d))
            continue;
        bool before = is_of_other_turn(w, s, d, made);
        if (before && !marked && !mark_origin(w, made))
            return false;
        marked |= before;
        before = before && !n->mark;
        if (!is_known_beside(w, p->node, p->k, made, d, NULL, before) &&
            !add_doubt(w, p, (tpi_doubt){n->block, -1, made, before}))
            return false;
    }
    return true;
}

/* A variable that is set on edges, and was equal to the operand wherever that was seen. */
bool tpi_is_rival(const tpi_flow *w, const tpi_port *p, int var)
{
    const tpi_source s = w->nodes[p->node].in[p->k].source;
    const tpi_var *v = &w->vars[var];
    return v->n_sets && !(s.kind == TPI_SOURCE_VAR && s.n == var) && meets(w, v, s) &&
           is_consistent(w, v, p->node, p->k);
}

static bool add_rivals(tpi_flow *w, tpi_port *p)
{
    for (int i = 0; i < w->n_vars; i++) {
        if (!tpi_is_rival(w, p, i))
            continue;
        int32_t *v = tpi_resize(&w->ctx->mem, p->rivals, (size_t)p->n_rivals * sizeof *v,
                                (size_t)(p->n_rivals + 1) * sizeof *v);
        if (!v)
            return false;
        p->rivals = v;
        v[p->n_rivals++] = w->vars[i].reg;
    }
    return true;
}

static bool doubt_made(tpi_flow *w, const tpi_basic_blocks *bs, tpi_port *p, int made)
{
    return doubt_nodes(w, p, bs->regs[p->reg].header, made) && doubt_edges(w, p, made);
}

bool tpi_doubt_port(tpi_flow *w, tpi_basic_blocks *bs, tpi_port *p)
{
    if (!tpi_may_doubt(w, bs, p))
        return true;
    const tpi_source s = w->nodes[p->node].in[p->k].source;
    p->alt = tpi_find_alt(w, p->node, p->k);
    if (s.kind != TPI_SOURCE_VAR)
        return doubt_made(w, bs, p, s.kind == TPI_SOURCE_NODE ? s.n : -1) && add_rivals(w, p);
    const tpi_var *v = &w->vars[s.n];
    for (int i = 0; i < v->n; i++)
        if (!doubt_made(w, bs, p, v->makers[i]))
            return false;
    return (v->init[0] < 0 || doubt_made(w, bs, p, -1)) && add_rivals(w, p);
}
