/* Factors of square matrices, and systems of equations. Pasted once per float type: T is the type, S its
 * suffix, FN(name) is tpk_name_S.
 *
 * Order. Columns of a matrix are taken in panels of 32. What the columns of a panel take off an element, of a later
 * column of the panel or behind it, is one chain of fma over them from +0 by rising k, which is then subtracted; only in
 * LU's panels a term is taken off as it is known, y = fma(-f, x, y). So bits depend on sizes alone. */

#define TPK_BITS TPK_CAT(TPK_BITS_, S)

enum {
    FN(matrix_panel) = 32,
    FN(less_rows) = TPK_VBYTES == 64 ? 12 : 6,
    FN(less_columns) = 2 * TPK_VL
};

/* A matrix, and its steps from row to row and from column to column. */
typedef struct FN(matrix) {
    T *p;
    int64_t r, c;
} FN(matrix);

TPK_IN T *FN(element)(FN(matrix) m, int64_t i, int64_t j)
{
    return m.p + i * m.r + j * m.c;
}
TPK_IN FN(matrix) FN(from)(FN(matrix) m, int64_t i, int64_t j)
{
    m.p = FN(element)(m, i, j);
    return m;
}
TPK_IN FN(matrix) FN(turned)(FN(matrix) m)
{
    const FN(matrix) t = {m.p, m.c, m.r};
    return t;
}

/* ---- what is taken off ------------------------------------------------------------------------------ */

/* c [rows, two vectors] less a [rows, k] times b [k, two vectors]. Of fewer rows than `most` the last is
 * computed again, and not stored. */
