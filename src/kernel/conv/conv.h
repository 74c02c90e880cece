/* conv.h: convolutions of one to three dimensions for one element type (TPK_BITS), with the bits
 * of the plain loops in convref.h. This file has conv and conv_dx; convdw.h has conv_dw.
 *
 * All three operations are contractions whose B is never stored as a whole: its element (k, j) is
 * source[offset of k + offset of j], where one of the two counts windows and the other counts
 * channels and taps. The source is a copy of one image with its padding written out as zeros
 * (convspec.h), so a tap outside is multiplied like any other, and no loop asks where it is.
 *
 *   conv     y[o][window] = sum over k = (channel, tap) of w[o][k] * x[k + window]
 *   conv_dx  the same with x and y exchanged and w turned. With a stride it falls apart into one
 *            such sum, of stride 1, for each residue of the position modulo the stride.
 *   conv_dw  w[o][j = (channel, tap)] = sum over k = (image, window) of y[o][k] * x[j + k]
 *
 * The first two go one of three ways, those of f64 the dense one. With few output channels, packing would cost more than the
 * arithmetic: vectors of neighbouring windows are read straight from the copy, a table saying
 * where each k lies ("direct"; rows of the output are not joined, so their ends are lost lanes).
 * With many, either vectors are output channels (convout.h, "across"), or gemm.h does the work and
 * asks for its panels of B, which are filled with pieces of rows; windows of several small images
 * are then joined. Depthwise convolutions have a way of their own (stencil.h), and so has conv_dx of
 * windows that do not overlap (convblocks.h). */
#include "kernel/conv/convblocks.h"
#include "kernel/conv/convout.h"
#include "kernel/conv/convspec.h"
#include "kernel/conv/stencil.h"
#include "kernel/text/gemm.h"
#if (TPK_BITS == 32 && !defined(TPK_CONV_32)) || (TPK_BITS == 64 && !defined(TPK_CONV_64))
#if TPK_BITS == 32
#define TPK_CONV_32
#else
#define TPK_CONV_64
#endif

/* Few programs have convolutions of f64: these, and all where one shape of tiles is all there is, are
 * dense, but for what convtaps.h asks for. */
#undef TPK_ONE_WAY
#define TPK_ONE_WAY (TPK_ONE_SHAPE || TPK_BITS == 64)
#define TPK_HAS_STENCIL(c) (!TPK_ONE_WAY && TPK_N(tpk_st_fits)(c))
#define TPK_IS_ACROSS(v) (TPK_BITS == 32 && (v)->across)

#define TPK_CV_RUN 8            /* direct tiles side by side, */
#define TPK_CV_NEAR (40 * 1024) /* which read so many bytes at most, or a little more */

/* Direct tiles: TPK_CV_MR rows by two vectors at most, but by four if there are at most
 * TPK_CV_FEW rows, where registers allow. */
#if TPK_MR >= 8
#define TPK_CV_MR 6
#define TPK_CV_FEW 6
#define TPK_EACH_CV_FEW(X) X(1) X(3) X(4) X(6)
#define TPK_EACH_CV_MANY(X)
#elif TPK_MR == 6
#define TPK_CV_MR 6
#define TPK_CV_FEW 3
#define TPK_EACH_CV_FEW(X) X(1) X(3)
#define TPK_EACH_CV_MANY(X) X(4) X(6)
#else
#define TPK_CV_MR 4
#define TPK_CV_FEW 3
#define TPK_EACH_CV_FEW(X) X(1) X(3)
#define TPK_EACH_CV_MANY(X) X(4)
#endif

/* A direct tile: rows of A, packed [k][rows], by up to four vectors of windows. Vector v is read
 * from s[v] and its first n[v] lanes go to d[v] (row i at d_rs * i). */
typedef struct {
    int64_t rows, a_step, k, d_rs, n[4]; /* a_step: rows of A as packed */
    const TPK_E *a, *s[4];
    const int64_t *ko;
    TPK_E *d[4];
    int wide;
} TPK_N(tpk_cv_tile);

#define TPK_CV_STEP2(i, p, r, row)                                                             \
    {                                                                                          \
        const TPK_E e = a[row];                                                                \
        const TPK_V x = TPK_SPLAT(e);                                                          \
        c##i##_0 = TPK_FMA(x, b0, c##i##_0);                                                   \
        c##i##_1 = TPK_FMA(x, b1, c##i##_1);                                                   \
    }
#define TPK_CV_STEP4(i, p, r, row)                                                             \
    {                                                                                          \
        const TPK_E e = a[row];                                                                \
        const TPK_V x = TPK_SPLAT(e);                                                          \
        c##i##_0 = TPK_FMA(x, b0, c##i##_0);                                                   \
        c##i##_1 = TPK_FMA(x, b1, c##i##_1);                                                   \
        c##i##_2 = TPK_FMA(x, b2, c##i##_2);                                                   \
        c##i##_3 = TPK_FMA(x, b3, c##i##_3);                                                   \
    }
