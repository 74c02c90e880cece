/* Runs of the programs of a cell. */
#include "batch/cell.h"
#include "batch/sample_rows.h"
#include "op/waiting.h"

#include <stdio.h>
#include <string.h>

/* Results of one call, which wait; false: no memory. */
static bool make_results(const tpi_cell_side *s, tpi_at at, tp_tensor **y)
{
    bool ok = true;
    for (int i = 0; i < s->n_out && ok; i++) {
        const tpi_cell_port *p = &s->out[i];
        y[i] = tpi_tensor(s->cell->ctx, at, (tp_dtype)p->dtype, p->rank, p->shape);
        ok = y[i];
        if (ok) {
            tpi_set_strides(y[i]);
            y[i]->flags |= TPI_LAZY;
        }
    }
    return ok;
}

/* What the program is fed; false: no memory. */
static bool feed(const tpi_cell_side *s, tpi_at at, int n, tp_tensor *const *in,
                 tp_tensor **feeds)
{
    const tpi_batch_cell *c = s->cell;
    bool ok = true;
    for (int i = 0, k = 0; i < s->n_in && ok; i++) {
        const tpi_cell_port *p = &s->in[i];
        feeds[i] = p->shared
                       ? c->shared[p->n - c->n_in].t
                       : tpi_samples_join(c->ctx, at, n, in + k++, s->n_varying, p->joined);
        ok = feeds[i];
    }
    return ok;
}

static bool run(const tpi_cell_side *s, tpi_at at, int n, tp_tensor *const *in,
                tp_tensor *const *y, tp_tensor **feeds, tp_tensor **values)
{
    tp_ctx *ctx = s->cell->ctx;
    const int64_t samples = n;
    if (tp_scope_begin(ctx) != TP_OK)
        return false;
    const bool ok = feed(s, at, n, in, feeds) &&
                    tpi_program_run_sized(s->program, at, &samples, feeds, NULL, values);
    for (int i = 0; i < s->n_out && ok; i++) {
        for (int k = 0; k < n; k++)
            tpi_sample_share(values[i], k, y[k * s->n_out + i], s->out[i].joined);
        tpi_unref(values[i]);
    }
    tp_scope_end(ctx);
    return ok;
}

/* With what the context tells. */
static void fail_results(const tpi_cell_side *s, tpi_at at, int n, tp_tensor *const *y,
                         tp_status status, const char *why)
{
    tp_ctx *ctx = s->cell->ctx;
    tp_tensor *failed = status == TP_OK || status == TP_E_MEMORY
                            ? tpi_no_memory(ctx, at, s->cell->name)
                            : tpi_fail(ctx, at, s->cell->name, status, "%s", why);
    for (int i = 0; i < n * s->n_out; i++)
        tpi_waiting_fail(y[i], failed);
}

void tpi_cell_run(const tpi_cell_side *s, tpi_at at, int n, tp_tensor *const *in,
                  tp_tensor *const *y)
{
    tp_ctx *ctx = s->cell->ctx;
    const size_t bytes = (size_t)(s->n_in + s->n_out) * sizeof(tp_tensor *);
    const tpi_paused around = {ctx->frame, ctx->tracing};
    const bool recording = tp_recording(ctx, false);
    tpi_aside earlier;
    char why[TPI_ERROR_TEXT];
    ctx->frame = NULL;
    ctx->tracing = NULL;
    tpi_error_aside(ctx, &earlier);
    tp_tensor **feeds = tpi_take(&ctx->mem, bytes);
    const bool ok = feeds && run(s, at, n, in, y, feeds, feeds + s->n_in);
    tpi_give_back(&ctx->mem, feeds, feeds ? bytes : 0);
    const tp_status status = ctx->status;
    snprintf(why, sizeof why, "%s", ok ? "" : ctx->error);
    tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    if (!ok)
        fail_results(s, at, n, y, status, why);
    tp_recording(ctx, recording);
    tpi_resume(ctx, around);
}

bool tpi_cell_start(const tpi_cell_side *s, tpi_at at, tp_tensor *const *in, tp_tensor **y)
{
    tp_ctx *ctx = s->cell->ctx;
    if (!make_results(s, at, y))
        return false;
    if (ctx->frame && ctx->frame->rules->wait)
        return ctx->frame->rules->wait(ctx, s, in, y);
    tpi_cell_run(s, at, 1, in, y);
    return true;
}
