/* Matrix products: MatMul, Gemm, SwiGLU. */
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
