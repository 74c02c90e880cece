/* A reader is built anew, body by body. Its operands are gathered in groups; each new one gets a param. A node
 * of another block's body that the reader needs is made in it, from the params and nodes that stand for its
 * operands, unless the block keeps it. What those in turn read of blocks before is found in the same way. */
#include "pass/keep/rebuild.h"

#include "grad/body_copy.h"
#include "op/op.h"
#include "pass/bodies.h"

#include <string.h>

enum { CARRIED, SLICES, CAPTURES, N_GROUPS, DEEPEST = 200 };

/* A body whose nodes are made again in a side of the reader. */
typedef struct source {
    tp_tensor *block;
    int side;
    uint64_t seq; /* in program order, of outputs of the block */
    int n;
    bool *wanted;     /* by node */
    tp_tensor **made; /* by node: what stands for it */
    struct source *next;
} source;

typedef struct side {
    const tpi_body *old;
    tpi_body *to;
    tp_tensor **map;            /* by node of the old body */
    tpi_nodes params[N_GROUPS]; /* by operand */
} side;

typedef struct building {
    const tpi_keeping *k;
    tp_ctx *ctx;
    tp_graph *g;
    tp_tensor *reader;
    tpi_at at;
    int n_sides;
    side side[2];
    tpi_nodes in[N_GROUPS]; /* operands without the condition */
    source *sources;
    int depth; /* of values that the one that is asked for is made of */
} building;

static bool is_again(const building *b, const tp_tensor *x)
{
    return b->k->is_again(b->k->user, x);
}

static bool no_memory(const building *b)
{
    tpi_no_memory(b->ctx, b->at, "gradient");
    return false;
}

static tp_tensor *refuse(const building *b, const tp_tensor *t)
{
    tpi_fail_status(b->ctx, b->at, b->reader->op->name, TP_E_STATE,
                    "%s reads a value of sizes that are known only inside of the block that "
                    "computes it (%s)",
                    b->reader->op->name, t->op->name);
    return NULL;
}

static bool is_loop(const building *b)
{
    return tpi_loop_of(b->reader);
}

/* ---- operands ------------------------------------------------------------------------------------- */

/* The node of side `j` of a block's body that output t of the block is of. */
static tp_tensor *node_of(const tp_tensor *t, int j)
{
    tpi_body *bodies[2];
    const int n = tpi_bodies_of(t->in[0], bodies);
    const int64_t pred = tpi_loop_of(t->in[0]) && tpi_loop_of(t->in[0])->has_pred;
    return bodies[j < n ? j : 0]->outputs[pred + tpi_index_of(t)];
}

static bool is_stack(const tp_tensor *t)
{
    return tpi_block_of(t) &&
           (!tpi_loop_of(t->in[0]) || tpi_index_of(t) >= tpi_loop_of(t->in[0])->n_carried);
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

/* The output of the source's block that is node t of its body: one that the reader has, or a new one. */
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
            return &b->ctx->nil;
        if (zeros && !tpi_body_output(bodies[!s->side], zeros)) {
            bodies[s->side]->n_outputs--; /* both or none */
            return &b->ctx->nil;
        }
        if (a)
            a->n_stacked++;
    }
    for (int k = 0; k < b->reader->n_in; k++) {
        tp_tensor *x = b->reader->in[k];
        if (tpi_block_of(x) == s->block && tpi_index_of(x) == i)
            return x;
    }
    tp_tensor *made =
        tpi_output_node(b->g, TPI_AT(s->block->file, s->block->line), s->block, i);
    if (made->status == TP_OK)
        made->seq = s->seq;
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
    tpi_fail_status(b->ctx, TPI_AT(t->file, t->line), "gradient", TP_E_STATE,
                    "random numbers are drawn in a loop inside a block, where the number of "
                    "turns is not known before: draw them outside of the inner one");
    return NULL;
}

/* What loops carry, or read whole at every turn, is of no turn. */
static tp_tensor *whole(building *b, int group, tp_tensor *outer)
{
    if (!b->k->must || !is_again(b, outer))
        return operand(b, 0, group, outer);
    return refuse(b, outer);
}

/* What stands for a param of the source's body. */
static tp_tensor *param_again(building *b, source *s, tp_tensor *t)
{
    const int64_t p = tpi_index_of(t);
    if (!is_loop(b))
        return value_in(b, s->side, s->block->in[1 + p]);
    const tpi_loop_attrs *a = tpi_loop_of(s->block);
    if (p == 0)
        return b->side[0].to->params[0];
    tp_tensor *outer = s->block->in[a->has_pred + p - 1];
    if (p > a->n_carried + a->n_slices)
        return whole(b, CAPTURES, outer);
    if (p > a->n_carried && outer->shape[0] == tpi_loop_of(b->reader)->count)
        return value_in(b, 0, outer);
    return kept(b, s, t);
}

