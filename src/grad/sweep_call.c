/* Calls in a sweep: where the sweep inside begins, and what it gives. */
#include "grad/sweep_call.h"

#include "op/call.h"
#include "op/turn_values.h"

#include <string.h>

static int64_t function_of(const tp_tensor *call)
{
    return ((const tpi_call_attrs *)call->attrs)->function;
}

/* ---- where the sweep inside begins and ends -------------------------------------------------- */

/* The values inside of the results met, oldest first, in memory to give back; NULL: no memory. */
static tp_tensor **roots_inside(const tpi_sweep *s, int call, int *n)
{
    *n = 0;
    for (int i = s->met[call]; i >= 0; i = s->met[i])
        (*n)++;
    tp_tensor **roots = tpi_take(&s->ctx->mem, (size_t)*n * sizeof *roots);
    for (int i = s->met[call], k = 0; roots && i >= 0; i = s->met[i])
        roots[k++] = s->nodes.v[i]->in[0];
    return roots;
}

static bool is_operand(const tp_tensor *call, const tp_tensor *t)
{
    bool is = false;
    for (int k = 0; k < call->n_in && !is; k++)
        is = call->in[k] == t;
    return is;
}

/* What nodes inside read instead of operand k of a sweep's call: an inner value of the call it was
 * the sweep of, of which the operand is the result. What went through another call untouched, and is
 * an operand too, is no such value. NULL: none. */
static tp_tensor *inner_of(const tp_tensor *call, int k)
{
    const tp_tensor *t = call->in[k];
    tp_tensor *x = function_of(call) == TPI_CALL_SWEEP ? tpi_inside_of(t) : NULL;
    return x && !is_operand(call, x) ? x : NULL;
}

/* The operands, and what is read instead of them; NULL: no memory. */
static tp_tensor **ends_inside(const tpi_sweep *s, const tp_tensor *call, int *n)
{
    *n = call->n_in;
    tp_tensor **ends = tpi_take(&s->ctx->mem, 2 * (size_t)call->n_in * sizeof *ends);
    for (int k = 0; k < call->n_in && ends; k++)
        ends[k] = call->in[k];
    for (int k = 0; k < call->n_in && ends; k++)
        if (inner_of(call, k))
            ends[(*n)++] = inner_of(call, k);
    return ends;
}

/* Is this a turn, or the side of an if, or the sweep of one, so that it is a call in gradients of
 * gradients too? */
static bool is_turn(const tp_tensor *call)
{
    const int64_t function = tpi_is_block(call) ? TPI_CALL_BLOCK : function_of(call);
    return function == TPI_CALL_BLOCK || function == TPI_CALL_SWEEP;
}

static bool take_ends(tpi_sweep *in, const tpi_sweep *s, const tp_tensor *call, int n_roots,
                      tp_tensor *const *roots)
{
    int n;
    tp_tensor **ends = ends_inside(s, call, &n);
    if (!ends) {
        tpi_no_memory(s->ctx, s->at, "gradient");
        return false;
    }
    const bool ok = tpi_sweep_start(in, s->ctx, s->at, n_roots, roots, n, ends, true);
    tpi_give_back(&s->ctx->mem, ends, 2 * (size_t)call->n_in * sizeof *ends);
    for (int k = 0; k < call->n_in && ok; k++) {
        const int i = call->in[k]->slot;
        in->depends[i] = s->depends[in->outside[i]];
        in->outer[i] = call->in[k]->rank == 2;
        if (inner_of(call, k))
            in->depends[inner_of(call, k)->slot] = in->depends[i];
    }
    return ok;
}

/* To gradients of gradients a cotangent enters the sweep of a turn as what a loop carries enters the
 * loop and the turn: as a node of its own. */
static bool enter_turn(tpi_sweep *s, const tp_tensor *call, int slot)
{
    bool ok = true;
    for (int i = s->met[slot]; i >= 0 && ok; i = s->met[i]) {
        tp_tensor *t = tpi_enter_turns(TPI_AT(call->file, call->line), s->grad[i]);
        ok = t->status == TP_OK;
        tpi_ref(t);
        tpi_unref(s->grad[i]);
        s->grad[i] = t;
    }
    return ok;
}

/* What the sums outside of matrices that are read inside are so far. A sweep that leaves nodes takes
 * them into a turn, as a loop of a graph carries them, and into a function with a turn in it. */
