/* Elementary functions of float. Branch-free (selects and integer operations), so that loops over
 * arrays vectorise; every step is an IEEE operation or a fused multiply-add, so every compiler and
 * target gives the same bits. Coefficients: test/kernel/numerics/coef.py. Errors: docs/numerics.md. */
#ifndef TPK_MATH_F32_H
#define TPK_MATH_F32_H

#include "kernel/text/target.h"

#define TPK_MAGIC_F32 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer */

/* x = n ln 2 + r, |r| <= ln 2 / 2. Returns r; the low bits of *t, a float, hold n + bias. */
TPK_INLINE float tpk_exp_split_f32(float x, float bias, float *t)
{
    *t = tpk_fma_f32(x, 0x1.715476p+0f, TPK_MAGIC_F32 + bias);
    const float n = *t - (TPK_MAGIC_F32 + bias);
    const float r = tpk_fma_f32(n, -0x1.62e4p-1f, x);
    return tpk_fma_f32(n, -0x1.7f7d1cp-20f, r);
}

/* The lesser of floats of which `most` is positive; most for NaN. The integers, in the order of the
 * floats, are compared, which is one instruction. */
TPK_INLINE float tpk_exp_held_f32(float t, float most)
{
    const int32_t i = (int32_t)tpk_bits_f32(t), end = (int32_t)tpk_bits_f32(most);
    return tpk_from_bits_f32((uint32_t)(i < end ? i : end));
}

/* The same with n no larger than `most`: r grows with x beyond, and is NaN where x is. */
TPK_INLINE float tpk_exp_split_to_f32(float x, float bias, float most, float *t)
{
    *t = tpk_exp_held_f32(tpk_fma_f32(x, 0x1.715476p+0f, TPK_MAGIC_F32 + bias),
                          TPK_MAGIC_F32 + bias + most);
    const float n = *t - (TPK_MAGIC_F32 + bias);
    const float r = tpk_fma_f32(n, -0x1.62e4p-1f, x);
    return tpk_fma_f32(n, -0x1.7f7d1cp-20f, r);
}

/* (e^r - 1 - r) / r^2 */
TPK_INLINE float tpk_exp_poly_f32(float r)
{
    float p = 0x1.6cd82ep-10f;
    p = tpk_fma_f32(p, r, 0x1.122c50p-7f);
    p = tpk_fma_f32(p, r, 0x1.555538p-5f);
    p = tpk_fma_f32(p, r, 0x1.5554aap-3f);
    return tpk_fma_f32(p, r, 0.5f);
}

/* e^r */
TPK_INLINE float tpk_exp_rest_f32(float r)
{
    return tpk_fma_f32(tpk_fma_f32(tpk_exp_poly_f32(r), r, 1.0f), r, 1.0f);
}

/* p 2^n, n + 254 in the low bits of t: two factors, for n goes from -151 to 129, of which each gets half of the bias of
 * exponents. */
TPK_INLINE float tpk_exp_scale_f32(float p, float t)
{
    const uint32_t n = tpk_bits_f32(t) << 23, a = (tpk_bits_f32(t) << 22) & 0xff800000u;
    return p * tpk_from_bits_f32(a) * tpk_from_bits_f32(n - a);
}

/* Where n is held back e^r does for the rest: it is infinite in the end. */
TPK_INLINE float tpk_exp_f32(float x)
{
    float t;
    const float p = tpk_exp_rest_f32(tpk_exp_split_to_f32(x, 254.0f, 129.0f, &t));
    return x < -104.0f ? 0.0f : tpk_exp_scale_f32(p, t);
}

