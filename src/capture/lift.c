/* Lifting: what registers hold as nodes, through branches and loops.
 *
 *     cond   both sides are lifted, each in a body; where a register then holds different nodes, it
 *            becomes an output.
 *     loop   a turn is lifted as if no register changed; those that did are carried, and the turn is
 *            lifted again, until nothing is new. Registers that hold one node, and do so after
 *            each turn, are carried as one. A loop that begins with its guard is run as
 *            guard, { turn, guard }; any other turn ends with `again`: does it go on?
 *
 * A register may hold nothing on some way (`bad`). Then its stand-in (the port's alt) is read, if it
 * is the same node wherever the register holds one. Of a turn two ways are told apart: to the next
 * one, and out. */
#include "capture/lift.h"

#include "ir/body.h"
#include "op/draw.h"

#include <string.h>

enum { TO_NEXT = 1, OUT = 2, BOTH = TO_NEXT | OUT };

typedef struct slot {
    tp_tensor *t; /* NULL: nothing on no way */
    uint8_t bad;  /* nothing on some of these ways */
} slot;

/* Registers, then results, then `again`. */
typedef struct state {
    slot *v;
    uint8_t ways; /* that lead here: BOTH while a turn has not ended */
} state;

typedef struct lifter {
    tpi_flow *w;
    const tpi_blocks *bs;
    tp_ctx *ctx;
    tp_graph *top, *g; /* g: that nodes are put in */
    tpi_form form;
    state now;
    int n_slots, results, again;
    int loop;            /* whose turn is lifted; -1 */
    tp_tensor *yes, *no; /* constants */
    const char *why;
    tpi_at where;
} lifter;

/* ---- errors and memory ------------------------------------------------------------------- */

static tpi_at place_of(const lifter *u, int block)
{
    const tpi_block *b = &u->bs->v[block];
    const tpi_at first = u->w->nodes[b->nodes[0]].at;
    return first.file ? first : u->w->nodes[b->nodes[b->n_nodes - 1]].at;
}

static bool refuse(lifter *u, tpi_at at, const char *why)
{
    if (!u->why) {
        u->why = why;
        u->where = at;
    }
    return false;
}

static bool no_memory(lifter *u)
{
    tpi_no_memory(u->ctx, TPI_AT(NULL, 0), "lift");
    return false;
}

static bool good(const tp_tensor *t)
{
    return t && t->status == TP_OK;
}

static bool state_copy(lifter *u, const state *from, state *to)
{
    const size_t bytes = (size_t)u->n_slots * sizeof *to->v;
    *to = (state){.v = tpi_take(&u->ctx->mem, bytes), .ways = from->ways};
    if (!to->v)
        return no_memory(u);
    memcpy(to->v, from->v, bytes);
    return true;
}

static void state_free(lifter *u, state *s)
{
    tpi_give_back(&u->ctx->mem, s->v, (size_t)u->n_slots * sizeof *s->v);
    s->v = NULL;
}

static tpi_bits *live_new(lifter *u)
{
    const size_t bytes = (size_t)tpi_bit_words(u->n_slots) * sizeof(tpi_bits);
    tpi_bits *v = tpi_take(&u->ctx->mem, bytes);
    if (v)
        memset(v, 0, bytes);
    else
        no_memory(u);
    return v;
}

static void live_free(lifter *u, tpi_bits *v)
{
    tpi_give_back(&u->ctx->mem, v, (size_t)tpi_bit_words(u->n_slots) * sizeof *v);
}

static void put_in(lifter *u, tp_graph *g)
{
    u->g = g;
    u->ctx->tracing = g == u->top ? NULL : g;
}

/* ---- reading registers ------------------------------------------------------------------- */

static const tpi_port *port_of(const tpi_block *b, int reg)
{
    for (int i = 0; i < b->n_in; i++)
        if (b->in[i].reg == reg && !b->in[i].soft)
            return &b->in[i];
    return NULL;
}

/* What the stand-in of a port holds, if it has one. */
static tp_tensor *held_by_other(const lifter *u, const tpi_port *p)
{
    const slot *alt = p && p->alt >= 0 ? &u->now.v[p->alt] : NULL;
    return alt && !alt->bad ? alt->t : NULL;
}

