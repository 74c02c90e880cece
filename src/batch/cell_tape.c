/* Cells as nodes of a tape. */
#include "batch/cell.h"
#include "grad/sweep.h"
#include "op/call.h"
#include "op/unfold.h"

#include <string.h>

static const tpi_op op_cell, op_part;

typedef struct cell_attrs {
    tpi_batch_cell *cell; /* the last operand keeps it */
} cell_attrs;

static tpi_batch_cell *cell_of(const tp_tensor *node)
{
    return ((const cell_attrs *)node->attrs)->cell;
}

/* So many numbers of program order are left free for the ops of the body. */
static uint64_t most_ops(const tpi_batch_cell *c)
{
    return 2 * (uint64_t)c->one.body->graph->n_nodes;
}

static tp_tensor *new_token(const tpi_batch_cell *c, tpi_at at, tp_tensor *const *in,
                            tp_tensor **y)
{
    tp_tensor *operands[3 * TPI_CELL_MOST];
    int n = 0;
    for (int i = 0; i < c->n_in; i++)
        operands[n++] = in[i];
    for (int i = 0; i < c->n_shared; i++)
        operands[n++] = c->shared[i].t;
    for (int i = 0; i < c->n_taps; i++)
        operands[n++] = y[c->n_out + i];
    operands[n++] = c->holder;
    const cell_attrs a = {(tpi_batch_cell *)c};
    c->ctx->caller.seq += most_ops(c) + 1; /* and one for what keeps their values */
    tp_tensor *t = tpi_tensor(c->ctx, at, TP_F32, 0, NULL);
    if (!t || !tpi_record(t, &op_cell, n, operands, &a, sizeof a))
        return NULL;
    t->flags |= TPI_REQUIRES;
    return t;
}

static void note_unrecorded(const tpi_batch_cell *c, tp_tensor *const *in, tp_tensor *y)
{
    if (!c->recording)
        return;
    tpi_note_unrecorded(c->n_in, in, y);
    for (int i = 0; i < c->n_shared; i++)
        tpi_note_unrecorded(1, &c->shared[i].t, y);
}

bool tpi_cell_record(const tpi_batch_cell *c, tpi_at at, tp_tensor *const *in, tp_tensor **y)
{
    bool any = false;
    for (int i = 0; i < c->n_out; i++)
        any |= c->asked[i];
    tp_tensor *token = any ? new_token(c, at, in, y) : NULL;
    if (any && !token)
        return false;
    for (int i = 0; i < c->n_out; i++) {
        const tpi_index_attrs a = {.index = i};
        if (!c->asked[i]) {
            note_unrecorded(c, in, y[i]);
            continue;
        }
        if (!tpi_record(y[i], &op_part, 1, &token, &a, sizeof a))
            return false;
        y[i]->flags |= TPI_REQUIRES;
        y[i]->seq = c->ctx->caller.seq++; /* behind the cell */
    }
    return true;
}

/* ---- back ------------------------------------------------------------------------------------------------------------- */

static void fail_all(tpi_grad *g, tp_tensor *failed)
{
    for (int k = 0; k < g->n_in; k++)
        if (tpi_wants(g, k) && !g->dx[k]) {
            tpi_ref(failed);
            g->dx[k] = failed;
        }
}

/* What is computed again would be of the operands as they are now. */
static tp_tensor *refuse_stale(const tp_tensor *node, tpi_at at)
{
    const tpi_batch_cell *c = cell_of(node);
    tp_tensor *failed = NULL;
    for (int k = 0; k < c->n_in + c->n_shared && !failed; k++)
        failed = tpi_refuse_stale(node, at, c->name, k);
    return failed;
}

/* Was a gradient of operand k asked for when the cell was made? One that was marked since has none. */
static bool was_asked(const tpi_batch_cell *c, int k)
{
    return k < c->n_in ? c->asks[k] : c->shared[k - c->n_in].role != TPI_CELL_NO_GRADIENT;
}