/* x = n + r, exactly; 2^r = 1 + r P(r) */
TPK_INLINE float tpk_exp2_f32(float x)
{
    const float bias = TPK_MAGIC_F32 + 254.0f;
    float a = x > 129.0f ? 129.0f : x;
    a = a < -151.0f ? -151.0f : a;
    const float t = a + bias, r = a - (t - bias);
    float p = 0x1.1795aep-13f;
    p = tpk_fma_f32(p, r, 0x1.5ef4ecp-10f);
    p = tpk_fma_f32(p, r, 0x1.3b681ap-7f);
    p = tpk_fma_f32(p, r, 0x1.c6af9ep-5f);
    p = tpk_fma_f32(p, r, 0x1.ebfb94p-3f);
    p = tpk_fma_f32(p, r, 0x1.62e430p-1f);
    return tpk_exp_scale_f32(tpk_fma_f32(p, r, 1.0f), t);
}

/* The same for x <= 0, or NaN: one of the factors is always 2^-64. */
TPK_INLINE float tpk_exp_down_f32(float x)
{
    float t;
    const float p = tpk_exp_rest_f32(tpk_exp_split_f32(x, 191.0f, &t));
    const float e = p * tpk_from_bits_f32(tpk_bits_f32(t) << 23) * 0x1p-64f;
    return x < -104.0f ? 0.0f : e;
}

/* e^x for -86 <= x <= 88, or NaN. */
TPK_INLINE float tpk_exp_mid_f32(float x)
{
    float t;
    const float p = tpk_exp_rest_f32(tpk_exp_split_f32(x, 127.0f, &t));
    return p * tpk_from_bits_f32(tpk_bits_f32(t) << 23);
}

/* With x = n ln 2 + r, r a pair of floats, and h = 2^n / 2: 2 ((h - 1/2) + h r + h r^2 P(r)). */
TPK_INLINE float tpk_expm1_f32(float x)
{
    float a = x > 89.0f ? 89.0f : x, t;
    a = a < -18.0f ? -18.0f : a;
    const float r = tpk_exp_split_f32(a, 126.0f, &t), n = t - (TPK_MAGIC_F32 + 126.0f);
    const float low = tpk_fma_f32(n, -0x1.7f7d1cp-20f, tpk_fma_f32(n, -0x1.62e4p-1f, a) - r);
    const float h = tpk_from_bits_f32(tpk_bits_f32(t) << 23), top = h - 0.5f;
    const float u = tpk_fma_f32(h, r, top), lost = tpk_fma_f32(h, r, top - u);
    const float y = u + tpk_fma_f32(h, tpk_fma_f32(tpk_exp_poly_f32(r) * r, r, low), lost);
    return __builtin_fabsf(x) < 0x1p-26f ? x : y + y; /* -0 and subnormals */
}

/* (log(1 + f) - f + f^2 / 2) / f^3, -1/3 <= f < 1/3 */
TPK_INLINE float tpk_log_cubic_f32(float f)
{
    float p = -0x1.109f7ep-3f;
    p = tpk_fma_f32(p, f, 0x1.1ed8f8p-3f);
    p = tpk_fma_f32(p, f, -0x1.eeb8cap-4f);
    p = tpk_fma_f32(p, f, 0x1.1ebca4p-3f);
    p = tpk_fma_f32(p, f, -0x1.55cd0ep-3f);
    p = tpk_fma_f32(p, f, 0x1.99d212p-3f);
    p = tpk_fma_f32(p, f, -0x1.fffd6ap-3f);
    return tpk_fma_f32(p, f, 0x1.555502p-2f);
}

/* (log(1 + f) - f) / f^2 */
TPK_INLINE float tpk_log_poly_f32(float f)
{
    return tpk_fma_f32(tpk_log_cubic_f32(f), f, -0.5f);
}

/* x = 2^(e - lift) m, 2/3 <= m < 4/3, for a normal x. Returns m - 1. */
TPK_INLINE float tpk_log_split_f32(float x, float lift, float *e)
{
    const int32_t i = (int32_t)tpk_bits_f32(x);
    const int32_t k = (int32_t)(((uint32_t)i - 0x3f2aaaabu) & 0xff800000u);
    *e = tpk_fma_f32((float)k, 0x1p-23f, lift);
    return tpk_from_bits_f32((uint32_t)i - (uint32_t)k) - 1.0f;
}

