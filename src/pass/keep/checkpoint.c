/* Loops that ask for it (tp_checkpoint) keep for their gradient the carried values of some sqrt(n)
 * turns, and run again from there.
 *
 *     %7 = loop n turns {z = f(z); ... stacked: t}          t: what the gradient reads of a turn
 *     %9 = loop n turns back %t.. {dz = f'(dz, t)}
 *  -> %7 = loop n/k chunks {loop k turns {z = f(z)}; stacked: z before them}
 *          loop n%k turns {z = f(z); stacked: t}
 *     %9 = loop n%k turns back %t.. {dz = f'(dz, t)}
 *          loop n/k chunks back %z.. {loop k turns {... stacked: t}; loop k turns back {...}}
 *
 * k is the root of n, rounded up, or 16 when n is not known. Turns are the same ops on the same values
 * in the same order. Loops that draw random numbers, and those that a condition ends, are left
 * as they are, and so is what more than one gradient reads.
 *
 * The pass changes the pruned graph in place; the copy that every pass makes drops what nothing reads
 * any more. */
#include "grad/body_copy.h"
#include "op/sizes.h"
#include "pass/pass.h"

#include <string.h>

enum { LEAST_TURNS = 4, UNKNOWN_ROOT = 16 };

typedef struct split {
    tp_ctx *ctx;
    tp_graph *g;
    tpi_at at;
    tp_tensor *loop, *reader; /* forward, and its gradient */
    tpi_loop_attrs a, b;      /* theirs */
    int64_t k, m, main, rest; /* turns of a chunk, chunks, m * k, n - m * k */
    tpi_nodes values;         /* forward: what its outputs are; then those of the reader */
    tpi_nodes keep;           /* carried values before each chunk, [m, ...] */
    tpi_nodes tail;           /* outputs of the rest of the forward turns */
} split;

/* ---- is it one ------------------------------------------------------------------------------------- */

static int64_t param_of(const tp_tensor *t)
{
    return ((const tpi_index_attrs *)t->attrs)->index;
}

/* Is the operand a stacked output of the loop? Its number among these; else -1. */
static int64_t stack_number(const split *s, const tp_tensor *operand)
{
    if (operand->op != &tpi_op_output || operand->in[0] != s->loop)
        return -1;
    return param_of(operand) < s->a.n_carried ? -1 : param_of(operand) - s->a.n_carried;
}

static bool ranks_fit(const tp_tensor *loop, const tpi_loop_attrs *a)
{
    bool fit = true;
    for (int64_t i = 0; i < a->n_slices && fit; i++)
        fit = loop->in[a->n_carried + i]->rank < TP_MAX_RANK;
    for (int64_t i = 0; i < a->n_stacked && fit; i++)
        fit = a->body->outputs[a->n_carried + i]->rank + 2 <= TP_MAX_RANK;
    return fit;
}

/* The one loop that goes back over the turns of s->loop; NULL: none. */
static tp_tensor *find_reader(split *s)
{
    tp_tensor *found = NULL;
    for (int i = 0; i < s->g->n_nodes && !found; i++) {
        tp_tensor *t = s->g->nodes[i];
        if (t->op != &tpi_op_loop)
            continue;
        const tpi_loop_attrs *b = tpi_loop_of(t);
        bool reads = false;
        for (int64_t k = 0; k < b->n_slices && !reads && !b->has_pred; k++)
            reads = stack_number(s, t->in[b->n_carried + k]) >= 0;
        if (reads && b->back != s->a.back && b->count == s->a.count && ranks_fit(t, b))
            found = t;
    }
    return found;
}

static int64_t root_of(int64_t n)
{
    int64_t k = 1;
    while (k * k < n)
        k++;
    return k;
}

static bool find_sizes(split *s)
{
    tpi_dims *dims = s->g->dims;
    const int64_t n = s->a.count;
    const bool known = !tpi_dim_is_symbolic(n);
    if (known && n < LEAST_TURNS)
        return false;
    s->k = known ? root_of(n) : UNKNOWN_ROOT;
    s->m = tpi_dim_div(dims, n, s->k);
    s->main = tpi_dim_mul(dims, s->m, s->k);
    s->rest = tpi_dim_sub(dims, n, s->main);
    return s->rest != TPI_NO_DIM;
}

