/* Random numbers as pure functions of (seed, stream, index): Philox 4x32-10 (Salmon, Moraes, Dror
 * and Shaw, 2011). The key is the seed; the counter is the number of the block, then the stream;
 * a block is four words of 32 bits.
 *
 *   tpk_random_u32(seed, stream, i)    word i % 4 of block i / 4
 *   tpk_random_u64                     words 2 (i % 2), the lower, and 2 (i % 2) + 1 of block i / 2
 *   tpk_uniform_f32, _f64              the upper 24 (53) bits of those, in [0, 1)
 *   tpk_normal_f32, _f64               Box and Muller on the pair of words with 2j = i - i % 2
 *   tpk_<name>_fill_<type>(y, n, seed, stream, first)   y[j] is that of first + j
 */
#ifndef TPK_PHILOX_H
#define TPK_PHILOX_H

#include "kernel/text/elem.h"

typedef struct tpk_words {
    uint32_t w[4];
} tpk_words;

TPK_INLINE tpk_words tpk_philox(uint64_t seed, uint64_t stream, uint64_t block)
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#if defined(__GNUC__)
#pragma GCC unroll 10
#endif
    for (int i = 0; i < 10; i++) {
        const uint64_t a = (uint64_t)c0 * 0xd2511f53u, b = (uint64_t)c2 * 0xcd9e8d57u;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    const tpk_words r = {
        {c0, c1, c2, c3}
    };
    return r;
}

/* What becomes of a block: four floats or integers, or two doubles. */
TPK_INLINE void tpk_random_of_u32(const uint32_t *w, uint32_t *y)
{
    for (int l = 0; l < 4; l++) {
        y[l] = w[l];
    }
}

TPK_INLINE void tpk_random_of_u64(const uint32_t *w, uint64_t *y)
{
    for (int l = 0; l < 2; l++) {
        y[l] = (uint64_t)w[2 * l + 1] << 32 | w[2 * l];
    }
}

TPK_INLINE void tpk_uniform_of_f32(const uint32_t *w, float *y)
{
    y[0] = (float)(int32_t)(w[0] >> 8) * 0x1p-24f;
    y[1] = (float)(int32_t)(w[1] >> 8) * 0x1p-24f;
    y[2] = (float)(int32_t)(w[2] >> 8) * 0x1p-24f;
    y[3] = (float)(int32_t)(w[3] >> 8) * 0x1p-24f;
}

TPK_INLINE void tpk_uniform_of_f64(const uint32_t *w, double *y)
{
    for (int l = 0; l < 2; l++) { /* 21 and 32 bits, each exact, and so is their sum */
        y[l] = (double)w[2 * l + 1] * 0x1p-32 + (double)(w[2 * l] >> 11) * 0x1p-53;
    }
}

/* sqrt(-2 ln u) cos t and sin t: u in (0, 1] from 31 bits of the first word, t from the second:
 * its upper two bits, rounded, are the quadrant, the rest is the angle in it. */
TPK_INLINE void tpk_normal_pair_f32(uint32_t a, uint32_t b, float *y)
{
    const float u = ((float)(int32_t)(a >> 1) + 0.5f) * 0x1p-31f;
    const float r = tpk_sqrt_f32(-2.0f * tpk_log_f32(u));
    const uint32_t q = (b + 0x20000000u) >> 30;
    const double t = (double)(int32_t)(b - (q << 30)) * 0x1p-30;
    y[0] = r * tpk_trig_poly_f32(t, q + 1);
    y[1] = r * tpk_trig_poly_f32(t, q);
}

TPK_INLINE void tpk_normal_of_f32(const uint32_t *w, float *y)
{
    tpk_normal_pair_f32(w[0], w[1], y);
    tpk_normal_pair_f32(w[2], w[3], y + 2);
}

TPK_INLINE void tpk_normal_of_f64(const uint32_t *w, double *y)
{
    const double u = ((double)w[1] + (double)(w[0] >> 11) * 0x1p-21 + 0x1p-22) * 0x1p-32;
    const double r = tpk_sqrt_f64(-2.0 * tpk_log_f64(u));
    const uint32_t q = (w[3] + 0x20000000u) >> 30;
    const double t =
        (double)(int32_t)(w[3] - (q << 30)) * 0x1p-30 + (double)(w[2] >> 11) * 0x1p-51;
    const double hi = t * 0x1.921fb54442d18p+0;
    const double lo = tpk_fma_f64(t, 0x1.921fb54442d18p+0, -hi) + t * 0x1.1a62633145c07p-54;
    y[0] = r * tpk_trig_poly_f64(hi, lo, q + 1);
    y[1] = r * tpk_trig_poly_f64(hi, lo, q);
}

/* One element; and many: sixteen blocks at a time, as planes of first, second, ... words and
 * results, so that each loop vectorises; what lies outside of [first, first + n) is dropped. */
#define TPK_RANDOM(name, t, per)                                                               \
    TPK_INLINE tpk_##t tpk_##name##_##t(uint64_t seed, uint64_t stream, uint64_t i)            \
    {                                                                                          \
        const tpk_words b = tpk_philox(seed, stream, i / per);                                 \
        tpk_##t y[per];                                                                        \
        tpk_##name##_of_##t(b.w, y);                                                           \
        return y[i % per];                                                                     \
    }                                                                                          \
    TPK_INLINE void tpk_##name##_fill_##t(tpk_##t *restrict y, int64_t n, uint64_t seed,       \
                                          uint64_t stream, uint64_t first)                     \
    {                                                                                          \
        uint32_t w[4][16];                                                                     \
        tpk_##t p[per][16], z[16 * per];                                                       \
        int64_t skip = (int64_t)(first % per);                                                 \
        for (uint64_t block = first / per; n > 0; block += 16) {                               \
            for (unsigned j = 0; j < 16; j++) {                                                \
                const tpk_words b = tpk_philox(seed, stream, block + j);                       \
                w[0][j] = b.w[0], w[1][j] = b.w[1], w[2][j] = b.w[2], w[3][j] = b.w[3];        \
            }                                                                                  \
            for (int j = 0; j < 16; j++) {                                                     \
                const uint32_t v[4] = {w[0][j], w[1][j], w[2][j], w[3][j]};                    \
                tpk_##t o[per];                                                                \
                tpk_##name##_of_##t(v, o);                                                     \
                _Pragma("GCC unroll 4") for (int l = 0; l < per; l++)                          \
                {                                                                              \
                    p[l][j] = o[l];                                                            \
                }                                                                              \
            }                                                                                  \
            for (int j = 0; j < 16; j++) {                                                     \
                for (int l = 0; l < per; l++) {                                                \
                    z[j * per + l] = p[l][j];                                                  \
                }                                                                              \
            }                                                                                  \
            const int64_t got = 16 * per - skip, m = n < got ? n : got;                        \
            __builtin_memcpy(y, z + skip, (size_t)m * sizeof *y);                              \
            y += m, n -= m, skip = 0;                                                          \
        }                                                                                      \
    }
TPK_RANDOM(random, u32, 4)
TPK_RANDOM(random, u64, 2)
TPK_RANDOM(uniform, f32, 4)
TPK_RANDOM(uniform, f64, 2)
TPK_RANDOM(normal, f32, 4)
TPK_RANDOM(normal, f64, 2)

#endif
