/* where, cast, detach. */
#include "ir/factors.h"
#include "op/elementwise.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line

/* ---- where: y = c ? a : b ------------------------------------------------------------------- */

static bool where_infer(tpi_infer *q)
{
    if (q->in[0]->dtype != TP_BOOL)
        return tpi_refuse(q, TP_E_DTYPE, "the condition is %s, not bool: compare it with 0",
                          tp_dtype_name((tp_dtype)q->in[0]->dtype));
    if (!tpi_infer_met(q, 1, 2))
        return false;
    return tpi_infer_broadcast(q, (tp_dtype)q->in[1]->dtype);
}

static void where_grad(tpi_grad *g)
{
    tp_tensor *zero = tp_scalar_like(g->dy, 0);
    if (tpi_wants(g, 1))
        tpi_give(g, 1, tp_where(g->x[0], g->dy, zero));
    if (tpi_wants(g, 2))
        tpi_give(g, 2, tp_where(g->x[0], zero, g->dy));
}

const tpi_op tpi_op_where = {.name = "where",
                             .effort = (tpi_effort)TPI_EFFORT_where,
                             .code = TPI_OP_where,
                             .kind = TPI_ELEMENT,
                             .n_in = 3,
                             .infer = where_infer,
                             .elem = TPI_ELEM_where,
                             .call_dtype = 1,
                             .kernel = tpi_elem_kernel,
                             .fast = tpi_elem_fast,
                             .grad = where_grad,
                             .grad_reads_x = true};

tp_tensor *tp_where_at(const char *file, int line, tp_tensor *c, tp_tensor *a, tp_tensor *b)
{
    tpi_meet(TPI_AT(file, line), &a, &b);
    return tpi_apply(TPI_AT(file, line), &tpi_op_where, TPI_IN(c, a, b), NULL);
}

TPI_BARE(tp_tensor *, tp_where, (tp_tensor * c, tp_tensor *a, tp_tensor *b), c, a, b)

/* ---- cast --------------------------------------------------------------------------------------- */

typedef struct cast_attrs {
    int64_t to;
} cast_attrs;

static const tpi_attr cast_table[] = {
    {"to", TPI_ATTR_DTYPE, offsetof(cast_attrs, to)},
    {NULL,    0,               0                             }
};

static bool cast_infer(tpi_infer *q)
{
    const cast_attrs *a = q->attrs;
    if (!tp_dtype_size((tp_dtype)a->to))
        return tpi_refuse(q, TP_E_DTYPE, "%lld is no element type", (long long)a->to);
    tpi_infer_like(q, 0);
    q->dtype = (tp_dtype)a->to;
    return true;
}

static bool cast_kernel(tpi_run *r)
{
    return tpi_elem_reference(
        r, tpi_cast_scalar((tp_dtype)r->in[0]->dtype, (tp_dtype)r->out->dtype));
}

static bool cast_fast(tpi_run *r)
{
    const tpi_row_fn rows[TPI_N_ROWS] = {tpi_cast_row(r->ctx, r->in[0]->dtype, r->out->dtype)};
    return rows[0] ? tpi_elem_rows(r, rows) : cast_kernel(r);
}

static void cast_grad(tpi_grad *g) /* through an integer nothing comes back */
{
    if (g->x[0]->dtype >= TP_F32)
        tpi_give(g, 0, tp_cast(g->dy, (tp_dtype)g->x[0]->dtype));
}

const tpi_op tpi_op_cast = {.name = "cast",
                            .effort = TPI_CHEAP,
                            .code = TPI_OP_cast,
                            .kind = TPI_ELEMENT,
                            .n_in = 1,
                            .attrs = cast_table,
                            .attrs_size = sizeof(cast_attrs),
                            .infer = cast_infer,
                            .kernel = cast_kernel,
                            .fast = cast_fast,
                            .linear = TPI_LINEAR_IN_ALL,
                            .grad = cast_grad};

tp_tensor *tp_cast_at(const char *file, int line, tp_tensor *x, tp_dtype dtype)
{
    if (tpi_is_live(x) && x->status == TP_OK && x->dtype == dtype)
        return x;
    const cast_attrs a = {.to = dtype};
    return tpi_apply(TPI_AT(file, line), &tpi_op_cast, TPI_IN(x), &a);
}

TPI_BARE(tp_tensor *, tp_cast, (tp_tensor * x, tp_dtype dtype), x, dtype)

/* ---- detach: x, without its past ------------------------------------------------------------------ */

const tpi_op tpi_op_detach = {.name = "detach",
                              .simplify = tpi_same_simplify,
                              .code = TPI_OP_detach,
                              .kind = TPI_VIEW,
                              .n_in = 1,
                              .infer = tpi_same_infer,
                              .view = tpi_same_view,
                              .factors = tpi_same_factors,
                              .kernel = tpi_same_kernel,
                              .any_size = true,
                              .in_order = true};

tp_tensor *tp_detach_at(const char *file, int line, tp_tensor *x)
{
    return tpi_apply(TPI_AT(file, line), &tpi_op_detach, TPI_IN(x), NULL);
}

TPI_BARE(tp_tensor *, tp_detach, (tp_tensor * x), x)
