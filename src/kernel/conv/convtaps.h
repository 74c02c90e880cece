/* convtaps.h: convolutions whose taps mostly meet padding, tap by tap, for one element type (TPK_BITS,
 * of which f32 is taken so).
 *
 * Of the products of a dilated convolution on a small image most are with padding. Where at most half
 * lie inside (tpk_conv_is_apart in convspec.h) each tap is a convolution of one tap by itself, of
 * those windows in which it lies inside, and the outputs are sums over taps. The other convolutions go
 * to conv.h. */
#include "kernel/conv/conv.h"
#if TPK_BITS == 32 && !defined(TPK_CONVTAPS_32)
#define TPK_CONVTAPS_32

#define TPK_TAPS_CHUNK 256 /* elements of an output's weights that are turned at a time */

/* The taps of a convolution of three dimensions, one after the other, in row-major order. */
typedef struct {
    tpk_conv all, one; /* of one group: the whole, this tap */
    int64_t taps, next;
    int64_t x, w, y; /* where operands of this tap begin in those of the group */
    int64_t sums;    /* elements of y, or for conv_dx of x, that it reaches */
} TPK_N(tpk_taps);

TPK_COLD TPK_N(tpk_taps) TPK_N(tpk_taps_of)(const tpk_conv *c)
{
    TPK_N(tpk_taps) v = {.all = *c, .taps = c->ker[0] * c->ker[1] * c->ker[2]};
    v.all.groups = 1;
    v.all.ic /= c->groups;
    v.all.oc /= c->groups;
    return v;
}

/* The next tap; 0 after the last. Its sizes are 0 if it lies outside everywhere. */
TPK_COLD int TPK_N(tpk_taps_next)(TPK_N(tpk_taps) * v)
{
    int64_t left = v->next++;
    v->one = v->all;
    v->x = v->w = v->y = 0;
    v->sums = v->all.batch;
    for (int i = 2; i >= 0; left /= v->all.ker[i], i--) {
        const int64_t k = left % v->all.ker[i];
        int64_t from;
        const int64_t n = tpk_conv_inside(&v->all, i, k, &from);
        v->x +=
            (from * v->all.stride[i] + k * v->all.dil[i] - v->all.pad[i]) * v->all.xs[i + 2];
        v->y += from * v->all.ys[i + 2];
        v->w += k * v->all.ws[i + 2];
        v->sums *= n;
        v->one.in[i] = v->one.out[i] = n;
        v->one.ker[i] = v->one.stride[i] = v->one.dil[i] = 1;
        v->one.pad[i] = v->one.ws[i + 2] = 0;
        v->one.xs[i + 2] *= v->all.stride[i];
    }
    return v->next <= v->taps;
}

/* The tap with its result in rows behind each other: which is y, or for conv_dx x. */
TPK_COLD tpk_conv TPK_N(tpk_taps_apart)(const TPK_N(tpk_taps) * v, int dx)
{
    tpk_conv c = v->one;
    int64_t *const s = dx ? c.xs : c.ys;
    s[4] = 1;
    for (int i = 3; i > 1; i--) {
        s[i] = s[i + 1] * c.out[i - 1];
    }
    s[1] = s[2] * c.out[0];
    s[0] = s[1] * (dx ? c.ic : c.oc);
    return c;
}

/* What a tap gave is added to the sums, whose strides are `to`. */
TPK_OUT void TPK_N(tpk_taps_add)(const tpk_conv *c, int64_t channels, const TPK_E *from,
                                 const int64_t *to, TPK_E *y)
{
    const int64_t n = c->out[2], rows = c->batch * channels * c->out[0] * c->out[1];
    for (int64_t r = 0; r < rows; r++, from += n) {
        const int64_t h = r % c->out[1], d = r / c->out[1] % c->out[0];
        const int64_t nc = r / (c->out[0] * c->out[1]);
        TPK_E *const at =
            y + nc / channels * to[0] + nc % channels * to[1] + d * to[2] + h * to[3];
        int64_t i = 0;
        for (; to[4] == 1 && i < n; i += TPK_VL) {
            const TPK_M m = TPK_MASK(n - i);
            TPK_STOREM(at + i, TPK_LOADM(at + i, m) + TPK_LOADM(from + i, m), m);
        }
        for (; i < n; i++) {
            at[i * to[4]] += from[i];
        }
    }
}

