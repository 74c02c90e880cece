/* Keeping the arena of a plan under a limit. */
#ifndef TAPIR_BUDGET_H
#define TAPIR_BUDGET_H

#include "ir/sizes_at.h"
#include "plan/arena.h"

typedef struct tpi_budget {
    tpi_at at; /* for errors */
    const char *what;
    int64_t limit;          /* bytes */
    const int64_t *symbols; /* the sizes at which it is kept */
} tpi_budget;

/* Rewrites a graph before it is planned, so that its arena keeps the budget; the bits stay. The graph is used
 * up; the new one is returned, and feeds[] and roots[] are its nodes. NULL: it cannot be, or no memory; the
 * context's error tells what is in the way. */
tp_graph *tpi_budget_fit(const tpi_budget *b, tp_graph *g, tpi_fusing fuse, int n_feeds,
                         tp_tensor **feeds, int n_roots, tp_tensor **roots);
/* The most bytes of the arena that are in use while a kernel runs, of which *at is the first; live: all
 * of these, by kernel. */
int64_t tpi_budget_peak(const tpi_plan *plan, const int64_t *bytes, int64_t *live, int *at);
/* The error of a plan whose arena takes more. */
void tpi_budget_refuse(const tpi_budget *b, const tpi_plan *plan, const tpi_arena *arena);

#endif
