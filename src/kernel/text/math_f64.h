/* Elementary functions of double. Branch-free but for sin and cos beyond 2^20; the rest is said in
 * math_f32.h. */
#ifndef TPK_MATH_F64_H
#define TPK_MATH_F64_H

#include "kernel/text/target.h"

#define TPK_MAGIC_F64 6755399441055744.0 /* 1.5 * 2^52 */

/* hi + lo = a + b exactly. */
TPK_INLINE double tpk_two_sum(double a, double b, double *lo)
{
    const double s = a + b, t = s - a;
    *lo = (a - (s - t)) + (b - t);
    return s;
}

/* hi + lo = a + b exactly, when |a| >= |b|. */
TPK_INLINE double tpk_fast_sum(double a, double b, double *lo)
{
    const double s = a + b;
    *lo = b - (s - a);
    return s;
}

/* x = n ln 2 + r, |r| <= ln 2 / 2. Returns r; the low bits of *t, a double, hold n. */
TPK_INLINE double tpk_exp_split_f64(double x, double *t)
{
    *t = tpk_fma_f64(x, 0x1.71547652b82fep+0, TPK_MAGIC_F64);
    const double n = *t - TPK_MAGIC_F64;
    const double r = tpk_fma_f64(n, -0x1.62e42fefa38p-1, x);
    return tpk_fma_f64(n, -0x1.ef35793c76730p-45, r);
}

/* (e^r - 1 - r) / r^2 */
TPK_INLINE double tpk_exp_poly_f64(double r)
{
    double p = 0x1.1f95a191b9ca2p-29;
    p = tpk_fma_f64(p, r, 0x1.af5f32920fddfp-26);
    p = tpk_fma_f64(p, r, 0x1.27e4c57b09013p-22);
    p = tpk_fma_f64(p, r, 0x1.71ddf816abe95p-19);
    p = tpk_fma_f64(p, r, 0x1.a01a01b0c74f7p-16);
    p = tpk_fma_f64(p, r, 0x1.a01a01affb0a4p-13);
    p = tpk_fma_f64(p, r, 0x1.6c16c16c14421p-10);
    p = tpk_fma_f64(p, r, 0x1.111111110f67ep-7);
    p = tpk_fma_f64(p, r, 0x1.555555555555ap-5);
    p = tpk_fma_f64(p, r, 0x1.5555555555559p-3);
    return tpk_fma_f64(p, r, 0.5);
}

/* p 2^n in two factors, n in the low bits of t. */
TPK_INLINE double tpk_exp_scale_f64(double p, double t)
{
    const uint64_t one = UINT64_C(0x3ff) << 52, n = tpk_bits_f64(t) << 52;
    const uint64_t a = (tpk_bits_f64(t) << 51) & (UINT64_C(0xfff) << 52);
    return p * tpk_from_bits_f64(a + one) * tpk_from_bits_f64(n - a + one);
}

TPK_INLINE double tpk_exp_f64(double x)
{
    double t;
    const double r = tpk_exp_split_f64(x > 710.0 ? 710.0 : x, &t);
    const double p = tpk_fma_f64(tpk_fma_f64(tpk_exp_poly_f64(r), r, 1.0), r, 1.0);
    return x < -746.0 ? 0.0 : tpk_exp_scale_f64(p, t);
}

/* x = n + r, exactly; u = r ln 2 in 1 + u + u^2 P(u), but r times ln 2 as a pair where it counts. */
TPK_INLINE double tpk_exp2_f64(double x)
{
    double a = x > 1025.0 ? 1025.0 : x;
    a = a < -1076.0 ? -1076.0 : a;
    const double t = a + TPK_MAGIC_F64, r = a - (t - TPK_MAGIC_F64);
    const double u = r * 0x1.62e42fefa39efp-1;
    const double p = tpk_fma_f64(tpk_exp_poly_f64(u) * u, u, r * 0x1.abc9e3b39803fp-56);
    return tpk_exp_scale_f64(1.0 + tpk_fma_f64(r, 0x1.62e42fefa39efp-1, p), t);
}