/* Sums of nothing. */
TPK_OUT void TPK_N(tpk_taps_zero)(int64_t batch, int64_t channels, const int64_t *size,
                                  const int64_t *s, TPK_E *y)
{
    const int64_t rows = batch * channels * size[0] * size[1];
    for (int64_t r = 0; r < rows; r++) {
        const int64_t h = r % size[1], d = r / size[1] % size[0], nc = r / (size[0] * size[1]);
        TPK_E *const at = y + nc / channels * s[0] + nc % channels * s[1] + d * s[2] + h * s[3];
        for (int64_t i = 0; i < size[2]; i++) {
            at[i * s[4]] = 0;
        }
    }
}

/* ---- conv ---------------------------------------------------------------------------------------- */

/* Its vectors are neighbouring output channels, whatever the sizes: so all packed weights are alike. */
TPK_COLD tpk_conv TPK_N(tpk_taps_across)(const TPK_N(tpk_taps) * v)
{
    tpk_conv c = TPK_N(tpk_taps_apart)(v, 0);
    c.way = TPK_WAY_ACROSS;
    return c;
}

/* Elements of the packed weights of a tap of a group. */
TPK_COLD int64_t TPK_N(tpk_taps_w_size)(const tpk_conv *c)
{
    return TPK_N(tpk_co_w_size)((c->whole ? c->whole : c->oc) / c->groups, c->ic / c->groups);
}

/* Elements of workspace for packing. */
TPK_COLD int64_t TPK_N(tpk_taps_pack_room)(const tpk_conv *c)
{
    const int64_t taps = c->ker[0] * c->ker[1] * c->ker[2];
    return TPK_NR * (TPK_TAPS_CHUNK + taps) + c->ic * 8 / (int64_t)sizeof(TPK_E);
}

/* All taps of one channel after the other? */
TPK_COLD int TPK_N(tpk_taps_dense)(const tpk_conv *c)
{
    return c->ws[4] == 1 && (c->ker[1] == 1 || c->ws[3] == c->ker[2]) &&
           (c->ker[0] == 1 || c->ws[2] == c->ker[1] * c->ker[2]) &&
           c->ws[1] == c->ker[0] * c->ker[1] * c->ker[2];
}

/* The weights of a group, whose taps are dense, all of them: each is read once. */
TPK_OUT void TPK_N(tpk_taps_turn)(const tpk_conv *c, const TPK_N(tpk_co) * co, const TPK_E *w,
                                  TPK_E *wp, TPK_E *turned)
{
    const int64_t taps = c->ws[1], size = TPK_N(tpk_taps_w_size)(c), nr = co->nr;
    const int64_t most = taps < TPK_TAPS_CHUNK ? TPK_TAPS_CHUNK / taps : 1;
    for (int64_t k = 0, kk = 0; k < co->k; k += kk) {
        kk = tpk_i_min(co->kc, co->k - k);
        for (int64_t j = 0; j < co->m; j += nr, wp += kk * nr) {
            for (int64_t i = 0, n = 0; i < kk; i += n) {
                n = tpk_i_min(most, kk - i);
                TPK_N(tpk_pack)
                (nr, tpk_i_min(nr, co->m - j), n * taps, w + j * c->ws[0] + (k + i) * taps,
                 c->ws[0], 1, turned);
                for (int64_t t = 0; t < taps; t++) {
                    for (int64_t x = 0; x < n * nr; x += TPK_VL) {
                        TPK_STORE(wp + t * size + i * nr + x,
                                  TPK_LOAD(turned + (x / nr * taps + t) * nr + x % nr));
                    }
                }
            }
        }
    }
}

/* The weights of a group, all of them or those of taps that lie inside somewhere. */
TPK_COLD void TPK_N(tpk_taps_pack)(const tpk_conv *c, int all, const TPK_E *w, TPK_E *wp,
                                   void *ws)
{
    TPK_N(tpk_taps) v = TPK_N(tpk_taps_of)(c);
    int64_t used = 0, *const kw = ws;
    while (TPK_N(tpk_taps_next)(&v)) {
        used += v.sums > 0 || all;
    }
    TPK_N(tpk_co) co = {.m = v.all.oc, .k = v.all.ic};
    TPK_N(tpk_co_blocks)(&co, v.all.oc);
    if (3 * used > v.taps && TPK_N(tpk_taps_dense)(c)) {
        TPK_N(tpk_taps_turn)(c, &co, w, wp, ws);
        return;
    }
    for (int64_t k = 0; k < v.all.ic; k++) {
        kw[k] = k * c->ws[1];
    }
    for (v.next = 0; TPK_N(tpk_taps_next)(&v); wp += TPK_N(tpk_taps_w_size)(c)) {
        if (v.sums > 0 || all) {
            TPK_N(tpk_co_pack_w)(&co, w + v.w, c->ws[0], kw, wp);
        }
    }
}

