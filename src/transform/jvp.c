/* Derivatives of functions: along a direction (forward mode), and what is made of these. */
#include "op/op.h"
#include "op/sizes.h"
#include "tapir/transform.h"
#include "transform/one_body.h"
#include "transform/rules.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE at.file, at.line

/* ---- tp_jvp ------------------------------------------------------------------------------------------- */

typedef struct jvp {
    tpi_one_call of;
    tp_tensor *const *din;
} jvp;

static int type_of_argument(const void *user, int i, int64_t *shape)
{
    const tp_tensor *x = ((const tpi_one_call *)user)->in[i];
    memcpy(shape, x->shape, sizeof *shape * (size_t)x->rank);
    return x->rank;
}

/* NULL, or the failed tensor. */
static tp_tensor *refuse_tangents(const jvp *c)
{
    tp_ctx *ctx = c->of.in[0]->ctx;
    for (int i = 0; i < c->of.n_in; i++) {
        const tp_tensor *x = c->of.in[i], *d = c->din[i];
        if (!d)
            continue;
        tp_tensor *failed = tpi_refuse_operand(ctx, c->of.at, c->of.what, i, d);
        if (failed)
            return failed;
        if (x->dtype < TP_F32 || d->dtype != x->dtype || !tpi_same_shape(d, x))
            return tpi_fail(ctx, c->of.at, c->of.what,
                            x->dtype < TP_F32 || d->dtype != x->dtype ? TP_E_DTYPE : TP_E_SHAPE,
                            "argument %d is %s %s, its direction %s %s", i,
                            tp_dtype_name((tp_dtype)x->dtype), SHAPE(x),
                            tp_dtype_name((tp_dtype)d->dtype), SHAPE(d));
    }
    return NULL;
}

static tpi_image image_of(const void *user, int i)
{
    const jvp *c = user;
    return (tpi_image){.t = c->of.in[i], .tangent = c->din[i], .marked = c->din[i] != NULL};
}

static tp_tensor *along(const jvp *c, const tpi_one_body *one, tp_tensor **out)
{
    tp_ctx *ctx = c->of.in[0]->ctx;
    tpi_bump memory = TPI_BUMP(&ctx->mem);
    tpi_transform f = {.rules = &tpi_tangent_rules,
                       .ctx = ctx,
                       .at = c->of.at,
                       .around = tpi_one_around(one),
                       .memory = &memory,
                       .draws_once = true};
    tp_tensor *failed, **dout = out + c->of.n_out;
    const tpi_image *y = tpi_one_images(one, &f, image_of, c, &failed);
    for (int i = 0; i < c->of.n_out && y; i++) {
        out[i] = y[i].t;
        dout[i] = y[i].t->dtype >= TP_F32
                      ? tpi_marked(&f, y[i], true).tangent
                      : tpi_zeros(c->of.at, out[i], out[i]->rank, out[i]->shape);
    }
    tpi_bump_free(&memory);
    return failed;
}

/* Values, then tangents. */
static tp_tensor *run_jvp(const void *user, tp_tensor **out)
{
    const jvp *c = user;
    tp_tensor *failed = refuse_tangents(c);
    if (failed)
        return failed;
    tpi_one_body one;
    failed = tpi_one_open(&c->of, type_of_argument, &c->of, &one);
    failed = failed ? failed : along(c, &one, out);
    tpi_one_close(&one);
    return failed;
}

tp_status tp_jvp_at(const char *file, int line, tp_body body, void *user, int n_in,
                    tp_tensor *const *in, tp_tensor *const *din, int n_out, tp_tensor **out,
                    tp_tensor **dout)
{
    const jvp c = {
        {"tp_jvp", TPI_AT(file, line), body, user, n_in, n_out, in},
        din
    };
    tp_ctx *ctx = n_in > 0 && in && in[0] ? in[0]->ctx : NULL;
    if (n_out < 1 || !out || !dout || !din)
        return tpi_fail_status(ctx, c.of.at, c.of.what, TP_E_NULL,
                               din ? "there is no place for results"
                                   : "the directions are missing");
    const size_t bytes = 2 * (size_t)n_out * sizeof(tp_tensor *);
    tp_tensor **all = ctx ? tpi_take(&ctx->mem, bytes) : NULL;
    if (!all) {
        tp_tensor *failed =
            ctx ? tpi_no_memory(ctx, c.of.at, c.of.what) : (tp_tensor *)&tpi_nil;
        tpi_fail_all(failed, n_out, dout);
        return tpi_fail_all(failed, n_out, out);
    }
    const tp_status status = tpi_one_call_run(&c.of, run_jvp, &c, 2 * n_out, all);
    memcpy(out, all, bytes / 2);
    memcpy(dout, all + n_out, bytes / 2);
    tpi_give_back(&ctx->mem, all, bytes);
    return status;
}

