/* stencil.h: convolutions where each output channel reads one input channel (depthwise), for one
 * element type (TPK_BITS), with the bits of the plain loops in convref.h.
 *
 * There is no sum over channels, so nothing is packed and nothing is copied: vectors are
 * neighbouring outputs of a row, and TPK_ST_ROWS rows are done together, so that what is loaded
 * serves every tap that meets one of them. Rows outside the image are read from a row of zeros,
 * columns outside are masked: both are multiplied like any other. With a step of two, pairs of
 * vectors are loaded and every other element is kept. */
#include "kernel/conv/convspec.h"
#include "kernel/text/gemm.h"
#if (TPK_BITS == 32 && !defined(TPK_STENCIL_32)) || (TPK_BITS == 64 && !defined(TPK_STENCIL_64))
#if TPK_BITS == 32
#define TPK_STENCIL_32
#else
#define TPK_STENCIL_64
#endif

#define TPK_ST_ROWS 4
#define TPK_ST_TAPS 64         /* columns of a kernel */
#define TPK_ST_FAR (16 * 1024) /* bytes of a plane that does not stay near */

/* Offsets are in the workspace, in bytes. */
typedef struct {
    const tpk_conv *c;
    int64_t vectors, at_zeros, at_w, size;
    const TPK_M *masks; /* [vectors][loads of a row, by taps; store] */
    const TPK_E *zeros; /* [in[2]] */
} TPK_N(tpk_st);

/* Whether this convolution (of three dimensions) goes here. */
TPK_COLD int TPK_N(tpk_st_fits)(const tpk_conv *c)
{
    return c->ic == c->groups && c->oc / c->groups <= 2 && c->in[0] == 1 && c->out[0] == 1 &&
           c->ker[0] == 1 && c->pad[0] == 0 && c->stride[2] <= 2 && c->xs[4] == 1 &&
           c->ys[4] == 1 && c->ker[2] <= TPK_ST_TAPS;
}

TPK_COLD TPK_N(tpk_st) TPK_N(tpk_st_make)(const tpk_conv *c)
{
    TPK_N(tpk_st) s = {.c = c, .vectors = tpk_i_ceil(c->out[2], TPK_VL)};
    const int64_t loads = s.vectors * (c->ker[2] * c->stride[2] + 1);
    s.at_zeros = tpk_cv_round_up(loads * (int64_t)sizeof(TPK_M));
    s.at_w = s.at_zeros + tpk_cv_round_up(c->in[2] * (int64_t)sizeof(TPK_E));
    s.size = s.at_w + tpk_cv_round_up(c->oc * c->ker[1] * c->ker[2] * (int64_t)sizeof(TPK_E));
    return s;
}

/* Which lanes of each load lie in the image, which of the store in the output; the row of zeros. */
TPK_COLD void TPK_N(tpk_st_begin)(TPK_N(tpk_st) * s, char *ws)
{
    const tpk_conv *const c = s->c;
    TPK_M *m = (TPK_M *)(void *)ws;
    s->masks = m;
    s->zeros = (const TPK_E *)(const void *)(ws + s->at_zeros);
    __builtin_memset(ws + s->at_zeros, 0, (size_t)(c->in[2] * (int64_t)sizeof(TPK_E)));
    for (int64_t j = 0; j < s->vectors; j++) {
        for (int64_t t = 0; t < c->ker[2]; t++) {
            for (int64_t i = 0; i < c->stride[2]; i++) {
                const int64_t at = (j * c->stride[2] + i) * TPK_VL + t * c->dil[2] - c->pad[2];
                const int64_t from = tpk_i_min(TPK_VL, at < 0 ? -at : 0);
                const int64_t to = tpk_i_min(TPK_VL, c->in[2] - at);
                *m++ = TPK_SPAN(from, to < from ? from : to);
            }
        }
        *m++ = TPK_MASK(c->out[2] - j * TPK_VL);
    }
}

/* wp: [oc][ker[1]][ker[2]] */
TPK_COLD void TPK_N(tpk_st_pack_w)(const tpk_conv *c, const TPK_E *w, TPK_E *wp)
{
    for (int64_t o = 0; o < c->oc; o++) {
        for (int64_t h = 0; h < c->ker[1]; h++) {
            for (int64_t t = 0; t < c->ker[2]; t++) {
                *wp++ = w[o * c->ws[0] + h * c->ws[3] + t * c->ws[4]];
            }
        }
    }
}

/* The row of the image that is in[1] = h, or the row of zeros. */
TPK_IN const TPK_E *TPK_N(tpk_st_row)(const TPK_N(tpk_st) * s, const TPK_E *x, int64_t h)
{
    return h < 0 || h >= s->c->in[1] ? s->zeros : x + h * s->c->xs[3];
}

TPK_IN TPK_V TPK_N(tpk_st_load)(const TPK_E *x, const TPK_M *m, int64_t step)
{
    const TPK_V a = TPK_LOADX(x, (TPK_V){0}, m[0]);
    return step == 1 ? a : TPK_EVEN(a, TPK_LOADX(x + TPK_VL, (TPK_V){0}, m[1]));
}

