/* Arithmetic of sizes, as ONNX has it of integers. */
#include "onnx/import/import_inner.h"

/* A number that may be negative is no size, so the table of sizes is asked for what it can do. */
int64_t tpi_onnx_dim_add(tpi_onnx_op *o, int64_t a, int64_t b)
{
    const bool sa = tpi_dim_is_symbolic(a), sb = tpi_dim_is_symbolic(b);
    int64_t sum;
    if (!sa && !sb)
        return __builtin_add_overflow(a, b, &sum) || tpi_dim_is_symbolic(sum) ? TPI_NO_DIM
                                                                              : sum;
    if (!sa && a < 0)
        return a == INT64_MIN ? TPI_NO_DIM : tpi_dim_sub(o->g->dims, b, -a);
    if (!sb && b < 0)
        return b == INT64_MIN ? TPI_NO_DIM : tpi_dim_sub(o->g->dims, a, -b);
    return tpi_dim_add(o->g->dims, a, b);
}

int64_t tpi_onnx_dim_sub(tpi_onnx_op *o, int64_t a, int64_t b)
{
    if (!tpi_dim_is_symbolic(b))
        return b == INT64_MIN ? TPI_NO_DIM : tpi_onnx_dim_add(o, a, -b);
    return a < 0 && !tpi_dim_is_symbolic(a) ? TPI_NO_DIM : tpi_dim_sub(o->g->dims, a, b);
}

int64_t tpi_onnx_dim_mul(tpi_onnx_op *o, int64_t a, int64_t b)
{
    const bool sa = tpi_dim_is_symbolic(a), sb = tpi_dim_is_symbolic(b);
    int64_t product;
    if (!sa && !sb)
        return __builtin_mul_overflow(a, b, &product) || tpi_dim_is_symbolic(product)
                   ? TPI_NO_DIM
                   : product;
    if (!sa && a < 0)
        return tpi_onnx_dim_mul(o, b, a);
    if (sb || b >= 0)
        return tpi_dim_mul(o->g->dims, a, b);
    return b == INT64_MIN ? TPI_NO_DIM
                          : tpi_dim_sub(o->g->dims, 0, tpi_dim_mul(o->g->dims, a, -b));
}

int64_t tpi_onnx_dim_product(tpi_onnx_op *o, int n, const int64_t *sizes)
{
    int64_t product = 1;
    for (int i = 0; i < n; i++)
        product = tpi_onnx_dim_mul(o, product, sizes[i]);
    return product;
}

/* A table of sizes rounds down, and what is divided may be negative when the symbols are small. Where the
 * quotient is a division the run refuses that; 2*n-1 over 2 is none, but n-1. */
static bool demand_positive(tpi_onnx_op *o, int64_t a, int64_t b, int64_t down)
{
    const tpi_dims *dims = o->g->dims;
    const int64_t *zeros =
        tpi_onnx_take(o->im->m, (size_t)tpi_dim_n_symbols(dims), sizeof *zeros);
    if (!zeros)
        return false;
    const int64_t least = tpi_dim_eval_stride(dims, a, zeros);
    const int64_t value = tpi_dim_eval_stride(dims, down, zeros);
    return least >= 0 || value == TPI_NO_DIM || value == least / b ||
           tpi_onnx_demand(o, tpi_dim_min(o->g->dims, a, 0), 0);
}

int64_t tpi_onnx_dim_div(tpi_onnx_op *o, int64_t a, int64_t b)
{
    const bool sa = tpi_dim_is_symbolic(a), sb = tpi_dim_is_symbolic(b);
    if (!sa && !sb)
        return b == 0 || (a == INT64_MIN && b == -1) ? TPI_NO_DIM : a / b;
    if ((!sa && a < 0) || (!sb && b <= 0))
        return TPI_NO_DIM;
    if (sa && tpi_dim_at_most(o->g->dims, a, 0)) {
        const int64_t up = tpi_dim_div(o->g->dims, tpi_dim_sub(o->g->dims, 0, a), b);
        return up == TPI_NO_DIM ? up : tpi_onnx_dim_sub(o, 0, up);
    }
    const int64_t down = tpi_dim_div(o->g->dims, a, b);
    return !sb && down != TPI_NO_DIM && !demand_positive(o, a, b, down) ? TPI_NO_DIM : down;
}

int64_t tpi_onnx_dim_min(tpi_onnx_op *o, int64_t a, int64_t b)
{
    return tpi_dim_min(o->g->dims, a, b);
}

int64_t tpi_onnx_dim_max(tpi_onnx_op *o, int64_t a, int64_t b)
{
    const int64_t least = tpi_onnx_dim_min(o, a, b);
    return least == TPI_NO_DIM ? least : tpi_onnx_dim_sub(o, tpi_onnx_dim_add(o, a, b), least);
}
