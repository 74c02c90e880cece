/* Places of the greatest and the least element of an axis. Pasted once per element type: T is
 * the type, S its suffix, FN(name) is tpk_name_S.
 *
 * Of equal elements the first one counts; -0 and +0 are equal here. The first NaN is the greatest
 * and the least. The place in no elements is 0. */

/* name_line: one line. Sixty-four elements at a time are asked whether any beats the best so
 * far, which vectorises; only then are they looked at one by one.
 *
 * name: attr is axis, keep. Off the last axis, neighbouring lines go together. */
#define TPK_ARG(name, rel)                                                                     \
    static __attribute__((unused)) int64_t FN(name##_line)(const T *x, int64_t n,              \
                                                           int64_t step)                       \
    {                                                                                          \
        T best = n > 0 ? x[0] : 0;                                                             \
        int64_t place = 0;                                                                     \
        for (int64_t i = 0; i < n; i += 64) {                                                  \
            const int64_t m = n - i < 64 ? n - i : 64;                                         \
            int any = step != 1 || m < 64;                                                     \
            if (!any) {                                                                        \
                for (int k = 0; k < 64; k++) {                                                 \
                    any |= (x[i + k] rel best) | (x[i + k] != x[i + k]);                       \
                }                                                                              \
            }                                                                                  \
            for (int64_t k = i; any && k < i + m; k++) {                                       \
                const T v = x[k * step];                                                       \
                if (v != v) {                                                                  \
                    return k;                                                                  \
                }                                                                              \
                if (v rel best) {                                                              \
                    best = v;                                                                  \
                    place = k;                                                                 \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
        return place;                                                                          \
    }                                                                                          \
    static __attribute__((unused)) void FN(name##_lines)(                                      \
        const T *x, int64_t n, int64_t step, int64_t lines, int64_t next, int64_t *y)          \
    {                                                                                          \
        T best[256];                                                                           \
        int32_t place[256];                                                                    \
        for (int64_t l = 0; l < lines; l++) {                                                  \
            best[l] = n > 0 ? x[l * next] : 0;                                                 \
            place[l] = 0;                                                                      \
        }                                                                                      \
        for (int32_t i = 1; i < n; i++) {                                                      \
            x += step;                                                                         \
            for (int64_t l = 0; l < lines; l++) {                                              \
                const T v = x[l * next], b = best[l];                                          \
                const int beats = (v rel b) | ((v != v) & (b == b));                           \
                best[l] = beats ? v : b;                                                       \
                place[l] = beats ? i : place[l];                                               \
            }                                                                                  \
        }                                                                                      \
        for (int64_t l = 0; l < lines; l++) {                                                  \
            y[l] = place[l];                                                                   \
        }                                                                                      \
    }                                                                                          \
    static __attribute__((unused)) int64_t FN(name)(const tpk_view *in, const tpk_view *out,   \
                                                    const int64_t *attr)                       \
    {                                                                                          \
        const tpk_view *v = in;                                                                \
        const int64_t axis = attr[0], last = v->rank - 1, n = v->n[axis], step = v->s[axis];   \
        const int64_t row = axis == last ? 1 : v->n[last], next = v->s[last];                  \
        const int64_t together = row == 1 || n > INT32_MAX ? 1 : 256;                          \
        int64_t rows = 1, at[8] = {0};                                                         \
        const T *x = (const T *)v->p;                                                          \
        int64_t *y = (int64_t *)out->p;                                                        \
        for (int64_t i = 0; i < last; i++) {                                                   \
            rows *= i == axis ? 1 : v->n[i];                                                   \
        }                                                                                      \
        for (int64_t k = 0; k < rows; k++) {                                                   \
            for (int64_t l = 0; l < row; l += together) {                                      \
                const int64_t m = row - l < together ? row - l : together;                     \
                if (together == 1) {                                                           \
                    *y = FN(name##_line)(x + l * next, n, step);                               \
                } else {                                                                       \
                    FN(name##_lines)(x + l * next, n, step, m, next, y);                       \
                }                                                                              \
                y += m;                                                                        \
            }                                                                                  \
            for (int64_t i = last - 1; i >= 0; i--) {                                          \
                if (i == axis) {                                                               \
                    continue;                                                                  \
                }                                                                              \
                x += v->s[i];                                                                  \
                if (++at[i] < v->n[i]) {                                                       \
                    break;                                                                     \
                }                                                                              \
                at[i] = 0;                                                                     \
                x -= v->n[i] * v->s[i];                                                        \
            }                                                                                  \
        }                                                                                      \
        return 0;                                                                              \
    }
TPK_ARG(argmax, >)
TPK_ARG(argmin, <)
#undef TPK_ARG
