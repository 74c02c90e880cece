/* Contractions and convolutions for one instruction set. AVX-512 takes the f64 convolutions of AVX2, which would be
 * 38 KB once more for what few programs do. */
#include "kernel/isa/isa_host.h"

#define TPK_BITS 32
#include "kernel/conv/convdw.h"
#include "kernel/conv/winograd.h"
#include "kernel/text/gemm.h"
#undef TPK_BITS
#define TPK_BITS 64
#if !defined(__AVX512F__)
#include "kernel/conv/convdw.h"
#endif
#include "kernel/text/gemm.h"
#undef TPK_BITS

#define REDUCTION(op, t)                                                                       \
    .reduce_##op##_##t = TPI_ISA_NAME(tpi_isa_##op##_##t),                                     \
    .reduce_##op##_block_##t = TPI_ISA_NAME(tpi_isa_##op##_block_##t)
#define LIBRARY(t)                                                                             \
    REDUCTION(sum, t), REDUCTION(prod, t), REDUCTION(max, t), REDUCTION(min, t),               \
        .gemm_ws_##t = tpk_gemm_ws_##t, .gemm_##t = tpk_gemm_##t,                              \
        .gemm_packed_b_size_##t = tpk_gemm_packed_b_size_##t,                                  \
        .gemm_pack_b_##t = tpk_gemm_pack_b_##t, .gemm_packed_b_##t = tpk_gemm_packed_b_##t
/* clang-format off */
#define CONVOLUTIONS(X)                                                                        \
    X(conv_ws, wg_) X(conv, wg_) X(conv_dx_ws, wg_) X(conv_dx, wg_)                            \
    X(conv_dw_ws, taps_) X(conv_dw, taps_)                                                     \
    X(conv_packed_w_size, wg_) X(conv_way, taps_) X(conv_pack_w, wg_) X(conv_packed_w, wg_)
/* clang-format on */
/* p: "wg_" where winograd.h asks first whether it is its turn, "taps_" where convtaps.h does. */
#define OF_F32(name, p) .name##_f32 = tpk_##p##name##_f32,
#if defined(__AVX512F__)
#define OF_F64(name, p) .name##_f64 = tpi_isa_##name##_f64_avx2,
#define SHARED(name, p)                                                                        \
    extern __typeof__(*((const tpk_library *)NULL)->name##_f64) tpi_isa_##name##_f64_avx2;
#else
#define OF_F64(name, p) .name##_f64 = tpk_##name##_f64,
#define SHARED(name, p)                                                                        \
    extern __typeof__(tpk_##name##_f64) TPI_ISA_NAME(tpi_isa_##name##_f64)                     \
        __attribute__((alias("tpk_" #name "_f64"), cold));
#endif
CONVOLUTIONS(SHARED)

const tpk_library TPI_ISA_NAME(tpi_isa_library) = {LIBRARY(f32), LIBRARY(f64)};
const tpk_library TPI_ISA_NAME(tpi_isa_conv_library) = {LIBRARY(f32),
                                                        LIBRARY(f64),
                                                        .conv_taps = tpk_conv_taps,
                                                        .conv_tiles = tpk_conv_tiles_f32,
                                                        .conv_dx_tiles = tpk_conv_dx_tiles_f32,
                                                        CONVOLUTIONS(OF_F32)
                                                            CONVOLUTIONS(OF_F64)};
