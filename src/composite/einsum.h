/* What an equation of tp_einsum says. */
#ifndef TAPIR_EINSUM_H
#define TAPIR_EINSUM_H

#include "composite/composite.h"

enum { TPI_EINSUM_OPERANDS = 16 };

/* A label for each axis: of letters 0 to 51, of an ellipsis from 52 on, counted from its last axis. */
typedef struct tpi_labels {
    int n;
    char of[TP_MAX_RANK];
} tpi_labels;

typedef struct tpi_einsum {
    tpi_labels in[TPI_EINSUM_OPERANDS], out;
    const char *why; /* it was refused */
} tpi_einsum;

/* Of 1 to TPI_EINSUM_OPERANDS good operands. False: e->why. */
bool tpi_einsum_read(tpi_einsum *e, const char *equation, int n, tp_tensor *const *xs);
/* What it says, of operands that are in one graph, or in none. */
tp_tensor *tpi_einsum_of(tpi_at at, const char *what, const tpi_einsum *e, int n,
                         tp_tensor *const *xs);

#endif