/* What C uses there; NULL: that is not known, and said. */
static tp_tensor *read_slot(lifter *u, int block, int reg, tpi_at at)
{
    const tpi_port *p = port_of(&u->bs->v[block], reg);
    const tpi_doubtful doubt =
        p && p->n_doubts ? tpi_form_doubtful(u->w, &u->form, block, p) : TPI_NO_DOUBT;
    if (doubt == TPI_NOT_FOUND) {
        no_memory(u);
        return NULL;
    }
    if (doubt != TPI_NO_DOUBT && u->w->calm < TPI_CALM) {
        refuse(u, at,
               "recordings leave it open which tensor is used here on some ways: call the "
               "function until 64 calls in a row need no recording");
        return NULL;
    }
    const slot *x = &u->now.v[reg];
    tp_tensor *t = x->t;
    if (doubt == TPI_STAND_IN) {
        t = held_by_other(u, p);
    } else if (!t || x->bad) {
        tp_tensor *other = held_by_other(u, p);
        t = !t || t == other ? other : NULL;
    }
    for (int i = 0; p && t && i < p->n_rivals; i++) {
        const tp_tensor *rival = u->now.v[p->rivals[i]].t;
        t = rival && rival != t ? NULL : t;
    }
    if (!t)
        refuse(u, at,
               "recordings leave it open which tensor is used here: call the function so that "
               "more combinations of its branches, and loops of other numbers of turns, are "
               "seen, or make it a graph with tp_if and tp_while");
    return t;
}

static int reg_of(const lifter *u, tpi_source s)
{
    const tpi_var *v = s.kind == TPI_SOURCE_VAR ? &u->w->vars[s.n] : NULL;
    return v ? v->reg + v->age : s.kind == TPI_SOURCE_NODE ? u->bs->node_reg[s.n] : s.n;
}

/* ---- one block --------------------------------------------------------------------------- */

static void set_slot(lifter *u, int i, slot s)
{
    u->now.v[i] = s;
}

static bool lift_op(lifter *u, int block, int node)
{
    enum { FEW = 32 };
    const tpi_node *n = &u->w->nodes[node];
    tp_tensor *few[FEW], **in = few;
    if (n->op == &tpi_op_random)
        return refuse(u, n->at, "random numbers are drawn here");
    const size_t bytes = (size_t)n->n_in * sizeof *in;
    if (n->n_in > FEW && !(in = tpi_take(&u->ctx->mem, bytes)))
        return no_memory(u);
    bool ok = true;
    for (int i = 0; i < n->n_in && ok; i++)
        ok = (in[i] = read_slot(u, block, reg_of(u, n->in[i].source), n->at)) != NULL;
    const tp_tensor *y = ok ? tpi_apply(n->at, n->op, n->n_in, in, n->attrs) : NULL;
    if (in != few)
        tpi_give_back(&u->ctx->mem, in, bytes);
    if (!good(y))
        return false;
    if (y->dtype != n->dtype || y->rank != n->rank ||
        memcmp(y->shape, n->item->shape, sizeof(int64_t) * n->rank) != 0)
        return refuse(u, n->at, "a size differs from what was recorded");
    for (int i = 0; i < u->w->n_vars; i++) {
        const tpi_var *v = &u->w->vars[i];
        if (!tpi_var_follows(v, node))
            continue;
        if (v->age)
            set_slot(u, v->reg + 1, u->now.v[v->reg]);
        set_slot(u, v->reg, (slot){(tp_tensor *)y, 0});
    }
    set_slot(u, u->bs->node_reg[node], (slot){(tp_tensor *)y, 0});
    return true;
}

static bool lift_return(lifter *u, int block, const tpi_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const tpi_source s = n->in[i].source;
        const int reg = s.kind == TPI_SOURCE_EXTERN ? s.n : reg_of(u, s);
        tp_tensor *t = read_slot(u, block, reg, place_of(u, block));
        if (!t)
            return false;
        set_slot(u, u->results + i, (slot){t, 0});
    }
    return true;
}

