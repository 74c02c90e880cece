/* Flows: what operands are.
 *
 * An operand that its own basic block makes is that node's value, and one that was the same tensor from outside in all
 * recordings is that extern. Any other is a *phi*: on each edge by which a basic block is entered it stays what it is,
 * or becomes the last value of a node, an extern, or what another phi was before. On an edge that recordings have
 * taken on the way from where the operand was made to where it was read, the one of these is taken that agrees with all
 * of them. On an edge that they have not, what phis become there that were equal to the operand wherever it was
 * read, when that is the same for all of these; else it is open, and C runs. It is also open behind an outcome behind
 * which a value of that maker was never read, and where a node of another turn may be meant (a *doubt*). */
#include "capture/record/visits.h"

#include <string.h>

enum { NOTHING = INT32_MIN };

/* What a phi becomes on an edge. */
typedef struct rule {
    int32_t edge;
    bool own; /* seen, not taken over from another */
    bool
        several; /* recordings through it had values of several makers, or older ones than the last */
    bool made;       /* one had its value made just before */
    uint64_t seen;   /* makers of the values that went through it */
    tpi_source last; /* the last value of its maker, or the extern */
    tpi_source from; /* that is chosen; the use itself: it stays */
} rule;

/* An operand that is looked for: operand k of the node. */
typedef struct use {
    int32_t node, k;
    int32_t same; /* the use whose phi is its own, too */
    int32_t n, size;
    rule *rules; /* by edge, ascending */
    bool open;   /* some recording is not explained */
    int32_t n_makers, makers_size;
    int32_t *makers; /* nodes that made its values; -1: it was from outside */
    int32_t phi;
} use;

typedef struct finder {
    tpi_flow *w;
    tpi_visits p;
    int32_t n_uses, uses_size;
    use *uses;
    int32_t *seen, *list; /* by node: scratch of walks back */
} finder;

void tpi_flow_forget_values(tpi_flow *w)
{
    for (int i = 0; i < w->n_phis; i++)
        tpi_give_back(&w->ctx->mem, w->phis[i].sets,
                      (size_t)w->phis[i].n_sets * sizeof *w->phis[i].sets);
    w->n_phis = 0;
}

/* ---- a source in one recording ------------------------------------------------------------- */

static bool has_run(const tpi_trace *t, int node, int before)
{
    for (int i = 0; i < before; i++)
        if (t->items[i].node == node)
            return true;
    return false;
}

/* What is set on an edge that a trace takes to its item i: the last one counts. `made`: the node that made the value;
 * TPI_ANY_MAKER: that is not known yet, and no doubts count. */
static const tpi_set *find_set(const tpi_phi *p, int node, int edge, const tpi_trace *t, int i,
                               int32_t made)
{
    const tpi_set *found = NULL;
    for (int k = 0; k < p->n_sets; k++) {
        const tpi_set *s = &p->sets[k];
        if (s->node == node && s->edge == edge && (s->after < 0 || has_run(t, s->after, i)) &&
            (s->made == TPI_ANY_MAKER || s->made == made))
            found = s;
    }
    return found;
}

/* The set that a trace passed last before item i: *i becomes the first item behind it. NULL: none. */
static const tpi_set *last_set(const tpi_flow *w, const tpi_phi *p, const tpi_trace *t, int *i,
                               int32_t made)
{
    for (; *i >= 0; --*i) {
        const int node = *i ? t->items[*i - 1].node : TPI_ENTRY_NODE;
        const tpi_edge *e = w->nodes[t->items[*i].node].starts
                                ? tpi_flow_edge_behind(w, node, t, *i - 1)
                                : NULL;
        const tpi_set *s =
            e ? find_set(p, node, (int)(e - w->nodes[node].edges), t, *i, made) : NULL;
        if (s)
            return s;
    }
    return NULL;
}