/* ---- parts of turns ---------------------------------------------------------------------------------- */

static tp_tensor *copy_over(tp_graph *to, const tp_tensor *t, tp_tensor *const *map)
{
    tp_ctx *ctx = to->ctx;
    tpi_nodes in = {.ctx = ctx};
    for (int k = 0; k < t->n_in && t->op->kind != TPI_SOURCE; k++)
        tpi_nodes_push(&in, map[t->in[k]->index]);
    tp_tensor *made = in.failed ? &ctx->nil : tpi_copy_node(ctx, to, t, in.v);
    tpi_nodes_free(&in);
    return made;
}

static bool fill(const tpi_body *from, tpi_body *to, tp_tensor **map)
{
    bool ok = true;
    for (int i = 0; i < from->n_params && ok; i++) {
        const tp_tensor *p = from->params[i];
        tp_tensor *made = map[p->index] =
            tpi_body_param(to, to->at, (tp_dtype)p->dtype, p->rank, p->shape, NULL);
        ok = made->status == TP_OK;
    }
    const tp_tensor *first = ok ? tpi_body_param(to, to->at, TP_I64, 0, NULL, NULL) : NULL;
    if (!first || first->status != TP_OK)
        return false;
    tp_tensor **turn = &map[from->params[0]->index];
    *turn = tp_add_at(to->at.file, to->at.line, *turn, (tp_tensor *)first);
    ok = (*turn)->status == TP_OK;
    for (int i = 0; i < from->graph->n_nodes && ok; i++) {
        if (!map[i])
            map[i] = copy_over(to->graph, from->graph->nodes[i], map);
        ok = map[i]->status == TP_OK;
    }
    for (int i = 0; i < from->n_outputs && ok; i++)
        ok = tpi_body_output(to, map[from->outputs[i]->index]);
    to->closed = true;
    return ok;
}

/* A copy of a body whose turns are counted from what its last param says. NULL: no memory. */
static tpi_body *copy_turns(const split *s, tp_graph *g, const tpi_body *from)
{
    const size_t bytes = (size_t)from->graph->n_nodes * sizeof(tp_tensor *);
    tp_tensor **map = tpi_take(&s->ctx->mem, bytes);
    tpi_body *to = map ? tpi_body_new(g, s->at) : NULL;
    if (map)
        memset(map, 0, bytes);
    const bool ok = to && tpi_graph_equate_all(to->graph, from->graph) && fill(from, to, map);
    tpi_give_back(&s->ctx->mem, map, bytes);
    return ok ? to : NULL;
}

/* `count` of the turns that `a` is about, from turn `first`, over the operands in[]. NULL: failed. */
static tp_tensor *some_turns(const split *s, tp_graph *g, const tpi_loop_attrs *a,
                             int64_t count, tpi_nodes *in, tp_tensor *first)
{
    tpi_loop_attrs made = *a;
    made.body = copy_turns(s, g, a->body);
    made.count = made.length = count;
    made.checkpoint = 0;
    tpi_nodes_push(in, first);
    if (!made.body || in->failed)
        return NULL;
    tp_tensor *t = tpi_loop_node(g, s->at, &made, in->n, in->v);
    return t->status == TP_OK ? t : NULL;
}

static tp_tensor *number(const split *s, tp_graph *g, int64_t n)
{
    tp_tensor *zero =
        tpi_graph_lift(g, s->at, tp_scalar_at(s->at.file, s->at.line, s->ctx, TP_I64, 0));
    if (!tpi_dim_is_symbolic(n))
        return tpi_graph_lift(g, s->at,
                              tp_scalar_at(s->at.file, s->at.line, s->ctx, TP_I64, (double)n));
    const int64_t axis = 0;
    tp_tensor *row = tp_broadcast_at(s->at.file, s->at.line, zero, 1, &n);
    return tp_extent_at(s->at.file, s->at.line, row, 1, &axis, TP_I64);
}

