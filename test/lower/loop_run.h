/* A plain interpreter of loop programs: what their statements mean, and nothing else. */
#ifndef TAPIR_TEST_LOOP_RUN_H
#define TAPIR_TEST_LOOP_RUN_H

#include "lower/loop.h"

/* Runs a program whose sizes are numbers, over memory by its number of `elements` each (those of rows are not looked
 * at). The points of a region are taken in an order that comes from *seed, and rows begin filled with NaN. False: `why`
 * says which address went out of its memory, or what it cannot do. */
enum { LOOP_RUN_WHY = 160 };
bool loop_run(const tpi_loop *l, tp_ctx *tp, char *const *memory, const int64_t *elements,
              uint64_t *seed, char why[LOOP_RUN_WHY]);

/* The next of a sequence of numbers. */
uint64_t loop_random(uint64_t *seed);

#endif
