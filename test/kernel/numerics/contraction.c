/* Contractions and convolutions against plain definitions, with the C library's fma. For each
 * output the two factors of every step are listed in the k order of docs/numerics.md, and the
 * list is folded. Padding is multiplied: here a padded copy of the image is what is read.
 *
 *     contraction [SEED]       exits 1 at the first wrong element
 */
#include "kernel/text/philox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TPK_BITS 32
#include "kernel/conv/convdw.h"
#include "kernel/conv/convref.h"
#undef TPK_BITS
#define TPK_BITS 64
#include "kernel/conv/convdw.h"
#include "kernel/conv/convref.h"

static uint64_t seed = 1, draws;

static int64_t any(int64_t low, int64_t high)
{
    return low + (int64_t)(tpk_random_u64(seed, 0, draws++) % (uint64_t)(high - low + 1));
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

/* One two-dimensional convolution, dense and row-major. */
static tpk_conv any_conv(void)
{
    tpk_conv c = {.nd = 2, .batch = any(1, 2), .groups = any(1, 2)};
    c.ic = c.groups * any(1, 3);
    c.oc = c.groups * any(1, 9);
    for (int d = 0; d < 2; d++) {
        c.in[d] = any(1, 12);
        c.ker[d] = any(1, 3);
        c.stride[d] = any(1, 2);
        c.dil[d] = any(1, 2);
        c.pad[d] = any(0, 2);
        const int64_t high = any(0, 2), span = (c.ker[d] - 1) * c.dil[d] + 1;
        const int64_t size = c.in[d] + c.pad[d] + high;
        c.pad[d] += size < span ? span - size : 0;
        c.out[d] = ((size < span ? span : size) - span) / c.stride[d] + 1;
    }
    const int64_t x[4] = {c.batch, c.ic, c.in[0], c.in[1]};
    const int64_t w[4] = {c.oc, c.ic / c.groups, c.ker[0], c.ker[1]};
    const int64_t y[4] = {c.batch, c.oc, c.out[0], c.out[1]};
    c.xs[3] = c.ws[3] = c.ys[3] = 1;
    for (int d = 2; d >= 0; d--) {
        c.xs[d] = c.xs[d + 1] * x[d + 1];
        c.ws[d] = c.ws[d + 1] * w[d + 1];
        c.ys[d] = c.ys[d + 1] * y[d + 1];
    }
    return c;
}

static void print_conv(const tpk_conv *c)
{
    printf("  batch %d groups %d ic %d oc %d", (int)c->batch, (int)c->groups, (int)c->ic,
           (int)c->oc);
    for (int d = 0; d < 2; d++) {
        printf("; in %d out %d kernel %d stride %d dilation %d pad %d", (int)c->in[d],
               (int)c->out[d], (int)c->ker[d], (int)c->stride[d], (int)c->dil[d],
               (int)c->pad[d]);
    }
    printf("\n");
}

#define CONTRACTION(t, T, fma_of)                                                              \
    static T list_a_##t[20000], list_b_##t[20000];                                             \
    static int64_t list_n_##t;                                                                 \
    static void step_##t(T a, T b)                                                             \
    {                                                                                          \
        list_a_##t[list_n_##t] = a;                                                            \
        list_b_##t[list_n_##t++] = b;                                                          \
    }                                                                                          \
    static T fold_##t(void)                                                                    \
    {                                                                                          \
        T total = 0;                                                                           \
        for (int64_t at = 0; at < list_n_##t; at += 64) {                                      \
            T chain = 0;                                                                       \
            for (int64_t k = at; k < list_n_##t && k < at + 64; k++) {                         \
                chain = fma_of(list_a_##t[k], list_b_##t[k], chain);                           \
            }                                                                                  \
            total = at == 0 ? chain : total + chain;                                           \
        }                                                                                      \
        list_n_##t = 0;                                                                        \
        return total;                                                                          \
    }                                                                                          \
    static void same_##t(const char *what, int64_t i, T got, T want)                           \
    {                                                                                          \
        if (memcmp(&got, &want, sizeof got) && (got == got || want == want)) {                 \
            printf("FAILED: %s_" #t "[%d] is %a, expected %a; again: contraction %llu\n",      \
                   what, (int)i, (double)got, (double)want, (unsigned long long)seed);         \
            exit(1);                                                                           \
        }                                                                                      \
    }                                                                                          \
    static void gemm_##t(int64_t m, int64_t n, int64_t k)                                      \
    {                                                                                          \
        T *a = room((size_t)(m * k) * sizeof(T)), *b = room((size_t)(k * n) * sizeof(T));      \
        T *c = room((size_t)(m * n) * sizeof(T)), *d = room((size_t)(m * n) * sizeof(T));      \
        void *ws = room(tpk_gemm_ws_##t(m, n, k));                                             \
        tpk_normal_fill_##t(a, m *k, seed, 1, draws++);                                        \
        tpk_normal_fill_##t(b, k *n, seed, 2, draws++);                                        \
        tpk_gemm_##t(m, n, k, a, k, 1, b, n, 1, c, n, ws);                                     \
        tpk_gemm_ref_##t(m, n, k, a, k, 1, b, n, 1, d, n, 1);                                  \
        for (int64_t i = 0; i < m * n; i++) {                                                  \
            for (int64_t l = 0; l < k; l++) {                                                  \
                step_##t(a[i / n * k + l], b[l * n + i % n]);                                  \
            }                                                                                  \
            const T want = fold_##t();                                                         \
            same_##t("gemm", i, c[i], want);                                                   \
            same_##t("gemm_ref", i, d[i], want);                                               \
        }                                                                                      \
        free(a), free(b), free(c), free(d), free(ws);                                          \
    }                                                                                          \
    static void conv_##t(const tpk_conv *c)                                                    \
    {                                                                                          \
        const int64_t nx = c->batch * c->xs[0], nw = c->oc * c->ws[0];                         \
        const int64_t ny = c->batch * c->ys[0], icg = c->ic / c->groups;                       \
        const int64_t ocg = c->oc / c->groups;                                                 \
        /* the image with its padding, and enough of it for every tap */                       \
        const int64_t h = c->in[0] + c->pad[0] + 8, v = c->in[1] + c->pad[1] + 8;              \
        T *x = room((size_t)nx * sizeof(T)), *w = room((size_t)nw * sizeof(T));                \
        T *y = room((size_t)ny * sizeof(T)), *out = room((size_t)(nx + nw + ny) * sizeof(T));  \
        T *ref = room((size_t)(nx + nw + ny) * sizeof(T));                                     \
        T *padded = room((size_t)(c->batch * c->ic * h * v) * sizeof(T));                      \
        void *ws = room(tpk_conv_ws_##t(c) + tpk_conv_dx_ws_##t(c) + tpk_conv_dw_ws_##t(c));   \
        tpk_normal_fill_##t(x, nx, seed, 3, draws++);                                          \
        tpk_normal_fill_##t(w, nw, seed, 4, draws++);                                          \
        tpk_normal_fill_##t(y, ny, seed, 5, draws++);                                          \
        w[any(0, nw - 1)] = any(0, 3) ? 0 : INFINITY;                                          \
        for (int64_t i = 0; i < c->batch * c->ic * h * v; i++) {                               \
            const int64_t r = i / v % h - c->pad[0], s = i % v - c->pad[1], n = i / v / h;     \
            const int inside = r >= 0 && r < c->in[0] && s >= 0 && s < c->in[1];               \
            padded[i] = inside ? x[n * c->xs[1] + r * c->xs[2] + s] : 0;                       \
        }                                                                                      \
        tpk_conv_##t(c, x, w, out, ws);                                                        \
        tpk_conv_ref_##t(c, x, w, ref);                                                        \
        for (int64_t i = 0; i < ny; i++) {                                                     \
            const int64_t n = i / c->ys[0], o = i / c->ys[1] % c->oc;                          \
            const int64_t r = i / c->ys[2] % c->out[0], s = i % c->out[1];                     \
            for (int64_t j = 0; j < c->ws[0]; j++) { /* channel and tap of w[o] */             \
                const int64_t ch = n * c->ic + o / ocg * icg + j / c->ws[1];                   \
                const int64_t p = r * c->stride[0] + j / c->ws[2] % c->ker[0] * c->dil[0];     \
                const int64_t q = s * c->stride[1] + j % c->ker[1] * c->dil[1];                \
                step_##t(w[o * c->ws[0] + j], padded[(ch * h + p) * v + q]);                   \
            }                                                                                  \
            const T want = fold_##t();                                                         \
            same_##t("conv", i, out[i], want);                                                 \
            same_##t("conv_ref", i, ref[i], want);                                             \
        }                                                                                      \
        tpk_conv_dx_##t(c, y, w, out, ws);                                                     \
        tpk_conv_dx_ref_##t(c, y, w, ref);                                                     \
        for (int64_t i = 0; i < nx; i++) {                                                     \
            const int64_t n = i / c->xs[0], ch = i / c->xs[1] % c->ic;                         \
            const int64_t r = i / c->xs[2] % c->in[0], s = i % c->in[1];                       \
            for (int64_t j = 0; j < ocg * c->ws[1]; j++) { /* output channel and tap */        \
                const int64_t o = ch / icg * ocg + j / c->ws[1];                               \
                const int64_t kh = j / c->ws[2] % c->ker[0], kw = j % c->ker[1];               \
                const int64_t p = r + c->pad[0] - kh * c->dil[0];                              \
                const int64_t q = s + c->pad[1] - kw * c->dil[1];                              \
                if (p % c->stride[0] || q % c->stride[1]) {                                    \
                    continue;                                                                  \
                }                                                                              \
                const int64_t e = p / c->stride[0], f = q / c->stride[1];                      \
                const int inside = e >= 0 && e < c->out[0] && f >= 0 && f < c->out[1];         \
                step_##t(w[o * c->ws[0] + ch % icg * c->ws[1] + kh * c->ws[2] + kw],           \
                         inside ? y[n * c->ys[0] + o * c->ys[1] + e * c->ys[2] + f] : 0);      \
            }                                                                                  \
            const T want = fold_##t();                                                         \
            same_##t("conv_dx", i, out[i], want);                                              \
            same_##t("conv_dx_ref", i, ref[i], want);                                          \
        }                                                                                      \
        tpk_conv_dw_##t(c, x, y, out, ws);                                                     \
        tpk_conv_dw_ref_##t(c, x, y, ref);                                                     \
        for (int64_t i = 0; i < nw; i++) {                                                     \
            const int64_t o = i / c->ws[0], kh = i / c->ws[2] % c->ker[0], kw = i % c->ker[1]; \
            for (int64_t j = 0; j < c->batch * c->ys[1]; j++) { /* image and position */       \
                const int64_t n = j / c->ys[1];                                                \
                const int64_t ch = n * c->ic + o / ocg * icg + i / c->ws[1] % icg;             \
                const int64_t p = j / c->ys[2] % c->out[0] * c->stride[0] + kh * c->dil[0];    \
                const int64_t q = j % c->out[1] * c->stride[1] + kw * c->dil[1];               \
                step_##t(y[n * c->ys[0] + o * c->ys[1] + j % c->ys[1]],                        \
                         padded[(ch * h + p) * v + q]);                                        \
            }                                                                                  \
            const T want = fold_##t();                                                         \
            same_##t("conv_dw", i, out[i], want);                                              \
            same_##t("conv_dw_ref", i, ref[i], want);                                          \
        }                                                                                      \
        free(x), free(w), free(y), free(out), free(ref), free(padded), free(ws);               \
    }
CONTRACTION(f32, float, fmaf)
CONTRACTION(f64, double, fma)

int main(int argc, char **argv)
{
    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 0);
    }
    static const int64_t shapes[][3] = {
        {1,  1,  0   },
        {1,  1,  1   },
        {3,  4,  5   },
        {17, 70, 33  },
        {64, 48, 300 },
        {2,  40, 4096},
        {3,  5,  4097},
        {5,  3,  9000},
        {30, 2,  8192}
    };
    printf("contractions against plain definitions (seed %llu)\n", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        gemm_f32(shapes[i][0], shapes[i][1], shapes[i][2]);
        gemm_f64(shapes[i][0], shapes[i][1], shapes[i][2]);
    }
    printf("  gemm                         ok\n");
    for (int i = 0; i < 150; i++) {
        const tpk_conv c = any_conv();
        if (argc > 2) {
            print_conv(&c);
        }
        conv_f32(&c);
        conv_f64(&c);
    }
    printf("  conv, conv_dx, conv_dw       ok\n");
    return 0;
}
