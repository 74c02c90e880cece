/* From a graph to kernels.
 *
 * Every node of a program is one of these: a *source* (memory of others), a *literal* (a number
 * written into the text), an *alias* (a view: an offset and strides over other memory), or it is
 * computed by a kernel. A kernel is one call, or one *loop nest*: all elementwise ops and
 * reductions that share an iteration space. Of a loop nest's values some live in it only
 * (*inner*), the others have memory in the arena.
 *
 * The iteration space has a shape and a set of reduced axes. A value in it is *full* (one
 * element per point) or a *row* value (one per point of the axes that are not reduced). */
#ifndef TAPIR_PLAN_H
#define TAPIR_PLAN_H

#include "ir/graph_def.h"
#include "op/op.h"

typedef enum tpi_place {
    TPI_AT_SOURCE,  /* fed, constant or variable */
    TPI_AT_LITERAL, /* in the text of loop nests; calls have no such operands */
    TPI_AT_ALIAS,
    TPI_AT_INNER,
    TPI_AT_ARENA,
    TPI_AT_OUTPUT /* memory given by the caller: fetched or assigned */
} tpi_place;

/* Where the elements of a value are: over its memory's first element. Entries are sizes, which
 * may be symbolic, or negative numbers. */
typedef struct tpi_layout {
    int root;       /* node whose memory it is */
    int64_t offset; /* elements */
    int64_t stride[TP_MAX_RANK];
} tpi_layout;

typedef struct tpi_value {
    const tp_tensor *node;
    tpi_place place;
    tpi_layout layout;
    int kernel; /* that computes it; -1 */
    int buffer; /* index of its memory in the program's table; -1: none */
    int last;   /* last kernel that reads its memory */
    /* in its loop nest: */
    bool row;
    int stage;
    int axis_of[TP_MAX_RANK]; /* axis of the iteration space per own axis; -1: size 1 */
} tpi_value;

typedef enum tpi_kernel_kind {
    TPI_KERNEL_LOOP,
    TPI_KERNEL_CALL,
    TPI_KERNEL_COPY
} tpi_kernel_kind;

typedef struct tpi_kernel {
    tpi_kernel_kind kind;
    int root; /* its last node */
    int rank; /* of the iteration space */
    int64_t shape[TP_MAX_RANK];
    unsigned reduced; /* axes, as bits */
    bool has_reduced; /* the set is settled */
    int n_nodes;
    int *nodes; /* of a loop nest, in program order */
    int nodes_size;
    int n_operands, n_reductions; /* of them all */
} tpi_kernel;

/* Limits of a loop nest; each reduction may take a block of 32 KiB on the stack. */
enum { TPI_MAX_NEST_NODES = 128, TPI_MAX_NEST_OPERANDS = 256, TPI_MAX_NEST_REDUCTIONS = 6 };

/* Memory that the program is handed at each run. */
typedef struct tpi_buffer {
    int node; /* whose memory it is */
    tpi_place place;
    int first, last; /* kernels between which it is live */
} tpi_buffer;

typedef struct tpi_plan {
    tp_graph *graph; /* of the program; nodes by index */
    tpi_value *values;
    int n_values;
    tpi_kernel *kernels; /* in the order in which they run */
    int n_kernels, kernels_size;
    tpi_buffer *buffers;
    int n_buffers, buffers_size;
} tpi_plan;

/* What the caller needs in memory of its own. */
typedef struct tpi_roots {
    int n;
    tp_tensor *const *v;
} tpi_roots;

/* NULL when out of memory (the context's error tells). `fuse` false: a kernel per node. */
tpi_plan *tpi_plan_new(tp_graph *g, const tpi_roots *roots, bool fuse);
void tpi_plan_free(tpi_plan *p);

/* The layout of operand k of node t over t's own axes: broadcast axes have stride 0. */
void tpi_operand_layout(const tpi_plan *p, const tp_tensor *t, int k, tpi_layout *out);
/* A value's strides over the axes of its kernel's iteration space. */
void tpi_domain_strides(const tpi_kernel *k, const tpi_value *v, const int64_t *stride,
                        int64_t *out);
/* Reduction: does the last axis go? Then elements are taken in lanes, else in plain order. */
static inline bool tpi_reduces_last(const tpi_kernel *k)
{
    return k->rank > 0 && (k->reduced >> (k->rank - 1)) & 1;
}

/* Offsets of the arena's buffers for sizes in bytes, by the intervals in which they live;
 * returns the size of the arena. Every offset is a multiple of 64. */
int64_t tpi_place_buffers(int n, const tpi_buffer *buffers, const int64_t *bytes,
                          int64_t *offset);

#endif