#define TPK_CV_AT(i, row, v) (d##v + (row)*d_rs)
#define TPK_CV_PUT(i, row, v) TPK_STOREM(TPK_CV_AT(i, row, v), c##i##_##v, m##v);
#define TPK_CV_PUT2(i, p, r, row) TPK_CV_PUT(i, row, 0) TPK_CV_PUT(i, row, 1)
#define TPK_CV_PUT4(i, p, r, row)                                                              \
    TPK_CV_PUT2(i, p, r, row) TPK_CV_PUT(i, row, 2) TPK_CV_PUT(i, row, 3)
#define TPK_CV_EACH_CHAIN(most, vectors)                                                       \
    TPK_V sums[(most) * (vectors)], *at = sums;                                                \
    for (int64_t k = t->k, left = 0, more = 0;; more = 1) {                                    \
        TPK_STAYS_IN_MEMORY(at);                                                               \
        TPK_R##most(TPK_ZERO##vectors);                                                        \
        left = tpk_i_min(k, TPK_CHAIN);                                                        \
        k -= left;
#define TPK_CV_CLOSE(most, vectors)                                                            \
    if (more) {                                                                                \
        TPK_R##most(TPK_ADD##vectors)                                                          \
    }                                                                                          \
    if (k == 0) {                                                                              \
        TPK_R##most(TPK_CV_PUT##vectors) return;                                               \
    }                                                                                          \
    TPK_R##most(TPK_PUT##vectors)                                                              \
    }

