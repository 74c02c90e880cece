/* Rows with padding behind them, and without it again. */
#include "composite/packed.h"
#include "op/sizes.h"

/* ---- sizes that values decide ---------------------------------------------------------------- */

static tp_tensor *count_in_run(tpi_at at, tp_tensor *n)
{
    tp_tensor *i = tpi_whole(at, n, 0), *one = tpi_whole(at, n, 1), *turns = NULL;
    tp_while (tp_lt(i, n), &i) {
        tp_emit(&turns, i);
        i = tp_add(i, one);
    }
    return turns ? turns : i;
}

tp_tensor *tpi_count_to(tpi_at at, tp_tensor *n)
{
    if (tp_failed(n) || n->graph)
        return tp_failed(n) ? n : count_in_run(at, n);
    const double v = tp_item(n);
    if (v >= 0)
        return tpi_iota(at, n, (int64_t)v);
    /* the run was stopped, or what comes before it failed */
    return tp_failed(n) ? n
                        : tpi_fail(n->ctx, at, "ragged", TP_E_VALUE,
                                   "how many elements there are is not known");
}

/* Of offsets that are here: the greatest length, and which row has it. */
static int64_t longest_here(const tpi_ragged *p, int64_t *row)
{
    int64_t most = 0;
    for (int64_t i = 0, n = tpi_count(p->given) - 1; i < n; i++) {
        const int64_t length = tpi_whole_at(p->given, i + 1) - tpi_whole_at(p->given, i);
        if (length > most) {
            most = length;
            *row = i;
        }
    }
    return most;
}

/* A replay has other offsets than the call that was recorded, so there C has to look at a value; a graph may read a
 * variable, which is another one in the next run. */
tp_tensor *tpi_up_to_longest(tpi_at at, const tpi_ragged *p)
{
    int64_t row = 0;
    if (tpi_is_here(p->given) && !p->offsets->graph && !p->given->ctx->frame)
        return tpi_iota(at, p->offsets, longest_here(p, &row));
    return tpi_count_to(
        at, tp_max(tp_reduce_max(p->lengths, TP_ALL, false), tpi_whole(at, p->offsets, 0)));
}

tp_tensor *tpi_refuse_longer(tpi_at at, const char *what, const tpi_ragged *p, int64_t most)
{
    int64_t row = 0;
    if (!tpi_is_here(p->given) || tpi_dim_is_symbolic(most))
        return NULL;
    const int64_t longest = longest_here(p, &row);
    return longest <= most ? NULL
                           : tpi_fail(p->values->ctx, at, what, TP_E_VALUE,
                                      "row %lld has %lld elements, and is padded to %lld",
                                      (long long)row, (long long)longest, (long long)most);
}

tp_tensor *tpi_refuse_most(tpi_at at, const char *what, const tpi_ragged *p, int64_t most)
{
    tp_tensor *failed = tpi_refuse_size(at, what, "most", p->values, most);
    if (failed || most == 0)
        return failed;
    if (most < 0 && !tpi_dim_is_symbolic(most))
        return tpi_fail(p->values->ctx, at, what, TP_E_VALUE,
                        "most is %lld, neither a size nor 0, for the longest row",
                        (long long)most);
    return tpi_refuse_longer(at, what, p, most);
}

/* ---- there and back ---------------------------------------------------------------------------- */

/* The element behind the last has `fill`; a place behind that is refused by the run. */
tp_tensor *tpi_padded(tpi_at at, const tpi_ragged *p, tp_tensor *columns, double fill)
{
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {1};
    if (tp_failed(columns))
        return columns;
    tp_tensor *longer = tp_pad(p->values, p->values->rank, lo, hi, fill);
    tp_tensor *end = tp_extent(p->values, 1, lo, TP_I64);
    tp_tensor *most = tp_extent(columns, 1, lo, TP_I64);
    tp_tensor *length = tp_unsqueeze(p->lengths, 1), *place;
    place = tp_where(tp_lt(columns, length), tp_add(tp_unsqueeze(p->starts, 1), columns), end);
    place = tp_where(tp_gt(length, most), tp_add(end, 1), place);
    return tp_gather(longer, place, 0);
}

