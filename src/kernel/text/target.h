/* What the kernel text needs from its target: fixed floating point, exact fma and sqrt, bit casts,
 * saturating conversions. Kernel text is compiled into the library and pasted into generated C
 * programs, so it is freestanding, has no state and gives the same bits wherever it is compiled.
 * The contract is docs/numerics.md. */
#ifndef TPK_TARGET_H
#define TPK_TARGET_H

#include <stddef.h>
#include <stdint.h>

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "this program defines its rounding: compile it without -ffast-math and its parts"
#endif
/* 16 (AVX512-FP16) and 32 are like 0 for float and double. */
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16 &&   \
    __FLT_EVAL_METHOD__ != 32
#error "float and double must be evaluated in their own precision (on x86: -msse2 -mfpmath=sse)"
#endif

/* No fused multiply-add where none is written; and the selects below may become masks. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off", "no-trapping-math")
#endif

typedef float tpk_f32;
typedef double tpk_f64;
typedef int8_t tpk_i8;
typedef int16_t tpk_i16;
typedef int32_t tpk_i32;
typedef int64_t tpk_i64;
typedef uint8_t tpk_u8;
typedef uint16_t tpk_u16;
typedef uint32_t tpk_u32;
typedef uint64_t tpk_u64;
typedef uint8_t tpk_bool; /* 0 or 1 */

#define TPK_INLINE static inline __attribute__((unused))
#define TPK_LEAST(a, b) ((a) < (b) ? (a) : (b)) /* of sizes */

/* Before a loop whose turns do not depend on each other, whatever the pointers in it may be. */
#if defined(__GNUC__) && !defined(__clang__)
#define TPK_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TPK_INDEPENDENT
#endif

#define TPK_INF_F32 __builtin_inff()
#define TPK_INF_F64 __builtin_inf()
#define TPK_NAN_F32 __builtin_nanf("")
#define TPK_NAN_F64 __builtin_nan("")

TPK_INLINE uint32_t tpk_bits_f32(float x)
{
    uint32_t u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}

TPK_INLINE uint64_t tpk_bits_f64(double x)
{
    uint64_t u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}

