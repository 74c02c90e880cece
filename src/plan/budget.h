/* Keeping a program's arena under a limit. */
#ifndef TAPIR_BUDGET_H
#define TAPIR_BUDGET_H

#include "run/program.h"

/* Rewrites the graph, before it is planned, so that its arena takes p->memory_limit bytes at most at
 * the sizes of p->symbols; the bits stay. False: it cannot be, the error tells what is in the way,
 * or no memory. */
bool tpi_program_fit(tp_program *p, tpi_at at, const char *what, tpi_fusing fuse);
/* The most bytes of the arena that are in use while a kernel runs, of which *at is the first; live: all
 * of these, by kernel. */
int64_t tpi_program_peak(const tpi_plan *plan, const int64_t *bytes, int64_t *live, int *at);
/* The error of a run whose sizes take more. */
void tpi_program_refuse(tp_program *p, tpi_at at, const char *what);

#endif
