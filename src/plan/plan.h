/* A plan says which kernels compute a graph, in which order they run, and where their results are.
 *
 * The value of a node is stored in one of these ways (tpi_storage):
 *   source   in memory that exists before the run: fed, constant, variable
 *   literal  nowhere: it is a number in the text of the kernels
 *   alias    in the memory of another value, with an offset and strides: a view
 *   inner    only inside the loop nest that computes it
 *   arena    in the program's arena
 *   output   in memory of the caller: it is fetched or assigned
 *
 * A kernel is a call, a copy, a block or a loop nest. A *loop nest* computes elementwise ops and
 * reductions that share an iteration space. Its last node is the *root*. The root, and whatever other
 * kernels read, has memory; all other values of the nest are inner ones.
 *
 * A block (cond, loop) is one kernel of the plan it is in. Each of its bodies has a plan of its own,
 * whose memory is a part of the same arena.
 *
 * An iteration space has a shape and a set of reduced axes. A value in it is *full* if it has an element
 * per point of the space, and a *row* value if it has one per point of the axes that are not reduced. */
#ifndef TAPIR_PLAN_H
#define TAPIR_PLAN_H

#include "base/bump.h"
#include "ir/body.h"
#include "op/op.h"

typedef enum tpi_storage {
    TPI_IN_SOURCE,
    TPI_IN_LITERAL, /* of loop nests only: the operands of calls have memory */
    TPI_IN_ALIAS,
    TPI_IN_INNER,
    TPI_IN_ARENA,
    TPI_IN_OUTPUT
} tpi_storage;

/* Where the elements of a value are in the memory of node `root`. Offset and strides count elements; each is
 * a size, maybe a symbolic one, or a negative number. */
typedef struct tpi_layout {
    int root;
    int64_t offset;
    int64_t stride[TP_MAX_RANK];
} tpi_layout;

typedef struct tpi_value {
    const tp_tensor *node;
    tpi_storage storage;
    tpi_layout layout;
    int kernel; /* the one that computes it; -1: none does */
    int buffer; /* its memory: index in plan->buffers; -1: none */
    int last;   /* the last kernel that reads its memory */
    int over; /* the node whose value is written over it, by the only kernel that reads it; -1 */
    /* if a loop nest computes it: */
    bool row;
    int phase;
    int axis_of[TP_MAX_RANK]; /* by axis: the axis of the iteration space; -1: of size 1 */
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
    int step; /* the step that it is part of */
    int since; /* the first kernel that writes the memory of its result: an earlier one, if the result
                  is written over that kernel's */
    int row;        /* in a band: the axis of rows, in its iteration space or its result */
    unsigned reads; /* in a band: the members whose results it reads, as bits */
    /* the iteration space: */
    int rank;
    int64_t shape[TP_MAX_RANK];
    unsigned reduced; /* axes, as bits */
    bool has_reduced; /* these are settled: a reduction or a row value is in the nest */
    int n_nodes;
    int *nodes;                   /* of a loop nest, in program order */
    int n_operands, n_reductions; /* of all these nodes */
} tpi_kernel;

/* Limits of a loop nest. A reduction may take 32 KiB of the stack. */
enum { TPI_MAX_NEST_NODES = 128, TPI_MAX_NEST_OPERANDS = 256, TPI_MAX_NEST_REDUCTIONS = 6 };

/* A step is what runs at a time: one kernel, or a *band*.
 *
 * A band is some kernels in a row, its members, that can run together part by part. All members have the
 * same outer axes (their first ones) and an axis of rows after them. To compute a box of outer places and
 * rows, a member needs only this box of what the members before it compute.
 *
 * A *microbatch* is some steps in a row that can run for one image of a batch after the other. In general: for
 * one place of the first axis. To compute a place, a step needs only this place of what those before it
 * compute. How much of both is run together a run decides (plan/cut.h). */
typedef struct tpi_plan_step {
    int first, n; /* kernels */
    int n_outer;  /* of a band: how many outer axes */
    int images;   /* 1 + the first step of its microbatch; 0: it is part of none */
} tpi_plan_step;
enum { TPI_MAX_BAND = 32 };

