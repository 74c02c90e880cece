#include "kernel/host/kernels_host.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* State components the system saves: XCR0. */
static uint64_t enabled_state(void)
{
    uint32_t lo, hi;
    __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

const tpi_kernels *tpi_kernels_choose(bool base_only)
{
    enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6 };
    unsigned a, b, c, d, a7, b7, c7, d7;
    if (base_only || !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) ||
        !__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7))
        return &tpi_kernels_base;
    const uint64_t state = enabled_state();
    const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    const bool has_avx2 = (state & XCR0_AVX) == XCR0_AVX && (c & bit_FMA) && (c & bit_F16C) &&
                          (b7 & bit_AVX2) && (b7 & bit_BMI2);
    if (has_avx2 && (state & XCR0_AVX512) == XCR0_AVX512 && (b7 & avx512) == avx512)
        return &tpi_kernels_avx512;
    return has_avx2 ? &tpi_kernels_avx2 : &tpi_kernels_base;
}

#else

const tpi_kernels *tpi_kernels_choose(bool base_only)
{
    (void)base_only;
    return &tpi_kernels_base;
}

#endif
