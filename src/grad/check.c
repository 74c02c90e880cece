/* Gradients against central differences. */
#include "base/float_mode.h"
#include "op/op.h"

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
} check;

/* The weight of element i: fixed numbers in [0.5, 1.5), of both signs. */
static double weight(int64_t i)
{
    uint64_t h = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
    const double w = 0.5 + (double)(h >> 11) * 0x1p-53;
    return h & 1 ? w : -w;
}

/* The weighed sum of f at xs, with x number `which` replaced; NaN when f failed. */
static double value(const check *c, tp_tensor **xs, int which, tp_tensor *x)
{
    tp_tensor *was = xs[which];
    xs[which] = x;
    tp_tensor *y = c->f(c->user, c->n, xs);
    xs[which] = was;
    double sum = 0;
    const tpi_at at = c->at;
    tp_tensor *flat = tp_contiguous(tp_cast(y, TP_F64));
    const double *v = tp_data(flat);
    const int64_t n = v ? tp_count(flat) : 0;
    for (int64_t i = 0; i < n; i++)
        sum += weight(i) * v[i];
    return v ? sum : (double)NAN;
}

static tp_tensor *weights_like(const check *c, tp_tensor *y)
{
    if (tp_failed(y) || y->graph)
        return y;
    tp_tensor *w = tpi_tensor_new(c->ctx, c->at, (tp_dtype)y->dtype, y->rank, y->shape);
    if (tp_failed(w))
        return w;
    const size_t size = tp_dtype_size((tp_dtype)y->dtype);
    for (int64_t i = 0, n = tpi_count(w); i < n; i++)
        tpi_store_f64((tp_dtype)w->dtype, w->data + (size_t)i * size, weight(i));
    return w;
}

/* The largest error over the elements of x number k, whose gradient is dx. */
static double error_of(const check *c, tp_tensor **xs, int k, const double *dx)
{
    const tp_tensor *x = c->xs[k];
    const int64_t n = tpi_count(x);
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double side[2];
        double at = 0, step = 0;
        for (int s = 0; s < 2; s++) {
            tp_scope_begin(c->ctx);
            tp_tensor *moved = tpi_tensor_new(c->ctx, c->at, TP_F64, x->rank, x->shape);
            if (tp_failed(moved)) {
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
        const double slope = (side[0] - side[1]) / ((at + step) - (at - step));
        const double error = fabs(slope - dx[i]) / (fabs(slope) > 1 ? fabs(slope) : 1);
        worst = !(error <= worst) ? error : worst; /* NaN is the worst of all */
    }
    return worst;
}

static tp_status run(const check *c, tp_tensor **xs, tp_tensor **dx, double *max_error)
{
    TPI_DEFAULT_FLOAT_MODE;
    const tpi_at at = c->at;
    for (int i = 0; i < c->n; i++) {
        xs[i] = c->xs[i];
        if (xs[i]->dtype == TP_F64)
            xs[i] = tp_require_grad(tp_contiguous(tp_detach(xs[i])));
    }
    tp_tensor *y = c->f(c->user, c->n, xs);
    if (!y)
        return tpi_fail_status(c->ctx, at, "tp_grad_check", TP_E_NULL, "f gave NULL");
    if (tp_is_symbolic(y))
        return tpi_fail_status(c->ctx, at, "tp_grad_check", TP_E_SYMBOLIC,
                               "what f gave is symbolic");
    tp_tensor *w = weights_like(c, y);
    *max_error = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->xs[i]->dtype != TP_F64)
            continue;
        const tp_status status = tp_grads(y, w, 1, &xs[i], &dx[i]);
        dx[i] = tp_contiguous(dx[i]);
        if (status != TP_OK || tp_failed(dx[i]))
            return status != TP_OK ? status : tp_status_of(dx[i]);
    }
    for (int i = 0; i < c->n; i++) {
        if (c->xs[i]->dtype != TP_F64)
            continue;
        const double error = error_of(c, xs, i, tp_data(dx[i]));
        *max_error = !(error <= *max_error) ? error : *max_error;
    }
    return TP_OK;
}

tp_status tp_grad_check_at(const char *file, int line, tp_checked_function f, void *user, int n,
                           tp_tensor *const *xs, double *max_error)
{
    check c = {.at = TPI_AT(file, line), .f = f, .user = user, .n = n, .xs = xs};
    if (!f || n < 1 || !xs || !max_error)
        return TP_E_NULL;
    *max_error = (double)NAN;
    for (int i = 0; i < n; i++) {
        const tp_tensor *failed = tpi_refuse_operand(c.ctx, c.at, "tp_grad_check", i, xs[i]);
        if (failed)
            return (tp_status)failed->status;
        c.ctx = xs[i]->ctx;
        if (xs[i]->graph)
            return tpi_fail_status(c.ctx, c.at, "tp_grad_check", TP_E_SYMBOLIC,
                                   "x %d is symbolic", i);
    }
    if (tp_scope_begin(c.ctx) != TP_OK)
        return TP_E_MEMORY;
    const tpi_paused around = tpi_pause(c.ctx, c.at);
    const size_t bytes = (size_t)n * sizeof *xs;
    tp_tensor **work = tpi_take(&c.ctx->mem, bytes), **dx = tpi_take(&c.ctx->mem, bytes);
    tp_status status = TP_E_MEMORY;
    if (work && dx)
        status = run(&c, work, dx, max_error);
    else
        tpi_no_memory(c.ctx, c.at, "tp_grad_check");
    tpi_give_back(&c.ctx->mem, work, bytes);
    tpi_give_back(&c.ctx->mem, dx, bytes);
    tpi_resume(c.ctx, around);
    (tp_scope_end)(c.ctx);
    return status;
}

tp_status(tp_grad_check)(tp_checked_function f, void *user, int n, tp_tensor *const *xs,
                         double *max_error)
{
    return tp_grad_check_at(NULL, 0, f, user, n, xs, max_error);
}
