/* Orthogonal factors: QR, eigenvectors of symmetric matrices, singular vectors. Pasted once per float type behind
 * matrix.h: T is the type, S its suffix, FN(name) is tpk_name_S. What an op gives is packed in rows of numbers.
 *
 * Order. A sum of products of two rows has 32 lanes: lane l takes elements l, l + 32, ... by fma from +0, then for
 * h = 16, 8, ..., 1 lane i = lane i + lane i + h. Rows are added up one by one, y = fma(f, x, y). */

#define TPK_BITS TPK_CAT(TPK_BITS_, S)

enum {
    FN(dot_lanes) = 32,
    FN(dot_vectors) = 32 / TPK_VL,
    FN(strip) = 64,
    FN(turn_vectors) = 4,
    FN(jacobi_block) = 16
};

TPK_OUT T FN(dot)(int64_t n, const T *x, const T *y)
{
    TPK_V v[FN(dot_vectors)];
    T lane[FN(dot_lanes)];
#pragma GCC unroll 16
    for (int i = 0; i < FN(dot_vectors); i++) {
        v[i] = (TPK_V){0};
    }
    int64_t at = 0;
    for (; at + FN(dot_lanes) <= n; at += FN(dot_lanes)) {
#pragma GCC unroll 16
        for (int i = 0; i < FN(dot_vectors); i++) {
            v[i] = TPK_FMA(TPK_LOAD(x + at + i * TPK_VL), TPK_LOAD(y + at + i * TPK_VL), v[i]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < FN(dot_vectors); i++) {
        const int64_t from = at + i * TPK_VL;
        if (from < n) {
            const TPK_M m = TPK_MASK(n - from);
            v[i] = TPK_FMA(TPK_LOADM(x + from, m), TPK_LOADM(y + from, m), v[i]);
        }
        TPK_STORE(lane + i * TPK_VL, v[i]);
    }
    for (int h = FN(dot_lanes) / 2; h > 0; h /= 2) {
        for (int i = 0; i < h; i++) {
            lane[i] = lane[i] + lane[i + h];
        }
    }
    return lane[0];
}

/* y = fma(f, x, y), n elements. */
TPK_FN void FN(add_row)(int64_t n, T f, const T *x, T *y)
{
    TPK_INDEPENDENT for (int64_t i = 0; i < n; i++)
    {
        y[i] = TPK_CAT(tpk_fma_, S)(f, x[i], y[i]);
    }
}

TPK_FN void FN(fill_row)(int64_t n, T f, T *y)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = f;
    }
}

/* y = x0 f0 + x1 f1 + ..., by rows of x. */
TPK_FN void FN(sum_rows)(int64_t n, int64_t k, const T *f, const T *x, int64_t xr, T *y)
{
    int64_t j = 0;
    for (; j + 4 * TPK_VL <= n; j += 4 * TPK_VL) {
        TPK_V a = {0}, b = {0}, c = {0}, d = {0};
        for (int64_t i = 0; i < k; i++) {
            const T *const row = x + i * xr + j;
            const TPK_V v = TPK_SPLAT(f[i]);
            a = TPK_FMA(v, TPK_LOAD(row), a);
            b = TPK_FMA(v, TPK_LOAD(row + TPK_VL), b);
            c = TPK_FMA(v, TPK_LOAD(row + 2 * TPK_VL), c);
            d = TPK_FMA(v, TPK_LOAD(row + 3 * TPK_VL), d);
        }
        TPK_STORE(y + j, a);
        TPK_STORE(y + j + TPK_VL, b);
        TPK_STORE(y + j + 2 * TPK_VL, c);
        TPK_STORE(y + j + 3 * TPK_VL, d);
    }
    for (; j < n; j += TPK_VL) {
        const TPK_M m = TPK_MASK(n - j);
        TPK_V a = {0};
        for (int64_t i = 0; i < k; i++) {
            a = TPK_FMA(TPK_SPLAT(f[i]), TPK_LOADM(x + i * xr + j, m), a);
        }
        TPK_STOREM(y + j, a, m);
    }
}

/* The power of two that brings the largest element to [1, 2): sums of squares then neither overflow nor vanish. 0: all
 * are zeros; NaN: one is no number, or none that is finite. */