TPK_IN void FN(less_tile)(const int most, int64_t rows, int64_t k, FN(matrix) a, const T *b,
                          T *c, int64_t cr, TPK_M m0, TPK_M m1)
{
    TPK_V x[FN(less_rows)], y[FN(less_rows)];
    const T *row[FN(less_rows)];
#pragma GCC unroll 12
    for (int i = 0; i < most; i++) {
        x[i] = y[i] = (TPK_V){0};
        row[i] = a.p + tpk_i_min(i, rows - 1) * a.r;
    }
    for (int64_t kk = 0; kk < k; kk++, b += FN(less_columns)) {
        const TPK_V b0 = TPK_LOAD(b), b1 = TPK_LOAD(b + TPK_VL);
#pragma GCC unroll 12
        for (int i = 0; i < most; i++) {
            const T e = row[i][kk * a.c];
            const TPK_V v = TPK_SPLAT(e);
            x[i] = TPK_FMA(v, b0, x[i]);
            y[i] = TPK_FMA(v, b1, y[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < most; i++) {
        if (i < rows) {
            T *const to = c + i * cr;
            TPK_STOREM(to, TPK_LOADM(to, m0) - x[i], m0);
            TPK_STOREM(to + TPK_VL, TPK_LOADM(to + TPK_VL, m1) - y[i], m1);
        }
    }
}

TPK_OUT void FN(less_some)(int64_t rows, int64_t k, FN(matrix) a, const T *b, T *c, int64_t cr,
                           int64_t n)
{
    const TPK_M m0 = TPK_MASK(n), m1 = TPK_MASK(n - TPK_VL);
    if (rows > FN(less_rows) / 2) {
        FN(less_tile)(FN(less_rows), rows, k, a, b, c, cr, m0, m1);
    } else if (rows > 1) {
        FN(less_tile)(FN(less_rows) / 2, rows, k, a, b, c, cr, m0, m1);
    } else {
        FN(less_tile)(1, rows, k, a, b, c, cr, m0, m1);
    }
}

/* c [m, n] less a [m, k] times b [k, n], k <= FN(matrix_panel); columns of c are contiguous. `upper`: below c's diagonal
 * nobody will read. */
TPK_FN void FN(less)(int64_t m, int64_t n, int64_t k, FN(matrix) a, FN(matrix) b, T *c,
                     int64_t cr, int upper)
{
    T packed[FN(matrix_panel) * FN(less_columns)];
    for (int64_t j = 0; j < n; j += FN(less_columns)) {
        const int64_t cols = tpk_i_min(FN(less_columns), n - j);
        for (int64_t kk = 0; kk < k; kk++) {
            T *const to = packed + kk * FN(less_columns);
            const T *const row = FN(element)(b, kk, j);
            for (int64_t i = 0; i < cols && b.c == 1; i++) {
                to[i] = row[i];
            }
            for (int64_t i = 0; i < cols && b.c != 1; i++) {
                to[i] = row[i * b.c];
            }
            for (int64_t i = cols; i < FN(less_columns); i++) {
                to[i] = 0;
            }
        }
        const int64_t rows = upper ? tpk_i_min(m, j + cols) : m;
        for (int64_t i = 0; i < rows; i += FN(less_rows)) {
            FN(less_some)
            (tpk_i_min(FN(less_rows), rows - i), k, FN(from)(a, i, 0), packed, c + i * cr + j,
             cr, cols);
        }
    }
}

/* y [n] less the sum of f[i] times row i of x; rows of x are contiguous, `xr` apart. */
TPK_OUT void FN(less_row)(int64_t n, int64_t k, T *y, const T *f, int64_t fs, const T *x,
                          int64_t xr)
{
    int64_t j = 0;
    for (; j + 2 * TPK_VL <= n && k > 0; j += 2 * TPK_VL) {
        TPK_V a = {0}, b = {0};
        for (int64_t i = 0; i < k; i++) {
            const T e = f[i * fs];
            const TPK_V v = TPK_SPLAT(e);
            a = TPK_FMA(v, TPK_LOAD(x + i * xr + j), a);
            b = TPK_FMA(v, TPK_LOAD(x + i * xr + j + TPK_VL), b);
        }
        TPK_STORE(y + j, TPK_LOAD(y + j) - a);
        TPK_STORE(y + j + TPK_VL, TPK_LOAD(y + j + TPK_VL) - b);
    }
    for (; j < n && k > 0; j += TPK_VL) {
        const TPK_M m = TPK_MASK(n - j);
        TPK_V a = {0};
        for (int64_t i = 0; i < k; i++) {
            const T e = f[i * fs];
            a = TPK_FMA(TPK_SPLAT(e), TPK_LOADM(x + i * xr + j, m), a);
        }
        TPK_STOREM(y + j, TPK_LOADM(y + j, m) - a, m);
    }
}

/* ---- stacks of matrices ------------------------------------------------------------------------------ */

/* How many matrices a stack has, whose last two axes are those of one. */
TPK_FN int64_t FN(stack_count)(const tpk_view *v)
{
    int64_t count = 1;
    for (int64_t i = 0; i < v->rank - 2; i++) {
        count *= v->n[i];
    }
    return count;
}

/* Number `at` of them. */
TPK_FN FN(matrix) FN(stack_matrix)(const tpk_view *v, int64_t at)
{
    FN(matrix) m = {(T *)v->p, v->s[v->rank - 2], v->s[v->rank - 1]};
    for (int64_t i = v->rank - 3; i >= 0; i--) {
        m.p += at % v->n[i] * v->s[i];
        at /= v->n[i];
    }
    return m;
}

TPK_FN void FN(matrix_copy)(int64_t rows, int64_t columns, FN(matrix) x, FN(matrix) y)
{
    for (int64_t i = 0; i < rows; i++) {
        const T *const from = FN(element)(x, i, 0);
        T *const to = FN(element)(y, i, 0);
        for (int64_t j = 0; j < columns && x.c == 1 && y.c == 1; j++) {
            to[j] = from[j];
        }
        for (int64_t j = 0; j < columns && (x.c != 1 || y.c != 1); j++) {
            to[j * y.c] = from[j * x.c];
        }
    }
}

/* ---- cholesky ------------------------------------------------------------------------------------------- */

/* The upper triangle of u becomes that U with U'U what it was. 1: a pivot is not above 0. */
TPK_FN int64_t FN(cholesky_factor)(int64_t n, FN(matrix) u)
{
    for (int64_t p = 0; p < n; p += FN(matrix_panel)) {
        const int64_t end = tpk_i_min(n, p + FN(matrix_panel));
        for (int64_t j = p; j < end; j++) {
            T *const row = FN(element)(u, j, j);
            FN(less_row)
            (n - j, j - p, row, FN(element)(u, p, j), u.r, FN(element)(u, p, j), u.r);
            if (!(row[0] > 0)) {
                return 1;
            }
            const T root = TPK_CAT(tpk_sqrt_, S)(row[0]);
            row[0] = root;
            for (int64_t i = 1; i < n - j; i++) {
                row[i] = row[i] / root;
            }
        }
        const FN(matrix) across = FN(from)(u, p, end);
        FN(less)
        (n - end, n - end, end - p, FN(turned)(across), across, FN(element)(u, end, end), u.r,
         1);
    }
    return 0;
}

/* U moves to the lower triangle, as it stands or turned, and zeros fill the other one. */
TPK_FN void FN(cholesky_finish)(int64_t n, FN(matrix) u, int64_t upper)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            if (!upper) {
                *FN(element)(u, i, j) = *FN(element)(u, j, i);
                *FN(element)(u, j, i) = 0;
            } else {
                *FN(element)(u, i, j) = 0;
            }
        }
    }
}

