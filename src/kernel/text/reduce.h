/* Reductions in the order of docs/numerics.md: tpk_reduce_<op>_<type>, op one of sum prod max min.
 *
 *   tpk_reduce_sum_f32(x, n)               n contiguous elements: the whole reduction
 *   tpk_reduce_sum_block_f32(x, n, lanes)  one block, n <= TPK_BLOCK, lanes = TPK_LANES(whole n)
 *   tpk_reduce_sum_acc_f32, _push, _end    the tree over block results, as they come
 *   tpk_reduce_sum_tree_f32(b, n)          the same tree over an array of block results, destroyed
 *   tpk_reduce_sum_row_f32(y, x, n)        y[j] = y[j] op x[j]: one step of n columns
 *   tpk_reduce_sum_columns_f32(rows, n, x, stride, y)   y[j] over the rows x[i * stride + j]
 *   tpk_reduce_sum_empty_f32               the identity, what no element at all gives
 *
 * Columns take their rows in order, in blocks of TPK_BLOCK rows that start from the identity; block
 * results are folded from the left. Maxima and minima are the same in any order. This file has f32
 * and f64, reduce_int.h the other types. */
#ifndef TPK_REDUCE_H
#define TPK_REDUCE_H

#include "kernel/text/elem.h"

#define TPK_BLOCK 4096
#define TPK_LANES(n) ((n) < 256 ? 16 : 64)
#define TPK_MAX_LEVELS 52 /* 2^51 blocks of 2^12 elements are more than memory holds */
#define TPK_COLUMNS 1024  /* columns that are accumulated at once */

/* What is long and called from several places: the library has it once. */
#ifndef TPK_APART
#define TPK_APART TPK_INLINE
#endif

