/* Gradients against central differences. */
#include "base/float_mode.h"
#include "grad/differences.h"

#include <math.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE at.file, at.line

typedef struct check {
    tp_ctx *ctx;
    tpi_at at;
    tp_checked_function f;
    void *user;
    int n;
    tp_tensor *const *xs;
    tp_tensor *failed; /* NULL, or the first */
    tpi_difference worst;
} check;

static const char what[] = "tp_grad_check";

/* Kept beyond the open scope. */
static void note_failure(check *c, tp_tensor *failed)
{
    c->failed = c->failed ? c->failed : tp_keep(failed);
}

/* What f gives; false: that failed. */
static bool call(check *c, tp_tensor **xs, tp_tensor **y)
{
    *y = c->f(c->user, c->n, xs);
    tp_tensor *failed = tpi_refuse_operand(c->ctx, c->at, what, 0, *y);
    if (!*y)
        failed = tpi_fail(c->ctx, c->at, what, TP_E_NULL, "f gave NULL");
    else if (!failed && (*y)->graph)
        failed = tpi_fail(c->ctx, c->at, what, TP_E_SYMBOLIC, "what f gave is symbolic");
    if (failed)
        note_failure(c, failed);
    return !failed;
}

/* The weight of element i: fixed numbers in [0.5, 1.5), of both signs. */
static double weight(int64_t i)
{
    uint64_t h = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
    const double w = 0.5 + (double)(h >> 11) * 0x1p-53;
    return h & 1 ? w : -w;
}

/* The weighed sum of f at xs, with x number `which` replaced; NaN when f failed. */
static double value(check *c, tp_tensor **xs, int which, tp_tensor *x)
{
    tp_tensor *was = xs[which], *y;
    xs[which] = x;
    const bool good = call(c, xs, &y);
    xs[which] = was;
    if (!good)
        return (double)NAN;
    double sum = 0;
    const tpi_at at = c->at;
    tp_tensor *flat = tp_contiguous(tp_cast(y, TP_F64));
    if (tp_failed(flat))
        note_failure(c, flat);
    const double *v = tp_data(flat);
    const int64_t n = v ? tp_count(flat) : 0;
    for (int64_t i = 0; i < n; i++)
        sum += weight(i) * v[i];
    return v ? sum : (double)NAN;
}

static tp_tensor *weights_like(const check *c, tp_tensor *y)
{
    tp_tensor *w = tpi_tensor_new(c->ctx, c->at, (tp_dtype)y->dtype, y->rank, y->shape);
    if (tp_failed(w))
        return w;
    const size_t size = tp_dtype_size((tp_dtype)y->dtype);
    for (int64_t i = 0, n = tpi_count(w); i < n; i++)
        tpi_store_f64((tp_dtype)w->dtype, w->data + (size_t)i * size, weight(i));
    return w;
}

/* The difference quotient of element i of x number k. */
static double quotient(check *c, tp_tensor **xs, int k, int64_t i)
{
    const tp_tensor *x = c->xs[k];
    double side[2], at = 0, step = 0;
    for (int s = 0; s < 2; s++) {
        tp_scope_begin(c->ctx);
        tp_tensor *moved = tpi_tensor_new(c->ctx, c->at, TP_F64, x->rank, x->shape);
        if (tp_failed(moved)) {
            note_failure(c, moved);
            (tp_scope_end)(c->ctx);
            return (double)NAN;
        }
        tpi_copy_out(x, moved->data);
        double *v = (double *)(void *)moved->data;
        at = v[i];
        step = 1e-5 * (fabs(at) > 1 ? fabs(at) : 1);
        v[i] = s ? at - step : at + step;
        side[s] = value(c, xs, k, moved);
        (tp_scope_end)(c->ctx);
    }
    return (side[0] - side[1]) / ((at + step) - (at - step));
}

