/* param, cond, loop, output: see ir/body.h. The shape rules hold what comes from texts to it. */
#include "ir/body.h"
#include "ir/factors.h"
#include "ir/op_rules.h"

#include <string.h>

const tpi_op tpi_op_param = {.name = "param",
                             .code = TPI_OP_param,
                             .kind = TPI_SOURCE,
                             .attrs = tpi_index_table,
                             .attrs_size = sizeof(tpi_index_attrs)};

static bool same_type(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && tpi_same_shape(a, b);
}

/* Does `x` go to a param of type `p`? `lead`: without its first axis, which is `count`. */
static bool fits(tpi_infer *q, int i, const tp_tensor *p, bool lead, int64_t count)
{
    const tp_tensor *x = q->in[i];
    const bool ok = lead ? x->rank == p->rank + 1 && x->shape[0] == count &&
                               x->dtype == p->dtype &&
                               memcmp(x->shape + 1, p->shape, sizeof(int64_t) * p->rank) == 0
                         : same_type(x, p);
    return ok ||
           tpi_refuse(q, TP_E_SHAPE, "operand %d, %s %s, is not what the block takes: %s %s", i,
                      tp_dtype_name((tp_dtype)x->dtype), SHAPE(x),
                      tp_dtype_name((tp_dtype)p->dtype), SHAPE(p));
}

static bool is_pred(const tp_tensor *t)
{
    return t->dtype == TP_BOOL && t->rank == 0;
}

static bool token(tpi_infer *q)
{
    q->dtype = TP_BOOL;
    q->rank = 0;
    return true;
}

/* ---- cond ---------------------------------------------------------------------------------- */

/* clang-format off */
static const tpi_attr cond_table[] = {
    {"then", TPI_ATTR_BODY, offsetof(tpi_cond_attrs, then)},
    {"other", TPI_ATTR_BODY, offsetof(tpi_cond_attrs, other)},
    {"writes", TPI_ATTR_INT, offsetof(tpi_cond_attrs, n_writes)},
    {0},
};
/* clang-format on */

static bool cond_infer(tpi_infer *q)
{
    const tpi_cond_attrs *a = q->attrs;
    const tpi_body *then = a->then, *other = a->other;
    if (!is_pred(q->in[0]))
        return tpi_refuse(q, TP_E_DTYPE, "the condition is %s %s, not one bool",
                          tp_dtype_name((tp_dtype)q->in[0]->dtype), SHAPE(q->in[0]));
    if (then->n_params != q->n_in - 1 || other->n_params != q->n_in - 1)
        return tpi_refuse(q, TP_E_VALUE, "%d operands for %d and %d params", q->n_in - 1,
                          then->n_params, other->n_params);
    for (int i = 1; i < q->n_in; i++)
        if (!fits(q, i, then->params[i - 1], false, 0) ||
            !fits(q, i, other->params[i - 1], false, 0))
            return false;
    if (then->n_outputs != other->n_outputs)
        return tpi_refuse(q, TP_E_VALUE, "the sides give %d and %d outputs", then->n_outputs,
                          other->n_outputs);
    if (a->n_writes < 0 || a->n_writes > then->n_outputs)
        return tpi_refuse(q, TP_E_VALUE, "%lld of %d outputs are written",
                          (long long)a->n_writes, then->n_outputs);
    for (int i = 0; i < then->n_outputs; i++)
        if (!same_type(then->outputs[i], other->outputs[i]))
            return tpi_refuse(
                q, TP_E_SHAPE, "output %d is %s %s or %s %s", i,
                tp_dtype_name((tp_dtype)then->outputs[i]->dtype), SHAPE(then->outputs[i]),
                tp_dtype_name((tp_dtype)other->outputs[i]->dtype), SHAPE(other->outputs[i]));
    return token(q);
}

const tpi_op tpi_op_cond = {.name = "cond",
                            .code = TPI_OP_cond,
                            .kind = TPI_BLOCK,
                            .n_in = -1,
                            .attrs = cond_table,
                            .attrs_size = sizeof(tpi_cond_attrs),
                            .infer = cond_infer,
                            .factors = tpi_whole_factors,
                            .grad = tpi_grad_by_sweep};

/* ---- loop ---------------------------------------------------------------------------------- */

/* clang-format off */
static const tpi_attr loop_table[] = {
    {"body", TPI_ATTR_BODY, offsetof(tpi_loop_attrs, body)},
    {"carried", TPI_ATTR_INT, offsetof(tpi_loop_attrs, n_carried)},
    {"slices", TPI_ATTR_INT, offsetof(tpi_loop_attrs, n_slices)},
    {"stacked", TPI_ATTR_INT, offsetof(tpi_loop_attrs, n_stacked)},
    {"pred", TPI_ATTR_BOOL, offsetof(tpi_loop_attrs, has_pred)},
    {"counted", TPI_ATTR_BOOL, offsetof(tpi_loop_attrs, counted)},
    {"back", TPI_ATTR_BOOL, offsetof(tpi_loop_attrs, back)},
    {"count", TPI_ATTR_DIM, offsetof(tpi_loop_attrs, count)},
    {"length", TPI_ATTR_DIM, offsetof(tpi_loop_attrs, length)},
    {"writes", TPI_ATTR_INT, offsetof(tpi_loop_attrs, n_writes)},
    {"checkpoint", TPI_ATTR_BOOL, offsetof(tpi_loop_attrs, checkpoint)},
    {0},
};
/* clang-format on */

