/* vec.h: the widest vectors of the target, for the contraction and convolution kernels.
 *
 * The element type of the text that follows is chosen by TPK_BITS (32 or 64), which is looked at
 * where a macro is used, not here: so gemm.h, conv.h and pool.h can be pasted once for each type.
 *   TPK_E, TPK_N(x)     the element type, and the name x with _f32 or _f64 behind it
 *   TPK_V, TPK_VL       a vector of TPK_VL elements
 *   TPK_FMA(a, b, c)    one rounding per lane, always; in software where the machine has none
 *   TPK_ADDTO(c, a, b)  c = a b + c, and TPK_ADDTO_AT(c, p, b) with the element at p for a, in the order
 *                       of the text, and in the registers where they are
 *   TPK_LOADM, _STOREM  the first lanes only (mask made by TPK_MASK(count)); others read as +0
 *   TPK_LOADX(p, v, m)  v with the lanes of m loaded; m also made by TPK_SPAN(from, to)
 *   TPK_ILO, TPK_IHI    a0 b0 a1 b1 ... of the lower and of the upper halves of a and b
 *   TPK_EVEN(a, b)      a0 a2 ... b0 b2 ...; TPK_ODD(a, b) the others
 *   TPK_PERMUTE(v, i)   v[i[0]] v[i[1]] ... of 32 bits each, i modulo TPK_VL_32; not where vectors are narrow
 *   TPK_PICK(v, w, i)   the same of v and w behind it
 *   TPK_MAX(a, b)       NaN if either is NaN; -0 is below +0
 * Builtins are named directly: the intrinsic headers cost more time to read than all our text. */
#ifndef TPK_VEC_H
#define TPK_VEC_H
#include "kernel/text/target.h"

#include <stddef.h>
#include <stdint.h>

#define TPK_CAT_(a, b) a##b
#define TPK_CAT(a, b) TPK_CAT_(a, b)
#define TPK_TIE_(a, b) a##b
#define TPK_TIE(a, b) TPK_TIE_(a, b) /* where what comes out uses TPK_CAT itself */
#define TPK_N(name) TPK_CAT(name##_f, TPK_BITS)
#define TPK_FN static __attribute__((unused))
#define TPK_IN static inline __attribute__((always_inline, unused))
/* A kernel keeps its registers to itself. What is no loop over elements is not worth the
 * compiler's time: this text is compiled again with every generated program. (Without `hot`
 * a kernel would inherit the coldness of its callers; and what calls something cold is taken to be
 * cold itself, so only what prepares is marked.) */
#if defined(__clang__)
#define TPK_OUT static __attribute__((noinline, hot, unused))
#define TPK_COLD static __attribute__((noinline, cold, unused))
#else
#define TPK_OUT static __attribute__((noinline, noclone, hot, unused))
#define TPK_COLD static __attribute__((noinline, noclone, cold, unused))
#endif

/* Where a fused multiply-add is a function, it is all that takes time: then one shape of each tile will do. */
#if !defined(__FMA__) && !defined(__AVX512F__) && !defined(__aarch64__)
#define TPK_ONE_SHAPE 1
#else
#define TPK_ONE_SHAPE 0
#endif

#define TPK_CHAIN 64 /* products of a contraction in one chain of fma (gemm.h) */

