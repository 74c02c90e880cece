/* What a block keeps for its gradient, and has sizes that only its bodies know (the turns of a loop in
 * it), cannot be an output when it runs. The block that reads it computes it again.
 *
 *     %7 = loop {%a = loop while .. binds turns; ... stacked: a}       %a [turns, 4]
 *     %9 = loop %7.. [n, turns, 4] {... reads of one turn a [turns, 4]}
 *  -> %7 = loop {... stacked: what the inner loop begins with}
 *     %9 = loop %7.. {%a = loop while .. binds turns; ... reads a}
 *
 * Gradients are built on the first form, in which every value is one node, as it is when the blocks
 * run as C; programs are made of the second. What is computed again are such values and blocks;
 * all else that they read is kept. Turns have the same numbers in both loops. A cond that reads
 * such a value of another cond is on the same condition: in each side it is that of the same side.
 * Such values that have been added up outside are added up in the reader.
 *
 * The graph is changed in place, one level of blocks at a time, from the outermost inwards. The copy
 * that every pass makes drops what nothing reads any more. */
#include "pass/keep/recompute.h"

#include "grad/body_copy.h"
#include "ir/check.h"
#include "op/op.h"
#include "pass/bodies.h"
#include "pass/pass.h"

#include <string.h>

enum { CARRIED, SLICES, CAPTURES, N_GROUPS, DEEPEST = 200 };

/* Where an inner value comes from: a body whose nodes are made again in a side of the reader. */
typedef struct source {
    tp_tensor *block;
    int side;
    uint64_t place; /* in program order, of outputs of the block */
    int n;
    bool *wanted;     /* by node: now */
    tp_tensor **made; /* by node: what stands for it */
    struct source *next;
} source;

typedef struct side {
    const tpi_body *old;
    tpi_body *to;
    tp_tensor **map;            /* by node of the old body */
    tpi_nodes params[N_GROUPS]; /* by operand */
} side;

typedef struct level {
    tp_ctx *ctx;
    bool *known; /* by symbol */
    int n_symbols;
    int n_changes;
} level;

typedef struct building {
    level *l;
    tp_graph *g;
    tp_tensor *reader;
    tpi_at at;
    int n_sides;
    side side[2];
    tpi_nodes in[N_GROUPS]; /* operands without the condition */
    source *sources;
    int depth; /* of values that the one that is asked for is made of */
} building;

/* ---- what is known ------------------------------------------------------------------------------ */

static int see_number(void *user, int64_t n)
{
    (void)user, (void)n;
    return 0;
}

static int see_symbol(void *user, int i)
{
    const level *l = user;
    return i >= l->n_symbols || !l->known[i];
}

static int see_both(void *user, char op, int a, int b)
{
    (void)user, (void)op;
    return a | b;
}

/* Has t a size that is not known in the graph that is looked at? */
static bool is_inner(level *l, const tp_tensor *t)
{
    static const tpi_dim_steps steps = {see_number, see_symbol, see_both};
    bool is = false;
    for (int i = 0; i < t->rank && !is; i++)
        is = tpi_dim_is_symbolic(t->shape[i]) &&
             tpi_dim_build(t->graph->dims, t->shape[i], &steps, l);
    return is;
}

/* The symbols that loops of g bind, at any depth, are not known. */
static void forget(level *l, const tp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        tpi_body *bodies[2];
        if (!tpi_is_block(g->nodes[i]))
            continue;
        const int symbol = tpi_binds(g->dims, g->nodes[i]);
        if (symbol >= 0)
            l->known[symbol] = false;
        for (int k = tpi_bodies_of(g->nodes[i], bodies) - 1; k >= 0; k--)
            forget(l, bodies[k]->graph);
    }
}

/* Those that loops of g itself bind are, in it. */
static void know(level *l, const tp_graph *g, bool known)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const int symbol = tpi_binds(g->dims, g->nodes[i]);
        if (symbol >= 0)
            l->known[symbol] = known;
    }
}