/* The elements of x for the chunks, [m, k, ...], or for the rest of the turns. */
static tp_tensor *for_chunks(const split *s, tp_tensor *x)
{
    int64_t shape[TP_MAX_RANK + 1] = {s->m, s->k};
    memcpy(shape + 2, x->shape + 1, sizeof(int64_t) * (size_t)(x->rank - 1));
    return tp_reshape_at(s->at.file, s->at.line, tpi_slice(s->at, x, 0, 0, s->rest, 1),
                         x->rank + 1, shape);
}

static tp_tensor *for_rest(const split *s, tp_tensor *x)
{
    return tpi_slice(s->at, x, 0, s->main, 0, 1);
}

/* [m, k, ...] and the rest as one [n, ...]. */
static tp_tensor *joined(const split *s, tp_tensor *chunks, tp_tensor *rest)
{
    int64_t shape[TP_MAX_RANK] = {s->main};
    memcpy(shape + 1, chunks->shape + 2, sizeof(int64_t) * (size_t)(chunks->rank - 2));
    tp_tensor *both[2] = {
        tp_reshape_at(s->at.file, s->at.line, chunks, chunks->rank - 1, shape), rest};
    return rest ? tp_concat_at(s->at.file, s->at.line, 2, both, 0) : both[0];
}

static bool push_good(tpi_nodes *l, tp_tensor *t)
{
    if (!t || t->status != TP_OK)
        return false;
    tpi_nodes_push(l, t);
    return !l->failed;
}

/* A param of an outer body for `outer`, which becomes an operand of its loop. */
static tp_tensor *take(tpi_body *to, tpi_nodes *in, tp_tensor *outer, bool lead)
{
    tp_tensor *p = NULL;
    if (outer->status == TP_OK)
        p = tpi_body_param(to, to->at, (tp_dtype)outer->dtype, outer->rank - lead,
                           outer->shape + lead, NULL);
    return p && push_good(in, outer) ? p : &outer->ctx->nil;
}

/* ---- forward ------------------------------------------------------------------------------------------ */

/* The operands of a loop: its own slices and captures, over carried values given. */
static bool operands(const split *s, const tp_tensor *loop, const tpi_loop_attrs *a,
                     tp_tensor *const *carried, tpi_nodes *in)
{
    bool ok = true;
    for (int64_t i = 0; i < a->n_carried && ok; i++)
        ok = push_good(in, carried[i]);
    for (int64_t i = a->n_carried; i < loop->n_in && ok; i++) {
        tp_tensor *x = loop->in[i];
        const bool slice = i < a->n_carried + a->n_slices;
        const int64_t stack = slice && loop == s->reader ? stack_number(s, x) : -1;
        ok = push_good(in, stack >= 0 ? s->tail.v[s->a.n_carried + stack]
                           : slice    ? for_rest(s, x)
                                      : x);
    }
    return ok;
}

/* What comes after (or before) the chunks: out gets its outputs. */
static bool rest_of_turns(const split *s, const tp_tensor *loop, const tpi_loop_attrs *a,
                          tp_tensor *const *carried, tpi_nodes *out)
{
    tpi_nodes in = {.ctx = s->ctx};
    tp_tensor *t = operands(s, loop, a, carried, &in)
                       ? some_turns(s, s->g, a, s->rest, &in, number(s, s->g, s->main))
                       : NULL;
    bool ok = t != NULL;
    for (int64_t i = 0; i < a->n_carried + a->n_stacked && ok; i++)
        ok = push_good(out, tpi_output_node(s->g, s->at, t, i));
    tpi_nodes_free(&in);
    return ok;
}

/* The number of the first turn of the chunk. */
static tp_tensor *chunk_start(const split *s, tpi_body *o)
{
    return tp_mul_at(s->at.file, s->at.line, o->params[0], number(s, o->graph, s->k));
}

