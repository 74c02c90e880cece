/* What a loop keeps of its turns for another loop, its gradient: what is cheap is computed again
 * from the rest, by the loop that reads it, instead of being kept of every turn.
 *
 *     %7 = loop {a = x * %w; b = exp a; ... stacked: a, b, transpose(b)}
 *     %9 = loop %a.., %b.., %bt.. {... reads of one turn a, b and bt}
 *  -> %7 = loop {a = x * %w; b = exp a; ... stacked: b}
 *     %9 = loop %b.., %xs.., %w {a = x * %w; bt = transpose(b); ... reads a, b, bt}
 *
 * Elements of what both loops go over, and what both capture, are there anyway. Views and casts are never
 * kept, unless they are smaller than what they are of; cheap elementwise ops are not when all they
 * read is there. Turns have the same numbers in both loops. The same op on the same values gives the
 * same bits.
 *
 * The pass changes the pruned graph in place, and the copy that every pass makes drops the outputs
 * that nothing reads any more. */
#include "grad/body_copy.h"
#include "op/op.h"
#include "pass/keep/rebuild.h"
#include "pass/pass.h"

typedef struct restack {
    tp_tensor *reader, *source; /* the loops: source gives stacks to reader */
    const tp_graph *from;       /* the body of source */
    bool *kept, *asked;         /* by node of it: has a stack; its value is wanted */
    bool *can;                  /* kept, or there, or cheap to compute from what is */
} restack;

/* ---- what can be computed again ------------------------------------------------------------------ */

static bool is_cheap(const tp_tensor *t)
{
    const tpi_kind kind = t->op->kind;
    return kind == TPI_VIEW || kind == TPI_SHAPE || t->op->effort != TPI_HEAVY;
}

/* Is it some of its operand's elements? */
static bool is_part(const tp_tensor *t)
{
    return t->op->range;
}

/* Is it what its operand is, in other places, or of another type? */
static bool is_view(const tp_tensor *t)
{
    return t->op->kind == TPI_VIEW || tpi_retypes(t->op);
}

/* Is the value of a source's node there in the reader without a stack of its own? */
static bool is_given(const restack *r, const tp_tensor *t)
{
    if (t->op->kind == TPI_SOURCE && t->n_in)
        return true;
    if (!tpi_param_of(t))
        return false;
    const tpi_loop_attrs *a = tpi_loop_of(r->source);
    const int64_t p = tpi_index_of(t);
    if (p == 0 || p > a->n_carried + a->n_slices)
        return true;
    return p > a->n_carried &&
           r->source->in[a->has_pred + p - 1]->shape[0] == tpi_loop_of(r->reader)->count;
}

static void find_possible(const restack *r, int from, int to)
{
    for (int i = from; i <= to; i++) {
        const tp_tensor *t = r->from->nodes[i];
        const int end = tpi_way_end(TPI_WAY_VALUES, t);
        const bool made = t->op->kind != TPI_SOURCE && is_cheap(t);
        r->can[i] = r->kept[i] || is_given(r, t) || made;
        for (int k = 0; k < end && made && !r->kept[i] && r->can[i]; k++)
            r->can[i] = r->can[t->in[k]->index];
    }
}

/* Decides what is kept, of all that is asked for. */
static void decide(restack *r)
{
    for (int i = 0; i < r->from->n_nodes; i++) {
        const tp_tensor *t = r->from->nodes[i];
        r->kept[i] = r->asked[i] && !is_given(r, t) && !is_cheap(t);
        find_possible(r, i, i);
        if (!r->asked[i] || r->can[i])
            continue;
        while (!r->can[t->index] && is_view(t) && !is_part(t))
            t = t->in[0];
        r->kept[t->index] |= !r->can[t->index];
        find_possible(r, t->index, i);
    }
}

/* ---- where there is something to do ------------------------------------------------------------------ */

static bool is_stack(void *user, const tp_tensor *x)
{
    const restack *r = user;
    return tpi_keeper_of(x) == r->source;
}

static bool is_kept(void *user, const tp_tensor *x)
{
    const restack *r = user;
    return r->kept[x->index];
}

/* Marks what the reader asks of the source; true when one thing is asked for twice. */
static bool mark_asked(restack *r)
{
    const tpi_loop_attrs *a = tpi_loop_of(r->reader), *from = tpi_loop_of(r->source);
    tp_tensor *const *outputs = from->body->outputs + from->has_pred;
    bool twice = false;
    for (int64_t p = a->n_carried; p < a->n_carried + a->n_slices; p++) {
        const tp_tensor *x = r->reader->in[p];
        if (!is_stack(r, x))
            continue;
        const tp_tensor *node = outputs[tpi_index_of(x)];
        int64_t first = from->n_carried;
        while (outputs[first] != node)
            first++;
        twice |= r->asked[node->index] || first != tpi_index_of(x);
        r->asked[node->index] = true;
    }
    return twice;
}

/* Sets *done: was something changed? False: no memory. */
static bool restack_one(tp_graph *g, tp_tensor *reader, tp_tensor *source, bool *done)
{
    const tpi_loop_attrs *from = tpi_loop_of(source);
    restack r = {.reader = reader, .source = source, .from = from->body->graph};
    const size_t n = (size_t)r.from->n_nodes;
    tpi_bump memory = TPI_BUMP(&g->ctx->mem);
    r.kept = tpi_bump_take(&memory, 3 * n, sizeof *r.kept);
    if (!r.kept)
        return false;
    r.asked = r.kept + n;
    r.can = r.asked + n;
    bool worth = mark_asked(&r), some = !from->has_pred;
    decide(&r);
    for (size_t i = 0; i < n; i++) {
        worth |= r.asked[i] && !r.kept[i];
        some |= r.kept[i];
    }
    *done = worth && some; /* turns that a condition ends are known when the source has run */
    const bool ok =
        !*done ||
        tpi_rebuild_reader(&(tpi_keeping){&r, is_stack, is_kept, .must = false}, g, reader);
    tpi_bump_free(&memory);
    return ok;
}

/* One loop, and those that come in its place; false: no memory. */
static bool restack_reader(tp_graph *g, tp_tensor *reader, int *n_changes)
{
    const tp_tensor *before = NULL; /* the source of the slice before */
    bool ok = true, done;
    const tpi_loop_attrs *a = tpi_loop_of(reader);
    for (int64_t k = 0; ok && k < a->n_slices; k++) {
        tp_tensor *source = tpi_keeper_of(reader->in[a->n_carried + k]);
        done = false;
        if (source && source != before && tpi_loop_of(source))
            ok = restack_one(g, reader, source, &done);
        before = done ? NULL : source;
        if (!done)
            continue;
        ++*n_changes;
        reader = g->nodes[g->n_nodes - 1]; /* all over: its slices are others */
        a = tpi_loop_of(reader);
        k = -1;
    }
    return ok;
}

/* Bodies last: until they are copied, the nodes of a graph that this has changed are in no order. */
static bool restack_graph(tp_graph *g, int *n_changes)
{
    const int n = g->n_nodes;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        tp_tensor *t = g->nodes[i];
        const tpi_loop_attrs *a = tpi_loop_of(t);
        if (a && a->n_slices && !a->has_pred)
            ok = restack_reader(g, t, n_changes);
    }
    return ok && tpi_each_body(g, g->n_nodes, restack_graph, n_changes);
}

const tpi_pass tpi_pass_restack = {.name = "restack",
                                   .about = "loops keep of their turns what is dear",
                                   .prepare = restack_graph,
                                   .visit = tpi_keep_node};
