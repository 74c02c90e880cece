/* The limits of one core, or of as many threads as the first argument says: arithmetic, and memory
 * by where the data lie. */
#include "limits.h"

#include <stdio.h>
#include <stdlib.h>

static void print(const char *what, limit l, const char *unit)
{
    printf("%-24s %9.1f %-8s (%.1f to %.1f)\n", what, l.median, unit, l.low, l.high);
}

int main(int argc, char **argv)
{
    limit_set_threads(argc > 1 ? atoi(argv[1]) : 1);
    char what[64];
    snprintf(what, sizeof what, "fma f32, %d bits", limit_vector_bits());
    print(what, limit_fma_f32(), "GFLOP/s");

    for (limit_level l = LIMIT_L1; l < LIMIT_LEVELS; l++) {
        const size_t bytes = limit_level_bytes(l);
        printf("-- arrays of %zu KiB (%s)\n", bytes >> 10, limit_level_name(l));
        print("read", limit_read(bytes), "GB/s");
        print("copy", limit_copy(bytes), "GB/s");
        print("triad", limit_triad(bytes), "GB/s");
    }
    return 0;
}