/* The body of the chunks; in[] gets the operands of the loop over it. */
static bool forward_chunk(const split *s, tpi_body *o, tp_tensor *const *carried, tpi_nodes *in)
{
    const tpi_loop_attrs *a = &s->a;
    tpi_nodes inner = {.ctx = s->ctx};
    bool ok = tpi_body_param(o, s->at, TP_I64, 0, NULL, NULL)->status == TP_OK;
    for (int64_t i = 0; i < s->loop->n_in && ok; i++) {
        const bool slice = i >= a->n_carried && i < a->n_carried + a->n_slices;
        tp_tensor *x = s->loop->in[i];
        ok = push_good(&inner, take(o, in,
                                    i < a->n_carried ? carried[i]
                                    : slice          ? for_chunks(s, x)
                                                     : x,
                                    slice));
    }
    tp_tensor *t = ok ? some_turns(s, o->graph, a, s->k, &inner, chunk_start(s, o)) : NULL;
    ok = t != NULL;
    for (int64_t i = 0; i < a->n_carried && ok; i++)
        ok = tpi_body_output(o, tpi_output_node(o->graph, s->at, t, i));
    for (int64_t i = 0; i < a->n_carried && ok; i++)
        ok = tpi_body_output(o, o->params[1 + i]);
    for (int64_t i = 0; i < a->n_stacked && ok; i++)
        ok = tpi_body_output(o, tpi_output_node(o->graph, s->at, t, a->n_carried + i));
    o->closed = true;
    tpi_nodes_free(&inner);
    return ok;
}

/* out: the carried values after it; s->keep; the stacked outputs, [m, k, ...]. */
static bool forward_chunks(split *s, tp_tensor *const *carried, tpi_nodes *out)
{
    const tpi_loop_attrs *a = &s->a;
    tpi_loop_attrs made = {.n_carried = a->n_carried,
                           .n_slices = a->n_slices,
                           .n_stacked = a->n_carried + a->n_stacked,
                           .counted = true,
                           .back = a->back,
                           .count = s->m,
                           .length = s->m};
    tpi_nodes in = {.ctx = s->ctx};
    made.body = tpi_body_new(s->g, s->at);
    bool ok = made.body && forward_chunk(s, made.body, carried, &in);
    tp_tensor *t = ok ? tpi_loop_node(s->g, s->at, &made, in.n, in.v) : NULL;
    ok = t && t->status == TP_OK;
    for (int64_t i = 0; i < a->n_carried + made.n_stacked && ok; i++) {
        const bool before = i >= a->n_carried && i < 2 * a->n_carried;
        ok = push_good(before ? &s->keep : out, tpi_output_node(s->g, s->at, t, i));
    }
    tpi_nodes_free(&in);
    return ok;
}

/* ---- backward ------------------------------------------------------------------------------------------ */

/* Of the reader's slice i: the param for its chunk; &nil when it is a stack of the loop. */
static tp_tensor *take_slice(const split *s, tpi_body *o, int64_t i, tpi_nodes *in)
{
    tp_tensor *x = s->reader->in[s->b.n_carried + i];
    return stack_number(s, x) >= 0 ? &s->ctx->nil : take(o, in, for_chunks(s, x), true);
}

/* Runs the chunk again: its node, in the body o; NULL: failed. first[]: params of the loop's operands. */
static tp_tensor *run_again(const split *s, tpi_body *o, const tpi_nodes *params)
{
    tpi_nodes inner = {.ctx = s->ctx};
    for (int i = 0; i < params->n; i++)
        tpi_nodes_push(&inner, params->v[i]);
    tp_tensor *t = some_turns(s, o->graph, &s->a, s->k, &inner, chunk_start(s, o));
    tpi_nodes_free(&inner);
    return t;
}

/* Params of the outer body: `own` those of the reader's operands (slices that are stacks: nil), `loops`
 * those of the loop's, in their orders; in[] are the operands. */
