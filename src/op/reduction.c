/* Reductions over axes, and the sizes of axes. */
#include "op/reduction.h"

#include "ir/factors.h"
#include "op/along_axis.h"
#include "op/elementwise.h"
#include "op/sizes.h"

#include <stddef.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line

/* ---- axes ------------------------------------------------------------------------------------------ */

static unsigned mask_of(const tpi_list *axes)
{
    unsigned mask = 0;
    for (int64_t i = 0; i < axes->n; i++)
        mask |= 1u << axes->v[i];
    return mask;
}

bool tpi_find_axes(tpi_at at, const char *what, const tp_tensor *x, int n_axes,
                   const int64_t *axes, tpi_list *out, tp_tensor **failed)
{
    *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (*failed)
        return false;
    unsigned mask = n_axes == 0 ? (1u << x->rank) - 1 : 0;
    if (n_axes < 0 || (n_axes > 0 && !axes)) {
        *failed = tpi_fail(x->ctx, at, what, TP_E_VALUE, "%d axes in no array", n_axes);
        return false;
    }
    for (int i = 0; i < n_axes; i++) {
        const int axis = tpi_axis(axes[i], x->rank);
        if (tpi_is_spoilt(axes[i])) {
            *failed = tpi_fail_spoilt(x->ctx, at, what, TP_E_AXIS, axes[i]);
            return false;
        }
        if (axis < 0 || (mask >> axis & 1)) {
            *failed = tpi_fail(x->ctx, at, what, TP_E_AXIS,
                               axis < 0 ? "axis %lld is out of range for %s"
                                        : "axis %lld of %s is named twice",
                               (long long)axes[i], SHAPE(x));
            return false;
        }
        mask |= 1u << axis;
    }
    memset(out, 0, sizeof *out);
    for (int i = 0; i < x->rank; i++)
        if (mask >> i & 1)
            out->v[out->n++] = i;
    return true;
}

/* What tpi_find_axes gave, or a text that says it did. */
static bool are_axes(tpi_infer *q, const tpi_list *axes)
{
    const tp_tensor *x = q->in[0];
    bool good = axes->n >= 0 && axes->n <= x->rank;
    for (int64_t i = 0; good && i < axes->n; i++)
        good = axes->v[i] > (i > 0 ? axes->v[i - 1] : -1) && axes->v[i] < x->rank;
    return good || tpi_refuse(q, TP_E_AXIS, "axes are not sorted axes of %s", SHAPE(x));
}

/* ---- running ---------------------------------------------------------------------------------------- */

static void add_axis(int *rank, int64_t *n, int64_t *s, int64_t size, int64_t stride)
{
    if (size == 1)
        return;
    if (*rank > 0 && s[*rank - 1] == size * stride) {
        n[*rank - 1] *= size;
        s[*rank - 1] = stride;
        return;
    }
    n[*rank] = size;
    s[(*rank)++] = stride;
}

void tpi_reduction_of(tpi_reduction *d, int code, const tp_tensor *x, const tpi_list *axes)
{
    const unsigned mask = mask_of(axes);
    *d = (tpi_reduction){.code = code, .dtype = (tp_dtype)x->dtype, .count = 1, .n_out = 1};
    d->by_lanes = x->rank > 0 && (mask >> (x->rank - 1) & 1);
    for (int i = 0; i < x->rank; i++)
        if (mask >> i & 1) {
            add_axis(&d->reduced_rank, d->reduced_n, d->reduced_s, x->shape[i], x->stride[i]);
            d->count *= x->shape[i];
        } else {
            add_axis(&d->kept_rank, d->kept_n, d->kept_s, x->shape[i], x->stride[i]);
            d->n_out *= x->shape[i];
        }
    if (d->reduced_rank == 0) {
        d->reduced_rank = 1;
        d->reduced_n[0] = d->reduced_s[0] = 1;
    }
}

static bool reduce_infer(tpi_infer *q)
{
    const tpi_reduce_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0];
    if (!are_axes(q, &a->axes))
        return false;
    const unsigned mask = mask_of(&a->axes);
    q->dtype = (tp_dtype)x->dtype;
    q->rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (!(mask >> i & 1))
            q->shape[q->rank++] = x->shape[i];
        else if (a->keep)
            q->shape[q->rank++] = 1;
    return true;
}

static bool number_infer(tpi_infer *q)
{
    if (q->in[0]->dtype == TP_BOOL)
        return tpi_refuse(q, TP_E_DTYPE, "x is bool; tp_cast it to a number first");
    return reduce_infer(q);
}

static bool float_infer(tpi_infer *q)
{
    const tp_dtype t = (tp_dtype)q->in[0]->dtype;
    if (t < TP_F32)
        return tpi_refuse(q, TP_E_DTYPE, "x is %s; tp_cast it to f32 or f64 first",
                          tp_dtype_name(t));
    return reduce_infer(q);
}