static bool take_states(tpi_sweep *in, tpi_sweep *s, const tp_tensor *call)
{
    if (!in->shared || !(call->graph || s->ctx->caller.recording))
        return true;
    for (int k = 0; k < call->n_in; k++) {
        const int i = call->in[k]->slot;
        const tpi_right_matrix *w = &in->shared[i];
        if (!in->outer[i] || w->state || w->users <= (is_turn(call) ? 0 : w->products))
            continue;
        tp_tensor *state = tpi_sweep_state(s, TPI_AT(call->file, call->line), in->outside[i]);
        if (!state)
            return false;
        tpi_sweep_go_on(in, i, state);
    }
    return true;
}

/* The sweep inside starts at the values of the results met. */
static bool start_inside(tpi_call_sweep *c)
{
    tpi_sweep *s = c->s, *in = &c->in;
    c->roots = roots_inside(s, c->slot, &c->n_roots);
    if (!c->roots) {
        tpi_no_memory(s->ctx, s->at, "gradient");
        return false;
    }
    if (!take_ends(in, s, c->call, c->n_roots, c->roots))
        return false;
    in->depth = s->depth + 1;
    in->enters = is_turn(c->call) && s->ctx->caller.recording;
    in->left = s->left - in->nodes.n;
    tpi_sweep_spread(in);
    return tpi_sweep_find_products(in) && take_states(in, s, c->call);
}

/* The gradients of the results met are what it begins with. */
static bool seed_inside(tpi_call_sweep *c)
{
    tpi_sweep *s = c->s;
    if (is_turn(c->call) && s->ctx->caller.recording && !enter_turn(s, c->call, c->slot))
        return false; /* they entered outside already; this is inside */
    for (int i = s->met[c->slot], k = 0; i >= 0; i = s->met[i]) {
        tpi_ref(s->grad[i]);
        tpi_sweep_seed(&c->in, c->call, c->roots[k++]->slot, s->grad[i]);
    }
    return true;
}

/* What is read inside instead of an operand gives what it got to the operand. */
static void give_to_operands(tpi_sweep *in, const tp_tensor *call)
{
    for (int k = 0; k < call->n_in; k++) {
        const tp_tensor *inner = inner_of(call, k);
        if (!inner || !in->grad[inner->slot])
            continue;
        tp_tensor *dx = in->grad[inner->slot];
        in->grad[inner->slot] = NULL;
        tpi_sweep_fold(in, call, call->in[k]->slot, dx);
    }
}

/* ---- a recorded sweep of a turn is a call ------------------------------------------------------- */

/* Where t is: results are where their calls are, outputs where their blocks are. */
static const tp_tensor *place_of(const tp_tensor *t)
{
    const tp_tensor *token = tpi_token_of(t);
    return token ? token : t;
}

/* Was t there before the sweep began? */
static bool is_older(void *user, const tp_tensor *t)
{
    const uint64_t *began = user;
    return place_of(t)->seq < *began;
}

/* What was computed inside the turn, functions that it called included, by seq. */
static bool find_inside(const tpi_sweep *s, const tpi_sweep *in, const tp_tensor *call,
                        int slot, tpi_nodes *out)
{
    int n_ends, n_roots;
    *out = (tpi_nodes){.ctx = s->ctx, .folded = in->nodes.folded, .whole = in->nodes.whole};
    bool some = false; /* functions; else the sweep has seen all */
    for (int i = 0; i < in->nodes.n && !some; i++)
        some = tpi_has_inside(in->nodes.v[i]) && !is_turn(in->nodes.v[i]);
    if (!some)
        return true;
    tp_tensor **ends = ends_inside(s, call, &n_ends), **roots = roots_inside(s, slot, &n_roots);
    const bool ok = ends && roots && tpi_collect_from(out, n_roots, roots, n_ends, ends);
    if (ends)
        tpi_give_back(&s->ctx->mem, ends, 2 * (size_t)call->n_in * sizeof *ends);
    if (roots)
        tpi_give_back(&s->ctx->mem, roots, (size_t)n_roots * sizeof *roots);
    return ok;
}

static bool is_among(const tpi_nodes *l, const tp_tensor *t)
{
    int low = 0, high = l->n;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (l->v[mid]->seq < t->seq)
            low = mid + 1;
        else
            high = mid;
    }
    while (low < l->n && l->v[low]->seq == t->seq && l->v[low] != t)
        low++;
    return low < l->n && l->v[low] == t;
}

