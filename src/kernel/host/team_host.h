/* Kernels spread over threads. Each part computes outputs of its own with the kernels of
 * kernels_host.h, in the order that docs/numerics.md fixes for each output: so any number of
 * threads gives the same bits. */
#ifndef TAPIR_TEAM_HOST_H
#define TAPIR_TEAM_HOST_H

#include "base/workers.h"
#include "kernel/host/kernels_host.h"

typedef struct tpi_team {
    const tpi_kernels *kernels;
    tpi_pool *pool;     /* NULL: one thread */
    int64_t near_bytes; /* what a part of a band should make at most */
} tpi_team;

/* Multiply-adds of a product below which a part (a microsecond or two) is not worth the waking of a thread
 * (half of one) and what it reads from another one: a job of less than two of them is not shared. An op of
 * a nest takes as long as some of them. */
#define TPI_PART_WORK 100e3
#define TPI_NEST_OP 4.0

/* How many parts a job of `work` multiply-adds is worth: 1 to the number of threads. */
int64_t tpi_team_parts(const tpi_team *t, double work);

/* Bytes of workspace, aligned to 64. */
size_t tpi_team_products_ws(const tpi_team *t, const tpk_products *p);
void tpi_team_products(const tpi_team *t, const tpk_products *p, void *ws);
/* The operand that is computed is written. */
size_t tpi_team_convolution_ws(const tpi_team *t, const tpk_convolution *c);
void tpi_team_convolution(const tpi_team *t, const tpk_convolution *c, void *ws);

/* A called kernel that computes each place of the first two axes by itself; elements have so many bytes. */
void tpi_team_planes(const tpi_team *t, tpi_isa_call call, int n_in, const tpk_view *in,
                     const tpk_view *out, const int64_t *attr, int64_t size);

/* How many products it is, and bytes of a B that is packed for parts of so many rows: 0, when it is not. */
int64_t tpi_products_count(const tpk_products *p);
size_t tpi_products_kept(const tpk_library *l, const tpk_products *p, int64_t rows);
/* Workspace of a part of images and rows. */
size_t tpi_convolution_part_ws(const tpk_library *l, const tpk_convolution *c,
                               const tpk_part *p);

/* The library of t->kernels with the functions above in it. It refers to the team. */
void tpi_team_library(const tpi_team *t, tpk_library *library);

#endif
