/* Pooling for one instruction set: of f32, which is worth a copy; the base has that of src/op. */
#include "kernel/isa/isa_host.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"

#if defined(__AVX2__)
#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f32
#define S f32
#include "kernel/text/pooling.h"
#undef T
#undef S
#define POOL(name)                                                                             \
    int64_t TPI_ISA_NAME(tpi_isa_##name##_f32)(const tpk_view *in, const tpk_view *out,        \
                                               const int64_t *attr)                            \
    {                                                                                          \
        return tpk_##name##_f32(in, out, attr);                                                \
    }
POOL(max_pool)
POOL(max_pool_dx)
POOL(avg_pool)
#endif