TPK_FN T FN(scale_of)(int64_t rows, int64_t columns, FN(matrix) a)
{
    T most = 0, scale = 1, bad = 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            const T x = FN(size_of)(*FN(element)(a, i, j));
            most = x > most ? x : most;
            bad += x - x;
        }
    }
    if (bad != 0 || TPK_CAT(tpk_ne_, S)(bad, bad)) {
        return bad;
    }
    for (; most * scale >= 2; scale *= (T)0.5) {}
    for (; most > 0 && most * scale < 1; scale *= 2) {}
    return most > 0 ? scale : 0;
}

/* ---- QR ------------------------------------------------------------------------------------------------------- */

/* I - tau v v', v[0] = 1, that makes column x, of n elements `step` apart, a multiple of the first unit vector, which is
 * put in its place with the rest of v behind it. Returns tau. */
TPK_FN T FN(reflector)(int64_t n, T *x, int64_t step)
{
    T most = 0;
    for (int64_t i = 1; i < n; i++) {
        const T size = FN(size_of)(x[i * step]);
        most = size > most || TPK_CAT(tpk_ne_, S)(size, size) ? size : most;
    }
    if (most == 0) {
        return 0;
    }
    const T head = FN(size_of)(x[0]), top = head > most ? head : most;
    T squares = 0;
    for (int64_t i = 0; i < n; i++) {
        const T part = x[i * step] / top;
        squares = TPK_CAT(tpk_fma_, S)(part, part, squares);
    }
    const T norm = top * TPK_CAT(tpk_sqrt_, S)(squares), y = x[0] > 0 ? -norm : norm;
    const T first = x[0] - y, tau = -first / y;
    for (int64_t i = 1; i < n; i++) {
        x[i * step] = x[i * step] / first;
    }
    x[0] = y;
    return tau;
}

/* Rows of a, m of them, `columns` wide, times I - tau v v' from the left; v[0] = 1, the others stand at v[i * step]. */
TPK_FN void FN(reflect)(int64_t m, int64_t columns, T tau, const T *v, int64_t step, T *a,
                        int64_t ar)
{
    T w[FN(matrix_panel)];
    for (int64_t j = 0; j < columns; j++) {
        w[j] = a[j];
    }
    for (int64_t i = 1; i < m; i++) {
        FN(add_row)(columns, v[i * step], a + i * ar, w);
    }
    for (int64_t j = 0; j < columns; j++) {
        w[j] = tau * w[j];
        a[j] = a[j] - w[j];
    }
    for (int64_t i = 1; i < m; i++) {
        FN(add_row)(columns, -v[i * step], w, a + i * ar);
    }
}

/* The triangle t [k, k] with H1 H2 ... Hk = I - V t V' (Schreiber and Van Loan), of reflectors in m rows of v. */
TPK_FN void FN(reflectors_join)(int64_t m, int64_t k, FN(matrix) v, const T *tau, T *t)
{
    for (int64_t j = 0; j < k; j++) {
        T w[FN(matrix_panel)];
        for (int64_t i = 0; i < j; i++) {
            w[i] = *FN(element)(v, j, i);
        }
        for (int64_t r = j + 1; r < m; r++) {
            FN(add_row)(j, *FN(element)(v, r, j), FN(element)(v, r, 0), w);
        }
        for (int64_t i = 0; i < k; i++) {
            T sum = 0;
            for (int64_t c = i; c < j && i < j; c++) {
                sum = TPK_CAT(tpk_fma_, S)(t[i * FN(matrix_panel) + c], w[c], sum);
            }
            t[i * FN(matrix_panel) + j] = i < j ? -tau[j] * sum : i == j ? tau[j] : 0;
        }
    }
}