static bool lift_block(lifter *u, int block)
{
    const tpi_block *b = &u->bs->v[block];
    for (int i = 0; i < b->n_nodes; i++) {
        const tpi_node *n = &u->w->nodes[b->nodes[i]];
        if (n->kind == TPI_STEP_ASSIGN)
            return refuse(u, n->at, "a variable is assigned, which a model cannot say");
        if (n->kind == TPI_STEP_OP && !lift_op(u, block, b->nodes[i]))
            return false;
        if (n->kind == TPI_STEP_RETURN && !lift_return(u, block, n))
            return false;
    }
    return true;
}

/* What variables become on a way. */
static void pass_way(lifter *u, const tpi_form_way *x)
{
    const tpi_block *b = &u->bs->v[x->block];
    for (int i = 0; i < b->n_sets; i++)
        if (b->sets[i].edge == x->edge)
            set_slot(u, b->sets[i].to, u->now.v[b->sets[i].from]);
}

static const tpi_node *look_of(const lifter *u, int block)
{
    const tpi_block *b = &u->bs->v[block];
    const tpi_node *n = &u->w->nodes[b->nodes[b->n_nodes - 1]];
    return n->kind == TPI_STEP_LOOK ? n : NULL;
}

/* What is looked at, as one bool. */
static tp_tensor *condition_of(lifter *u, int block)
{
    const tpi_node *n = look_of(u, block);
    tp_tensor *t = read_slot(u, block, reg_of(u, n->in[0].source), n->at);
    if (t && t->dtype != TP_BOOL)
        t = tp_ne_at(n->at.file, n->at.line, t,
                     tp_scalar_like_at(n->at.file, n->at.line, t, 0));
    if (good(t) && t->rank > 0)
        t = tp_reshape_at(n->at.file, n->at.line, t, 0, NULL);
    return good(t) ? t : NULL;
}

/* The place that a way leads to. */
static int place_behind(const lifter *u, const tpi_form_way *x)
{
    return x->back ? u->form.end + 1 + tpi_form_loop_at(&u->form, x->to) : x->to;
}

/* From a place to another one; in_turn: the first place is the head of the loop whose turn it is. */
static bool lift_on(lifter *u, int place, int stop, bool in_turn);

/* ---- cond -------------------------------------------------------------------------------- */

typedef struct pairs {
    int n;
    tp_tensor **side[2]; /* nodes, by pair */
    tp_tensor **out;
} pairs;

/* What stands for nothing: it is not read. */
static tp_tensor *filler(lifter *u, const tp_tensor *like)
{
    tp_tensor *zero =
        tp_full_at(NULL, 0, u->ctx, (tp_dtype)like->dtype, like->rank, like->shape, 0);
    zero = good(zero) ? tpi_graph_lift(u->top, TPI_AT(NULL, 0), zero) : zero;
    return good(zero) ? zero : NULL;
}

/* The stand-in of a register that holds nothing. */
static tp_tensor *stand_in(const lifter *u, const state *s, int reg)
{
    for (int i = 0; i < u->bs->n && reg < u->results; i++)
        for (int p = 0; p < u->bs->v[i].n_in; p++) {
            const tpi_port *x = &u->bs->v[i].in[p];
            if (x->reg == reg && x->alt >= 0 && s->v[x->alt].t && !s->v[x->alt].bad)
                return s->v[x->alt].t;
        }
    return NULL;
}

static int find_pair(pairs *p, tp_tensor *a, tp_tensor *b)
{
    for (int i = 0; i < p->n; i++)
        if (p->side[0][i] == a && p->side[1][i] == b)
            return i;
    p->side[0][p->n] = a;
    p->side[1][p->n] = b;
    return p->n++;
}

/* What register i is behind both sides: pair[i], or -1 and a node. */
static bool join_slot(lifter *u, const state *s, int i, pairs *p, int32_t *pair)
{
    tp_tensor *t[2];
    slot *to = &u->now.v[i];
    to->bad = 0;
    for (int k = 0; k < 2; k++) {
        t[k] = s[k].v[i].t;
        to->bad |= t[k] ? s[k].v[i].bad : s[k].ways;
    }
    for (int k = 0; k < 2 && (t[0] || t[1]); k++)
        if (!t[k] && !(t[k] = stand_in(u, &s[k], i)) && !(t[k] = filler(u, t[!k])))
            return false;
    pair[i] = -1;
    to->t = t[0];
    if (t[0] != t[1])
        pair[i] = find_pair(p, t[0], t[1]);
    return true;
}

