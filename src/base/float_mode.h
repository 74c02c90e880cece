/* The floating-point mode that docs/numerics.md asks for: results rounded to nearest, subnormals kept, no
 * exception taken. A host may have another one, set by itself or by a library that was linked with
 * -ffast-math. What computes or writes numbers takes the mode for that time and gives the host's back. */
#ifndef TAPIR_FLOAT_MODE_H
#define TAPIR_FLOAT_MODE_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__SSE2__)
/* Control bits of MXCSR; the others say what has happened. */
enum { TPI_FLOAT_CONTROL = 0xffc0, TPI_FLOAT_DEFAULT = 0x1f80 };
typedef uint32_t tpi_float_mode;

static inline tpi_float_mode tpi_float_mode_now(void)
{
    return __builtin_ia32_stmxcsr();
}

static inline void tpi_float_mode_set(tpi_float_mode m)
{
    __builtin_ia32_ldmxcsr(m);
}

static inline bool tpi_float_mode_is_default(tpi_float_mode m)
{
    return (m & TPI_FLOAT_CONTROL) == TPI_FLOAT_DEFAULT;
}
#elif defined(__aarch64__)
enum { TPI_FLOAT_DEFAULT = 0 };
typedef uint64_t tpi_float_mode; /* FPCR */

static inline tpi_float_mode tpi_float_mode_now(void)
{
    tpi_float_mode m;
    __asm__ volatile("mrs %0, fpcr" : "=r"(m));
    return m;
}

static inline void tpi_float_mode_set(tpi_float_mode m)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(m) : "memory");
}

static inline bool tpi_float_mode_is_default(tpi_float_mode m)
{
    return m == TPI_FLOAT_DEFAULT;
}
#else
/* By the C library: it is not told whether the mode is the default one. */
#include <fenv.h>
typedef fenv_t tpi_float_mode;

static inline tpi_float_mode tpi_float_mode_now(void)
{
    tpi_float_mode m;
    (void)fegetenv(&m);
    return m;
}

static inline void tpi_float_mode_set(tpi_float_mode m)
{
    (void)fesetenv(&m);
}

static inline bool tpi_float_mode_is_default(tpi_float_mode m)
{
    (void)m;
    return false;
}
#endif

static inline tpi_float_mode tpi_float_mode_begin(void)
{
    tpi_float_mode was = tpi_float_mode_now();
    if (!tpi_float_mode_is_default(was)) {
#if defined(__SSE2__) || defined(__aarch64__)
        tpi_float_mode_set(TPI_FLOAT_DEFAULT);
#else
        (void)fesetenv(FE_DFL_ENV);
#endif
    }
#if defined(__SSE2__) || defined(__aarch64__)
    /* Nobody is to know at the end which way it went here: a compiler that does has what lies between twice, and
     * computes what both have in common in front, in the host's mode. */
    __asm__ volatile("" : "+r"(was) : : "memory");
#endif
    return was;
}

static inline void tpi_float_mode_end(const tpi_float_mode *was)
{
    if (!tpi_float_mode_is_default(*was))
        tpi_float_mode_set(*was);
}

/* At the head of a function: until it returns the mode is the default one. One read, where it is so anyway. */
#define TPI_DEFAULT_FLOAT_MODE                                                                 \
    const tpi_float_mode host_float_mode                                                       \
        __attribute__((cleanup(tpi_float_mode_end), unused)) = tpi_float_mode_begin()

/* What is computed from v stays behind this, and what v is computed by before it: compilers move arithmetic over a change
 * of the mode, which is no use of numbers to them. */
#define TPI_FLOAT_PIN(v) __asm__ volatile("" : "+m"(v))

#endif