/* Over the elements of x number k, whose gradient is dx. */
static void compare(check *c, tp_tensor **xs, int k, const double *dx)
{
    for (int64_t i = 0, n = tpi_count(c->xs[k]); i < n && !c->failed; i++) {
        const double slope = quotient(c, xs, k, i);
        const double error = fabs(slope - dx[i]) / (fabs(slope) > 1 ? fabs(slope) : 1);
        if (!(error <= c->worst.error)) /* NaN is the worst of all */
            c->worst = (tpi_difference){error, dx[i], slope, k, i};
    }
}

static void run(check *c, tp_tensor **xs, tp_tensor **dx)
{
    TPI_DEFAULT_FLOAT_MODE;
    const tpi_at at = c->at;
    tp_tensor *y;
    for (int i = 0; i < c->n; i++) {
        xs[i] = c->xs[i];
        if (xs[i]->dtype == TP_F64)
            xs[i] = tp_require_grad(tp_contiguous(tp_detach(xs[i])));
    }
    if (!call(c, xs, &y))
        return;
    tp_tensor *w = weights_like(c, y);
    for (int i = 0; i < c->n && !c->failed; i++) {
        if (c->xs[i]->dtype != TP_F64)
            continue;
        tp_grads(y, w, 1, &xs[i], &dx[i]);
        dx[i] = tp_contiguous(dx[i]);
        if (tp_failed(dx[i]))
            note_failure(c, dx[i]);
    }
    for (int i = 0; i < c->n && !c->failed; i++)
        if (c->xs[i]->dtype == TP_F64)
            compare(c, xs, i, tp_data(dx[i]));
}

tp_tensor *tpi_grad_check(tpi_at at, tp_checked_function f, void *user, int n,
                          tp_tensor *const *xs, tpi_difference *worst)
{
    tp_ctx *ctx = xs[0]->ctx;
    check c = {.ctx = ctx, .at = at, .f = f, .user = user, .n = n, .xs = xs};
    if (tp_scope_begin(ctx) != TP_OK)
        return &ctx->nil;
    const tpi_paused around = tpi_pause(ctx, at);
    const size_t bytes = (size_t)n * sizeof *xs;
    tp_tensor **work = tpi_take(&ctx->mem, bytes), **dx = tpi_take(&ctx->mem, bytes);
    if (work && dx)
        run(&c, work, dx);
    else
        note_failure(&c, tpi_no_memory(ctx, at, what));
    tpi_give_back(&ctx->mem, work, bytes);
    tpi_give_back(&ctx->mem, dx, bytes);
    tpi_resume(ctx, around);
    if (c.failed)
        tp_keep(c.failed);
    (tp_scope_end)(ctx);
    *worst = c.worst;
    return c.failed;
}

tp_status tp_grad_check_at(const char *file, int line, tp_checked_function f, void *user, int n,
                           tp_tensor *const *xs, double *max_error)
{
    const tpi_at at = TPI_AT(file, line);
    tp_ctx *ctx = NULL;
    tpi_difference worst;
    if (!f || n < 1 || !xs || !max_error)
        return TP_E_NULL;
    *max_error = (double)NAN;
    for (int i = 0; i < n; i++) {
        const tp_tensor *failed = tpi_refuse_operand(ctx, at, what, i, xs[i]);
        if (failed)
            return (tp_status)failed->status;
        ctx = xs[i]->ctx;
        if (xs[i]->graph)
            return tpi_fail_status(ctx, at, what, TP_E_SYMBOLIC, "x %d is symbolic", i);
        if (xs[i]->dtype == TP_F32)
            return tpi_fail_status(ctx, at, what, TP_E_DTYPE,
                                   "x %d is f32, too short for differences; tp_cast it to f64",
                                   i);
    }
    const tp_tensor *failed = tpi_grad_check(at, f, user, n, xs, &worst);
    if (!failed)
        *max_error = worst.error;
    return failed ? (tp_status)failed->status : TP_OK;
}

tp_status(tp_grad_check)(tp_checked_function f, void *user, int n, tp_tensor *const *xs,
                         double *max_error)
{
    return tp_grad_check_at(NULL, 0, f, user, n, xs, max_error);
}