/* attr: upper.  [..., n, n] -> L with L L' = a, read in the lower triangle; upper: U with U'U = a, read in the
 * upper one. 1 + the number of a matrix that is not positive definite. */
static __attribute__((unused)) int64_t FN(cholesky)(const tpk_view *in, const tpk_view *out,
                                                    const int64_t *attr)
{
    const int64_t n = out->n[out->rank - 1], count = FN(stack_count)(out);
    for (int64_t at = 0; at < count; at++) {
        const FN(matrix) a = FN(stack_matrix)(in, at), u = FN(stack_matrix)(out, at);
        FN(matrix_copy)(n, n, attr[0] ? a : FN(turned)(a), u);
        if (FN(cholesky_factor)(n, u)) {
            return 1 + at;
        }
        FN(cholesky_finish)(n, u, attr[0]);
    }
    return 0;
}

/* ---- triangles ------------------------------------------------------------------------------------------ */

/* Row i of x [n, k], once those that it needs from `first` on are known. */
TPK_FN void FN(triangle_row)(int64_t k, FN(matrix) t, FN(matrix) x, int64_t i, int64_t first,
                             int64_t terms, int64_t unit)
{
    T *const row = FN(element)(x, i, 0);
    const T pivot = *FN(element)(t, i, i);
    FN(less_row)
    (k, terms, row, FN(element)(t, i, first), t.c, FN(element)(x, first, 0), x.r);
    for (int64_t j = 0; j < k && !unit; j++) {
        row[j] = row[j] / pivot;
    }
}

/* x [n, k] becomes the solution of t y = x; columns of x are contiguous. */
TPK_FN void FN(triangle_solve)(int64_t n, int64_t k, FN(matrix) t, FN(matrix) x, int64_t upper,
                               int64_t unit)
{
    const int64_t panels = tpk_i_ceil(n, FN(matrix_panel));
    for (int64_t l = 0; l < panels; l++) {
        const int64_t p = (upper ? panels - 1 - l : l) * FN(matrix_panel);
        const int64_t end = tpk_i_min(n, p + FN(matrix_panel));
        for (int64_t i = p; i < end && !upper; i++) {
            FN(triangle_row)(k, t, x, i, p, i - p, unit);
        }
        for (int64_t i = end - 1; i >= p && upper; i--) {
            FN(triangle_row)(k, t, x, i, i + 1, end - i - 1, unit);
        }
        const int64_t from = upper ? 0 : end, rows = upper ? p : n - end;
        FN(less)
        (rows, k, end - p, FN(from)(t, from, p), FN(from)(x, p, 0), FN(element)(x, from, 0),
         x.r, 0);
    }
}

/* Is there a 0 on the diagonal? */
TPK_FN int FN(triangle_singular)(int64_t n, FN(matrix) t)
{
    int singular = 0;
    for (int64_t i = 0; i < n; i++) {
        singular |= *FN(element)(t, i, i) == 0;
    }
    return singular;
}

