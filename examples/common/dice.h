/* Random integers of an example's own, the same on every machine. */
#ifndef EXAMPLES_DICE_H
#define EXAMPLES_DICE_H

#include <stdint.h>

/* In [0, n), n >= 1, from a 64-bit linear congruential generator. */
static inline uint32_t dice(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((*state >> 32) * n) >> 32);
}

/* In [lo, hi). */
static inline double dice_between(uint64_t *state, double lo, double hi)
{
    return lo + (hi - lo) * dice(state, 1u << 24) / (1u << 24);
}

#endif