#define TPK_CV_TILE2(most)                                                                     \
    TPK_OUT void TPK_N(tpk_cv_tile##most)(const TPK_N(tpk_cv_tile) * t)                        \
    {                                                                                          \
        const TPK_M m0 = TPK_MASK(t->n[0]), m1 = TPK_MASK(t->n[1]);                            \
        const TPK_E *a = t->a, *const s0 = t->s[0], *const s1 = t->s[1];                       \
        TPK_E *const d0 = t->d[0], *const d1 = t->d[1];                                        \
        const int64_t *ko = t->ko, rows = t->rows, a_step = t->a_step, d_rs = t->d_rs;         \
        TPK_CV_EACH_CHAIN(most, 2)                                                             \
        for (; left > 0; left--, ko++, a += a_step) {                                          \
            const TPK_V b0 = TPK_LOAD(s0 + *ko), b1 = TPK_LOAD(s1 + *ko);                      \
            TPK_R##most(TPK_CV_STEP2)                                                          \
        }                                                                                      \
        TPK_CV_CLOSE(most, 2)                                                                  \
    }
TPK_EACH_CV_MANY(TPK_CV_TILE2)

#define TPK_CV_TILE4(most)                                                                     \
    TPK_OUT void TPK_N(tpk_cv_tile##most)(const TPK_N(tpk_cv_tile) * t)                        \
    {                                                                                          \
        const TPK_M m0 = TPK_MASK(t->n[0]), m1 = TPK_MASK(t->n[1]);                            \
        const TPK_M m2 = TPK_MASK(t->n[2]), m3 = TPK_MASK(t->n[3]);                            \
        const TPK_E *a = t->a, *const s0 = t->s[0], *const s1 = t->s[1];                       \
        const TPK_E *const s2 = t->s[2], *const s3 = t->s[3];                                  \
        TPK_E *const d0 = t->d[0], *const d1 = t->d[1];                                        \
        TPK_E *const d2 = t->d[2], *const d3 = t->d[3];                                        \
        const int64_t *ko = t->ko, rows = t->rows, a_step = t->a_step, d_rs = t->d_rs;         \
        TPK_CV_EACH_CHAIN(most, 4)                                                             \
        for (; left > 0; left--, ko++, a += a_step) {                                          \
            const TPK_V b0 = TPK_LOAD(s0 + *ko), b1 = TPK_LOAD(s1 + *ko);                      \
            const TPK_V b2 = TPK_LOAD(s2 + *ko), b3 = TPK_LOAD(s3 + *ko);                      \
            TPK_R##most(TPK_CV_STEP4)                                                          \
        }                                                                                      \
        TPK_CV_CLOSE(most, 4)                                                                  \
    }
TPK_EACH_CV_FEW(TPK_CV_TILE4)

/* `wide`: four vectors of windows. */
TPK_FN void TPK_N(tpk_cv_tile_run)(const TPK_N(tpk_cv_tile) * t)
{
    switch (t->rows < 4 && (t->wide || t->rows < 3) ? t->rows | 1 : (t->rows + 1) / 2 * 2) {
#define TPK_CASE(most)                                                                         \
    case most:                                                                                 \
        TPK_N(tpk_cv_tile##most)(t);                                                           \
        break;
        TPK_EACH_CV_FEW(TPK_CASE)
        TPK_EACH_CV_MANY(TPK_CASE)
#undef TPK_CASE
    default:
        break;
    }
}

TPK_FN void TPK_N(tpk_cv_copy)(int64_t n, const TPK_E *src, TPK_E *dst)
{
    int64_t i = 0;
    for (; i + TPK_VL <= n; i += TPK_VL) {
        TPK_STORE(dst + i, TPK_LOAD(src + i));
    }
    if (i < n) {
        TPK_STOREM(dst + i, TPK_LOADM(src + i, TPK_MASK(n - i)), TPK_MASK(n - i));
    }
}

/* n elements that are `step` apart. */
TPK_FN void TPK_N(tpk_cv_thin)(int64_t n, const TPK_E *src, int64_t step, TPK_E *dst)
{
    for (int64_t i = 0; step == 2 && i < n; i += TPK_VL) {
        const int64_t left = 2 * (n - i) - 1;
        const TPK_V a = TPK_LOADM(src + 2 * i, TPK_MASK(left));
        const TPK_V b = TPK_LOADM(src + 2 * i + TPK_VL, TPK_MASK(left - TPK_VL));
        TPK_STOREM(dst + i, TPK_EVEN(a, b), TPK_MASK(n - i));
    }
    for (int64_t i = 0; step != 2 && i < n; i++) {
        dst[i] = src[i * step];
    }
}

TPK_FN void TPK_N(tpk_cv_zero)(int64_t n, TPK_E *dst)
{
    __builtin_memset(dst, 0, (size_t)n * sizeof *dst);
}

/* The copy of the channels of one image. The padding around it has been made zero before. */
TPK_OUT void TPK_N(tpk_cv_pad)(const tpk_patch *p, const TPK_E *src, TPK_E *dst)
{
    int64_t from[3], to[3]; /* what of ext is not padding */
    for (int i = 0; i < 3; i++) {
        from[i] = p->lo[i] < 0 ? 0 : p->lo[i];
        to[i] = tpk_i_min(p->ext[i], p->lo[i] + p->src[i]);
    }
    const int64_t n = to[2] - from[2];
    for (int64_t c = 0; c < p->channels; c++, dst += p->plane) {
        for (int64_t d = from[0]; d < to[0]; d++) {
            const TPK_E *s = src + c * p->cs + (d - p->lo[0]) * p->ss[0] +
                             (from[1] - p->lo[1]) * p->ss[1] + (from[2] - p->lo[2]) * p->ss[2];
            TPK_E *t = dst + (d * p->ext[1] + from[1]) * p->row;
            for (int64_t h = from[1]; h < to[1]; h++, s += p->ss[1], t += p->row) {
                if (p->step[2] == 1 && p->ss[2] == 1) {
                    TPK_N(tpk_cv_copy)(n, s, t + from[2]);
                    continue;
                }
                for (int64_t w = 0; w < tpk_i_min(p->step[2], n); w++) {
                    const int64_t at = from[2] + w;
                    TPK_N(tpk_cv_thin)
                    (tpk_i_ceil(n - w, p->step[2]), s + w * p->ss[2], p->step[2] * p->ss[2],
                     t + at % p->step[2] * p->cols + at / p->step[2]);
                }
            }
        }
    }
}

/* Everything that conv and conv_dx have in common, for one group (and residue): Y = A B with
 * m rows, k = (channel, tap); the source of B has strides ps between images; Y has strides ds
 * (image, row of Y, d, h, w). Offsets are in the workspace, in bytes. */
typedef struct {
    tpk_patch p;
    int64_t m, k, batch, images, chunk, source_image, copy_image;
    int64_t ds[5];
    int64_t at_ko, at_kw, at_a, at_copy, at_c, at_mm, size;
    int way, direct, line, across; /* way: that of the tpk_conv */
    int64_t first, whole;          /* and these */
    int joined, in_place; /* rows of an image of Y join; and C of the product is Y itself */
    TPK_N(tpk_co) co;     /* if across: convout.h; p and ko are set when it runs */
} TPK_N(tpk_cv);

/* One tap on contiguous windows: a channel of the image, or of the copy, is a row of B as it
 * lies. */
TPK_FN int TPK_N(tpk_cv_plain)(const TPK_N(tpk_cv) * v)
{
    const tpk_patch *const p = &v->p;
    if (v->k != p->channels || p->step[0] * p->step[1] * p->step[2] != 1) {
        return 0;
    }
    if (!p->flat) {
        return p->ext[0] == p->out[0] && p->ext[1] == p->out[1] && p->ext[2] == p->out[2];
    }
    return (p->out[1] == 1 || p->ss[1] == p->out[2]) &&
           (p->out[0] == 1 || p->ss[0] == p->out[1] * p->out[2]);
}

/* Direct, but the whole image is one row. */
TPK_FN int TPK_N(tpk_cv_line)(const TPK_N(tpk_cv) * v)
{
    return v->joined && TPK_N(tpk_cv_plain)(v) && tpk_patch_pixels(&v->p) >= TPK_VL;
}

/* The cost of convout.h per k and image, in steps of fma. The exchange of windows and channels
 * costs more when a plane of the output does not stay near; so do short runs in many channels that
 * lie far apart. */
TPK_COLD int64_t TPK_N(tpk_cv_across)(TPK_N(tpk_cv) * v)
{
    TPK_N(tpk_co) *const co = &v->co;
    *co = (TPK_N(tpk_co)){
        .p = &v->p,
        .m = v->m,
        .k = v->k,
        .first = v->first,
        .whole = v->whole ? v->whole : v->m,
        .ds = {v->ds[0], v->ds[1], v->ds[2], v->ds[3], v->ds[4]}
    };
    co->images = v->batch;
    if (!v->p.flat) {
        const int64_t bytes = v->p.channels * v->p.plane * (int64_t)sizeof(TPK_E);
        co->images = tpk_i_min(v->batch, (1 << 20) / (bytes > 0 ? bytes : 1));
        co->images = co->images < 1 ? 1 : co->images;
    }
    TPK_N(tpk_co_plan)(co, v->joined && TPK_N(tpk_cv_plain)(v));
    const int64_t pixels = tpk_patch_pixels(&v->p), turn = 150 + 3 * tpk_i_min(pixels, 350);
    const int64_t run = v->p.flat && pixels > 512 ? 2 * co->run : co->run;
    const int64_t fma = run * co->nr / TPK_VL, tiles = tpk_i_ceil(co->units, 2);
    const int64_t steps = co->units * (fma < 4 ? 4 : fma); /* an odd run alone is half a tile */
    return (steps + tiles * turn / v->k) * tpk_i_ceil(v->m, co->nr) / co->images;
}

/* Bytes of a packed A. */
TPK_COLD int64_t TPK_N(tpk_cv_w_size)(const TPK_N(tpk_cv) * v)
{
    return (TPK_IS_ACROSS(v) ? TPK_N(tpk_co_w_size)(v->m, v->k) : v->m * v->k) *
           (int64_t)sizeof(TPK_E);
}

/* The cost of gemm.h per k and image, in steps of fma, images being done together: a piece of a row
 * costs five, passing C by a tenth, a vector of it that is passed on to Y eighteen. */
TPK_COLD int64_t TPK_N(tpk_cv_dense_cost)(const TPK_N(tpk_cv) * v, int64_t vectors,
                                          int64_t images)
{
    const int64_t dense = tpk_i_ceil(images * tpk_patch_pixels(&v->p), TPK_NR) * 2;
    const int64_t fill = TPK_N(tpk_cv_plain)(v) ? 0 : 5 * (vectors * images + dense);
    const int64_t pass = images == 1 && v->joined ? 0 : 18 * vectors * v->m / v->k;
    return (dense * v->m + fill) / images * 11 / 10 + pass;
}

TPK_COLD void TPK_N(tpk_cv_choose)(TPK_N(tpk_cv) * v)
{
    const tpk_patch *const p = &v->p;
    const int64_t pixels = tpk_patch_pixels(p), rows = p->out[0] * p->out[1];
    const int line = TPK_N(tpk_cv_line)(v);
    const int64_t vectors =
        line ? tpk_i_ceil(pixels, TPK_VL) : rows * tpk_i_ceil(p->out[2], TPK_VL);
    const int64_t many = pixels >= 1024 ? 1 : tpk_i_min(v->batch, 1024 / pixels);
    const int64_t one_cost = TPK_N(tpk_cv_dense_cost)(v, vectors, 1);
    const int64_t many_cost = TPK_N(tpk_cv_dense_cost)(v, vectors, many);
    const int64_t dense_cost = tpk_i_min(one_cost, many_cost);
    v->images = many_cost < one_cost ? many : 1;
    const int64_t copy = line ? 0 : 2 * p->channels * p->plane / TPK_VL / v->k;
    /* Rows of B that are read in place are better kept by tiles of more rows of A. */
    const int64_t direct_cost = (vectors * v->m + copy) * (line && v->k > 48 ? 12 : 10) / 10;
    v->direct = direct_cost <= dense_cost && v->m * v->k <= 128 * 1024;
    v->across = TPK_N(tpk_cv_across)(v) < (v->direct ? direct_cost : dense_cost);
    if (TPK_ONE_WAY || v->way != 0) {
        v->direct = TPK_BITS == 32 && v->way == TPK_WAY_DIRECT;
        v->across = TPK_BITS == 32 && v->way == TPK_WAY_ACROSS;
    }
    v->direct = v->direct && !v->across;
    v->images = v->across   ? v->co.images
                : v->direct ? tpk_i_min(v->batch, tpk_i_ceil(16, vectors))
                            : v->images;
}

TPK_COLD void TPK_N(tpk_cv_plan)(TPK_N(tpk_cv) * v)
{
    tpk_patch *const p = &v->p;
    const int64_t pixels = tpk_patch_pixels(p), e = (int64_t)sizeof(TPK_E);
    v->joined = v->ds[4] == 1 && (p->out[0] * p->out[1] <= 1 || v->ds[3] == p->out[2]) &&
                (p->out[0] == 1 || v->ds[2] == p->out[1] * p->out[2]);
    v->direct = v->across = 0;
    v->images = 1;
    if (pixels > 0 && v->k > 0) {
        TPK_N(tpk_cv_choose)(v);
    }
    v->line = v->direct && TPK_N(tpk_cv_line)(v);
    if (v->line) {
        p->out[0] = p->out[1] = 1;
        p->out[2] = pixels;
    } else if (v->direct) {
        p->flat = 0; /* whole vectors are read, also at the end */
        p->cols = tpk_i_ceil(p->ext[2], p->step[2]);
        p->row = p->cols * p->step[2];
        p->plane = p->ext[0] * p->ext[1] * p->row;
    }
    v->in_place = v->joined && v->images == 1;
    v->chunk = v->in_place ? pixels : tpk_i_min(v->images * pixels, 2048);
    v->copy_image = p->flat ? v->source_image : p->channels * p->plane;
    v->at_ko = 0;
    v->at_kw = v->at_ko + tpk_cv_round_up(v->k * 8);
    v->at_a = v->at_kw + tpk_cv_round_up(v->k * 8);
    v->at_copy = v->at_a + tpk_cv_round_up(TPK_N(tpk_cv_w_size)(v));
    v->at_c = v->at_copy;
    if (!p->flat) {
        v->at_c += tpk_cv_round_up((v->images * v->copy_image + TPK_VL) * e);
    }
    v->at_mm = v->at_c;
    if (v->across) {
        v->co.xs = v->copy_image;
        v->size = v->at_c + v->co.size;
    } else if (v->direct) {
        v->at_mm += v->ds[4] == 1 ? 0 : TPK_CV_MR * 4 * TPK_VL * e;
        v->size = v->at_mm;
    } else {
        v->at_mm += v->in_place ? 0 : tpk_cv_round_up(v->m * v->chunk * e);
        v->size = v->at_mm + (int64_t)TPK_N(tpk_gemm_ws)(v->m, v->chunk, v->k);
    }
}

/* Packs A, whose element (i, k) is w[i * rs + kw[k]], as is needed. */
TPK_OUT void TPK_N(tpk_cv_pack_a)(const TPK_N(tpk_cv) * v, const TPK_E *w, int64_t rs,
                                  const int64_t *kw, TPK_E *dst)
{
    const int64_t k = v->k;
    const tpk_rows cut = tpk_rows_cut(v->m, v->direct ? TPK_CV_MR : TPK_MR);
    if (TPK_IS_ACROSS(v)) {
        TPK_N(tpk_co_pack_w)(&v->co, w, rs, kw, dst);
        return;
    }
    int64_t run = 1;
    while (run < k && kw[run] == kw[0] + run) {
        run++;
    }
    for (int64_t p = 0; p < cut.parts; p++) {
        const int64_t i = tpk_rows_at(&cut, p), rows = tpk_rows_at(&cut, p + 1) - i;
        if (run == k) {
            TPK_N(tpk_pack)(rows, rows, k, w + i * rs + kw[0], rs, 1, dst + i * k);
            continue;
        }
        for (int64_t kk = 0; kk < k; kk++) {
            const TPK_E *const from = w + i * rs + kw[kk];
            for (int64_t r = 0; r < rows; r++) {
                dst[i * k + kk * rows + r] = from[r * rs];
            }
        }
    }
}

/* rows of n finished sums, which go to y `step` apart. */
TPK_FN void TPK_N(tpk_cv_scatter)(int64_t rows, int64_t n, const TPK_E *from, int64_t from_rs,
                                  TPK_E *y, int64_t y_rs, int64_t step)
{
    for (int64_t r = 0; r < rows; r++, from += from_rs, y += y_rs) {
        for (int64_t l = 0; l < n; l++) {
            y[l * step] = from[l];
        }
    }
}

/* Up to four vectors of neighbouring windows: where each is read and written, and its lanes. */
typedef struct {
    const TPK_E *s[4];
    TPK_E *d[4];
    int64_t n[4];
} TPK_N(tpk_cv_place);

/* The next `side` vectors. Where an image is one row, its last vector is moved back to where it is
 * whole; some of its windows are done twice. */
TPK_FN void TPK_N(tpk_cv_next)(const TPK_N(tpk_cv) * v, tpk_cv_walk *at, int64_t side,
                               int64_t left, const TPK_E *copy, TPK_E *y,
                               TPK_N(tpk_cv_place) * to)
{
    const tpk_patch *const p = &v->p;
    for (int64_t i = 0; i < side; i++) {
        to->s[i] = copy;
        to->d[i] = y;
        to->n[i] = 0;
        if (i < left) {
            const int64_t n = tpk_i_min(TPK_VL, p->out[2] - at->w);
            const int64_t w = v->line ? at->w + n - TPK_VL : at->w;
            to->n[i] = v->line ? TPK_VL : n;
            to->s[i] += at->image * v->copy_image + tpk_patch_row(p, at->d, at->h) + w;
            to->d[i] +=
                at->image * v->ds[0] + at->d * v->ds[2] + at->h * v->ds[3] + w * v->ds[4];
            tpk_cv_walk_on(p, at, n);
        }
    }
}

/* Direct: images from their copies. Each few rows of A meet a run of vectors, which stay in the
 * first cache, before the next rows do. */
TPK_OUT void TPK_N(tpk_cv_direct)(const TPK_N(tpk_cv) * v, char *ws, const TPK_E *ap,
                                  const TPK_E *copy, int64_t images, TPK_E *y)
{
    const tpk_patch *const p = &v->p;
    TPK_E *const spread = (TPK_E *)(void *)(ws + v->at_c);
    const int64_t *const ko = (const int64_t *)(const void *)(ws + v->at_ko);
    const tpk_rows cut = tpk_rows_cut(v->whole ? v->whole : v->m, TPK_CV_MR);
    const int64_t side = v->m <= TPK_CV_FEW || TPK_CV_FEW == TPK_CV_MR ? 4 : 2, step = v->ds[4];
    int64_t left = images * p->out[0] * p->out[1] * tpk_i_ceil(p->out[2], TPK_VL);
    int64_t most = TPK_CV_RUN;
    if (v->line) {
        const int64_t bytes = side * TPK_VL * (int64_t)sizeof(TPK_E) * (v->k + 1);
        most = tpk_i_min(most, 1 + TPK_CV_NEAR / bytes);
    }
    tpk_cv_walk at = {0, 0, 0, 0};
    TPK_N(tpk_cv_place) place[TPK_CV_RUN];
    TPK_N(tpk_cv_tile)
    t = {
        .k = v->k,
        .ko = ko,
        .wide = side == 4,
        .d_rs = step == 1 ? v->ds[1] : side * TPK_VL,
        .s = {copy, copy, copy, copy},
        .d = {y,    y,    y,    y   }
    };
    while (left > 0) {
        int64_t run = 0;
        for (; run < most && left > 0; run++, left -= side) {
            TPK_N(tpk_cv_next)(v, &at, side, left, copy, y, &place[run]);
        }
        for (int64_t q = 0, end = 0; q < cut.parts; q++) {
            /* A panel of A, and what of it is to be done. */
            const int64_t begin = tpk_rows_at(&cut, q),
                          from = begin < v->first ? v->first : begin;
            const int64_t i = from - v->first;
            end = tpk_rows_at(&cut, q + 1);
            t.a_step = end - begin;
            t.rows = tpk_i_min(end, v->first + v->m) - from;
            t.a = ap + begin * v->k + from - begin;
            if (t.rows <= 0) {
                continue;
            }
            for (int64_t x = 0; x < run; x++) {
                const TPK_N(tpk_cv_place) *const to = &place[x];
                for (int64_t z = 0; z < side; z++) {
                    t.s[z] = to->s[z];
                    t.n[z] = to->n[z];
                    t.d[z] = step == 1 ? to->d[z] + i * v->ds[1] : spread + z * TPK_VL;
                }
                TPK_N(tpk_cv_tile_run)(&t);
                for (int64_t z = 0; z < side && step != 1; z++) {
                    TPK_N(tpk_cv_scatter)
                    (t.rows, t.n[z], t.d[z], t.d_rs, to->d[z] + i * v->ds[1], v->ds[1], step);
                }
            }
        }
    }
}

/* What the functions that fill panels look at. */
typedef struct {
    const TPK_N(tpk_cv) * v;
    const int64_t *ko;
    const TPK_E *copy; /* the first image of this pass */
    int64_t first;     /* the column of B that gemm.h calls 0 */
} TPK_N(tpk_cv_from);

TPK_OUT void TPK_N(tpk_cv_fill)(void *from, int64_t j, int64_t cols, int64_t k, int64_t kk,
                                TPK_E *dst)
{
    const TPK_N(tpk_cv_from) *const f = from;
    const tpk_patch *const p = &f->v->p;
    const int64_t pixels = tpk_patch_pixels(p), area = p->out[1] * p->out[2];
    const int64_t *const ko = f->ko + k;
    if (cols < TPK_NR) {
        TPK_N(tpk_cv_zero)(kk * TPK_NR, dst);
    }
    int64_t n = 0;
    for (int64_t x = 0; x < cols; x += n) {
        const int64_t at = f->first + j + x, image = at / pixels, pixel = at % pixels;
        const int64_t w = pixel % p->out[2];
        n = tpk_i_min(TPK_VL, tpk_i_min(cols - x, p->out[2] - w));
        const TPK_E *const s = f->copy + image * f->v->copy_image + w +
                               tpk_patch_row(p, pixel / area, pixel % area / p->out[2]);
        const TPK_M m = TPK_MASK(n);
        for (int64_t i = 0; i < kk; i++) {
            TPK_STOREM(dst + i * TPK_NR + x, TPK_LOADM(s + ko[i], m), m);
        }
    }
}

TPK_OUT void TPK_N(tpk_cv_dense)(const TPK_N(tpk_cv) * v, char *ws, const TPK_E *ap,
                                 const TPK_E *copy, int64_t images, TPK_E *y)
{
    const tpk_patch *const p = &v->p;
    const int64_t pixels = tpk_patch_pixels(p), area = p->out[1] * p->out[2];
    TPK_E *const c = (TPK_E *)(void *)(ws + v->at_c);
    TPK_N(tpk_cv_from)
    from = {.v = v, .copy = copy, .ko = (const int64_t *)(const void *)(ws + v->at_ko)};
    const int plain = images == 1 && TPK_N(tpk_cv_plain)(v);
    for (int64_t j = 0; j < images * pixels; j += v->chunk) {
        const int64_t n = tpk_i_min(v->chunk, images * pixels - j);
        from.first = j;
        const TPK_N(tpk_mm) q = {.m = v->m,
                                 .n = n,
                                 .k = v->k,
                                 .ap = ap,
                                 .c = v->in_place ? y : c,
                                 .c_rs = v->in_place ? v->ds[1] : n,
                                 .b = copy + j,
                                 .b_rs = p->flat ? p->cs : p->plane,
                                 .b_cs = 1,
                                 .fill_b = plain ? NULL : TPK_N(tpk_cv_fill),
                                 .from = &from,
                                 .ws = ws + v->at_mm};
        TPK_N(tpk_mm_run)(&q);
        for (int64_t x = 0; x < n && !v->in_place;) {
            const int64_t image = (j + x) / pixels, pixel = (j + x) % pixels;
            const int64_t w = pixel % p->out[2], row = pixel / p->out[2];
            const int64_t run = tpk_i_min(n - x, v->joined ? pixels - pixel : p->out[2] - w);
            TPK_E *const to = y + image * v->ds[0] + pixel / area * v->ds[2] +
                              row % p->out[1] * v->ds[3] + w * v->ds[4];
            for (int64_t i = 0; i < v->m; i++) {
                if (v->ds[4] == 1) {
                    TPK_N(tpk_cv_copy)(run, c + i * n + x, to + i * v->ds[1]);
                    continue;
                }
                TPK_N(tpk_cv_scatter)
                (1, run, c + i * n + x, 0, to + i * v->ds[1], 0, v->ds[4]);
            }
            x += run;
        }
    }
}

/* All images of one group. ap: A packed beforehand, or null. */
TPK_OUT void TPK_N(tpk_cv_run)(const TPK_N(tpk_cv) * v, char *ws, const TPK_E *w, int64_t w_rs,
                               const TPK_E *ap, const TPK_E *x, TPK_E *y)
{
    const tpk_patch *const p = &v->p;
    TPK_E *const copies = (TPK_E *)(void *)(ws + v->at_copy);
    if (!ap && v->k > 0) {
        TPK_E *const a = (TPK_E *)(void *)(ws + v->at_a);
        TPK_N(tpk_cv_pack_a)
        (v, w, w_rs, (const int64_t *)(const void *)(ws + v->at_kw), a);
        ap = a;
    }
    if (!p->flat) {
        TPK_N(tpk_cv_zero)(v->images * v->copy_image + TPK_VL, copies);
    }
    for (int64_t n = 0; n < v->batch; n += v->images) {
        const int64_t images = tpk_i_min(v->images, v->batch - n);
        const TPK_E *copy = x + n * v->source_image;
        if (!p->flat) {
            for (int64_t i = 0; i < images; i++) {
                TPK_N(tpk_cv_pad)(p, x + (n + i) * v->source_image, copies + i * v->copy_image);
            }
            copy = copies;
        }
        if (TPK_IS_ACROSS(v) && v->k > 0) {
            TPK_N(tpk_co) co = v->co;
            co.p = p;
            co.ko = (const int64_t *)(const void *)(ws + v->at_ko);
            co.units = images * (co.units / co.images);
            TPK_N(tpk_co_run)(&co, copy, ap, y + n * v->ds[0], ws + v->at_c);
            continue;
        }
        if (TPK_ONE_WAY || !v->direct) {
            TPK_N(tpk_cv_dense)(v, ws, ap, copy, images, y + n * v->ds[0]);
            continue;
        }
        TPK_N(tpk_cv_direct)(v, ws, ap, copy, images, y + n * v->ds[0]);
    }
}

/* conv. */
TPK_COLD TPK_N(tpk_cv) TPK_N(tpk_conv_make)(const tpk_conv *c)
{
    TPK_N(tpk_cv)
    v = {
        .p = tpk_patch_of_x(c),
        .m = c->oc / c->groups,
        .batch = c->batch,
        .way = c->way,
        .first = c->first,
        .whole = c->whole,
        .source_image = c->xs[0],
        .ds = {c->ys[0], c->ys[1], c->ys[2], c->ys[3], c->ys[4]}
    };
    v.k = v.p.channels * c->ker[0] * c->ker[1] * c->ker[2];
    TPK_N(tpk_cv_plan)(&v);
    return v;
}

TPK_COLD size_t TPK_N(tpk_conv_ws)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (tpk_conv_empty(&c)) {
        return 0;
    }
    return (size_t)(TPK_HAS_STENCIL(&c) ? TPK_N(tpk_st_make)(&c).size
                                        : TPK_N(tpk_conv_make)(&c).size);
}

/* w packed once for every conv of these sizes: bytes, packing, and the conv that uses it. */
TPK_COLD size_t TPK_N(tpk_conv_packed_w_size)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (tpk_conv_empty(&c)) {
        return 0;
    }
    if (TPK_HAS_STENCIL(&c)) {
        return (size_t)(c.oc * c.ker[1] * c.ker[2]) * sizeof(TPK_E);
    }
    const TPK_N(tpk_cv) v = TPK_N(tpk_conv_make)(&c);
    return (size_t)(c.groups * TPK_N(tpk_cv_w_size)(&v));
}

/* The way that a packed w is laid out for. */
TPK_COLD int TPK_N(tpk_conv_way)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (tpk_conv_empty(&c)) {
        return TPK_WAY_DENSE;
    }
    const TPK_N(tpk_cv) v = TPK_N(tpk_conv_make)(&c);
    return v.across ? TPK_WAY_ACROSS : v.direct ? TPK_WAY_DIRECT : TPK_WAY_DENSE;
}

