/* Moves and indices as operators of ONNX. */
#include "core/dim.h"
#include "onnx/export/emit.h"

#include <string.h>

/* ---- moves ------------------------------------------------------------------------------- */

/* A stack of matrices times one matrix is multiplied as one tall matrix and reshaped back: MatMul
 * takes it as it was. That stack, or NULL when t is something else. */
static const tp_tensor *stack_of(const tpi_export *x, const tp_tensor *t)
{
    const tp_tensor *product = t->in[0];
    if (product->op->code != TPI_OP_matmul || product->rank != 2 || tpi_is_fed(x, product))
        return NULL;
    const tp_tensor *tall = product->in[0];
    if (tall->op->code != TPI_OP_reshape || tall->in[0]->rank != t->rank || t->rank < 3 ||
        tpi_is_fed(x, tall))
        return NULL;
    const tp_tensor *stack = tall->in[0];
    bool same = stack->shape[t->rank - 1] == tall->shape[1] &&
                t->shape[t->rank - 1] == product->shape[1];
    for (int i = 0; i < t->rank - 1 && same; i++)
        same = stack->shape[i] == t->shape[i];
    return same ? stack : NULL;
}

tpi_val tpi_export_reshape(tpi_export *x, const tp_tensor *t)
{
    const tp_tensor *stack = stack_of(x, t);
    if (stack) {
        const tpi_val matrix = tpi_in(x, t->in[0], 1);
        return tpi_native(x, "MatMul", TPI_V(tpi_value_of(x, stack), matrix));
    }
    return tpi_reshape(x, tpi_in(x, t, 0), t->in[0], t->rank, t->shape);
}

tpi_val tpi_export_transpose(tpi_export *x, const tp_tensor *t)
{
    return t->rank ? tpi_export_plain(x, t, "Transpose") : tpi_export_same(x, t);
}

tpi_val tpi_export_broadcast(tpi_export *x, const tp_tensor *t)
{
    return tpi_expand(x, tpi_in(x, t, 0), t->rank, t->shape);
}

/* Up to the end, up to so many from the end, or to a place that is computed. */
tpi_val tpi_export_slice(tpi_export *x, const tp_tensor *t)
{
    const int64_t axis = tpi_attr_int(t, "axis"), step = tpi_attr_int(t, "step");
    const int64_t lo = tpi_attr_int(t, "lo"), hi = tpi_attr_int(t, "hi");
    const int64_t size = t->in[0]->shape[axis];
    int64_t end = hi == 0 ? INT64_MAX : -hi;
    if (hi != 0 && (tpi_dim_is_symbolic(hi) || size >= 0))
        end = tpi_dim_sub(x->now.g->dims, size, hi);
    const bool known = !tpi_dim_is_symbolic(end) && end != TPI_NO_DIM;
    const tpi_val stop = known ? tpi_int(x, end) : tpi_size(x, end);
    return tpi_cut(x, tpi_in(x, t, 0), axis, tpi_size(x, lo), stop, step);
}

/* One element of the first axis. */
tpi_val tpi_export_row(tpi_export *x, const tp_tensor *t)
{
    const int64_t index = tpi_attr_int(t, "index");
    return tpi_put(x, "Gather", TPI_V(tpi_in(x, t, 0), tpi_constant(x, TP_I64, 0, 1, &index)));
}

/* The operands along an axis, each with one more axis in front when `stacked`. */
static tpi_val joined(tpi_export *x, const tp_tensor *t, bool stacked, int64_t axis)
{
    tpi_val *part = tpi_export_take(x, (size_t)t->n_in, sizeof *part);
    if (!part)
        return 0;
    for (int i = 0; i < t->n_in; i++)
        part[i] = stacked ? tpi_put(x, "Unsqueeze", TPI_V(tpi_in(x, t, i), tpi_int(x, 0)))
                          : tpi_in(x, t, i);
    const tpi_val y = tpi_put(x, "Concat", t->n_in, part);
    tpi_put_int(x, "axis", axis);
    return y;
}

tpi_val tpi_export_stack(tpi_export *x, const tp_tensor *t)
{
    return joined(x, t, true, 0);
}

tpi_val tpi_export_concat(tpi_export *x, const tp_tensor *t)
{
    return joined(x, t, false, tpi_attr_int(t, "axis"));
}

tpi_val tpi_export_flip(tpi_export *x, const tp_tensor *t)
{
    const tpi_list *axes = tpi_attr_list(t, "axes");
    int64_t from[TP_MAX_RANK], end[TP_MAX_RANK], step[TP_MAX_RANK];
    for (int i = 0; i < axes->n; i++) {
        from[i] = step[i] = -1;
        end[i] = INT64_MIN;
    }
    if (axes->n == 0)
        return tpi_export_same(x, t);
    return tpi_put(x, "Slice",
                   TPI_V(tpi_in(x, t, 0), tpi_ints(x, axes->n, from), tpi_ints(x, axes->n, end),
                         tpi_ints(x, axes->n, axes->v), tpi_ints(x, axes->n, step)));
}

