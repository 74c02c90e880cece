/* Losses. */
#include "composite/composite.h"

TPI_COMPOSITE(tp_cross_entropy, (tp_tensor * logits, tp_tensor *labels), logits, labels)
{
    const char *what = "cross_entropy";
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(logits, labels));
    if (failed || (failed = tpi_refuse_operand(logits->ctx, at, what, 1, labels)))
        return failed;
    if (logits->rank != 2 || labels->rank != 1 || logits->shape[0] != labels->shape[0])
        return tpi_fail(logits->ctx, at, what, TP_E_SHAPE,
                        "logits are %s and labels %s, not [n, c] and [n]", SHAPE(logits),
                        SHAPE(labels));
    if (labels->dtype == TP_BOOL || labels->dtype >= TP_F32)
        return tpi_fail(logits->ctx, at, what, TP_E_DTYPE,
                        "labels are %s; tp_cast them to an integer type first",
                        tp_dtype_name((tp_dtype)labels->dtype));
    tp_tensor *logs = tpi_log_softmax(at, what, logits, 1);
    labels = tpi_as_index(at, tpi_beside(at, logits, labels));
    /* No class is counted from the end: labels below 0 are put where none is. */
    tp_tensor *below = tp_sub(labels, tp_extent(logits, 1, (const int64_t[]){1}, TP_I64));
    labels = tp_where(tp_lt(labels, tp_scalar_like(labels, 0)), below, labels);
    return tp_neg(tp_mean(tp_take_along(logs, tp_unsqueeze(labels, 1), 1), TP_ALL, false));
}

TPI_COMPOSITE(tp_mse, (tp_tensor * y, tp_tensor *target), y, target)
{
    const char *what = "mse";
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(y, target));
    if (failed || (failed = tpi_refuse_operand(y->ctx, at, what, 1, target)))
        return failed;
    /* [n, 1] and [n] would broadcast to [n, n]: hardly ever what is meant. */
    bool same = y->rank == target->rank;
    for (int i = 0; same && i < y->rank; i++)
        same = y->shape[i] == target->shape[i];
    if (!same)
        return tpi_fail(y->ctx, at, what, TP_E_SHAPE, "shapes differ: y %s, target %s",
                        SHAPE(y), SHAPE(target));
    return tp_mean(tp_square(tp_sub(y, target)), TP_ALL, false);
}
