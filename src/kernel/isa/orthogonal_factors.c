/* Orthogonal factors, with what AVX2 has, as in matrix_factors.c: wider vectors gain little, as columns are
 * rotated two at a time. */
#include "kernel/isa/isa_host.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f32
#define S f32
#include "kernel/text/matrix.h"
#include "kernel/text/orthogonal.h"
#undef T
#undef S
#define T tpk_f64
#define S f64
#include "kernel/text/matrix.h"
#include "kernel/text/orthogonal.h"
#undef T
#undef S

TPI_ISA_CALLS(qr)
TPI_ISA_CALLS(eigh)
TPI_ISA_CALLS(svd)
TPI_ISA_CALLS(lstsq)
#endif
