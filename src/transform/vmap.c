/* tp_vmap: the user's function becomes a body of one sample, and that is run on all. */
#include "tapir/transform.h"
#include "transform/batch.h"
#include "transform/one_body.h"
#include "transform/rules.h"

typedef struct call {
    tpi_one_call of;
    const tp_vmap_options *opt;
} call;

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

static bool find_in_axis(const call *c, int i, int *axis)
{
    return find_axis(c->opt ? c->opt->in_axes : NULL, i, c->of.in[i]->rank, axis);
}

/* How many samples there are; NULL, or the failed tensor. */
static tp_tensor *count_samples(const call *c, int64_t *n)
{
    tp_ctx *ctx = c->of.in[0]->ctx;
    int of = -1;
    for (int i = 0; i < c->of.n_in; i++) {
        int axis;
        const tp_tensor *x = c->of.in[i];
        if (!find_in_axis(c, i, &axis))
            return tpi_fail(ctx, c->of.at, c->of.what, TP_E_AXIS,
                            "argument %d is %s: there is no axis %d along which samples could "
                            "lie",
                            i, SHAPE(x), c->opt && c->opt->in_axes ? c->opt->in_axes[i] : 0);
        if (axis < 0)
            continue;
        if (of >= 0 && x->shape[axis] != *n)
            return tpi_fail(ctx, c->of.at, c->of.what, TP_E_SHAPE,
                            "argument %d is %s, with its samples along axis %d, argument %d is "
                            "%s: not as many",
                            i, SHAPE(x), axis, of, SHAPE(c->of.in[of]));
        *n = x->shape[axis];
        of = of < 0 ? i : of;
    }
    return of >= 0
               ? NULL
               : tpi_fail(ctx, c->of.at, c->of.what, TP_E_AXIS,
                          "all arguments are TP_SHARED: nothing tells how many samples there "
                          "are");
}

/* One sample of argument i. */
static int type_of_one(const void *user, int i, int64_t *shape)
{
    const call *c = user;
    const tp_tensor *x = c->of.in[i];
    int axis = -1, rank = 0;
    find_in_axis(c, i, &axis);
    for (int k = 0; k < x->rank; k++)
        if (k != axis)
            shape[rank++] = x->shape[k];
    return rank;
}

/* ---- all samples --------------------------------------------------------------------------------------- */

/* Of argument i, the samples in front. */
static tpi_image image_of(const void *user, int i)
{
    const call *c = user;
    int axis = -1;
    find_in_axis(c, i, &axis);
    tp_tensor *x = c->of.in[i];
    return (tpi_image){.t = axis < 0 ? x : tpi_move_axis(c->of.at, x, axis, 0),
                       .marked = axis >= 0};
}

static tp_tensor *result(const call *c, const tpi_transform *f, int i, tpi_image v)
{
    tp_tensor *y = tpi_marked(f, v, true).t;
    int axis;
    if (y->status != TP_OK)
        return y;
    if (!find_axis(c->opt ? c->opt->out_axes : NULL, i, y->rank, &axis) || axis < 0)
        return tpi_fail(f->ctx, c->of.at, c->of.what, TP_E_AXIS,
                        "result %d is %s with its samples in front: axis %d is none of it", i,
                        SHAPE(y), c->opt->out_axes[i]);
    return tpi_move_axis(c->of.at, y, 0, axis);
}

/* NULL, or the failed tensor. */
static tp_tensor *run_all(const call *c, const tpi_one_body *one, int64_t samples,
                          tp_tensor **out)
{
    tpi_bump memory = TPI_BUMP(&c->of.in[0]->ctx->mem);
    tpi_transform f = {.rules = &tpi_many_rules,
                       .ctx = c->of.in[0]->ctx,
                       .at = c->of.at,
                       .around = tpi_one_around(one),
                       .memory = &memory,
                       .samples = samples,
                       .draws_once = c->opt && c->opt->same_draws};
    tp_tensor *failed;
    const tpi_image *y = tpi_one_images(one, &f, image_of, c, &failed);
    for (int i = 0; i < c->of.n_out && y; i++)
        out[i] = result(c, &f, i, y[i]);
    tpi_bump_free(&memory);
    return failed;
}

static tp_tensor *run(const void *user, tp_tensor **out)
{
    const call *c = user;
    int64_t samples = 0;
    tp_tensor *failed = count_samples(c, &samples);
    if (failed)
        return failed;
    tpi_one_body one;
    failed = tpi_one_open(&c->of, type_of_one, c, &one);
    failed = failed ? failed : run_all(c, &one, samples, out);
    tpi_one_close(&one);
    return failed;
}

/* ---- public --------------------------------------------------------------------------------------------- */

tp_status tp_vmap_at(const char *file, int line, tp_body body, void *user, int n_in,
                     tp_tensor *const *in, int n_out, tp_tensor **out,
                     const tp_vmap_options *opt)
{
    const call c = {
        {"tp_vmap", TPI_AT(file, line), body, user, n_in, n_out, in},
        opt
    };
    return tpi_one_call_run(&c.of, run, &c, n_out, out);
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
