/* Lifting: what registers hold as nodes, through branches and loops.
 *
 *     cond   both sides are lifted, each in a body; where a register then holds different nodes, it
 *            becomes an output.
 *     loop   a turn is lifted as if no register changed; those that did are carried, and the turn is
 *            lifted again, until nothing is new. Registers that hold one node, and do so after
 *            each turn, are carried as one. A loop that begins with its guard is run as
 *            guard, { turn, guard }; any other turn ends with `again`: does it go on?
 *
 * A register may hold nothing on some way (`bad`): then it is not read. Of a turn two ways are told apart: to the
 * next one, and out. */
#include "capture/lift/lift_def.h"
#include "capture/run/step_nodes.h"
#include "op/random_position.h"

#include <string.h>

/* ---- errors and memory ------------------------------------------------------------------- */

tpi_at tpi_lift_place(const tpi_lifter *u, int block)
{
    const tpi_basic_block *b = &u->bs->v[block];
    const tpi_at first = u->w->nodes[b->nodes[0]].at;
    return first.file ? first : u->w->nodes[b->nodes[b->n_nodes - 1]].at;
}

bool tpi_lift_refuse(tpi_lifter *u, tpi_at at, const char *why)
{
    if (!u->why) {
        u->why = why;
        u->where = at;
    }
    return false;
}

bool tpi_lift_no_memory(tpi_lifter *u)
{
    tpi_no_memory(u->ctx, TPI_AT(NULL, 0), "lift");
    return false;
}

bool tpi_lift_copy(tpi_lifter *u, const tpi_lift_state *from, tpi_lift_state *to)
{
    const size_t bytes = (size_t)u->n_slots * sizeof *to->v;
    *to = (tpi_lift_state){
        .v = tpi_take(&u->ctx->mem, bytes), .ways = from->ways, .ended = from->ended};
    if (!to->v)
        return tpi_lift_no_memory(u);
    memcpy(to->v, from->v, bytes);
    return true;
}

void tpi_lift_free(tpi_lifter *u, tpi_lift_state *s)
{
    tpi_give_back(&u->ctx->mem, s->v, (size_t)u->n_slots * sizeof *s->v);
    s->v = NULL;
}

tpi_bits *tpi_lift_live(tpi_lifter *u)
{
    const size_t bytes = (size_t)tpi_bit_words(u->n_slots) * sizeof(tpi_bits);
    tpi_bits *v = tpi_take(&u->ctx->mem, bytes);
    if (v)
        memset(v, 0, bytes);
    else
        tpi_lift_no_memory(u);
    return v;
}

void tpi_lift_keep(const tpi_lifter *u, tpi_bits *v)
{
    for (int i = u->results; i < u->n_slots; i++)
        tpi_bit_add(v, i);
    for (int i = 0; i < u->w->n_externs; i++)
        if (u->w->externs[i].assigned)
            tpi_bit_add(v, i);
}

void tpi_lift_live_free(tpi_lifter *u, tpi_bits *v)
{
    tpi_give_back(&u->ctx->mem, v, (size_t)tpi_bit_words(u->n_slots) * sizeof *v);
}

void tpi_lift_into(tpi_lifter *u, tp_graph *g)
{
    u->g = g;
    u->ctx->tracing = g == u->top ? NULL : g;
}

/* ---- reading registers ------------------------------------------------------------------- */

/* What C uses there; NULL: that is not known, and said. */
static tp_tensor *read_source(tpi_lifter *u, tpi_source s, tpi_at at)
{
    const tpi_lift_slot *x = &u->now.v[tpi_block_reg(u->bs, u->w, s)];
    if (x->t && !x->bad)
        return x->t;
    tpi_lift_refuse(
        u, at,
        u->form.calm
            ? "recordings leave it open which tensor is used here: call the function so that "
              "more combinations of its branches, and loops of other numbers of turns, are "
              "seen, or make it a graph with tp_if and tp_while"
            : "recordings leave it open which tensor is used here on some ways: call the "
              "function until 64 calls in a row need no recording");
    return NULL;
}

/* ---- one block --------------------------------------------------------------------------- */