static tp_tensor *close_cond(lifter *u, tpi_at at, tp_tensor *pred, tpi_body *const *body,
                             const pairs *p)
{
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < p->n; i++) {
            tp_tensor *t = tpi_graph_lift(body[k]->graph, at, p->side[k][i]);
            if (!good(t) || !tpi_body_output(body[k], t))
                return NULL;
            const tp_tensor *other = k ? body[0]->outputs[i] : t;
            if (other->dtype != t->dtype || !tpi_same_shape(other, t)) {
                refuse(u, at, "what the two sides make has different types or sizes");
                return NULL;
            }
        }
    tp_tensor *node = tpi_cond_close(u->g, at, pred, body[0], body[1]);
    return good(node) ? node : NULL;
}

/* The pairs become outputs of a cond; one of yes and no is the condition itself. */
static bool make_outputs(lifter *u, tpi_at at, tp_tensor *pred, tpi_body *const *body, pairs *p)
{
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        const bool as_it_is = p->side[0][i] == u->yes && p->side[1][i] == u->no,
                   inverse = p->side[0][i] == u->no && p->side[1][i] == u->yes;
        p->out[i] = as_it_is ? pred : inverse ? tp_not_at(at.file, at.line, pred) : NULL;
        if (p->out[i] && !good(p->out[i]))
            return false;
        n += !p->out[i];
    }
    pairs left = {
        .side = {p->side[0] + p->n, p->side[1] + p->n}
    };
    for (int i = 0; i < p->n; i++)
        if (!p->out[i]) {
            left.side[0][left.n] = p->side[0][i];
            left.side[1][left.n++] = p->side[1][i];
        }
    if (n == 0) {
        tpi_body_drop(u->g, body[0]);
        tpi_body_drop(u->g, body[1]);
        return true;
    }
    tp_tensor *node = close_cond(u, at, pred, body, &left);
    for (int i = 0, k = 0; i < p->n && node; i++) {
        if (p->out[i])
            continue;
        p->out[i] = tpi_output_node(u->g, at, node, k++);
        node = good(p->out[i]) ? node : NULL;
    }
    return node;
}

/* Registers that are read at a place or later; of a turn also what the next one reads. */
static tpi_bits *live_at(lifter *u, int place)
{
    tpi_bits *live = live_new(u);
    if (!live)
        return NULL;
    tpi_form_live(&u->form, place, live);
    if (u->loop >= 0 && place == u->form.loops[u->loop].exit)
        tpi_form_live(&u->form, u->form.loops[u->loop].head, live);
    for (int i = u->results; i < u->n_slots; i++)
        tpi_bit_add(live, i);
    return live;
}

static bool join_sides(lifter *u, tpi_at at, tp_tensor *pred, tpi_body *const *body,
                       const state *s, int place)
{
    tpi_mem *m = &u->ctx->mem;
    const size_t n = (size_t)u->n_slots, bytes = n * sizeof(tp_tensor *);
    tpi_bits *live = live_at(u, place);
    tp_tensor **nodes = tpi_take(m, 5 * bytes);
    int32_t *pair = tpi_take(m, n * sizeof *pair);
    bool ok = live && (nodes || no_memory(u)) && (pair || no_memory(u));
    if (ok) {
        pairs p = {
            .side = {nodes, nodes + 2 * n},
              .out = nodes + 4 * n
        };
        u->now.ways = s[0].ways | s[1].ways;
        for (int i = 0; i < u->n_slots && ok; i++) {
            pair[i] = -1;
            if (tpi_bit_has(live, i))
                ok = join_slot(u, s, i, &p, pair);
            else
                set_slot(u, i, (slot){NULL, BOTH});
        }
        ok = ok && make_outputs(u, at, pred, body, &p);
        for (int i = 0; i < u->n_slots && ok; i++)
            if (pair[i] >= 0)
                u->now.v[i].t = p.out[pair[i]];
    }
    live_free(u, live);
    tpi_give_back(m, nodes, 5 * bytes);
    tpi_give_back(m, pair, n * sizeof *pair);
    return ok;
}

