/* What each copy of src/kernel/isa gives to its table. */
#ifndef TAPIR_ISA_HOST_H
#define TAPIR_ISA_HOST_H

#include "kernel/host/kernels_host.h"

#define TPI_ISA_PASTE_(name, isa) name##_##isa
#define TPI_ISA_PASTE(name, isa) TPI_ISA_PASTE_(name, isa)
#define TPI_ISA_NAME(name) TPI_ISA_PASTE(name, TPI_ISA)
#define TPI_ISA_TEXT_(isa) #isa
#define TPI_ISA_TEXT(isa) TPI_ISA_TEXT_(isa)

/* elem_rows.c */
extern const tpi_row_fn
    TPI_ISA_NAME(tpi_isa_rows)[TPI_N_ELEMS][TPI_N_ROW_TYPES][TPI_N_ROWS];
extern const tpi_row_fn TPI_ISA_NAME(tpi_isa_casts)[TPI_N_ELEMENT_TYPES][TPI_N_ELEMENT_TYPES];
/* reduce_rows.c */
extern const tpi_reduce TPI_ISA_NAME(tpi_isa_reduce_rows)[TPI_N_REDUCES][2];
extern const tpi_reduce TPI_ISA_NAME(tpi_isa_reduce_columns)[TPI_N_REDUCES][2];
extern const tpi_reduce TPI_ISA_NAME(tpi_isa_reduce_more)[TPI_N_REDUCES][2];
#define TPI_ISA_REDUCE(op, t)                                                                  \
    tpk_##t TPI_ISA_NAME(tpi_isa_##op##_##t)(const tpk_##t *x, int64_t n);                     \
    tpk_##t TPI_ISA_NAME(tpi_isa_##op##_block_##t)(const tpk_##t *x, int64_t n, int lanes)
TPI_ISA_REDUCE(sum, f32);
TPI_ISA_REDUCE(prod, f32);
TPI_ISA_REDUCE(max, f32);
TPI_ISA_REDUCE(min, f32);
TPI_ISA_REDUCE(sum, f64);
TPI_ISA_REDUCE(prod, f64);
TPI_ISA_REDUCE(max, f64);
TPI_ISA_REDUCE(min, f64);
/* contract.c */
extern const tpk_library TPI_ISA_NAME(tpi_isa_library);
extern const tpk_library TPI_ISA_NAME(tpi_isa_conv_library);
/* index_rows.c, pool_rows.c */
#define TPI_ISA_CALL(name)                                                                     \
    int64_t TPI_ISA_NAME(name##_f32)(const tpk_view *in, const tpk_view *out,                  \
                                     const int64_t *attr)
TPI_ISA_CALL(tpi_isa_gather);
TPI_ISA_CALL(tpi_isa_take_along);
TPI_ISA_CALL(tpi_isa_scatter);
TPI_ISA_CALL(tpi_isa_argtopk);
TPI_ISA_CALL(tpi_isa_max_pool);
TPI_ISA_CALL(tpi_isa_max_pool_dx);
TPI_ISA_CALL(tpi_isa_avg_pool);
/* random_rows.c */
int64_t TPI_ISA_NAME(tpi_isa_random_f32)(const tpk_view *in, const tpk_view *out,
                                         const int64_t *attr);
int64_t TPI_ISA_NAME(tpi_isa_random_f64)(const tpk_view *in, const tpk_view *out,
                                         const int64_t *attr);
/* sums_of_rows.c */
int64_t TPI_ISA_NAME(tpi_isa_add_rows_f32)(const tpk_view *in, const tpk_view *out,
                                           const int64_t *attr);
int64_t TPI_ISA_NAME(tpi_isa_add_rows_f64)(const tpk_view *in, const tpk_view *out,
                                           const int64_t *attr);
/* matrices.c: defines the functions of TPI_SET_CALLS for one set */
#define TPI_ISA_CALLS(name)                                                                    \
    TPI_ISA_CALL_OF(name, f32)                                                                 \
    TPI_ISA_CALL_OF(name, f64)
#define TPI_ISA_CALL_OF(name, t)                                                               \
    tpi_isa_call_fn TPI_ISA_NAME(tpi_isa_##name##_##t);                                        \
    int64_t TPI_ISA_NAME(tpi_isa_##name##_##t)(const tpk_view *in, const tpk_view *out,        \
                                               const int64_t *attr)                            \
    {                                                                                          \
        return tpk_##name##_##t(in, out, attr);                                                \
    }
#if defined(__AVX512F__) /* draws with what AVX2 has */
int64_t tpi_isa_random_f32_avx2(const tpk_view *in, const tpk_view *out, const int64_t *attr);
int64_t tpi_isa_random_f64_avx2(const tpk_view *in, const tpk_view *out, const int64_t *attr);
#endif

#endif
