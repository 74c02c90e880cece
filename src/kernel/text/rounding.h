/* Does this program round as it was written to?
 *
 * Clang has no macro for most of the options that let it change sums, products and quotients, and the
 * mode of the floating-point unit is the caller's. So a few operations are done whose results show it.
 * Their operands are volatile; what is done with these is left to the compiler, which changes it by
 * the options by which it would change a kernel. */
#ifndef TPK_ROUNDING_H
#define TPK_ROUNDING_H

#include "kernel/text/target.h"

/* `half`: half a unit in the last place of 1; `near`: its square is less; `odd`: times the rounded
 * 1 / odd it is not 1; `least`: the smallest normal number; `root`: of 2. */
#define TPK_ROUNDS(T, S, half, near, odd, least, root)                                         \
    TPK_INLINE int tpk_rounds_##T(void)                                                        \
    {                                                                                          \
        volatile tpk_##T in[] = {1, half, 1 + near, odd, least, 0, 2};                         \
        const tpk_##T one = in[0], h = in[1], n = in[2], d = in[3], zero = in[5];              \
        const tpk_##T down = (one + h) - one, up = (one + 3 * h) - one;                        \
        const tpk_##T product = n * n - (1 + 2 * near), small = in[4] / 2;                     \
        const tpk_##T quotients[] = {in[3] / d, in[3] / d, in[3] / d, in[3] / odd};            \
        const tpk_##T zeros[] = {-zero + 0, 0 - zero};                                         \
        const tpk_##T nan = zero / in[5], infinite = one / in[5];                              \
        tpk_##T two = in[6];                                                                   \
        TPK_SQRT_##S(two);                                                                     \
        int good = down == 0 && up == 4 * h && product == 0 && two == root;                    \
        for (int i = 0; i < 4; i++) {                                                          \
            good &= quotients[i] == 1;                                                         \
        }                                                                                      \
        good &= small != 0 && small * 2 == in[4];                                              \
        good &= !__builtin_signbit(zeros[0]) && !__builtin_signbit(zeros[1]);                  \
        return good && nan != nan && infinite == TPK_INF_##S && infinite - infinite != zero;   \
    }
TPK_ROUNDS(f32, F32, 0x1p-24f, 0x1p-13f, 41.0f, 0x1p-126f, 0x1.6a09e6p+0f)
TPK_ROUNDS(f64, F64, 0x1p-53, 0x1p-27, 49.0, 0x1p-1022, 0x1.6a09e667f3bcdp+0)

#endif
