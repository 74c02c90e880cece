/* The graph of a cell, of n samples: its body as tp_vmap goes through it, from placeholders. */
#include "batch/cell.h"
#include "ir/factors.h"

#include <stdio.h>
#include <string.h>

static tp_tensor *feed(const tpi_batch_cell *c, const char *kind, int i, tp_dtype dtype,
                       int rank, const int64_t *shape, bool many)
{
    char name[16];
    int64_t all[TP_MAX_RANK + 1] = {c->samples};
    snprintf(name, sizeof name, "%s%d", kind, i);
    memcpy(all + many, shape, sizeof *shape * (size_t)rank);
    return tp_placeholder_at(c->at.file, c->at.line, c->many, name, dtype, rank + many, all);
}

/* The images of the body's params; false: no memory. */
static bool begin(tpi_batch_cell *c, const tpi_transform *f, tpi_image *image)
{
    const tpi_body *b = c->one.body;
    bool ok = true;
    for (int i = 0; i < c->n_in && ok; i++) {
        const tpi_cell_port *p = &c->args[i];
        c->x[i] = feed(c, "x", i, (tp_dtype)p->dtype, p->rank, p->shape, true);
        image[b->params[i]->index] = (tpi_image){.t = c->x[i], .marked = true};
        ok = c->x[i]->status == TP_OK;
    }
    for (int i = 0; i < c->n_shared && ok; i++) {
        tpi_cell_shared *s = &c->shared[i];
        const tp_tensor *t = s->t;
        s->node = feed(c, "w", i, (tp_dtype)t->dtype, t->rank, t->shape, false);
        tpi_image v = {.t = s->node};
        if (s->role == TPI_CELL_EACH)
            v = tpi_marked(f, v, true);
        s->end = v.t;
        image[b->params[s->param]->index] = v;
        ok = v.t->status == TP_OK;
    }
    return ok;
}

bool tpi_cell_one_of(const tpi_batch_cell *c, const tp_tensor *t, bool joined, tpi_cell_port *p)
{
    const tpi_run_sizes one = {c->many->dims, (int64_t[]){1}}, two = {one.dims, (int64_t[]){2}};
    *p = (tpi_cell_port){
        .dtype = t->dtype, .rank = (uint8_t)(t->rank - !joined), .joined = joined};
    const int64_t first = t->rank ? tpi_size_at(&one, t->shape[0]) : 0;
    if (!t->rank || tpi_size_at(&two, t->shape[0]) != 2 * first || (!joined && first != 1))
        return false;
    p->shape[0] = first;
    for (int i = !joined; i < t->rank; i++)
        p->shape[i - !joined] = tpi_size_at(&one, t->shape[i]);
    for (int i = 1; i < t->rank; i++)
        if (tpi_dim_is_symbolic(t->shape[i]))
            return false;
    return true;
}

/* NULL, or why it is no cell. */
static const char *take_results(tpi_batch_cell *c, const tpi_transform *f,
                                const tpi_image *image)
{
    for (int i = 0; i < c->n_out; i++) {
        c->y[i] = tpi_marked(f, image[c->one.body->outputs[i]->index], true).t;
        if (c->y[i]->status != TP_OK)
            return "";
        if (!tpi_cell_one_of(c, c->y[i], false, &c->results[i]))
            return "a result has another size for many";
    }
    return NULL;
}

static bool is_result(const tpi_batch_cell *c, const tp_tensor *t)
{
    bool is = false;
    for (int i = 0; i < c->n_out && !is; i++)
        is = c->y[i] == t;
    return is;
}

/* Products take longer to compute than to keep. */
static const char *take_taps(tpi_batch_cell *c)
{
    for (int i = 0; i < c->many->n_nodes && c->recording; i++) {
        tp_tensor *t = c->many->nodes[i];
        tpi_cell_port *p = &c->results[c->n_out + c->n_taps];
        if (!t->op->contract || is_result(c, t))
            continue;
        if (c->n_taps == TPI_CELL_MOST / 2)
            return "it has too many products";
        if (tpi_cell_one_of(c, t, true, p))
            c->taps[c->n_taps++] = t;
    }
    return NULL;
}

/* Are all nodes such that a run takes all samples at once, and none fails? */
static bool takes_all_at_once(const tp_graph *g)
{
    bool is = true;
    for (int i = 0; i < g->n_nodes && is; i++) {
        const tpi_op *op = g->nodes[i]->op;
        is = op->kind != TPI_BLOCK && op->kind != TPI_PORT && op->kind != TPI_EFFECT &&
             !tpi_may_refuse(op);
    }
    return is;
}

static const char *build(tpi_batch_cell *c)
{
    const tpi_body *b = c->one.body;
    tpi_bump memory = TPI_BUMP(&c->ctx->mem);
    const tpi_transform f = {.rules = &tpi_many_rules,
                             .ctx = c->ctx,
                             .at = c->at,
                             .around = c->many,
                             .memory = &memory,
                             .samples = c->samples};
    tpi_image *image = tpi_bump_take(&memory, (size_t)b->graph->n_nodes, sizeof *image);
    const char *why =
        image && begin(c, &f, image) && !tpi_transform_body(&f, b, image) ? NULL : "";
    why = why ? why : take_results(c, &f, image);
    if (!why && !takes_all_at_once(c->many))
        why = "it takes one sample after the other, or may fail";
    why = why ? why : take_taps(c);
    tpi_bump_free(&memory);
    return why;
}

const char *tpi_cell_build(tpi_batch_cell *c)
{
    tp_ctx *ctx = c->ctx;
    const size_t most = (size_t)c->n_out + TPI_CELL_MOST;
    c->x = tpi_bump_take(&c->memory, (size_t)c->n_in, sizeof *c->x);
    c->y = tpi_bump_take(&c->memory, (size_t)c->n_out, sizeof *c->y);
    c->dys = tpi_bump_take(&c->memory, (size_t)c->n_out, sizeof *c->dys);
    c->taps = tpi_bump_take(&c->memory, TPI_CELL_MOST, sizeof *c->taps);
    c->results = tpi_bump_take(&c->memory, most, sizeof *c->results);
    c->many = c->results ? tp_graph_new(ctx) : NULL;
    if (!c->many)
        return "";
    tpi_object_remove(&c->many->owned); /* it goes when the cell goes */
    c->samples = tp_symbol(c->many, "n");
    const tpi_paused around = {ctx->frame, ctx->tracing};
    ctx->frame = NULL;
    ctx->tracing = NULL;
    const char *why = build(c);
    tpi_resume(ctx, around);
    return why;
}
