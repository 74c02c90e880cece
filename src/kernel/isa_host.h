/* What each copy of src/kernel/isa gives to its table. */
#ifndef TAPIR_ISA_HOST_H
#define TAPIR_ISA_HOST_H

#include "kernel/kernels_host.h"

#define TPI_ISA_PASTE_(name, isa) name##_##isa
#define TPI_ISA_PASTE(name, isa) TPI_ISA_PASTE_(name, isa)
#define TPI_ISA_NAME(name) TPI_ISA_PASTE(name, TPI_ISA)
#define TPI_ISA_TEXT_(isa) #isa
#define TPI_ISA_TEXT(isa) TPI_ISA_TEXT_(isa)

/* elem_rows.c */
extern const tpi_row TPI_ISA_NAME(tpi_isa_rows)[TPI_N_ELEMS][TPI_N_ELEMENT_TYPES][TPI_N_ROWS];
extern const tpi_row TPI_ISA_NAME(tpi_isa_casts)[TPI_N_ELEMENT_TYPES][TPI_N_ELEMENT_TYPES];
/* reduce_rows.c */
extern const tpi_reduce TPI_ISA_NAME(tpi_isa_reduce_rows)[TPI_N_REDUCES][2];
extern const tpi_reduce TPI_ISA_NAME(tpi_isa_reduce_columns)[TPI_N_REDUCES][2];
/* contract.c */
void TPI_ISA_NAME(tpi_isa_gemm_f32)(int64_t m, int64_t n, int64_t k, const float *a,
                                    int64_t a_rs, int64_t a_cs, const float *b, int64_t b_rs,
                                    int64_t b_cs, float *c, int64_t c_rs, void *ws);
void TPI_ISA_NAME(tpi_isa_gemm_f64)(int64_t m, int64_t n, int64_t k, const double *a,
                                    int64_t a_rs, int64_t a_cs, const double *b, int64_t b_rs,
                                    int64_t b_cs, double *c, int64_t c_rs, void *ws);
size_t TPI_ISA_NAME(tpi_isa_gemm_ws_f32)(int64_t m, int64_t n, int64_t k);
size_t TPI_ISA_NAME(tpi_isa_gemm_ws_f64)(int64_t m, int64_t n, int64_t k);
#define TPI_ISA_CONV(name)                                                                     \
    void TPI_ISA_NAME(name##_f32)(const struct tpk_conv *c, const void *x, const void *w,      \
                                  const void *y, void *out, void *ws);                         \
    void TPI_ISA_NAME(name##_f64)(const struct tpk_conv *c, const void *x, const void *w,      \
                                  const void *y, void *out, void *ws);                         \
    size_t TPI_ISA_NAME(name##_ws_f32)(const struct tpk_conv *c);                              \
    size_t TPI_ISA_NAME(name##_ws_f64)(const struct tpk_conv *c)
TPI_ISA_CONV(tpi_isa_conv);
TPI_ISA_CONV(tpi_isa_conv_dx);
TPI_ISA_CONV(tpi_isa_conv_dw);
/* random_rows.c */
int64_t TPI_ISA_NAME(tpi_isa_random_f32)(const struct tpk_view *in, const struct tpk_view *out,
                                         const int64_t *attr);
int64_t TPI_ISA_NAME(tpi_isa_random_f64)(const struct tpk_view *in, const struct tpk_view *out,
                                         const int64_t *attr);
#if defined(__AVX512F__) /* draws with what AVX2 has */
int64_t tpi_isa_random_f32_avx2(const struct tpk_view *in, const struct tpk_view *out,
                                const int64_t *attr);
int64_t tpi_isa_random_f64_avx2(const struct tpk_view *in, const struct tpk_view *out,
                                const int64_t *attr);
#endif

#endif
