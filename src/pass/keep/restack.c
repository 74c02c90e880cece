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
#include "pass/bodies.h"
#include "pass/pass.h"

#include <string.h>

typedef struct restack {
    tp_ctx *ctx;
    tp_graph *g;
    tp_tensor *reader, *source; /* the loops: source gives stacks to reader */
    tpi_body *from;             /* of source */
    uint64_t place;             /* in program order, of an output of the source */
    bool *kept, *asked;         /* by node of it: has a stack; its value is wanted */
    tp_tensor **made;           /* by node of it: what stands for it in the new body */
    tp_tensor **stack;          /* by node of it: an output of the source, or NULL */
} restack;

/* ---- what can be computed again ------------------------------------------------------------------ */

static bool is_cheap(const tp_tensor *t)
{
    const tpi_kind kind = t->op->kind;
    return kind == TPI_VIEW || kind == TPI_SHAPE || t->op->effort != TPI_HEAVY;
}

/* Is it of no more elements than its operand, or known to be? */
static bool is_part(const tp_tensor *t)
{
    return t->op->code == TPI_OP_slice || t->op->code == TPI_OP_row;
}

/* Is it what its operand is, in other places, or of another type? */
static bool is_view(const tp_tensor *t)
{
    return t->op->kind == TPI_VIEW || t->op == &tpi_op_cast;
}

static int64_t param_of(const tp_tensor *t)
{
    return ((const tpi_index_attrs *)t->attrs)->index;
}

/* Operand of the source for a param; NULL: the turn, or a carried value. */
static tp_tensor *outer_of(const restack *r, const tp_tensor *param, bool *slice)
{
    const tpi_loop_attrs *a = tpi_loop_of(r->source);
    const int64_t p = param_of(param);
    *slice = p > a->n_carried && p <= a->n_carried + a->n_slices;
    return p > a->n_carried ? r->source->in[a->has_pred + p - 1] : NULL;
}

/* Is the value of a source's node there in the reader without a stack of its own? */
static bool is_given(const restack *r, const tp_tensor *t)
{
    if (t->op->kind == TPI_SOURCE && t->n_in)
        return true;
    if (t->op != &tpi_op_param)
        return false;
    if (param_of(t) == 0)
        return true;
    bool slice;
    const tp_tensor *outer = outer_of(r, t, &slice);
    return outer && (!slice || outer->shape[0] == tpi_loop_of(r->reader)->count);
}

/* can[i], for nodes from .. to: is it kept, given, or cheap to compute from such? */
static void find_possible(const restack *r, int from, int to, bool *can)
{
    for (int i = from; i <= to; i++) {
        const tp_tensor *t = r->from->graph->nodes[i];
        can[i] = r->kept[i] || is_given(r, t);
        if (can[i] || t->op->kind == TPI_SOURCE || !is_cheap(t))
            continue;
        const int end = tpi_way_end(TPI_WAY_VALUES, t);
        can[i] = true;
        for (int k = 0; k < end && can[i]; k++)
            can[i] = can[t->in[k]->index];
    }
}

/* Decides what is kept, of all that is asked for. */
static bool decide(restack *r)
{
    const tp_graph *g = r->from->graph;
    bool *can = tpi_take(&r->ctx->mem, (size_t)g->n_nodes);
    if (!can)
        return false;
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        r->kept[i] = r->asked[i] && !is_given(r, t) && !is_cheap(t);
        find_possible(r, i, i, can);
        if (!r->asked[i] || can[i])
            continue;
        while (!can[t->index] && is_view(t) && !is_part(t))
            t = t->in[0];
        r->kept[t->index] |= !can[t->index];
        find_possible(r, t->index, i, can);
    }
    tpi_give_back(&r->ctx->mem, can, (size_t)g->n_nodes);
    return true;
}

/* ---- the new reader -------------------------------------------------------------------------------- */

/* Which slices of the reader are stacks of the source: the node of its body; else NULL. */
static const tp_tensor *stacked_node(const restack *r, const tp_tensor *operand)
{
    if (operand->op != &tpi_op_output || operand->in[0] != r->source)
        return NULL;
    const tpi_loop_attrs *a = tpi_loop_of(r->source);
    const int64_t i = param_of(operand);
    return i >= a->n_carried ? r->from->outputs[a->has_pred + i] : NULL;
}

