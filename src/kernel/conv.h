/* conv.h: convolutions of one to three dimensions for one element type (TPK_BITS), with the bits
 * of the plain loops in convref.h.
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
 * The first two go one of two ways. With few output channels, packing would cost more than the
 * arithmetic: vectors of neighbouring windows are read straight from the copy, a table saying
 * where each k lies ("direct"; rows of the output are not joined, so their ends are lost lanes).
 * With many, gemm.h does the work and asks for its panels of B, which are filled with pieces of
 * rows; windows of several small images are then joined.
 *
 * conv_dw always goes through gemm.h. k runs over windows, so a row of B is a window's taps: they
 * are put together from the rows of the kernel, or turned in registers where those are short. For
 * two dimensions and stride 1, B is not made at all: the row for one row of the kernel is that of
 * the next row one row of windows later, so vectors of taps are made once per place and read at
 * several ("slides"). The columns of w then come in another order, which is put right at the
 * end. */
#include "convspec.h"
#include "gemm.h"
#include "stencil.h"
#if (TPK_BITS == 32 && !defined(TPK_CONV_32)) || (TPK_BITS == 64 && !defined(TPK_CONV_64))
#if TPK_BITS == 32
#define TPK_CONV_32
#else
#define TPK_CONV_64
#endif

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
 * from s[v] and its first n[v] lanes go to d[v] (row i at d_rs * i), or are added there. */