static bool no_memory(const building *b)
{
    tpi_no_memory(b->l->ctx, b->at, "gradient");
    return false;
}

static bool refuse(const building *b, const tp_tensor *t)
{
    tpi_fail_status(b->l->ctx, b->at, b->reader->op->name, TP_E_STATE,
                    "%s reads a value of sizes that are known only inside of the block that "
                    "computes it (%s)",
                    b->reader->op->name, t->op->name);
    return false;
}

static int64_t index_of(const tp_tensor *t)
{
    return ((const tpi_index_attrs *)t->attrs)->index;
}

static bool is_loop(const building *b)
{
    return b->reader->op == &tpi_op_loop;
}

/* ---- operands ------------------------------------------------------------------------------------- */

/* The node of side `j` of a block's body that output t of the block is of. */
static tp_tensor *node_of(const tp_tensor *t, int j)
{
    tpi_body *bodies[2];
    const int n = tpi_bodies_of(t->in[0], bodies);
    const int64_t pred = t->in[0]->op == &tpi_op_loop && tpi_loop_of(t->in[0])->has_pred;
    return bodies[j < n ? j : 0]->outputs[pred + index_of(t)];
}

static bool is_stack(const tp_tensor *t)
{
    return t->op == &tpi_op_output &&
           (t->in[0]->op == &tpi_op_cond || index_of(t) >= tpi_loop_of(t->in[0])->n_carried);
}

/* Are these one value, of which a block has two outputs? */
static bool is_same(const tp_tensor *a, const tp_tensor *b)
{
    return a == b || (is_stack(a) && is_stack(b) && a->in[0] == b->in[0] &&
                      node_of(a, 0) == node_of(b, 0) && node_of(a, 1) == node_of(b, 1));
}

/* The param of side j for an operand, an old one or a new one; NULL: failed. */
static tp_tensor *operand(building *b, int j, int group, tp_tensor *outer)
{
    tpi_nodes *in = &b->in[group];
    for (int i = 0; i < in->n && group != CARRIED; i++)
        if (is_same(in->v[i], outer))
            return b->side[j].params[group].v[i];
    const int lead = group == SLICES;
    if (outer->status != TP_OK)
        return NULL;
    tpi_nodes_push(in, outer);
    for (int k = 0; k < b->n_sides; k++) {
        side *s = &b->side[k];
        tp_tensor *p = tpi_body_param(s->to, b->at, (tp_dtype)outer->dtype, outer->rank - lead,
                                      outer->shape + lead, NULL);
        if (p->status != TP_OK)
            return NULL;
        tpi_nodes_push(&s->params[group], p);
        if (in->failed || s->params[group].failed) {
            no_memory(b);
            return NULL;
        }
    }
    return b->side[j].params[group].v[in->n - 1];
}

/* The output of the source's block that is node t of its body, one that is there or a new one. */
static tp_tensor *output_for(building *b, const source *s, tp_tensor *t)
{
    tpi_body *bodies[2];
    const int n = tpi_bodies_of(s->block, bodies);
    tpi_loop_attrs *a = n == 1 ? tpi_loop_of(s->block) : NULL;
    const int64_t pred = a && a->has_pred, first = a ? a->n_carried : 0;
    int64_t i = first;
    while (pred + i < bodies[s->side]->n_outputs && bodies[s->side]->outputs[pred + i] != t)
        i++;
    if (pred + i == bodies[s->side]->n_outputs) {
        tp_tensor *zeros = n == 2 ? tpi_zeros_in(bodies[!s->side]->graph, b->at, t) : NULL;
        if ((zeros && zeros->status != TP_OK) || !tpi_body_output(bodies[s->side], t))
            return &b->l->ctx->nil;
        if (zeros && !tpi_body_output(bodies[!s->side], zeros)) {
            bodies[s->side]->n_outputs--; /* both or none */
            return &b->l->ctx->nil;
        }
        if (a)
            a->n_stacked++;
    }
    tp_tensor *made =
        tpi_output_node(b->g, TPI_AT(s->block->file, s->block->line), s->block, i);
    if (made->status == TP_OK)
        made->seq = s->place;
    return made;
}

