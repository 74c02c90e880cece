/* gemm.h: C = A B for one element type (TPK_BITS is 32 or 64), the same bits on every machine.
 *
 * What is computed. Every c[i][j] is a sum of chains of fma, each from +0 and in k order over TPK_CHAIN
 * k (the last one over what is left); they are added from left to right. Nothing else is promised and
 * nothing else is needed: tiles, panels and vectors only say which outputs are worked on together.
 * So the plain triple loop in convref.h is matched to the last bit. A tile has the open chains in
 * registers and the sums of closed ones beside it: that is a load, an addition and a store per
 * TPK_CHAIN multiply-adds. Panels of k end with a chain; where the caller's pieces do not, open chains
 * wait in a place of their own.
 *
 * How. A tile of C, up to TPK_MR rows by TPK_NR = two vectors of columns, lives in registers while
 * k runs: per k two vectors of B are loaded, and each of the rows' elements of A is spread over a
 * vector and multiplied with both. There are kernels for a few heights; m is cut into panels of
 * those (vec.h), so that all but an odd row is useful work, and a narrow last tile is masked where
 * C is loaded and stored. One to four rows would wait for the latency of fma, so they take four
 * vectors of columns.
 *
 * Kernels read A and B through strides, so both may be used where they lie. Packing pays when the
 * copy is read often: B goes into panels [n / NR][k][NR], whose last one is filled up (its columns
 * are never stored), A into panels [m / MR][k][rows]; a transposed matrix is turned in registers,
 * VL by VL. k is cut into panels of TPK_KC and n into TPK_NC; past this go TPK_PANELS panels of A at a
 * time. Long panels of k proved best on a shared machine: C passes by less often. B is fetched
 * TPK_AHEAD steps before it is needed, since it may come from far, by strides that no machine
 * foresees. With few rows of A nothing is read twice: then B is not packed, and if it is large, k
 * goes in short steps across all columns,
 * in the order of memory. With very few columns the same is done with A and B exchanged (fma does
 * not mind), and the result is turned.
 *
 * Constant operands can be packed beforehand; the layout depends on the shape alone (and on the
 * instruction set). Strides are in elements, any sign, zero too; columns of C are contiguous. */
#if (TPK_BITS == 32 && !defined(TPK_GEMM_32)) || (TPK_BITS == 64 && !defined(TPK_GEMM_64))
#if TPK_BITS == 32
#define TPK_GEMM_32
#else
#define TPK_GEMM_64
#endif
#include "kernel/text/vec.h"

#undef TPK_EACH_ROWS
#if TPK_VBYTES == 64 || defined(__aarch64__)
/* Tiles of f64 are less high: they read B more often, but each height is 4 KB of the library. TPK_MR is that of
 * the TPK_BITS where it is used. */
#define TPK_MR (TPK_BITS == 64 ? 8 : 14)
#if TPK_BITS == 64
#define TPK_EACH_ROWS(X) X(2) X(4) X(6) X(8)
#else
#define TPK_EACH_ROWS(X) X(2) X(4) X(6) X(8) X(10) X(12) X(14)
#endif
#elif TPK_VBYTES == 32
#define TPK_MR 6
#define TPK_EACH_ROWS(X) X(2) X(4) X(6)
#else
#define TPK_MR 2
#define TPK_EACH_ROWS(X) X(2)
#endif
#define TPK_NR (2 * TPK_VL)
/* Rows that four vectors of columns are taken for. */
#if TPK_ONE_SHAPE
#define TPK_FEW_ROWS 1
#define TPK_EACH_WIDE(X) X(1)
#define TPK_NARROW_ROWS 4
#else
#define TPK_FEW_ROWS 4
#define TPK_EACH_WIDE(X) X(1) X(2) X(4)
#define TPK_NARROW_ROWS 8
#endif
#define TPK_KC 512
#define TPK_KC_PACKED 768  /* where B was packed before: nothing of it is written */
#define TPK_PANELS 8       /* of A that go past one panel of B */
#define TPK_MOST_PANELS 12 /* when these are all there are */
#define TPK_NC (TPK_NR * 32)
#define TPK_NEAR (24 << 10) /* bytes of a small B that stays in the first cache */
#define TPK_FULL 4096       /* k: of one row or a few, so much of a packed B goes by at once */
#define TPK_AHEAD 24        /* k: B is fetched so long before it is needed */

/* Rows of a tile: accumulator, its group of three (one pointer for three rows keeps every address
 * within what one instruction can say), place in the group, row. The last one has a pointer of its
 * own, so that a tile can have a row less: then the last two are the same row, done twice. */
#define TPK_ROW2(X) X(0, 0, 0, 0)
#define TPK_ROW3(X) TPK_ROW2(X) X(1, 0, 1, 1)
#define TPK_ROW4(X) TPK_ROW3(X) X(2, 0, 2, 2)
#define TPK_ROW6(X) TPK_ROW4(X) X(3, 1, 0, 3) X(4, 1, 1, 4)
#define TPK_ROW8(X) TPK_ROW6(X) X(5, 1, 2, 5) X(6, 2, 0, 6)
#define TPK_ROW10(X) TPK_ROW8(X) X(7, 2, 1, 7) X(8, 2, 2, 8)
#define TPK_ROW12(X) TPK_ROW10(X) X(9, 3, 0, 9) X(10, 3, 1, 10)
#define TPK_ROW14(X) TPK_ROW12(X) X(11, 3, 2, 11) X(12, 4, 0, 12)
#define TPK_R1(X) X(0, z, 0, rows - 1)
#define TPK_R2(X) TPK_ROW2(X) X(1, z, 0, rows - 1)
#define TPK_R3(X) TPK_ROW3(X) X(2, z, 0, rows - 1)
#define TPK_R4(X) TPK_ROW4(X) X(3, z, 0, rows - 1)
#define TPK_R6(X) TPK_ROW6(X) X(5, z, 0, rows - 1)
#define TPK_R8(X) TPK_ROW8(X) X(7, z, 0, rows - 1)
#define TPK_R10(X) TPK_ROW10(X) X(9, z, 0, rows - 1)
#define TPK_R12(X) TPK_ROW12(X) X(11, z, 0, rows - 1)
#define TPK_R14(X) TPK_ROW14(X) X(13, z, 0, rows - 1)
/* The pointers: name, first row. */
#define TPK_P1(X) X(z, rows - 1)
#define TPK_P2(X) X(0, 0) TPK_P1(X)
#define TPK_P3(X) TPK_P2(X)
#define TPK_P4(X) TPK_P2(X)
#define TPK_P6(X) X(1, 3) TPK_P2(X)
#define TPK_P8(X) X(2, 6) TPK_P6(X)
#define TPK_P10(X) TPK_P8(X)
#define TPK_P12(X) X(3, 9) TPK_P8(X)
#define TPK_P14(X) X(4, 12) TPK_P12(X)

