/* The limits of one core: arithmetic, and memory by where the data lie. */
#include "limits.h"

#include <stdio.h>

static void print(const char *what, limit l, const char *unit)
{
    printf("%-24s %9.1f %-8s (%.1f to %.1f)\n", what, l.median, unit, l.low, l.high);
}

int main(void)
{
    char what[64];
    snprintf(what, sizeof what, "fma f32, %d bits", limit_vector_bits());
    print(what, limit_fma_f32(), "GFLOP/s");

    const struct {
        const char *name;
        size_t bytes;
    } places[] = {
        {"L1",     8 << 10             },
        {"L2",     256 << 10           },
        {"L3",     4 << 20             },
        {"memory", limit_memory_bytes()}
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        printf("-- arrays of %zu KiB (%s)\n", places[i].bytes >> 10, places[i].name);
        print("read", limit_read(places[i].bytes), "GB/s");
        print("copy", limit_copy(places[i].bytes), "GB/s");
        print("triad", limit_triad(places[i].bytes), "GB/s");
    }
    return 0;
}
