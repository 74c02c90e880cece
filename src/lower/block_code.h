/* A block as a list of what is done around the kernels of its bodies: where these find their operands, and leave their
 * results, turn by turn. Nothing else is done per turn.
 *
 * Carried value i is read at pointer `now` i, and written to `next` i; `other` i is where it was read before, and will
 * be written next. */
#ifndef TAPIR_BLOCK_CODE_H
#define TAPIR_BLOCK_CODE_H

#include "base/bump.h"
#include "plan/plan.h"

/* What a pointer of the block is for; its name begins with the letter. */
typedef enum tpi_block_pointer {
    TPI_POINTER_NOW,   /* c */
    TPI_POINTER_NEXT,  /* n */
    TPI_POINTER_OTHER, /* o */
    TPI_POINTER_SLICE, /* x: the first element of a slice, */
    TPI_POINTER_STACK, /* y: of a stack */
    TPI_N_POINTERS
} tpi_block_pointer;

/* An address in memory. */
typedef enum tpi_block_address_kind {
    TPI_ADDRESS_BUFFER,  /* the buffer n, as numbered in the program */
    TPI_ADDRESS_POINTER, /* pointer n of that name */
    TPI_ADDRESS_NUMBER,  /* the variable that has the number of the turn */
    TPI_ADDRESS_GO       /* the one that says whether there is a next turn */
} tpi_block_address_kind;

typedef struct tpi_block_address {
    tpi_block_address_kind kind;
    tpi_block_pointer pointer;
    int n;
    int even;              /* another buffer, for an even number of turns; -1 */
    int width;             /* offset and step are in elements of so many bytes */
    int64_t offset;        /* a size */
    int64_t step;          /* a size: for each number of the turn; */
    const tp_tensor *each; /* or this, all elements of something like it; NULL */
} tpi_block_address;

typedef enum tpi_block_kind {
    TPI_BLOCK_COPY, /* the elements of the block's operand `operand`, in row-major order, to `to` */
    TPI_BLOCK_MOVE, /* the bytes of something like `like` from `from` to `to`, unless these are one place */
    TPI_BLOCK_SET,   /* pointer `to` is `from` */
    TPI_BLOCK_POINT, /* kernels find the buffer `to` at `from` */
    TPI_BLOCK_TURN   /* carried value `to`: c, n, o = n, o, n */
} tpi_block_kind;

typedef struct tpi_block_stmt {
    tpi_block_kind kind;
    tpi_block_address to, from;
    int operand;
    const tp_tensor *like;
} tpi_block_stmt;

/* When a statement is done. */
typedef enum tpi_block_moment {
    TPI_BLOCK_BEFORE, /* once */
    TPI_BLOCK_BODY,   /* of a loop: before each turn; of a cond: before the first body */
    TPI_BLOCK_NEXT,   /* after each turn; before the second body */
    TPI_BLOCK_AFTER,  /* once */
    TPI_BLOCK_MOMENTS
} tpi_block_moment;

typedef struct tpi_block {
    const tpi_section *section;
    const tpi_loop_attrs *loop; /* NULL: a cond */
    tpi_block_stmt *stmt;
    int n, size, end[TPI_BLOCK_MOMENTS]; /* by moment: the first statement behind it */
    tpi_block_address pred;              /* of a cond, and of a loop with loop->has_pred */
    int token;                           /* buffer of the block's token; -1 */
    int symbol;                          /* of the number of turns it takes; -1: nobody asks */
    bool numbered;                       /* the number of the turn is used */
} tpi_block;

/* NULL: no memory, and memory->failed is set. */
tpi_block *tpi_lower_block(tpi_bump *memory, const tpi_plan *plan, const tpi_section *s);

/* block_text.c: its statements, moment by moment. */
void tpi_block_print(const tpi_block *b, int indent, tpi_str *out);
extern const char tpi_pointer_letter[TPI_N_POINTERS];

static inline int tpi_block_first(const tpi_block *b, tpi_block_moment moment)
{
    return moment == TPI_BLOCK_BEFORE ? 0 : b->end[moment - 1];
}

#endif
