/* Slices of many samples: gather, scatter and those like it. */
#include "op/sizes.h"
#include "tapir/composites.h"
#include "tapir/indexing.h"
#include "transform/batch.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE b->at.file, b->at.line

/* Of a node x [a..., axis, b...], index [i...], src [a..., i..., b...]: so many axes a and i of [n, a..., i..., b...]
 * the other way round. */
static tp_tensor *exchanged(const tpi_batch *b, tp_tensor *x, int a, int i)
{
    int64_t axes[TP_MAX_RANK] = {0};
    if (a == 0 || i == 0 || x->status != TP_OK)
        return x;
    for (int k = 1; k < x->rank; k++)
        axes[k] = k <= i ? a + k : k <= a + i ? k - i : k;
    return tp_transpose(x, x->rank, axes);
}

/* The samples' indices as such into [n size, ...], where each sample's slices lie behind those of the one before. A run
 * refuses those that are outside of their sample. */
static tp_tensor *indices_of_all(const tpi_batch *b, tp_tensor *x, int axis)
{
    const int64_t size = x->shape[1 + axis], ones[TP_MAX_RANK] = {b->n, 1, 1, 1, 1, 1, 1, 1};
    tp_tensor *index = tpi_batch_operand(b, 1);
    if (index->status != TP_OK)
        return index;
    tp_tensor *place = tp_gather(tpi_iota(b->at, index, size), index, 0);
    tp_tensor *first =
        tp_mul(tpi_iota(b->at, index, b->n), tp_extent(x, 1, (int64_t[]){1 + axis}, TP_I64));
    return tp_add(place, tp_reshape(first, index->rank, ones));
}

/* x [n, a..., axis, b...] as [n axis, a..., b...], and back. */
static tp_tensor *slices_in_front(const tpi_batch *b, tp_tensor *x, int axis)
{
    int64_t shape[TP_MAX_RANK];
    x = tpi_move_axis(b->at, x, 1 + axis, 1);
    if (x->status != TP_OK)
        return x;
    shape[0] = tpi_dim_mul(tpi_dims_of(x), b->n, x->shape[1]);
    memcpy(shape + 1, x->shape + 2, sizeof *shape * (size_t)(x->rank - 2));
    return tp_reshape(x, x->rank - 1, shape);
}

static tp_tensor *slices_back(const tpi_batch *b, tp_tensor *y, int axis)
{
    const tp_tensor *one = b->node;
    int64_t shape[TP_MAX_RANK] = {b->n, one->shape[axis]};
    if (y->status != TP_OK)
        return y;
    memcpy(shape + 2, y->shape + 1, sizeof *shape * (size_t)(y->rank - 1));
    return tpi_move_axis(b->at, tp_reshape(y, y->rank + 1, shape), 1, 1 + axis);
}

tp_tensor *tpi_batch_slices(const tpi_batch *b)
{
    const tpi_op *op = b->node->op;
    const int axis = (int)tpi_attr_int(b->node, "axis"), index_rank = b->node->in[1]->rank;
    const bool reads = op->n_in == 2;
    if (!b->many[1] && (reads || b->many[0] || b->many[2]))
        return tpi_batch_led(b, TPI_OPERANDS(tpi_batch_operand(b, 0), b->x[1],
                                             reads ? NULL : tpi_batch_operand(b, 2)));
    if (reads && !b->many[0])
        return tpi_move_axis(b->at, tpi_batch_same(b, b->x), axis, 0);
    tp_tensor *x = tpi_batch_operand(b, 0), *in[3] = {0};
    if (x->status != TP_OK)
        return x;
    in[0] = slices_in_front(b, x, axis);
    in[1] = indices_of_all(b, x, axis);
    if (!reads)
        in[2] = exchanged(b, tpi_batch_operand(b, 2), axis, index_rank);
    tp_tensor *y = tpi_apply(b->at, op, op->n_in, in, &(int64_t){0});
    return reads ? exchanged(b, y, index_rank, axis) : slices_back(b, y, axis);
}
