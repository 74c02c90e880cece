/* Blocks in a sweep: what reached their outputs, and who builds the gradient. */
#include "grad/vjp.h"
#include "op/turn_values.h"

#include <string.h>

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
static bool enter_all(const tp_tensor *block, int n, tp_tensor **cot)
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

bool tpi_sweep_block(tpi_sweep *s, tp_tensor *block, int slot)
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
        ok = enter_all(block, n, cot) &&
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
