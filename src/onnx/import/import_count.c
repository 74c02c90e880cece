/* Loops that go on while a counter is below a size: for i in range(n), as exporters write it for a Loop
 * that has a condition only. Their number of turns is known, and two of them have the same one. */
#include "onnx/import/import_inner.h"

enum { MOST_TERMS = 8 }; /* comparisons that are joined by "and" */

/* What a value is but for its type and its axes. */
static const tp_tensor *bare(const tp_tensor *t)
{
    for (int i = 0; i < 64 && t->graph; i++) {
        const int code = t->op->code;
        tp_tensor *outer = code == TPI_OP_param ? tpi_onnx_outer_of(t) : NULL;
        if (code == TPI_OP_cast || code == TPI_OP_reshape)
            t = t->in[0];
        else if (outer)
            t = outer;
        else
            break;
    }
    return t;
}

/* A size, or a whole number; TPI_NO_DIM: it is neither. */
static int64_t size_in(const tpi_import *im, const tp_tensor *t)
{
    t = bare(t);
    if (t->graph && t->op->code == TPI_OP_extent) {
        const tpi_list *axes =
            (const tpi_list *)(const void *)((const char *)t->attrs + t->op->attrs[0].offset);
        int64_t size = 1;
        for (int i = 0; i < axes->n; i++)
            size = tpi_dim_mul(im->root->dims, size, t->in[0]->shape[axes->v[i]]);
        return size;
    }
    const tp_tensor *c = t->graph && t->op->code == TPI_OP_const ? t->in[0] : t;
    if (c->graph || tpi_count(c) != 1)
        return TPI_NO_DIM;
    const double v = tpi_load_f64((tp_dtype)c->dtype, c->data);
    return v >= 0 && v < 1e9 && v == (double)(int64_t)v ? (int64_t)v : TPI_NO_DIM;
}

/* Is it the turn's number, or a carried value that counts the turns, plus one? */
static bool counts(const tpi_onnx_loop *l, const tp_tensor *t, tp_tensor *const *out)
{
    while (t->graph && t->op->code == TPI_OP_cast)
        t = t->in[0];
    const tpi_onnx_place next = tpi_onnx_place_of(t);
    if (next.offset != 1)
        return false;
    if (next.base == l->turn)
        return true;
    for (int k = 0; k < l->n_carried; k++) {
        int64_t start;
        const tpi_onnx_place after = tpi_onnx_place_of(out[k]);
        if (next.base == l->carried[k])
            return after.base == l->carried[k] && after.offset == 1 &&
                   tpi_onnx_number_in(l->operands[k], &start) && start == 0;
    }
    return false;
}

/* The least of the sizes that are compared with a counter, or before the first turn (`l` NULL) with 0:
 * all comparisons hold while that many turns have not been taken. */
static int64_t least_size(const tpi_import *im, const tp_tensor *pred, const tpi_onnx_loop *l,
                          tp_tensor *const *out)
{
    const tp_tensor *terms[MOST_TERMS] = {pred};
    int64_t least = TPI_NO_DIM;
    for (int i = 0, n = 1; i < n; i++) {
        const tp_tensor *t = terms[i];
        while (t->graph && t->op->code == TPI_OP_reshape)
            t = t->in[0];
        const int code = t->graph ? t->op->code : -1;
        if (code == TPI_OP_and && n < MOST_TERMS) {
            terms[n++] = t->in[0];
            terms[i--] = t->in[1];
            continue;
        }
        if (code != TPI_OP_lt && code != TPI_OP_gt)
            return TPI_NO_DIM;
        const tp_tensor *counter = t->in[code == TPI_OP_gt];
        const int64_t size = size_in(im, t->in[code == TPI_OP_lt]);
        if (size == TPI_NO_DIM || !(l ? counts(l, counter, out) : size_in(im, counter) == 0))
            return TPI_NO_DIM;
        least = least == TPI_NO_DIM ? size : tpi_dim_min(im->root->dims, least, size);
        if (least == TPI_NO_DIM)
            return TPI_NO_DIM;
    }
    return least;
}

int64_t tpi_onnx_turns(const tpi_import *im, const tpi_onnx_loop *l, const tp_tensor *first,
                       const tp_tensor *pred, tp_tensor *const *out)
{
    const int64_t turns = least_size(im, pred, l, out);
    if (turns == TPI_NO_DIM)
        return TPI_NO_DIM;
    const bool begins = first->graph ? least_size(im, first, NULL, NULL) == turns
                                     : turns >= 1 && tpi_load_i64(TP_BOOL, first->data) != 0;
    return begins && (l->count == TPI_NO_DIM || l->count == turns) ? turns : TPI_NO_DIM;
}