/* Columns of a, m rows, times I - V t V', or its transpose, from the left. */
TPK_FN void FN(reflect_block)(int64_t m, int64_t k, FN(matrix) v, const T *t, int transposed,
                              int64_t columns, FN(matrix) a)
{
    T top[FN(matrix_panel) * FN(matrix_panel)], w[FN(matrix_panel) * FN(strip)],
        u[FN(matrix_panel) * FN(strip)];
    for (int64_t i = 0; i < k; i++) {
        for (int64_t j = 0; j < k; j++) {
            top[i * FN(matrix_panel) + j] = i == j ? 1 : j < i ? *FN(element)(v, i, j) : 0;
        }
    }
    const FN(matrix) head = {top, FN(matrix_panel), 1}, sum = {w, FN(strip), 1},
                     use = {u, FN(strip), 1};
    for (int64_t j = 0; j < columns; j += FN(strip)) {
        const int64_t n = tpk_i_min(FN(strip), columns - j);
        FN(fill_row)(k * FN(strip), 0, w);
        FN(less)(k, n, k, FN(turned)(head), FN(from)(a, 0, j), w, FN(strip), 0);
        for (int64_t i = k; i < m; i += FN(matrix_panel)) {
            FN(less)
            (k, n, tpk_i_min(FN(matrix_panel), m - i), FN(turned)(FN(from)(v, i, 0)),
             FN(from)(a, i, j), w, FN(strip), 0);
        }
        const FN(matrix) mix = {(T *)(uintptr_t)t, FN(matrix_panel), 1};
        FN(fill_row)(k * FN(strip), 0, u);
        FN(less)(k, n, k, transposed ? FN(turned)(mix) : mix, sum, u, FN(strip), 0);
        FN(less)(k, n, k, head, use, FN(element)(a, 0, j), a.r, 0);
        FN(less)(m - k, n, k, FN(from)(v, k, 0), use, FN(element)(a, k, j), a.r, 0);
    }
}

/* a [m, n] becomes R with the reflectors of its first `most` columns below its diagonal. */
TPK_FN void FN(qr_factor)(int64_t m, int64_t n, int64_t most, FN(matrix) a, T *tau)
{
    T t[FN(matrix_panel) * FN(matrix_panel)];
    for (int64_t p = 0; p < most; p += FN(matrix_panel)) {
        const int64_t end = tpk_i_min(most, p + FN(matrix_panel));
        for (int64_t j = p; j < end; j++) {
            T *const x = FN(element)(a, j, j);
            tau[j] = FN(reflector)(m - j, x, a.r);
            FN(reflect)(m - j, end - j - 1, tau[j], x, a.r, x + 1, a.r);
        }
        if (end < n) {
            const FN(matrix) v = FN(from)(a, p, p);
            FN(reflectors_join)(m - p, end - p, v, tau + p, t);
            FN(reflect_block)(m - p, end - p, v, t, 1, n - end, FN(from)(a, p, end));
        }
    }
}

/* Reflectors below the diagonal of q [m, k] become the columns of Q. */
TPK_FN void FN(qr_form)(int64_t m, int64_t k, FN(matrix) q, const T *tau)
{
    T t[FN(matrix_panel) * FN(matrix_panel)];
    const int64_t panels = tpk_i_ceil(k, FN(matrix_panel));
    for (int64_t l = panels - 1; l >= 0; l--) {
        const int64_t p = l * FN(matrix_panel), end = tpk_i_min(k, p + FN(matrix_panel));
        const FN(matrix) v = FN(from)(q, p, p);
        for (int64_t i = p; i < end; i++) {
            FN(fill_row)(k - end, 0, FN(element)(q, i, end));
        }
        if (end < k) {
            FN(reflectors_join)(m - p, end - p, v, tau + p, t);
            FN(reflect_block)(m - p, end - p, v, t, 0, k - end, FN(from)(q, p, end));
        }
        for (int64_t j = end - 1; j >= p; j--) {
            T *const x = FN(element)(q, j, j);
            FN(fill_row)(end - j - 1, 0, x + 1);
            FN(reflect)(m - j, end - j - 1, tau[j], x, q.r, x + 1, q.r);
            for (int64_t i = 1; i < m - j; i++) {
                x[i * q.r] = -tau[j] * x[i * q.r];
            }
            x[0] = 1 - tau[j];
            for (int64_t i = p; i < j; i++) {
                *FN(element)(q, i, j) = 0;
            }
        }
    }
}

