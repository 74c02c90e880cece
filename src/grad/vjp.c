#include "grad/vjp.h"

#include "op/add_rows.h"
#include "op/turn_values.h"

#include <string.h>

/* ---- what depends on what ---------------------------------------------------------------------- */

void tpi_body_depends(const tpi_body *b, const bool *params, bool *depends)
{
    const tp_graph *g = b->graph;
    memset(depends, 0, (size_t)g->n_nodes);
    for (int i = 0; i < b->n_params; i++)
        depends[b->params[i]->index] = params[i];
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        if (!tpi_passes_gradient(t))
            continue;
        for (int k = tpi_way_first(TPI_WAY_CALLS, t); k < t->n_in && !depends[i]; k++)
            depends[i] = depends[t->in[k]->index];
    }
}

void tpi_body_reach(const tpi_body *b, const bool *depends, bool *reached)
{
    const tp_graph *g = b->graph;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const tp_tensor *t = g->nodes[i];
        if (!reached[i] || !depends[i] || !tpi_passes_gradient(t))
            continue;
        for (int k = tpi_way_first(TPI_WAY_CALLS, t); k < t->n_in; k++)
            reached[t->in[k]->index] |= depends[t->in[k]->index];
    }
}

/* ---- the scratch body -------------------------------------------------------------------------- */

static bool no_memory(const tpi_vjp *v)
{
    tpi_no_memory(v->s->ctx, v->at, "gradient");
    return false;
}

bool tpi_vjp_open(tpi_vjp *v, tpi_sweep *s, tp_tensor *block, tpi_body *from)
{
    tp_ctx *ctx = s->ctx;
    *v = (tpi_vjp){.s = s,
                   .at = TPI_AT(block->file, block->line),
                   .g = block->graph,
                   .from = from,
                   .n_forward = from->graph->n_nodes,
                   .n_params = from->n_params,
                   .taps = {.ctx = ctx}};
    const size_t bytes = 3 * (size_t)v->n_params * sizeof *v->dx;
    v->dx = tpi_take(&ctx->mem, bytes);
    if (!v->dx)
        return no_memory(v);
    if (bytes)
        memset(v->dx, 0, bytes);
    v->state = v->dx + v->n_params;
    v->joined = v->state + v->n_params;
    v->work = tpi_body_new(v->g, v->at);
    if (v->work && tpi_copy_body(from, v->work))
        return true;
    tpi_vjp_close(v);
    return false;
}

/* Gives the cut up. */
static void uncut(tpi_vjp *v)
{
    tpi_mem *m = &v->s->ctx->mem;
    const size_t n = (size_t)v->n_nodes;
    tpi_give_back(m, v->need, n);
    tpi_give_back(m, v->given, n);
    tpi_give_back(m, v->made, n * sizeof *v->made);
    tpi_nodes_free(&v->taps);
    v->need = v->given = NULL;
    v->made = NULL;
    v->n_nodes = 0;
}

void tpi_vjp_close(tpi_vjp *v)
{
    uncut(v);
    tpi_give_back(&v->s->ctx->mem, v->dx, 3 * (size_t)v->n_params * sizeof *v->dx);
    if (v->work)
        tpi_body_drop(v->g, v->work);
    v->work = NULL;
}

tp_tensor *tpi_vjp_param(tpi_vjp *v, const tp_tensor *like, bool lead)
{
    return tpi_body_param(v->work, v->at, (tp_dtype)like->dtype, like->rank - lead,
                          like->shape + lead, NULL);
}

/* ---- the sweep --------------------------------------------------------------------------------- */

static bool start(const tpi_vjp *v, tpi_sweep *in, int n, const tpi_seed *seeds)
{
    tpi_nodes roots = {.ctx = v->s->ctx};
    for (int i = 0; i < n; i++)
        tpi_nodes_push(&roots, v->work->outputs[seeds[i].output]);
    bool ok = !roots.failed || no_memory(v);
    ok = ok &&
         tpi_sweep_start(in, v->s->ctx, v->at, n, roots.v, v->n_params, v->work->params, true);
    tpi_nodes_free(&roots);
    return ok;
}

/* A node of work, which owns it; or the failed tensor. */
static tp_tensor *take_node(const tpi_vjp *v, tp_tensor *t)
{
    return t->status == TP_OK ? tpi_graph_lift(v->work->graph, v->at, t) : t;
}