/* attr: upper, transposed, unit.  in: t [..., n, n], of which one triangle is read, b [..., n, k]. 1 + the number of
 * a singular matrix. */
static __attribute__((unused)) int64_t
FN(solve_triangular)(const tpk_view *in, const tpk_view *out, const int64_t *attr)
{
    const int64_t n = out->n[out->rank - 2], k = out->n[out->rank - 1];
    const int64_t count = k > 0 ? FN(stack_count)(out) : 0;
    for (int64_t at = 0; at < count; at++) {
        const FN(matrix) t = FN(stack_matrix)(in, at), x = FN(stack_matrix)(out, at);
        if (!attr[2] && FN(triangle_singular)(n, t)) {
            return 1 + at;
        }
        FN(matrix_copy)(n, k, FN(stack_matrix)(in + 1, at), x);
        FN(triangle_solve)(n, k, attr[1] ? FN(turned)(t) : t, x, attr[0] != attr[1], attr[2]);
    }
    return 0;
}

/* ---- LU ------------------------------------------------------------------------------------------------- */

TPK_IN T FN(size_of)(T x)
{
    return x < 0 ? -x : x;
}

TPK_FN void FN(swap_rows)(int64_t n, FN(matrix) a, int64_t i, int64_t j)
{
    T *const x = FN(element)(a, i, 0), *const y = FN(element)(a, j, 0);
    for (int64_t c = 0; c < n && i != j; c++) {
        const T was = x[c];
        x[c] = y[c];
        y[c] = was;
    }
}

/* The first row from j on whose element in column j is largest. */
TPK_FN int64_t FN(lu_pivot)(int64_t n, FN(matrix) a, int64_t j)
{
    int64_t best = j;
    for (int64_t i = j + 1; i < n; i++) {
        if (FN(size_of)(*FN(element)(a, i, j)) > FN(size_of)(*FN(element)(a, best, j))) {
            best = i;
        }
    }
    return best;
}

/* Columns p to end - 1, with all their rows from p on. pivot[j]: the row that row j changed places with. */
TPK_FN void FN(lu_panel)(int64_t n, FN(matrix) a, int64_t p, int64_t end, T *pivot)
{
    for (int64_t j = p; j < end; j++) {
        const int64_t best = FN(lu_pivot)(n, a, j);
        pivot[j] = (T)best;
        FN(swap_rows)(n, a, j, best);
        const T *const row = FN(element)(a, j, j);
        for (int64_t i = j + 1; i < n && row[0] != 0; i++) {
            T *const to = FN(element)(a, i, j);
            to[0] = to[0] / row[0];
            for (int64_t c = 1; c < end - j; c++) {
                to[c] = TPK_CAT(tpk_fma_, S)(-to[0], row[c], to[c]);
            }
        }
    }
}

/* a [n, n], whose columns are contiguous, becomes L (without its diagonal of ones) and U. */
TPK_FN void FN(lu_factor)(int64_t n, FN(matrix) a, T *pivot)
{
    for (int64_t p = 0; p < n; p += FN(matrix_panel)) {
        const int64_t end = tpk_i_min(n, p + FN(matrix_panel));
        FN(lu_panel)(n, a, p, end, pivot);
        for (int64_t j = p + 1; j < end; j++) {
            FN(less_row)
            (n - end, j - p, FN(element)(a, j, end), FN(element)(a, j, p), 1,
             FN(element)(a, p, end), a.r);
        }
        FN(less)
        (n - end, n - end, end - p, FN(from)(a, end, p), FN(from)(a, p, end),
         FN(element)(a, end, end), a.r, 0);
    }
}

/* [..., n, n] -> [..., n + 2, n]: L and U in n rows, then for each row j of them the row that it changed places
 * with, and at last the row of `in` that it was. */
