/* Flows: what operands are. */
#include "capture/record/flow.h"

#include <string.h>

/* A variable that is being found. */
typedef struct finding {
    int var, node, k;
    bool fits[2]; /* by age */
    int32_t init[2][2];
    int32_t ran;     /* makers, in the trace that is walked */
    int32_t last[2]; /* items */
} finding;

/* Which of them a node makes: a list. */
typedef struct member {
    int32_t finding, next;
} member;

typedef struct values {
    tpi_flow *w;
    int32_t *last;    /* by node: item that it was last, in this trace */
    int32_t *members; /* by node: first of its list; -1 */
    bool *used;       /* by item */
    int32_t n, size, n_list, list_size;
    finding *v;
    member *list;
} values;

static void drop_var(tpi_flow *w, tpi_var *v)
{
    tpi_mem *m = &w->ctx->mem;
    tpi_give_back(m, v->makers, (size_t)v->size * sizeof *v->makers);
    tpi_give_back(m, v->quiet, v->quiet ? (size_t)v->size * sizeof *v->quiet : 0);
    tpi_give_back(m, v->sets, (size_t)v->n_sets * sizeof *v->sets);
}

void tpi_flow_forget_values(tpi_flow *w)
{
    for (int i = 0; i < w->n_vars; i++)
        drop_var(w, &w->vars[i]);
    w->n_vars = 0;
}

bool tpi_var_has(const tpi_var *v, int32_t node)
{
    for (int i = 0; i < v->n; i++)
        if (v->makers[i] == node)
            return true;
    return false;
}

bool tpi_var_follows(const tpi_var *v, int32_t node)
{
    for (int i = 0; i < v->n; i++)
        if (v->makers[i] == node)
            return !v->quiet || !v->quiet[i];
    return false;
}

/* The set of a variable that a trace passes at item j; NULL: none. */
static const tpi_set *set_at(const tpi_flow *w, const tpi_var *v, const tpi_trace *t, int j)
{
    const tpi_item *x = &t->items[j];
    for (int i = 0; i < v->n_sets && x->kind == TPI_STEP_LOOK; i++) {
        const tpi_set *s = &v->sets[i];
        if (s->node == x->node && &w->nodes[s->node].edges[s->edge] ==
                                      tpi_flow_edge(&w->nodes[s->node], x->seen, x->size))
            return s;
    }
    return NULL;
}

static bool var_value(const tpi_flow *w, const tpi_var *v, const tpi_trace *t, int i,
                      tpi_code *c)
{
    int ran = 0;
    for (int j = i - 1; j >= 0; j--) {
        const tpi_set *s = v->n_sets ? set_at(w, v, t, j) : NULL;
        if (s)
            return tpi_source_value(w, s->from, t, j, c);
        *c = j;
        if (t->items[j].kind == TPI_STEP_OP && tpi_var_follows(v, t->items[j].node) &&
            ran++ == v->age)
            return true;
    }
    *c = ~v->init[ran];
    return v->init[ran] >= 0;
}

bool tpi_source_value(const tpi_flow *w, tpi_source s, const tpi_trace *t, int i, tpi_code *c)
{
    *c = ~s.n;
    if (s.kind == TPI_SOURCE_EXTERN)
        return true;
    if (s.kind == TPI_SOURCE_VAR)
        return var_value(w, &w->vars[s.n], t, i, c);
    for (*c = i - 1; *c >= 0; --*c)
        if (t->items[*c].node == s.n)
            return true;
    return false;
}

bool tpi_var_is(const tpi_flow *w, const tpi_var *v, const tpi_trace *t, int i, tpi_code c)
{
    tpi_code value;
    return var_value(w, v, t, i, &value) && value == c;
}

/* ---- a walk along all traces ------------------------------------------------------------- */

/* First what each operand's makers are, and what is never used. */
static void find_makers(values *u, const tpi_trace *t)
{
    tpi_flow *w = u->w;
    for (int i = 0; i < w->n_nodes; i++)
        u->last[i] = -1;
    memset(u->used, 0, (size_t)t->n * sizeof *u->used);
    for (int i = 0; i < t->n; i++) {
        const tpi_item *x = &t->items[i];
        tpi_node *n = &w->nodes[x->node];
        for (int k = 0; k < x->n_in; k++) {
            const tpi_code c = tpi_item_in(t, x)[k];
            if (c < 0)
                continue;
            const int maker = t->items[c].node;
            tpi_operand_of *o = &n->in[k];
            u->used[c] = true;
            o->maker = o->maker == -1 || o->maker == maker ? maker : -2;
            o->late |= u->last[maker] != c;
        }
        u->last[x->node] = i;
    }
    for (int i = 0; i < t->n; i++)
        if (t->items[i].kind == TPI_STEP_OP && !u->used[i])
            w->nodes[t->items[i].node].unused = true;
}

