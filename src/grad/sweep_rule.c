/* A node on the way back: its rule gives its operands what they get. */
#include "grad/sweep.h"

tp_tensor *tpi_refuse_stale(const tp_tensor *t, tpi_at at, const char *what, int k)
{
    const tp_tensor *x = t->in[k];
    if (!x->buf || x->buf->version == t->in_version[k])
        return NULL;
    return tpi_fail(
        t->ctx, TPI_AT(t->file ? t->file : at.file, t->file ? t->line : at.line), what,
        TP_E_STATE,
        "operand %d%s%s was assigned after it was used here: take the gradient before "
        "the assignment",
        k, x->name ? " " : "", x->name ? x->name : "");
}

static tp_tensor *refuse_stale_operands(const tp_tensor *t, tpi_at at)
{
    tp_tensor *failed = NULL;
    for (int k = 0; k < t->n_in && t->op->grad_reads_x && !failed; k++)
        failed = tpi_refuse_stale(t, at, t->op->name, k);
    return failed;
}

/* What a composite's operands have now is in dx (tpi_op.unfold). */
static void take_sums(tpi_sweep *s, const tp_tensor *t)
{
    for (int k = 0; k < t->n_in; k++) {
        tp_tensor **sum = &s->grad[t->in[k]->slot];
        if (!s->wanted[k] || *sum == s->dx[k])
            continue;
        tpi_unref(*sum);
        *sum = s->dx[k];
    }
}

static bool keep_rows(const tpi_grad *g, int k, tp_tensor *x, tp_tensor *dy)
{
    return tpi_sweep_keep(g->sweep, g->at, g->x[k]->slot, x, dy);
}

/* The results met of a call that is one node, oldest first, and what has reached them, in memory to give back; false: no
 * memory. */
static bool take_results(const tpi_sweep *s, const tp_tensor *t, tpi_grad *g)
{
    for (int i = s->met[t->slot]; i >= 0; i = s->met[i])
        g->n_results++;
    tp_tensor **v = tpi_take(&s->ctx->mem, 2 * (size_t)g->n_results * sizeof *v);
    g->results = v;
    g->dys = v + g->n_results;
    for (int i = s->met[t->slot], k = 0; v && i >= 0; i = s->met[i], k++) {
        v[k] = s->nodes.v[i];
        v[g->n_results + k] = s->grad[i];
    }
    if (!v)
        tpi_no_memory(s->ctx, s->at, "gradient");
    return v;
}

bool tpi_sweep_rule(tpi_sweep *s, tp_tensor *t)
{
    tp_ctx *ctx = s->ctx;
    if (tp_scope_begin(ctx) != TP_OK)
        return false;
    tpi_grad g = {.op = t->op,
                  .at = TPI_AT(t->file, t->line),
                  .n_in = t->n_in,
                  .x = t->in,
                  .attrs = t->attrs,
                  .y = t,
                  .dy = s->grad[t->slot],
                  .dx = s->dx,
                  .wanted = s->wanted,
                  .keep = keep_rows,
                  .sweep = s};
    for (int k = 0; k < t->n_in; k++) {
        if (t->op->unfold)
            tpi_sweep_settle(s, t->in[k]->slot);
        s->wanted[k] = s->depends[t->in[k]->slot];
        s->dx[k] = t->op->unfold && s->wanted[k] ? s->grad[t->in[k]->slot] : NULL;
    }
    tp_tensor *stale = refuse_stale_operands(t, s->at);
    bool kept = true;
    if (!stale && s->shared && tpi_sweep_is_product(s, t->slot)) {
        const int slot = t->in[1]->slot;
        if (s->wanted[0])
            g.turned = tpi_sweep_turned(s, t, &s->shared[slot]);
        if (s->wanted[1]) {
            s->wanted[1] = false;
            kept = tpi_sweep_keep(s, g.at, slot, t->in[0], g.dy);
        }
    }
    if (t->op->joins)
        kept = take_results(s, t, &g);
    if (!stale && kept)
        t->op->grad(&g);
    tpi_give_back(&ctx->mem, (void *)g.results, 2 * (size_t)g.n_results * sizeof *g.results);
    if (t->op->unfold)
        take_sums(s, t);
    else
        for (int k = 0; k < t->n_in; k++)
            if (s->dx[k])
                tpi_sweep_fold(s, t, t->in[k]->slot, s->dx[k]);
    tp_scope_end(ctx);
    return !stale && kept;
}
