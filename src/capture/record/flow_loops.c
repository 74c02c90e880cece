/* Flows: loops, their turns, and what ends them; and which ways have been gone. */
#include "base/hash.h"
#include "capture/record/flow.h"

#include <stdlib.h>
#include <string.h>

/* ---- looks of loops ---------------------------------------------------------------------- */

bool tpi_flow_is_site(const tpi_flow *w, uint32_t site)
{
    for (int i = 0; i < w->n_sites; i++)
        if (w->sites[i].site == site)
            return true;
    return false;
}

/* The looks of a trace with one site. */
typedef struct passing {
    uint32_t site;
    int32_t first;     /* item */
    int32_t n, others; /* how often this trace and another one pass it */
    bool differs;      /* another passes it, but not as often */
} passing;

static int by_site(const void *a, const void *b)
{
    const passing *x = a, *y = b;
    return x->site != y->site ? (x->site > y->site) - (x->site < y->site)
                              : (x->first > y->first) - (x->first < y->first);
}

static int by_first(const void *a, const void *b)
{
    const passing *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static passing *find_passing(passing *v, int n, uint32_t site)
{
    int low = 0, high = n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (v[middle].site < site)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && v[low].site == site ? &v[low] : NULL;
}

/* By site; how many. */
static int gather_passings(const tpi_trace *t, passing *v)
{
    int n = 0, last = 0;
    for (int i = 0; i < t->n; i++)
        if (t->items[i].kind == TPI_STEP_LOOK)
            v[n++] = (passing){.site = t->items[i].site, .first = i, .n = 1};
    qsort(v, (size_t)n, sizeof *v, by_site);
    for (int i = 1; i < n; i++) {
        if (v[i].site == v[last].site)
            v[last].n++;
        else
            v[++last] = v[i];
    }
    return n ? last + 1 : 0;
}

static void compare_passings(passing *v, int n, const tpi_trace *other)
{
    for (int i = 0; i < other->n; i++) {
        passing *x = other->items[i].kind == TPI_STEP_LOOK
                         ? find_passing(v, n, other->items[i].site)
                         : NULL;
        if (x)
            x->others++;
    }
    for (int i = 0; i < n; i++) {
        v[i].differs |= v[i].others && v[i].others != v[i].n;
        v[i].others = 0;
    }
}

/* Sites of the trace that are new, in the order in which it passes them; at most `room` of them are written. How many
 * there are; -1: memory is out. */
static int new_sites(const tpi_flow *w, const tpi_trace *t, int room, uint32_t *sites)
{
    tpi_mem *m = &w->ctx->mem;
    const size_t bytes = (size_t)t->n * sizeof(passing);
    passing *v = tpi_take(m, bytes);
    if (!v)
        return -1;
    const int n = gather_passings(t, v);
    int found = 0;
    for (int k = 0; k < w->n_traces; k++)
        compare_passings(v, n, w->traces[k]);
    qsort(v, (size_t)n, sizeof *v, by_first);
    for (int i = 0; i < n; i++) {
        if (!v[i].differs || tpi_flow_is_site(w, v[i].site))
            continue;
        if (found < room)
            sites[found] = v[i].site;
        found++;
    }
    tpi_give_back(m, v, bytes);
    return found;
}

bool tpi_flow_find_sites(tpi_flow *w, bool *any)
{
    enum { MOST = sizeof w->sites / sizeof *w->sites };
    uint32_t sites[MOST];
    const int room = MOST - w->n_sites;
    const int found = new_sites(w, w->traces[w->n_traces - 1], room, sites);
    for (int i = 0; i < found && i < room; i++)
        w->sites[w->n_sites++] = (tpi_loop_site){.site = sites[i]};
    *any = found > 0 && room > 0;
    return found >= 0;
}

/* ---- loops that C counts ----------------------------------------------------------------- */

static bool same_seen(const tpi_item *x, const tpi_item *y)
{
    return x->kind != TPI_STEP_LOOK ||
           (x->size == y->size && memcmp(x->seen, y->seen, x->size) == 0);
}

/* What was done from item i of t on was done at another time, after the same values, from item j of o
 * on: until one of them begins another turn, and the other does something else? When both begin one, that is asked
 * of these turns. */
static bool goes_on_once(const tpi_trace *t, int i, const tpi_trace *o, int j)
{
    const uint32_t turn = t->items[i].hash;
    const tpi_item *x = &t->items[i - 1], *y = &o->items[j - 1];
    const tpi_item *end = t->items + t->n, *other_end = o->items + o->n;
    while (x < end && y < other_end && x->hash == y->hash && same_seen(x, y)) {
        if (x > &t->items[i] && x->hash == turn)
            return false;
        x++, y++;
    }
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
 * time, in traces from `first` on, what ended the loop? */
static bool is_counted(const tpi_flow *w, const tpi_trace *t, int i, int first)
{
    for (int a = first; a < w->n_traces; a++) {
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

static uint64_t hash_item(uint64_t hash, const tpi_item *x)
{
    hash = tpi_hash_step(hash, x->hash);
    return x->kind == TPI_STEP_LOOK ? tpi_hash_step(hash, tpi_hash64(x->seen, x->size)) : hash;
}

/* All that is_counted asks of a turn: what the one before did, and what is done from its begin to that of the next. */
static uint64_t hash_turn(const tpi_trace *t, int i)
{
    uint64_t hash = hash_item(hash_item(0, &t->items[i]), &t->items[i - 1]);
    for (int j = i - 1; j >= 0 && t->items[j].node != t->items[i].node; j--)
        hash = hash_item(hash, &t->items[j]);
    int end = i + 1;
    for (; end < t->n && t->items[end].hash != t->items[i].hash; end++)
        hash = hash_item(hash, &t->items[end]);
    return tpi_hash_step(hash, end < t->n);
}

/* The site of a rolled loop which the trace, beside those from `first` on, shows to be counted; -1: none. */
static int counted_in(const tpi_flow *w, const tpi_trace *t, int first)
{
    enum { KNOWN = 256 };
    uint64_t known[KNOWN] = {0}; /* turns that are not: most are like some before */
    for (int i = 1; i < t->n && w->n_loops; i++) {
        const tpi_edge *e = tpi_flow_edge_behind(w, t->items[i - 1].node, t, i - 1);
        if (!e || !e->back)
            continue;
        const uint64_t hash = hash_turn(t, i);
        if (known[hash % KNOWN] == hash)
            continue;
        if (is_counted(w, t, i, first))
            return e->site;
        known[hash % KNOWN] = hash;
    }
    return -1;
}

int tpi_flow_find_counted(tpi_flow *w)
{
    int site = -1;
    for (int k = 0; k < w->n_traces && site < 0; k++)
        site = counted_in(w, w->traces[k], k < w->n_compared ? w->n_compared : 0);
    w->n_compared = site < 0 ? w->n_traces : 0;
    return site;
}

/* ---- which edges leave a loop ------------------------------------------------------------ */

/* Marks the nodes of the loop that begins at `head`: those from which an edge leads back to it. */
static void mark_loop(tpi_flow *w, int head)
{
    for (int i = 0; i < w->n_nodes; i++)
        w->nodes[i].mark = i == head;
    for (bool more = true; more;) {
        more = false;
        for (int i = w->n_nodes - 1; i >= 0; i--) {
            tpi_node *n = &w->nodes[i];
            for (int k = 0; k < n->n_edges && !n->mark; k++) {
                const tpi_edge *e = &n->edges[k];
                n->mark = e->to == head ? e->back : w->nodes[e->to].mark;
                more |= n->mark;
            }
        }
    }
}

static bool add_exit(tpi_flow *w, tpi_edge *e, int head)
{
    tpi_loop_exit *v = tpi_grow(&w->ctx->mem, w->exits, w->n_exits, &w->exits_size, sizeof *v);
    if (!v)
        return false;
    w->exits = v;
    v[w->n_exits] = (tpi_loop_exit){.next = e->exit, .head = head};
    e->exit = w->n_exits++;
    return true;
}

static bool add_exits(tpi_flow *w, int head)
{
    mark_loop(w, head);
    bool ok = true;
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_edges && ok && w->nodes[i].mark; k++) {
            tpi_edge *e = &w->nodes[i].edges[k];
            ok = w->nodes[e->to].mark || add_exit(w, e, head);
        }
    return ok;
}

static bool find_exits(tpi_flow *w)
{
    w->n_exits = 0;
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_edges; k++)
            w->nodes[i].edges[k].exit = -1;
    bool ok = true;
    for (int i = 0; i < w->n_nodes && ok; i++)
        ok = !w->nodes[i].loops || add_exits(w, i);
    return ok;
}

/* ---- which edges lead to what others lead to, too ---------------------------------------- */

/* Numbers them. A node to which one edge leads has the same possible last merges as the node before it, which has a
 * smaller number, so that one pass does. */
static void number_edges(tpi_flow *w)
{
    for (int i = 0; i < w->n_nodes; i++)
        w->nodes[i].mark = w->nodes[i].turns = 0;
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_edges; k++)
            w->nodes[w->nodes[i].edges[k].to].mark++;
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_edges; k++) {
            tpi_edge *e = &w->nodes[i].edges[k];
            tpi_node *to = &w->nodes[e->to];
            e->merge = w->n_sites && to->mark > 1 ? w->n_merges++ : -1;
            e->entrance = to->turns++;
        }
    w->nodes[TPI_ENTRY_NODE].mark = 1;
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_edges; k++) {
            tpi_edge *e = &w->nodes[i].edges[k];
            e->outcome = -1;
            if (w->n_sites && w->nodes[i].kind == TPI_STEP_LOOK) {
                e->outcome = w->n_outcomes;
                w->n_outcomes += w->nodes[i].mark;
            }
            if (e->merge < 0)
                w->nodes[e->to].mark = w->nodes[i].mark;
        }
}

