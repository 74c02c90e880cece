/* Ragged tensors: their offsets looked at, and the pairs that are made of them. */
#include "composite/packed.h"
#include "op/sizes.h"

/* ---- offsets that are here --------------------------------------------------------------------- */

tp_tensor *tpi_refuse_offsets(tpi_at at, const char *what, const tp_tensor *offsets,
                              int64_t total, const char *things)
{
    if (!tpi_is_here(offsets) || offsets->dtype == TP_U64)
        return NULL;
    const int64_t rows = tpi_count(offsets) - 1, first = tpi_whole_at(offsets, 0);
    if (first != 0)
        return tpi_fail(
            offsets->ctx, at, what, TP_E_VALUE,
            "offsets begin at %lld, not at 0: tp_ragged_of_lengths makes some of lengths",
            (long long)first);
    int64_t end = 0;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t begin = end;
        end = tpi_whole_at(offsets, i + 1);
        if (end < begin)
            return tpi_fail(offsets->ctx, at, what, TP_E_VALUE,
                            "row %lld begins at %lld and ends at %lld: offsets may not fall",
                            (long long)i, (long long)begin, (long long)end);
    }
    if (!tpi_dim_is_symbolic(total) && end != total)
        return tpi_fail(offsets->ctx, at, what, TP_E_VALUE,
                        "offsets end at %lld, and there are %lld %s: the two have to be equal",
                        (long long)end, (long long)total, things);
    return NULL;
}

/* ---- in a run ------------------------------------------------------------------------------------ */

/* All go through one gather, which refuses the place behind the last if anything is wrong. */
tp_tensor *tpi_checked_offsets(tpi_at at, tp_tensor *like, tp_tensor *offsets, int64_t total)
{
    if (tpi_is_here(offsets) && !like->graph && !like->ctx->frame)
        return offsets;
    tp_tensor *all = tpi_iota(at, offsets, tpi_dim_add(tpi_dims_of(like), total, 1));
    tp_tensor *size = tp_extent(all, 1, (int64_t[]){0}, TP_I64);
    tp_tensor *first = tp_select(offsets, 0, 0), *last = tp_select(offsets, 0, -1);
    tp_tensor *ends = tp_or(tp_ne(first, 0), tp_ne(tp_add(last, 1), size));
    tp_tensor *fall =
        tp_lt(tpi_slice(at, offsets, 0, 1, 0, 1), tpi_slice(at, offsets, 0, 0, 1, 1));
    tp_tensor *bad = tp_or(ends, tp_any(fall, TP_ALL, false));
    return tp_gather(all, tp_where(bad, size, offsets), 0);
}

bool tpi_takes_size(tpi_at at, tp_tensor **x, int axis, int64_t size)
{
    int64_t shape[TP_MAX_RANK];
    if ((*x)->shape[axis] == size)
        return true;
    if (!tpi_sizes_may_agree(tpi_dims_of(*x), (*x)->shape[axis], size))
        return false;
    for (int i = 0; i < (*x)->rank; i++)
        shape[i] = i == axis ? size : (*x)->shape[i];
    *x = tpi_assume(at, *x, shape);
    return true;
}

/* ---- the pair, looked at ---------------------------------------------------------------------------- */

/* NULL, or the failed tensor: these are no values and integers. The integers have no gaps then. */
static tp_tensor *refuse_operands(tpi_at at, const char *what, const char *name,
                                  tp_tensor *values, tp_tensor **whole)
{
    tp_tensor *failed = tpi_refuse_operands(at, what, TPI_IN(values, *whole));
    if (failed || (failed = tpi_refuse_integer(at, what, values, name, 1, *whole)))
        return failed;
    tp_tensor *packed = tp_contiguous(*whole);
    if (tp_failed(packed))
        return packed;
    *whole = packed;
    return NULL;
}

