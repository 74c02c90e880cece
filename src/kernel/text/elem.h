/* The scalar operations: tpk_<op>_<type> for f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool.
 *
 *   float       neg abs sign relu exp log exp2 log2 log10 expm1 log1p sqrt rsqrt sin cos tanh sigmoid erf erfinv
 *               floor ceil round trunc add sub mul div pow min max mod fmod fma
 *   integer     neg abs sign relu add sub mul div pow min max mod fmod and or xor not shl shr
 *   bool        and or xor not min max
 *   all         eq ne lt le gt ge (give tpk_bool), where(c, a, b), cast_<from>_<to>
 *
 * Nothing traps and nothing is undefined, whatever the operands; docs/numerics.md says what each
 * gives at the edges. */
#ifndef TPK_ELEM_H
#define TPK_ELEM_H

#include "kernel/text/math_f32.h"
#include "kernel/text/math_f64.h"
#include "kernel/text/target.h"

/* The names below are made of the word bool, which stdbool.h makes another. */
#pragma push_macro("bool")
#undef bool

#define TPK_UNARY(op, t, e)                                                                    \
    TPK_INLINE tpk_##t tpk_##op##_##t(tpk_##t a)                                               \
    {                                                                                          \
        return e;                                                                              \
    }
#define TPK_BINARY(op, t, e)                                                                   \
    TPK_INLINE tpk_##t tpk_##op##_##t(tpk_##t a, tpk_##t b)                                    \
    {                                                                                          \
        return e;                                                                              \
    }
#define TPK_COMPARE(op, t, e)                                                                  \
    TPK_INLINE tpk_bool tpk_##op##_##t(tpk_##t a, tpk_##t b)                                   \
    {                                                                                          \
        return (tpk_bool)(e);                                                                  \
    }

#define TPK_ANY_OPS(t)                                                                         \
    TPK_COMPARE(eq, t, a == b)                                                                 \
    TPK_COMPARE(ne, t, a != b)                                                                 \
    TPK_COMPARE(lt, t, a < b)                                                                  \
    TPK_COMPARE(le, t, a <= b)                                                                 \
    TPK_COMPARE(gt, t, a > b)                                                                  \
    TPK_COMPARE(ge, t, a >= b)                                                                 \
    TPK_INLINE tpk_##t tpk_where_##t(tpk_bool c, tpk_##t a, tpk_##t b)                         \
    {                                                                                          \
        return c ? a : b;                                                                      \
    }

/* ---- float ------------------------------------------------------------------------------------ */

/* A NaN operand gives NaN. -0 is below +0: equal numbers differ in the sign at most, so their
 * bits are joined (max: and, min: or). */
#define TPK_MINMAX_FLOAT(op, t, rel, join)                                                     \
    TPK_INLINE tpk_##t tpk_##op##_##t(tpk_##t a, tpk_##t b)                                    \
    {                                                                                          \
        tpk_##t r = a rel b ? a : b;                                                           \
        r = a == b ? tpk_from_bits_##t(tpk_bits_##t(a) join tpk_bits_##t(b)) : r;              \
        return a != a ? a : r;                                                                 \
    }