/* The contributions. */
static bool take_sums(tpi_vjp *v, const tpi_sweep *in)
{
    bool ok = true;
    for (int i = 0; i < v->n_params && ok; i++) {
        const int slot = v->work->params[i]->slot;
        if (in->depends[slot] && in->grad[slot]) {
            v->dx[i] = take_node(v, in->grad[slot]);
            ok = v->dx[i]->status == TP_OK;
        }
        if (v->state[i] && tpi_sweep_went_on(in, slot) && ok) {
            v->joined[i] = take_node(v, in->shared[slot].state);
            ok = v->joined[i]->status == TP_OK;
        }
    }
    return ok;
}

tp_tensor *tpi_vjp_state(tpi_vjp *v, int i)
{
    int64_t shape[2];
    const tp_tensor *w = v->work->params[i];
    if (!v->state[i])
        v->state[i] = tpi_rows_shape(w, shape)
                          ? tpi_body_param(v->work, v->at, (tp_dtype)w->dtype, 2, shape, NULL)
                          : tpi_no_memory(v->s->ctx, v->at, "gradient");
    return v->state[i];
}

/* Matrices whose products, or blocks and calls with products, are inside go on with a state. */
static bool take_states(tpi_vjp *v, tpi_sweep *in)
{
    bool ok = true;
    for (int i = 0; i < v->n_params && in->shared && ok; i++) {
        const int slot = v->work->params[i]->slot;
        if (!in->outer[slot] || !in->shared[slot].users)
            continue;
        tp_tensor *state = tpi_vjp_state(v, i);
        ok = state->status == TP_OK;
        tpi_sweep_go_on(in, slot, state);
    }
    return ok;
}

bool tpi_vjp_begin(tpi_vjp *v, tpi_sweep *in, const bool *depends, const bool *outer, int n,
                   const tpi_seed *seeds)
{
    *in = (tpi_sweep){.ctx = v->s->ctx, .nodes = {.ctx = v->s->ctx}};
    if (!tpi_sweep_enter(v->s, v->from->graph->nodes[0]) || !start(v, in, n, seeds))
        return false;
    in->depth = v->s->depth + 1;
    in->enters = v->s->ctx->caller.recording;
    in->left = v->s->left - in->nodes.n;
    for (int i = 0; i < v->n_params; i++) {
        const int slot = v->work->params[i]->slot;
        in->depends[slot] = depends[i];
        in->outer[slot] = outer[i] && v->work->params[i]->rank == 2;
    }
    tpi_sweep_spread(in);
    const bool found = tpi_sweep_find_products(in) && take_states(v, in);
    for (int i = 0; i < n; i++) {
        const tp_tensor *root = v->work->outputs[seeds[i].output];
        tp_tensor *dy = tpi_enter_turns(v->at, seeds[i].dy);
        tpi_ref(dy);
        tpi_sweep_seed(in, root, root->slot, dy);
    }
    return found;
}

bool tpi_vjp_end(tpi_vjp *v, tpi_sweep *in, bool swept)
{
    const bool ok = swept && take_sums(v, in);
    v->s->left = in->left;
    tpi_sweep_done(in);
    return ok;
}

/* ---- the cut ----------------------------------------------------------------------------------- */

static bool is_forward(const tpi_vjp *v, const tp_tensor *t)
{
    return t->index < v->n_forward;
}

/* What a gradient inside made of the forward part: one more result of a call, or output of a block. */
static bool is_made_result(const tpi_vjp *v, const tp_tensor *t)
{
    return tpi_inside_of(t) && !is_forward(v, t) && is_forward(v, tpi_token_of(t));
}

static bool is_port(const tpi_vjp *v, const tp_tensor *t)
{
    const tp_tensor *block = tpi_block_of(t);
    return (block && is_forward(v, block)) || is_made_result(v, t);
}

/* What the call's sweep reads, the value inside, is what the call of that sweep is over, its result:
 * one param stands for both. */
void tpi_vjp_set(tpi_vjp *v, const tp_tensor *t, tp_tensor *node)
{
    v->made[t->index] = node;
    for (; is_made_result(v, t); t = t->in[0])
        v->made[t->in[0]->index] = node;
}