#define TPK_APTR(p, row) const TPK_E *a##p = a + (row)*a_rs;
#define TPK_CPTR(p, row) TPK_E *c##p = c + (row)*c_rs;
#define TPK_ASTEP(p, row) a##p += a_cs;
#define TPK_ZERO2(i, p, r, row) TPK_V c##i##_0 = {0}, c##i##_1 = {0};
#define TPK_OPEN2(i, p, r, row)                                                                \
    c##i##_0 = at[2 * (i)];                                                                    \
    c##i##_1 = at[2 * (i) + 1];
#define TPK_ADD2(i, p, r, row)                                                                 \
    c##i##_0 = at[2 * (i)] + c##i##_0;                                                         \
    c##i##_1 = at[2 * (i) + 1] + c##i##_1;
#define TPK_PUT2(i, p, r, row)                                                                 \
    at[2 * (i)] = c##i##_0;                                                                    \
    at[2 * (i) + 1] = c##i##_1;
/* The next tile of C is fetched while this one is done. */
#define TPK_FETCH_NEXT(most)                                                                   \
    {                                                                                          \
        const TPK_E *next = c + rows * c_rs;                                                   \
        _Pragma("GCC unroll 1") for (int i = 0; i < (most); i++, next += c_rs)                 \
        {                                                                                      \
            __builtin_prefetch(next, 1, 3);                                                    \
            __builtin_prefetch(next + TPK_NR - 1, 1, 3);                                       \
        }                                                                                      \
    }
/* What bounds the loop over k is how many instructions a step takes. An element of A is spread once
 * for both vectors of B, or by the multiply-adds themselves, which loads it twice: that is done for
 * some of the rows, whose address is a pointer and a constant. */
