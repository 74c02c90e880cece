/* Fourier transforms, with what AVX2 has. */
#include "kernel/isa/isa_host.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
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

TPI_ISA_CALLS(fft)
TPI_ISA_CALLS(rfft)
TPI_ISA_CALLS(irfft)

void tpi_isa_fft_roots_f32_avx2(int64_t n, tpk_f32 *pairs);
void tpi_isa_fft_roots_f32_avx2(int64_t n, tpk_f32 *pairs)
{
    tpk_fft_roots_f32(n, pairs);
}

void tpi_isa_fft_roots_f64_avx2(int64_t n, tpk_f64 *pairs);
void tpi_isa_fft_roots_f64_avx2(int64_t n, tpk_f64 *pairs)
{
    tpk_fft_roots_f64(n, pairs);
}
#endif
