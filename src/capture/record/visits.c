/* Recordings as visits of basic blocks. */
#include "capture/record/visits.h"

#include <string.h>

/* Which nodes begin a basic block. */
static bool find_starts(tpi_flow *w)
{
    const size_t bytes = (size_t)w->n_nodes * sizeof(int32_t);
    int32_t *entries = tpi_take(&w->ctx->mem, bytes);
    if (!entries)
        return false;
    memset(entries, 0, bytes);
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_edges; k++)
            entries[w->nodes[i].edges[k].to] +=
                w->nodes[i].kind == TPI_STEP_LOOK || w->nodes[i].kind == TPI_STEP_ENTRY ? 2 : 1;
    for (int i = 0; i < w->n_nodes; i++) {
        w->nodes[i].starts = entries[i] != 1 || w->nodes[i].loops;
        w->nodes[i].unused = w->nodes[i].crosses = false;
    }
    tpi_give_back(&w->ctx->mem, entries, bytes);
    return true;
}

/* The next n numbers of the memory. */
static int32_t *part(int32_t **at, size_t n)
{
    int32_t *v = *at;
    *at += n;
    return v;
}

static bool take_all(tpi_visits *p)
{
    const tpi_flow *w = p->w;
    size_t items = 0, visits = 0, edges = 0;
    const size_t traces = (size_t)w->n_traces + 1, nodes = (size_t)w->n_nodes + 1;
    for (int k = 0; k < w->n_traces; k++) {
        items += (size_t)w->traces[k]->n;
        for (int i = 0; i < w->traces[k]->n; i++)
            visits += w->nodes[w->traces[k]->items[i].node].starts;
    }
    for (int i = 0; i < w->n_nodes; i++)
        edges += (size_t)w->nodes[i].n_edges;
    p->bytes = (2 * traces + 4 * nodes + 3 * items + 2 * visits + 2 * edges) * sizeof *p->all;
    int32_t *at = p->all = tpi_take(&w->ctx->mem, p->bytes);
    if (!at)
        return false;
    p->first_item = part(&at, traces);
    p->first_visit = part(&at, traces);
    p->first_run = part(&at, nodes);
    p->first_edge = part(&at, nodes);
    p->first_in = part(&at, nodes);
    p->block = part(&at, nodes);
    p->visit_of = part(&at, items);
    p->next = part(&at, items);
    p->runs = part(&at, items);
    p->start = part(&at, visits);
    p->entered = part(&at, visits);
    p->from = part(&at, edges);
    p->in = part(&at, edges);
    return true;
}

void tpi_visits_free(tpi_visits *p)
{
    if (p->w)
        tpi_give_back(&((tpi_flow *)p->w)->ctx->mem, p->all, p->bytes);
}

const tpi_edge *tpi_edge_numbered(const tpi_visits *p, int32_t edge)
{
    const int node = p->from[edge];
    return &p->w->nodes[node].edges[edge - p->first_edge[node]];
}

/* From counts, each at the place behind its own, to where each one's list begins. */
static void add_up(int32_t *first, int n)
{
    for (int i = 0; i < n; i++)
        first[i + 1] += first[i];
}

/* Where lists begin, once they are filled: each was moved to its end. */
static void move_back(int32_t *first, int n)
{
    memmove(first + 1, first, (size_t)n * sizeof *first);
    first[0] = 0;
}

static void number_edges(tpi_visits *p)
{
    const tpi_flow *w = p->w;
    int32_t n = 0;
    memset(p->first_in, 0, ((size_t)w->n_nodes + 1) * sizeof *p->first_in);
    for (int i = 0; i < w->n_nodes; i++) {
        p->first_edge[i] = n;
        for (int k = 0; k < w->nodes[i].n_edges; k++) {
            p->first_in[w->nodes[i].edges[k].to + 1]++;
            p->from[n++] = i;
        }
        for (int at = i; w->nodes[i].starts; at = w->nodes[at].edges[0].to) { /* its block */
            p->block[at] = i;
            if (w->nodes[at].n_edges != 1 || w->nodes[w->nodes[at].edges[0].to].starts)
                break;
        }
    }
    add_up(p->first_in, w->n_nodes);
    for (int32_t e = 0; e < n; e++)
        p->in[p->first_in[tpi_edge_numbered(p, e)->to]++] = e;
    move_back(p->first_in, w->n_nodes);
}