/* As of f32. */
TPK_INLINE double tpk_expm1_f64(double x)
{
    double a = x > 710.0 ? 710.0 : x, t;
    a = a < -38.0 ? -38.0 : a;
    const double r = tpk_exp_split_f64(a, &t), n = t - TPK_MAGIC_F64;
    const double low =
        tpk_fma_f64(n, -0x1.ef35793c76730p-45, tpk_fma_f64(n, -0x1.62e42fefa38p-1, a) - r);
    const double h = tpk_from_bits_f64((tpk_bits_f64(t) << 52) + (UINT64_C(0x3fe) << 52));
    const double top = h - 0.5, u = tpk_fma_f64(h, r, top), lost = tpk_fma_f64(h, r, top - u);
    const double y = u + tpk_fma_f64(h, tpk_fma_f64(tpk_exp_poly_f64(r) * r, r, low), lost);
    return __builtin_fabs(x) < 0x1p-55 ? x : y + y; /* -0 and subnormals */
}

/* x = 2^e m, sqrt(1/2) <= m < sqrt 2. Returns m. Zero, infinity and NaN give rubbish. */
TPK_INLINE double tpk_log_split_f64(double x, double *e)
{
    const int small = x < 0x1p-1022;
    const uint64_t i = tpk_bits_f64(small ? x * 0x1p52 : x);
    const uint64_t k = (i - UINT64_C(0x3fe6a09e667f3bcd)) & UINT64_C(0xfff0000000000000);
    /* the exponent as a double without a 64-bit conversion, which few targets have */
    const uint64_t u = ((k >> 52 ^ 2048) & 4095) | UINT64_C(0x4330000000000000);
    *e = tpk_from_bits_f64(u) - (0x1p52 + 2048) - (small ? 52.0 : 0.0);
    return tpk_from_bits_f64(i - k);
}

/* log(1 + f) - f + h + more, h = f^2 / 2, for 1 + f between sqrt(1/2) and sqrt 2: the logarithm is 2s + s z P(z),
 * s = f / (2 + f), z = s^2; and 2s = f - s f = f - h + s h. */
TPK_INLINE double tpk_log_rest_f64(double f, double h, double more)
{
    const double s = f / (2.0 + f), z = s * s;
    double p = 0x1.2e952ce24bd1ap-3;
    p = tpk_fma_f64(p, z, 0x1.39adef08e7244p-3);
    p = tpk_fma_f64(p, z, 0x1.7465b83f378d4p-3);
    p = tpk_fma_f64(p, z, 0x1.c71c54f265620p-3);
    p = tpk_fma_f64(p, z, 0x1.2492493dc0bc7p-2);
    p = tpk_fma_f64(p, z, 0x1.9999999985aa9p-2);
    p = tpk_fma_f64(p, z, 0x1.555555555557bp-1);
    return tpk_fma_f64(s, tpk_fma_f64(p, z, h), more);
}

/* log x + more, for 0 < x < infinity */
TPK_INLINE double tpk_log_finite_f64(double x, double more)
{
    double e, low;
    const double f = tpk_log_split_f64(x, &e) - 1.0, h = 0.5 * f * f;
    const double c = tpk_log_rest_f64(f, h, e * 0x1.ef35793c76730p-45) - h;
    const double r = tpk_fast_sum(e * 0x1.62e42fefa38p-1, f, &low); /* an exact product */
    return r + (low + (c + more));
}

/* A logarithm of x, which is r where x > 0 is finite. */
TPK_INLINE double tpk_log_ends_f64(double x, double r)
{
    r = x < TPK_INF_F64 ? r : x;
    r = x == 0 ? -TPK_INF_F64 : r;
    return x < 0 ? TPK_NAN_F64 : r;
}

TPK_INLINE double tpk_log_f64(double x)
{
    return tpk_log_ends_f64(x, tpk_log_finite_f64(x, 0.0));
}

