/* tp_function_save_c: a captured function as C files that stand alone. */
#include "capture/capture_def.h"

#include <stdio.h>
#include <string.h>

static const char what[] = "tp_function_save_c";

typedef struct naming {
    char text[24];
} naming;

/* The body as such: no gradient goes through the call, so it is no node. */
static bool run_body(tp_function *f, const tpi_saving *s, tp_tensor *const *in, tp_tensor **out)
{
    tp_ctx *ctx = f->ctx;
    const int32_t floor = ctx->scope_floor, scopes = ctx->scope_floor = ctx->n_scopes;
    const char *outside = ctx->function;
    const struct tp_block *blocks = ctx->blocks;
    for (int i = 0; i < s->n_out; i++)
        out[i] = NULL;
    f->running++;
    ctx->function = f->name;
    f->body(f->user, s->n_in, in, s->n_out, out);
    while (ctx->blocks != blocks)
        ctx->block_rules->leave(ctx, NULL);
    while (ctx->n_scopes > scopes)
        tp_scope_end(ctx);
    ctx->scope_floor = floor;
    ctx->function = outside;
    f->running--;
    for (int i = 0; i < s->n_out; i++)
        if (tpi_refuse_operand(ctx, s->at, what, i, out[i]))
            return false;
    return true;
}

/* The body once more, on placeholders; its results as nodes with names. */
static bool trace(tp_function *f, tpi_saving *s, const tpi_step *entry, tp_tensor **in,
                  tp_tensor **out, const char **fetches, naming *names)
{
    if (!tpi_function_arguments(f, entry, s->at, what, s->g, s->inputs, in) ||
        !run_body(f, s, in, out))
        return false;
    for (int i = 0; i < s->n_out; i++) {
        tp_tensor *t = tp_graph_read_at(s->at.file, s->at.line, s->g, out[i]);
        if (t->status != TP_OK)
            return false;
        if (!t->name) {
            snprintf(names[i].text, sizeof names[i].text, "result %d", i);
            if (!tpi_graph_name(s->g, t, names[i].text)) {
                tpi_no_memory(f->ctx, s->at, what);
                return false;
            }
        }
        fetches[i] = t->name;
    }
    return true;
}

static tp_status save(tp_function *f, tpi_saving *s)
{
    tp_ctx *ctx = f->ctx;
    const tpi_step *entry = tpi_function_entry(f, s->at, what, s->n_in);
    if (!entry)
        return ctx->status;
    const size_t n_in = (size_t)s->n_in, n_out = (size_t)s->n_out;
    tp_tensor **in = tpi_take(&ctx->mem, (n_in + n_out) * sizeof *in);
    const char **fetches = tpi_take(&ctx->mem, n_out * sizeof *fetches);
    naming *names = tpi_take(&ctx->mem, n_out * sizeof *names);
    tp_status status = TP_E_MEMORY;
    s->fetches = fetches;
    if (!in || !fetches || !names)
        tpi_no_memory(ctx, s->at, what);
    else if (trace(f, s, entry, in, in + n_in, fetches, names))
        status = tpi_save_c(s);
    else
        status = ctx->status;
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
    const tpi_stepped_out around = tpi_step_out(ctx, s.at);
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    tp_status status = TP_E_MEMORY;
    s.g = tp_graph_new(ctx);
    if (s.g && tp_scope_begin(ctx) == TP_OK) {
        status = save(f, &s);
        tp_scope_end(ctx);
    }
    tp_graph_free(s.g);
    tpi_error_back(ctx, &earlier);
    tpi_step_back(ctx, around);
    return status;
}

TPI_BARE(tp_status, tp_function_save_c,
         (tp_function * f, const char *path, int n_in, const char *const *inputs, int n_out,
          const char *const *outputs, const tp_c_options *opt),
         f, path, n_in, inputs, n_out, outputs, opt)
