/* Kernels spread over threads. Each part computes outputs of its own with the kernels of
 * kernels_host.h, in the order that docs/numerics.md fixes for each output: so any number of
 * threads gives the same bits. */
#ifndef TAPIR_TEAM_HOST_H
#define TAPIR_TEAM_HOST_H

#include "base/workers.h"
#include "kernel/convspec.h"
#include "kernel/kernels_host.h"

typedef struct tpi_team {
    const tpi_kernels *kernels;
    tpi_pool *pool; /* NULL: one thread */
} tpi_team;

/* How many parts a job of `work` scalar operations is worth: 1 to the number of threads. */
int64_t tpi_team_parts(const tpi_team *t, double work);

/* A batch of products C = A B, with all sizes and strides in elements; columns of C are
 * contiguous. */
typedef struct tpi_products {
    bool f64;
    int64_t m, n, k, a_rs, a_cs, b_rs, b_cs, c_rs;
    int lead; /* axes of the batch */
    int64_t batch[TP_MAX_RANK], a_bs[TP_MAX_RANK], b_bs[TP_MAX_RANK], c_bs[TP_MAX_RANK];
    const void *a, *b;
    void *c;
} tpi_products;

/* Bytes of workspace, aligned to 64. */
size_t tpi_team_products_ws(const tpi_team *t, const tpi_products *p);
void tpi_team_products(const tpi_team *t, const tpi_products *p, void *ws);

/* One of the three convolutions of convspec.h: the operand that is computed is written. */
typedef struct tpi_convolution {
    int which; /* 0 conv, 1 conv_dx, 2 conv_dw */
    bool f64;
    tpk_conv spec;
    void *x, *w, *y;
} tpi_convolution;

size_t tpi_team_conv_ws(const tpi_team *t, const tpi_convolution *c);
void tpi_team_conv(const tpi_team *t, const tpi_convolution *c, void *ws);

#endif