/* As of f32. */
TPK_INLINE double tpk_log_to_base_f64(double x, double unit, double unit_low, double factor,
                                      double factor_low)
{
    double e, lost;
    const double f = tpk_log_split_f64(x, &e) - 1.0, half = -0.5 * f,
                 g = tpk_fma_f64(half, f, f);
    const double rest = tpk_log_rest_f64(f, -half * f, tpk_fma_f64(half, f, f - g));
    const double part = g * factor, y = tpk_fast_sum(e * unit, part, &lost);
    double low = lost + tpk_fma_f64(g, factor, -part);
    low = tpk_fma_f64(e, unit_low, tpk_fma_f64(g, factor_low, low));
    return tpk_log_ends_f64(x, y + tpk_fma_f64(rest, factor, low));
}

TPK_INLINE double tpk_log2_f64(double x)
{
    return tpk_log_to_base_f64(x, 1.0, 0.0, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56);
}

TPK_INLINE double tpk_log10_f64(double x)
{
    return tpk_log_to_base_f64(x, 0x1.34413509f8p-2, -0x1.80433b83b532ap-44,
                               0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57);
}

/* u = 1 + x, rounded, and what that loses: log u and lost / u. */
TPK_INLINE double tpk_log1p_f64(double x)
{
    double lost;
    const double u = tpk_two_sum(1.0, x, &lost);
    double r = tpk_log_finite_f64(u, lost / u);
    r = x < TPK_INF_F64 ? r : x; /* infinity and NaN */
    r = x == -1.0 ? -TPK_INF_F64 : r;
    r = __builtin_fabs(x) < 0x1p-55 ? x : r; /* -0 */
    return x < -1.0 ? TPK_NAN_F64 : r;
}

/* With m = e^2|x| - 1, tanh |x| = m / (m + 2); one step corrects the roundings. */
TPK_INLINE double tpk_tanh_f64(double x)
{
    double a = __builtin_fabs(x);
    a = a > 20.0 ? 20.0 : a;
    double t, low, dlow;
    const double r = tpk_exp_split_f64(a + a, &t);
    const double s = tpk_from_bits_f64((tpk_bits_f64(t) << 52) + (UINT64_C(0x3ff) << 52));
    const double p = tpk_exp_poly_f64(r) * r;
    /* m = (s - 1) + s r + s r p */
    double m = tpk_two_sum(s - 1.0, s * r, &low);
    m = tpk_fast_sum(m, tpk_fma_f64(s * r, p, low), &low);
    const double d = tpk_two_sum(m, 2.0, &dlow), inv = 1.0 / d, q = m * inv;
    const double e = tpk_fma_f64(-q, d, m) + (low - q * (dlow + low));
    return tpk_copysign_f64(tpk_fma_f64(e, inv, q), x);
}

TPK_INLINE double tpk_sigmoid_f64(double x)
{
    const double e = tpk_exp_f64(-__builtin_fabs(x)), d = 1.0 + e, low = e - (d - 1.0);
    const double num = x < 0 ? e : 1.0, inv = 1.0 / d, q = num * inv;
    return tpk_fma_f64(tpk_fma_f64(-q, low, tpk_fma_f64(-q, d, num)), inv, q);
}

