/* Losses. */
#include "onnx/import/import.h"

/* Of scores [n, c, d...]; operand 2 are weights of the classes. */
static tp_loss_options options_of(tpi_onnx_op *o)
{
    static const tp_reduction reductions[] = {TP_MEAN, TP_NONE,
                                              TP_SUM}; /* as the table has them */
    const tpi_onnx_attr *ignore = tpi_onnx_attr_of(o, "ignore_index");
    return (tp_loss_options){
        .reduction = reductions[tpi_onnx_choice(o, "reduction")],
        .weights = o->x[2],
        .ignores = ignore != NULL,
        .ignored = ignore ? ignore->i : 0,
    };
}

/* x and the labels with sizes that go with each other; NULL after an error. */
static tp_tensor *agree_scores(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor **labels = &o->x[1];
    if (x->rank < 2 || (*labels)->rank != x->rank - 1)
        return tpi_onnx_refuse(o, "scores are %s, labels %s", SHAPE(x), SHAPE(*labels));
    for (int i = 0; i < (*labels)->rank && !tp_failed(x) && !tp_failed(*labels); i++)
        tpi_onnx_agree_on(o, &x, i + (i > 0), labels, i);
    return tpi_onnx_good(o, x) && tpi_onnx_good(o, *labels) ? x : NULL;
}

tp_tensor *tpi_onnx_import_nll_loss(tpi_onnx_op *o, tp_tensor *x)
{
    const tp_loss_options options = options_of(o);
    x = agree_scores(o, x);
    return x ? tp_nll(x, o->x[1], &options) : NULL;
}

bool tpi_onnx_import_softmax_loss(tpi_onnx_op *o)
{
    const tp_loss_options options = options_of(o);
    tp_tensor *x = agree_scores(o, o->x[0]);
    if (!x)
        return false;
    tp_tensor *logs = tp_log_softmax(x, 1);
    return tpi_onnx_out(o, 0, tp_nll(logs, o->x[1], &options)) &&
           (!tpi_onnx_wants(o, 1) || tpi_onnx_out(o, 1, logs));
}