/* The param for node t of a source's body, which is kept. */
static tp_tensor *kept(building *b, const source *s, tp_tensor *t)
{
    const int group = is_loop(b) ? SLICES : CAPTURES;
    for (int i = 0; i < b->in[group].n; i++) {
        const tp_tensor *x = b->in[group].v[i];
        if (is_stack(x) && x->in[0] == s->block && node_of(x, s->side) == t)
            return b->side[s->side].params[group].v[i];
    }
    return operand(b, s->side, group, output_for(b, s, t));
}

/* ---- computing again -------------------------------------------------------------------------------- */

static tp_tensor *value_in(building *b, int j, tp_tensor *x);

static tp_tensor *refuse_draw(const building *b, const tp_tensor *t)
{
    tpi_fail_status(b->l->ctx, TPI_AT(t->file, t->line), "gradient", TP_E_STATE,
                    "random numbers are drawn in a loop inside a block, where the number of "
                    "turns is not known before: draw them outside of the inner one");
    return NULL;
}

/* What loops read at every turn is no turn's. */
static tp_tensor *capture(building *b, tp_tensor *outer)
{
    if (!is_inner(b->l, outer))
        return operand(b, 0, CAPTURES, outer);
    refuse(b, outer);
    return NULL;
}

/* What stands for a param of the source's body. */
static tp_tensor *param_again(building *b, source *s, tp_tensor *t)
{
    const int64_t p = index_of(t);
    if (!is_loop(b))
        return value_in(b, s->side, s->block->in[1 + p]);
    const tpi_loop_attrs *a = tpi_loop_of(s->block);
    if (p == 0)
        return b->side[0].to->params[0];
    tp_tensor *outer = s->block->in[a->has_pred + p - 1];
    if (p > a->n_carried + a->n_slices)
        return capture(b, outer);
    if (p > a->n_carried && a->length == a->count)
        return value_in(b, 0, outer);
    return kept(b, s, t);
}

static tp_tensor *copy_over(side *s, const tp_tensor *t, tp_tensor *const *map)
{
    tp_ctx *ctx = t->ctx;
    tpi_nodes in = {.ctx = ctx};
    for (int k = 0; k < t->n_in && t->op->kind != TPI_SOURCE; k++)
        tpi_nodes_push(&in, map[t->in[k]->index]);
    tp_tensor *made = in.failed ? &ctx->nil : tpi_copy_node(ctx, s->to->graph, t, in.v);
    tpi_nodes_free(&in);
    return made->status == TP_OK ? made : NULL;
}

static bool is_constant(const tp_tensor *t)
{
    return t->op->kind == TPI_SOURCE && t->n_in;
}

/* Marks what is computed again, from t down. */
static void mark_again(building *b, source *s, const tpi_body *from, const tp_tensor *t)
{
    memset(s->wanted, 0, (size_t)from->graph->n_nodes);
    s->wanted[t->index] = true;
    for (int i = t->index; i >= 0; i--) {
        const tp_tensor *x = from->graph->nodes[i];
        if (!s->wanted[i] || s->made[i] || x->op == &tpi_op_param || is_constant(x) ||
            (!tpi_is_block(x) && !is_inner(b->l, x)))
            continue;
        for (int k = 0; k < x->n_in; k++)
            s->wanted[x->in[k]->index] = true;
    }
}

/* Node t of the source's body, in the reader. */
static tp_tensor *again(building *b, source *s, const tpi_body *from, const tp_tensor *t)
{
    if (t->index >= s->n) {
        refuse(b, t);
        return NULL;
    }
    mark_again(b, s, from, t);
    for (int i = 0; i <= t->index; i++) {
        tp_tensor *x = from->graph->nodes[i], **made = &s->made[i];
        if (!s->wanted[i] || *made)
            continue;
        if (x->op == &tpi_op_param)
            *made = param_again(b, s, x);
        else if (is_constant(x))
            *made = copy_over(&b->side[s->side], x, s->made);
        else if (!tpi_is_block(x) && !is_inner(b->l, x))
            *made = kept(b, s, x);
        else
            *made = tpi_node_draws(x) ? refuse_draw(b, x)
                                      : copy_over(&b->side[s->side], x, s->made);
        if (!*made)
            return NULL;
    }
    return s->made[t->index];
}

