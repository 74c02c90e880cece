/* A plain interpreter of loop programs: what their statements mean, and nothing else. */
#ifndef TAPIR_TEST_LOOP_RUN_H
#define TAPIR_TEST_LOOP_RUN_H

#include "lower/nest.h"

/* Some of the points of the outermost region: those from `from` to before `end` along each of its axes. */
typedef struct loop_box {
    int64_t from[TP_MAX_RANK], end[TP_MAX_RANK];
} loop_box;

/* Runs a program whose sizes are numbers, or a `box` of it (NULL: all), over memory by its number of `elements` each
 * (those of rows are not looked at). The points of a region are taken in an order that comes from *seed, and rows begin
 * filled with NaN. False: `why` says which address went out of its memory, or what it cannot do. */
enum { LOOP_RUN_WHY = 160 };
bool loop_run(const tpi_loop *l, tp_ctx *tp, const loop_box *box, char *const *memory,
              const int64_t *elements, uint64_t *seed, char why[LOOP_RUN_WHY]);

/* The same, box by box in any order: each step of the first `box->n_outer` axes, and along axis `box->row` some rows of
 * `box->per_row` elements. */
bool loop_run_boxes(const tpi_loop *l, tp_ctx *tp, const tpi_nest_box *box, char *const *memory,
                    const int64_t *elements, uint64_t *seed, char why[LOOP_RUN_WHY]);

/* A permutation of the numbers below n. */
void loop_shuffle(uint64_t *seed, int64_t n, int64_t *order);

/* The next of a sequence of numbers. */
uint64_t loop_random(uint64_t *seed);

#endif
