/* winograd.h: convolutions of 3 by 3, of stride 1, by Winograd's minimal filtering, for one element
 * type (TPK_BITS): the order that docs/numerics.md states for them, where a count of operations says
 * that it pays. As plain loops it is tpk_tiled_ref of convref.h.
 *
 * A tile of 2 by 2 outputs needs 4 by 4 inputs. Tile d and filter g are turned into 16 points each,
 * B'dB and GgG', which are multiplied point by point; summed over the channels, A'mA are the outputs:
 * 16 products where a convolution takes 36. For each point that is a product of matrices, tiles by
 * channels times channels by outputs.
 *
 * Vectors are neighbouring tiles on the way in and neighbouring output channels on the way out. A
 * block of tiles (some whole rows of them, or a part of one) is done at a time, so that its points
 * stay in the second cache:
 *   planes  one channel of the block, by row modulo 2 and by column of the tile: [2][4][rows + 1][n]
 *   points  [16][channels][tiles], what is multiplied
 *   sums    [16][tiles][outputs], of TPK_WG_OC output channels at a time
 *   pixels  of a row of tiles and a vector of output channels: [2][n * 2][VL], then turned.
 * The filters' points are packed [block of TPK_WG_OC outputs][16][vector of outputs][channel][VL]. */
#include "kernel/conv/convtaps.h"
#if TPK_BITS == 32 && !defined(TPK_WINOGRAD_32)
#define TPK_WINOGRAD_32

#define TPK_WG_OC 64
#define TPK_WG_TILES 56        /* of a block, at most */
#define TPK_WG_BYTES (1 << 20) /* and bytes of their points */

typedef struct {
    tpk_conv c;
    int64_t rows, across; /* tiles down and across an image */
    int64_t n, n_rows;    /* a block: tiles of a row, rows of tiles */
    int64_t plane, pitch; /* elements of a plane; from one channel's points to the next's */
    int64_t vs, ms;       /* from a point to the next, in points and in sums */
    int64_t at_planes, at_points, at_sums, at_pixels, size; /* bytes */
} TPK_N(tpk_wg);

/* ---- sizes --------------------------------------------------------------------------------- */