/* [..., m, n] -> [..., m k + k n + k], k = min(m, n): Q by rows, R by rows, and the factors of the reflectors. */
static __attribute__((unused)) int64_t FN(qr)(const tpk_view *in, const tpk_view *out,
                                              const int64_t *attr)
{
    const int64_t m = in->n[in->rank - 2], n = in->n[in->rank - 1], k = tpk_i_min(m, n);
    const int64_t count = FN(stack_count)(in);
    (void)attr;
    for (int64_t at = 0; at < count && k > 0; at++) {
        T *const to = (T *)out->p + at * (m * k + k * n + k), *const tau = to + m * k + k * n;
        const FN(matrix) q = {to, k, 1}, r = {to + m * k, n, 1}, work = m < n ? r : q;
        FN(matrix_copy)(m, n, FN(stack_matrix)(in, at), work);
        FN(qr_factor)(m, n, k, work, tau);
        for (int64_t i = 0; i < k; i++) {
            for (int64_t j = 0; j < n; j++) {
                const T x = *FN(element)(work, i, j);
                if (m < n && j < k) {
                    *FN(element)(q, i, j) = x;
                }
                *FN(element)(r, i, j) = j < i ? 0 : x;
            }
        }
        FN(qr_form)(m, k, q, tau);
    }
    return 0;
}

/* ---- symmetric eigenvectors ------------------------------------------------------------------------------------ */

/* a [n, n], symmetric, becomes Q (by rows: a = Q' t Q) with t tridiagonal: d[n] on the diagonal, e[i] between i - 1
 * and i. Reflectors take rows from the last one up; p [n] is room. */
TPK_FN void FN(tridiagonal)(int64_t n, T *a, T *d, T *e, T *p)
{
    for (int64_t i = n - 1; i > 0;
         i--) { /* u: the row without its last element, of which e is left */
        T *const u = a + i * n, *const h = d + i;
        const T last = u[i - 1], rest = FN(dot)(i - 1, u, u);
        const T squares = TPK_CAT(tpk_fma_, S)(last, last, rest);
        if (rest == 0) {
            e[i] = last;
            *h = 0;
            continue;
        }
        e[i] = last > 0 ? -TPK_CAT(tpk_sqrt_, S)(squares) : TPK_CAT(tpk_sqrt_, S)(squares);
        u[i - 1] = last - e[i];
        *h = squares - last * e[i];
        FN(sum_rows)(i, i, u, a, n, p);
        const T half = FN(dot)(i, u, p) / (*h + *h) / *h;
        for (int64_t j = 0; j < i; j++) {
            p[j] = p[j] / *h - half * u[j];
        }
        for (int64_t j = 0; j < i; j++) {
            T *const row = a + j * n;
            const T f = -u[j], g = -p[j];
            TPK_INDEPENDENT for (int64_t c = 0; c < i; c++)
            {
                row[c] = TPK_CAT(tpk_fma_, S)(g, u[c], TPK_CAT(tpk_fma_, S)(f, p[c], row[c]));
            }
        }
    }
    for (int64_t i = 0; i < n; i++) { /* the reflectors' product, from the upper left on */
        T *const u = a + i * n;
        const T h = d[i], own = u[i];
        if (h != 0 && i > 0) {
            FN(sum_rows)(i, i, u, a, n, p);
            for (int64_t j = 0; j < i; j++) {
                FN(add_row)(i, -(u[j] / h), p, a + j * n);
            }
        }
        d[i] = own;
        FN(fill_row)(i, 0, u);
        u[i] = 1;
        for (int64_t j = 0; j < i; j++) {
            a[j * n + i] = 0;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            const T was = a[i * n + j];
            a[i * n + j] = a[j * n + i];
            a[j * n + i] = was;
        }
    }
}

/* Rows `low` to `high` of z [., n]: row i + 1 and row i are turned into s z[i] + c z[i + 1] and c z[i] - s z[i + 1],
 * from the last pair up; c and s of pair i stand at turn[2 i]. */
