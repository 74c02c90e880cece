/* What this machine can do, measured: figures of benches are printed beside it.
 *
 * Each limit is the median of several repeats; the machine may be shared, so low and high say how
 * far they lay apart. With several threads each does the same on arrays of its own, all at once,
 * and a limit is their sum. */
#ifndef TAPIR_BENCH_LIMITS_H
#define TAPIR_BENCH_LIMITS_H

#include <stddef.h>

typedef struct limit {
    double median, low, high;
} limit;

/* 1 until said otherwise. */
void limit_set_threads(int n);

/* GFLOP/s in f32, a fused multiply-add counted as two, with the widest vectors there are. */
limit limit_fma_f32(void);
/* Bits of those vectors. */
int limit_vector_bits(void);

/* GB/s (1e9) over arrays of `bytes` each; all that is read or written counts, lines fetched only
 * to be overwritten do not. Zeros when memory is out. */
limit limit_read(size_t bytes);  /* a sum of x */
limit limit_copy(size_t bytes);  /* y = x, memcpy */
limit limit_triad(size_t bytes); /* z = x + 3 y */

/* Where data lie, by how much there is. */
typedef enum limit_level {
    LIMIT_L1,
    LIMIT_L2,
    LIMIT_L3,
    LIMIT_MEMORY,
    LIMIT_LEVELS
} limit_level;

const char *limit_level_name(limit_level level);
/* Bytes per array by which a level is measured. */
size_t limit_level_bytes(limit_level level);
/* The level that so many bytes come from, when they are worked on again and again. */
limit_level limit_level_of(double bytes);

/* Seconds this thread has run: the machine may be shared. */
double limit_now(void);
/* Sorts v[n] and sums it up. */
limit limit_of(double *v, int n);

#endif