static void free_source(building *b, source *s)
{
    tpi_mem *m = &b->l->ctx->mem;
    tpi_give_back(m, s->wanted, (size_t)s->n);
    tpi_give_back(m, s->made, (size_t)s->n * sizeof *s->made);
    tpi_give_back(m, s, sizeof *s);
}

static source *source_of(building *b, tp_tensor *block, int j, uint64_t place)
{
    tpi_mem *m = &b->l->ctx->mem;
    source *s = b->sources;
    while (s && (s->block != block || s->side != j))
        s = s->next;
    if (s)
        return s;
    s = tpi_take(m, sizeof *s);
    if (!s)
        return NULL;
    tpi_body *bodies[2];
    tpi_bodies_of(block, bodies);
    const int n = bodies[j]->graph->n_nodes;
    *s = (source){.block = block, .side = j, .place = place, .n = n, .next = b->sources};
    s->wanted = tpi_take(m, (size_t)n);
    s->made = tpi_take(m, (size_t)n * sizeof *s->made);
    if (!s->wanted || !s->made) {
        free_source(b, s);
        return NULL;
    }
    memset(s->made, 0, (size_t)n * sizeof(tp_tensor *));
    return b->sources = s;
}

/* The loop's turns are known where it has run: the reader takes one thing that it keeps. */
static bool takes_turns(building *b, const source *s)
{
    const tpi_loop_attrs *a = tpi_loop_of(s->block);
    return !a->has_pred || kept(b, s, a->body->outputs[0]);
}

/* An output of a block of the same graph, of the same turn or side. */
static tp_tensor *output_again(building *b, int j, tp_tensor *x)
{
    tp_tensor *block = x->in[0];
    const bool fits =
        block->op == b->reader->op && is_stack(x) &&
        (!is_loop(b) || tpi_loop_of(block)->length == tpi_loop_of(b->reader)->count);
    if (!fits) {
        refuse(b, x);
        return NULL;
    }
    source *s = source_of(b, block, j, x->seq);
    if (!s) {
        no_memory(b);
        return NULL;
    }
    tpi_body *bodies[2];
    tpi_bodies_of(block, bodies);
    if (is_loop(b) && !takes_turns(b, s))
        return NULL;
    return again(b, s, bodies[j], node_of(x, j));
}

static tp_tensor *sum_again(building *b, int j, const tp_tensor *x)
{
    tp_tensor *one = value_in(b, j, x->in[0]), *other = one ? value_in(b, j, x->in[1]) : NULL;
    tp_tensor *sum = other ? tp_add_at(x->file, x->line, one, other) : NULL;
    return sum && sum->status == TP_OK ? sum : NULL;
}

/* What side j of the reader reads instead of an operand x of its; NULL: failed. */
static tp_tensor *value_in(building *b, int j, tp_tensor *x)
{
    if (!is_inner(b->l, x))
        return operand(b, j, is_loop(b) ? SLICES : CAPTURES, x);
    while (x->op == &tpi_op_enter)
        x = x->in[0];
    const bool is_output = x->op == &tpi_op_output;
    const bool is_sum =
        x->op->code == TPI_OP_add && is_inner(b->l, x->in[0]) && is_inner(b->l, x->in[1]);
    if ((!is_output && !is_sum) || b->depth >= DEEPEST) {
        refuse(b, x);
        return NULL;
    }
    b->depth++;
    tp_tensor *made = is_output ? output_again(b, j, x) : sum_again(b, j, x);
    b->depth--;
    return made;
}

/* ---- the new reader --------------------------------------------------------------------------------- */