static __attribute__((unused)) int64_t FN(lu)(const tpk_view *in, const tpk_view *out,
                                              const int64_t *attr)
{
    const int64_t n = out->n[out->rank - 1], count = FN(stack_count)(out);
    (void)attr;
    for (int64_t at = 0; at < count && n > 0; at++) {
        const FN(matrix) y = FN(stack_matrix)(out, at);
        T *const pivot = FN(element)(y, n, 0), *const row = FN(element)(y, n + 1, 0);
        FN(matrix_copy)(n, n, FN(stack_matrix)(in, at), y);
        FN(lu_factor)(n, y, pivot);
        for (int64_t i = 0; i < n; i++) {
            row[i] = (T)i;
        }
        for (int64_t i = 0; i < n; i++) {
            const T was = row[i];
            row[i] = row[(int64_t)pivot[i]];
            row[(int64_t)pivot[i]] = was;
        }
    }
    return 0;
}

/* The row that row i changed places with. Factors are an operand, which a graph may have from elsewhere: what is no
 * row is row i. */
TPK_IN int64_t FN(lu_row)(int64_t n, FN(matrix) f, int64_t i)
{
    const T row = *FN(element)(f, n, i);
    return row >= 0 && row < (T)n ? (int64_t)row : i;
}

/* x [n, k] becomes the solution of a y = x, or a' y = x, of a's factors. */
TPK_FN void FN(lu_solve)(int64_t n, int64_t k, FN(matrix) f, FN(matrix) x, int64_t transposed)
{
    for (int64_t i = 0; i < n && !transposed; i++) {
        FN(swap_rows)(k, x, i, FN(lu_row)(n, f, i));
    }
    if (transposed) {
        FN(triangle_solve)(n, k, FN(turned)(f), x, 0, 0);
        FN(triangle_solve)(n, k, FN(turned)(f), x, 1, 1);
    } else {
        FN(triangle_solve)(n, k, f, x, 0, 1);
        FN(triangle_solve)(n, k, f, x, 1, 0);
    }
    for (int64_t i = n - 1; i >= 0 && transposed; i--) {
        FN(swap_rows)(k, x, i, FN(lu_row)(n, f, i));
    }
}

/* attr: transposed.  in: a [..., n, n], which is not read, its factors by `lu`, b [..., n, k]. 1 + the number of a
 * singular matrix. */
static __attribute__((unused)) int64_t FN(solve)(const tpk_view *in, const tpk_view *out,
                                                 const int64_t *attr)
{
    const int64_t n = out->n[out->rank - 2], k = out->n[out->rank - 1];
    const int64_t count = k > 0 ? FN(stack_count)(out) : 0;
    for (int64_t at = 0; at < count; at++) {
        const FN(matrix) f = FN(stack_matrix)(in + 1, at), x = FN(stack_matrix)(out, at);
        if (FN(triangle_singular)(n, f)) {
            return 1 + at;
        }
        FN(matrix_copy)(n, k, FN(stack_matrix)(in + 2, at), x);
        FN(lu_solve)(n, k, f, x, attr[0]);
    }
    return 0;
}

/* attr: part, 0 the determinant, 1 its sign, 2 the logarithm of its size.  in: a [..., n, n], which is not read, its
 * factors by `lu`. Elements of the diagonal, or their logarithms, from the first on. */
static __attribute__((unused)) int64_t FN(det)(const tpk_view *in, const tpk_view *out,
                                               const int64_t *attr)
{
    const int64_t n = in->n[in->rank - 1], count = FN(stack_count)(in), part = attr[0];
    for (int64_t at = 0; at < count; at++) {
        const FN(matrix) f = FN(stack_matrix)(in + 1, at);
        T product = 1, logs = 0;
        for (int64_t i = 0; i < n; i++) {
            const T x = *FN(element)(f, i, i);
            const T turned = *FN(element)(f, n, i) == (T)i ? 1 : -1;
            product = product * turned * (part == 1 ? TPK_CAT(tpk_sign_, S)(x) : x);
            logs = part == 2 ? logs + TPK_CAT(tpk_log_, S)(FN(size_of)(x)) : logs;
        }
        T *to = (T *)out->p;
        for (int64_t i = out->rank - 1, rest = at; i >= 0; rest /= out->n[i], i--) {
            to += rest % out->n[i] * out->s[i];
        }
        *to = part == 2 ? logs : product;
    }
    return 0;
}
#undef TPK_BITS