typedef struct building {
    restack *r;
    tpi_body *to;
    const tpi_loop_attrs *a; /* of the old reader */
    tpi_loop_attrs made;
    tpi_nodes in;    /* operands */
    tp_tensor **map; /* by node of the old body */
} building;

static tp_tensor *new_param(building *b, tp_tensor *outer, bool lead)
{
    tp_tensor *p =
        tpi_body_param(b->to, TPI_AT(b->r->reader->file, b->r->reader->line),
                       (tp_dtype)outer->dtype, outer->rank - lead, outer->shape + lead, NULL);
    tpi_nodes_push(&b->in, outer);
    return p;
}

static tp_tensor *find_operand(const building *b, const tp_tensor *outer, int64_t from,
                               int64_t to)
{
    for (int64_t i = from; i < to; i++)
        if (b->in.v[i] == outer)
            return b->to->params[1 + i];
    return NULL;
}

/* The first stacked output that is this node of the source's body; -1: none. */
static int64_t find_stack(const restack *r, const tp_tensor *t)
{
    const tpi_loop_attrs *a = tpi_loop_of(r->source);
    for (int64_t i = a->n_carried; i < a->n_carried + a->n_stacked; i++)
        if (r->from->outputs[a->has_pred + i] == t)
            return i;
    return -1;
}

/* The stack of a source's node, an output that is there or a new one. */
static tp_tensor *stack_of(restack *r, const tp_tensor *t)
{
    tp_tensor **known = &r->stack[t->index];
    tpi_loop_attrs *a = tpi_loop_of(r->source);
    if (*known)
        return *known;
    int64_t i = find_stack(r, t);
    if (i < 0) {
        if (!tpi_body_output(r->from, (tp_tensor *)t))
            return &r->ctx->nil;
        i = a->n_carried + a->n_stacked++;
    }
    *known = tpi_output_node(r->g, TPI_AT(r->source->file, r->source->line), r->source, i);
    if ((*known)->status == TP_OK)
        (*known)->seq = r->place; /* after the source, before what reads it */
    return *known;
}

static bool old_params(building *b, int64_t first, int64_t n, bool slices)
{
    const tpi_body *old = b->a->body;
    bool ok = true;
    for (int64_t p = first; p < first + n && ok; p++) {
        tp_tensor *outer = b->r->reader->in[p - 1];
        if (slices && stacked_node(b->r, outer))
            continue; /* made below */
        tp_tensor *made = b->map[old->params[p]->index] = new_param(b, outer, slices);
        ok = made->status == TP_OK;
    }
    return ok;
}

/* Slices and captures of the source that what is computed again reads: by node, in made[]. */
static bool source_params(building *b, const bool *need, bool slices)
{
    restack *r = b->r;
    const int64_t first = b->a->n_carried;
    bool ok = true;
    for (int i = 0; i < r->from->graph->n_nodes && ok; i++) {
        const tp_tensor *t = r->from->graph->nodes[i];
        bool slice = true;
        tp_tensor *outer = NULL;
        if (!need[i])
            continue;
        if (r->kept[i])
            outer = slices ? stack_of(r, t) : NULL;
        else if (t->op == &tpi_op_param && param_of(t) > 0)
            outer = outer_of(r, t, &slice);
        if (!outer || slice != slices)
            continue;
        if (outer->status != TP_OK)
            return false;
        const int64_t from = slices ? first : first + b->made.n_slices;
        tp_tensor *p = find_operand(b, outer, from, b->in.n);
        r->made[i] = p ? p : new_param(b, outer, slices);
        ok = r->made[i]->status == TP_OK;
    }
    return ok;
}

/* need[]: by node of the source, what the reader's new body has of it. */
static void find_needed(const restack *r, bool *need)
{
    const tp_graph *g = r->from->graph;
    memcpy(need, r->asked, (size_t)g->n_nodes);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const tp_tensor *t = g->nodes[i];
        if (!need[i] || r->kept[i] || t->op->kind == TPI_SOURCE)
            continue;
        for (int k = 0; k < tpi_way_end(TPI_WAY_VALUES, t); k++)
            need[t->in[k]->index] = true;
    }
}