static bool counts_fit(tpi_infer *q, const tpi_loop_attrs *a)
{
    const tpi_body *b = a->body;
    const int64_t most = 1 << 20;
    if (a->n_carried < 0 || a->n_slices < 0 || a->n_stacked < 0 || a->n_carried > most ||
        a->n_slices > most || a->n_stacked > most)
        return tpi_refuse(q, TP_E_VALUE,
                          "a number of carried values, slices or outputs is absurd");
    if (!a->has_pred && !a->counted)
        return tpi_refuse(q, TP_E_VALUE, "it has no condition and no count");
    if (!a->counted && (a->n_slices || a->back))
        return tpi_refuse(q, TP_E_VALUE, "slices and turns backwards need a count");
    if (a->back && a->has_pred)
        return tpi_refuse(q, TP_E_VALUE, "turns backwards have no condition");
    if (!a->has_pred && a->n_stacked && a->length != a->count)
        return tpi_refuse(q, TP_E_VALUE, "length is not count");
    int symbol;
    if (a->has_pred && a->n_stacked && !tpi_dim_as_symbol(q->dims, a->length, &symbol))
        return tpi_refuse(q, TP_E_VALUE, "length is no symbol of its own");
    if (q->n_in < a->has_pred + a->n_carried + a->n_slices ||
        b->n_params != q->n_in - a->has_pred + 1)
        return tpi_refuse(q, TP_E_VALUE, "%d operands for %d params", q->n_in, b->n_params);
    if (b->n_outputs != a->has_pred + a->n_carried + a->n_stacked)
        return tpi_refuse(q, TP_E_VALUE, "the body gives %d outputs, not %lld", b->n_outputs,
                          (long long)(a->has_pred + a->n_carried + a->n_stacked));
    return true;
}

static bool loop_infer(tpi_infer *q)
{
    const tpi_loop_attrs *a = q->attrs;
    const tpi_body *b = a->body;
    if (!counts_fit(q, a))
        return false;
    const int first = (int)a->has_pred, carried = (int)a->n_carried;
    if (b->params[0]->dtype != TP_I64 || b->params[0]->rank != 0)
        return tpi_refuse(q, TP_E_DTYPE, "the first param is no turn (i64)");
    if (a->has_pred && (!is_pred(q->in[0]) || !is_pred(b->outputs[0])))
        return tpi_refuse(q, TP_E_DTYPE, "the condition is not one bool");
    for (int i = first; i < q->n_in; i++) {
        const int k = i - first;
        const bool slice = k >= carried && k < carried + a->n_slices;
        if (!fits(q, i, b->params[k + 1], slice, a->count))
            return false;
    }
    for (int k = 0; k < carried; k++)
        if (!same_type(b->params[k + 1], b->outputs[first + k]))
            return tpi_refuse(
                q, TP_E_SHAPE, "carried value %d goes in as %s %s and comes out as %s %s", k,
                tp_dtype_name((tp_dtype)b->params[k + 1]->dtype), SHAPE(b->params[k + 1]),
                tp_dtype_name((tp_dtype)b->outputs[first + k]->dtype),
                SHAPE(b->outputs[first + k]));
    return token(q);
}

const tpi_op tpi_op_loop = {.name = "loop",
                            .code = TPI_OP_loop,
                            .kind = TPI_BLOCK,
                            .n_in = -1,
                            .attrs = loop_table,
                            .attrs_size = sizeof(tpi_loop_attrs),
                            .infer = loop_infer,
                            .factors = tpi_whole_factors,
                            .grad = tpi_grad_by_sweep};

/* ---- output --------------------------------------------------------------------------------- */

static bool output_infer(tpi_infer *q)
{
    const tpi_index_attrs *a = q->attrs;
    if (!tpi_is_block(q->in[0]))
        return tpi_refuse(q, TP_E_STATE, "operand 0 is no block");
    if (a->index < 0 || a->index >= tpi_n_outputs_of(q->in[0]))
        return tpi_refuse(q, TP_E_VALUE, "output %lld is not one of the block's %d",
                          (long long)a->index, tpi_n_outputs_of(q->in[0]));
    int64_t shape[TP_MAX_RANK + 1];
    tpi_output_type(q->in[0], a->index, &q->dtype, &q->rank, shape);
    if (q->rank > TP_MAX_RANK)
        return tpi_refuse(q, TP_E_SHAPE, "stacked, it has more than %d axes", TP_MAX_RANK);
    memcpy(q->shape, shape, sizeof(int64_t) * (size_t)q->rank);
    return true;
}

const tpi_op tpi_op_output = {.name = "output",
                              .code = TPI_OP_output,
                              .kind = TPI_PORT,
                              .awaits = 1,
                              .n_in = 1,
                              .attrs = tpi_index_table,
                              .attrs_size = sizeof(tpi_index_attrs),
                              .infer = output_infer,
                              .factors = tpi_whole_factors,
                              .grad = tpi_grad_by_sweep};
