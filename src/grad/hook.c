/* Hooks: functions of the user's that see gradients on their way. */
#include "grad/hook.h"

#include "ir/body.h"
#include "op/custom.h"

#include <string.h>

/* Nodes know it by its number, as they may outlive it. */
struct tp_hook {
    tpi_owned owned;
    tp_ctx *ctx;
    tp_hook_function f;
    void *user;
    int64_t number;
};

/* ---- life ------------------------------------------------------------------------------------------- */

static void take_off(tp_hook *h)
{
    tp_ctx *ctx = h->ctx;
    int n = 0;
    for (int i = 0; i < ctx->n_hung; i++) {
        if (ctx->hung[i].hook == h)
            tpi_unref(ctx->hung[i].t);
        else
            ctx->hung[n++] = ctx->hung[i];
    }
    ctx->n_hung = n;
    if (n > 0)
        return;
    tpi_give_back(&ctx->mem, ctx->hung, (size_t)ctx->hung_size * sizeof *ctx->hung);
    ctx->hung = NULL;
    ctx->hung_size = 0;
}

static void hook_free(tpi_owned *o)
{
    tp_hook *h = (tp_hook *)o;
    take_off(h);
    tpi_give_back(&h->ctx->mem, h, sizeof *h);
}

/* Hooks have come or gone: replays that leave out C do not know of it. */
static void note_change(tp_ctx *ctx)
{
    ctx->hooks_changed++;
    tpi_note_effect(ctx, NULL, TPI_LOOK_EFFECT);
}

tp_hook *tp_hook_new_at(const char *file, int line, tp_ctx *tp, tp_hook_function f, void *user)
{
    static const char what[] = "tp_hook_new";
    const tpi_at at = TPI_AT(file, line);
    if (!tp)
        return NULL;
    TPI_ALONE_OR(tp, at, what, NULL);
    tp_hook *h = f ? tpi_take(&tp->mem, sizeof *h) : NULL;
    if (!f)
        tpi_fail_status(tp, at, what, TP_E_NULL, "the function is NULL");
    else if (!h)
        tpi_no_memory(tp, at, what);
    if (!h)
        return NULL;
    *h = (tp_hook){.ctx = tp, .f = f, .user = user, .number = (int64_t)++tp->hooks_made};
    tpi_object_add(tp, &h->owned, hook_free);
    return h;
}

TPI_BARE(tp_hook *, tp_hook_new, (tp_ctx * tp, tp_hook_function f, void *user), tp, f, user)

void tp_hook_free(tp_hook *h)
{
    if (!h)
        return;
    TPI_ALONE_OR(h->ctx, TPI_AT(NULL, 0), "tp_hook_free", );
    note_change(h->ctx);
    tpi_object_remove(&h->owned);
    hook_free(&h->owned);
}

/* ---- on values -------------------------------------------------------------------------------------- */

static tp_hook *find(tp_ctx *ctx, int64_t number)
{
    tpi_owned *o = ctx->objects.next;
    while (o != &ctx->objects && (o->free != hook_free || ((tp_hook *)o)->number != number))
        o = o->next;
    return o == &ctx->objects ? NULL : (tp_hook *)o;
}

static void hooked_backward(void *user, const tp_vjp *v)
{
    const tp_hook *h = find(tp_ctx_of(v->in[0]), *(const int64_t *)user);
    tp_tensor *g = h ? h->f(h->user, v->dout[0]) : NULL;
    v->din[0] = g ? g : v->dout[0];
}

tp_tensor *tp_hooked_at(const char *file, int line, tp_tensor *x, tp_hook *h)
{
    static const tp_custom rule = {.name = "tp_hooked", .backward = hooked_backward};
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, rule.name, 0, x);
    if (failed || !x)
        return failed ? failed : (tp_tensor *)&tpi_nil;
    TPI_ALONE(x->ctx, at, rule.name);
    if (!h || h->ctx != x->ctx)
        return tpi_fail(x->ctx, at, rule.name, h ? TP_E_CTX : TP_E_NULL,
                        h ? "the hook is of another context" : "the hook is NULL");
    if (x->dtype < TP_F32)
        return tpi_fail(x->ctx, at, rule.name, TP_E_DTYPE,
                        "the tensor is %s: gradients are for f32 and f64",
                        tp_dtype_name((tp_dtype)x->dtype));
    const tpi_custom_attrs attrs = {.n_out = 1, .rule = &rule, .hook = h->number};
    tp_tensor *y = x;
    tpi_custom_tie(at, &attrs, 1, &x, 1, &y);
    return y;
}

