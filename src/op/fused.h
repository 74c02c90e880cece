/* Fused composites: those whose ops are, on large concrete tensors, the kernels of a program, so that what lies between
 * them stays in the first cache. Programs keep the bits, so nobody can tell but by the time.
 *
 * Recorded, a result is one node, tpi_op_fused, which keeps the operands and nothing between. A sweep that is not recorded
 * itself goes back through it by another program, which computes again what it needs. For all others that walk over
 * a tape tpi_collect unfolds it first: its ops are called, and the result becomes the last of them. */
#ifndef TAPIR_FUSED_H
#define TAPIR_FUSED_H

#include "op/op.h"

enum { TPI_FUSED_IN = 5, TPI_FUSED_NUMBERS = 3 };

/* A gradient reaches each operand, but of TPI_FUSED_FORWARD. */
typedef enum tpi_fused_kind {
    TPI_FUSED_ELEMENTS, /* of one operand, whose axes do not matter */
    TPI_FUSED_AXES,
    TPI_FUSED_SCALED, /* operand 1 is read by one product alone, operand 2 by a sum behind it, if it has these */
    TPI_FUSED_FORWARD /* where a gradient may be asked its ops are called */
} tpi_fused_kind;

typedef struct tpi_fused {
    const char *name;
    /* Calls them on operands and numbers v. */
    tp_tensor *(*ops)(tpi_at at, tp_tensor *const *in, const double *v);
    tpi_fused_kind kind;
} tpi_fused;

/* What is to be computed: operands of one float type without gaps, or NULL. */
typedef struct tpi_fused_call {
    const tpi_fused *what;
    int n_in;
    tp_tensor *const *in;        /* the first is there */
    double v[TPI_FUSED_NUMBERS]; /* a program is made for each */
} tpi_fused_call;

/* The result: by a program, or by the ops where they are put in a graph or left to a frame, where each is looked at, for
 * few elements, and whenever something is in the way. */
tp_tensor *tpi_fuse(tpi_at at, const tpi_fused_call *c);

/* By a kept program (run/fused_run.c); NULL: there is none. */
tp_tensor *tpi_fused_run(tp_ctx *ctx, tpi_at at, const tpi_fused_call *c);

/* Of recorded results alone, so it is in no graph, no text and not in ops.def. */
extern const tpi_op tpi_op_fused;
/* The call whose result t is; in[] is filled. */
tpi_fused_call tpi_fused_call_of(const tp_tensor *t, tp_tensor *in[TPI_FUSED_IN]);
/* The rule of a sweep (run/fused_run.c); NULL, or the failed tensor. */
tp_tensor *tpi_fused_back(tpi_grad *g);
/* Is what the context computes now computed at once, unrecorded but for `recording`, and not looked at? */
static inline bool tpi_is_unwatched(const tp_ctx *ctx)
{
    return !ctx->frame && !ctx->tracing && !ctx->trap_nan && !ctx->reads_file;
}

#endif
