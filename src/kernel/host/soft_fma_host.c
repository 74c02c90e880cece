/* The library's one copy of the fused multiply-add of doubles for machines without the instruction: it is long, and
 * many files need it. */
#undef TPK_SOFT_FMA_ELSEWHERE
#define TPK_SOFT_FMA
double tpk_soft_fma_f64(double a, double b, double c);
#include "kernel/text/target.h"
