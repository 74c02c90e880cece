/* The tile executor: the kernels of a plan, run by the library's own row kernels.
 *
 * A loop nest is read once for the sizes of a run and becomes a short list of instructions, each of
 * which does one op to a *tile*: a box of the iteration space of some thousand elements, whose values
 * lie one after the other in scratch memory that stays in the first cache. Calls go to the kernels
 * of eager use, with views of the plan's buffers. */
#ifndef TAPIR_TILES_H
#define TAPIR_TILES_H

#include "lower/block_code.h"
#include "lower/call_code.h"
#include "lower/loop.h"
#include "op/elementwise.h"
#include "run/program.h"

/* ---- loop nests ------------------------------------------------------------------------------------ */

/* Where an operand or result of an instruction is. */
enum { TPI_TILE_SCRATCH = -1, TPI_TILE_FIXED = -2 };
#define TPI_TILE_COMPACT INT64_MIN /* rows follow each other without gaps */
typedef struct tpi_tile_slot {
    int buffer;     /* of the program, or one of the above */
    int64_t offset; /* bytes from its beginning */
    const void *fixed;
    int64_t step[TP_MAX_RANK]; /* bytes per step of the outer axes */
    int64_t chunk, part;       /* bytes per step of the chunked axis; of the one in parts */
    char *line, *at;           /* while it runs: at this step of the outer axes; of this tile */
} tpi_tile_slot;

enum { TPI_TILE_ALL_ROWS = -1, TPI_TILE_PART_ROWS = -2 };

typedef enum tpi_tile_kind {
    TPI_TILE_ROW,     /* y = row(a, b, c) */
    TPI_TILE_EACH,    /* the same, one by one */
    TPI_TILE_FILL,    /* y = a, one element */
    TPI_TILE_SPREAD,  /* every element of a, as often as a row is long */
    TPI_TILE_GATHER,  /* y = the box of a */
    TPI_TILE_SCATTER, /* the box of y = a */
    TPI_TILE_REDUCE   /* y = the reductions of a's rows or columns */
} tpi_tile_kind;

/* When an instruction is done. Columns with a prologue are computed part by part, some rows at a time,
 * and added up; every TPK_BLOCK rows what has been added up is folded into the results. */
typedef enum tpi_tile_moment {
    TPI_TILE_ONCE,   /* per run */
    TPI_TILE_BEFORE, /* the parts of a tile */
    TPI_TILE_PART,   /* all, when there are no parts */
    TPI_TILE_FOLD,
    TPI_TILE_AFTER,
    TPI_TILE_MOMENTS
} tpi_tile_moment;

typedef struct tpi_tile_op {
    tpi_tile_kind kind;
    bool wide;        /* on full values; else on row values */
    uint8_t size;     /* of an element that is moved */
    uint8_t pitch[4]; /* EACH: bytes per element of y, a, b, c */
    int y, a, b, c;   /* slots */
    int box;          /* GATHER, SCATTER: number of the strides of its axes */
    int64_t stride;   /* REDUCE: elements between rows of a */
    int64_t rows;     /* REDUCE of columns: how many rows, or one of the below */
    union {
        tpi_row_fn row;
        tpi_scalar_fn scalar;
        tpi_reduce reduce;
    };
} tpi_tile_op;

/* The axes of a tile; those of a row value are the last of a column's, or the first of a row's. */
typedef struct tpi_tile_box {
    int rank, chunked, parted; /* which of the axes is the chunked one, or in parts; -1 */
    int64_t n[TP_MAX_RANK];
} tpi_tile_box;

typedef struct tpi_nest {
    bool columns, empty;
    int n_outer;
    int64_t outer[TP_MAX_RANK];
    int64_t n_chunk, chunk;      /* size of the chunked axis, and how much of it a tile takes */
    int64_t per_chunk, per_full; /* row elements per step of it; full ones per row element */
    int64_t n_part, part; /* size of the outermost reduced axis, what a part takes of it; */
    int64_t per_part;     /* full elements per step of it and row element */
    bool folds;           /* there are more than TPK_BLOCK rows */
    tpi_tile_box box[2];  /* of row values, of full ones */
    int n_slots, n_moving, n_boxes, end[TPI_TILE_MOMENTS];
    tpi_tile_slot *slots; /* the first one stands for no operand */
    int *moving;          /* slots that are elsewhere in every tile */
    tpi_tile_op *ops;     /* moment by moment */
    int64_t (*boxes)[TP_MAX_RANK];
    int64_t *numbers; /* literals that no constant holds */
    int n_numbers;
    size_t scratch; /* bytes that one thread needs */
    double work;    /* scalar operations */
    size_t bytes;   /* of all of this, in one block */
} tpi_nest;

/* The instructions of a loop nest at the sizes of this run; NULL when out of memory. */
tpi_nest *tpi_nest_new(const tp_program *p, const tpi_plan *plan, const tpi_kernel *k);
/* Those of a loop program whose memories are the buffers of these of the plan's values. */
tpi_nest *tpi_nest_of_loop(tp_ctx *ctx, const tpi_plan *plan, const tpi_loop *l);
void tpi_nest_free(tpi_mem *m, tpi_nest *n);
/* Bytes that a run by so many threads at most needs. */
size_t tpi_nest_scratch(const tpi_nest *n, int threads);
void tpi_nest_run(tpi_nest *n, const tpi_team *team, void *const *buffers, char *scratch);

/* ---- programs -------------------------------------------------------------------------------------- */

/* What is done at one kernel of the plan; NULL: not read yet, or for other sizes. */
typedef struct tpi_tile_kernel {
    bool late;      /* its sizes depend on how many turns a loop took */
    uint64_t epoch; /* of the sizes that it is for */
    tpi_nest *nest;
    tpi_call_code *call;    /* at these sizes */
    const tpi_block *block; /* for all sizes */
} tpi_tile_kernel;

typedef struct tpi_tiles {
    tp_program *p;
    tpi_bump memory;          /* of what is kept for all sizes */
    tpi_tile_kernel *kernels; /* by the kernel's number in the program */
    uint64_t sized, bound;    /* epochs: of all sizes, and of those that only a run tells */
    char *scratch;
    size_t scratch_size;
    int full; /* symbol whose loop takes more turns than there is memory for; -1 */
} tpi_tiles;

/* False when out of memory. */
bool tpi_tiles_new(tp_program *p);
void tpi_tiles_free(tpi_tiles *t);
/* The kernels of a plan in their order. False: t->full is set, or the context's error tells. */
bool tpi_tiles_run(tpi_session *s, const tpi_plan *plan);
/* A block: its bodies' kernels as often as its run says. */
bool tpi_tiles_block(tpi_session *s, const tpi_plan *plan, const tpi_block *b);

#endif
