/* Lifting of loops: see lift.c. */
#include "capture/lift/lift_def.h"

#include <string.h>

typedef struct looping {
    const tpi_form_loop *l;
    int k;                /* number of the loop */
    bool guarded;         /* it begins with its guard */
    bool negated;         /* a turn is taken when that is false */
    tpi_form_way in, out; /* of the guard: into a turn, out of the loop */
    tp_tensor *pred;
    tpi_lift_state before; /* the first turn */
    uint8_t *bad;          /* by slot: nothing before some turn */
    int32_t *of;           /* by slot: which carried value it is; -1: it does not change */
    int n_carried;
    tp_tensor **init;
    tpi_bits *live;
} looping;

/* Does every way from here lead to the next turn? */
static bool is_turn(const tpi_lifter *u, const looping *x, int place)
{
    const int next = u->form.end + 1 + x->k;
    const size_t words = (size_t)tpi_bit_words(u->form.n);
    return place == next || (place < u->form.n_blocks &&
                             tpi_bit_has(u->form.after + (size_t)place * words, next));
}

/* A first block that ends with a look, of which one side is a turn and the other the way out. */
static void find_guard(const tpi_lifter *u, looping *x)
{
    const tpi_form_way *way = u->form.ways[x->l->head];
    for (int k = 0; k < 2 && u->form.n_ways[x->l->head] == 2; k++)
        if (is_turn(u, x, tpi_lift_behind(u, &way[k])) &&
            tpi_lift_behind(u, &way[!k]) == x->l->exit) {
            x->guarded = true;
            x->negated = k;
            x->in = way[k];
            x->out = way[!k];
        }
}

/* The guard, where nodes are put now: is a turn to be taken? */
static tp_tensor *lift_guard(tpi_lifter *u, const looping *x)
{
    const int head = x->l->head;
    tp_tensor *t = tpi_lift_block(u, head) ? tpi_lift_condition(u, head) : NULL;
    if (t && x->negated) {
        const tpi_at at = tpi_lift_look(u, head)->at;
        t = tp_not_at(at.file, at.line, t);
    }
    return tpi_lift_good(t) ? t : NULL;
}

static bool carry(looping *x, int i, tp_tensor *init)
{
    if (!init)
        return false;
    x->of[i] = x->n_carried;
    x->init[x->n_carried++] = init;
    return true;
}

/* The body: params, a turn, the condition of the next one. */
static tpi_body *lift_turn(tpi_lifter *u, looping *x, tpi_at at, tp_tensor **pred)
{
    tp_graph *g = u->g;
    tpi_body *body = tpi_body_new(g, at);
    bool ok = body && tpi_lift_good(tpi_body_param(body, at, TP_I64, 0, NULL, NULL));
    for (int i = 0; i < x->n_carried && ok; i++) {
        tp_tensor *t = x->init[i] = tpi_graph_lift(g, at, x->init[i]);
        ok = tpi_lift_good(t) &&
             tpi_lift_good(tpi_body_param(body, at, (tp_dtype)t->dtype, t->rank, t->shape, t));
    }
    if (!ok)
        return NULL;
    u->now.ways = TPI_BOTH;
    u->now.ended = false;
    for (int i = 0; i < u->n_slots; i++) {
        tpi_lift_set(u, i, x->before.v[i]);
        u->now.v[i].bad |= x->bad[i];
        if (x->of[i] >= 0)
            u->now.v[i].t = body->params[1 + x->of[i]];
    }
    u->now.v[u->again] = (tpi_lift_slot){u->no, 0};
    const int loop = u->loop;
    u->loop = x->k;
    tpi_lift_into(u, body->graph);
    if (x->guarded) {
        u->loop = -1; /* its ways are one */
        tpi_lift_pass(u, &x->in);
        ok = tpi_lift_on(u, tpi_lift_behind(u, &x->in), u->form.end + 1 + x->k, false) &&
             (*pred = lift_guard(u, x)) != NULL;
    } else {
        ok = tpi_lift_on(u, x->l->head, x->l->exit, true);
        *pred = u->now.v[u->again].t;
    }
    u->loop = loop;
    tpi_lift_into(u, g);
    return ok ? body : NULL;
}

/* Which slots matter: what a turn or what comes later reads. */
static bool matters(const tpi_lifter *u, const looping *x, int i)
{
    return i != u->again && tpi_bit_has(x->live, i);
}

/* Has slot i of the value that it is carried with (or that does not change) become another one? Where it holds nothing
 * after a turn, nothing is carried. */
static bool is_new(const tpi_lifter *u, const looping *x, int i)
{
    const tp_tensor *end = u->now.v[i].t;
    if (!end)
        return false;
    if (x->of[i] < 0)
        return end != x->before.v[i].t;
    for (int k = 0; k < i; k++)
        if (matters(u, x, k) && x->of[k] == x->of[i])
            return end != u->now.v[k].t; /* the first of them stays */
    return false;
}

/* What a carried value is after this turn; NULL: nothing is carried by it any more. */
static const tp_tensor *end_of(const tpi_lifter *u, const looping *x, int k)
{
    for (int i = 0; i < u->n_slots; i++)
        if (x->of[i] == k && matters(u, x, i))
            return u->now.v[i].t;
    return NULL;
}

/* What was taken for equal, or not to change, and is found not to be. True: the turn is to be lifted
 * again. */