static bool is_constant(const tp_tensor *t)
{
    return t->op->kind == TPI_SOURCE && t->n_in;
}

/* Is the node made of its operands? If not, it is a param, a constant, or kept. */
static bool is_made(const building *b, const tp_tensor *x)
{
    return !tpi_param_of(x) && !is_constant(x) && !b->k->is_kept(b->k->user, x);
}

/* What the wanted nodes are made of is wanted. */
static void mark_wanted(const building *b, const source *s, const tp_graph *g)
{
    for (int i = s->n - 1; i >= 0; i--) {
        const tp_tensor *x = g->nodes[i];
        const bool follow = s->wanted[i] && !s->made[i] && is_made(b, x);
        for (int k = 0; k < x->n_in && follow; k++)
            s->wanted[x->in[k]->index] = true;
    }
}

static tp_tensor *make(building *b, source *s, tp_tensor *x)
{
    if (tpi_param_of(x))
        return param_again(b, s, x);
    if (!is_constant(x) && !is_made(b, x))
        return kept(b, s, x);
    if (tpi_node_draws(x))
        return refuse_draw(b, x);
    tp_tensor *made = tpi_copy_over(b->side[s->side].to->graph, x, s->made);
    return made->status == TP_OK ? made : NULL;
}

/* Node t of the source's body, in the reader, and all that is wanted of it. */
static tp_tensor *again(building *b, source *s, const tpi_body *from, const tp_tensor *t)
{
    if (t->index >= s->n)
        return refuse(b, t);
    if (s->made[t->index])
        return s->made[t->index];
    s->wanted[t->index] = true;
    mark_wanted(b, s, from->graph);
    for (int i = 0; i < s->n; i++) {
        if (s->wanted[i] && !s->made[i])
            s->made[i] = make(b, s, from->graph->nodes[i]);
        if (s->wanted[i] && !s->made[i])
            return NULL;
    }
    return s->made[t->index];
}

/* A source with its lists behind it, of n nodes. */
static size_t source_bytes(int n)
{
    return sizeof(source) + (size_t)n * (sizeof(tp_tensor *) + sizeof(bool));
}

/* Side j of the block that output x is of; NULL: no memory. */
static source *source_of(building *b, int j, const tp_tensor *x)
{
    tp_tensor *block = x->in[0];
    source *s = b->sources;
    while (s && (s->block != block || s->side != j))
        s = s->next;
    if (s)
        return s;
    tpi_body *bodies[2];
    tpi_bodies_of(block, bodies);
    const int n = bodies[j]->graph->n_nodes;
    s = tpi_take(&b->ctx->mem, source_bytes(n));
    if (!s) {
        no_memory(b);
        return NULL;
    }
    memset(s, 0, source_bytes(n));
    *s = (source){.block = block, .side = j, .seq = x->seq, .n = n, .next = b->sources};
    s->made = (tp_tensor **)(s + 1);
    s->wanted = (bool *)(s->made + n);
    return b->sources = s;
}

/* The loop's turns are known where it has run: the reader takes one thing that it keeps. */
static bool takes_turns(building *b, const source *s)
{
    const tpi_loop_attrs *a = tpi_loop_of(s->block);
    return !b->k->must || !a->has_pred || kept(b, s, a->body->outputs[0]);
}

/* Is it an output of a block that has the sides or turns of the reader? */
static bool fits(const building *b, const tp_tensor *x)
{
    return tpi_block_of(x) && x->in[0]->op == b->reader->op && is_stack(x) &&
           (!b->k->must || !is_loop(b) ||
            tpi_loop_of(x->in[0])->length == tpi_loop_of(b->reader)->count);
}

static tp_tensor *output_again(building *b, int j, tp_tensor *x)
{
    if (!fits(b, x))
        return refuse(b, x);
    source *s = source_of(b, j, x);
    tpi_body *bodies[2];
    tpi_bodies_of(x->in[0], bodies);
    if (!s || (is_loop(b) && !takes_turns(b, s)))
        return NULL;
    return again(b, s, bodies[j], node_of(x, j));
}

static tp_tensor *sum_again(building *b, int j, const tp_tensor *x)
{
    tp_tensor *one = value_in(b, j, x->in[0]), *other = one ? value_in(b, j, x->in[1]) : NULL;
    tp_tensor *sum = other ? tp_add_at(x->file, x->line, one, other) : NULL;
    return sum && sum->status == TP_OK ? sum : NULL;
}