static bool value_of(const tpi_flow *w, tpi_source s, const tpi_trace *t, int i, int32_t made,
                     tpi_code *c)
{
    while (s.kind == TPI_SOURCE_PHI) {
        const tpi_set *set = last_set(w, &w->phis[s.n], t, &i, made);
        if (!set)
            return false;
        s = set->from;
        i -= s.kind == TPI_SOURCE_PHI;
    }
    *c = ~s.n;
    if (s.kind == TPI_SOURCE_EXTERN)
        return true;
    for (*c = i - 1; *c >= 0 && s.kind == TPI_SOURCE_NODE; --*c)
        if (t->items[*c].node == s.n)
            return true;
    return false;
}

bool tpi_source_value(const tpi_flow *w, tpi_source s, const tpi_trace *t, int i, tpi_code *c)
{
    return value_of(w, s, t, i, TPI_ANY_MAKER, c) &&
           (s.kind != TPI_SOURCE_PHI ||
            value_of(w, s, t, i, *c < 0 ? -1 : t->items[*c].node, c));
}

/* ---- rules --------------------------------------------------------------------------------- */

static inline bool same_source(tpi_source a, tpi_source b)
{
    return a.kind == b.kind && a.n == b.n;
}

static inline bool stays(const finder *f, const use *u, const rule *r)
{
    return r->from.kind == TPI_SOURCE_PHI && r->from.n == u - f->uses;
}