static bool is_inside(const tpi_sweep *in, const tpi_nodes *all, const tp_tensor *t)
{
    return tpi_in_sweep(in, t) ? !in->ends[t->slot] : is_among(all, t);
}

/* An operand of the sweep's call: what it reads of the inside of the turn is made a result, what
 * it reads instead of an operand of this call is that operand. */
static tp_tensor *operand_for(const tpi_sweep *in, const tpi_nodes *all, tpi_at at,
                              tp_tensor *call, tp_tensor *t)
{
    for (int k = 0; k < call->n_in; k++)
        if (call->in[k]->in && call->in[k]->in[0] == t && inner_of(call, k) == t)
            return call->in[k];
    const tp_tensor *where = tpi_in_sweep(in, t) ? t : place_of(t);
    return is_inside(in, all, where) ? tpi_call_result(at, t, call) : t;
}

static bool asks(const tp_tensor *t)
{
    return t->status == TP_OK && t->dtype >= TP_F32 && (t->flags & TPI_REQUIRES);
}

/* The operands of the sweep's call: what its contributions were computed from. */
static bool find_operands(const tpi_sweep *in, const tpi_nodes *inside, tpi_at at,
                          tp_tensor *call, uint64_t began, int n, tp_tensor *const *dx,
                          tpi_nodes *out)
{
    tpi_nodes all = {.ctx = in->ctx,
                     .way = TPI_WAY_CALLS,
                     .folded = in->nodes.folded,
                     .whole = in->nodes.whole};
    bool ok = tpi_collect(&all, n, dx, is_older, &began);
    for (int i = 0; i < all.n && ok; i++) {
        if (!is_older(&began, all.v[i]) || !asks(all.v[i]))
            continue;
        tp_tensor *t = operand_for(in, inside, at, call, all.v[i]);
        ok = t->status == TP_OK;
        tpi_nodes_push(out, t);
    }
    ok = ok && !out->failed;
    tpi_nodes_free(&all);
    return ok;
}

/* Each dx[i] that gradients go through becomes a result of one call. */
static bool tie_results(tpi_at at, const tpi_nodes *operands, int n, tp_tensor **dx)
{
    tp_tensor *token = NULL;
    for (int i = 0; i < n; i++) {
        if (!asks(dx[i]))
            continue;
        if (!token)
            token = tpi_call_new(at, TPI_CALL_SWEEP, operands->n, operands->v);
        tp_tensor *t = tpi_call_result(at, dx[i], token);
        if (t->status != TP_OK)
            return false;
        tpi_ref(t);
        tpi_unref(dx[i]);
        dx[i] = t;
    }
    return true;
}

/* What a call adds up at its operands. */
typedef struct sums {
    int n;
    tp_tensor **dx; /* one reference each; the last n_states are states */
    int n_states;
    int *slot;  /* of the sweep outside */
    bool added; /* the sums so far are in dx */
} sums;

/* Is this a turn, whose sweep is recorded? */
static bool is_tied(const tp_tensor *call, const sums *g)
{
    const int64_t function = function_of(call);
    bool is = (function == TPI_CALL_BLOCK || function == TPI_CALL_SWEEP) &&
              call->ctx->caller.recording;
    for (int i = 0; i < g->n && is; i++)
        is = g->dx[i]->status == TP_OK;
    return is;
}

/* The contributions are tied to a call, to which the sums so far go too: so do running sums in
 * the loop that is the gradient of a loop. False: no memory. */
static bool tie(const tpi_sweep *s, const tpi_sweep *in, const tp_tensor *call, int slot,
                uint64_t began, sums *g)
{
    const tpi_at at = TPI_AT(call->file, call->line);
    for (int i = 0; i < g->n - g->n_states; i++) {
        tp_tensor *sum = s->grad[g->slot[i]];
        if (!sum)
            continue;
        tp_tensor *more = tp_add_at(at.file, at.line, sum, g->dx[i]);
        tpi_ref(more);
        tpi_unref(g->dx[i]);
        g->dx[i] = more;
    }
    g->added = true;
    tpi_nodes operands = {.ctx = in->ctx}, inside;
    bool ok = find_inside(s, in, call, slot, &inside) &&
              find_operands(in, &inside, at, (tp_tensor *)call, began, g->n, g->dx, &operands);
    if (ok && operands.n)
        ok = tie_results(at, &operands, g->n, g->dx);
    if (!ok)
        tpi_no_memory(in->ctx, in->at, "gradient");
    tpi_nodes_free(&inside);
    tpi_nodes_free(&operands);
    return ok;
}

