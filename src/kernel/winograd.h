/* winograd.h: convolutions of 3 by 3, of stride 1, by Winograd's minimal filtering, for one element
 * type (TPK_BITS). Only where fast numerics are asked for (tpk_conv.fast): what it gives is
 * rounded otherwise than docs/numerics.md says for a convolution. Its own bits depend on the sizes
 * alone: not on threads, nor on the width of vectors.
 *
 * A tile of r by r outputs (r is 4 or 2) needs p by p inputs, p = r + 2. Tile d and filter g are
 * turned into p * p points each, B'dB and GgG', which are multiplied point by point; summed over
 * the channels, A'mA are the outputs: p * p products where a convolution takes 9 * r * r. For each
 * point that is a product of matrices, tiles by channels times channels by outputs. For
 * r = 4 the lines are evaluated at 0, 5/8, -5/8, 3/2, -3/2 and infinity, whose numbers are exact
 * and whose errors are half of those of 0, 1, -1, 2, -2; for r = 2 at 0, 1, -1 and infinity.
 *
 * Vectors are neighbouring tiles on the way in and neighbouring output channels on the way out. A
 * block of tiles (some whole rows of them, or a part of one) is done at a time, so that its points
 * stay in the second cache:
 *   planes  one channel of the block, by row modulo r and by column of the tile: [r][p][rows + 1][n]
 *   points  [p * p][channels][tiles], what is multiplied
 *   sums    [p * p][tiles][outputs], of TPK_WG_OC output channels at a time
 *   pixels  of a row of tiles and a vector of output channels: [r][n * r][VL], then turned.
 * The filters' points are packed [block of TPK_WG_OC outputs][p * p]
 * [vector of outputs][channel][VL]. */
#include "conv.h"
#if TPK_BITS == 32 && !defined(TPK_WINOGRAD_32)
#define TPK_WINOGRAD_32

#define TPK_WG_OC 64
#define TPK_WG_TILES 56         /* of a block, at most */
#define TPK_WG_POINTS (1 << 20) /* and bytes of their points */

typedef struct {
    tpk_conv c;
    int64_t r, p, points;
    int64_t rows, across; /* tiles down and across an image */
    int64_t n, n_rows;    /* a block: tiles of a row, rows of tiles */
    int64_t plane, pitch; /* elements of a plane; from one channel's points to the next's */
    int64_t vs, ms;       /* from a point to the next, in points and in sums */
    int64_t at_u, at_planes, at_points, at_sums, at_pixels, size; /* bytes */
} TPK_N(tpk_wg);

/* ---- choice -------------------------------------------------------------------------------- */

TPK_COLD int TPK_N(tpk_wg_takes)(const tpk_conv *c)
{
    return c->groups == 1 && c->in[0] == 1 && c->out[0] == 1 && c->ker[0] == 1 &&
           c->pad[0] == 0 && c->ker[1] == 3 && c->ker[2] == 3 && c->stride[1] == 1 &&
           c->stride[2] == 1 && c->dil[1] == 1 && c->dil[2] == 1 && c->xs[4] == 1 &&
           c->ys[4] == 1 && c->ic > 0;
}

/* In multiply-adds: of the products (outputs cost a few steps of k more, filters that few tiles
 * use come from far), of a tile's ways in and out, and of filters that are not packed. */
TPK_COLD double TPK_N(tpk_wg_cost)(const tpk_conv *c, int64_t r)
{
    const double tiles =
        (double)c->batch * (double)tpk_i_ceil(c->out[1], r) * (double)tpk_i_ceil(c->out[2], r);
    const double points = (double)((r + 2) * (r + 2)), ic = (double)c->ic, oc = (double)c->oc;
    const double filters = c->fast == TPK_FAST ? 70 * points : 0;
    return points * (tiles < 16 ? 16 : tiles) * (ic + 8) * oc +
           tiles * (r == 4 ? 360 * ic + 230 * oc : 160 * ic + 90 * oc) + filters * ic * oc;
}

/* The size of its tiles, 0 where another way is better. */
TPK_COLD int64_t TPK_N(tpk_wg_choose)(const tpk_conv *c)
{
    if (!c->fast || tpk_conv_empty(c) || !TPK_N(tpk_wg_takes)(c)) {
        return 0;
    }
    if (c->way) {
        return c->way == TPK_WAY_TILES_4 ? 4 : c->way == TPK_WAY_TILES_2 ? 2 : 0;
    }
    const double four = TPK_N(tpk_wg_cost)(c, 4), two = TPK_N(tpk_wg_cost)(c, 2);
    const double direct = 9.0 * (double)c->batch * (double)(c->out[1] * c->out[2]) *
                          (double)c->ic * (double)c->oc;
    return 0.9 * direct <= (four < two ? four : two) ? 0 : four < two ? 4 : 2;
}