/* The operands of one call of the program, those that are not shared; NULL, or the failed tensor. */
static tp_tensor *take_operands(const tpi_grad *g, const tpi_cell_side *s, tp_tensor **in)
{
    int n = 0;
    for (int i = 0; i < s->n_in; i++) {
        const tpi_cell_port *p = &s->in[i];
        if (p->shared)
            continue;
        in[n] = p->of_result ? NULL : g->x[p->n];
        for (int r = 0; r < g->n_results && !in[n]; r++)
            if (tpi_index_of(g->results[r]) == p->n)
                in[n] = g->dys[r];
        if (in[n]->status != TP_OK)
            return in[n];
        n++;
    }
    return NULL;
}

static bool give(tpi_grad *g, const tpi_cell_side *s, tp_tensor *const *y)
{
    bool ok = true;
    for (int i = 0; i < s->n_out && ok; i++) {
        const tpi_cell_port *p = &s->out[i];
        if (p->rows) {
            ok = g->keep(g, p->n, y[i], y[i + 1]);
            i++;
        } else {
            tpi_ref(y[i]);
            g->dx[p->n] = y[i];
        }
    }
    return ok;
}

static void back(tpi_grad *g)
{
    tpi_batch_cell *c = cell_of(g->y);
    tp_tensor *in[4 * TPI_CELL_MOST], **y = NULL;
    uint64_t met = 0, wanted = 0;
    for (int r = 0; r < g->n_results; r++)
        met |= (uint64_t)1 << tpi_index_of(g->results[r]);
    for (int k = 0; k < c->n_in + c->n_shared; k++)
        wanted |= (uint64_t)(tpi_wants(g, k) && was_asked(c, k)) << k;
    tp_tensor *failed = refuse_stale(g->y, g->at);
    const tpi_cell_side *s = failed ? NULL : tpi_cell_back(c, g->at, met, wanted);
    failed = failed ? failed : s ? take_operands(g, s, in) : &c->ctx->nil;
    const size_t bytes = s ? (size_t)s->n_out * sizeof *y : 0;
    if (!failed) {
        y = tpi_take(&c->ctx->mem, bytes);
        if (!y || !tpi_cell_start(s, g->at, in, y) || !give(g, s, y))
            failed = tpi_no_memory(c->ctx, g->at, c->name);
    }
    tpi_give_back(&c->ctx->mem, y, y ? bytes : 0);
    if (failed)
        fail_all(g, failed);
}

static bool joins(const tp_tensor *t, int k)
{
    const tpi_batch_cell *c = cell_of(t);
    const int i = k - c->n_in;
    return i >= 0 && i < c->n_shared && c->shared[i].role == TPI_CELL_RIGHT_MATRIX;
}

/* ---- as ops ----------------------------------------------------------------------------------------------------------- */

/* The results of the body, its ops being called on the cell's operands. False: one failed. */
static bool call_ops(const tp_tensor *token, tp_tensor **inner)
{
    const tpi_batch_cell *c = cell_of(token);
    const tpi_body *b = c->one.body;
    tpi_bump memory = TPI_BUMP(&c->ctx->mem);
    const tpi_transform f = {.rules = &tpi_many_rules,
                             .ctx = c->ctx,
                             .at = TPI_AT(token->file, token->line),
                             .memory = &memory};
    tpi_image *image = tpi_bump_take(&memory, (size_t)b->graph->n_nodes, sizeof *image);
    for (int i = 0; i < c->n_in && image; i++)
        image[b->params[i]->index].t = token->in[i];
    for (int i = 0; i < c->n_shared && image; i++)
        image[b->params[c->shared[i].param]->index].t = c->shared[i].t;
    const bool ok = image && !tpi_transform_body(&f, b, image);
    for (int i = 0; i < c->n_out && ok; i++)
        inner[i] = image[b->outputs[i]->index].t;
    tpi_bump_free(&memory);
    return ok;
}

/* Of what was a cell, the values inside, for parts that are still to become results: behind a byte that is an operand of
 * the call. */
typedef struct values_inside {
    tp_ctx *ctx;
    int n;
    tp_tensor *v[]; /* one reference each */
} values_inside;

static size_t bytes_of(int n)
{
    return sizeof(values_inside) + (size_t)n * sizeof(tp_tensor *);
}

static void free_values(void *user, void *data)
{
    values_inside *p = user;
    (void)data;
    for (int i = 0; i < p->n; i++)
        tpi_unref(p->v[i]);
    tpi_give_back(&p->ctx->mem, p, bytes_of(p->n));
}