static bool lift_cond(lifter *u, int block, int join)
{
    const tpi_at at = look_of(u, block)->at;
    const tpi_form_way *way = u->form.ways[block];
    tp_tensor *pred = condition_of(u, block);
    if (!pred)
        return false;
    tp_graph *g = u->g;
    tpi_body *body[2] = {NULL, NULL};
    state before = u->now, s[2] = {
                               {NULL, 0},
                               {NULL, 0}
    };
    bool ok = true;
    for (int k = 0; k < 2 && ok; k++) {
        body[k] = tpi_body_new(g, at);
        ok = body[k] && state_copy(u, &before, &s[k]);
        if (!ok)
            break;
        u->now = s[k];
        put_in(u, body[k]->graph);
        pass_way(u, &way[k]);
        ok = lift_on(u, place_behind(u, &way[k]), join, false);
        s[k] = u->now;
        put_in(u, g);
    }
    u->now = before;
    ok = ok && join_sides(u, at, pred, body, s, join);
    state_free(u, &s[0]);
    state_free(u, &s[1]);
    return ok;
}

/* ---- loop -------------------------------------------------------------------------------- */

typedef struct looping {
    const tpi_form_loop *l;
    int k;                /* number of the loop */
    bool guarded;         /* it begins with its guard */
    bool negated;         /* a turn is taken when that is false */
    tpi_form_way in, out; /* of the guard: into a turn, out of the loop */
    tp_tensor *pred;
    state before; /* the first turn */
    uint8_t *bad; /* by slot: nothing before some turn */
    int32_t *of;  /* by slot: which carried value it is; -1: it does not change */
    int n_carried;
    tp_tensor **init;
    tpi_bits *live;
} looping;

/* Does every way from here lead to the next turn? */
static bool is_turn(const lifter *u, const looping *x, int place)
{
    const int next = u->form.end + 1 + x->k;
    const size_t words = (size_t)tpi_bit_words(u->form.n);
    return place == next || (place < u->form.n_blocks &&
                             tpi_bit_has(u->form.after + (size_t)place * words, next));
}

/* A first block that ends with a look, of which one side is a turn and the other the way out. */
static void find_guard(const lifter *u, looping *x)
{
    const tpi_form_way *way = u->form.ways[x->l->head];
    for (int k = 0; k < 2 && look_of(u, x->l->head); k++)
        if (is_turn(u, x, place_behind(u, &way[k])) &&
            place_behind(u, &way[!k]) == x->l->exit) {
            x->guarded = true;
            x->negated = k;
            x->in = way[k];
            x->out = way[!k];
        }
}

/* The guard, where nodes are put now: is a turn to be taken? */
static tp_tensor *lift_guard(lifter *u, const looping *x)
{
    const int head = x->l->head;
    tp_tensor *t = lift_block(u, head) ? condition_of(u, head) : NULL;
    if (t && x->negated) {
        const tpi_at at = look_of(u, head)->at;
        t = tp_not_at(at.file, at.line, t);
    }
    return good(t) ? t : NULL;
}

static bool carry(lifter *u, looping *x, int i, tp_tensor *init)
{
    const slot *s = &x->before.v[i];
    if (!init)
        init = s->t ? s->t : stand_in(u, &x->before, i);
    if (!init)
        return false;
    x->of[i] = x->n_carried;
    x->init[x->n_carried++] = init;
    return true;
}

/* The body: params, a turn, the condition of the next one. */
static tpi_body *lift_turn(lifter *u, looping *x, tpi_at at, tp_tensor **pred)
{
    tp_graph *g = u->g;
    tpi_body *body = tpi_body_new(g, at);
    bool ok = body && good(tpi_body_param(body, at, TP_I64, 0, NULL, NULL));
    for (int i = 0; i < x->n_carried && ok; i++) {
        tp_tensor *t = x->init[i] = tpi_graph_lift(g, at, x->init[i]);
        ok =
            good(t) && good(tpi_body_param(body, at, (tp_dtype)t->dtype, t->rank, t->shape, t));
    }
    if (!ok)
        return NULL;
    u->now.ways = BOTH;
    for (int i = 0; i < u->n_slots; i++) {
        set_slot(u, i, x->before.v[i]);
        u->now.v[i].bad |= x->bad[i];
        if (x->of[i] >= 0)
            u->now.v[i].t = body->params[1 + x->of[i]];
    }
    u->now.v[u->again] = (slot){u->no, 0};
    const int loop = u->loop;
    u->loop = x->k;
    put_in(u, body->graph);
    if (x->guarded) {
        u->loop = -1; /* its ways are one */
        pass_way(u, &x->in);
        ok = lift_on(u, place_behind(u, &x->in), u->form.end + 1 + x->k, false) &&
             (*pred = lift_guard(u, x)) != NULL;
    } else {
        ok = lift_on(u, x->l->head, x->l->exit, true);
        *pred = u->now.v[u->again].t;
    }
    u->loop = loop;
    put_in(u, g);
    return ok ? body : NULL;
}

