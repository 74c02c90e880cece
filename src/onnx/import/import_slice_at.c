/* A slice that begins where only a run knows, such as at the turn of a loop: x[i:i+1]. How long it is
 * has to follow from how its ends are computed. */
#include "onnx/import/import_inner.h"

/* The number of a constant of one element. */
static bool number_in(const tp_tensor *t, int64_t *v)
{
    const tp_tensor *c = t->graph && t->op->code == TPI_OP_const ? t->in[0] : t;
    if (c->graph || c->status != TP_OK || tpi_count(c) != 1 || c->dtype > TP_U64)
        return false;
    *v = tpi_load_i64((tp_dtype)c->dtype, c->data);
    return true;
}

/* One element that is the operand's: other axes, or it joins the loop. */
static bool is_same(const tp_tensor *t)
{
    return t->op->code == TPI_OP_reshape || t->op->code == TPI_OP_enter ||
           (t->op->code == TPI_OP_concat && t->n_in == 1) ||
           (t->op->code == TPI_OP_cast && t->dtype == TP_I64 && t->in[0]->dtype == TP_I32);
}

tpi_onnx_place tpi_onnx_place_of(const tp_tensor *t, bool (*same)(const tp_tensor *t),
                                 bool (*number)(const tp_tensor *t, int64_t *v))
{
    tpi_onnx_place p = {.base = t};
    int64_t v;
    for (int i = 0; i < 64 && p.base->graph; i++) {
        const tp_tensor *b = p.base;
        const bool add = b->op->code == TPI_OP_add, sub = b->op->code == TPI_OP_sub;
        if (same(b))
            p.base = b->in[0];
        else if ((add || sub) && number(b->in[1], &v) &&
                 !(add ? __builtin_add_overflow(p.offset, v, &p.offset)
                       : __builtin_sub_overflow(p.offset, v, &p.offset)))
            p.base = b->in[0];
        else if (add && number(b->in[0], &v) && !__builtin_add_overflow(p.offset, v, &p.offset))
            p.base = b->in[1];
        else
            break;
    }
    return p;
}

tp_tensor *tpi_onnx_slice_at(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_ints starts, ends, axes = {.n = 1}, steps = {.n = 1, .v = {1}};
    if (o->opset < 10 || tpi_onnx_try_ints(o, 1, &starts) || tpi_onnx_try_ints(o, 2, &ends) ||
        (tpi_onnx_has(o, 3) && !tpi_onnx_try_ints(o, 3, &axes)) ||
        (tpi_onnx_has(o, 4) && !tpi_onnx_try_ints(o, 4, &steps)))
        return NULL;
    tp_tensor *from = tpi_onnx_in(o, 1), *end = tpi_onnx_in(o, 2);
    if (tp_failed(from) || tp_failed(end) || axes.n != 1 || steps.n != 1 || steps.v[0] != 1 ||
        tp_count(from) != 1)
        return NULL;
    const tpi_onnx_place a = tpi_onnx_place_of(from, is_same, number_in),
                         b = tpi_onnx_place_of(end, is_same, number_in);
    const int axis = tpi_axis(axes.v[0], x->rank);
    int64_t length;
    if (a.base != b.base || axis < 0 || __builtin_sub_overflow(b.offset, a.offset, &length) ||
        length < 1 || length > INT32_MAX)
        return NULL;
    /* From the end when both ends count from there; across it nothing would be left, which is no
     * size that is known: an index behind the last element refuses that. */
    tp_tensor *zero = tp_scalar(o->ctx, TP_I64, 0);
    from = tp_cast(tp_reshape(from, TP_SCALAR), TP_I64);
    end = tp_cast(tp_reshape(end, TP_SCALAR), TP_I64);
    tp_tensor *across = tp_and(tp_lt(from, zero), tp_ge(end, zero));
    from = tp_where(across, tpi_onnx_size_of(o, x->shape[axis], TP_I64), from);
    tp_tensor *index = tp_add(from, tpi_onnx_iota(o, length, TP_I64));
    return tp_gather(tp_graph_read(o->g, x), index, axis);
}