/* Where the rule for an edge is, or would be. */
static int place_of(const use *u, int32_t edge)
{
    int low = 0, high = u->n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (u->rules[middle].edge < edge)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static rule *rule_at(const use *u, int32_t edge)
{
    const int i = place_of(u, edge);
    return i < u->n && u->rules[i].edge == edge ? &u->rules[i] : NULL;
}

static rule *add_rule(finder *f, use *u, int32_t edge, tpi_source from, bool own)
{
    rule *v = tpi_grow(&f->w->ctx->mem, u->rules, u->n, &u->size, sizeof *v);
    if (!v)
        return NULL;
    u->rules = v;
    const int i = place_of(u, edge);
    memmove(&v[i + 1], &v[i], (size_t)(u->n++ - i) * sizeof *v);
    v[i] = (rule){.edge = edge, .own = own, .from = from};
    return &v[i];
}

/* One reading of an operand: in visit `at`, of a value. It was made before the visit behind `after`, and from there on
 * no other of these is. */
typedef struct reading {
    int trace;
    int32_t at, after, value;
    bool again; /* the reading before it was of the same value, and in `after` */
} reading;

/* The i-th of a use's readings; `last` is the one before, of the same trace or not. */
static reading read_at(const finder *f, const use *u, int i, const reading *last)
{
    const int32_t item = f->p.runs[f->p.first_run[u->node] + i];
    reading r = {.trace = tpi_trace_of(&f->p, item), .at = f->p.visit_of[item]};
    r.value = tpi_value_read(&f->p, r.trace, item, u->k);
    r.after = r.value < 0 ? f->p.first_visit[r.trace] - 1 : f->p.visit_of[r.value];
    if (i > 0 && last->trace == r.trace && last->at >= r.after) {
        r.after = last->at;
        r.again = last->value == r.value;
    }
    return r;
}

static int count_readings(const finder *f, const use *u)
{
    return f->p.first_run[u->node + 1] - f->p.first_run[u->node];
}

/* ---- what recordings show ------------------------------------------------------------------ */

/* The number of a maker, a new one at the end; -1: memory is out. */
static int number_of(finder *f, use *u, int32_t maker)
{
    for (int i = 0; i < u->n_makers; i++)
        if (u->makers[i] == maker)
            return i;
    int32_t *v = tpi_grow(&f->w->ctx->mem, u->makers, u->n_makers, &u->makers_size, sizeof *v);
    if (!v)
        return -1;
    u->makers = v;
    v[u->n_makers] = maker;
    return u->n_makers++;
}

/* One recording went through the edge into a visit with the value that is read later. */
static bool note_visit(finder *f, use *u, const reading *r, int32_t at)
{
    rule *x = rule_at(u, f->p.entered[at]);
    const tpi_source itself = {TPI_SOURCE_PHI, (int32_t)(u - f->uses)};
    tpi_source last = {TPI_SOURCE_EXTERN, ~r->value};
    bool stale = r->value < 0 && f->w->externs[~r->value].assigned;
    if (r->value >= 0) {
        last = (tpi_source){TPI_SOURCE_NODE, tpi_node_run(&f->p, r->trace, r->value)};
        stale = f->p.next[r->value] < f->p.start[at];
    }
    const bool first = !x;
    const int maker = number_of(f, u, r->value < 0 ? -1 : last.n);
    if (maker < 0)
        return false;
    if (first && !(x = add_rule(f, u, f->p.entered[at], itself, true)))
        return false;
    x->several |= stale || (!first && !same_source(x->last, last));
    x->last = last;
    if (maker < 64)
        x->seen |= UINT64_C(1) << maker;
    x->made |= at == (r->value < 0 ? f->p.first_visit[r->trace] : f->p.visit_of[r->value] + 1);
    return true;
}

/* What an edge makes of it follows from the recordings through it alone, when one of them had just made it. */
static bool find_rules(finder *f, use *u)
{
    reading r = {0};
    for (int i = 0; i < count_readings(f, u); i++) {
        r = read_at(f, u, i, &r);
        for (int32_t at = r.after + 1; at <= r.at; at++)
            if (!note_visit(f, u, &r, at))
                return false;
    }
    for (int i = 0; i < u->n; i++)
        if (u->rules[i].made && !u->rules[i].several)
            u->rules[i].from = u->rules[i].last;
    return true;
}

/* Does some edge before the reading set it to the value? */
static bool is_explained(const finder *f, const use *u, const reading *r)
{
    for (int32_t at = r->at; at > r->after; at--)
        if (!stays(f, u, rule_at(u, f->p.entered[at])))
            return true;
    return r->again;
}

/* What a phi is behind the edge into a visit. */
static int32_t held(const finder *f, const use *u, int trace, int32_t at)
{
    for (; at >= f->p.first_visit[trace]; at--) {
        const rule *r = rule_at(u, f->p.entered[at]);
        if (!r || !r->own || r->from.kind == TPI_SOURCE_OPEN)
            return NOTHING;
        if (r->from.kind == TPI_SOURCE_EXTERN)
            return ~r->from.n;
        if (r->from.kind == TPI_SOURCE_PHI) {
            u = &f->uses[r->from.n];
            continue;
        }
        const int32_t item = tpi_last_run(&f->p, r->from.n, f->p.start[at]);
        return item >= f->p.first_item[trace] ? item : NOTHING;
    }
    return NOTHING;
}

/* Was `other`, before the edge, what the operand is behind it, in all recordings? */
static bool agrees_before(const finder *f, const use *u, const use *other, int32_t edge)
{
    reading r = {0};
    for (int i = 0; i < count_readings(f, u); i++) {
        r = read_at(f, u, i, &r);
        for (int32_t at = r.at; at > r.after; at--)
            if (f->p.entered[at] == edge &&
                (at == f->p.first_visit[r.trace] || held(f, other, r.trace, at - 1) != r.value))
                return false;
    }
    return true;
}

static tpi_value_form form_of(const finder *f, const use *u)
{
    return tpi_flow_operand_form(f->w, &f->w->nodes[u->node], u->k);
}

/* On the first edge before the reading on which all recordings agree with one source it is set. */
static bool explain(finder *f, use *u, const reading *r, bool by_others)
{
    for (int32_t at = r->after + 1; at <= r->at; at++) {
        rule *x = rule_at(u, f->p.entered[at]);
        if (!by_others && !x->several) {
            x->from = x->last;
            return true;
        }
        for (int i = 0; i < f->n_uses && by_others; i++) {
            const use *other = &f->uses[i];
            if (other == u || other->open || other->same != i ||
                !tpi_same_form(form_of(f, u), form_of(f, other)) ||
                !agrees_before(f, u, other, x->edge))
                continue;
            x->from = (tpi_source){TPI_SOURCE_PHI, i};
            return true;
        }
    }
    return false;
}

/* True: all readings are explained. */
static bool explain_all(finder *f, use *u, bool by_others)
{
    reading r = {0};
    u->open = false;
    for (int i = 0; i < count_readings(f, u); i++) {
        r = read_at(f, u, i, &r);
        u->open |= !is_explained(f, u, &r) && !explain(f, u, &r, by_others);
    }
    return !u->open;
}

/* ---- what they do not show ----------------------------------------------------------------- */

/* Was `other` the operand on every way to where that was read, so far as it is known there? */
static bool is_like(const finder *f, const use *u, const use *other)
{
    reading r = {0};
    if (!tpi_same_form(form_of(f, u), form_of(f, other)))
        return false;
    for (int i = 0; i < count_readings(f, u); i++) {
        bool known = false;
        r = read_at(f, u, i, &r);
        for (int32_t at = r.at; at > r.after; at--) {
            const int32_t value = held(f, other, r.trace, at);
            if (value != NOTHING && value != r.value)
                return false;
            known |= value != NOTHING;
        }
        if (!known)
            return false;
    }
    return true;
}

/* Has the basic block before an edge a node of this form that nothing was computed from? C may mean that. */
static bool makes_unused(const finder *f, const use *u, int32_t edge)
{
    const tpi_flow *w = f->w;
    for (int at = f->p.block[f->p.from[edge]];; at = w->nodes[at].edges[0].to) {
        const tpi_node *n = &w->nodes[at];
        if (n->unused &&
            tpi_same_form(form_of(f, u), (tpi_value_form){n->dtype, n->rank, n->item->shape}))
            return true;
        if (at == f->p.from[edge])
            return false;
    }
}

/* Was it from outside in all recordings? */
static bool is_outside(const use *u)
{
    return u->n_makers == 1 && u->makers[0] < 0;
}

/* The rule that all uses like this one have on the edge; OPEN: they differ, or there are none. A tensor from outside
 * may be in several of C's variables, of which one changes there: that is not taken over. */
static tpi_source take_over(const finder *f, const use *u, int32_t edge)
{
    tpi_source found = {TPI_SOURCE_OPEN, 0};
    const tpi_source itself = {TPI_SOURCE_PHI, (int32_t)(u - f->uses)};
    const bool outside = is_outside(u);
    if (f->p.from[edge] == TPI_ENTRY_NODE || makes_unused(f, u, edge))
        return found;
    for (int i = 0; i < f->n_uses; i++) {
        const use *other = &f->uses[i];
        const rule *r = other == u || other->same != i ? NULL : rule_at(other, edge);
        if (!r || !r->own || !is_like(f, u, other))
            continue;
        const tpi_source from = stays(f, other, r) ? itself : r->from;
        if ((found.kind != TPI_SOURCE_OPEN && !same_source(found, from)) ||
            (outside && !same_source(from, itself)))
            return (tpi_source){TPI_SOURCE_OPEN, 0};
        found = from;
    }
    return found;
}

/* Edges on ways to the operand that no recording took with its value. */
static bool find_unseen(finder *f, use *u)
{
    const tpi_flow *w = f->w;
    int n = 0;
    memset(f->seen, 0, (size_t)w->n_nodes * sizeof *f->seen);
    f->list[n++] = f->p.block[u->node];
    f->seen[f->p.block[u->node]] = true;
    for (int done = 0; done < n; done++)
        for (int i = f->p.first_in[f->list[done]]; i < f->p.first_in[f->list[done] + 1]; i++) {
            const int32_t e = f->p.in[i];
            const rule *r = rule_at(u, e);
            if (!r && !(r = add_rule(f, u, e, take_over(f, u, e), false)))
                return false;
            const int before = f->p.block[f->p.from[e]];
            if (f->seen[before] || !stays(f, u, r))
                continue;
            f->seen[before] = true;
            f->list[n++] = before;
        }
    return true;
}

/* ---- all operands -------------------------------------------------------------------------- */

static bool same_readings(const finder *f, const use *a, const use *b)
{
    if (f->p.block[a->node] != f->p.block[b->node] ||
        count_readings(f, a) != count_readings(f, b))
        return false;
    for (int i = 0; i < count_readings(f, a); i++) {
        const int32_t x = f->p.runs[f->p.first_run[a->node] + i],
                      y = f->p.runs[f->p.first_run[b->node] + i];
        const int trace = tpi_trace_of(&f->p, x);
        if (trace != tpi_trace_of(&f->p, y) ||
            tpi_value_read(&f->p, trace, x, a->k) != tpi_value_read(&f->p, trace, y, b->k))
            return false;
    }
    return true;
}

static bool add_use(finder *f, int node, int k)
{
    use *v = tpi_grow(&f->w->ctx->mem, f->uses, f->n_uses, &f->uses_size, sizeof *v);
    if (!v)
        return false;
    f->uses = v;
    use *u = &v[f->n_uses];
    *u = (use){.node = node, .k = k, .same = f->n_uses, .phi = -1};
    for (int i = 0; i < f->n_uses && u->same == f->n_uses; i++)
        if (v[i].same == i && same_readings(f, &v[i], u))
            u->same = i;
    f->w->nodes[node].in[k].source = (tpi_source){TPI_SOURCE_PHI, f->n_uses++};
    return true;
}

/* Made in its own basic block, from outside, or neither. *misfit: now the one, now the other, or made there by now this
 * node, now that one: such recordings are no ways of one basic block. */
static bool sort_out(finder *f, int node, int k, bool *misfit)
{
    tpi_operand_of *o = &f->w->nodes[node].in[k];
    int n_outside = 0, n_here = 0;
    const int n = f->p.first_run[node + 1] - f->p.first_run[node];
    for (int i = 0; i < n; i++) {
        const int32_t item = f->p.runs[f->p.first_run[node] + i];
        const int trace = tpi_trace_of(&f->p, item);
        const int32_t v = tpi_value_read(&f->p, trace, item, k);
        n_outside += v < 0;
        if (v < 0 || f->p.visit_of[v] != f->p.visit_of[item])
            continue;
        const int maker = tpi_node_run(&f->p, trace, v);
        *misfit |= n_here++ > 0 && o->source.n != maker;
        o->source = (tpi_source){TPI_SOURCE_NODE, maker};
    }
    *misfit |= n_here > 0 && n_here < n;
    const tpi_extern *e = n_outside == n ? &f->w->externs[o->outside] : NULL;
    if (e)
        o->source = (tpi_source){TPI_SOURCE_EXTERN, o->outside};
    if (n_here || (e && (e->from != TPI_FROM_ARG || e->assigned)))
        return true;
    return add_use(f, node, k);
}

static bool same_phi(const tpi_phi *a, const tpi_phi *b)
{
    return a->n_sets == b->n_sets &&
           memcmp(a->sets, b->sets, (size_t)a->n_sets * sizeof *a->sets) == 0;
}

static bool makes(const finder *f, const use *u, int node, bool alike)
{
    for (int i = 0; i < u->n_makers; i++)
        if (alike
                ? u->makers[i] >= 0 && f->w->nodes[u->makers[i]].hash == f->w->nodes[node].hash
                : u->makers[i] == node)
            return true;
    return false;
}

/* Has a recording read the value of node `made` when node d had run before? */
static bool is_seen_after(const finder *f, const use *u, int made, int d)
{
    reading r = {0};
    for (int i = 0; i < count_readings(f, u); i++) {
        r = read_at(f, u, i, &r);
        const int32_t run = tpi_last_run(&f->p, d, f->p.runs[f->p.first_run[u->node] + i]);
        if (r.value >= 0 && tpi_node_run(&f->p, r.trace, r.value) == made &&
            run >= f->p.first_item[r.trace])
            return true;
    }
    return false;
}

static void add_origin(const finder *f, int node, int *n)
{
    if (f->seen[node])
        return;
    f->seen[node] = true;
    f->list[(*n)++] = node;
}

/* Marks what a node may be computed from, itself too. */
static void mark_origin(const finder *f, int node)
{
    int n = 0;
    memset(f->seen, 0, (size_t)f->w->n_nodes * sizeof *f->seen);
    add_origin(f, node, &n);
    for (int done = 0; done < n; done++) {
        const tpi_node *x = &f->w->nodes[f->list[done]];
        for (int k = 0; k < x->n_in; k++) {
            const tpi_source s = x->in[k].source;
            if (s.kind == TPI_SOURCE_NODE)
                add_origin(f, s.n, &n);
            const use *u = s.kind == TPI_SOURCE_PHI ? &f->uses[f->uses[s.n].same] : NULL;
            for (int i = 0; u && i < u->n; i++)
                if (u->rules[i].from.kind == TPI_SOURCE_NODE)
                    add_origin(f, u->rules[i].from.n, &n);
        }
    }
}

/* Adds a doubt to sets; NULL: it is only counted. */
static void add_doubt(const finder *f, const rule *r, int32_t after, int32_t made,
                      tpi_set *sets, int *n)
{
    const int from = f->p.from[r->edge];
    if (sets)
        sets[*n] = (tpi_set){
            from, r->edge - f->p.first_edge[from], after, made, {TPI_SOURCE_OPEN, 0}
        };
    ++*n;
}

/* Was the value of the maker d read although node `made` had run since? */
static bool is_seen_before(const finder *f, const use *u, int made, int d)
{
    reading r = {0};
    for (int i = 0; i < count_readings(f, u); i++) {
        r = read_at(f, u, i, &r);
        if (r.value >= 0 && tpi_node_run(&f->p, r.trace, r.value) == d &&
            tpi_last_run(&f->p, made, f->p.runs[f->p.first_run[u->node] + i]) > r.value)
            return true;
    }
    return false;
}

/* May the value of d be meant although node `made` runs later? One that does what makers of the operand do may be one in
 * another turn; one that is a maker was meant once. */
static bool competes(const finder *f, const use *u, int made, int d)
{
    const tpi_node *nodes = f->w->nodes;
    return nodes[d].kind == TPI_STEP_OP && nodes[d].hash != nodes[made].hash &&
           (makes(f, u, d, false) ? is_seen_before(f, u, made, d) : makes(f, u, d, true));
}

/* Do all makers of the operand do what node `made` does? Then no node competes with it. */
static bool are_makers_alike(const finder *f, const use *u, int made)
{
    const tpi_node *nodes = f->w->nodes;
    for (int i = 0; i < u->n_makers; i++)
        if (u->makers[i] >= 0 && nodes[u->makers[i]].hash != nodes[made].hash)
            return false;
    return true;
}

/* Where no recording shows that such a node is not meant, the set is not known once that has run. */
static void doubt_set(const finder *f, const use *u, const rule *r, tpi_set *sets, int *n)
{
    bool marked = false;
    const bool alike = are_makers_alike(f, u, r->from.n); /* as in nearly all */
    for (int d = 1; d < f->w->n_nodes && !alike; d++) {
        if (!competes(f, u, r->from.n, d))
            continue;
        if (!marked)
            mark_origin(f, r->from.n);
        marked = true;
        if (!f->seen[d] && !is_seen_after(f, u, r->from.n, d))
            add_doubt(f, r, d, TPI_ANY_MAKER, sets, n);
    }
}

/* Does nothing happen behind an edge that does not happen behind others? Then C may have changed there what an argument
 * is that is used as it is. What C does with something that was made is looked at by itself. */
static bool is_empty(const finder *f, int32_t edge)
{
    const tpi_edge *own = tpi_edge_numbered(&f->p, edge);
    for (int i = f->p.first_in[own->to]; i < f->p.first_in[own->to + 1]; i++)
        if (f->p.in[i] != edge && !tpi_edge_numbered(&f->p, f->p.in[i])->back)
            return true;
    return own->back;
}

/* Makers whose values were not read behind this outcome. */
static void doubt_outcome(const finder *f, const use *u, const rule *r, tpi_set *sets, int *n)
{
    const tpi_node *look = &f->w->nodes[f->p.from[r->edge]];
    if (look->kind != TPI_STEP_LOOK || look->n_edges < 2 ||
        (is_outside(u) && !is_empty(f, r->edge)))
        return;
    for (int i = 0; i < u->n_makers; i++)
        if (i >= 64 || !(r->seen >> i & 1))
            add_doubt(f, r, -1, u->makers[i], sets, n);
}

/* How many doubts there are about what the rule says. */
static int find_doubts(const finder *f, const use *u, const rule *r, tpi_set *sets)
{
    int n = 0;
    if (stays(f, u, r))
        doubt_outcome(f, u, r, sets, &n);
    else if (r->own && r->from.kind == TPI_SOURCE_NODE)
        doubt_set(f, u, r, sets, &n);
    return n;
}

/* Is it an extern that no edge changes? */
static bool is_extern(const finder *f, const use *u)
{
    for (int i = 0; i < u->n; i++)
        if ((!stays(f, u, &u->rules[i]) && u->rules[i].from.kind != TPI_SOURCE_EXTERN) ||
            find_doubts(f, u, &u->rules[i], NULL))
            return false;
    return true;
}

/* The sets of a use; those of others still by number of the use. */
static bool make_phi(finder *f, use *u)
{
    tpi_flow *w = f->w;
    tpi_phi *v = tpi_grow(&w->ctx->mem, w->phis, w->n_phis, &w->phis_size, sizeof *v);
    if (!v)
        return false;
    w->phis = v;
    tpi_phi *p = &v[w->n_phis];
    *p = (tpi_phi){.node = u->node, .k = u->k, .reg = -1};
    for (int i = 0; i < u->n; i++)
        p->n_sets += !stays(f, u, &u->rules[i]) + find_doubts(f, u, &u->rules[i], NULL);
    const size_t bytes = (size_t)p->n_sets * sizeof *p->sets;
    p->sets = tpi_take(&w->ctx->mem, bytes);
    if (!p->sets)
        return false;
    memset(p->sets, 0, bytes);
    for (int i = 0, n = 0; i < u->n; i++) {
        const rule *r = &u->rules[i];
        const int from = f->p.from[r->edge];
        if (!stays(f, u, r))
            p->sets[n++] =
                (tpi_set){from, r->edge - f->p.first_edge[from], -1, TPI_ANY_MAKER, r->from};
        n += find_doubts(f, u, r, &p->sets[n]);
    }
    u->phi = w->n_phis;
    for (int i = 0; i < w->n_phis && u->phi == w->n_phis; i++)
        if (same_phi(&v[i], p) &&
            tpi_same_form(form_of(f, u),
                          tpi_flow_operand_form(w, &w->nodes[v[i].node], v[i].k)))
            u->phi = i;
    if (u->phi < w->n_phis)
        tpi_give_back(&w->ctx->mem, p->sets, bytes);
    else
        w->n_phis++;
    return true;
}

static bool make_phis(finder *f)
{
    tpi_flow *w = f->w;
    for (int i = 0; i < f->n_uses; i++)
        if (f->uses[i].same == i && !is_extern(f, &f->uses[i]) && !make_phi(f, &f->uses[i]))
            return false;
    for (int i = 0; i < f->n_uses; i++) {
        const use *u = &f->uses[i];
        tpi_operand_of *o = &w->nodes[u->node].in[u->k];
        const int phi = f->uses[u->same].phi;
        o->source = phi < 0 ? (tpi_source){TPI_SOURCE_EXTERN, o->outside}
                            : (tpi_source){TPI_SOURCE_PHI, phi};
    }
    for (int i = 0; i < w->n_phis; i++)
        for (int k = 0; k < w->phis[i].n_sets; k++) {
            tpi_source *s = &w->phis[i].sets[k].from;
            const use *u = s->kind == TPI_SOURCE_PHI ? &f->uses[s->n] : NULL;
            if (s->kind == TPI_SOURCE_NODE)
                w->nodes[s->n].crosses = true;
            else if (u)
                *s = u->phi < 0
                         ? (tpi_source){TPI_SOURCE_EXTERN, w->nodes[u->node].in[u->k].outside}
                         : (tpi_source){TPI_SOURCE_PHI, u->phi};
        }
    return true;
}

static bool find_all(finder *f, bool *misfit)
{
    const tpi_flow *w = f->w;
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_in && !*misfit; k++)
            if (!sort_out(f, i, k, misfit))
                return false;
    for (int i = 0; i < f->n_uses; i++)
        if (f->uses[i].same == i && !find_rules(f, &f->uses[i]))
            return false;
    bool open = false;
    for (int i = 0; i < f->n_uses; i++)
        open |= f->uses[i].same == i && !explain_all(f, &f->uses[i], false);
    for (int turn = 0; turn < 3 && open; turn++) { /* what is explained may explain others */
        open = false;
        for (int i = 0; i < f->n_uses; i++)
            open |=
                f->uses[i].same == i && f->uses[i].open && !explain_all(f, &f->uses[i], true);
    }
    *misfit |= open;
    for (int i = 0; i < f->n_uses && !*misfit; i++)
        if (f->uses[i].same == i && !find_unseen(f, &f->uses[i]))
            return false;
    return !*misfit && make_phis(f);
}

