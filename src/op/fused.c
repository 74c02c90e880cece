/* Fused composites: which calls are, and what a tape has of them. */
#include "op/fused.h"

#include "op/unfold.h"

/* Weak: what is linked with nothing that makes programs has no such functions, and calls the ops. */
#pragma weak tpi_fused_run
#pragma weak tpi_fused_back

enum {
#ifdef TPI_STRESS
    LEAST = 16,
#else
    LEAST = 4096, /* fewer elements are with their ops in the first cache */
#endif
    MOST_OPS = 256 /* of a composite; so many numbers of program order are left free for them */
};

typedef struct fused_attrs {
    const tpi_fused *what;
    double v[TPI_FUSED_NUMBERS];
    int n_in;                   /* of the call */
    int8_t place[TPI_FUSED_IN]; /* of an operand of the call, among the node's; -1: NULL */
} fused_attrs;

/* ---- calls ----------------------------------------------------------------------------------------- */

/* Could its ops, called again, give others than those that were left out? */
static bool may_change(const tpi_fused_call *c)
{
    bool may = c->what->kind == TPI_FUSED_FORWARD;
    for (int i = 0; i < c->n_in && !may; i++) {
        const bool last = c->what->kind == TPI_FUSED_SCALED && i > 0;
        may = c->in[i] && c->in[i]->flags & TPI_VARIABLE && !last;
        for (int k = 0; k < i && c->in[i] && !may; k++)
            may = c->in[k] == c->in[i];
    }
    return may;
}

/* Makes y, of a program, the node of its ops; false: no memory. */
static bool record(tp_tensor *y, const tpi_fused_call *c)
{
    tp_tensor *in[TPI_FUSED_IN];
    int n = 0;
    fused_attrs a = {.what = c->what, .n_in = c->n_in};
    memcpy(a.v, c->v, sizeof a.v);
    for (int i = 0; i < c->n_in; i++) {
        a.place[i] = c->in[i] ? (int8_t)n : -1;
        if (c->in[i])
            in[n++] = c->in[i];
    }
    if (!tpi_record(y, &tpi_op_fused, n, in, &a, sizeof a)) {
        y->op = NULL;
        return false;
    }
    y->flags |= TPI_REQUIRES;
    y->ctx->caller.seq += MOST_OPS;
    y->seq = y->ctx->caller.seq++;
    return true;
}

static tp_tensor *by_program(tpi_at at, const tpi_fused_call *c)
{
    const tp_tensor *x = c->in[0];
    bool good = tpi_fused_run != NULL && x, requires = false, all = true;
    for (int i = 0; i < c->n_in && good; i++) {
        const tp_tensor *t = c->in[i];
        if (!t)
            continue;
        good = tpi_is_live(t) && t->status == TP_OK && !t->graph && t->ctx == x->ctx &&
               t->dtype == x->dtype && t->dtype >= TP_F32 && t->flags & TPI_CONTIGUOUS &&
               t->rank <= x->rank;
        const bool asks = good && t->flags & TPI_REQUIRES;
        requires |= asks;
        all &= asks;
    }
    if (!good || tpi_count(x) < LEAST)
        return NULL;
    tp_ctx *ctx = x->ctx;
    requires = requires && ctx->caller.recording;
    /* An operand that is marked later is refused where an op read it alone, which ops know. */
    if (!tpi_is_unwatched(ctx) || ctx->unfolding || (requires && (!all || may_change(c))))
        return NULL;
    tp_tensor *y = tpi_fused_run(ctx, at, c);
    if (y && y->status != TP_OK)
        return y;
    if (y && requires)
        return record(y, c) ? y : NULL;
    for (int i = 0; i < c->n_in && y && ctx->caller.recording; i++)
        if (c->in[i])
            tpi_note_unrecorded(1, &c->in[i], y);
    return y;
}

tp_tensor *tpi_fuse(tpi_at at, const tpi_fused_call *c)
{
    tp_tensor *y = by_program(at, c);
    return y ? y : c->what->ops(at, c->in, c->v);
}

/* ---- nodes ----------------------------------------------------------------------------------------- */

tpi_fused_call tpi_fused_call_of(const tp_tensor *t, tp_tensor *in[TPI_FUSED_IN])
{
    const fused_attrs *a = t->attrs;
    tpi_fused_call c = {.what = a->what, .n_in = a->n_in, .in = in};
    memcpy(c.v, a->v, sizeof c.v);
    for (int i = 0; i < a->n_in; i++)
        in[i] = a->place[i] < 0 ? NULL : t->in[a->place[i]];
    return c;
}

static bool unfold(tp_tensor *t)
{
    tp_tensor *in[TPI_FUSED_IN];
    const tpi_at at = TPI_AT(t->file, t->line);
    const tpi_fused_call c = tpi_fused_call_of(t, in);
    tpi_unfolding u;
    bool ok = tpi_unfold_begin(&u, t->ctx);
    if (ok) {
        tp_tensor *y = c.what->ops(at, in, c.v);
        ok = y->status == TP_OK && y->in && y->seq >= u.began &&
             tpi_unfold_order(&u, t, MOST_OPS, 1, &y);
        if (ok)
            tpi_unfold_exchange(t, y);
    }
    return tpi_unfold_end(&u, ok);
}

static void back(tpi_grad *g)
{
    tp_tensor *failed = tpi_fused_back(g);
    for (int i = 0; i < g->n_in && failed; i++)
        if (tpi_wants(g, i)) {
            tpi_ref(failed);
            g->dx[i] = failed;
        }
}

const tpi_op tpi_op_fused = {.name = "fused",
                             .n_in = -1,
                             .kind = TPI_CALL,
                             .attrs_size = sizeof(fused_attrs),
                             .grad = back,
                             .unfold = unfold,
                             .code = TPI_N_OPS};