/* x + x P(x^2) below 1, 1 - exp(P(|x|)) above. */
TPK_INLINE double tpk_erf_f64(double x)
{
    const double z = __builtin_fabs(x), a = z > 6.0 ? 6.0 : z, s = x * x;
    double p = 0x1.3b6173729aaa0p-33;
    p = tpk_fma_f64(p, s, -0x1.c48da41e1d51ap-30);
    p = tpk_fma_f64(p, s, 0x1.1319ecbc3a485p-26);
    p = tpk_fma_f64(p, s, -0x1.638f9d8f3e9d0p-23);
    p = tpk_fma_f64(p, s, 0x1.ba68f50245727p-20);
    p = tpk_fma_f64(p, s, -0x1.f4dcef30a8941p-17);
    p = tpk_fma_f64(p, s, 0x1.f9a3b93b23160p-14);
    p = tpk_fma_f64(p, s, -0x1.c02db932754edp-11);
    p = tpk_fma_f64(p, s, 0x1.565bcd2c6065cp-8);
    p = tpk_fma_f64(p, s, -0x1.b82ce31354c44p-6);
    p = tpk_fma_f64(p, s, 0x1.ce2f21a0458d7p-4);
    p = tpk_fma_f64(p, s, -0x1.812746b037a25p-2);
    p = tpk_fma_f64(p, s, 0x1.06eba8214db69p-3);
    p = tpk_fma_f64(p, x, x);
    double q = 0x1.95d11ec919e7dp-46;
    q = tpk_fma_f64(q, a, -0x1.5f0d1e845df8bp-40);
    q = tpk_fma_f64(q, a, 0x1.1f8e185a6abd3p-35);
    q = tpk_fma_f64(q, a, -0x1.28b1b664c529ep-31);
    q = tpk_fma_f64(q, a, 0x1.b08566856fa1cp-28);
    q = tpk_fma_f64(q, a, -0x1.d944d807948a5p-25);
    q = tpk_fma_f64(q, a, 0x1.92a68d39eb751p-22);
    q = tpk_fma_f64(q, a, -0x1.0fafa190f1fa9p-19);
    q = tpk_fma_f64(q, a, 0x1.24d19933ad89ap-17);
    q = tpk_fma_f64(q, a, -0x1.f3c1a9f1a6ac5p-16);
    q = tpk_fma_f64(q, a, 0x1.44ed92970b4cep-14);
    q = tpk_fma_f64(q, a, -0x1.1a76464264bdbp-13);
    q = tpk_fma_f64(q, a, 0x1.eba2b9851e583p-15);
    q = tpk_fma_f64(q, a, 0x1.09cfdcc4651bep-11);
    q = tpk_fma_f64(q, a, -0x1.ab439fbd8e621p-10);
    q = tpk_fma_f64(q, a, 0x1.5e15c40c708d3p-13);
    q = tpk_fma_f64(q, a, 0x1.39be9819ba37ep-6);
    q = tpk_fma_f64(q, a, -0x1.a4fd1a31f17b8p-4);
    q = tpk_fma_f64(q, a, -0x1.45f2c1918e7bep-1);
    q = tpk_fma_f64(q, a, -0x1.20dd7ac2cff19p+0);
    q = tpk_fma_f64(q, a, 0x1.cd4225d7c597bp-26);
    q = 1.0 - tpk_exp_f64(q);
    return a > 1.0 ? tpk_copysign_f64(q, x) : p;
}

/* erfinv x = x (1 - 3/16 l + P(l) / Q(l)), l = log(1 - x^2): M of each coefficient, from the highest power on. */
/* clang-format off */
#define TPK_ERFINV_P(M)                                                                        \
    M(0x1.69ce6ea0b85c5p-56) M(-0x1.f6a5415fc4442p-49) M(0x1.386f1e0d91407p-44)                \
    M(-0x1.9b04da3f1dfe9p-40) M(0x1.447350f70f934p-35) M(-0x1.f92ab188ffdd2p-34)               \
    M(0x1.170befee1f0bfp-28) M(0x1.e14e214b60bf5p-25) M(-0x1.04ebef0e5fa69p-21)                \
    M(0x1.9f3d5cf413a34p-17) M(-0x1.7efc7b37e0bdbp-14) M(0x1.9e46b08245f4ep-11)                \
    M(-0x1.aa0277680a659p-9) M(0x1.98505c4ed002cp-7) M(-0x1.aed98605139a7p-7)                  \
    M(-0x1.d203b725884abp-4)
