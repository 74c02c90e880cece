/* Floats of 16 bits, which no op computes with: float16 (10 bits of fraction) and bfloat16 (7), of files.
 * By integers, so in whatever floating-point mode. */
#ifndef TAPIR_HALF_H
#define TAPIR_HALF_H

#include <stdint.h>
#include <string.h>

typedef enum tpi_half { TPI_FLOAT16, TPI_BFLOAT16 } tpi_half;

/* What h is, exactly. */
static inline float tpi_half_to_float(tpi_half type, uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 0x1f, fraction = h & 0x3ff, bits;
    if (type == TPI_BFLOAT16) {
        bits = (uint32_t)h << 16;
    } else if (exponent == 0x1f) {
        bits = sign | 0x7f800000 | fraction << 13;
    } else if (exponent || !fraction) {
        bits = sign | (exponent ? (exponent + 112) << 23 : 0) | fraction << 13;
    } else { /* below the smallest normal number of 16 bits, a normal one of 32 */
        exponent = 113;
        for (; !(fraction & 0x400); exponent--)
            fraction <<= 1;
        bits = sign | exponent << 23 | (fraction & 0x3ff) << 13;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* v rounded once, to nearest even. */
static inline uint16_t tpi_half_of_double(tpi_half type, double v)
{
    const int kept = type == TPI_FLOAT16 ? 10 : 7, bias = type == TPI_FLOAT16 ? 15 : 127;
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 48 & 0x8000),
                   inf = (uint16_t)((2 * bias + 1) << kept);
    const int exponent = (int)(bits >> 52 & 0x7ff) - 1023 + bias;
    uint64_t m = bits & 0xfffffffffffff;
    if (exponent == 1024 + bias)
        return (uint16_t)(sign | inf | (m ? 1 << (kept - 1) : 0));
    if (exponent > 2 * bias)
        return sign | inf;
    m |= (uint64_t)1 << 52;
    const int cut = 52 - kept + (exponent < 1 ? 1 - exponent : 0);
    if (cut > 53) /* less than half of the least; 0 of 64 bits, too */
        return sign;
    const uint64_t half = (uint64_t)1 << (cut - 1), rest = m & (2 * half - 1), whole = m >> cut;
    const uint64_t rounded = whole + (rest > half || (rest == half && whole & 1));
    const uint64_t base =
        exponent < 1 ? 0 : (uint64_t)(exponent - 1) << kept; /* whole has the 1 in front */
    return (uint16_t)(sign | (base + rounded));
}

/* The same of a float, which is a double, exactly. */
static inline uint16_t tpi_half_of_float(tpi_half type, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
    uint64_t wide = (uint64_t)(bits & 0x80000000) << 32;
    if (exponent == 0xff) {
        wide |= (uint64_t)0x7ff << 52 | (uint64_t)fraction << 29;
    } else if (exponent) {
        wide |= (uint64_t)(exponent + 896) << 52 | (uint64_t)fraction << 29;
    } else if (fraction) { /* a normal number of 64 bits */
        const int up = __builtin_clz(fraction) - 8;
        wide |= (uint64_t)(897 - up) << 52 | (uint64_t)(fraction << up & 0x7fffff) << 29;
    }
    double v;
    memcpy(&v, &wide, sizeof v);
    return tpi_half_of_double(type, v);
}

/* n of them, in this machine's order, become floats. They may lie at the end of the memory of these: each
 * is read before its place is written. */
static inline void tpi_halves_to(tpi_half type, size_t n, const void *from, void *to)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)from + 2 * i, sizeof h);
        const float f = tpi_half_to_float(type, h);
        memcpy((char *)to + i * sizeof f, &f, sizeof f);
    }
}

/* n floats, of `size` 4 or 8 bytes, become such where they begin. */
static inline void tpi_halves_of(tpi_half type, size_t size, size_t n, void *p)
{
    for (size_t i = 0; i < n; i++) {
        float f;
        double v;
        if (size == sizeof f)
            memcpy(&f, (char *)p + i * size, sizeof f);
        else
            memcpy(&v, (char *)p + i * size, sizeof v);
        const uint16_t h =
            size == sizeof f ? tpi_half_of_float(type, f) : tpi_half_of_double(type, v);
        memcpy((char *)p + 2 * i, &h, sizeof h);
    }
}

#endif
