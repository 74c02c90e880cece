/* One hash for each function of the kernel text, over many fixed operands. Every compiler, option
 * and machine must print what golden.txt says; run.sh compares. All NaNs hash as one value.
 *
 * The loops over floats go from array to array, so that an optimising compiler uses its vector
 * forms; those over integers hash as they go, which compiles faster. */
#include "kernel/text/philox.h"
#include "kernel/text/reduce.h"
#include "kernel/text/reduce_int.h"

#include <stdio.h>

#define TPK_BITS 32
#include "kernel/conv/convdw.h"
#include "kernel/conv/convref.h"
#include "kernel/conv/winograd.h"
#undef TPK_BITS
#define TPK_BITS 64
#include "kernel/conv/convdw.h"
#include "kernel/conv/convref.h"

enum { N = 6000 };

static tpk_f32 x_f32[N], y_f32[N], z_f32[N];
static tpk_f64 x_f64[N], y_f64[N], z_f64[N];
static tpk_i8 x_i8[N], y_i8[N], z_i8[N];
static tpk_i16 x_i16[N], y_i16[N], z_i16[N];
static tpk_i32 x_i32[N], y_i32[N], z_i32[N];
static tpk_i64 x_i64[N], y_i64[N], z_i64[N];
static tpk_u8 x_u8[N], y_u8[N], z_u8[N];
static tpk_u16 x_u16[N], y_u16[N], z_u16[N];
static tpk_u32 x_u32[N], y_u32[N], z_u32[N];
static tpk_u64 x_u64[N], y_u64[N], z_u64[N];
static tpk_bool x_bool[N], y_bool[N], z_bool[N];

static uint64_t hash;

static void start(void)
{
    hash = UINT64_C(0xcbf29ce484222325);
}