#if defined(__AVX512F__)
#define TPK_RBYTES 64
#elif defined(__AVX__)
#define TPK_RBYTES 32
#else
#define TPK_RBYTES 16
#endif
#define TPK_RVECTOR(t, i)                                                                      \
    typedef tpk_##t tpk_rv_##t __attribute__((vector_size(TPK_RBYTES)));                       \
    typedef tpk_##i tpk_rm_##t __attribute__((vector_size(TPK_RBYTES)));                       \
    typedef tpk_##t tpk_ru_##t                                                                 \
        __attribute__((vector_size(TPK_RBYTES), aligned(sizeof(tpk_##t)), may_alias));
TPK_RVECTOR(f32, i32)
TPK_RVECTOR(f64, i64)

/* Lane l becomes lane l + h, around the end. */
#define TPK_RAT2(h, m) (h) & (m), ((h) + 1) & (m)
#define TPK_RAT4(h, m) TPK_RAT2(h, m), TPK_RAT2((h) + 2, m)
#define TPK_RAT8(h, m) TPK_RAT4(h, m), TPK_RAT4((h) + 4, m)
#define TPK_RAT16(h, m) TPK_RAT8(h, m), TPK_RAT8((h) + 8, m)
#if TPK_RBYTES == 64
#define TPK_RTURN_f32(v, h) TPK_RSHUF(f32, v, TPK_RAT16(h, 15))
#define TPK_RTURN_f64(v, h) TPK_RSHUF(f64, v, TPK_RAT8(h, 7))
#elif TPK_RBYTES == 32
#define TPK_RTURN_f32(v, h) TPK_RSHUF(f32, v, TPK_RAT8(h, 7))
#define TPK_RTURN_f64(v, h) TPK_RSHUF(f64, v, TPK_RAT4(h, 3))
#else
#define TPK_RTURN_f32(v, h) TPK_RSHUF(f32, v, TPK_RAT4(h, 3))
#define TPK_RTURN_f64(v, h) TPK_RSHUF(f64, v, TPK_RAT2(h, 1))
#endif
#if defined(__clang__)
#define TPK_RSHUF(t, v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define TPK_RSHUF(t, v, ...) __builtin_shuffle(v, (tpk_rm_##t){__VA_ARGS__})
#endif

/* Half of the lanes joins the other, until one is left: v = join(v, other). */
#define TPK_RJOIN(t, v, join)                                                                  \
    v = sizeof v >= 16 * sizeof v[0] ? join(v, TPK_RTURN_##t(v, 8)) : v;                       \
    v = sizeof v >= 8 * sizeof v[0] ? join(v, TPK_RTURN_##t(v, 4)) : v;                        \
    v = sizeof v >= 4 * sizeof v[0] ? join(v, TPK_RTURN_##t(v, 2)) : v;                        \
    v = join(v, TPK_RTURN_##t(v, 1))
#define TPK_RSUM(a, b) ((a) + (b))
#define TPK_RPROD(a, b) ((a) * (b))

/* Lane l takes the elements l, l + L, ... of the block; then half of the lanes joins the other. The
 * identity changes no lane: no sum is -0, since it began as +0. */
#define TPK_REDUCE_LANES(op, t, join, empty, L)                                                \
    TPK_APART tpk_##t tpk_reduce_##op##_lanes##L##_##t(const tpk_##t *x, int64_t n)            \
    {                                                                                          \
        enum { V = TPK_RBYTES / sizeof(tpk_##t), G = L / V };                                  \
        tpk_rv_##t acc[G];                                                                     \
        _Pragma("GCC unroll 32") for (int g = 0; g < G; g++)                                   \
        {                                                                                      \
            acc[g] = (tpk_rv_##t){0} + (empty);                                                \
        }                                                                                      \
        int64_t i = 0;                                                                         \
        for (; i + L <= n; i += L) {                                                           \
            _Pragma("GCC unroll 32") for (int g = 0; g < G; g++)                               \
            {                                                                                  \
                acc[g] = join(acc[g], *(const tpk_ru_##t *)(x + i + g * V));                   \
            }                                                                                  \
        }                                                                                      \
        if (i < n) {                                                                           \
            tpk_##t a[L];                                                                      \
            const int rest = (int)(n - i);                                                     \
            for (int l = 0; l < L; l++) {                                                      \
                a[l] = l < rest ? x[i + l] : (empty);                                          \
            }                                                                                  \
            _Pragma("GCC unroll 32") for (int g = 0; g < G; g++)                               \
            {                                                                                  \
                acc[g] = join(acc[g], *(const tpk_ru_##t *)(a + g * V));                       \
            }                                                                                  \
        }                                                                                      \
        _Pragma("GCC unroll 32") for (int h = G / 2; h; h /= 2)                                \
        {                                                                                      \
            _Pragma("GCC unroll 32") for (int g = 0; g < h; g++)                               \
            {                                                                                  \
                acc[g] = join(acc[g], acc[g + h]);                                             \
            }                                                                                  \
        }                                                                                      \
        TPK_RJOIN(t, acc[0], join);                                                            \
        return acc[0][0];                                                                      \
    }
#define TPK_REDUCE_ORDERED(op, t, join, empty)                                                 \
    TPK_REDUCE_LANES(op, t, join, empty, 16)                                                   \
    TPK_REDUCE_LANES(op, t, join, empty, 64)                                                   \
    TPK_INLINE tpk_##t tpk_reduce_##op##_block_##t(const tpk_##t *x, int64_t n, int lanes)     \
    {                                                                                          \
        return lanes == 16 ? tpk_reduce_##op##_lanes16_##t(x, n)                               \
                           : tpk_reduce_##op##_lanes64_##t(x, n);                              \
    }

/* a > b ? a : b in each lane: what the x86 instruction does, which compilers do not always find. */
#if defined(__AVX512F__) && defined(__clang__)
#define TPK_RMAX_f32(a, b) __builtin_ia32_maxps512(a, b, 4)
#define TPK_RMIN_f32(a, b) __builtin_ia32_minps512(a, b, 4)
#define TPK_RMAX_f64(a, b) __builtin_ia32_maxpd512(a, b, 4)
#define TPK_RMIN_f64(a, b) __builtin_ia32_minpd512(a, b, 4)
#elif defined(__AVX512F__)
#define TPK_RMAX_f32(a, b) __builtin_ia32_maxps512_mask(a, b, a, -1, 4)
#define TPK_RMIN_f32(a, b) __builtin_ia32_minps512_mask(a, b, a, -1, 4)
#define TPK_RMAX_f64(a, b) __builtin_ia32_maxpd512_mask(a, b, a, 0xff, 4)
#define TPK_RMIN_f64(a, b) __builtin_ia32_minpd512_mask(a, b, a, 0xff, 4)
#elif defined(__AVX__)
#define TPK_RMAX_f32(a, b) __builtin_ia32_maxps256(a, b)
#define TPK_RMIN_f32(a, b) __builtin_ia32_minps256(a, b)
#define TPK_RMAX_f64(a, b) __builtin_ia32_maxpd256(a, b)
#define TPK_RMIN_f64(a, b) __builtin_ia32_minpd256(a, b)
#elif defined(__SSE2__)
#define TPK_RMAX_f32(a, b) __builtin_ia32_maxps(a, b)
#define TPK_RMIN_f32(a, b) __builtin_ia32_minps(a, b)
#define TPK_RMAX_f64(a, b) __builtin_ia32_maxpd(a, b)
#define TPK_RMIN_f64(a, b) __builtin_ia32_minpd(a, b)
#else
#define TPK_RPICK(t, m, a, b) ((tpk_rv_##t)(((tpk_rm_##t)(a) & (m)) | ((tpk_rm_##t)(b) & ~(m))))
#define TPK_RMAX_f32(a, b) TPK_RPICK(f32, (a) > (b), a, b)
#define TPK_RMIN_f32(a, b) TPK_RPICK(f32, (a) < (b), a, b)
#define TPK_RMAX_f64(a, b) TPK_RPICK(f64, (a) > (b), a, b)
#define TPK_RMIN_f64(a, b) TPK_RPICK(f64, (a) < (b), a, b)
#endif

/* A plain maximum; beside it a sum, which is NaN if an element is, and seldom else. Zeros, which
 * compare equal, are looked up at the end. */
#define TPK_REDUCE_EXTREME(op, t, sym, vector, empty, zero)                                    \
    TPK_APART tpk_##t tpk_reduce_##op##_block_##t(const tpk_##t *x, int64_t n, int lanes)      \
    {                                                                                          \
        enum { V = TPK_RBYTES / sizeof(tpk_##t) };                                             \
        (void)lanes;                                                                           \
        tpk_##t r = (empty), sum = 0;                                                          \
        int bad = 0;                                                                           \
        int64_t i = 0;                                                                         \
        if (n >= V) {                                                                          \
            tpk_rv_##t a0 = (tpk_rv_##t){0} + (empty), a1 = a0, a2 = a0, a3 = a0;              \
            tpk_rv_##t s0 = {0}, s1 = s0, s2 = s0, s3 = s0;                                    \
            for (; i + 4 * V <= n; i += 4 * V) {                                               \
                const tpk_ru_##t *p = (const tpk_ru_##t *)(x + i);                             \
                a0 = vector(p[0], a0), s0 += p[0];                                             \
                a1 = vector(p[1], a1), s1 += p[1];                                             \
                a2 = vector(p[2], a2), s2 += p[2];                                             \
                a3 = vector(p[3], a3), s3 += p[3];                                             \
            }                                                                                  \
            for (; i < n; i += V) { /* the last one takes some elements again */               \
                const tpk_rv_##t v = *(const tpk_ru_##t *)(x + (i + V <= n ? i : n - V));      \
                a0 = vector(v, a0), s0 += v;                                                   \
            }                                                                                  \
            a0 = vector(a0, a1), a2 = vector(a2, a3), a0 = vector(a0, a2);                     \
            s0 += s1, s2 += s3, s0 += s2;                                                      \
            TPK_RJOIN(t, a0, vector);                                                          \
            TPK_RJOIN(t, s0, TPK_RSUM);                                                        \
            r = a0[0], sum = s0[0];                                                            \
        }                                                                                      \
        for (; i < n; i++) {                                                                   \
            sum += x[i];                                                                       \
            r = x[i] sym r ? x[i] : r;                                                         \
        }                                                                                      \
        if (sum != sum) {                                                                      \
            for (i = 0; i < n; i++) {                                                          \
                bad |= x[i] != x[i];                                                           \
            }                                                                                  \
        }                                                                                      \
        if (r == 0) {                                                                          \
            int found = 0;                                                                     \
            for (i = 0; i < n; i++) {                                                          \
                found |= tpk_bits_##t(x[i]) == tpk_bits_##t(zero);                             \
            }                                                                                  \
            r = found ? (zero) : -(zero);                                                      \
        }                                                                                      \
        return bad ? (tpk_##t)TPK_NAN_F32 : r;                                                 \
    }

#define TPK_REDUCE_STEP(op, t, step, empty)                                                    \
    static const tpk_##t tpk_reduce_##op##_empty_##t __attribute__((unused)) = empty;          \
    TPK_INLINE tpk_##t tpk_reduce_##op##_step_##t(tpk_##t a, tpk_##t b)                        \
    {                                                                                          \
        return tpk_##step##_##t(a, b);                                                         \
    }

/* The tree: neighbours are joined, an odd one is carried up. Level l of the accumulator holds the
 * join of 2^l blocks when bit l of `count` is set, as in a binary counter. */
#define TPK_REDUCE_COMMON(op, t)                                                               \
    typedef struct {                                                                           \
        int64_t count;                                                                         \
        tpk_##t level[TPK_MAX_LEVELS];                                                         \
    } tpk_reduce_##op##_acc_##t;                                                               \
    TPK_INLINE void tpk_reduce_##op##_push_##t(tpk_reduce_##op##_acc_##t *s, tpk_##t block)    \
    {                                                                                          \
        int l = 0;                                                                             \
        for (; (s->count >> l) & 1; l++) {                                                     \
            block = tpk_reduce_##op##_step_##t(s->level[l], block);                            \
        }                                                                                      \
        s->level[l] = block;                                                                   \
        s->count++;                                                                            \
    }                                                                                          \
    TPK_INLINE tpk_##t tpk_reduce_##op##_end_##t(const tpk_reduce_##op##_acc_##t *s)           \
    {                                                                                          \
        tpk_##t r = tpk_reduce_##op##_empty_##t;                                               \
        int first = 1;                                                                         \
        for (int l = 0; s->count >> l; l++) {                                                  \
            if ((s->count >> l) & 1) {                                                         \
                r = first ? s->level[l] : tpk_reduce_##op##_step_##t(s->level[l], r);          \
                first = 0;                                                                     \
            }                                                                                  \
        }                                                                                      \
        return r;                                                                              \
    }                                                                                          \
    TPK_INLINE tpk_##t tpk_reduce_##op##_tree_##t(tpk_##t *b, int64_t n)                       \
    {                                                                                          \
        for (int64_t left = n; left > 1; left = (left + 1) / 2) {                              \
            for (int64_t i = 0; i + 1 < left; i += 2) {                                        \
                b[i / 2] = tpk_reduce_##op##_step_##t(b[i], b[i + 1]);                         \
            }                                                                                  \
            b[left / 2] = left & 1 ? b[left - 1] : b[left / 2];                                \
        }                                                                                      \
        return n ? b[0] : tpk_reduce_##op##_empty_##t;                                         \
    }                                                                                          \
    TPK_INLINE tpk_##t tpk_reduce_##op##_##t(const tpk_##t *x, int64_t n)                      \
    {                                                                                          \
        if (n <= TPK_BLOCK) {                                                                  \
            return tpk_reduce_##op##_block_##t(x, n, TPK_LANES(n));                            \
        }                                                                                      \
        tpk_reduce_##op##_acc_##t s;                                                           \
        s.count = 0;                                                                           \
        for (int64_t i = 0; i < n; i += TPK_BLOCK) {                                           \
            const int64_t m = n - i < TPK_BLOCK ? n - i : TPK_BLOCK;                           \
            tpk_reduce_##op##_push_##t(&s, tpk_reduce_##op##_block_##t(x + i, m, 64));         \
        }                                                                                      \
        return tpk_reduce_##op##_end_##t(&s);                                                  \
    }                                                                                          \
    TPK_INLINE void tpk_reduce_##op##_row_##t(tpk_##t *restrict y, const tpk_##t *restrict x,  \
                                              int64_t n)                                       \
    {                                                                                          \
        for (int64_t j = 0; j < n; j++) {                                                      \
            y[j] = tpk_reduce_##op##_step_##t(y[j], x[j]);                                     \
        }                                                                                      \
    }                                                                                          \
    /* Four rows at a time, in order: the accumulators are read and written less often. */     \
    TPK_INLINE void tpk_reduce_##op##_rows_##t(tpk_##t *restrict y, const tpk_##t *restrict x, \
                                               int64_t stride, int64_t rows, int64_t n)        \
    {                                                                                          \
        int64_t i = 0;                                                                         \
        for (; i + 4 <= rows; i += 4) {                                                        \
            const tpk_##t *p = x + i * stride, *q = p + 2 * stride;                            \
            for (int64_t j = 0; j < n; j++) {                                                  \
                tpk_##t s = tpk_reduce_##op##_step_##t(y[j], p[j]);                            \
                s = tpk_reduce_##op##_step_##t(s, p[j + stride]);                              \
                s = tpk_reduce_##op##_step_##t(s, q[j]);                                       \
                y[j] = tpk_reduce_##op##_step_##t(s, q[j + stride]);                           \
            }                                                                                  \
        }                                                                                      \
        for (int l = 0, rest = (int)(rows - i); l < rest; l++) {                               \
            tpk_reduce_##op##_row_##t(y, x + (i + l) * stride, n);                             \
        }                                                                                      \
    }                                                                                          \
    TPK_INLINE void tpk_reduce_##op##_columns_##t(int64_t rows, int64_t n, const tpk_##t *x,   \
                                                  int64_t stride, tpk_##t *y)                  \
    {                                                                                          \
        tpk_##t acc[TPK_COLUMNS];                                                              \
        for (int64_t j = 0; j < n; j += TPK_COLUMNS) {                                         \
            const int64_t m = n - j < TPK_COLUMNS ? n - j : TPK_COLUMNS;                       \
            for (int64_t i = 0; i == 0 || i < rows; i += TPK_BLOCK) {                          \
                for (int64_t k = 0; k < m; k++) {                                              \
                    acc[k] = tpk_reduce_##op##_empty_##t;                                      \
                }                                                                              \
                const int64_t b = rows - i < TPK_BLOCK ? rows - i : TPK_BLOCK;                 \
                tpk_reduce_##op##_rows_##t(acc, x + i * stride + j, stride, b, m);             \
                if (i == 0) {                                                                  \
                    __builtin_memcpy(y + j, acc, (size_t)m * sizeof *y);                       \
                } else {                                                                       \
                    tpk_reduce_##op##_row_##t(y + j, acc, m);                                  \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
    }

#define TPK_REDUCE_FLOAT(t, inf)                                                               \
    TPK_REDUCE_STEP(sum, t, add, 0)                                                            \
    TPK_REDUCE_STEP(prod, t, mul, 1)                                                           \
    TPK_REDUCE_STEP(max, t, max, -inf)                                                         \
    TPK_REDUCE_STEP(min, t, min, inf)                                                          \
    TPK_REDUCE_ORDERED(sum, t, TPK_RSUM, (tpk_##t)0)                                           \
    TPK_REDUCE_ORDERED(prod, t, TPK_RPROD, (tpk_##t)1)                                         \
    TPK_REDUCE_EXTREME(max, t, >, TPK_RMAX_##t, -inf, (tpk_##t)0)                              \
    TPK_REDUCE_EXTREME(min, t, <, TPK_RMIN_##t, inf, -(tpk_##t)0)                              \
    TPK_REDUCE_COMMON(sum, t)                                                                  \
    TPK_REDUCE_COMMON(prod, t)                                                                 \
    TPK_REDUCE_COMMON(max, t)                                                                  \
    TPK_REDUCE_COMMON(min, t)
TPK_REDUCE_FLOAT(f32, TPK_INF_F32)
TPK_REDUCE_FLOAT(f64, TPK_INF_F64)

#endif
