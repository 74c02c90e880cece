/* Looking at flows. */
#include "base/strbuf.h"
#include "capture/replay/blocks.h"

#include <inttypes.h>

static void put_place(tpi_at at, tpi_str *out)
{
    if (at.file)
        tpi_str_printf(out, "%s:%d", at.file, at.line);
    else
        tpi_str_put(out, "?");
}

/* The ops of a block, equal neighbours counted. */
static void put_ops(const tpi_flow *w, const tpi_basic_block *b, tpi_str *out)
{
    int shown = 0;
    for (int i = 0; i < b->n_nodes;) {
        const tpi_node *n = &w->nodes[b->nodes[i]];
        int same = 1;
        while (i + same < b->n_nodes && w->nodes[b->nodes[i + same]].op == n->op &&
               w->nodes[b->nodes[i + same]].kind == n->kind)
            same++;
        i += same;
        if (n->kind != TPI_STEP_OP && n->kind != TPI_STEP_ASSIGN)
            continue;
        if (shown++ == 16)
            tpi_str_put(out, ", ...");
        if (shown > 16)
            continue;
        tpi_str_printf(out, "%s%s", shown > 1 ? ", " : "",
                       n->kind == TPI_STEP_OP ? n->op->name : "assign");
        if (same > 1)
            tpi_str_printf(out, " x%d", same);
    }
    if (!shown)
        tpi_str_put(out, "nothing");
}

static const char *state_of(const tpi_basic_block *b)
{
    const tpi_shared *p = b->program;
    return !p          ? "nothing to compute"
           : p->failed ? "tiles: no program"
           : p->ready  ? "its program"
           : p->waits  ? "tiles"
                       : "tiles: its program is being compiled";
}

static void put_edges(const tpi_flow *w, const tpi_basic_block *b, tpi_str *out)
{
    const tpi_node *last = &w->nodes[b->nodes[b->n_nodes - 1]];
    if (last->kind == TPI_STEP_RETURN)
        tpi_str_put(out, "      return\n");
    for (int i = 0; i < b->n_edges; i++) {
        const tpi_edge *e = &b->edges[i];
        tpi_str_put(out, "      ");
        if (last->kind == TPI_STEP_LOOK) {
            put_place(last->at, out);
            if (last->look == TPI_LOOK_TRUTH)
                tpi_str_printf(out, "  tp_truth is %s: ", e->seen[0] ? "true" : "false");
            else
                tpi_str_printf(out, "  a value is read, its %dth one: ", i + 1);
        }
        tpi_str_printf(out, "%s block %d, %" PRId64 " times\n", e->back ? "back to" : "to",
                       e->to, e->taken);
    }
}

static void put_block(const tpi_flow *w, int i, tpi_str *out)
{
    const tpi_basic_block *b = &w->blocks->v[i];
    int ways = 0;
    for (int k = 0; k < w->blocks->n; k++)
        for (int e = 0; e < w->blocks->v[k].n_edges; e++)
            ways += w->blocks->v[k].edges[e].to == i && !w->blocks->v[k].edges[e].back;
    tpi_str_printf(out, "    block %d  ", i);
    put_place(w->nodes[b->nodes[0]].at, out);
    tpi_str_printf(out, "  %" PRId64 " runs, by %s", b->runs, state_of(b));
    if (b->loops)
        tpi_str_printf(out, "; a loop begins here, of at most %d more turns", b->limit);
    if (ways > 1)
        tpi_str_printf(out, "; %d ways join", ways);
    tpi_str_put(out, "\n      ");
    put_ops(w, b, out);
    tpi_str_put(out, "\n");
    put_edges(w, b, out);
}

/* What lies between one look and the next: one at the beginning, one for each outcome. */
static int count_segments(const tpi_flow *w)
{
    int n = 1;
    for (int i = 0; i < w->n_nodes; i++)
        n += w->nodes[i].kind == TPI_STEP_LOOK ? w->nodes[i].n_edges : 0;
    return n;
}

void tpi_pure_text(const tp_function *f, tpi_str *out)
{
    const tpi_pure *p = &f->pure;
    if (!f->options.pure)
        return;
    tpi_str_printf(out, "declared pure: %" PRId64 " calls replayed, %" PRId64 " abandoned\n",
                   p->replays, p->abandoned);
    if (p->why) {
        tpi_str_put(out, "  not replayed: ");
        put_place(p->why_at, out);
        tpi_str_printf(out, ": %s\n", tpi_why_text(p->why));
    }
    if (p->crowded_out) {
        tpi_str_printf(out, "  %" PRId64 " calls not replayed, the last from ", p->crowded_out);
        put_place(p->crowded_at, out);
        tpi_str_printf(out, ": %s\n", tpi_why_text(TPI_WHY_kinds));
    }
    if (p->n_relaunches)
        tpi_str_printf(out, "  %d combinations of sizes of which what a call launches is known\n",
                       p->n_relaunches);
    for (int i = 0; i < p->n_flows; i++) {
        const tpi_flow *w = p->flows[i];
        tpi_str_put(out, "  called with");
        for (int k = 0; k < w->n_in; k++) {
            const tp_tensor *t = w->externs[w->args[k]].tensor;
            tpi_str_printf(out, "%s %s %s", k ? "," : "", tp_dtype_name((tp_dtype)t->dtype),
                           SHAPE(t));
        }
        tpi_str_printf(out,
                       ": %d recordings, %" PRId64
                       " replays, %d segments in %d blocks, %d joins, %d loops\n",
                       w->n_traces, w->replays, count_segments(w), w->blocks ? w->blocks->n : 0,
                       w->n_joins, w->n_loops);
        if (w->why) {
            tpi_str_put(out, "    not replayed: ");
            put_place(w->why_at, out);
            tpi_str_printf(out, ": %s\n", tpi_why_text(w->why));
        }
        for (int k = 0; w->blocks && k < w->blocks->n; k++)
            put_block(w, k, out);
    }
}