/* Which slots matter: what a turn or what comes later reads. */
static bool matters(const lifter *u, const looping *x, int i)
{
    return i != u->again && tpi_bit_has(x->live, i);
}

/* Has slot i of the value that it is carried with (or that does not change) become another one? */
static bool is_new(const lifter *u, const looping *x, int i)
{
    const tp_tensor *end = u->now.v[i].t;
    if (x->of[i] < 0)
        return end != x->before.v[i].t;
    for (int k = 0; k < i; k++)
        if (matters(u, x, k) && x->of[k] == x->of[i])
            return end != u->now.v[k].t; /* the first of them stays */
    return false;
}

/* What was taken for equal, or not to change, and is found not to be. True: the turn is to be lifted
 * again. */
static bool refine(lifter *u, looping *x, bool *ok)
{
    bool again = false;
    const int before = x->n_carried;
    for (int i = 0; i < u->n_slots && *ok; i++) {
        if (!matters(u, x, i))
            continue;
        const slot *end = &u->now.v[i];
        const uint8_t to_next = x->guarded ? end->bad : end->bad & TO_NEXT ? BOTH : 0;
        const uint8_t bad = x->before.v[i].t ? x->before.v[i].bad : BOTH;
        const uint8_t now = (uint8_t)(x->bad[i] | bad | to_next);
        again |= now != x->bad[i];
        x->bad[i] = now;
        if (!is_new(u, x, i))
            continue;
        again = true;
        tp_tensor *init = x->of[i] >= 0 ? x->init[x->of[i]] : x->before.v[i].t;
        int k = before; /* with others that become the same now */
        while (k < x->n_carried && x->init[k] != init)
            k++;
        if (init && k < x->n_carried) {
            x->of[i] = k;
            continue;
        }
        if (!init && !stand_in(u, &x->before, i))
            init = filler(u, end->t);
        *ok = carry(u, x, i, init) || (u->why || no_memory(u));
    }
    return again;
}

static tp_tensor *close_loop(lifter *u, looping *x, tpi_at at, tpi_body *body, tp_tensor *pred,
                             tp_tensor **end)
{
    pred = tpi_graph_lift(body->graph, at, pred);
    bool ok = good(pred) && tpi_body_output(body, pred);
    for (int i = 0; i < x->n_carried && ok; i++) {
        tp_tensor *t = tpi_graph_lift(body->graph, at, end[i]);
        const tp_tensor *p = body->params[1 + i];
        ok = good(t) && (p->dtype == t->dtype && tpi_same_shape(p, t)) &&
             tpi_body_output(body, t);
    }
    if (!ok) {
        refuse(u, at, "what a turn takes and what it makes has different types or sizes");
        return NULL;
    }
    body->closed = true;
    const tpi_loop_attrs attrs = {.body = body, .n_carried = x->n_carried, .has_pred = true};
    const size_t bytes = (size_t)body->n_params * sizeof(tp_tensor *);
    tp_tensor **in = tpi_take(&u->ctx->mem, bytes);
    if (!in) {
        no_memory(u);
        return NULL;
    }
    in[0] = x->pred;
    memcpy(in + 1, body->outers + 1, bytes - sizeof *in);
    tp_tensor *node = tpi_loop_node(u->g, at, &attrs, body->n_params, in);
    tpi_give_back(&u->ctx->mem, in, bytes);
    return good(node) ? node : NULL;
}

