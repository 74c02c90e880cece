#include "transform/batch.h"

#include "ir/graph_def.h"
#include "op/custom.h"
#include "op/sizes.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE b->at.file, b->at.line

tp_tensor *tpi_move_axis(tpi_at at, tp_tensor *x, int from, int to)
{
    int64_t axes[TP_MAX_RANK], n = 0;
    if (from == to || x->status != TP_OK)
        return x;
    for (int i = 0; i < x->rank; i++) {
        if (i == to)
            axes[i] = from;
        else {
            n += n == from;
            axes[i] = n++;
        }
    }
    return tp_transpose_at(at.file, at.line, x, x->rank, axes);
}

/* ---- operands ------------------------------------------------------------------------------------ */

/* x with the sizes of `like` behind the first `n` of its own. */
static tp_tensor *resized(const tpi_batch *b, tp_tensor *x, int n, const int64_t *first,
                          int rank, const int64_t *rest)
{
    int64_t shape[2 * TP_MAX_RANK];
    memcpy(shape, first, sizeof *shape * (size_t)n);
    memcpy(shape + n, rest, sizeof *shape * (size_t)rank);
    return tp_reshape(x, n + rank, shape);
}

tp_tensor *tpi_batch_operand(const tpi_batch *b, int k)
{
    tp_tensor *x = b->x[k];
    int64_t shape[TP_MAX_RANK + 1] = {b->n};
    if (b->many[k] || x->status != TP_OK)
        return x;
    memcpy(shape + 1, x->shape, sizeof *shape * (size_t)x->rank);
    return tp_broadcast(x, x->rank + 1, shape);
}

/* The same with axes of one element behind that, up to `rank` behind it, so that it broadcasts as it does alone; what
 * all samples share stays as it is. */
static tp_tensor *aligned(const tpi_batch *b, int k, int rank)
{
    tp_tensor *x = b->x[k];
    const int own = b->node->in[k]->rank;
    int64_t first[TP_MAX_RANK + 1] = {b->n};
    if (!b->many[k] || own == rank || x->status != TP_OK)
        return x;
    for (int i = 1; i <= rank - own; i++)
        first[i] = 1;
    return resized(b, x, 1 + rank - own, first, own, x->shape + 1);
}

/* [samples, m, rest...] as [samples m, rest...], and back. */
static tp_tensor *joined(const tpi_batch *b, int k)
{
    tp_tensor *x = tpi_batch_operand(b, k);
    if (x->status != TP_OK)
        return x;
    const int64_t m = tpi_dim_mul(tpi_dims_of(x), b->n, x->shape[1]);
    return resized(b, x, 1, &m, x->rank - 2, x->shape + 2);
}

static tp_tensor *parted(const tpi_batch *b, tp_tensor *y)
{
    if (y->status != TP_OK)
        return y;
    return resized(b, y, 2, (int64_t[]){b->n, b->node->shape[0]}, y->rank - 1, y->shape + 1);
}

/* ---- the op ---------------------------------------------------------------------------------------- */

/* What the attribute says of n axes becomes what it says of n + 1. */
static void lead(const tpi_batch *b, const tpi_attr *a, tpi_lead how, void *attrs)
{
    int64_t *v = (int64_t *)(void *)((char *)attrs + a->offset);
    const bool list = a->type == TPI_ATTR_LIST || a->type == TPI_ATTR_DIMS;
    const int64_t n = list ? *v++ : 1;
    for (int64_t i = 0; i < n && (how == TPI_LEAD_AXES || how == TPI_LEAD_ORDER); i++)
        v[i]++;
    if (how == TPI_LEAD_AXES || how == TPI_LEAD_STAYS)
        return;
    memmove(v + 1, v, sizeof *v * (size_t)n);
    v[0] = how == TPI_LEAD_SIZES ? b->n : 0;
    v[-1]++;
}

enum { MOST_ATTRS = 1024 };

tp_tensor *tpi_batch_led(const tpi_batch *b, tp_tensor *const *in)
{
    const tpi_op *op = b->node->op;
    _Alignas(8) char attrs[MOST_ATTRS];
    if (b->node->rank >= TP_MAX_RANK || op->attrs_size > sizeof attrs)
        return tpi_fail(b->node->ctx, b->at, op->name, TP_E_AXIS,
                        "with the axis of the samples this has more than %d axes", TP_MAX_RANK);
    if (op->attrs_size)
        memcpy(attrs, b->node->attrs, op->attrs_size);
    for (size_t i = 0; i < sizeof op->lead && op->lead[i]; i++)
        lead(b, &op->attrs[i], op->lead[i], attrs);
    return tpi_apply(b->at, op, b->node->n_in, in, attrs);
}