#define TPK_E TPK_CAT(tpk_f, TPK_BITS)
#define TPK_V TPK_CAT(tpk_v, TPK_BITS)
#define TPK_VL TPK_CAT(TPK_VL_, TPK_BITS)
#define TPK_M TPK_CAT(tpk_m, TPK_BITS)
#define TPK_MASK(count) TPK_CAT(tpk_mask, TPK_BITS)(count)
#define TPK_FMA(a, b, c) TPK_CAT(TPK_FMA_, TPK_BITS)(a, b, c)
#define TPK_ADDTO(c, a, b) TPK_CAT(TPK_ADDTO_, TPK_BITS)(c, a, b)
#define TPK_ADDTO_AT(c, p, b) TPK_CAT(TPK_ADDTO_AT_, TPK_BITS)(c, p, b)
#define TPK_SPLAT(x) TPK_CAT(TPK_SPLAT_, TPK_BITS)(x)
#define TPK_LOAD(p) (*(const TPK_CAT(tpk_vu, TPK_BITS) *)(p))
#define TPK_STORE(p, v) (*(TPK_CAT(tpk_vu, TPK_BITS) *)(p) = (v))
#define TPK_LOADM(p, m) TPK_CAT(TPK_LOADM_, TPK_BITS)(p, m)
#define TPK_STOREM(p, v, m) TPK_CAT(TPK_STOREM_, TPK_BITS)(p, v, m)
#define TPK_LOADX(p, v, m) TPK_CAT(TPK_LOADX_, TPK_BITS)(p, v, m)
#define TPK_SPAN(from, to) TPK_CAT(tpk_lanes, TPK_BITS)(from, to)
#define TPK_ILO(a, b) TPK_CAT(TPK_ILO_, TPK_BITS)(a, b)
#define TPK_IHI(a, b) TPK_CAT(TPK_IHI_, TPK_BITS)(a, b)
#define TPK_EVEN(a, b) TPK_CAT(TPK_EVEN_, TPK_BITS)(a, b)
#define TPK_ODD(a, b) TPK_CAT(TPK_ODD_, TPK_BITS)(a, b)
#define TPK_MAX(a, b) TPK_CAT(tpk_vmax, TPK_BITS)(a, b)
#define TPK_VI TPK_CAT(tpk_vi, TPK_BITS) /* what comparing vectors gives: 0 or all bits */
#define TPK_BITS_f32 32
#define TPK_BITS_f64 64

#if defined(__AVX512F__)
#define TPK_VBYTES 64
#define TPK_VBITS 512
#define TPK_VL_32 16
#define TPK_VL_64 8
#elif defined(__AVX2__) && defined(__FMA__)
#define TPK_VBYTES 32
#define TPK_VBITS 256
#define TPK_VL_32 8
#define TPK_VL_64 4
#else
#define TPK_VBYTES 16
#define TPK_VL_32 4
#define TPK_VL_64 2
#endif

typedef float tpk_v32 __attribute__((vector_size(TPK_VBYTES)));
typedef double tpk_v64 __attribute__((vector_size(TPK_VBYTES)));
typedef tpk_v32 tpk_vu32 __attribute__((aligned(4), may_alias));
typedef tpk_v64 tpk_vu64 __attribute__((aligned(8), may_alias));
typedef int tpk_vi32 __attribute__((vector_size(TPK_VBYTES)));
typedef long long tpk_vi64 __attribute__((vector_size(TPK_VBYTES)));

#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
#if __has_builtin(__builtin_shufflevector)
#define TPK_SHUF(bits, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TPK_SHUF(bits, a, b, ...) __builtin_shuffle(a, b, (tpk_vi##bits){__VA_ARGS__})
#endif

/* Of 32 bits, for any places; not for narrow vectors. */
#if TPK_VBYTES > 16 && defined(__clang__)
#define TPK_PERMUTE(v, places)                                                                 \
    ((tpk_vi32)TPK_CAT(__builtin_ia32_permvarsi, TPK_VBITS)(v, places))
#elif TPK_VBYTES > 16
#define TPK_PERMUTE(v, places) __builtin_shuffle(v, places)
#endif
#if TPK_VBYTES == 64 && defined(__clang__)
#define TPK_PICK(v, w, places) ((tpk_vi32)__builtin_ia32_vpermi2vard512(v, places, w))
#elif TPK_VBYTES == 64
#define TPK_PICK(v, w, places) __builtin_shuffle(v, w, places)
#elif TPK_VBYTES == 32
#define TPK_PICK(v, w, places) tpk_pick(v, w, places)
TPK_IN tpk_vi32 tpk_pick(tpk_vi32 v, tpk_vi32 w, tpk_vi32 places)
{
    const tpk_vi32 second = places >= TPK_VL_32;
    return (TPK_PERMUTE(v, places) & ~second) | (TPK_PERMUTE(w, places) & second);
}
#endif

