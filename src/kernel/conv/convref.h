/* convref.h: contractions and convolutions as plain loops, for one element type (TPK_BITS).
 *
 * This is the definition that gemm.h, conv.h, convtaps.h and winograd.h are held against, bit by bit. A chain of fma
 * starts from +0 and takes its products in k order; it is closed after TPK_CHAIN of them, and closed
 * chains are added from left to right. The chain is a struct so that every loop nest below can
 * count in its own way. */
#if (TPK_BITS == 32 && !defined(TPK_CONVREF_32)) || (TPK_BITS == 64 && !defined(TPK_CONVREF_64))
#if TPK_BITS == 32
#define TPK_CONVREF_32
#else
#define TPK_CONVREF_64
#endif
#include "kernel/conv/convspec.h"

typedef struct {
    TPK_E total, chain;
    int64_t n;
} TPK_N(tpk_chain);

TPK_FN void TPK_N(tpk_chain_fma)(TPK_N(tpk_chain) * s, TPK_E a, TPK_E b)
{
    if (s->n > 0 && s->n % TPK_CHAIN == 0) {
        s->total = s->n == TPK_CHAIN ? s->chain : s->total + s->chain;
        s->chain = 0;
    }
    s->chain = TPK_N(tpk_fma)(a, b, s->chain);
    s->n++;
}

TPK_FN TPK_E TPK_N(tpk_chain_end)(const TPK_N(tpk_chain) * s)
{
    return s->n <= TPK_CHAIN ? s->chain : s->total + s->chain;
}

/* C[m][n] = A[m][k] B[k][n]. */
TPK_FN void TPK_N(tpk_gemm_ref)(int64_t m, int64_t n, int64_t k, const TPK_E *a, int64_t a_rs,
                                int64_t a_cs, const TPK_E *b, int64_t b_rs, int64_t b_cs,
                                TPK_E *c, int64_t c_rs, int64_t c_cs)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            TPK_N(tpk_chain) s = {0, 0, 0};
            for (int64_t kk = 0; kk < k; kk++) {
                TPK_N(tpk_chain_fma)(&s, a[i * a_rs + kk * a_cs], b[kk * b_rs + j * b_cs]);
            }
            c[i * c_rs + j * c_cs] = TPK_N(tpk_chain_end)(&s);
        }
    }
}

/* An element of a volume, +0 outside. */
TPK_FN TPK_E TPK_N(tpk_ref_at)(const TPK_E *x, const int64_t size[3], const int64_t *strides,
                               const int64_t at[3])
{
    int64_t where = 0;
    for (int i = 0; i < 3; i++) {
        if (at[i] < 0 || at[i] >= size[i]) {
            return 0;
        }
        where += at[i] * strides[i];
    }
    return x[where];
}

/* for each index[0..2] in a box, innermost last */
#define TPK_EACH3(index, size)                                                                 \
    for (int64_t index[3] = {0, 0, 0}; index[0] < (size)[0]; index[0]++)                       \
        for (index[1] = 0; index[1] < (size)[1]; index[1]++)                                   \
            for (index[2] = 0; index[2] < (size)[2]; index[2]++)

#if TPK_BITS == 32
/* B', G and A' of winograd.h, along the lines of a square, 4 by 4: `row` is the step within a line,
 * `column` from one line to the next. */
TPK_FN void tpk_ref_b(float *m, int64_t row, int64_t column)
{
    for (int64_t i = 0; i < 4; i++, m += column) {
        const float d[4] = {m[0], m[row], m[2 * row], m[3 * row]};
        m[0] = d[0] - d[2];
        m[row] = d[1] + d[2];
        m[2 * row] = d[2] - d[1];
        m[3 * row] = d[3] - d[1];
    }
}

TPK_FN void tpk_ref_g(double *g, int64_t row, int64_t column, int64_t columns)
{
    for (int64_t i = 0; i < columns; i++, g += column) {
        const double a = g[0], b = g[row], c = g[2 * row];
        g[row] = 0.5 * (a + c) + 0.5 * b;
        g[2 * row] = 0.5 * (a + c) - 0.5 * b;
        g[3 * row] = c;
    }
}

TPK_FN void tpk_ref_a(float *m, int64_t row, int64_t column, int64_t columns)
{
    for (int64_t i = 0; i < columns; i++, m += column) {
        const float d[4] = {m[0], m[row], m[2 * row], m[3 * row]};
        m[0] = d[0] + (d[1] + d[2]);
        m[row] = (d[1] - d[2]) + d[3];
    }
}