/* In the workspace, in bytes: what a tap gives, what it works in, and behind them the weights. */
typedef struct {
    int64_t at_own, at_w, size;
} TPK_N(tpk_taps_room);

TPK_COLD TPK_N(tpk_taps_room) TPK_N(tpk_taps_conv_room)(const tpk_conv *c)
{
    TPK_N(tpk_taps) v = TPK_N(tpk_taps_of)(c);
    int64_t sums = 0, own = TPK_N(tpk_taps_pack_room)(c) * (int64_t)sizeof(TPK_E);
    while (TPK_N(tpk_taps_next)(&v)) {
        if (v.sums > 0) {
            const tpk_conv one = TPK_N(tpk_taps_across)(&v);
            const int64_t size = TPK_N(tpk_conv_make)(&one).size;
            sums = v.sums > sums ? v.sums : sums;
            own = size > own ? size : own;
        }
    }
    const int64_t e = (int64_t)sizeof(TPK_E);
    const int64_t at_own = tpk_cv_round_up(sums * v.all.oc * e);
    const int64_t at_w = at_own + tpk_cv_round_up(own);
    const TPK_N(tpk_taps_room)
        room = {at_own, at_w, at_w + tpk_cv_round_up(v.taps * TPK_N(tpk_taps_w_size)(c) * e)};
    return room;
}

TPK_COLD size_t TPK_N(tpk_taps_conv_ws)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    return tpk_conv_is_apart(&c) ? (size_t)TPK_N(tpk_taps_conv_room)(&c).size
                                 : TPK_N(tpk_conv_ws)(spec);
}

/* One of w and wp is given. */
TPK_COLD void TPK_N(tpk_taps_run)(const tpk_conv *c, const TPK_E *x, const TPK_E *w,
                                  const TPK_E *wp, TPK_E *y, char *ws)
{
    const TPK_N(tpk_taps_room) room = TPK_N(tpk_taps_conv_room)(c);
    const int64_t size = TPK_N(tpk_taps_w_size)(c);
    TPK_E *const sums = (TPK_E *)(void *)ws;
    TPK_N(tpk_taps_zero)(c->batch, c->oc, c->out, c->ys, y);
    for (int64_t g = 0; g < c->groups; g++) {
        TPK_N(tpk_taps) v = TPK_N(tpk_taps_of)(c);
        const TPK_E *packed = wp ? wp + g * v.taps * size : (TPK_E *)(void *)(ws + room.at_w);
        if (!wp) {
            TPK_N(tpk_taps_pack)
            (c, 0, w + g * v.all.oc * c->ws[0], (TPK_E *)(void *)(ws + room.at_w),
             ws + room.at_own);
        }
        for (; TPK_N(tpk_taps_next)(&v); packed += size) {
            if (v.sums > 0) {
                const tpk_conv one = TPK_N(tpk_taps_across)(&v);
                TPK_N(tpk_conv_any)
                (&one, x + g * v.all.ic * c->xs[1] + v.x, NULL, packed, sums, ws + room.at_own);
                TPK_N(tpk_taps_add)
                (&one, one.oc, sums, c->ys, y + g * v.all.oc * c->ys[1] + v.y);
            }
        }
    }
}

TPK_COLD void TPK_N(tpk_taps_conv)(const tpk_conv *spec, const TPK_E *x, const TPK_E *w,
                                   TPK_E *y, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (tpk_conv_is_apart(&c)) {
        TPK_N(tpk_taps_run)(&c, x, w, NULL, y, ws);
        return;
    }
    TPK_N(tpk_conv)(spec, x, w, y, ws);
}

