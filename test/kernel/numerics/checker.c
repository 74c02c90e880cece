/* The numerics contract in plain C: each definition of docs/numerics.md is written here a second
 * time, as simply as it can be said, and the kernel text is held against it, bit by bit.
 *
 *     checker [SEED]       prints one line per part; exits 1 at the first difference
 */
#include "kernel/text/philox.h"
#include "kernel/text/reduce.h"
#include "kernel/text/reduce_int.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 1, state;
static const char *part;

static uint64_t next_random(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void begin(const char *name)
{
    part = name;
    state = seed;
}

static void end(void)
{
    printf("  %-28s ok\n", part);
    fflush(stdout);
}

static void fail(const char *what, double a, double b, double c, double got, double want)
{
    printf("  %-28s FAILED at %s(%a, %a, %a): got %a, expected %a; again: checker %llu\n", part,
           what, a, b, c, got, want, (unsigned long long)seed);
    exit(1);
}

/* Equal bits; all NaNs are one value. */
static bool same32(float a, float b)
{
    return (a != a && b != b) || !memcmp(&a, &b, sizeof a);
}

static bool same64(double a, double b)
{
    return (a != a && b != b) || !memcmp(&a, &b, sizeof a);
}

static float any32(void)
{
    static const float special[] = {0.0f,      -0.0f,      1.0f,          -1.0f,
                                    0x1p-149f, -0x1p-149f, 0x1p-126f,     0x1p127f,
                                    INFINITY,  -INFINITY,  NAN,           0x1.fffffep127f,
                                    1.5f,      -2.0f,      0x1.fffffep-1f};
    const uint64_t r = next_random();
    if (r % 4 == 0) {
        return special[r / 4 % (sizeof special / sizeof *special)];
    }
    if (r % 4 == 1) {
        return (float)((double)(int32_t)(r >> 32) * 0x1p-28);
    }
    return tpk_from_bits_f32((uint32_t)(r >> 32));
}

static double any64(void)
{
    static const double special[] = {0.0,       -0.0,      1.0,
                                     -1.0,      0x1p-1074, -0x1p-1074,
                                     0x1p-1022, 0x1p1023,  INFINITY,
                                     -INFINITY, NAN,       0x1.fffffffffffffp1023,
                                     1.5,       -2.0,      0x1.fffffffffffffp-1};
    const uint64_t r = next_random();
    if (r % 4 == 0) {
        return special[r / 4 % (sizeof special / sizeof *special)];
    }
    if (r % 4 == 1) {
        return (double)(int64_t)next_random() * 0x1p-60;
    }
    return tpk_from_bits_f64(next_random());
}

static void fma_and_sqrt(void)
{
    begin("fma, sqrt");
    for (int i = 0; i < 2000000; i++) {
        const float a = any32(), b = any32();
        float c = any32();
        double x = any64(), y = any64(), z = any64();
        if (i % 3 == 0) { /* cancel, or nearly */
            c = -a * b;
            z = -x * y;
        } else if (i % 3 == 1) { /* near the ends of the range */
            const double s = ldexp(1, (int)(next_random() % 120) - 1080 + 530);
            x = (1 + (double)(next_random() >> 12) * 0x1p-52) * s;
            y = (1 + (double)(next_random() >> 12) * 0x1p-52) * 0x1p-530;
            z = (double)(int64_t)(next_random() % 4096) * 0x1p-1074;
            x = i & 4 ? -x : x;
        }
        if (!same32(tpk_soft_fma_f32(a, b, c), fmaf(a, b, c))) {
            fail("soft_fma_f32", (double)a, (double)b, (double)c,
                 (double)tpk_soft_fma_f32(a, b, c), (double)fmaf(a, b, c));
        }
        if (!same32(tpk_fma_f32(a, b, c), fmaf(a, b, c))) {
            fail("fma_f32", (double)a, (double)b, (double)c, (double)tpk_fma_f32(a, b, c),
                 (double)fmaf(a, b, c));
        }
        if (!same64(tpk_soft_fma_f64(x, y, z), fma(x, y, z))) {
            fail("soft_fma_f64", x, y, z, tpk_soft_fma_f64(x, y, z), fma(x, y, z));
        }
        if (x * y != 0 && isfinite(x) && isfinite(y) && isfinite(z) &&
            !same64(tpk_soft_fma_slow_f64(x, y, z), fma(x, y, z))) {
            fail("soft_fma_slow_f64", x, y, z, tpk_soft_fma_slow_f64(x, y, z), fma(x, y, z));
        }
        if (!same64(tpk_fma_f64(x, y, z), fma(x, y, z))) {
            fail("fma_f64", x, y, z, tpk_fma_f64(x, y, z), fma(x, y, z));
        }
        const float s32 = (float)tpk_soft_sqrt_f64((double)a);
        if (!same32(s32, sqrtf(a)) || !same32(tpk_sqrt_f32(a), sqrtf(a))) {
            fail("sqrt_f32", (double)a, 0, 0, (double)tpk_sqrt_f32(a), (double)sqrtf(a));
        }
        if (!same64(tpk_soft_sqrt_f64(x), sqrt(x)) || !same64(tpk_sqrt_f64(x), sqrt(x))) {
            fail("sqrt_f64", x, 0, 0, tpk_soft_sqrt_f64(x), sqrt(x));
        }
    }
    end();
}

static double plain_max(double a, double b)
{
    if (a != a || b != b) {
        return NAN;
    }
    if (a == b) {
        return signbit(a) ? b : a;
    }
    return a > b ? a : b;
}

static double plain_mod(double a, double b)
{
    const double r = fmod(a, b);
    if (r != r) {
        return r;
    }
    if (r == 0) {
        return copysign(0, b);
    }
    return (r < 0) == (b < 0) ? r : r + b;
}

static void float_operations(void)
{
    begin("float min max mod round");
#define CHECK(op, t, T, same, got, want)                                                       \
    do {                                                                                       \
        const T g = got, w = want;                                                             \
        if (!same(g, w)) {                                                                     \
            fail(op "_" #t, (double)a, (double)b, 0, (double)g, (double)w);                    \
        }                                                                                      \
    } while (0)
    for (int i = 0; i < 500000; i++) {
        const float a = any32(), b = any32();
        CHECK("max", f32, float, same32, tpk_max_f32(a, b), (float)plain_max(a, b));
        CHECK("min", f32, float, same32, tpk_min_f32(a, b), (float)-plain_max(-a, -b));
        CHECK("fmod", f32, float, same32, tpk_fmod_f32(a, b), fmodf(a, b));
        const float m = fmodf(a, b);
        CHECK("mod", f32, float, same32, tpk_mod_f32(a, b),
              m != 0 && (m < 0) != (b < 0) ? m + b : (float)plain_mod(a, b));
        CHECK("floor", f32, float, same32, tpk_floor_f32(a), floorf(a));
        CHECK("ceil", f32, float, same32, tpk_ceil_f32(a), ceilf(a));
        CHECK("trunc", f32, float, same32, tpk_trunc_f32(a), truncf(a));
        CHECK("round", f32, float, same32, tpk_round_f32(a), rintf(a));
        CHECK("relu", f32, float, same32, tpk_relu_f32(a), (float)plain_max(a, 0));
        CHECK("sign", f32, float, same32, tpk_sign_f32(a), a > 0 ? 1.0f : a < 0 ? -1.0f : a);
    }
    for (int i = 0; i < 500000; i++) {
        const double a = any64(), b = any64();
        CHECK("max", f64, double, same64, tpk_max_f64(a, b), plain_max(a, b));
        CHECK("min", f64, double, same64, tpk_min_f64(a, b), -plain_max(-a, -b));
        CHECK("fmod", f64, double, same64, tpk_fmod_f64(a, b), fmod(a, b));
        CHECK("mod", f64, double, same64, tpk_mod_f64(a, b), plain_mod(a, b));
        CHECK("floor", f64, double, same64, tpk_floor_f64(a), floor(a));
        CHECK("ceil", f64, double, same64, tpk_ceil_f64(a), ceil(a));
        CHECK("trunc", f64, double, same64, tpk_trunc_f64(a), trunc(a));
        CHECK("round", f64, double, same64, tpk_round_f64(a), rint(a));
        CHECK("relu", f64, double, same64, tpk_relu_f64(a), plain_max(a, 0));
        CHECK("sign", f64, double, same64, tpk_sign_f64(a), a > 0 ? 1.0 : a < 0 ? -1.0 : a);
    }
    end();
}

/* Zeros with their signs, infinities and NaN, where the C library's results are exact. */
static void special_operands(void)
{
    begin("special operands");
    static const double x[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
    static const struct {
        const char *name;
        float (*f32)(float);
        double (*f64)(double), (*want)(double);
    } f[] = {
        {"exp",    tpk_exp_f32,    tpk_exp_f64,    exp  },
        {"log",    tpk_log_f32,    tpk_log_f64,    log  },
        {"exp2",   tpk_exp2_f32,   tpk_exp2_f64,   exp2 },
        {"log2",   tpk_log2_f32,   tpk_log2_f64,   log2 },
        {"log10",  tpk_log10_f32,  tpk_log10_f64,  log10},
        {"expm1",  tpk_expm1_f32,  tpk_expm1_f64,  expm1},
        {"log1p",  tpk_log1p_f32,  tpk_log1p_f64,  log1p},
        {"sin",    tpk_sin_f32,    tpk_sin_f64,    sin  },
        {"cos",    tpk_cos_f32,    tpk_cos_f64,    cos  },
        {"tanh",   tpk_tanh_f32,   tpk_tanh_f64,   tanh },
        {"erf",    tpk_erf_f32,    tpk_erf_f64,    erf  },
        {"erfinv", tpk_erfinv_f32, tpk_erfinv_f64, atanh},
        {"sqrt",   tpk_sqrt_f32,   tpk_sqrt_f64,   sqrt }
    };
    for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
        for (size_t j = 0; j < sizeof x / sizeof *x; j++) {
            const double want = f[i].want(x[j]);
            if (!same64(f[i].f64(x[j]), want)) {
                fail(f[i].name, x[j], 0, 0, f[i].f64(x[j]), want);
            }
            if (!same32(f[i].f32((float)x[j]), (float)want)) {
                fail(f[i].name, x[j], 0, 0, (double)f[i].f32((float)x[j]), want);
            }
        }
    }
    static const double p[] = {0,          -0.0,       1,        -1,        2,    -2,   0.5,
                               -0.5,       3,          -3,       1.5,       -1.5, 1e30, -1e30,
                               0x1p-120,   -0x1p-120,  INFINITY, -INFINITY, NAN,  4,    -7,
                               0x1p24 + 2, 0x1p24 - 1, 0x1p53,   0x1p53 - 1};
    enum { P = sizeof p / sizeof *p };
    for (int i = 0; i < P * P; i++) {
        const double a = p[i / P], b = p[i % P], want = pow(a, b);
        const double got = tpk_pow_f64(a, b);
        if ((want == 0 || want != want || isinf(want) || fabs(want) == 1) &&
            !same64(got, want)) {
            fail("pow_f64", a, b, 0, got, want);
        }
        const float c = (float)a, d = (float)b, want32 = powf(c, d), got32 = tpk_pow_f32(c, d);
        if ((want32 == 0 || want32 != want32 || isinf(want32) || fabsf(want32) == 1) &&
            !same32(got32, want32)) {
            fail("pow_f32", (double)c, (double)d, 0, (double)got32, (double)want32);
        }
    }
    end();
}

static void want(const char *what, double x, double got, double wanted)
{
    if (!same64(got, wanted)) {
        fail(what, x, 0, 0, got, wanted);
    }
}

/* Powers of 2 and of 10 that are floats, to and from; what is beyond the range; the ends of erfinv. */
static void exact_powers(void)
{
    begin("exact powers");
    for (int k = -1100; k <= 1100; k++) {
        const double x = ldexp(1, k);
        want("exp2_f64", k, tpk_exp2_f64(k), x);
        want("exp2_f32", k, (double)tpk_exp2_f32((float)k), (double)(float)x);
        if (k >= -1074 && k < 1024) {
            want("log2_f64", x, tpk_log2_f64(x), k);
        }
        if (k >= -149 && k < 128) {
            want("log2_f32", x, (double)tpk_log2_f32((float)x), k);
        }
    }
    double ten = 1; /* 5^22 has 52 bits, 5^10 has 24 */
    for (int k = 0; k <= 22; k++, ten *= 10) {
        want("log10_f64", ten, tpk_log10_f64(ten), k);
        if (k <= 10) {
            want("log10_f32", ten, (double)tpk_log10_f32((float)ten), k);
        }
    }
    static const double far[] = {1e4, 1e30, 1.7e308};
    for (int i = 0; i < 3; i++) {
        want("exp2_f64", far[i], tpk_exp2_f64(far[i]), INFINITY);
        want("exp2_f64", -far[i], tpk_exp2_f64(-far[i]), 0);
        want("exp2_f32", far[i], (double)tpk_exp2_f32((float)far[i]), INFINITY);
        want("exp2_f32", -far[i], (double)tpk_exp2_f32((float)-far[i]), 0);
        want("log2_f64", -far[i], tpk_log2_f64(-far[i]), NAN);
        want("log10_f32", -far[i], (double)tpk_log10_f32((float)-far[i]), NAN);
    }
    static const double ends[] = {1, -1, 1.0000002384185791, -2, 1e30, -1.7e308};
    for (int i = 0; i < 6; i++) {
        const double wanted = i < 2 ? copysign(INFINITY, ends[i]) : NAN;
        want("erfinv_f64", ends[i], tpk_erfinv_f64(ends[i]), wanted);
        want("erfinv_f32", ends[i], (double)tpk_erfinv_f32((float)ends[i]), wanted);
    }
    end();
}

typedef __int128 wide; /* holds every product and every element of every integer type */

static wide plain_power(wide a, wide n)
{
    if (n < 0) {
        return a == 1 ? 1 : a == -1 ? (n % 2 ? -1 : 1) : 0;
    }
    uint64_t r = 1;
    for (; n > 0; n--) {
        r *= (uint64_t)a;
    }
    return (wide)r;
}

static wide plain_floor_mod(wide a, wide b)
{
    const wide r = b ? a % b : 0;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define CHECK_INT(op, t, want)                                                                 \
    if (tpk_##op##_##t(a, b) != (tpk_##t)(want)) {                                             \
        fail(#op "_" #t, (double)a, (double)b, 0, (double)tpk_##op##_##t(a, b),                \
             (double)(tpk_##t)(want));                                                         \
    }
#define CHECK_TYPE(t)                                                                          \
    for (int i = 0; i < 100000; i++) {                                                         \
        const uint64_t r = next_random(), s = next_random();                                   \
        const tpk_##t a = (tpk_##t)(r % 3 ? r >> 5 : r >> 60);                                 \
        const tpk_##t b =                                                                      \
            (tpk_##t)(s % 3 ? s % 3 == 1 ? (s >> 8) % 20 - 8 : s >> 5 : s >> 62);              \
        const wide wa = a, wb = b, width = (wide)sizeof(tpk_##t) * 8;                          \
        CHECK_INT(add, t, wa + wb)                                                             \
        CHECK_INT(sub, t, wa - wb)                                                             \
        CHECK_INT(mul, t, wa *wb)                                                              \
        CHECK_INT(div, t, wb ? wa / wb : 0)                                                    \
        CHECK_INT(fmod, t, wb ? wa % wb : 0)                                                   \
        CHECK_INT(mod, t, plain_floor_mod(wa, wb))                                             \
        CHECK_INT(min, t, wa < wb ? wa : wb)                                                   \
        CHECK_INT(max, t, wa > wb ? wa : wb)                                                   \
        if (wb < 300) {                                                                        \
            CHECK_INT(pow, t, plain_power(wa, wb))                                             \
        }                                                                                      \
        CHECK_INT(shl, t, wb >= 0 && wb < width ? (uint64_t)a << wb : 0)                       \
        CHECK_INT(shr, t, wb >= 0 && wb < width ? wa >> wb : wa < 0 ? -1 : 0)                  \
    }

static void integer_operations(void)
{
    begin("integer operations");
    CHECK_TYPE(i8)
    CHECK_TYPE(i16)
    CHECK_TYPE(i32)
    CHECK_TYPE(i64)
    CHECK_TYPE(u8)
    CHECK_TYPE(u16)
    CHECK_TYPE(u32)
    CHECK_TYPE(u64)
    end();
}

/* The numbers of the type of which x is nearest, ties to zero side: truncated, then clamped. */
static wide plain_cast(double x, int bits, bool is_signed)
{
    const wide one = 1, low = is_signed ? -(one << (bits - 1)) : 0;
    const wide high = is_signed ? (one << (bits - 1)) - 1 : (one << bits) - 1;
    if (x != x) {
        return 0;
    }
    if (x > 0x1p100) {
        return high;
    }
    if (x < -0x1p100) {
        return low;
    }
    const wide v = (wide)x;
    return v < low ? low : v > high ? high : v;
}

static void casts(void)
{
    begin("casts");
    for (int i = 0; i < 1000000; i++) {
        const double edge = ldexp(next_random() & 1 ? 1 : -1, (int)(next_random() % 66));
        const double x = i % 2 ? any64() : edge + (double)(int)(next_random() % 5) - 2.5;
        const float f = i % 4 ? (float)x : any32();
#define CHECK_CAST(t, bits, is_signed)                                                         \
    if (tpk_cast_f64_##t(x) != (tpk_##t)plain_cast(x, bits, is_signed)) {                      \
        fail("cast_f64_" #t, x, 0, 0, (double)tpk_cast_f64_##t(x),                             \
             (double)plain_cast(x, bits, is_signed));                                          \
    }                                                                                          \
    if (tpk_cast_f32_##t(f) != (tpk_##t)plain_cast((double)f, bits, is_signed)) {              \
        fail("cast_f32_" #t, (double)f, 0, 0, (double)tpk_cast_f32_##t(f),                     \
             (double)plain_cast((double)f, bits, is_signed));                                  \
    }
        CHECK_CAST(i8, 8, true)
        CHECK_CAST(i16, 16, true)
        CHECK_CAST(i32, 32, true)
        CHECK_CAST(i64, 64, true)
        CHECK_CAST(u8, 8, false)
        CHECK_CAST(u16, 16, false)
        CHECK_CAST(u32, 32, false)
        CHECK_CAST(u64, 64, false)
    }
    end();
}

/* Reductions of doubles or floats, told apart by `single`, step by step in double: one step on
 * two floats rounded to float is the step of floats (53 >= 2 * 24 + 2 bits). */
enum { SUM, PROD, MAX, MIN };
static double join(int op, bool single, double a, double b)
{
    const double r = op == SUM    ? a + b
                     : op == PROD ? a * b
                     : op == MAX  ? plain_max(a, b)
                                  : -plain_max(-a, -b);
    return single ? (double)(float)r : r;
}

static double plain_tree(int op, bool single, double *v, int64_t n)
{
    while (n > 1) {
        int64_t m = 0;
        for (int64_t i = 0; i < n; i += 2) {
            v[m++] = i + 1 < n ? join(op, single, v[i], v[i + 1]) : v[i];
        }
        n = m;
    }
    return v[0];
}

static const double identity[4] = {0, 1, -INFINITY, INFINITY};

static double plain_reduce(int op, bool single, const double *x, int64_t n)
{
    static double blocks[64];
    const int lanes = n < 256 ? 16 : 64;
    int64_t count = 0;
    for (int64_t at = 0; at == 0 || at < n; at += 4096) {
        double lane[64];
        for (int l = 0; l < lanes; l++) {
            lane[l] = identity[op];
        }
        for (int64_t i = 0; i < 4096 && at + i < n; i++) {
            lane[i % lanes] = join(op, single, lane[i % lanes], x[at + i]);
        }
        for (int h = lanes / 2; h > 0; h /= 2) {
            for (int l = 0; l < h; l++) {
                lane[l] = join(op, single, lane[l], lane[l + h]);
            }
        }
        blocks[count++] = lane[0];
    }
    return plain_tree(op, single, blocks, count);
}

static double plain_column(int op, bool single, const double *x, int64_t stride, int64_t rows)
{
    double total = 0;
    for (int64_t at = 0; at == 0 || at < rows; at += 4096) {
        double block = identity[op];
        for (int64_t i = at; i < rows && i < at + 4096; i++) {
            block = join(op, single, block, x[i * stride]);
        }
        total = at == 0 ? block : join(op, single, total, block);
    }
    return total;
}

static double fill(int op, int64_t i)
{
    const uint64_t r = next_random();
    if (r % 97 == 0 && i % 5 == 0 && op != SUM) {
        return r % 2 ? -0.0 : 0.0;
    }
    if (op == MAX || op == MIN) {
        return (double)(int)(r >> 40 & 255) * (op == MAX ? -0.5 : 0.5); /* 0 is the extreme */
    }
    const float v = (float)((double)(int64_t)r * 0x1p-63);
    return op == PROD ? (double)(v < 0 ? v - 0.5f : v + 0.5f) : (double)v;
}

#define CHECK_REDUCE(op, OP, t, T, single, same)                                               \
    {                                                                                          \
        const T got = tpk_reduce_##op##_##t(y_##t, n);                                         \
        const T want = (T)plain_reduce(OP, single, x, n);                                      \
        if (!same(got, want)) {                                                                \
            fail("reduce_" #op "_" #t " of n", (double)n, 0, 0, (double)got, (double)want);    \
        }                                                                                      \
        T blocks[64];                                                                          \
        tpk_reduce_##op##_acc_##t acc = {.count = 0};                                          \
        int64_t b = 0;                                                                         \
        for (int64_t at = 0; at < n; at += TPK_BLOCK, b++) {                                   \
            const int64_t m = n - at < TPK_BLOCK ? n - at : TPK_BLOCK;                         \
            blocks[b] = tpk_reduce_##op##_block_##t(y_##t + at, m, TPK_LANES(n));              \
            tpk_reduce_##op##_push_##t(&acc, blocks[b]);                                       \
        }                                                                                      \
        if (!same(tpk_reduce_##op##_end_##t(&acc), want) ||                                    \
            !same(tpk_reduce_##op##_tree_##t(blocks, b), want)) {                              \
            fail("block tree of " #op "_" #t, (double)n, 0, 0,                                 \
                 (double)tpk_reduce_##op##_end_##t(&acc), (double)want);                       \
        }                                                                                      \
    }
#define CHECK_COLUMNS(op, OP, t, T, single, same)                                              \
    tpk_reduce_##op##_columns_##t(rows, n, y_##t, n + 3, columns_##t);                         \
    for (int64_t j = 0; j < n; j++) {                                                          \
        const T want = (T)plain_column(OP, single, x + j, n + 3, rows);                        \
        if (!same(columns_##t[j], want)) {                                                     \
            fail("columns_" #op "_" #t " (rows, n, j)", (double)rows, (double)n, (double)j,    \
                 (double)columns_##t[j], (double)want);                                        \
        }                                                                                      \
    }
#define EACH_OP(X, OP, op)                                                                     \
    for (int64_t i = 0; i < room; i++) {                                                       \
        x[i] = fill(OP, i);                                                                    \
        y_f32[i] = (float)x[i];                                                                \
        y_f64[i] = x[i];                                                                       \
    }                                                                                          \
    if (OP >= MAX && trial % 3 == 2) {                                                         \
        x[room / 2] = y_f64[room / 2] = NAN, y_f32[room / 2] = NAN;                            \
    }                                                                                          \
    X(op, OP, f32, float, true, same32)                                                        \
    X(op, OP, f64, double, false, same64)

static void reductions(void)
{
    static const int64_t sizes[] = {0,    1,    2,     15,    16,    17,    63,    100,
                                    255,  256,  257,   300,   1000,  4095,  4096,  4097,
                                    8192, 9000, 12288, 13000, 20480, 28700, 45056, 65537};
    enum { ROOM = 70000 };
    double *x = malloc(ROOM * sizeof *x), *y_f64 = malloc(ROOM * sizeof *y_f64);
    float *y_f32 = malloc(ROOM * sizeof *y_f32);
    if (!x || !y_f32 || !y_f64) {
        fail("malloc", ROOM, 0, 0, 0, 0);
    }
    begin("reductions of rows");
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (int trial = 0; trial < 3; trial++) {
            const int64_t n = sizes[k], room = n;
            EACH_OP(CHECK_REDUCE, SUM, sum)
            EACH_OP(CHECK_REDUCE, PROD, prod)
            if (n > 0) {
                EACH_OP(CHECK_REDUCE, MAX, max)
                EACH_OP(CHECK_REDUCE, MIN, min)
            }
        }
    }
    end();
    begin("reductions of columns");
    static const int64_t shapes[][2] = {
        {0,     3   },
        {1,     1   },
        {5,     7   },
        {9,     1030},
        {4096,  5   },
        {4097,  3   },
        {9001,  4   },
        {12288, 2   }
    };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        for (int trial = 0; trial < 3; trial++) {
            const int64_t rows = shapes[k][0], n = shapes[k][1], room = rows * (n + 3) + 1;
            static float columns_f32[2000];
            static double columns_f64[2000];
            EACH_OP(CHECK_COLUMNS, SUM, sum)
            EACH_OP(CHECK_COLUMNS, PROD, prod)
            EACH_OP(CHECK_COLUMNS, MAX, max)
            EACH_OP(CHECK_COLUMNS, MIN, min)
        }
    }
    free(x);
    free(y_f32);
    free(y_f64);
    end();
}

/* The known answers of the authors of Philox, and single elements against whole arrays. */
static void random_numbers(void)
{
    begin("random numbers");
    static const struct {
        uint64_t seed, stream, block;
        uint32_t w[4];
    } known[] = {
        {0,                  0,          0,                  {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,         UINT64_MAX, UINT64_MAX,         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,             0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}                                                    },
    };
    for (int i = 0; i < 3; i++) {
        const tpk_words r = tpk_philox(known[i].seed, known[i].stream, known[i].block);
        for (int l = 0; l < 4; l++) {
            if (r.w[l] != known[i].w[l]) {
                fail("philox(known, word)", i, l, 0, r.w[l], known[i].w[l]);
            }
        }
    }
#define CHECK_FILL(name, t)                                                                    \
    for (int64_t n = 0; n < 150; n += 7) {                                                     \
        tpk_##t y[150];                                                                        \
        const uint64_t first = UINT64_MAX / 2 + (uint64_t)n * 13;                              \
        tpk_##name##_fill_##t(y, n, seed, 5, first);                                           \
        for (int64_t i = 0; i < n; i++) {                                                      \
            const tpk_##t want = tpk_##name##_##t(seed, 5, first + (uint64_t)i);               \
            if (memcmp(&y[i], &want, sizeof want)) {                                           \
                fail(#name "_fill_" #t "(n, i)", (double)n, (double)i, 0, (double)y[i],        \
                     (double)want);                                                            \
            }                                                                                  \
        }                                                                                      \
    }
    CHECK_FILL(random, u32)
    CHECK_FILL(random, u64)
    CHECK_FILL(uniform, f32)
    CHECK_FILL(uniform, f64)
    CHECK_FILL(normal, f32)
    CHECK_FILL(normal, f64)
    for (uint64_t i = 0; i < 100000; i++) {
        const double u = (double)(tpk_random_u64(seed, 0, i) >> 11) * 0x1p-53;
        if (tpk_uniform_f64(seed, 0, i) != u) {
            fail("uniform_f64", (double)i, 0, 0, tpk_uniform_f64(seed, 0, i), u);
        }
        const float v = (float)(tpk_random_u32(seed, 0, i) >> 8) * 0x1p-24f;
        if (tpk_uniform_f32(seed, 0, i) != v) {
            fail("uniform_f32", (double)i, 0, 0, (double)tpk_uniform_f32(seed, 0, i),
                 (double)v);
        }
        /* Box and Muller with the C library; ours differs by rounding only */
        const tpk_words w = tpk_philox(seed, 0, i);
        const double r = sqrt(-2 * log((double)((float)(w.w[0] >> 1) + 0.5f) * 0x1p-31));
        const double t = w.w[1] * 0x1p-31 * 3.14159265358979323846;
        if (fabs((double)tpk_normal_f32(seed, 0, 4 * i) - r * cos(t)) > 3e-6 ||
            fabs((double)tpk_normal_f32(seed, 0, 4 * i + 1) - r * sin(t)) > 3e-6) {
            fail("normal_f32", (double)i, 0, 0, (double)tpk_normal_f32(seed, 0, 4 * i),
                 r * cos(t));
        }
        const uint64_t wa = (uint64_t)w.w[1] << 32 | w.w[0],
                       wb = (uint64_t)w.w[3] << 32 | w.w[2];
        const double r2 = sqrt(-2 * log(((double)(wa >> 11) + 0.5) * 0x1p-53));
        const double t2 = (double)(wb >> 11) * 0x1p-52 * 3.14159265358979323846;
        if (fabs(tpk_normal_f64(seed, 0, 2 * i) - r2 * cos(t2)) > 2e-14 ||
            fabs(tpk_normal_f64(seed, 0, 2 * i + 1) - r2 * sin(t2)) > 2e-14) {
            fail("normal_f64", (double)i, 0, 0, tpk_normal_f64(seed, 0, 2 * i), r2 * cos(t2));
        }
    }
    end();
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 0);
    }
    printf("kernel text against plain definitions (seed %llu)\n", (unsigned long long)seed);
    fma_and_sqrt();
    float_operations();
    special_operands();
    exact_powers();
    integer_operations();
    casts();
    reductions();
    random_numbers();
    return 0;
}
