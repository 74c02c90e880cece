/* Rows in groups of about one length. */
#include "composite/packed.h"

/* Which of sorted lengths [rows] begin a group: those with which the group before would have more than `most` elements
 * when each of its rows is as long as its first. */
static tp_tensor *group_begins(tpi_at at, tp_tensor *sorted, int64_t most)
{
    tp_tensor *zero = tpi_whole(at, sorted, 0), *one = tpi_whole(at, sorted, 1);
    tp_tensor *top = zero, *n = zero, *begins = NULL;
    tp_tensor *room = tp_tensor_new(sorted->ctx, TP_I64, TP_SCALAR, &most);
    tp_for (sorted->shape[0], &top, &n) {
        tp_tensor *length = tp_each(sorted), *more = tp_add(n, one);
        tp_tensor *is = tp_or(tp_eq(n, zero), tp_gt(tp_mul(more, top), room));
        tp_emit(&begins, is);
        top = tp_where(is, length, top);
        n = tp_where(is, one, more);
    }
    if (begins)
        return begins;
    return tp_failed(top) ? top : tp_cast(sorted, TP_BOOL); /* there are no rows */
}

TPI_RAGGED(tp_ragged_bucket, (tp_ragged r, int64_t most), r, most)
{
    const char *what = "ragged_bucket";
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, what, r, &p, 0, NULL);
    if (!failed)
        failed = tpi_refuse_count(at, what, p.values, "most", most, 1);
    if (failed)
        return (tp_ragged){failed, failed};
    tp_tensor *order = tp_argsort(p.lengths, 0, true); /* equal ones stay */
    tp_tensor *sorted = tp_gather(p.lengths, order, 0);
    if (tp_failed(sorted))
        return (tp_ragged){sorted, sorted};
    tp_tensor *begins = tp_flatten(tp_nonzero(group_begins(at, sorted, most)), 0);
    tp_tensor *end = tp_extent(order, TP_ALL, TP_I64);
    return tpi_pair(order, tp_concat(2, (tp_tensor *[]){begins, tp_unsqueeze(end, 0)}, 0));
}
