/* Factors of matrices, for one instruction set; the base has those of src/op. The tables that name these are with
 * their ops, so that programs without them do not contain them. */
#include "kernel/isa/isa_host.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"

#if defined(__AVX2__)
#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f32
#define S f32
#include "kernel/text/matrix.h"
#undef T
#undef S
#define T tpk_f64
#define S f64
#include "kernel/text/matrix.h"
#undef T
#undef S

TPI_ISA_CALLS(cholesky)
TPI_ISA_CALLS(solve_triangular)
TPI_ISA_CALLS(lu)
TPI_ISA_CALLS(solve)
#endif