tp_tensor *tpi_batch_same(const tpi_batch *b, tp_tensor *const *in)
{
    return tpi_apply(b->at, b->node->op, b->node->n_in, in, b->node->attrs);
}

/* ---- rules ----------------------------------------------------------------------------------------- */

/* With one axis more, by which elements meet as they do without it. */
static tp_tensor *by_axis(const tpi_batch *b)
{
    const tp_tensor *t = b->node;
    tpi_nodes in = {.ctx = t->ctx};
    for (int k = 0; k < t->n_in; k++)
        tpi_nodes_push(&in, t->op->kind == TPI_ELEMENT ? aligned(b, k, t->rank)
                                                       : tpi_batch_operand(b, k));
    tp_tensor *y =
        in.failed ? tpi_no_memory(t->ctx, b->at, t->op->name) : tpi_batch_led(b, in.v);
    tpi_nodes_free(&in);
    return y;
}

static tp_tensor *with_tables(const tpi_batch *b)
{
    enum { MOST = 64 };
    tp_tensor *in[MOST] = {tpi_batch_operand(b, 0)};
    bool whole = b->node->n_in <= MOST;
    for (int k = 1; k < b->node->n_in && whole; k++) {
        in[k] = b->x[k];
        whole = !b->many[k];
    }
    return whole ? tpi_batch_led(b, in) : NULL;
}

/* What all samples have of operand 0 is one operand. */
static tp_tensor *images(const tpi_batch *b)
{
    return b->many[1] ? NULL
                      : parted(b, tpi_batch_same(b, TPI_OPERANDS(joined(b, 0), b->x[1])));
}

static tp_tensor *all_images(const tpi_batch *b)
{
    tp_tensor *in[2] = {0};
    for (int k = 0; k < b->node->n_in; k++)
        in[k] = joined(b, k);
    return parted(b, tpi_batch_same(b, in));
}

static tp_tensor *stack(const tpi_batch *b)
{
    tpi_nodes in = {.ctx = b->node->ctx};
    for (int i = 0; i < b->node->n_in; i++)
        tpi_nodes_push(&in, tpi_batch_operand(b, i));
    tp_tensor *y = in.failed ? tpi_no_memory(in.ctx, b->at, "stack") : tpi_batch_same(b, in.v);
    tpi_nodes_free(&in);
    return tpi_move_axis(b->at, y, 1, 0);
}

static tp_tensor *value(const tpi_batch *b)
{
    const tpi_custom_attrs *a = b->node->attrs;
    bool asked = false;
    for (int k = 0; k < b->node->n_in; k++)
        asked |= tp_requires_grad(b->x[k]);
    if (asked && b->node->ctx->caller.recording)
        return tpi_fail(
            b->node->ctx, b->at, a->rule ? a->rule->name : "custom", TP_E_STATE,
            "its own gradient is one of one sample: ask for it in the function that "
            "tp_vmap is given, or detach the arguments");
    return b->x[0];
}

tp_tensor *tpi_batch_op(const tpi_batch *b)
{
    switch ((tpi_batching)b->node->op->batch) {
    case TPI_BATCH_BY_AXIS:
        break;
    case TPI_BATCH_STRETCHED:
        return tpi_batch_led(b, TPI_OPERANDS(aligned(b, 0, b->node->rank)));
    case TPI_BATCH_TABLES:
        return with_tables(b);
    case TPI_BATCH_IMAGES:
        return images(b);
    case TPI_BATCH_ALL_IMAGES:
        return all_images(b);
    case TPI_BATCH_ROWS:
        return b->node->rank > 2 || b->many[1] ? by_axis(b) : images(b);
    case TPI_BATCH_SLICES:
        return tpi_batch_slices(b);
    case TPI_BATCH_STACK:
        return stack(b);
    case TPI_BATCH_ROW:
        return tpi_batch_same(b, TPI_OPERANDS(tpi_move_axis(b->at, b->x[0], 1, 0)));
    case TPI_BATCH_VALUE:
        return value(b);
    case TPI_BATCH_NONE:
        return NULL;
    }
    return by_axis(b);
}