/* One tile of image x, by the filters from w on, of an output: 4 by 4, of which 2 by 2 are it. */
TPK_FN void tpk_ref_tile(const tpk_conv *c, const float *x, const float *w, int64_t row,
                         int64_t column, float y[16])
{
    tpk_chain_f32 sums[16] = {
        {0, 0, 0}
    };
    for (int64_t i = 0; i < c->ic; i++) {
        float v[16];
        double u[16] = {0};
        for (int64_t k = 0; k < 16; k++) {
            const int64_t at[3] = {0, row + k / 4 - c->pad[1], column + k % 4 - c->pad[2]};
            v[k] = tpk_ref_at_f32(x + i * c->xs[1], c->in, c->xs + 2, at);
        }
        for (int64_t k = 0; k < 9; k++) {
            u[k / 3 * 4 + k % 3] =
                (double)w[i * c->ws[1] + k / 3 * c->ws[3] + k % 3 * c->ws[4]];
        }
        tpk_ref_b(v, 4, 1);
        tpk_ref_b(v, 1, 4);
        tpk_ref_g(u, 4, 1, 3);
        tpk_ref_g(u, 1, 4, 4);
        for (int64_t k = 0; k < 16; k++) {
            tpk_chain_fma_f32(&sums[k], v[k], (float)u[k]);
        }
    }
    for (int64_t k = 0; k < 16; k++) {
        y[k] = tpk_chain_end_f32(&sums[k]);
    }
    tpk_ref_a(y, 4, 1, 4);
    tpk_ref_a(y, 1, 4, 2);
}

/* A convolution of 3 by 3, by tiles of 2 by 2 outputs. */
TPK_FN void tpk_tiled_ref(const tpk_conv *c, const float *x, const float *w, float *y)
{
    for (int64_t no = 0; no < c->batch * c->oc; no++) {
        const int64_t n = no / c->oc, o = no % c->oc;
        for (int64_t h = 0; h < c->out[1]; h += 2) {
            for (int64_t k = 0; k < c->out[2]; k += 2) {
                float tile[16];
                tpk_ref_tile(c, x + n * c->xs[0], w + o * c->ws[0], h, k, tile);
                float *const to = y + n * c->ys[0] + o * c->ys[1] + h * c->ys[3] + k * c->ys[4];
                for (int64_t e = 0; e < 4; e++) {
                    if (h + e / 2 < c->out[1] && k + e % 2 < c->out[2]) {
                        to[e / 2 * c->ys[3] + e % 2 * c->ys[4]] = tile[e / 2 * 4 + e % 2];
                    }
                }
            }
        }
    }
}
#endif

#if TPK_BITS == 32
/* ---- tap by tap: what lies outside is left out, and each tap is a sum by itself ----------------- */

/* Where tap k of window p lies in x; 0: outside. */
TPK_FN int TPK_N(tpk_ref_meets)(const tpk_conv *c, const int64_t p[3], const int64_t k[3],
                                int64_t at[3])
{
    int meets = 1;
    for (int i = 0; i < 3; i++) {
        at[i] = p[i] * c->stride[i] + k[i] * c->dil[i] - c->pad[i];
        meets = meets && at[i] >= 0 && at[i] < c->in[i];
    }
    return meets;
}

TPK_FN int64_t TPK_N(tpk_ref_dot)(const int64_t *strides, const int64_t at[3])
{
    return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2];
}

TPK_FN void TPK_N(tpk_apart_ref)(const tpk_conv *c, const TPK_E *x, const TPK_E *w, TPK_E *y)
{
    const int64_t icg = c->ic / c->groups, ocg = c->oc / c->groups;
    for (int64_t no = 0; no < c->batch * c->oc; no++) {
        const int64_t n = no / c->oc, o = no % c->oc;
        TPK_EACH3(p, c->out)
        {
            TPK_E total = 0;
            TPK_EACH3(k, c->ker)
            {
                TPK_N(tpk_chain) s = {0, 0, 0};
                int64_t at[3];
                if (!TPK_N(tpk_ref_meets)(c, p, k, at)) {
                    continue;
                }
                const TPK_E *const xk = x + n * c->xs[0] + o / ocg * icg * c->xs[1] +
                                        TPK_N(tpk_ref_dot)(c->xs + 2, at);
                const TPK_E *const wk = w + o * c->ws[0] + TPK_N(tpk_ref_dot)(c->ws + 2, k);
                for (int64_t i = 0; i < icg; i++) {
                    TPK_N(tpk_chain_fma)(&s, wk[i * c->ws[1]], xk[i * c->xs[1]]);
                }
                total += TPK_N(tpk_chain_end)(&s);
            }
            y[n * c->ys[0] + o * c->ys[1] + TPK_N(tpk_ref_dot)(c->ys + 2, p)] = total;
        }
    }
}

