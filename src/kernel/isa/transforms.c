/* Fourier transforms; AVX-512 has those of AVX2. */
#include "kernel/isa/isa_host.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"

#if !defined(__AVX512F__)
#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f32
#define S f32
#include "kernel/text/fourier.h"
#undef T
#undef S
#define T tpk_f64
#define S f64
#include "kernel/text/fourier.h"
#undef T
#undef S

_Static_assert((int)tpk_fft_most_f32 == TPI_FFT_MOST, "op/fourier.c asks for no others");
TPI_ISA_CALLS(fft)
TPI_ISA_CALLS(rfft)
TPI_ISA_CALLS(irfft)

#define ROOTS(t)                                                                               \
    void TPI_ISA_NAME(tpi_isa_fft_roots_##t)(int64_t n, tpk_##t * pairs);                      \
    void TPI_ISA_NAME(tpi_isa_fft_roots_##t)(int64_t n, tpk_##t * pairs)                       \
    {                                                                                          \
        tpk_fft_roots_##t(n, pairs);                                                           \
    }
ROOTS(f32)
ROOTS(f64)
#endif
