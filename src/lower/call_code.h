/* A kernel that is a call, or a copy, in full: what it reads and writes, where that lies, and what is called is handed.
 *
 *     matmul(b0[0](n:784, 784:1), packed b2[0](784:10, 10:1)) -> b3[0](n:10, 10:1)
 *     sort(b0[0](n:7, 7:1)) {axis=1, descending=false} -> b1[0](n:7, 7:1)
 *     copy(b0[0](7:1, n:7)) -> b1[0](7:n, n:1)
 *
 * An operand is a view of a buffer, as numbered in the program: the element with which it begins, and sizes with their
 * strides. They are those of the plan: maybe symbolic, or numbers when they were bound. C is printed from this, and tiles
 * run it; neither asks which op it is. */
#ifndef TAPIR_CALL_CODE_H
#define TAPIR_CALL_CODE_H

#include "base/bump.h"
#include "ir/sizes_at.h"
#include "op/contractions.h"
#include "plan/plan.h"

typedef enum tpi_call_form {
    TPI_CALL_SET,        /* nothing is called: the only element is a size, or true, */
    TPI_CALL_COPY,       /* or elements are copied in row-major order */
    TPI_CALL_VIEWS,      /* a tpi_call: of views, and attributes */
    TPI_CALL_OWN,        /* the node's own kernel: of views */
    TPI_CALL_CONTRACTION /* of src/kernel, with a struct that says all */
} tpi_call_form;

typedef struct tpi_call_operand {
    tp_tensor view; /* its type, sizes and strides; no memory */
    int memory;     /* the node whose memory it is a view of: the plan's number */
    int buffer;     /* that memory in the program; -1: it has none, only the sizes are read */
    int64_t offset; /* elements */
} tpi_call_operand;

typedef struct tpi_call_code {
    const tp_tensor *node;
    tpi_call_form form;
    int n_in;
    tpi_call_operand *operand; /* and behind them the result */
    tp_tensor **in;            /* their views */
    void *attrs;               /* of the op */
    bool draws_next;           /* seed and position are those of the next draw */
    int packed; /* a contraction's operand that is read where it was packed; -1 */
    tpi_contraction contraction;
} tpi_call_code;

/* All sizes stay symbolic. NULL: no memory, and memory->failed is set. */
tpi_call_code *tpi_lower_call(tpi_bump *memory, const tpi_plan *plan, const tpi_kernel *k);
/* The same call at the sizes of a run, whatever it was at before: all is numbers. NULL: symbolic. */
void tpi_call_at(tpi_call_code *c, const tpi_plan *plan, const tpi_run_sizes *sizes);

/* How node t is read by the kernel of node `root`, which may be written over it. */
tpi_call_operand tpi_lower_operand(const tpi_plan *plan, int root, const tp_tensor *t,
                                   const tpi_run_sizes *sizes);

static inline tpi_call_operand *tpi_call_out(const tpi_call_code *c)
{
    return &c->operand[c->n_in];
}

/* The elements of its view are where the buffer is now. */
static inline void tpi_call_find(tpi_call_operand *x, void *const *buffers)
{
    x->view.data =
        x->buffer < 0 ? NULL : (char *)buffers[x->buffer] + x->offset * tpi_elem_size(&x->view);
}

/* call_text.c */
void tpi_call_print(const tpi_call_code *c, const tpi_dims *dims, int indent, tpi_str *out);

#endif