typedef struct {
    int64_t rows, k, d_rs, n[4];
    const TPK_E *a, *s[4];
    const int64_t *ko;
    TPK_E *d[4];
    int add, wide;
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
#define TPK_CV_ADD(i, row, v) c##i##_##v = TPK_LOADM(TPK_CV_AT(i, row, v), m##v) + c##i##_##v;
#define TPK_CV_PUT(i, row, v) TPK_STOREM(TPK_CV_AT(i, row, v), c##i##_##v, m##v);
#define TPK_CV_ADD2(i, p, r, row) TPK_CV_ADD(i, row, 0) TPK_CV_ADD(i, row, 1)
#define TPK_CV_ADD4(i, p, r, row)                                                              \
    TPK_CV_ADD2(i, p, r, row) TPK_CV_ADD(i, row, 2) TPK_CV_ADD(i, row, 3)
#define TPK_CV_PUT2(i, p, r, row) TPK_CV_PUT(i, row, 0) TPK_CV_PUT(i, row, 1)
#define TPK_CV_PUT4(i, p, r, row)                                                              \
    TPK_CV_PUT2(i, p, r, row) TPK_CV_PUT(i, row, 2) TPK_CV_PUT(i, row, 3)
/* The last row may be there twice: all are read before any is written. */
#define TPK_CV_DONE(most, n)                                                                   \
    if (t->add) {                                                                              \
        TPK_R##most(TPK_CV_ADD##n)                                                             \
    }                                                                                          \
    TPK_R##most(TPK_CV_PUT##n)

#define TPK_CV_TILE2(most)                                                                     \
    TPK_OUT void TPK_N(tpk_cv_tile##most)(const TPK_N(tpk_cv_tile) * t)                        \
    {                                                                                          \
        const TPK_M m0 = TPK_MASK(t->n[0]), m1 = TPK_MASK(t->n[1]);                            \
        const TPK_E *a = t->a, *const s0 = t->s[0], *const s1 = t->s[1];                       \
        const int64_t *ko = t->ko, rows = t->rows;                                             \
        TPK_R##most(TPK_ZERO2);                                                                \
        for (int64_t k = t->k; k > 0; k--, ko++, a += rows) {                                  \
            const TPK_V b0 = TPK_LOAD(s0 + *ko), b1 = TPK_LOAD(s1 + *ko);                      \
            TPK_R##most(TPK_CV_STEP2)                                                          \
        }                                                                                      \
        TPK_E *const d0 = t->d[0], *const d1 = t->d[1];                                        \
        const int64_t d_rs = t->d_rs;                                                          \
        TPK_CV_DONE(most, 2)                                                                   \
    }
TPK_EACH_CV_MANY(TPK_CV_TILE2)

#define TPK_CV_TILE4(most)                                                                     \
    TPK_OUT void TPK_N(tpk_cv_tile##most)(const TPK_N(tpk_cv_tile) * t)                        \
    {                                                                                          \
        const TPK_M m0 = TPK_MASK(t->n[0]), m1 = TPK_MASK(t->n[1]);                            \
        const TPK_M m2 = TPK_MASK(t->n[2]), m3 = TPK_MASK(t->n[3]);                            \
        const TPK_E *a = t->a, *const s0 = t->s[0], *const s1 = t->s[1];                       \
        const TPK_E *const s2 = t->s[2], *const s3 = t->s[3];                                  \
        const int64_t *ko = t->ko, rows = t->rows;                                             \
        TPK_R##most(TPK_ZERO4);                                                                \
        for (int64_t k = t->k; k > 0; k--, ko++, a += rows) {                                  \
            const TPK_V b0 = TPK_LOAD(s0 + *ko), b1 = TPK_LOAD(s1 + *ko);                      \
            const TPK_V b2 = TPK_LOAD(s2 + *ko), b3 = TPK_LOAD(s3 + *ko);                      \
            TPK_R##most(TPK_CV_STEP4)                                                          \
        }                                                                                      \
        TPK_E *const d0 = t->d[0], *const d1 = t->d[1];                                        \
        TPK_E *const d2 = t->d[2], *const d3 = t->d[3];                                        \
        const int64_t d_rs = t->d_rs;                                                          \
        TPK_CV_DONE(most, 4)                                                                   \
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
                for (int64_t w = 0, r = from[2] % p->step[2], q = from[2] / p->step[2]; w < n;
                     w++) {
                    t[r * p->cols + q] = s[w * p->ss[2]];
                    r++;
                    q += r == p->step[2];
                    r = r == p->step[2] ? 0 : r;
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
    int direct, joined;
} TPK_N(tpk_cv);

TPK_COLD void TPK_N(tpk_cv_plan)(TPK_N(tpk_cv) * v)
{
    tpk_patch *const p = &v->p;
    const int64_t pixels = tpk_patch_pixels(p), rows = p->out[0] * p->out[1];
    const int64_t vectors = rows * tpk_i_ceil(p->out[2], TPK_VL);
    const int64_t e = (int64_t)sizeof(TPK_E);
    v->images = pixels >= 1024 ? 1 : tpk_i_min(v->batch, 1024 / (pixels > 0 ? pixels : 1));
    v->joined = v->ds[4] == 1 && (rows <= 1 || v->ds[3] == p->out[2]) &&
                (p->out[0] == 1 || v->ds[2] == p->out[1] * p->out[2]);
    /* Steps of fma per k, for all the images of one pass; a piece of a row costs five. */
    const int64_t dense = tpk_i_ceil(v->images * pixels, TPK_NR) * 2;
    const int64_t direct_cost = vectors * v->images * v->m;
    const int64_t dense_cost = dense * v->m + 5 * (vectors * v->images + dense);
    /* Every few rows of A read the copy again. */
    const int near = v->m <= 32 || p->channels * p->plane * e <= 1 << 20;
    v->direct = direct_cost <= dense_cost && near && v->m * v->k <= 128 * 1024;
    if (v->direct) {
        v->images = tpk_i_min(v->batch, tpk_i_ceil(16, vectors > 0 ? vectors : 1));
        p->flat = 0; /* whole vectors are read, also at the end */
        p->cols = tpk_i_ceil(p->ext[2], p->step[2]);
        p->row = p->cols * p->step[2];
        p->plane = p->ext[0] * p->ext[1] * p->row;
    }
    v->joined = v->joined && v->images == 1;
    v->chunk = v->joined ? pixels : tpk_i_min(v->images * pixels, 2048);
    v->copy_image = p->flat ? v->source_image : p->channels * p->plane;
    v->at_ko = 0;
    v->at_kw = v->at_ko + tpk_cv_round_up(v->k * 8);
    v->at_a = v->at_kw + tpk_cv_round_up(v->k * 8);
    v->at_copy = v->at_a + tpk_cv_round_up(v->m * v->k * e);
    v->at_c = v->at_copy;
    if (!p->flat) {
        v->at_c += tpk_cv_round_up((v->images * v->copy_image + TPK_VL) * e);
    }
    v->at_mm = v->at_c;
    if (v->direct) {
        v->at_mm += v->ds[4] == 1 ? 0 : TPK_CV_MR * 4 * TPK_VL * e;
        v->size = v->at_mm;
        return;
    }
    v->at_mm += v->joined ? 0 : tpk_cv_round_up(v->m * v->chunk * e);
    v->size = v->at_mm + (int64_t)TPK_N(tpk_gemm_ws)(v->m, v->chunk, v->k);
}

/* Packs A, whose element (i, k) is w[i * rs + kw[k]], in panels of at most `most` rows. */
TPK_OUT void TPK_N(tpk_cv_pack_a)(int64_t m, int64_t k, int64_t most, const TPK_E *w,
                                  int64_t rs, const int64_t *kw, TPK_E *dst)
{
    const tpk_rows cut = tpk_rows_cut(m, most);
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

/* Direct: images from their copies, k in [k0, k1) within one chain. */
TPK_OUT void TPK_N(tpk_cv_direct)(const TPK_N(tpk_cv) * v, char *ws, const TPK_E *ap,
                                  const TPK_E *copy, int64_t images, int64_t k0, int64_t k1,
                                  TPK_E *y)
{
    const tpk_patch *const p = &v->p;
    TPK_E *const spread = (TPK_E *)(void *)(ws + v->at_c);
    const int64_t *const ko = (const int64_t *)(const void *)(ws + v->at_ko);
    const tpk_rows cut = tpk_rows_cut(v->m, TPK_CV_MR);
    const int64_t side = v->m <= TPK_CV_FEW || TPK_CV_FEW == TPK_CV_MR ? 4 : 2, step = v->ds[4];
    int64_t left = images * p->out[0] * p->out[1] * tpk_i_ceil(p->out[2], TPK_VL);
    tpk_cv_walk at = {0, 0, 0, 0};
    const TPK_E *row = copy; /* where `at` begins */
    TPK_E *to_row = y;
    TPK_N(tpk_cv_tile)
    t = {
        .k = k1 - k0,
        .ko = ko + k0,
        .add = k0 > 0 && step == 1,
        .wide = side == 4,
        .d_rs = step == 1 ? v->ds[1] : side * TPK_VL,
        .s = {copy, copy, copy, copy},
        .d = {y,    y,    y,    y   }
    };
    for (; left > 0; left -= side) {
        TPK_E *to[4] = {y, y, y, y};
        for (int64_t i = 0; i < side; i++) {
            t.n[i] = 0;
            if (i >= left) {
                continue;
            }
            t.n[i] = tpk_i_min(TPK_VL, p->out[2] - at.w);
            t.s[i] = row + at.w;
            to[i] = to_row + at.w * step;
            tpk_cv_walk_on(p, &at, t.n[i]);
            if (at.w == 0) {
                row = copy + at.image * v->copy_image + tpk_patch_row(p, at.d, at.h);
                to_row = y + at.image * v->ds[0] + at.d * v->ds[2] + at.h * v->ds[3];
            }
        }
        for (int64_t q = 0; q < cut.parts; q++) {
            const int64_t i = tpk_rows_at(&cut, q);
            t.rows = tpk_rows_at(&cut, q + 1) - i;
            t.a = ap + i * v->k + k0 * t.rows;
            for (int64_t z = 0; z < side; z++) {
                t.d[z] = step == 1 ? to[z] + i * v->ds[1] : spread + z * TPK_VL;
            }
            TPK_N(tpk_cv_tile_run)(&t);
            for (int64_t z = 0; z < side && step != 1; z++) {
                for (int64_t r = 0; r < t.rows; r++) {
                    TPK_E *const out = to[z] + (i + r) * v->ds[1];
                    for (int64_t l = 0; l < t.n[z]; l++) {
                        const TPK_E got = t.d[z][r * t.d_rs + l];
                        out[l * step] = k0 > 0 ? out[l * step] + got : got;
                    }
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
    /* One tap on contiguous windows: the image is B as it lies. */
    const int plain =
        p->flat && v->k == p->channels && images == 1 && p->step[0] * p->step[1] == 1 &&
        (p->out[1] == 1 || p->ss[1] == p->out[2]) && (p->out[0] == 1 || p->ss[0] == area);
    for (int64_t j = 0; j < images * pixels; j += v->chunk) {
        const int64_t n = tpk_i_min(v->chunk, images * pixels - j);
        from.first = j;
        const TPK_N(tpk_mm) q = {.m = v->m,
                                 .n = n,
                                 .k = v->k,
                                 .ap = ap,
                                 .c = v->joined ? y : c,
                                 .c_rs = v->joined ? v->ds[1] : n,
                                 .b = copy + j,
                                 .b_rs = p->cs,
                                 .b_cs = 1,
                                 .fill_b = plain ? NULL : TPK_N(tpk_cv_fill),
                                 .from = &from,
                                 .ws = ws + v->at_mm};
        TPK_N(tpk_mm_run)(&q);
        for (int64_t x = 0; x < n && !v->joined;) {
            const int64_t image = (j + x) / pixels, pixel = (j + x) % pixels;
            const int64_t w = pixel % p->out[2], run = tpk_i_min(n - x, p->out[2] - w);
            TPK_E *const to = y + image * v->ds[0] + pixel / area * v->ds[2] +
                              pixel % area / p->out[2] * v->ds[3] + w * v->ds[4];
            for (int64_t i = 0; i < v->m; i++) {
                for (int64_t l = 0; l < run; l++) {
                    to[i * v->ds[1] + l * v->ds[4]] = c[i * n + x + l];
                }
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
        (v->m, v->k, v->direct ? TPK_CV_MR : TPK_MR, w, w_rs,
         (const int64_t *)(const void *)(ws + v->at_kw), a);
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
        if (!v->direct) {
            TPK_N(tpk_cv_dense)(v, ws, ap, copy, images, y + n * v->ds[0]);
            continue;
        }
        for (int64_t k = 0; k == 0 || k < v->k; k += TPK_CHAIN) {
            TPK_N(tpk_cv_direct)
            (v, ws, ap, copy, images, k, tpk_i_min(k + TPK_CHAIN, v->k), y + n * v->ds[0]);
        }
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
    return (size_t)(TPK_N(tpk_st_fits)(&c) ? TPK_N(tpk_st_make)(&c).size
                                           : TPK_N(tpk_conv_make)(&c).size);
}

/* w packed once for every conv of these sizes: bytes, packing, and the conv that uses it. */
TPK_COLD size_t TPK_N(tpk_conv_packed_w_size)(const tpk_conv *spec)
{
    const int64_t taps =
        spec->ker[0] * (spec->nd > 1 ? spec->ker[1] : 1) * (spec->nd > 2 ? spec->ker[2] : 1);
    return (size_t)(spec->oc * (spec->ic / spec->groups) * taps) * sizeof(TPK_E);
}

/* ws: as for conv itself. */
TPK_COLD void TPK_N(tpk_conv_pack_w)(const tpk_conv *spec, const TPK_E *w, TPK_E *wp, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (tpk_conv_empty(&c)) {
        return;
    }
    if (TPK_N(tpk_st_fits)(&c)) {
        TPK_N(tpk_st_pack_w)(&c, w, wp);
        return;
    }
    const TPK_N(tpk_cv) v = TPK_N(tpk_conv_make)(&c);
    int64_t *const ko = (int64_t *)(void *)((char *)ws + v.at_ko);
    int64_t *const kw = (int64_t *)(void *)((char *)ws + v.at_kw);
    tpk_conv_tables(&c, &v.p, ko, kw);
    for (int64_t g = 0; g < c.groups && v.k > 0; g++) {
        TPK_N(tpk_cv_pack_a)
        (v.m, v.k, v.direct ? TPK_CV_MR : TPK_MR, w + g * v.m * c.ws[0], c.ws[0], kw,
         wp + g * v.m * v.k);
    }
}

TPK_COLD void TPK_N(tpk_conv_any)(const tpk_conv *spec, const TPK_E *x, const TPK_E *w,
                                  const TPK_E *wp, TPK_E *y, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (tpk_conv_empty(&c)) {
        return;
    }
    if (TPK_N(tpk_st_fits)(&c)) {
        TPK_N(tpk_st_run)(&c, x, w, wp, y, ws);
        return;
    }
    const TPK_N(tpk_cv) v = TPK_N(tpk_conv_make)(&c);
    tpk_conv_tables(&c, &v.p, (int64_t *)(void *)((char *)ws + v.at_ko),
                    (int64_t *)(void *)((char *)ws + v.at_kw));
    for (int64_t g = 0; g < c.groups; g++) {
        TPK_N(tpk_cv_run)
        (&v, ws, w ? w + g * v.m * c.ws[0] : NULL, c.ws[0], wp ? wp + g * v.m * v.k : NULL,
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

/* conv_dw. Copies of `slots` consecutive images are kept, enough for one panel of k. */
typedef struct {
    const tpk_conv *c;
    tpk_patch p;
    int64_t m, n, k, slots, copy_image, have, had; /* images [have, had) are there */
    int64_t run, runs; /* taps of a row of the kernel; how many such rows in a vector, or 0 */
    /* Sliding vectors: `bundles` arrays, each read at `shifts` places that are `shift` rows of
     * windows apart; a vector has `runs` channels, or as many rows of one kernel (by_row). */
    int64_t bundles, shifts, shift, bundle, slid; /* elements of one; the image they are of */
    int by_row;
    TPK_E *slides;
    int64_t at_ko, at_kw, at_copy, at_c, at_slides, at_mm, size;
    const int64_t *ko;
    const TPK_E *x, *y; /* of this group */
    TPK_E *copies;
    int joined;
} TPK_N(tpk_cv_dw);

/* If the kernel is two-dimensional and windows are neighbours, most of B occurs in it several
 * times: a vector for one row of the kernel is that of the next row one row of windows later. So
 * only an array for each bundle of rows or channels is made, which is read at several places. */
TPK_COLD void TPK_N(tpk_cv_slide)(TPK_N(tpk_cv_dw) * v)
{
    const tpk_conv *const c = v->c;
    const int64_t per = c->ker[2] <= TPK_VL ? TPK_VL / c->ker[2] : 0, n = v->p.channels;
    const int64_t pixels = tpk_patch_pixels(&v->p);
    if (per == 0 || v->m < 4 || v->m > 64 || pixels < 64 || c->ker[0] * c->out[0] != 1 ||
        v->p.step[1] * v->p.step[2] * c->dil[2] != 1) {
        return;
    }
    const int64_t channels = tpk_i_ceil(n, per) * c->ker[1];
    const int64_t rows = n * tpk_i_ceil(c->ker[1], per);
    const int by_row = rows < channels;
    const int64_t bundles = by_row ? n : tpk_i_ceil(n, per);
    const int64_t shift = by_row ? per * c->dil[1] : c->dil[1];
    const int64_t shifts = by_row ? tpk_i_ceil(c->ker[1], per) : c->ker[1];
    const int64_t height = c->out[1] + (shifts - 1) * shift;
    const int64_t packed = tpk_i_ceil(n * c->ker[1] * c->ker[2], TPK_VL);
    if (8 * bundles * shifts > 9 * packed ||
        bundles * height * c->out[2] * TPK_VL > (1 << 18) / (int64_t)sizeof(TPK_E)) {
        return;
    }
    v->bundles = bundles;
    v->shifts = shifts;
    v->shift = shift;
    v->by_row = by_row;
    v->bundle = height * c->out[2] * TPK_VL;
    v->run = c->ker[2];
    v->runs = per;
    v->n = bundles * shifts * TPK_VL;
    if (by_row) { /* also the rows that lanes without a tap would read */
        v->p.ext[1] = height + (per - 1) * c->dil[1];
        tpk_patch_layout(&v->p);
    }
}

TPK_COLD TPK_N(tpk_cv_dw) TPK_N(tpk_conv_dw_make)(const tpk_conv *c)
{
    TPK_N(tpk_cv_dw) v = {.c = c, .p = tpk_patch_of_x(c), .m = c->oc / c->groups};
    const int64_t taps = c->ker[0] * c->ker[1] * c->ker[2], pixels = tpk_patch_pixels(&v.p);
    const int64_t e = (int64_t)sizeof(TPK_E);
    v.n = v.p.channels * taps;
    v.k = tpk_conv_empty(c) ? 0 : c->batch * pixels;
    v.run = v.p.step[2] == 1 && c->dil[2] == 1 ? c->ker[2] : 1;
    v.runs = v.run >= 4 && v.run <= TPK_VL ? TPK_VL / v.run : 0;
    if (4 * v.runs * v.run >= 3 * TPK_VL) {
        v.n = tpk_i_ceil(v.n / v.run, v.runs) * TPK_VL;
    } else {
        v.runs = 0;
    }
    TPK_N(tpk_cv_slide)(&v);
    v.joined = v.runs == 0 && c->ws[4] == 1 && c->ws[3] == c->ker[2] &&
               c->ws[2] == c->ker[1] * c->ker[2] && c->ws[1] == taps;
    v.slots = v.k == 0 ? 0 : tpk_i_min(c->batch, TPK_KC / pixels + 4);
    v.copy_image = v.p.flat ? c->xs[0] : v.p.channels * v.p.plane;
    v.at_kw = tpk_cv_round_up(v.n * 8);
    v.at_copy = v.at_kw + tpk_cv_round_up(v.n * 8);
    v.at_c = v.at_copy + (v.p.flat ? 0 : tpk_cv_round_up(v.slots * v.copy_image * e));
    v.at_slides = v.at_c + (v.joined ? 0 : tpk_cv_round_up(v.m * v.n * e));
    v.at_mm = v.at_slides + v.bundles * v.bundle * e;
    v.size = v.at_mm + (int64_t)TPK_N(tpk_gemm_ws)(v.m, v.n, v.k);
    return v;
}

/* With whole rows of the kernel in each vector some of its lanes are left over: spreads the
 * tables of the taps over the columns of B. */
TPK_COLD void TPK_N(tpk_cv_spread)(const TPK_N(tpk_cv_dw) * v, int64_t *ko, int64_t *kw)
{
    const tpk_conv *const c = v->c;
    const int64_t rows = v->p.channels * c->ker[0] * c->ker[1];
    for (int64_t x = 0; x < v->n && v->bundles > 0; x++) {
        const int64_t lane = x % TPK_VL, i = lane / v->run, q = x / TPK_VL % v->shifts;
        const int64_t bundle = x / TPK_VL / v->shifts;
        const int64_t channel = v->by_row ? bundle : bundle * v->runs + i;
        const int64_t h = v->by_row ? q * v->runs + i : q;
        const int none = i >= v->runs || channel >= v->p.channels || h >= c->ker[1];
        ko[x] = none ? TPK_NO_TAP : 0;
        kw[x] = channel * c->ws[1] + h * c->ws[3] + lane % v->run * c->ws[4];
    }
    for (int64_t x = v->n - 1; x >= 0 && v->runs > 0 && v->bundles == 0; x--) {
        const int64_t lane = x % TPK_VL, row = x / TPK_VL * v->runs + lane / v->run;
        const int64_t tap = row * v->run + lane % v->run; /* at most x */
        const int none = lane >= v->runs * v->run || row >= rows;
        ko[x] = none ? TPK_NO_TAP : ko[tap];
        kw[x] = none ? TPK_NO_TAP : kw[tap];
    }
}

/* dst[l * ld + x] = s[l + ko[x]], x < cols, and +0 up to NR: runs of neighbours are loaded to where they
 * belong in their vector, four at a time. */
enum { TPK_N(tpk_cv_most_runs) = 10 };
typedef struct {
    int64_t base, from[4];
    TPK_M lanes[4];
    int first, runs;
} TPK_N(tpk_cv_runs);

/* How many groups of runs there are, or 0 if too many. */
TPK_FN int TPK_N(tpk_cv_find_runs)(int64_t cols, const int64_t *ko, TPK_N(tpk_cv_runs) * g)
{
    int n = 0, runs = 0;
    for (int64_t base = 0; base < TPK_NR; base += TPK_VL) {
        const int64_t end = tpk_i_min(cols, base + TPK_VL);
        int64_t x = base;
        int first = 1;
        do {
            g[n].base = base;
            g[n].first = first;
            g[n].runs = 0;
            for (int i = 0; i < 4; i++) {
                while (x < end && ko[x] == TPK_NO_TAP) {
                    x++;
                }
                int64_t len = x < end;
                while (x + len < end && ko[x + len] == ko[x] + len) {
                    len++;
                }
                g[n].from[i] = len > 0 ? ko[x] - (x - base) : 0;
                g[n].lanes[i] = TPK_SPAN(len > 0 ? x - base : 0, len > 0 ? x - base + len : 0);
                g[n].runs += len > 0;
                x += len;
            }
            runs += g[n].runs;
            n += first || g[n].runs > 0;
            first = 0;
            if (runs > TPK_N(tpk_cv_most_runs)) {
                return 0;
            }
        } while (x < end);
    }
    return n;
}

TPK_OUT void TPK_N(tpk_cv_gather)(int64_t n, const TPK_E *s, const TPK_N(tpk_cv_runs) * g,
                                  TPK_E *dst, int64_t ld)
{
    const TPK_E *const s0 = s + g->from[0], *const s1 = s + g->from[1];
    const TPK_E *const s2 = s + g->from[2], *const s3 = s + g->from[3];
    const TPK_M m0 = g->lanes[0], m1 = g->lanes[1], m2 = g->lanes[2], m3 = g->lanes[3];
    TPK_E *to = dst + g->base;
    if (g->first && g->runs <= 3) {
        for (int64_t l = 0; l < n; l++, to += ld) {
            const TPK_V v = TPK_LOADX(s0 + l, (TPK_V){0}, m0);
            TPK_STORE(to, TPK_LOADX(s2 + l, TPK_LOADX(s1 + l, v, m1), m2));
        }
        return;
    }
    for (int64_t l = 0; l < n; l++, to += ld) {
        TPK_V v = {0};
        if (!g->first) {
            v = TPK_LOAD(to);
        }
        v = TPK_LOADX(s1 + l, TPK_LOADX(s0 + l, v, m0), m1);
        v = TPK_LOADX(s3 + l, TPK_LOADX(s2 + l, v, m2), m3);
        TPK_STORE(to, v);
    }
}

/* Makes the copies of images [first, last]. */
TPK_FN void TPK_N(tpk_cv_dw_images)(TPK_N(tpk_cv_dw) * v, int64_t first, int64_t last)
{
    if (v->p.flat || (first >= v->have && last < v->had)) {
        return;
    }
    v->have = first;
    v->had = tpk_i_min(first + v->slots, v->c->batch);
    for (int64_t i = v->have; i < v->had; i++) {
        TPK_N(tpk_cv_pad)
        (&v->p, v->x + i * v->c->xs[0], v->copies + (i - first) * v->copy_image);
    }
}

TPK_FN const TPK_E *TPK_N(tpk_cv_dw_image)(const TPK_N(tpk_cv_dw) * v, int64_t image)
{
    return v->p.flat ? v->x + image * v->copy_image
                     : v->copies + (image - v->have) * v->copy_image;
}

/* The sliding vectors of one image. */
TPK_OUT void TPK_N(tpk_cv_dw_slides)(TPK_N(tpk_cv_dw) * v, int64_t image)
{
    const tpk_patch *const p = &v->p;
    const int64_t cs = p->flat ? p->cs : p->plane, rs = p->flat ? p->ss[1] : p->row;
    const int64_t height = v->bundle / (p->out[2] * TPK_VL);
    TPK_N(tpk_cv_dw_images)(v, image, image);
    const TPK_E *const x = TPK_N(tpk_cv_dw_image)(v, image);
    for (int64_t b = 0; b < v->bundles; b++) {
        const int64_t left = v->by_row ? v->runs : p->channels - b * v->runs;
        const int64_t runs = tpk_i_min(v->runs, left);
        const int64_t unit = v->by_row ? v->c->dil[1] * rs : cs;
        for (int64_t i = 0; i < runs; i += 4) {
            TPK_N(tpk_cv_runs) g = {.first = i == 0};
            for (int64_t r = 0; r < 4 && i + r < runs; r++) {
                g.from[r] = (i + r) * (unit - v->run);
                g.lanes[r] = TPK_SPAN((i + r) * v->run, (i + r + 1) * v->run);
                g.runs++;
            }
            for (int64_t r = g.runs; r < 4; r++) {
                g.lanes[r] = TPK_SPAN(0, 0);
            }
            for (int64_t h = 0; h < height; h++) {
                TPK_N(tpk_cv_gather)
                (p->out[2], x + (v->by_row ? b : b * v->runs) * cs + h * rs, &g,
                 v->slides + b * v->bundle + h * p->out[2] * TPK_VL, TPK_VL);
            }
        }
    }
    v->slid = image;
}

TPK_OUT const TPK_E *TPK_N(tpk_cv_dw_see_b)(void *from, int64_t j, int64_t k, int64_t *rs,
                                            int64_t *gs)
{
    TPK_N(tpk_cv_dw) *const v = from;
    const int64_t pixels = tpk_patch_pixels(&v->p), row = v->p.out[2] * TPK_VL;
    if (v->slid != k / pixels) {
        TPK_N(tpk_cv_dw_slides)(v, k / pixels);
    }
    int64_t at[2];
    for (int64_t i = 0; i < 2; i++) {
        const int64_t x = tpk_i_min(j / TPK_VL + i, v->n / TPK_VL - 1);
        at[i] = x / v->shifts * v->bundle + x % v->shifts * v->shift * row;
    }
    *rs = TPK_VL;
    *gs = at[1] - at[0];
    return v->slides + at[0] + k % pixels * TPK_VL;
}

TPK_OUT void TPK_N(tpk_cv_dw_fill_b)(void *from, int64_t j, int64_t cols, int64_t k, int64_t kk,
                                     TPK_E *dst)
{
    TPK_N(tpk_cv_dw) *const v = from;
    const tpk_patch *const p = &v->p;
    const int64_t pixels = tpk_patch_pixels(p);
    TPK_N(tpk_cv_dw_images)(v, k / pixels, (k + kk - 1) / pixels);
    TPK_N(tpk_cv_runs) g[TPK_N(tpk_cv_most_runs) + 2];
    const int groups = TPK_N(tpk_cv_find_runs)(cols, v->ko + j, g);
    tpk_cv_walk at = tpk_cv_walk_at(p, k);
    int64_t n = 0;
    for (int64_t i = 0; i < kk; i += n) {
        n = tpk_i_min(kk - i, p->out[2] - at.w);
        const TPK_E *const s =
            TPK_N(tpk_cv_dw_image)(v, at.image) + tpk_patch_row(p, at.d, at.h) + at.w;
        for (int x = 0; x < groups; x++) {
            TPK_N(tpk_cv_gather)(n, s, &g[x], dst + i * TPK_NR, TPK_NR);
        }
        if (groups == 0) {
            TPK_N(tpk_pack_turn)(TPK_NR, cols, n, s, 0, v->ko + j, dst + i * TPK_NR);
        }
        tpk_cv_walk_on(p, &at, n);
    }
}

/* The windows of one image are contiguous in k if they are in memory. */
TPK_FN int TPK_N(tpk_cv_dw_joined)(const TPK_N(tpk_cv_dw) * v)
{
    const int64_t *const s = v->c->ys, *const out = v->p.out;
    return s[4] == 1 && s[3] == out[2] && (out[0] == 1 || s[2] == out[1] * out[2]);
}

TPK_OUT void TPK_N(tpk_cv_dw_fill_a)(void *from, int64_t i, int64_t rows, int64_t k, int64_t kk,
                                     TPK_E *dst)
{
    const TPK_N(tpk_cv_dw) *const v = from;
    const int64_t *const s = v->c->ys, pixels = tpk_patch_pixels(&v->p);
    const int joined = TPK_N(tpk_cv_dw_joined)(v);
    int64_t n = 0;
    for (int64_t x = 0; x < kk; x += n) {
        const tpk_cv_walk at = tpk_cv_walk_at(&v->p, k + x);
        const TPK_E *const y = v->y + i * s[1] + at.image * s[0] + at.d * s[2] + at.h * s[3];
        n = joined ? pixels - (k + x) % pixels : v->p.out[2] - at.w;
        n = tpk_i_min(kk - x, n);
        TPK_N(tpk_pack)(rows, rows, n, y + at.w * s[4], s[1], s[4], dst + x * rows);
    }
}

TPK_OUT int TPK_N(tpk_cv_dw_see_a)(void *from, int64_t k, int64_t kk, const TPK_E **a,
                                   int64_t *rs, int64_t *cs)
{
    const TPK_N(tpk_cv_dw) *const v = from;
    const int64_t pixels = tpk_patch_pixels(&v->p);
    if (v->m > 4 * TPK_MR || !TPK_N(tpk_cv_dw_joined)(v) || k % pixels + kk > pixels ||
        v->c->ys[1] * (int64_t)sizeof(TPK_E) % 2048 == 0) {
        return 0;
    }
    *a = v->y + k / pixels * v->c->ys[0] + k % pixels;
    *rs = v->c->ys[1];
    *cs = 1;
    return 1;
}

TPK_COLD size_t TPK_N(tpk_conv_dw_ws)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    return (size_t)TPK_N(tpk_conv_dw_make)(&c).size;
}

TPK_COLD void TPK_N(tpk_conv_dw)(const tpk_conv *spec, const TPK_E *x, const TPK_E *y, TPK_E *w,
                                 void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    TPK_N(tpk_cv_dw) v = TPK_N(tpk_conv_dw_make)(&c);
    int64_t *const ko = ws, *const kw = (int64_t *)(void *)((char *)ws + v.at_kw);
    tpk_conv_tables(&c, &v.p, ko, kw);
    TPK_N(tpk_cv_spread)(&v, ko, kw);
    v.ko = ko;
    v.copies = (TPK_E *)(void *)((char *)ws + v.at_copy);
    v.slides = (TPK_E *)(void *)((char *)ws + v.at_slides);
    for (int64_t g = 0; g < c.groups; g++) {
        TPK_E *const wg = w + g * v.m * c.ws[0], *const t =
                                                     (TPK_E *)(void *)((char *)ws + v.at_c);
        v.x = x + g * v.p.channels * c.xs[1];
        v.y = y + g * v.m * c.ys[1];
        v.have = v.had = 0;
        v.slid = -1;
        if (!v.p.flat) {
            TPK_N(tpk_cv_zero)(v.slots * v.copy_image, v.copies);
        }
        const TPK_N(tpk_mm)
            q = {.m = v.m,
                 .n = v.n,
                 .k = v.k,
                 .c = v.joined ? wg : t,
                 .c_rs = v.joined ? c.ws[0] : v.n,
                 .piece = tpk_patch_pixels(&v.p) >= 64 ? tpk_patch_pixels(&v.p) : 0,
                 .see_a = TPK_N(tpk_cv_dw_see_a),
                 .see_b = v.bundles > 0 ? TPK_N(tpk_cv_dw_see_b) : NULL,
                 .fill_a = TPK_N(tpk_cv_dw_fill_a),
                 .fill_b = TPK_N(tpk_cv_dw_fill_b),
                 .from = &v,
                 .ws = (char *)ws + v.at_mm};
        TPK_N(tpk_mm_run)(&q);
        for (int64_t i = 0; i < v.m && !v.joined; i++) {
            for (int64_t j = 0; j < v.n; j++) {
                if (ko[j] != TPK_NO_TAP) {
                    wg[i * c.ws[0] + kw[j]] = t[i * v.n + j];
                }
            }
        }
    }
}
#endif