/* ws: as for conv itself. */
TPK_COLD void TPK_N(tpk_conv_pack_w)(const tpk_conv *spec, const TPK_E *w, TPK_E *wp, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (tpk_conv_empty(&c)) {
        return;
    }
    if (TPK_HAS_STENCIL(&c)) {
        TPK_N(tpk_st_pack_w)(&c, w, wp);
        return;
    }
    const TPK_N(tpk_cv) v = TPK_N(tpk_conv_make)(&c);
    int64_t *const ko = (int64_t *)(void *)((char *)ws + v.at_ko);
    int64_t *const kw = (int64_t *)(void *)((char *)ws + v.at_kw);
    tpk_conv_tables(&c, &v.p, ko, kw);
    for (int64_t g = 0; g < c.groups && v.k > 0; g++) {
        TPK_N(tpk_cv_pack_a)
        (&v, w + g * v.m * c.ws[0], c.ws[0], kw,
         wp + g * TPK_N(tpk_cv_w_size)(&v) / (int64_t)sizeof(TPK_E));
    }
}

TPK_COLD void TPK_N(tpk_conv_any)(const tpk_conv *spec, const TPK_E *x, const TPK_E *w,
                                  const TPK_E *wp, TPK_E *y, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (tpk_conv_empty(&c)) {
        return;
    }
    if (TPK_HAS_STENCIL(&c)) {
        TPK_N(tpk_st_run)(&c, x, w, wp, y, ws);
        return;
    }
    const TPK_N(tpk_cv) v = TPK_N(tpk_conv_make)(&c);
    tpk_conv_tables(&c, &v.p, (int64_t *)(void *)((char *)ws + v.at_ko),
                    wp ? NULL : (int64_t *)(void *)((char *)ws + v.at_kw));
    const int64_t size = TPK_N(tpk_cv_w_size)(&v) / (int64_t)sizeof(TPK_E);
    for (int64_t g = 0; g < c.groups; g++) {
        TPK_N(tpk_cv_run)
        (&v, ws, w ? w + g * v.m * c.ws[0] : NULL, c.ws[0], wp ? wp + g * size : NULL,
         x + g * v.p.channels * c.xs[1], y + g * v.m * c.ys[1]);
    }
}

