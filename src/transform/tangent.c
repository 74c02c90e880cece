/* Derivatives along a direction: a marked image has a tangent of its type and shape. Without a rule of its own an op
 * has it from its gradient, as the gradient of that (double reverse mode: Pearlmutter, 1994, gives the idea for
 * products with Hessians). */
#include "grad/sweep.h"
#include "op/sizes.h"
#include "tapir/composites.h"
#include "transform/rules.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE u->at.file, u->at.line

/* One node of which an operand has a tangent. */
typedef struct use {
    tp_ctx *ctx;
    const tp_tensor *node;
    tpi_at at;
    const tpi_image *x;
    tp_tensor **in; /* [n_in]: operands for the op, */
    tp_tensor *y;   /* of which this came */
} use;

static bool has_tangent(const use *u, int k)
{
    return u->x[k].marked;
}

static tp_tensor *zeros_like(const use *u, tp_tensor *like)
{
    return tpi_zeros(u->at, like, like->rank, like->shape);
}

static tp_tensor *sum_of(const use *u, tp_tensor *a, tp_tensor *b)
{
    return a ? tp_add(a, b) : b;
}

/* ---- linear ops --------------------------------------------------------------------------------------- */

/* In all operands with a tangent together: the op on those, zeros for other floats. */
static tp_tensor *of_linear(const use *u)
{
    for (int k = 0; k < u->node->n_in; k++) {
        tp_tensor *x = u->x[k].t;
        u->in[k] = has_tangent(u, k)    ? u->x[k].tangent
                   : x->dtype >= TP_F32 ? zeros_like(u, x)
                                        : x;
    }
    return tpi_transform_same(u->node, u->at, u->in);
}

/* In each operand while the others stay. */
static tp_tensor *of_multilinear(const use *u)
{
    tp_tensor *sum = NULL;
    for (int k = 0; k < u->node->n_in; k++) {
        if (!has_tangent(u, k))
            continue;
        for (int i = 0; i < u->node->n_in; i++)
            u->in[i] = i == k ? u->x[i].tangent : u->x[i].t;
        sum = sum_of(u, sum, tpi_transform_same(u->node, u->at, u->in));
    }
    return sum;
}

/* ---- by the gradient's rule ----------------------------------------------------------------------------- */

/* What the rule gives operand k for dy; NULL: nothing. x: the operands. */
static tp_tensor *back(const use *u, tp_tensor *const *x, tp_tensor *y, tp_tensor *dy, int k)
{
    const int n = u->node->n_in;
    const size_t bytes = (size_t)n * (sizeof(tp_tensor *) + sizeof(bool));
    tp_tensor **dx = tpi_take(&u->ctx->mem, bytes);
    if (!dx)
        return tpi_no_memory(u->ctx, u->at, u->node->op->name);
    bool *wanted = (bool *)(dx + n);
    for (int i = 0; i < n; i++) {
        dx[i] = NULL;
        wanted[i] = i == k;
    }
    tpi_grad g = {.op = u->node->op,
                  .at = u->at,
                  .n_in = n,
                  .x = x,
                  .attrs = u->node->attrs,
                  .y = y,
                  .dy = dy,
                  .dx = dx,
                  .wanted = wanted};
    u->node->op->grad(&g);
    tp_tensor *of = dx[k];
    if (of)
        tpi_unref(of); /* the scope has it */
    tpi_give_back(&u->ctx->mem, dx, bytes);
    return of;
}

/* Elements of which each is made of one element of each operand: the gradient's rule is the derivative. */
static tp_tensor *of_elements(const use *u)
{
    tp_tensor *y = u->y, *sum = NULL;
    for (int k = 0; k < u->node->n_in; k++)
        u->in[k] = tpi_same_shape(u->x[k].t, y) ? u->x[k].t
                                                : tp_broadcast(u->x[k].t, y->rank, y->shape);
    for (int k = 0; k < u->node->n_in; k++) {
        if (!has_tangent(u, k))
            continue;
        tp_tensor *d = u->x[k].tangent;
        d = tpi_same_shape(d, y) ? d : tp_broadcast(d, y->rank, y->shape);
        tp_tensor *part = back(u, u->in, y, d, k);
        sum = part ? sum_of(u, sum, part) : sum;
    }
    return sum;
}

/* Each element of the operand counts for one of the result: its share times its tangent, summed up as the op does. */
static tp_tensor *of_reduction(const use *u)
{
    const tpi_reduce_attrs *a = u->node->attrs;
    tp_tensor *share = back(u, u->in, u->y, tpi_all(u->at, u->y, 1), 0);
    if (!share)
        return NULL;
    tp_tensor *part =
        tp_mul(share, u->x[0].tangent); /* 0 where it counts for nothing, also times infinity */
    part = tp_where(tp_eq(share, 0), 0, part);
    return tp_sum(part, (int)a->axes.n, a->axes.v, a->keep);
}

/* The gradient is linear in dy: its derivative by dy along the tangent is the tangent of the result. */
static tp_tensor *of_any(const use *u)
{
    tp_tensor *sum = NULL, *dy = zeros_like(u, u->y);
    const bool was = tp_recording(u->ctx, true);
    if (!dy->graph)
        dy = tp_require_grad(tp_detach(dy));
    for (int k = 0; k < u->node->n_in; k++) {
        tp_tensor *dx = has_tangent(u, k) ? back(u, u->in, u->y, dy, k) : NULL, *part = NULL;
        if (dx && tp_grads(dx, u->x[k].tangent, 1, &dy, &part) == TP_OK)
            sum = sum_of(u, sum, part);
        else if (dx)
            sum = part ? part : dx;
    }
    tp_recording(u->ctx, was);
    return sum && !was ? tp_detach(sum) : sum;
}

static tp_tensor *tangent_of(const use *u)
{
    const tpi_op *op = u->node->op;
    if (op->linear == TPI_LINEAR_IN_ALL)
        return of_linear(u);
    if (op->linear == TPI_LINEAR_IN_EACH)
        return of_multilinear(u);
    if (op->kind == TPI_ELEMENT)
        return of_elements(u);
    return op->kind == TPI_REDUCE ? of_reduction(u) : of_any(u);
}

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

static bool tangent_shows(const tp_tensor *node)
{
    return tpi_passes_gradient(node);
}

static tpi_image tangent_node(const tpi_transform *f, const tp_tensor *t, tpi_at at,
                              const tpi_image *x)
{
    tpi_nodes in = {.ctx = f->ctx};
    for (int k = 0; k < t->n_in; k++)
        tpi_nodes_push(&in, x[k].t);
    if (in.failed) {
        tpi_nodes_free(&in);
        return (tpi_image){.t = tpi_no_memory(f->ctx, at, t->op->name)};
    }
    tpi_image to = {.t = tpi_transform_same(t, at, in.v)};
    if (to.t->status == TP_OK && tangent_shows(t)) {
        const use u = {f->ctx, t, at, x, in.v, to.t};
        to.tangent = tangent_of(&u);
        to.marked = to.tangent != NULL;
        if (to.marked && to.tangent->status != TP_OK)
            to.t = to.tangent;
    }
    tpi_nodes_free(&in);
    return to;
}

static tpi_image with_zeros(const tpi_transform *f, tpi_image v)
{
    tp_tensor *t = tpi_transform_here(f, f->at, v.t);
    return (tpi_image){t, tpi_zeros(f->at, t, t->rank, t->shape), NULL, true};
}

const tpi_transform_rules tpi_tangent_rules = {.what = "tp_jvp",
                                               .tangents = true,
                                               .shows = tangent_shows,
                                               .node = tangent_node,
                                               .mark = with_zeros};
