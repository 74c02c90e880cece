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
 * Both loops are cut into chunks in the same way. Then the reader's loop of chunks computes again what a turn of the
 * forward one keeps (rebuild.c), from what that began with.
 *
 * k is the root of n, rounded up, or 16 when n is not known. Turns are the same ops on the same values
 * in the same order. Loops that draw random numbers, and those that a condition ends, are left
 * as they are, and so is what more than one gradient reads.
 *
 * The pass changes the pruned graph in place; the copy that every pass makes drops what nothing reads
 * any more. */
#include "grad/body_copy.h"
#include "op/sizes.h"
#include "pass/bodies.h"
#include "pass/keep/rebuild.h"
#include "pass/pass.h"

#include <string.h>

enum { LEAST_TURNS = 4, UNKNOWN_ROOT = 16 };
enum { CHUNKS, REST, ALL, N_PARTS };

/* A loop in two: one of chunks, with a loop of turns in it, and one of the rest of the turns. */
typedef struct halves {
    tp_tensor *loop, *chunks; /* what it was; the loop of chunks */
    tpi_loop_attrs a;         /* of the former */
    /* Outputs, carried.., stacked..: of chunks [m, k, ...], of the rest, and what those of the loop become. */
    tpi_nodes of[N_PARTS];
} halves;

typedef struct split {
    tpi_bump memory;
    tp_ctx *ctx;
    tp_graph *g;
    tpi_at at;
    halves forward, reader;   /* a loop and its gradient */
    int64_t k, m, main, rest; /* turns of a chunk, chunks, m * k, n - m * k */
} split;

/* ---- is it one ------------------------------------------------------------------------------------- */

