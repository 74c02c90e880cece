/* Fused composites: which calls are, and what a tape has of them. */
#include "op/fused.h"

#include "ir/graph_def.h"

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
    y->ctx->seq += MOST_OPS;
    y->seq = y->ctx->seq++;
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
    requires = requires && ctx->recording;
    /* An operand that is marked later is refused where an op read it alone, which ops know. */
    if (!tpi_is_unwatched(ctx) || ctx->unfolding || (requires && (!all || may_change(c))))
        return NULL;
    tp_tensor *y = tpi_fused_run(ctx, at, c);
    if (y && y->status != TP_OK)
        return y;
    if (y && requires)
        return record(y, c) ? y : NULL;
    for (int i = 0; i < c->n_in && y && ctx->recording; i++)
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

static bool is_older(void *began, const tp_tensor *t)
{
    return t->seq < *(const uint64_t *)began;
}

/* The ops that y is computed by, since `began`, were called where t was: after what is older, and with the
 * operands as they were. False: no memory, or too many. */
static bool put_in_order(const tp_tensor *t, tp_tensor *y, uint64_t began)
{
    tpi_nodes all = {.ctx = t->ctx};
    bool ok = tpi_collect(&all, 1, &y, is_older, &began);
    int n = 0;
    for (int i = 0; i < all.n && ok; i++) {
        tp_tensor *node = all.v[i];
        if (node->seq < began)
            continue;
        ok = n < MOST_OPS;
        node->seq = t->seq - MOST_OPS + (uint64_t)n++;
        for (int k = 0; k < node->n_in; k++)
            for (int x = 0; x < t->n_in; x++)
                if (node->in[k]->buf == t->in[x]->buf)
                    node->in_version[k] = t->in_version[x];
    }
    tpi_nodes_free(&all);
    return ok;
}

#define EXCHANGE(type, field)                                                                  \
    {                                                                                          \
        type field = t->field;                                                                 \
        t->field = y->field;                                                                   \
        y->field = field;                                                                      \
    }

/* t and y take each other's place on the tape. */
static void exchange(tp_tensor *t, tp_tensor *y)
{
    EXCHANGE(const tpi_op *, op)
    EXCHANGE(tp_tensor **, in)
    EXCHANGE(uint32_t *, in_version)
    EXCHANGE(const void *, attrs)
    EXCHANGE(size_t, block_size)
    EXCHANGE(int32_t, n_in)
}

static bool unfold(tp_tensor *t)
{
    tp_ctx *ctx = t->ctx;
    const tpi_at at = TPI_AT(t->file, t->line);
    tp_tensor *in[TPI_FUSED_IN];
    const tpi_fused_call c = tpi_fused_call_of(t, in);
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    bool ok = tp_scope_begin(ctx) == TP_OK;
    if (ok) {
        tpi_frame_head *frame = ctx->frame;
        tp_graph *tracing = ctx->tracing;
        const bool recording = ctx->recording, traps = ctx->trap_nan, reads = ctx->reads_file,
                   was = ctx->unfolding;
        ctx->frame = NULL;
        ctx->tracing = NULL;
        ctx->recording = ctx->unfolding = true;
        ctx->trap_nan = ctx->reads_file = false;
        const uint64_t began = ctx->seq;
        tp_tensor *y = c.what->ops(at, in, c.v);
        ok = y->status == TP_OK && y->in && y->seq >= began && put_in_order(t, y, began);
        if (ok)
            exchange(t, y);
        ctx->frame = frame;
        ctx->tracing = tracing;
        ctx->recording = recording;
        ctx->unfolding = was;
        ctx->trap_nan = traps;
        ctx->reads_file = reads;
        tp_scope_end(ctx);
    }
    if (!ok)
        tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    return ok;
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