TPK_COLD void TPK_N(tpk_taps_conv_packed_w)(const tpk_conv *spec, const TPK_E *x,
                                            const TPK_E *wp, TPK_E *y, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (tpk_conv_is_apart(&c)) {
        TPK_N(tpk_taps_run)(&c, x, NULL, wp, y, ws);
        return;
    }
    TPK_N(tpk_conv_packed_w)(spec, x, wp, y, ws);
}

TPK_COLD size_t TPK_N(tpk_taps_conv_packed_w_size)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (!tpk_conv_is_apart(&c)) {
        return TPK_N(tpk_conv_packed_w_size)(spec);
    }
    return (size_t)(c.groups * c.ker[0] * c.ker[1] * c.ker[2] * TPK_N(tpk_taps_w_size)(&c)) *
           sizeof(TPK_E);
}

TPK_COLD int TPK_N(tpk_taps_conv_way)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    return tpk_conv_is_apart(&c) ? TPK_WAY_TAPS : TPK_N(tpk_conv_way)(spec);
}

TPK_COLD void TPK_N(tpk_taps_conv_pack_w)(const tpk_conv *spec, const TPK_E *w, TPK_E *wp,
                                          void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    const int64_t taps = c.ker[0] * c.ker[1] * c.ker[2];
    if (!tpk_conv_is_apart(&c)) {
        TPK_N(tpk_conv_pack_w)(spec, w, wp, ws);
        return;
    }
    for (int64_t g = 0; g < c.groups; g++) {
        TPK_N(tpk_taps_pack)
        (&c, 1, w + g * (c.oc / c.groups) * c.ws[0], wp + g * taps * TPK_N(tpk_taps_w_size)(&c),
         ws);
    }
}

/* ---- conv_dx --------------------------------------------------------------------------- */

TPK_COLD TPK_N(tpk_taps_room) TPK_N(tpk_taps_conv_dx_room)(const tpk_conv *c)
{
    TPK_N(tpk_taps) v = TPK_N(tpk_taps_of)(c);
    int64_t sums = 0, own = 0;
    while (TPK_N(tpk_taps_next)(&v)) {
        if (v.sums > 0) {
            const tpk_conv one = TPK_N(tpk_taps_apart)(&v, 1);
            const int64_t size = (int64_t)TPK_N(tpk_conv_dx_ws)(&one);
            sums = v.sums > sums ? v.sums : sums;
            own = size > own ? size : own;
        }
    }
    const int64_t at_own = tpk_cv_round_up(sums * v.all.ic * (int64_t)sizeof(TPK_E));
    const TPK_N(tpk_taps_room) room = {at_own, at_own, at_own + own};
    return room;
}

TPK_COLD size_t TPK_N(tpk_taps_conv_dx_ws)(const tpk_conv *spec)
{
    const tpk_conv c = tpk_conv_3d(spec);
    return tpk_conv_is_apart(&c) ? (size_t)TPK_N(tpk_taps_conv_dx_room)(&c).size
                                 : TPK_N(tpk_conv_dx_ws)(spec);
}

TPK_COLD void TPK_N(tpk_taps_conv_dx)(const tpk_conv *spec, const TPK_E *y, const TPK_E *w,
                                      TPK_E *x, void *ws)
{
    const tpk_conv c = tpk_conv_3d(spec);
    if (!tpk_conv_is_apart(&c)) {
        TPK_N(tpk_conv_dx)(spec, y, w, x, ws);
        return;
    }
    char *const own = (char *)ws + TPK_N(tpk_taps_conv_dx_room)(&c).at_own;
    TPK_N(tpk_taps_zero)(c.batch, c.ic, c.in, c.xs, x);
    for (int64_t g = 0; g < c.groups; g++) {
        TPK_N(tpk_taps) v = TPK_N(tpk_taps_of)(&c);
        while (TPK_N(tpk_taps_next)(&v)) {
            if (v.sums > 0) {
                const tpk_conv one = TPK_N(tpk_taps_apart)(&v, 1);
                const int64_t s[5] = {v.one.xs[0], v.one.xs[1], v.one.xs[2], v.one.xs[3],
                                      v.one.xs[4]};
                TPK_N(tpk_conv_dx)
                (&one, y + g * v.all.oc * c.ys[1] + v.y, w + g * v.all.oc * c.ws[0] + v.w, ws,
                 own);
                TPK_N(tpk_taps_add)(&one, one.ic, ws, s, x + g * v.all.ic * c.xs[1] + v.x);
            }
        }
    }
}
#endif