#define TPK_ERFINV_Q(M)                                                                        \
    M(0x1.082d9d792c2bfp-67) M(0x1.1428039d68ee9p-53) M(-0x1.177c689910c1cp-45)                \
    M(0x1.bf4c271d1138ap-40) M(-0x1.5c4af590ba0dfp-35) M(0x1.3d4c4da776f5fp-30)                \
    M(-0x1.4df4f8eae9356p-26) M(0x1.7d59b5daa7064p-22) M(-0x1.173ad3bd02c16p-18)               \
    M(0x1.b0a46f2c7bf07p-15) M(-0x1.b24898b607992p-12) M(0x1.c217a3e5419fcp-9)                 \
    M(-0x1.26401faad11e9p-6) M(0x1.98fbf44c1e2b1p-4) M(-0x1.1a4c5afdbbcaap-2)                  \
    M(1.0)
/* clang-format on */
#define TPK_ERFINV_STEP_P(c) p = tpk_fma_f64(p, l, c);
#define TPK_ERFINV_STEP_Q(c) q = tpk_fma_f64(q, l, c);
TPK_INLINE double tpk_erfinv_f64(double x)
{
    const double l = tpk_log_finite_f64(tpk_fma_f64(-x, x, 1.0), 0.0);
    double p = 0.0, q = 0.0;
    TPK_ERFINV_P(TPK_ERFINV_STEP_P)
    TPK_ERFINV_Q(TPK_ERFINV_STEP_Q)
    const double y = tpk_fma_f64(x, tpk_fma_f64(l, -0.1875, p / q), x);
    const double z = __builtin_fabs(x) == 1.0 ? TPK_INF_F64 : y;
    return __builtin_fabs(x) > 1.0 ? TPK_NAN_F64 : tpk_copysign_f64(z, x); /* -0 stays */
}