/* A mean is the sum over how many there are. */
static bool finish(const tpi_run *r, const tpi_reduction *d)
{
    for (int64_t i = 0; r->op->by_count && i < d->n_out; i++)
        if (r->out->dtype == TP_F32)
            ((float *)r->out->data)[i] /= (float)d->count;
        else
            ((double *)r->out->data)[i] /= (double)d->count;
    return true;
}

static bool reduce_kernel(tpi_run *r)
{
    tpi_reduction d;
    tpi_reduction_of(&d, r->op->fold, r->in[0], &((const tpi_reduce_attrs *)r->attrs)->axes);
    tpi_reduce_reference(&d, r->in[0]->data, r->out->data);
    return finish(r, &d);
}

static bool reduce_fast(tpi_run *r)
{
    tpi_reduction d;
    tpi_reduction_of(&d, r->op->fold, r->in[0], &((const tpi_reduce_attrs *)r->attrs)->axes);
    tpi_reduce_fast(&d, r->ctx, r->in[0]->data, r->out->data);
    return finish(r, &d);
}

/* ---- gradients -------------------------------------------------------------------------------------- */

/* t, of the result's shape, with the reduced axes back as size 1. */
static tp_tensor *with_axes(const tpi_grad *g, tp_tensor *t)
{
    const tpi_reduce_attrs *a = g->attrs;
    const tp_tensor *x = g->x[0];
    if (a->keep || a->axes.n == 0)
        return t;
    const unsigned mask = mask_of(&a->axes);
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        shape[i] = mask >> i & 1 ? 1 : x->shape[i];
    return tp_reshape(t, x->rank, shape);
}

static tp_tensor *like_x(const tpi_grad *g, tp_tensor *t)
{
    return tp_broadcast(t, g->x[0]->rank, g->x[0]->shape);
}

static void sum_grad(tpi_grad *g)
{
    tpi_give(g, 0, like_x(g, with_axes(g, g->dy)));
}

static void mean_grad(tpi_grad *g)
{
    const tpi_list *axes = &((const tpi_reduce_attrs *)g->attrs)->axes;
    tp_tensor *share = g->dy;
    if (axes->n > 0) {
        tp_tensor *n = tp_extent(g->x[0], (int)axes->n, axes->v, (tp_dtype)g->x[0]->dtype);
        share = tp_div(share, n);
    }
    tpi_give(g, 0, like_x(g, with_axes(g, share)));
}

/* In equal shares to the elements that are the result; NaN is one when x holds any. */
static void extremum_grad(tpi_grad *g)
{
    const tpi_list *axes = &((const tpi_reduce_attrs *)g->attrs)->axes;
    tp_tensor *x = g->x[0];
    tp_tensor *is = tp_or(tp_eq(x, with_axes(g, g->y)), tp_ne(x, x));
    tp_tensor *share = with_axes(g, g->dy);
    if (axes->n > 0) {
        tp_tensor *one = tp_cast(is, (tp_dtype)x->dtype);
        share = tp_div(share, tp_sum(one, (int)axes->n, axes->v, true));
    }
    tpi_give(g, 0, tp_where(is, share, 0));
}

/* At each place the product of all other elements of the line: the product of those before times
 * that of those behind. No division, so zeros are as good as other numbers. */
static tp_tensor *product_of_others(const tpi_grad *g, tp_tensor *x, int axis)
{
    tp_tensor *zeros = tpi_zeros(g->at, x, x->rank, x->shape);
    tp_tensor *side[2];
    for (int reverse = 0; reverse < 2; reverse++) {
        tp_tensor *one_first = tpi_move_on(g, zeros, axis, reverse, 1);
        side[reverse] = tp_recur(tpi_move_on(g, x, axis, reverse, 0), one_first, axis, reverse);
    }
    return tp_mul(side[0], side[1]);
}

/* Axis by axis, from the last: the product of products. */
static void prod_grad(tpi_grad *g)
{
    const tpi_list *axes = &((const tpi_reduce_attrs *)g->attrs)->axes;
    tp_tensor *part[TP_MAX_RANK], *dx = with_axes(g, g->dy);
    for (int64_t i = axes->n - 1; i >= 0; i--)
        part[i] = i == axes->n - 1 ? g->x[0] : tp_prod(part[i + 1], 1, &axes->v[i + 1], true);
    for (int64_t i = 0; i < axes->n; i++) {
        if (tp_failed(part[i]))
            dx = part[i];
        else
            dx = tp_mul(product_of_others(g, part[i], (int)axes->v[i]), dx);
    }
    tpi_give(g, 0, dx);
}

/* ---- ops ----------------------------------------------------------------------------------------------- */

static const tpi_attr reduce_table[] = {
    {"axes",                     TPI_ATTR_LIST, offsetof(tpi_reduce_attrs, axes)},
    {"keep", TPI_ATTR_BOOL, offsetof(tpi_reduce_attrs, keep)},
    {0                         },
};

