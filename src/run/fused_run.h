/* The programs of fused composites (op/fused.h), forward and back: one for an element type, numbers, and all sizes but the
 * first. */
#ifndef TAPIR_FUSED_RUN_H
#define TAPIR_FUSED_RUN_H

#include "op/fused.h"
#include "run/program.h"

enum { TPI_FUSED_PROGRAMS = 32 };

/* What a program is for. Zeroed before it is filled, and without padding. */
typedef struct tpi_fused_key {
    const tpi_fused *what;
    double v[TPI_FUSED_NUMBERS];
    int64_t dtype;
    int64_t wanted; /* back: a bit for each operand whose gradient is asked for; 0: forward */
    int64_t begun;  /* those of them that have a sum already */
    int64_t rank[TPI_FUSED_IN];               /* -1: there is no such operand */
    int64_t shape[TPI_FUSED_IN][TP_MAX_RANK]; /* -1: the first size of x */
} tpi_fused_key;

typedef struct tpi_fused_entry {
    tpi_fused_key key;
    tp_program *program; /* by tiles, and by C when that is compiled; NULL: there is none */
    uint64_t used;       /* when it was, by a count of calls; 0: it never was */
    int64_t ran_ns;      /* by tiles */
    bool tried;          /* to make its program */
} tpi_fused_entry;

/* Kept in the context (core.h: fused), until that is trimmed. */
typedef struct tpi_fused_programs {
    tpi_owned owned;
    tp_ctx *ctx;
    uint64_t calls;
    /* A program that tiles ran for so long is compiled, in the background; tests make it less. */
    int64_t due_ns;
    tpi_fused_entry entries[TPI_FUSED_PROGRAMS];
} tpi_fused_programs;

#endif