/* Node t of another body over what map[] has for its operands. */
static tp_tensor *copy_over(building *b, const tp_tensor *t, tp_tensor *const *map)
{
    tpi_nodes in = {.ctx = b->r->ctx};
    const int end = t->op->kind == TPI_SOURCE ? 0 : tpi_way_end(TPI_WAY_VALUES, t);
    if (t->op == &tpi_op_result) /* the value itself */
        return map[t->in[0]->index];
    for (int k = 0; k < end; k++)
        tpi_nodes_push(&in, map[t->in[k]->index]);
    tp_tensor *made =
        in.failed ? &b->r->ctx->nil : tpi_copy_node(b->r->ctx, b->to->graph, t, in.v);
    tpi_nodes_free(&in);
    return made;
}

static bool compute_again(building *b, const bool *need)
{
    restack *r = b->r;
    bool ok = true;
    for (int i = 0; i < r->from->graph->n_nodes && ok; i++) {
        const tp_tensor *t = r->from->graph->nodes[i];
        if (!need[i] || r->made[i])
            continue;
        r->made[i] = t->op == &tpi_op_param ? b->to->params[0] : copy_over(b, t, r->made);
        ok = r->made[i]->status == TP_OK;
    }
    return ok;
}

static bool copy_rest(building *b)
{
    const tpi_body *old = b->a->body;
    bool ok = true;
    for (int64_t p = 1; p < old->n_params; p++) {
        tp_tensor **made = &b->map[old->params[p]->index];
        if (!*made)
            *made = b->r->made[stacked_node(b->r, b->r->reader->in[p - 1])->index];
    }
    for (int i = 0; i < old->graph->n_nodes && ok; i++) {
        if (b->map[i])
            continue;
        b->map[i] = copy_over(b, old->graph->nodes[i], b->map);
        ok = b->map[i]->status == TP_OK;
    }
    for (int i = 0; i < old->n_outputs && ok; i++)
        ok = tpi_body_output(b->to, b->map[old->outputs[i]->index]);
    return ok;
}

static bool make_body(building *b, bool *need)
{
    const tpi_loop_attrs *a = b->a;
    const tpi_at at = TPI_AT(b->r->reader->file, b->r->reader->line);
    const int64_t carried = a->n_carried, slices = a->n_slices;
    find_needed(b->r, need);
    tp_tensor *turn = tpi_body_param(b->to, at, TP_I64, 0, NULL, NULL);
    if (turn->status != TP_OK)
        return false;
    b->map[a->body->params[0]->index] = turn;
    if (!old_params(b, 1, carried, false) || !old_params(b, 1 + carried, slices, true) ||
        !source_params(b, need, true))
        return false;
    b->made.n_slices = b->in.n - carried;
    const int64_t captures = a->body->n_params - 1 - carried - slices;
    return old_params(b, 1 + carried + slices, captures, false) &&
           source_params(b, need, false) && compute_again(b, need) && copy_rest(b) &&
           !b->in.failed;
}

static bool rebuild(restack *r)
{
    tpi_mem *m = &r->ctx->mem;
    const tpi_at at = TPI_AT(r->reader->file, r->reader->line);
    building b = {.r = r, .a = tpi_loop_of(r->reader), .in = {.ctx = r->ctx}};
    const size_t n = (size_t)r->from->graph->n_nodes,
                 bytes = (size_t)b.a->body->graph->n_nodes * sizeof *b.map;
    b.made = *b.a;
    bool *need = tpi_take(m, n);
    b.map = tpi_take(m, bytes);
    b.to = b.made.body = tpi_body_new(r->g, at);
    if (b.map)
        memset(b.map, 0, bytes);
    bool ok = need && b.map && b.to && tpi_graph_equate_all(b.to->graph, b.a->body->graph) &&
              make_body(&b, need);
    if (ok) {
        tp_tensor *made = tpi_loop_node(r->g, at, &b.made, b.in.n, b.in.v);
        ok = made->status == TP_OK;
        if (ok)
            tpi_replace_block(r->reader, made);
    }
    tpi_give_back(m, b.map, bytes);
    tpi_give_back(m, need, n);
    tpi_nodes_free(&b.in);
    return ok;
}