static tp_tensor *reduce(tpi_at at, const tpi_op *op, tp_tensor *x, int n_axes,
                         const int64_t *axes, bool keep)
{
    tpi_reduce_attrs a = {.keep = keep};
    tp_tensor *failed;
    if (!tpi_find_axes(at, op->name, x, n_axes, axes, &a.axes, &failed))
        return failed;
    return tpi_apply(at, op, TPI_IN(x), &a);
}

#define REDUCE(op, infer_rule, rule, x_read, y_read, ...)                                      \
    const tpi_op tpi_op_##op = {.name = #op,                                                   \
                                .code = TPI_OP_##op,                                           \
                                .kind = TPI_REDUCE,                                            \
                                .n_in = 1,                                                     \
                                .attrs = reduce_table,                                         \
                                .lead = {TPI_LEAD_AXES},                                       \
                                .attrs_size = sizeof(tpi_reduce_attrs),                        \
                                .infer = infer_rule,                                           \
                                .kernel = reduce_kernel,                                       \
                                .fast = reduce_fast,                                           \
                                .grad = rule,                                                  \
                                .grad_reads_x = x_read,                                        \
                                .grad_reads_y = y_read,                                        \
                                __VA_ARGS__};                                                  \
    tp_tensor *tp_##op##_at(const char *file, int line, tp_tensor *x, int n_axes,              \
                            const int64_t *axes, bool keep)                                    \
    {                                                                                          \
        return reduce(TPI_AT(file, line), &tpi_op_##op, x, n_axes, axes, keep);                \
    }                                                                                          \
    TPI_BARE(tp_tensor *, tp_##op,                                                             \
             (tp_tensor * x, int n_axes, const int64_t *axes, bool keep), x, n_axes, axes,     \
             keep)

REDUCE(sum, number_infer, sum_grad, false, false, .linear = TPI_LINEAR_IN_ALL,
       .fold = TPI_REDUCE_SUM)
REDUCE(prod, number_infer, prod_grad, true, false, .fold = TPI_REDUCE_PROD)
REDUCE(reduce_max, reduce_infer, extremum_grad, true, true, .fold = TPI_REDUCE_MAX)
REDUCE(reduce_min, reduce_infer, extremum_grad, true, true, .fold = TPI_REDUCE_MIN)
REDUCE(mean, float_infer, mean_grad, false, false, .linear = TPI_LINEAR_IN_ALL,
       .fold = TPI_REDUCE_SUM, .by_count = &tpi_op_div)

/* ---- extent: the product of sizes ----------------------------------------------------------------------- */

typedef struct extent_attrs {
    tpi_list axes;
    int64_t dtype;
} extent_attrs;

static const tpi_attr extent_table[] = {
    {"axes",                 TPI_ATTR_LIST, offsetof(extent_attrs, axes)},
    {"dtype", TPI_ATTR_DTYPE, offsetof(extent_attrs, dtype)},
    {0                     },
};

static bool extent_infer(tpi_infer *q)
{
    const extent_attrs *a = q->attrs;
    if (!are_axes(q, &a->axes))
        return false;
    if (a->dtype < TP_I8 || a->dtype >= TP_N_DTYPES)
        return tpi_refuse(q, TP_E_DTYPE, "%s is no type of a number",
                          tp_dtype_name((tp_dtype)a->dtype));
    q->dtype = (tp_dtype)a->dtype;
    q->rank = 0;
    return true;
}

static bool extent_kernel(tpi_run *r)
{
    const extent_attrs *a = r->attrs;
    int64_t n = 1;
    for (int64_t i = 0; i < a->axes.n; i++)
        n *= r->in[0]->shape[a->axes.v[i]];
    tpi_cast_scalar(TP_I64, (tp_dtype)a->dtype)(r->out->data, &n, NULL, NULL);
    return true;
}

const tpi_op tpi_op_extent = {
    .name = "extent",
    .n_in = 1,
    .kind = TPI_SHAPE,
    .attrs = extent_table,
    .lead = {TPI_LEAD_AXES},
    .attrs_size = sizeof(extent_attrs),
    .infer = extent_infer,
    .kernel = extent_kernel,
    .factors = tpi_whole_factors,
    .code = TPI_OP_extent,
};

tp_tensor *tp_extent_at(const char *file, int line, tp_tensor *x, int n_axes,
                        const int64_t *axes, tp_dtype dtype)
{
    extent_attrs a = {.dtype = dtype};
    tp_tensor *failed;
    if (!tpi_find_axes(TPI_AT(file, line), "extent", x, n_axes, axes, &a.axes, &failed))
        return failed;
    return tpi_apply(TPI_AT(file, line), &tpi_op_extent, TPI_IN(x), &a);
}
TPI_BARE(tp_tensor *, tp_extent,
         (tp_tensor * x, int n_axes, const int64_t *axes, tp_dtype dtype), x, n_axes, axes,
         dtype)
