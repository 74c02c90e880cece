/* Contractions and convolutions for one instruction set. */
#include "kernel/isa_host.h"

#define TPK_BITS 32
#include "kernel/conv.h"
#include "kernel/gemm.h"
#undef TPK_BITS
#define TPK_BITS 64
#include "kernel/conv.h"
#include "kernel/gemm.h"
#undef TPK_BITS

#define GEMM(t, type)                                                                          \
    void TPI_ISA_NAME(tpi_isa_gemm_##t)(                                                       \
        int64_t m, int64_t n, int64_t k, const type *a, int64_t a_rs, int64_t a_cs,            \
        const type *b, int64_t b_rs, int64_t b_cs, type *c, int64_t c_rs, void *ws)            \
    {                                                                                          \
        tpk_gemm_##t(m, n, k, a, a_rs, a_cs, b, b_rs, b_cs, c, c_rs, ws);                      \
    }                                                                                          \
    size_t TPI_ISA_NAME(tpi_isa_gemm_ws_##t)(int64_t m, int64_t n, int64_t k)                  \
    {                                                                                          \
        return tpk_gemm_ws_##t(m, n, k);                                                       \
    }
GEMM(f32, float)
GEMM(f64, double)

/* `first` and `second` are the operands in the kernel's order. */
#define CONV(name, t, first, second)                                                           \
    void TPI_ISA_NAME(tpi_isa_##name##_##t)(const tpk_conv *c, const void *x, const void *w,   \
                                            const void *y, void *out, void *ws)                \
    {                                                                                          \
        (void)x, (void)w, (void)y;                                                             \
        tpk_##name##_##t(c, first, second, out, ws);                                           \
    }                                                                                          \
    size_t TPI_ISA_NAME(tpi_isa_##name##_ws_##t)(const tpk_conv *c)                            \
    {                                                                                          \
        return tpk_##name##_ws_##t(c);                                                         \
    }
CONV(conv, f32, x, w)
CONV(conv, f64, x, w)
CONV(conv_dx, f32, y, w)
CONV(conv_dx, f64, y, w)
CONV(conv_dw, f32, x, y)
CONV(conv_dw, f64, x, y)