static tp_tensor *refuse_pair(tpi_at at, const char *what, tp_ragged r)
{
    if (r.values->rank == 0)
        return tpi_fail(r.values->ctx, at, what, TP_E_SHAPE,
                        "values are [], not [total, ...]: rows are along their first axis");
    if (r.offsets->rank != 1 || r.offsets->shape[0] == 0)
        return tpi_fail(r.values->ctx, at, what, TP_E_SHAPE, "offsets are %s, not [rows + 1]",
                        SHAPE(r.offsets));
    return tpi_refuse_offsets(at, what, r.offsets, r.values->shape[0],
                              "elements along axis 0 of the values");
}

tp_tensor *tpi_ragged_of(tpi_at at, const char *what, tp_ragged r, tpi_ragged *p, int n,
                         tp_tensor **const *more)
{
    enum { MOST = 4 };
    tp_tensor **all[MOST + 2] = {&p->values, &p->offsets};
    tp_tensor *failed = refuse_operands(at, what, "offsets", r.values, &r.offsets);
    failed = failed ? failed : refuse_pair(at, what, r);
    *p = (tpi_ragged){.values = r.values, .offsets = r.offsets, .given = r.offsets};
    for (int i = 0; i < n && !failed; i++) {
        failed = tpi_refuse_operand(r.values->ctx, at, what, i + 2, *more[i]);
        all[i + 2] = more[i];
    }
    if (failed)
        return failed;
    tpi_all_beside(at, n + 2, all);
    p->offsets = tpi_as_index(at, p->offsets);
    for (int i = 0; i < n + 2; i++)
        if (tp_failed(*all[i]))
            return *all[i];
    p->starts = tpi_slice(at, p->offsets, 0, 0, 1, 1);
    p->lengths = tp_sub(tpi_slice(at, p->offsets, 0, 1, 0, 1), p->starts);
    p->rows = p->starts->shape[0];
    p->total = p->values->shape[0];
    return tp_failed(p->lengths) ? p->lengths : NULL;
}

/* ---- what follows from offsets ------------------------------------------------------------------------ */

tp_tensor *tpi_offsets_of(tpi_at at, tp_tensor *lengths)
{
    return tp_pad(tp_cumsum(lengths, 0, false, false), 1, (int64_t[]){1}, (int64_t[]){0}, 0);
}

/* `at_ends` with 1 more where each row ends, [total + 1]. */
static tp_tensor *add_ends(tpi_at at, tp_tensor *offsets, tp_tensor *at_ends)
{
    tp_tensor *ends = tpi_slice(at, offsets, 0, 1, 0, 1);
    if (tp_failed(ends))
        return ends;
    tp_tensor *ones = tp_broadcast(tpi_whole(at, offsets, 1), 1, ends->shape);
    return tp_scatter_add(at_ends, ends, ones, 0);
}

/* How many rows have ended in front of each element. */
static tp_tensor *ended_before(tpi_at at, tp_tensor *ended)
{
    return tp_failed(ended) ? ended
                            : tpi_slice(at, tp_cumsum(ended, 0, false, false), 0, 0, 1, 1);
}

tp_tensor *tpi_ids_of(tpi_at at, tp_tensor *offsets, int64_t total)
{
    if (tp_failed(offsets))
        return offsets;
    const int64_t more = tpi_dim_add(tpi_dims_of(offsets), total, 1);
    return ended_before(at, add_ends(at, offsets, tpi_zeros(at, offsets, 1, &more)));
}

/* By no op that a run could refuse for its size, such as a slice: a program of one runs node by node. */
tp_tensor *tpi_counted_ids(tpi_at at, tp_tensor *offsets, tp_tensor *all)
{
    if (tp_failed(offsets) || !all->graph)
        return tp_failed(offsets) ? offsets : tpi_ids_of(at, offsets, all->shape[0]);
    tp_tensor *longer = tpi_count_to(at, tp_add(tp_select(offsets, 0, -1), 1));
    tp_tensor *ended = tp_sub(add_ends(at, offsets, longer), longer);
    return tp_gather(tp_cumsum(ended, 0, false, false), all, 0);
}

tp_tensor *tpi_counted_positions(tpi_at at, tp_tensor *offsets, tp_tensor *ids, tp_tensor *all)
{
    return tp_sub(all, tp_gather(tpi_slice(at, offsets, 0, 0, 1, 1), ids, 0));
}

