#include "transform/one_body.h"

#include "op/op.h"
#include "op/sizes.h"

static tp_tensor *refuse(const tpi_one_call *c)
{
    tp_ctx *ctx = c->n_in > 0 && c->in && c->in[0] ? c->in[0]->ctx : NULL;
    if (!c->function)
        return tpi_fail(ctx, c->at, c->what, TP_E_NULL, "the function is NULL");
    if (c->n_in < 1 || !c->in)
        return tpi_fail(ctx, c->at, c->what, TP_E_NULL, "the arguments are missing");
    return tpi_refuse_operands(c->at, c->what, c->n_in, c->in);
}

tp_status tpi_one_call_run(const tpi_one_call *c,
                           tp_tensor *(*run)(const void *user, tp_tensor **out),
                           const void *user, int n, tp_tensor **out)
{
    if (n < 1 || !out)
        return tpi_fail_status(c->n_in > 0 && c->in && c->in[0] ? c->in[0]->ctx : NULL, c->at,
                               c->what, TP_E_NULL, "there is no place for results");
    tp_tensor *failed = refuse(c);
    if (failed)
        return tpi_fail_all(failed, n, out);
    tp_ctx *ctx = c->in[0]->ctx;
    TPI_ALONE_OR(ctx, c->at, c->what, tpi_fail_all((tp_tensor *)crowd, n, out));
    if (tp_scope_begin(ctx) != TP_OK)
        return tpi_fail_all(&ctx->nil, n, out);
    failed = run(user, out);
    if (failed)
        tpi_fail_all(failed, n, out);
    for (int i = 0; i < n; i++)
        tpi_ref(out[i]);
    tp_scope_end(ctx);
    tp_status status = TP_OK;
    for (int i = 0; i < n; i++) {
        out[i] = tpi_hand_out(out[i], c->at);
        status = status == TP_OK ? (tp_status)out[i]->status : status;
    }
    return status;
}

/* In the graph that is built here, or in one of its own, which takes concrete tensors as they are. False: no memory. */
static bool make_body(const tpi_one_call *c, tpi_one_body *to)
{
    tp_ctx *ctx = c->in[0]->ctx;
    tp_graph *around = ctx->tracing;
    for (int i = 0; i < c->n_in && !around; i++)
        around = c->in[i]->graph;
    if (!around) {
        around = to->own = tp_graph_new(ctx);
        if (around)
            around->borrows = true;
    }
    to->body = around ? tpi_body_new(around, c->at) : NULL;
    if (to->body)
        to->body->transformed = true;
    return to->body != NULL;
}

/* What the function gives becomes the body's outputs. NULL, or the failed tensor. `refused`: requests for memory before
 * the function ran, which may not set a result when one of its own is refused. */
static tp_tensor *take_outputs(const tpi_one_call *c, tpi_body *body, tp_tensor *const *out,
                               uint64_t refused)
{
    tp_ctx *ctx = c->in[0]->ctx;
    for (int i = 0; i < c->n_out; i++) {
        if (!out[i] && ctx->mem.refused != refused)
            return tpi_no_memory(ctx, c->at, c->what);
        if (!out[i])
            return tpi_fail(ctx, c->at, c->what, TP_E_NULL, "result %d was not set", i);
        tp_tensor *failed = tpi_refuse_operand(ctx, c->at, c->what, i, out[i]);
        if (failed)
            return failed;
        tp_tensor *t = tpi_graph_lift(body->graph, c->at, out[i]);
        if (t->status != TP_OK)
            return t;
        if (!tpi_body_output(body, t))
            return &ctx->nil;
    }
    return NULL;
}

static tp_tensor *trace(const tpi_one_call *c, tpi_body *body, tp_tensor *const *one,
                        tp_tensor **out)
{
    tp_ctx *ctx = c->in[0]->ctx;
    tp_graph *const tracing = ctx->tracing;
    tpi_user_code code;
    const uint64_t refused = ctx->mem.refused;
    for (int i = 0; i < c->n_out; i++)
        out[i] = NULL;
    ctx->tracing = body->graph;
    tpi_user_code_enter(&code, ctx, c->what);
    c->function(c->user, c->n_in, one, c->n_out, out);
    tpi_user_code_end_blocks(&code);
    tp_tensor *failed = take_outputs(c, body, out, refused);
    tpi_user_code_leave(&code);
    ctx->tracing = tracing;
    body->closed = true;
    return failed;
}

/* Argument i in the body; it stands for the argument to who asks whether a gradient goes through it. */
static tp_tensor *param(const tpi_one_call *c, tpi_body *body, int i,
                        int (*type)(const void *user, int i, int64_t *shape), const void *user)
{
    int64_t shape[TP_MAX_RANK];
    const int rank = type(user, i, shape);
    tp_tensor *all = tpi_graph_lift(body->graph->parent, c->at, c->in[i]);
    return all->status == TP_OK
               ? tpi_body_param(body, c->at, (tp_dtype)c->in[i]->dtype, rank, shape, all)
               : all;
}

tp_tensor *tpi_one_open(const tpi_one_call *c,
                        int (*type)(const void *user, int i, int64_t *shape), const void *user,
                        tpi_one_body *to)
{
    tp_ctx *ctx = c->in[0]->ctx;
    *to = (tpi_one_body){.n_in = c->n_in};
    const size_t bytes = ((size_t)c->n_in + (size_t)c->n_out) * sizeof(tp_tensor *);
    tp_tensor **one = make_body(c, to) ? tpi_take(&ctx->mem, bytes) : NULL, *failed = NULL;
    if (!one)
        return tpi_no_memory(ctx, c->at, c->what);
    for (int i = 0; i < c->n_in && !failed; i++) {
        one[i] = param(c, to->body, i, type, user);
        failed = one[i]->status == TP_OK ? NULL : one[i];
    }
    failed = failed ? failed : trace(c, to->body, one, one + c->n_in);
    tpi_give_back(&ctx->mem, one, bytes);
    return failed;
}

void tpi_one_close(const tpi_one_body *b)
{
    if (b->own)
        tp_graph_free(b->own);
    else if (b->body)
        tpi_body_drop(b->body->graph->parent, b->body);
}

/* What else the function read. */
static tpi_image captured(const tpi_one_body *b, int k)
{
    tp_tensor *outer = b->body->outers[k];
    return (tpi_image){.t = b->own ? outer->in[0]
                                   : outer}; /* all that is concrete is a source */
}

tpi_image *tpi_one_images(const tpi_one_body *b, tpi_transform *f,
                          tpi_image (*image)(const void *user, int i), const void *user,
                          tp_tensor **failed)
{
    const tpi_body *body = b->body;
    tpi_image *all = tpi_bump_take(f->memory, (size_t)body->graph->n_nodes, sizeof *all);
    tpi_image *out = tpi_bump_take(f->memory, (size_t)body->n_outputs, sizeof *out);
    *failed = out ? NULL : tpi_no_memory(f->ctx, f->at, f->rules->what);
    for (int i = 0; i < body->n_params && !*failed; i++)
        all[body->params[i]->index] =
            i < b->n_in || !body->outers[i] ? image(user, i) : captured(b, i);
    *failed = *failed ? *failed : tpi_sample_draws_find(f, body);
    *failed = *failed ? *failed : tpi_transform_body(f, body, all);
    *failed = *failed ? *failed : tpi_sample_draws_end(f);
    for (int i = 0; i < body->n_outputs && !*failed; i++)
        out[i] = all[body->outputs[i]->index];
    return *failed ? NULL : out;
}