typedef struct tpi_plan tpi_plan;
typedef struct tpi_section tpi_section;

/* The axis of a kernel's iteration space, or of its result, that axis i of a value which it leaves lies along. */
static inline int tpi_space_axis(const tpi_kernel *k, const tpi_value *v, int i)
{
    return k->kind == TPI_KERNEL_LOOP ? v->axis_of[i] : i;
}

/* Is its memory that of the result which is written over it, so that it has no buffer of its own? */
static inline bool tpi_lies_under(const tpi_value *v)
{
    return v->over >= 0 && v->storage == TPI_IN_ARENA;
}

/* Is it a band, and not one kernel? */
static inline bool tpi_is_band(const tpi_plan_step *s)
{
    return s->n > 1;
}

/* Memory of one value, which each run hands to the program as a pointer. */
typedef struct tpi_buffer {
    int node;              /* whose memory it is; -1: a block uses it inside */
    const tp_tensor *like; /* has its type and shape; NULL: an arena of a block's bodies, */
    const tpi_section *section; /* which is this block */
    tpi_storage storage;
    int first, last; /* its live range, in kernels: of whole steps */
} tpi_buffer;

/* A block, the plans of its bodies, and the memory between these and the plan that the block is in.
 *
 * Bodies read operands in row-major order, so an operand that is stored otherwise is copied first. What
 * a loop takes one element of per turn may have any stride along its first axis.
 *
 * A carried value has two buffers, and each turn reads one and writes the other. One of them is the
 * output's, if the output has one. But it has only one buffer, and *stays* there,
 * if the only kernel that reads it is the one that computes the next value, element by element (a sum). */
struct tpi_section {
    const tp_tensor *node;
    int n_bodies;
    tpi_body *body[2];
    tpi_plan *plan[2];
    int *port;   /* by output: its `output` node; -1: nothing reads the output */
    int *spare;  /* by output: a buffer that its port does not have; -1: none is needed */
    int *second; /* by output: the second such buffer, of a carried value without a port; -1 */
    int *copy;   /* by operand: the buffer of its copy; -1: it is not copied */
    bool *stays; /* by output: it is a carried value that stays in its buffer */
    int arena;   /* the buffer that is the arena of the bodies, which share it */
};

struct tpi_plan {
    tpi_plan *whole; /* the outermost */
    tp_graph *graph; /* of the program, or of a body; nodes by index */
    tpi_value *values;
    int n_values;
    tpi_kernel *kernels; /* in the order in which they run */
    int n_kernels;
    tpi_plan_step
        *steps; /* each kernel is part of one; only the outermost plan has microbatches */
    int n_steps;
    tpi_buffer *buffers;
    int n_buffers;
    tpi_section *
        *sections; /* by node; NULL: no block that is run. NULL if there are none at all */
    /* In the program kernels and buffers are numbered through. The numbers of this plan's begin
     * here; those of the outermost plan with 0. */
    int first_kernel, first_buffer;
    /* of the outermost plan: */
    tpi_bump memory;                 /* of all plans, and of the arena; a cut has its own */
    tpi_bump room;                   /* of what is noted while they are made */
    int all_kernels, all_buffers;    /* how many, those of bodies included */
    struct tpi_arena *arena;         /* NULL until tpi_plan_arena */
    bool draws;                      /* a body draws random numbers */
    int32_t n_streams, streams_size; /* that draws come from, in the order of their numbers */
    uint64_t *streams;
};

/* Values that the caller needs, each in memory of its own: what is fetched or assigned. */
typedef struct tpi_roots {
    int n;
    tp_tensor *const *v;
} tpi_roots;

/* What the plan may put together. */
typedef struct tpi_fusing {
    bool nests; /* nodes into loop nests; else each node has a kernel */
    bool bands; /* kernels into bands, and steps into microbatches */
    bool over;  /* a result and an operand: in one memory */
} tpi_fusing;
#define TPI_FUSE_ALL ((tpi_fusing){.nests = true, .bands = true, .over = true})

/* NULL when out of memory, with the context's error. A body that returns what it does not compute gets nodes
 * that copy it. */
