/* convspec.h: one convolution, and how its windows lie in memory. No element type.
 *
 * The three operations are one trilinear form; each is linear in two of x, w, y and gives the
 * third:   conv: y from x, w.   conv_dx: x from y, w.   conv_dw: w from x, y. */
#ifndef TPK_CONVSPEC_H
#define TPK_CONVSPEC_H
#include "kernel/abi/view.h"
#include "kernel/text/vec.h"

/* The same with three dimensions, the missing outer ones being of size 1. */
TPK_COLD tpk_conv tpk_conv_3d(const tpk_conv *c)
{
    tpk_conv r = *c;
    const int skip = 3 - c->nd;
    r.nd = 3;
    for (int i = 2; i >= 0; i--) {
        const int j = i - skip;
        r.in[i] = j < 0 ? 1 : c->in[j];
        r.out[i] = j < 0 ? 1 : c->out[j];
        r.ker[i] = j < 0 ? 1 : c->ker[j];
        r.stride[i] = j < 0 ? 1 : c->stride[j];
        r.dil[i] = j < 0 ? 1 : c->dil[j];
        r.pad[i] = j < 0 ? 0 : c->pad[j];
        r.xs[i + 2] = j < 0 ? 0 : c->xs[j + 2];
        r.ws[i + 2] = j < 0 ? 0 : c->ws[j + 2];
        r.ys[i + 2] = j < 0 ? 0 : c->ys[j + 2];
    }
    return r;
}

/* The windows of `out` positions in a source of size src, `step` apart. They are read from a
 * copy of the source, of size ext, in which lo zeros come first and enough zeros last: so no
 * reader asks whether a tap is inside. Where the innermost step is more than 1 the columns of the
 * copy are sorted by their remainder, and neighbouring windows are neighbours in memory again. */
typedef struct tpk_patch {
    int64_t channels, cs, src[3], ss[3];
    int64_t lo[3], ext[3], step[3], out[3];
    int64_t cols, row, plane; /* columns of one remainder; elements of a row, of a channel */
    int flat; /* no copy is needed: row, plane and so on are those of the source */
} tpk_patch;

TPK_FN int64_t tpk_patch_pixels(const tpk_patch *p)
{
    return p->out[0] * p->out[1] * p->out[2];
}

/* Fills in what follows from the sizes. */
TPK_COLD void tpk_patch_layout(tpk_patch *p)
{
    p->flat = p->step[2] == 1 && p->ss[2] == 1;
    for (int i = 0; i < 3; i++) {
        p->flat = p->flat && p->lo[i] == 0 && p->ext[i] <= p->src[i];
    }
    p->cols = tpk_i_ceil(p->ext[2], p->step[2]);
    p->row = p->cols * p->step[2];
    p->plane = p->ext[0] * p->ext[1] * p->row;
}

/* Where tap (d, h, w) of the first window lies in the copy, in its channel. */
TPK_FN int64_t tpk_patch_tap(const tpk_patch *p, int64_t d, int64_t h, int64_t w)
{
    if (p->flat) {
        return d * p->ss[0] + h * p->ss[1] + w;
    }
    const int64_t row = (d * p->ext[1] + h) * p->row;
    return p->step[2] == 1 ? row + w : row + w % p->step[2] * p->cols + w / p->step[2];
}

/* Where the first window of row (d, h) of the output lies. */
TPK_FN int64_t tpk_patch_row(const tpk_patch *p, int64_t d, int64_t h)
{
    if (p->flat) {
        return d * p->step[0] * p->ss[0] + h * p->step[1] * p->ss[1];
    }
    return (d * p->step[0] * p->ext[1] + h * p->step[1]) * p->row;
}

/* The windows of conv and conv_dw in x. */
TPK_COLD tpk_patch tpk_patch_of_x(const tpk_conv *c)
{
    tpk_patch p = {.channels = c->ic / c->groups, .cs = c->xs[1]};
    for (int i = 0; i < 3; i++) {
        p.src[i] = c->in[i];
        p.ss[i] = c->xs[i + 2];
        p.lo[i] = c->pad[i];
        p.step[i] = c->stride[i];
        p.out[i] = c->out[i];
        p.ext[i] = (c->out[i] - 1) * c->stride[i] + (c->ker[i] - 1) * c->dil[i] + 1;
        if (c->ker[i] == 1 && c->pad[i] == 0) { /* of what lies between nothing is read */
            p.ext[i] = c->out[i];
            p.src[i] = tpk_i_ceil(c->in[i], c->stride[i]);
            p.ss[i] *= c->stride[i];
            p.step[i] = 1;
        }
    }
    tpk_patch_layout(&p);
    return p;
}

/* conv_dx, one residue r of the positions of x modulo the stride, in one dimension: tap k counts
 * if r + pad - k * dil is a multiple of the stride; then position stride * q + r of x meets
 * position q + shift of y. */
