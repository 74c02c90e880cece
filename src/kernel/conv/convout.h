/* convout.h: convolutions whose vectors are neighbouring output channels, for one element type
 * (TPK_BITS); conv.h chooses. It pays where rows are short and channels many.
 *
 * A tile is two runs of `u` neighbouring windows of a row each, by nr channels, in registers: nr is
 * TPK_NR = two vectors, or one where there are no more channels. Per k = (channel, tap) it loads
 * them from w, which is packed [block of k][nr channels][k][nr], and spreads one element of the
 * source per window over a vector: the runs are read where they lie, at x + offset of k. Nothing
 * but w is packed. Rows are cut into runs of one length; the last of
 * a row may overlap the one before, and runs are taken two by two across rows and images; an odd
 * one is left for a tile of half the size.
 *
 * k goes in blocks of at most TPK_CO_KC, over a band of tiles at a time: so the block of w for nr
 * channels stays in the first cache while all tiles of the band use it. The sums of closed chains
 * are in the workspace, where a tile waits between blocks. When it is finished its windows and channels are exchanged on the way to
 * the output. */
#include "kernel/conv/convspec.h"
#include "kernel/text/gemm.h"
#if (TPK_BITS == 32 && !defined(TPK_CONVOUT_32)) || (TPK_BITS == 64 && !defined(TPK_CONVOUT_64))
#if TPK_BITS == 32
#define TPK_CONVOUT_32
#else
#define TPK_CONVOUT_64
#endif

#define TPK_CO_KC (3 * TPK_CHAIN)
#define TPK_CO_BAND (1 << 19) /* bytes of tiles that wait */
#undef TPK_CO_RUN             /* the longest run */
#undef TPK_EACH_RUN
#if TPK_MR >= 14
#define TPK_CO_RUN 7
#define TPK_EACH_RUN(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#elif TPK_MR >= 6
#define TPK_CO_RUN 3
#define TPK_EACH_RUN(X) X(1) X(2) X(3)
#else
#define TPK_CO_RUN 1
#define TPK_EACH_RUN(X) X(1)
#endif

/* Windows of a tile with one run and with two: accumulator, pointer, place in the run, row of the
 * tile. */
#define TPK_SOLO1(X) X(0, p, 0, 0)
#define TPK_SOLO2(X) TPK_SOLO1(X) X(1, p, 1, 1)
#define TPK_SOLO3(X) TPK_SOLO2(X) X(2, p, 2, 2)
#define TPK_SOLO4(X) TPK_SOLO3(X) X(3, p, 3, 3)
#define TPK_SOLO5(X) TPK_SOLO4(X) X(4, p, 4, 4)
#define TPK_SOLO6(X) TPK_SOLO5(X) X(5, p, 5, 5)
#define TPK_SOLO7(X) TPK_SOLO6(X) X(6, p, 6, 6)
#define TPK_PAIR1(X) TPK_SOLO1(X) X(7, q, 0, u)
#define TPK_PAIR2(X) TPK_SOLO2(X) X(7, q, 0, u) X(8, q, 1, u + 1)
#define TPK_PAIR3(X) TPK_SOLO3(X) X(7, q, 0, u) X(8, q, 1, u + 1) X(9, q, 2, u + 2)
#define TPK_WITH4(X) X(7, q, 0, u) X(8, q, 1, u + 1) X(9, q, 2, u + 2) X(10, q, 3, u + 3)
#define TPK_WITH5(X) TPK_WITH4(X) X(11, q, 4, u + 4)
#define TPK_WITH6(X) TPK_WITH5(X) X(12, q, 5, u + 5)
#define TPK_PAIR4(X) TPK_SOLO4(X) TPK_WITH4(X)
#define TPK_PAIR5(X) TPK_SOLO5(X) TPK_WITH5(X)
#define TPK_PAIR6(X) TPK_SOLO6(X) TPK_WITH6(X)
#define TPK_PAIR7(X) TPK_SOLO7(X) TPK_WITH6(X) X(13, q, 6, u + 6)
/* For two vectors of channels, and for one. */
#define TPK_CO_ZERO2(i, s, at, row) TPK_V c##i##_0 = {0}, c##i##_1 = {0};
#define TPK_CO_ZERO1(i, s, at, row) TPK_V c##i##_0 = {0};
#define TPK_CO_STEP1(i, s, at, row)                                                            \
    {                                                                                          \
        const TPK_E e = s[at];                                                                 \
        c##i##_0 = TPK_FMA(TPK_SPLAT(e), b0, c##i##_0);                                        \
    }
