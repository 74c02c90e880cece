/* Along one axis: places of extremes, running ones and their values too, running sums, linear recurrences. */
#include "op/along_axis.h"

#include "ir/factors.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"
#include "op/sizes.h"

#include <stddef.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line

#define TPI_TEXT "kernel/abi/arg.h"
#define TPI_TEXT_BOOL
#include "op/instances.h"
#define TPI_TEXT "kernel/text/cumulative.h"
#include "op/instances.h"

/* ---- argmax, argmin: the place of the first greatest, least ---------------------------------- */

typedef struct arg_attrs {
    int64_t axis, keep;
} arg_attrs;

static const tpi_attr arg_table[] = {
    {"axis",              TPI_ATTR_INT, offsetof(arg_attrs, axis)},
    {"keep", TPI_ATTR_BOOL, offsetof(arg_attrs, keep)},
    {0                  },
};

static bool arg_infer(tpi_infer *q)
{
    const arg_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0];
    if (!tpi_refuse_axis(q, a->axis))
        return false;
    q->dtype = TP_I64;
    q->rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != a->axis)
            q->shape[q->rank++] = x->shape[i];
        else if (a->keep)
            q->shape[q->rank++] = 1;
    return true;
}

static void arg_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const arg_attrs *a = t->attrs;
    const int axis = (int)a->axis;
    tpi_pass_axes(f, 0, axis, 0);
    f[axis] = (tpi_factor){TPI_AXIS_REDUCED, TP_MAX_RANK};
    tpi_pass_axes(f, axis + 1, t->in[k]->rank, a->keep ? 0 : -1);
}

#define ARG(name_)                                                                             \
    static const tpi_call name_##_calls[TP_N_DTYPES] = {[TP_BOOL] = tpk_##name_##_bool,        \
                                                        TPI_ORDERED(name_)};                   \
    const tpi_op tpi_op_##name_ = {.name = #name_,                                             \
                                   .n_in = 1,                                                  \
                                   .kind = TPI_CALL,                                           \
                                   .attrs = arg_table,                                         \
                                   .lead = {TPI_LEAD_AXES},                                    \
                                   .attrs_size = sizeof(arg_attrs),                            \
                                   .infer = arg_infer,                                         \
                                   .factors = arg_factors,                                     \
                                   .text = "arg",                                              \
                                   .fn = #name_,                                               \
                                   .call = name_##_calls,                                      \
                                   .code = TPI_OP_##name_}
ARG(argmax);
ARG(argmin);

static tp_tensor *place_of(tpi_at at, const tpi_op *op, tp_tensor *x, int64_t axis, bool keep)
{
    const arg_attrs a = {.axis = tpi_positive_axis(x, axis), .keep = keep};
    return tpi_apply(at, op, TPI_IN(x), &a);
}

tp_tensor *tp_argmax_at(const char *file, int line, tp_tensor *x, int axis, bool keep)
{
    return place_of(TPI_AT(file, line), &tpi_op_argmax, x, axis, keep);
}
TPI_BARE(tp_tensor *, tp_argmax, (tp_tensor * x, int axis, bool keep), x, axis, keep)

tp_tensor *tp_argmin_at(const char *file, int line, tp_tensor *x, int axis, bool keep)
{
    return place_of(TPI_AT(file, line), &tpi_op_argmin, x, axis, keep);
}
TPI_BARE(tp_tensor *, tp_argmin, (tp_tensor * x, int axis, bool keep), x, axis, keep)

/* ---- cumsum: y[i] = x[0] + ... + x[i] ------------------------------------------------------- */

typedef struct cumsum_attrs {
    int64_t axis, exclusive, reverse;
} cumsum_attrs;

static const tpi_attr cumsum_table[] = {
    {"axis",                 TPI_ATTR_INT, offsetof(cumsum_attrs, axis)},
    {"exclusive", TPI_ATTR_BOOL, offsetof(cumsum_attrs, exclusive)},
    {"reverse",                      TPI_ATTR_BOOL, offsetof(cumsum_attrs, reverse)},
    {0        },
};

static bool is_number(tpi_infer *q)
{
    if (q->in[0]->dtype == TP_BOOL)
        return tpi_refuse(q, TP_E_DTYPE, "x is bool, which has no sum; tp_cast it to a number");
    return true;
}