static bool find_merges(tpi_flow *w)
{
    tpi_flow_forget_merges(w);
    number_edges(w);
    w->n_words = (w->n_outcomes + 63) / 64;
    w->followed = tpi_take(&w->ctx->mem, tpi_flow_merge_bytes(w));
    if (!w->followed)
        return false;
    memset(w->followed, 0, tpi_flow_merge_bytes(w));
    return true;
}

void tpi_flow_forget_merges(tpi_flow *w)
{
    tpi_give_back(&w->ctx->mem, w->followed, w->followed ? tpi_flow_merge_bytes(w) : 0);
    w->followed = NULL;
    w->n_outcomes = w->n_merges = w->n_words = 0;
}

/* ---- what is known of all that -------------------------------------------------------------- */

/* False: nothing new. */
static bool note_exit(tpi_loop_exit *x, const tpi_node *head)
{
    const bool before = x->by_value, new_turns = x->n && head->turns != x->turns[0];
    const bool differs = x->differs || new_turns, news = differs != x->differs;
    x->differs = differs;
    for (int i = 0; i < x->n; i++) {
        const bool full = x->n == TPI_MAX_WAYS && x->reads[i] == head->reads;
        x->by_value |= (full || x->ways[i] == head->way) && x->turns[i] != head->turns;
        if (x->ways[i] == head->way)
            return news || x->by_value != before;
    }
    if (x->n == TPI_MAX_WAYS)
        return news || x->by_value != before;
    x->ways[x->n] = head->way;
    x->reads[x->n] = head->reads;
    x->turns[x->n++] = head->turns;
    return true;
}