/* |x| >= 2^20: x 2/pi modulo 4 from the 192 bits of 2/pi that matter (Payne and Hanek). */
TPK_INLINE double tpk_trig_far_f64(double x, double *lo, uint64_t *n)
{
    static const uint64_t bits[20] = {
        0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
        0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
        0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
        0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
        0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
    const uint64_t u = tpk_bits_f64(x);
    const int e = (int)((u >> 52) & 2047) - 1075; /* |x| = m 2^e */
    if (e > 1023 - 52) {
        *lo = 0, *n = 0;
        return TPK_NAN_F64;
    }
    const uint64_t m = (u & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    /* The window begins at the bit of weight 2^(1 - e): those before it add multiples of 4. */
    const int first = e - 2 + 64, word = first >> 6, shift = first & 63;
    uint64_t w[3];
    for (int i = 0; i < 3; i++) {
        w[i] = bits[word + i] << shift | (shift ? bits[word + i + 1] >> (64 - shift) : 0);
    }
    /* m times the window, modulo 2^192: quarter turns times 2^190 */
    const tpk_u128 p1 = tpk_mul_u64x2(m, w[1]), p2 = tpk_mul_u64x2(m, w[2]);
    uint64_t r2 = p2.lo, r1 = p1.lo + p2.hi, r0 = m * w[0] + p1.hi + (r1 < p2.hi);
    *n = r0 >> 62;
    r0 = (r0 << 2) | (r1 >> 62);
    r1 = (r1 << 2) | (r2 >> 62);
    r2 <<= 2;
    const int up = (int)(r0 >> 63); /* past the half: the next quarter, and minus the rest */
    *n += (uint64_t)up;
    if (up) {
        r2 = ~r2 + 1;
        r1 = ~r1 + (r2 == 0);
        r0 = ~r0 + (r1 == 0 && r2 == 0);
    }
    double low, h = tpk_two_sum((double)(r0 >> 11) * 0x1p-53,
                                (double)((r0 & 2047) << 42 | r1 >> 22) * 0x1p-106, &low);
    low += (double)((r1 & ((1u << 22) - 1)) << 31 | r2 >> 33) * 0x1p-159;
    const double a = h * 0x1.921fb54442d18p+0;
    double b = tpk_fma_f64(h, 0x1.921fb54442d18p+0, -a);
    b += h * 0x1.1a62633145c07p-54 + low * 0x1.921fb54442d18p+0;
    h = tpk_fast_sum(a, b, lo);
    if (up) {
        h = -h, *lo = -*lo;
    }
    if (x < 0) {
        h = -h, *lo = -*lo, *n = 0 - *n;
    }
    return h;
}

/* x = n pi/2 + (hi + lo), |hi| <= pi/4. */
TPK_INLINE double tpk_trig_split_f64(double x, double *lo, uint64_t *n)
{
    if (!(__builtin_fabs(x) < 0x1p20)) {
        return tpk_trig_far_f64(x, lo, n);
    }
    /* pi/2 as three doubles; each product exact as a pair */
    const double t = tpk_fma_f64(x, 0x1.45f306dc9c883p-1, TPK_MAGIC_F64), k = t - TPK_MAGIC_F64;
    *n = tpk_bits_f64(t);
    const double p1 = k * 0x1.921fb54442d18p+0, e1 = tpk_fma_f64(k, 0x1.921fb54442d18p+0, -p1);
    const double p2 = k * 0x1.1a62633145c07p-54,
                 e2 = tpk_fma_f64(k, 0x1.1a62633145c07p-54, -p2);
    double s2, l2;
    const double u = tpk_two_sum(e1, p2, &s2), r = tpk_two_sum(x - p1, -u, &l2);
    const double tail = l2 - s2 - e2 - k * -0x1.f1976b7ed8fbcp-110;
    const double h = tpk_fast_sum(r, tail, lo);
    return h;
}

/* sin(pi/2 n + hi + lo). */
TPK_INLINE double tpk_trig_poly_f64(double r, double lo, uint64_t n)
{
    const double z = r * r;
    double p = 0x1.5d93028b4797fp-33, q = -0x1.8fb0949e64a2bp-37;
    p = tpk_fma_f64(p, z, -0x1.ae5e66b16ca56p-26);
    p = tpk_fma_f64(p, z, 0x1.71de357907d73p-19);
    p = tpk_fma_f64(p, z, -0x1.a01a019c14408p-13);
    p = tpk_fma_f64(p, z, 0x1.111111110f89dp-7);
    p = tpk_fma_f64(p, z, -0x1.5555555555549p-3);
    /* sin(r + lo) = r + (r^3 P + lo (1 - r^2/2)) */
    p = r + tpk_fma_f64(p * z, r, tpk_fma_f64(-0.5 * z, lo, lo));
    q = tpk_fma_f64(q, z, 0x1.1ee9f049950c4p-29);
    q = tpk_fma_f64(q, z, -0x1.27e4f81170cf1p-22);
    q = tpk_fma_f64(q, z, 0x1.a01a019cbe0cfp-16);
    q = tpk_fma_f64(q, z, -0x1.6c16c16c15217p-10);
    q = tpk_fma_f64(q, z, 0x1.555555555554cp-5);
    /* cos(r + lo) = 1 - z/2 + (z^2 Q - r lo), with the rounding of 1 - z/2 */
    const double h = 0.5 * z, w = 1.0 - h;
    q = w + (((1.0 - w) - h) + tpk_fma_f64(z * z, q, -r * lo));
    const uint64_t odd = 0 - (n & 1);
    const uint64_t u = (tpk_bits_f64(p) & ~odd) | (tpk_bits_f64(q) & odd);
    return tpk_from_bits_f64(u ^ ((n & 2) << 62));
}

TPK_INLINE double tpk_sin_f64(double x)
{
    double lo;
    uint64_t n;
    const double r = tpk_trig_split_f64(x, &lo, &n);
    return x == 0 ? x : tpk_trig_poly_f64(r, lo, n);
}

TPK_INLINE double tpk_cos_f64(double x)
{
    double lo;
    uint64_t n;
    const double r = tpk_trig_split_f64(x, &lo, &n);
    return tpk_trig_poly_f64(r, lo, n + 1);
}

/* exp(y log |x|) with the logarithm as a pair of doubles, then the rules of C. */
TPK_INLINE double tpk_pow_f64(double x, double y)
{
    const double a = __builtin_fabs(x);
    double e, dl, sl, zl, cl, gl, l1, l2, l3;
    const double m = tpk_log_split_f64(a, &e);
    /* s + sl = (m - 1) / (m + 1) */
    const double f = m - 1.0, d = tpk_two_sum(m, 1.0, &dl), s = f / d;
    sl = (tpk_fma_f64(-s, d, f) - s * dl) / d;
    const double z = s * s;
    zl = tpk_fma_f64(s, s, -z) + 2.0 * s * sl;
    double p = 0x1.0c5971ba7d0c0p-3;
    p = tpk_fma_f64(p, z, 0x1.0fb869927453fp-3);
    p = tpk_fma_f64(p, z, 0x1.3b1c4d481ee17p-3);
    p = tpk_fma_f64(p, z, 0x1.745cf9c2fb163p-3);
    p = tpk_fma_f64(p, z, 0x1.c71c71fa23b06p-3);
    p = tpk_fma_f64(p, z, 0x1.24924924811c9p-2);
    /* c + cl = 2/3 + z (2/5 + z P) */
    const double b = tpk_fast_sum(0x1.999999999999ap-2, z * p, &l1);
    l1 -= 0x1.999999999999ap-56;
    const double t = z * b, tl = tpk_fma_f64(z, b, -t) + (z * l1 + zl * b);
    const double c = tpk_fast_sum(0x1.5555555555555p-1, t, &cl);
    cl += tl + 0x1.5555555555555p-55;
    /* g + gl = s z (c + cl); log |x| = e ln 2 + 2 s + g */
    const double zc = z * c, zcl = tpk_fma_f64(z, c, -zc) + (z * cl + zl * c);
    const double g = s * zc;
    gl = tpk_fma_f64(s, zc, -g) + (s * zcl + sl * zc);
    const double eh = e * 0x1.62e42fefa38p-1; /* exact */
    double h = tpk_fast_sum(eh, 2.0 * s, &l2);
    h = tpk_two_sum(h, g, &l3);
    double lo = l2 + l3 + (tpk_fma_f64(e, 0x1.ef35793c76730p-45, 2.0 * sl) + gl);
    h = tpk_fast_sum(h, lo, &lo);
    /* y (h + lo), then exp of the pair */
    double v = y * h, w = tpk_fma_f64(y, h, -v) + y * lo;
    v = a == 0 ? y * -TPK_INF_F64 : v;
    v = a < TPK_INF_F64 ? v : y * a;
    w = ((v < 750.0) & (v > -750.0)) ? w : 0.0;
    v = v > 710.0 ? 710.0 : v;
    v = v < -746.0 ? -746.0 : v;
    double q, ql;
    const double r0 = tpk_exp_split_f64(v, &q), r = r0 + w;
    const double tail = tpk_fma_f64(tpk_exp_poly_f64(r), r * r, (r0 - r) + w);
    const double top = tpk_fast_sum(1.0, r, &ql);
    double res = tpk_exp_scale_f64(top + (ql + tail), q);
    res = ((a == 1.0) & (y == y)) ? 1.0 : res;
    const double half = y * 0.5;
    const int whole = tpk_floor_f64(y) == y, odd = whole & (tpk_floor_f64(half) != half);
    const uint64_t sign = odd ? tpk_bits_f64(x) & (UINT64_C(1) << 63) : 0;
    res = tpk_from_bits_f64(tpk_bits_f64(res) ^ sign);
    res = ((x < 0) & (x > -TPK_INF_F64) & !whole) ? TPK_NAN_F64 : res;
    return ((y == 0) | (x == 1.0)) ? 1.0 : res;
}

#endif
