/* What other systems reached, from a file of one JSON object per line:
 *     {"workload": "gemm/64x64x64", "system": "x", "metric": "rate", "value": 12.5, ...} */
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
    size_t n;
} peer_rows;

/* Lines that are no such rows are passed over. False when the file cannot be read. */
bool peer_rows_read(const char *path, peer_rows *out);
void peer_rows_free(peer_rows *r);

/* The best system: by the median of its rows, the smallest, or with `rate` the largest. `system`
 * is the beginning of its name, NULL for any. NULL when there is none. */
const peer_row *peer_rows_best(const peer_rows *r, const char *workload, const char *metric,
                               const char *system, bool rate, double *value);

#endif
