/* The figures of `make bench`: each subject adds its own, rounds.c measures and prints them. */
#ifndef TAPIR_BENCH_H
#define TAPIR_BENCH_H

#include <tapir/tapir.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct figure {
    const char *name, *unit;
    /* One of these. `run` does the work n times; `timed` too, and tells the seconds that count;
     * `told` tells what is printed. */
    void (*run)(void *arg, int64_t n);
    double (*timed)(void *arg, int64_t n);
    double (*told)(void *arg);
    void *arg;
    double scale; /* what is printed: scale * seconds of one work, or */
    bool rate;    /* scale / seconds */
    bool slow;    /* in the first few rounds only, once, by the clock on the wall */
    bool spreads; /* measured with more than one thread too */
    /* What one work takes at least: 1e9 operations of multiply-adds, 1e9 bytes. */
    double gflop, gb_read, gb_written;
    /* The peers' rows to compare with, times peer_scale; only systems whose name begins with
     * peer_system (NULL: all). */
    const char *peer_workload, *peer_metric, *peer_system;
    double peer_scale; /* 0: 1 */
    double
        goal; /* what is aimed at, or where there is a peer which part of what it takes; 0: none */
    const char *subject;
} figure;

enum { MAX_FIGURES = 192 };

typedef struct bench {
    tp_ctx *tp;
    const char *cache;  /* an empty folder, for compiled programs */
    const char *trees;  /* file of trees; NULL: none */
    const char *models; /* folder of ONNX models; NULL: none */
    const char *only;   /* figures with this in their names; NULL: all */
    const char *peers;  /* command that measures the peers, see peer_rows.h; NULL: none */
    int threads;
    const char *subject; /* of the figures to come */
    figure figures[MAX_FIGURES];
    int n;
} bench;

/* To be asked before work is done for a figure. */
bool bench_wants(const bench *b, const char *name);
/* Adds it when it is wanted, and with several threads when it spreads; past MAX_FIGURES nothing is
 * added. Figures of one subject are measured in turn with the peers' figures of it. */
void bench_add(bench *b, figure f);

/* Seconds of the clock on the wall. */
double bench_wall_now(void);
/* Seconds by which figures are measured: of this thread when it is the only one. */
double bench_now(const bench *b);

/* Measures all figures and prints them, or the context's error, which is false. */
bool bench_measure(bench *b, int rounds);

/* Memory they need is tp_alloc's: it goes with the context. */
void bench_add_ops(bench *b);
void bench_add_products(bench *b);
void bench_add_loops(bench *b);
void bench_add_lenet(bench *b);
void bench_add_train(bench *b);
void bench_add_capture(bench *b);
void bench_add_models(bench *b);
void bench_add_control(bench *b);
void bench_add_trees(bench *b);
void bench_add_samples(bench *b);
void bench_add_each(bench *b);

#endif
