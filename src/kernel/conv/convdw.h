/* convdw.h: the gradient of a convolution's weights, for one element type (TPK_BITS); conv.h tells
 * how its three operations are one contraction.
 *
 * conv_dw always goes through gemm.h. k runs over windows, so a row of B is a window's taps: they
 * are put together from the rows of the kernel, or turned in registers where those are short. For
 * two dimensions and stride 1, B is not made at all: the row for one row of the kernel is that of
 * the next row one row of windows later, so vectors of taps are made once per place and read at
 * several ("slides"). The columns of w then come in another order, which is put right at the
 * end. */
#include "kernel/conv/convtaps.h"
#if (TPK_BITS == 32 && !defined(TPK_CONVDW_32)) || (TPK_BITS == 64 && !defined(TPK_CONVDW_64))
#if TPK_BITS == 32
#define TPK_CONVDW_32
#else
#define TPK_CONVDW_64
#endif

/* Copies of `slots` consecutive images are kept, enough for one panel of k. */
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
    int64_t piece; /* windows: no panel of k crosses a multiple */
    int64_t at_ko, at_kw, at_copy, at_c, at_slides, at_open, at_mm, size;
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
    if (per == 0 || v->m < 5 || v->m > 64 || pixels < 64 || c->ker[0] * c->out[0] != 1 ||
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
    if (!TPK_ONE_WAY) {
        TPK_N(tpk_cv_slide)(&v);
    }
    v.joined = v.runs == 0 && c->ws[4] == 1 && c->ws[3] == c->ker[2] &&
               c->ws[2] == c->ker[1] * c->ker[2] && c->ws[1] == taps;
    v.slots = v.k == 0 ? 0 : tpk_i_min(c->batch, TPK_KC / pixels + 4);
    v.copy_image = v.p.flat ? c->xs[0] : v.p.channels * v.p.plane;
    v.at_kw = tpk_cv_round_up(v.n * 8);
    v.at_copy = v.at_kw + tpk_cv_round_up(v.n * 8);
    v.at_c = v.at_copy + (v.p.flat ? 0 : tpk_cv_round_up(v.slots * v.copy_image * e));
    v.at_slides = v.at_c + (v.joined ? 0 : tpk_cv_round_up(v.m * v.n * e));
    /* Images whose vectors slide, or whose rows of A are read in place, end a panel. */
    v.piece = v.bundles > 0 || (pixels >= TPK_CHAIN && v.m <= 4 * TPK_MR) ? pixels : 0;
    v.at_open = v.at_slides + v.bundles * v.bundle * e;
    v.at_mm = v.at_open + (v.piece % TPK_CHAIN == 0 ? 0 : v.m * TPK_NC * e);
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
            TPK_N(tpk_pack_turn)(TPK_NR, cols, n, s, 0, v->ko + j, dst + i * TPK_NR, TPK_NR);
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
                 .piece = v.piece,
                 .open = (TPK_E *)(void *)((char *)ws + v.at_open),
                 .see_a = TPK_N(tpk_cv_dw_see_a),
                 .see_b = !TPK_ONE_WAY && v.bundles > 0 ? TPK_N(tpk_cv_dw_see_b) : NULL,
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

#if TPK_BITS == 32
/* Tap by tap, if its taps are apart. */
TPK_COLD size_t TPK_N(tpk_taps_conv_dw_ws)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (!tpk_conv_is_apart(&c)) {
        return TPK_N(tpk_conv_dw_ws)(spec);
    }
    TPK_N(tpk_taps) v = TPK_N(tpk_taps_of)(&c);
    size_t most = 0;
    while (TPK_N(tpk_taps_next)(&v)) {
        const size_t size = v.sums > 0 ? TPK_N(tpk_conv_dw_ws)(&v.one) : 0;
        most = size > most ? size : most;
    }
    return most;
}

TPK_COLD void TPK_N(tpk_taps_conv_dw)(const tpk_conv *spec, const TPK_E *x, const TPK_E *y,
                                      TPK_E *w, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (!tpk_conv_is_apart(&c)) {
        TPK_N(tpk_conv_dw)(spec, x, y, w, ws);
        return;
    }
    TPK_N(tpk_taps_zero)(c.oc, c.ic / c.groups, c.ker, c.ws, w);
    for (int64_t g = 0; g < c.groups; g++) {
        TPK_N(tpk_taps) v = TPK_N(tpk_taps_of)(&c);
        while (TPK_N(tpk_taps_next)(&v)) {
            if (v.sums > 0) {
                TPK_N(tpk_conv_dw)
                (&v.one, x + g * v.all.ic * c.xs[1] + v.x, y + g * v.all.oc * c.ys[1] + v.y,
                 w + g * v.all.oc * c.ws[0] + v.w, ws);
            }
        }
    }
}
#endif
#endif