/* Is the param read by its body? */
static bool is_read(const tpi_body *b, const tp_tensor *param)
{
    bool is = false;
    for (int i = 0; i < b->n_outputs && !is; i++)
        is = b->outputs[i] == param;
    for (int i = 0; i < b->graph->n_nodes && !is; i++) {
        const tp_tensor *t = b->graph->nodes[i];
        for (int k = 0; k < t->n_in && !is && t->op->kind != TPI_SOURCE; k++)
            is = t->in[k] == param;
    }
    return is;
}

/* What stands for the old params of side j. */
static bool map_params(building *b, int j)
{
    side *s = &b->side[j];
    const tpi_loop_attrs *a = is_loop(b) ? tpi_loop_of(b->reader) : NULL;
    const int first = a != NULL, lead = a ? (int)a->has_pred : 1;
    if (a) {
        tp_tensor *turn = tpi_body_param(s->to, b->at, TP_I64, 0, NULL, NULL);
        s->map[s->old->params[0]->index] = turn;
        if (turn->status != TP_OK)
            return false;
    }
    bool ok = true;
    for (int p = first; p < s->old->n_params && ok; p++) {
        tp_tensor *outer = b->reader->in[lead + p - first], *made;
        if (a && p <= a->n_carried)
            made = is_inner(b->l, outer) ? capture(b, outer) : operand(b, 0, CARRIED, outer);
        else if (is_inner(b->l, outer) && !is_read(s->old, s->old->params[p]))
            continue;
        else
            made =
                a && p > a->n_carried + a->n_slices ? capture(b, outer) : value_in(b, j, outer);
        s->map[s->old->params[p]->index] = made;
        ok = made != NULL;
    }
    return ok;
}

static bool copy_rest(side *s)
{
    const tp_graph *g = s->old->graph;
    bool ok = true;
    for (int i = 0; i < g->n_nodes && ok; i++) {
        if (s->map[i] || g->nodes[i]->op == &tpi_op_param)
            continue;
        s->map[i] = copy_over(s, g->nodes[i], s->map);
        ok = s->map[i] != NULL;
    }
    for (int i = 0; i < s->old->n_outputs && ok; i++)
        ok = tpi_body_output(s->to, s->map[s->old->outputs[i]->index]);
    return ok;
}

/* Params as operands are: carried values, slices, captures. */
static bool order_params(building *b, side *s)
{
    tpi_nodes all = {.ctx = b->l->ctx};
    if (is_loop(b))
        tpi_nodes_push(&all, s->to->params[0]);
    for (int k = 0; k < N_GROUPS; k++)
        for (int i = 0; i < s->params[k].n; i++)
            tpi_nodes_push(&all, s->params[k].v[i]);
    const bool ok = !all.failed || no_memory(b);
    if (ok)
        tpi_body_order(s->to, all.v);
    s->to->closed = true;
    tpi_nodes_free(&all);
    return ok;
}

static tp_tensor *make_node(building *b)
{
    tpi_nodes in = {.ctx = b->l->ctx};
    tp_tensor *made = &b->l->ctx->nil;
    if (!is_loop(b) || tpi_loop_of(b->reader)->has_pred)
        tpi_nodes_push(&in, b->reader->in[0]);
    for (int k = 0; k < N_GROUPS; k++)
        for (int i = 0; i < b->in[k].n; i++)
            tpi_nodes_push(&in, b->in[k].v[i]);
    if (in.failed) {
        no_memory(b);
    } else if (is_loop(b)) {
        tpi_loop_attrs a = *tpi_loop_of(b->reader);
        a.body = b->side[0].to;
        a.n_slices = b->in[SLICES].n;
        made = tpi_loop_node(b->g, b->at, &a, in.n, in.v);
    } else {
        const tpi_cond_attrs a = {.then = b->side[0].to, .other = b->side[1].to};
        made = tpi_cond_node(b->g, b->at, &a, in.n, in.v);
    }
    tpi_nodes_free(&in);
    return made;
}

