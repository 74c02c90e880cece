/* Matrix products and determinants: MatMul, Gemm, SwiGLU, Det. */
#include "onnx/import/import.h"

void tpi_onnx_agree_product(tpi_onnx_op *o, tp_tensor **in)
{
    const bool good = !tp_failed(in[0]) && !tp_failed(in[1]);
    if (good && in[0]->rank && in[1]->rank)
        tpi_onnx_agree_on(o, &in[0], in[0]->rank - 1, &in[1],
                          in[1]->rank > 1 ? in[1]->rank - 2 : 0);
    if (good && in[0]->rank > 2 && in[1]->rank > 2)
        tpi_onnx_agree(o, 2, in, 2);
}

tp_tensor *tpi_onnx_import_matmul(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *in[2] = {x, o->x[1]};
    tpi_onnx_agree_product(o, in);
    return tp_matmul(in[0], in[1]);
}

tp_tensor *tpi_onnx_import_gemm(tpi_onnx_op *o, tp_tensor *a)
{
    tp_tensor *b = o->x[1];
    if (a->rank != 2 || b->rank != 2)
        return tpi_onnx_refuse(o, "a is %s, b is %s: not two matrices", SHAPE(a), SHAPE(b));
    a = tpi_onnx_int(o, "transA") ? tp_swap(a, 0, 1) : a;
    b = tpi_onnx_int(o, "transB") ? tp_swap(b, 0, 1) : b;
    tpi_onnx_agree_on(o, &a, 1, &b, 0);
    tp_tensor *y = tpi_onnx_times(o, tp_matmul(a, b), tpi_onnx_float(o, "alpha"));
    if (o->x[2])
        y = tpi_onnx_joined(o, tp_add_at, y,
                            tpi_onnx_times(o, o->x[2], tpi_onnx_float(o, "beta")));
    return y;
}

/* A gate that is a swish, times what goes through it. */
tp_tensor *tpi_onnx_import_swi_glu(tpi_onnx_op *o, tp_tensor *gate)
{
    tp_tensor *open = tp_sigmoid(tpi_onnx_times(o, gate, tpi_onnx_float(o, "alpha")));
    return tpi_onnx_joined(o, tp_mul_at, tp_mul(gate, open), o->x[1]);
}

/* ---- determinants ------------------------------------------------------------------------------------------ */

enum { MOST_ROWS = 5 };

/* Along the first row, with the determinants of what is left without its column. */
static tp_tensor *determinant(tpi_onnx_op *o, tp_tensor *m, int64_t n)
{
    tp_tensor *row = tp_select(m, -2, 0), *y = NULL;
    if (n == 1)
        return tp_select(row, -1, 0);
    tp_tensor *below = tp_slice(m, -2, 1, n, 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t columns[MOST_ROWS];
        for (int64_t k = 0, c = 0; c < n; c++)
            if (c != i)
                columns[k++] = c;
        tp_tensor *index = tp_tensor_new(o->ctx, TP_I64, 1, (int64_t[]){n - 1}, columns);
        tp_tensor *part = determinant(o, tp_gather(below, index, -1), n - 1);
        part = tp_mul(tp_select(row, -1, i), part);
        y = !y ? part : i % 2 ? tp_sub(y, part) : tp_add(y, part);
    }
    return y;
}

tp_tensor *tpi_onnx_import_det(tpi_onnx_op *o, tp_tensor *x)
{
    const int64_t n = x->rank < 2 ? 0 : x->shape[x->rank - 1];
    if (n < 1 || n > MOST_ROWS || x->shape[x->rank - 2] != n)
        return tpi_onnx_refuse(o, "x is %s: square matrices of at most %d rows are supported",
                               SHAPE(x), MOST_ROWS);
    return determinant(o, x, n);
}