/* Elements of the packed points of a block of outputs that begins at output o. */
TPK_FN int64_t TPK_N(tpk_wg_block)(const TPK_N(tpk_wg) * v, int64_t o)
{
    const int64_t n = tpk_i_min(TPK_WG_OC, v->c.oc - o);
    return TPK_WG_POINTS * tpk_i_ceil(n, TPK_VL) * TPK_VL * v->c.ic;
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

TPK_COLD TPK_N(tpk_wg) TPK_N(tpk_wg_make)(const tpk_conv *c)
{
    const int64_t e = (int64_t)sizeof(TPK_E), r = TPK_WG_R, p = TPK_WG_P;
    TPK_N(tpk_wg)
    v = {.c = *c};
    v.rows = tpk_i_ceil(c->out[1], r);
    v.across = tpk_i_ceil(c->out[2], r);
    int64_t most = TPK_WG_BYTES / (TPK_WG_POINTS * c->ic * e);
    most = most < TPK_VL ? TPK_VL : tpk_i_min(most, TPK_WG_TILES);
    v.n = tpk_i_ceil(v.across, tpk_i_ceil(v.across, most));
    v.n_rows = v.n < v.across ? 1 : most / v.n;
    v.n_rows = tpk_i_ceil(c->batch * v.rows, tpk_i_ceil(c->batch * v.rows, v.n_rows));
    const int64_t tiles = v.n_rows * v.n;
    v.plane = tpk_i_ceil((v.n_rows + 1) * v.n + TPK_VL, 16) * 16;
    v.pitch = tpk_i_ceil(tiles + TPK_VL, 16) * 16;
    v.vs = TPK_N(tpk_wg_odd)(v.pitch * c->ic);
    v.ms = TPK_N(tpk_wg_odd)((tiles + 3) / 4 * 4 * TPK_WG_OC);
    v.at_planes = c->winograd == TPK_WINOGRAD_PACKED ? 0 : TPK_N(tpk_wg_packed_size)(&v);
    v.at_points = v.at_planes + r * p * v.plane * e;
    v.at_sums = v.at_points + TPK_WG_POINTS * v.vs * e;
    v.at_pixels = v.at_sums + TPK_WG_POINTS * v.ms * e;
    v.size = v.at_pixels + r * r * v.n * TPK_VL * e;
    return v;
}

/* ---- filters ------------------------------------------------------------------------------- */

/* G of a line, in f64: rounded once, when all is done. */
TPK_IN void TPK_N(tpk_wg_filter)(const double *g, int64_t step, double *u, int64_t u_step)
{
    const double half = 0.5 * (g[0] + g[2 * step]), other = 0.5 * g[step];
    u[0] = g[0];
    u[u_step] = half + other;
    u[2 * u_step] = half - other;
    u[3 * u_step] = g[2 * step];
}

/* One input channel of a panel of n outputs: to[i * step] for point i. */
TPK_OUT void TPK_N(tpk_wg_filters)(const TPK_N(tpk_wg) * v, int64_t n, const TPK_E *w,
                                   TPK_E *to, int64_t step)
{
    double g[9][TPK_VL], h[12][TPK_VL], u[TPK_WG_POINTS][TPK_VL];
    for (int64_t i = 0; i < 9; i++) {
        const TPK_E *const from = w + i / 3 * v->c.ws[3] + i % 3 * v->c.ws[4];
        for (int64_t o = 0; o < TPK_VL; o++) {
            g[i][o] = o < n ? (double)from[o * v->c.ws[0]] : 0;
        }
    }
    for (int64_t j = 0; j < 3; j++) {
        for (int64_t o = 0; o < TPK_VL; o++) {
            TPK_N(tpk_wg_filter)(&g[j][o], 3 * TPK_VL, &h[j][o], 3 * TPK_VL);
        }
    }
    for (int64_t i = 0; i < TPK_WG_P; i++) {
        for (int64_t o = 0; o < TPK_VL; o++) {
            TPK_N(tpk_wg_filter)(&h[3 * i][o], TPK_VL, &u[TPK_WG_P * i][o], TPK_VL);
        }
    }
    for (int64_t i = 0; i < TPK_WG_POINTS; i++) {
        for (int64_t o = 0; o < TPK_VL; o++) {
            to[i * step + o] = (TPK_E)u[i][o];
        }
    }
}

TPK_COLD void TPK_N(tpk_wg_pack)(const TPK_N(tpk_wg) * v, const TPK_E *w, TPK_E *u)
{
    for (int64_t o = 0; o < v->c.oc; o += TPK_WG_OC) {
        const int64_t end = tpk_i_min(o + TPK_WG_OC, v->c.oc);
        const int64_t step = TPK_N(tpk_wg_block)(v, o) / TPK_WG_POINTS;
        for (int64_t j = o; j < end; j += TPK_VL) {
            for (int64_t i = 0; i < v->c.ic; i++) {
                TPK_N(tpk_wg_filters)
                (v, tpk_i_min(TPK_VL, end - j), w + j * v->c.ws[0] + i * v->c.ws[1],
                 u + (j - o) * v->c.ic + i * TPK_VL, step);
            }
        }
        u += TPK_WG_POINTS * step;
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
#define TPK_WG_FOR(i, n) _Pragma("GCC unroll 4") for (int64_t i = 0; i < (n); i++)

/* ---- the way in ---------------------------------------------------------------------------- */

/* The lanes [from, end) of the VL columns from x on that an image has. */
TPK_IN TPK_M TPK_N(tpk_wg_span)(const TPK_N(tpk_wg) * v, int64_t x)
{
    const int64_t from = x < 0 ? tpk_i_min(-x, TPK_VL) : 0;
    const int64_t end = tpk_i_min(v->c.in[2] - x, TPK_VL);
    return TPK_SPAN(from, end < from ? from : end);
}

/* Columns [x, x + 2 VL + 2) of a line whose elements are not neighbours, zero where an image ends. */
TPK_OUT void TPK_N(tpk_wg_gather)(const TPK_N(tpk_wg) * v, const TPK_E *line, int64_t x,
                                  TPK_E *to)
{
    for (int64_t i = 0; i < 2 * TPK_VL + 2; i++) {
        to[i] = x + i >= 0 && x + i < v->c.in[2] ? line[(x + i) * v->c.xs[4]] : 0;
    }
}

/* A line's columns by their remainder: d[q] has columns q, q + 2, ... of s. */
TPK_IN void TPK_N(tpk_wg_part)(const TPK_E *s, const TPK_M *get, TPK_V *d)
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
TPK_OUT void TPK_N(tpk_wg_planes)(const TPK_N(tpk_wg) * v, const TPK_E *src, int64_t y0,
                                  int64_t rows, int64_t x0, int64_t n, TPK_E *planes)
{
    const int whole = v->c.xs[4] == 1;
    for (int64_t t = 0; t < n; t += TPK_VL) {
        const int64_t x = x0 + t * 2;
        const TPK_M put = TPK_MASK(n - t);
        TPK_M get[4];
        for (int64_t q = 0; q < 4; q++) {
            const int64_t shift = q / 2 * 2 + q % 2 * TPK_VL;
            get[q] = whole ? TPK_N(tpk_wg_span)(v, x + shift) : TPK_SPAN(0, TPK_VL);
        }
        for (int64_t i = 0; i < 2; i++) {
            TPK_E *to = planes + i * TPK_WG_P * v->plane + t;
            for (int64_t y = i; y < 2 * rows + 2; y += 2, to += n) {
                const int64_t at = y0 + y;
                const TPK_E *const line = src + at * v->c.xs[3];
                TPK_E gathered[2 * TPK_VL + 2];
                TPK_V d[4] = {{0}};
                if (at >= 0 && at < v->c.in[1] && whole) {
                    TPK_N(tpk_wg_part)(line + x, get, d);
                } else if (at >= 0 && at < v->c.in[1]) {
                    TPK_N(tpk_wg_gather)(v, line, x, gathered);
                    TPK_N(tpk_wg_part)(gathered, get, d);
                }
                TPK_WG_FOR(q, 4)
                {
                    TPK_STOREM(to + q * v->plane, d[q], put);
                }
            }
        }
    }
}

/* B of a line. */
TPK_IN void TPK_N(tpk_wg_in)(const TPK_V *d, TPK_V *v)
{
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
}

/* Points of one channel, from its planes: v[point * vs + tile]. */
TPK_OUT void TPK_N(tpk_wg_points)(const TPK_N(tpk_wg) * v, const TPK_E *planes, int64_t rows,
                                  int64_t n, TPK_E *to)
{
    const int64_t plane = v->plane, vs = v->vs;
    for (int64_t t = 0; t < rows * n; t += TPK_VL) {
        TPK_V m[4][4], d[4], u[4];
        TPK_WG_FOR(j, 4)
        {
            TPK_WG_FOR(i, 4)
            {
                d[i] = TPK_LOAD(planes + (i % 2 * 4 + j) * plane + i / 2 * n + t);
            }
            TPK_N(tpk_wg_in)(d, u);
            TPK_WG_FOR(i, 4)
            {
                m[i][j] = u[i];
            }
        }
        TPK_WG_FOR(i, 4)
        {
            TPK_N(tpk_wg_in)(m[i], u);
            TPK_WG_FOR(j, 4)
            {
                TPK_STORE(to + (i * 4 + j) * vs + t, u[j]);
            }
        }
    }
}

/* ---- the way out --------------------------------------------------------------------------- */

/* A of a line. */
TPK_IN void TPK_N(tpk_wg_out)(const TPK_V *m, TPK_V *y)
{
    y[0] = m[0] + (m[1] + m[2]);
    y[1] = (m[1] - m[2]) + m[3];
}

/* Pixels of a row of n tiles, of a vector of output channels: y[i * ys + pixel * VL]. */
TPK_OUT void TPK_N(tpk_wg_pixels)(const TPK_N(tpk_wg) * v, const TPK_E *sums, int64_t n,
                                  TPK_E *y, int64_t ys)
{
    const int64_t ms = v->ms;
    for (; n > 0; n--, sums += TPK_WG_OC, y += 2 * TPK_VL) {
        TPK_V h[2][4], m[4], u[2];
        TPK_WG_FOR(j, 4)
        {
            TPK_WG_FOR(i, 4)
            {
                m[i] = TPK_LOAD(sums + (i * 4 + j) * ms);
            }
            TPK_N(tpk_wg_out)(m, u);
            TPK_WG_FOR(i, 2)
            {
                h[i][j] = u[i];
            }
        }
        TPK_WG_FOR(i, 2)
        {
            TPK_N(tpk_wg_out)(h[i], u);
            TPK_WG_FOR(j, 2)
            {
                TPK_STORE(y + i * ys + j * TPK_VL, u[j]);
            }
        }
    }
}

/* A line of `width` pixels of n <= VL output channels to where it belongs. */
TPK_OUT void TPK_N(tpk_wg_line)(const TPK_N(tpk_wg) * v, int64_t width, int64_t n,
                                const TPK_E *pixels, TPK_E *to)
{
    if (v->c.ys[4] == 1) {
        TPK_N(tpk_pack_turn)(width, width, n, pixels, TPK_VL, NULL, to, v->c.ys[1]);
        return;
    }
    for (int64_t i = 0; i < width; i++) {
        for (int64_t o = 0; o < n; o++) {
            to[i * v->c.ys[4] + o * v->c.ys[1]] = pixels[i * TPK_VL + o];
        }
    }
}

/* ---- the convolution ------------------------------------------------------------------------ */

/* A block: rows of tiles [first, first + rows), numbered over the images, from column x of them. */
typedef struct {
    int64_t first, rows, x, n;
} TPK_N(tpk_wg_box);

TPK_OUT void TPK_N(tpk_wg_enter)(const TPK_N(tpk_wg) * v, const TPK_N(tpk_wg_box) * b,
                                 const TPK_E *x, char *ws)
{
    TPK_E *const planes = (TPK_E *)(void *)(ws + v->at_planes);
    TPK_E *to = (TPK_E *)(void *)(ws + v->at_points);
    int64_t rows = 0;
    for (int64_t at = b->first; at < b->first + b->rows; at += rows, to += rows * b->n) {
        const int64_t image = at / v->rows, row = at % v->rows;
        rows = tpk_i_min(v->rows - row, b->first + b->rows - at);
        for (int64_t i = 0; i < v->c.ic; i++) {
            TPK_N(tpk_wg_planes)
            (v, x + image * v->c.xs[0] + i * v->c.xs[1], row * TPK_WG_R - v->c.pad[1], rows,
             b->x * TPK_WG_R - v->c.pad[2], b->n, planes);
            TPK_N(tpk_wg_points)(v, planes, rows, b->n, to + i * v->pitch);
        }
    }
}

/* From the sums of outputs [o, o + n). */
TPK_OUT void TPK_N(tpk_wg_leave)(const TPK_N(tpk_wg) * v, const TPK_N(tpk_wg_box) * b,
                                 int64_t o, int64_t n, TPK_E *y, char *ws)
{
    const TPK_E *sums = (const TPK_E *)(const void *)(ws + v->at_sums);
    TPK_E *const pixels = (TPK_E *)(void *)(ws + v->at_pixels);
    const int64_t *const s = v->c.ys;
    const int64_t width = tpk_i_min(b->n * TPK_WG_R, v->c.out[2] - b->x * TPK_WG_R);
    const int64_t ys = v->n * TPK_WG_R * TPK_VL;
    for (int64_t at = b->first; at < b->first + b->rows; at++, sums += b->n * TPK_WG_OC) {
        const int64_t line = at % v->rows * TPK_WG_R;
        TPK_E *const to =
            y + at / v->rows * s[0] + o * s[1] + line * s[3] + b->x * TPK_WG_R * s[4];
        for (int64_t l = 0; l < n; l += TPK_VL) {
            TPK_N(tpk_wg_pixels)(v, sums + l, b->n, pixels, ys);
            for (int64_t i = 0; i < tpk_i_min(TPK_WG_R, v->c.out[1] - line); i++) {
                TPK_N(tpk_wg_line)
                (v, width, tpk_i_min(TPK_VL, n - l), pixels + i * ys, to + l * s[1] + i * s[3]);
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
    TPK_N(tpk_cv_zero)(TPK_WG_R * TPK_WG_P * v->plane, (TPK_E *)(void *)(ws + v->at_planes));
    for (int64_t at = 0; at < all; at += v->n_rows) {
        for (int64_t column = 0; column < v->across; column += v->n) {
            const TPK_N(tpk_wg_box) b = {at, tpk_i_min(v->n_rows, all - at), column,
                                         tpk_i_min(v->n, v->across - column)};
            const TPK_E *packed = u;
            TPK_N(tpk_wg_enter)(v, &b, x, ws);
            for (int64_t o = 0; o < v->c.oc; o += TPK_WG_OC) {
                const int64_t n = tpk_i_min(TPK_WG_OC, v->c.oc - o);
                const int64_t step = TPK_N(tpk_wg_block)(v, o) / TPK_WG_POINTS;
                for (int64_t i = 0; i < TPK_WG_POINTS; i++, packed += step) {
                    TPK_N(tpk_wg_multiply)
                    (b.rows * b.n, n, v->c.ic, points + i * v->vs, v->pitch, packed,
                     sums + i * v->ms);
                }
                TPK_N(tpk_wg_leave)(v, &b, o, n, y, ws);
            }
        }
    }
}

/* ---- conv and conv_dx, by this or by convtaps.h ----------------------------------------------- */

TPK_COLD tpk_tiles TPK_N(tpk_wg_tiles)(const tpk_conv *c)
{
    tpk_tiles t = {0};
    if (tpk_conv_is_tiled(c)) {
        const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(c);
        t.way = TPK_WAY_TILES;
        t.size = TPK_WG_R;
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
    const tpk_conv c = tpk_conv_of_dx(spec, &first);
    return TPK_N(tpk_wg_tiles)(&c);
}

TPK_COLD size_t TPK_N(tpk_wg_conv_ws)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    return tpk_conv_is_tiled(&c) ? (size_t)TPK_N(tpk_wg_make)(&c).size
                                 : TPK_N(tpk_taps_conv_ws)(spec);
}

TPK_COLD void TPK_N(tpk_wg_conv)(const tpk_conv *spec, const TPK_E *x, const TPK_E *w, TPK_E *y,
                                 void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (!tpk_conv_is_tiled(&c)) {
        TPK_N(tpk_taps_conv)(spec, x, w, y, ws);
        return;
    }
    const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(&c);
    TPK_N(tpk_wg_pack)(&v, w, ws);
    TPK_N(tpk_wg_run)(&v, x, ws, y, ws);
}

TPK_COLD size_t TPK_N(tpk_wg_conv_packed_w_size)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (!tpk_conv_is_tiled(&c)) {
        return TPK_N(tpk_taps_conv_packed_w_size)(spec);
    }
    const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(&c);
    return (size_t)TPK_N(tpk_wg_packed_size)(&v);
}

TPK_COLD void TPK_N(tpk_wg_conv_pack_w)(const tpk_conv *spec, const TPK_E *w, TPK_E *wp,
                                        void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (!tpk_conv_is_tiled(&c)) {
        TPK_N(tpk_taps_conv_pack_w)(spec, w, wp, ws);
        return;
    }
    const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(&c);
    TPK_N(tpk_wg_pack)(&v, w, wp);
}

TPK_COLD void TPK_N(tpk_wg_conv_packed_w)(const tpk_conv *spec, const TPK_E *x, const TPK_E *wp,
                                          TPK_E *y, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (!tpk_conv_is_tiled(&c)) {
        TPK_N(tpk_taps_conv_packed_w)(spec, x, wp, y, ws);
        return;
    }
    const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(&c);
    TPK_N(tpk_wg_run)(&v, x, wp, y, ws);
}

TPK_COLD size_t TPK_N(tpk_wg_conv_dx_ws)(const tpk_conv *spec)
{
    int64_t first;
    const tpk_conv c = tpk_conv_of_dx(spec, &first);
    return tpk_conv_is_tiled(&c) ? (size_t)TPK_N(tpk_wg_make)(&c).size
                                 : TPK_N(tpk_taps_conv_dx_ws)(spec);
}

TPK_COLD void TPK_N(tpk_wg_conv_dx)(const tpk_conv *spec, const TPK_E *y, const TPK_E *w,
                                    TPK_E *x, void *ws)
{
    int64_t first;
    const tpk_conv c = tpk_conv_of_dx(spec, &first);
    if (!tpk_conv_is_tiled(&c)) {
        TPK_N(tpk_taps_conv_dx)(spec, y, w, x, ws);
        return;
    }
    const TPK_N(tpk_wg) v = TPK_N(tpk_wg_make)(&c);
    TPK_N(tpk_wg_pack)(&v, w + first, ws);
    TPK_N(tpk_wg_run)(&v, y, ws, x, ws);
}
#endif
