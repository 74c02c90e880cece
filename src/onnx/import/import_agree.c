/* Sizes that have to be equal and are not known to be: a backbone halves an image, a head doubles it
 * again and adds the two. The equation is assumed, by a node that says so (tpi_assume), and every run
 * checks it. */
#include "onnx/import/import_inner.h"
#include "op/sizes.h"

#include <stdio.h>
#include <string.h>

/* Which of two sizes the other one is taken to be: a number, or what is said in fewer words. */
static int64_t simpler(const tpi_onnx_op *o, int64_t a, int64_t b)
{
    return tpi_dim_weight(o->g->dims, a) <= tpi_dim_weight(o->g->dims, b) ? a : b;
}

tp_tensor *tpi_onnx_assumed(tpi_onnx_op *o, tp_tensor *x, const int64_t *shape)
{
    tp_tensor *t = tpi_assume(o->at, tp_graph_read(o->g, x), shape);
    const tpi_span of = o->node->name.size ? o->node->name : o->node->out[0];
    const size_t size = of.size + 24;
    char *name = tpi_onnx_take(o->im->m, size, 1);
    if (!name || t->status != TP_OK)
        return t;
    tp_status named = TP_E_NAME;
    for (int i = 0; i < 100 && named == TP_E_NAME && !t->name; i++) {
        snprintf(name, size, "%.*s sizes %d", (int)of.size, of.size ? of.at : "", i);
        named = tpi_graph_name(t->graph, t, name);
    }
    return t;
}

tp_tensor *tpi_onnx_with_size(tpi_onnx_op *o, tp_tensor *x, int axis, int64_t size)
{
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = size;
    return tpi_onnx_assumed(o, x, shape);
}

bool tpi_onnx_demand(tpi_onnx_op *o, int64_t a, int64_t b)
{
    tp_tensor *zero = tp_scalar(o->ctx, TP_BOOL, 0);
    zero = tp_graph_read(o->g, zero);
    zero = tp_broadcast(zero, 1, &a);
    return tpi_onnx_good(o, zero) && tpi_onnx_good(o, tpi_onnx_assumed(o, zero, &b));
}

bool tpi_onnx_agree_on(tpi_onnx_op *o, tp_tensor **a, int axis_a, tp_tensor **b, int axis_b)
{
    const int64_t p = (*a)->shape[axis_a], q = (*b)->shape[axis_b];
    if (p == q || !tpi_sizes_may_agree(o->g->dims, p, q))
        return p == q;
    if (simpler(o, p, q) == p)
        *b = tpi_onnx_with_size(o, *b, axis_b, p);
    else
        *a = tpi_onnx_with_size(o, *a, axis_a, q);
    return true;
}

static bool are_good(int n, tp_tensor *const *in)
{
    bool good = true;
    for (int i = 0; i < n; i++)
        good &= in[i] && !tp_failed(in[i]);
    return good;
}

/* Counted from the last one. */
static int64_t size_from_end(const tp_tensor *t, int k)
{
    return k < t->rank ? t->shape[t->rank - 1 - k] : 1;
}

void tpi_onnx_agree(tpi_onnx_op *o, int n, tp_tensor **in, int spared)
{
    for (int k = spared; k < TP_MAX_RANK && are_good(n, in); k++) {
        int64_t size = 1;
        for (int i = 0; i < n; i++) {
            const int64_t own = size_from_end(in[i], k);
            size = own == 1 || own == size ? size : size == 1 ? own : simpler(o, size, own);
        }
        for (int i = 0; i < n; i++) {
            const int64_t own = size_from_end(in[i], k);
            if (own != 1 && own != size && tpi_sizes_may_agree(o->g->dims, own, size))
                in[i] = tpi_onnx_with_size(o, in[i], in[i]->rank - 1 - k, size);
        }
    }
}

void tpi_onnx_agree_pair(tpi_onnx_op *o)
{
    tp_tensor **x = o->x;
    const int64_t axis = tpi_onnx_int(o, "axis");
    if (axis >= 0 && axis < tp_rank(x[0]))
        for (int64_t more = tp_rank(x[0]) - axis - tp_rank(x[1]); more > 0; more--)
            x[1] = tp_unsqueeze(x[1], tp_rank(x[1]));
    tpi_onnx_agree(o, 2, x, 0);
}

tp_tensor *tpi_onnx_joined(tpi_onnx_op *o, tpi_onnx_binary_function op, tp_tensor *a,
                           tp_tensor *b)
{
    tp_tensor *in[2] = {a, b};
    tpi_onnx_agree(o, 2, in, 0);
    return op(o->at.file, o->at.line, in[0], in[1]);
}

tp_tensor *tpi_onnx_fitted(tpi_onnx_op *o, tp_tensor *x, int axis, int64_t size)
{
    if (tp_failed(x) || axis >= x->rank || x->shape[axis] == size ||
        !tpi_sizes_may_agree(o->g->dims, x->shape[axis], size))
        return x;
    return tpi_onnx_with_size(o, x, axis, size);
}

/* ---- reshape -------------------------------------------------------------------------------------- */

/* x with one size such that there are `count` elements; else in one axis of so many. */
static tp_tensor *with_count(tpi_onnx_op *o, tp_tensor *x, int64_t count)
{
    for (int i = 0; i < x->rank; i++) {
        const int64_t rest =
            tpi_onnx_dim_mul(o, tpi_onnx_dim_product(o, i, x->shape),
                             tpi_onnx_dim_product(o, x->rank - i - 1, x->shape + i + 1));
        const int64_t size = tpi_onnx_dim_div(o, count, rest);
        if (tpi_sizes_may_agree(o->g->dims, x->shape[i], size) &&
            tpi_onnx_dim_mul(o, size, rest) == count)
            return tpi_onnx_with_size(o, x, i, size);
    }
    const int64_t have = tpi_onnx_dim_product(o, x->rank, x->shape);
    x = tp_reshape(x, 1, &have);
    return tpi_onnx_assumed(o, x, &count);
}

tp_tensor *tpi_onnx_reshaped(tpi_onnx_op *o, tp_tensor *x, int rank, const int64_t *shape)
{
    int64_t want[TP_MAX_RANK];
    tp_tensor *y = tp_reshape(x, rank, shape);
    if (y->status != TP_E_SHAPE || tp_failed(x))
        return y;
    int hole = -1;
    for (int i = 0; i < rank; i++) {
        hole = shape[i] == -1 ? i : hole;
        want[i] = shape[i] == -1 ? 1 : shape[i];
    }
    const int64_t have = tpi_onnx_dim_product(o, x->rank, x->shape);
    if (hole >= 0)
        want[hole] = tpi_onnx_dim_div(o, have, tpi_onnx_dim_product(o, rank, want));
    const int64_t count = tpi_onnx_dim_product(o, rank, want);
    if (!tpi_sizes_may_agree(o->g->dims, have, count))
        return y;
    tpi_forget_error(o->ctx);
    x = with_count(o, tp_graph_read(o->g, x), count);
    return tp_reshape(x, rank, want);
}