tp_status(tp_jvp)(tp_body body, void *user, int n_in, tp_tensor *const *in,
                  tp_tensor *const *din, int n_out, tp_tensor **out, tp_tensor **dout)
{
    return tp_jvp_at(NULL, 0, body, user, n_in, in, din, n_out, out, dout);
}

/* ---- products with Hessians ------------------------------------------------------------------------------ */

/* A function of one result, and its gradient by argument `of`. */
typedef struct gradient {
    tpi_at at;
    tp_body function;
    void *user;
    int of;
} gradient;

static void gradient_body(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    const gradient *g = user;
    const tpi_at at = g->at;
    tp_tensor *y = NULL;
    (void)n_out;
    g->function(g->user, n_in, in, 1, &y);
    /* what is of another context is refused as the function's result */
    out[0] = y && y->ctx == in[g->of]->ctx ? tp_grad(y, in[g->of]) : y;
}

/* NULL, or the failed tensor for an argument that has no gradient. */
static tp_tensor *refuse_argument(tpi_at at, const char *what, int n_in, tp_tensor *const *in,
                                  int of)
{
    tp_ctx *ctx = n_in > 0 && in && in[0] ? in[0]->ctx : NULL;
    if (of < 0 || of >= n_in || !in)
        return tpi_fail(ctx, at, what, TP_E_VALUE, "there is no argument %d of %d", of, n_in);
    tp_tensor *failed = tpi_refuse_operand(ctx, at, what, of, in[of]);
    if (failed || in[of]->dtype >= TP_F32)
        return failed;
    return tpi_fail(ctx, at, what, TP_E_DTYPE,
                    "argument %d is %s: derivatives are by f32 and f64", of,
                    tp_dtype_name((tp_dtype)in[of]->dtype));
}

tp_tensor *tp_hvp_at(const char *file, int line, tp_body body, void *user, int n_in,
                     tp_tensor *const *in, int of, tp_tensor *v)
{
    const tpi_at at = TPI_AT(file, line);
    gradient g = {at, body, user, of};
    tp_tensor *failed = refuse_argument(at, "tp_hvp", n_in, in, of), *y, *dy;
    if (!failed && !body)
        failed = tpi_fail(in[of]->ctx, at, "tp_hvp", TP_E_NULL, "the function is NULL");
    if (failed)
        return failed;
    tp_ctx *ctx = in[of]->ctx;
    const size_t bytes = (size_t)n_in * sizeof(tp_tensor *);
    tp_tensor **din = tpi_take(&ctx->mem, bytes);
    if (!din)
        return tpi_no_memory(ctx, at, "tp_hvp");
    memset(din, 0, bytes);
    din[of] = v;
    if (!v)
        dy = tpi_fail(ctx, at, "tp_hvp", TP_E_NULL, "the direction is NULL");
    else
        tp_jvp_at(file, line, gradient_body, &g, n_in, in, din, 1, &y, &dy);
    tpi_give_back(&ctx->mem, din, bytes);
    return dy;
}

TPI_BARE(tp_tensor *, tp_hvp,
         (tp_body body, void *user, int n_in, tp_tensor *const *in, int of, tp_tensor *v), body,
         user, n_in, in, of, v)

/* ---- Jacobians ----------------------------------------------------------------------------------------------- */

typedef struct jacobian {
    tpi_one_call of; /* the function's */
    int by;
    int rank; /* of its result, */
    int64_t shape[2 * TP_MAX_RANK];
    tp_dtype dtype;
    tp_tensor *rows; /* weights of its elements, one for each row */
} jacobian;

/* The gradient of the result, whose elements are weighed by a param more. */
static void row_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    jacobian *j = user;
    const tpi_at at = j->of.at;
    tp_ctx *ctx = in[0]->ctx;
    tp_graph *g = ctx->tracing;
    tp_tensor *y = NULL;
    (void)n_out;
    j->of.function(j->of.user, n_in, in, 1, &y);
    if (!y || y->ctx != ctx || (y = tpi_graph_lift(g, at, y))->status != TP_OK) {
        out[0] = y; /* refused as the function's result */
        return;
    }
    j->rank = y->rank;
    j->dtype = (tp_dtype)y->dtype;
    memcpy(j->shape, y->shape, sizeof *j->shape * (size_t)y->rank);
    tp_tensor *weights = tpi_body_param(g->body, at, j->dtype, y->rank, y->shape, NULL);
    tp_grads(y, weights, 1, (tp_tensor *[]){in[j->by]}, out);
}