static bool add_finding(values *u, int node, int k)
{
    finding *v = tpi_grow(&u->w->ctx->mem, u->v, u->n, &u->size, sizeof *v);
    if (!v)
        return false;
    u->v = v;
    u->w->nodes[node].in[k].source = (tpi_source){TPI_SOURCE_VAR, u->n};
    u->v[u->n++] = (finding){
        .node = node,
        .k = k,
        .fits = {true,                           true                          },
        .init = {{TPI_NO_EXTERN, TPI_NO_EXTERN}, {TPI_NO_EXTERN, TPI_NO_EXTERN}}
    };
    return true;
}

/* Those of one maker are settled; the others are looked for. */
static bool sort_out(values *u)
{
    tpi_flow *w = u->w;
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_in; k++) {
            tpi_operand_of *o = &w->nodes[i].in[k];
            if (o->maker == -1)
                o->source = (tpi_source){TPI_SOURCE_EXTERN, o->outside};
            else if (o->maker >= 0 && !o->late && o->outside == TPI_NO_EXTERN)
                o->source = (tpi_source){TPI_SOURCE_NODE, o->maker};
            else if (!add_finding(u, i, k))
                return false;
        }
    return true;
}

static bool is_member(const values *u, int node, int f)
{
    for (int i = u->members[node]; i >= 0; i = u->list[i].next)
        if (u->list[i].finding == f)
            return true;
    return false;
}

static bool add_member(values *u, int node, int f)
{
    if (is_member(u, node, f))
        return true;
    member *v = tpi_grow(&u->w->ctx->mem, u->list, u->n_list, &u->list_size, sizeof *v);
    if (!v)
        return false;
    u->list = v;
    u->list[u->n_list] = (member){f, u->members[node]};
    u->members[node] = u->n_list++;
    return true;
}

static bool find_members(values *u, const tpi_trace *t)
{
    for (int i = 0; i < t->n; i++) {
        const tpi_item *x = &t->items[i];
        for (int k = 0; k < x->n_in; k++) {
            const tpi_code c = tpi_item_in(t, x)[k];
            const tpi_source s = u->w->nodes[x->node].in[k].source;
            if (c >= 0 && s.kind == TPI_SOURCE_VAR && !add_member(u, t->items[c].node, s.n))
                return false;
        }
    }
    return true;
}

/* At first it is a tensor from outside; one that is assigned changes, and is none. */
static bool fits_init(const tpi_flow *w, int32_t *init, tpi_code c)
{
    if (c >= 0 || w->externs[~c].assigned)
        return false;
    if (*init == TPI_NO_EXTERN)
        *init = ~c;
    return *init == ~c;
}

static void check_fit(const tpi_flow *w, finding *f, tpi_code c)
{
    for (int age = 0; age < 2; age++)
        f->fits[age] &=
            f->ran > age ? c == f->last[age] : fits_init(w, &f->init[age][f->ran], c);
}

static void check_fits(values *u, const tpi_trace *t)
{
    for (int i = 0; i < u->n; i++)
        u->v[i].ran = 0;
    for (int i = 0; i < t->n; i++) {
        const tpi_item *x = &t->items[i];
        for (int k = 0; k < x->n_in; k++) {
            const tpi_source s = u->w->nodes[x->node].in[k].source;
            if (s.kind == TPI_SOURCE_VAR)
                check_fit(u->w, &u->v[s.n], tpi_item_in(t, x)[k]);
        }
        for (int m = u->members[x->node]; m >= 0; m = u->list[m].next) {
            finding *f = &u->v[u->list[m].finding];
            f->last[1] = f->last[0];
            f->last[0] = i;
            f->ran++;
        }
    }
}

/* ---- variables --------------------------------------------------------------------------- */

