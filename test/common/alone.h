/* Graphs as C files that stand alone, compiled and run by others, and their bits.
 *
 * alone_write saves a graph as NAME.c, runs it in the library, and writes beside it NAME_main.c, a
 * program that does the same runs and prints a hash of each result, and NAME.expected, what it has to
 * print. alone_try compiles both and compares. */
#ifndef TAPIR_TEST_ALONE_H
#define TAPIR_TEST_ALONE_H

#include "tapir/tapir.h"

#include <stdbool.h>

typedef struct alone {
    const char *dir, *name;
    tp_ctx *tp;
    tp_graph *g;
    tp_function *f; /* instead of g, and what it assigns */
    int n_variables;
    tp_tensor *const *variables;
    int n_in, n_out;
    const char *const *in, *const *out;
    int n_sets;
    tp_tensor *const *feeds; /* [n_sets][n_in] */
    tp_tensor *const
        *known;          /* [n_sets][n_out], when the runs have been done already; or NULL */
    tp_tensor **results; /* [n_sets][n_out], set to what the library gives; or NULL */
    tp_c_options options;
    int64_t most_turns; /* 0: 200 */
    int64_t memory;     /* bytes that the program has; 0: 64 MiB */
} alone;

/* False: it says what went wrong. */
bool alone_write(const alone *a);

typedef struct alone_target {
    const char *name, *compile;
    const char *link; /* what linking takes besides; TAPIR_SOURCE may be in it */
    const char *run;  /* what runs it, "" for nothing */
} alone_target;

/* gcc and clang at -O0 and -O3; ends with a name that is NULL. */
extern const alone_target alone_hosts[];
/* AArch64 and two Cortex-M machines, emulated; the last ones have 3 MiB of memory. */
extern const alone_target alone_aarch64, alone_cortex_m3, alone_cortex_m4;
/* Is its compiler here, and what runs it? */
bool alone_has(const alone_target *t);
/* Compiles without a warning and prints what it has to. False: it says what went wrong. */
bool alone_try(const char *dir, const char *name, const alone_target *t);

#endif
