/* Where the buffers of a plan lie in its arena, as formulas of the program's sizes: one placement, which
 * runs evaluate, files that stand alone compute in C, and `tapir show --memory` prints.
 *
 * An amount of bytes is a size and up to two *maxima*, numbered amounts that are each the greatest of
 * some others of which they consist. Where no size is a symbol all amounts are numbers. */
#ifndef TAPIR_ARENA_H
#define TAPIR_ARENA_H

#include "base/strbuf.h"
#include "plan/plan.h"

typedef struct tpi_amount {
    int64_t size;   /* TPI_NO_DIM: none */
    int maximum[2]; /* numbers; -1 */
} tpi_amount;

typedef struct tpi_maximum {
    int first, n; /* its parts: of maxima before it */
} tpi_maximum;

typedef struct tpi_arena {
    tpi_mem *m;
    const tpi_dims *dims;
    int n_buffers;
    tpi_amount *bytes,
        *offset; /* by buffer of the program: of those in an arena, in their plan's */
    tpi_maximum *maxima;
    int n_maxima;
    tpi_amount *parts;
    int n_parts;
    tpi_amount total;
    bool too_large; /* for a number, or too long an expression: there are no places */
} tpi_arena;

/* The placement of a plan and of its blocks' bodies; the buffers of the plan itself live as `buffers` tell.
 * NULL: no memory. */
tpi_arena *tpi_arena_new(tpi_bump *memory, const tpi_plan *plan, const tpi_buffer *buffers);

/* At these sizes: bytes and offsets by number of the program (-1 of those that are elsewhere), NULL: not
 * asked for; what the arena takes. False: no memory, or too large for a number. */
bool tpi_arena_at(const tpi_arena *a, const int64_t *symbols, int64_t *bytes, int64_t *offset,
                  int64_t *total);

static inline bool tpi_amount_is_number(const tpi_amount *v)
{
    return v->maximum[0] < 0 && !tpi_dim_is_symbolic(v->size);
}

/* "m0+1024*batch", or as C over variables s0, s1, ... that are the symbols and m0, m1, ... */
void tpi_put_amount(tpi_str *out, const tpi_arena *a, const tpi_amount *v, bool c);

#endif