#if TPK_VBYTES == 64

typedef uint16_t tpk_m32;
typedef uint8_t tpk_m64;
TPK_IN tpk_m32 tpk_mask32(int64_t n)
{
    const int64_t lanes = n < 0 ? 0 : n > 16 ? 16 : n;
    return (tpk_m32)((1u << lanes) - 1u);
}
TPK_IN tpk_m64 tpk_mask64(int64_t n)
{
    const int64_t lanes = n < 0 ? 0 : n > 8 ? 8 : n;
    return (tpk_m64)((1u << lanes) - 1u);
}
#if defined(__clang__) /* the two disagree on the sign of a mask */
#define TPK_ALL_32 0xffff
#define TPK_ALL_64 0xff
#else
#define TPK_ALL_32 -1
#define TPK_ALL_64 -1
#endif
#define TPK_FMA_32(a, b, c) ((tpk_v32)__builtin_ia32_vfmaddps512_mask(a, b, c, TPK_ALL_32, 4))
#define TPK_FMA_64(a, b, c) ((tpk_v64)__builtin_ia32_vfmaddpd512_mask(a, b, c, (tpk_m64)-1, 4))
/* Left to the compiler, accumulators wander from register to register, and elements that are used
 * twice are loaded into registers of their own. */
#define TPK_ADDTO_32(c, a, b)                                                                  \
    __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(c) : "v"(a), "v"(b))
#define TPK_ADDTO_64(c, a, b)                                                                  \
    __asm__ volatile("vfmadd231pd %1, %2, %0" : "+v"(c) : "v"(a), "v"(b))