TPK_FN void FN(turn_rows)(int64_t n, int64_t low, int64_t high, const T *turn, T *z)
{
    for (int64_t j = 0; j < n; j += FN(turn_vectors) * TPK_VL) {
        TPK_M m[FN(turn_vectors)];
        TPK_V f[FN(turn_vectors)];
        T *row = z + high * n + j;
#pragma GCC unroll 4
        for (int v = 0; v < FN(turn_vectors); v++) {
            m[v] = TPK_MASK(n - j - v * TPK_VL);
            f[v] = TPK_LOADM(row + v * TPK_VL, m[v]);
        }
        for (int64_t i = high - 1; i >= low; i--, row -= n) {
            const T ce = turn[2 * i], se = turn[2 * i + 1];
            const TPK_V c = TPK_SPLAT(ce), s = TPK_SPLAT(se);
#pragma GCC unroll 4
            for (int v = 0; v < FN(turn_vectors); v++) {
                const TPK_V g = TPK_LOADM(row - n + v * TPK_VL, m[v]);
                TPK_STOREM(row + v * TPK_VL, TPK_FMA(s, g, c * f[v]), m[v]);
                f[v] = TPK_FMA(c, g, -(s * f[v]));
            }
        }
#pragma GCC unroll 4
        for (int v = 0; v < FN(turn_vectors); v++) {
            TPK_STOREM(row + v * TPK_VL, f[v], m[v]);
        }
    }
}

/* Implicit QL with Wilkinson's shift (tql2 of EISPACK); e[i] is between i and i + 1 here. */
TPK_FN void FN(ql)(int64_t n, T *d, T *e, T *turn, T *z)
{
    const T eps = (T)(sizeof(T) == 4 ? 0x1p-24 : 0x1p-53);
    for (int64_t l = 0; l < n; l++) {
        for (int tries = 0; tries < 60; tries++) {
            int64_t m = l;
            while (m < n - 1 &&
                   FN(size_of)(e[m]) > eps * (FN(size_of)(d[m]) + FN(size_of)(d[m + 1]))) {
                m++;
            }
            if (m == l) {
                break;
            }
            T g = (d[l + 1] - d[l]) / (2 * e[l]);
            T r = TPK_CAT(tpk_sqrt_, S)(g * g + 1);
            g = d[m] - d[l] + e[l] / (g < 0 ? g - r : g + r);
            T s = 1, c = 1, p = 0;
            int64_t i = m - 1;
            for (; i >= l; i--) {
                T f = s * e[i];
                const T b = c * e[i];
                r = TPK_CAT(tpk_sqrt_, S)(f * f + g * g);
                e[i + 1] = r;
                if (r == 0) {
                    d[i + 1] -= p;
                    e[m] = 0;
                    break;
                }
                s = f / r;
                c = g / r;
                const T off = TPK_CAT(tpk_fma_, S)(c, c, TPK_CAT(tpk_fma_, S)(s, s, -1)) / 2;
                s = TPK_CAT(tpk_fma_, S)(-s, off, s);
                c = TPK_CAT(tpk_fma_, S)(-c, off, c);
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                turn[2 * i] = c;
                turn[2 * i + 1] = s;
            }
            FN(turn_rows)(n, i + 1, m, turn, z);
            if (i < l) {
                d[l] -= p;
                e[l] = g;
                e[m] = 0;
            }
        }
    }
}

/* The rows of z [n, n], nearly unit vectors orthogonal to each other, become so but for rounding: four at a time, less
 * what they have along the rows before them, and half of what is too much along the four; the last four may be among
 * those before. n >= 4; w: 4 n numbers. */
TPK_FN void FN(orthogonal_rows)(int64_t n, T *z, T *w)
{
    for (int64_t at = 0; at < n; at += 4) {
        const int64_t p = tpk_i_min(at, n - 4);
        for (int64_t r = 0; r < 4; r++) {
            for (int64_t j = 0; j < p + 4; j++) {
                const T along = FN(dot)(n, z + (p + r) * n, z + j * n) - (T)(p + r == j);
                w[r * n + j] = j < p ? -along : along * (T)-0.5;
            }
        }
        for (int64_t j = 0; j < n; j += TPK_VL) {
            const TPK_M m = TPK_MASK(n - j);
            TPK_V y[4];
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++) {
                y[r] = TPK_LOADM(z + (p + r) * n + j, m);
            }
            for (int64_t i = 0; i < p + 4; i++) {
                const TPK_V x = TPK_LOADM(z + i * n + j, m);
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++) {
                    y[r] = TPK_FMA(TPK_SPLAT(w[r * n + i]), x, y[r]);
                }
            }
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++) {
                TPK_STOREM(z + (p + r) * n + j, y[r], m);
            }
        }
    }
}

