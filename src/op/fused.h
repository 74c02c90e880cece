/* Fused composites: those whose ops are, on large concrete tensors, the kernels of a program, so that what lies between
 * them stays in the first cache. Programs keep the bits, so nobody can tell but by the time. */
#ifndef TAPIR_FUSED_H
#define TAPIR_FUSED_H

#include "op/op.h"

enum { TPI_FUSED_IN = 5, TPI_FUSED_NUMBERS = 3 };

typedef struct tpi_fused {
    const char *name;
    /* Calls them on operands and numbers v. */
    tp_tensor *(*ops)(tpi_at at, tp_tensor *const *in, const double *v);
    bool by_element; /* it has one operand, whose axes do not matter */
} tpi_fused;

/* What is to be computed: operands of one float type without gaps, or NULL. */
typedef struct tpi_fused_call {
    const tpi_fused *what;
    int n_in;
    tp_tensor *const *in;        /* the first is there */
    double v[TPI_FUSED_NUMBERS]; /* a program is made for each */
} tpi_fused_call;

/* The result: by a program, or by the ops where they are recorded, put in a graph or left to a frame, where each is looked
 * at, for few elements, and whenever something is in the way. */
tp_tensor *tpi_fuse(tpi_at at, const tpi_fused_call *c);

/* By a kept program (run/fused_run.c); NULL: there is none. */
tp_tensor *tpi_fused_run(tp_ctx *ctx, tpi_at at, const tpi_fused_call *c);

#endif