/* Row r of the finished vectors goes to y + at[r]. */
TPK_IN void TPK_N(tpk_st_store)(TPK_E *y, const int64_t at[TPK_ST_ROWS], TPK_V a0, TPK_V a1,
                                TPK_V a2, TPK_V a3, TPK_M m)
{
    TPK_STOREM(y + at[0], a0, m);
    TPK_STOREM(y + at[1], a1, m);
    TPK_STOREM(y + at[2], a2, m);
    TPK_STOREM(y + at[3], a3, m);
}

/* One channel, any kernel: TPK_ST_ROWS rows, tap by tap. w: [ker[1]][ker[2]] */
TPK_OUT void TPK_N(tpk_st_any)(const TPK_N(tpk_st) * s, const TPK_E *x, const TPK_E *w,
                               TPK_E *y)
{
    const tpk_conv *const c = s->c;
    const int64_t step = c->stride[2], taps = c->ker[2];
    for (int64_t o = 0; o < c->out[1]; o += TPK_ST_ROWS) {
        int64_t out[TPK_ST_ROWS], to[TPK_ST_ROWS]; /* the last row perhaps several times */
        for (int64_t r = 0; r < TPK_ST_ROWS; r++) {
            out[r] = tpk_i_min(o + r, c->out[1] - 1);
            to[r] = out[r] * c->ys[3];
        }
        for (int64_t j = 0; j < s->vectors; j++) {
            const int64_t at = j * TPK_VL * step - c->pad[2];
            TPK_V a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0};
            TPK_V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
            int64_t n = 0; /* taps; of whole chains the sums are in s0 to s3 */
            for (int64_t h = 0; h < c->ker[1]; h++) {
                const TPK_E *row[TPK_ST_ROWS];
                for (int64_t r = 0; r < TPK_ST_ROWS; r++) {
                    const int64_t in = out[r] * c->stride[1] + h * c->dil[1] - c->pad[1];
                    row[r] = TPK_N(tpk_st_row)(s, x, in) + at;
                }
                const TPK_M *m = s->masks + j * (taps * step + 1);
                for (int64_t t = 0, d = 0; t < taps; t++, d += c->dil[2], m += step, n++) {
                    if (n > 0 && n % TPK_CHAIN == 0) {
                        s0 = n > TPK_CHAIN ? s0 + a0 : a0;
                        s1 = n > TPK_CHAIN ? s1 + a1 : a1;
                        s2 = n > TPK_CHAIN ? s2 + a2 : a2;
                        s3 = n > TPK_CHAIN ? s3 + a3 : a3;
                        a0 = a1 = a2 = a3 = (TPK_V){0};
                    }
                    const TPK_E e = w[h * taps + t];
                    const TPK_V v = TPK_SPLAT(e);
                    a0 = TPK_FMA(v, TPK_N(tpk_st_load)(row[0] + d, m, step), a0);
                    a1 = TPK_FMA(v, TPK_N(tpk_st_load)(row[1] + d, m, step), a1);
                    a2 = TPK_FMA(v, TPK_N(tpk_st_load)(row[2] + d, m, step), a2);
                    a3 = TPK_FMA(v, TPK_N(tpk_st_load)(row[3] + d, m, step), a3);
                }
            }
            if (n > TPK_CHAIN) {
                a0 = s0 + a0;
                a1 = s1 + a1;
                a2 = s2 + a2;
                a3 = s3 + a3;
            }
            const TPK_M m = s->masks[(j + 1) * (taps * step + 1) - 1];
            TPK_N(tpk_st_store)(y + j * TPK_VL, to, a0, a1, a2, a3, m);
        }
    }
}

/* The same for a kernel of `side` by `side` taps that are neighbours, at least TPK_ST_ROWS rows:
 * row i of the image meets row r of the output at tap row i - r * step. */
