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

/* What is sorted are entries: places, or where both find room in 64 bits keys, in which an element
 * stands in front of its place, so that a comparison is one of numbers. */
#ifndef TPK_SORT_PLACES
#define TPK_SORT_PLACES (INT64_C(1) << 31) /* that a key tells apart */
#endif

/* The larger key is first. */
static inline __attribute__((unused)) int64_t FN(argtopk_key)(T x, int64_t largest, int64_t at)
{
    int64_t order = (int64_t)x;
    if ((T)0.5 != 0) { /* numbers of one sign are in the order of their bits */
        const union {
            float x;
            int32_t bits;
        } u = {(float)x + 0.0F};
        order = u.bits < 0 ? u.bits ^ INT32_MAX : u.bits;
        order = TPK_CAT(tpk_ne_, S)(x, x) ? INT32_MAX : order;
    }
    return (largest ? order : -1 - order) * TPK_SORT_PLACES + (TPK_SORT_PLACES - 1 - at);
}

/* What a line is sorted by. */
typedef struct {
    const T *x;
    int64_t step, largest, keys;
} FN(argtopk_by);

static inline __attribute__((unused)) int64_t FN(argtopk_entry)(const FN(argtopk_by) * by,
                                                                int64_t at)
{
    return by->keys ? FN(argtopk_key)(by->x[at * by->step], by->largest, at) : at;
}

static inline __attribute__((unused)) int64_t FN(argtopk_place)(const FN(argtopk_by) * by,
                                                                int64_t entry)
{
    return by->keys ? TPK_SORT_PLACES - 1 - (entry & (TPK_SORT_PLACES - 1)) : entry;
}

/* Is entry a before entry b? */
static inline __attribute__((unused)) int FN(argtopk_before)(const FN(argtopk_by) * by,
                                                             int64_t a, int64_t b)
{
    if (by->keys) {
        return a > b;
    }
    const T p = by->x[a * by->step], q = by->x[b * by->step];
    const int up = FN(argtopk_above)(p, q), down = FN(argtopk_above)(q, p);
    return (by->largest ? up : down) | ((up == down) & (a < b));
}

/* A heap of n entries whose root is the last in order: `v` goes in at i or below. */
static inline __attribute__((unused)) void FN(argtopk_sift)(const FN(argtopk_by) * by,
                                                            int64_t *y, int64_t s, int64_t n,
                                                            int64_t i, int64_t v)
{
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        int64_t next = y[child * s];
        if (child + 1 < n) {
            const int64_t other = y[(child + 1) * s];
            const int later = FN(argtopk_before)(by, next, other);
            next = later ? other : next;
            child += later;
        }
        if (!FN(argtopk_before)(by, v, next)) {
            break;
        }
        y[i * s] = next;
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
static inline __attribute__((always_inline, unused)) void
FN(argtopk_line)(const FN(argtopk_by) * by, int64_t n, int64_t *y, int64_t k, int64_t s)
{
    for (int64_t i = 0; i < k; i++) {
        y[i * s] = FN(argtopk_entry)(by, i);
    }
    for (int64_t i = k / 2 - 1; i >= 0; i--) {
        FN(argtopk_sift)(by, y, s, k, i, y[i * s]);
    }
    for (int64_t i = k, m; i < n; i += m) { /* most are not among them */
        m = n - i < 64 ? n - i : 64;
        if (by->step == 1 && m == 64 &&
            !FN(argtopk_any)(by->x + i, by->largest, by->x[FN(argtopk_place)(by, y[0])])) {
            continue;
        }
        for (int64_t at = i; at < i + m; at++) {
            const int64_t v = FN(argtopk_entry)(by, at);
            if (FN(argtopk_before)(by, v, y[0])) {
                FN(argtopk_sift)(by, y, s, k, 0, v);
            }
        }
    }
    for (int64_t i = k - 1; i > 0; i--) {
        const int64_t v = y[i * s];
        y[i * s] = y[0];
        FN(argtopk_sift)(by, y, s, i, 0, v);
    }
    for (int64_t i = 0; i < k; i++) {
        y[i * s] = FN(argtopk_place)(by, y[i * s]);
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
        const FN(argtopk_by)
            by = {x, in->s[axis], largest, sizeof(T) <= 4 && n <= TPK_SORT_PLACES};
        FN(argtopk_line)(&by, n, y, k, out->s[axis]);
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