tpi_plan *tpi_plan_new(tp_graph *g, const tpi_roots *roots, tpi_fusing fuse);
void tpi_plan_free(tpi_plan *p);
/* Makes p->arena (plan/arena.h). False: no memory, with the context's error. */
bool tpi_plan_arena(tpi_plan *p);

/* Replaces roots by copies of them where the root is not computed, or is there twice: then each root has
 * memory of its own. False: no memory. */
bool tpi_plan_copies(tp_graph *g, int n, tp_tensor **roots);

/* What makes a plan notes that memory is out in that of the whole, and tpi_plan_new tells it.
 *
 * Which kernels make a step (parts.c). False: no memory. */
bool tpi_plan_steps(tpi_plan *p, bool bands);
/* Which results are written over operands (over.c). False: no memory. */
bool tpi_plan_over(tpi_plan *p, const tpi_roots *roots);
/* After buffers were made: live ranges begin and end with whole steps. */
void tpi_plan_whole_steps(tpi_plan *p);
/* The axis of the memory of v's operand o that goes with `axis` of the space of kernel k, which computes v; -1: none
 * does. */
int tpi_axis_read(const tpi_plan *p, const tpi_kernel *k, const tpi_value *v, int o, int axis);
/* After that, of the outermost plan: which steps make microbatches. */
void tpi_plan_microbatches(tpi_plan *p);

/* What plan.c and plan_block.c share. Makes a plan, of which `whole` is known; its kernels have no numbers yet. False:
 * no memory, or the context's error tells. */
bool tpi_plan_graph(tpi_plan *p, tp_graph *g, const tpi_roots *roots, tpi_fusing fuse);
/* The sections of the plan's blocks. */
bool tpi_plan_sections(tpi_plan *p, const bool *live, tpi_fusing fuse);
/* Of all nodes for the same output of a block, the one that has the memory; -1: none. */
int tpi_plan_port(const tpi_plan *p, const tp_tensor *output);
/* The buffers of the sections, and how many they are at most. */
void tpi_plan_section_buffers(tpi_plan *p);
int tpi_plan_most_section_buffers(const tpi_plan *p);
/* Adds a buffer: its index. */
int tpi_plan_buffer(tpi_plan *p, tpi_buffer b);
/* Are the elements of t in row-major order, without gaps, along the axes from `first` on? */
bool tpi_plan_runs_on(const tpi_plan *p, const tp_tensor *t, int first);
/* Numbers the kernels and buffers of all bodies, and lists the streams. False: no memory. */
bool tpi_plan_number(tpi_plan *p);
/* Which of the streams of its program a node draws from. */
int tpi_plan_stream(const tpi_plan *p, const tp_tensor *draw);
/* The plan that has the kernel of this number. */
const tpi_plan *tpi_plan_of_kernel(const tpi_plan *p, int kernel);

/* Is the memory that x reads that of a constant? */
bool tpi_plan_is_constant(const tpi_plan *p, const tp_tensor *x);
/* Of a call, the operand that is read where it was packed; -1: none. */
int tpi_packed_operand(const tpi_plan *p, const tp_tensor *t);
/* How node t reads operand k: its layout over the axes of t, where broadcast axes have stride 0. */
void tpi_operand_layout(const tpi_plan *p, const tp_tensor *t, int k, tpi_layout *out);
/* Puts strides over v's own axes onto the axes of the iteration space of its kernel, 0 along the others. */
void tpi_domain_strides(const tpi_kernel *k, const tpi_value *v, const int64_t *stride,
                        int64_t *out);
/* Is the last axis reduced? Then elements are added up in lanes, else one after the other. */
static inline bool tpi_reduces_last(const tpi_kernel *k)
{
    return k->rank > 0 && (k->reduced >> (k->rank - 1)) & 1;
}

/* Finds a place in the arena for each buffer: an offset, such that buffers whose live ranges meet do not
 * overlap. `bytes` are the buffers' sizes. Every offset is a multiple of 64; that of a buffer which
 * is not in the arena is -1. Returns the size of the arena, -1 when out of memory. Takes time that is nearly
 * linear in n. */
int64_t tpi_place_buffers(tpi_mem *m, int n, const tpi_buffer *buffers, const int64_t *bytes,
                          int64_t *offset);

#endif