TPK_IN void TPK_N(tpk_st_square)(const TPK_N(tpk_st) * s, const TPK_E *x, const TPK_E *w,
                                 TPK_E *y, const int64_t side, const int64_t step)
{
    const tpk_conv *const c = s->c;
    const int64_t high = (TPK_ST_ROWS - 1) * step + side;
    const int64_t rows = c->out[1], vectors = s->vectors, y_rs = c->ys[3], x_rs = c->xs[3];
    const int64_t in = c->in[1], pad = c->pad[1];
    const TPK_E *const zeros = s->zeros - c->pad[2];
    /* The rows of a large plane come from far, in many streams: the next ones are fetched. */
    const int64_t fetch =
        in * x_rs * (int64_t)sizeof(TPK_E) > TPK_ST_FAR ? TPK_ST_ROWS * step : 0;
    TPK_V k[5 * 5];
    _Pragma("GCC unroll 25") for (int64_t i = 0; i < side * side; i++)
    {
        const TPK_E e = w[i];
        k[i] = TPK_SPLAT(e);
    }
    x -= c->pad[2];
    for (int64_t next = 0; next < rows; next += TPK_ST_ROWS) {
        /* The last rows may be done twice. */
        const int64_t o = tpk_i_min(next, rows - TPK_ST_ROWS);
        const TPK_E *row[(TPK_ST_ROWS - 1) * 2 + 5];
        _Pragma("GCC unroll 16") for (int64_t i = 0; i < high; i++)
        {
            const int64_t h = o * step - pad + i;
            row[i] = h >= 0 && h < in ? x + h * x_rs : zeros;
        }
        const TPK_M *m = s->masks;
        TPK_E *to = y + o * y_rs;
        const TPK_E *const later = x + (o * step - pad + high) * x_rs;
        for (int64_t j = 0; j < vectors; j++, m += side * step + 1, to += TPK_VL) {
            const int64_t at = j * TPK_VL * step;
            for (int64_t i = 0; i < fetch; i++) {
                __builtin_prefetch(later + i * x_rs + at);
                __builtin_prefetch(later + i * x_rs + at + (step - 1) * TPK_VL);
            }
            TPK_V a[TPK_ST_ROWS] = {{0}, {0}, {0}, {0}};
            _Pragma("GCC unroll 16") for (int64_t i = 0; i < high; i++)
            {
                _Pragma("GCC unroll 8") for (int64_t t = 0; t < side; t++)
                {
                    const TPK_V v = TPK_N(tpk_st_load)(row[i] + at + t, m + t * step, step);
                    _Pragma("GCC unroll 4") for (int64_t r = 0; r < TPK_ST_ROWS; r++)
                    {
                        const int64_t h = i - r * step;
                        if (h >= 0 && h < side) {
                            a[r] = TPK_FMA(k[h * side + t], v, a[r]);
                        }
                    }
                }
            }
            const int64_t rs[TPK_ST_ROWS] = {0, y_rs, 2 * y_rs, 3 * y_rs};
            TPK_N(tpk_st_store)(to, rs, a[0], a[1], a[2], a[3], m[side * step]);
        }
    }
}

#define TPK_ST_SQUARE(side, step)                                                              \
    TPK_OUT void TPK_N(tpk_st_##side##_##step)(const TPK_N(tpk_st) * s, const TPK_E *x,        \
                                               const TPK_E *w, TPK_E *y)                       \
    {                                                                                          \
        TPK_N(tpk_st_square)(s, x, w, y, side, step);                                          \
    }
/* A fused multiply-add that is itself long is not worth the room. */
#undef TPK_ST_MOST
#if TPK_VBYTES == 16 && !defined(__aarch64__)
#define TPK_ST_MOST 0
#else
TPK_ST_SQUARE(3, 1)
TPK_ST_SQUARE(3, 2)
#define TPK_ST_MOST 5
TPK_ST_SQUARE(5, 1)
TPK_ST_SQUARE(5, 2)
#endif

/* Planes [from, to) of the output, counted over images and channels; w is packed. */
TPK_FN void TPK_N(tpk_st_planes)(const TPK_N(tpk_st) * s, const TPK_E *x, const TPK_E *w,
                                 TPK_E *y, int64_t from, int64_t to)
{
    const tpk_conv *const c = s->c;
    const int64_t taps = c->ker[1] * c->ker[2], side = c->ker[1], step = c->stride[1];
    const int square = side == c->ker[2] && step == c->stride[2] && c->dil[1] == 1 &&
                       c->dil[2] == 1 && c->out[1] >= TPK_ST_ROWS && side >= 3 &&
                       side <= TPK_ST_MOST && side % 2;
    for (int64_t p = from; p < to; p++) {
        const int64_t n = p / c->oc, o = p % c->oc, i = o / (c->oc / c->groups);
        const TPK_E *const xp = x + n * c->xs[0] + i * c->xs[1], *const wp = w + o * taps;
        TPK_E *const yp = y + n * c->ys[0] + o * c->ys[1];
        if (!square)
            TPK_N(tpk_st_any)(s, xp, wp, yp);
#if TPK_ST_MOST == 5
        else if (side == 3)
            (step == 1 ? TPK_N(tpk_st_3_1) : TPK_N(tpk_st_3_2))(s, xp, wp, yp);
        else
            (step == 1 ? TPK_N(tpk_st_5_1) : TPK_N(tpk_st_5_2))(s, xp, wp, yp);
#endif
    }
}

/* All of it. wp: w packed beforehand, or null. */
TPK_FN void TPK_N(tpk_st_run)(const tpk_conv *c, const TPK_E *x, const TPK_E *w,
                              const TPK_E *wp, TPK_E *y, char *ws)
{
    TPK_N(tpk_st) s = TPK_N(tpk_st_make)(c);
    TPK_N(tpk_st_begin)(&s, ws);
    if (!wp) {
        TPK_E *const to = (TPK_E *)(void *)(ws + s.at_w);
        TPK_N(tpk_st_pack_w)(c, w, to);
        wp = to;
    }
    TPK_N(tpk_st_planes)(&s, x, wp, y, 0, c->batch * c->oc);
}
#endif