static void add(uint64_t v)
{
    hash = (hash ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
}

static void finish(const char *name)
{
    printf("%-26s %08x%08x\n", name, (unsigned)(hash >> 32), (unsigned)hash);
}

static void add_f32(tpk_f32 v)
{
    add(v != v ? 0x7fc00000u : tpk_bits_f32(v));
}

static void add_f64(tpk_f64 v)
{
    add(v != v ? UINT64_C(0x7ff8) << 48 : tpk_bits_f64(v));
}

#define add_i8(v) add((uint64_t)(v))
#define add_i16 add_i8
#define add_i32 add_i8
#define add_i64 add_i8
#define add_u8 add_i8
#define add_u16 add_i8
#define add_u32 add_i8
#define add_u64 add_i8
#define add_bool add_i8

/* Operands: special values in every pair, all bit patterns, then numbers of ordinary size. */
static void make_floats(void)
{
    static const tpk_f64 special[] = {
        0.0,     -0.0,           1.0,           -1.0,         0.5,          -2.5,
        3.0,     0x1p-149,       -0x1p-149,     0x1p-126,     0x1p-1074,    0x1p-1022,
        0x1p127, 0x1.fffffep127, 0x1p1023,      88.7,         -103.9,       709.7,
        -745.1,  0x1p22,         0x1.fffffep23, 0x1.921fb6p0, 1e22,         0x1.fffffp1023,
        0x1p30,  -0x1p52,        0x1.8p52,      TPK_INF_F64,  -TPK_INF_F64, TPK_NAN_F64};
    enum { S = sizeof special / sizeof *special };
    for (int i = 0; i < N; i++) {
        const uint64_t r = tpk_random_u64(1, 2, (uint64_t)i),
                       s = tpk_random_u64(1, 3, (uint64_t)i);
        tpk_f64 a = special[i % S], b = special[i / S % S];
        tpk_f32 c = (tpk_f32)a, d = (tpk_f32)b;
        if (i >= S * S && i % 2) {
            a = tpk_from_bits_f64(r), b = tpk_from_bits_f64(s);
            c = tpk_from_bits_f32((uint32_t)r), d = tpk_from_bits_f32((uint32_t)s);
        } else if (i >= S * S) {
            static const tpk_f64 scale[] = {0x1p-62, 0x1p-57, 0x1p-54, 0x1p-46};
            a = (tpk_f64)(int64_t)r * scale[i / 2 % 4], b = (tpk_f64)(int64_t)s * 0x1p-60;
            c = (tpk_f32)a, d = (tpk_f32)b;
        }
        x_f64[i] = a, y_f64[i] = b;
        x_f32[i] = c, y_f32[i] = d;
    }
}

#define MAKE_INT(t)                                                                            \
    x_##t[i] = (tpk_##t)(i % 3 ? r >> (i % 50) : r % 8 - 4);                                   \
    y_##t[i] = (tpk_##t)(i % 5 > 1 ? s >> (i % 47) : s % 8 - 4);
static void make_integers(void)
{
    for (int i = 0; i < N; i++) {
        const uint64_t r = tpk_random_u64(2, 2, (uint64_t)i),
                       s = tpk_random_u64(2, 3, (uint64_t)i);
        MAKE_INT(i8)
        MAKE_INT(i16)
        MAKE_INT(i32)
        MAKE_INT(i64)
        MAKE_INT(u8)
        MAKE_INT(u16)
        MAKE_INT(u32)
        MAKE_INT(u64)
        x_bool[i] = r & 1, y_bool[i] = s & 1;
    }
}

#define HASH(name, t)                                                                          \
    start();                                                                                   \
    for (int i = 0; i < N; i++) {                                                              \
        add_##t(z_##t[i]);                                                                     \
    }                                                                                          \
    finish(name);
#define UNARY(op, t)                                                                           \
    static __attribute__((noinline)) void unary_##op##_##t(void)                               \
    {                                                                                          \
        for (int i = 0; i < N; i++) {                                                          \
            z_##t[i] = tpk_##op##_##t(x_##t[i]);                                               \
        }                                                                                      \
        HASH(#op "_" #t, t)                                                                    \
    }
#define BINARY(op, t)                                                                          \
    static __attribute__((noinline)) void binary_##op##_##t(void)                              \
    {                                                                                          \
        for (int i = 0; i < N; i++) {                                                          \
            z_##t[i] = tpk_##op##_##t(x_##t[i], y_##t[i]);                                     \
        }                                                                                      \
        HASH(#op "_" #t, t)                                                                    \
    }
#define INT_UNARY(op, t)                                                                       \
    static __attribute__((noinline)) void unary_##op##_##t(void)                               \
    {                                                                                          \
        start();                                                                               \
        for (int i = 0; i < N; i++) {                                                          \
            add_##t(tpk_##op##_##t(x_##t[i]));                                                 \
        }                                                                                      \
        finish(#op "_" #t);                                                                    \
    }
#define INT_BINARY(op, t)                                                                      \
    static __attribute__((noinline)) void binary_##op##_##t(void)                              \
    {                                                                                          \
        start();                                                                               \
        for (int i = 0; i < N; i++) {                                                          \
            add_##t(tpk_##op##_##t(x_##t[i], y_##t[i]));                                       \
        }                                                                                      \
        finish(#op "_" #t);                                                                    \
    }
/* The six comparisons and where, as one hash. */
#define COMPARE(t)                                                                             \
    static __attribute__((noinline)) void compare_##t(void)                                    \
    {                                                                                          \
        start();                                                                               \
        for (int i = 0; i < N; i++) {                                                          \
            const tpk_##t a = x_##t[i], b = y_##t[i];                                          \
            add((uint64_t)tpk_eq_##t(a, b) | (uint64_t)tpk_ne_##t(a, b) << 1 |                 \
                (uint64_t)tpk_lt_##t(a, b) << 2 | (uint64_t)tpk_le_##t(a, b) << 3 |            \
                (uint64_t)tpk_gt_##t(a, b) << 4 | (uint64_t)tpk_ge_##t(a, b) << 5);            \
            add_##t(tpk_where_##t(x_bool[i], a, b));                                           \
        }                                                                                      \
        finish("compare_" #t);                                                                 \
    }
/* The casts to every type, as one hash. */
#define FLOAT_CAST(from, to)                                                                   \
    for (int i = 0; i < N; i++) {                                                              \
        z_##to[i] = tpk_cast_##from##_##to(x_##from[i]);                                       \
    }                                                                                          \
    for (int i = 0; i < N; i++) {                                                              \
        add_##to(z_##to[i]);                                                                   \
    }
#define INT_CAST(from, to) add_##to(tpk_cast_##from##_##to(x_##from[i]));
#define EACH_CAST(X, from)                                                                     \
    X(from, f32)                                                                               \
    X(from, f64)                                                                               \
    X(from, i8)                                                                                \
    X(from, i16)                                                                               \
    X(from, i32) X(from, i64) X(from, u8) X(from, u16) X(from, u32) X(from, u64) X(from, bool)
#define FLOAT_CASTS(from)                                                                      \
    static __attribute__((noinline)) void casts_##from(void)                                   \
    {                                                                                          \
        start();                                                                               \
        EACH_CAST(FLOAT_CAST, from)                                                            \
        finish("cast_" #from);                                                                 \
    }
#define INT_CASTS(from)                                                                        \
    static __attribute__((noinline)) void casts_##from(void)                                   \
    {                                                                                          \
        start();                                                                               \
        for (int i = 0; i < N; i++) {                                                          \
            EACH_CAST(INT_CAST, from)                                                          \
        }                                                                                      \
        finish("cast_" #from);                                                                 \
    }
#define EACH_FLOAT_UNARY(X, t)                                                                 \
    X(neg, t)                                                                                  \
    X(abs, t)                                                                                  \
    X(sign, t)                                                                                 \
    X(relu, t)                                                                                 \
    X(exp, t)                                                                                  \
    X(log, t)                                                                                  \
    X(exp2, t)                                                                                 \
    X(log2, t) X(log10, t) X(erfinv, t) X(expm1, t) X(log1p, t) X(sqrt, t) X(rsqrt, t)         \
        X(sin, t) X(cos, t) X(tanh, t) X(sigmoid, t) X(erf, t) X(floor, t) X(ceil, t)          \
            X(round, t) X(trunc, t)
#define EACH_FLOAT_BINARY(X, t)                                                                \
    X(add, t) X(sub, t) X(mul, t) X(div, t) X(pow, t) X(min, t) X(max, t) X(mod, t) X(fmod, t)
#define EACH_INT_UNARY(X, t) X(neg, t) X(abs, t) X(sign, t) X(relu, t) X(not, t)
#define EACH_INT_BINARY(X, t)                                                                  \
    X(add, t)                                                                                  \
    X(sub, t)                                                                                  \
    X(mul, t)                                                                                  \
    X(div, t)                                                                                  \
    X(pow, t)                                                                                  \
    X(min, t) X(max, t) X(mod, t) X(fmod, t) X(and, t) X(or, t) X(xor, t) X(shl, t) X(shr, t)
#define EACH_INT(X, e)                                                                         \
    e(X, i8) e(X, i16) e(X, i32) e(X, i64) e(X, u8) e(X, u16) e(X, u32) e(X, u64)
#define EACH_TYPE(X) X(f32) X(f64) X(i8) X(i16) X(i32) X(i64) X(u8) X(u16) X(u32) X(u64) X(bool)

EACH_FLOAT_UNARY(UNARY, f32)
EACH_FLOAT_UNARY(UNARY, f64)
EACH_FLOAT_BINARY(BINARY, f32)
EACH_FLOAT_BINARY(BINARY, f64)
EACH_INT(INT_UNARY, EACH_INT_UNARY)
EACH_INT(INT_BINARY, EACH_INT_BINARY)
EACH_TYPE(COMPARE)
FLOAT_CASTS(f32)
FLOAT_CASTS(f64)
INT_CASTS(i8)
INT_CASTS(i16)
INT_CASTS(i32)
INT_CASTS(i64)
INT_CASTS(u8)
INT_CASTS(u16)
INT_CASTS(u32)
INT_CASTS(u64)
INT_CASTS(bool)
INT_UNARY(not, bool)
INT_BINARY(and, bool)
INT_BINARY(or, bool)
INT_BINARY(xor, bool)

/* Rows of many lengths and columns, of numbers that round differently in every order. */
#define REDUCE(op, t)                                                                          \
    static __attribute__((noinline)) void reduce_##op##_##t(void)                              \
    {                                                                                          \
        start();                                                                               \
        for (int64_t n = 0; n <= N; n = n < 300 ? n + 7 : n + 1811) {                          \
            add_##t(tpk_reduce_##op##_##t(x_##t, n));                                          \
        }                                                                                      \
        add_##t(tpk_reduce_##op##_##t(x_##t, N));                                              \
        tpk_reduce_##op##_columns_##t(N, 1, x_##t, 1, z_##t);                                  \
        add_##t(z_##t[0]);                                                                     \
        tpk_reduce_##op##_columns_##t(30, 200, x_##t, 200, z_##t);                             \
        for (int i = 0; i < 200; i++) {                                                        \
            add_##t(z_##t[i]);                                                                 \
        }                                                                                      \
        finish("reduce_" #op "_" #t);                                                          \
    }
/* Integers have no order: one length will do. */
#define INT_REDUCE(op, t)                                                                      \
    static __attribute__((noinline)) void reduce_##op##_##t(void)                              \
    {                                                                                          \
        start();                                                                               \
        add_##t(tpk_reduce_##op##_##t(x_##t, N));                                              \
        finish("reduce_" #op "_" #t);                                                          \
    }
#define EACH_REDUCE(X, t) X(sum, t) X(prod, t) X(max, t) X(min, t)
EACH_REDUCE(REDUCE, f32)
EACH_REDUCE(REDUCE, f64)
EACH_INT(INT_REDUCE, EACH_REDUCE)

#define RANDOM(name, t)                                                                        \
    static __attribute__((noinline)) void fill_##name##_##t(void)                              \
    {                                                                                          \
        tpk_##name##_fill_##t(z_##t, N, 42, 7, 3);                                             \
        HASH(#name "_" #t, t)                                                                  \
    }
RANDOM(random, u32)
RANDOM(random, u64)
RANDOM(uniform, f32)
RANDOM(uniform, f64)
RANDOM(normal, f32)
RANDOM(normal, f64)

/* Contractions: blocked and plain must print the same; one is long enough to close a chain. */
static __attribute__((aligned(64))) unsigned char workspace[4 << 20];
static const int shape[][3] = {
    {1,  1,  1   },
    {3,  5,  7   },
    {17, 33, 65  },
    {40, 70, 50  },
    {1,  50, 90  },
    {60, 1,  100 },
    {2,  3,  4500},
    {14, 48, 31  }
};
#define GEMM(t)                                                                                \
    static __attribute__((noinline)) void gemm_##t(int plain)                                  \
    {                                                                                          \
        static tpk_##t a[9000], b[13500], c[2800];                                             \
        tpk_normal_fill_##t(a, 9000, 5, 0, 0);                                                 \
        tpk_normal_fill_##t(b, 13500, 5, 1, 0);                                                \
        start();                                                                               \
        for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {                            \
            const int m = shape[s][0], n = shape[s][1], k = shape[s][2];                       \
            if (plain) {                                                                       \
                tpk_gemm_ref_##t(m, n, k, a, k, 1, b, n, 1, c, n, 1);                          \
            } else if (tpk_gemm_ws_##t(m, n, k) <= sizeof workspace) {                         \
                tpk_gemm_##t(m, n, k, a, k, 1, b, n, 1, c, n, workspace);                      \
            }                                                                                  \
            for (int i = 0; i < m * n; i++) {                                                  \
                add_##t(c[i]);                                                                 \
            }                                                                                  \
        }                                                                                      \
        finish(plain ? "gemm_plain_" #t : "gemm_" #t);                                         \
    }
GEMM(f32)
GEMM(f64)

/* A convolution with stride, dilation, groups and padding, and its two gradients. */
/* clang-format off */
static const tpk_conv spec = {.nd = 2, .batch = 2, .groups = 2, .ic = 4, .oc = 6, .in = {13, 11},
                              .out = {8, 6}, .ker = {3, 3}, .stride = {2, 2}, .dil = {1, 1},
                              .pad = {2, 1}, .xs = {572, 143, 11, 1}, .ws = {18, 9, 3, 1},
                              .ys = {288, 48, 6, 1}};
/* clang-format on */
#define CONV(t)                                                                                \
    static __attribute__((noinline)) void conv_##t(int plain)                                  \
    {                                                                                          \
        enum { NX = 1144, NW = 108, NY = 576 };                                                \
        static tpk_##t x[NX], w[NW], y[NY], z[NX];                                             \
        tpk_normal_fill_##t(x, NX, 6, 0, 0);                                                   \
        tpk_normal_fill_##t(w, NW, 6, 1, 0);                                                   \
        tpk_normal_fill_##t(y, NY, 6, 2, 0);                                                   \
        start();                                                                               \
        for (int kind = 0; kind < 3; kind++) {                                                 \
            if (kind == 0) {                                                                   \
                plain ? tpk_conv_ref_##t(&spec, x, w, z)                                       \
                      : tpk_conv_##t(&spec, x, w, z, workspace);                               \
            } else if (kind == 1) {                                                            \
                plain ? tpk_conv_dx_ref_##t(&spec, y, w, z)                                    \
                      : tpk_conv_dx_##t(&spec, y, w, z, workspace);                            \
            } else {                                                                           \
                plain ? tpk_conv_dw_ref_##t(&spec, x, y, z)                                    \
                      : tpk_conv_dw_##t(&spec, x, y, z, workspace);                            \
            }                                                                                  \
            for (int i = 0; i < (kind == 0 ? NY : kind == 1 ? NX : NW); i++) {                 \
                add_##t(z[i]);                                                                 \
            }                                                                                  \
        }                                                                                      \
        finish(plain ? "conv_plain_" #t : "conv_" #t);                                         \
    }
CONV(f32)
CONV(f64)

/* The orders that f32 has of its own, of a convolution and the gradient of its input: tiles, and where most
 * taps meet padding tap by tap. */
enum { IC = 40, OC = 24, SIDE = 14, OTHER = 11, IMAGE = SIDE * OTHER };
/* clang-format off */
static const tpk_conv tiled = {.nd = 2, .batch = 2, .groups = 1, .ic = IC, .oc = OC, .in = {SIDE, OTHER},
                               .out = {SIDE, OTHER}, .ker = {3, 3}, .stride = {1, 1}, .dil = {1, 1},
                               .pad = {1, 1}, .xs = {IC * IMAGE, IMAGE, OTHER, 1}, .ws = {IC * 9, 9, 3, 1},
                               .ys = {OC * IMAGE, IMAGE, OTHER, 1}, .winograd = TPK_WINOGRAD};
/* clang-format on */
static __attribute__((noinline)) void conv_own(const char *name, const tpk_conv *c, int plain)
{
    enum { NX = 2 * IC * IMAGE, NW = OC * IC * 9, NY = 2 * OC * IMAGE };
    static tpk_f32 x[NX], w[NW], y[NY], z[NX];
    tpk_normal_fill_f32(x, NX, 8, 0, 0);
    tpk_normal_fill_f32(w, NW, 8, 1, 0);
    tpk_normal_fill_f32(y, NY, 8, 2, 0);
    start();
    plain ? tpk_conv_ref_f32(c, x, w, z) : tpk_wg_conv_f32(c, x, w, z, workspace);
    for (int i = 0; i < NY; i++) {
        add_f32(z[i]);
    }
    plain ? tpk_conv_dx_ref_f32(c, y, w, z) : tpk_wg_conv_dx_f32(c, y, w, z, workspace);
    for (int i = 0; i < NX; i++) {
        add_f32(z[i]);
    }
    finish(name);
}

static int conv_owns(void)
{
    tpk_conv apart = tiled;
    for (int i = 0; i < 2; i++) {
        apart.dil[i] = apart.pad[i] = 9;
    }
    const tpk_conv a = tpk_conv_3d(&tiled), b = tpk_conv_3d(&apart);
    if (!tpk_conv_is_tiled(&a) || !tpk_conv_is_apart(&b)) {
        return 0;
    }
    conv_own("winograd_f32", &tiled, 0);
    conv_own("winograd_plain_f32", &tiled, 1);
    conv_own("conv_apart_f32", &apart, 0);
    conv_own("conv_apart_plain_f32", &apart, 1);
    return 1;
}

#define RUN_UNARY(op, t) unary_##op##_##t();
#define RUN_BINARY(op, t) binary_##op##_##t();
#define RUN_REDUCE(op, t) reduce_##op##_##t();
#define RUN_COMPARE(t) compare_##t();
#define RUN_CASTS(t) casts_##t();

int main(void)
{
    make_floats();
    make_integers();
    EACH_FLOAT_UNARY(RUN_UNARY, f32)
    EACH_FLOAT_BINARY(RUN_BINARY, f32)
    EACH_FLOAT_UNARY(RUN_UNARY, f64)
    EACH_FLOAT_BINARY(RUN_BINARY, f64)
    EACH_INT(RUN_UNARY, EACH_INT_UNARY)
    EACH_INT(RUN_BINARY, EACH_INT_BINARY)
    EACH_TYPE(RUN_COMPARE)
    EACH_TYPE(RUN_CASTS)
    unary_not_bool();
    binary_and_bool();
    binary_or_bool();
    binary_xor_bool();
    fill_random_u32();
    fill_random_u64();
    fill_uniform_f32();
    fill_uniform_f64();
    fill_normal_f32();
    fill_normal_f64();
    gemm_f32(0);
    gemm_f32(1);
    gemm_f64(0);
    gemm_f64(1);
    conv_f32(0);
    conv_f32(1);
    conv_f64(0);
    conv_f64(1);
    if (!conv_owns()) {
        return 1;
    }
    /* Finite numbers of both signs from here on, so that sums tell orders apart. */
    for (int i = 0; i < N; i++) {
        x_f32[i] = tpk_normal_f32(9, 1, (uint64_t)i);
        x_f64[i] = tpk_normal_f64(9, 1, (uint64_t)i);
    }
    EACH_REDUCE(RUN_REDUCE, f32)
    EACH_REDUCE(RUN_REDUCE, f64)
    EACH_INT(RUN_REDUCE, EACH_REDUCE)
    return 0;
}
