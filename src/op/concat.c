/* Joins: pad, concat, stack. */
#include "ir/body.h"
#include "ir/factors.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"
#include "op/sizes.h"
#include "op/turn_values.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line /* rules blame the line of the node they are for */

#define TPI_TEXT "kernel/text/move.h"
#define TPI_TEXT_BOOL
#include "op/instances.h"

#define ALL_TYPES(name)                                                                        \
    {                                                                                          \
        tpk_##name##_bool, tpk_##name##_i8, tpk_##name##_i16, tpk_##name##_i32,                \
            tpk_##name##_i64, tpk_##name##_u8, tpk_##name##_u16, tpk_##name##_u32,             \
            tpk_##name##_u64, tpk_##name##_f32, tpk_##name##_f64                               \
    }

/* ---- pad --------------------------------------------------------------------------------------- */

/* lo + x[0] + inner + x[1] + inner ... + hi: for each element the value `inner` times between
 * two neighbours. Only gradients of slices use `inner`. */
typedef struct pad_attrs {
    tpi_list lo, hi, inner;
    double value;
} pad_attrs;

static const tpi_attr pad_table[] = {
    {"lo",                TPI_ATTR_DIMS, offsetof(pad_attrs, lo)},
    {"hi", TPI_ATTR_DIMS, offsetof(pad_attrs, hi)},
    {"inner",                   TPI_ATTR_LIST, offsetof(pad_attrs, inner)},
    {"value",      TPI_ATTR_F64, offsetof(pad_attrs, value)},
    {0               },
};

static bool pad_infer(tpi_infer *q)
{
    const pad_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0];
    if (a->lo.n != x->rank || a->hi.n != x->rank || a->inner.n != x->rank)
        return tpi_refuse(q, TP_E_SHAPE, "%s in front, %s behind: one size for each axis of %s",
                          SIZES(q->ctx, q->dims, a->lo.n, a->lo.v),
                          SIZES(q->ctx, q->dims, a->hi.n, a->hi.v), SHAPE(x));
    tpi_infer_like(q, 0);
    for (int i = 0; i < x->rank; i++) {
        const int64_t inner = a->inner.v[i];
        int64_t size = tpi_dim_add(q->dims, a->lo.v[i], a->hi.v[i]);
        if (inner < 0 || inner == INT64_MAX || !tpi_dim_is_size(q->dims, a->lo.v[i]) ||
            !tpi_dim_is_size(q->dims, a->hi.v[i]))
            return tpi_refuse(q, TP_E_VALUE, "axis %d gets %s elements in front and %s behind",
                              i, SIZE(q->ctx, q->dims, a->lo.v[i]),
                              SIZE(q->ctx, q->dims, a->hi.v[i]));
        size = tpi_dim_add(q->dims, size, tpi_dim_mul(q->dims, x->shape[i], inner + 1));
        q->shape[i] = tpi_dim_sub(q->dims, size, inner);
        if (q->shape[i] == TPI_NO_DIM)
            return tpi_refuse(q, TP_E_SHAPE, "axis %d of %s becomes too large", i, SHAPE(x));
    }
    return true;
}

static void pad_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const pad_attrs *a = t->attrs;
    tpi_same_factors(t, k, f);
    for (int i = 0; i < t->rank; i++)
        if (a->lo.v[i] || a->hi.v[i] || a->inner.v[i])
            f[i].use = TPI_AXIS_WINDOWED;
}

static void pad_grad(tpi_grad *g)
{
    const pad_attrs *a = g->attrs;
    tp_tensor *dx = g->dy;
    for (int i = 0; i < a->lo.n; i++)
        if (a->lo.v[i] != 0 || a->hi.v[i] != 0 || a->inner.v[i] != 0)
            dx = tpi_slice(g->at, dx, i, a->lo.v[i], a->hi.v[i], a->inner.v[i] + 1);
    tpi_give(g, 0, dx);
}

static const tpi_call pad_calls[TP_N_DTYPES] = ALL_TYPES(pad);

const tpi_op tpi_op_pad = {
    .name = "pad",
    .code = TPI_OP_pad,
    .n_in = 1,
    .kind = TPI_CALL,
    .attrs = pad_table,
    .lead = {TPI_LEAD_ZEROS, TPI_LEAD_ZEROS, TPI_LEAD_ZEROS},
    .attrs_size = sizeof(pad_attrs),
    .infer = pad_infer,
    .factors = pad_factors,
    .grad = pad_grad,
    .text = "move",
    .fn = "pad",
    .call = pad_calls
};