bool tpi_may_leave(const tpi_loop_exit *x, uint64_t way, int32_t turns)
{
    bool seen = x->by_value;
    for (int i = 0; i < x->n && !seen; i++)
        seen = x->turns[i] == turns && (!x->differs || x->ways[i] == way);
    return seen;
}

/* Outcomes so far: all, and those that are numbers. */
typedef struct ways {
    uint64_t all, reads;
} ways;

/* A trace goes along an edge. False: that says nothing new of how loops are left. */
static bool go_on(tpi_flow *w, int from, const tpi_edge *e, ways *way)
{
    bool news = false;
    for (int i = e->exit; i >= 0; i = w->exits[i].next)
        news |= note_exit(&w->exits[i], &w->nodes[w->exits[i].head]);
    const int edge = (int)(e - w->nodes[from].edges);
    way->all = tpi_way_behind(w, way->all, from, edge);
    if (w->nodes[from].look != TPI_LOOK_TRUTH)
        way->reads = tpi_way_behind(w, way->reads, from, edge);
    tpi_node *to = &w->nodes[e->to];
    if (!e->back) {
        to->way = way->all;
        to->reads = way->reads;
    }
    to->turns = e->back ? to->turns + 1 : 0;
    if (e->back && to->turns > w->sites[e->site].most)
        w->sites[e->site].most = to->turns;
    return news;
}

