/* Tensors made of numbers, or of coordinates. */
#include "composite/composite.h"

TPI_COMPOSITE(tp_linspace, (tp_ctx * tp, tp_dtype dtype, double lo, double hi, int64_t n), tp,
              dtype, lo, hi, n)
{
    const char *what = "linspace";
    tp_tensor *t;
    if (!tpi_check_maker(tp, at, what, dtype, 1, &n, &t))
        return t;
    if (tpi_is_near_handle(tp, lo) || tpi_is_near_handle(tp, hi))
        return tpi_fail_near_handle(tp, at, what, tpi_is_near_handle(tp, lo) ? lo : hi);
    t = tp_tensor_new(tp, dtype, 1, &n, NULL);
    if (t->status != TP_OK)
        return t;
    const double step = n > 1 ? (hi - lo) / (double)(n - 1) : 0;
    const int64_t size = tpi_elem_size(t);
    for (int64_t i = 0; i < n; i++)
        tpi_store_f64(dtype, t->data + i * size,
                      i > 0 && i == n - 1 ? hi : lo + (double)i * step);
    return t;
}

/* ---- meshgrid -------------------------------------------------------------------------------------- */

static tp_tensor *refuse_mesh(tpi_at at, int n, tp_tensor *const *xs, tp_tensor **in)
{
    const char *what = "meshgrid";
    tp_tensor *failed = tpi_together(at, what, n, TP_MAX_RANK, xs, in);
    for (int i = 0; i < n && !failed; i++)
        if (in[i]->rank != 1)
            failed = tpi_fail(in[i]->ctx, at, what, TP_E_SHAPE, "operand %d is %s, not [n]", i,
                              SHAPE(in[i]));
    return failed;
}

/* x [n] along one axis of many. */
static tp_tensor *spread(tpi_at at, tp_tensor *x, int axis, int rank, const int64_t *shape)
{
    int64_t along[TP_MAX_RANK];
    for (int i = 0; i < rank; i++)
        along[i] = i == axis ? shape[i] : 1;
    return tp_broadcast(tp_reshape(x, rank, along), rank, shape);
}

tp_status tp_meshgrid_at(const char *file, int line, int n, tp_tensor *const *xs,
                         tp_tensor **out)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *in[TP_MAX_RANK];
    int64_t shape[TP_MAX_RANK];
    tp_tensor *failed = refuse_mesh(at, n, xs, in);
    if (!failed && !out)
        failed = tpi_fail(xs[0]->ctx, at, "meshgrid", TP_E_NULL, "out is NULL");
    for (int i = 0; i < n && !failed; i++)
        shape[i] = in[i]->shape[0];
    tp_status status = failed ? (tp_status)failed->status : TP_OK;
    for (int i = 0; i < n && out; i++) {
        out[i] = failed ? failed : spread(at, in[i], i, n, shape);
        status = status == TP_OK ? (tp_status)out[i]->status : status;
    }
    return status;
}
TPI_BARE(tp_status, tp_meshgrid, (int n, tp_tensor *const *xs, tp_tensor **out), n, xs, out)