/* The loop's node; registers hold its outputs. u->now is the end of a turn. */
static bool finish(lifter *u, looping *x, tpi_at at, tpi_body *body, tp_tensor *pred)
{
    const size_t bytes = (size_t)u->n_slots * sizeof(tp_tensor *);
    tp_tensor **end = tpi_take(&u->ctx->mem, bytes);
    if (!end)
        return no_memory(u);
    for (int i = 0; i < u->n_slots; i++)
        if (matters(u, x, i) && x->of[i] >= 0)
            end[x->of[i]] = u->now.v[i].t;
    tp_tensor *node = close_loop(u, x, at, body, pred, end);
    bool ok = node;
    for (int i = 0; i < x->n_carried && ok; i++) {
        end[i] = tpi_output_node(u->g, at, node, i);
        ok = good(end[i]);
    }
    for (int i = 0; i < u->n_slots && ok; i++) {
        const slot last = u->now.v[i];
        slot *to = &u->now.v[i];
        *to = x->before.v[i];
        if (i == u->again)
            continue;
        if (!matters(u, x, i)) {
            *to = (slot){NULL, BOTH};
            continue;
        }
        if (x->of[i] >= 0)
            to->t = end[x->of[i]];
        to->bad = x->guarded ? x->bad[i] : last.bad & OUT ? BOTH : 0;
    }
    u->now.ways = x->before.ways;
    tpi_give_back(&u->ctx->mem, end, bytes);
    if (ok && x->guarded)
        pass_way(u, &x->out);
    return ok;
}

static bool lift_turns(lifter *u, looping *x, tpi_at at)
{
    x->pred = x->guarded ? lift_guard(u, x) : u->yes;
    if (!x->pred || !state_copy(u, &u->now, &x->before))
        return false;
    for (;;) {
        tp_tensor *pred = NULL;
        tpi_body *body = lift_turn(u, x, at, &pred);
        bool ok = body;
        if (!ok)
            return false;
        if (!refine(u, x, &ok))
            return ok && finish(u, x, at, body, pred);
        tpi_body_drop(u->g, body);
        if (!ok)
            return false;
    }
}

static bool lift_loop(lifter *u, int k)
{
    tpi_mem *m = &u->ctx->mem;
    looping x = {.l = &u->form.loops[k], .k = k};
    const size_t n = (size_t)u->n_slots;
    const tpi_at at = place_of(u, x.l->head);
    find_guard(u, &x);
    x.live = live_new(u);
    x.bad = tpi_take(m, n);
    x.of = tpi_take(m, n * sizeof *x.of);
    x.init = tpi_take(m, 2 * n * sizeof(tp_tensor *));
    bool ok = x.live && ((x.bad && x.of && x.init) || no_memory(u));
    if (ok) {
        memset(x.bad, 0, n);
        for (int i = 0; i < u->n_slots; i++)
            x.of[i] = -1;
        if (x.guarded) {
            tpi_form_live_behind(&u->form, x.l->head, x.live);
        } else {
            tpi_form_live(&u->form, x.l->head, x.live);
            tpi_form_live(&u->form, x.l->exit, x.live);
        }
        for (int i = u->results; i < u->again; i++)
            tpi_bit_add(x.live, i);
        ok = lift_turns(u, &x, at);
    }
    state_free(u, &x.before);
    live_free(u, x.live);
    tpi_give_back(m, x.bad, n);
    tpi_give_back(m, x.of, n * sizeof *x.of);
    tpi_give_back(m, x.init, 2 * n * sizeof(tp_tensor *));
    return ok;
}

/* ---- all --------------------------------------------------------------------------------- */

/* A turn ends: by these ways alone. */
static void end_turn(lifter *u, int way)
{
    if (u->now.ways != BOTH || u->loop < 0)
        return;
    u->now.ways = (uint8_t)way;
    for (int i = 0; i < u->n_slots; i++)
        u->now.v[i].bad &= (uint8_t)way;
}

static bool lift_next_turn(lifter *u, int loop)
{
    if (u->loop != loop)
        return refuse(u, place_of(u, u->form.loops[loop].head), "two loops are left at once");
    u->now.v[u->again] = (slot){u->yes, 0};
    end_turn(u, TO_NEXT);
    return true;
}

