/* Captured functions as ONNX models. The flow of a pure function becomes a graph with blocks: branches
 * that join are If, rolled loops Loop. Any other function's tree of steps becomes one graph and a
 * tree of blocks, which are If in If. */
#include "base/bump.h"
#include "base/float_mode.h"
#include "capture/lift/walk.h"
#include "onnx/export/export.h"

#include <string.h>

static const char what[] = "tp_onnx_save_function";

enum { MAX_DEPTH = 30 }; /* as models are written */

/* The blocks of a model while it is made. */
typedef struct walker {
    tpi_walk walk;
    int depth;       /* branches in branches */
    tpi_bump memory; /* of them */
} walker;

static tpi_onnx_block *no_block(const walker *w, const tpi_step *s, const char *text)
{
    tpi_walk_refuse(&w->walk, s, text);
    return NULL;
}

static tpi_onnx_block *walk(walker *w, const tpi_step *s);

static bool branch(walker *w, const tpi_step *s, tpi_onnx_block *b)
{
    const tpi_step *side[2];
    if (!tpi_walk_sides(&w->walk, s, side))
        return false;
    const tpi_step *one = side[side[0] == NULL];
    if (!side[0] || !side[1])
        return tpi_walk_refuse(&w->walk, one, tpi_never_seen(!side[0]));
    if (++w->depth > MAX_DEPTH)
        return tpi_walk_refuse(&w->walk, one, "branches lie in branches more than 30 deep");
    if (!tpi_walk_meet(&w->walk, one))
        return false;
    b->condition = tpi_walk_node(&w->walk, one, 0);
    b->then_block = walk(w, side[0]);
    b->else_block = b->then_block ? walk(w, side[1]) : NULL;
    w->depth--;
    return b->else_block;
}

/* What follows s, to the end of the block. */
static tpi_onnx_block *walk(walker *w, const tpi_step *s)
{
    tpi_onnx_block *b = tpi_bump_take(&w->memory, 1, sizeof *b);
    while (b) {
        int n;
        const tpi_step *next = tpi_walk_next(&w->walk, s, &n);
        if (n == 0)
            return no_block(w, s, "no call came to a good end from here");
        if (n > 1 || (next->kind == TPI_STEP_LOOK && next->look == TPI_LOOK_TRUTH))
            return branch(w, s, b) ? b : NULL;
        s = next;
        if (s->kind == TPI_STEP_RETURN)
            break;
        if (!tpi_walk_declare(&w->walk, s))
            return NULL;
    }
    tp_tensor **outputs = tpi_bump_take(&w->memory, (size_t)w->walk.n_out, sizeof *outputs);
    if (!outputs || !tpi_walk_give(&w->walk, s, outputs))
        return NULL;
    b->outputs = outputs;
    return b;
}

static tp_status write_model(walker *w, const char *path, int n_in, const char *const *inputs,
                             const char *const *outputs, tp_tensor *const *in,
                             const tpi_onnx_block *top)
{
    const tpi_onnx_saving m = {.what = what,
                               .at = w->walk.at,
                               .g = w->walk.g,
                               .n_in = n_in,
                               .in = in,
                               .in_names = inputs,
                               .n_out = w->walk.n_out,
                               .out_names = outputs,
                               .block = top};
    return top ? tpi_onnx_write(&m, path) : w->walk.ctx->status;
}

/* The flow, or else the tree. in[n_in + n_out]. */
static tp_status save(walker *w, const char *path, int n_in, const char *const *inputs,
                      const char *const *outputs, tp_tensor **in)
{
    tp_tensor **out = in + n_in;
    if (tpi_walk_flow(&w->walk, n_in, inputs, in, out)) {
        const tpi_onnx_block block = {.outputs = out};
        return write_model(w, path, n_in, inputs, outputs, in, &block);
    }
    if (!w->walk.g || w->walk.ctx->status != TP_OK)
        return w->walk.ctx->status;
    const tpi_step *entry = tpi_function_entry(w->walk.f, w->walk.at, what, n_in);
    if (!entry || !tpi_walk_arguments(&w->walk, entry, inputs, in))
        return w->walk.ctx->status;
    return write_model(w, path, n_in, inputs, outputs, in, walk(w, entry));
}

tp_status tp_onnx_save_function_at(const char *file, int line, tp_function *f, const char *path,
                                   int n_in, const char *const *inputs, int n_out,
                                   const char *const *outputs)
{
    TPI_DEFAULT_FLOAT_MODE;
    const tpi_at at = TPI_AT(file, line);
    if (!f)
        return TP_E_NULL;
    tp_ctx *ctx = f->ctx;
    if (!path || (n_in && !inputs) || !outputs)
        return tpi_fail_status(ctx, at, what, TP_E_NULL, "the %s is missing",
                               !path     ? "path"
                               : outputs ? "list of inputs"
                                         : "list of outputs");
    if (n_in < 0 || n_out < 1)
        return tpi_fail_status(ctx, at, what, TP_E_VALUE, "%d inputs, %d outputs", n_in, n_out);
    for (int i = 0; i < n_in + n_out; i++)
        if (!(i < n_in ? inputs[i] : outputs[i - n_in]))
            return tpi_fail_status(ctx, at, what, TP_E_NULL, "the name of an %s is NULL",
                                   i < n_in ? "input" : "output");
    walker w = {
        .walk = {.ctx = ctx, .at = at, .what = what, .f = f, .n_out = n_out},
        .memory = TPI_BUMP(&ctx->mem)
    };
    const tpi_paused around = tpi_pause(ctx, at);
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    tp_tensor **ends = tpi_bump_take(&w.memory, (size_t)(n_in + n_out), sizeof *ends);
    tp_status status = TP_OK;
    const bool begun = ends && tpi_walk_begin(&w.walk) && tp_scope_begin(ctx) == TP_OK;
    if (begun) {
        status = save(&w, path, n_in, inputs, outputs, ends);
        tp_scope_end(ctx);
    }
    if (!begun || w.memory.failed)
        status = (tp_status)tpi_no_memory(ctx, at, what)->status;
    tpi_bump_free(&w.memory);
    tpi_walk_end(&w.walk);
    tpi_error_back(ctx, &earlier);
    tpi_resume(ctx, around);
    return status;
}

tp_status(tp_onnx_save_function)(tp_function *f, const char *path, int n_in,
                                 const char *const *inputs, int n_out,
                                 const char *const *outputs)
{
    return tp_onnx_save_function_at(NULL, 0, f, path, n_in, inputs, n_out, outputs);
}