void tpi_lift_set(tpi_lifter *u, int i, tpi_lift_slot s)
{
    u->now.v[i] = s;
}

static bool set_seen(tpi_lifter *u, tp_tensor *t)
{
    u->seen_used = true;
    tpi_lift_set(u, u->seen, (tpi_lift_slot){t, 0});
    return tpi_lift_good(t);
}

static bool lift_draw(tpi_lifter *u, const tpi_node *n, tp_tensor *y)
{
    return set_seen(u, tpi_drawn(n->at, u->now.v[u->seen].t, y));
}

typedef struct reading {
    tpi_lifter *u;
    const tpi_node *node;
} reading;

static tp_tensor *operand_of(void *user, int k)
{
    const reading *r = user;
    return read_source(r->u, r->node->in[k].source, r->node->at);
}

static bool lift_op(tpi_lifter *u, int node)
{
    const tpi_node *n = &u->w->nodes[node];
    if (tpi_is_draw(n->op) && !u->whole)
        return tpi_lift_refuse(u, n->at, "random numbers are drawn here");
    const tp_tensor *y = tpi_step_node(u->g, n->at, n->op, n->attrs, n->n_in, operand_of,
                                       &(reading){u, n}, TPI_OWN_DRAW);
    if (!tpi_lift_good(y) || (tpi_is_draw(n->op) && !lift_draw(u, n, (tp_tensor *)y)))
        return false;
    if (y->dtype != n->dtype || y->rank != n->rank ||
        memcmp(y->shape, n->item->shape, sizeof(int64_t) * n->rank) != 0)
        return tpi_lift_refuse(u, n->at, "a size differs from what was recorded");
    tpi_lift_set(u, u->bs->node_reg[node], (tpi_lift_slot){(tp_tensor *)y, 0});
    return true;
}

static bool lift_return(tpi_lifter *u, int block, const tpi_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        tp_tensor *t = read_source(u, n->in[i].source, tpi_lift_place(u, block));
        if (!t)
            return false;
        tpi_lift_set(u, u->results + i, (tpi_lift_slot){t, 0});
    }
    return true;
}

/* The variable is its new value from there on; it is assigned at the end. */
static bool lift_assign(tpi_lifter *u, const tpi_node *n)
{
    if (!u->whole)
        return tpi_lift_refuse(u, n->at, "a variable is assigned, which a model cannot say");
    tp_tensor *t = read_source(u, n->in[1].source, n->at);
    if (t)
        tpi_lift_set(u, n->in[0].source.n, (tpi_lift_slot){t, 0});
    return t;
}

bool tpi_lift_block(tpi_lifter *u, int block)
{
    const tpi_basic_block *b = &u->bs->v[block];
    for (int i = 0; i < b->n_nodes; i++) {
        const tpi_node *n = &u->w->nodes[b->nodes[i]];
        if (n->kind == TPI_STEP_ASSIGN && !lift_assign(u, n))
            return false;
        if (n->kind == TPI_STEP_OP && !lift_op(u, b->nodes[i]))
            return false;
        if (n->kind == TPI_STEP_RETURN && !lift_return(u, block, n))
            return false;
    }
    return true;
}

/* What phis become on a way, all at once. */
void tpi_lift_pass(tpi_lifter *u, const tpi_form_way *x)
{
    const int first = u->bs->first_phi;
    for (int i = 0; i < u->bs->n_phi_regs; i++) {
        const int from = tpi_form_from(&u->form, x, first + i);
        u->phis[i] = from < 0 ? (tpi_lift_slot){NULL, TPI_BOTH} : u->now.v[from];
    }
    memcpy(u->now.v + first, u->phis, (size_t)u->bs->n_phi_regs * sizeof *u->phis);
}

const tpi_node *tpi_lift_look(const tpi_lifter *u, int block)
{
    const tpi_basic_block *b = &u->bs->v[block];
    const tpi_node *n = &u->w->nodes[b->nodes[b->n_nodes - 1]];
    return n->kind == TPI_STEP_LOOK ? n : NULL;
}

