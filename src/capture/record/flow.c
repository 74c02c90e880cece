/* Flows: nodes and edges, made from traces. */
#include "capture/record/flow.h"

#include <string.h>

/* ---- life -------------------------------------------------------------------------------- */

static void drop_nodes(tpi_flow *w)
{
    tpi_mem *m = &w->ctx->mem;
    for (int i = 0; i < w->n_nodes; i++) {
        tpi_node *n = &w->nodes[i];
        tpi_give_back(m, n->in, (size_t)n->n_in * sizeof *n->in);
        tpi_give_back(m, n->edges, (size_t)n->n_edges * sizeof *n->edges);
    }
    for (int i = 0; i < w->n_sites; i++)
        w->sites[i].most = 0; /* of loops that these nodes made */
    w->n_nodes = w->n_ways = w->n_compared = 0;
    w->n_joins = w->n_loops = 0;
    tpi_flow_forget_values(w);
    tpi_flow_forget_merges(w);
}

void tpi_flow_free(tpi_flow *w)
{
    if (!w)
        return;
    tpi_mem *m = &w->ctx->mem;
    drop_nodes(w);
    for (int i = 0; i < w->n_traces; i++)
        tpi_trace_free(w->traces[i]);
    for (int i = 0; i < w->n_externs; i++)
        tpi_unref(w->externs[i].tensor);
    tpi_give_back(m, w->nodes, (size_t)w->nodes_size * sizeof *w->nodes);
    tpi_give_back(m, w->phis, (size_t)w->phis_size * sizeof *w->phis);
    tpi_give_back(m, w->ways, (size_t)w->ways_size * sizeof *w->ways);
    tpi_give_back(m, w->exits, (size_t)w->exits_size * sizeof *w->exits);
    tpi_give_back(m, w->externs, (size_t)w->externs_size * sizeof *w->externs);
    tpi_give_back(m, w->args, (size_t)w->n_in * sizeof *w->args);
    tpi_give_back(m, w->watched, w->n_watched);
    tpi_give_back(m, w, sizeof *w);
}

static char *copy_watched(const tp_function *f)
{
    char *v = tpi_take((tpi_mem *)&f->ctx->mem, tpi_watched_bytes(f));
    if (v)
        tpi_watched_copy(f, v);
    return v;
}

enum { GUARDED = TPI_REQUIRES | TPI_LEAF | TPI_VARIABLE | TPI_STATE | TPI_CONTIGUOUS };

int tpi_flow_add_extern(tpi_flow *w, const tpi_origin *o)
{
    tpi_extern *v =
        tpi_grow(&w->ctx->mem, w->externs, w->n_externs, &w->externs_size, sizeof *v);
    if (!v)
        return -1;
    w->externs = v;
    tpi_ref(o->tensor);
    v[w->n_externs] = (tpi_extern){.from = o->from,
                                   .arg = o->arg,
                                   .tensor = o->tensor,
                                   .seq = o->tensor->seq,
                                   .flags = o->tensor->flags & GUARDED};
    return w->n_externs++;
}

tpi_flow *tpi_flow_new(tp_function *f, const tpi_trace *t, bool recording)
{
    tpi_flow *w = tpi_take(&f->ctx->mem, sizeof *w);
    if (!w)
        return NULL;
    memset(w, 0, sizeof *w);
    w->ctx = f->ctx;
    w->f = f;
    w->recording = recording;
    w->training = f->ctx->caller.training;
    w->stream = f->ctx->caller.stream;
    w->n_in = t->n_args;
    w->args = tpi_take(&f->ctx->mem, (size_t)w->n_in * sizeof *w->args);
    w->watched = copy_watched(f);
    w->n_watched = w->watched ? tpi_watched_bytes(f) : 0;
    bool ok = w->args && w->watched;
    for (int i = 0; i < t->n_origins && ok && t->origins[i].from == TPI_FROM_ARG; i++) {
        ok = tpi_flow_add_extern(w, &t->origins[i]) >= 0;
        w->n_args++;
    }
    for (int i = 0; i < w->n_in && ok; i++)
        w->args[i] = ~t->args[i];
    if (ok)
        return w;
    if (!w->args)
        w->n_in = 0;
    tpi_flow_free(w);
    return NULL;
}

/* ---- tensors from outside ---------------------------------------------------------------- */

/* Was what comes as state now an argument before, of which no other was seen? Then which uses meant
 * the argument is not known. */
static bool was_argument(const tpi_flow *w, const tp_tensor *t)
{
    for (int i = 0; i < w->n_args; i++)
        if (!w->externs[i].general && w->externs[i].seq == t->seq)
            return true;
    return false;
}