TPK_FN void TPK_N(tpk_apart_dx_ref)(const tpk_conv *c, const TPK_E *y, const TPK_E *w, TPK_E *x)
{
    const int64_t icg = c->ic / c->groups, ocg = c->oc / c->groups;
    for (int64_t ni = 0; ni < c->batch * c->ic; ni++) {
        const int64_t n = ni / c->ic, i = ni % c->ic, g = i / icg;
        TPK_EACH3(at, c->in)
        {
            TPK_E total = 0;
            TPK_EACH3(k, c->ker)
            {
                TPK_N(tpk_chain) s = {0, 0, 0};
                int64_t p[3], back[3], window = 1;
                for (int d = 0; d < 3; d++) {
                    p[d] = (at[d] + c->pad[d] - k[d] * c->dil[d]) / c->stride[d];
                    window = window && p[d] >= 0 && p[d] < c->out[d];
                }
                TPK_N(tpk_ref_meets)(c, p, k, back);
                if (!window || back[0] != at[0] || back[1] != at[1] || back[2] != at[2]) {
                    continue;
                }
                for (int64_t o = g * ocg; o < (g + 1) * ocg; o++) {
                    TPK_N(tpk_chain_fma)
                    (&s,
                     w[o * c->ws[0] + (i - g * icg) * c->ws[1] +
                       TPK_N(tpk_ref_dot)(c->ws + 2, k)],
                     y[n * c->ys[0] + o * c->ys[1] + TPK_N(tpk_ref_dot)(c->ys + 2, p)]);
                }
                total += TPK_N(tpk_chain_end)(&s);
            }
            x[n * c->xs[0] + i * c->xs[1] + TPK_N(tpk_ref_dot)(c->xs + 2, at)] = total;
        }
    }
}

TPK_FN void TPK_N(tpk_apart_dw_ref)(const tpk_conv *c, const TPK_E *x, const TPK_E *y, TPK_E *w)
{
    const int64_t icg = c->ic / c->groups, ocg = c->oc / c->groups;
    for (int64_t oi = 0; oi < c->oc * icg; oi++) {
        const int64_t o = oi / icg, channel = o / ocg * icg + oi % icg;
        TPK_EACH3(k, c->ker)
        {
            TPK_N(tpk_chain) s = {0, 0, 0};
            for (int64_t n = 0; n < c->batch; n++) {
                TPK_EACH3(p, c->out)
                {
                    int64_t at[3];
                    if (TPK_N(tpk_ref_meets)(c, p, k, at)) {
                        TPK_N(tpk_chain_fma)
                        (&s, y[n * c->ys[0] + o * c->ys[1] + TPK_N(tpk_ref_dot)(c->ys + 2, p)],
                         x[n * c->xs[0] + channel * c->xs[1] +
                           TPK_N(tpk_ref_dot)(c->xs + 2, at)]);
                    }
                }
            }
            w[o * c->ws[0] + oi % icg * c->ws[1] + TPK_N(tpk_ref_dot)(c->ws + 2, k)] =
                TPK_N(tpk_chain_end)(&s);
        }
    }
}

#endif

/* ---- all taps together -------------------------------------------------------------------------- */

/* y[n][o][p] = sum over (channel, tap) of w[o][channel][tap] * x[n][channel][p * stride + ...] */
TPK_FN void TPK_N(tpk_conv_ref)(const tpk_conv *spec, const TPK_E *x, const TPK_E *w, TPK_E *y)
{
    const tpk_conv c = tpk_conv_3d(spec);
    const int64_t icg = c.ic / c.groups, ocg = c.oc / c.groups;
#if TPK_BITS == 32
    if (tpk_conv_is_apart(&c)) {
        TPK_N(tpk_apart_ref)(&c, x, w, y);
        return;
    }
    if (tpk_conv_is_tiled(&c)) {
        tpk_tiled_ref(&c, x, w, y);
        return;
    }
#endif
    for (int64_t no = 0; no < c.batch * c.oc; no++) {
        const int64_t n = no / c.oc, o = no % c.oc, g = o / ocg;
        TPK_EACH3(p, c.out)
        {
            TPK_N(tpk_chain) s = {0, 0, 0};
            for (int64_t i = 0; i < icg; i++) {
                TPK_EACH3(k, c.ker)
                {
                    const int64_t at[3] = {p[0] * c.stride[0] + k[0] * c.dil[0] - c.pad[0],
                                           p[1] * c.stride[1] + k[1] * c.dil[1] - c.pad[1],
                                           p[2] * c.stride[2] + k[2] * c.dil[2] - c.pad[2]};
                    const TPK_E *const xc = x + n * c.xs[0] + (g * icg + i) * c.xs[1];
                    TPK_N(tpk_chain_fma)
                    (&s,
                     w[o * c.ws[0] + i * c.ws[1] + k[0] * c.ws[2] + k[1] * c.ws[3] +
                       k[2] * c.ws[4]],
                     TPK_N(tpk_ref_at)(xc, c.in, c.xs + 2, at));
                }
            }
            y[n * c.ys[0] + o * c.ys[1] + p[0] * c.ys[2] + p[1] * c.ys[3] + p[2] * c.ys[4]] =
                TPK_N(tpk_chain_end)(&s);
        }
    }
}

