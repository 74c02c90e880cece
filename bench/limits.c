#include "limits.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    REPEATS = 15,
    BLOCK = 128, /* floats; the loops know no rest */
    MOST_THREADS = 64
};
static const double repeat_s = 5e-3; /* of one repeat, at least */

double limit_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

limit limit_of(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return (limit){v[n / 2], v[0], v[n - 1]};
}

/* ---- loops, one set per width of vectors ---------------------------------------------------- */

typedef struct arrays {
    size_t n; /* floats in each, a multiple of BLOCK */
    float *x, *y, *z;
} arrays;

typedef struct loops {
    int bits;
    void (*fma)(int64_t n);
    void (*read)(const arrays *a);
    void (*triad)(const arrays *a);
} loops;

/* Twelve multiply-adds per round. Assembly, so that every compiler times the same instructions
 * on registers; c = c / 2 + 1 / 2 goes to 1 and stays there. */
#define FMA_LOOP(name, attribute, bytes, v, one)                                               \
    attribute static void name(int64_t n)                                                      \
    {                                                                                          \
        typedef float vec __attribute__((vector_size(bytes)));                                 \
        const vec half = (vec){0} + 0.5f;                                                      \
        vec a = half, b = half, c = half, d = half, e = half, f = half;                        \
        vec g = half, h = half, i = half, j = half, k = half, l = half;                        \
        for (; n > 0; n--) {                                                                   \
            __asm__ volatile(one("0") one("1") one("2") one("3") one("4") one("5") one("6")    \
                                 one("7") one("8") one("9") one("10") one("11")                \
                             : "+" v(a), "+" v(b), "+" v(c), "+" v(d), "+" v(e), "+" v(f),     \
                               "+" v(g), "+" v(h), "+" v(i), "+" v(j), "+" v(k), "+" v(l)      \
                             : v(half));                                                       \
        }                                                                                      \
    }

/* Eight sums, so that the loads need not wait for additions. */
#define READ_LOOP(name, attribute, bytes)                                                      \
    attribute static void name(const arrays *p)                                                \
    {                                                                                          \
        typedef uint32_t vec __attribute__((vector_size(bytes), may_alias));                   \
        const vec *x = (const vec *)(const void *)p->x;                                        \
        const vec *end = (const vec *)(const void *)(p->x + p->n);                             \
        vec a = {0}, b = a, c = a, d = a, e = a, f = a, g = a, h = a;                          \
        for (; x < end; x += 8) {                                                              \
            a += x[0];                                                                         \
            b += x[1];                                                                         \
            c += x[2];                                                                         \
            d += x[3];                                                                         \
            e += x[4];                                                                         \
            f += x[5];                                                                         \
            g += x[6];                                                                         \
            h += x[7];                                                                         \
        }                                                                                      \
        a += b + c + d + e + f + g + h;                                                        \
        __asm__ volatile("" : : "r"(&a) : "memory");                                           \
    }

#define TRIAD_LOOP(name, attribute, bytes)                                                     \
    attribute static void name(const arrays *p)                                                \
    {                                                                                          \
        typedef float vec __attribute__((vector_size(bytes), may_alias));                      \
        const vec *x = (const vec *)(const void *)p->x, *y = (const vec *)(const void *)p->y;  \
        vec *z = (vec *)(void *)p->z;                                                          \
        const size_t n = p->n * sizeof(float) / sizeof(vec);                                   \
        for (size_t i = 0; i < n; i += 4) {                                                    \
            z[i] = x[i] + 3 * y[i];                                                            \
            z[i + 1] = x[i + 1] + 3 * y[i + 1];                                                \
            z[i + 2] = x[i + 2] + 3 * y[i + 2];                                                \
            z[i + 3] = x[i + 3] + 3 * y[i + 3];                                                \
        }                                                                                      \
        __asm__ volatile("" : : "r"(z) : "memory");                                            \
    }