#define TPK_FLOAT_OPS(t, u, fabs)                                                              \
    TPK_ANY_OPS(t)                                                                             \
    TPK_UNARY(neg, t, -a)                                                                      \
    TPK_UNARY(abs, t, fabs(a))                                                                 \
    TPK_UNARY(sign, t, a > 0 ? 1 : a < 0 ? -1 : a)                                             \
    TPK_UNARY(relu, t, a <= 0 ? 0 : a)                                                         \
    TPK_UNARY(rsqrt, t, 1 / tpk_sqrt_##t(a))                                                   \
    TPK_BINARY(add, t, a + b)                                                                  \
    TPK_BINARY(sub, t, a - b)                                                                  \
    TPK_BINARY(mul, t, a *b)                                                                   \
    TPK_BINARY(div, t, a / b)                                                                  \
    TPK_MINMAX_FLOAT(max, t, >, &)                                                             \
    TPK_MINMAX_FLOAT(min, t, <, |)                                                             \
    /* Where `least` is 1 greater becomes less, else it is a; done twice it is a again. */     \
    TPK_INLINE tpk_##t tpk_mirror_##t(tpk_##t a, int least)                                    \
    {                                                                                          \
        return tpk_from_bits_##t(tpk_bits_##t(a) ^ (u)least << (sizeof(u) * 8 - 1));           \
    }                                                                                          \
    TPK_BINARY(at_least, t, a <= b ? b : a) /* max with a b that is no NaN and not -0 */       \
    TPK_BINARY(at_most, t, a >= b ? b : a)  /* min with a b that is no NaN and not +0 */

TPK_FLOAT_OPS(f32, uint32_t, __builtin_fabsf)
TPK_FLOAT_OPS(f64, uint64_t, __builtin_fabs)

/* The remainder of the truncated quotient, exact, by long division on the mantissas, eleven bits
 * of the quotient at a time. */
TPK_INLINE double tpk_fmod_f64(double a, double b)
{
    const uint64_t sign = tpk_bits_f64(a) & UINT64_C(1) << 63;
    uint64_t ua = tpk_bits_f64(a) ^ sign, ub = tpk_bits_f64(b) & ~(UINT64_C(1) << 63);
    if (a != a || b != b || ub == 0 || ua >> 52 == 2047) {
        return TPK_NAN_F64;
    }
    if (ua < ub) {
        return a;
    }
    int ea = (int)(ua >> 52), eb = (int)(ub >> 52);
    ua = (ua & ((UINT64_C(1) << 52) - 1)) | (uint64_t)(ea != 0) << 52;
    ub = (ub & ((UINT64_C(1) << 52) - 1)) | (uint64_t)(eb != 0) << 52;
    ea += ea == 0;
    eb += eb == 0;
    ua %= ub;
    for (int n = ea - eb; n > 0 && ua; n -= 11) {
        ua = (ua << (n < 11 ? n : 11)) % ub;
    }
    while (ua && !(ua >> 52) && eb > 1) {
        ua <<= 1;
        eb--;
    }
    return tpk_from_bits_f64(sign | (ua + ((uint64_t)(eb - 1) << 52) * (ua != 0)));
}

/* Floats are doubles, and so is the exact remainder, which is a float besides. Of a small quotient of doubles, rounded
 * to a whole number that is right or one too much, the product has no more bits than a double. */
TPK_INLINE float tpk_fmod_f32(float a, float b)
{
    const double x = (double)tpk_abs_f32(a), y = (double)tpk_abs_f32(b), quotient = x / y;
    if (!(quotient < 0x1p29 && y <= 0x1.fffffep+127)) {
        return (float)tpk_fmod_f64((double)a, (double)b);
    }
    const double rest = x - (double)(int32_t)quotient * y;
    return tpk_copysign_f32((float)(rest < 0 ? rest + y : rest), a);
}

/* The remainder of the floored quotient: the sign of b, as in Python. */
#define TPK_MOD_FLOAT(t)                                                                       \
    TPK_INLINE tpk_##t tpk_mod_##t(tpk_##t a, tpk_##t b)                                       \
    {                                                                                          \
        const tpk_##t r = tpk_fmod_##t(a, b);                                                  \
        return r == 0 ? tpk_copysign_##t(0, b) : (r < 0) != (b < 0) ? r + b : r;               \
    }
TPK_MOD_FLOAT(f32)
TPK_MOD_FLOAT(f64)

/* tpk_<name>_row_f32, of functions with a branch that is rarely taken, in which there are no vectors:
 * y[i] = f(a[i], b[i]) by vectors, but for blocks of which an element takes it. y may be a or b. */
enum { TPK_ROW_BLOCK = 64 };

#if TPK_HARD_FMA
/* tpk_mod_f32 of a quotient below 2^23, without branches. Of a whole number that is right or one too much the rest is a
 * float, and so is its sum with the divisor. Elsewhere *far is set. */
TPK_INLINE float tpk_near_mod_f32(float a, float b, int *far)
{
    const float x = tpk_abs_f32(a), y = tpk_abs_f32(b), quotient = x / y;
    *far |= !(quotient < 0x1p23f) | !(y <= 0x1.fffffep+127f);
    float r = tpk_fma_f32(-tpk_trunc_f32(quotient), y, x);
    r = tpk_copysign_f32(r < 0 ? r + y : r, a);
    const float turned = (r < 0) != (b < 0) ? r + b : r;
    return r == 0 ? tpk_copysign_f32(0, b) : turned;
}
#else
TPK_INLINE float tpk_near_mod_f32(float a, float b, int *far)
{
    (void)a, (void)b;
    *far = 1;
    return 0;
}
#endif

static __attribute__((unused)) void tpk_mod_row_f32(int64_t n, float *y, const float *a,
                                                    const float *b)
{
    float r[TPK_ROW_BLOCK];
    for (int64_t i = 0; i < n; i += TPK_ROW_BLOCK) {
        const int m = n - i < TPK_ROW_BLOCK ? (int)(n - i) : TPK_ROW_BLOCK;
        int far = 0;
        for (int k = 0; k < m; k++) {
            r[k] = tpk_near_mod_f32(a[i + k], b[i + k], &far);
        }
        for (int k = 0; far && k < m; k++) {
            r[k] = tpk_mod_f32(a[i + k], b[i + k]);
        }
        __builtin_memcpy(y + i, r, (size_t)m * sizeof *r);
    }
}

/* ---- integer ----------------------------------------------------------------------------------- */

/* u: an unsigned type no smaller than t nor than int, in which arithmetic wraps. */
#define TPK_INT_OPS(t, u, width)                                                               \
    TPK_ANY_OPS(t)                                                                             \
    TPK_UNARY(neg, t, (tpk_##t)(0 - (u)a))                                                     \
    TPK_UNARY(not, t, (tpk_##t) ~(u)a)                                                         \
    TPK_INLINE tpk_##t tpk_mirror_##t(tpk_##t a, int least)                                    \
    {                                                                                          \
        return (tpk_##t)((u)a ^ (0 - (u)least));                                               \
    }                                                                                          \
    TPK_UNARY(relu, t, a > 0 ? a : 0)                                                          \
    TPK_BINARY(add, t, (tpk_##t)((u)a + (u)b))                                                 \
    TPK_BINARY(sub, t, (tpk_##t)((u)a - (u)b))                                                 \
    TPK_BINARY(mul, t, (tpk_##t)((u)a * (u)b))                                                 \
    TPK_BINARY(min, t, a < b ? a : b)                                                          \
    TPK_BINARY(max, t, a > b ? a : b)                                                          \
    TPK_BINARY(and, t, (tpk_##t)(a & b))                                                       \
    TPK_BINARY(or, t, (tpk_##t)(a | b))                                                        \
    TPK_BINARY(xor, t, (tpk_##t)(a ^ b))                                                       \
    TPK_BINARY(shl, t, (tpk_##t)((u)b < width ? (u)a << (u)b : 0))                             \
    TPK_BINARY(shr, t, (tpk_##t)(a >> ((u)b < width ? (u)b : width - 1) >> ((u)b >= width)))   \
    TPK_INLINE tpk_##t tpk_power_##t(tpk_##t a, u n)                                           \
    {                                                                                          \
        u r = 1;                                                                               \
        for (u x = (u)a; n; n >>= 1, x *= x) {                                                 \
            r *= n & 1 ? x : 1;                                                                \
        }                                                                                      \
        return (tpk_##t)r;                                                                     \
    }

#define TPK_SIGNED_OPS(t, u, width)                                                            \
    TPK_INT_OPS(t, u, width)                                                                   \
    TPK_UNARY(abs, t, a < 0 ? tpk_neg_##t(a) : a)                                              \
    TPK_UNARY(sign, t, (tpk_##t)((a > 0) - (a < 0)))                                           \
    TPK_BINARY(div, t, (tpk_##t)(b == 0 ? 0 : b == -1 ? tpk_neg_##t(a) : a / b))               \
    TPK_BINARY(fmod, t, (tpk_##t)(b == 0 || b == -1 ? 0 : a % b))                              \
    TPK_INLINE tpk_##t tpk_mod_##t(tpk_##t a, tpk_##t b)                                       \
    {                                                                                          \
        const tpk_##t r = tpk_fmod_##t(a, b);                                                  \
        return (tpk_##t)(r && (r ^ b) < 0 ? r + b : r);                                        \
    }                                                                                          \
    TPK_INLINE tpk_##t tpk_pow_##t(tpk_##t a, tpk_##t b)                                       \
    {                                                                                          \
        return b >= 0    ? tpk_power_##t(a, (u)b)                                              \
               : a == 1  ? 1                                                                   \
               : a == -1 ? (tpk_##t)(b & 1 ? -1 : 1)                                           \
                         : 0;                                                                  \
    }

#define TPK_UNSIGNED_OPS(t, u, width)                                                          \
    TPK_INT_OPS(t, u, width)                                                                   \
    TPK_UNARY(abs, t, a)                                                                       \
    TPK_UNARY(sign, t, a > 0)                                                                  \
    TPK_BINARY(div, t, (tpk_##t)(b == 0 ? 0 : a / b))                                          \
    TPK_BINARY(fmod, t, (tpk_##t)(b == 0 ? 0 : a % b))                                         \
    TPK_BINARY(mod, t, (tpk_##t)(b == 0 ? 0 : a % b))                                          \
    TPK_BINARY(pow, t, tpk_power_##t(a, (u)b))

TPK_SIGNED_OPS(i8, uint32_t, 8)
TPK_SIGNED_OPS(i16, uint32_t, 16)
TPK_SIGNED_OPS(i32, uint32_t, 32)
TPK_SIGNED_OPS(i64, uint64_t, 64)
TPK_UNSIGNED_OPS(u8, uint32_t, 8)
TPK_UNSIGNED_OPS(u16, uint32_t, 16)
TPK_UNSIGNED_OPS(u32, uint32_t, 32)
TPK_UNSIGNED_OPS(u64, uint64_t, 64)

/* ---- bool --------------------------------------------------------------------------------------- */

TPK_ANY_OPS(bool)
TPK_UNARY(not, bool, a ^ 1)
TPK_INLINE tpk_bool tpk_mirror_bool(tpk_bool a, int least)
{
    return (tpk_bool)(a ^ least);
}
TPK_BINARY(and, bool, a &b)
TPK_BINARY(or, bool, a | b)
TPK_BINARY(xor, bool, a ^ b)
TPK_BINARY(min, bool, a &b)
TPK_BINARY(max, bool, a | b)

/* ---- casts -------------------------------------------------------------------------------------- */

/* Between integers and to floats: C's conversions (wrap; one rounding). Float to integer saturates
 * (target.h). To bool: is it not 0; NaN is true. */
#define TPK_CAST(from, to)                                                                     \
    TPK_INLINE tpk_##to tpk_cast_##from##_##to(tpk_##from a)                                   \
    {                                                                                          \
        return (tpk_##to)a;                                                                    \
    }
#define TPK_CASTS_TO_INT(from)                                                                 \
    TPK_CAST(from, i8)                                                                         \
    TPK_CAST(from, i16)                                                                        \
    TPK_CAST(from, i32)                                                                        \
    TPK_CAST(from, i64)                                                                        \
    TPK_CAST(from, u8)                                                                         \
    TPK_CAST(from, u16)                                                                        \
    TPK_CAST(from, u32)                                                                        \
    TPK_CAST(from, u64)
/* gcc up to 12 makes one trunc of a float's way to an integer and back, which keeps -0; the sum
 * takes it away again, and is a function so that it is not seen to do nothing. */
TPK_INLINE float tpk_no_minus_zero_f32(float a)
{
    return a + 0.0f;
}
TPK_INLINE double tpk_no_minus_zero_f64(double a)
{
    return a + 0.0;
}
#define TPK_CAST_INT(from, to)                                                                 \
    TPK_INLINE tpk_##to tpk_cast_##from##_##to(tpk_##from a)                                   \
    {                                                                                          \
        return tpk_no_minus_zero_##to((tpk_##to)a);                                            \
    }
#define TPK_CASTS(from, CAST)                                                                  \
    CAST(from, f32)                                                                            \
    CAST(from, f64)                                                                            \
    TPK_INLINE tpk_bool tpk_cast_##from##_bool(tpk_##from a)                                   \
    {                                                                                          \
        return a != 0;                                                                         \
    }
TPK_CASTS(f32, TPK_CAST)
TPK_CASTS(f64, TPK_CAST)
TPK_CASTS(i8, TPK_CAST_INT)
TPK_CASTS(i16, TPK_CAST_INT)
TPK_CASTS(i32, TPK_CAST_INT)
TPK_CASTS(i64, TPK_CAST_INT)
TPK_CASTS(u8, TPK_CAST_INT)
TPK_CASTS(u16, TPK_CAST_INT)
TPK_CASTS(u32, TPK_CAST_INT)
TPK_CASTS(u64, TPK_CAST_INT)
TPK_CASTS(bool, TPK_CAST_INT)
TPK_CASTS_TO_INT(i8)
TPK_CASTS_TO_INT(i16)
TPK_CASTS_TO_INT(i32)
TPK_CASTS_TO_INT(i64)
TPK_CASTS_TO_INT(u8)
TPK_CASTS_TO_INT(u16)
TPK_CASTS_TO_INT(u32)
TPK_CASTS_TO_INT(u64)
TPK_CASTS_TO_INT(bool)

#pragma pop_macro("bool")

#endif
