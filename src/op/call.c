/* Makers of calls and results: see call.h. */
#include "op/call.h"

#include "ir/graph_def.h"
#include "op/op.h"

tp_tensor *tpi_call_new(tpi_at at, int64_t function, int n, tp_tensor *const *operands)
{
    const tpi_call_attrs attrs = {.function = function};
    return tpi_apply(at, &tpi_op_call, n, operands, &attrs);
}

tp_tensor *tpi_call_result(tpi_at at, tp_tensor *inside, tp_tensor *call)
{
    return tpi_apply(at, &tpi_op_result, TPI_IN(inside, call), NULL);
}

static bool asks(const tp_tensor *t)
{
    return tpi_is_live(t) && t->status == TP_OK && t->dtype >= TP_F32 &&
           (t->flags & TPI_REQUIRES);
}

/* Does a gradient that comes to t go on to what t was computed from? */
static bool carries(const tp_tensor *t)
{
    return asks(t) && t->in && t->op->kind != TPI_SOURCE && t->op->grad;
}

static bool is_among(const tp_tensor *t, int n, tp_tensor *const *list)
{
    int i = 0;
    while (i < n && list[i] != t)
        i++;
    return i < n;
}

/* The result that is there already for an inner value; NULL: none. */
static tp_tensor *find_result(const tp_tensor *inner, const tp_tensor *call, int n,
                              tp_tensor *const *out)
{
    for (int i = 0; i < n; i++)
        if (out[i] && out[i]->op == &tpi_op_result && out[i]->in[0] == inner &&
            out[i]->in[1] == call)
            return out[i];
    return NULL;
}

bool tpi_call_tie(tp_ctx *ctx, tpi_at at, int64_t function, int n_operands,
                  tp_tensor *const *operands, int n, tp_tensor *const *inner, tp_tensor **out)
{
    tp_tensor *call = NULL;
    bool asked = false, ok = true;
    for (int i = 0; i < n_operands && !asked; i++)
        asked = asks(operands[i]);
    for (int i = 0; i < n; i++) {
        tp_tensor *t = inner[i]; /* which may be out[i] */
        out[i] = t;
        if (!asked || !ctx->caller.recording || !carries(t) ||
            is_among(t, n_operands, operands))
            continue;
        if (!call)
            call = tpi_call_new(at, function, n_operands, operands);
        out[i] = find_result(t, call, i, out);
        if (!out[i])
            out[i] = tpi_call_result(at, t, call);
        ok &= out[i]->status == TP_OK;
    }
    return ok;
}

bool tpi_call_operands(tpi_nodes *operands, int n, tp_tensor *const *out,
                       bool (*stop)(void *user, const tp_tensor *t), void *user)
{
    tpi_nodes roots = {.ctx = operands->ctx};
    for (int i = 0; i < n && operands->ctx->caller.recording; i++)
        if (asks(out[i]))
            tpi_nodes_push(&roots, out[i]);
    bool ok = !roots.failed;
    operands->folded = operands->whole = true;
    if (ok && roots.n)
        ok = tpi_collect(operands, roots.n, roots.v, stop, user);
    int n_operands = 0;
    for (int i = 0; i < operands->n && ok; i++)
        if (stop(user, operands->v[i]) && asks(operands->v[i]))
            operands->v[n_operands++] = operands->v[i];
    operands->n = n_operands;
    tpi_nodes_free(&roots);
    return ok;
}

bool tpi_call_tie_turn(tp_ctx *ctx, tpi_at at, bool (*stop)(void *user, const tp_tensor *t),
                       void *user, int n, tp_tensor **out)
{
    tpi_nodes operands = {.ctx = ctx};
    const bool ok = tpi_call_operands(&operands, n, out, stop, user);
    if (ok && operands.n) {
        tp_tensor *call = tpi_call_new(at, TPI_CALL_BLOCK, operands.n, operands.v);
        for (int i = 0; i < n; i++)
            if (asks(out[i]))
                out[i] = tpi_call_result(at, out[i], call);
    }
    for (int i = 0; i < n && !ok; i++)
        out[i] = tpi_no_memory(ctx, at, NULL);
    tpi_nodes_free(&operands);
    return ok;
}
