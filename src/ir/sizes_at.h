/* Sizes of a graph as numbers: what they are in one run. */
#ifndef TAPIR_SIZES_AT_H
#define TAPIR_SIZES_AT_H

#include "core/dim.h"

typedef struct tpi_run_sizes {
    const tpi_dims *dims;
    const int64_t *symbols; /* their values, by number */
} tpi_run_sizes;

static inline int64_t tpi_size_at(const tpi_run_sizes *r, int64_t dim)
{
    return tpi_dim_is_symbolic(dim) ? tpi_dim_eval(r->dims, dim, r->symbols) : dim;
}

static inline void tpi_shape_at(const tpi_run_sizes *r, const tp_tensor *node, int64_t *shape)
{
    for (int i = 0; i < node->rank; i++)
        shape[i] = tpi_size_at(r, node->shape[i]);
}

#endif