static tp_tensor *behind_enter(tp_tensor *x)
{
    while (x->op == &tpi_op_enter)
        x = x->in[0];
    return x;
}

/* What side j of the reader reads instead of an operand x of its; NULL: failed. */
static tp_tensor *value_in(building *b, int j, tp_tensor *x)
{
    if (!is_again(b, x))
        return operand(b, j, is_loop(b) ? SLICES : CAPTURES, x);
    x = behind_enter(x);
    const bool is_output = tpi_block_of(x);
    const bool is_sum =
        x->op->code == TPI_OP_add && is_again(b, x->in[0]) && is_again(b, x->in[1]);
    if ((!is_output && !is_sum) || b->depth >= DEEPEST)
        return refuse(b, x);
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

/* Notes that operand x is wanted, so that all that is of one body is computed in its order. */
static bool ask(building *b, int j, tp_tensor *x)
{
    x = behind_enter(x);
    if (!fits(b, x))
        return true;
    source *s = source_of(b, j, x);
    const tp_tensor *node = node_of(x, j);
    if (s && node->index < s->n)
        s->wanted[node->index] = true;
    if (s)
        s->seq = x->seq;
    return s;
}

/* What stands for param p of side j, which becomes operand `outer`: if it is computed again, in the second round. */
static bool map_param(building *b, int j, int p, tp_tensor *outer, bool second)
{
    side *s = &b->side[j];
    const tpi_loop_attrs *a = is_loop(b) ? tpi_loop_of(b->reader) : NULL;
    const bool carried = a && p <= a->n_carried, capture = a && p > a->n_carried + a->n_slices,
               remade = !carried && !capture && is_again(b, outer);
    const tp_tensor *param = s->old->params[p];
    if (remade && b->k->must && !is_read(s->old, param))
        return true;
    if (remade && !second)
        return ask(b, j, outer);
    if (remade != second)
        return true;
    tp_tensor *made = carried || capture ? whole(b, carried ? CARRIED : CAPTURES, outer)
                                         : value_in(b, j, outer);
    s->map[param->index] = made;
    return made;
}

/* What stands for the old params of side j. */
static bool map_params(building *b, int j)
{
    side *s = &b->side[j];
    const tpi_loop_attrs *a = is_loop(b) ? tpi_loop_of(b->reader) : NULL;
    const int first = a != NULL, lead = a ? (int)a->has_pred : 1;
    bool ok = true;
    if (a) {
        tp_tensor *turn = tpi_body_param(s->to, b->at, TP_I64, 0, NULL, NULL);
        s->map[s->old->params[0]->index] = turn;
        ok = turn->status == TP_OK;
    }
    for (int second = 0; second < 2; second++)
        for (int p = first; p < s->old->n_params && ok; p++)
            ok = map_param(b, j, p, b->reader->in[lead + p - first], second);
    return ok;
}

static bool copy_rest(side *s)
{
    const tp_graph *g = s->old->graph;
    bool ok = true;
    for (int i = 0; i < g->n_nodes && ok; i++) {
        if (s->map[i] || tpi_param_of(g->nodes[i]))
            continue;
        s->map[i] = tpi_copy_over(s->to->graph, g->nodes[i], s->map);
        ok = s->map[i]->status == TP_OK;
    }
    for (int i = 0; i < s->old->n_outputs && ok; i++)
        ok = tpi_body_output(s->to, s->map[s->old->outputs[i]->index]);
    return ok;
}

/* Params as operands are: carried values, slices, captures. */
static bool order_params(building *b, side *s)
{
    tpi_nodes all = {.ctx = b->ctx};
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
    tpi_nodes in = {.ctx = b->ctx};
    tp_tensor *made = &b->ctx->nil;
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
        s->map = tpi_take(&b->ctx->mem, bytes);
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
    tpi_mem *m = &b->ctx->mem;
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
        tpi_give_back(m, s, source_bytes(s->n));
    }
}

bool tpi_rebuild_reader(const tpi_keeping *keeping, tp_graph *g, tp_tensor *reader)
{
    building b = {.k = keeping,
                  .ctx = g->ctx,
                  .g = g,
                  .reader = reader,
                  .at = TPI_AT(reader->file, reader->line)};
    for (int k = 0; k < N_GROUPS; k++)
        b.in[k] = b.side[0].params[k] = b.side[1].params[k] = (tpi_nodes){.ctx = b.ctx};
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
