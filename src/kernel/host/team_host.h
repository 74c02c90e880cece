/* A team: threads that share the work of one kernel.
 *
 * The work is cut into parts. A part computes some of the outputs, by the kernels of kernels_host.h, and no
 * output is in two parts. Each output is computed in the order that docs/numerics.md fixes, so the bits
 * do not depend on the number of threads. */
#ifndef TAPIR_TEAM_HOST_H
#define TAPIR_TEAM_HOST_H

#include "base/workers.h"
#include "kernel/host/kernels_host.h"

typedef struct tpi_team {
    const tpi_kernels *kernels;
    tpi_pool *pool; /* NULL: one thread */
} tpi_team;

/* How many multiply-adds a part has at least: they take one or two microseconds. To wake a thread takes half a
 * microsecond, and it reads what another one has in its cache, so smaller parts do not pay. Work for fewer
 * than two parts is not shared. */
#define TPI_PART_WORK 100e3
/* An op on one element in a loop nest takes as long as so many multiply-adds. */
#define TPI_NEST_OP 4.0

/* Into how many parts `work` multiply-adds are cut: 1 to the number of threads. */
int64_t tpi_team_parts(const tpi_team *t, double work);

/* Bytes of the workspace `ws`, which is aligned to 64. */
size_t tpi_team_products_ws(const tpi_team *t, const tpk_products *p);
void tpi_team_products(const tpi_team *t, const tpk_products *p, void *ws);

/* The same of convolutions, in a table that is reached through their ops alone, so that programs without them are
 * linked without this. `run` writes that one of x, w, y which c->which computes. */
typedef struct tpi_convolving {
    size_t (*ws)(const tpi_team *t, const tpk_convolution *c);
    void (*run)(const tpi_team *t, const tpk_convolution *c, void *ws);
    /* Bytes of workspace for one part: some images, some rows. */
    size_t (*part_ws)(const tpi_kernels *k, const tpk_convolution *c, const tpk_part *p);
    /* For parts of a conv of one group along its channels: the channels of every part but the last are a
     * multiple of this. */
    int64_t (*channel_step)(const tpi_kernels *k, const tpk_convolution *c);
    /* For programs: the kernels, and those that threads share. */
    const tpk_library *(*library)(const tpi_kernels *k);
    size_t (*program_ws)(const void *team, const tpk_convolution *c);
    void (*run_program)(const void *team, const tpk_convolution *c, void *ws,
                        const tpk_part *part);
} tpi_convolving;
extern const tpi_convolving tpi_team_convolving;

/* Calls a kernel that computes each place of the first two axes by itself. An element has `size` bytes. */
void tpi_team_planes(const tpi_team *t, tpi_isa_call call, int n_in, const tpk_view *in,
                     const tpk_view *out, const int64_t *attr, int64_t size);

/* How many products the batch has. */
int64_t tpi_products_count(const tpk_products *p);
/* Bytes of B in packed form, if parts of so many rows read it so; 0: they do not. */
size_t tpi_products_kept(const tpk_library *l, const tpk_products *p, int64_t rows);

/* Fills the library with t->kernels and the functions above; conv NULL: no convolutions. The team has to live as long
 * as it is used. */
void tpi_team_library(const tpi_team *t, const tpi_convolving *conv, tpk_library *library);

#endif