tp_tensor *tpi_unpadded(tpi_at at, tp_tensor *padded, tp_tensor *ids, tp_tensor *positions)
{
    int64_t shape[TP_MAX_RANK];
    if (tp_failed(positions))
        return positions;
    shape[0] = tpi_dim_mul(tpi_dims_of(padded), padded->shape[0], padded->shape[1]);
    for (int i = 2; i < padded->rank; i++)
        shape[i - 1] = padded->shape[i];
    tp_tensor *most = tp_extent(padded, 1, (int64_t[]){1}, TP_I64);
    tp_tensor *end = tp_extent(padded, 2, (int64_t[]){0, 1}, TP_I64);
    tp_tensor *place = tp_add(tp_mul(ids, most), positions);
    place = tp_where(tp_lt(positions, most), place, end);
    return tp_gather(tp_reshape(padded, padded->rank - 1, shape), place, 0);
}

TPI_COMPOSITE(tp_ragged_pad, (tp_ragged r, int64_t most, double fill), r, most, fill)
{
    const char *what = "ragged_pad";
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, what, r, &p, 0, NULL);
    if (failed || (failed = tpi_refuse_most(at, what, &p, most)))
        return failed;
    if (tpi_is_near_handle(p.values->ctx, fill))
        return tpi_fail_near_handle(p.values->ctx, at, what, fill);
    tp_tensor *columns = most ? tpi_iota(at, p.offsets, most) : tpi_up_to_longest(at, &p);
    return tpi_padded(at, &p, columns, fill);
}

TPI_COMPOSITE(tp_ragged_unpad, (tp_tensor * padded, tp_ragged r), padded, r)
{
    const char *what = "ragged_unpad";
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, what, r, &p, 1, (tp_tensor * *const[]){&padded});
    if (failed)
        return failed;
    if (padded->rank < 2 || !tpi_takes_size(at, &padded, 0, p.rows))
        return tpi_fail(padded->ctx, at, what, TP_E_SHAPE,
                        "padded is %s, not [rows, most, ...] for offsets %s", SHAPE(padded),
                        SHAPE(p.offsets));
    if ((failed = tpi_refuse_longer(at, what, &p, padded->shape[1])))
        return failed;
    tp_tensor *ids = tpi_ragged_ids(at, &p);
    return tpi_unpadded(at, padded, ids, tpi_positions_of(at, p.offsets, ids));
}

TPI_RAGGED(tp_ragged_of_padded, (tp_tensor * padded, tp_tensor *lengths), padded, lengths)
{
    const char *what = "ragged_of_padded";
    tp_tensor *failed = tpi_refuse_operands(at, what, TPI_IN(padded, lengths));
    if (!failed)
        failed = tpi_refuse_integer(at, what, padded, "lengths", 1, lengths);
    if (failed)
        return (tp_ragged){failed, failed};
    tpi_all_beside(at, 2, (tp_tensor * *const[]){&padded, &lengths});
    if (padded->rank < 2 || lengths->rank != 1 ||
        !tpi_takes_size(at, &lengths, 0, padded->shape[0])) {
        failed = tpi_fail(padded->ctx, at, what, TP_E_SHAPE,
                          "padded is %s, and lengths %s, not [rows, most, ...] and [rows]",
                          SHAPE(padded), SHAPE(lengths));
        return (tp_ragged){failed, failed};
    }
    lengths = tpi_lengths_of(at, what, "lengths", lengths, padded, 1, &failed);
    tp_tensor *all = failed ? failed : tpi_count_to(at, tp_sum(lengths, TP_ALL, false));
    if (tp_failed(all))
        return (tp_ragged){all, all};
    tp_tensor *offsets = tpi_offsets_of(at, lengths);
    tp_tensor *ids = tpi_counted_ids(at, offsets, all);
    tp_tensor *positions = tpi_counted_positions(at, offsets, ids, all);
    return tpi_pair(tpi_unpadded(at, padded, ids, positions), offsets);
}
