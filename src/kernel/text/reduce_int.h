/* The reductions of reduce.h for integers and bool, under the same names. Any order gives the same
 * bits; a block ignores its number of lanes. Sums and products wrap in the element type. bool has
 * max (any) and min (all). */
#ifndef TPK_REDUCE_INT_H
#define TPK_REDUCE_INT_H

#include "kernel/text/reduce.h"

#define TPK_REDUCE_PLAIN(op, t, empty)                                                         \
    TPK_INLINE tpk_##t tpk_reduce_##op##_block_##t(const tpk_##t *x, int64_t n, int lanes)     \
    {                                                                                          \
        (void)lanes;                                                                           \
        tpk_##t r = (empty);                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                      \
            r = tpk_reduce_##op##_step_##t(r, x[i]);                                           \
        }                                                                                      \
        return r;                                                                              \
    }

#define TPK_REDUCE_INT1(op, t, step, empty)                                                    \
    TPK_REDUCE_STEP(op, t, step, empty)                                                        \
    TPK_REDUCE_PLAIN(op, t, empty)                                                             \
    TPK_REDUCE_COMMON(op, t)
#define TPK_REDUCE_INT(t, lo, hi)                                                              \
    TPK_REDUCE_INT1(sum, t, add, 0)                                                            \
    TPK_REDUCE_INT1(prod, t, mul, 1)                                                           \
    TPK_REDUCE_INT1(max, t, max, lo)                                                           \
    TPK_REDUCE_INT1(min, t, min, hi)
TPK_REDUCE_INT(i8, INT8_MIN, INT8_MAX)
TPK_REDUCE_INT(i16, INT16_MIN, INT16_MAX)
TPK_REDUCE_INT(i32, INT32_MIN, INT32_MAX)
TPK_REDUCE_INT(i64, INT64_MIN, INT64_MAX)
TPK_REDUCE_INT(u8, 0, UINT8_MAX)
TPK_REDUCE_INT(u16, 0, UINT16_MAX)
TPK_REDUCE_INT(u32, 0, UINT32_MAX)
TPK_REDUCE_INT(u64, 0, UINT64_MAX)

#pragma push_macro("bool")
#undef bool
TPK_REDUCE_INT1(max, bool, max, 0)
TPK_REDUCE_INT1(min, bool, min, 1)
#pragma pop_macro("bool")

#endif