/* The same for all x > 0. */
TPK_INLINE float tpk_log_split_all_f32(float x, float *e)
{
    const int small = x < 0x1p-126f;
    return tpk_log_split_f32(small ? x * 0x1p23f : x, small ? -23.0f : 0.0f, e);
}

/* A logarithm of x, which is r where x > 0 is finite. */
TPK_INLINE float tpk_log_ends_f32(float x, float r)
{
    r = x < TPK_INF_F32 ? r : x; /* infinity and NaN */
    r = x == 0 ? -TPK_INF_F32 : r;
    return x < 0 ? TPK_NAN_F32 : r;
}

/* x = 2^e m; log x = e ln 2 + f + f^2 P(f), f = m - 1. */
TPK_INLINE float tpk_log_f32(float x)
{
    float e;
    const float f = tpk_log_split_all_f32(x, &e);
    return tpk_log_ends_f32(
        x, tpk_fma_f32(e, 0x1.62e430p-1f, tpk_fma_f32(tpk_log_poly_f32(f), f * f, f)));
}

/* log x / log b, of log 2 / log b as a pair, whose first number times e is exact, and of 1 / log b as a pair. With
 * g = f - f^2 / 2 it is e times the one and g times the other, both as pairs; what is small is added last. So whole
 * numbers come out as they are. */
TPK_INLINE float tpk_log_to_base_f32(float x, float unit, float unit_low, float factor,
                                     float factor_low)
{
    float e;
    const float f = tpk_log_split_all_f32(x, &e), half = -0.5f * f, g = tpk_fma_f32(half, f, f);
    const float rest = tpk_fma_f32(tpk_log_cubic_f32(f), f * f * f, tpk_fma_f32(half, f, f - g));
    const float whole = e * unit, part = g * factor, y = whole + part;
    float low = (part - (y - whole)) + tpk_fma_f32(g, factor, -part);
    low = tpk_fma_f32(e, unit_low, tpk_fma_f32(g, factor_low, low));
    return tpk_log_ends_f32(x, y + tpk_fma_f32(rest, factor, low));
}

TPK_INLINE float tpk_log2_f32(float x)
{
    return tpk_log_to_base_f32(x, 1.0f, 0.0f, 0x1.715476p+0f, 0x1.4ae0c0p-26f);
}

TPK_INLINE float tpk_log10_f32(float x)
{
    return tpk_log_to_base_f32(x, 0x1.3442p-2f, -0x1.95ec10p-19f, 0x1.bcb7b2p-2f, -0x1.5b235ep-27f);
}

/* u = 1 + x, rounded, and what that loses: log u as above, and lost / u. */
TPK_INLINE float tpk_log1p_f32(float x)
{
    const float u = 1.0f + x, d = u - 1.0f, lost = (x - d) + (1.0f - (u - d));
    float e;
    const float f = tpk_log_split_f32(u, 0.0f, &e);
    const float p = tpk_fma_f32(tpk_log_poly_f32(f), f * f, lost / u);
    float r = tpk_fma_f32(e, 0x1.62e430p-1f, f + p);
    r = x < TPK_INF_F32 ? r : x; /* infinity and NaN */
    r = x == -1.0f ? -TPK_INF_F32 : r;
    r = __builtin_fabsf(x) < 0x1p-26f ? x : r; /* -0 */
    return x < -1.0f ? TPK_NAN_F32 : r;
}

/* x + x z P(z), z = x^2, up to 0.7; 1 - 2 / (e^2|x| + 1) above, where errors of e^2|x| = 2^n e^r
 * count for less the larger it is: so ln 2 is one float, and e^r of degree 5. */
