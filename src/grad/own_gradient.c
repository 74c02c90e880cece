/* Gradients of the user's own: tp_custom_call, tp_straight_through, and the block in which nothing is recorded. */
#include "base/float_mode.h"
#include "grad/differences.h"
#include "ir/graph_def.h"
#include "op/custom.h"
#include "op/random_position.h"
#include "op/sizes.h"

#undef TP_PLACE
#define TP_PLACE at.file, at.line

/* ---- tp_no_grad ----------------------------------------------------------------------------------- */

tp_no_grad_block tp_no_grad_begin(tp_ctx *tp)
{
    tp_no_grad_block b = {.tp = tp};
    b.was = tp_recording(tp, false);
    return b;
}

bool tp_no_grad_next(tp_no_grad_block *b)
{
    const bool enters = !b->entered;
    b->entered = true;
    if (!enters)
        tp_no_grad_left(b);
    return enters;
}

void tp_no_grad_left(tp_no_grad_block *b)
{
    if (b->tp)
        tp_recording(b->tp, b->was);
    b->tp = NULL;
}

/* ---- a call --------------------------------------------------------------------------------------------- */

typedef struct call {
    tpi_at at;
    const tp_custom *rule;
    void *user;
    int n_in, n_out;
    tp_tensor *const *in;
} call;

/* The first of out[n] that failed; NULL: none has. */
static tp_tensor *first_failed(int n, tp_tensor *const *out)
{
    for (int i = 0; i < n; i++)
        if (out[i]->status != TP_OK)
            return out[i];
    return NULL;
}

/* Forward, in a scope of its own, which hands the results out. */
static tp_status run_forward(const call *c, tp_tensor **out)
{
    tp_ctx *ctx = c->in[0]->ctx;
    const tpi_at at = c->at;
    const tpi_custom_attrs attrs = {.n_out = c->n_out, .rule = c->rule, .user = c->user};
    tpi_user_code code;
    for (int i = 0; i < c->n_out; i++)
        out[i] = NULL;
    if (tp_scope_begin(ctx) != TP_OK)
        return tpi_fail_all(&ctx->nil, c->n_out, out);
    tpi_user_code_enter(&code, ctx, c->rule->name);
    c->rule->forward(c->user, c->n_in, c->in, c->n_out, out);
    tpi_user_code_end_blocks(&code);
    tp_tensor *failed = NULL;
    for (int i = 0; i < c->n_out && !failed; i++)
        failed = out[i]
                     ? tpi_refuse_operand(ctx, at, c->rule->name, i, out[i])
                     : tpi_fail(ctx, at, c->rule->name, TP_E_NULL, "result %d was not set", i);
    if (failed)
        tpi_fail_all(failed, c->n_out, out);
    else
        tpi_custom_tie(at, &attrs, c->n_in, c->in, c->n_out, out);
    for (int i = 0; i < c->n_out; i++)
        tpi_ref(out[i]);
    tpi_user_code_leave(&code);
    tp_scope_end(ctx);
    for (int i = 0; i < c->n_out; i++)
        out[i] = tpi_hand_out(out[i], at);
    failed = first_failed(c->n_out, out);
    return failed ? (tp_status)failed->status : TP_OK;
}

/* ---- the check ------------------------------------------------------------------------------------------ */

typedef struct checking {
    const call *c;
    tp_tensor **out;
    const tpi_positions *begins; /* from where forward draws, each time */
} checking;

static tp_tensor *checked_call(void *user, int n, tp_tensor *const *xs)
{
    const checking *k = user;
    const tpi_at at = k->c->at;
    tpi_positions_back(k->c->in[0]->ctx, k->begins);
    call again = *k->c;
    again.n_in = n;
    again.in = xs;
    return run_forward(&again, k->out) == TP_OK
               ? tp_cast(tpi_custom_joined(at, again.n_out, k->out), TP_F64)
               : first_failed(again.n_out, k->out);
}

/* A host may have exceptions unmasked, which a NaN here would raise. */
static bool is_near(double error)
{
    TPI_DEFAULT_FLOAT_MODE;
    TPI_FLOAT_PIN(error);
    bool is = error <= 1e-5;
    TPI_FLOAT_PIN(is);
    return is;
}

/* Of a call whose arguments are no f32. NULL, or the failed tensor. */
static tp_tensor *compare_gradients(const call *c, const tpi_positions *begins, tp_tensor **out)
{
    tp_ctx *ctx = c->in[0]->ctx;
    tpi_difference d;
    if (run_forward(c, out) != TP_OK)
        return first_failed(c->n_out, out);
    if (tpi_custom_count_floats(c->n_out, out) == 0)
        return NULL;
    tp_tensor *failed =
        tpi_grad_check(c->at, checked_call, &(checking){c, out, begins}, c->n_in, c->in, &d);
    if (failed || is_near(d.error))
        return failed;
    return tpi_fail(ctx, c->at, c->rule->name, TP_E_VALUE,
                    "backward gives %.9g as the gradient of element %lld of argument %d, where "
                    "differences of forward give %.9g: off by %.3g of max(1, difference)",
                    d.gradient, (long long)d.at, d.x, d.quotient, d.error);
}