static void free_uses(finder *f)
{
    tpi_mem *m = &f->w->ctx->mem;
    for (int i = 0; i < f->n_uses; i++) {
        const use *u = &f->uses[i];
        tpi_give_back(m, u->rules, (size_t)u->size * sizeof *u->rules);
        tpi_give_back(m, u->makers, (size_t)u->makers_size * sizeof *u->makers);
    }
    tpi_give_back(m, f->uses, (size_t)f->uses_size * sizeof *f->uses);
}

/* Are there no more basic blocks than are run? */
static bool may_be_run(tpi_flow *w)
{
    int n = 0;
    for (int i = 1; i < w->n_nodes; i++) {
        n += w->nodes[i].starts;
        if (n <= TPI_MAX_BLOCKS)
            continue;
        w->why = TPI_WHY_length;
        w->why_at = w->nodes[i].at;
        return false;
    }
    return true;
}

bool tpi_flow_values(tpi_flow *w, bool *misfit)
{
    tpi_mem *m = &w->ctx->mem;
    const size_t nodes = (size_t)w->n_nodes * sizeof(int32_t);
    finder f = {.w = w, .seen = tpi_take(m, nodes), .list = tpi_take(m, nodes)};
    *misfit = false;
    tpi_flow_forget_values(w);
    const bool ok =
        f.seen && f.list && tpi_visits_find(&f.p, w) && may_be_run(w) && find_all(&f, misfit);
    free_uses(&f);
    tpi_visits_free(&f.p);
    tpi_give_back(m, f.seen, nodes);
    tpi_give_back(m, f.list, nodes);
    return ok;
}