TPK_COLD void TPK_N(tpk_conv)(const tpk_conv *spec, const TPK_E *x, const TPK_E *w, TPK_E *y,
                              void *ws)
{
    TPK_N(tpk_conv_any)(spec, x, w, NULL, y, ws);
}

TPK_COLD void TPK_N(tpk_conv_packed_w)(const tpk_conv *spec, const TPK_E *x, const TPK_E *wp,
                                       TPK_E *y, void *ws)
{
    TPK_N(tpk_conv_any)(spec, x, NULL, wp, y, ws);
}

/* conv_dx: residues r of the positions of x modulo the stride. */
TPK_COLD TPK_N(tpk_cv) TPK_N(tpk_conv_dx_make)(const tpk_conv *c, const int64_t r[3])
{
    int64_t taps[3];
    TPK_N(tpk_cv)
    v = {
        .p = tpk_patch_of_y(c, r, taps),
        .m = c->ic / c->groups,
        .batch = c->batch,
        .source_image = c->ys[0],
        .ds = {c->xs[0], c->xs[1]}
    };
    for (int i = 0; i < 3; i++) {
        v.ds[i + 2] = c->xs[i + 2] * c->stride[i];
    }
    v.k = v.p.channels * taps[0] * taps[1] * taps[2];
    TPK_N(tpk_cv_plan)(&v);
    return v;
}

