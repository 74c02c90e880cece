/* Reductions, places of extremes, order, running sums. */
#include "onnx/import/import.h"

/* ---- reductions ---------------------------------------------------------------------------------- */

/* Axes to reduce, one at least. */
typedef struct over {
    int n;
    const int64_t *axes;
    bool keep;
} over;

static tp_tensor *mean_of(tpi_onnx_op *o, tp_tensor *x, const over *r)
{
    if (tp_dtype_of(x) >= TP_F32)
        return tp_mean(x, r->n, r->axes, r->keep);
    return tp_div(tp_sum(x, r->n, r->axes, r->keep),
                  tp_extent(x, r->n, r->axes, tp_dtype_of(x)));
}

static tp_tensor *reduced(tpi_onnx_op *o, tp_tensor *x, const over *r)
{
    switch (o->row) {
    case TPI_OPERATOR_ReduceMean:
        return mean_of(o, x, r);
    case TPI_OPERATOR_ReduceMax:
        return tp_reduce_max(x, r->n, r->axes, r->keep);
    case TPI_OPERATOR_ReduceMin:
        return tp_reduce_min(x, r->n, r->axes, r->keep);
    case TPI_OPERATOR_ReduceProd:
        return tp_prod(x, r->n, r->axes, r->keep);
    case TPI_OPERATOR_ReduceLogSumExp:
        return tp_logsumexp(x, r->n, r->axes, r->keep);
    default:
        return tp_sum(x, r->n, r->axes, r->keep);
    }
}

/* Of elements that become others before, and after. Over no axes only these do. */
static tp_tensor *reduce(tpi_onnx_op *o, tp_tensor *x, const over *r)
{
    if (o->row == TPI_OPERATOR_ReduceL2)
        return r->n ? tp_norm(x, 2, r->n, r->axes, r->keep) : tp_abs(x);
    if (o->row == TPI_OPERATOR_ReduceL1)
        x = tp_abs(x);
    else if (o->row == TPI_OPERATOR_ReduceSumSquare)
        x = tp_square(x);
    x = r->n ? reduced(o, x, r) : x;
    return o->row == TPI_OPERATOR_ReduceLogSum ? tp_log(x) : x;
}

/* Has it roots or logarithms? Then integers become floats. */
static bool is_real(const tpi_onnx_op *o)
{
    return o->row == TPI_OPERATOR_ReduceL2 || o->row == TPI_OPERATOR_ReduceLogSum ||
           o->row == TPI_OPERATOR_ReduceLogSumExp;
}

/* The product of sizes that are listed in one axis: how many elements there are. */
static bool product_of_sizes(tpi_onnx_op *o)
{
    tpi_onnx_ints k;
    bool symbolic = false;
    if (o->row != TPI_OPERATOR_ReduceProd || tpi_onnx_int(o, "noop_with_empty_axes") ||
        !tpi_onnx_try_sizes(o, 0, &k) || k.rank != 1)
        return false;
    for (int i = 0; i < k.n; i++)
        symbolic |= tpi_dim_is_symbolic(k.v[i]);
    const int64_t all = tpi_onnx_dim_product(o, k.n, k.v);
    k.n = 1;
    k.v[0] = all;
    k.rank = tpi_onnx_int(o, "keepdims") != 0;
    return symbolic && all != TPI_NO_DIM && tpi_onnx_out_ints(o, 0, &k);
}

bool tpi_onnx_import_reduce(tpi_onnx_op *o)
{
    if (product_of_sizes(o))
        return true;
    tpi_onnx_ints axes;
    int64_t all[TP_MAX_RANK];
    tp_tensor *x = tpi_onnx_good_in(o, 0);
    if (!x || !tpi_onnx_axes(o, x->rank, &axes))
        return false;
    over r = {.n = axes.n, .axes = axes.v, .keep = tpi_onnx_int(o, "keepdims") != 0};
    if (r.n == 0 && !tpi_onnx_int(o, "noop_with_empty_axes")) {
        r.n = tpi_onnx_axes_from(0, x->rank, all);
        r.axes = all;
    }
    const tp_dtype dtype = (tp_dtype)x->dtype;
    if (is_real(o) && dtype < TP_F32)
        x = tp_cast(x, TP_F64);
    return tpi_onnx_out(o, 0, tp_cast(reduce(o, x, &r), dtype));
}

/* ---- places ---------------------------------------------------------------------------------------- */

tp_tensor *tpi_onnx_import_arg(tpi_onnx_op *o, tp_tensor *x)
{
    const bool keep = tpi_onnx_int(o, "keepdims") != 0;
    const bool last = tpi_onnx_int(o, "select_last_index") != 0;
    const int64_t along = o->axis;
    tp_tensor *from = last ? tp_flip(x, 1, &along) : x;
    tp_tensor *place = o->row == TPI_OPERATOR_ArgMax ? tp_argmax(from, o->axis, keep)
                                                     : tp_argmin(from, o->axis, keep);
    if (last) {
        const int64_t end = tpi_onnx_dim_sub(o, x->shape[o->axis], 1);
        place = tp_sub(tpi_onnx_size_of(o, end, TP_I64), place);
    }
    return place;
}

bool tpi_onnx_import_top_k(tpi_onnx_op *o)
{
    int64_t k;
    if (!tpi_onnx_integer(o, "k", &k))
        return false;
    tp_tensor *places = tp_argtopk(o->x[0], o->axis, k, tpi_onnx_int(o, "largest") != 0);
    return tpi_onnx_out(o, 0, tp_take_along(o->x[0], places, o->axis)) &&
           (!tpi_onnx_wants(o, 1) || tpi_onnx_out(o, 1, places));
}

/* ---- along an axis ----------------------------------------------------------------------------------- */

tp_tensor *tpi_onnx_import_cum_sum(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_cumsum(x, o->axis, tpi_onnx_int(o, "exclusive") != 0,
                     tpi_onnx_int(o, "reverse") != 0);
}

tp_tensor *tpi_onnx_import_cum_prod(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_cumprod(x, o->axis, tpi_onnx_int(o, "exclusive") != 0,
                      tpi_onnx_int(o, "reverse") != 0);
}
