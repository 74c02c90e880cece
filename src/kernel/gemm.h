/* gemm.h: C = A B for one element type (TPK_BITS is 32 or 64), the same bits on every machine.
 *
 * What is computed. Every c[i][j] is one chain of fma over k, from +0, in k order; after 4096 k
 * the chain is closed and a new one begins, and the closed ones are added from left to right.
 * Nothing else is promised and nothing else is needed: tiles, panels and vectors only say which
 * outputs are worked on together, and a chain that stops at the end of a panel of k goes on from
 * what it left in C. So the plain triple loop in convref.h is matched to the last bit.
 *
 * How. A tile of C, up to TPK_MR rows by TPK_NR = two vectors of columns, lives in registers while
 * k runs: per k two vectors of B are loaded and each of the rows' elements of A is spread over a
 * vector and multiplied with both. There is a kernel for each number of rows, so m is cut into
 * panels that differ by at most one row and nothing is padded; a narrow last tile is masked.
 * One to three rows would wait for the latency of fma, so they take four vectors of columns.
 *
 * Kernels read A and B through strides, so both may be used where they lie. Packing pays when the
 * copy is read often: B goes into panels [n / NR][k][NR] (the last one filled with zeros; those
 * columns are never stored), A into panels [m / MR][k][rows]. Packing turns the columns of a
 * transposed matrix in registers, VL by VL. k is cut into panels of TPK_KC, so that one panel of
 * B stays in the first cache while the panels of A, TPK_MC rows in the second cache, pass by it;
 * n is cut into TPK_NC. With few rows nothing is read twice: then B is not packed, and if it is
 * large, k goes in short steps across all columns, which reads B in the order of memory.
 * With very few columns the same is done with A and B exchanged (fma does not mind), and the
 * result is turned. Where k is longer than 4096, C is done in tiles of TPK_LONG by TPK_LONG, each
 * chain in a temporary tile.
 *
 * Constant operands can be packed beforehand; the layout depends on the shape alone (and on the
 * instruction set). A function may be given that is called on each finished tile while it is in
 * cache. Strides are in elements, any sign, zero too; columns of C are contiguous. */
#include "vec.h"

#if TPK_VBYTES == 64 || defined(__aarch64__)
#define TPK_MR 14
#define TPK_EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif TPK_VBYTES == 32
#define TPK_MR 6
#define TPK_EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define TPK_MR 4
#define TPK_EACH_ROWS(X) X(1) X(2) X(3) X(4)
#endif
#define TPK_NR (2 * TPK_VL)
#define TPK_KC 256
#define TPK_MC (TPK_MR * 16)
#define TPK_NC (TPK_NR * 64)
#define TPK_LONG (TPK_NR * 16)
#define TPK_CHAIN 4096

#define TPK_R1(X) X(0, 0, 0)
#define TPK_R2(X) TPK_R1(X) X(1, 0, 1)
#define TPK_R3(X) TPK_R2(X) X(2, 0, 2)
#define TPK_R4(X) TPK_R3(X) X(3, 1, 0)
#define TPK_R5(X) TPK_R4(X) X(4, 1, 1)
#define TPK_R6(X) TPK_R5(X) X(5, 1, 2)
#define TPK_R7(X) TPK_R6(X) X(6, 2, 0)
#define TPK_R8(X) TPK_R7(X) X(7, 2, 1)
#define TPK_R9(X) TPK_R8(X) X(8, 2, 2)
#define TPK_R10(X) TPK_R9(X) X(9, 3, 0)
#define TPK_R11(X) TPK_R10(X) X(10, 3, 1)
#define TPK_R12(X) TPK_R11(X) X(11, 3, 2)
#define TPK_R13(X) TPK_R12(X) X(12, 4, 0)
#define TPK_R14(X) TPK_R13(X) X(13, 4, 1)
/* One pointer for three rows keeps every address within what one instruction can say. */
#define TPK_P1(X) X(0)
#define TPK_P2(X) X(0)
#define TPK_P3(X) X(0)
#define TPK_P4(X) X(0) X(1)
#define TPK_P5(X) X(0) X(1)
#define TPK_P6(X) X(0) X(1)
#define TPK_P7(X) X(0) X(1) X(2)
#define TPK_P8(X) X(0) X(1) X(2)
#define TPK_P9(X) X(0) X(1) X(2)
#define TPK_P10(X) X(0) X(1) X(2) X(3)
#define TPK_P11(X) X(0) X(1) X(2) X(3)
#define TPK_P12(X) X(0) X(1) X(2) X(3)
#define TPK_P13(X) X(0) X(1) X(2) X(3) X(4)
#define TPK_P14(X) X(0) X(1) X(2) X(3) X(4)

