/* Kernels spread over threads. Each part computes outputs of its own with the kernels of
 * kernels_host.h, in the order that docs/numerics.md fixes for each output: so any number of
 * threads gives the same bits. */
#ifndef TAPIR_TEAM_HOST_H
#define TAPIR_TEAM_HOST_H

#include "base/workers.h"
#include "kernel/kernels_host.h"

typedef struct tpi_team {
    const tpi_kernels *kernels;
    tpi_pool *pool; /* NULL: one thread */
} tpi_team;

/* Scalar operations below which a part is not worth the waking of a thread (some microseconds): a job
 * of less than two of them is not shared. */
#define TPI_PART_WORK 200e3

/* How many parts a job of `work` scalar operations is worth: 1 to the number of threads. */
int64_t tpi_team_parts(const tpi_team *t, double work);

/* Bytes of workspace, aligned to 64. */
size_t tpi_team_products_ws(const tpi_team *t, const tpk_products *p);
void tpi_team_products(const tpi_team *t, const tpk_products *p, void *ws);
/* The operand that is computed is written. */
size_t tpi_team_convolution_ws(const tpi_team *t, const tpk_convolution *c);
void tpi_team_convolution(const tpi_team *t, const tpk_convolution *c, void *ws);

/* The library of t->kernels with the functions above in it. It refers to the team. */
void tpi_team_library(const tpi_team *t, tpk_library *library);

#endif
