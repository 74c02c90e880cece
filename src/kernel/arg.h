/* Places of the greatest and the least element of an axis. Pasted once per element type: T is
 * the type, S its suffix, FN(name) is tpk_name_S.
 *
 * Of equal elements the first one counts; -0 and +0 are equal here. The first NaN is the greatest
 * and the least. The place in no elements is 0. */

/* attr: axis, keep. */
#define TPK_ARG(name, rel)                                                                     \
    static __attribute__((unused)) int64_t FN(name)(const tpk_view *in, const tpk_view *out,   \
                                                    const int64_t *attr)                       \
    {                                                                                          \
        const tpk_view *v = in;                                                                \
        const int64_t axis = attr[0], n = v->n[axis], step = v->s[axis];                       \
        int64_t lines = 1, at[8] = {0};                                                        \
        const T *line = (const T *)v->p;                                                       \
        int64_t *y = (int64_t *)out->p;                                                        \
        for (int64_t i = 0; i < v->rank; i++) {                                                \
            lines *= i == axis ? 1 : v->n[i];                                                  \
        }                                                                                      \
        for (int64_t k = 0; k < lines; k++) {                                                  \
            T best = n > 0 ? line[0] : 0;                                                      \
            int64_t place = 0;                                                                 \
            for (int64_t i = 1; i < n; i++) {                                                  \
                const T x = line[i * step];                                                    \
                if (TPK_CAT(tpk_##rel##_, S)(x, best) ||                                       \
                    (TPK_CAT(tpk_ne_, S)(x, x) && TPK_CAT(tpk_eq_, S)(best, best))) {          \
                    best = x;                                                                  \
                    place = i;                                                                 \
                }                                                                              \
            }                                                                                  \
            y[k] = place;                                                                      \
            for (int64_t i = v->rank - 1; i >= 0; i--) {                                       \
                if (i == axis) {                                                               \
                    continue;                                                                  \
                }                                                                              \
                line += v->s[i];                                                               \
                if (++at[i] < v->n[i]) {                                                       \
                    break;                                                                     \
                }                                                                              \
                at[i] = 0;                                                                     \
                line -= v->n[i] * v->s[i];                                                     \
            }                                                                                  \
        }                                                                                      \
        return 0;                                                                              \
    }
TPK_ARG(argmax, gt)
TPK_ARG(argmin, lt)
#undef TPK_ARG
