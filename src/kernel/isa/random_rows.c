/* Random numbers for AVX2. AVX-512 draws with what that has, the base with what src/op has. */
#include "kernel/abi/view.h"
#include "kernel/isa/isa_host.h"
#include "kernel/text/philox.h"
#include "kernel/text/vec.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f32
#define S f32
#include "kernel/text/draws.h"
#undef T
#undef S
#define T tpk_f64
#define S f64
#include "kernel/text/draws.h"
#undef T
#undef S

int64_t TPI_ISA_NAME(tpi_isa_random_f32)(const tpk_view *in, const tpk_view *out,
                                         const int64_t *attr)
{
    return tpk_random_f32(in, out, attr);
}

int64_t TPI_ISA_NAME(tpi_isa_random_f64)(const tpk_view *in, const tpk_view *out,
                                         const int64_t *attr)
{
    return tpk_random_f64(in, out, attr);
}
#endif
