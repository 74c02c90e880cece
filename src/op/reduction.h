/* How reductions run: what reduction.c, reduce_ref.c and reduce_fast.c share.
 *
 * The order of the elements, and so the bits, is that of docs/numerics.md: it depends on the
 * shape and the axes alone, never on the strides. */
#ifndef TAPIR_REDUCTION_H
#define TAPIR_REDUCTION_H

#include "op/op.h"

/* One operand and what is to be done with it. */
typedef struct tpi_reduction {
    int code; /* TPI_REDUCE_SUM, ... */
    tp_dtype dtype;
    bool by_lanes; /* the last axis is reduced */
    int64_t count; /* of elements for each result */
    int64_t n_out;
    int kept_rank, reduced_rank; /* axes that run on in memory are joined; reduced_rank >= 1 */
    int64_t kept_n[TP_MAX_RANK], kept_s[TP_MAX_RANK];
    int64_t reduced_n[TP_MAX_RANK], reduced_s[TP_MAX_RANK];
} tpi_reduction;

void tpi_reduction_of(tpi_reduction *d, int code, const tp_tensor *x, const tpi_list *axes);

/* Writes n_out results to y: element by element; by rows and columns. */
void tpi_reduce_reference(const tpi_reduction *d, const char *x, char *y);
void tpi_reduce_fast(const tpi_reduction *d, tp_ctx *ctx, const char *x, char *y);

/* The kernels of a reduction (of a mean: of the sum) of elements of that type. */
typedef struct tpi_reducers {
    tpi_reduce rows, columns, more; /* more: floats only */
} tpi_reducers;
tpi_reducers tpi_reducers_of(const tp_ctx *ctx, int code, tp_dtype dtype);

#endif
