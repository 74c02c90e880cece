/* Factors of matrices, for one instruction set. AVX2 has the orthogonal ones for AVX-512 too: wider vectors gain little,
 * as columns are rotated two at a time. The tables that name these are with their ops, so that programs without them do
 * not contain them. */
#include "kernel/isa/isa_host.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"

#if defined(__AVX512F__)
#define ORTHOGONAL 0
#else
#define ORTHOGONAL 1
#endif

#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f32
#define S f32
#include "kernel/text/matrix.h"
#if ORTHOGONAL
#include "kernel/text/orthogonal.h"
#endif
#undef T
#undef S
#define T tpk_f64
#define S f64
#include "kernel/text/matrix.h"
#if ORTHOGONAL
#include "kernel/text/orthogonal.h"
#endif
#undef T
#undef S

TPI_ISA_CALLS(cholesky)
TPI_ISA_CALLS(solve_triangular)
TPI_ISA_CALLS(lu)
TPI_ISA_CALLS(solve)
#if ORTHOGONAL
TPI_ISA_CALLS(qr)
TPI_ISA_CALLS(eigh)
TPI_ISA_CALLS(svd)
TPI_ISA_CALLS(lstsq)
#endif
#if !defined(__AVX2__)
TPI_ISA_CALLS(det)
#endif
