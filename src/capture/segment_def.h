/* What a segment knows of its runs: shared by segment.c, which compares runs with each other and
 * uses the program, and segment_graph.c, which makes it. */
#ifndef TAPIR_SEGMENT_DEF_H
#define TAPIR_SEGMENT_DEF_H

#include "capture/capture_def.h"
#include "op/op.h"

struct tpi_shared {
    tpi_shared *next;
    char *text; /* of the graph; tp_alloc's */
    tp_program *program;
    int *symbol_of; /* by the program's numbers: ours */
    bool ready, failed;
    bool waits; /* its compiler has not been started */
};

/* The program of a graph with placeholders i0.. and names o0..: one that is there already, or new. It
 * may wait to be compiled until it is asked for (tpi_shared_ready). NULL: memory is out. */
tpi_shared *tpi_shared_for(tp_function *f, tp_graph *g, tpi_at at, int n_in, int n_out,
                           bool waits);
/* Is it ready to run? */
bool tpi_shared_ready(tp_function *f, tpi_shared *p);
/* Are its programs compiled? Those of the other engines are ready when they are made. */
static inline bool tpi_has_compiler(const tp_function *f)
{
    return f->options.engine == TP_ENGINE_AUTO || f->options.engine == TP_ENGINE_C;
}

typedef struct tpi_input {
    int32_t code;          /* as operands are numbered */
    int32_t step, operand; /* where it is read first; operand -1: the value of a SCALAR */
    uint8_t dtype, rank;
    int64_t shape[TP_MAX_RANK]; /* first seen */
} tpi_input;

/* A size that varies: of an input's axis (step -1), or an integer of a step's attributes. */
typedef struct tpi_varying {
    int32_t step, index, at; /* input and axis; or step and place in the flattened attributes */
} tpi_varying;

struct tpi_segment {
    tpi_step *step; /* the first */
    int n_steps;
    bool known;                       /* what comes in and its sizes are */
    int64_t runs, program_runs, call; /* the last one that ran it */
    int n_inputs, inputs_size;
    tpi_input *inputs;
    int n_sizes;
    int64_t *sizes;   /* sizes among the attributes at the first run, in order */
    bool as_recorded; /* that run was */
    int n_varying, varying_size, n_seen, n_symbols;
    tpi_varying *varying;
    tpi_quantity *quantities;
    int64_t *values;     /* of this run */
    bool *number_varies; /* by step: a SCALAR whose value does */
    int32_t *output_of;  /* by step: number of the program's output, -1 */
    int n_outputs;
    tpi_shared *program;
    int programs;
    const char *why_new; /* is the next program made */
    tpi_why why_eager;
};

/* The number of the input with this code; -1: none. */
int tpi_segment_input(const tpi_segment *s, int32_t code);
/* The step of this segment that makes an operand; -1: it comes in. */
int tpi_segment_maker(const tpi_segment *s, int32_t code);
/* Before 0, equal to, or behind it in the list? */
int tpi_varying_order(const tpi_varying *a, const tpi_varying *b);

/* Is this one of the flattened attributes a size that is there? (Of a list of n sizes those behind
 * are not.) */
bool tpi_is_size(const tpi_op *op, const int64_t *flat, int at);
/* Of slice and pad, what is dropped or added behind an axis follows from the other sizes; that of
 * the result stands for it. The axis; -1: the size stands for itself. */
int tpi_size_axis(const tpi_op *op, const int64_t *flat, int at);
static inline int64_t tpi_size_value(const tpi_op *op, const int64_t *flat,
                                     const int64_t *shape, int at)
{
    const int axis = tpi_size_axis(op, flat, at);
    return axis < 0 ? flat[at] : shape[axis];
}
/* Places in their flattened attributes. */
enum {
    TPI_SLICE_AXIS = 0,
    TPI_SLICE_LO = 1,
    TPI_SLICE_HI = 2,
    TPI_SLICE_STEP = 3,
    TPI_PAD_HI = 1 + TP_MAX_RANK
};

/* Makes the segment's program from what is pending from there on: s->program, NULL when that was
 * not to be. */
void tpi_segment_build(tpi_segment *s, tpi_frame *fr, int from);

#endif