/* Operands from outside become externs. */
static bool take_origins(tpi_flow *w, tpi_trace *t, bool *impure)
{
    tpi_mem *m = &w->ctx->mem;
    const size_t bytes = (size_t)t->n_origins * sizeof(int32_t);
    int32_t *which = tpi_take(m, bytes);
    bool ok = which;
    for (int i = 0; i < t->n_origins && ok; i++) {
        const tpi_origin *o = &t->origins[i];
        which[i] = tpi_flow_extern(w, o);
        if (o->from == TPI_FROM_STATE && was_argument(w, o->tensor))
            *impure = true;
        if (which[i] < 0)
            which[i] = tpi_flow_add_extern(w, o);
        ok = which[i] >= 0 && !*impure;
        if (ok && o->from == TPI_FROM_ARG) {
            tpi_extern *e = &w->externs[which[i]];
            e->general |= e->seq != o->tensor->seq;
        }
    }
    for (int i = 0; i < t->n_in && ok; i++)
        if (t->in[i] < 0)
            t->in[i] = ~which[~t->in[i]];
    for (int i = 0; i < t->n_origins; i++)
        tpi_unref(t->origins[i].tensor);
    t->n_origins = 0;
    tpi_give_back(m, which, bytes);
    return ok;
}

/* ---- nodes and edges --------------------------------------------------------------------- */

static int add_node(tpi_flow *w, const tpi_trace *t, const tpi_item *x)
{
    tpi_mem *m = &w->ctx->mem;
    tpi_node *v = tpi_grow(m, w->nodes, w->n_nodes, &w->nodes_size, sizeof *v);
    if (!v)
        return -1;
    w->nodes = v;
    tpi_node *n = &w->nodes[w->n_nodes];
    *n = (tpi_node){.kind = x ? x->kind : TPI_STEP_ENTRY};
    if (x) {
        n->dtype = x->dtype;
        n->rank = x->rank;
        n->look = x->look;
        n->hash = x->hash;
        n->op = x->op;
        n->attrs = x->attrs;
        n->at = x->at;
        n->item = x;
        n->trace = t;
        n->in = tpi_take(m, (size_t)x->n_in * sizeof *n->in);
        if (!n->in)
            return -1;
        n->n_in = x->n_in;
        for (int k = 0; k < n->n_in; k++) {
            const tpi_code c = tpi_item_in(t, x)[k];
            n->in[k] = (tpi_operand_of){.outside = c < 0 ? ~c : TPI_NO_EXTERN};
        }
    }
    return w->n_nodes++;
}

static bool add_edge(tpi_flow *w, int from, int to, const tpi_item *x, int site)
{
    const bool back = site >= 0;
    tpi_node *n = &w->nodes[from];
    tpi_edge *v = tpi_resize(&w->ctx->mem, n->edges, (size_t)n->n_edges * sizeof *v,
                             (size_t)(n->n_edges + 1) * sizeof *v);
    if (!v)
        return false;
    n->edges = v;
    tpi_edge *e = &n->edges[n->n_edges++];
    *e = (tpi_edge){.to = to, .back = back, .site = (int16_t)site};
    if (n->kind == TPI_STEP_LOOK) {
        e->size = x->size;
        memcpy(e->seen, x->seen, x->size);
    }
    w->nodes[to].loops |= back;
    return true;
}

/* ---- joins and loops --------------------------------------------------------------------- */

typedef enum follows {
    FOLLOWS_NOT,
    FOLLOWS_TO_NEW, /* to a look, of which this outcome is new */
    FOLLOWS
} follows;

/* What was found out: following from any item of these at the node so many behind it ended at that node and item. */
typedef struct followed {
    int32_t first, last; /* items; first > last: nothing */
    int32_t node, item;  /* where it ended; node -1: they do not do the same, which stays so */
    follows how;
} followed;

/* Putting one trace in. */
typedef struct putting {
    tpi_flow *w;
    tpi_trace *t;
    int p;          /* the item */
    int tail;       /* the node before it */
    int n_ahead;    /* nodes that follow the look at which it left the others, nearest first */
    int32_t *ahead; /* room for all nodes */
    int ahead_size;
    followed *known; /* by node - item; NULL: nothing is kept */
    int n_known;
} putting;

static followed *known_at(const putting *u, int node, int item)
{
    const int i = node - item + u->t->n;
    return u->known && i >= 0 && i < u->n_known ? &u->known[i] : NULL;
}