static bool open_sides(building *b)
{
    tpi_body *old[2];
    b->n_sides = tpi_bodies_of(b->reader, old);
    for (int j = 0; j < b->n_sides; j++) {
        side *s = &b->side[j];
        const size_t bytes = (size_t)old[j]->graph->n_nodes * sizeof *s->map;
        s->old = old[j];
        s->map = tpi_take(&b->l->ctx->mem, bytes);
        if (!s->map)
            return no_memory(b);
        if (bytes)
            memset(s->map, 0, bytes);
        s->to = tpi_body_new(b->g, b->at);
        if (!s->to || !tpi_graph_equate_all(s->to->graph, s->old->graph))
            return false;
    }
    return true;
}

static void done(building *b)
{
    tpi_mem *m = &b->l->ctx->mem;
    for (int j = 0; j < b->n_sides; j++) {
        side *s = &b->side[j];
        if (s->old)
            tpi_give_back(m, s->map, (size_t)s->old->graph->n_nodes * sizeof *s->map);
        for (int k = 0; k < N_GROUPS; k++)
            tpi_nodes_free(&s->params[k]);
    }
    for (int k = 0; k < N_GROUPS; k++)
        tpi_nodes_free(&b->in[k]);
    for (source *s = b->sources, *next; s; s = next) {
        next = s->next;
        free_source(b, s);
    }
}

static bool rebuild(level *l, tp_graph *g, tp_tensor *reader)
{
    building b = {.l = l, .g = g, .reader = reader, .at = TPI_AT(reader->file, reader->line)};
    for (int k = 0; k < N_GROUPS; k++)
        b.in[k] = b.side[0].params[k] = b.side[1].params[k] = (tpi_nodes){.ctx = l->ctx};
    bool ok = open_sides(&b);
    for (int j = 0; j < b.n_sides && ok; j++)
        ok = map_params(&b, j);
    for (int j = 0; j < b.n_sides && ok; j++)
        ok = copy_rest(&b.side[j]) && order_params(&b, &b.side[j]);
    if (ok) {
        tp_tensor *made = make_node(&b);
        ok = made->status == TP_OK;
        if (ok)
            tpi_replace_block(reader, made);
    }
    done(&b);
    return ok;
}

/* ---- where there is something to do ------------------------------------------------------------------- */

static bool reads_inner(level *l, const tp_tensor *block)
{
    bool does = false;
    for (int k = 0; k < block->n_in && !does; k++)
        does = is_inner(l, block->in[k]);
    return does;
}

/* One level: bodies are looked at when nothing changes around them. The newest reader is first: what it
 * reads of older readers leads on to where it comes from, so that each block is in it once. */
static bool settle(level *l, tp_graph *g)
{
    const int n = g->n_nodes, before = l->n_changes;
    bool ok = true;
    know(l, g, true);
    for (int i = n - 1; i >= 0 && ok; i--)
        if (tpi_is_block(g->nodes[i]) && reads_inner(l, g->nodes[i])) {
            ok = rebuild(l, g, g->nodes[i]);
            l->n_changes++;
        }
    for (int i = 0; i < n && ok && l->n_changes == before; i++) {
        tpi_body *bodies[2];
        const int n_bodies = tpi_is_block(g->nodes[i]) ? tpi_bodies_of(g->nodes[i], bodies) : 0;
        for (int k = 0; k < n_bodies && ok; k++)
            ok = settle(l, bodies[k]->graph);
    }
    know(l, g, false);
    return ok;
}

bool tpi_again(tp_graph *g, int *n_changes)
{
    const size_t n = (size_t)tpi_dim_n_symbols(g->dims);
    level l = {.ctx = g->ctx, .known = tpi_take(&g->ctx->mem, n), .n_symbols = (int)n};
    if (!l.known)
        return false;
    if (n)
        memset(l.known, true, n);
    forget(&l, g);
    const bool sweeps = g->ctx->sweeps;
    g->ctx->sweeps = true; /* bodies are added to */
    const bool ok = settle(&l, g);
    g->ctx->sweeps = sweeps;
    *n_changes += l.n_changes;
    tpi_give_back(&g->ctx->mem, l.known, n);
    return ok;
}
