/* Reductions of rows and columns for one instruction set. */
#define TPK_APART static __attribute__((noinline))
#include "kernel/isa/isa_host.h"
#include "kernel/text/reduce.h"

#define REDUCE(op, t)                                                                          \
    tpk_##t TPI_ISA_NAME(tpi_isa_##op##_##t)(const tpk_##t *x, int64_t n)                      \
    {                                                                                          \
        return tpk_reduce_##op##_##t(x, n);                                                    \
    }                                                                                          \
    tpk_##t TPI_ISA_NAME(tpi_isa_##op##_block_##t)(const tpk_##t *x, int64_t n, int lanes)     \
    {                                                                                          \
        return tpk_reduce_##op##_block_##t(x, n, lanes);                                       \
    }                                                                                          \
    static void op##_rows_##t(int64_t rows, int64_t n, const void *x, int64_t stride, void *y) \
    {                                                                                          \
        for (int64_t i = 0; i < rows; i++)                                                     \
            ((tpk_##t *)y)[i] =                                                                \
                TPI_ISA_NAME(tpi_isa_##op##_##t)((const tpk_##t *)x + i * stride, n);          \
    }                                                                                          \
    static void op##_columns_##t(int64_t rows, int64_t n, const void *x, int64_t stride,       \
                                 void *y)                                                      \
    {                                                                                          \
        tpk_reduce_##op##_columns_##t(rows, n, x, stride, y);                                  \
    }                                                                                          \
    static void op##_more_##t(int64_t rows, int64_t n, const void *x, int64_t stride, void *y) \
    {                                                                                          \
        tpk_reduce_##op##_rows_##t(y, x, stride, rows, n);                                     \
    }
REDUCE(sum, f32)
REDUCE(prod, f32)
REDUCE(max, f32)
REDUCE(min, f32)
REDUCE(sum, f64)
REDUCE(prod, f64)
REDUCE(max, f64)
REDUCE(min, f64)

const tpi_reduce TPI_ISA_NAME(tpi_isa_reduce_rows)[TPI_N_REDUCES][2] = {
    [TPI_REDUCE_SUM] = {sum_rows_f32,  sum_rows_f64 },
    [TPI_REDUCE_PROD] = {prod_rows_f32, prod_rows_f64},
    [TPI_REDUCE_MAX] = {max_rows_f32,  max_rows_f64 },
    [TPI_REDUCE_MIN] = {min_rows_f32,  min_rows_f64 },
};
const tpi_reduce TPI_ISA_NAME(tpi_isa_reduce_columns)[TPI_N_REDUCES][2] = {
    [TPI_REDUCE_SUM] = {sum_columns_f32,  sum_columns_f64 },
    [TPI_REDUCE_PROD] = {prod_columns_f32, prod_columns_f64},
    [TPI_REDUCE_MAX] = {max_columns_f32,  max_columns_f64 },
    [TPI_REDUCE_MIN] = {min_columns_f32,  min_columns_f64 },
};
const tpi_reduce TPI_ISA_NAME(tpi_isa_reduce_more)[TPI_N_REDUCES][2] = {
    [TPI_REDUCE_SUM] = {sum_more_f32,  sum_more_f64 },
    [TPI_REDUCE_PROD] = {prod_more_f32, prod_more_f64},
    [TPI_REDUCE_MAX] = {max_more_f32,  max_more_f64 },
    [TPI_REDUCE_MIN] = {min_more_f32,  min_more_f64 },
};