/* ---- where there is something to do ------------------------------------------------------------------ */

/* Marks what the reader asks of the source; true when one thing is asked for twice. */
static bool mark_asked(restack *r)
{
    const tpi_loop_attrs *a = tpi_loop_of(r->reader);
    bool twice = false;
    for (int64_t p = a->n_carried; p < a->n_carried + a->n_slices; p++) {
        tp_tensor *operand = r->reader->in[p];
        const tp_tensor *t = stacked_node(r, operand);
        if (!t)
            continue;
        r->asked[t->index] = true;
        r->place = operand->seq;
        if (find_stack(r, t) == param_of(operand) && !r->stack[t->index])
            r->stack[t->index] = operand;
        else
            twice = true;
    }
    return twice;
}

/* 1: changed, 0: nothing to do, -1: no memory. */
static int restack_one(tp_graph *g, tp_tensor *reader, tp_tensor *source)
{
    restack r = {.ctx = g->ctx, .g = g, .reader = reader, .source = source};
    r.from = tpi_loop_of(source)->body;
    tpi_mem *m = &g->ctx->mem;
    const size_t n = (size_t)r.from->graph->n_nodes;
    const size_t bytes = 2 * n * sizeof(tp_tensor *) + 2 * n;
    void *memory = tpi_take(m, bytes);
    if (!memory)
        return -1;
    memset(memory, 0, bytes);
    r.made = memory;
    r.stack = r.made + n;
    r.kept = (bool *)(r.stack + n);
    r.asked = r.kept + n;
    bool worth = mark_asked(&r), some = !tpi_loop_of(source)->has_pred;
    int done = decide(&r) ? 0 : -1;
    for (size_t i = 0; i < n; i++) {
        worth |= r.asked[i] && !r.kept[i];
        some |= r.kept[i];
    }
    worth &= some; /* turns that a condition ends are known when the source has run */
    if (done == 0 && worth)
        done = rebuild(&r) ? 1 : -1;
    tpi_give_back(m, memory, bytes);
    return done;
}

/* A loop that the reader takes stacks of, the next one after slice `*k`; NULL: none. */
static tp_tensor *next_source(const tp_tensor *reader, int64_t *k)
{
    const tpi_loop_attrs *a = tpi_loop_of(reader);
    for (; *k < a->n_slices; (*k)++) {
        const tp_tensor *t = reader->in[a->n_carried + *k];
        if (t->op == &tpi_op_output && t->in[0]->op == &tpi_op_loop &&
            param_of(t) >= tpi_loop_of(t->in[0])->n_carried)
            return t->in[0];
    }
    return NULL;
}

/* One loop, and those that come in its place; false: no memory. */
static bool restack_reader(tp_graph *g, tp_tensor *reader, int *n_changes)
{
    int64_t k = 0;
    for (tp_tensor *source; (source = next_source(reader, &k)) != NULL;) {
        const int done = restack_one(g, reader, source);
        if (done < 0)
            return false;
        if (done > 0) {
            ++*n_changes;
            reader = g->nodes[g->n_nodes - 1]; /* all over: its slices are others */
            k = 0;
        } else {
            while (next_source(reader, &k) == source)
                k++;
        }
    }
    return true;
}

/* Bodies last: until they are copied, the nodes of a graph that this has changed are in no order. */
static bool restack_graph(tp_graph *g, int *n_changes)
{
    const int n = g->n_nodes;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        tp_tensor *t = g->nodes[i];
        if (t->op == &tpi_op_loop && tpi_loop_of(t)->n_slices && !tpi_loop_of(t)->has_pred)
            ok = restack_reader(g, t, n_changes);
    }
    return ok && tpi_each_body(g, g->n_nodes, restack_graph, n_changes);
}

const tpi_pass tpi_pass_restack = {.name = "restack",
                                   .about = "loops keep of their turns what is dear",
                                   .prepare = restack_graph,
                                   .visit = tpi_keep_node,
                                   .state_size = 1};
