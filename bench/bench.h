/* The figures of `make bench`: each subject adds its own, bench.c measures and prints them. */
#ifndef TAPIR_BENCH_H
#define TAPIR_BENCH_H

#include <tapir/tapir.h>

#include <stdbool.h>
#include <stdint.h>

typedef enum bound {
    BOUND_NONE,
    BOUND_FMA,   /* GFLOP/s of one core */
    BOUND_MEMORY /* GB/s of a copy of CACHED_BYTES */
} bound;

enum { CACHED_BYTES = 4 << 20 };

typedef struct figure {
    const char *name, *unit;
    void (*run)(void *arg, int64_t n);     /* does the work n times */
    double (*timed)(void *arg, int64_t n); /* or this: tells the seconds that count itself */
    void *arg;
    double scale; /* what is printed: scale * seconds of one work, or */
    bool rate;    /* scale / seconds */
    bool wall;    /* waits for another process: once per round, by the clock on the wall */
    bound limit;
    double work; /* GFLOP or GB of one work, for the limit */
    /* The peers' rows to compare with, times peer_scale; only systems whose name begins with
     * peer_system (NULL: all). */
    const char *peer_workload, *peer_metric, *peer_system;
    double peer_scale; /* 0: 1 */
} figure;

enum { MAX_FIGURES = 64 };

typedef struct bench {
    tp_ctx *tp;
    const char *cache;  /* an empty folder, for compiled programs */
    const char *trees;  /* file of trees; NULL: none */
    const char *models; /* folder of ONNX models; NULL: none */
    const char *only;   /* figures with this in their names; NULL: all */
    figure figures[MAX_FIGURES];
    int n;
} bench;

/* To be asked before work is done for a figure. */
bool bench_wants(const bench *b, const char *name);
/* Adds it when it is wanted; past MAX_FIGURES nothing is added. */
void bench_add(bench *b, figure f);

/* Seconds of the clock on the wall. */
double bench_wall_now(void);

/* Memory they need is tp_alloc's: it goes with the context. */
void bench_add_ops(bench *b);
void bench_add_kernels(bench *b);
void bench_add_lenet(bench *b);
void bench_add_capture(bench *b);
void bench_add_models(bench *b);
void bench_add_control(bench *b);
void bench_add_trees(bench *b);

#endif