/* x[n][i][p] = sum over (o, tap) of w[o][i][tap] * y[n][o][(p + pad - tap * dil) / stride], the
 * taps being those for which that is a whole number. */
TPK_FN void TPK_N(tpk_conv_dx_ref)(const tpk_conv *spec, const TPK_E *y, const TPK_E *w,
                                   TPK_E *x)
{
    const tpk_conv c = tpk_conv_3d(spec);
    const int64_t icg = c.ic / c.groups, ocg = c.oc / c.groups;
#if TPK_BITS == 32
    if (tpk_conv_is_apart(&c)) {
        TPK_N(tpk_apart_dx_ref)(&c, y, w, x);
        return;
    }
    int64_t first;
    const tpk_conv mirror = tpk_conv_of_dx(spec, &first);
    if (tpk_conv_is_tiled(&mirror)) {
        tpk_tiled_ref(&mirror, y, w + first, x);
        return;
    }
#endif
    for (int64_t ni = 0; ni < c.batch * c.ic; ni++) {
        const int64_t n = ni / c.ic, i = ni % c.ic, g = i / icg;
        TPK_EACH3(p, c.in)
        {
            TPK_N(tpk_chain) s = {0, 0, 0};
            for (int64_t o = g * ocg; o < (g + 1) * ocg; o++) {
                TPK_EACH3(k, c.ker)
                {
                    int64_t at[3];
                    int meets = 1;
                    for (int d = 0; d < 3; d++) {
                        const int64_t from = p[d] + c.pad[d] - k[d] * c.dil[d];
                        meets = meets && from % c.stride[d] == 0;
                        at[d] = from / c.stride[d];
                    }
                    if (meets) {
                        TPK_N(tpk_chain_fma)
                        (&s,
                         w[o * c.ws[0] + (i - g * icg) * c.ws[1] + k[0] * c.ws[2] +
                           k[1] * c.ws[3] + k[2] * c.ws[4]],
                         TPK_N(tpk_ref_at)(y + n * c.ys[0] + o * c.ys[1], c.out, c.ys + 2, at));
                    }
                }
            }
            x[n * c.xs[0] + i * c.xs[1] + p[0] * c.xs[2] + p[1] * c.xs[3] + p[2] * c.xs[4]] =
                TPK_N(tpk_chain_end)(&s);
        }
    }
}

/* w[o][i][tap] = sum over (n, p) of y[n][o][p] * x[n][i][p * stride + tap * dil - pad] */
TPK_FN void TPK_N(tpk_conv_dw_ref)(const tpk_conv *spec, const TPK_E *x, const TPK_E *y,
                                   TPK_E *w)
{
    const tpk_conv c = tpk_conv_3d(spec);
    const int64_t icg = c.ic / c.groups, ocg = c.oc / c.groups;
#if TPK_BITS == 32
    if (tpk_conv_is_apart(&c)) {
        TPK_N(tpk_apart_dw_ref)(&c, x, y, w);
        return;
    }
#endif
    for (int64_t oi = 0; oi < c.oc * icg; oi++) {
        const int64_t o = oi / icg, i = oi % icg, channel = o / ocg * icg + i;
        TPK_EACH3(k, c.ker)
        {
            TPK_N(tpk_chain) s = {0, 0, 0};
            for (int64_t n = 0; n < c.batch; n++) {
                TPK_EACH3(p, c.out)
                {
                    const int64_t at[3] = {p[0] * c.stride[0] + k[0] * c.dil[0] - c.pad[0],
                                           p[1] * c.stride[1] + k[1] * c.dil[1] - c.pad[1],
                                           p[2] * c.stride[2] + k[2] * c.dil[2] - c.pad[2]};
                    TPK_N(tpk_chain_fma)
                    (&s,
                     y[n * c.ys[0] + o * c.ys[1] + p[0] * c.ys[2] + p[1] * c.ys[3] +
                       p[2] * c.ys[4]],
                     TPK_N(tpk_ref_at)(x + n * c.xs[0] + channel * c.xs[1], c.in, c.xs + 2,
                                       at));
                }
            }
            w[o * c.ws[0] + i * c.ws[1] + k[0] * c.ws[2] + k[1] * c.ws[3] + k[2] * c.ws[4]] =
                TPK_N(tpk_chain_end)(&s);
        }
    }
}
#endif
