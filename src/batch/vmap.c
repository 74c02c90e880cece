/* tp_vmap: the user's function becomes a body of one sample, and that is run on all. */
#include "batch/many.h"
#include "op/batch.h"
#include "op/sizes.h"
#include "tapir/batch.h"

#include <string.h>

typedef struct call {
    tpi_at at;
    tp_body body;
    void *user;
    int n_in, n_out;
    tp_tensor *const *in;
    const tp_vmap_options *opt;
} call;

static const char what[] = "tp_vmap";

/* ---- axes ------------------------------------------------------------------------------------------- */

/* The axis of the samples in what has `rank` axes, -1: it is shared. False: there is no such axis. */
static bool find_axis(const int *axes, int i, int rank, int *axis)
{
    *axis = axes ? axes[i] : 0;
    if (*axis == TP_SHARED) {
        *axis = -1;
        return true;
    }
    *axis += *axis < 0 ? rank : 0;
    return *axis >= 0 && *axis < rank;
}

static tp_tensor *refuse_axis(const call *c, int i, const tp_tensor *t)
{
    return tpi_fail(c->in[0]->ctx, c->at, what, TP_E_AXIS,
                    "argument %d is %s: there is no axis %d along which samples could lie", i,
                    SHAPE(t), c->opt && c->opt->in_axes ? c->opt->in_axes[i] : 0);
}

/* How many samples there are; NULL, or the failed tensor. */
static tp_tensor *count_samples(const call *c, int64_t *n)
{
    tp_ctx *ctx = c->in[0]->ctx;
    int of = -1;
    for (int i = 0; i < c->n_in; i++) {
        int axis;
        const tp_tensor *x = c->in[i];
        if (!find_axis(c->opt ? c->opt->in_axes : NULL, i, x->rank, &axis))
            return refuse_axis(c, i, x);
        if (axis < 0)
            continue;
        if (of >= 0 && x->shape[axis] != *n)
            return tpi_fail(
                ctx, c->at, what, TP_E_SHAPE,
                "argument %d is %s, with its samples along axis %d, argument %d is %s: "
                "not as many",
                i, SHAPE(x), axis, of, SHAPE(c->in[of]));
        *n = x->shape[axis];
        of = of < 0 ? i : of;
    }
    return of >= 0
               ? NULL
               : tpi_fail(ctx, c->at, what, TP_E_AXIS,
                          "all arguments are TP_SHARED: nothing tells how many samples there "
                          "are");
}

/* ---- the body --------------------------------------------------------------------------------------- */

/* A body over which the ops of the function go: in the graph that is built here, or in one of its own, which takes
 * concrete tensors as they are. */
static tpi_body *open_body(const call *c, tp_graph **own)
{
    tp_ctx *ctx = c->in[0]->ctx;
    tp_graph *around = ctx->tracing;
    *own = NULL;
    for (int i = 0; i < c->n_in && !around; i++)
        around = c->in[i]->graph;
    if (!around) {
        around = *own = tp_graph_new(ctx);
        if (around)
            around->borrows = true;
    }
    tpi_body *body = around ? tpi_body_new(around, c->at) : NULL;
    if (body)
        body->one_sample = true;
    return body;
}

/* One sample of argument i, which is what it stands for to who asks whether a gradient goes through it. */
static tp_tensor *param(const call *c, tpi_body *body, int i)
{
    const tp_tensor *x = c->in[i];
    int64_t shape[TP_MAX_RANK];
    int axis, rank = 0;
    find_axis(c->opt ? c->opt->in_axes : NULL, i, x->rank, &axis);
    for (int k = 0; k < x->rank; k++)
        if (k != axis)
            shape[rank++] = x->shape[k];
    tp_tensor *all = tpi_graph_lift(body->graph->parent, c->at, c->in[i]);
    return all->status == TP_OK
               ? tpi_body_param(body, c->at, (tp_dtype)x->dtype, rank, shape, all)
               : all;
}

