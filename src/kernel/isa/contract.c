/* Contractions and convolutions for one instruction set. */
#include "kernel/isa/isa_host.h"

#define TPK_BITS 32
#include "kernel/conv/convdw.h"
#include "kernel/conv/winograd.h"
#include "kernel/text/gemm.h"
#undef TPK_BITS
#define TPK_BITS 64
#include "kernel/conv/convdw.h"
#include "kernel/text/gemm.h"
#undef TPK_BITS

/* p: "wg_" where winograd.h asks first whether it is its turn, "taps_" where convtaps.h does. */
#define CONV(name, t, p)                                                                       \
    .name##_ws_##t = tpk_##p##name##_ws_##t, .name##_##t = tpk_##p##name##_##t
#define REDUCTION(op, t)                                                                       \
    .reduce_##op##_##t = TPI_ISA_NAME(tpi_isa_##op##_##t),                                     \
    .reduce_##op##_block_##t = TPI_ISA_NAME(tpi_isa_##op##_block_##t)
#define LIBRARY(t)                                                                             \
    REDUCTION(sum, t), REDUCTION(prod, t), REDUCTION(max, t), REDUCTION(min, t),               \
        .gemm_ws_##t = tpk_gemm_ws_##t, .gemm_##t = tpk_gemm_##t,                              \
        .gemm_packed_b_size_##t = tpk_gemm_packed_b_size_##t,                                  \
        .gemm_pack_b_##t = tpk_gemm_pack_b_##t, .gemm_packed_b_##t = tpk_gemm_packed_b_##t
#define CONVOLUTIONS(t, p, dw)                                                                 \
    CONV(conv, t, p), CONV(conv_dx, t, p), CONV(conv_dw, t, dw),                               \
        .conv_packed_w_size_##t = tpk_##p##conv_packed_w_size_##t,                             \
        .conv_way_##t = tpk_##dw##conv_way_##t, .conv_pack_w_##t = tpk_##p##conv_pack_w_##t,   \
        .conv_packed_w_##t = tpk_##p##conv_packed_w_##t

const tpk_library TPI_ISA_NAME(tpi_isa_library) = {LIBRARY(f32), LIBRARY(f64)};
const tpk_library TPI_ISA_NAME(tpi_isa_conv_library) = {LIBRARY(f32),
                                                        LIBRARY(f64),
                                                        CONVOLUTIONS(f32, wg_, taps_),
                                                        CONVOLUTIONS(f64, , ),
                                                        .conv_taps = tpk_conv_taps,
                                                        .conv_tiles = tpk_conv_tiles_f32,
                                                        .conv_dx_tiles = tpk_conv_dx_tiles_f32};