/* ---- sizes --------------------------------------------------------------------------------- */

/* Elements of the packed points of a block of outputs that begins at output o. */
TPK_FN int64_t TPK_N(tpk_wg_block)(const TPK_N(tpk_wg) * v, int64_t o)
{
    const int64_t n = tpk_i_min(TPK_WG_OC, v->c.oc - o);
    return v->points * tpk_i_ceil(n, TPK_VL) * TPK_VL * v->c.ic;
}

TPK_COLD int64_t TPK_N(tpk_wg_packed_size)(const TPK_N(tpk_wg) * v)
{
    const int64_t whole = v->c.oc / TPK_WG_OC * TPK_WG_OC;
    return (whole / TPK_WG_OC * TPK_N(tpk_wg_block)(v, 0) + TPK_N(tpk_wg_block)(v, whole)) *
           (int64_t)sizeof(TPK_E);
}

/* Lines that follow each other at a power of two would meet in a few sets of the cache. */
TPK_FN int64_t TPK_N(tpk_wg_odd)(int64_t n)
{
    return (tpk_i_ceil(n, 16) | 1) * 16;
}

TPK_COLD TPK_N(tpk_wg) TPK_N(tpk_wg_make)(const tpk_conv *c, int64_t r)
{
    const int64_t e = (int64_t)sizeof(TPK_E);
    TPK_N(tpk_wg)
    v = {.c = *c, .r = r, .p = r + 2, .points = (r + 2) * (r + 2)};
    v.rows = tpk_i_ceil(c->out[1], r);
    v.across = tpk_i_ceil(c->out[2], r);
    int64_t most = TPK_WG_POINTS / (v.points * c->ic * e);
    most = most < TPK_VL ? TPK_VL : tpk_i_min(most, TPK_WG_TILES);
    v.n = tpk_i_ceil(v.across, tpk_i_ceil(v.across, most));
    v.n_rows = v.n < v.across ? 1 : most / v.n;
    v.n_rows = tpk_i_ceil(c->batch * v.rows, tpk_i_ceil(c->batch * v.rows, v.n_rows));
    const int64_t tiles = v.n_rows * v.n;
    v.plane = tpk_i_ceil((v.n_rows + 1) * v.n + TPK_VL, 16) * 16;
    v.pitch = tpk_i_ceil(tiles + TPK_VL, 16) * 16;
    v.vs = TPK_N(tpk_wg_odd)(v.pitch * c->ic);
    v.ms = TPK_N(tpk_wg_odd)((tiles + 3) / 4 * 4 * TPK_WG_OC);
    v.at_u = 0;
    v.at_planes = c->fast == TPK_FAST_PACKED ? 0 : TPK_N(tpk_wg_packed_size)(&v);
    v.at_points = v.at_planes + v.r * v.p * v.plane * e;
    v.at_sums = v.at_points + v.points * v.vs * e;
    v.at_pixels = v.at_sums + v.points * v.ms * e;
    v.size = v.at_pixels + v.r * v.r * v.n * TPK_VL * e;
    return v;
}

/* ---- filters ------------------------------------------------------------------------------- */

/* G of a line, in f64: rounded once, when all is done. */
TPK_IN void TPK_N(tpk_wg_filter)(int64_t r, const double *g, int64_t step, double *u,
                                 int64_t u_step)
{
    const double g0 = g[0], g1 = g[step], g2 = g[2 * step];
    u[0] = g0;
    u[(r + 1) * u_step] = g2;
    if (r == 2) {
        u[u_step] = 0.5 * (g0 + g2) + 0.5 * g1;
        u[2 * u_step] = 0.5 * (g0 + g2) - 0.5 * g1;
        return;
    }
    const double a = 0.625, b = 1.5, aa = a * a, bb = b * b;
    const double of_a = 1 / (2 * aa * (aa - bb)), of_b = 1 / (2 * bb * (bb - aa));
    u[0] *= 1 / (aa * bb);
    u[u_step] = of_a * ((g0 + aa * g2) + a * g1);
    u[2 * u_step] = of_a * ((g0 + aa * g2) - a * g1);
    u[3 * u_step] = of_b * ((g0 + bb * g2) + b * g1);
    u[4 * u_step] = of_b * ((g0 + bb * g2) - b * g1);
}

