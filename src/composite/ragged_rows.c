/* Rows that are chosen, joined, put in order of time. */
#include "composite/packed.h"
#include "op/sizes.h"

TPI_COMPOSITE(tp_ragged_by_time, (tp_ragged r), r)
{
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, "ragged_by_time", r, &p, 0, NULL);
    if (failed)
        return failed;
    tp_tensor *ids = tpi_ragged_ids(at, &p);
    return tp_argsort(tpi_positions_of(at, p.offsets, ids), 0, false); /* equal ones stay */
}

/* Where in the values the elements of the chosen rows are, of which there are as many as `all` has. */
static tp_tensor *chosen_places(tpi_at at, const tpi_ragged *p, tp_tensor *index,
                                tp_tensor *offsets, tp_tensor *all)
{
    tp_tensor *ids = tpi_counted_ids(at, offsets, all);
    tp_tensor *starts = tp_gather(tp_gather(p->starts, index, 0), ids, 0);
    return tp_add(starts, tpi_counted_positions(at, offsets, ids, all));
}

TPI_RAGGED(tp_ragged_take, (tp_ragged r, tp_tensor *index), r, index)
{
    const char *what = "ragged_take";
    tpi_ragged p;
    tp_tensor *failed = tpi_ragged_of(at, what, r, &p, 1, (tp_tensor * *const[]){&index});
    if (!failed)
        failed = tpi_refuse_integer(at, what, p.values, "indices", 2, index);
    if (!failed && index->rank != 1)
        failed =
            tpi_fail(index->ctx, at, what, TP_E_SHAPE, "indices are %s, not [n]", SHAPE(index));
    if (failed)
        return (tp_ragged){failed, failed};
    tp_tensor *lengths = tp_gather(p.lengths, index, 0);
    tp_tensor *all = tpi_count_to(at, tp_sum(lengths, TP_ALL, false));
    if (tp_failed(all))
        return (tp_ragged){all, all};
    tp_tensor *offsets = tpi_offsets_of(at, lengths);
    tp_tensor *places = chosen_places(at, &p, index, offsets, all);
    return tpi_pair(tp_gather(p.values, places, 0), offsets);
}

TPI_RAGGED(tp_ragged_join, (tp_ragged r, tp_tensor *outer), r, outer)
{
    const char *what = "ragged_join";
    tpi_ragged p;
    tp_tensor *given = outer;
    tp_tensor *failed = tpi_ragged_of(at, what, r, &p, 1, (tp_tensor * *const[]){&outer});
    if (!failed)
        failed = tpi_refuse_integer(at, what, p.values, "outer offsets", 2, outer);
    if (!failed && (outer->rank != 1 || outer->shape[0] == 0))
        failed = tpi_fail(outer->ctx, at, what, TP_E_SHAPE, "outer offsets are %s, not [n + 1]",
                          SHAPE(outer));
    if (!failed)
        failed = tpi_refuse_offsets(at, what, given, p.rows, "rows");
    if (failed)
        return (tp_ragged){failed, failed};
    outer = tpi_checked_offsets(at, p.values, tpi_as_index(at, outer), p.rows);
    return tpi_pair(p.values, tp_gather(p.offsets, outer, 0));
}
