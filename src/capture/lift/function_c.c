/* tp_function_save_c: a captured function as C files that stand alone. */
#include "capture/lift/walk.h"

#include <stdio.h>
#include <string.h>

static const char what[] = "tp_function_save_c";

typedef struct naming {
    char text[24];
} naming;

/* The body as such: no gradient goes through the call, so it is no node. What it does with variables
 * alone, and what it draws, is part of the graph. */
static bool run_body(tp_function *f, tp_graph *g, const tpi_saving *s, tp_tensor *const *in,
                     tp_tensor **out)
{
    tp_ctx *ctx = f->ctx;
    tpi_user_code code;
    for (int i = 0; i < s->n_out; i++)
        out[i] = NULL;
    f->running++;
    tpi_user_code_enter(&code, ctx, f->name);
    ctx->tracing = g;
    f->body(f->user, s->n_in, in, s->n_out, out);
    tpi_user_code_end_blocks(&code);
    tpi_user_code_leave(&code);
    ctx->tracing = NULL;
    f->running--;
    for (int i = 0; i < s->n_out; i++)
        if (tpi_refuse_operand(ctx, s->at, what, i, out[i]))
            return false;
    return true;
}

/* Draws that nothing reads are made all the same. */
static bool keep_draws(const tpi_saving *s, tp_graph *g, tp_tensor **out)
{
    bool *live = tpi_take(&g->ctx->mem, (size_t)g->n_nodes), any = false;
    const int n = g->n_nodes;
    if (!live) {
        tpi_no_memory(g->ctx, s->at, what);
        return false;
    }
    memset(live, 0, (size_t)n);
    for (int i = 0; i < s->n_out; i++)
        if (out[i]->graph == g)
            live[out[i]->index] = true;
    tp_tensor *seen = tpi_seen_all(s->at, g);
    for (int i = n - 1; i >= 0; i--) {
        tp_tensor *t = g->nodes[i];
        const bool idle = tpi_is_draw(t->op) && !live[i];
        if (idle)
            seen = tpi_drawn(TPI_AT(t->file, t->line), seen, t);
        any |= idle;
        for (int k = 0;
             k < t->n_in && t->op->kind != TPI_SOURCE && (live[i] || t->op == &tpi_op_assign);
             k++)
            live[t->in[k]->index] = true;
    }
    tpi_give_back(&g->ctx->mem, live, (size_t)n);
    if (any)
        out[0] = tpi_if_seen(s->at, seen, out[0]);
    return seen->status == TP_OK && out[0]->status == TP_OK;
}

/* Names for results that have none: those are fetched. */
static bool name_results(const tpi_saving *s, tp_tensor *const *out, const char **fetches,
                         naming *names)
{
    for (int i = 0; i < s->n_out; i++) {
        tp_tensor *t = tp_graph_read_at(s->at.file, s->at.line, s->g, out[i]);
        if (t->status != TP_OK)
            return false;
        if (!t->name) {
            snprintf(names[i].text, sizeof names[i].text, "result %d", i);
            if (tpi_graph_name(s->g, t, names[i].text) != TP_OK) {
                tpi_no_memory(s->g->ctx, s->at, what);
                return false;
            }
        }
        fetches[i] = t->name;
    }
    return true;
}

/* The function as nodes. Without a branch on tp_truth the body runs once more, on placeholders; else what
 * calls have recorded is taken. */
static bool make_nodes(tpi_walk *w, tp_function *f, const tpi_saving *s, tp_tensor **in,
                       tp_tensor **out)
{
    const tpi_step *entry = tpi_function_entry(f, s->at, what, s->n_in);
    if (!entry)
        return false;
    if (!tpi_walk_branches(w, entry))
        return tpi_walk_arguments(w, entry, s->inputs, in) && run_body(f, w->g, s, in, out) &&
               keep_draws(s, w->g, out);
    return tpi_walk_flow(w, s->n_in, s->inputs, in, out) ||
           (w->g && w->ctx->status == TP_OK && tpi_walk_arguments(w, entry, s->inputs, in) &&
            tpi_walk_tree(w, entry, out));
}

static tp_status save(tp_function *f, tpi_saving *s)
{
    tp_ctx *ctx = f->ctx;
    const size_t n_in = (size_t)s->n_in, n_out = (size_t)s->n_out;
    tp_tensor **in = tpi_take(&ctx->mem, (n_in + n_out) * sizeof *in);
    const char **fetches = tpi_take(&ctx->mem, n_out * sizeof *fetches);
    naming *names = tpi_take(&ctx->mem, n_out * sizeof *names);
    tpi_walk w = {
        .ctx = ctx, .at = s->at, .what = what, .f = f, .whole = true, .n_out = s->n_out};
    tp_status saved = TP_OK;
    if (!in || !fetches || !names)
        tpi_no_memory(ctx, s->at, what);
    else if (tpi_walk_begin(&w) && make_nodes(&w, f, s, in, in + n_in)) {
        s->g = w.g;
        s->fetches = fetches;
        if (name_results(s, in + n_in, fetches, names))
            saved = tpi_save_c(s);
    }
    const tp_status status = saved == TP_OK ? ctx->status : saved;
    tpi_walk_end(&w);
    tpi_give_back(&ctx->mem, in, (n_in + n_out) * sizeof *in);
    tpi_give_back(&ctx->mem, fetches, n_out * sizeof *fetches);
    tpi_give_back(&ctx->mem, names, n_out * sizeof *names);
    return status;
}

static const char *missing(const tpi_saving *s)
{
    if (!s->path)
        return "path";
    if (s->n_in && !s->inputs)
        return "list of inputs";
    if (!s->outputs)
        return "list of outputs";
    for (int i = 0; i < s->n_in; i++)
        if (!s->inputs[i])
            return "name of an input";
    for (int i = 0; i < s->n_out; i++)
        if (!s->outputs[i])
            return "name of an output";
    return NULL;
}

tp_status tp_function_save_c_at(const char *file, int line, tp_function *f, const char *path,
                                int n_in, const char *const *inputs, int n_out,
                                const char *const *outputs, const tp_c_options *opt)
{
    if (!f)
        return TP_E_NULL;
    tp_ctx *ctx = f->ctx;
    tpi_saving s = {.what = what,
                    .path = path,
                    .at = TPI_AT(file, line),
                    .n_in = n_in,
                    .n_out = n_out,
                    .inputs = inputs,
                    .outputs = outputs,
                    .all_writes = true,
                    .options = opt ? *opt : (tp_c_options){0}};
    if (n_in < 0 || n_out < 1)
        return tpi_fail_status(ctx, s.at, what, TP_E_VALUE, "%d inputs, %d outputs", n_in,
                               n_out);
    if (missing(&s))
        return tpi_fail_status(ctx, s.at, what, TP_E_NULL, "the %s is missing", missing(&s));
    const tpi_paused around = tpi_pause(ctx, s.at);
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    tp_status status = TP_E_MEMORY;
    if (tp_scope_begin(ctx) == TP_OK) {
        status = save(f, &s);
        tp_scope_end(ctx);
    }
    tpi_error_back(ctx, &earlier);
    tpi_resume(ctx, around);
    return status;
}

TPI_BARE(tp_status, tp_function_save_c,
         (tp_function * f, const char *path, int n_in, const char *const *inputs, int n_out,
          const char *const *outputs, const tp_c_options *opt),
         f, path, n_in, inputs, n_out, outputs, opt)