static bool cumsum_infer(tpi_infer *q)
{
    const cumsum_attrs *a = q->attrs;
    return is_number(q) && tpi_refuse_axis(q, a->axis) && tpi_infer_like(q, 0);
}

static void cumsum_grad(tpi_grad *g)
{
    const cumsum_attrs *a = g->attrs;
    tpi_give(g, 0, tp_cumsum(g->dy, (int)a->axis, a->exclusive, !a->reverse));
}

static const tpi_call cumsum_calls[TP_N_DTYPES] = {TPI_NUMBERS(cumsum)};

const tpi_op tpi_op_cumsum = {
    .any_size = true,
    .name = "cumsum",
    .n_in = 1,
    .kind = TPI_CALL,
    .attrs = cumsum_table,
    .lead = {TPI_LEAD_AXES},
    .attrs_size = sizeof(cumsum_attrs),
    .infer = cumsum_infer,
    .factors = tpi_along_factors,
    .linear = TPI_LINEAR_IN_ALL,
    .grad = cumsum_grad,
    .text = "cumulative",
    .fn = "cumsum",
    .call = cumsum_calls,
    .code = TPI_OP_cumsum,
};

tp_tensor *tp_cumsum_at(const char *file, int line, tp_tensor *x, int axis, bool exclusive,
                        bool reverse)
{
    const cumsum_attrs a = {
        .axis = tpi_positive_axis(x, axis), .exclusive = exclusive, .reverse = reverse};
    return tpi_apply(TPI_AT(file, line), &tpi_op_cumsum, TPI_IN(x), &a);
}
TPI_BARE(tp_tensor *, tp_cumsum, (tp_tensor * x, int axis, bool exclusive, bool reverse), x,
         axis, exclusive, reverse)

/* ---- recur: y[i] = a[i] * y[i - 1] + b[i], y[0] = b[0] ---------------------------------------- */

typedef struct recur_attrs {
    int64_t axis, reverse;
} recur_attrs;

static const tpi_attr recur_table[] = {
    {"axis",                TPI_ATTR_INT, offsetof(recur_attrs, axis)},
    {"reverse", TPI_ATTR_BOOL, offsetof(recur_attrs, reverse)},
    {0                    },
};

static bool recur_infer(tpi_infer *q)
{
    const recur_attrs *attrs = q->attrs;
    const tp_tensor *a = q->in[0], *b = q->in[1];
    if (!is_number(q) || !tpi_refuse_axis(q, attrs->axis))
        return false;
    if (a->dtype != b->dtype)
        return tpi_refuse(q, TP_E_DTYPE, "a is %s, b is %s", tp_dtype_name((tp_dtype)a->dtype),
                          tp_dtype_name((tp_dtype)b->dtype));
    if (!tpi_same_shape(a, b))
        return tpi_refuse(q, TP_E_SHAPE, "shapes differ: a %s, b %s", SHAPE(a), SHAPE(b));
    return tpi_infer_like(q, 0);
}

tp_tensor *tpi_move_on(const tpi_grad *g, tp_tensor *t, int axis, bool reverse, double value)
{
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    (reverse ? hi : lo)[axis] = 1;
    tp_tensor *longer = tp_pad(t, tp_rank(t), lo, hi, value);
    return reverse ? tp_slice(longer, axis, 1, TP_END, 1) : tp_slice(longer, axis, 0, -1, 1);
}

/* What reaches y[i] reaches y[i + 1] too, a[i + 1] times: a recurrence backwards. */
static void recur_grad(tpi_grad *g)
{
    const recur_attrs *r = g->attrs;
    const int axis = (int)r->axis;
    tp_tensor *next = tpi_move_on(g, g->x[0], axis, !r->reverse, 0);
    tp_tensor *db = tp_recur(next, g->dy, axis, !r->reverse);
    if (tpi_wants(g, 0))
        tpi_give(g, 0, tp_mul(db, tpi_move_on(g, g->y, axis, r->reverse, 0)));
    if (tpi_wants(g, 1))
        tpi_give(g, 1, db);
}

static const tpi_call recur_calls[TP_N_DTYPES] = {TPI_NUMBERS(recur)};

