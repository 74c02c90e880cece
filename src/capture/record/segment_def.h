/* Segments and their programs.
 *
 * segment.c learns what differs between the runs of a segment (sizes, numbers) and runs its program.
 * segment_graph.c makes the program. This header is what both know. */
#ifndef TAPIR_SEGMENT_DEF_H
#define TAPIR_SEGMENT_DEF_H

#include "capture/capture_def.h"
#include "op/op.h"

/* A program, which all segments and basic blocks of a function share whose graphs have the same text
 * and kernels. */
struct tpi_shared {
    tpi_shared *next;
    char *text;        /* of the graph; from tp_alloc */
    tpi_str unwritten; /* and what it does not say: which kernels of the user's are called */
    tp_program *program;
    int *symbol_of; /* by number of a symbol in the program: its number in the segment */
    bool ready, failed;
    bool waits; /* its compiler has not been started yet */
    /* run/direct.h: it can be entered at once, or cannot; or neither is known yet. */
    enum { TPI_DIRECT_UNKNOWN, TPI_DIRECT, TPI_DIRECT_NOT } direct;
    int32_t
        *pointers; /* by feed, then by result: where it is in the program's table; -1: unread */
};

/* The program of a graph whose placeholders are i0, i1, ... and whose outputs are o0, o1, ...: one of the function's
 * programs, or a new one. `waits`: it is compiled only when tpi_shared_ready asks for it. NULL: memory is
 * out. */
tpi_shared *tpi_shared_for(tp_function *f, tp_graph *g, tpi_at at, int n_in, int n_out,
                           bool waits);
/* Can it run by now? It cannot while it is being compiled, or when that failed. */
bool tpi_shared_ready(tp_function *f, tpi_shared *p);
/* Are the function's programs compiled? The other engines need no compiler. */
static inline bool tpi_has_compiler(const tp_function *f)
{
    return f->options.engine == TP_ENGINE_AUTO || f->options.engine == TP_ENGINE_C;
}

/* A tensor that a segment reads and does not make. */
typedef struct tpi_input {
    int32_t code;          /* what it is in the segment (capture_def.h) */
    int32_t step, operand; /* where it is read first; operand -1: it is the step's value */
    uint8_t dtype, rank;
    int64_t shape[TP_MAX_RANK]; /* when the segment was recorded */
} tpi_input;

/* A size that varies from run to run. Either an axis of an input: `step` is -1, `index` the input, `at` the axis.
 * Or a size among the attributes of a step: `at` is its position in the flattened attributes. */
typedef struct tpi_varying {
    int32_t step, index, at;
} tpi_varying;

struct tpi_segment {
    tpi_step *step; /* the first */
    int n_steps;
    bool known; /* inputs and sizes are those of an earlier run; else they have to be learned */
    int64_t runs, program_runs; /* all of them; those by the program */
    int64_t call;               /* the last call that ran it */
    int n_inputs, inputs_size;
    tpi_input *inputs;
    int n_varying, varying_size, n_seen, n_symbols;
    tpi_varying *varying;
    tpi_quantity *quantities;
    int64_t *values; /* by varying size: its value in this run */
    /* By step: its value is given to the program. It is a SCALAR whose number varies, or in a turn of a loop a view
     * without gaps of what comes in, at another place in another turn. */
    bool *given;
    int32_t *output_of; /* by step: which output of the program it is; -1: none */
    int32_t *outputs;   /* by output: its step */
    int n_outputs;
    int n_draws;      /* steps that draw random numbers */
    bool has_numbers; /* a step is a SCALAR */
    bool has_given;
    tpi_shared *program;
    int programs;        /* how many were made for it */
    const char *why_new; /* why the next one is made, for the log */
    tpi_why why_eager;   /* why its ops are computed one by one */
};

/* The number of the input with this code; -1: none. */
int tpi_segment_input(const tpi_segment *s, int32_t code);
/* The step of this segment that makes an operand; -1: it is an input. */
int tpi_segment_maker(const tpi_segment *s, int32_t code);
/* The order of the list: below 0, 0, or above 0. */
int tpi_varying_order(const tpi_varying *a, const tpi_varying *b);

/* Is this position in the flattened attributes a size that is in use? A list has room for TP_MAX_RANK sizes, and only
 * its first n are. */
bool tpi_is_size(const tpi_op *op, const int64_t *flat, int at);
/* How much a slice drops, or a pad adds, at the end of an axis follows from the size of the result. So that size is
 * compared instead. Its axis; -1: the size at this position is compared itself. */
int tpi_size_axis(const tpi_op *op, const int64_t *flat, int at);
static inline int64_t tpi_size_value(const tpi_op *op, const int64_t *flat,
                                     const int64_t *shape, int at)
{
    const int axis = tpi_size_axis(op, flat, at);
    return axis < 0 ? flat[at] : shape[axis];
}
/* Positions in the flattened attributes of slice and pad. */
enum {
    TPI_SLICE_AXIS = 0,
    TPI_SLICE_LO = 1,
    TPI_SLICE_HI = 2,
    TPI_SLICE_STEP = 3,
    TPI_PAD_HI = 1 + TP_MAX_RANK
};

/* Makes s->program from the pending steps, of which `from` is the segment's first. NULL if that could not be done. */
void tpi_segment_build(tpi_segment *s, tpi_frame *fr, int from);

#endif
