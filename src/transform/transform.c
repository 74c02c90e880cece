#include "op/op.h"
#include "transform/rules.h"

tp_tensor *tpi_transform_here(const tpi_transform *f, tpi_at at, tp_tensor *t)
{
    tp_graph *g = f->ctx->tracing ? f->ctx->tracing : f->around;
    return g && t->status == TP_OK ? tpi_graph_lift(g, at, t) : t;
}

tp_tensor *tpi_transform_same(const tp_tensor *node, tpi_at at, tp_tensor *const *x)
{
    return tpi_apply(at, node->op, node->n_in, x, node->attrs);
}

static tp_tensor *refuse_effect(const tpi_transform *f, const tp_tensor *t, tpi_at at)
{
    return tpi_fail(
        f->ctx, at, f->rules->what, TP_E_STATE,
        "the function has the effect \"%s\", which is done once for all that it is run for",
        t->op->name);
}

/* From the images of all operands, some of which are marked, or none. */
static tpi_image compute(const tpi_transform *f, const tp_tensor *t, tpi_at at,
                         const tpi_image *x, bool any)
{
    tpi_image to = {0};
    if (t->op->draws)
        to = (tpi_image){.t = tpi_sample_draw(f, t, at), .marked = !f->draws_once};
    else if (t->op->kind == TPI_EFFECT)
        to.t = refuse_effect(f, t, at);
    if (to.t)
        return to;
    if (any)
        return f->rules->node(f, t, at, x);
    tpi_nodes in = {.ctx = f->ctx};
    for (int k = 0; k < t->n_in; k++)
        tpi_nodes_push(&in, x[k].t);
    to.t = in.failed ? tpi_no_memory(f->ctx, at, t->op->name) : tpi_transform_same(t, at, in.v);
    tpi_nodes_free(&in);
    return to;
}

static tpi_image of_node(const tpi_transform *f, const tp_tensor *t, const tpi_image *image)
{
    tp_ctx *ctx = f->ctx;
    const tpi_at at = t->file ? TPI_AT(t->file, t->line) : f->at;
    const size_t bytes = ((size_t)t->n_in + 1) * sizeof(tpi_image);
    tpi_image *x = tpi_take(&ctx->mem, bytes);
    bool any = false;
    if (!x)
        return (tpi_image){.t = tpi_no_memory(ctx, f->at, f->rules->what)};
    for (int k = 0; k < t->n_in; k++) {
        x[k] = image[t->in[k]->index];
        x[k].t = tpi_transform_here(f, at, x[k].t);
        any |= x[k].marked;
    }
    /* what was computed while recording was off is a constant to gradients here too */
    const bool was = tp_recording(ctx, ctx->caller.recording && !(t->flags & TPI_CONSTANT));
    const tpi_image to = compute(f, t, at, x, any);
    tp_recording(ctx, was);
    tpi_give_back(&ctx->mem, x, bytes);
    return to;
}

/* A constant outlives the body, which may be all that has it: the open scope has it too. */
static tp_tensor *held(const tpi_transform *f, tp_tensor *t)
{
    if (t->owned_at >= 0)
        return t;
    tpi_ref(t);
    return tpi_own(t) ? t : tpi_no_memory(f->ctx, f->at, f->rules->what);
}

/* NULL, or the failed tensor. */
static tp_tensor *set_image(const tpi_transform *f, const tp_tensor *t, tpi_image *image)
{
    tpi_image *to = &image[t->index];
    if (to->t)
        return NULL;
    if (tpi_is_block(t))
        return to->outputs ? NULL : tpi_transform_block(f, t, image);
    tp_tensor *const constant = tpi_constant_of(t);
    const tp_tensor *const block = tpi_block_of(t), *const inside = tpi_inside_of(t);
    if (constant)
        *to = (tpi_image){.t = held(f, constant)};
    else if (block)
        *to = image[block->index].outputs[tpi_index_of(t)];
    else if (inside)
        *to = image[inside->index];
    else
        *to = of_node(f, t, image);
    return to->t->status == TP_OK ? NULL : to->t;
}

tp_tensor *tpi_transform_body(const tpi_transform *f, const tpi_body *body, tpi_image *image)
{
    tpi_nodes needed = {.ctx = f->ctx, .way = TPI_WAY_VALUES}; /* and all draws, as by calls */
    tp_tensor *failed = NULL;
    if (!tpi_collect_run(&needed, body->graph, body->n_outputs, body->outputs))
        failed = tpi_no_memory(f->ctx, f->at, f->rules->what);
    for (int i = 0; i < needed.n && !failed; i++)
        failed = set_image(f, needed.v[i], image);
    tpi_nodes_free(&needed);
    return failed;
}
