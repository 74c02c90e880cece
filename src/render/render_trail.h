/* The last stage of a nest over rows, done late: beside the second stage of the next row. Softmax: a row is
 * divided by its sum while the exponentials of the next one are computed, which need the multipliers
 * all the time, but memory hardly. */
#ifndef TAPIR_RENDER_TRAIL_H
#define TAPIR_RENDER_TRAIL_H

#include "render/render_loops.h"

typedef struct tpi_trail {
    bool computed[TPI_MAX_NEST_OPERANDS], taken[TPI_MAX_NEST_OPERANDS]; /* of the last stage */
    bool used[TPI_MAX_NEST_OPERANDS]; /* values of the row that it reads */
} tpi_trail;

/* Given what the last stage computes and takes: does it read scratch rows of the second stage and values
 * of its row, and nothing else? */
bool tpi_trail_of(const tpi_loops *n, tpi_trail *late);
/* Before all loops: what says which row is late. */
void tpi_trail_begin(tpi_loops *n, const tpi_trail *late);
/* In a row, before the loop that the late row joins: the first row has none before it, and gets what it
 * does not keep. */
void tpi_trail_first(tpi_loops *n);
/* In a scope of its own: the late row's places and values by the names of the current one's. */
void tpi_trail_names(tpi_loops *n, const tpi_trail *late);
/* This row is the late one from now on. */
void tpi_trail_keep(tpi_loops *n, const tpi_trail *late);

#endif