/* One input channel of a panel of n outputs: to[i * step] for point i. */
TPK_OUT void TPK_N(tpk_wg_filters)(const TPK_N(tpk_wg) * v, int64_t n, const TPK_E *w,
                                   TPK_E *to, int64_t step)
{
    double g[9][TPK_VL], h[18][TPK_VL], u[36][TPK_VL];
    for (int64_t i = 0; i < 9; i++) {
        const TPK_E *const from = w + i / 3 * v->c.ws[3] + i % 3 * v->c.ws[4];
        for (int64_t o = 0; o < TPK_VL; o++) {
            g[i][o] = o < n ? (double)from[o * v->c.ws[0]] : 0;
        }
    }
    for (int64_t j = 0; j < 3; j++) {
        for (int64_t o = 0; o < TPK_VL; o++) {
            TPK_N(tpk_wg_filter)(v->r, &g[j][o], 3 * TPK_VL, &h[j][o], 3 * TPK_VL);
        }
    }
    for (int64_t i = 0; i < v->p; i++) {
        for (int64_t o = 0; o < TPK_VL; o++) {
            TPK_N(tpk_wg_filter)(v->r, &h[3 * i][o], TPK_VL, &u[v->p * i][o], TPK_VL);
        }
    }
    for (int64_t i = 0; i < v->points; i++) {
        for (int64_t o = 0; o < TPK_VL; o++) {
            to[i * step + o] = (TPK_E)u[i][o];
        }
    }
}

TPK_COLD void TPK_N(tpk_wg_pack)(const TPK_N(tpk_wg) * v, const TPK_E *w, TPK_E *u)
{
    for (int64_t o = 0; o < v->c.oc; o += TPK_WG_OC) {
        const int64_t end = tpk_i_min(o + TPK_WG_OC, v->c.oc);
        const int64_t step = TPK_N(tpk_wg_block)(v, o) / v->points;
        for (int64_t j = o; j < end; j += TPK_VL) {
            for (int64_t i = 0; i < v->c.ic; i++) {
                TPK_N(tpk_wg_filters)
                (v, tpk_i_min(TPK_VL, end - j), w + j * v->c.ws[0] + i * v->c.ws[1],
                 u + (j - o) * v->c.ic + i * TPK_VL, step);
            }
        }
        u += v->points * step;
    }
}

/* ---- products ------------------------------------------------------------------------------ */

/* Tiles by one vector of outputs: c[i] = sum over k of a[k][i] * b[k], by chains as in gemm.h. Filters come
 * from far where tiles are few, so each is read once, at an even pace, for as many tiles as registers hold. */
#define TPK_WG_ZERO(i) TPK_V c##i = {0};
#define TPK_WG_STEP(i)                                                                         \
    {                                                                                          \
        const TPK_E e = a[i];                                                                  \
        c##i = TPK_FMA(TPK_SPLAT(e), x, c##i);                                                 \
    }