static bool refine(tpi_lifter *u, looping *x, bool *ok)
{
    bool again = false;
    const int before = x->n_carried;
    for (int i = 0; i < u->n_slots && *ok; i++) {
        if (!matters(u, x, i))
            continue;
        const tpi_lift_slot *end = &u->now.v[i];
        const uint8_t to_next = x->guarded ? end->bad : end->bad & TPI_TO_NEXT ? TPI_BOTH : 0;
        const uint8_t bad = x->before.v[i].t ? x->before.v[i].bad : TPI_BOTH;
        const uint8_t now = (uint8_t)(x->bad[i] | bad | to_next);
        again |= now != x->bad[i];
        x->bad[i] = now;
        if (!is_new(u, x, i))
            continue;
        again = true;
        tp_tensor *init = x->of[i] >= 0 ? x->init[x->of[i]] : x->before.v[i].t;
        int k = 0; /* with others that become the same now, or are it */
        while (k < x->n_carried &&
               (x->init[k] != init || (k < before && end_of(u, x, k) != end->t)))
            k++;
        if (init && k < x->n_carried) {
            x->of[i] = k;
            continue;
        }
        if (!init)
            init = tpi_lift_filler(u, end->t);
        *ok = carry(x, i, init) || (u->why || tpi_lift_no_memory(u));
    }
    return again;
}

static tp_tensor *close_loop(tpi_lifter *u, looping *x, tpi_at at, tpi_body *body,
                             tp_tensor *pred, tp_tensor **end)
{
    pred = tpi_graph_lift(body->graph, at, pred);
    bool ok = tpi_lift_good(pred) && tpi_body_output(body, pred);
    for (int i = 0; i < x->n_carried && ok; i++) {
        tp_tensor *t = tpi_graph_lift(body->graph, at, end[i]);
        const tp_tensor *p = body->params[1 + i];
        ok = tpi_lift_good(t) && (p->dtype == t->dtype && tpi_same_shape(p, t)) &&
             tpi_body_output(body, t);
    }
    if (!ok) {
        tpi_lift_refuse(u, at,
                        "what a turn takes and what it makes has different types or sizes");
        return NULL;
    }
    body->closed = true;
    const tpi_loop_attrs attrs = {.body = body, .n_carried = x->n_carried, .has_pred = true};
    const size_t bytes = (size_t)body->n_params * sizeof(tp_tensor *);
    tp_tensor **in = tpi_take(&u->ctx->mem, bytes);
    if (!in) {
        tpi_lift_no_memory(u);
        return NULL;
    }
    in[0] = x->pred;
    memcpy(in + 1, body->outers + 1, bytes - sizeof *in);
    tp_tensor *node = tpi_loop_node(u->g, at, &attrs, body->n_params, in);
    tpi_give_back(&u->ctx->mem, in, bytes);
    return tpi_lift_good(node) ? node : NULL;
}

/* The loop's node; registers hold its outputs. u->now is the end of a turn. */
static bool finish(tpi_lifter *u, looping *x, tpi_at at, tpi_body *body, tp_tensor *pred)
{
    const size_t bytes = (size_t)u->n_slots * sizeof(tp_tensor *);
    tp_tensor **end = tpi_take(&u->ctx->mem, bytes);
    if (!end)
        return tpi_lift_no_memory(u);
    for (int i = 0; i < u->n_slots; i++)
        if (matters(u, x, i) && x->of[i] >= 0)
            end[x->of[i]] = u->now.v[i].t;
    tp_tensor *node = close_loop(u, x, at, body, pred, end);
    bool ok = node;
    for (int i = 0; i < x->n_carried && ok; i++) {
        end[i] = tpi_output_node(u->g, at, node, i);
        ok = tpi_lift_good(end[i]);
    }
    for (int i = 0; i < u->n_slots && ok; i++) {
        const tpi_lift_slot last = u->now.v[i];
        tpi_lift_slot *to = &u->now.v[i];
        *to = x->before.v[i];
        if (i == u->again)
            continue;
        if (!matters(u, x, i)) {
            *to = (tpi_lift_slot){NULL, TPI_BOTH};
            continue;
        }
        if (x->of[i] >= 0)
            to->t = end[x->of[i]];
        to->bad = x->guarded ? x->bad[i] : last.bad & TPI_OUT ? TPI_BOTH : 0;
    }
    u->now.ways = x->before.ways;
    u->now.ended = x->before.ended;
    tpi_give_back(&u->ctx->mem, end, bytes);
    if (ok && x->guarded)
        tpi_lift_pass(u, &x->out);
    return ok;
}

static bool lift_turns(tpi_lifter *u, looping *x, tpi_at at)
{
    x->pred = x->guarded ? lift_guard(u, x) : u->yes;
    if (!x->pred || !tpi_lift_copy(u, &u->now, &x->before))
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

bool tpi_lift_loop(tpi_lifter *u, int k)
{
    tpi_mem *m = &u->ctx->mem;
    looping x = {.l = &u->form.loops[k], .k = k};
    const size_t n = (size_t)u->n_slots;
    const tpi_at at = tpi_lift_place(u, x.l->head);
    find_guard(u, &x);
    x.live = tpi_lift_live(u);
    x.bad = tpi_take(m, n);
    x.of = tpi_take(m, n * sizeof *x.of);
    x.init = tpi_take(m, 2 * n * sizeof(tp_tensor *));
    bool ok = x.live && ((x.bad && x.of && x.init) || tpi_lift_no_memory(u));
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
        tpi_lift_keep(u, x.live);
        ok = lift_turns(u, &x, at);
    }
    tpi_lift_free(u, &x.before);
    tpi_lift_live_free(u, x.live);
    tpi_give_back(m, x.bad, n);
    tpi_give_back(m, x.of, n * sizeof *x.of);
    tpi_give_back(m, x.init, 2 * n * sizeof(tp_tensor *));
    return ok;
}