/* NULL, or the failed tensor that the call gives. */
static tp_tensor *check(const call *c, tp_tensor **out)
{
    tp_ctx *ctx = c->in[0]->ctx;
    const tpi_at at = c->at;
    tpi_nodes wide = {.ctx = ctx};
    if (tp_scope_begin(ctx) != TP_OK)
        return &ctx->nil;
    const bool was = tp_recording(ctx, true);
    tpi_positions begins; /* forward may draw, and draws the same in the call */
    const bool noted = tpi_positions_note(ctx, &begins);
    for (int i = 0; i < c->n_in; i++)
        tpi_nodes_push(&wide,
                       tp_dtype_of(c->in[i]) == TP_F32 ? tp_cast(c->in[i], TP_F64) : c->in[i]);
    call again = *c;
    again.in = wide.v;
    tp_tensor *failed = wide.failed || !noted ? tpi_no_memory(ctx, at, c->rule->name)
                                              : compare_gradients(&again, &begins, out);
    tpi_positions_back(ctx, &begins);
    tpi_positions_free(ctx, &begins);
    tp_recording(ctx, was);
    tpi_nodes_free(&wide);
    if (failed)
        tp_keep(failed);
    tp_scope_end(ctx);
    return failed;
}

/* ---- public ------------------------------------------------------------------------------------------------ */

static tp_tensor *refuse(const call *c)
{
    tp_ctx *ctx = c->n_in > 0 && c->in && c->in[0] ? c->in[0]->ctx : NULL;
    const char *what = "tp_custom_call";
    if (!c->rule || !c->rule->name || !c->rule->forward || !c->rule->backward)
        return tpi_fail(ctx, c->at, what, TP_E_NULL, "the %s is NULL",
                        !c->rule            ? "description"
                        : !c->rule->name    ? "name"
                        : !c->rule->forward ? "function forward"
                                            : "function backward");
    if (c->n_in < 1 || !c->in)
        return tpi_fail(ctx, c->at, c->rule->name, TP_E_NULL, "the arguments are missing");
    return tpi_refuse_operands(c->at, c->rule->name, c->n_in, c->in);
}

static bool is_checked(const call *c)
{
    const tp_ctx *ctx = c->in[0]->ctx;
    bool some = false, symbolic = false;
    for (int i = 0; i < c->n_in; i++) {
        symbolic |= c->in[i]->graph != NULL;
        some |= c->in[i]->dtype >= TP_F32;
    }
    return c->rule->check && some && !symbolic && !ctx->frame && !ctx->tracing;
}

tp_status tp_custom_call_at(const char *file, int line, const tp_custom *rule, void *user,
                            int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const call c = {TPI_AT(file, line), rule, user, n_in, n_out, in};
    if (n_out < 1 || !out)
        return tpi_fail_status(n_in > 0 && in && in[0] ? in[0]->ctx : NULL, c.at,
                               "tp_custom_call", TP_E_NULL, "there is no place for results");
    tp_tensor *failed = refuse(&c);
    if (failed)
        return tpi_fail_all(failed, n_out, out);
    TPI_ALONE_OR(in[0]->ctx, c.at, rule->name, tpi_fail_all((tp_tensor *)crowd, n_out, out));
    failed = is_checked(&c) ? check(&c, out) : NULL;
    return failed ? tpi_fail_all(failed, n_out, out) : run_forward(&c, out);
}

tp_status(tp_custom_call)(const tp_custom *c, void *user, int n_in, tp_tensor *const *in,
                          int n_out, tp_tensor **out)
{
    return tp_custom_call_at(NULL, 0, c, user, n_in, in, n_out, out);
}

tp_tensor *tp_custom_apply_at(const char *file, int line, const tp_custom *c, void *user,
                              int n_in, tp_tensor *const *in)
{
    tp_tensor *y = (tp_tensor *)&tpi_nil;
    tp_custom_call_at(file, line, c, user, n_in, in, 1, &y);
    return y;
}

TPI_BARE(tp_tensor *, tp_custom_apply,
         (const tp_custom *c, void *user, int n_in, tp_tensor *const *in), c, user, n_in, in)

/* ---- straight through --------------------------------------------------------------------------------------- */

static void pass_on(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] = v->dout[0];
}

tp_tensor *tp_straight_through_at(const char *file, int line, tp_tensor *y, tp_tensor *x)
{
    static const tp_custom rule = {.name = "straight_through", .backward = pass_on};
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operands(at, rule.name, 2, (tp_tensor *[]){x, y});
    if (failed)
        return failed;
    TPI_ALONE(x->ctx, at, rule.name);
    failed = tpi_refuse_operand(x->ctx, at, rule.name, 0, y);
    if (failed)
        return failed;
    if (y->dtype != x->dtype || !tpi_same_shape(y, x))
        return tpi_fail(x->ctx, at, rule.name, TP_E_SHAPE, "y is %s %s, x is %s %s",
                        tp_dtype_name((tp_dtype)y->dtype), SHAPE(y),
                        tp_dtype_name((tp_dtype)x->dtype), SHAPE(x));
    const tpi_custom_attrs attrs = {.n_out = 1, .rule = &rule};
    tpi_custom_tie(at, &attrs, 1, &x, 1, &y);
    return y;
}

TPI_BARE(tp_tensor *, tp_straight_through, (tp_tensor * y, tp_tensor *x), y, x)