static bool same_var(const tpi_var *a, const tpi_var *b)
{
    return a->age == b->age && a->n == b->n && memcmp(a->init, b->init, sizeof a->init) == 0 &&
           a->n_sets == 0 && b->n_sets == 0 &&
           memcmp(a->makers, b->makers, (size_t)a->n * sizeof *a->makers) == 0;
}

static bool reserve_var(tpi_flow *w)
{
    tpi_var *v = tpi_grow(&w->ctx->mem, w->vars, w->n_vars, &w->vars_size, sizeof *v);
    w->vars = v ? v : w->vars;
    return v;
}

/* The variable that was found; -1 when memory is out. */
static int make_var(values *u, int i)
{
    tpi_flow *w = u->w;
    finding *f = &u->v[i];
    int n = 0;
    for (int k = 0; k < w->n_nodes; k++)
        n += is_member(u, k, i);
    if (!reserve_var(w))
        return -1;
    tpi_var *v = &w->vars[w->n_vars];
    *v = (tpi_var){.age = !f->fits[0], .size = n, .reg = -1};
    memcpy(v->init, f->init[v->age], sizeof v->init);
    v->makers = tpi_take(&w->ctx->mem, (size_t)n * sizeof *v->makers);
    if (!v->makers)
        return -1;
    for (int k = 0; k < w->n_nodes; k++)
        if (is_member(u, k, i))
            v->makers[v->n++] = k;
    if (!f->fits[0] && !f->fits[1]) {
        v->age = 0;
        const int32_t outside = w->nodes[f->node].in[f->k].outside;
        v->init[0] = v->init[1] = outside;
        if ((outside >= 0 && w->externs[outside].assigned) ||
            !tpi_find_sets(w, v, f->node, f->k)) {
            drop_var(w, v);
            return -1;
        }
        return w->n_vars++;
    }
    for (int k = 0; k < w->n_vars; k++)
        if (same_var(&w->vars[k], v)) {
            drop_var(w, v);
            return k;
        }
    return w->n_vars++;
}

/* Those that are set on edges come second: they may be made of the others. */
static bool make_vars(values *u, bool *misfit)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < u->n; i++) {
            finding *f = &u->v[i];
            const bool fits = f->fits[0] || f->fits[1];
            if (fits != (pass == 0))
                continue;
            f->var = make_var(u, i);
            *misfit |= f->var < 0 && !fits;
            if (f->var < 0)
                return false;
        }
    for (int i = 0; i < u->n; i++)
        u->w->nodes[u->v[i].node].in[u->v[i].k].source.n = u->v[i].var;
    return true;
}

static bool find_all(values *u, bool *misfit)
{
    tpi_flow *w = u->w;
    for (int i = 0; i < w->n_nodes; i++) {
        w->nodes[i].unused = false;
        u->members[i] = -1;
        for (int k = 0; k < w->nodes[i].n_in; k++) {
            w->nodes[i].in[k].maker = -1;
            w->nodes[i].in[k].late = false;
        }
    }
    for (int i = 0; i < w->n_traces; i++)
        find_makers(u, w->traces[i]);
    if (!sort_out(u))
        return false;
    for (int i = 0; i < w->n_traces && u->n; i++)
        if (!find_members(u, w->traces[i]))
            return false;
    for (int i = 0; i < w->n_traces && u->n; i++)
        check_fits(u, w->traces[i]);
    return make_vars(u, misfit);
}

bool tpi_flow_values(tpi_flow *w, bool *misfit)
{
    tpi_mem *m = &w->ctx->mem;
    int longest = 0;
    for (int i = 0; i < w->n_traces; i++)
        longest = w->traces[i]->n > longest ? w->traces[i]->n : longest;
    const size_t nodes = (size_t)w->n_nodes * sizeof(int32_t),
                 items = (size_t)longest * sizeof(bool);
    *misfit = false;
    tpi_flow_forget_values(w);
    values u = {.w = w};
    u.last = tpi_take(m, nodes);
    u.members = tpi_take(m, nodes);
    u.used = tpi_take(m, items);
    const bool ok = u.last && u.members && u.used && find_all(&u, misfit);
    tpi_give_back(m, u.last, nodes);
    tpi_give_back(m, u.members, nodes);
    tpi_give_back(m, u.used, items);
    tpi_give_back(m, u.v, (size_t)u.size * sizeof *u.v);
    tpi_give_back(m, u.list, (size_t)u.list_size * sizeof *u.list);
    return ok;
}
