/* Fourier transforms, of f64 (op/fourier.c); AVX-512 has those of AVX2. */
#include "kernel/isa/isa_host.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"

#if !defined(__AVX512F__)
#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f64
#define S f64
#include "kernel/text/fourier.h"
#undef T
#undef S

_Static_assert((int)tpk_fft_most_f64 == TPI_FFT_MOST, "op/fourier.c asks for no others");
TPI_ISA_CALL_OF(fft, f64)
TPI_ISA_CALL_OF(rfft, f64)
TPI_ISA_CALL_OF(irfft, f64)

void TPI_ISA_NAME(tpi_isa_fft_roots)(int64_t n, tpk_f64 *pairs);
void TPI_ISA_NAME(tpi_isa_fft_roots)(int64_t n, tpk_f64 *pairs)
{
    tpk_fft_roots_f64(n, pairs);
}
#endif
