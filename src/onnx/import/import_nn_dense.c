/* Matrix products. */
#include "onnx/import/import_nn.h"

#undef TP_PLACE
#define TP_PLACE o->at.file, o->at.line

void tpi_nn_agree_product(tpi_onnx_op *o, tp_tensor **in)
{
    const bool good = !tp_failed(in[0]) && !tp_failed(in[1]);
    if (good && in[0]->rank && in[1]->rank)
        tpi_onnx_agree_on(o, &in[0], in[0]->rank - 1, &in[1],
                          in[1]->rank > 1 ? in[1]->rank - 2 : 0);
    if (good && in[0]->rank > 2 && in[1]->rank > 2)
        tpi_onnx_agree(o, 2, in, 2);
}

bool tpi_onnx_import_matmul(tpi_onnx_op *o)
{
    tp_tensor *in[2] = {tpi_onnx_in(o, 0), tpi_onnx_in(o, 1)};
    tpi_nn_agree_product(o, in);
    return tpi_onnx_out(o, 0, tp_matmul(in[0], in[1]));
}

static tp_tensor *times(tpi_onnx_op *o, tp_tensor *x, double factor)
{
    return factor == 1 ? x : tp_mul(x, tp_scalar_like(x, factor));
}

bool tpi_onnx_import_gemm(tpi_onnx_op *o)
{
    tp_tensor *a = tpi_nn_in(o, 0), *b = a ? tpi_nn_in(o, 1) : NULL;
    if (!b)
        return false;
    if (a->rank != 2 || b->rank != 2)
        return tpi_onnx_refuse(o, "a is %s, b is %s: not two matrices", SHAPE(a), SHAPE(b));
    a = tpi_onnx_int(o, "transA", 0) ? tp_swap(a, 0, 1) : a;
    b = tpi_onnx_int(o, "transB", 0) ? tp_swap(b, 0, 1) : b;
    tpi_onnx_agree_on(o, &a, 1, &b, 0);
    tp_tensor *y = times(o, tp_matmul(a, b), tpi_onnx_float(o, "alpha", 1));
    if (tpi_onnx_has(o, 2))
        y = tpi_onnx_joined(o, tp_add_at, y,
                            times(o, tpi_onnx_in(o, 2), tpi_onnx_float(o, "beta", 1)));
    return tpi_onnx_out(o, 0, y);
}

/* A gate that is a swish, times what goes through it. */
bool tpi_onnx_import_swi_glu(tpi_onnx_op *o)
{
    tp_tensor *gate = tpi_nn_float_in(o, 0);
    if (!gate)
        return false;
    tp_tensor *open = tp_sigmoid(times(o, gate, tpi_onnx_float(o, "alpha", 1)));
    return tpi_onnx_out(o, 0,
                        tpi_onnx_joined(o, tp_mul_at, tp_mul(gate, open), tpi_onnx_in(o, 1)));
}