const tpi_op tpi_op_recur = {
    .name = "recur",
    .n_in = 2,
    .kind = TPI_CALL,
    .attrs = recur_table,
    .lead = {TPI_LEAD_AXES},
    .attrs_size = sizeof(recur_attrs),
    .infer = recur_infer,
    .factors = tpi_along_factors,
    .grad = recur_grad,
    .grad_reads_x = true,
    .grad_reads_y = true,
    .text = "cumulative",
    .fn = "recur",
    .call = recur_calls,
    .code = TPI_OP_recur,
};

tp_tensor *tp_recur_at(const char *file, int line, tp_tensor *a, tp_tensor *b, int axis,
                       bool reverse)
{
    const recur_attrs r = {.axis = tpi_positive_axis(a, axis), .reverse = reverse};
    tpi_meet(TPI_AT(file, line), &a, &b);
    return tpi_apply(TPI_AT(file, line), &tpi_op_recur, TPI_IN(a, b), &r);
}
TPI_BARE(tp_tensor *, tp_recur, (tp_tensor * a, tp_tensor *b, int axis, bool reverse), a, b,
         axis, reverse)

/* ---- argcummax, argcummin, cummax, cummin: the place, the value of the greatest, least so far ----- */

typedef struct running_attrs {
    int64_t axis;
} running_attrs;

static const tpi_attr running_table[] = {
    {"axis",                  TPI_ATTR_INT, offsetof(running_attrs, axis)},
    {0},
};

static bool running_infer(tpi_infer *q)
{
    const running_attrs *a = q->attrs;
    if (q->in[0]->dtype == TP_BOOL)
        return tpi_refuse(q, TP_E_DTYPE, "x is bool; tp_cast it to a number first");
    return tpi_refuse_axis(q, a->axis) && tpi_infer_like(q, 0);
}

static bool running_place_infer(tpi_infer *q)
{
    const bool good = running_infer(q);
    q->dtype = TP_I64;
    return good;
}

/* Each result is an element of x. */
static void give_at(tpi_grad *g, tp_tensor *(*place)(const char *, int, tp_tensor *, int))
{
    const running_attrs *a = g->attrs;
    const int axis = (int)a->axis;
    tp_tensor *zeros = tpi_zeros(g->at, g->dy, g->x[0]->rank, g->x[0]->shape);
    tpi_give(g, 0, tp_put_along_add(zeros, place(TP_PLACE, g->x[0], axis), g->dy, axis));
}

static void cummax_grad(tpi_grad *g)
{
    give_at(g, tp_argcummax_at);
}

static void cummin_grad(tpi_grad *g)
{
    give_at(g, tp_argcummin_at);
}

#define RUNNING(name_, rule, ...)                                                              \
    static const tpi_call name_##_calls[TP_N_DTYPES] = {TPI_ORDERED(name_)};                   \
    const tpi_op tpi_op_##name_ = {.any_size = true,                                           \
                                   .name = #name_,                                             \
                                   .n_in = 1,                                                  \
                                   .kind = TPI_CALL,                                           \
                                   .attrs = running_table,                                     \
                                   .lead = {TPI_LEAD_AXES},                                    \
                                   .attrs_size = sizeof(running_attrs),                        \
                                   .infer = rule,                                              \
                                   .factors = tpi_along_factors,                               \
                                   .text = "cumulative",                                       \
                                   .fn = #name_,                                               \
                                   .call = name_##_calls,                                      \
                                   .code = TPI_OP_##name_,                                     \
                                   ##__VA_ARGS__};                                             \
    tp_tensor *tp_##name_##_at(const char *file, int line, tp_tensor *x, int axis)             \
    {                                                                                          \
        const running_attrs a = {.axis = tpi_positive_axis(x, axis)};                          \
        return tpi_apply(TPI_AT(file, line), &tpi_op_##name_, TPI_IN(x), &a);                  \
    }                                                                                          \
    TPI_BARE(tp_tensor *, tp_##name_, (tp_tensor * x, int axis), x, axis)
RUNNING(argcummax, running_place_infer)
RUNNING(argcummin, running_place_infer)
RUNNING(cummax, running_infer, .grad = cummax_grad, .grad_reads_x = true)
RUNNING(cummin, running_infer, .grad = cummin_grad, .grad_reads_x = true)
