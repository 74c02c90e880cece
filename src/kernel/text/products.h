/* Matrix products of integers: sums wrap, so their order does not matter. Pasted once per element type: T is the type, S its
 * suffix, FN(name) is tpk_name_S. */

#define TPK_PLUS(sum, a, b) (T)((uint64_t)(sum) + (uint64_t)(a) * (uint64_t)(b))

/* One row of the result. It goes along rows of b, or along its columns if their elements are neighbours. */
static __attribute__((unused)) void FN(matmul_row)(const T *a, int64_t a_step, const T *b,
                                                   int64_t b_step, int64_t step, int64_t terms,
                                                   int64_t n, T *__restrict c)
{
    const int columns = a_step == 1 && b_step == 1;
    for (int64_t j = 0; j < n; j++) {
        T sum = 0;
        for (int64_t k = 0; k < terms && columns; k++) {
            sum = TPK_PLUS(sum, a[k], b[j * step + k]);
        }
        c[j] = sum;
    }
    for (int64_t k = 0; k < terms && !columns; k++) {
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
        FN(matmul_row)
        (a, as[column], b, bs[row], bs[column], in[0].n[column], n[column],
         (T *)out->p + r * n[column]);
    }
    return 0;
}