static tp_tensor *keep_values(tpi_at at, const tpi_batch_cell *c, tp_tensor *const *inner)
{
    static const char byte = 0;
    tp_ctx *ctx = c->ctx;
    tp_tensor *t = tpi_tensor(ctx, at, TP_U8, 0, NULL);
    tpi_buf *b = t ? tpi_take(&ctx->mem, sizeof *b) : NULL;
    values_inside *p = b ? tpi_take(&ctx->mem, bytes_of(c->n_out)) : NULL;
    if (!p) {
        tpi_give_back(&ctx->mem, b, b ? sizeof *b : 0);
        return &ctx->nil;
    }
    p->ctx = ctx;
    p->n = c->n_out;
    for (int i = 0; i < c->n_out; i++) {
        p->v[i] = inner[i];
        tpi_ref(inner[i]);
    }
    *b = (tpi_buf){
        .refs = 1, .data = (void *)&byte, .release = free_values, .user = p, .lasts = true};
    t->buf = b;
    t->data = b->data;
    tpi_set_strides(t);
    tpi_note_contiguous(t);
    return t;
}

static tp_tensor *new_call(const tp_tensor *token, const tpi_batch_cell *c,
                           tp_tensor *const *inner)
{
    const tpi_at at = TPI_AT(token->file, token->line);
    tp_tensor *operands[2 * TPI_CELL_MOST];
    int n = 0;
    for (int k = 0; k < c->n_in + c->n_shared; k++)
        if (token->in[k]->flags & TPI_REQUIRES)
            operands[n++] = token->in[k];
    operands[n] = keep_values(at, c, inner);
    if (operands[n]->status != TP_OK)
        return operands[n];
    operands[n]->seq = token->seq - most_ops(c) - 1;
    return tpi_call_new(at, INT64_MAX, n + 1, operands);
}

/* The cell becomes a call. */
static bool unfold_cell(tp_tensor *token)
{
    const tpi_batch_cell *c = cell_of(token);
    tp_tensor *inner[TPI_CELL_MOST];
    tpi_unfolding u;
    if (c->ctx->frame && c->ctx->frame->rules->wait) /* its operands may wait */
        tpi_look_at_all(c->ctx, TPI_AT(token->file, token->line), TPI_LOOK_OTHER);
    bool ok = tpi_unfold_begin(&u, c->ctx);
    if (ok) {
        ok =
            call_ops(token, inner) && tpi_unfold_order(&u, token, most_ops(c), c->n_out, inner);
        tp_tensor *call = ok ? new_call(token, c, inner) : NULL;
        ok = ok && call->status == TP_OK && call->in;
        if (ok) {
            token->dtype = call->dtype;
            tpi_set_strides(token);
            tpi_tensor_share(token, call, 0);
            tpi_note_contiguous(token);
            tpi_unfold_exchange(token, call);
        }
    }
    return tpi_unfold_end(&u, ok);
}

/* A part becomes a result of that call. */
static bool unfold(tp_tensor *part)
{
    tp_tensor *token = part->in[0];
    const int64_t index = tpi_index_of(part);
    if (token->op->joins &&
        (refuse_stale(token, TPI_AT(part->file, part->line)) || !unfold_cell(token)))
        return false;
    const values_inside *p = token->in[token->n_in - 1]->buf->user;
    tpi_unfolding u;
    bool ok = tpi_unfold_begin(&u, part->ctx);
    if (ok) {
        tp_tensor *result = tpi_call_result(TPI_AT(part->file, part->line), p->v[index], token);
        ok = result->status == TP_OK && result->in;
        if (ok)
            tpi_unfold_exchange(part, result);
    }
    return tpi_unfold_end(&u, ok);
}

static void back_of_part(tpi_grad *g)
{
    (void)g; /* it waits for the cell's */
}

static const tpi_op op_cell = {.name = "cell",
                               .n_in = -1,
                               .kind = TPI_CALL,
                               .attrs_size = sizeof(cell_attrs),
                               .grad = back,
                               .joins = joins,
                               .code = TPI_N_OPS};
static const tpi_op op_part = {.name = "part",
                               .n_in = 1,
                               .kind = TPI_CALL,
                               .attrs_size = sizeof(tpi_index_attrs),
                               .grad = back_of_part,
                               .unfold = unfold,
                               .awaits = 1,
                               .code = TPI_N_OPS};
