/* Losses. */
#include "onnx/import/import.h"

enum { MEAN, NONE }; /* reductions, as the table has them */

/* Of logs [n, c, d...] and labels [n, d...], operand 1; operand 2 are weights of the classes. */
static tp_tensor *take_label(tpi_onnx_op *o, tp_tensor *logs)
{
    const tpi_onnx_attr *ignore = tpi_onnx_attr_of(o, "ignore_index");
    tp_tensor *labels = o->x[1], *counts = NULL, *weight = NULL;
    if (ignore) { /* may be no class at all */
        counts = tp_ne(labels, tp_scalar(o->ctx, tp_dtype_of(labels), (double)ignore->i));
        labels = tp_where(counts, labels, tp_scalar_like(labels, 0));
        weight = tp_cast(counts, tp_dtype_of(logs));
    }
    tp_tensor *loss = tp_neg(tp_take_along(logs, tp_unsqueeze(labels, 1), 1));
    loss = tp_squeeze(loss, 1);
    if (o->x[2]) {
        tp_tensor *given = tp_gather(o->x[2], labels, 0);
        weight = counts ? tp_where(counts, given, tp_scalar_like(given, 0)) : given;
    }
    if (weight) {
        tp_tensor *weighted = tp_mul(loss, weight);
        loss = counts ? tp_where(counts, weighted, tp_scalar_like(weighted, 0)) : weighted;
    }
    const int how = tpi_onnx_choice(o, "reduction");
    if (how == NONE)
        return loss;
    if (how == MEAN && !weight)
        return tp_mean(loss, TP_ALL, false);
    tp_tensor *sum = tp_sum(loss, TP_ALL, false);
    return how == MEAN ? tp_div(sum, tp_sum(weight, TP_ALL, false)) : sum;
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
    x = agree_scores(o, x);
    return x ? take_label(o, x) : NULL;
}

bool tpi_onnx_import_softmax_loss(tpi_onnx_op *o)
{
    tp_tensor *x = agree_scores(o, o->x[0]);
    if (!x)
        return false;
    tp_tensor *logs = tp_log_softmax(x, 1);
    return tpi_onnx_out(o, 0, take_label(o, logs)) &&
           (!tpi_onnx_wants(o, 1) || tpi_onnx_out(o, 1, logs));
}
