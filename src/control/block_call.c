/* Blocks as functions with callbacks. */
#include "control/open_block.h"
#include "op/op.h"

static const char no_body[] = "the %s is NULL";

/* The places of v[n], for blocks; NULL: no memory. */
static tp_tensor ***places(tp_ctx *ctx, int n, tp_tensor **v)
{
    tp_tensor ***p = tpi_take(&ctx->mem, (size_t)n * sizeof *p);
    for (int i = 0; p && i < n; i++)
        p[i] = &v[i];
    return p;
}

/* The context of the first live tensor. */
static tp_ctx *context(tp_tensor *first, int n, tp_tensor *const *v)
{
    tp_ctx *ctx = tpi_is_live(first) ? first->ctx : NULL;
    for (int i = 0; i < n && v && !ctx; i++)
        ctx = tpi_is_live(v[i]) ? v[i]->ctx : NULL;
    return ctx;
}

static tp_status status_of(tp_ctx *ctx, int n, tp_tensor *const *v)
{
    tp_status s = TP_OK;
    for (int i = 0; i < n && s == TP_OK; i++)
        s = v[i] ? tpi_is_live(v[i]) ? (tp_status)v[i]->status : TP_E_STATE : TP_OK;
    return n ? s : ctx->status;
}

static tp_status give_back(tp_ctx *ctx, tp_tensor ***p, int n, tp_tensor *const *v)
{
    tpi_give_back(&ctx->mem, p, (size_t)n * sizeof *p);
    return status_of(ctx, n, v);
}

tp_status tp_cond_at(const char *file, int line, tp_tensor *pred, tp_block_body then,
                     tp_block_body other, void *user, int n, tp_tensor **v)
{
    static const char what[] = "tp_cond";
    const tpi_at at = TPI_AT(file, line);
    tp_ctx *ctx = context(pred, n, v);
    if (!ctx)
        return TP_E_NULL;
    if (!then || n < 0 || (n && !v))
        return tpi_fail_status(ctx, at, what, TP_E_NULL, no_body,
                               then ? "list of variables" : "body");
    tp_tensor ***p = places(ctx, n, v);
    if (!p)
        return tpi_fail_status(ctx, at, what, TP_E_MEMORY, "out of memory");
    tp_block *b = tpi_begin_if(at, pred, n, p);
    while (tp_if_next(&b)) {
        if (tp_if_side(b))
            then(user, n, v);
        else if (other)
            other(user, n, v);
    }
    return give_back(ctx, p, n, v);
}

tp_status(tp_cond)(tp_tensor *pred, tp_block_body then, tp_block_body other, void *user, int n,
                   tp_tensor **v)
{
    return tp_cond_at(NULL, 0, pred, then, other, user, n, v);
}

tp_status tp_while_loop_at(const char *file, int line, tp_block_pred pred, tp_block_body body,
                           void *user, int n, tp_tensor **v)
{
    static const char what[] = "tp_while_loop";
    const tpi_at at = TPI_AT(file, line);
    tp_ctx *ctx = context(NULL, n, v);
    if (!ctx)
        return TP_E_NULL;
    if (!pred || !body)
        return tpi_fail_status(ctx, at, what, TP_E_NULL, no_body, pred ? "body" : "condition");
    tp_tensor ***p = places(ctx, n, v);
    if (!p)
        return tpi_fail_status(ctx, at, what, TP_E_MEMORY, "out of memory");
    tp_block *b = tpi_begin_while(at, n, p);
    while (b && tp_while_next(&b, pred(user, n, v)))
        body(user, n, v);
    return give_back(ctx, p, n, v);
}

tp_status(tp_while_loop)(tp_block_pred pred, tp_block_body body, void *user, int n,
                         tp_tensor **v)
{
    return tp_while_loop_at(NULL, 0, pred, body, user, n, v);
}

/* One turn of tp_scan: x[] and y[] are the callback's. */
static bool scan_turn(tpi_at at, tp_scan_body body, void *user, int n, tp_tensor **v, int n_xs,
                      tp_tensor *const *xs, tp_tensor **x, int n_ys, tp_tensor **ys,
                      tp_tensor **y)
{
    for (int i = 0; i < n_xs; i++)
        x[i] = tp_each_at(at.file, at.line, xs[i]);
    for (int i = 0; i < n_ys; i++)
        y[i] = NULL;
    body(user, n, v, n_xs, x, n_ys, y);
    bool ok = true;
    for (int i = 0; i < n_ys && ok; i++)
        ok = tp_emit_at(at.file, at.line, &ys[i], y[i]) == TP_OK;
    return ok;
}

tp_status tp_scan_at(const char *file, int line, int64_t count, const tp_scan_options *opt,
                     tp_scan_body body, void *user, int n, tp_tensor **v, int n_xs,
                     tp_tensor *const *xs, int n_ys, tp_tensor **ys)
{
    static const char what[] = "tp_scan";
    const tpi_at at = TPI_AT(file, line);
    tp_ctx *ctx = context(NULL, n, v);
    if (!ctx)
        return TP_E_NULL;
    if (!body || n_xs < 0 || n_ys < 0 || (n_xs && !xs) || (n_ys && !ys))
        return tpi_fail_status(ctx, at, what, TP_E_NULL, no_body,
                               body ? "list of tensors" : "body");
    for (int i = 0; i < n_ys; i++)
        ys[i] = NULL;
    tp_tensor ***p = places(ctx, n, v);
    const size_t bytes = (size_t)(n_xs + n_ys) * sizeof(tp_tensor *);
    tp_tensor **xy = tpi_take(&ctx->mem, bytes);
    tp_block *b = p && xy ? tpi_begin_for(at, opt && opt->back, count, n, p) : NULL;
    bool ok = p && xy;
    if (!ok)
        tpi_no_memory(ctx, at, what);
    while (tp_for_next(&b)) {
        if (opt && opt->checkpoint)
            tp_checkpoint_at(file, line, ctx);
        ok &= scan_turn(at, body, user, n, v, n_xs, xs, xy, n_ys, ys, xy + n_xs);
    }
    tpi_give_back(&ctx->mem, xy, bytes);
    if (!p)
        return TP_E_MEMORY;
    const tp_status s = give_back(ctx, p, n, v);
    return s != TP_OK ? s : ok ? status_of(ctx, n_ys, ys) : ctx->status;
}

tp_status(tp_scan)(int64_t count, const tp_scan_options *opt, tp_scan_body body, void *user,
                   int n, tp_tensor **v, int n_xs, tp_tensor *const *xs, int n_ys,
                   tp_tensor **ys)
{
    return tp_scan_at(NULL, 0, count, opt, body, user, n, v, n_xs, xs, n_ys, ys);
}
