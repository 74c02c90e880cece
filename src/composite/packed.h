/* What functions over ragged tensors have in common: the pair, looked at, and what follows from its offsets. */
#ifndef TAPIR_PACKED_H
#define TAPIR_PACKED_H

#include "composite/composite.h"
#include "core/dim.h"
#include "tapir/ragged.h"

/* A ragged whose tensors are good, and seen together; offsets are i64. */
typedef struct tpi_ragged {
    tp_tensor *values, *offsets;
    tp_tensor *starts, *lengths; /* [rows] */
    tp_tensor *given;            /* the offsets as they came: numbers that may be here */
    tp_tensor *ids;              /* NULL: nobody has asked yet */
    int64_t rows, total;         /* sizes */
} tpi_ragged;

/* Fills *p from r and, unless they are NULL, *more, which are good or no good operands and are seen together with it.
 * NULL, or the failed tensor to return. */
tp_tensor *tpi_ragged_of(tpi_at at, const char *what, tp_ragged r, tpi_ragged *p, int n,
                         tp_tensor **const *more);

/* NULL, or the failed tensor: offsets that are here are none of that many `things`. */
tp_tensor *tpi_refuse_offsets(tpi_at at, const char *what, const tp_tensor *offsets,
                              int64_t total, const char *things);
/* Good offsets [rows + 1], i64, over `total` elements, which is a size of like's: those that a run finds to be none
 * fail it. */
tp_tensor *tpi_checked_offsets(tpi_at at, tp_tensor *like, tp_tensor *offsets, int64_t total);

/* Has *x that size along the axis, or one that a run may find to be it? Then *x is taken to have it. */
bool tpi_takes_size(tpi_at at, tp_tensor **x, int axis, int64_t size);

/* Offsets of rows of these lengths, i64: [rows] -> [rows + 1]. */
tp_tensor *tpi_offsets_of(tpi_at at, tp_tensor *lengths);
/* Of each of `total` elements the number of its row, and its place there. */
tp_tensor *tpi_ids_of(tpi_at at, tp_tensor *offsets, int64_t total);
tp_tensor *tpi_positions_of(tpi_at at, tp_tensor *offsets, tp_tensor *ids);
/* The same of as many as tpi_count_to has counted, from which they are made: nothing else tells a run how many. */
tp_tensor *tpi_counted_ids(tpi_at at, tp_tensor *offsets, tp_tensor *all);
tp_tensor *tpi_counted_positions(tpi_at at, tp_tensor *offsets, tp_tensor *ids, tp_tensor *all);

/* 0, 1, ... as many as n [] i64 says: C looks at it, or, in a graph, a loop counts up to it. */
tp_tensor *tpi_count_to(tpi_at at, tp_tensor *n);
/* The same up to the longest of the rows. */
tp_tensor *tpi_up_to_longest(tpi_at at, const tpi_ragged *p);
/* NULL, or the failed tensor: `most` is neither 0 nor a size, or a row that is here is longer. */
tp_tensor *tpi_refuse_most(tpi_at at, const char *what, const tpi_ragged *p, int64_t most);
/* The same of a size that is one. */
tp_tensor *tpi_refuse_longer(tpi_at at, const char *what, const tpi_ragged *p, int64_t most);
/* r padded to `columns` [most], 0, 1, ... */
tp_tensor *tpi_padded(tpi_at at, const tpi_ragged *p, tp_tensor *columns, double fill);
/* Of padded [rows, most, ...] the elements in these rows at these positions, [total, ...]; a position from `most` on
 * fails the run. */
tp_tensor *tpi_unpadded(tpi_at at, tp_tensor *padded, tp_tensor *ids, tp_tensor *positions);

/* Of each element the number of its row; made once. */
tp_tensor *tpi_ragged_ids(tpi_at at, tpi_ragged *p);
/* x [rows, ...] for each element. */
tp_tensor *tpi_spread(tpi_at at, tp_tensor *x, tpi_ragged *p);
/* Of each row. */
tp_tensor *tpi_row_sums(tpi_at at, tpi_ragged *p, tp_tensor *values);
tp_tensor *tpi_row_extrema(tpi_at at, tpi_ragged *p, bool greatest);

/* Defines tp_<name>, whose result is a tensor, or a ragged, and whose body follows. */
#define TPI_RAGGED(name, params, ...)                                                          \
    static tp_ragged name##_made(tpi_at at, TPI_COMPOSITE_LIST params);                        \
    tp_ragged name##_at(const char *file, int line, TPI_COMPOSITE_LIST params)                 \
    {                                                                                          \
        TPI_DEFAULT_FLOAT_MODE;                                                                \
        return name##_made(TPI_AT(file, line), __VA_ARGS__);                                   \
    }                                                                                          \
    TPI_BARE(tp_ragged, name, params, __VA_ARGS__)                                             \
    static tp_ragged name##_made(tpi_at at, TPI_COMPOSITE_LIST params)

/* A pair, both failed when one is. */
static inline tp_ragged tpi_pair(tp_tensor *values, tp_tensor *offsets)
{
    return tp_failed(values)    ? (tp_ragged){values, values}
           : tp_failed(offsets) ? (tp_ragged){offsets, offsets}
                                : (tp_ragged){values, offsets};
}

#endif