/* Is x what the forward loop keeps of its turns? */
static bool is_stack(const split *s, const tp_tensor *x)
{
    return tpi_keeper_of(x) == s->forward.loop;
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

/* The one loop that goes back over the turns of the forward one; NULL: none. */
static tp_tensor *find_reader(const split *s)
{
    const tpi_loop_attrs *a = &s->forward.a;
    tp_tensor *found = NULL;
    for (int i = 0; i < s->g->n_nodes && !found; i++) {
        tp_tensor *t = s->g->nodes[i];
        const tpi_loop_attrs *b = tpi_loop_of(t);
        if (!b)
            continue;
        bool reads = false;
        for (int64_t k = 0; k < b->n_slices && !reads && !b->has_pred; k++)
            reads = is_stack(s, t->in[b->n_carried + k]);
        if (reads && b->back != a->back && b->count == a->count && ranks_fit(t, b))
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
    const int64_t n = s->forward.a.count;
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

/* A copy of a body whose turns are counted from what its last param says. */
static bool copy_turns(const tpi_body *from, tpi_body *to, tp_tensor **map)
{
    const tpi_at at = to->at;
    for (int i = 0; i < from->n_params; i++) {
        const tp_tensor *p = from->params[i];
        map[p->index] = tpi_body_param(to, at, (tp_dtype)p->dtype, p->rank, p->shape, NULL);
    }
    tp_tensor *first = tpi_body_param(to, at, TP_I64, 0, NULL, NULL);
    tp_tensor **turn = &map[from->params[0]->index];
    *turn = tp_add_at(at.file, at.line, *turn, first);
    return (*turn)->status == TP_OK && tpi_copy_rest(from, to, map);
}

static bool push_good(tpi_nodes *l, tp_tensor *t)
{
    if (!t || t->status != TP_OK)
        return false;
    tpi_nodes_push(l, t);
    return !l->failed;
}

/* `count` of the turns that `a` is about, from turn `first`, over the operands in[]. NULL: failed. */
static tp_tensor *some_turns(split *s, tp_graph *g, const tpi_loop_attrs *a, int64_t count,
                             tpi_nodes *in, tp_tensor *first)
{
    tp_tensor **map = tpi_bump_take(&s->memory, (size_t)a->body->graph->n_nodes, sizeof *map);
    tpi_loop_attrs made = *a;
    made.body = map ? tpi_body_new(g, s->at) : NULL;
    made.count = made.length = count;
    made.checkpoint = 0;
    const bool ok = push_good(in, first) && made.body && copy_turns(a->body, made.body, map);
    tp_tensor *t = ok ? tpi_loop_node(g, s->at, &made, in->n, in->v) : NULL;
    return t && t->status == TP_OK ? t : NULL;
}

/* A size as a value. */
static tp_tensor *number(const split *s, tp_graph *g, int64_t n)
{
    const bool known = !tpi_dim_is_symbolic(n);
    const int64_t axis = 0;
    tp_tensor *t = tpi_graph_lift(
        g, s->at, tp_scalar_at(s->at.file, s->at.line, s->ctx, TP_I64, known ? (double)n : 0));
    if (known)
        return t;
    tp_tensor *row = tp_broadcast_at(s->at.file, s->at.line, t, 1, &n);
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

/* A stacked output of both parts, [m, k, ...] and [r, ...], as one [n, ...]. */
static tp_tensor *joined(const split *s, const halves *h, int64_t output)
{
    tp_tensor *chunks = h->of[CHUNKS].v[output];
    int64_t shape[TP_MAX_RANK] = {s->main};
    memcpy(shape + 1, chunks->shape + 2, sizeof(int64_t) * (size_t)(chunks->rank - 2));
    chunks = tp_reshape_at(s->at.file, s->at.line, chunks, chunks->rank - 1, shape);
    if (s->rest == 0)
        return chunks;
    return tp_concat_at(s->at.file, s->at.line, 2,
                        (tp_tensor *[]){chunks, h->of[REST].v[output]}, 0);
}

/* ---- one loop ------------------------------------------------------------------------------------------ */

/* Operand i of a loop for one part of it, which begins with carried[]. */
static tp_tensor *operand(const split *s, const halves *h, int part, int i,
                          tp_tensor *const *carried)
{
    tp_tensor *x = h->loop->in[i];
    if (i < h->a.n_carried)
        return carried[i];
    if (i >= h->a.n_carried + h->a.n_slices)
        return x;
    if (is_stack(s, x))
        return s->forward.of[part].v[tpi_index_of(x)];
    return part == REST ? for_rest(s, x) : for_chunks(s, x);
}

/* The body of the loop of chunks, whose operands are in[]. */
static bool fill_chunk(split *s, const halves *h, tpi_body *o, const tpi_nodes *in)
{
    tpi_nodes inner = {.ctx = s->ctx, .room = &s->memory};
    tp_tensor *turn = tpi_body_param(o, s->at, TP_I64, 0, NULL, NULL);
    bool ok = turn->status == TP_OK;
    for (int i = 0; i < in->n && ok; i++) {
        const tp_tensor *x = in->v[i];
        const bool lead = i >= h->a.n_carried && i < h->a.n_carried + h->a.n_slices;
        ok = push_good(&inner, tpi_body_param(o, s->at, (tp_dtype)x->dtype, x->rank - lead,
                                              x->shape + lead, NULL));
    }
    tp_tensor *first =
        ok ? tp_mul_at(s->at.file, s->at.line, turn, number(s, o->graph, s->k)) : NULL;
    tp_tensor *t = ok ? some_turns(s, o->graph, &h->a, s->k, &inner, first) : NULL;
    ok = t;
    for (int64_t i = 0; i < h->a.n_carried + h->a.n_stacked && ok; i++)
        ok = tpi_body_output(o, tpi_output_node(o->graph, s->at, t, i));
    o->closed = true;
    return ok;
}

/* Is it what the loop of chunks keeps of all its turns? The reader computes it again, and nothing is kept but what
 * chunks begin with. */
static bool is_again(void *user, const tp_tensor *x)
{
    return tpi_keeper_of(x) == ((const split *)user)->forward.chunks;
}

/* The loop of chunks over in[]; NULL: failed. */
static tp_tensor *chunks_of_turns(split *s, const halves *h, const tpi_nodes *in)
{
    tpi_loop_attrs made = h->a;
    made.count = made.length = s->m;
    made.checkpoint = 0;
    made.body = tpi_body_new(s->g, s->at);
    const bool ok = made.body && fill_chunk(s, h, made.body, in);
    tp_tensor *t = ok ? tpi_loop_node(s->g, s->at, &made, in->n, in->v) : NULL;
    if (!t || t->status != TP_OK)
        return NULL;
    if (h == &s->forward)
        return t;
    const tpi_keeping none = {s, .is_again = is_again};
    return tpi_rebuild_reader(&none, s->g, t) ? s->g->nodes[s->g->n_nodes - 1] : NULL;
}

/* One part of a loop, which begins with carried[]. */
static bool part_of_turns(split *s, halves *h, int part, tp_tensor *const *carried)
{
    tpi_nodes in = {.ctx = s->ctx, .room = &s->memory};
    bool ok = true;
    for (int i = 0; i < h->loop->n_in && ok; i++)
        ok = push_good(&in, operand(s, h, part, i, carried));
    tp_tensor *t = NULL;
    if (ok && part == CHUNKS)
        h->chunks = t = chunks_of_turns(s, h, &in);
    else if (ok)
        t = some_turns(s, s->g, &h->a, s->rest, &in, number(s, s->g, s->main));
    ok = t;
    for (int64_t i = 0; i < h->a.n_carried + h->a.n_stacked && ok; i++)
        ok = push_good(&h->of[part], tpi_output_node(s->g, s->at, t, i));
    return ok;
}

/* All turns of a loop, in chunks and the rest, in the order of time. */
static bool all_turns(split *s, halves *h)
{
    const int first =
        h->a.back ? REST : CHUNKS; /* turns with the highest numbers are the rest */
    tp_tensor *const *carried = h->loop->in;
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        const int part = i ? !first : first;
        if (part == REST && s->rest == 0)
            continue;
        ok = part_of_turns(s, h, part, carried);
        carried = h->of[part].v;
    }
    for (int64_t i = 0; i < h->a.n_carried + h->a.n_stacked && ok; i++)
        ok = push_good(&h->of[ALL], i < h->a.n_carried ? carried[i] : joined(s, h, i));
    return ok;
}

/* ---- both -------------------------------------------------------------------------------------------------- */

/* What the loop was gives way: its outputs become what stands for them, which stands where it stood. */
static void hand_over(const split *s, const halves *h, int made, int end)
{
    for (int i = 0; i < made; i++) {
        tp_tensor *t = s->g->nodes[i];
        if (tpi_block_of(t) != h->loop)
            continue;
        tpi_replace_operand(t, 0, h->of[ALL].v[tpi_index_of(t)]);
        t->op = &tpi_op_enter;
    }
    tpi_put_before(s->g, h->loop, made, end);
}

static bool split_turns(split *s)
{
    const int made = s->g->n_nodes;
    bool ok = all_turns(s, &s->forward);
    const int later = s->g->n_nodes;
    ok = ok && all_turns(s, &s->reader);
    if (ok) {
        hand_over(s, &s->reader, later, s->g->n_nodes);
        hand_over(s, &s->forward, made, later);
    }
    return ok;
}

static void begin(split *s, halves *h, tp_tensor *loop)
{
    *h = (halves){.loop = loop, .a = *tpi_loop_of(loop)};
    for (int part = 0; part < N_PARTS; part++)
        h->of[part] = (tpi_nodes){.ctx = s->ctx, .room = &s->memory};
}

/* One loop at a time: the next round finds the next. */
static bool split_graph(tp_graph *g, int *n_changes)
{
    const int n = g->n_nodes;
    bool done = false, ok = true;
    for (int i = 0; i < n && ok && !done; i++) {
        tp_tensor *t = g->nodes[i], *reader;
        if (!tpi_loop_of(t))
            continue;
        split s = {.memory = TPI_BUMP(&g->ctx->mem),
                   .ctx = g->ctx,
                   .g = g,
                   .at = TPI_AT(t->file, t->line)};
        begin(&s, &s.forward, t);
        const tpi_loop_attrs *a = &s.forward.a;
        if (!a->checkpoint || a->has_pred || tpi_graph_draws(a->body->graph) ||
            !ranks_fit(t, a) || !find_sizes(&s) || !(reader = find_reader(&s)))
            continue;
        begin(&s, &s.reader, reader);
        ok = split_turns(&s);
        tpi_bump_free(&s.memory);
        done = true;
        ++*n_changes;
    }
    return ok && (done || tpi_each_body(g, n, split_graph, n_changes));
}

const tpi_pass tpi_pass_checkpoint = {.name = "checkpoint",
                                      .about = "loops that ask for it keep some turns only",
                                      .prepare = split_graph,
                                      .visit = tpi_keep_node};