/* What is looked at, as one bool. */
tp_tensor *tpi_lift_condition(tpi_lifter *u, int block)
{
    const tpi_node *n = tpi_lift_look(u, block);
    tp_tensor *t = read_source(u, n->in[0].source, n->at);
    t = t ? tpi_truth_of(n->at, t) : NULL;
    return tpi_lift_good(t) ? t : NULL;
}

/* The place that a way leads to. */
int tpi_lift_behind(const tpi_lifter *u, const tpi_form_way *x)
{
    return x->back ? u->form.end + 1 + tpi_form_loop_at(&u->form, x->to) : x->to;
}

/* ---- all --------------------------------------------------------------------------------- */

/* A turn ends: by these ways alone. */
static void end_turn(tpi_lifter *u, int way)
{
    if (u->now.ended || u->loop < 0)
        return;
    u->now.ended = true;
    u->now.ways = (uint8_t)way;
    for (int i = 0; i < u->n_slots; i++)
        u->now.v[i].bad &= (uint8_t)way;
}

static bool lift_next_turn(tpi_lifter *u, int loop)
{
    if (u->loop != loop)
        return tpi_lift_refuse(u, tpi_lift_place(u, u->form.loops[loop].head),
                               "two loops are left at once");
    u->now.v[u->again] = (tpi_lift_slot){u->yes, 0};
    end_turn(u, TPI_TO_NEXT);
    return true;
}

/* A look that was always the same: another outcome fails the run. */
static bool lift_only_way(tpi_lifter *u, int block, const tpi_form_way *x)
{
    const tpi_at at = tpi_lift_look(u, block)->at;
    tp_tensor *truth = tpi_lift_condition(u, block);
    const bool was = u->bs->v[x->block].edges[x->edge].seen[0];
    tp_tensor *t = truth ? tpi_seen(at, u->now.v[u->seen].t, truth, was) : NULL;
    return t && set_seen(u, t);
}

/* A place, and on to the next one: -1 when it cannot be. */
static int lift_place(tpi_lifter *u, int place)
{
    const tpi_form *f = &u->form;
    if (place == f->end) {
        tpi_lift_refuse(u, TPI_AT(NULL, 0), "two loops are left at once");
        return -1;
    }
    if (place > f->end) {
        const int loop = place - f->end - 1;
        return lift_next_turn(u, loop) ? f->loops[loop].exit : -1;
    }
    if (!tpi_lift_block(u, place))
        return -1;
    if (f->n_ways[place] == 2)
        return tpi_lift_cond(u, place, f->join[place]) ? f->join[place] : -1;
    if (!f->n_ways[place])
        return f->end;
    const tpi_form_way *way = &f->ways[place][0];
    if (tpi_lift_look(u, place) && !lift_only_way(u, place, way))
        return -1;
    tpi_lift_pass(u, way);
    return tpi_lift_behind(u, way);
}

bool tpi_lift_on(tpi_lifter *u, int place, int stop, bool in_turn)
{
    while (place != stop || in_turn) {
        const int loop =
            in_turn || place >= u->form.end ? -1 : tpi_form_loop_at(&u->form, place);
        in_turn = false;
        if (loop < 0)
            place = lift_place(u, place);
        else
            place = tpi_lift_loop(u, loop) ? u->form.loops[loop].exit : -1;
        if (place < 0)
            return false;
    }
    if (u->loop >= 0 && stop == u->form.loops[u->loop].exit)
        end_turn(u, TPI_OUT);
    return true;
}

