/* How long calls of a function take, captured and eagerly. Their bits are equal, so which of them is done is a
 * matter of speed only, and is measured: what is so small that a look costs more than what is computed in
 * between is faster without. */
#ifndef TAPIR_CAPTURE_PACE_H
#define TAPIR_CAPTURE_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct tp_function;
struct tpi_str;

#ifdef TPI_STRESS
enum {
    TPI_PACE_CALLS = 3,
    TPI_PACE_LEAST = 3,
    TPI_PACE_NS = 0,
    TPI_PACE_STEPS = 0,
    TPI_PACE_QUIET = 1,
    TPI_PACE_REST = 7,
    TPI_PACE_MOST = 20
};
#else
enum {
    TPI_PACE_CALLS = 32,     /* measured of either kind, in turns; */
    TPI_PACE_LEAST = 8,      /* or so many, */
    TPI_PACE_NS = 200000000, /* when they took so long */
    TPI_PACE_STEPS = 20000,  /* of calls in a row that record nothing, before it is measured */
    TPI_PACE_QUIET = 8,      /* and so many calls */
    TPI_PACE_REST =
        1024, /* calls, until it is measured again; ever more while the outcome is the same, */
    TPI_PACE_MOST = 1 << 16 /* but not more than twice so many */
};
#endif

typedef enum tpi_pace_kind { TPI_PACE_CAPTURED, TPI_PACE_EAGER, TPI_PACE_KINDS } tpi_pace_kind;

typedef struct tpi_pace {
    int64_t quiet_calls, quiet_steps;
    int64_t start; /* of the call that is measured; ns */
    int64_t measured_ns;
    int64_t ns[TPI_PACE_KINDS][TPI_PACE_CALLS];
    int64_t median[TPI_PACE_KINDS]; /* when it was measured last; 0: never */
    int64_t eager_calls;
    int32_t n[TPI_PACE_KINDS];
    int32_t rest, rested; /* calls until it is measured again, and how many they were in all */
    bool measures, eager;
} tpi_pace;

/* Before a call that could be captured, and of which no recording is to be made: is it to run eagerly? */
bool tpi_pace_begin(struct tp_function *f);
/* After it. */
void tpi_pace_end(struct tp_function *f, bool captured);
/* A line, once it was measured. */
void tpi_pace_text(const struct tp_function *f, struct tpi_str *s);

#endif