/* As long as the edge is missing at which it ended. */
static bool is_known(const putting *u, int m, follows *how)
{
    const followed *k = known_at(u, m, u->p);
    if (!k || u->p < k->first || u->p > k->last)
        return false;
    *how = k->how;
    return k->node < 0 ||
           (k->node != u->tail && !tpi_flow_edge_behind(u->w, k->node, u->t, k->item));
}

/* Nodes from m on, one behind the other, did what items did, up to `last`. */
static void note_followed(const putting *u, int m, int last, followed how)
{
    followed *k = known_at(u, m, u->p);
    if (!k)
        return;
    how.first = u->p;
    how.last = last;
    *k = how;
}

/* Is the look that an item is the same turn's as that of the node? Traces that pass it equally often have as many
 * turns left behind both, which a join of different turns would not. */
static bool same_turn(const tpi_flow *w, const tpi_node *n, const tpi_trace *t,
                      const tpi_item *x)
{
    return x->kind != TPI_STEP_LOOK || n->item->visit == x->visit ||
           tpi_flow_is_site(w, x->site) ||
           tpi_trace_looks(n->trace, x->hash) != tpi_trace_looks(t, x->hash);
}

/* Does the rest of the trace do what node `m` and those behind it do? The edge that is to be
 * made leads to it too. */
static follows follow(const putting *u, int m, bool joins, bool *passed)
{
    const tpi_flow *w = u->w;
    const int first = m;
    int last = u->p - 1; /* so far the nodes lie one behind the other */
    bool round = false;  /* by the edge that is to be made */
    follows how;
    if (joins && is_known(u, m, &how))
        return how;
    for (int i = u->p; i < u->t->n; i++) {
        const tpi_item *x = &u->t->items[i];
        last = last == i - 1 && m - first == i - u->p ? i : last;
        if (!tpi_flow_same(w, &w->nodes[m], u->t, x) ||
            (joins && !same_turn(w, &w->nodes[m], u->t, x))) {
            if (joins && !round)
                note_followed(u, first, last, (followed){.node = -1, .how = FOLLOWS_NOT});
            return FOLLOWS_NOT;
        }
        if (x->kind == TPI_STEP_RETURN)
            return FOLLOWS;
        const tpi_edge *e = tpi_flow_edge_behind(w, m, u->t, i);
        *passed |= x->kind == TPI_STEP_LOOK;
        if (e)
            m = e->to;
        else if (m == u->tail && (x->kind != TPI_STEP_LOOK ||
                                  memcmp(x->seen, u->t->items[u->p - 1].seen, x->size) == 0))
            m = first, round = true;
        else {
            how = x->kind == TPI_STEP_LOOK ? FOLLOWS_TO_NEW : FOLLOWS_NOT;
            if (joins && !round)
                note_followed(u, first, last, (followed){.node = m, .item = i, .how = how});
            return how;
        }
    }
    return FOLLOWS_NOT;
}

/* Nodes behind a look, nearest first, loops not gone round again. */
static bool look_ahead(putting *u, int look)
{
    tpi_flow *w = u->w;
    if (u->ahead_size < w->n_nodes) {
        tpi_give_back(&w->ctx->mem, u->ahead, (size_t)u->ahead_size * sizeof *u->ahead);
        u->ahead_size = w->n_nodes;
        u->ahead = tpi_take(&w->ctx->mem, (size_t)u->ahead_size * sizeof *u->ahead);
        if (!u->ahead)
            u->ahead_size = 0;
    }
    u->n_ahead = 0;
    if (!u->ahead)
        return false;
    for (int i = 0; i < w->n_nodes; i++)
        w->nodes[i].mark = 0;
    w->nodes[look].mark = 1;
    for (int at = look, done = 0;; at = u->ahead[done++]) {
        const tpi_node *n = &w->nodes[at];
        for (int k = 0; k < n->n_edges; k++) {
            const int to = n->edges[k].to;
            if (n->edges[k].back || w->nodes[to].mark)
                continue;
            w->nodes[to].mark = 1;
            u->ahead[u->n_ahead++] = to;
        }
        if (done == u->n_ahead)
            return true;
    }
}

/* Does the node just before it do the same? Then either could be meant. */
static bool is_repeated(const tpi_flow *w, int node)
{
    for (int i = 0; i < w->n_nodes; i++)
        if (w->nodes[i].kind == TPI_STEP_OP && w->nodes[i].n_edges &&
            w->nodes[i].edges[0].to == node && w->nodes[i].hash == w->nodes[node].hash)
            return true;
    return false;
}

/* Does C end a loop that values end too? */
static bool has_bounded(const tpi_flow *w)
{
    for (int i = 0; i < w->n_sites; i++)
        if (w->sites[i].bounded)
            return true;
    return false;
}

