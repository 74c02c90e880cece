/* Sums over rows that come a few at a time, for one instruction set. */
#include "kernel/isa/isa_host.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"

#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f32
#define S f32
#include "kernel/text/addrows.h"
#undef T
#undef S
#define T tpk_f64
#define S f64
#include "kernel/text/addrows.h"
#undef T
#undef S

int64_t TPI_ISA_NAME(tpi_isa_add_rows_f32)(const tpk_view *in, const tpk_view *out,
                                           const int64_t *attr)
{
    return tpk_add_rows_f32(in, out, attr);
}

int64_t TPI_ISA_NAME(tpi_isa_add_rows_f64)(const tpk_view *in, const tpk_view *out,
                                           const int64_t *attr)
{
    return tpk_add_rows_f64(in, out, attr);
}
