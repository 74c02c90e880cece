/* Lifting of branches: both sides are lifted, each in a body; where a register then holds different
 * nodes, it becomes an output of the cond. */
#include "capture/lift/lift_def.h"

#include <string.h>

typedef struct pairs {
    int n;
    tp_tensor **side[2]; /* nodes, by pair */
    tp_tensor **out;
} pairs;

/* What stands for nothing: it is not read. */
tp_tensor *tpi_lift_filler(tpi_lifter *u, const tp_tensor *like)
{
    tp_tensor *zero =
        tp_full_at(NULL, 0, u->ctx, (tp_dtype)like->dtype, like->rank, like->shape, 0);
    zero = tpi_lift_good(zero) ? tpi_graph_lift(u->top, TPI_AT(NULL, 0), zero) : zero;
    return tpi_lift_good(zero) ? zero : NULL;
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
static bool join_slot(tpi_lifter *u, const tpi_lift_state *s, int i, pairs *p, int32_t *pair)
{
    tp_tensor *t[2];
    tpi_lift_slot *to = &u->now.v[i];
    to->bad = 0;
    for (int k = 0; k < 2; k++) {
        t[k] = s[k].v[i].t;
        to->bad |= t[k] ? s[k].v[i].bad : s[k].ways;
    }
    for (int k = 0; k < 2 && (t[0] || t[1]); k++)
        if (!t[k] && !(t[k] = tpi_lift_filler(u, t[!k])))
            return false;
    pair[i] = -1;
    to->t = t[0];
    if (t[0] != t[1])
        pair[i] = find_pair(p, t[0], t[1]);
    return true;
}

static tp_tensor *close_cond(tpi_lifter *u, tpi_at at, tp_tensor *pred, tpi_body *const *body,
                             const pairs *p)
{
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < p->n; i++) {
            tp_tensor *t = tpi_graph_lift(body[k]->graph, at, p->side[k][i]);
            if (!tpi_lift_good(t) || !tpi_body_output(body[k], t))
                return NULL;
            const tp_tensor *other = k ? body[0]->outputs[i] : t;
            if (other->dtype != t->dtype || !tpi_same_shape(other, t)) {
                tpi_lift_refuse(u, at, "what the two sides make has different types or sizes");
                return NULL;
            }
        }
    tp_tensor *node = tpi_cond_close(u->g, at, pred, body[0], body[1]);
    return tpi_lift_good(node) ? node : NULL;
}

/* The pairs become outputs of a cond; one of yes and no is the condition itself. */
static bool make_outputs(tpi_lifter *u, tpi_at at, tp_tensor *pred, tpi_body *const *body,
                         pairs *p)
{
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        const bool as_it_is = p->side[0][i] == u->yes && p->side[1][i] == u->no,
                   inverse = p->side[0][i] == u->no && p->side[1][i] == u->yes;
        p->out[i] = as_it_is ? pred : inverse ? tp_not_at(at.file, at.line, pred) : NULL;
        if (p->out[i] && !tpi_lift_good(p->out[i]))
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
        node = tpi_lift_good(p->out[i]) ? node : NULL;
    }
    return node;
}

/* Registers that are read at a place or later; of a turn also what the next one reads. */
static tpi_bits *live_at(tpi_lifter *u, int place)
{
    tpi_bits *live = tpi_lift_live(u);
    if (!live)
        return NULL;
    tpi_form_live(&u->form, place, live);
    if (u->loop >= 0 && place == u->form.loops[u->loop].exit)
        tpi_form_live(&u->form, u->form.loops[u->loop].head, live);
    tpi_lift_keep(u, live);
    return live;
}

static bool join_sides(tpi_lifter *u, tpi_at at, tp_tensor *pred, tpi_body *const *body,
                       const tpi_lift_state *s, int place)
{
    tpi_mem *m = &u->ctx->mem;
    const size_t n = (size_t)u->n_slots, bytes = n * sizeof(tp_tensor *);
    tpi_bits *live = live_at(u, place);
    tp_tensor **nodes = tpi_take(m, 5 * bytes);
    int32_t *pair = tpi_take(m, n * sizeof *pair);
    bool ok = live && (nodes || tpi_lift_no_memory(u)) && (pair || tpi_lift_no_memory(u));
    if (ok) {
        pairs p = {
            .side = {nodes, nodes + 2 * n},
              .out = nodes + 4 * n
        };
        u->now.ways = s[0].ways | s[1].ways;
        u->now.ended = s[0].ended && s[1].ended;
        for (int i = 0; i < u->n_slots && ok; i++) {
            pair[i] = -1;
            if (tpi_bit_has(live, i))
                ok = join_slot(u, s, i, &p, pair);
            else
                tpi_lift_set(u, i, (tpi_lift_slot){NULL, TPI_BOTH});
        }
        ok = ok && make_outputs(u, at, pred, body, &p);
        for (int i = 0; i < u->n_slots && ok; i++)
            if (pair[i] >= 0)
                u->now.v[i].t = p.out[pair[i]];
    }
    tpi_lift_live_free(u, live);
    tpi_give_back(m, nodes, 5 * bytes);
    tpi_give_back(m, pair, n * sizeof *pair);
    return ok;
}

bool tpi_lift_cond(tpi_lifter *u, int block, int join)
{
    const tpi_at at = tpi_lift_look(u, block)->at;
    const tpi_form_way *way = u->form.ways[block];
    tp_tensor *pred = tpi_lift_condition(u, block);
    if (!pred)
        return false;
    tp_graph *g = u->g;
    tpi_body *body[2] = {NULL, NULL};
    tpi_lift_state before = u->now, s[2] = {{.v = NULL}, {.v = NULL}};
    bool ok = true;
    for (int k = 0; k < 2 && ok; k++) {
        body[k] = tpi_body_new(g, at);
        ok = body[k] && tpi_lift_copy(u, &before, &s[k]);
        if (!ok)
            break;
        u->now = s[k];
        tpi_lift_into(u, body[k]->graph);
        tpi_lift_pass(u, &way[k]);
        ok = tpi_lift_on(u, tpi_lift_behind(u, &way[k]), join, false);
        s[k] = u->now;
        tpi_lift_into(u, g);
    }
    u->now = before;
    ok = ok && join_sides(u, at, pred, body, s, join);
    tpi_lift_free(u, &s[0]);
    tpi_lift_free(u, &s[1]);
    return ok;
}