/* The rows of z in the order of rising d; of falling d for `falling`. Others of the same number go with them. */
TPK_FN void FN(sort_rows)(int64_t n, T *d, int falling, int64_t wide, T *z, int64_t other, T *y)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < n; j++) {
            best = (falling ? d[j] > d[best] : d[j] < d[best]) ? j : best;
        }
        const FN(matrix) a = {z, wide, 1}, b = {y, other, 1}, c = {d, 1, 1};
        FN(swap_rows)(wide, a, i, best);
        FN(swap_rows)(other, b, i, best);
        FN(swap_rows)(1, c, i, best);
    }
}

/* attr: upper.  [..., n, n], of which one triangle is read -> [..., n n + 5 n]: eigenvectors by rows, eigenvalues,
 * rising, and room. NaN where an element is no finite number. */
static __attribute__((unused)) int64_t FN(eigh)(const tpk_view *in, const tpk_view *out,
                                                const int64_t *attr)
{
    const int64_t n = in->n[in->rank - 1], count = FN(stack_count)(in), size = n * n + 5 * n;
    for (int64_t at = 0; at < count && n > 0; at++) {
        T *const z = (T *)out->p + at * size, *const d = z + n * n, *const e = d + n;
        const FN(matrix) a = FN(stack_matrix)(in, at), to = {z, n, 1};
        FN(matrix_copy)(n, n, attr[0] ? FN(turned)(a) : a, to);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < i; j++) {
                z[j * n + i] = z[i * n + j];
            }
        }
        const T scale = FN(scale_of)(n, n, to);
        if (TPK_CAT(tpk_ne_, S)(scale, scale)) {
            FN(fill_row)(size, (T)TPK_NAN_F64, z);
            continue;
        }
        FN(fill_row)(5 * n, 0, d);
        for (int64_t i = 0; i < n * n; i++) {
            z[i] = z[i] * scale;
        }
        FN(tridiagonal)(n, z, d, e, e + n);
        for (int64_t i = 1; i < n; i++) {
            e[i - 1] = e[i];
        }
        e[n - 1] = 0;
        FN(ql)(n, d, e, e + n, z);
        if (n > FN(strip)) {
            FN(orthogonal_rows)(n, z, e);
        }
        FN(sort_rows)(n, d, 0, n, z, 0, z);
        for (int64_t i = 0; i < n && scale != 0; i++) {
            d[i] = d[i] / scale;
        }
        FN(fill_row)(4 * n, 0, e);
    }
    return 0;
}

/* ---- singular vectors ------------------------------------------------------------------------------------------- */

/* x, y = c x - s y, s x + c y, n elements, with t = s / (1 + c): x - s (y + t x), y + s (x - t y), whose errors are as
 * small as the angle is (Rutishauser 1966). */
TPK_FN void FN(turn_pair)(int64_t n, T s, T t, T *x, T *y)
{
    TPK_INDEPENDENT for (int64_t i = 0; i < n; i++)
    {
        const T f = x[i], g = y[i];
        x[i] = TPK_CAT(tpk_fma_, S)(-s, TPK_CAT(tpk_fma_, S)(t, f, g), f);
        y[i] = TPK_CAT(tpk_fma_, S)(s, TPK_CAT(tpk_fma_, S)(-t, g, f), g);
    }
}

/* Rows i and j of g [k, n], whose squares are in d, become orthogonal, and those of v [k, k] turn with them. False: they
 * were. */
TPK_FN int FN(jacobi_pair)(int64_t k, int64_t n, int64_t i, int64_t j, T eps, T *g, T *v, T *d)
{
    T *const x = g + i * n, *const y = g + j * n;
    const T product = FN(dot)(n, x, y);
    if (FN(size_of)(product) <=
        eps * TPK_CAT(tpk_sqrt_, S)(d[i]) * TPK_CAT(tpk_sqrt_, S)(d[j])) {
        return 0;
    }
    const T zeta = (d[j] - d[i]) / (2 * product);
    const T root = TPK_CAT(tpk_sqrt_, S)(1 + zeta * zeta);
    const T t = zeta < 0 ? -1 / (root - zeta) : 1 / (root + zeta);
    const T c = 1 / TPK_CAT(tpk_sqrt_, S)(1 + t * t), s = c * t, part = s / (1 + c);
    FN(turn_pair)(n, s, part, x, y);
    FN(turn_pair)(k, s, part, v + i * k, v + j * k);
    const T less = d[i] - t * product, more = d[j] + t * product;
    d[i] = less > 0 ? less : 0; /* of dependent rows one has nothing left, but for rounding */
    d[j] = more > 0 ? more : 0;
    return 1;
}

