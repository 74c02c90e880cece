/* Places of the first elements of an axis in the order of their values. Pasted once per element
 * type: T is the type, S its suffix, FN(name) is tpk_name_S.
 *
 * Of equal elements the earlier place comes first; -0 and +0 are equal. NaN is above every number.
 * So the order is total, and what is found does not depend on how. */

static inline __attribute__((unused)) int FN(argtopk_above)(T a, T b)
{
    const int a_nan = TPK_CAT(tpk_ne_, S)(a, a), b_nan = TPK_CAT(tpk_ne_, S)(b, b);
    return (a > b) | (a_nan & !b_nan);
}

/* Is place a before place b? */
static inline __attribute__((unused)) int
FN(argtopk_before)(const T *x, int64_t step, int64_t largest, int64_t a, int64_t b)
{
    const T p = x[a * step], q = x[b * step];
    const int up = FN(argtopk_above)(p, q), down = FN(argtopk_above)(q, p);
    return (largest ? up : down) | ((up == down) & (a < b));
}

/* A heap of n places whose root is the last in order: `v` goes in at i or below. */
static __attribute__((unused)) void FN(argtopk_sift)(const T *x, int64_t step, int64_t largest,
                                                     int64_t *y, int64_t s, int64_t n,
                                                     int64_t i, int64_t v)
{
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n &&
            FN(argtopk_before)(x, step, largest, y[child * s], y[(child + 1) * s])) {
            child++;
        }
        if (!FN(argtopk_before)(x, step, largest, v, y[child * s])) {
            break;
        }
        y[i * s] = y[child * s];
        i = child;
    }
    y[i * s] = v;
}

/* Does one of 64 elements come before an earlier one that is `last`? */
static inline __attribute__((unused)) int FN(argtopk_any)(const T *x, int64_t largest, T last)
{
    int any = 0;
    if (TPK_CAT(tpk_ne_, S)(last, last)) {
        return !largest;
    }
    for (int i = 0; largest && i < 64; i++) {
        any |= (x[i] > last) | TPK_CAT(tpk_ne_, S)(x[i], x[i]);
    }
    for (int i = 0; !largest && i < 64; i++) {
        any |= x[i] < last;
    }
    return any;
}

/* One line: the first k of n places, k > 0. */
static __attribute__((unused)) void FN(argtopk_line)(const T *x, int64_t n, int64_t step,
                                                     int64_t largest, int64_t *y, int64_t k,
                                                     int64_t s)
{
    for (int64_t i = 0; i < k; i++) {
        y[i * s] = i;
    }
    for (int64_t i = k / 2 - 1; i >= 0; i--) {
        FN(argtopk_sift)(x, step, largest, y, s, k, i, y[i * s]);
    }
    for (int64_t i = k, m; i < n; i += m) { /* most are not among them */
        m = n - i < 64 ? n - i : 64;
        if (step == 1 && m == 64 && !FN(argtopk_any)(x + i, largest, x[y[0]])) {
            continue;
        }
        for (int64_t at = i; at < i + m; at++) {
            if (FN(argtopk_before)(x, step, largest, at, y[0])) {
                FN(argtopk_sift)(x, step, largest, y, s, k, 0, at);
            }
        }
    }
    for (int64_t i = k - 1; i > 0; i--) {
        const int64_t v = y[i * s];
        y[i * s] = y[0];
        FN(argtopk_sift)(x, step, largest, y, s, i, 0, v);
    }
}

/* attr: axis, k, largest. */
static __attribute__((unused)) int64_t FN(argtopk)(const tpk_view *in, const tpk_view *out,
                                                   const int64_t *attr)
{
    const int64_t axis = attr[0], n = in->n[axis], k = out->n[axis], largest = attr[2];
    int64_t lines = k > 0 ? 1 : 0, at[8] = {0};
    const T *x = (const T *)in->p;
    int64_t *y = (int64_t *)out->p;
    for (int64_t i = 0; i < in->rank; i++) {
        lines *= i == axis ? 1 : in->n[i];
    }
    for (int64_t l = 0; l < lines; l++) {
        FN(argtopk_line)(x, n, in->s[axis], largest, y, k, out->s[axis]);
        for (int64_t i = in->rank - 1; i >= 0; i--) {
            if (i == axis) {
                continue;
            }
            x += in->s[i];
            y += out->s[i];
            if (++at[i] < in->n[i]) {
                break;
            }
            at[i] = 0;
            x -= in->n[i] * in->s[i];
            y -= in->n[i] * out->s[i];
        }
    }
    return 0;
}