#define TPK_APTR(p) const TPK_E *a##p = a + 3 * (p) * a_rs;
#define TPK_ASTEP(p) a##p += a_cs;
#define TPK_ZERO2(i, p, r) TPK_V c##i##_0 = {0}, c##i##_1 = {0};
#define TPK_MORE2(i, p, r)                                                                     \
    c##i##_0 = TPK_LOADM(c + (i) * c_rs, m0);                                                  \
    c##i##_1 = TPK_LOADM(c + (i) * c_rs + TPK_VL, m1);
#define TPK_STEP2(i, p, r)                                                                     \
    {                                                                                          \
        const TPK_E e = a##p[(r) * a_rs];                                                      \
        const TPK_V x = TPK_SPLAT(e);                                                          \
        c##i##_0 = TPK_FMA(x, b0, c##i##_0);                                                   \
        c##i##_1 = TPK_FMA(x, b1, c##i##_1);                                                   \
    }
#define TPK_DONE2(i, p, r)                                                                     \
    TPK_STOREM(c + (i) * c_rs, c##i##_0, m0);                                                  \
    if (n > TPK_VL) {                                                                          \
        TPK_STOREM(c + (i) * c_rs + TPK_VL, c##i##_1, m1);                                     \
    }

/* C[rows][n <= NR] = (more ? C : 0) + A B over k. */
#define TPK_TILE(rows)                                                                         \
    TPK_FN void TPK_N(tpk_tile##rows)(int64_t k, const TPK_E *a, int64_t a_rs, int64_t a_cs,   \
                                      const TPK_E *b, int64_t b_rs, TPK_E *c, int64_t c_rs,    \
                                      int64_t n, int more)                                     \
    {                                                                                          \
        const TPK_M m0 = TPK_MASK(n), m1 = TPK_MASK(n - TPK_VL);                               \
        TPK_P##rows(TPK_APTR) TPK_R##rows(TPK_ZERO2);                                          \
        if (more) {                                                                            \
            TPK_R##rows(TPK_MORE2)                                                             \
        }                                                                                      \
        for (; k > 0; k--) {                                                                   \
            const TPK_V b0 = TPK_LOADB(b, m0), b1 = TPK_LOADB(b + TPK_VL, m1);                 \
            TPK_R##rows(TPK_STEP2) TPK_P##rows(TPK_ASTEP);                                     \
            b += b_rs;                                                                         \
        }                                                                                      \
        TPK_R##rows(TPK_DONE2)                                                                 \
    }
TPK_EACH_ROWS(TPK_TILE)

TPK_FN void TPK_N(tpk_tile)(int64_t rows, int64_t k, const TPK_E *a, int64_t a_rs, int64_t a_cs,
                            const TPK_E *b, int64_t b_rs, TPK_E *c, int64_t c_rs, int64_t n,
                            int more)
{
    switch (rows) {
#define TPK_CASE(rows)                                                                         \
    case rows:                                                                                 \
        TPK_N(tpk_tile##rows)(k, a, a_rs, a_cs, b, b_rs, c, c_rs, n, more);                    \
        break;
        TPK_EACH_ROWS(TPK_CASE)
#undef TPK_CASE
    default:
        break;
    }
}
