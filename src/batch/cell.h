/* Cells: calls of pure functions that wait in a queue, each as one unit, and that are one node of a tape.
 *
 * The function is run once on symbols, which makes a body of one sample (transform/one_body.h). As for tp_vmap a graph of n
 * samples is made of it, and of that programs: `forward`, from operands to results and *taps*, the values of products; and
 * for each set of results that gradients reach and of operands that want one a program *back*, from operands, taps and
 * these gradients. It computes what is cheap once more. Programs have the bits of the ops.
 *
 *     %7 = cell %0, %1, %2, %3     arguments, what is shared by all calls, taps, and what keeps the cell
 *     %8 = part %7 {index=0}       result 0 of the call
 *
 * Gradients of right matrices are joined outside, with those of all other products (grad/sweep.h): for them a program
 * back gives rows. Another shared operand gets the gradient of each call by itself. Who walks over such nodes and is no sweep
 * that could take them as they are has the ops of the body called: the cell becomes a `call`, its parts `result`s.
 *
 * cell.c finds or makes the cell of a call; cell_many.c makes its graph of n samples, cell_programs.c the programs;
 * cell_tape.c has the nodes, cell_run.c runs programs. */
#ifndef TAPIR_CELL_H
#define TAPIR_CELL_H

#include "batch/function_call.h"
#include "run/program.h"
#include "transform/one_body.h"

enum {
    TPI_CELL_MOST =
        64, /* operands, of which there is a bit each; half as many arguments, results and taps */
    TPI_CELL_OPS = 4096 /* of a body */
};

/* What a program takes or gives, of one sample. */
typedef struct tpi_cell_port {
    uint8_t dtype, rank;
    bool
        joined; /* in the program the first axes of all samples are one; else samples are an axis in front */
    bool shared;    /* all samples have the same */
    bool of_result; /* fed: the gradient of result n; else: operand n of the node */
    /* Given: rows of a product with operand n, and in the next port those of its gradient; else operand n's gradient. */
    bool rows;
    int32_t n;
    int64_t shape[TP_MAX_RANK];
} tpi_cell_port;

typedef struct tpi_batch_cell tpi_batch_cell;
typedef struct tpi_cell_side tpi_cell_side;
struct tpi_cell_side {
    tpi_cell_side *next;
    tpi_batch_cell *cell;
    uint64_t met, wanted; /* of one that goes back: results, operands; bits */
    tp_program *program;
    int n_in, n_out, n_varying; /* those fed that are not shared */
    tpi_cell_port *in, *out;
};

/* How a shared operand gets its gradient. */
typedef enum tpi_cell_role {
    TPI_CELL_NO_GRADIENT,
    TPI_CELL_RIGHT_MATRIX,
    TPI_CELL_EACH
} tpi_cell_role;

typedef struct tpi_cell_shared {
    tp_tensor *t; /* one reference */
    int param;    /* of the body */
    bool asks;    /* requires a gradient, as it did */
    bool led;     /* where each call has a gradient of it, a sum in it leaves no -0 */
    uint8_t role;
    tp_tensor *node, *end; /* of `many`: the placeholder, and what stands for it to gradients */
} tpi_cell_shared;

struct tpi_batch_cell {
    tpi_batch_cell *next;
    tp_ctx *ctx;
    tpi_bump memory; /* of what follows, and of sides */
    const char *name;
    tpi_at at;
    tp_engine engine;
    bool made;       /* not before the second call */
    bool looks;      /* C has looked at values in a call like these, or done what is no op */
    const char *why; /* calls like these are no cell; NULL: they are */
    /* Calls like these: */
    bool recording, training;
    int n_in, n_out;
    tpi_cell_port *args; /* as they are */
    bool *asks;          /* by argument: requires a gradient */
    void *watched;
    size_t n_watched;
    /* What they do: */
    tpi_one_body one;
    int n_shared, n_taps;
    tpi_cell_shared *shared;
    tp_graph *many;
    int64_t samples; /* its symbol */
    tp_tensor **x, **y, **taps,
        **dys; /* of `many`: arguments, results, values of products, gradients of results or NULL */
    tpi_cell_port *results; /* and then the taps */
    bool *asked;            /* by result: a gradient may be asked of it */
    tpi_cell_side *forward, *back;
    tp_tensor *holder; /* keeps the cell; not held */
};

/* cell.c. The cell of calls like this one; NULL: there is none, and the body is to run. */
tpi_batch_cell *tpi_cell_of(tp_ctx *ctx, const tpi_function_call *call);

/* cell_many.c. The graph of n samples; NULL, or why there is none ("" when memory is out). */
const char *tpi_cell_build(tpi_batch_cell *c);
/* One sample of node t of that graph, whose first axis is that of the samples, or has those of all. False: it is neither. */
bool tpi_cell_one_of(const tpi_batch_cell *c, const tp_tensor *t, bool joined,
                     tpi_cell_port *p);

/* cell_programs.c. The same for the program forward, and the one back that takes and gives all, if a gradient may be asked. */
const char *tpi_cell_compile(tpi_batch_cell *c);
/* The one for these results and operands; NULL: the context's error tells. */
tpi_cell_side *tpi_cell_back(tpi_batch_cell *c, tpi_at at, uint64_t met, uint64_t wanted);

/* cell_tape.c. Makes results y[n_out] of a call, and taps, behind them, nodes of a tape. False: no memory. */
bool tpi_cell_record(const tpi_batch_cell *c, tpi_at at, tp_tensor *const *in, tp_tensor **y);

/* cell_run.c. One call: in[] by those ports that are not shared, in order; sets y[n_out]. In a queue it waits, else it is
 * computed now. False: no memory. */
bool tpi_cell_start(const tpi_cell_side *s, tpi_at at, tp_tensor *const *in, tp_tensor **y);
/* n calls, with good operands in[i * n_varying + k]. y[i * n_out + k], which wait, get their values, or have failed. */
void tpi_cell_run(const tpi_cell_side *s, tpi_at at, int n, tp_tensor *const *in,
                  tp_tensor *const *y);

#endif
