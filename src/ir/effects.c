/* call, result, assign, group: see effects.h. */
#include "ir/effects.h"

#include "ir/factors.h"
#include "ir/op_rules.h"

/* ---- call: true, and stands for what was computed inside -------------------------------- */

static const tpi_attr call_table[] = {
    {"function",               TPI_ATTR_INT, offsetof(tpi_call_attrs, function)},
    {0},
};

static bool call_infer(tpi_infer *q)
{
    q->dtype = TP_BOOL;
    q->rank = 0;
    return true;
}

static bool call_kernel(tpi_run *r)
{
    *r->out->data = 1;
    return true;
}

const tpi_op tpi_op_call = {.name = "call",
                            .code = TPI_OP_call,
                            .kind = TPI_EFFECT,
                            .n_in = -1,
                            .attrs = call_table,
                            .attrs_size = sizeof(tpi_call_attrs),
                            .infer = call_infer,
                            .kernel = call_kernel,
                            .factors = tpi_whole_factors,
                            .grad = tpi_grad_by_sweep};

/* ---- result: a value computed inside, and its call --------------------------------------------- */

static bool result_infer(tpi_infer *q)
{
    if (q->in[1]->op != &tpi_op_call)
        return tpi_refuse(q, TP_E_STATE, "operand 1 is no call");
    return tpi_infer_like(q, 0);
}

const tpi_op tpi_op_result = {.name = "result",
                              .code = TPI_OP_result,
                              .kind = TPI_VIEW,
                              .n_in = 2,
                              .infer = result_infer,
                              .view = tpi_same_view,
                              .kernel = tpi_same_kernel,
                              .factors = tpi_same_factors,
                              .in_order = true,
                              .awaits = 2,
                              .grad = tpi_grad_by_sweep};

/* ---- assign: the value of v from here on is x ---------------------------------------------- */

static bool assign_infer(tpi_infer *q)
{
    const tp_tensor *v = q->in[0], *x = q->in[1];
    if (!tpi_same_shape(v, x))
        return tpi_refuse(q, TP_E_SHAPE, "the variable is %s, the value %s", SHAPE(v),
                          SHAPE(x));
    if (v->dtype != x->dtype)
        return tpi_refuse(q, TP_E_DTYPE, "the variable is %s, the value %s: tp_cast it",
                          tp_dtype_name((tp_dtype)v->dtype), tp_dtype_name((tp_dtype)x->dtype));
    return tpi_infer_like(q, 0);
}

static bool assign_kernel(tpi_run *r)
{
    tpi_copy_out(r->in[1], r->out->data);
    return true;
}

/* A constant to gradients, as a variable that was assigned is when ops compute now. */
const tpi_op tpi_op_assign = {.name = "assign",
                              .code = TPI_OP_assign,
                              .kind = TPI_EFFECT,
                              .n_in = 2,
                              .infer = assign_infer,
                              .factors = tpi_same_factors,
                              .kernel = assign_kernel};

/* ---- group ------------------------------------------------------------------------------------- */

static bool group_infer(tpi_infer *q)
{
    q->dtype = TP_BOOL;
    q->rank = 0;
    return true;
}

static bool group_kernel(tpi_run *r)
{
    *r->out->data = 1;
    return true;
}

const tpi_op tpi_op_group = {.name = "group",
                             .code = TPI_OP_group,
                             .kind = TPI_EFFECT,
                             .n_in = -1,
                             .infer = group_infer,
                             .factors = tpi_whole_factors,
                             .kernel = group_kernel};