#define TPK_STEP2(i, p, r, row)                                                                \
    if ((r) == 0) {                                                                            \
        TPK_ADDTO_AT(c##i##_0, a##p, b0);                                                      \
        TPK_ADDTO_AT(c##i##_1, a##p, b1);                                                      \
    } else {                                                                                   \
        const TPK_E e = a##p[(r)*a_rs];                                                        \
        const TPK_V x = TPK_SPLAT(e);                                                          \
        TPK_ADDTO(c##i##_0, x, b0);                                                            \
        TPK_ADDTO(c##i##_1, x, b1);                                                            \
    }
#define TPK_TILE_STEP(most)                                                                    \
    {                                                                                          \
        const TPK_V b0 = TPK_LOAD(b), b1 = TPK_LOAD(b + b_gs);                                 \
        __builtin_prefetch(b + b_ahead);                                                       \
        __builtin_prefetch(b + b_ahead + b_gs);                                                \
        TPK_R##most(TPK_STEP2) TPK_P##most(TPK_ASTEP);                                         \
        b += b_rs;                                                                             \
    }
#define TPK_DONE2(i, p, r, row)                                                                \
    TPK_STOREM(c##p + (r)*c_rs, c##i##_0, m0);                                                 \
    TPK_STOREM(c##p + (r)*c_rs + TPK_VL, c##i##_1, m1);

/* A panel of k: the first `room` complete a chain, which is in `open` if k before them began it. If
 * there is `more`, C has the sum of those closed before. The last chain is left in `open` if it
 * `stays`, else it is closed. */
typedef struct {
    int64_t room;
    TPK_E *open; /* rows as those of the tile, TPK_NC apart: whole vectors */
    int more, stays;
} TPK_N(tpk_chains);

/* Registers are for the open chains; a compiler would put the sums there, too, and these elsewhere. */
#define TPK_STAYS_IN_MEMORY(p) __asm__ volatile("" : "+r"(p) : : "memory")
/* A tile's vectors, between memory of their own and rows of C or of open chains. */
TPK_OUT void TPK_N(tpk_sums)(TPK_V *sums, int64_t most, int64_t vectors, int64_t rows, TPK_E *c,
                             int64_t c_rs, int64_t n, int back)
{
    for (int64_t i = 0; i < most; i++) {
        TPK_E *const row = c + tpk_i_min(i, rows - 1) * c_rs;
        for (int64_t v = 0, at = 0; v < vectors; v++, at += TPK_VL, sums++) {
            const TPK_M m = TPK_MASK(n - at);
            if (back) {
                TPK_STOREM(row + at, *sums, m);
            } else {
                *sums = TPK_LOADM(row + at, m);
            }
        }
    }
}

/* Before and after a panel of k: what is closed, in C, and behind that the open chain. */
TPK_OUT void TPK_N(tpk_sums_pass)(TPK_V *sums, int64_t most, int64_t vectors, int64_t rows,
                                  TPK_E *c, int64_t c_rs, int64_t n, int closed, int open,
                                  TPK_E *opened, int back)
{
    if (closed) {
        TPK_N(tpk_sums)(sums, most, vectors, rows, c, c_rs, n, back);
    }
    if (open) {
        TPK_N(tpk_sums)
        (sums + most * vectors, most, vectors, rows, opened, TPK_NC, vectors * TPK_VL, back);
    }
}

/* A tile goes over k by chains: TPK_EACH_CHAIN { the loop over `left` k } TPK_CLOSE. A row that is
 * there twice is read twice before it is written. A tile's code is mostly this, not its loop, so nothing of it
 * is there twice, and what is rare is a function. */
#define TPK_EACH_CHAIN(most, vectors)                                                          \
    TPK_V sums[2 * (most) * (vectors)];                                                        \
    int more = s->more;                                                                        \
    if (more || s->room < TPK_CHAIN) {                                                         \
        TPK_N(tpk_sums_pass)                                                                   \
        (sums, most, vectors, rows, c, c_rs, n, more, s->room < TPK_CHAIN, s->open, 0);        \
    }                                                                                          \
    for (int64_t room = s->room;; room = TPK_CHAIN, more = 1) {                                \
        const int64_t went = tpk_i_min(k, room);                                               \
        int64_t left = went;                                                                   \
        TPK_V *at = sums;                                                                      \
        TPK_R##most(TPK_ZERO##vectors);                                                        \
        if (room < TPK_CHAIN) {                                                                \
            at += (most) * (vectors);                                                          \
            TPK_STAYS_IN_MEMORY(at);                                                           \
            TPK_R##most(TPK_OPEN##vectors)                                                     \
        }
#define TPK_CLOSE(most, vectors)                                                               \
    k -= went;                                                                                 \
    const int stays = k == 0 && s->stays;                                                      \
    at = sums + (stays ? (most) * (vectors) : 0);                                              \
    TPK_STAYS_IN_MEMORY(at);                                                                   \
    if (!stays) {                                                                              \
        if (more) {                                                                            \
            TPK_R##most(TPK_ADD##vectors)                                                      \
        }                                                                                      \
        if (k == 0) {                                                                          \
            TPK_P##most(TPK_CPTR) TPK_MASKS##vectors TPK_R##most(TPK_DONE##vectors) return;    \
        }                                                                                      \
    }                                                                                          \
    TPK_R##most(TPK_PUT##vectors) if (k == 0)                                                  \
    {                                                                                          \
        TPK_N(tpk_sums_pass)                                                                   \
        (sums, most, vectors, rows, c, c_rs, n, more, 1, s->open, 1);                          \
        return;                                                                                \
    }                                                                                          \
    }
#define TPK_MASKS2 const TPK_M m0 = TPK_MASK(n), m1 = TPK_MASK(n - TPK_VL);

/* C[rows][n <= NR] = A B over k. The second vector of B lies at b + b_gs. */
#define TPK_TILE(most)                                                                         \
    TPK_OUT void TPK_N(tpk_tile##most)(int64_t rows, int64_t k, const TPK_E *a, int64_t a_rs,  \
                                       int64_t a_cs, const TPK_E *b, int64_t b_rs,             \
                                       int64_t b_gs, TPK_E *c, int64_t c_rs, int64_t n,        \
                                       const TPK_N(tpk_chains) * s)                            \
    {                                                                                          \
        TPK_P##most(TPK_APTR) const int64_t b_ahead = TPK_AHEAD * b_rs;                        \
        TPK_FETCH_NEXT(most)                                                                   \
        TPK_EACH_CHAIN(most, 2)                                                                \
        for (; left > 0; left--) {                                                             \
            TPK_TILE_STEP(most)                                                                \
        }                                                                                      \
        TPK_CLOSE(most, 2)                                                                     \
    }
TPK_EACH_ROWS(TPK_TILE)

/* The same for a packed panel of A, as wide as the kernel is high, which one pointer goes through:
 * every other row's element is spread by the multiply-adds. */
#define TPK_EACH_PAIR2(X, Y) X(0) Y(1)
#define TPK_EACH_PAIR4(X, Y) TPK_EACH_PAIR2(X, Y) X(2) Y(3)
#define TPK_EACH_PAIR6(X, Y) TPK_EACH_PAIR4(X, Y) X(4) Y(5)
#define TPK_EACH_PAIR8(X, Y) TPK_EACH_PAIR6(X, Y) X(6) Y(7)
#define TPK_EACH_PAIR10(X, Y) TPK_EACH_PAIR8(X, Y) X(8) Y(9)
#define TPK_EACH_PAIR12(X, Y) TPK_EACH_PAIR10(X, Y) X(10) Y(11)
#define TPK_EACH_PAIR14(X, Y) TPK_EACH_PAIR12(X, Y) X(12) Y(13)
#define TPK_SPREAD(i)                                                                          \
    {                                                                                          \
        const TPK_E e = a[i];                                                                  \
        const TPK_V x = TPK_SPLAT(e);                                                          \
        TPK_ADDTO(c##i##_0, x, b0);                                                            \
        TPK_ADDTO(c##i##_1, x, b1);                                                            \
    }
#define TPK_FROM_MEMORY(i)                                                                     \
    TPK_ADDTO_AT(c##i##_0, a + (i), b0);                                                       \
    TPK_ADDTO_AT(c##i##_1, a + (i), b1);
#define TPK_PANEL_STEP(most)                                                                   \
    {                                                                                          \
        const TPK_V b0 = TPK_LOAD(b), b1 = TPK_LOAD(b + b_gs);                                 \
        __builtin_prefetch(b + b_ahead);                                                       \
        __builtin_prefetch(b + b_ahead + b_gs);                                                \
        TPK_EACH_PAIR##most(TPK_FROM_MEMORY, TPK_SPREAD);                                      \
        b += b_rs;                                                                             \
        a += (most);                                                                           \
    }
#define TPK_PANEL(most)                                                                        \
    TPK_OUT void TPK_N(tpk_panel##most)(int64_t rows, int64_t k, const TPK_E *a,               \
                                        const TPK_E *b, int64_t b_rs, int64_t b_gs, TPK_E *c,  \
                                        int64_t c_rs, int64_t n, const TPK_N(tpk_chains) * s)  \
    {                                                                                          \
        const int64_t b_ahead = TPK_AHEAD * b_rs;                                              \
        TPK_FETCH_NEXT(most)                                                                   \
        TPK_EACH_CHAIN(most, 2)                                                                \
        for (; left > 0; left--) {                                                             \
            TPK_PANEL_STEP(most)                                                               \
        }                                                                                      \
        TPK_CLOSE(most, 2)                                                                     \
    }
#if !TPK_ONE_SHAPE
TPK_EACH_ROWS(TPK_PANEL)
#endif

TPK_FN void TPK_N(tpk_panel)(int64_t rows, int64_t k, const TPK_E *a, const TPK_E *b,
                             int64_t b_rs, int64_t b_gs, TPK_E *c, int64_t c_rs, int64_t n,
                             const TPK_N(tpk_chains) * s)
{
#if TPK_ONE_SHAPE
    TPK_N(tpk_tile2)(rows, k, a, 1, 2, b, b_rs, b_gs, c, c_rs, n, s);
#else
    switch (tpk_i_even(rows)) {
#define TPK_CASE(most)                                                                         \
    case most:                                                                                 \
        TPK_N(tpk_panel##most)(rows, k, a, b, b_rs, b_gs, c, c_rs, n, s);                      \
        break;
        TPK_EACH_ROWS(TPK_CASE)
#undef TPK_CASE
    default:
        break;
    }
#endif
}

TPK_FN void TPK_N(tpk_tile)(int64_t rows, int64_t k, const TPK_E *a, int64_t a_rs, int64_t a_cs,
                            const TPK_E *b, int64_t b_rs, int64_t b_gs, TPK_E *c, int64_t c_rs,
                            int64_t n, const TPK_N(tpk_chains) * s)
{
    if (a_rs == 1 && a_cs == rows && rows % 2 == 0) {
        TPK_N(tpk_panel)(rows, k, a, b, b_rs, b_gs, c, c_rs, n, s);
        return;
    }
    switch (rows) {
#define TPK_CASE(most)                                                                         \
    case (most)-1:                                                                             \
    case most:                                                                                 \
        TPK_N(tpk_tile##most)(rows, k, a, a_rs, a_cs, b, b_rs, b_gs, c, c_rs, n, s);           \
        break;
        TPK_EACH_ROWS(TPK_CASE)
#undef TPK_CASE
    default:
        break;
    }
}

/* Four vectors of columns for few rows, four steps of k at a time; the third and fourth lie at b + b_gs. */
#define TPK_ZERO4(i, p, r, row)                                                                \
    TPK_V c##i##_0 = {0}, c##i##_1 = {0}, c##i##_2 = {0}, c##i##_3 = {0};
#define TPK_OPEN4(i, p, r, row)                                                                \
    c##i##_0 = at[4 * (i)];                                                                    \
    c##i##_1 = at[4 * (i) + 1];                                                                \
    c##i##_2 = at[4 * (i) + 2];                                                                \
    c##i##_3 = at[4 * (i) + 3];
#define TPK_ADD4(i, p, r, row)                                                                 \
    c##i##_0 = at[4 * (i)] + c##i##_0;                                                         \
    c##i##_1 = at[4 * (i) + 1] + c##i##_1;                                                     \
    c##i##_2 = at[4 * (i) + 2] + c##i##_2;                                                     \
    c##i##_3 = at[4 * (i) + 3] + c##i##_3;
#define TPK_PUT4(i, p, r, row)                                                                 \
    at[4 * (i)] = c##i##_0;                                                                    \
    at[4 * (i) + 1] = c##i##_1;                                                                \
    at[4 * (i) + 2] = c##i##_2;                                                                \
    at[4 * (i) + 3] = c##i##_3;
#define TPK_MASKS4                                                                             \
    TPK_MASKS2 const TPK_M m2 = TPK_MASK(n - 2 * TPK_VL), m3 = TPK_MASK(n - 3 * TPK_VL);
#define TPK_STEP4(i, p, r, row)                                                                \
    {                                                                                          \
        const TPK_E e = a##p[(r)*a_rs];                                                        \
        const TPK_V x = TPK_SPLAT(e);                                                          \
        c##i##_0 = TPK_FMA(x, b0, c##i##_0);                                                   \
        c##i##_1 = TPK_FMA(x, b1, c##i##_1);                                                   \
        c##i##_2 = TPK_FMA(x, b2, c##i##_2);                                                   \
        c##i##_3 = TPK_FMA(x, b3, c##i##_3);                                                   \
    }
#define TPK_DONE4(i, p, r, row)                                                                \
    TPK_STOREM(c##p + (r)*c_rs, c##i##_0, m0);                                                 \
    TPK_STOREM(c##p + (r)*c_rs + TPK_VL, c##i##_1, m1);                                        \
    TPK_STOREM(c##p + (r)*c_rs + 2 * TPK_VL, c##i##_2, m2);                                    \
    TPK_STOREM(c##p + (r)*c_rs + 3 * TPK_VL, c##i##_3, m3);

/* Else a register is kept for where each of the steps reads. */
#define TPK_ON_ITS_WAY(p) __asm__("" : "+r"(p))
#define TPK_WIDE_STEP(most)                                                                    \
    {                                                                                          \
        const TPK_V b0 = TPK_LOAD(b), b1 = TPK_LOAD(b + TPK_VL);                               \
        const TPK_V b2 = TPK_LOAD(b + b_gs), b3 = TPK_LOAD(b + b_gs + TPK_VL);                 \
        __builtin_prefetch(b + b_ahead);                                                       \
        __builtin_prefetch(b + b_ahead + TPK_VL);                                              \
        __builtin_prefetch(b + b_ahead + b_gs);                                                \
        __builtin_prefetch(b + b_ahead + b_gs + TPK_VL);                                       \
        TPK_R##most(TPK_STEP4) TPK_P##most(TPK_ASTEP);                                         \
        b += b_rs;                                                                             \
        TPK_ON_ITS_WAY(b);                                                                     \
    }
#define TPK_WIDE(most)                                                                         \
    TPK_OUT void TPK_N(tpk_wide##most)(int64_t rows, int64_t k, const TPK_E *a, int64_t a_rs,  \
                                       int64_t a_cs, const TPK_E *b, int64_t b_rs,             \
                                       int64_t b_gs, TPK_E *c, int64_t c_rs, int64_t n,        \
                                       const TPK_N(tpk_chains) * s)                            \
    {                                                                                          \
        TPK_P##most(TPK_APTR) const int64_t b_ahead = TPK_AHEAD * b_rs;                        \
        TPK_EACH_CHAIN(most, 4)                                                                \
        for (; !TPK_ONE_SHAPE && left >= 4; left -= 4) {                                       \
            TPK_WIDE_STEP(most) TPK_WIDE_STEP(most) TPK_WIDE_STEP(most) TPK_WIDE_STEP(most)    \
        }                                                                                      \
        for (; left > 0; left--) {                                                             \
            TPK_WIDE_STEP(most)                                                                \
        }                                                                                      \
        TPK_CLOSE(most, 4)                                                                     \
    }
TPK_EACH_WIDE(TPK_WIDE)

TPK_FN void TPK_N(tpk_wide)(int64_t rows, int64_t k, const TPK_E *a, int64_t a_rs, int64_t a_cs,
                            const TPK_E *b, int64_t b_rs, int64_t b_gs, TPK_E *c, int64_t c_rs,
                            int64_t n, const TPK_N(tpk_chains) * s)
{
    switch (rows < 3 ? rows : TPK_FEW_ROWS) {
#define TPK_CASE(most)                                                                         \
    case most:                                                                                 \
        TPK_N(tpk_wide##most)(rows, k, a, a_rs, a_cs, b, b_rs, b_gs, c, c_rs, n, s);           \
        break;
        TPK_EACH_WIDE(TPK_CASE)
#undef TPK_CASE
    default:
        break;
    }
}

/* A square of VL vectors v0, v1 ... is turned by log2(VL) perfect shuffles, to and fro between v
 * and w. */
#define TPK_EACH_2(X) X(0) X(1)
#define TPK_EACH_4(X) TPK_EACH_2(X) X(2) X(3)
#define TPK_EACH_8(X) TPK_EACH_4(X) X(4) X(5) X(6) X(7)
#define TPK_EACH_16(X) TPK_EACH_8(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define TPK_MIX(to, of, a, b, lo, hi)                                                          \
    to##lo = TPK_ILO(of##a, of##b);                                                            \
    to##hi = TPK_IHI(of##a, of##b);
#define TPK_MIX_2(to, of) TPK_MIX(to, of, 0, 1, 0, 1)
#define TPK_MIX_4(to, of) TPK_MIX(to, of, 0, 2, 0, 1) TPK_MIX(to, of, 1, 3, 2, 3)
#define TPK_MIX_8(to, of)                                                                      \
    TPK_MIX(to, of, 0, 4, 0, 1)                                                                \
    TPK_MIX(to, of, 1, 5, 2, 3) TPK_MIX(to, of, 2, 6, 4, 5) TPK_MIX(to, of, 3, 7, 6, 7)
#define TPK_MIX_16(to, of)                                                                     \
    TPK_MIX(to, of, 0, 8, 0, 1)                                                                \
    TPK_MIX(to, of, 1, 9, 2, 3)                                                                \
    TPK_MIX(to, of, 2, 10, 4, 5)                                                               \
    TPK_MIX(to, of, 3, 11, 6, 7)                                                               \
    TPK_MIX(to, of, 4, 12, 8, 9)                                                               \
    TPK_MIX(to, of, 5, 13, 10, 11)                                                             \
    TPK_MIX(to, of, 6, 14, 12, 13) TPK_MIX(to, of, 7, 15, 14, 15)
#define TPK_BACK(r) v##r = w##r;
#define TPK_TURN_2 TPK_MIX_2(w, v) TPK_EACH_2(TPK_BACK)
#define TPK_TURN_4 TPK_MIX_4(w, v) TPK_MIX_4(v, w)
#define TPK_TURN_8 TPK_MIX_8(w, v) TPK_MIX_8(v, w) TPK_MIX_8(w, v) TPK_EACH_8(TPK_BACK)
#define TPK_TURN_16                                                                            \
    _Pragma("GCC unroll 1") for (int h = 0; h < 2; h++)                                        \
    {                                                                                          \
        TPK_MIX_16(w, v)                                                                       \
        TPK_MIX_16(v, w)                                                                       \
    }

/* Packing. dst[kk * width + i] = src[i * rs + kk * ks] for i < rows. The rest of the width meets
 * columns of C that are not stored: it is some row again, or +0. Turned: ks is 1, rows of dst are ld
 * apart, and with a table row i begins at off[i] instead. */
#define TPK_TURN_IN(r)                                                                         \
    TPK_V v##r = TPK_LOADM(src + kk + at[r], km), w##r;                                        \
    __builtin_prefetch(src + kk + at[r] + 4 * TPK_VL);
#define TPK_TURN_OUT(r) TPK_STOREM(to + (r)*ld, v##r, m);
#define TPK_TURN_KEEP(r) keep[r] = v##r;
TPK_OUT void TPK_N(tpk_pack_turn)(int64_t width, int64_t rows, int64_t k, const TPK_E *src,
                                  int64_t rs, const int64_t *off, TPK_E *dst, int64_t ld)
{
    for (int64_t i = 0; i < width; i += TPK_VL) {
        const TPK_M m = TPK_MASK(width - i);
        for (int64_t kk = 0; kk < k && i >= rows; kk++) {
            TPK_STOREM(dst + kk * ld + i, (TPK_V){0}, m);
        }
        if (i >= rows) {
            continue;
        }
        int64_t at[TPK_VL];
        for (int64_t r = 0; r < TPK_VL; r++) {
            const int64_t row = tpk_i_min(i + r, rows - 1);
            at[r] = off ? off[row] : row * rs;
        }
        for (int64_t kk = 0; kk < k; kk += TPK_VL) {
            const TPK_M km = TPK_MASK(k - kk);
            TPK_E *const to = dst + kk * ld + i;
            TPK_TIE(TPK_EACH_, TPK_VL)(TPK_TURN_IN);
            TPK_TIE(TPK_TURN_, TPK_VL)
            if (kk + TPK_VL <= k) {
                TPK_TIE(TPK_EACH_, TPK_VL)(TPK_TURN_OUT);
                continue;
            }
            TPK_V keep[TPK_VL];
            TPK_TIE(TPK_EACH_, TPK_VL)(TPK_TURN_KEEP);
            for (int64_t r = 0; r < k - kk; r++) {
                TPK_STOREM(to + r * ld, keep[r], m);
            }
        }
    }
}

TPK_OUT void TPK_N(tpk_pack)(int64_t width, int64_t rows, int64_t k, const TPK_E *src,
                             int64_t rs, int64_t ks, TPK_E *dst)
{
    if (rs == 1) {
        for (int64_t i = 0; i < width; i += TPK_VL) {
            const TPK_M from = TPK_MASK(rows - i), to = TPK_MASK(width - i);
            for (int64_t kk = 0; kk < k; kk++) {
                TPK_STOREM(dst + kk * width + i, TPK_LOADM(src + kk * ks + i, from), to);
            }
        }
        return;
    }
    if (ks == 1) {
        TPK_N(tpk_pack_turn)(width, rows, k, src, rs, NULL, dst, width);
        return;
    }
    for (int64_t kk = 0; kk < k; kk++) {
        for (int64_t i = 0; i < width; i++) {
            dst[kk * width + i] = i < rows ? src[i * rs + kk * ks] : (TPK_E)0;
        }
    }
}

/* Panels of B whose rows are contiguous, four at a time: long stretches of each row are read. */
TPK_OUT void TPK_N(tpk_pack_rows)(int64_t cols, int64_t k, const TPK_E *src, int64_t ks,
                                  TPK_E *dst)
{
    const int64_t panel = TPK_NR * k;
    for (int64_t j = 0; j < cols; j += 4 * TPK_NR) {
        const int64_t n = tpk_i_min(4 * TPK_NR, cols - j);
        const int64_t whole = n / TPK_NR * TPK_NR;
        const TPK_M m0 = TPK_MASK(n - whole), m1 = TPK_MASK(n - whole - TPK_VL);
        TPK_E *to = dst + j * k;
        const TPK_E *from = src + j;
        for (int64_t kk = 0; kk < k; kk++, to += TPK_NR, from += ks) {
            TPK_E *p = to;
            for (int64_t x = 0; x < whole; x += TPK_NR, p += panel) {
                TPK_STORE(p, TPK_LOAD(from + x));
                TPK_STORE(p + TPK_VL, TPK_LOAD(from + x + TPK_VL));
            }
            if (whole < n) {
                TPK_STORE(p, TPK_LOADM(from + whole, m0));
                TPK_STORE(p + TPK_VL, TPK_LOADM(from + whole + TPK_VL, m1));
            }
        }
    }
}

/* One contraction. ap and bp, where not null, are packed operands and go before a and b. */
typedef struct {
    int64_t m, n, k;
    const TPK_E *a, *b, *ap, *bp;
    int64_t a_rs, a_cs, b_rs, b_cs;
    TPK_E *c;
    int64_t c_rs;
    /* Where not null, they write the packed operands in place of a and b: dst[kk * rows + r] is
     * the element (i + r, k + kk) of A, dst[kk * NR + x] the element (k + kk, j + x) of B. With
     * a piece, no panel of k crosses a multiple of it. see_b, which needs more than four rows,
     * gives the place of two vectors of B, rs from row to row and gs apart. see_a says whether
     * this panel of k can be read in place, and where: A is piecewise a matrix. */
    int64_t piece;
    TPK_E *open; /* TPK_NC elements for each row, where pieces end within a chain */
    const TPK_E *(*see_b)(void *from, int64_t j, int64_t k, int64_t *rs, int64_t *gs);
    int (*see_a)(void *from, int64_t k, int64_t kk, const TPK_E **a, int64_t *rs, int64_t *cs);
    void (*fill_a)(void *from, int64_t i, int64_t rows, int64_t k, int64_t kk, TPK_E *dst);
    void (*fill_b)(void *from, int64_t j, int64_t cols, int64_t k, int64_t kk, TPK_E *dst);
    void *from;
    void *ws;
} TPK_N(tpk_mm);

/* How it is blocked: panels of rows, steps of k and n, whether operands are read in place. */
typedef struct {
    tpk_rows rows;
    int64_t kc, nc;
    int a_flat, b_flat;
} TPK_N(tpk_mm_plan);

TPK_OUT TPK_N(tpk_mm_plan) TPK_N(tpk_mm_make_plan)(const TPK_N(tpk_mm) * q)
{
    TPK_N(tpk_mm_plan) s;
    const int64_t k = tpk_i_min(q->k, TPK_FULL);
    s.rows = tpk_rows_cut(q->m, TPK_MR);
    const int64_t size = sizeof(TPK_E);
    s.b_flat =
        !q->bp && !q->fill_b && q->b_cs == 1 &&
        (q->m <= 3 * TPK_MR || (q->k * q->n * size <= TPK_NEAR && q->b_rs * size % 2048 != 0));
    /* Turning A costs as much as some nine columns. Rows that are a multiple of 2 KiB apart would
     * fight for the same lines of the cache. */
    s.a_flat = !q->ap && !q->fill_a && (q->m == 1 || q->a_cs == 1 || q->a_rs == 1) &&
               (q->m <= TPK_FEW_ROWS || (q->n <= 8 * TPK_NR && q->a_rs * size % 2048 != 0));
    s.kc = tpk_i_ceil(k, tpk_i_ceil(k, q->bp ? TPK_KC_PACKED : TPK_KC));
    s.kc = tpk_i_ceil(s.kc, TPK_CHAIN) * TPK_CHAIN;
    s.nc = TPK_NC;
    if (q->m <= TPK_MR) {
        /* B is packed and read at once, in the first cache; or read panel by panel. */
        s.nc = q->bp ? TPK_NC : 4 * TPK_NR;
        s.kc = q->bp ? k : tpk_i_min(s.kc, 192);
        if (s.b_flat && k * q->n >= (1 << 20) / (int64_t)sizeof(TPK_E)) {
            s.kc = TPK_CHAIN;
            s.nc = TPK_NC;
        }
    }
    return s;
}

TPK_FN int64_t TPK_N(tpk_mm_a_room)(int64_t m, int64_t k)
{
    const int64_t rows = tpk_i_even(tpk_i_min(m, TPK_MR * TPK_MOST_PANELS));
    return (rows * tpk_i_min(k, m <= TPK_MR ? TPK_FULL : TPK_KC_PACKED) + 15) / 16 * 16;
}

/* A panel of A, as wide as its kernel is high: an odd one has its last row twice. */
TPK_FN void TPK_N(tpk_pack_a)(int64_t rows, int64_t k, const TPK_E *a, int64_t a_rs,
                              int64_t a_cs, TPK_E *dst)
{
    const int64_t width = tpk_i_even(rows);
    TPK_N(tpk_pack)(width, rows, k, a, a_rs, a_cs, dst);
    for (int64_t kk = 0; kk < k && rows < width; kk++) {
        dst[kk * width + rows] = dst[kk * width + rows - 1];
    }
}

/* Elements of workspace: a panel of A, a panel of B. */
TPK_OUT int64_t TPK_N(tpk_mm_room)(int64_t m, int64_t n, int64_t k)
{
    const int64_t nr = tpk_i_ceil(tpk_i_min(n, TPK_NC), TPK_NR) * TPK_NR;
    return TPK_N(tpk_mm_a_room)(m, k) + (nr * tpk_i_min(k, TPK_KC) + 15) / 16 * 16;
}

TPK_OUT void TPK_N(tpk_mm_straight)(const TPK_N(tpk_mm) * q)
{
    const TPK_N(tpk_mm_plan) plan = TPK_N(tpk_mm_make_plan)(q), *const s = &plan;
    const int64_t parts = s->rows.parts;
    const int64_t per = parts <= TPK_MOST_PANELS ? TPK_MOST_PANELS : TPK_PANELS;
    const int64_t wide = q->m <= TPK_FEW_ROWS ? 2 : 1;
    const int64_t line = 64 / (int64_t)sizeof(TPK_E);
    const int64_t a_room = TPK_N(tpk_mm_a_room)(q->m, q->k);
    TPK_E *const aw = q->ws, *const bw = aw + a_room;
    /* Where all of A finds room it is packed once, else again for every panel of n. */
    const int64_t height = tpk_i_even(q->m);
    const int keeps = parts <= per && height * q->k <= a_room;
    for (int64_t jc = 0; jc < q->n; jc += s->nc) {
        const int64_t nj = tpk_i_min(s->nc, q->n - jc);
        for (int64_t kc = 0, kk = 0; kc < q->k; kc += kk) {
            const int64_t end = q->piece ? (kc / q->piece + 1) * q->piece : q->k;
            kk = tpk_i_min(s->kc - kc % TPK_CHAIN, tpk_i_min(q->k, end) - kc);
            TPK_N(tpk_chains)
            chains = {.room = TPK_CHAIN - kc % TPK_CHAIN,
                      .more = kc >= TPK_CHAIN,
                      .stays = kc + kk < q->k && (kc + kk) % TPK_CHAIN != 0};
            const TPK_E *b = bw, *a_at = q->a + kc * q->a_cs;
            int64_t a_rs = q->a_rs, a_cs = q->a_cs;
            const int a_flat =
                s->a_flat || (q->see_a && q->see_a(q->from, kc, kk, &a_at, &a_rs, &a_cs));
            int64_t b_rs = TPK_NR, b_ps = TPK_NR * kk;
            if (q->bp) {
                b = q->bp + jc * q->k + kc * TPK_NR;
                b_ps = TPK_NR * q->k;
            } else if (s->b_flat) {
                b = q->b + kc * q->b_rs + jc;
                b_rs = q->b_rs;
                b_ps = TPK_NR;
            }
            /* What is not packed beforehand; of a B that is read in place, the narrow last tile,
             * since kernels load whole vectors (a masked load costs a step of fma). */
            const int64_t from = q->bp || q->see_b ? nj : s->b_flat ? nj / TPK_NR * TPK_NR : 0;
            const int in_rows = !q->fill_b && q->b_cs == 1;
            if (in_rows && from < nj) {
                TPK_N(tpk_pack_rows)
                (nj - from, kk, q->b + kc * q->b_rs + jc + from, q->b_rs, bw);
            }
            for (int64_t j = in_rows ? nj : from; j < nj; j += TPK_NR) {
                const int64_t n = tpk_i_min(TPK_NR, nj - j);
                TPK_E *const to = bw + (j - from) * kk;
                if (q->fill_b) {
                    q->fill_b(q->from, jc + j, n, kc, kk, to);
                } else {
                    TPK_N(tpk_pack)
                    (TPK_NR, n, kk, q->b + kc * q->b_rs + (jc + j) * q->b_cs, q->b_cs, q->b_rs,
                     to);
                }
            }
            for (int64_t pc = 0; pc < parts; pc += per) {
                const int64_t pe = tpk_i_min(pc + per, parts), base = tpk_rows_at(&s->rows, pc);
                TPK_E *const a_to = keeps ? aw + kc * height : aw;
                if (!q->ap && !a_flat && (jc == 0 || !keeps)) {
                    for (int64_t p = pc; p < pe; p++) {
                        const int64_t i = tpk_rows_at(&s->rows, p);
                        const int64_t rows = tpk_rows_at(&s->rows, p + 1) - i;
                        TPK_E *const to = a_to + (i - base) * kk;
                        if (q->fill_a) {
                            q->fill_a(q->from, i, rows, kc, kk, to);
                        } else {
                            TPK_N(tpk_pack_a)
                            (rows, kk, q->a + i * q->a_rs + kc * q->a_cs, q->a_rs, q->a_cs, to);
                        }
                    }
                }
                int64_t cols = 0;
                for (int64_t j = 0; j < nj; j += cols) {
                    const int narrow = s->b_flat && j == from;
                    const TPK_E *bj = narrow ? bw : b + j / TPK_NR * b_ps;
                    int64_t ldb = narrow ? TPK_NR : b_rs, b_gs = TPK_VL;
                    if (q->see_b) {
                        bj = q->see_b(q->from, jc + j, kc, &ldb, &b_gs);
                    }
                    cols = tpk_i_min(wide * TPK_NR, (s->b_flat && j < from ? from : nj) - j);
                    const int64_t lines = q->bp && q->m > 6 * TPK_MR ? TPK_NR * kk / line : 0;
                    for (int64_t p = pc; p < pe; p++) {
                        const int64_t i = tpk_rows_at(&s->rows, p);
                        const int64_t rows = tpk_rows_at(&s->rows, p + 1) - i;
                        const TPK_E *a = a_at + i * a_rs;
                        if (!a_flat) {
                            a = q->ap ? q->ap + i * q->k + kc * rows : a_to + (i - base) * kk;
                        }
                        const int64_t width = q->ap || q->fill_a ? rows : tpk_i_even(rows);
                        const int64_t rs = a_flat ? a_rs : 1, cs = a_flat ? a_cs : width;
                        /* Of a B packed long ago, this tile's share of the next panel. */
                        for (int64_t x = i * lines / q->m; x < (i + rows) * lines / q->m; x++) {
                            __builtin_prefetch(bj + b_ps + x * line, 0, 2);
                        }
                        TPK_E *const ct = q->c + i * q->c_rs + jc + j;
                        chains.open = q->open ? q->open + i * TPK_NC + j : NULL;
                        if (cols > TPK_NR) {
                            TPK_N(tpk_wide)
                            (rows, kk, a, rs, cs, bj, ldb, b_ps, ct, q->c_rs, cols, &chains);
                        } else if (!a_flat && cs % 2 == 0) {
                            TPK_N(tpk_panel)
                            (rows, kk, a, bj, ldb, b_gs, ct, q->c_rs, cols, &chains);
                        } else {
                            TPK_N(tpk_tile)
                            (rows, kk, a, rs, cs, bj, ldb, b_gs, ct, q->c_rs, cols, &chains);
                        }
                    }
                }
            }
        }
    }
}

/* Few columns: C' = B' A' and then turned. */
TPK_OUT void TPK_N(tpk_mm_turned)(const TPK_N(tpk_mm) * q)
{
    TPK_N(tpk_mm) t = *q;
    t.m = q->n;
    t.a = q->b;
    t.a_rs = q->b_cs;
    t.a_cs = q->b_rs;
    t.b_rs = q->a_cs;
    t.b_cs = q->a_rs;
    t.c = (TPK_E *)q->ws + TPK_N(tpk_mm_room)(q->n, q->m, q->k);
    for (int64_t i = 0; i < q->m; i += TPK_NC) {
        t.n = tpk_i_min(TPK_NC, q->m - i);
        t.b = q->a + i * q->a_rs;
        t.c_rs = t.n;
        TPK_N(tpk_mm_straight)(&t);
        TPK_E *const c = q->c + i * q->c_rs;
        for (int64_t x = 0; x < t.n; x++) {
            for (int64_t j = 0; j < q->n; j++) {
                c[x * q->c_rs + j] = t.c[j * t.c_rs + x];
            }
        }
    }
}

TPK_OUT void TPK_N(tpk_mm_run)(const TPK_N(tpk_mm) * q)
{
    if (q->m <= 0 || q->n <= 0) {
        return;
    }
    if (q->k <= 0) {
        for (int64_t i = 0; i < q->m; i++) {
            for (int64_t j = 0; j < q->n; j++) {
                q->c[i * q->c_rs + j] = 0;
            }
        }
        return;
    }
    /* Cost per k in steps of one fma: tiles, and turning what lies the wrong way. */
    if (!q->ap && !q->bp && !q->fill_b && q->n < TPK_VL && q->n < q->m) {
        const int64_t cost = 2 * q->m + (q->b_cs == 1 ? 0 : q->n);
        const int64_t turned =
            q->n * tpk_i_ceil(q->m, TPK_NR) * 2 + (q->a_rs == 1 ? 0 : q->m) + q->n * q->m / 8;
        if (turned < cost) {
            TPK_N(tpk_mm_turned)(q);
            return;
        }
    }
    TPK_N(tpk_mm_straight)(q);
}

/* Bytes of workspace, which begins at a multiple of 64, for any strides. */
TPK_COLD size_t TPK_N(tpk_gemm_ws)(int64_t m, int64_t n, int64_t k)
{
    if (m <= 0 || n <= 0 || k <= 0) {
        return 0;
    }
    int64_t room = TPK_N(tpk_mm_room)(m, n, k);
    if (n < TPK_VL && n < m) {
        const int64_t turned = TPK_N(tpk_mm_room)(n, m, k) + n * tpk_i_min(m, TPK_NC);
        room = turned > room ? turned : room;
    }
    return (size_t)room * sizeof(TPK_E);
}

/* One vector of columns or less, and one to TPK_NARROW_ROWS rows, of a B that is read where it lies, over one chain:
 * `most` rows are computed, the last one again where there are fewer. */
TPK_IN void TPK_N(tpk_narrow_of)(int most, int64_t m, int64_t n, int64_t k, const TPK_E *a,
                                 int64_t a_rs, int64_t a_cs, const TPK_E *b, int64_t b_rs,
                                 TPK_E *c, int64_t c_rs, int more)
{
    const TPK_M mask = TPK_MASK(n);
    TPK_V acc[8];
    const TPK_E *row[8];
    _Pragma("GCC unroll 8") for (int r = 0; r < most; r++)
    {
        acc[r] = (TPK_V){0};
        row[r] = a + tpk_i_min(r, m - 1) * a_rs;
    }
    for (int64_t kk = 0; kk < k; kk++) {
        const TPK_V v = TPK_LOADM(b + kk * b_rs, mask);
        _Pragma("GCC unroll 8") for (int r = 0; r < most; r++)
        {
            const TPK_E e = row[r][kk * a_cs];
            const TPK_V x = TPK_SPLAT(e);
            acc[r] = TPK_FMA(x, v, acc[r]);
        }
    }
    if (more) {
        _Pragma("GCC unroll 8") for (int r = 0; r < most; r++)
        {
            acc[r] = TPK_LOADM(c + tpk_i_min(r, m - 1) * c_rs, mask) + acc[r];
        }
    }
    _Pragma("GCC unroll 8") for (int r = 0; r < most; r++)
    {
        TPK_STOREM(c + tpk_i_min(r, m - 1) * c_rs, acc[r], mask);
    }
}

TPK_OUT void TPK_N(tpk_narrow_chain)(int64_t m, int64_t n, int64_t k, const TPK_E *a,
                                     int64_t a_rs, int64_t a_cs, const TPK_E *b, int64_t b_rs,
                                     TPK_E *c, int64_t c_rs, int more)
{
    if (m == 1) {
        TPK_N(tpk_narrow_of)(1, m, n, k, a, a_rs, a_cs, b, b_rs, c, c_rs, more);
    } else if (m <= 4 || TPK_NARROW_ROWS == 4) {
        TPK_N(tpk_narrow_of)(4, m, n, k, a, a_rs, a_cs, b, b_rs, c, c_rs, more);
    } else {
        TPK_N(tpk_narrow_of)(8, m, n, k, a, a_rs, a_cs, b, b_rs, c, c_rs, more);
    }
}

TPK_FN void TPK_N(tpk_narrow)(int64_t m, int64_t n, int64_t k, const TPK_E *a, int64_t a_rs,
                              int64_t a_cs, const TPK_E *b, int64_t b_rs, TPK_E *c,
                              int64_t c_rs)
{
    for (int64_t kk = 0; kk < k; kk += TPK_CHAIN) {
        TPK_N(tpk_narrow_chain)
        (m, n, tpk_i_min(k - kk, TPK_CHAIN), a + kk * a_cs, a_rs, a_cs, b + kk * b_rs, b_rs, c,
         c_rs, kk > 0);
    }
}

/* Of many rows: turning A would cost more than lanes that lie idle, and B stays near. */
TPK_FN int TPK_N(tpk_narrow_pays)(int64_t n, int64_t k, int64_t a_rs, int64_t b_rs)
{
    const int whole =
        TPK_VBYTES > 16 || n == TPK_VL; /* parts of a vector are single elements */
    return whole && a_rs != 1 && 3 * n >= TPK_VL &&
           k * b_rs * (int64_t)sizeof(TPK_E) <= 2 * TPK_NEAR;
}

/* C = A B. */
TPK_FN void TPK_N(tpk_gemm)(int64_t m, int64_t n, int64_t k, const TPK_E *a, int64_t a_rs,
                            int64_t a_cs, const TPK_E *b, int64_t b_rs, int64_t b_cs, TPK_E *c,
                            int64_t c_rs, void *ws)
{
    /* Small ones are over before a plan would be made. */
    if (b_cs == 1 && m > 0 && n > 0 && n <= TPK_VL && k > 0 && k <= TPK_FULL &&
        (m <= 16 || TPK_N(tpk_narrow_pays)(n, k, a_rs, b_rs))) {
        for (int64_t i = 0; i < m; i += TPK_NARROW_ROWS) {
            TPK_N(tpk_narrow)
            (tpk_i_min(TPK_NARROW_ROWS, m - i), n, k, a + i * a_rs, a_rs, a_cs, b, b_rs,
             c + i * c_rs, c_rs);
        }
        return;
    }
    if (b_cs == 1 && m > 0 && m <= tpk_i_min(TPK_MR, TPK_NARROW_ROWS) && n <= 2 * TPK_NR &&
        k <= TPK_KC && k > 0) {
        const TPK_N(tpk_chains) whole = {.room = TPK_CHAIN};
        int64_t j = 0;
        for (; j + TPK_NR <= n; j += TPK_NR) {
            TPK_N(tpk_tile)
            (m, k, a, a_rs, a_cs, b + j, b_rs, TPK_VL, c + j, c_rs, TPK_NR, &whole);
        }
        for (; j < n; j += TPK_VL) {
            TPK_N(tpk_narrow)
            (m, tpk_i_min(TPK_VL, n - j), k, a, a_rs, a_cs, b + j, b_rs, c + j, c_rs);
        }
        return;
    }
    const TPK_N(tpk_mm) q = {.m = m,
                             .n = n,
                             .k = k,
                             .a = a,
                             .a_rs = a_rs,
                             .a_cs = a_cs,
                             .b = b,
                             .b_rs = b_rs,
                             .b_cs = b_cs,
                             .c = c,
                             .c_rs = c_rs,
                             .ws = ws};
    TPK_N(tpk_mm_run)(&q);
}

/* An operand that stays: B packed once for every product with it. */
TPK_COLD size_t TPK_N(tpk_gemm_packed_b_size)(int64_t n, int64_t k)
{
    const int64_t size = n <= 0 || k <= 0 ? 0 : tpk_i_ceil(n, TPK_NR) * TPK_NR * k;
    return (size_t)size * sizeof(TPK_E);
}

TPK_COLD void TPK_N(tpk_gemm_pack_b)(int64_t n, int64_t k, const TPK_E *b, int64_t b_rs,
                                     int64_t b_cs, TPK_E *bp)
{
    for (int64_t j = 0; j < n; j += TPK_NR) {
        TPK_N(tpk_pack)
        (TPK_NR, tpk_i_min(TPK_NR, n - j), k, b + j * b_cs, b_cs, b_rs, bp + j * k);
    }
}

TPK_COLD void TPK_N(tpk_gemm_packed_b)(int64_t m, int64_t n, int64_t k, const TPK_E *a,
                                       int64_t a_rs, int64_t a_cs, const TPK_E *bp, TPK_E *c,
                                       int64_t c_rs, void *ws)
{
    const TPK_N(tpk_mm) q = {.m = m,
                             .n = n,
                             .k = k,
                             .a = a,
                             .a_rs = a_rs,
                             .a_cs = a_cs,
                             .bp = bp,
                             .c = c,
                             .c_rs = c_rs,
                             .ws = ws};
    TPK_N(tpk_mm_run)(&q);
}
#endif