static tpi_image image_of_all(const void *user, int i)
{
    const jacobian *j = user;
    return i < j->of.n_in ? (tpi_image){.t = j->of.in[i]}
                          : (tpi_image){.t = j->rows, .marked = true};
}

/* The identity, [n, shape of the result]. */
static tp_tensor *identity(const jacobian *j, int64_t n)
{
    const tpi_at at = j->of.at;
    int64_t shape[TP_MAX_RANK + 1] = {n};
    memcpy(shape + 1, j->shape, sizeof *shape * (size_t)j->rank);
    tp_tensor *i = tpi_iota(at, j->of.in[j->by], n);
    tp_tensor *ones = tp_cast(tp_eq(tp_unsqueeze(i, 1), i), j->dtype);
    return tp_reshape(ones, j->rank + 1, shape);
}

static tp_tensor *all_rows(jacobian *j, const tpi_one_body *one, tp_tensor **out)
{
    const tpi_at at = j->of.at;
    tp_ctx *ctx = j->of.in[0]->ctx;
    const tp_tensor *x = j->of.in[j->by];
    if (j->rank + x->rank > TP_MAX_RANK || j->rank == TP_MAX_RANK)
        return tpi_fail(ctx, at, j->of.what, TP_E_AXIS,
                        "the result has %d axes and the argument %d: more than %d together",
                        j->rank, x->rank, TP_MAX_RANK - (x->rank == 0));
    tpi_bump memory = TPI_BUMP(&ctx->mem);
    tpi_transform f = {.rules = &tpi_many_rules,
                       .ctx = ctx,
                       .at = at,
                       .around = tpi_one_around(one),
                       .memory = &memory,
                       .samples = tpi_sizes_product(tpi_dims_of(x), j->rank, j->shape),
                       .draws_once = true};
    tp_tensor *failed;
    j->rows = identity(j, f.samples);
    const tpi_image *dx = tpi_one_images(one, &f, image_of_all, j, &failed);
    memcpy(j->shape + j->rank, x->shape, sizeof *x->shape * (size_t)x->rank);
    if (dx)
        out[0] = tp_reshape(tpi_marked(&f, dx[0], true).t, j->rank + x->rank, j->shape);
    tpi_bump_free(&memory);
    return failed;
}

static tp_tensor *run_jacobian(const void *user, tp_tensor **out)
{
    jacobian j = *(const jacobian *)user;
    tpi_one_call c = j.of;
    c.function = row_body;
    c.user = &j;
    tpi_one_body one;
    tp_tensor *failed = tpi_one_open(&c, type_of_argument, &c, &one);
    failed = failed ? failed : all_rows(&j, &one, out);
    tpi_one_close(&one);
    return failed;
}

tp_tensor *tp_jacobian_at(const char *file, int line, tp_body body, void *user, int n_in,
                          tp_tensor *const *in, int of)
{
    const jacobian j = {
        .of = {"tp_jacobian", TPI_AT(file, line), body, user, n_in, 1, in},
          .by = of
    };
    tp_tensor *y = refuse_argument(j.of.at, j.of.what, n_in, in, of);
    if (!y)
        tpi_one_call_run(&j.of, run_jacobian, &j, 1, &y);
    return y;
}

TPI_BARE(tp_tensor *, tp_jacobian,
         (tp_body body, void *user, int n_in, tp_tensor *const *in, int of), body, user, n_in,
         in, of)

tp_tensor *tp_hessian_at(const char *file, int line, tp_body body, void *user, int n_in,
                         tp_tensor *const *in, int of)
{
    const tpi_at at = TPI_AT(file, line);
    gradient g = {at, body, user, of};
    tp_tensor *failed = refuse_argument(at, "tp_hessian", n_in, in, of);
    if (!failed && !body)
        failed = tpi_fail(in[of]->ctx, at, "tp_hessian", TP_E_NULL, "the function is NULL");
    return failed ? failed : tp_jacobian_at(file, line, gradient_body, &g, n_in, in, of);
}

TPI_BARE(tp_tensor *, tp_hessian,
         (tp_body body, void *user, int n_in, tp_tensor *const *in, int of), body, user, n_in,
         in, of)
