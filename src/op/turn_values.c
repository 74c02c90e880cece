#include "op/turn_values.h"

#include "ir/body.h"
#include "ir/factors.h"
#include "op/sizes.h"

#include <string.h>

static void enter_grad(tpi_grad *g)
{
    tpi_give(g, 0, g->dy);
}

const tpi_op tpi_op_enter = {.name = "enter",
                             .simplify = tpi_same_simplify,
                             .code = TPI_OP_enter,
                             .kind = TPI_VIEW,
                             .n_in = 1,
                             .infer = tpi_same_infer,
                             .view = tpi_same_view,
                             .factors = tpi_same_factors,
                             .kernel = tpi_same_kernel,
                             .any_size = true,
                             .in_order = true,
                             .linear = TPI_LINEAR_IN_ALL,
                             .grad = enter_grad};

static bool row_infer(tpi_infer *q)
{
    const tpi_index_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0];
    if (x->rank == 0 || a->index < 0 || a->index == INT64_MAX ||
        tpi_dim_sub(q->dims, x->shape[0], a->index + 1) == TPI_NO_DIM)
        return tpi_refuse(q, TP_E_VALUE, "there is no element %lld in %s", (long long)a->index,
                          SHAPE(x));
    q->dtype = (tp_dtype)x->dtype;
    q->rank = x->rank - 1;
    memcpy(q->shape, x->shape + 1, sizeof(int64_t) * (size_t)q->rank);
    return true;
}

static bool row_view(tpi_view *v)
{
    const tpi_index_attrs *a = v->attrs;
    v->offset = tpi_stride_mul(v->dims, a->index, v->in_stride[0]);
    for (int i = 1; i < v->in->rank; i++)
        v->stride[i - 1] = v->in_stride[i];
    return true;
}

static void row_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    tpi_pass_axes(f, 1, t->in[k]->rank, -1);
}

static bool row_range(const tp_tensor *t, tpi_range *r)
{
    const int64_t index = tpi_index_of(t);
    *r = (tpi_range){0, index, index + 1};
    return true;
}

static bool row_kernel(tpi_run *r)
{
    const tpi_index_attrs *a = r->attrs;
    tp_tensor one = *r->in[0];
    one.data += one.stride[0] * a->index * (int64_t)tp_dtype_size((tp_dtype)one.dtype);
    one.rank--;
    memmove(one.shape, one.shape + 1, sizeof(int64_t) * one.rank);
    memmove(one.stride, one.stride + 1, sizeof(int64_t) * one.rank);
    tpi_copy_out(&one, r->out->data);
    return true;
}

const tpi_op tpi_op_row = {.name = "row",
                           .code = TPI_OP_row,
                           .kind = TPI_VIEW,
                           .n_in = 1,
                           .attrs = tpi_index_table,
                           .attrs_size = sizeof(tpi_index_attrs),
                           .infer = row_infer,
                           .view = row_view,
                           .range = row_range,
                           .kernel = row_kernel,
                           .factors = row_factors,
                           .awaits = 1,
                           .batch = TPI_BATCH_ROW,
                           .linear = TPI_LINEAR_IN_ALL,
                           .grad = tpi_grad_by_sweep /* which joins them */};

tp_tensor *tpi_enter_turns(tpi_at at, tp_tensor *x)
{
    return tpi_apply(at, &tpi_op_enter, TPI_IN(x), NULL);
}

tp_tensor *tpi_behind_enter(tp_tensor *x)
{
    while (x->op == &tpi_op_enter)
        x = x->in[0];
    return x;
}

tp_tensor *tpi_turn_row(tpi_at at, tp_tensor *xs, int64_t index)
{
    const tpi_index_attrs a = {.index = index};
    return tpi_apply(at, &tpi_op_row, TPI_IN(xs), &a);
}
