/* From a graph to kernels.
 *
 * Every node of a program is one of these: a *source* (memory of others), a *literal* (a number
 * written into the text), an *alias* (a view: an offset and strides over other memory), or it is
 * computed by a kernel. A kernel is one call, or one *loop nest*: all elementwise ops and
 * reductions that share an iteration space. Of a loop nest's values some live in it only
 * (*inner*), the others have memory: the last one, the root, and what other kernels read.
 *
 * A block is one kernel too. The kernels of its bodies are of plans of their own, whose memory is
 * part of the arena; what the block itself does is to say where their operands and outputs lie.
 *
 * The iteration space has a shape and a set of reduced axes. A value in it is *full* (one
 * element per point) or a *row* value (one per point of the axes that are not reduced). */
#ifndef TAPIR_PLAN_H
#define TAPIR_PLAN_H

#include "ir/body.h"
#include "op/op.h"

typedef enum tpi_storage {
    TPI_IN_SOURCE,  /* fed, constant or variable */
    TPI_IN_LITERAL, /* in the text of loop nests; calls have no such operands */
    TPI_IN_ALIAS,
    TPI_IN_INNER,
    TPI_IN_ARENA,
    TPI_IN_OUTPUT /* memory given by the caller: fetched or assigned */
} tpi_storage;

/* Where the elements of a value are: over its memory's first element. Entries are sizes, which
 * may be symbolic, or negative numbers. */
typedef struct tpi_layout {
    int root;       /* node whose memory it is */
    int64_t offset; /* elements */
    int64_t stride[TP_MAX_RANK];
} tpi_layout;

typedef struct tpi_value {
    const tp_tensor *node;
    tpi_storage storage;
    tpi_layout layout;
    int kernel; /* that computes it; -1 */
    int buffer; /* index of its memory in the program's table; -1: none */
    int last;   /* last kernel that reads its memory */
    int over;   /* the node that is written over it, of the only kernel that reads it; -1 */
    /* in its loop nest: */
    bool row;
    int stage;
    int axis_of[TP_MAX_RANK]; /* axis of the iteration space per own axis; -1: size 1 */
} tpi_value;

typedef enum tpi_kernel_kind {
    TPI_KERNEL_LOOP,
    TPI_KERNEL_CALL,
    TPI_KERNEL_COPY,
    TPI_KERNEL_BLOCK
} tpi_kernel_kind;

