/* Order along an axis. One op finds places; values are taken along by them, and so have their
 * gradient. */
#include "ir/factors.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"
#include "op/set_calls.h"
#include "op/sizes.h"

#include <stddef.h>

#define TPI_TEXT "kernel/text/sort.h"
#define TPI_TEXT_BOOL
#include "op/instances.h"

typedef struct argtopk_attrs {
    int64_t axis, k, largest, from; /* of the first k those behind `from` */
} argtopk_attrs;

static const tpi_attr argtopk_table[] = {
    {"axis",                  TPI_ATTR_INT, offsetof(argtopk_attrs, axis)},
    {"k", TPI_ATTR_DIM, offsetof(argtopk_attrs, k)},
    {"largest",                       TPI_ATTR_BOOL, offsetof(argtopk_attrs, largest)},
    {"from",           TPI_ATTR_INT, offsetof(argtopk_attrs, from)},
    {0                    },
};

static bool argtopk_infer(tpi_infer *q)
{
    const argtopk_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0];
    if (!tpi_refuse_axis(q, a->axis))
        return false;
    const int64_t size = x->shape[a->axis];
    if (a->k != size && (a->k < 0 || size < 0 || a->k > size))
        return tpi_refuse(q, TP_E_SHAPE, "the first %s of %s along axis %d of %s",
                          SIZE(q->ctx, q->dims, a->k), SIZE(q->ctx, q->dims, size),
                          (int)a->axis, SHAPE(x));
    if (a->from != 0 && (a->from < 0 || a->k < a->from))
        return tpi_refuse(q, TP_E_SHAPE, "of the first %s those behind %lld",
                          SIZE(q->ctx, q->dims, a->k), (long long)a->from);
    tpi_infer_like(q, 0);
    q->dtype = TP_I64;
    q->shape[a->axis] = a->from ? a->k - a->from : a->k;
    return true;
}

TPI_DECLARE_F32_AVX2(argtopk);
static const tpi_call argtopk_calls[TP_N_DTYPES + 2 * TPI_N_SETS] = {
    [TP_BOOL] = tpk_argtopk_bool, TPI_ORDERED(argtopk), TPI_F32_AVX2(argtopk)};

const tpi_op tpi_op_argtopk = {
    .name = "argtopk",
    .n_in = 1,
    .kind = TPI_CALL,
    .attrs = argtopk_table,
    .lead = {TPI_LEAD_AXES},
    .attrs_size = sizeof(argtopk_attrs),
    .infer = argtopk_infer,
    .factors = tpi_along_factors,
    .text = "sort",
    .fn = "argtopk",
    .call = argtopk_calls,
    .isa_call = TPI_ISA_of_op,
    .code = TPI_OP_argtopk,
};

static tp_tensor *places(tpi_at at, tp_tensor *x, int64_t axis, int64_t k, bool largest)
{
    const argtopk_attrs a = {.axis = axis, .k = k, .largest = largest};
    return tpi_apply(at, &tpi_op_argtopk, TPI_IN(x), &a);
}

tp_tensor *tpi_sorted_part(tpi_at at, tp_tensor *x, int axis, int64_t from, int64_t to)
{
    const argtopk_attrs a = {.axis = axis, .k = to, .from = from};
    return tp_take_along_at(at.file, at.line, x, tpi_apply(at, &tpi_op_argtopk, TPI_IN(x), &a),
                            axis);
}

/* Is it an axis of a good operand? If not tpi_apply refuses. */
static bool has_axis(const tp_tensor *x, int64_t axis)
{
    return tpi_is_live(x) && x->status == TP_OK && axis >= 0 && axis < x->rank;
}

tp_tensor *tp_argtopk_at(const char *file, int line, tp_tensor *x, int axis, int64_t k,
                         bool largest)
{
    const tpi_at at = TPI_AT(file, line);
    const int64_t place = tpi_positive_axis(x, axis);
    if (!has_axis(x, place) || tpi_is_spoilt_size(k))
        return places(at, x, place, k, largest);
    const int64_t size = x->shape[place];
    if (k == size || (k >= 0 && size >= 0) || !tpi_dim_is_size(tpi_dims_of(x), k))
        return places(at, x, place, k, largest);
    /* whether there are so many shows in a run: the slice looks */
    return tpi_slice(at, places(at, x, place, size, largest), (int)place, 0,
                     tpi_dim_sub(tpi_dims_of(x), size, k), 1);
}
TPI_BARE(tp_tensor *, tp_argtopk, (tp_tensor * x, int axis, int64_t k, bool largest), x, axis,
         k, largest)

tp_tensor *tp_argsort_at(const char *file, int line, tp_tensor *x, int axis, bool descending)
{
    const int64_t place = tpi_positive_axis(x, axis);
    return places(TPI_AT(file, line), x, place, has_axis(x, place) ? x->shape[place] : 0,
                  descending);
}
TPI_BARE(tp_tensor *, tp_argsort, (tp_tensor * x, int axis, bool descending), x, axis,
         descending)

tp_tensor *tp_sort_at(const char *file, int line, tp_tensor *x, int axis, bool descending)
{
    return tp_take_along_at(file, line, x, tp_argsort_at(file, line, x, axis, descending),
                            axis);
}
TPI_BARE(tp_tensor *, tp_sort, (tp_tensor * x, int axis, bool descending), x, axis, descending)
