/* Flows: nodes and edges, made from traces. */
#include "capture/record/flow.h"

#include "op/random_position.h"

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
    w->n_nodes = 0;
    w->n_joins = w->n_loops = 0;
    tpi_flow_forget_values(w);
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

static int add_extern(tpi_flow *w, const tpi_origin *o)
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
    w->n_in = t->n_args;
    w->args = tpi_take(&f->ctx->mem, (size_t)w->n_in * sizeof *w->args);
    w->watched = copy_watched(f);
    w->n_watched = w->watched ? tpi_watched_bytes(f) : 0;
    bool ok = w->args && w->watched;
    for (int i = 0; i < t->n_origins && ok && t->origins[i].from == TPI_FROM_ARG; i++) {
        ok = add_extern(w, &t->origins[i]) >= 0;
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

static bool same_bytes(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && tpi_same_shape(a, b) &&
           memcmp(a->data, b->data, tpi_bytes(a)) == 0;
}

int tpi_flow_extern(const tpi_flow *w, const tpi_origin *o)
{
    for (int i = 0; i < w->n_externs; i++) {
        const tpi_extern *e = &w->externs[i];
        if (e->from != o->from)
            continue;
        if (e->from == TPI_FROM_ARG     ? e->arg == o->arg
            : e->from == TPI_FROM_STATE ? e->tensor == o->tensor
                                        : same_bytes(e->tensor, o->tensor))
            return i;
    }
    return -1;
}

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
            which[i] = add_extern(w, o);
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

tpi_edge *tpi_flow_edge(const tpi_node *n, const char *seen, int size)
{
    for (int i = 0; i < n->n_edges; i++)
        if (n->edges[i].size == size && memcmp(n->edges[i].seen, seen, (size_t)size) == 0)
            return &n->edges[i];
    return NULL;
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

tpi_edge *tpi_flow_edge_behind(const tpi_flow *w, int node, const tpi_trace *t, int i)
{
    const tpi_node *n = &w->nodes[node];
    if (n->kind != TPI_STEP_LOOK)
        return n->n_edges ? &n->edges[0] : NULL;
    return tpi_flow_edge(n, t->items[i].seen, t->items[i].size);
}

static bool same_place(tpi_at a, tpi_at b)
{
    return a.line == b.line &&
           (a.file == b.file || (a.file && b.file && strcmp(a.file, b.file) == 0));
}

static bool same_attrs(const tpi_op *op, const void *a, const void *b)
{
    if (!tpi_is_draw(op))
        return !op->attrs_size || memcmp(a, b, op->attrs_size) == 0;
    tpi_random_attrs x = *(const tpi_random_attrs *)a; /* drawn from where the context is */
    const tpi_random_attrs *y = b;
    x.seed = y->seed;
    x.at = y->at;
    return memcmp(&x, y, sizeof x) == 0;
}

static tpi_value_form form_of(const tpi_flow *w, const tpi_trace *t, tpi_code c)
{
    if (c >= 0)
        return (tpi_value_form){t->items[c].dtype, t->items[c].rank, t->items[c].shape};
    const tp_tensor *x = w->externs[~c].tensor;
    return (tpi_value_form){x->dtype, x->rank, x->shape};
}

tpi_value_form tpi_flow_operand_form(const tpi_flow *w, const tpi_node *n, int k)
{
    return form_of(w, n->trace, tpi_item_in(n->trace, n->item)[k]);
}

/* A program is made for the sizes of its operands, which those of its results do not tell (a sum). */
bool tpi_same_form(tpi_value_form a, tpi_value_form b)
{
    return a.dtype == b.dtype && a.rank == b.rank &&
           memcmp(a.shape, b.shape, sizeof(int64_t) * a.rank) == 0;
}

bool tpi_flow_same(const tpi_flow *w, const tpi_node *n, const tpi_trace *t, const tpi_item *x)
{
    if (n->hash != x->hash || n->kind != x->kind || n->op != x->op || n->n_in != x->n_in ||
        n->look != x->look || n->dtype != x->dtype || n->rank != x->rank ||
        !same_place(n->at, x->at) ||
        memcmp(n->item->shape, x->shape, sizeof(int64_t) * x->rank) != 0)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const tpi_code c = tpi_item_in(t, x)[k];
        if (c < 0 && n->in[k].outside != TPI_NO_EXTERN && n->in[k].outside != ~c)
            return false;
        if (!tpi_same_form(tpi_flow_operand_form(w, n, k), form_of(w, t, c)))
            return false;
    }
    if (x->kind == TPI_STEP_RETURN)
        return memcmp(n->item->seen, x->seen, (size_t)x->n_in) == 0;
    return x->kind != TPI_STEP_OP || same_attrs(x->op, n->attrs, x->attrs);
}

/* ---- joins and loops --------------------------------------------------------------------- */

typedef enum follows {
    FOLLOWS_NOT,
    FOLLOWS_TO_NEW, /* to a look, of which this outcome is new */
    FOLLOWS
} follows;

/* Putting one trace in. */
typedef struct putting {
    tpi_flow *w;
    tpi_trace *t;
    int p;          /* the item */
    int tail;       /* the node before it */
    int n_ahead;    /* nodes that follow the look at which it left the others, nearest first */
    int32_t *ahead; /* room for all nodes */
    int ahead_size;
} putting;

/* Does the rest of the trace do what node `m` and those behind it do? The edge that is to be
 * made leads to it too. */
static follows follow(const putting *u, int m, bool *passed)
{
    const tpi_flow *w = u->w;
    const int first = m;
    for (int i = u->p; i < u->t->n; i++) {
        const tpi_item *x = &u->t->items[i];
        if (!tpi_flow_same(w, &w->nodes[m], u->t, x))
            return FOLLOWS_NOT;
        if (x->kind == TPI_STEP_RETURN)
            return FOLLOWS;
        const tpi_edge *e = tpi_flow_edge_behind(w, m, u->t, i);
        *passed |= x->kind == TPI_STEP_LOOK;
        if (e)
            m = e->to;
        else if (m == u->tail && (x->kind != TPI_STEP_LOOK ||
                                  memcmp(x->seen, u->t->items[u->p - 1].seen, x->size) == 0))
            m = first;
        else
            return x->kind == TPI_STEP_LOOK ? FOLLOWS_TO_NEW : FOLLOWS_NOT;
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

/* Where there have been contradictions, to the return only. */
static int find_join(const putting *u)
{
    bool passed = false;
    for (int i = 0; i < u->n_ahead && u->w->caution < 2; i++) {
        const follows how = follow(u, u->ahead[i], &passed);
        if ((how == FOLLOWS || (how == FOLLOWS_TO_NEW && u->w->caution == 0)) &&
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
            follow(u, x[1].node, &passed) != FOLLOWS_NOT && passed)
            return x[1].node;
    }
    return -1;
}

/* A node of this run, before the last look of a loop. */
static int find_loop(const putting *u, int *site)
{
    enum { FAR = 1 << 14 };
    const tpi_flow *w = u->w;
    *site = -1;
    for (int j = u->p - 1; j >= 0 && u->p - j < FAR && w->n_sites && !w->caution; j--) {
        const tpi_item *x = &u->t->items[j];
        *site = *site >= 0 ? *site : site_of(w, x);
        bool passed = false;
        if (*site >= 0 && x->hash == u->t->items[u->p].hash &&
            follow(u, x->node, &passed) != FOLLOWS_NOT && passed)
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
    return ok;
}

/* A trace goes on to item i; the turns of the loop that begins there, if one does. */
static void count_turn(tpi_flow *w, const tpi_edge *e)
{
    tpi_node *to = &w->nodes[e->to];
    to->turns = e->back ? to->turns + 1 : 0;
    if (e->back && to->turns > w->sites[e->site].most)
        w->sites[e->site].most = to->turns;
}

/* Turns that loops have had, at most. */
static void count_turns(tpi_flow *w)
{
    for (int k = 0; k < w->n_traces; k++) {
        const tpi_trace *t = w->traces[k];
        for (int i = 0, from = TPI_ENTRY_NODE; i < t->n; from = t->items[i++].node)
            count_turn(w, tpi_flow_edge_behind(w, from, t, i - 1));
    }
    for (int i = 0; i < w->n_nodes; i++)
        w->nodes[i].limit = 0;
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_edges; k++) {
            const tpi_edge *e = &w->nodes[i].edges[k];
            if (e->back && w->sites[e->site].most > w->nodes[e->to].limit)
                w->nodes[e->to].limit = w->sites[e->site].most;
        }
}

/* Does the trace take known edges only, with the operands that are expected? */
static bool is_known(const tpi_flow *w, tpi_trace *t)
{
    const tpi_edge *e = &w->nodes[TPI_ENTRY_NODE].edges[0];
    for (int i = 0; i < t->n; i++) {
        tpi_item *x = &t->items[i];
        if (!e || !tpi_flow_same(w, &w->nodes[e->to], t, x))
            return false;
        x->node = e->to;
        for (int k = 0; k < x->n_in; k++) {
            tpi_code c;
            if (!tpi_source_value(w, w->nodes[x->node].in[k].source, t, i, &c) ||
                c != tpi_item_in(t, x)[k])
                return false;
        }
        e = tpi_flow_edge_behind(w, x->node, t, i);
    }
    return true;
}

/* Is it known, but for a number of turns? Then that is kept, and not the trace. */
static bool is_longer(tpi_flow *w, tpi_trace *t)
{
    if (w->caution || !w->blocks || !is_known(w, t))
        return false;
    bool longer = false;
    for (int i = 0, from = TPI_ENTRY_NODE; i < t->n; from = t->items[i++].node) {
        const tpi_edge *e = tpi_flow_edge_behind(w, from, t, i - 1);
        count_turn(w, e);
        longer |= e->back && w->nodes[e->to].turns > w->nodes[e->to].limit;
    }
    if (longer)
        count_turns(w);
    return longer;
}

static int count_visits(const tpi_trace *t, uint32_t site)
{
    int n = 0;
    for (int i = 0; i < t->n; i++)
        n += t->items[i].kind == TPI_STEP_LOOK && t->items[i].site == site;
    return n;
}

static bool is_known_site(const tpi_flow *w, uint32_t site)
{
    for (int i = 0; i < w->n_sites; i++)
        if (w->sites[i].site == site)
            return true;
    return false;
}

static bool was_before(const tpi_trace *t, int i)
{
    for (int j = i - 1; j >= 0; j--)
        if (t->items[j].kind == TPI_STEP_LOOK && t->items[j].site == t->items[i].site)
            return true;
    return false;
}

/* Looks that traces pass a different number of times are those of loops. True: there is a new one. */
static bool find_sites(tpi_flow *w)
{
    const int most = (int)(sizeof w->sites / sizeof *w->sites), before = w->n_sites;
    const tpi_trace *last = w->traces[w->n_traces - 1];
    for (int i = 0; i < last->n && w->n_sites < most; i++) {
        const tpi_item *x = &last->items[i];
        if (x->kind != TPI_STEP_LOOK || is_known_site(w, x->site) || was_before(last, i))
            continue;
        const int visits = count_visits(last, x->site);
        for (int k = 0; k + 1 < w->n_traces; k++) {
            const int others = count_visits(w->traces[k], x->site);
            if (others == 0 || others == visits)
                continue;
            w->sites[w->n_sites++] = (tpi_loop_site){.site = x->site};
            break;
        }
    }
    return w->n_sites > before;
}

/* ---- loops that C counts --------------------------------------------------------------------- */

static bool same_seen(const tpi_item *x, const tpi_item *y)
{
    return x->kind != TPI_STEP_LOOK ||
           (x->size == y->size && memcmp(x->seen, y->seen, x->size) == 0);
}

/* What was done from item i of t on was done at another time, after the same values, from item j of o
 * on: until one of them begins another turn, and the other does something else? */
static bool goes_on_once(const tpi_trace *t, int i, const tpi_trace *o, int j)
{
    const uint32_t turn = t->items[i].hash;
    const tpi_item *x = &t->items[i - 1], *y = &o->items[j - 1];
    const tpi_item *end = t->items + t->n, *other_end = o->items + o->n;
    while (x < end && y < other_end && x->hash == y->hash && same_seen(x, y))
        x++, y++;
    return x < end && y < other_end && x->hash != y->hash && x > &t->items[i] &&
           (x->hash == turn || y->hash == turn);
}

/* Is it done in the turn that ends with item i - 1? */
static bool is_in_turn(const tpi_trace *t, int i, uint32_t hash)
{
    bool found = false;
    int j = i - 1;
    for (; j >= 0 && t->items[j].node != t->items[i].node && !found; j--)
        found = t->items[j].hash == hash;
    return found || hash == t->items[i].hash;
}

/* A turn of a rolled loop begins at item i. Is what ended the one before, or that turn itself, at another
 * time what ended the loop? */
static bool is_counted(const tpi_flow *w, const tpi_trace *t, int i)
{
    for (int a = 0; a < w->n_traces; a++) {
        const tpi_trace *o = w->traces[a];
        for (int j = 1; j < o->n; j++) {
            if (o->items[j - 1].hash != t->items[i - 1].hash ||
                !same_seen(&o->items[j - 1], &t->items[i - 1]))
                continue;
            if (!is_in_turn(t, i, o->items[j].hash) ||
                (o->items[j].hash == t->items[i].hash && goes_on_once(t, i, o, j)))
                return true;
        }
    }
    return false;
}

/* The site of a rolled loop of which equal turns were and were not the last one, so that no value ends it;
 * -1: none. */
static int find_counted(const tpi_flow *w)
{
    for (int k = 0; k < w->n_traces && w->n_loops; k++) {
        const tpi_trace *t = w->traces[k];
        for (int i = 1; i < t->n; i++) {
            const tpi_edge *e = tpi_flow_edge_behind(w, t->items[i - 1].node, t, i - 1);
            if (e && e->back && is_counted(w, t, i))
                return e->site;
        }
    }
    return -1;
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

/* False: it is not to be put in. */
static bool is_to_be_put(tpi_flow *w, tpi_trace *t, bool *impure, bool *longer)
{
    if (!take_origins(w, t, impure))
        return false;
    *longer = w->n_nodes && is_longer(w, t);
    if (!*longer && w->n_traces == TPI_MAX_TRACES)
        w->why = TPI_WHY_changes;
    return !*longer && w->why != TPI_WHY_changes;
}

bool tpi_flow_add(tpi_flow *w, tpi_trace *t, bool *impure, bool *longer)
{
    *impure = *longer = false;
    bool misfit = false;
    if (!is_to_be_put(w, t, impure, longer)) {
        tpi_trace_free(t);
        return *longer;
    }
    w->calm = 0;
    w->n_out = t->items[t->n - 1].n_in;
    w->traces[w->n_traces++] = t;
    bool ok = w->n_nodes || add_node(w, NULL, NULL) == TPI_ENTRY_NODE;
    int bounded = -1;
    const int least = least_caution(w);
    if (w->caution != least) { /* with one trace more there may be joins again */
        w->caution = least;
        ok = rebuild(w, impure, &misfit, -1);
    } else {
        ok = ok && put(w, t, impure, &bounded);
        if (ok)
            ok = tpi_flow_values(w, &misfit);
    }
    if (!ok && *impure && bounded >= 0)
        ok = rebuild(w, impure, &misfit, bounded);
    if (ok && !w->caution && find_sites(w))
        ok = rebuild(w, impure, &misfit, -1);
    while (ok && !w->caution && (bounded = find_counted(w)) >= 0)
        ok = rebuild(w, impure, &misfit, bounded);
    while (!ok && (*impure || misfit) && w->caution < 2) {
        w->caution++;
        ok = rebuild(w, impure, &misfit, -1);
    }
    *impure |= misfit;
    if (ok)
        count_turns(w);
    return ok;
}