static bool begin(tpi_lifter *u, tp_tensor *const *in)
{
    const tpi_flow *w = u->w;
    for (int i = 0; i < u->n_slots; i++)
        tpi_lift_set(u, i, (tpi_lift_slot){NULL, TPI_BOTH});
    for (int i = 0; i < w->n_externs; i++) {
        const tpi_extern *e = &w->externs[i];
        tp_tensor *t = e->from == TPI_FROM_ARG
                           ? in[e->arg]
                           : tpi_graph_lift(u->top, TPI_AT(NULL, 0), e->tensor);
        if (!tpi_lift_good(t))
            return false;
        tpi_lift_set(u, i, (tpi_lift_slot){t, 0});
    }
    for (int i = w->n_externs; i < u->bs->n_regs; i++)
        if (u->bs->regs[i].init >= 0)
            tpi_lift_set(u, i, u->now.v[u->bs->regs[i].init]);
    u->yes = tpi_graph_lift(u->top, TPI_AT(NULL, 0), tp_scalar_at(NULL, 0, u->ctx, TP_BOOL, 1));
    u->no = tpi_graph_lift(u->top, TPI_AT(NULL, 0), tp_scalar_at(NULL, 0, u->ctx, TP_BOOL, 0));
    tpi_lift_set(u, u->again, (tpi_lift_slot){u->no, 0});
    tp_tensor *seen = tpi_seen_all(TPI_AT(NULL, 0), u->top);
    tpi_lift_set(u, u->seen, (tpi_lift_slot){seen, 0});
    return tpi_lift_good(u->yes) && tpi_lift_good(u->no) && tpi_lift_good(seen);
}

/* Variables become what their registers hold. */
static bool assign_all(tpi_lifter *u)
{
    for (int i = 0; i < u->w->n_nodes; i++) {
        const tpi_node *n = &u->w->nodes[i];
        if (n->kind != TPI_STEP_ASSIGN)
            continue;
        tpi_lift_slot *s = &u->now.v[n->in[0].source.n];
        tp_tensor *var = u->w->externs[n->in[0].source.n].tensor;
        if (s->t && !tpi_lift_good(tp_assign_at(n->at.file, n->at.line, var, s->t)))
            return false;
        s->t = NULL; /* it is done */
    }
    return true;
}

static bool lift(tpi_lifter *u, tp_tensor *const *in, tp_tensor **out)
{
    const tpi_flow *w = u->w;
    u->form.open = u->whole;
    u->form.calm = u->w->calm >= TPI_CALM;
    if (!tpi_form_find(u->w, &u->form)) {
        if (u->form.why)
            return tpi_lift_refuse(u, u->form.where, u->form.why);
        return tpi_lift_no_memory(u);
    }
    const int entry = w->nodes[w->nodes[TPI_ENTRY_NODE].edges[0].to].block;
    if (!begin(u, in) || !tpi_lift_on(u, entry, u->form.end, false))
        return false;
    for (int i = 0; i < w->n_out; i++) {
        out[i] = u->now.v[u->results + i].t;
        if (!out[i] || u->now.v[u->results + i].bad)
            return tpi_lift_refuse(u, TPI_AT(NULL, 0), "a way through it gives no result");
    }
    if (u->seen_used)
        out[0] = tpi_if_seen(TPI_AT(NULL, 0), u->now.v[u->seen].t, out[0]);
    return tpi_lift_good(out[0]) && assign_all(u);
}

bool tpi_flow_lift(tpi_flow *w, tp_graph *g, bool whole, tp_tensor *const *in, tp_tensor **out,
                   const char **why, tpi_at *where)
{
    tp_ctx *ctx = w->ctx;
    tpi_lifter u = {
        .w = w, .bs = w->blocks, .ctx = ctx, .top = g, .g = g, .whole = whole, .loop = -1};
    u.results = u.bs->n_regs;
    u.again = u.results + w->n_out;
    u.seen = u.again + 1;
    u.n_slots = u.seen + 1;
    tp_graph *tracing = ctx->tracing;
    const bool recording = ctx->caller.recording;
    ctx->caller.recording = true;
    tpi_lift_into(&u, g);
    const size_t bytes = (size_t)u.n_slots * sizeof *u.now.v;
    tpi_lift_slot *slots = u.now.v = tpi_take(&ctx->mem, bytes);
    u.now.ways = TPI_BOTH;
    const size_t phis = (size_t)u.bs->n_phi_regs * sizeof *u.phis;
    u.phis = tpi_take(&ctx->mem, phis);
    const bool ok = slots && u.phis ? lift(&u, in, out) : tpi_lift_no_memory(&u);
    if (slots && u.phis)
        tpi_form_free(&u.form);
    tpi_give_back(&ctx->mem, slots, bytes);
    tpi_give_back(&ctx->mem, u.phis, phis);
    ctx->caller.recording = recording;
    ctx->tracing = tracing;
    *why = u.why;
    *where = u.where;
    return ok;
}