static bool take_all(const split *s, tpi_body *o, tp_tensor *const *carried, tpi_nodes *in,
                     tpi_nodes *own, tpi_nodes *loops)
{
    const tpi_loop_attrs *a = &s->a, *b = &s->b;
    bool ok = tpi_body_param(o, s->at, TP_I64, 0, NULL, NULL)->status == TP_OK;
    for (int64_t i = 0; i < b->n_carried && ok; i++)
        ok = push_good(own, take(o, in, carried[i], false));
    for (int64_t i = 0; i < a->n_carried && ok; i++)
        ok = push_good(loops, take(o, in, s->keep.v[i], true));
    for (int64_t i = a->n_carried; i < a->n_carried + a->n_slices && ok; i++)
        ok = push_good(loops, take(o, in, for_chunks(s, s->loop->in[i]), true));
    for (int64_t i = 0; i < b->n_slices && ok; i++) {
        tp_tensor *p = take_slice(s, o, i, in);
        ok = p->status == TP_OK || stack_number(s, s->reader->in[b->n_carried + i]) >= 0;
        tpi_nodes_push(own, p);
    }
    for (int64_t i = a->n_carried + a->n_slices; i < s->loop->n_in && ok; i++)
        ok = push_good(loops, take(o, in, s->loop->in[i], false));
    for (int64_t i = b->n_carried + b->n_slices; i < s->reader->n_in && ok; i++)
        ok = push_good(own, take(o, in, s->reader->in[i], false));
    return ok && !own->failed;
}

static bool backward_chunk(const split *s, tpi_body *o, tp_tensor *const *carried,
                           tpi_nodes *in)
{
    const tpi_loop_attrs *b = &s->b;
    tpi_nodes own = {.ctx = s->ctx}, loops = {.ctx = s->ctx};
    tp_tensor *again =
        take_all(s, o, carried, in, &own, &loops) ? run_again(s, o, &loops) : NULL;
    bool ok = again != NULL;
    for (int64_t i = 0; i < b->n_slices && ok; i++) {
        const int64_t stack = stack_number(s, s->reader->in[b->n_carried + i]);
        tp_tensor **slot = &own.v[b->n_carried + i];
        if (stack >= 0)
            *slot = tpi_output_node(o->graph, s->at, again, s->a.n_carried + stack);
        ok = (*slot)->status == TP_OK;
    }
    tp_tensor *t = ok ? some_turns(s, o->graph, b, s->k, &own, chunk_start(s, o)) : NULL;
    ok = t != NULL;
    for (int64_t i = 0; i < b->n_carried + b->n_stacked && ok; i++)
        ok = tpi_body_output(o, tpi_output_node(o->graph, s->at, t, i));
    o->closed = true;
    tpi_nodes_free(&own);
    tpi_nodes_free(&loops);
    return ok;
}

static bool backward_chunks(split *s, tp_tensor *const *carried, tpi_nodes *out)
{
    const tpi_loop_attrs *b = &s->b;
    tpi_nodes in = {.ctx = s->ctx};
    tpi_loop_attrs made = *b;
    made.count = made.length = s->m;
    made.body = tpi_body_new(s->g, s->at);
    bool ok = made.body && backward_chunk(s, made.body, carried, &in);
    /* stacks are made inside; the loop's slices and carried values are slices */
    int64_t stacks = 0;
    for (int64_t i = 0; i < b->n_slices; i++)
        stacks += stack_number(s, s->reader->in[b->n_carried + i]) >= 0;
    made.n_slices = b->n_slices - stacks + s->a.n_carried + s->a.n_slices;
    tp_tensor *t = ok ? tpi_loop_node(s->g, s->at, &made, in.n, in.v) : NULL;
    ok = t && t->status == TP_OK;
    for (int64_t i = 0; i < b->n_carried + b->n_stacked && ok; i++)
        ok = push_good(out, tpi_output_node(s->g, s->at, t, i));
    tpi_nodes_free(&in);
    return ok;
}

/* ---- both -------------------------------------------------------------------------------------------------- */

/* All turns of one of the loops, in chunks and the rest, in the order of time: out gets what its
 * outputs are. */
