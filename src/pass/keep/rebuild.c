/* A reader is built anew, body by body, over operands of its own, each of which has a param. A node of another
 * block's body that the reader needs is made in it, from the params and nodes that stand for its operands, unless
 * the block keeps it. What those in turn read of blocks before is found in the same way. */
#include "pass/keep/rebuild.h"

#include "grad/body_copy.h"
#include "op/op.h"
#include "op/turn_values.h"
#include "pass/bodies.h"

enum { CARRIED, SLICES, CAPTURES, N_GROUPS, DEEPEST = 200 };

/* An operand of the new reader, which is no condition, and by side the param for it. */
typedef struct operand {
    int group;
    tp_tensor *outer, *param[2];
} operand;

/* A body of which nodes are made again in a side of the reader. */
typedef struct source {
    tp_tensor *block;
    int side, n;      /* nodes of the body that there were */
    uint64_t seq;     /* in program order, of outputs of the block */
    tpi_nodes asked;  /* nodes of it */
    tp_tensor **made; /* by node: what stands for it */
    struct source *next;
} source;

typedef struct side {
    const tpi_body *old;
    tpi_body *to;
    tp_tensor **map; /* by node of the old body */
} side;

typedef struct building {
    tpi_bump memory;
    const tpi_keeping *k;
    tp_ctx *ctx;
    tp_graph *g;
    tp_tensor *reader;
    const tpi_loop_attrs *loop; /* the reader's; NULL: it is a cond */
    tpi_at at;
    int n_sides;
    side side[2];
    operand *operands;
    int n_operands, operands_size;
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

/* ---- what blocks keep ------------------------------------------------------------------------------- */

/* The number of outputs of a body that are none of its block. */
static int64_t n_inner(const tp_tensor *block)
{
    const tpi_loop_attrs *a = tpi_loop_of(block);
    return a && a->has_pred;
}

/* The node of side `j` of a block's body that output t of the block is of. */
static tp_tensor *node_of(const tp_tensor *t, int j)
{
    tpi_body *bodies[2];
    const int n = tpi_bodies_of(t->in[0], bodies);
    return bodies[j < n ? j : 0]->outputs[n_inner(t->in[0]) + tpi_index_of(t)];
}

/* Are these one value, of which a block has two outputs? */
static bool is_same(const tp_tensor *a, const tp_tensor *b)
{
    const tp_tensor *block = tpi_keeper_of(a);
    return a == b || (block && block == tpi_keeper_of(b) && node_of(a, 0) == node_of(b, 0) &&
                      node_of(a, 1) == node_of(b, 1));
}

/* The number of the output of the source's block that is node t of its body, one that it keeps, or now does: the
 * other side then keeps zeros. -1: failed. */
static int64_t output_of(const building *b, const source *s, tp_tensor *t)
{
    tpi_body *bodies[2];
    const int n = tpi_bodies_of(s->block, bodies);
    tpi_body *to = bodies[s->side], *other = n == 2 ? bodies[!s->side] : NULL;
    tpi_loop_attrs *a = tpi_loop_of(s->block);
    int64_t i = a ? a->has_pred + a->n_carried : 0;
    while (i < to->n_outputs && to->outputs[i] != t)
        i++;
    if (i < to->n_outputs)
        return i - n_inner(s->block);
    tp_tensor *zeros = other ? tpi_zeros_in(other->graph, b->at, t) : NULL;
    if ((zeros && zeros->status != TP_OK) || !tpi_body_output(to, t))
        return -1;
    if (zeros && !tpi_body_output(other, zeros)) {
        to->n_outputs--; /* both or none */
        return -1;
    }
    if (a)
        a->n_stacked++;
    return i - n_inner(s->block);
}

/* ---- operands ------------------------------------------------------------------------------------- */

/* The group of what has an element, or one value, for each time that a body runs. */
static int each(const building *b)
{
    return b->loop ? SLICES : CAPTURES;
}

static bool add_operand(building *b, int group, tp_tensor *outer)
{
    const int lead = group == SLICES;
    operand *o =
        tpi_bump_grow(&b->memory, b->operands, b->n_operands, &b->operands_size, sizeof *o);
    if (!o)
        return no_memory(b);
    b->operands = o;
    o += b->n_operands;
    *o = (operand){.group = group, .outer = outer};
    bool ok = outer->status == TP_OK;
    for (int j = 0; j < b->n_sides && ok; j++) {
        o->param[j] = tpi_body_param(b->side[j].to, b->at, (tp_dtype)outer->dtype,
                                     outer->rank - lead, outer->shape + lead, NULL);
        ok = o->param[j]->status == TP_OK;
    }
    b->n_operands += ok;
    return ok;
}

/* The param of side j for an operand, an old one or a new one; NULL: failed. */
static tp_tensor *param_for(building *b, int j, int group, tp_tensor *outer)
{
    for (int i = 0; i < b->n_operands && group != CARRIED; i++)
        if (b->operands[i].group == group && is_same(b->operands[i].outer, outer))
            return b->operands[i].param[j];
    return add_operand(b, group, outer) ? b->operands[b->n_operands - 1].param[j] : NULL;
}

/* What loops carry, or read whole at every turn, is of no turn. */
static tp_tensor *whole(building *b, int j, int group, tp_tensor *outer)
{
    if (b->loop && b->k->must && is_again(b, outer))
        return refuse(b, outer);
    return param_for(b, j, group, outer);
}

/* The param for node t of a source's body, which is kept. */
static tp_tensor *kept(building *b, const source *s, tp_tensor *t)
{
    for (int i = 0; i < b->n_operands; i++) {
        const operand *o = &b->operands[i];
        if (o->group == each(b) && tpi_keeper_of(o->outer) == s->block &&
            node_of(o->outer, s->side) == t)
            return o->param[s->side];
    }
    const int64_t number = output_of(b, s, t);
    if (number < 0)
        return NULL;
    for (int k = 0; k < b->reader->n_in; k++) {
        tp_tensor *x = b->reader->in[k];
        if (tpi_block_of(x) == s->block && tpi_index_of(x) == number)
            return param_for(b, s->side, each(b), x);
    }
    tp_tensor *made =
        tpi_output_node(b->g, TPI_AT(s->block->file, s->block->line), s->block, number);
    if (made->status == TP_OK)
        made->seq = s->seq;
    return param_for(b, s->side, each(b), made);
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

/* What stands for a param of the source's body. */
static tp_tensor *param_again(building *b, source *s, tp_tensor *t)
{
    const int64_t p = tpi_index_of(t);
    if (!b->loop)
        return value_in(b, s->side, s->block->in[1 + p]);
    const tpi_loop_attrs *a = tpi_loop_of(s->block);
    if (p == 0)
        return b->side[0].to->params[0];
    tp_tensor *outer = s->block->in[a->has_pred + p - 1];
    if (p > a->n_carried + a->n_slices)
        return whole(b, 0, CAPTURES, outer);
    if (p > a->n_carried && outer->shape[0] == b->loop->count)
        return value_in(b, 0, outer);
    return kept(b, s, t);
}

static bool is_kept(const building *b, const tp_tensor *t)
{
    const bool constant = t->op->kind == TPI_SOURCE && t->n_in;
    return !constant && b->k->is_kept && b->k->is_kept(b->k->user, t);
}

/* Is node t of a source's body made of no others? */
static bool is_end(void *user, const tp_tensor *t)
{
    return tpi_param_of(t) || is_kept(user, t);
}

static tp_tensor *make(building *b, source *s, tp_tensor *t)
{
    if (tpi_param_of(t))
        return param_again(b, s, t);
    if (is_kept(b, t))
        return kept(b, s, t);
    if (tpi_node_draws(t))
        return refuse_draw(b, t);
    tp_tensor *made = tpi_copy_over(b->side[s->side].to->graph, t, s->made);
    return made->status == TP_OK ? made : NULL;
}

/* Node t of the source's body, in the reader, and all that is asked for of it. */
static tp_tensor *again(building *b, source *s, tp_tensor *t)
{
    tpi_nodes nodes = {.ctx = b->ctx, .room = &b->memory};
    if (t->index >= s->n)
        return refuse(b, t);
    if (s->made[t->index])
        return s->made[t->index];
    tpi_nodes_push(&s->asked, t);
    bool ok = (!s->asked.failed && tpi_collect(&nodes, s->asked.n, s->asked.v, is_end, b)) ||
              no_memory(b);
    for (int i = 0; i < nodes.n && ok; i++) {
        tp_tensor **made = &s->made[nodes.v[i]->index];
        *made = *made ? *made : make(b, s, nodes.v[i]);
        ok = *made;
    }
    return ok ? s->made[t->index] : NULL;
}

/* Side j of the block that output x is of; NULL: no memory. */
static source *source_of(building *b, int j, const tp_tensor *x)
{
    tpi_body *bodies[2];
    source *s = b->sources;
    while (s && (s->block != x->in[0] || s->side != j))
        s = s->next;
    if (s)
        return s;
    tpi_bodies_of(x->in[0], bodies);
    const int n = bodies[j]->graph->n_nodes;
    s = tpi_bump_take(&b->memory, 1, sizeof *s);
    tp_tensor **made = tpi_bump_take(&b->memory, (size_t)n, sizeof *made);
    if (!made) {
        no_memory(b);
        return NULL;
    }
    *s = (source){
        .block = x->in[0],
        .side = j,
        .n = n,
        .seq = x->seq,
        .asked = {.ctx = b->ctx, .room = &b->memory},
        .made = made,
        .next = b->sources
    };
    b->sources = s;
    return s;
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
    const tp_tensor *block = tpi_keeper_of(x);
    return block && block->op == b->reader->op &&
           (!b->k->must || !b->loop || tpi_loop_of(block)->length == b->loop->count);
}

static tp_tensor *output_again(building *b, int j, tp_tensor *x)
{
    if (!fits(b, x))
        return refuse(b, x);
    source *s = source_of(b, j, x);
    if (!s || (b->loop && !takes_turns(b, s)))
        return NULL;
    return again(b, s, node_of(x, j));
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
    if (!is_again(b, x))
        return param_for(b, j, each(b), x);
    x = tpi_behind_enter(x);
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
    x = tpi_behind_enter(x);
    if (!fits(b, x))
        return true;
    source *s = source_of(b, j, x);
    if (!s)
        return false;
    s->seq = x->seq;
    if (node_of(x, j)->index < s->n)
        tpi_nodes_push(&s->asked, node_of(x, j));
    return !s->asked.failed || no_memory(b);
}

static int group_of(const building *b, int param)
{
    if (!b->loop || param > b->loop->n_carried + b->loop->n_slices)
        return CAPTURES;
    return param > b->loop->n_carried ? SLICES : CARRIED;
}

/* What stands for param p of side j, which becomes operand `outer`: if it is computed again, in the second round. */
static bool map_param(building *b, int j, int p, tp_tensor *outer, bool second)
{
    side *s = &b->side[j];
    const tp_tensor *param = s->old->params[p];
    const int group = group_of(b, p);
    const bool remade = group == each(b) && is_again(b, outer);
    if (remade && b->k->must && !is_read(s->old, param))
        return true;
    if (remade && !second)
        return ask(b, j, outer);
    if (remade != second)
        return true;
    tp_tensor *made = remade ? value_in(b, j, outer) : whole(b, j, group, outer);
    s->map[param->index] = made;
    return made;
}

/* What stands for the old params of side j. */
static bool map_params(building *b, int j)
{
    side *s = &b->side[j];
    const int first = b->loop != NULL, lead = b->loop ? (int)b->loop->has_pred : 1;
    bool ok = true;
    if (b->loop) {
        tp_tensor *turn = tpi_body_param(s->to, b->at, TP_I64, 0, NULL, NULL);
        s->map[s->old->params[0]->index] = turn;
        ok = turn->status == TP_OK;
    }
    for (int second = 0; second < 2; second++)
        for (int p = first; p < s->old->n_params && ok; p++)
            ok = map_param(b, j, p, b->reader->in[lead + p - first], second);
    return ok;
}

/* Operands, or their params of a side: carried values, slices, captures, as a block takes them. */
static void push_all(const building *b, const side *s, tpi_nodes *l)
{
    for (int group = 0; group < N_GROUPS; group++)
        for (int i = 0; i < b->n_operands; i++) {
            const operand *o = &b->operands[i];
            if (o->group == group)
                tpi_nodes_push(l, s ? o->param[s - b->side] : o->outer);
        }
}

static bool order_params(building *b, side *s)
{
    tpi_nodes all = {.ctx = b->ctx, .room = &b->memory};
    if (b->loop)
        tpi_nodes_push(&all, s->to->params[0]);
    push_all(b, s, &all);
    const bool ok = !all.failed || no_memory(b);
    if (ok)
        tpi_body_order(s->to, all.v);
    return ok;
}

static tp_tensor *make_node(building *b)
{
    tpi_nodes in = {.ctx = b->ctx, .room = &b->memory};
    tp_tensor *made = &b->ctx->nil;
    if (!b->loop || b->loop->has_pred)
        tpi_nodes_push(&in, b->reader->in[0]);
    push_all(b, NULL, &in);
    if (in.failed) {
        no_memory(b);
    } else if (b->loop) {
        tpi_loop_attrs a = *b->loop;
        a.body = b->side[0].to;
        a.n_slices = 0;
        for (int i = 0; i < b->n_operands; i++)
            a.n_slices += b->operands[i].group == SLICES;
        made = tpi_loop_node(b->g, b->at, &a, in.n, in.v);
    } else {
        const tpi_cond_attrs a = {.then = b->side[0].to, .other = b->side[1].to};
        made = tpi_cond_node(b->g, b->at, &a, in.n, in.v);
    }
    return made;
}

static bool open_sides(building *b)
{
    tpi_body *old[2];
    const int n = tpi_bodies_of(b->reader, old);
    for (int j = 0; j < n; j++) {
        side *s = &b->side[b->n_sides++];
        s->old = old[j];
        s->map = tpi_bump_take(&b->memory, (size_t)old[j]->graph->n_nodes, sizeof *s->map);
        if (!s->map)
            return no_memory(b);
        s->to = tpi_body_new(b->g, b->at);
        if (!s->to)
            return false;
    }
    return true;
}

bool tpi_rebuild_reader(const tpi_keeping *keeping, tp_graph *g, tp_tensor *reader)
{
    building b = {.memory = TPI_BUMP(&g->ctx->mem),
                  .k = keeping,
                  .ctx = g->ctx,
                  .g = g,
                  .reader = reader,
                  .loop = tpi_loop_of(reader),
                  .at = TPI_AT(reader->file, reader->line)};
    bool ok = open_sides(&b);
    for (int j = 0; j < b.n_sides && ok; j++)
        ok = map_params(&b, j);
    for (int j = 0; j < b.n_sides && ok; j++) {
        side *s = &b.side[j];
        ok = tpi_copy_rest(s->old, s->to, s->map) && order_params(&b, s);
    }
    if (ok) {
        tp_tensor *made = make_node(&b);
        ok = made->status == TP_OK;
        if (ok)
            tpi_replace_block(reader, made);
    }
    tpi_bump_free(&b.memory);
    return ok;
}