/* NULL, or the failed tensor. */
static tp_tensor *make_params(const call *c, tpi_body *body, tp_tensor **one)
{
    for (int i = 0; i < c->n_in; i++) {
        one[i] = param(c, body, i);
        if (one[i]->status != TP_OK)
            return one[i];
    }
    return NULL;
}

/* What the function gives becomes the body's outputs. NULL, or the failed tensor. */
static tp_tensor *take_outputs(const call *c, tpi_body *body, tp_tensor **out)
{
    tp_ctx *ctx = c->in[0]->ctx;
    for (int i = 0; i < c->n_out; i++) {
        if (!out[i])
            return tpi_fail(ctx, c->at, what, TP_E_NULL, "result %d was not set", i);
        tp_tensor *failed = tpi_refuse_operand(ctx, c->at, what, i, out[i]);
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

/* Runs the function on one sample, in symbols. */
static tp_tensor *trace(const call *c, tpi_body *body, tp_tensor *const *one, tp_tensor **out)
{
    tp_ctx *ctx = c->in[0]->ctx;
    tp_graph *const tracing = ctx->tracing;
    tpi_user_code code;
    for (int i = 0; i < c->n_out; i++)
        out[i] = NULL;
    ctx->tracing = body->graph;
    tpi_user_code_enter(&code, ctx, what);
    c->body(c->user, c->n_in, one, c->n_out, out);
    tpi_user_code_end_blocks(&code);
    tp_tensor *failed = take_outputs(c, body, out);
    tpi_user_code_leave(&code);
    ctx->tracing = tracing;
    body->closed = true;
    return failed;
}

/* ---- all samples --------------------------------------------------------------------------------------- */

/* What the params stand for: the arguments, the samples in front, and what else the function read. */
static void fill_params(const call *c, const tpi_body *body, tpi_many_value *value)
{
    for (int i = 0; i < body->n_params; i++) {
        tpi_many_value *v = &value[body->params[i]->index];
        int axis = -1;
        if (i >= c->n_in) {
            tp_tensor *outer = body->outers[i], *borrowed = NULL;
            if (outer->graph->borrows)
                borrowed =
                    tpi_constant_of(outer) ? tpi_constant_of(outer) : tpi_variable_of(outer);
            v->t = borrowed ? borrowed : outer;
            continue;
        }
        find_axis(c->opt ? c->opt->in_axes : NULL, i, c->in[i]->rank, &axis);
        v->many = axis >= 0;
        v->t = v->many ? tpi_move_axis(c->at, c->in[i], axis, 0) : c->in[i];
    }
}

static tp_tensor *result(const call *c, const tpi_many *m, int i, tpi_many_value v)
{
    tp_tensor *y = tpi_many_spread(m, v);
    int axis;
    if (y->status != TP_OK)
        return y;
    if (!find_axis(c->opt ? c->opt->out_axes : NULL, i, y->rank, &axis) || axis < 0)
        return tpi_fail(m->ctx, c->at, what, TP_E_AXIS,
                        "result %d is %s with its samples in front: axis %d is none of it", i,
                        SHAPE(y), c->opt->out_axes[i]);
    return tpi_move_axis(c->at, y, 0, axis);
}

/* NULL, or the failed tensor. */
static tp_tensor *run_all(const call *c, const tpi_body *body, int64_t samples, tp_tensor **out)
{
    tpi_bump memory = TPI_BUMP(&c->in[0]->ctx->mem);
    tp_graph *const around = body->graph->parent->borrows ? NULL : body->graph->parent;
    const tpi_many m = {c->in[0]->ctx, c->at, samples, around, c->opt && c->opt->same_draws,
                        &memory};
    tpi_many_value *value = tpi_bump_take(&memory, (size_t)body->graph->n_nodes, sizeof *value);
    tp_tensor *failed = value ? NULL : tpi_no_memory(m.ctx, c->at, what);
    if (!failed) {
        fill_params(c, body, value);
        failed = tpi_many_run(&m, body, value);
    }
    for (int i = 0; i < c->n_out && !failed; i++)
        out[i] = result(c, &m, i, value[body->outputs[i]->index]);
    tpi_bump_free(&memory);
    return failed;
}

/* NULL, or the failed tensor. */
static tp_tensor *run_body(const call *c, tpi_body *body, int64_t samples, tp_tensor **one,
                           tp_tensor **out)
{
    tp_tensor *failed = make_params(c, body, one);
    failed = failed ? failed : trace(c, body, one, out);
    return failed ? failed : run_all(c, body, samples, out);
}

static tp_tensor *run(const call *c, tp_tensor **out)
{
    tp_ctx *ctx = c->in[0]->ctx;
    int64_t samples = 0;
    tp_tensor *failed = count_samples(c, &samples);
    if (failed)
        return failed;
    tp_graph *own;
    tpi_body *body = open_body(c, &own);
    const size_t bytes = (size_t)c->n_in * sizeof(tp_tensor *);
    tp_tensor **one = body ? tpi_take(&ctx->mem, bytes) : NULL;
    failed = one ? run_body(c, body, samples, one, out) : tpi_no_memory(ctx, c->at, what);
    if (one)
        tpi_give_back(&ctx->mem, one, bytes);
    if (own)
        tp_graph_free(own);
    else if (body)
        tpi_body_drop(body->graph->parent, body);
    return failed;
}

/* ---- public --------------------------------------------------------------------------------------------- */

static tp_tensor *refuse(const call *c)
{
    tp_ctx *ctx = c->n_in > 0 && c->in && c->in[0] ? c->in[0]->ctx : NULL;
    if (!c->body)
        return tpi_fail(ctx, c->at, what, TP_E_NULL, "the function is NULL");
    if (c->n_in < 1 || !c->in)
        return tpi_fail(ctx, c->at, what, TP_E_NULL, "the arguments are missing");
    return tpi_refuse_operands(c->at, what, c->n_in, c->in);
}

tp_status tp_vmap_at(const char *file, int line, tp_body body, void *user, int n_in,
                     tp_tensor *const *in, int n_out, tp_tensor **out,
                     const tp_vmap_options *opt)
{
    const call c = {TPI_AT(file, line), body, user, n_in, n_out, in, opt};
    if (n_out < 1 || !out)
        return tpi_fail_status(n_in > 0 && in && in[0] ? in[0]->ctx : NULL, c.at, what,
                               TP_E_NULL, "there is no place for results");
    tp_tensor *failed = refuse(&c);
    if (failed)
        return tpi_fail_all(failed, n_out, out);
    tp_ctx *ctx = in[0]->ctx;
    TPI_ALONE_OR(ctx, c.at, what, tpi_fail_all((tp_tensor *)crowd, n_out, out));
    if (tp_scope_begin(ctx) != TP_OK)
        return tpi_fail_all(&ctx->nil, n_out, out);
    failed = run(&c, out);
    if (failed)
        tpi_fail_all(failed, n_out, out);
    for (int i = 0; i < n_out; i++)
        tpi_ref(out[i]);
    tp_scope_end(ctx);
    tp_status status = TP_OK;
    for (int i = 0; i < n_out; i++) {
        out[i] = tpi_hand_out(out[i], c.at);
        status = status == TP_OK ? (tp_status)out[i]->status : status;
    }
    return status;
}

tp_status(tp_vmap)(tp_body body, void *user, int n_in, tp_tensor *const *in, int n_out,
                   tp_tensor **out, const tp_vmap_options *opt)
{
    return tp_vmap_at(NULL, 0, body, user, n_in, in, n_out, out, opt);
}

tp_tensor *tp_vmap_apply_at(const char *file, int line, tp_body body, void *user, int n_in,
                            tp_tensor *const *in, const tp_vmap_options *opt)
{
    tp_tensor *y = (tp_tensor *)&tpi_nil;
    tp_vmap_at(file, line, body, user, n_in, in, 1, &y, opt);
    return y;
}

TPI_BARE(tp_tensor *, tp_vmap_apply,
         (tp_body body, void *user, int n_in, tp_tensor *const *in, const tp_vmap_options *opt),
         body, user, n_in, in, opt)