TPK_INLINE float tpk_tanh_f32(float x)
{
    const float z = x * x, a = __builtin_fabsf(x), bias = TPK_MAGIC_F32 + 127.0f;
    float p = -0x1.50e286p-8f;
    p = tpk_fma_f32(p, z, 0x1.4939bep-6f);
    p = tpk_fma_f32(p, z, -0x1.b6c362p-5f);
    p = tpk_fma_f32(p, z, 0x1.10fb0ap-3f);
    p = tpk_fma_f32(p, z, -0x1.5554f6p-2f);
    p = tpk_fma_f32(p * z, x, x);
    const float t = tpk_exp_held_f32(tpk_fma_f32(a, 0x1.715476p+1f, bias), bias + 127.0f);
    const float r = tpk_fma_f32(t - bias, -0x1.62e430p-1f, a + a);
    float e = 0x1.10b074p-7f;
    e = tpk_fma_f32(e, r, 0x1.5740bcp-5f);
    e = tpk_fma_f32(e, r, 0x1.5557e6p-3f);
    e = tpk_fma_f32(e, r, 0x1.fffdb6p-2f);
    e = tpk_fma_f32(e, r, 0x1.fffffcp-1f);
    e = tpk_fma_f32(e, r, 1.0f);
    const float q =
        1.0f - 2.0f / tpk_fma_f32(e, tpk_from_bits_f32(tpk_bits_f32(t) << 23), 1.0f);
    return tpk_copysign_f32(a > 0.7f ? q : p, x); /* -0 stays */
}

/* With e = exp(-|x|): 1 / (1 + e) or e / (1 + e); one step corrects the rounding of 1 + e. */
TPK_INLINE float tpk_sigmoid_f32(float x)
{
    const float e = tpk_exp_down_f32(-__builtin_fabsf(x)), d = 1.0f + e, low = e - (d - 1.0f);
    const float num = x < 0 ? e : 1.0f, inv = 1.0f / d, q = num * inv;
    return tpk_fma_f32(tpk_fma_f32(-q, low, tpk_fma_f32(-q, d, num)), inv, q);
}

/* x + x P(x^2) below 0.9, 1 - exp(P(|x|)) above. */
TPK_INLINE float tpk_erf_f32(float x)
{
    const float z = __builtin_fabsf(x), a = z > 4.0f ? 4.0f : z, s = x * x;
    float p = -0x1.3ba9cep-11f;
    p = tpk_fma_f32(p, s, 0x1.479c9ep-8f);
    p = tpk_fma_f32(p, s, -0x1.b69b96p-6f);
    p = tpk_fma_f32(p, s, 0x1.ce1b86p-4f);
    p = tpk_fma_f32(p, s, -0x1.8126ecp-2f);
    p = tpk_fma_f32(p, s, 0x1.06eba6p-3f);
    p = tpk_fma_f32(p, x, x);
    float q = -0x1.5d83e2p-16f;
    q = tpk_fma_f32(q, a, 0x1.c4635ep-12f);
    q = tpk_fma_f32(q, a, -0x1.1064d8p-8f);
    q = tpk_fma_f32(q, a, 0x1.9aed04p-6f);
    q = tpk_fma_f32(q, a, -0x1.bb45aep-4f);
    q = tpk_fma_f32(q, a, -0x1.444d16p-1f);
    q = tpk_fma_f32(q, a, -0x1.212628p+0f);
    q = tpk_fma_f32(q, a, 0x1.62d9dep-13f);
    q = 1.0f - tpk_exp_mid_f32(q);
    return a > 0.9f ? tpk_copysign_f32(q, x) : p;
}

/* x (7/8 - 15/64 l + P(l) / Q(l)), l = s + low = log(1 - x^2). The line, which is most of it, is exact as a pair, and
 * so is its product with x. Subnormal numbers are scaled. The variable is that of M. Giles, Approximating the erfinv
 * function, GPU Computing Gems (2011). */