/* One sweep over all pairs of rows, longer ones first (de Rijk 1989), by blocks of rows that stay in cache. Were all pairs
 * orthogonal? (One-sided Jacobi: Hestenes 1958.) */
TPK_FN int FN(jacobi_sweep)(int64_t k, int64_t n, T *g, T *v, T *d)
{
    const T eps = (T)(sizeof(T) == 4 ? 0x1p-24 : 0x1p-53) * TPK_CAT(tpk_sqrt_, S)((T)n + 16);
    const int64_t block = FN(jacobi_block);
    int done = 1;
    FN(sort_rows)(k, d, 1, n, g, k, v);
    for (int64_t a = 0; a < k; a += block) {
        for (int64_t b = a; b < k; b += block) {
            for (int64_t i = a; i < tpk_i_min(k, a + block); i++) {
                for (int64_t j = b > i ? b : i + 1; j < tpk_i_min(k, b + block); j++) {
                    done = FN(jacobi_pair)(k, n, i, j, eps, g, v, d) ? 0 : done;
                }
            }
        }
    }
    return done;
}

/* Rows of g that are zeros become unit vectors orthogonal to the others: of the axes that which leaves most. */
TPK_FN void FN(complete_rows)(int64_t k, int64_t n, T *g, const T *d)
{
    for (int64_t i = 0, axis = 0; i < k; i++) {
        T *const x = g + i * n;
        for (T left = 0; d[i] == 0 && left < (T)0.5 && axis < n; axis++) {
            FN(fill_row)(n, 0, x);
            x[axis] = 1;
            for (int again = 0; again < 2; again++) {
                for (int64_t j = 0; j < k; j++) {
                    if (j < i || (j > i && d[j] != 0)) {
                        FN(add_row)(n, -FN(dot)(n, x, g + j * n), g + j * n, x);
                    }
                }
            }
            left = TPK_CAT(tpk_sqrt_, S)(FN(dot)(n, x, x)) * TPK_CAT(tpk_sqrt_, S)((T)n);
            for (int64_t c = 0; c < n && left >= (T)0.5; c++) {
                x[c] = x[c] * TPK_CAT(tpk_sqrt_, S)((T)n) / left;
            }
        }
    }
}

/* g [k, n] becomes vectors of length 1 by rows, d [k] their lengths, falling, v [k, k] with v' diag(d) g what g was. */
TPK_FN void FN(jacobi)(int64_t k, int64_t n, T *g, T *v, T *d)
{
    for (int64_t i = 0; i < k; i++) {
        FN(fill_row)(k, 0, v + i * k);
        v[i * k + i] = 1;
    }
    for (int sweeps = 0, done = 0; sweeps < 40 && !done; sweeps++) {
        for (int64_t i = 0; i < k; i++) {
            d[i] = FN(dot)(n, g + i * n, g + i * n);
        }
        done = FN(jacobi_sweep)(k, n, g, v, d);
    }
    T most = 0;
    for (int64_t i = 0; i < k; i++) {
        d[i] = TPK_CAT(tpk_sqrt_, S)(FN(dot)(n, g + i * n, g + i * n));
        most = d[i] > most ? d[i] : most;
    }
    FN(sort_rows)(k, d, 1, n, g, k, v);
    for (int64_t i = 0; i < k; i++) {
        const T tiny = most * (T)(sizeof(T) == 4 ? 0x1p-50 : 0x1p-300);
        d[i] = d[i] > tiny ? d[i] : 0;
        for (int64_t j = 0; j < n; j++) {
            g[i * n + j] = d[i] > 0 ? g[i * n + j] / d[i] : 0;
        }
    }
    FN(complete_rows)(k, n, g, d);
}

/* [..., m, n] -> [..., k m + k + k n], k = min(m, n): left vectors by rows, singular values, falling, right vectors by
 * rows. NaN where an element is no finite number. */