#define TPK_ADDTO_AT_32(c, p, b)                                                               \
    __asm__ volatile("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(c) : "m"(*(p)), "v"(b))
#define TPK_ADDTO_AT_64(c, p, b)                                                               \
    __asm__ volatile("vfmadd231pd %1%{1to8%}, %2, %0" : "+v"(c) : "m"(*(p)), "v"(b))
#define TPK_SPLAT_32(x) ((tpk_v32){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x})
#define TPK_SPLAT_64(x) ((tpk_v64){x, x, x, x, x, x, x, x})
#define TPK_LOADM_32(p, m)                                                                     \
    ((tpk_v32)__builtin_ia32_loadups512_mask((const float *)(p), (tpk_v32){0}, m))
#define TPK_LOADM_64(p, m)                                                                     \
    ((tpk_v64)__builtin_ia32_loadupd512_mask((const double *)(p), (tpk_v64){0}, m))
#define TPK_LOADX_32(p, v, m)                                                                  \
    ((tpk_v32)__builtin_ia32_loadups512_mask((const float *)(p), v, m))
#define TPK_LOADX_64(p, v, m)                                                                  \
    ((tpk_v64)__builtin_ia32_loadupd512_mask((const double *)(p), v, m))
#define tpk_lanes32(from, to) ((tpk_m32)(tpk_mask32(to) & ~tpk_mask32(from)))
#define tpk_lanes64(from, to) ((tpk_m64)(tpk_mask64(to) & ~tpk_mask64(from)))
#define TPK_STOREM_32(p, v, m) __builtin_ia32_storeups512_mask((float *)(p), v, m)
#define TPK_STOREM_64(p, v, m) __builtin_ia32_storeupd512_mask((double *)(p), v, m)
#define TPK_ILO_32(a, b)                                                                       \
    TPK_SHUF(32, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define TPK_IHI_32(a, b)                                                                       \
    TPK_SHUF(32, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define TPK_ILO_64(a, b) TPK_SHUF(64, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define TPK_IHI_64(a, b) TPK_SHUF(64, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define TPK_EVEN_32(a, b)                                                                      \
    TPK_SHUF(32, a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define TPK_EVEN_64(a, b) TPK_SHUF(64, a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define TPK_ODD_32(a, b)                                                                       \
    TPK_SHUF(32, a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define TPK_ODD_64(a, b) TPK_SHUF(64, a, b, 1, 3, 5, 7, 9, 11, 13, 15)

#elif TPK_VBYTES == 32

typedef tpk_vi32 tpk_m32;
typedef tpk_vi64 tpk_m64;
TPK_IN tpk_m32 tpk_mask32(int64_t n)
{
    const int c = n > 8 ? 8 : (int)n;
    return (tpk_m32){0, 1, 2, 3, 4, 5, 6, 7} < (tpk_m32){c, c, c, c, c, c, c, c};
}
TPK_IN tpk_m64 tpk_mask64(int64_t n)
{
    return (tpk_m64){0, 1, 2, 3} < (tpk_m64){n, n, n, n};
}
#define TPK_FMA_32(a, b, c) ((tpk_v32)__builtin_ia32_vfmaddps256(a, b, c))
#define TPK_FMA_64(a, b, c) ((tpk_v64)__builtin_ia32_vfmaddpd256(a, b, c))
#define TPK_SPLAT_32(x) ((tpk_v32){x, x, x, x, x, x, x, x})
#define TPK_SPLAT_64(x) ((tpk_v64){x, x, x, x})
#define TPK_LOADM_32(p, m) ((tpk_v32)__builtin_ia32_maskloadps256((const tpk_v32 *)(p), m))
#define TPK_LOADM_64(p, m) ((tpk_v64)__builtin_ia32_maskloadpd256((const tpk_v64 *)(p), m))
#define TPK_LOADX_32(p, v, m) ((tpk_v32)(((tpk_vi32)(v) & ~(m)) | (tpk_vi32)TPK_LOADM_32(p, m)))
#define TPK_LOADX_64(p, v, m) ((tpk_v64)(((tpk_vi64)(v) & ~(m)) | (tpk_vi64)TPK_LOADM_64(p, m)))
#define tpk_lanes32(from, to) (tpk_mask32(to) & ~tpk_mask32(from))
#define tpk_lanes64(from, to) (tpk_mask64(to) & ~tpk_mask64(from))
#define TPK_STOREM_32(p, v, m) __builtin_ia32_maskstoreps256((tpk_v32 *)(p), m, v)
#define TPK_STOREM_64(p, v, m) __builtin_ia32_maskstorepd256((tpk_v64 *)(p), m, v)
#define TPK_ILO_32(a, b) TPK_SHUF(32, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define TPK_IHI_32(a, b) TPK_SHUF(32, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define TPK_ILO_64(a, b) TPK_SHUF(64, a, b, 0, 4, 1, 5)
#define TPK_IHI_64(a, b) TPK_SHUF(64, a, b, 2, 6, 3, 7)
#define TPK_EVEN_32(a, b) TPK_SHUF(32, a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define TPK_EVEN_64(a, b) TPK_SHUF(64, a, b, 0, 2, 4, 6)
#define TPK_ODD_32(a, b) TPK_SHUF(32, a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define TPK_ODD_64(a, b) TPK_SHUF(64, a, b, 1, 3, 5, 7)

#else

typedef int64_t tpk_m32; /* number of lanes; in TPK_SPAN, 256 * from + to */
typedef int64_t tpk_m64;
#define tpk_mask32(n) (n)
#define tpk_mask64(n) (n)
#define tpk_lanes32(from, to) ((from)*256 + (to))
#define tpk_lanes64(from, to) ((from)*256 + (to))
#define TPK_SPLAT_32(x) ((tpk_v32){x, x, x, x})
#define TPK_SPLAT_64(x) ((tpk_v64){x, x})
#define TPK_ILO_32(a, b) TPK_SHUF(32, a, b, 0, 4, 1, 5)
#define TPK_IHI_32(a, b) TPK_SHUF(32, a, b, 2, 6, 3, 7)
#define TPK_ILO_64(a, b) TPK_SHUF(64, a, b, 0, 2)
#define TPK_IHI_64(a, b) TPK_SHUF(64, a, b, 1, 3)
#define TPK_EVEN_32(a, b) TPK_SHUF(32, a, b, 0, 2, 4, 6)
#define TPK_EVEN_64(a, b) TPK_SHUF(64, a, b, 0, 2)
#define TPK_ODD_32(a, b) TPK_SHUF(32, a, b, 1, 3, 5, 7)
#define TPK_ODD_64(a, b) TPK_SHUF(64, a, b, 1, 3)
#define TPK_PART_OF(bits, elem)                                                                \
    TPK_IN tpk_v##bits tpk_loadm##bits(const elem *p, int64_t n)                               \
    {                                                                                          \
        tpk_v##bits v = {0};                                                                   \
        if (n >= TPK_VL_##bits) {                                                              \
            return *(const tpk_vu##bits *)p;                                                   \
        }                                                                                      \
        for (int i = 0; i < n; i++) {                                                          \
            v[i] = p[i];                                                                       \
        }                                                                                      \
        return v;                                                                              \
    }                                                                                          \
    TPK_IN tpk_v##bits tpk_loadx##bits(const elem *p, tpk_v##bits v, int64_t lanes)            \
    {                                                                                          \
        for (int64_t i = lanes / 256; i < lanes % 256; i++) {                                  \
            v[i] = p[i];                                                                       \
        }                                                                                      \
        return v;                                                                              \
    }                                                                                          \
    TPK_IN void tpk_storem##bits(elem *p, tpk_v##bits v, int64_t n)                            \
    {                                                                                          \
        if (n >= TPK_VL_##bits) {                                                              \
            *(tpk_vu##bits *)p = v;                                                            \
            return;                                                                            \
        }                                                                                      \
        for (int64_t i = 0; i < TPK_VL_##bits; i++) {                                          \
            if (i < n) {                                                                       \
                p[i] = v[i];                                                                   \
            }                                                                                  \
        }                                                                                      \
    }
TPK_PART_OF(32, tpk_f32)
TPK_PART_OF(64, tpk_f64)
#define TPK_LOADM_32(p, m) tpk_loadm32(p, m)
#define TPK_LOADM_64(p, m) tpk_loadm64(p, m)
#define TPK_LOADX_32(p, v, m) tpk_loadx32(p, v, m)
#define TPK_LOADX_64(p, v, m) tpk_loadx64(p, v, m)
#define TPK_STOREM_32(p, v, m) tpk_storem32(p, v, m)
#define TPK_STOREM_64(p, v, m) tpk_storem64(p, v, m)

#if defined(__aarch64__)
/* Contracted on purpose and only here: each statement is one fmla. */
TPK_IN tpk_v32 tpk_vfma32(tpk_v32 a, tpk_v32 b, tpk_v32 c)
{
    __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
    return c;
}
TPK_IN tpk_v64 tpk_vfma64(tpk_v64 a, tpk_v64 b, tpk_v64 c)
{
    __asm__("fmla %0.2d, %1.2d, %2.2d" : "+w"(c) : "w"(a), "w"(b));
    return c;
}
#else
TPK_FN tpk_v32 tpk_vfma32(tpk_v32 a, tpk_v32 b, tpk_v32 c)
{
    for (int i = 0; i < TPK_VL_32; i++) {
        c[i] = tpk_fma_f32(a[i], b[i], c[i]);
    }
    return c;
}
TPK_FN tpk_v64 tpk_vfma64(tpk_v64 a, tpk_v64 b, tpk_v64 c)
{
    for (int i = 0; i < TPK_VL_64; i++) {
        c[i] = tpk_fma_f64(a[i], b[i], c[i]);
    }
    return c;
}
#endif
#define TPK_FMA_32(a, b, c) tpk_vfma32(a, b, c)
#define TPK_FMA_64(a, b, c) tpk_vfma64(a, b, c)

#endif

#if TPK_VBYTES != 64
#define TPK_ADDTO_32(c, a, b) (c) = TPK_FMA_32(a, b, c)
#define TPK_ADDTO_64(c, a, b) (c) = TPK_FMA_64(a, b, c)
#define TPK_ADDTO_AT_32(c, p, b) (c) = TPK_FMA_32(TPK_SPLAT_32(*(p)), b, c)
#define TPK_ADDTO_AT_64(c, p, b) (c) = TPK_FMA_64(TPK_SPLAT_64(*(p)), b, c)
#endif

#if TPK_VBYTES == 64 && defined(__AVX512DQ__)
/* The instruction knows zeros. */
#define TPK_VMAX(bits, range)                                                                  \
    TPK_IN tpk_v##bits tpk_vmax##bits(tpk_v##bits a, tpk_v##bits b)                            \
    {                                                                                          \
        const tpk_v##bits top = (tpk_v##bits)range(a, b, 5, a, TPK_ALL_##bits, 4);             \
        return (tpk_v##bits)((tpk_vi##bits)top | (tpk_vi##bits)(a != a) |                      \
                             (tpk_vi##bits)(b != b));                                          \
    }
TPK_VMAX(32, __builtin_ia32_rangeps512_mask)
TPK_VMAX(64, __builtin_ia32_rangepd512_mask)
#else
/* a if it is greater or NaN, else b; of equal ones, which may be zeros, the common bits. */
#define TPK_VMAX(bits)                                                                         \
    TPK_IN tpk_v##bits tpk_vmax##bits(tpk_v##bits a, tpk_v##bits b)                            \
    {                                                                                          \
        const tpk_vi##bits x = (tpk_vi##bits)a, y = (tpk_vi##bits)b;                           \
        const tpk_vi##bits take = (tpk_vi##bits)(a > b) | (tpk_vi##bits)(a != a);              \
        const tpk_vi##bits equal = (tpk_vi##bits)(a == b);                                     \
        return (tpk_v##bits)((take & x) | (~take & y & (x | ~equal)));                         \
    }
TPK_VMAX(32)
TPK_VMAX(64)
#endif

TPK_IN int64_t tpk_i_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
TPK_IN int64_t tpk_i_ceil(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
TPK_IN int64_t tpk_i_even(int64_t n)
{
    return (n + 1) / 2 * 2;
}

/* m rows cut into panels for which there are kernels (1, and every even number up to `most`): full
 * ones, then at most two smaller. */
typedef struct tpk_rows {
    int64_t m, most, full, tail, parts;
} tpk_rows;

TPK_FN tpk_rows tpk_rows_cut(int64_t m, int64_t most)
{
    tpk_rows s = {m, most, m / most, m % most, 0};
    const int64_t even = tpk_i_even(s.tail);
    s.parts = s.full + (s.tail > 0);
    if (s.tail > 0 && s.full > 0 &&
        3 * even <= most) { /* so few alone would wait for their fma */
        s.full--;
        s.parts = s.full + 2;
        s.tail = (most + even + 2) / 4 * 2;
    }
    return s;
}

/* The row at which panel p begins. */
TPK_IN int64_t tpk_rows_at(const tpk_rows *s, int64_t p)
{
    const int64_t at = p <= s->full ? p * s->most : s->full * s->most + s->tail;
    return p >= s->parts ? s->m : at;
}
#endif