#define TPK_WG_DONE(i)                                                                         \
    {                                                                                          \
        if (more) {                                                                            \
            c##i = TPK_LOAD(c + (i)*TPK_WG_OC) + c##i;                                         \
        }                                                                                      \
        TPK_STORE(c + (i)*TPK_WG_OC, c##i);                                                    \
    }
#define TPK_WG_4(X) X(0) X(1) X(2) X(3)
#define TPK_WG_8(X) TPK_WG_4(X) X(4) X(5) X(6) X(7)
#define TPK_WG_12(X) TPK_WG_8(X) X(8) X(9) X(10) X(11)
#define TPK_WG_16(X) TPK_WG_12(X) X(12) X(13) X(14) X(15)
#define TPK_WG_20(X) TPK_WG_16(X) X(16) X(17) X(18) X(19)
#define TPK_WG_24(X) TPK_WG_20(X) X(20) X(21) X(22) X(23)
#define TPK_WG_28(X) TPK_WG_24(X) X(24) X(25) X(26) X(27)
#if TPK_MR >= 14
#define TPK_WG_TALL 28
#define TPK_EACH_TALL(X) X(4) X(8) X(12) X(16) X(20) X(24) X(28)
#elif TPK_MR == 6
#define TPK_WG_TALL 12
#define TPK_EACH_TALL(X) X(4) X(8) X(12)
#else
#define TPK_WG_TALL 8
#define TPK_EACH_TALL(X) X(4) X(8)
#endif
#define TPK_WG_TILE(rows)                                                                      \
    TPK_OUT void TPK_N(tpk_wg_tile##rows)(int64_t k, const TPK_E *a, int64_t pitch,            \
                                          const TPK_E *b, TPK_E *c)                            \
    {                                                                                          \
        for (int more = 0; k > 0; k -= TPK_CHAIN, more = 1) {                                  \
            const TPK_E *const end = b + tpk_i_min(k, TPK_CHAIN) * TPK_VL;                     \
            TPK_WG_##rows(TPK_WG_ZERO) for (; b < end; a += pitch, b += TPK_VL)                \
            {                                                                                  \
                const TPK_V x = TPK_LOAD(b);                                                   \
                __builtin_prefetch(b + TPK_AHEAD * TPK_VL);                                    \
                TPK_WG_##rows(TPK_WG_STEP)                                                     \
            }                                                                                  \
            TPK_WG_##rows(TPK_WG_DONE)                                                         \
        }                                                                                      \
    }
TPK_EACH_TALL(TPK_WG_TILE)

/* One point: `tiles` by `n` outputs. */
TPK_OUT void TPK_N(tpk_wg_multiply)(int64_t tiles, int64_t n, int64_t k, const TPK_E *a,
                                    int64_t pitch, const TPK_E *b, TPK_E *c)
{
    const int64_t each = tpk_i_ceil(tpk_i_ceil(tiles, tpk_i_ceil(tiles, TPK_WG_TALL)), 4) * 4;
    for (int64_t j = 0; j < n; j += TPK_VL, b += k * TPK_VL) {
        for (int64_t i = 0; i < tiles; i += each) {
            switch (tpk_i_ceil(tpk_i_min(each, tiles - i), 4) * 4) {
#define TPK_CASE(rows)                                                                         \
    case rows:                                                                                 \
        TPK_N(tpk_wg_tile##rows)(k, a + i, pitch, b, c + i * TPK_WG_OC + j);                   \
        break;
                TPK_EACH_TALL(TPK_CASE)
#undef TPK_CASE
            default:
                break;
            }
        }
    }
}

/* Counts to a constant, with no loop left. */
#define TPK_WG_FOR(i, n) _Pragma("GCC unroll 6") for (int64_t i = 0; i < (n); i++)

/* ---- the way in ---------------------------------------------------------------------------- */

#define TPK_WG_PLANES(P, R)                                                                    \
    TPK_OUT void TPK_N(tpk_wg_planes##P)(const TPK_N(tpk_wg) * v, const TPK_E *src,            \
                                         int64_t y0, int64_t rows, int64_t x0, int64_t n,      \
                                         TPK_E *planes)                                        \
    {                                                                                          \
        for (int64_t t = 0; t < n; t += TPK_VL) {                                              \
            const TPK_M put = TPK_MASK(n - t);                                                 \
            TPK_M get[2 * R];                                                                  \
            for (int64_t q = 0; q < 2 * R; q++) {                                              \
                const int64_t x = x0 + (t + q / R) * R + q % R * TPK_VL;                       \
                const int64_t from = x < 0 ? tpk_i_min(-x, TPK_VL) : 0;                        \
                const int64_t left = tpk_i_min(v->c.in[2] - x, TPK_VL);                        \
                get[q] = TPK_SPAN(from, left < from ? from : left);                            \
            }                                                                                  \
            for (int64_t i = 0; i < R; i++) {                                                  \
                TPK_E *to = planes + i * P * v->plane + t;                                     \
                for (int64_t y = i; y < R * rows + 2; y += R, to += n) {                       \
                    const int64_t line = y0 + y;                                               \
                    TPK_V d[P] = {{0}};                                                        \
                    if (line >= 0 && line < v->c.in[1]) {                                      \
                        TPK_N(tpk_wg_part##R)(src + line * v->c.xs[3] + x0 + t * R, get, d);   \
                    }                                                                          \
                    TPK_WG_FOR(q, P)                                                           \
                    {                                                                          \
                        TPK_STOREM(to + q * v->plane, d[q], put);                              \
                    }                                                                          \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
    }

/* A line's columns by their remainder: d[q] has columns q, q + r, ... */
TPK_IN void TPK_N(tpk_wg_part4)(const TPK_E *s, const TPK_M *get, TPK_V *d)
{
    const TPK_V zero = {0};
    const TPK_V a = TPK_LOADX(s, zero, get[0]), b = TPK_LOADX(s + TPK_VL, zero, get[1]);
    const TPK_V c = TPK_LOADX(s + 2 * TPK_VL, zero, get[2]);
    const TPK_V e = TPK_LOADX(s + 3 * TPK_VL, zero, get[3]);
    const TPK_V even = TPK_EVEN(a, b), odd = TPK_ODD(a, b);
    const TPK_V even2 = TPK_EVEN(c, e), odd2 = TPK_ODD(c, e);
    d[0] = TPK_EVEN(even, even2);
    d[1] = TPK_EVEN(odd, odd2);
    d[2] = TPK_ODD(even, even2);
    d[3] = TPK_ODD(odd, odd2);
    const TPK_V f = TPK_LOADX(s + 4, zero, get[4]), g = TPK_LOADX(s + 4 + TPK_VL, zero, get[5]);
    const TPK_V h = TPK_LOADX(s + 4 + 2 * TPK_VL, zero, get[6]);
    const TPK_V k = TPK_LOADX(s + 4 + 3 * TPK_VL, zero, get[7]);
    d[4] = TPK_EVEN(TPK_EVEN(f, g), TPK_EVEN(h, k));
    d[5] = TPK_EVEN(TPK_ODD(f, g), TPK_ODD(h, k));
}

TPK_IN void TPK_N(tpk_wg_part2)(const TPK_E *s, const TPK_M *get, TPK_V *d)
{
    const TPK_V zero = {0};
    const TPK_V a = TPK_LOADX(s, zero, get[0]), b = TPK_LOADX(s + TPK_VL, zero, get[1]);
    const TPK_V c = TPK_LOADX(s + 2, zero, get[2]), e = TPK_LOADX(s + 2 + TPK_VL, zero, get[3]);
    d[0] = TPK_EVEN(a, b);
    d[1] = TPK_ODD(a, b);
    d[2] = TPK_EVEN(c, e);
    d[3] = TPK_ODD(c, e);
}
/* Planes of one channel: lines y0 and on, for `rows` rows of n tiles whose first column is x0. */
TPK_WG_PLANES(6, 4)
TPK_WG_PLANES(4, 2)

/* B of a line. */
TPK_IN void TPK_N(tpk_wg_in6)(const TPK_V *d, TPK_V *v)
{
    const TPK_E a = 0.625f, b = 1.5f, na = -a, nb = -b, aa = -a * a, bb = -b * b;
    const TPK_E ab = aa * bb, sum = aa + bb;
    const TPK_V va = TPK_SPLAT(a), vb = TPK_SPLAT(b), wa = TPK_SPLAT(na), wb = TPK_SPLAT(nb);
    const TPK_V vaa = TPK_SPLAT(aa), vbb = TPK_SPLAT(bb), vab = TPK_SPLAT(ab);
    const TPK_V vsum = TPK_SPLAT(sum);
    const TPK_V ea = TPK_FMA(vbb, d[2], d[4]), oa = TPK_FMA(vbb, d[1], d[3]);
    const TPK_V eb = TPK_FMA(vaa, d[2], d[4]), ob = TPK_FMA(vaa, d[1], d[3]);
    v[0] = TPK_FMA(vab, d[0], TPK_FMA(vsum, d[2], d[4]));
    v[1] = TPK_FMA(va, oa, ea);
    v[2] = TPK_FMA(wa, oa, ea);
    v[3] = TPK_FMA(vb, ob, eb);
    v[4] = TPK_FMA(wb, ob, eb);
    v[5] = TPK_FMA(vab, d[1], TPK_FMA(vsum, d[3], d[5]));
}

TPK_IN void TPK_N(tpk_wg_in4)(const TPK_V *d, TPK_V *v)
{
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
}

/* Points of one channel, from its planes: v[point * vs + tile]. */
#define TPK_WG_IN(P, R)                                                                        \
    TPK_OUT void TPK_N(tpk_wg_points##P)(const TPK_N(tpk_wg) * v, const TPK_E *planes,         \
                                         int64_t rows, int64_t n, TPK_E *to)                   \
    {                                                                                          \
        const int64_t plane = v->plane, vs = v->vs;                                            \
        for (int64_t t = 0; t < rows * n; t += TPK_VL) {                                       \
            TPK_V m[P][P], d[P], u[P];                                                         \
            TPK_WG_FOR(j, P)                                                                   \
            {                                                                                  \
                TPK_WG_FOR(i, P)                                                               \
                {                                                                              \
                    d[i] = TPK_LOAD(planes + (i % R * P + j) * plane + i / R * n + t);         \
                }                                                                              \
                TPK_N(tpk_wg_in##P)(d, u);                                                     \
                TPK_WG_FOR(i, P)                                                               \
                {                                                                              \
                    m[i][j] = u[i];                                                            \
                }                                                                              \
            }                                                                                  \
            TPK_WG_FOR(i, P)                                                                   \
            {                                                                                  \
                TPK_N(tpk_wg_in##P)(m[i], u);                                                  \
                TPK_WG_FOR(j, P)                                                               \
                {                                                                              \
                    TPK_STORE(to + (i * P + j) * vs + t, u[j]);                                \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
    }
TPK_WG_IN(6, 4)
TPK_WG_IN(4, 2)

/* ---- the way out --------------------------------------------------------------------------- */

/* A of a line. */
TPK_IN void TPK_N(tpk_wg_out6)(const TPK_V *m, TPK_V *y)
{
    const TPK_E a = 0.625f, b = 1.5f, aa = a * a, bb = b * b, aaa = aa * a, bbb = bb * b;
    const TPK_V sa = m[1] + m[2], da = m[1] - m[2], sb = m[3] + m[4], db = m[3] - m[4];
    y[0] = m[0] + (sa + sb);
    y[1] = TPK_FMA(TPK_SPLAT(b), db, TPK_SPLAT(a) * da);
    y[2] = TPK_FMA(TPK_SPLAT(bb), sb, TPK_SPLAT(aa) * sa);
    y[3] = TPK_FMA(TPK_SPLAT(bbb), db, TPK_FMA(TPK_SPLAT(aaa), da, m[5]));
}

TPK_IN void TPK_N(tpk_wg_out4)(const TPK_V *m, TPK_V *y)
{
    y[0] = m[0] + (m[1] + m[2]);
    y[1] = (m[1] - m[2]) + m[3];
}

/* Pixels of a row of n tiles, of a vector of output channels: y[i * ys + pixel * VL]. */
#define TPK_WG_OUT(P, R)                                                                       \
    TPK_OUT void TPK_N(tpk_wg_pixels##P)(const TPK_N(tpk_wg) * v, const TPK_E *sums,           \
                                         int64_t n, TPK_E *y, int64_t ys)                      \
    {                                                                                          \
        const int64_t ms = v->ms;                                                              \
        for (; n > 0; n--, sums += TPK_WG_OC, y += R * TPK_VL) {                               \
            TPK_V h[R][P], m[P], u[R];                                                         \
            TPK_WG_FOR(j, P)                                                                   \
            {                                                                                  \
                TPK_WG_FOR(i, P)                                                               \
                {                                                                              \
                    m[i] = TPK_LOAD(sums + (i * P + j) * ms);                                  \
                }                                                                              \
                TPK_N(tpk_wg_out##P)(m, u);                                                    \
                TPK_WG_FOR(i, R)                                                               \
                {                                                                              \
                    h[i][j] = u[i];                                                            \
                }                                                                              \
            }                                                                                  \
            TPK_WG_FOR(i, R)                                                                   \
            {                                                                                  \
                TPK_N(tpk_wg_out##P)(h[i], u);                                                 \
                TPK_WG_FOR(j, R)                                                               \
                {                                                                              \
                    TPK_STORE(y + i * ys + j * TPK_VL, u[j]);                                  \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
    }
TPK_WG_OUT(6, 4)
TPK_WG_OUT(4, 2)

/* ---- the convolution ------------------------------------------------------------------------ */

/* A block: rows of tiles [first, first + rows), numbered over the images, from column x of them. */
typedef struct {
    int64_t first, rows, x, n;
} TPK_N(tpk_wg_part);

TPK_OUT void TPK_N(tpk_wg_enter)(const TPK_N(tpk_wg) * v, const TPK_N(tpk_wg_part) * b,
                                 const TPK_E *x, char *ws)
{
    TPK_E *const planes = (TPK_E *)(void *)(ws + v->at_planes);
    TPK_E *to = (TPK_E *)(void *)(ws + v->at_points);
    int64_t rows = 0;
    for (int64_t at = b->first; at < b->first + b->rows; at += rows, to += rows * b->n) {
        const int64_t image = at / v->rows, row = at % v->rows;
        rows = tpk_i_min(v->rows - row, b->first + b->rows - at);
        for (int64_t i = 0; i < v->c.ic; i++) {
            (v->r == 4 ? TPK_N(tpk_wg_planes6) : TPK_N(tpk_wg_planes4))(
                v, x + image * v->c.xs[0] + i * v->c.xs[1], row * v->r - v->c.pad[1], rows,
                b->x * v->r - v->c.pad[2], b->n, planes);
            (v->r == 4 ? TPK_N(tpk_wg_points6) : TPK_N(tpk_wg_points4))(v, planes, rows, b->n,
                                                                        to + i * v->pitch);
        }
    }
}

/* From the sums of outputs [o, o + n). */
TPK_OUT void TPK_N(tpk_wg_leave)(const TPK_N(tpk_wg) * v, const TPK_N(tpk_wg_part) * b,
                                 int64_t o, int64_t n, TPK_E *y, char *ws)
{
    const TPK_E *sums = (const TPK_E *)(const void *)(ws + v->at_sums);
    TPK_E *const pixels = (TPK_E *)(void *)(ws + v->at_pixels);
    const int64_t width = tpk_i_min(b->n * v->r, v->c.out[2] - b->x * v->r);
    const int64_t ys = v->n * v->r * TPK_VL;
    for (int64_t at = b->first; at < b->first + b->rows; at++, sums += b->n * TPK_WG_OC) {
        const int64_t line = at % v->rows * v->r;
        TPK_E *const to =
            y + at / v->rows * v->c.ys[0] + o * v->c.ys[1] + line * v->c.ys[3] + b->x * v->r;
        for (int64_t l = 0; l < n; l += TPK_VL) {
            (v->r == 4 ? TPK_N(tpk_wg_pixels6) : TPK_N(tpk_wg_pixels4))(v, sums + l, b->n,
                                                                        pixels, ys);
            for (int64_t i = 0; i < tpk_i_min(v->r, v->c.out[1] - line); i++) {
                TPK_N(tpk_pack_turn)
                (width, width, tpk_i_min(TPK_VL, n - l), pixels + i * ys, TPK_VL, NULL,
                 to + l * v->c.ys[1] + i * v->c.ys[3], v->c.ys[1]);
            }
        }
    }
}

TPK_OUT void TPK_N(tpk_wg_run)(const TPK_N(tpk_wg) * v, const TPK_E *x, const TPK_E *u,
                               TPK_E *y, char *ws)
{
    TPK_E *const points = (TPK_E *)(void *)(ws + v->at_points);
    TPK_E *const sums = (TPK_E *)(void *)(ws + v->at_sums);
    const int64_t all = v->c.batch * v->rows;
    /* Lanes behind the last tile are computed with: not with what lies there. */
    TPK_N(tpk_cv_zero)(v->r * v->p * v->plane, (TPK_E *)(void *)(ws + v->at_planes));
    for (int64_t at = 0; at < all; at += v->n_rows) {
        for (int64_t column = 0; column < v->across; column += v->n) {
            const TPK_N(tpk_wg_part) b = {at, tpk_i_min(v->n_rows, all - at), column,
                                          tpk_i_min(v->n, v->across - column)};
            const TPK_E *packed = u;
            TPK_N(tpk_wg_enter)(v, &b, x, ws);
            for (int64_t o = 0; o < v->c.oc; o += TPK_WG_OC) {
                const int64_t n = tpk_i_min(TPK_WG_OC, v->c.oc - o);
                const int64_t step = TPK_N(tpk_wg_block)(v, o) / v->points;
                for (int64_t i = 0; i < v->points; i++, packed += step) {
                    TPK_N(tpk_wg_multiply)
                    (b.rows * b.n, n, v->c.ic, points + i * v->vs, v->pitch, packed,
                     sums + i * v->ms);
                }
                TPK_N(tpk_wg_leave)(v, &b, o, n, y, ws);
            }
        }
    }
}

/* ---- conv and conv_dx, by this or by conv.h --------------------------------------------------- */

/* conv_dx of stride 1 is a conv with y for x, outputs for inputs and the taps turned; *first: where w
 * begins then. */
TPK_COLD tpk_conv TPK_N(tpk_wg_of_dx)(const tpk_conv *spec, int64_t *first)
{
    tpk_conv c = tpk_conv_3d(spec);
    const tpk_conv d = c;
    *first = 0;
    c.ic = d.oc;
    c.oc = d.ic;
    c.ws[0] = d.ws[1];
    c.ws[1] = d.ws[0];
    for (int i = 0; i < 3; i++) {
        c.in[i] = d.out[i];
        c.out[i] = d.in[i];
        c.pad[i] = (d.ker[i] - 1) * d.dil[i] - d.pad[i];
        c.ws[i + 2] = -d.ws[i + 2];
        *first += (d.ker[i] - 1) * d.ws[i + 2];
    }
    for (int i = 0; i < 5; i++) {
        c.xs[i] = d.ys[i];
        c.ys[i] = d.xs[i];
    }
    return c;
}

TPK_COLD tpk_tiles TPK_N(tpk_wg_tiles)(const tpk_conv *c)
{
    const int64_t r = TPK_N(tpk_wg_choose)(c);
    tpk_tiles t = {0};
    if (r) {
        const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(c, r);
        t.way = r == 4 ? TPK_WAY_TILES_4 : TPK_WAY_TILES_2;
        t.size = r;
        t.channels = TPK_WG_OC;
        t.bytes = TPK_N(tpk_wg_block)(&v, 0) * (int64_t)sizeof(TPK_E);
    }
    return t;
}

TPK_COLD tpk_tiles TPK_N(tpk_conv_tiles)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    return TPK_N(tpk_wg_tiles)(&c);
}

TPK_COLD tpk_tiles TPK_N(tpk_conv_dx_tiles)(const tpk_conv *spec)
{
    int64_t first;
    const tpk_conv c = TPK_N(tpk_wg_of_dx)(spec, &first);
    return TPK_N(tpk_wg_tiles)(&c);
}

TPK_COLD size_t TPK_N(tpk_fast_conv_ws)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    const int64_t r = TPK_N(tpk_wg_choose)(&c);
    return r ? (size_t)TPK_N(tpk_wg_make)(&c, r).size : TPK_N(tpk_conv_ws)(spec);
}

TPK_COLD void TPK_N(tpk_fast_conv)(const tpk_conv *spec, const TPK_E *x, const TPK_E *w,
                                   TPK_E *y, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    const int64_t r = TPK_N(tpk_wg_choose)(&c);
    if (!r) {
        TPK_N(tpk_conv)(spec, x, w, y, ws);
        return;
    }
    const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(&c, r);
    TPK_N(tpk_wg_pack)(&v, w, ws);
    TPK_N(tpk_wg_run)(&v, x, ws, y, ws);
}

TPK_COLD size_t TPK_N(tpk_fast_conv_packed_w_size)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    const int64_t r = TPK_N(tpk_wg_choose)(&c);
    if (!r) {
        return TPK_N(tpk_conv_packed_w_size)(spec);
    }
    const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(&c, r);
    return (size_t)TPK_N(tpk_wg_packed_size)(&v);
}

TPK_COLD void TPK_N(tpk_fast_conv_pack_w)(const tpk_conv *spec, const TPK_E *w, TPK_E *wp,
                                          void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    const int64_t r = TPK_N(tpk_wg_choose)(&c);
    if (!r) {
        TPK_N(tpk_conv_pack_w)(spec, w, wp, ws);
        return;
    }
    const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(&c, r);
    TPK_N(tpk_wg_pack)(&v, w, wp);
}

TPK_COLD void TPK_N(tpk_fast_conv_packed_w)(const tpk_conv *spec, const TPK_E *x,
                                            const TPK_E *wp, TPK_E *y, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    const int64_t r = TPK_N(tpk_wg_choose)(&c);
    if (!r) {
        TPK_N(tpk_conv_packed_w)(spec, x, wp, y, ws);
        return;
    }
    const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(&c, r);
    TPK_N(tpk_wg_run)(&v, x, wp, y, ws);
}

TPK_COLD size_t TPK_N(tpk_fast_conv_dx_ws)(const tpk_conv *spec)
{
    int64_t first;
    const tpk_conv c = TPK_N(tpk_wg_of_dx)(spec, &first);
    const int64_t r = TPK_N(tpk_wg_choose)(&c);
    return r ? (size_t)TPK_N(tpk_wg_make)(&c, r).size : TPK_N(tpk_conv_dx_ws)(spec);
}

TPK_COLD void TPK_N(tpk_fast_conv_dx)(const tpk_conv *spec, const TPK_E *y, const TPK_E *w,
                                      TPK_E *x, void *ws)
{
    int64_t first;
    const tpk_conv c = TPK_N(tpk_wg_of_dx)(spec, &first);
    const int64_t r = TPK_N(tpk_wg_choose)(&c);
    if (!r) {
        TPK_N(tpk_conv_dx)(spec, y, w, x, ws);
        return;
    }
    const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(&c, r);
    TPK_N(tpk_wg_pack)(&v, w + first, ws);
    TPK_N(tpk_wg_run)(&v, y, ws, x, ws);
}
#endif