#define LOOPS(bits, attribute, v, one)                                                         \
    FMA_LOOP(fma_##bits, attribute, bits / 8, v, one)                                          \
    READ_LOOP(read_##bits, attribute, bits / 8)                                                \
    TRIAD_LOOP(triad_##bits, attribute, bits / 8)                                              \
    static const loops loops_##bits = {bits, fma_##bits, read_##bits, triad_##bits};

#if defined(__x86_64__)
#define X86_REGISTER "v"
#define X86_FMA(c) "vfmadd213ps %12, %12, %" c "\n\t"
#define X86_PLAIN(c) "mulps %12, %" c "\n\taddps %12, %" c "\n\t"
LOOPS(512, __attribute__((noinline, target("avx512f"))), X86_REGISTER, X86_FMA)
LOOPS(256, __attribute__((noinline, target("avx2,fma"))), X86_REGISTER, X86_FMA)
LOOPS(128, __attribute__((noinline)), "x", X86_PLAIN) /* counted as one */
#elif defined(__aarch64__)
#define ARM_FMA(c) "fmla %" c ".4s, %12.4s, %12.4s\n\t"
LOOPS(128, __attribute__((noinline)), "w", ARM_FMA)
#else
#error "bench/limits.c has loops for x86-64 and AArch64"
#endif

static const loops *widest(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return &loops_512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &loops_256;
#endif
    return &loops_128;
}

/* ---- timing --------------------------------------------------------------------------------- */

int limit_vector_bits(void)
{
    return widest()->bits;
}

static int n_threads = 1;

void limit_set_threads(int n)
{
    n_threads = n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n;
}

/* What one thread measures. */
typedef struct probe {
    size_t bytes; /* of each array */
    int n_arrays; /* 0: multiply-adds */
    void (*run)(const arrays *a);
    limit got;
} probe;

static double clock_now(void)
{
    struct timespec t;
    if (n_threads == 1)
        return limit_now();
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fma_rate(probe *p)
{
    const loops *l = widest();
    int64_t n = 1000;
    double v[REPEATS];
    for (int r = -1; r < REPEATS; r++) { /* the first one wakes the machine up */
        double seconds;
        for (;; n *= 2) {
            const double start = clock_now();
            l->fma(n);
            seconds = clock_now() - start;
            if (seconds >= repeat_s)
                break;
        }
        if (r >= 0)
            v[r] = 1e-9 * 2 * 12 * (l->bits / 32.0) * (double)n / seconds;
    }
    p->got = limit_of(v, REPEATS);
}

static void copy_all(const arrays *a)
{
    memcpy(a->y, a->x, a->n * sizeof(float));
    __asm__ volatile("" : : "r"(a->y) : "memory");
}

static float *array(size_t n)
{
    float *p = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    for (size_t i = 0; p && i < n; i++)
        p[i] = (float)(i % 1000);
    return p;
}

static void byte_rate(probe *p)
{
    const size_t n = p->bytes / sizeof(float) / BLOCK * BLOCK;
    const int k = p->n_arrays;
    arrays a = {n, array(n), k > 1 ? array(n) : NULL, k > 2 ? array(n) : NULL};
    double v[REPEATS] = {0};
    if (n && a.x && (a.y || k < 2) && (a.z || k < 3)) {
        size_t times = 1;
        for (int r = -1; r < REPEATS; r++) {
            double seconds = 0;
            for (;; times *= 2) {
                const double start = clock_now();
                for (size_t i = 0; i < times; i++)
                    p->run(&a);
                seconds = clock_now() - start;
                if (seconds >= repeat_s)
                    break;
            }
            if (r >= 0)
                v[r] = 1e-9 * (double)(n * sizeof(float)) * k * (double)times / seconds;
        }
    }
    free(a.x);
    free(a.y);
    free(a.z);
    p->got = limit_of(v, REPEATS);
}

static void *measure(void *arg)
{
    probe *p = arg;
    if (p->n_arrays)
        byte_rate(p);
    else
        fma_rate(p);
    return NULL;
}

/* Of all threads together. */
static limit sum_of(const probe *one)
{
    probe p[MOST_THREADS];
    pthread_t id[MOST_THREADS];
    bool started[MOST_THREADS] = {false};
    limit all = {0, 0, 0};
    for (int i = 0; i < n_threads; i++)
        p[i] = *one;
    for (int i = 1; i < n_threads; i++)
        started[i] = pthread_create(&id[i], NULL, measure, &p[i]) == 0;
    measure(&p[0]);
    for (int i = 0; i < n_threads; i++) {
        if (started[i])
            pthread_join(id[i], NULL);
        all.median += p[i].got.median;
        all.low += p[i].got.low;
        all.high += p[i].got.high;
    }
    return all;
}

limit limit_fma_f32(void)
{
    return sum_of(&(probe){.bytes = 0});
}

limit limit_read(size_t bytes)
{
    return sum_of(&(probe){.bytes = bytes, .n_arrays = 1, .run = widest()->read});
}

limit limit_copy(size_t bytes)
{
    return sum_of(&(probe){.bytes = bytes, .n_arrays = 2, .run = copy_all});
}

limit limit_triad(size_t bytes)
{
    return sum_of(&(probe){.bytes = bytes, .n_arrays = 3, .run = widest()->triad});
}

/* ---- levels ---------------------------------------------------------------------------------- */

const char *limit_level_name(limit_level level)
{
    static const char *const names[] = {"L1", "L2", "L3", "memory"};
    return names[level];
}

size_t limit_level_bytes(limit_level level)
{
    static const size_t bytes[] = {8 << 10, 256 << 10, 4 << 20};
    if (level != LIMIT_MEMORY)
        return bytes[level];
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    /* A server names a cache that all its guests share: of that we do not have much. */
    const size_t least = (size_t)64 << 20, most = (size_t)128 << 20;
    const size_t wanted = cache > 0 ? 4 * (size_t)cache : least;
    return wanted < least ? least : wanted > most ? most : wanted;
}

static double cache_bytes(int name, double otherwise)
{
    const long bytes = sysconf(name);
    return bytes > 0 ? (double)bytes : otherwise;
}

limit_level limit_level_of(double bytes)
{
    const double most = 24 << 20; /* of a shared cache, as above */
    const double l3 = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 8 << 20);
    if (bytes <= cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10))
        return LIMIT_L1;
    if (bytes <= cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20))
        return LIMIT_L2;
    return bytes <= (l3 < most ? l3 : most) ? LIMIT_L3 : LIMIT_MEMORY;
}