static __attribute__((unused)) int64_t FN(svd)(const tpk_view *in, const tpk_view *out,
                                               const int64_t *attr)
{
    const int64_t m = in->n[in->rank - 2], n = in->n[in->rank - 1], k = tpk_i_min(m, n);
    const int64_t count = FN(stack_count)(in), size = k * m + k + k * n;
    (void)attr;
    for (int64_t at = 0; at < count && k > 0; at++) {
        T *const u = (T *)out->p + at * size, *const d = u + k * m, *const v = d + k;
        const FN(matrix) a = FN(stack_matrix)(in, at);
        const FN(matrix) work = {m < n ? v : u, m < n ? n : m, 1};
        const T scale = FN(scale_of)(m, n, a);
        if (TPK_CAT(tpk_ne_, S)(scale, scale)) {
            FN(fill_row)(size, (T)TPK_NAN_F64, u);
            continue;
        }
        FN(matrix_copy)(k, m < n ? n : m, m < n ? a : FN(turned)(a), work);
        for (int64_t i = 0; i < m * n; i++) {
            work.p[i] = work.p[i] * scale;
        }
        FN(jacobi)(k, m < n ? n : m, work.p, m < n ? u : v, d);
        for (int64_t i = 0; i < k && scale != 0; i++) {
            d[i] = d[i] / scale;
        }
    }
    return 0;
}

/* Columns of b [from, k] become those of x [to, k] by singular vectors: what b has along row i of `left`, divided by d[i], along
 * row i of `right`; where d[i] is not above `least`, nothing. */
TPK_FN void FN(lstsq_columns)(int64_t rank, int64_t from, int64_t to, int64_t k, const T *left,
                              const T *d, const T *right, int64_t step, T least, FN(matrix) b,
                              FN(matrix) x)
{
    T part[FN(strip)];
    for (int64_t i = 0; i < to; i++) {
        FN(fill_row)(k, 0, FN(element)(x, i, 0));
    }
    for (int64_t i = 0; i < rank; i++) {
        FN(fill_row)(k, 0, part);
        for (int64_t j = 0; j < from; j++) {
            const T f = left[(i * from + j) * step], *const row = FN(element)(b, j, 0);
            for (int64_t c = 0; c < k; c++) {
                part[c] = TPK_CAT(tpk_fma_, S)(f, row[c * b.c], part[c]);
            }
        }
        for (int64_t c = 0; c < k; c++) {
            part[c] = part[c] / d[i * step];
        }
        for (int64_t j = 0; j < to && !(d[i * step] <= least); j++) {
            FN(add_row)(k, right[(i * to + j) * step], part, FN(element)(x, j, 0));
        }
    }
}

/* attr: transposed, eps by its bits.  in: a [..., m, n], which is not read, what `svd` gives of it, b [..., m, k] ->
 * [..., n, k]; transposed: the other way round. Singular values that are not above eps times the first count as 0. */
static __attribute__((unused)) int64_t FN(lstsq)(const tpk_view *in, const tpk_view *out,
                                                 const int64_t *attr)
{
    const int64_t m = in->n[in->rank - 2], n = in->n[in->rank - 1], r = tpk_i_min(m, n);
    const int64_t k = out->n[out->rank - 1], count = FN(stack_count)(out);
    const T eps = (T)tpk_from_bits_f64((uint64_t)attr[1]);
    for (int64_t at = 0; at < count; at++) {
        const T *f = (const T *)in[1].p;
        for (int64_t i = in[1].rank - 2, rest = at; i >= 0; rest /= in[1].n[i], i--) {
            f += rest % in[1].n[i] * in[1].s[i];
        }
        const int64_t step = in[1].s[in[1].rank - 1];
        const T *const u = f, *const d = u + r * m * step, *const v = d + r * step;
        const FN(matrix) b = FN(stack_matrix)(in + 2, at), x = FN(stack_matrix)(out, at);
        for (int64_t j = 0; j < k; j += FN(strip)) {
            FN(lstsq_columns)
            (r, attr[0] ? n : m, attr[0] ? m : n, tpk_i_min(FN(strip), k - j), attr[0] ? v : u,
             d, attr[0] ? u : v, step, r > 0 ? eps * d[0] : 0, FN(from)(b, 0, j),
             FN(from)(x, 0, j));
        }
    }
    return 0;
}
#undef TPK_BITS
