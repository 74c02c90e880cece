/* Einsum. */
#include "composite/einsum.h"
#include "onnx/import/import_inner.h"

/* Sizes of axes i of a and k of b, which have one label, are made equal, but for 1. */
static void agree_on(tpi_onnx_op *o, tp_tensor **a, int i, tp_tensor **b, int k)
{
    if (!tp_failed(*a) && !tp_failed(*b) && (*a)->shape[i] != 1 && (*b)->shape[k] != 1)
        tpi_onnx_agree_on(o, a, i, b, k);
}

static void agree(tpi_onnx_op *o, const tpi_einsum *e, tp_tensor **in)
{
    for (int a = 0; a < o->n_in; a++)
        for (int b = a; b < o->n_in; b++)
            for (int i = 0; i < e->in[a].n; i++)
                for (int k = a == b ? i + 1 : 0; k < e->in[b].n; k++)
                    if (e->in[a].of[i] == e->in[b].of[k])
                        agree_on(o, &in[a], i, &in[b], k);
}

tp_tensor *tpi_onnx_import_einsum(tpi_onnx_op *o)
{
    tp_tensor *in[TPI_EINSUM_OPERANDS];
    tpi_einsum e;
    if (o->n_in < 1 || o->n_in > TPI_EINSUM_OPERANDS)
        return tpi_onnx_refuse(o, "%d inputs: 1 to %d are supported", o->n_in,
                               TPI_EINSUM_OPERANDS);
    for (int i = 0; i < o->n_in; i++)
        if (!(in[i] = tpi_onnx_good_in(o, i)))
            return NULL;
    const char *equation = tpi_onnx_cstring(o->im->m, tpi_onnx_text(o, "equation"));
    if (!equation)
        return NULL;
    if (!tpi_einsum_read(&e, equation, o->n_in, in))
        return tpi_onnx_refuse(o, "%s", e.why);
    agree(o, &e, in);
    return tp_einsum(equation, o->n_in, in);
}