/* Where there have been contradictions, or C counts turns that recordings do not show, to the return only. */
static int find_join(const putting *u)
{
    bool passed = false;
    const bool to_return = u->w->caution || has_bounded(u->w);
    for (int i = 0; i < u->n_ahead && u->w->caution < 2; i++) {
        const follows how = follow(u, u->ahead[i], true, &passed);
        if ((how == FOLLOWS || (how == FOLLOWS_TO_NEW && !to_return)) &&
            !is_repeated(u->w, u->ahead[i]))
            return u->ahead[i];
    }
    return -1;
}

/* Which site of a loop that may be rolled; -1: none. */
static int site_of(const tpi_flow *w, const tpi_item *x)
{
    for (int i = 0; i < w->n_sites && x->kind == TPI_STEP_LOOK; i++)
        if (w->sites[i].site == x->site)
            return w->sites[i].bounded ? -1 : i;
    return -1;
}

/* The look before item p had this outcome before in this run: what followed then. */
static int find_again(const putting *u, int *site)
{
    const tpi_item *look = &u->t->items[u->p - 1];
    *site = u->p > 0 && !u->w->caution ? site_of(u->w, look) : -1;
    for (int j = u->p - 2; j >= 0 && *site >= 0; j--) {
        const tpi_item *x = &u->t->items[j];
        bool passed = false;
        if (x->kind == TPI_STEP_LOOK && x->site == look->site && x->size == look->size &&
            memcmp(x->seen, look->seen, x->size) == 0 &&
            follow(u, x[1].node, false, &passed) != FOLLOWS_NOT && passed)
            return x[1].node;
    }
    return -1;
}

/* Is more than a look the same? */
static bool has_begun(const putting *u, int m)
{
    return u->w->nodes[m].kind != TPI_STEP_LOOK || tpi_flow_edge_behind(u->w, m, u->t, u->p);
}

/* A node of this run, before the last look of a loop. That a look has another outcome now says nothing. */
static int find_loop(const putting *u, int *site)
{
    enum { FAR = 1 << 14 };
    const tpi_flow *w = u->w;
    *site = -1;
    for (int j = u->p - 1; j >= 0 && u->p - j < FAR && w->n_sites && !w->caution; j--) {
        const tpi_item *x = &u->t->items[j];
        *site = *site >= 0 ? *site : site_of(w, x);
        bool passed = false;
        if (*site >= 0 && x->hash == u->t->items[u->p].hash && has_begun(u, x->node) &&
            follow(u, x->node, false, &passed) != FOLLOWS_NOT && passed)
            return x->node;
    }
    return -1;
}

/* The node for item p, where no edge leads on; *site: it is led back to by that loop. */
static int next_node(putting *u, int *site)
{
    tpi_flow *w = u->w;
    int to = find_again(u, site);
    if (to < 0) {
        to = find_join(u);
        w->n_joins += to >= 0;
        *site = -1;
        if (to >= 0)
            return to;
        to = find_loop(u, site);
    }
    if (to >= 0) {
        w->n_loops += !w->nodes[to].loops;
        return to;
    }
    *site = -1;
    return add_node(w, u->t, &u->t->items[u->p]);
}

static void note_outside(tpi_flow *w, int node, const tpi_trace *t, const tpi_item *x)
{
    for (int k = 0; k < x->n_in; k++) {
        const tpi_code c = tpi_item_in(t, x)[k];
        if (c < 0)
            w->nodes[node].in[k].outside = ~c;
        if (c < 0 && k == 0 && x->kind == TPI_STEP_ASSIGN)
            w->externs[~c].assigned = true;
    }
}

/* False: memory is out, or the trace contradicts those before: maybe because it has had all the turns
 * that C gives a loop (*bounded: the site; -1). */
