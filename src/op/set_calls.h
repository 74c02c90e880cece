/* Kernels by instruction set that are linked with their op alone: op->isa_call TPI_ISA_of_op. */
#ifndef TAPIR_SET_CALLS_H
#define TAPIR_SET_CALLS_H

#include "kernel/host/kernels_host.h"

/* TPI_SET_CALLS(name) makes <name>_calls, for op->call, of tpi_isa_<name>_f32_base and _f64_base, and behind them,
 * by set, of tpi_isa_<name>_f32_avx2 and its like (src/kernel/isa); TPI_AVX2_CALLS has those of AVX2 for AVX-512, too. */
#define TPI_OWN_CALLS(name, ...)                                                               \
    extern tpi_isa_call_fn tpi_isa_##name##_f32_base, tpi_isa_##name##_f64_base;               \
    static const tpi_call name##_calls[TP_N_DTYPES + 2 * TPI_N_SETS] = {                       \
        [TP_F32] = tpi_isa_##name##_f32_base,                                                  \
        [TP_F64] = tpi_isa_##name##_f64_base,                                                  \
        ##__VA_ARGS__};
#define TPI_CALL_AT(set, wide) [TP_N_DTYPES + 2 * TPI_SET_##set + wide]
#define TPI_SETS(name, isa)                                                                    \
    extern tpi_isa_call_fn tpi_isa_##name##_f32_avx2, tpi_isa_##name##_f64_avx2,               \
        tpi_isa_##name##_f32_##isa, tpi_isa_##name##_f64_##isa;                                \
    TPI_OWN_CALLS(name, TPI_CALL_AT(avx2, 0) = tpi_isa_##name##_f32_avx2,                      \
                  TPI_CALL_AT(avx2, 1) = tpi_isa_##name##_f64_avx2,                            \
                  TPI_CALL_AT(avx512, 0) = tpi_isa_##name##_f32_##isa,                         \
                  TPI_CALL_AT(avx512, 1) = tpi_isa_##name##_f64_##isa)
/* Of ops with kernels for more types: declares those of f32 by set, and has them for the table; ..._AVX2 those of
 * AVX2, for AVX-512, too. */
#if defined(__x86_64__)
#define TPI_DECLARE_F32_BY_SET(name)                                                           \
    extern tpi_isa_call_fn tpi_isa_##name##_f32_avx2, tpi_isa_##name##_f32_avx512
#define TPI_F32_BY_SET(name)                                                                   \
    TPI_CALL_AT(avx2, 0) = tpi_isa_##name##_f32_avx2,                                          \
                      TPI_CALL_AT(avx512, 0) = tpi_isa_##name##_f32_avx512
#define TPI_DECLARE_F32_AVX2(name) extern tpi_isa_call_fn tpi_isa_##name##_f32_avx2
#define TPI_F32_AVX2(name)                                                                     \
    TPI_CALL_AT(avx2, 0) = tpi_isa_##name##_f32_avx2,                                          \
                      TPI_CALL_AT(avx512, 0) = tpi_isa_##name##_f32_avx2
#define TPI_SET_CALLS(name) TPI_SETS(name, avx512)
#define TPI_AVX2_CALLS(name) TPI_SETS(name, avx2)
#else
#define TPI_DECLARE_F32_BY_SET(name) extern const int tpi_no_sets
#define TPI_F32_BY_SET(name)
#define TPI_DECLARE_F32_AVX2(name) extern const int tpi_no_sets
#define TPI_F32_AVX2(name)
#define TPI_SET_CALLS(name) TPI_OWN_CALLS(name)
#define TPI_AVX2_CALLS(name) TPI_OWN_CALLS(name)
#endif

#endif