tp_tensor *tpi_positions_of(tpi_at at, tp_tensor *offsets, tp_tensor *ids)
{
    if (tp_failed(ids))
        return ids;
    return tpi_counted_positions(at, offsets, ids, tpi_iota(at, offsets, ids->shape[0]));
}

tp_tensor *tpi_ragged_ids(tpi_at at, tpi_ragged *p)
{
    p->ids = p->ids ? p->ids : tpi_ids_of(at, p->offsets, p->total);
    return p->ids;
}

TPI_COMPOSITE(tp_ragged_lengths, (tp_ragged r), r)
{
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, "ragged_lengths", r, &p, 0, NULL);
    return failed ? failed : p.lengths;
}

TPI_COMPOSITE(tp_ragged_ids, (tp_ragged r), r)
{
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, "ragged_ids", r, &p, 0, NULL);
    return failed ? failed : tpi_ragged_ids(at, &p);
}

TPI_COMPOSITE(tp_ragged_positions, (tp_ragged r), r)
{
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, "ragged_positions", r, &p, 0, NULL);
    return failed ? failed : tpi_positions_of(at, p.offsets, tpi_ragged_ids(at, &p));
}

/* ---- makers -------------------------------------------------------------------------------------------- */

TPI_RAGGED(tp_ragged_new, (tp_tensor * values, tp_tensor *offsets), values, offsets)
{
    tpi_ragged p;
    tp_tensor *failed =
        tpi_ragged_of(at, "ragged_new", (tp_ragged){values, offsets}, &p, 0, NULL);
    if (failed)
        return (tp_ragged){failed, failed};
    return tpi_pair(p.values, tpi_checked_offsets(at, p.values, p.offsets, p.total));
}

/* Lengths that are here: is one below 0, or are they too many or too few? */
static tp_tensor *refuse_lengths(tpi_at at, const char *what, const tp_tensor *lengths,
                                 int64_t total)
{
    if (!tpi_is_here(lengths) || lengths->dtype == TP_U64)
        return NULL;
    const bool known = !tpi_dim_is_symbolic(total);
    const int64_t rows = tpi_count(lengths), most = known ? total : INT64_MAX;
    const int64_t bad = tpi_first_outside(lengths, 0, 0, most);
    if (bad < rows)
        return tpi_fail(
            lengths->ctx, at, what, TP_E_VALUE,
            "row %lld has a length of %lld, not one of 0 to %lld, which is how many "
            "elements the values have along axis 0",
            (long long)bad, (long long)tpi_whole_at(lengths, bad), (long long)most);
    int64_t sum = 0;
    for (int64_t i = 0; i < rows && known; i++)
        sum += tpi_whole_at(lengths, i);
    if (!known || sum == total)
        return NULL;
    return tpi_fail(lengths->ctx, at, what, TP_E_VALUE,
                    "lengths add up to %lld, and there are %lld elements along axis 0 of the "
                    "values: the two have to be equal",
                    (long long)sum, (long long)total);
}

TPI_RAGGED(tp_ragged_of_lengths, (tp_tensor * values, tp_tensor *lengths), values, lengths)
{
    const char *what = "ragged_of_lengths";
    tp_tensor *failed = refuse_operands(at, what, "lengths", values, &lengths);
    if (!failed && (values->rank == 0 || lengths->rank != 1))
        failed = tpi_fail(values->ctx, at, what, TP_E_SHAPE,
                          "values are %s, and lengths %s, not [total, ...] and [rows]",
                          SHAPE(values), SHAPE(lengths));
    if (!failed)
        failed = refuse_lengths(at, what, lengths, values->shape[0]);
    if (failed)
        return (tp_ragged){failed, failed};
    tpi_all_beside(at, 2, (tp_tensor * *const[]){&values, &lengths});
    tp_tensor *offsets = tpi_offsets_of(at, tpi_as_index(at, lengths));
    if (tp_failed(values) || tp_failed(offsets) ||
        (tpi_is_here(lengths) && !values->ctx->frame))
        return tpi_pair(values, offsets);
    return tpi_pair(values, tpi_checked_offsets(at, values, offsets, values->shape[0]));
}