static void hand_over(tpi_sweep *s, const tp_tensor *call, const sums *g)
{
    for (int i = 0; i < g->n; i++) {
        if (i >= g->n - g->n_states) {
            tpi_sweep_set_state(s, g->slot[i], g->dx[i]);
            tpi_unref(g->dx[i]);
            continue;
        }
        tp_tensor **sum = &s->grad[g->slot[i]];
        if (g->added) {
            tpi_unref(*sum);
            *sum = NULL;
        }
        tpi_sweep_fold(s, call, g->slot[i], g->dx[i]);
    }
}

/* What has added up at the operands goes to the sweep outside. */
static bool give_out(tpi_sweep *s, tpi_sweep *in, const tp_tensor *call, int slot,
                     uint64_t began)
{
    tpi_mem *m = &s->ctx->mem;
    const size_t most = 2 * (size_t)call->n_in;
    sums g = {.dx = tpi_take(m, most * sizeof *g.dx),
              .slot = tpi_take(m, most * sizeof *g.slot)};
    for (int k = 0; k < call->n_in && g.dx && g.slot; k++) {
        const int i = call->in[k]->slot;
        if (!in->depends[i] || !in->grad[i])
            continue;
        g.slot[g.n] = in->outside[i];
        g.dx[g.n++] = in->grad[i];
        in->grad[i] = NULL; /* an operand may come twice */
    }
    for (int k = 0; k < call->n_in && g.dx && g.slot && in->shared; k++) {
        const int i = call->in[k]->slot;
        tpi_right_matrix *w = &in->shared[i];
        if (!in->outer[i] || !tpi_sweep_went_on(in, i))
            continue;
        g.slot[g.n] = in->outside[i];
        g.dx[g.n++] = w->state;
        g.n_states++;
        w->state = NULL;
    }
    bool ok = g.dx && g.slot;
    if (!ok)
        tpi_no_memory(s->ctx, s->at, "gradient");
    else if (g.n && is_tied(call, &g))
        ok = tie(s, in, call, slot, began, &g);
    hand_over(s, call, &g);
    tpi_give_back(m, g.dx, most * sizeof *g.dx);
    tpi_give_back(m, g.slot, most * sizeof *g.slot);
    return ok;
}

/* ---- from outside -------------------------------------------------------------------------------- */

static bool refuse_replayed(const tpi_sweep *s, const tp_tensor *call)
{
    if (!tpi_is_replayed_call(call))
        return true;
    tpi_fail(
        s->ctx, TPI_AT(call->file, call->line), "gradient", TP_E_STATE,
        "a pure function was replayed here, which keeps nothing that a gradient from outside "
        "could be computed from: ask for it inside the function, or call that once more, as "
        "from now on such calls run C");
    return false;
}

bool tpi_sweep_call_begin(tpi_call_sweep *c, tpi_sweep *s, const tp_tensor *call, int slot)
{
    tp_ctx *ctx = s->ctx;
    *c = (tpi_call_sweep){
        .s = s, .call = call, .slot = slot, .in = {.ctx = ctx, .nodes = {.ctx = ctx}}
    };
    if (is_turn(call) && ctx->caller.recording && !enter_turn(s, call, slot))
        return false;
    const bool started = start_inside(c);
    c->began = ctx->caller.seq;
    c->hooks = started ? ctx->call_hooks : NULL;
    c->begun = c->hooks ? c->hooks->sweep_begin(ctx, call, s->at) : NULL;
    return started && refuse_replayed(s, call) && seed_inside(c);
}

bool tpi_sweep_call_end(tpi_call_sweep *c, bool swept)
{
    tpi_sweep *s = c->s, *in = &c->in;
    if (swept)
        give_to_operands(in, c->call);
    if (c->hooks)
        c->hooks->sweep_end(s->ctx, c->begun);
    if (c->roots)
        tpi_give_back(&s->ctx->mem, c->roots, (size_t)c->n_roots * sizeof *c->roots);
    s->left = in->left;
    const bool ok =
        swept && give_out(s, in, c->call, c->slot, c->began) && tpi_sweep_hand_out(s, in);
    tpi_sweep_done(in);
    return ok;
}