static bool put(tpi_flow *w, tpi_trace *t, bool *impure, int *bounded)
{
    *bounded = -1;
    putting u = {.w = w, .t = t, .tail = TPI_ENTRY_NODE};
    u.n_known = w->n_nodes + 2 * t->n + 1;
    u.known = tpi_take(&w->ctx->mem, (size_t)u.n_known * sizeof *u.known);
    for (int i = 0; i < u.n_known && u.known; i++)
        u.known[i] = (followed){.last = -1};
    bool ok = true, along = true;
    for (u.p = 0; u.p < t->n && ok; u.p++) {
        tpi_item *x = &t->items[u.p];
        const tpi_edge *e = tpi_flow_edge_behind(w, u.tail, t, u.p - 1);
        int to = e ? e->to : -1;
        if (e && !tpi_flow_same(w, &w->nodes[to], t, x)) {
            *impure = true;
            w->why = w->caution == 2 ? TPI_WHY_impure : w->why;
            w->why_at = x->at;
            *bounded = e->back ? e->site : -1;
            ok = false;
        } else if (!e) {
            int site = -1;
            if (along && w->nodes[u.tail].kind == TPI_STEP_LOOK)
                ok = look_ahead(&u, u.tail);
            const int n = w->n_nodes;
            to = ok ? next_node(&u, &site) : -1;
            ok = to >= 0 && add_edge(w, u.tail, to, u.p ? x - 1 : NULL, site);
            along = to < n; /* among nodes that were there */
            if (along)
                u.n_ahead = 0;
        } else {
            along = true;
        }
        if (!ok)
            break;
        note_outside(w, to, t, x);
        x->node = to;
        u.tail = to;
    }
    tpi_give_back(&w->ctx->mem, u.ahead, (size_t)u.ahead_size * sizeof *u.ahead);
    tpi_give_back(&w->ctx->mem, u.known, (size_t)u.n_known * sizeof *u.known);
    return ok;
}

/* All traces anew. */
static bool rebuild_once(tpi_flow *w, bool *impure, bool *misfit, int *bounded)
{
    *impure = *misfit = false;
    drop_nodes(w);
    bool ok = add_node(w, NULL, NULL) == TPI_ENTRY_NODE;
    for (int i = 0; i < w->n_traces && ok; i++)
        ok = put(w, w->traces[i], impure, bounded);
    return ok && tpi_flow_values(w, misfit);
}

/* Loops that C ends too are left unrolled. */
static bool rebuild(tpi_flow *w, bool *impure, bool *misfit, int bounded)
{
    for (;;) {
        if (bounded >= 0)
            w->sites[bounded].bounded = true;
        bounded = -1;
        if (rebuild_once(w, impure, misfit, &bounded))
            return true;
        if (!*impure || bounded < 0)
            return false;
    }
}

/* Ops that come without a line (from another language), or with that of another level of a recursion,
 * are not told apart well enough to share what follows them. */
static int least_caution(const tpi_flow *w)
{
    for (int k = 0; k < w->n_traces; k++)
        if (w->traces[k]->recurses)
            return 2;
    for (int k = 0; k < w->n_traces; k++)
        for (int i = 0; i + 1 < w->traces[k]->n; i++)
            if (!w->traces[k]->items[i].at.file)
                return 2;
    return 0;
}

/* A trace of which each step is known is kept for its combinations, when it has new ones and there is room. */
static bool keep_known(tpi_flow *w, tpi_trace *t, bool combines)
{
    if (combines && w->n_traces < TPI_MAX_TRACES / 2)
        w->traces[w->n_traces++] = t;
    else
        tpi_trace_free(t);
    return true;
}

/* The last trace: with one more there may be joins again, or loops. */
static bool put_last(tpi_flow *w, bool *impure, bool *misfit)
{
    const int least = least_caution(w);
    const bool anew = w->caution != least || !w->n_nodes;
    bool loops = false;
    w->caution = least;
    if (!least && !tpi_flow_find_sites(w, &loops))
        return false;
    if (anew || loops)
        return rebuild(w, impure, misfit, -1);
    int bounded;
    if (put(w, w->traces[w->n_traces - 1], impure, &bounded))
        return tpi_flow_values(w, misfit);
    return *impure && bounded >= 0 && rebuild(w, impure, misfit, bounded);
}

bool tpi_flow_add(tpi_flow *w, tpi_trace *t, bool *impure, bool *known)
{
    *impure = *known = false;
    bool misfit = false, combines = false;
    const bool taken = take_origins(w, t, impure);
    *known = taken && w->n_nodes && tpi_flow_confirms(w, t, &combines);
    if (*known)
        return keep_known(w, t, combines);
    if (taken && w->n_traces == TPI_MAX_TRACES)
        w->why = TPI_WHY_changes;
    if (!taken || w->why == TPI_WHY_changes) {
        tpi_trace_free(t);
        return false;
    }
    w->calm = 0;
    w->n_out = t->items[t->n - 1].n_in;
    w->traces[w->n_traces++] = t;
    bool ok = put_last(w, impure, &misfit);
    int bounded;
    while (ok && !w->caution && (bounded = tpi_flow_find_counted(w)) >= 0)
        ok = rebuild(w, impure, &misfit, bounded);
    while (!ok && (*impure || misfit) && w->caution < 2) {
        w->caution++;
        ok = rebuild(w, impure, &misfit, -1);
    }
    *impure |= misfit;
    return ok && tpi_flow_gather(w);
}
