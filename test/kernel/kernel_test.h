/* Shared by the kernel tests: random operands with every kind of float among them, comparison of
 * bits, and the seed that repeats a failure. Compiled once per element type and instruction set,
 * against the kernel text itself. */
#ifndef TAPIR_KERNEL_TEST_H
#define TAPIR_KERNEL_TEST_H
#include "kernel/text/vec.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if TPK_BITS == 32
typedef uint32_t test_word;
#define TEST_QUIET UINT32_C(0x7fc00000)
#else
typedef uint64_t test_word;
#define TEST_QUIET UINT64_C(0x7ff8000000000000)
#endif

static uint64_t test_seed, test_state;

static uint64_t test_next(void)
{
    uint64_t z = test_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* lo <= result <= hi */
static int64_t test_int(int64_t lo, int64_t hi)
{
    return lo + (int64_t)(test_next() % (uint64_t)(hi - lo + 1));
}

enum { TEST_PLAIN, TEST_WILD };

static void test_fill(TPK_E *p, int64_t n, int kind)
{
    static const double odd[] = {0.0, -0.0, 1.0, -1.0, 1e-300, -1e-40, 3e38, 1e308};
    for (int64_t i = 0; i < n; i++) {
        const uint64_t r = test_next();
        p[i] = (TPK_E)((double)(int64_t)r / 9.3e18);
        if (kind == TEST_PLAIN || (r & 15)) {
            continue;
        }
        p[i] = (TPK_E)odd[(r >> 8) % 8];
        if ((r >> 16) % 64 == 0) {
            const test_word bits = (test_word)test_next();
            memcpy(&p[i], &bits, sizeof bits);
        }
    }
}

/* Index of the first element whose bits differ, all NaNs being one value; -1 if none. */
static inline int64_t test_differs(const TPK_E *a, const TPK_E *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0 && (a[i] == a[i] || b[i] == b[i])) {
            return i;
        }
    }
    return -1;
}

static void *test_room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(2);
    }
    return p;
}

/* The workspace ends where it says: what lies behind it is looked at afterwards. */
static inline void *test_workspace(size_t bytes)
{
    unsigned char *const p = test_room(bytes + 64);
    memset(p, 0xa5, bytes + 64);
    return p;
}

static inline int test_overrun(const void *ws, size_t bytes)
{
    const unsigned char *const p = ws;
    for (size_t i = 0; i < 64; i++) {
        if (p[bytes + i] != 0xa5) {
            return 1;
        }
    }
    return 0;
}

/* Ends the program as skipped where the machine lacks what it was compiled for. */
static void test_begin(int argc, char **argv, uint64_t seed)
{
#if defined(__x86_64__) && TPK_VBYTES == 64
    const int runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
#elif defined(__x86_64__) && TPK_VBYTES == 32
    const int runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    const int runs = 1;
#endif
    if (!runs) {
        printf("skipped: this processor has no vectors of %d bytes\n", TPK_VBYTES);
        exit(77);
    }
    test_seed = test_state = argc > 1 ? strtoull(argv[1], NULL, 0) : seed;
    printf("%s, f%d, vectors of %d bytes, seed %" PRIu64 "\n", argv[0], TPK_BITS, TPK_VBYTES,
           test_seed);
}
#endif