#define TPK_CO_STEP2(i, s, at, row)                                                            \
    {                                                                                          \
        const TPK_E e = s[at];                                                                 \
        const TPK_V x = TPK_SPLAT(e);                                                          \
        c##i##_0 = TPK_FMA(x, b0, c##i##_0);                                                   \
        c##i##_1 = TPK_FMA(x, b1, c##i##_1);                                                   \
    }
#define TPK_CO_PUT1(i, s, at, row) TPK_STORE(c + (row)*nr, c##i##_0);
#define TPK_CO_PUT2(i, s, at, row)                                                             \
    TPK_CO_PUT1(i, s, at, row) TPK_STORE(c + (row)*nr + TPK_VL, c##i##_1);
#define TPK_CO_INTO(to, x) TPK_STORE(to, TPK_LOAD(to) + (x));
#define TPK_CO_INTO1(i, s, at, row) TPK_CO_INTO(c + (row)*nr, c##i##_0)
#define TPK_CO_INTO2(i, s, at, row)                                                            \
    TPK_CO_INTO1(i, s, at, row) TPK_CO_INTO(c + (row)*nr + TPK_VL, c##i##_1)

/* What a tile works on: the runs at `from` and `with`, offsets ko, times w[k][nr], into
 * c[2 * run][nr], which is added to if there is `more`. Meanwhile the next block of w is fetched,
 * `hop` elements of it per k: all at once would keep the loads of this tile waiting. */
typedef struct {
    int64_t k, hop;
    const TPK_E *from, *with, *w, *next;
    const int64_t *ko;
    TPK_E *c;
    int more;
} TPK_N(tpk_co_work);

#define TPK_CO_TILE(name, each, run, vectors)                                                  \
    TPK_OUT void TPK_N(name##run)(const TPK_N(tpk_co_work) * t)                                \
    {                                                                                          \
        enum { u = run, nr = vectors * TPK_VL };                                               \
        const TPK_E *const from = t->from, *const with = t->with, *w = t->w, *next = t->next;  \
        const int64_t *ko = t->ko, hop = t->hop;                                               \
        TPK_E *const c = t->c;                                                                 \
        for (int64_t k = t->k, left = 0, more = t->more; k > 0; more = 1) {                    \
            each##run(TPK_CO_ZERO##vectors);                                                   \
            left = tpk_i_min(k, TPK_CHAIN);                                                    \
            k -= left;                                                                         \
            for (; left > 0; left--, ko++, w += nr, next += hop) {                             \
                const TPK_E *const p = from + *ko, *const q = with + *ko;                      \
                const TPK_V b0 = TPK_LOAD(w), b1 = TPK_LOAD(w + nr - TPK_VL);                  \
                (void)q;                                                                       \
                (void)b1;                                                                      \
                __builtin_prefetch(next, 0, 2);                                                \
                each##run(TPK_CO_STEP##vectors)                                                \
            }                                                                                  \
            if (more) {                                                                        \
                each##run(TPK_CO_INTO##vectors)                                                \
            } else {                                                                           \
                each##run(TPK_CO_PUT##vectors)                                                 \
            }                                                                                  \
        }                                                                                      \
    }
#define TPK_CO_TILES(run)                                                                      \
    TPK_CO_TILE(tpk_co_solo, TPK_SOLO, run, 2)                                                 \
    TPK_CO_TILE(tpk_co_pair, TPK_PAIR, run, 2)                                                 \
    TPK_CO_TILE(tpk_co_thin, TPK_PAIR, run, 1)
TPK_EACH_RUN(TPK_CO_TILES)

/* The windows of a source (laid out as p says, images xs apart) and m outputs for each, ds apart
 * (image, output, d, h, w). */
typedef struct {
    const tpk_patch *p;
    int64_t m, k, images, xs, ds[5];
    int64_t first,
        whole;  /* w is packed of so many channels, of which these m begin at `first` */
    int64_t nr; /* channels of a tile */
    int64_t width, run, per_row, units; /* of a row; a run; runs in a row, and in all */
    int64_t kc, band, tile;             /* k in a block; tiles that wait; elements of one */
    int64_t at_tiles, size;             /* in the workspace, in bytes */
    const int64_t *ko;                  /* offset of each k in the source */
} TPK_N(tpk_co);

TPK_FN int64_t TPK_N(tpk_co_nr)(int64_t m)
{
    return m <= TPK_VL ? TPK_VL : TPK_NR;
}

/* How w is packed for so many output channels. */
TPK_COLD void TPK_N(tpk_co_blocks)(TPK_N(tpk_co) * v, int64_t channels)
{
    v->nr = TPK_N(tpk_co_nr)(channels);
    v->kc = tpk_i_ceil(v->k, tpk_i_ceil(v->k, TPK_CO_KC));
    v->kc = tpk_i_ceil(v->kc, TPK_CHAIN) * TPK_CHAIN;
}

/* From p to ds: fills in the rest. joined: rows that follow each other are one. */
TPK_COLD void TPK_N(tpk_co_plan)(TPK_N(tpk_co) * v, int joined)
{
    const int64_t pixels = tpk_patch_pixels(v->p), e = (int64_t)sizeof(TPK_E);
    TPK_N(tpk_co_blocks)(v, v->whole);
    v->width = joined ? pixels : v->p->out[2];
    v->per_row = tpk_i_ceil(v->width, TPK_CO_RUN);
    v->run = tpk_i_ceil(v->width, v->per_row);
    v->units = v->images * (pixels / v->width) * v->per_row;
    v->tile = 2 * v->run * v->nr;
    const int64_t most = TPK_CO_BAND / (v->tile * e * tpk_i_ceil(v->m, v->nr));
    v->band = tpk_i_min((v->units + 1) / 2, most < 4 ? 4 : most);
    v->at_tiles = tpk_cv_round_up(v->band * 4 * 8);
    v->size = v->at_tiles + tpk_cv_round_up(v->band * v->tile * tpk_i_ceil(v->m, v->nr) * e);
}

/* Elements of a packed w. */
TPK_COLD int64_t TPK_N(tpk_co_w_size)(int64_t m, int64_t k)
{
    const int64_t nr = TPK_N(tpk_co_nr)(m);
    return tpk_i_ceil(m, nr) * nr * k;
}

/* wp from w, whose element (output i, k) is w[i * rs + kw[k]]. */
TPK_COLD void TPK_N(tpk_co_pack_w)(const TPK_N(tpk_co) * v, const TPK_E *w, int64_t rs,
                                   const int64_t *kw, TPK_E *wp)
{
    const int64_t nr = v->nr;
    int64_t run = 1;
    while (run < v->k && kw[run] == kw[0] + run) {
        run++;
    }
    for (int64_t k = 0, kk = 0; k < v->k; k += kk) {
        kk = tpk_i_min(v->kc, v->k - k);
        for (int64_t j = 0; j < v->m; j += nr, wp += kk * nr) {
            const int64_t n = tpk_i_min(nr, v->m - j);
            const TPK_E *const from = w + j * rs;
            if (run == v->k) {
                TPK_N(tpk_pack)(nr, n, kk, from + kw[k], rs, 1, wp);
                continue;
            }
            for (int64_t i = 0; i < kk; i++) {
                for (int64_t r = 0; r < nr; r++) {
                    wp[i * nr + r] = r < n ? from[r * rs + kw[k + i]] : (TPK_E)0;
                }
            }
        }
    }
}

/* Where run number `unit` lies in the source and in the output. */
TPK_FN void TPK_N(tpk_co_place)(const TPK_N(tpk_co) * v, int64_t unit, int64_t *x, int64_t *y)
{
    const tpk_patch *const p = v->p;
    const int64_t rows = tpk_patch_pixels(p) / v->width, row = unit / v->per_row % rows;
    const int64_t image = unit / v->per_row / rows, d = row / p->out[1], h = row % p->out[1];
    const int64_t w = tpk_i_min(unit % v->per_row * v->run, v->width - v->run);
    *x = image * v->xs + w + (rows > 1 ? tpk_patch_row(p, d, h) : 0);
    *y = image * v->ds[0] + w * v->ds[4] + (rows > 1 ? d * v->ds[2] + h * v->ds[3] : 0);
}

/* A finished tile: n outputs of the two runs at y[0] and y[1] (the same: there is only one). */
TPK_OUT void TPK_N(tpk_co_store)(const TPK_N(tpk_co) * v, const TPK_E *c, int64_t n, TPK_E *y,
                                 const int64_t at[2])
{
    const int64_t u = v->run, os = v->ds[1], ws = v->ds[4];
    if (ws == 1 && at[1] == at[0] + u) {
        TPK_N(tpk_pack_turn)(2 * u, 2 * u, n, c, v->nr, NULL, y + at[0], os);
        return;
    }
    for (int i = 0; i < 2 && (i == 0 || at[1] != at[0]); i++, c += u * v->nr) {
        if (ws == 1) {
            TPK_N(tpk_pack_turn)(u, u, n, c, v->nr, NULL, y + at[i], os);
            continue;
        }
        for (int64_t o = 0; o < n; o++) { /* outputs lie far apart */
            for (int64_t r = 0; r < u; r++) {
                y[at[i] + r * ws + o * os] = c[r * v->nr + o];
            }
        }
    }
}

TPK_FN void TPK_N(tpk_co_tile)(const TPK_N(tpk_co) * v, const TPK_N(tpk_co_work) * t)
{
    const int64_t kind = v->nr == TPK_VL ? 16 : t->from == t->with ? 8 : 0;
    switch (kind + v->run) {
#define TPK_CASE(n)                                                                            \
    case n:                                                                                    \
        TPK_N(tpk_co_pair##n)(t);                                                              \
        break;                                                                                 \
    case 8 + n:                                                                                \
        TPK_N(tpk_co_solo##n)(t);                                                              \
        break;                                                                                 \
    case 16 + n:                                                                               \
        TPK_N(tpk_co_thin##n)(t);                                                              \
        break;
        TPK_EACH_RUN(TPK_CASE)
#undef TPK_CASE
    default:
        break;
    }
}

/* Tiles [from, to), at most a band. places: of both runs of each, in x and in y. */
TPK_OUT void TPK_N(tpk_co_band)(const TPK_N(tpk_co) * v, const TPK_E *x, const TPK_E *wp,
                                TPK_E *y, int64_t from, int64_t to, char *ws)
{
    int64_t *const places = (int64_t *)(void *)ws, n = to - from;
    TPK_E *const tiles = (TPK_E *)(void *)(ws + v->at_tiles);
    const int64_t fetch = n < 4 ? n : 4; /* tiles that fetch a share of the next block of w */
    for (int64_t i = 0; i < 2 * n; i++) {
        int64_t *const at = places + i / 2 * 4 + i % 2;
        TPK_N(tpk_co_place)(v, tpk_i_min(2 * from + i, v->units - 1), at, at + 2);
    }
    const int64_t all = tpk_i_ceil(v->whole, v->nr) * v->nr;
    for (int64_t k = 0, kk = 0; k < v->k; k += kk) {
        kk = tpk_i_min(v->kc, v->k - k);
        const TPK_E *w = wp + k * all + v->first * kk;
        const int last = k + kk == v->k;
        TPK_N(tpk_co_work)
        t = {.k = kk, .hop = v->nr / fetch, .ko = v->ko + k, .c = tiles, .more = k > 0};
        for (int64_t j = 0; j < v->m; j += v->nr, w += kk * v->nr) {
            t.w = w;
            for (int64_t i = 0; i < n; i++, t.c += v->tile) {
                const int64_t *const at = places + i * 4;
                t.next = i < fetch ? w + (kk + kk * i / fetch) * v->nr : w;
                t.from = x + at[0];
                t.with = x + at[1];
                TPK_N(tpk_co_tile)(v, &t);
                if (last) {
                    TPK_N(tpk_co_store)
                    (v, t.c, tpk_i_min(v->nr, v->m - j), y + j * v->ds[1], at + 2);
                }
            }
        }
    }
}

/* All windows; k is at least 1. */
TPK_FN void TPK_N(tpk_co_run)(const TPK_N(tpk_co) * v, const TPK_E *x, const TPK_E *wp,
                              TPK_E *y, char *ws)
{
    const int64_t n = (v->units + 1) / 2;
    for (int64_t i = 0; i < n; i += v->band) {
        TPK_N(tpk_co_band)(v, x, wp, y, i, tpk_i_min(i + v->band, n), ws);
    }
}
#endif
