/* Many samples: a marked image has them along its first axis. */
#include "base/log.h"
#include "tapir/control.h"
#include "transform/batch.h"
#include "transform/rules.h"

#include <string.h>

/* An op that takes one sample after the other. */
typedef struct use {
    const tpi_transform *f;
    const tp_tensor *node;
    tpi_at at;
    const tpi_image *x; /* by operand */
} use;

/* Operands of one sample: those of tp_scan's turn, and what all share. */
static void one_sample(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x,
                       int n_ys, tp_tensor **y)
{
    const use *u = user;
    const tp_tensor *t = u->node;
    tpi_nodes in = {.ctx = t->ctx};
    (void)n, (void)v, (void)n_xs, (void)n_ys;
    for (int k = 0, next = 0; k < t->n_in; k++)
        tpi_nodes_push(&in, u->x[k].marked ? x[next++] : u->x[k].t);
    y[0] = in.failed ? tpi_no_memory(t->ctx, u->at, t->op->name)
                     : tpi_transform_same(t, u->at, in.v);
    tpi_nodes_free(&in);
}

static tp_tensor *none(const use *u)
{
    const tp_tensor *t = u->node;
    int64_t shape[TP_MAX_RANK + 1] = {0};
    memcpy(shape + 1, t->shape, sizeof *shape * (size_t)t->rank);
    tp_tensor *zero = tp_scalar_at(u->at.file, u->at.line, t->ctx, (tp_dtype)t->dtype, 0);
    return tp_broadcast_at(u->at.file, u->at.line, zero, t->rank + 1, shape);
}

static tp_tensor *one_by_one(const use *u)
{
    const tp_tensor *t = u->node;
    tpi_nodes xs = {.ctx = t->ctx};
    tp_tensor *y = NULL;
    tpi_log(TPI_LOG_vmap, "%s:%d: %s takes one sample after the other",
            u->at.file ? u->at.file : "?", u->at.line, t->op->name);
    if (u->f->samples == 0)
        return none(u);
    for (int k = 0; k < t->n_in; k++)
        if (u->x[k].marked)
            tpi_nodes_push(&xs, u->x[k].t);
    if (!xs.failed) { /* a loop is in the graph of what it carries */
        tp_tensor *carried = tp_scalar_like_at(u->at.file, u->at.line, xs.v[0], 0);
        tp_scan_at(u->at.file, u->at.line, u->f->samples, NULL, one_sample, (void *)u, 1,
                   &carried, xs.n, xs.v, 1, &y);
    }
    tpi_nodes_free(&xs);
    return y ? y : tpi_no_memory(t->ctx, u->at, t->op->name);
}

static tpi_image many_node(const tpi_transform *f, const tp_tensor *t, tpi_at at,
                           const tpi_image *x)
{
    const size_t bytes = (size_t)t->n_in * (sizeof(tp_tensor *) + sizeof(bool));
    tp_tensor **in = tpi_take(&f->ctx->mem, bytes);
    if (!in)
        return (tpi_image){.t = tpi_no_memory(f->ctx, at, t->op->name)};
    bool *many = (bool *)(in + t->n_in);
    for (int k = 0; k < t->n_in; k++) {
        in[k] = x[k].t;
        many[k] = x[k].marked;
    }
    tp_tensor *y = tpi_batch_op(&(tpi_batch){t, at, f->samples, in, many});
    tpi_give_back(&f->ctx->mem, in, bytes);
    y = y ? y : one_by_one(&(use){f, t, at, x});
    return (tpi_image){.t = y, .marked = t->op->kind != TPI_SHAPE};
}

static tpi_image spread(const tpi_transform *f, tpi_image v)
{
    int64_t shape[TP_MAX_RANK + 1] = {f->samples};
    if (v.t->status != TP_OK)
        return v;
    tp_tensor *t = tpi_transform_here(f, f->at, v.t);
    memcpy(shape + 1, t->shape, sizeof *shape * (size_t)t->rank);
    t = tp_broadcast_at(f->at.file, f->at.line, t, t->rank + 1, shape);
    return (tpi_image){.t = t, .marked = true};
}

static bool many_shows(const tp_tensor *node)
{
    return node->op->kind != TPI_SHAPE;
}

const tpi_transform_rules tpi_many_rules = {
    .what = "tp_vmap", .shows = many_shows, .node = many_node, .mark = spread};