TPK_INLINE float tpk_erfinv_f32(float x)
{
    float e;
    const float f = tpk_log_split_f32(tpk_fma_f32(-x, x, 1.0f), 0.0f, &e);
    const float top = e * 0x1.62e4p-1f, s = top + f;
    float low = tpk_fma_f32(e, 0x1.7f7d1cp-20f, f - (s - top));
    low = tpk_fma_f32(tpk_log_poly_f32(f), f * f, low);
    const float l = s + low;
    float p = -0x1.387706p-21f;
    p = tpk_fma_f32(p, l, 0x1.43d7b0p-16f);
    p = tpk_fma_f32(p, l, 0x1.7ff81ep-15f);
    p = tpk_fma_f32(p, l, 0x1.5e453ap-10f);
    p = tpk_fma_f32(p, l, 0x1.7fcc78p-7f);
    p = tpk_fma_f32(p, l, 0x1.5e6676p-10f);
    p = tpk_fma_f32(p, l, 0x1.6fe244p-7f);
    float q = -0x1.7edf54p-19f;
    q = tpk_fma_f32(q, l, 0x1.d44590p-13f);
    q = tpk_fma_f32(q, l, -0x1.1a89e8p-9f);
    q = tpk_fma_f32(q, l, 0x1.1489d8p-5f);
    q = tpk_fma_f32(q, l, -0x1.75d17ap-4f);
    q = tpk_fma_f32(q, l, 1.0f);
    const float line = tpk_fma_f32(s, -0.234375f, 0.875f);
    const float lost = tpk_fma_f32(s, -0.234375f, 0.875f - line);
    const float rest = p / q + tpk_fma_f32(low, -0.234375f, lost);
    const float a = x * 0x1p30f, y = a * line;
    const float r = y + tpk_fma_f32(a, rest, tpk_fma_f32(a, line, -y));
    const float z = __builtin_fabsf(x) == 1.0f ? TPK_INF_F32 : r * 0x1p-30f;
    return __builtin_fabsf(x) > 1.0f ? TPK_NAN_F32 : tpk_copysign_f32(z, x); /* -0 stays */
}

/* x = (n + r) pi / 2, |r| <= 0.52, in double: the product of x with two windows of 53 bits of
 * 2 / pi; bits that only add multiples of 4 to it are left out. Exact for all x. */
TPK_INLINE double tpk_trig_split_f32(float x, uint64_t *n)
{
    const float a = __builtin_fabsf(x);
    double c1 = 0x1.45f306dc9c882p-1, c2 = 0x1.4a7f09d5f47d4p-54;
    c1 = a >= 0x1p23f ? 0x1.45f306dc9c880p-1 : c1,
    c2 = a >= 0x1p23f ? 0x1.529fc2757d1f5p-52 : c2;
    c1 = a >= 0x1p44f ? 0x1.b727220a94fe0p-23 : c1,
    c2 = a >= 0x1p44f ? 0x1.3abe8fa9a6ee0p-75 : c2;
    c1 = a >= 0x1p65f ? 0x1.1054a7f09d5f4p-42 : c1,
    c2 = a >= 0x1p65f ? 0x1.f534ddc0db628p-96 : c2;
    c1 = a >= 0x1p86f ? 0x1.fc2757d1f534cp-64 : c1,
    c2 = a >= 0x1p86f ? 0x1.dc0db6295993cp-116 : c2;
    c1 = a >= 0x1p107f ? 0x1.7d1f534ddc0dap-84 : c1;
    c2 = a >= 0x1p107f ? 0x1.6295993c43904p-136 : c2;
    const double y = (double)x, t = tpk_fma_f64(y, c1, 0x1.8p52);
    *n = tpk_bits_f64(t);
    return tpk_fma_f64(y, c2, tpk_fma_f64(y, c1, -(t - 0x1.8p52))); /* -0 stays */
}

