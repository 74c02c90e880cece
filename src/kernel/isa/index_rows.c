/* Reading at places, and finding the first ones in an order, for one instruction set: of f32, which is
 * worth a copy; the base has that of src/op. */
#include "kernel/isa/isa_host.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"

#if defined(__AVX2__)
#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_u32
#define S u32
#include "kernel/text/index.h"
#undef T
#undef S
#define CALL(name, t)                                                                          \
    int64_t TPI_ISA_NAME(tpi_isa_##name##_f32)(const tpk_view *in, const tpk_view *out,        \
                                               const int64_t *attr)                            \
    {                                                                                          \
        return tpk_##name##_##t(in, out, attr);                                                \
    }
CALL(gather, u32)
CALL(take_along, u32)
#if !defined(__AVX512F__)
CALL(scatter, u32)
#define T tpk_f32
#define S f32
#include "kernel/text/sort.h"
CALL(argtopk, f32)
#endif
#endif