/* A place, and on to the next one: -1 when it cannot be. */
static int lift_place(lifter *u, int place)
{
    const tpi_form *f = &u->form;
    if (place == f->end) {
        refuse(u, TPI_AT(NULL, 0), "two loops are left at once");
        return -1;
    }
    if (place > f->end) {
        const int loop = place - f->end - 1;
        return lift_next_turn(u, loop) ? f->loops[loop].exit : -1;
    }
    if (!lift_block(u, place))
        return -1;
    if (look_of(u, place))
        return lift_cond(u, place, f->join[place]) ? f->join[place] : -1;
    return f->n_ways[place] ? place_behind(u, &f->ways[place][0]) : f->end;
}

static bool lift_on(lifter *u, int place, int stop, bool in_turn)
{
    while (place != stop || in_turn) {
        const int loop =
            in_turn || place >= u->form.end ? -1 : tpi_form_loop_at(&u->form, place);
        in_turn = false;
        if (loop < 0)
            place = lift_place(u, place);
        else
            place = lift_loop(u, loop) ? u->form.loops[loop].exit : -1;
        if (place < 0)
            return false;
    }
    if (u->loop >= 0 && stop == u->form.loops[u->loop].exit)
        end_turn(u, OUT);
    return true;
}

static bool begin(lifter *u, tp_tensor *const *in)
{
    const tpi_flow *w = u->w;
    for (int i = 0; i < u->n_slots; i++)
        set_slot(u, i, (slot){NULL, BOTH});
    for (int i = 0; i < w->n_externs; i++) {
        const tpi_extern *e = &w->externs[i];
        tp_tensor *t = e->from == TPI_FROM_ARG
                           ? in[e->arg]
                           : tpi_graph_lift(u->top, TPI_AT(NULL, 0), e->tensor);
        if (!good(t))
            return false;
        set_slot(u, i, (slot){t, 0});
    }
    for (int i = w->n_externs; i < u->bs->n_regs; i++)
        if (u->bs->regs[i].init >= 0)
            set_slot(u, i, u->now.v[u->bs->regs[i].init]);
    u->yes = tpi_graph_lift(u->top, TPI_AT(NULL, 0), tp_scalar_at(NULL, 0, u->ctx, TP_BOOL, 1));
    u->no = tpi_graph_lift(u->top, TPI_AT(NULL, 0), tp_scalar_at(NULL, 0, u->ctx, TP_BOOL, 0));
    set_slot(u, u->again, (slot){u->no, 0});
    return good(u->yes) && good(u->no);
}

static bool lift(lifter *u, tp_tensor *const *in, tp_tensor **out)
{
    const tpi_flow *w = u->w;
    if (!tpi_form_find(u->w, &u->form)) {
        if (u->form.why)
            return refuse(u, u->form.where, u->form.why);
        return no_memory(u);
    }
    const int entry = w->nodes[w->nodes[TPI_ENTRY_NODE].edges[0].to].block;
    if (!begin(u, in) || !lift_on(u, entry, u->form.end, false))
        return false;
    for (int i = 0; i < w->n_out; i++) {
        out[i] = u->now.v[u->results + i].t;
        if (!out[i] || u->now.v[u->results + i].bad)
            return refuse(u, TPI_AT(NULL, 0), "a way through it gives no result");
    }
    return true;
}

bool tpi_flow_lift(tpi_flow *w, tp_graph *g, tp_tensor *const *in, tp_tensor **out,
                   const char **why, tpi_at *where)
{
    tp_ctx *ctx = w->ctx;
    lifter u = {.w = w, .bs = w->blocks, .ctx = ctx, .top = g, .g = g, .loop = -1};
    u.results = u.bs->n_regs;
    u.again = u.results + w->n_out;
    u.n_slots = u.again + 1;
    tp_graph *tracing = ctx->tracing;
    const bool recording = ctx->recording;
    ctx->recording = true;
    put_in(&u, g);
    const size_t bytes = (size_t)u.n_slots * sizeof *u.now.v;
    slot *slots = u.now.v = tpi_take(&ctx->mem, bytes);
    u.now.ways = BOTH;
    const bool ok = slots ? lift(&u, in, out) : no_memory(&u);
    if (slots)
        tpi_form_free(&u.form);
    tpi_give_back(&ctx->mem, slots, bytes);
    ctx->recording = recording;
    ctx->tracing = tracing;
    *why = u.why;
    *where = u.where;
    return ok;
}
