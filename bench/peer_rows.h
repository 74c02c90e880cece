/* What other systems reach, as rows of a line each:
 *     {"workload": "gemm/64x64x64", "system": "x", "metric": "rate", "value": 12.5, ...}
 * They come from a command that is given the names of workloads and measures them on as many threads
 * as THREADS in its environment says. It may know only some of them, and may print more. */
#ifndef TAPIR_BENCH_PEER_ROWS_H
#define TAPIR_BENCH_PEER_ROWS_H

#include <stdbool.h>
#include <stddef.h>

enum { PEER_WORD = 48 };

typedef struct peer_row {
    char workload[PEER_WORD], system[PEER_WORD], metric[PEER_WORD];
    double value;
} peer_row;

typedef struct peer_rows {
    peer_row *v;
    size_t n, room;
} peer_rows;

/* Adds the rows that `command` (of the shell) prints for the workloads; other lines, and rows that
 * name another number of threads, are passed over. False when it could not be run or failed. */
bool peer_rows_run(peer_rows *r, const char *command, int n, const char *const *workloads,
                   int threads);
void peer_rows_free(peer_rows *r);

/* The best system: by the median of its rows, the smallest, or with `rate` the largest. `system`
 * is the beginning of its name, NULL for any. NULL when there is none. */
const peer_row *peer_rows_best(const peer_rows *r, const char *workload, const char *metric,
                               const char *system, bool rate, double *value);

#endif
