/* Places of the greatest and the least element of an axis. Pasted once per element type: T is
 * the type, S its suffix, FN(name) is tpk_name_S.
 *
 * Of equal elements the first one counts; -0 and +0 are equal here. The first NaN is the greatest
 * and the least. The place in no elements is 0. */

#define TPK_IS_NAN(v) ((v) != (v))
/* One line. Sixty-four elements at a time are asked whether any beats the best so far, which
 * vectorises; only then are they looked at one by one. */
static __attribute__((unused)) int64_t FN(arg_line)(const T *x, int64_t n, int64_t step,
                                                    int least)
{
    T best = TPK_CAT(tpk_mirror_, S)(n > 0 ? x[0] : 0, least);
    int64_t place = 0;
    for (int64_t i = 0; i < n; i += 64) {
        const int64_t m = n - i < 64 ? n - i : 64;
        int any = step != 1 || m < 64;
        if (!any) {
            for (int k = 0; k < 64; k++) {
                const T v = TPK_CAT(tpk_mirror_, S)(x[i + k], least);
                any |= (v > best) | TPK_IS_NAN(v);
            }
        }
        for (int64_t k = i; any && k < i + m; k++) {
            const T v = TPK_CAT(tpk_mirror_, S)(x[k * step], least);
            if (TPK_IS_NAN(v)) {
                return k;
            }
            if (v > best) {
                best = v;
                place = k;
            }
        }
    }
    return place;
}

static __attribute__((unused)) void FN(arg_lines)(const T *x, int64_t n, int64_t step,
                                                  int64_t lines, int64_t next, int64_t *y,
                                                  int least)
{
    T best[256];
    int32_t place[256];
    for (int64_t l = 0; l < lines; l++) {
        best[l] = TPK_CAT(tpk_mirror_, S)(n > 0 ? x[l * next] : 0, least);
        place[l] = 0;
    }
    for (int32_t i = 1; i < n; i++) {
        x += step;
        for (int64_t l = 0; l < lines; l++) {
            const T v = TPK_CAT(tpk_mirror_, S)(x[l * next], least), b = best[l];
            const int beats = (v > b) | (TPK_IS_NAN(v) & !TPK_IS_NAN(b));
            best[l] = beats ? v : b;
            place[l] = beats ? i : place[l];
        }
    }
    for (int64_t l = 0; l < lines; l++) {
        y[l] = place[l];
    }
}

/* attr: axis, keep. Off the last axis, neighbouring lines go together. */
static __attribute__((unused)) int64_t FN(arg)(const tpk_view *v, const tpk_view *out,
                                               const int64_t *attr, int least)
{
    const int64_t axis = attr[0], last = v->rank - 1, n = v->n[axis], step = v->s[axis];
    const int64_t row = axis == last ? 1 : v->n[last], next = v->s[last];
    const int64_t together = row == 1 || n > INT32_MAX ? 1 : 256;
    int64_t rows = 1, at[8] = {0};
    const T *x = (const T *)v->p;
    int64_t *y = (int64_t *)out->p;
    for (int64_t i = 0; i < last; i++) {
        rows *= i == axis ? 1 : v->n[i];
    }
    for (int64_t k = 0; k < rows; k++) {
        for (int64_t l = 0; l < row; l += together) {
            const int64_t m = row - l < together ? row - l : together;
            if (together == 1) {
                *y = FN(arg_line)(x + l * next, n, step, least);
            } else {
                FN(arg_lines)(x + l * next, n, step, m, next, y, least);
            }
            y += m;
        }
        for (int64_t i = last - 1; i >= 0; i--) {
            if (i == axis) {
                continue;
            }
            x += v->s[i];
            if (++at[i] < v->n[i]) {
                break;
            }
            at[i] = 0;
            x -= v->n[i] * v->s[i];
        }
    }
    return 0;
}

static __attribute__((unused)) int64_t FN(argmax)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    return FN(arg)(in, out, attr, 0);
}

static __attribute__((unused)) int64_t FN(argmin)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    return FN(arg)(in, out, attr, 1);
}
#undef TPK_IS_NAN