TPK_IN int tpk_dx_tap(const tpk_conv *c, int i, int64_t r, int64_t k, int64_t *shift)
{
    const int64_t at = r + c->pad[i] - k * c->dil[i];
    *shift = at / c->stride[i];
    return at % c->stride[i] == 0;
}

/* The windows of conv_dx in y for residues r; taps[i] is the number that count. */
TPK_COLD tpk_patch tpk_patch_of_y(const tpk_conv *c, const int64_t r[3], int64_t taps[3])
{
    tpk_patch p = {.channels = c->oc / c->groups, .cs = c->ys[1]};
    for (int i = 0; i < 3; i++) {
        int64_t low = 0, high = 0, shift = 0;
        taps[i] = 0;
        for (int64_t k = 0; k < c->ker[i]; k++) {
            if (tpk_dx_tap(c, i, r[i], k, &shift)) {
                low = taps[i] == 0 || shift < low ? shift : low;
                high = taps[i] == 0 || shift > high ? shift : high;
                taps[i]++;
            }
        }
        p.src[i] = c->out[i];
        p.ss[i] = c->ys[i + 2];
        p.lo[i] = -low;
        p.step[i] = 1;
        p.out[i] = c->in[i] > r[i] ? (c->in[i] - r[i] - 1) / c->stride[i] + 1 : 0;
        p.ext[i] = p.out[i] + high - low;
    }
    tpk_patch_layout(&p);
    return p;
}