static bool all_turns(split *s, tp_tensor *loop, tpi_nodes *out)
{
    const bool forward = loop == s->loop;
    const tpi_loop_attrs *a = forward ? &s->a : &s->b;
    const bool some = s->rest != 0;
    tpi_nodes chunks = {.ctx = s->ctx}, own = {.ctx = s->ctx},
              *rest = forward ? &s->tail : &own;
    tp_tensor *const *carried = loop->in;
    bool ok = true;
    if (some && a->back) { /* turns with the highest numbers */
        ok = rest_of_turns(s, loop, a, carried, rest);
        carried = rest->v;
    }
    if (ok)
        ok = forward ? forward_chunks(s, carried, &chunks)
                     : backward_chunks(s, carried, &chunks);
    carried = chunks.v;
    if (some && !a->back && ok) {
        ok = rest_of_turns(s, loop, a, carried, rest);
        carried = rest->v;
    }
    for (int64_t i = 0; i < a->n_carried && ok && carried; i++)
        ok = push_good(out, carried[i]);
    for (int64_t i = a->n_carried; i < a->n_carried + a->n_stacked && ok; i++)
        ok = push_good(out, joined(s, chunks.v[i], some ? rest->v[i] : NULL));
    tpi_nodes_free(&chunks);
    tpi_nodes_free(&own);
    return ok;
}

/* Outputs of the old loop become what stands for them. */
static void hand_over(const split *s, const tp_tensor *loop, const tpi_nodes *values, int n)
{
    for (int i = 0; i < n; i++) {
        tp_tensor *t = s->g->nodes[i];
        if (t->op != &tpi_op_output || t->in[0] != loop)
            continue;
        tp_tensor *value = values->v[param_of(t)];
        tpi_ref(value);
        tpi_unref(t->in[0]);
        t->in[0] = value;
        t->op = &tpi_op_enter;
    }
}

/* Numbers the nodes anew: those from `made` on come after `loop`, those from `later` on after `reader`. */
static void put_in_order(const split *s, int made, int later, const tpi_nodes *by_seq)
{
    uint64_t *seq = &s->ctx->seq;
    for (int i = 0; i < by_seq->n; i++) {
        tp_tensor *t = by_seq->v[i];
        t->seq = (*seq)++;
        const int from = t == s->loop ? made : t == s->reader ? later : 0;
        const int to = t == s->loop ? later : t == s->reader ? s->g->n_nodes : 0;
        for (int k = from; k < to; k++)
            s->g->nodes[k]->seq = (*seq)++;
    }
}

static bool split_turns(split *s)
{
    tpi_nodes all = {.ctx = s->ctx}, forward = {.ctx = s->ctx}, backward = {.ctx = s->ctx};
    const int made = s->g->n_nodes;
    for (int i = 0; i < made; i++) /* a copy that a pass made: in program order */
        tpi_nodes_push(&all, s->g->nodes[i]);
    bool ok = !all.failed && all_turns(s, s->loop, &forward);
    const int later = s->g->n_nodes;
    ok = ok && all_turns(s, s->reader, &backward);
    if (ok) {
        hand_over(s, s->loop, &forward, made);
        hand_over(s, s->reader, &backward, made);
        put_in_order(s, made, later, &all);
    }
    tpi_nodes_free(&all);
    tpi_nodes_free(&forward);
    tpi_nodes_free(&backward);
    tpi_nodes_free(&s->keep);
    tpi_nodes_free(&s->tail);
    return ok;
}

/* One loop at a time: the next round finds the next. */
static bool split_graph(tp_graph *g, int *n_changes)
{
    const int n = g->n_nodes;
    bool done = false, ok = true;
    for (int i = 0; i < n && ok && !done; i++) {
        tp_tensor *t = g->nodes[i];
        if (t->op != &tpi_op_loop)
            continue;
        split s = {.ctx = g->ctx, .g = g, .at = TPI_AT(t->file, t->line), .loop = t};
        s.keep.ctx = s.tail.ctx = g->ctx;
        s.a = *tpi_loop_of(t);
        if (!s.a.checkpoint || s.a.has_pred || tpi_graph_draws(s.a.body->graph) ||
            !ranks_fit(t, &s.a) || !find_sizes(&s))
            continue;
        s.reader = find_reader(&s);
        if (!s.reader)
            continue;
        s.b = *tpi_loop_of(s.reader);
        ok = split_turns(&s);
        done = true;
        ++*n_changes;
    }
    return ok && (done || tpi_each_body(g, n, split_graph, n_changes));
}

const tpi_pass tpi_pass_checkpoint = {.name = "checkpoint",
                                      .about = "loops that ask for it keep some turns only",
                                      .prepare = split_graph,
                                      .visit = tpi_keep_node,
                                      .state_size = 1};
