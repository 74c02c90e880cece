/* More rows of a sum over rows, for one float type: T is the type, S its suffix, FN(name) is tpk_name_S.
 *
 * w[i][j] = sum over r of x[r][i] y[r][j], in the order of a contraction (gemm.h), when the rows come
 * a few at a time. What is known after some of them is a state [2 k + 1, n]: k rows of closed chains,
 * k of the open one, and one that says how many rows the open chain has. It begins as -0
 * everywhere; the sum is the closed part plus the open one. */

#define TPK_BITS TPK_CAT(TPK_BITS_, S)

enum { FN(add_rows_lines) = 3, FN(add_rows_vectors) = 4 };

/* Rows of x from p on, y and the open chain, at one place. */
typedef struct FN(add_rows_part) {
    int64_t rows, xr, xc, yr;
    const T *x, *y;
    T *c;
    int64_t cr;
} FN(add_rows_part);

TPK_IN TPK_V FN(add_rows_load)(const T *p, const int whole, TPK_M m)
{
    if (whole) {
        return TPK_LOAD(p);
    }
    return TPK_LOADM(p, m);
}

/* `lines` of c by `vectors`, of which the last has the lanes of m. */
TPK_IN void FN(add_rows_tile)(const FN(add_rows_part) * p, const int lines, const int vectors,
                              const int whole, TPK_M m)
{
    TPK_V acc[FN(add_rows_lines)][FN(add_rows_vectors)];
#pragma GCC unroll 3
    for (int i = 0; i < lines; i++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const T *c = p->c + i * p->cr + v * TPK_VL;
            acc[i][v] = FN(add_rows_load)(c, whole, m);
        }
    }
    const T *x = p->x, *y = p->y;
    for (int64_t r = 0; r < p->rows; r++, x += p->xr, y += p->yr) {
        TPK_V row[FN(add_rows_vectors)];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            row[v] = FN(add_rows_load)(y + v * TPK_VL, whole, m);
        }
#pragma GCC unroll 3
        for (int i = 0; i < lines; i++) {
            const TPK_V a = TPK_SPLAT(x[i * p->xc]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                acc[i][v] = TPK_FMA(a, row[v], acc[i][v]);
            }
        }
    }
#pragma GCC unroll 3
    for (int i = 0; i < lines; i++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            T *c = p->c + i * p->cr + v * TPK_VL;
            if (whole) {
                TPK_STORE(c, acc[i][v]);
            } else {
                TPK_STOREM(c, acc[i][v], m);
            }
        }
    }
}

/* All k lines of n columns; y has no gaps in a row. */
static __attribute__((unused)) void FN(add_rows_dense)(FN(add_rows_part) p, int64_t k,
                                                       int64_t n)
{
    enum { LINES = FN(add_rows_lines), VECTORS = FN(add_rows_vectors) };
    const FN(add_rows_part) all = p;
    const TPK_M none = TPK_MASK(0);
    for (int64_t j = 0; j < n;) {
        const int64_t left = n - j, step = left >= VECTORS * TPK_VL ? VECTORS * TPK_VL : TPK_VL;
        const TPK_M m = TPK_MASK(left);
        for (int64_t i = 0; i < k;) {
            const int lines = k - i >= LINES ? LINES : 1;
            p.x = all.x + i * p.xc;
            p.y = all.y + j;
            p.c = all.c + i * p.cr + j;
            if (step > TPK_VL && lines == LINES) {
                FN(add_rows_tile)(&p, LINES, VECTORS, 1, none);
            } else if (step > TPK_VL) {
                FN(add_rows_tile)(&p, 1, VECTORS, 1, none);
            } else if (lines == LINES) {
                FN(add_rows_tile)(&p, LINES, 1, 0, m);
            } else {
                FN(add_rows_tile)(&p, 1, 1, 0, m);
            }
            i += lines;
        }
        j += step;
    }
}

/* The same where y has gaps, s elements from column to column. */
static __attribute__((unused)) void FN(add_rows_gaps)(const FN(add_rows_part) * p, int64_t k,
                                                      int64_t n, int64_t s)
{
    for (int64_t i = 0; i < k; i++) {
        for (int64_t j = 0; j < n; j++) {
            T sum = p->c[i * p->cr + j];
            for (int64_t r = 0; r < p->rows; r++) {
                sum = TPK_CAT(tpk_fma_, S)(p->x[i * p->xc + r * p->xr], p->y[r * p->yr + j * s],
                                           sum);
            }
            p->c[i * p->cr + j] = sum;
        }
    }
}

/* in: the state, x [m, k], y [m, n]; out: the state after them, maybe in the same memory. No attr. */
static __attribute__((unused)) int64_t FN(add_rows)(const tpk_view *in, const tpk_view *out,
                                                    const int64_t *attr)
{
    const int64_t m = in[1].n[0], k = in[1].n[1], n = in[2].n[1];
    T *closed = (T *)out->p, *open = closed + k * n, *counts = open + k * n;
    (void)attr;
    if (in[0].p != out->p) {
        for (int64_t i = 0; i < 2 * k + 1; i++) {
            for (int64_t j = 0; j < n; j++) {
                closed[i * n + j] = ((const T *)in[0].p)[i * in[0].s[0] + j * in[0].s[1]];
            }
        }
    }
    int64_t count = n > 0 ? (int64_t)counts[0] : 0;
    for (int64_t r = 0; r < m && n > 0;) {
        if (count == TPK_CHAIN) {
            for (int64_t i = 0; i < k * n; i++) {
                closed[i] = closed[i] + open[i];
            }
        }
        if (count == 0 || count == TPK_CHAIN) {
            for (int64_t i = 0; i < k * n; i++) {
                open[i] = 0;
            }
            count = 0;
        }
        const int64_t room = TPK_CHAIN - count, rows = m - r < room ? m - r : room;
        const FN(add_rows_part) part = {.rows = rows,
                                        .xr = in[1].s[0],
                                        .xc = in[1].s[1],
                                        .yr = in[2].s[0],
                                        .x = (const T *)in[1].p + r * in[1].s[0],
                                        .y = (const T *)in[2].p + r * in[2].s[0],
                                        .c = open,
                                        .cr = n};
        if (in[2].s[1] == 1 || n == 1) {
            FN(add_rows_dense)(part, k, n);
        } else {
            FN(add_rows_gaps)(&part, k, n, in[2].s[1]);
        }
        r += rows;
        count += rows;
    }
    for (int64_t j = 0; j < n && m > 0; j++) {
        counts[j] = (T)count;
    }
    return 0;
}

#undef TPK_BITS