/* sin(pi/2 (r + n)): n odd takes the cosine, n & 2 the minus. */
TPK_INLINE float tpk_trig_poly_f32(double r, uint64_t n)
{
    const double s = r * r;
    double p = -0x1.2d25c372f81adp-8, q = 0x1.d95256362a18cp-11;
    p = tpk_fma_f64(p, s, 0x1.465c537566b53p-4);
    p = tpk_fma_f64(p, s, -0x1.4abbb34dd1ac3p-1);
    p = tpk_fma_f64(p, s, 0x1.921fb52649f9dp+0) * r;
    q = tpk_fma_f64(q, s, -0x1.55c42238b431fp-6);
    q = tpk_fma_f64(q, s, 0x1.03c1da21d7a21p-2);
    q = tpk_fma_f64(q, s, -0x1.3bd3cc7417e4dp+0);
    q = tpk_fma_f64(q, s, 1.0);
    const uint64_t odd = ~UINT64_C(0) * (n & 1);
    const uint64_t u = (tpk_bits_f64(p) & ~odd) | (tpk_bits_f64(q) & odd);
    return (float)tpk_from_bits_f64(u ^ ((n & 2) << 62));
}

TPK_INLINE float tpk_sin_f32(float x)
{
    uint64_t n;
    const double r = tpk_trig_split_f32(x, &n);
    return tpk_trig_poly_f32(r, n);
}

TPK_INLINE float tpk_cos_f32(float x)
{
    uint64_t n;
    const double r = tpk_trig_split_f32(x, &n);
    return tpk_trig_poly_f32(r, n + 1);
}

/* 2^(y log2 |x|) in double, then the rules of C for the special operands. */
TPK_INLINE float tpk_pow_f32(float x, float y)
{
    const double a = (double)__builtin_fabsf(x), b = (double)y;
    const uint64_t i = tpk_bits_f64(a), k = (i - 0x3fe6a09e667f3bcdu) & 0xfff0000000000000u;
    /* the exponent as a double without a 64-bit conversion, which few targets have */
    const double e =
        tpk_from_bits_f64(((k >> 52 ^ 2048) & 4095) | 0x4330000000000000u) - (0x1p52 + 2048);
    const double m = tpk_from_bits_f64(i - k), s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 0x1.21b9c03f488e7p-2;
    p = tpk_fma_f64(p, z, 0x1.4794bc6edd693p-2);
    p = tpk_fma_f64(p, z, 0x1.a61a326bb26e8p-2);
    p = tpk_fma_f64(p, z, 0x1.2776c28ecc7fdp-1);
    p = tpk_fma_f64(p, z, 0x1.ec709dc5402dcp-1);
    p = tpk_fma_f64(p, z, 0x1.71547652b824fp+1);
    double l = tpk_fma_f64(p, s, e);
    l = a == 0 ? -TPK_INF_F64 : l;
    l = a < TPK_INF_F64 ? l : a;
    l = l * b;
    l = l > 200.0 ? 200.0 : l;
    l = l < -200.0 ? -200.0 : l;
    const double t = l + 0x1.8p52, f = l - (t - 0x1.8p52);
    double q = 0x1.c03d2b42cff45p-17;
    q = tpk_fma_f64(q, f, 0x1.44404f0d08eefp-13);
    q = tpk_fma_f64(q, f, 0x1.5dc079cb18960p-10);
    q = tpk_fma_f64(q, f, 0x1.3b2a1b3f0ca58p-7);
    q = tpk_fma_f64(q, f, 0x1.c6b054d66a466p-5);
    q = tpk_fma_f64(q, f, 0x1.ebfbe045f8160p-3);
    q = tpk_fma_f64(q, f, 0x1.62e4300bd00e2p-1);
    q = tpk_fma_f64(q, f, 1.0);
    float r = (float)(q * tpk_from_bits_f64((tpk_bits_f64(t) << 52) + 0x3ff0000000000000u));
    r = ((a == 1.0) & (y == y)) ? 1.0f : r; /* and y infinite */
    const float half = y * 0.5f;
    const int whole = tpk_floor_f32(y) == y, odd = whole & (tpk_floor_f32(half) != half);
    const uint32_t sign = odd ? tpk_bits_f32(x) & 0x80000000u : 0;
    r = tpk_from_bits_f32(tpk_bits_f32(r) ^ sign);
    r = ((x < 0) & (x > -TPK_INF_F32) & !whole) ? TPK_NAN_F32 : r;
    return ((y == 0) | (x == 1.0f)) ? 1.0f : r;
}

#endif