/* One node that is needed: a tap, or something to be made again in the backward body. */
static void need_one(tpi_vjp *v, const bool *kept, tp_tensor *t)
{
    if (tpi_param_of(t)) {
        if (is_forward(v, t) && kept[tpi_index_of(t)])
            tpi_nodes_push(&v->taps, t);
        return;
    }
    if (t->op->kind == TPI_SOURCE && t->n_in)
        return; /* a constant */
    if (is_forward(v, t) || is_port(v, t)) {
        if (!v->given[t->index])
            tpi_nodes_push(&v->taps, t);
        for (const tp_tensor *u = t; is_made_result(v, u); u = u->in[0])
            v->given[u->in[0]->index] = true;
        return;
    }
    for (int k = 0; k < t->n_in; k++)
        v->need[t->in[k]->index] = true;
}

bool tpi_vjp_cut(tpi_vjp *v, const bool *kept, int n, tp_tensor *const *out)
{
    tpi_mem *m = &v->s->ctx->mem;
    const size_t n_nodes = (size_t)v->work->graph->n_nodes;
    uncut(v);
    v->need = tpi_take(m, n_nodes);
    v->given = tpi_take(m, n_nodes);
    v->made = tpi_take(m, n_nodes * sizeof *v->made);
    if (v->need)
        memset(v->need, 0, n_nodes);
    if (v->given)
        memset(v->given, 0, n_nodes);
    if (v->made)
        memset(v->made, 0, n_nodes * sizeof *v->made);
    v->n_nodes = (int)n_nodes;
    if (!v->need || !v->given || !v->made)
        return no_memory(v);
    for (int i = 0; i < n; i++)
        v->need[out[i]->index] = true;
    for (int i = v->n_nodes - 1; i >= 0; i--)
        if (v->need[i])
            need_one(v, kept, v->work->graph->nodes[i]);
    for (int i = 0, k = v->taps.n - 1; i < k; i++, k--) { /* in program order */
        tp_tensor *t = v->taps.v[i];
        v->taps.v[i] = v->taps.v[k];
        v->taps.v[k] = t;
    }
    for (int i = 0; i < v->n_forward; i++) {
        const tp_tensor *t = v->work->graph->nodes[i];
        if (tpi_is_block(t) && !tpi_mirror_block(t, v->from->graph->nodes[i]))
            return false;
    }
    return !v->taps.failed || no_memory(v);
}

/* The node of the forward body that t of work is the copy of, which is made if it was made in work. */
static tp_tensor *origin_of(tpi_vjp *v, const tp_tensor *t)
{
    tp_graph *g = v->from->graph; /* whose list of nodes moves when it grows */
    const tpi_at at = TPI_AT(t->file, t->line);
    if (is_forward(v, t))
        return g->nodes[t->index];
    if (tpi_block_of(t))
        return tpi_output_node(g, at, g->nodes[t->in[0]->index], tpi_index_of(t));
    tp_tensor *const first = origin_of(v, t->in[0]);
    tp_tensor *const in[] = {first, g->nodes[t->in[1]->index]};
    return first->status == TP_OK ? tpi_graph_node(g, at, t->op, 2, in, NULL,
                                                   (tp_dtype)t->dtype, t->rank, t->shape)
                                  : first;
}

tp_tensor *tpi_vjp_origin(tpi_vjp *v, int i)
{
    return origin_of(v, v->taps.v[i]);
}

bool tpi_vjp_fill(tpi_vjp *v, tpi_body *to)
{
    tpi_nodes in = {.ctx = v->s->ctx};
    bool ok = true;
    for (int i = 0; i < v->n_nodes && ok; i++) {
        const tp_tensor *t = v->work->graph->nodes[i];
        if (!v->need[i] || v->made[i])
            continue;
        in.n = 0;
        for (int k = 0; k < t->n_in && t->op->kind != TPI_SOURCE; k++)
            tpi_nodes_push(&in, v->made[t->in[k]->index]);
        ok = !in.failed || no_memory(v);
        v->made[i] = ok ? tpi_copy_node(in.ctx, to->graph, t, in.v) : NULL;
        ok = ok && v->made[i]->status == TP_OK;
    }
    tpi_nodes_free(&in);
    return ok;
}

/* ---- the block ------------------------------------------------------------------------------- */

void tpi_set_sum(tpi_sweep *s, const tp_tensor *block, int k, tp_tensor *sum)
{
    const int slot = block->in[k]->slot;
    tpi_ref(sum);
    tpi_unref(s->grad[slot]);
    s->grad[slot] = sum;
}

tp_tensor *tpi_output_of(tp_tensor *block, int64_t index)
{
    return tpi_output_node(block->graph, TPI_AT(block->file, block->line), block, index);
}