TPK_IN int64_t tpk_cv_round_up(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

TPK_COLD int tpk_conv_empty(const tpk_conv *c)
{
    return c->batch <= 0 || c->oc <= 0 || c->out[0] <= 0 || c->out[1] <= 0 || c->out[2] <= 0;
}

/* ---- tap by tap (convtaps.h) ------------------------------------------------------------------ */

/* The windows in which tap k of dimension i lies inside: how many, and the first. */
TPK_COLD int64_t tpk_conv_inside(const tpk_conv *c, int i, int64_t k, int64_t *from)
{
    const int64_t at = c->pad[i] - k * c->dil[i], end = at + c->in[i]; /* of x, in steps */
    *from = at > 0 ? tpk_i_ceil(at, c->stride[i]) : 0;
    const int64_t to = end > 0 ? tpk_i_min(c->out[i], tpk_i_ceil(end, c->stride[i])) : 0;
    return to > *from ? to - *from : 0;
}

/* Are its taps computed one by one? Where half of them or more meet padding, in many channels. */
TPK_COLD int tpk_conv_is_apart(const tpk_conv *c)
{
    enum { LEAST = 16 };
    double inside = 2;
    if (c->taps || tpk_conv_empty(c) || c->ic / c->groups < LEAST) {
        return c->taps == TPK_TAPS_APART;
    }
    for (int i = 0; i < 3; i++) {
        int64_t from, n = 0;
        for (int64_t k = 0; k < c->ker[i]; k++) {
            n += tpk_conv_inside(c, i, k, &from);
        }
        inside *= (double)n / ((double)c->ker[i] * (double)c->out[i]);
    }
    return inside <= 1;
}

TPK_COLD int tpk_conv_taps(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    return tpk_conv_is_apart(&c) ? TPK_TAPS_APART : TPK_TAPS_TOGETHER;
}

/* ---- by Winograd's minimal filtering (winograd.h) -------------------------------------------- */

enum { TPK_WG_R = 2, TPK_WG_P = 4, TPK_WG_POINTS = 16 }; /* outputs, inputs of a tile's side */

TPK_COLD int tpk_conv_has_tiles(const tpk_conv *c)
{
    return c->groups == 1 && c->in[0] == 1 && c->out[0] == 1 && c->ker[0] == 1 &&
           c->pad[0] == 0 && c->ker[1] == 3 && c->ker[2] == 3 && c->stride[1] == 1 &&
           c->stride[2] == 1 && c->dil[1] == 1 && c->dil[2] == 1 && c->ic > 0;
}

/* Do tiles pay, for one image? In multiply-adds: of the products (outputs cost a few steps of k more,
 * filters that few tiles use come from far) and of a tile's ways in and out. */
TPK_COLD int tpk_conv_tiles_pay(const tpk_conv *c)
{
    const double tiles =
        (double)(tpk_i_ceil(c->out[1], TPK_WG_R) * tpk_i_ceil(c->out[2], TPK_WG_R));
    const double ic = (double)c->ic, oc = (double)c->oc;
    const double cost = (double)TPK_WG_POINTS * (tiles < 16 ? 16 : tiles) * (ic + 8) * oc +
                        tiles * (160 * ic + 90 * oc);
    return cost < 0.9 * 9 * (double)c->out[1] * (double)c->out[2] * ic * oc;
}

/* Is it done by tiles? A part of one that is (c->way) is, too. Three dimensions. */
TPK_COLD int tpk_conv_is_tiled(const tpk_conv *c)
{
    if (!c->winograd || tpk_conv_empty(c) || !tpk_conv_has_tiles(c) || tpk_conv_is_apart(c)) {
        return 0;
    }
    return c->way ? c->way == TPK_WAY_TILES : tpk_conv_tiles_pay(c);
}

/* conv_dx of stride 1 is a conv with y for x, outputs for inputs and the taps turned; *first: where w
 * begins then. */
TPK_COLD tpk_conv tpk_conv_of_dx(const tpk_conv *spec, int64_t *first)
{
    tpk_conv c = tpk_conv_3d(spec);
    const tpk_conv d = c;
    *first = 0;
    c.taps = tpk_conv_is_apart(&d) ? TPK_TAPS_APART : TPK_TAPS_TOGETHER;
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

#define TPK_NO_TAP INT64_MIN

/* The tables of the taps of one channel, followed by those of the others, which lie cs and ws
 * apart. kw may be null. */
TPK_FN void tpk_conv_spread(int64_t channels, int64_t taps, int64_t cs, int64_t ws, int64_t *ko,
                            int64_t *kw)
{
    for (int64_t i = 1; i < channels; i++) {
        for (int64_t t = 0; t < taps; t++) {
            ko[i * taps + t] = ko[t] + i * cs;
        }
        for (int64_t t = 0; kw && t < taps; t++) {
            kw[i * taps + t] = kw[t] + i * ws;
        }
    }
}

/* Where each k = (channel, tap) lies in the copy and, unless kw is null, in w. */
TPK_COLD void tpk_conv_tables(const tpk_conv *c, const tpk_patch *p, int64_t *ko, int64_t *kw)
{
    int64_t n = 0;
    for (int64_t d = 0; d < c->ker[0]; d++) {
        for (int64_t h = 0; h < c->ker[1]; h++) {
            for (int64_t w = 0; w < c->ker[2]; w++, n++) {
                ko[n] = tpk_patch_tap(p, d * c->dil[0], h * c->dil[1], w * c->dil[2]);
                if (kw) {
                    kw[n] = d * c->ws[2] + h * c->ws[3] + w * c->ws[4];
                }
            }
        }
    }
    tpk_conv_spread(p->channels, n, p->flat ? p->cs : p->plane, c->ws[1], ko, kw);
}

/* The same for conv_dx and residues r. */
TPK_COLD void tpk_conv_dx_tables(const tpk_conv *c, const tpk_patch *p, const int64_t r[3],
                                 int64_t *ko, int64_t *kw)
{
    int64_t s[3], n = 0;
    for (int64_t d = 0; d < c->ker[0]; d++) {
        for (int64_t h = 0; h < c->ker[1]; h++) {
            for (int64_t w = 0; w < c->ker[2]; w++) {
                if (tpk_dx_tap(c, 0, r[0], d, &s[0]) && tpk_dx_tap(c, 1, r[1], h, &s[1]) &&
                    tpk_dx_tap(c, 2, r[2], w, &s[2])) {
                    ko[n] = tpk_patch_tap(p, s[0] + p->lo[0], s[1] + p->lo[1], s[2] + p->lo[2]);
                    kw[n++] = d * c->ws[2] + h * c->ws[3] + w * c->ws[4];
                }
            }
        }
    }
    tpk_conv_spread(p->channels, n, p->flat ? p->cs : p->plane, c->ws[0], ko, kw);
}

/* The next residue; 0 after the last. Residues beyond the size of x have no position. */
TPK_COLD int tpk_conv_dx_next(const tpk_conv *c, int64_t r[3])
{
    for (int i = 2; i >= 0; i--) {
        r[i]++;
        if (r[i] < c->stride[i] && r[i] < c->in[i]) {
            return 1;
        }
        r[i] = 0;
    }
    return 0;
}

TPK_COLD int tpk_conv_dx_empty(const tpk_conv *c)
{
    return c->batch <= 0 || c->ic <= 0 || c->in[0] <= 0 || c->in[1] <= 0 || c->in[2] <= 0;
}

/* A walk over the windows of all images, by pieces of rows. */
typedef struct {
    int64_t image, d, h, w;
} tpk_cv_walk;

TPK_FN tpk_cv_walk tpk_cv_walk_at(const tpk_patch *p, int64_t k)
{
    const int64_t area = p->out[1] * p->out[2], pixel = k % (p->out[0] * area);
    const tpk_cv_walk at = {k / (p->out[0] * area), pixel / area, pixel % area / p->out[2],
                            pixel % p->out[2]};
    return at;
}

TPK_FN void tpk_cv_walk_on(const tpk_patch *p, tpk_cv_walk *at, int64_t n)
{
    at->w += n;
    if (at->w == p->out[2]) {
        at->w = 0;
        at->h++;
        at->d += at->h == p->out[1];
        at->h = at->h == p->out[1] ? 0 : at->h;
        at->image += at->d == p->out[0];
        at->d = at->d == p->out[0] ? 0 : at->d;
    }
}
#endif