TPK_COLD size_t TPK_N(tpk_conv_dx_ws)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    int64_t r[3] = {0, 0, 0}, most = 0;
    if (tpk_conv_dx_empty(&c)) {
        return 0;
    }
#if !TPK_ONE_WAY
    if (tpk_conv_has_blocks(&c)) {
        return (size_t)tpk_blocks_make(&c).size;
    }
#endif
    do {
        const int64_t size = TPK_N(tpk_conv_dx_make)(&c, r).size;
        most = size > most ? size : most;
    } while (tpk_conv_dx_next(&c, r));
    return (size_t)most;
}

TPK_COLD void TPK_N(tpk_conv_dx)(const tpk_conv *spec, const TPK_E *y, const TPK_E *w, TPK_E *x,
                                 void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    int64_t r[3] = {0, 0, 0};
    if (tpk_conv_dx_empty(&c)) {
        return;
    }
#if !TPK_ONE_WAY
    if (tpk_conv_has_blocks(&c)) {
        tpk_blocks_run(&c, y, w, x, ws);
        return;
    }
#endif
    do {
        const TPK_N(tpk_cv) v = TPK_N(tpk_conv_dx_make)(&c, r);
        tpk_conv_dx_tables(&c, &v.p, r, (int64_t *)(void *)((char *)ws + v.at_ko),
                           (int64_t *)(void *)((char *)ws + v.at_kw));
        TPK_E *const at = x + r[0] * c.xs[2] + r[1] * c.xs[3] + r[2] * c.xs[4];
        for (int64_t g = 0; g < c.groups; g++) {
            TPK_N(tpk_cv_run)
            (&v, ws, w + g * v.p.channels * c.ws[0], c.ws[1], NULL,
             y + g * v.p.channels * c.ys[1], at + g * v.m * c.xs[1]);
        }
    } while (tpk_conv_dx_next(&c, r));
}
#endif
