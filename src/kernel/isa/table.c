#include "kernel/isa/isa_host.h"

#if defined(__AVX512F__)
#define NARROWER &tpi_kernels_avx2
#define RANDOM                                                                                 \
    {                                                                                          \
        tpi_isa_random_f32_avx2, tpi_isa_random_f64_avx2                                       \
    }
#elif defined(__AVX2__)
#define NARROWER &tpi_kernels_base
#define RANDOM                                                                                 \
    {                                                                                          \
        TPI_ISA_NAME(tpi_isa_random_f32), TPI_ISA_NAME(tpi_isa_random_f64)                     \
    }
#else
#define NARROWER NULL
#define RANDOM                                                                                 \
    {                                                                                          \
        NULL, NULL                                                                             \
    }
#endif

/* The base has those of src/op. */
#if defined(__AVX2__)
#define OF_F32(name) [TPI_ISA_##name] = {TPI_ISA_NAME(tpi_isa_##name##_f32), NULL}
#else
#define OF_F32(name) [TPI_ISA_##name] = {NULL, NULL}
#endif

const tpi_kernels TPI_ISA_NAME(tpi_kernels) = {
    .isa = TPI_ISA_TEXT(TPI_ISA),
    .set = TPI_ISA_PASTE(TPI_SET, TPI_ISA),
    .narrower = NARROWER,
    .row = TPI_ISA_NAME(tpi_isa_rows),
    .cast = TPI_ISA_NAME(tpi_isa_casts),
    .reduce_rows = TPI_ISA_NAME(tpi_isa_reduce_rows),
    .reduce_columns = TPI_ISA_NAME(tpi_isa_reduce_columns),
    .reduce_more = TPI_ISA_NAME(tpi_isa_reduce_more),
    .library = &TPI_ISA_NAME(tpi_isa_library),
    .call = {[TPI_ISA_random] = RANDOM,
             OF_F32(gather),
             OF_F32(take_along),
             [TPI_ISA_add_rows] = {TPI_ISA_NAME(tpi_isa_add_rows_f32),
                                   TPI_ISA_NAME(tpi_isa_add_rows_f64)}},
};