tp_tensor *tp_pad_at(const char *file, int line, tp_tensor *x, int rank, const int64_t *lo,
                     const int64_t *hi, double value)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "pad", 0, x);
    if (failed)
        return failed;
    if (rank < 0 || rank > TP_MAX_RANK)
        return tpi_fail(x->ctx, at, "pad", TP_E_SHAPE, "rank %d is not in 0..%d", rank,
                        TP_MAX_RANK);
    if (rank > 0 && (!lo || !hi))
        return tpi_fail(x->ctx, at, "pad", TP_E_NULL, "lo or hi is NULL");
    pad_attrs a = {.lo.n = rank, .hi.n = rank, .inner.n = rank, .value = value};
    for (int i = 0; i < rank; i++) {
        a.lo.v[i] = lo[i];
        a.hi.v[i] = hi[i];
    }
    return tpi_apply(at, &tpi_op_pad, TPI_IN(x), &a);
}
TPI_BARE(tp_tensor *, tp_pad,
         (tp_tensor * x, int rank, const int64_t *lo, const int64_t *hi, double value), x, rank,
         lo, hi, value)

tp_tensor *tpi_pad_slice(tpi_at at, tp_tensor *x, int axis, int64_t lo, int64_t step,
                         int64_t size)
{
    if (x->status != TP_OK)
        return x;
    tpi_dims *dims = tpi_dims_of(x);
    pad_attrs a = {.lo.n = x->rank, .hi.n = x->rank, .inner.n = x->rank};
    a.lo.v[axis] = lo;
    a.inner.v[axis] = step - 1;
    int64_t rest = tpi_dim_sub(dims, tpi_dim_add(dims, size, step - 1), lo);
    rest = tpi_dim_sub(dims, rest, tpi_dim_mul(dims, x->shape[axis], step));
    a.hi.v[axis] = rest;
    return tpi_apply(at, &tpi_op_pad, TPI_IN(x), &a);
}

int tpi_padded_axis(const tp_tensor *t, int64_t *lo)
{
    const pad_attrs *a = t->attrs;
    int axis = -1;
    if (t->op != &tpi_op_pad || a->value != 0 || signbit(a->value))
        return -1;
    for (int i = 0; i < t->rank; i++) {
        if (a->lo.v[i] == 0 && a->hi.v[i] == 0 && a->inner.v[i] == 0)
            continue;
        if (axis >= 0 || a->inner.v[i] != 0 || tpi_dim_is_symbolic(t->in[0]->shape[i]) ||
            tpi_dim_is_symbolic(a->lo.v[i]) || tpi_dim_is_symbolic(t->shape[i]))
            return -1;
        axis = i;
        *lo = a->lo.v[i];
    }
    return axis;
}

/* ---- concat ------------------------------------------------------------------------------------ */

static const tpi_attr axis_table[] = {
    {"axis",                     TPI_ATTR_INT, offsetof(tpi_concat_attrs, axis)},
    {0},
};

static bool concat_infer(tpi_infer *q)
{
    const tpi_concat_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0];
    if (!tpi_refuse_axis(q, a->axis))
        return false;
    tpi_infer_like(q, 0);
    for (int i = 1; i < q->n_in; i++) {
        const tp_tensor *y = q->in[i];
        if (y->dtype != x->dtype)
            return tpi_refuse(q, TP_E_DTYPE, "operand 0 is %s, operand %d is %s",
                              tp_dtype_name((tp_dtype)x->dtype), i,
                              tp_dtype_name((tp_dtype)y->dtype));
        bool fits = y->rank == x->rank;
        for (int k = 0; k < x->rank && fits; k++)
            fits = k == a->axis || y->shape[k] == x->shape[k];
        if (!fits)
            return tpi_refuse(q, TP_E_SHAPE,
                              "operand 0 is %s, operand %d is %s: they differ off axis %d",
                              SHAPE(x), i, SHAPE(y), (int)a->axis);
        q->shape[a->axis] = tpi_dim_add(q->dims, q->shape[a->axis], y->shape[a->axis]);
    }
    if (q->shape[a->axis] == TPI_NO_DIM)
        return tpi_refuse(q, TP_E_SHAPE, "axis %d becomes too large", (int)a->axis);
    return true;
}

static void concat_grad(tpi_grad *g)
{
    const tpi_concat_attrs *a = g->attrs;
    tpi_dims *dims = tpi_dims_of(g->dy);
    const int axis = (int)a->axis;
    int64_t lo = 0;
    for (int i = 0; i < g->n_in; i++) {
        const int64_t size = g->x[i]->shape[axis];
        if (tpi_wants(g, i)) {
            int64_t hi = 0;
            for (int k = i + 1; k < g->n_in; k++)
                hi = tpi_dim_add(dims, hi, g->x[k]->shape[axis]);
            tpi_give(g, i, tpi_slice(g->at, g->dy, axis, lo, hi, 1));
        }
        lo = tpi_dim_add(dims, lo, size);
    }
}

static const tpi_call concat_calls[TP_N_DTYPES] = {TPI_MOVED(concat)};