TPK_INLINE float tpk_from_bits_f32(uint32_t u)
{
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

TPK_INLINE double tpk_from_bits_f64(uint64_t u)
{
    double x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

TPK_INLINE float tpk_copysign_f32(float x, float s)
{
    return tpk_from_bits_f32((tpk_bits_f32(x) & 0x7fffffffu) | (tpk_bits_f32(s) & 0x80000000u));
}

TPK_INLINE double tpk_copysign_f64(double x, double s)
{
    const uint64_t sign = UINT64_C(1) << 63;
    return tpk_from_bits_f64((tpk_bits_f64(x) & ~sign) | (tpk_bits_f64(s) & sign));
}

/* a * b = hi * 2^64 + lo. */
typedef struct tpk_u128 {
    uint64_t hi, lo;
} tpk_u128;

TPK_INLINE tpk_u128 tpk_mul_u64x2(uint64_t a, uint64_t b)
{
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0;
    const uint64_t mid = (p00 >> 32) + (uint32_t)p01 + (uint32_t)p10;
    const tpk_u128 r = {a1 * b1 + (p01 >> 32) + (p10 >> 32) + (mid >> 32),
                        (mid << 32) | (uint32_t)p00};
    return r;
}

/* ---- fused multiply-add ---------------------------------------------------------------------- */

/* The sum a + b rounded to odd: the exact sum if it is a number of the format, otherwise the
 * neighbour with an odd last bit, which a second rounding cannot mistake for a tie. */
TPK_INLINE double tpk_add_odd_f64(double a, double b)
{
    const double s = a + b, t = s - a, e = (a - (s - t)) + (b - t);
    const uint64_t u = tpk_bits_f64(s);
    const int inexact = (e > 0) | (e < 0); /* not for the NaN that an infinite s leaves */
    const uint64_t away = (e > 0) == (s > 0) ? 1 : ~UINT64_C(0);
    return tpk_from_bits_f64(u + ((inexact & !(u & 1)) ? away : 0));
}

/* The product of two floats is a double; its sum with c, rounded to odd, has bits to spare. */
TPK_INLINE float tpk_soft_fma_f32(float a, float b, float c)
{
    return (float)tpk_add_odd_f64((double)a * (double)b, (double)c);
}

/* The library has one copy of it (kernel/host/soft_fma_host.c), for its code without an fma instruction. */
#if defined(TPK_SOFT_FMA_ELSEWHERE)
double tpk_soft_fma_f64(double a, double b, double c) __attribute__((const));
#else
#if !defined(TPK_SOFT_FMA)
#define TPK_SOFT_FMA TPK_INLINE
#endif

/* Any finite operands, a * b not 0: the sum of the 106-bit product and c in 128-bit integers.
 * Each is m * 2^e; the one with the smaller e is shifted right, what falls out sets the last bit. */
TPK_INLINE double tpk_soft_fma_slow_f64(double a, double b, double c)
{
    const double v[3] = {a, b, c};
    uint64_t m[3];
    int64_t e[3];
    for (int i = 0; i < 3; i++) {
        const uint64_t u = tpk_bits_f64(v[i]);
        m[i] = u & ((UINT64_C(1) << 52) - 1);
        e[i] = (int64_t)((u >> 52) & 2047);
        m[i] |= (uint64_t)(e[i] != 0) << 52;
        e[i] = (e[i] ? e[i] : 1) - 1075;
        while (m[i] && !(m[i] >> 52)) {
            m[i] <<= 1;
            e[i]--;
        }
    }
    tpk_u128 p = tpk_mul_u64x2(m[0], m[1]);
    p.hi = (p.hi << 20) | (p.lo >> 44);
    p.lo <<= 20;
    int64_t pe = e[0] + e[1] - 20;
    tpk_u128 q = {m[2] << 9, 0};
    int64_t qe = m[2] ? e[2] - 73 : pe;
    int neg = (int)((tpk_bits_f64(a) ^ tpk_bits_f64(b)) >> 63);
    int qneg = (int)(tpk_bits_f64(c) >> 63);
    if (pe < qe || (pe == qe && (p.hi < q.hi || (p.hi == q.hi && p.lo < q.lo)))) {
        const tpk_u128 t = p;
        const int64_t te = pe;
        const int tneg = neg;
        p = q, pe = qe, neg = qneg;
        q = t, qe = te, qneg = tneg;
    }
    for (int64_t d = pe - qe; d > 0 && (q.hi | q.lo) && !(q.hi == 0 && q.lo == 1);) {
        const int s = d > 63 ? 63 : (int)d;
        const uint64_t lost = q.lo << (64 - s);
        q.lo = (q.lo >> s) | (q.hi << (64 - s)) | (lost != 0);
        q.hi >>= s;
        d -= s;
    }
    if (neg == qneg) {
        p.lo += q.lo;
        p.hi += q.hi + (p.lo < q.lo);
    } else {
        if (p.hi < q.hi ||
            (p.hi == q.hi && p.lo < q.lo)) { /* normalised, so by at most 2 bits */
            const tpk_u128 t = p;
            p = q, q = t, neg = qneg;
        }
        p.hi -= q.hi + (p.lo < q.lo);
        p.lo -= q.lo;
    }
    if (!(p.hi | p.lo)) {
        return 0;
    }
    while (!(p.hi >> 63)) { /* the leading bit to the top */
        p.hi = (p.hi << 1) | (p.lo >> 63);
        p.lo <<= 1;
        pe--;
    }
    int64_t keep = pe + 127 >= -1022 ? 53 : pe + 127 + 1075; /* bits of the result */
    const uint64_t sign = (uint64_t)neg << 63;
    if (keep < 0) {
        return tpk_from_bits_f64(sign);
    }
    if (pe + 127 > 1023) {
        return neg ? -TPK_INF_F64 : TPK_INF_F64;
    }
    uint64_t r = keep ? p.hi >> (64 - keep) : 0;
    const uint64_t rest = keep ? p.hi << keep : p.hi, half = UINT64_C(1) << 63;
    r += rest > half || (rest == half && (p.lo || (r & 1)));
    const uint64_t field = keep == 53 ? (uint64_t)(pe + 127 + 1022) << 52 : 0;
    return tpk_from_bits_f64(sign | (field + r));
}

/* Exact product as ph + pl (Dekker), then three additions of which the inner one rounds to odd
 * (Boldo and Melquiond); where a step could leave the range, integers. */
TPK_SOFT_FMA double tpk_soft_fma_f64(double a, double b, double c)
{
    const uint64_t ea = (tpk_bits_f64(a) >> 52) & 2047, eb = (tpk_bits_f64(b) >> 52) & 2047;
    const uint64_t ec = (tpk_bits_f64(c) >> 52) & 2047;
    if (ea - 573 > 900 || eb - 573 > 900 || ec > 1973) {
        if (ea == 2047 || eb == 2047 || a == 0 || b == 0) {
            return a * b + c;
        }
        return ec == 2047 ? c : tpk_soft_fma_slow_f64(a, b, c);
    }
    const double sa = a * 134217729.0, ah = sa - (sa - a), al = a - ah;
    const double sb = b * 134217729.0, bh = sb - (sb - b), bl = b - bh;
    const double ph = a * b, pl = ((ah * bh - ph) + ah * bl + al * bh) + al * bl;
    const double uh = c + pl, ut = uh - c, ul = (c - (uh - ut)) + (pl - ut);
    const double th = ph + uh, tt = th - ph, tl = (ph - (th - tt)) + (uh - tt);
    return th + tpk_add_odd_f64(tl, ul);
}
#endif

#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__) || defined(__FP_FAST_FMA)
#define TPK_HARD_FMA 1
#else
#define TPK_HARD_FMA 0
#endif

TPK_INLINE float tpk_fma_f32(float a, float b, float c)
{
#if TPK_HARD_FMA
    return __builtin_fmaf(a, b, c);
#else
    return tpk_soft_fma_f32(a, b, c);
#endif
}

TPK_INLINE double tpk_fma_f64(double a, double b, double c)
{
#if TPK_HARD_FMA
    return __builtin_fma(a, b, c);
#else
    return tpk_soft_fma_f64(a, b, c);
#endif
}

/* ---- square root ----------------------------------------------------------------------------- */

/* Correctly rounded, digit by digit; for targets without the instruction. */
TPK_INLINE double tpk_soft_sqrt_f64(double x)
{
    if (!(x > 0) || x == TPK_INF_F64) {
        return x < 0 ? TPK_NAN_F64 : x;
    }
    uint64_t m = tpk_bits_f64(x);
    int64_t e = (int64_t)(m >> 52);
    m = (m & ((UINT64_C(1) << 52) - 1)) | (uint64_t)(e != 0) << 52;
    e = (e ? e : 1) - 1075;
    while (!(m >> 52)) {
        m <<= 1;
        e--;
    }
    if (e & 1) {
        m <<= 1;
        e--;
    }
    uint64_t root = 0, rem = m; /* root^2 <= m * 4^27, 54 bits: 53 and one to round by */
    for (int i = 0; i < 27; i++) {
        const uint64_t bit = UINT64_C(1) << (26 - i), try = (2 * root + bit) << (26 - i);
        if (rem >= try) {
            rem -= try;
            root += bit;
        }
    }
    for (int i = 0; i < 27; i++) {
        rem <<= 2;
        root <<= 1;
        if (rem >= 2 * root + 1) {
            rem -= 2 * root + 1;
            root++;
        }
    }
    const uint64_t r = (root >> 1) + (root & 1); /* never a tie: a tie has an odd square */
    return tpk_from_bits_f64(((uint64_t)(e / 2 - 26 + 1074) << 52) + r);
}

/* The builtin is one instruction, and vectorises, under -fno-math-errno. Without that it also
 * calls the library to set errno, so the instruction is named. */
#if defined(__NO_MATH_ERRNO__) && (defined(__SSE2__) || defined(__aarch64__))
#define TPK_SQRT_F32(x) x = __builtin_sqrtf(x)
#define TPK_SQRT_F64(x) x = __builtin_sqrt(x)
#elif defined(__SSE2__)
typedef float tpk_sse_f32 __attribute__((vector_size(16)));
typedef double tpk_sse_f64 __attribute__((vector_size(16)));
#define TPK_SQRT_F32(x) x = __builtin_ia32_sqrtss((tpk_sse_f32){x, 0, 0, 0})[0]
#define TPK_SQRT_F64(x) x = __builtin_ia32_sqrtsd((tpk_sse_f64){x, 0})[0]
#elif defined(__aarch64__)
#define TPK_SQRT_F32(x) __asm__("fsqrt %s0, %s1" : "=w"(x) : "w"(x))
#define TPK_SQRT_F64(x) __asm__("fsqrt %d0, %d1" : "=w"(x) : "w"(x))
#else
#define TPK_SQRT_F32(x) x = (float)tpk_soft_sqrt_f64((double)(x))
#define TPK_SQRT_F64(x) x = tpk_soft_sqrt_f64(x)
#endif

TPK_INLINE float tpk_sqrt_f32(float x)
{
    TPK_SQRT_F32(x);
    return x;
}

TPK_INLINE double tpk_sqrt_f64(double x)
{
    TPK_SQRT_F64(x);
    return x;
}

/* ---- rounding to an integer ------------------------------------------------------------------- */

/* Half to even. Adding 2^23 (2^52) pushes the fraction out; larger numbers have none. */
#if defined(__SSE4_1__) || defined(__aarch64__)
#define TPK_ROUND_FN(op, T, f, big)                                                            \
    TPK_INLINE T tpk_##op(T x)                                                                 \
    {                                                                                          \
        return f(x);                                                                           \
    }
TPK_ROUND_FN(round_f32, float, __builtin_rintf, 0)
TPK_ROUND_FN(floor_f32, float, __builtin_floorf, 0)
TPK_ROUND_FN(ceil_f32, float, __builtin_ceilf, 0)
TPK_ROUND_FN(trunc_f32, float, __builtin_truncf, 0)
TPK_ROUND_FN(round_f64, double, __builtin_rint, 0)
TPK_ROUND_FN(floor_f64, double, __builtin_floor, 0)
TPK_ROUND_FN(ceil_f64, double, __builtin_ceil, 0)
TPK_ROUND_FN(trunc_f64, double, __builtin_trunc, 0)
#else
#define TPK_ROUND_FN(t, T, fabs, big)                                                          \
    TPK_INLINE T tpk_round_##t(T x)                                                            \
    {                                                                                          \
        const T a = fabs(x), r = (a + big) - big;                                              \
        return tpk_copysign_##t(a < big ? r : a, x);                                           \
    }                                                                                          \
    TPK_INLINE T tpk_floor_##t(T x)                                                            \
    {                                                                                          \
        const T r = tpk_round_##t(x);                                                          \
        return tpk_copysign_##t(r > x ? r - 1 : r, x);                                         \
    }                                                                                          \
    TPK_INLINE T tpk_ceil_##t(T x)                                                             \
    {                                                                                          \
        const T r = tpk_round_##t(x);                                                          \
        return tpk_copysign_##t(r < x ? r + 1 : r, x);                                         \
    }                                                                                          \
    TPK_INLINE T tpk_trunc_##t(T x)                                                            \
    {                                                                                          \
        return tpk_copysign_##t(tpk_floor_##t(fabs(x)), x);                                    \
    }
TPK_ROUND_FN(f32, float, __builtin_fabsf, 8388608.0f)
TPK_ROUND_FN(f64, double, __builtin_fabs, 4503599627370496.0)
#endif

/* ---- float to integer: saturates, NaN gives 0 ---------------------------------------------- */

/* lo and hi are exact in F: the smallest T, and the largest plus one. */
#define TPK_SAT_FN(from, F, to, T, lo, hi, min, max)                                           \
    TPK_INLINE T tpk_cast_##from##_##to(F x)                                                   \
    {                                                                                          \
        return x >= (hi) ? (T)(max) : x > (lo) ? (T)x : x <= (lo) ? (T)(min) : (T)0;           \
    }
#define TPK_SAT_FNS(from, F)                                                                   \
    TPK_SAT_FN(from, F, i8, int8_t, -0x1p7f, 0x1p7f, INT8_MIN, INT8_MAX)                       \
    TPK_SAT_FN(from, F, i16, int16_t, -0x1p15f, 0x1p15f, INT16_MIN, INT16_MAX)                 \
    TPK_SAT_FN(from, F, i32, int32_t, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX)                 \
    TPK_SAT_FN(from, F, i64, int64_t, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX)                 \
    TPK_SAT_FN(from, F, u8, uint8_t, 0.0f, 0x1p8f, 0, UINT8_MAX)                               \
    TPK_SAT_FN(from, F, u16, uint16_t, 0.0f, 0x1p16f, 0, UINT16_MAX)                           \
    TPK_SAT_FN(from, F, u32, uint32_t, 0.0f, 0x1p32f, 0, UINT32_MAX)                           \
    TPK_SAT_FN(from, F, u64, uint64_t, 0.0f, 0x1p64f, 0, UINT64_MAX)
TPK_SAT_FNS(f32, float)
TPK_SAT_FNS(f64, double)

#endif
