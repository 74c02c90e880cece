/* Matrix products of integers: sums wrap, so their order does not matter. Pasted once per element type: T is the type, S its
 * suffix, FN(name) is tpk_name_S. */

#define TPK_PLUS(sum, a, b) (T)((uint64_t)(sum) + (uint64_t)(a) * (uint64_t)(b))

/* One row of the result: sums along columns of b whose elements are neighbours, */
static __attribute__((unused)) void FN(matmul_columns)(const T *a, const T *b, int64_t step,
                                                       int64_t terms, int64_t n,
                                                       T *__restrict c)
{
    for (int64_t j = 0; j < n; j++) {
        T sum = 0;
        for (int64_t k = 0; k < terms; k++) {
            sum = TPK_PLUS(sum, a[k], b[j * step + k]);
        }
        c[j] = sum;
    }
}

/* or rows of b, each times an element of a. */
static __attribute__((unused)) void FN(matmul_rows)(const T *a, int64_t a_step, const T *b,
                                                    int64_t b_step, int64_t step, int64_t terms,
                                                    int64_t n, T *__restrict c)
{
    for (int64_t j = 0; j < n; j++) {
        c[j] = 0;
    }
    for (int64_t k = 0; k < terms; k++) {
        const T x = a[k * a_step], *y = b + k * b_step;
        for (int64_t j = 0; j < n && step == 1; j++) {
            c[j] = TPK_PLUS(c[j], x, y[j]);
        }
        for (int64_t j = 0; j < n && step != 1; j++) {
            c[j] = TPK_PLUS(c[j], x, y[j * step]);
        }
    }
}
#undef TPK_PLUS

/* in: [..., m, k], [..., k, n]. */
static __attribute__((unused)) int64_t FN(matmul)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    const int64_t row = out->rank - 2, column = row + 1;
    const int64_t *as = in[0].s, *bs = in[1].s, *n = out->n;
    int64_t rows = 1;
    (void)attr;
    for (int64_t i = 0; i <= row; i++) {
        rows *= n[i];
    }
    for (int64_t r = 0; r < rows; r++) {
        const T *a = (const T *)in[0].p, *b = (const T *)in[1].p;
        for (int64_t i = row, rest = r; i >= 0; rest /= n[i], i--) {
            a += rest % n[i] * as[i];
            b += i < row ? rest % n[i] * bs[i] : 0;
        }
        T *c = (T *)out->p + r * n[column];
        if (as[column] == 1 && bs[row] == 1) {
            FN(matmul_columns)(a, b, bs[column], in[0].n[column], n[column], c);
        } else {
            FN(matmul_rows)
            (a, as[column], b, bs[row], bs[column], in[0].n[column], n[column], c);
        }
    }
    return 0;
}
