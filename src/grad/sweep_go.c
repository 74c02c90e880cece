/* The way back: node by node, and for a call or a block by a sweep inside, of this same function. The
 * gradients of blocks (cond_grad.c, loop_grad.c) have one for each of their bodies. */
#include "grad/sweep_call.h"
#include "grad/vjp.h"
#include "op/turn_values.h"

#include <string.h>

/* ---- blocks -------------------------------------------------------------------------------------- */

/* By output: what the output nodes met have added up to, a reference each. */
static void gather(const tpi_sweep *s, const tp_tensor *block, int slot, tp_tensor **cot)
{
    for (int i = s->met[slot]; i >= 0; i = s->met[i]) {
        const tp_tensor *t = s->nodes.v[i];
        tp_tensor **sum = &cot[tpi_index_of(t)];
        tp_tensor *dy =
            *sum ? tp_add_at(block->file, block->line, *sum, s->grad[i]) : s->grad[i];
        tpi_ref(dy);
        tpi_unref(*sum);
        *sum = dy;
    }
}

/* To gradients of gradients each cotangent enters as a node of its own (op/turn_values.c). */
static bool enter_block(const tp_tensor *block, int n, tp_tensor **cot)
{
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        if (!cot[i])
            continue;
        tp_tensor *t = tpi_enter_turns(TPI_AT(block->file, block->line), cot[i]);
        t = t->status == TP_OK
                ? tpi_graph_lift(block->graph, TPI_AT(block->file, block->line), t)
                : t;
        ok = t->status == TP_OK;
        tpi_ref(t);
        tpi_unref(cot[i]);
        cot[i] = t;
    }
    return ok;
}

static bool go_through_block(tpi_sweep *s, tp_tensor *block, int slot)
{
    tp_ctx *ctx = s->ctx;
    if (!tpi_sweep_enter(s, block) || tp_scope_begin(ctx) != TP_OK)
        return false;
    const int n = tpi_n_outputs_of(block); /* taps append to it */
    const size_t bytes = (size_t)n * sizeof(tp_tensor *);
    tp_tensor **cot = tpi_take(&ctx->mem, bytes);
    bool ok = cot != NULL;
    if (ok) {
        memset(cot, 0, bytes);
        gather(s, block, slot, cot);
        ok = enter_block(block, n, cot) &&
             (tpi_loop_of(block) ? tpi_loop_back : tpi_cond_back)(s, block, cot);
        for (int i = 0; i < n; i++)
            tpi_unref(cot[i]);
    } else {
        tpi_no_memory(ctx, s->at, "gradient");
    }
    tpi_give_back(&ctx->mem, cot, bytes);
    tp_scope_end(ctx);
    return ok;
}

/* ---- sweeps inside --------------------------------------------------------------------------------------- */

static bool go_through_call(tpi_sweep *s, const tp_tensor *call, int slot)
{
    tpi_call_sweep c;
    if (!tpi_sweep_enter(s, call) || tp_scope_begin(s->ctx) != TP_OK)
        return false;
    const bool begun = tpi_sweep_call_begin(&c, s, call, slot);
    const bool ok = tpi_sweep_call_end(&c, begun && tpi_sweep_go(&c.in));
    tp_scope_end(s->ctx);
    return ok;
}

bool tpi_sweep_body(tpi_vjp *v, const bool *depends, const bool *outer, int n,
                    const tpi_seed *seeds)
{
    tpi_sweep in;
    const bool begun = tpi_vjp_begin(v, &in, depends, outer, n, seeds);
    return tpi_vjp_end(v, &in, begun && tpi_sweep_go(&in));
}

/* ---- all nodes ----------------------------------------------------------------------------------- */

/* The gradient of one of several results, or ranges, waits for what they are of. */
static void wait_for(tpi_sweep *s, const tp_tensor *t, int slot)
{
    if (s->met && s->depends[slot]) {
        s->met[t->slot] = s->met[slot];
        s->met[slot] = t->slot;
    }
}

/* One node, which depends on what is asked for. */
static bool go_through(tpi_sweep *s, tp_tensor *t, int i)
{
    if (tpi_has_results(t) && (!s->met || s->met[i] < 0))
        return true;
    if (tpi_has_inside(t))
        return tpi_is_block(t) ? go_through_block(s, t, i) : go_through_call(s, t, i);
    if (tpi_has_results(t))
        return tpi_sweep_rule(s, t);
    if (!s->grad[i])
        return true;
    if (t->op->awaits)
        wait_for(s, t, t->in[t->op->awaits - 1]->slot);
    else if (s->met && tpi_sweep_is_part(s, t))
        wait_for(s, t, t->in[0]->slot);
    else
        return tpi_sweep_rule(s, t);
    return true;
}

static bool has_ranges(const tpi_sweep *s, int i)
{
    return s->met && s->met[i] >= 0 && !tpi_has_results(s->nodes.v[i]);
}

bool tpi_sweep_go(tpi_sweep *s)
{
    if (!s->shared && !tpi_sweep_find_products(s))
        return false;
    if (s->met)
        tpi_sweep_find_ranges(s);
    for (int i = s->nodes.n - 1; i >= 0; i--) {
        tp_tensor *t = s->nodes.v[i];
        if (s->shared && s->shared[i].sum) {
            tpi_sweep_fold(s, t, i, s->shared[i].sum);
            s->shared[i].sum = NULL;
        }
        tpi_sweep_settle(s, i);
        if (has_ranges(s, i) && !tpi_sweep_ranges(s, t, i))
            return false;
        tpi_sweep_settle(s, i);
        if (!tpi_sweep_goes_through(s, i))
            continue;
        if (!go_through(s, t, i) || (s->shared && !tpi_sweep_met(s, t)))
            return false;
    }
    return true;
}