const tpi_op tpi_op_concat = {.name = "concat",
                              .any_size = true,
                              .code = TPI_OP_concat,
                              .n_in = -1,
                              .kind = TPI_CALL,
                              .attrs = axis_table,
                              .lead = {TPI_LEAD_AXES},
                              .attrs_size = sizeof(tpi_concat_attrs),
                              .infer = concat_infer,
                              .factors = tpi_along_factors,
                              .linear = TPI_LINEAR_IN_ALL,
                              .grad = concat_grad,
                              .text = "move",
                              .fn = "concat",
                              .call = concat_calls};

/* ---- stack: elements that a loop gave --------------------------------------------------------- */

static bool stack_infer(tpi_infer *q)
{
    const tp_tensor *x = q->in[0];
    for (int i = 1; i < q->n_in; i++)
        if (q->in[i]->dtype != x->dtype || !tpi_same_shape(q->in[i], x))
            return tpi_refuse(q, TP_E_SHAPE, "element 0 is %s %s, element %d is %s %s",
                              tp_dtype_name((tp_dtype)x->dtype), SHAPE(x), i,
                              tp_dtype_name((tp_dtype)q->in[i]->dtype), SHAPE(q->in[i]));
    if (x->rank == TP_MAX_RANK)
        return tpi_refuse(q, TP_E_AXIS, "stacked, this has more than %d axes", TP_MAX_RANK);
    q->dtype = (tp_dtype)x->dtype;
    q->rank = x->rank + 1;
    q->shape[0] = q->n_in;
    memcpy(q->shape + 1, x->shape, sizeof(int64_t) * x->rank);
    return true;
}

static void stack_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    tpi_pass_axes(f, 0, t->in[k]->rank, 1);
}

static void stack_grad(tpi_grad *g)
{
    tp_tensor *rows = tpi_enter_turns(g->at, g->dy);
    for (int i = 0; i < g->n_in; i++)
        if (tpi_wants(g, i))
            tpi_give(g, i, tpi_turn_row(g->at, rows, i));
}

static const tpi_call stack_calls[TP_N_DTYPES] = {TPI_MOVED(stack)};

const tpi_op tpi_op_stack = {.name = "stack",
                             .code = TPI_OP_stack,
                             .n_in = -1,
                             .kind = TPI_CALL,
                             .infer = stack_infer,
                             .factors = stack_factors,
                             .batch = TPI_BATCH_STACK,
                             .linear = TPI_LINEAR_IN_ALL,
                             .grad = stack_grad,
                             .text = "move",
                             .fn = "stack",
                             .call = stack_calls};

/* The operands in the type in which all meet, with a new axis at `fresh` when that is >= 0. */
static tp_tensor *join(tpi_at at, const char *what, int n, tp_tensor *const *xs, int axis,
                       bool fresh)
{
    if (n < 1 || !xs)
        return (tp_tensor *)&tpi_nil;
    tp_tensor *few[16], **in = few;
    tp_dtype dtype = TP_BOOL;
    tp_tensor *failed = tpi_refuse_operands(at, what, n, xs);
    if (failed)
        return failed;
    for (int i = 0; i < n; i++)
        dtype = i == 0 ? (tp_dtype)xs[0]->dtype : tp_promote(dtype, (tp_dtype)xs[i]->dtype);
    tp_ctx *ctx = xs[0]->ctx;
    const size_t bytes = (size_t)n * sizeof *in;
    if (n > 16)
        in = tpi_take(&ctx->mem, bytes);
    if (!in)
        return tpi_no_memory(ctx, at, what);
    for (int i = 0; i < n; i++) {
        in[i] = xs[i]->dtype == dtype ? xs[i] : tp_cast_at(at.file, at.line, xs[i], dtype);
        if (fresh)
            in[i] = tp_unsqueeze_at(at.file, at.line, in[i], axis);
    }
    const tpi_concat_attrs a = {.axis = tpi_positive_axis(in[0], axis)};
    tp_tensor *y = tpi_apply(at, &tpi_op_concat, n, in, &a);
    if (in != few)
        tpi_give_back(&ctx->mem, in, bytes);
    return y;
}

tp_tensor *tp_concat_at(const char *file, int line, int n, tp_tensor *const *xs, int axis)
{
    return join(TPI_AT(file, line), "concat", n, xs, axis, false);
}
TPI_BARE(tp_tensor *, tp_concat, (int n, tp_tensor *const *xs, int axis), n, xs, axis)

tp_tensor *tp_stack_at(const char *file, int line, int n, tp_tensor *const *xs, int axis)
{
    return join(TPI_AT(file, line), "stack", n, xs, axis, true);
}
TPI_BARE(tp_tensor *, tp_stack, (int n, tp_tensor *const *xs, int axis), n, xs, axis)
