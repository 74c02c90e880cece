/* What one core of this machine can do, measured: figures of benches are printed beside it.
 *
 * Each limit is the median of several repeats; the machine may be shared, so low and high say how
 * far they lay apart. */
#ifndef TAPIR_BENCH_LIMITS_H
#define TAPIR_BENCH_LIMITS_H

#include <stddef.h>

typedef struct limit {
    double median, low, high;
} limit;

/* GFLOP/s in f32, a fused multiply-add counted as two, with the widest vectors there are. */
limit limit_fma_f32(void);
/* Bits of those vectors. */
int limit_vector_bits(void);

/* GB/s (1e9) over arrays of `bytes` each; all that is read or written counts, lines fetched only
 * to be overwritten do not. Zeros when memory is out. */
limit limit_read(size_t bytes);  /* a sum of x */
limit limit_copy(size_t bytes);  /* y = x, memcpy */
limit limit_triad(size_t bytes); /* z = x + 3 y */

/* Bytes per array that no cache holds. */
size_t limit_memory_bytes(void);

/* Seconds this thread has run: the machine may be shared. */
double limit_now(void);
/* Sorts v[n] and sums it up. */
limit limit_of(double *v, int n);

#endif