static void list_runs(tpi_visits *p)
{
    const tpi_flow *w = p->w;
    memset(p->first_run, 0, ((size_t)w->n_nodes + 1) * sizeof *p->first_run);
    for (int t = 0; t < w->n_traces; t++)
        for (int i = 0; i < w->traces[t]->n; i++)
            p->first_run[w->traces[t]->items[i].node + 1]++;
    add_up(p->first_run, w->n_nodes);
    for (int t = 0; t < w->n_traces; t++)
        for (int i = 0; i < w->traces[t]->n; i++) {
            const int32_t at = p->first_run[w->traces[t]->items[i].node]++;
            p->runs[at] = p->first_item[t] + i;
        }
    move_back(p->first_run, w->n_nodes);
    for (int i = 0; i < w->n_nodes; i++)
        for (int32_t at = p->first_run[i]; at < p->first_run[i + 1]; at++)
            p->next[p->runs[at]] = at + 1 < p->first_run[i + 1] ? p->runs[at + 1] : INT32_MAX;
}

static void list_visits(tpi_visits *p)
{
    const tpi_flow *w = p->w;
    int32_t items = 0, n = 0;
    for (int k = 0; k < w->n_traces; k++) {
        const tpi_trace *t = w->traces[k];
        p->first_item[k] = items;
        p->first_visit[k] = n;
        for (int i = 0, from = TPI_ENTRY_NODE; i < t->n; from = t->items[i++].node) {
            if (w->nodes[t->items[i].node].starts) {
                const tpi_edge *e = tpi_flow_edge_behind(w, from, t, i - 1);
                p->start[n] = items + i;
                p->entered[n++] = p->first_edge[from] + (int32_t)(e - w->nodes[from].edges);
            }
            p->visit_of[items + i] = n - 1;
        }
        items += t->n;
    }
    p->first_item[w->n_traces] = items;
    p->first_visit[w->n_traces] = n;
}

/* What some recording computed nothing from. */
static bool find_unused(const tpi_flow *w)
{
    int longest = 0;
    for (int k = 0; k < w->n_traces; k++)
        longest = w->traces[k]->n > longest ? w->traces[k]->n : longest;
    bool *used = tpi_take(&w->ctx->mem, (size_t)longest);
    for (int k = 0; k < w->n_traces && used; k++) {
        const tpi_trace *t = w->traces[k];
        memset(used, 0, (size_t)t->n);
        for (int i = 0; i < t->n_in; i++)
            if (t->in[i] >= 0)
                used[t->in[i]] = true;
        for (int i = 0; i < t->n; i++)
            w->nodes[t->items[i].node].unused |= t->items[i].kind == TPI_STEP_OP && !used[i];
    }
    tpi_give_back(&w->ctx->mem, used, (size_t)longest);
    return used;
}

bool tpi_visits_find(tpi_visits *p, tpi_flow *w)
{
    *p = (tpi_visits){.w = w};
    if (!find_starts(w) || !take_all(p))
        return false;
    number_edges(p);
    list_visits(p);
    list_runs(p);
    return find_unused(w);
}

int tpi_trace_of(const tpi_visits *p, int32_t item)
{
    int low = 0, high = p->w->n_traces;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (p->first_item[middle] <= item)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int32_t tpi_value_read(const tpi_visits *p, int trace, int32_t item, int k)
{
    const tpi_trace *t = p->w->traces[trace];
    const tpi_code c = tpi_item_in(t, &t->items[item - p->first_item[trace]])[k];
    return c < 0 ? c : p->first_item[trace] + c;
}

int tpi_node_run(const tpi_visits *p, int trace, int32_t item)
{
    return p->w->traces[trace]->items[item - p->first_item[trace]].node;
}

int32_t tpi_last_run(const tpi_visits *p, int node, int32_t before)
{
    int low = p->first_run[node], high = p->first_run[node + 1];
    while (low < high) {
        const int middle = (low + high) / 2;
        if (p->runs[middle] < before)
            low = middle + 1;
        else
            high = middle;
    }
    return low > p->first_run[node] ? p->runs[low - 1] : -1;
}
