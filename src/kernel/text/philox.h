/* Random numbers as pure functions of (seed, stream, index): Philox 4x32-10 (Salmon, Moraes, Dror
 * and Shaw, 2011). The key is the seed; the counter is the number of the block, then the stream;
 * a block is four words of 32 bits.
 *
 *   tpk_random_u32(seed, stream, i)    word i % 4 of block i / 4
 *   tpk_random_u64                     words 2 (i % 2), the lower, and 2 (i % 2) + 1 of block i / 2
 *   tpk_uniform_f32, _f64              the upper 24 (53) bits of those, in [0, 1)
 *   tpk_normal_f32, _f64               Box and Muller on the pair of words with 2j = i - i % 2
 *   tpk_<name>_fill_<type>(y, n, seed, stream, first)   y[j] is that of first + j
 *   tpk_draw_f32, _f64, _i64           what an op draws
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

/* What random.h draws, by its attributes. A position is a block of Philox: four f32 or two f64. Scaling is one fma; a
 * uniform number that it rounds up to b becomes a. */
#define TPK_DRAW(t, per)                                                                       \
    TPK_INLINE void tpk_draw_##t(tpk_##t *restrict y, int64_t n, const int64_t *attr)          \
    {                                                                                          \
        const tpk_##t a = (tpk_##t)tpk_from_bits_f64((uint64_t)attr[11]);                      \
        const tpk_##t b = (tpk_##t)tpk_from_bits_f64((uint64_t)attr[12]), width = b - a;       \
        const uint64_t seed = (uint64_t)attr[13], first = (uint64_t)attr[14] * per;            \
        const uint64_t stream = (uint64_t)attr[17];                                            \
        if (attr[0]) {                                                                         \
            tpk_normal_fill_##t(y, n, seed, stream, first);                                    \
            for (int64_t i = 0; i < n; i++) {                                                  \
                y[i] = tpk_fma_##t(y[i], b, a);                                                \
            }                                                                                  \
        } else {                                                                               \
            tpk_uniform_fill_##t(y, n, seed, stream, first);                                   \
            for (int64_t i = 0; i < n; i++) {                                                  \
                const tpk_##t x = tpk_fma_##t(y[i], width, a);                                 \
                y[i] = x < b ? x : a;                                                          \
            }                                                                                  \
        }                                                                                      \
    }
TPK_DRAW(f32, 4)
TPK_DRAW(f64, 2)

/* A whole number below `count` is floor(w count / 2^b) of a word w of b bits: b is 64 where count is at most 2^32, and
 * else 128, a block. So it has a probability that is off by 2^-32, or 2^-64, of itself at most. */
TPK_INLINE int tpk_words_of_range(int64_t lo, int64_t hi)
{
    return (uint64_t)hi - (uint64_t)lo <= (uint64_t)1 << 32 ? 1 : 2;
}

/* floor((w count + rest) / 2^32), where rest < count. */
TPK_INLINE uint64_t tpk_next_below(uint32_t w, uint64_t count, uint64_t rest)
{
    const uint64_t low = (uint64_t)w * (uint32_t)count + (uint32_t)rest;
    return (uint64_t)w * (count >> 32) + (rest >> 32) + (low >> 32);
}

TPK_INLINE void tpk_draw_i64(int64_t *restrict y, int64_t n, const int64_t *attr)
{
    const uint64_t seed = (uint64_t)attr[13], first = (uint64_t)attr[14] * 2;
    const uint64_t lo = (uint64_t)attr[15], count = (uint64_t)attr[16] - lo;
    const uint64_t stream = (uint64_t)attr[17];
    const int words = tpk_words_of_range(attr[15], attr[16]);
    uint64_t w[128];
    for (int64_t i = 0; i < n; i += 64) {
        const int64_t m = n - i < 64 ? n - i : 64;
        tpk_random_fill_u64(w, m * words, seed, stream, first + (uint64_t)(i * words));
        for (int64_t j = 0; j < m; j++) {
            uint64_t below = 0;
            for (int k = 0; k < words; k++) { /* from the lowest bits up */
                const uint64_t v = w[j * words + k];
                below = tpk_next_below((uint32_t)v, count, below);
                below = tpk_next_below((uint32_t)(v >> 32), count, below);
            }
            y[i + j] = (int64_t)(lo + below);
        }
    }
}

#endif
