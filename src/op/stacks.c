/* What the ops of linear algebra have in common: see stacks.h. */
#include "op/stacks.h"

#include "ir/factors.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE at.file, at.line

bool tpi_infer_stack(tpi_infer *q, int i)
{
    const tp_tensor *x = q->in[i];
    if (x->dtype < TP_F32 || x->dtype != q->in[0]->dtype)
        return tpi_refuse(q, TP_E_DTYPE, "operand %d is %s: not floats of one type", i,
                          tp_dtype_name((tp_dtype)x->dtype));
    if (x->rank < 2)
        return tpi_refuse(q, TP_E_SHAPE, "operand %d is %s: no matrices", i, SHAPE(x));
    bool same = x->rank == q->in[0]->rank;
    for (int k = 0; k < x->rank - 2 && same; k++)
        same = x->shape[k] == q->in[0]->shape[k];
    return same ? true
                : tpi_refuse(q, TP_E_SHAPE, "leading axes differ: %s, %s", SHAPE(q->in[0]),
                             SHAPE(x));
}

bool tpi_infer_square(tpi_infer *q, int i)
{
    const tp_tensor *x = q->in[i];
    if (!tpi_infer_stack(q, i))
        return false;
    return x->shape[x->rank - 1] == x->shape[x->rank - 2]
               ? true
               : tpi_refuse(q, TP_E_SHAPE, "operand %d is %s: no square matrices", i, SHAPE(x));
}

tp_tensor *tpi_refuse_stack(tpi_at at, const char *what, const char *name, tp_tensor *x,
                            bool square)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (failed)
        return failed;
    if (x->dtype < TP_F32)
        return tpi_fail(x->ctx, at, what, TP_E_DTYPE,
                        "%s is %s; tp_cast it to f32 or f64 first", name,
                        tp_dtype_name((tp_dtype)x->dtype));
    if (x->rank < 2)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "%s is %s: no matrices", name, SHAPE(x));
    if (square && x->shape[x->rank - 1] != x->shape[x->rank - 2])
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "%s is %s: no square matrices", name,
                        SHAPE(x));
    return NULL;
}

void tpi_stack_factors(const tp_tensor *node, int k, tpi_factor *f)
{
    tpi_pass_axes(f, 0, node->in[k]->rank - 2, 0);
}

/* 1, 2, ... n along one axis of [n, 1] or [1, n]. */
static tp_tensor *count_along(tpi_at at, tp_tensor *like, int64_t n, int axis)
{
    int64_t shape[2] = {1, 1};
    shape[axis] = n;
    tp_tensor *zeros = tpi_zeros(at, like, 2, shape);
    return tp_cumsum(tp_add(zeros, tp_scalar_like(zeros, 1)), axis, false, false);
}

tp_tensor *tpi_triangle(tpi_at at, tp_tensor *x, bool upper, bool strict)
{
    if (x->status != TP_OK)
        return x;
    tp_tensor *row = count_along(at, x, x->shape[x->rank - 2], 0);
    tp_tensor *column = count_along(at, x, x->shape[x->rank - 1], 1);
    tp_tensor *low = upper ? row : column, *high = upper ? column : row;
    tp_tensor *in = strict ? tp_lt(low, high) : tp_le(low, high);
    return tp_where(in, x, tp_scalar_like(x, 0));
}

tp_tensor *tpi_unit(tpi_at at, tp_tensor *x)
{
    if (x->status != TP_OK)
        return x;
    const int64_t n = x->shape[x->rank - 1];
    tp_tensor *on = tp_eq(count_along(at, x, n, 0), count_along(at, x, n, 1));
    return tp_broadcast(tp_cast(on, (tp_dtype)x->dtype), x->rank, x->shape);
}