bool tpi_flow_recorded(const tpi_flow *w, uint64_t way)
{
    bool is = false;
    for (int i = 0; i < w->n_ways && !is; i++)
        is = w->ways[i] == way;
    return is;
}

/* When memory is out, or there are too many, it is as if the body had not gone it. */
static void note_way(tpi_flow *w, uint64_t way)
{
    enum { MOST = 4 * TPI_MAX_TRACES };
    uint64_t *v = w->n_ways == MOST || tpi_flow_recorded(w, way)
                      ? NULL
                      : tpi_grow(&w->ctx->mem, w->ways, w->n_ways, &w->ways_size, sizeof *v);
    if (!v)
        return;
    w->ways = v;
    v[w->n_ways++] = way;
}

/* False: nothing new of how loops are left. */
static bool note_turns(tpi_flow *w, const tpi_trace *t)
{
    for (int i = 0; i < w->n_exits; i++) {
        tpi_node *head = &w->nodes[w->exits[i].head];
        head->turns = 0;
        head->way = head->reads = 0;
    }
    ways way = {0, 0};
    bool news = false;
    for (int i = 0, from = TPI_ENTRY_NODE; i < t->n; from = t->items[i++].node)
        news |= go_on(w, from, tpi_flow_edge_behind(w, from, t, i - 1), &way);
    note_way(w, way.all);
    return news;
}

static const tpi_edge *edge_to(const tpi_flow *w, const tpi_trace *t, int i)
{
    return tpi_flow_edge_behind(w, i ? t->items[i - 1].node : TPI_ENTRY_NODE, t, i - 1);
}

/* From the end: the last row of w->followed gathers the outcomes. False: nothing new. */
static bool note_merges(tpi_flow *w, const tpi_trace *t)
{
    uint64_t *later = tpi_flow_followed(w, w->n_merges);
    bool news = false;
    memset(later, 0, (size_t)w->n_words * sizeof *later);
    for (int i = t->n - 1, next = i; i >= 0; i--) {
        const tpi_edge *e = edge_to(w, t, i);
        if (e->merge < 0)
            continue;
        for (int k = i + 1; k <= next; k++) {
            const int32_t outcome = edge_to(w, t, k)->outcome;
            if (outcome >= 0)
                later[(outcome + e->entrance) / 64] |= 1ull << ((outcome + e->entrance) % 64);
        }
        uint64_t *followed = tpi_flow_followed(w, e->merge);
        for (int k = 0; k < w->n_words; k++) {
            news |= later[k] & ~followed[k];
            followed[k] |= later[k];
        }
        next = i;
    }
    return news;
}

static void set_limits(tpi_flow *w)
{
    for (int i = 0; i < w->n_nodes; i++)
        w->nodes[i].limit = 0;
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_edges; k++) {
            const tpi_edge *e = &w->nodes[i].edges[k];
            if (e->back && w->sites[e->site].most > w->nodes[e->to].limit)
                w->nodes[e->to].limit = w->sites[e->site].most;
        }
}

bool tpi_flow_gather(tpi_flow *w)
{
    if (!find_exits(w) || !find_merges(w))
        return false;
    for (int k = 0; k < w->n_traces; k++) {
        note_turns(w, w->traces[k]);
        note_merges(w, w->traces[k]);
    }
    set_limits(w);
    return true;
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

bool tpi_flow_confirms(tpi_flow *w, tpi_trace *t, bool *combines)
{
    if (!w->blocks || !is_known(w, t) || counted_in(w, t, 0) >= 0 ||
        (!w->caution && new_sites(w, t, 0, NULL) != 0))
        return false;
    const bool left = note_turns(w, t), merged = note_merges(w, t);
    *combines = left || merged;
    set_limits(w);
    return true;
}