TPI_BARE(tp_tensor *, tp_hooked, (tp_tensor * x, tp_hook *h), x, h)

/* ---- on marked tensors -------------------------------------------------------------------------------- */

tp_status tp_hook_on_at(const char *file, int line, tp_tensor *x, tp_hook *h)
{
    static const char what[] = "tp_hook_on";
    const tpi_at at = TPI_AT(file, line);
    const tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (failed || !x)
        return failed ? (tp_status)failed->status : TP_E_NULL;
    tp_ctx *ctx = x->ctx;
    TPI_ALONE_STATUS(ctx, at, what);
    if (!h || h->ctx != ctx)
        return tpi_fail_status(ctx, at, what, h ? TP_E_CTX : TP_E_NULL,
                               h ? "the hook is of another context" : "the hook is NULL");
    if (!(x->flags & TPI_LEAF))
        return tpi_fail_status(ctx, at, what, TP_E_STATE,
                               "the tensor is not marked (tp_require_grad, tp_param): use "
                               "tp_hooked");
    if (tpi_is_shared(ctx, x))
        return (tp_status)tpi_fail_shared(ctx, at, what)->status;
    tpi_hung *v = tpi_grow(&ctx->mem, ctx->hung, ctx->n_hung, &ctx->hung_size, sizeof *v);
    if (!v)
        return (tp_status)tpi_no_memory(ctx, at, what)->status;
    ctx->hung = v;
    tpi_ref(x);
    v[ctx->n_hung++] = (tpi_hung){x, h};
    note_change(ctx);
    return TP_OK;
}

tp_status(tp_hook_on)(tp_tensor *x, tp_hook *h)
{
    return tp_hook_on_at(NULL, 0, x, h);
}

/* What h makes of g, in a scope of its own, which hands it out. */
static tp_tensor *pass_one(const tp_hook *h, tpi_at at, tp_tensor *g)
{
    tp_ctx *ctx = h->ctx;
    tpi_user_code code;
    if (tp_scope_begin(ctx) != TP_OK)
        return &ctx->nil;
    tpi_user_code_enter(&code, ctx, "hook");
    tp_tensor *y = h->f(h->user, g);
    tpi_user_code_end_blocks(&code);
    tp_tensor *failed = y ? tpi_refuse_operand(ctx, at, "hook", 0, y) : NULL;
    if (y && !failed && (y->dtype != g->dtype || !tpi_same_shape(y, g)))
        failed = tpi_fail(ctx, at, "hook", TP_E_SHAPE,
                          "the gradient is %s %s, what the hook gave is %s %s",
                          tp_dtype_name((tp_dtype)g->dtype), SHAPE(g),
                          tp_dtype_name((tp_dtype)y->dtype), SHAPE(y));
    if (y && !failed && y->graph && !(g->graph && tpi_graph_within(g->graph, y->graph)))
        failed =
            tpi_fail(ctx, at, "hook", TP_E_CTX, "what the hook gave belongs to another graph");
    if (y && !failed && g->graph && !y->graph)
        y = tpi_graph_lift(g->graph, at, y);
    y = failed ? failed : y ? y : g;
    tpi_ref(y);
    tpi_user_code_leave(&code);
    tp_scope_end(ctx);
    return tpi_hand_out(y, at);
}

tp_tensor *tpi_through_hooks(tpi_at at, tp_tensor *x, tp_tensor *g)
{
    const bool stands = x->op && x->op->kind == TPI_SOURCE && x->n_in; /* for a tensor */
    const tp_tensor *t = stands ? x->in[0] : x;
    tp_ctx *ctx = x->ctx;
    for (int i = 0; i < ctx->n_hung && g->status == TP_OK;) {
        const tp_hook *h = ctx->hung[i].hook;
        if (ctx->hung[i].t == t)
            g = pass_one(h, at, g);
        i += i < ctx->n_hung && ctx->hung[i].hook == h; /* unless it freed itself */
    }
    return g;
}
