/* Shared by the kernel benches: rounds that go in turn through the FMA peak of this machine and
 * every case, so that a slow moment hits all of them; the medians of the ratios are printed. */
#ifndef TAPIR_BENCH_KERNEL_H
#define TAPIR_BENCH_KERNEL_H
#include "kernel/text/vec.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Time on the processor: the machine may be shared. */
static double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static TPK_V bench_sink;

/* Multiply-adds per second of twelve independent chains. */
static double bench_peak(void)
{
    TPK_V c[12], x = TPK_SPLAT((TPK_E)0.999), y = TPK_SPLAT((TPK_E)0.001);
    const int64_t n = 60000;
    for (int j = 0; j < 12; j++) { /* not equal, or the compiler makes them one */
        c[j] = bench_sink + TPK_SPLAT((TPK_E)j);
    }
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) {
            c[j] = TPK_FMA(c[j], x, y);
        }
    }
    const double seconds = bench_now() - start;
    for (int j = 0; j < 12; j++) {
        bench_sink += c[j];
    }
    bench_sink -= bench_sink;
    return (double)n * 12 * TPK_VL / seconds;
}

static int bench_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double bench_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, bench_order);
    return v[n / 2];
}

static TPK_E *bench_array(int64_t n)
{
    TPK_E *const p = aligned_alloc(64, (size_t)(n * (int64_t)sizeof(TPK_E) + 127) / 64 * 64);
    if (!p) {
        exit(2);
    }
    for (int64_t i = 0; i < n; i++) {
        p[i] = (TPK_E)((i * 7919) % 1000 - 500) / (TPK_E)500;
    }
    return p;
}

enum { BENCH_ROUNDS = 41 };

/* fmas: multiply-adds of one run. Runs it for some 2 ms per round. */
static void bench_case(const char *name, void (*run)(void *), void *arg, double fmas)
{
    static double ratio[BENCH_ROUNDS], micro[BENCH_ROUNDS];
    run(arg);
    double start = bench_now();
    run(arg);
    const double once = bench_now() - start;
    const int repeats = once > 2e-3 ? 1 : (int)(2e-3 / once) + 1;
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        const double peak = bench_peak();
        start = bench_now();
        for (int r = 0; r < repeats; r++) {
            run(arg);
        }
        const double seconds = (bench_now() - start) / repeats;
        const double after = bench_peak();
        ratio[i] = fmas / seconds / ((peak + after) / 2);
        micro[i] = seconds * 1e6;
    }
    const double r = bench_median(ratio, BENCH_ROUNDS), us = bench_median(micro, BENCH_ROUNDS);
    printf("%-44s %10.2f us  %7.1f GFLOP/s  %5.3f of peak\n", name, us, 2e-3 * fmas / us, r);
}
#endif