/* By what the op's value is, and as many elements as `pads` says. */
static tpi_val padded(tpi_export *x, tpi_val v, const tp_tensor *t, tpi_val pads)
{
    const tp_dtype type = tpi_type(x, v), work = tpi_work_type("Pad", type);
    const tpi_val value = tpi_as(x, tpi_scalar(x, type, tpi_attr_f64(t, "value")), work);
    return tpi_as(x, tpi_put(x, "Pad", TPI_V(tpi_as(x, v, work), pads, value)), type);
}

/* x[0] + inner + x[1] + inner ...: an axis of 1 behind each, padded to inner + 1, and joined; the
 * last inner ones are taken back. */
static tpi_val spread(tpi_export *x, const tp_tensor *t)
{
    const tpi_list *inner = tpi_attr_list(t, "inner");
    tpi_val v = tpi_in(x, t, 0);
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, t->in[0]->shape, sizeof(int64_t) * t->rank);
    for (int i = 0; i < t->rank; i++) {
        int64_t pads[2 * TP_MAX_RANK + 2] = {0};
        if (inner->v[i] == 0)
            continue;
        v = tpi_put(x, "Unsqueeze", TPI_V(v, tpi_int(x, i + 1)));
        pads[t->rank + 1 + i + 1] = inner->v[i];
        v = padded(x, v, t, tpi_ints(x, 2 * t->rank + 2, pads));
        shape[i] = tpi_dim_mul(x->now.g->dims, shape[i], inner->v[i] + 1);
        v = tpi_reshape(x, v, NULL, t->rank, shape);
    }
    return v;
}

/* The last inner ones are a negative padding. */
tpi_val tpi_export_pad(tpi_export *x, const tp_tensor *t)
{
    const tpi_list *hi = tpi_attr_list(t, "hi"), *inner = tpi_attr_list(t, "inner");
    int64_t pads[2 * TP_MAX_RANK];
    memcpy(pads, tpi_attr_list(t, "lo")->v, sizeof(int64_t) * t->rank);
    for (int i = 0; i < t->rank; i++)
        pads[t->rank + i] = inner->v[i] > 0 && tpi_dim_is_symbolic(hi->v[i])
                                ? tpi_dim_sub(x->now.g->dims, hi->v[i], inner->v[i])
                                : hi->v[i] - inner->v[i];
    return padded(x, spread(x, t), t, tpi_sizes(x, 2 * t->rank, pads));
}

/* ---- indices ----------------------------------------------------------------------------- */

/* ScatterND writes along the first axes: the axis goes there and back. */
tpi_val tpi_export_scatter(tpi_export *x, const tp_tensor *t)
{
    const int axis = (int)tpi_attr_int(t, "axis"), n = t->in[1]->rank;
    int64_t to_front[TP_MAX_RANK], back[TP_MAX_RANK], src_to_front[TP_MAX_RANK];
    for (int i = 0; i < t->rank; i++) {
        to_front[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
        back[to_front[i]] = i;
    }
    for (int i = 0; i < t->in[2]->rank; i++) /* [a..., i..., b...] to [i..., a..., b...] */
        src_to_front[i] = i < n ? axis + i : i < n + axis ? i - n : i;
    const tpi_val v = tpi_permute(x, tpi_in(x, t, 0), t->rank, to_front);
    const tpi_val src = tpi_permute(x, tpi_in(x, t, 2), t->in[2]->rank, src_to_front);
    const tpi_val index = tpi_put(x, "Unsqueeze", TPI_V(tpi_in(x, t, 1), tpi_int(x, -1)));
    const tpi_val y = tpi_put(x, "ScatterND", TPI_V(v, index, src));
    if (t->op->code != TPI_OP_scatter)
        tpi_put_text(x, "reduction", t->op->code == TPI_OP_scatter_add ? "add" : "mul");
    return tpi_permute(x, y, t->rank, back);
}

tpi_val tpi_export_put_along(tpi_export *x, const tp_tensor *t)
{
    const tpi_val y = tpi_put_alike(x, "ScatterElements", t,
                                    TPI_V(tpi_in(x, t, 0), tpi_in(x, t, 1), tpi_in(x, t, 2)));
    tpi_put_text(x, "reduction", "add");
    return y;
}

tpi_val tpi_export_one_hot(tpi_export *x, const tp_tensor *t)
{
    static const float off_on_f32[] = {0, 1};
    static const int64_t off_on_i64[] = {0, 1};
    const tp_dtype type = (tp_dtype)t->dtype, work = tpi_work_type("OneHot", type);
    const tpi_val values = tpi_constant(
        x, work, 1, 2, work == TP_F32 ? (const void *)off_on_f32 : (const void *)off_on_i64);
    const tpi_val n = tpi_size(x, tpi_attr_int(t, "n"));
    const tpi_val y = tpi_put_typed(x, "OneHot", work, TPI_V(tpi_in(x, t, 0), n, values));
    return tpi_as(x, y, type);
}