typedef struct tpi_kernel {
    tpi_kernel_kind kind;
    int root; /* its last node */
    int step; /* whose part it is */
    int since; /* the first kernel that writes its result's memory: an older one when it writes over that's */
    int row; /* in a band: the axis of its iteration space, or of its result, that is cut in rows */
    bool by_place;  /* is it of a tpi_microbatch? */
    unsigned reads; /* and members of the band whose results it reads, as bits */
    int rank;       /* of the iteration space */
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

/* What runs in order: a kernel, or a *band*, some kernels that follow each other and can run together
 * part by part. All of them have the same first axes and an axis of rows behind these; each computes a
 * box of outer places and rows from no more than that of what the members before it make. */
typedef struct tpi_plan_step {
    int first, n; /* kernels */
    int n_outer;  /* of a band: axes */
} tpi_plan_step;
enum { TPI_MAX_BAND = 32 };

/* Steps that can run for one place of the first axis after the other (an image of a batch): each
 * computes a place from no more than that of what those before it make. */
typedef struct tpi_microbatch {
    int first, n; /* steps */
    int64_t places;
} tpi_microbatch;

typedef struct tpi_plan tpi_plan;
typedef struct tpi_section tpi_section;

/* Has it no memory but that of the result that is written over it? */
static inline bool tpi_lies_under(const tpi_value *v)
{
    return v->over >= 0 && v->storage == TPI_IN_ARENA;
}

/* A band? Else a kernel by itself. */
static inline bool tpi_is_band(const tpi_plan_step *s)
{
    return s->n > 1;
}

/* Memory that the program is handed at each run. */
typedef struct tpi_buffer {
    int node;                   /* whose memory it is; -1: a block's own */
    const tp_tensor *like;      /* its type and shape are these; NULL: */
    const tpi_section *section; /* it is the arena of this block's bodies */
    tpi_storage storage;
    int first, last; /* kernels between which it is live: of whole steps */
    enum { TPI_UNSEEN, TPI_ALL_PLACES, TPI_OWN_PLACE } seen; /* by a place of a microbatch */
} tpi_buffer;

/* A block. Its operands are in row-major order, or copied so first; a slice only has to be so
 * along all but its leading axis. Carried values go to and fro between two buffers, of which one
 * is the output's, if it has one; or they stay in one, when only the kernel that makes the next value
 * reads the last one, element by element (a sum). */
struct tpi_section {
    const tp_tensor *node;
    int n_bodies;
    tpi_body *body[2];
    tpi_plan *plan[2];
    int *port;   /* by output: the node of that output; -1: none reads it */
    int *spare;  /* by output: a buffer more; -1: none */
    int *second; /* by output: another one, of a carried one without port; -1 */
    int *copy;   /* by operand: the buffer of its copy; -1: it is taken where it lies */
    bool *stays; /* by output: a carried one that stays in its buffer */
    int arena;   /* buffer of the bodies' arenas, which share it */
};

struct tpi_plan {
    tp_graph *graph; /* of the program, or of a body; nodes by index */
    tpi_value *values;
    int n_values;
    tpi_kernel *kernels; /* in the order in which they run */
    int n_kernels, kernels_size;
    tpi_plan_step *steps; /* each kernel is part of one */
    int n_steps, steps_size;
    tpi_microbatch *micro; /* of the outermost plan */
    int n_micro, micro_size;
    tpi_buffer *buffers;
    int n_buffers, buffers_size;
    tpi_section *
        *sections; /* by node; NULL: no block that is run. The array is NULL without any */
    /* Their numbers in the program: of the outermost plan 0. */
    int first_kernel, first_step, first_buffer;
    int all_kernels, all_steps,
        all_buffers;         /* of the outermost plan: with those of all bodies */
    struct tpi_arena *arena; /* of the outermost, once it is asked for */
    bool draws;              /* are there random numbers in a body? */
};

/* What the caller needs in memory of its own. */
typedef struct tpi_roots {
    int n;
    tp_tensor *const *v;
} tpi_roots;

/* What nodes and kernels are put together. */
typedef struct tpi_fusing {
    bool nests; /* nodes in a loop nest; else a kernel per node */
    bool
        bands; /* kernels in a step: all that it makes is in memory while it runs; steps in a microbatch */
    bool over; /* a result and what it is written over */
} tpi_fusing;
#define TPI_FUSE_ALL ((tpi_fusing){.nests = true, .bands = true, .over = true})

/* NULL when out of memory (the context's error tells). Bodies are given nodes that copy what they give
 * but do not compute. */
tpi_plan *tpi_plan_new(tp_graph *g, const tpi_roots *roots, tpi_fusing fuse);
void tpi_plan_free(tpi_plan *p);
/* Makes p->arena (plan/arena.h). False: no memory, which the error tells. */
bool tpi_plan_arena(tpi_plan *p);

/* Roots that are not computed, or twice the same, become copies, so that each has memory of its own.
 * False: no memory. */
bool tpi_plan_copies(tp_graph *g, int n, tp_tensor **roots);

/* Which kernels make a step (steps.c). False: no memory. */
bool tpi_plan_steps(tpi_plan *p, bool bands);
/* Which results are written over operands (over.c). False: no memory. */
bool tpi_plan_over(tpi_plan *p, const tpi_roots *roots);
/* Once there are buffers: they live as long as whole steps do. */
void tpi_plan_whole_steps(tpi_plan *p);
/* And then: which steps make microbatches. False: no memory. */
bool tpi_plan_microbatches(tpi_plan *p);

/* For plan_block.c: a plan of a body, without numbers; the sections of its blocks; the node in which
 * an output of a block has its place (-1: nowhere); the sections' memory; a buffer more, -1: no
 * memory. */
tpi_plan *tpi_plan_graph(tp_graph *g, const tpi_roots *roots, tpi_fusing fuse);
bool tpi_plan_sections(tpi_plan *p, const bool *live, tpi_fusing fuse);
int tpi_plan_port(const tpi_plan *p, const tp_tensor *output);
bool tpi_plan_section_buffers(tpi_plan *p);
void tpi_plan_free_sections(tpi_plan *p);
int tpi_plan_buffer(tpi_plan *p, tpi_buffer b);
/* Are the elements of t in row-major order from axis `first` on? */
bool tpi_plan_runs_on(const tpi_plan *p, const tp_tensor *t, int first);
/* Numbers for the kernels, steps and buffers of all bodies. */
void tpi_plan_number(tpi_plan *p);
/* The plan whose kernel, or buffer, has this number; never NULL. */
const tpi_plan *tpi_plan_of_kernel(const tpi_plan *p, int kernel);

/* Is it the memory of a constant that it reads? */
bool tpi_plan_is_constant(const tpi_plan *p, const tp_tensor *x);
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

/* Offsets of the arena's buffers for sizes in bytes, by the intervals in which they live (-1: of those
 * that are elsewhere); returns the size of the arena, -1 when out of memory. Every offset is a
 * multiple of 64. Near linear in n. */
int64_t tpi_place_buffers(tpi_mem *m, int n, const tpi_buffer *buffers, const int64_t *bytes,
                          int64_t *offset);

#endif
