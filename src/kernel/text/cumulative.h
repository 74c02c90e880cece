/* Running sums, first-order recurrences, extremes and their places along an axis, in plain order. Pasted once per
 * element type: T is the type, S its suffix, FN(name) is tpk_name_S.
 *
 * A line is the elements of one axis. Neighbours on the last axis are worked on together, so
 * that both memories are read and written in their order; of lines along that axis some, since a
 * sum waits for the one before it, but not for those of other lines. What each line gives is the
 * same. */

enum { FN(scan_lanes) = 256, FN(scan_rows) = 4 };

/* The axis along which lines are taken together; `axis` itself: they are taken one by one, as those of integers,
 * whose sums wait for nothing long. */
static __attribute__((unused)) int64_t FN(scan_across)(const tpk_view *v, int64_t axis)
{
    const int64_t last = v->rank - 1;
    return axis < last ? last : (T)0.5 != 0 && last > 0 ? last - 1 : axis;
}

/* How many of the lines that are left are taken at once. */
static __attribute__((unused)) int64_t FN(scan_at_once)(int64_t rows, int64_t left)
{
    return !rows                  ? left < FN(scan_lanes) ? left : FN(scan_lanes)
                            : left < FN(scan_rows) ? 1
                                  : FN(scan_rows);
}

/* Moves `at` to the next position of v's axes but `skip` and `skip2`, and the offsets of n_ops
 * views of v's sizes with it. */
static __attribute__((unused)) void FN(scan_step)(const tpk_view *v, int64_t skip,
                                                  int64_t skip2, int64_t *at, int64_t n_ops,
                                                  int64_t *offset)
{
    for (int64_t i = v->rank - 1; i >= 0; i--) {
        if (i == skip || i == skip2) {
            continue;
        }
        at[i]++;
        for (int64_t k = 0; k < n_ops; k++) {
            offset[k] += v[k].s[i];
        }
        if (at[i] < v->n[i]) {
            return;
        }
        at[i] = 0;
        for (int64_t k = 0; k < n_ops; k++) {
            offset[k] -= v->n[i] * v[k].s[i];
        }
    }
}

static __attribute__((unused)) void FN(sums_beside)(const T *x, int64_t lane_x, int64_t sx,
                                                    T *y, int64_t sy, int64_t n, int64_t lanes,
                                                    int64_t exclusive)
{
    T sum[FN(scan_lanes)], all = x[0];
    for (int64_t i = 0; lanes == 1 && i < n; i++, x += sx, y += sy) {
        const T before = all;
        all = i ? TPK_CAT(tpk_add_, S)(before, x[0]) : before;
        y[0] = !exclusive ? all : i ? before : 0;
    }
    if (lanes == 1) {
        return;
    }
    for (int64_t l = 0; l < lanes; l++) {
        sum[l] = x[l * lane_x];
        y[l] = exclusive ? 0 : sum[l];
    }
    for (int64_t i = 1; i < n; i++) {
        x += sx;
        y += sy;
        for (int64_t l = 0; l < lanes; l++) {
            const T before = sum[l];
            sum[l] = TPK_CAT(tpk_add_, S)(before, x[l * lane_x]);
            y[l] = exclusive ? before : sum[l];
        }
    }
}

/* Of scan_rows lines. */
static __attribute__((unused)) void FN(sums_of_rows)(const T *x, int64_t row_x, int64_t sx,
                                                     T *y, int64_t row_y, int64_t sy, int64_t n,
                                                     int64_t exclusive)
{
    T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int64_t i = 0; i < n; i++, x += sx, y += sy) {
        const T x0 = x[0], x1 = x[row_x], x2 = x[2 * row_x], x3 = x[3 * row_x];
        const T v0 = i ? TPK_CAT(tpk_add_, S)(s0, x0) : x0;
        const T v1 = i ? TPK_CAT(tpk_add_, S)(s1, x1) : x1;
        const T v2 = i ? TPK_CAT(tpk_add_, S)(s2, x2) : x2;
        const T v3 = i ? TPK_CAT(tpk_add_, S)(s3, x3) : x3;
        y[0] = exclusive ? s0 : v0;
        y[row_y] = exclusive ? s1 : v1;
        y[2 * row_y] = exclusive ? s2 : v2;
        y[3 * row_y] = exclusive ? s3 : v3;
        s0 = v0, s1 = v1, s2 = v2, s3 = v3;
    }
}

/* attr: axis, exclusive, reverse.  y[i] = x[0] + ... + x[i], from left to right; exclusive: the
 * one before, and 0 at the start. */
static __attribute__((unused)) int64_t FN(cumsum)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    const int64_t axis = attr[0], exclusive = attr[1], reverse = attr[2];
    const tpk_view v[2] = {in[0], *out};
    const int64_t across = FN(scan_across)(v, axis), rows = (T)0.5 != 0 && axis > across,
                  n = v[0].n[axis];
    const int64_t n_lanes = across == axis ? 1 : v[0].n[across];
    const int64_t sx = reverse ? -v[0].s[axis] : v[0].s[axis];
    const int64_t sy = reverse ? -v[1].s[axis] : v[1].s[axis];
    const int64_t lane_x = v[0].s[across], lane_y = v[1].s[across];
    int64_t n_groups = n > 0 ? 1 : 0, at[8] = {0};
    int64_t offset[2] = {reverse ? -(n - 1) * sx : 0, reverse ? -(n - 1) * sy : 0};
    for (int64_t i = 0; i < v[0].rank; i++) {
        n_groups *= i == axis || i == across ? 1 : v[0].n[i];
    }
    for (int64_t g = 0; g < n_groups; g++) {
        for (int64_t lane = 0, lanes; lane < n_lanes; lane += lanes) {
            const T *x = (const T *)v[0].p + offset[0] + lane * lane_x;
            T *y = (T *)v[1].p + offset[1] + lane * lane_y;
            lanes = FN(scan_at_once)(rows, n_lanes - lane);
            if (rows && lanes == FN(scan_rows)) {
                FN(sums_of_rows)(x, lane_x, sx, y, lane_y, sy, n, exclusive);
            } else {
                FN(sums_beside)(x, lane_x, sx, y, sy, n, lanes, exclusive);
            }
        }
        FN(scan_step)(v, axis, across, at, 2, offset);
    }
    return 0;
}

static __attribute__((unused)) void FN(grown_beside)(const T *a, int64_t lane_a, int64_t sa,
                                                     const T *b, int64_t lane_b, int64_t sb,
                                                     T *y, int64_t sy, int64_t n, int64_t lanes)
{
    T state[FN(scan_lanes)];
    for (int64_t l = 0; l < lanes; l++) {
        y[l] = state[l] = b[l * lane_b];
    }
    for (int64_t i = 1; i < n; i++) {
        a += sa;
        b += sb;
        y += sy;
        for (int64_t l = 0; l < lanes; l++) {
            const T grown = TPK_CAT(tpk_mul_, S)(a[l * lane_a], state[l]);
            y[l] = state[l] = TPK_CAT(tpk_add_, S)(grown, b[l * lane_b]);
        }
    }
}

/* Of scan_rows lines; lane, s: of a, b and y, from one line to the next, and along them. */
static __attribute__((unused)) void FN(grown_of_rows)(const T *a, const T *b, T *y,
                                                      const int64_t *lane, const int64_t *s,
                                                      int64_t n)
{
    const int64_t la = lane[0], lb = lane[1], ly = lane[2], sa = s[0], sb = s[1], sy = s[2];
    T s0 = b[0], s1 = b[lb], s2 = b[2 * lb], s3 = b[3 * lb];
    for (int64_t i = 0;;) {
        y[0] = s0;
        y[ly] = s1;
        y[2 * ly] = s2;
        y[3 * ly] = s3;
        if (++i == n) {
            return;
        }
        a += sa;
        b += sb;
        y += sy;
        s0 = TPK_CAT(tpk_add_, S)(TPK_CAT(tpk_mul_, S)(a[0], s0), b[0]);
        s1 = TPK_CAT(tpk_add_, S)(TPK_CAT(tpk_mul_, S)(a[la], s1), b[lb]);
        s2 = TPK_CAT(tpk_add_, S)(TPK_CAT(tpk_mul_, S)(a[2 * la], s2), b[2 * lb]);
        s3 = TPK_CAT(tpk_add_, S)(TPK_CAT(tpk_mul_, S)(a[3 * la], s3), b[3 * lb]);
    }
}

/* attr: axis, reverse. Operands a and b of one shape:  y[0] = b[0];  y[i] = a[i] * y[i - 1] + b[i],
 * product and sum rounded one by one. a[0] is not read. */
static __attribute__((unused)) int64_t FN(recur)(const tpk_view *in, const tpk_view *out,
                                                 const int64_t *attr)
{
    const int64_t axis = attr[0], reverse = attr[1];
    const tpk_view v[3] = {in[0], in[1], *out};
    const int64_t across = FN(scan_across)(v, axis), rows = (T)0.5 != 0 && axis > across,
                  n = v[0].n[axis];
    const int64_t n_lanes = across == axis ? 1 : v[0].n[across];
    int64_t n_groups = n > 0 ? 1 : 0, at[8] = {0}, s[3], offset[3], lane_of[3];
    for (int64_t k = 0; k < 3; k++) {
        s[k] = reverse ? -v[k].s[axis] : v[k].s[axis];
        offset[k] = reverse ? -(n - 1) * s[k] : 0;
        lane_of[k] = v[k].s[across];
    }
    for (int64_t i = 0; i < v[0].rank; i++) {
        n_groups *= i == axis || i == across ? 1 : v[0].n[i];
    }
    for (int64_t g = 0; g < n_groups; g++) {
        for (int64_t lane = 0, lanes; lane < n_lanes; lane += lanes) {
            const T *a = (const T *)v[0].p + offset[0] + lane * lane_of[0];
            const T *b = (const T *)v[1].p + offset[1] + lane * lane_of[1];
            T *y = (T *)v[2].p + offset[2] + lane * lane_of[2];
            lanes = FN(scan_at_once)(rows, n_lanes - lane);
            if (rows && lanes == FN(scan_rows)) {
                FN(grown_of_rows)(a, b, y, lane_of, s, n);
            } else {
                FN(grown_beside)(a, lane_of[0], s[0], b, lane_of[1], s[1], y, s[2], n, lanes);
            }
        }
        FN(scan_step)(v, axis, across, at, 3, offset);
    }
    return 0;
}

/* name: attr is axis.  y[i] = the greatest (least) of x[0] to x[i], or its place; of equal ones the last, and the last
 * NaN is the greatest and the least. */
#define TPK_RANK(v) TPK_CAT(tpk_mirror_, S)(v, least)
#define TPK_RUNNING_VALUE(value, place) TPK_RANK(value)
#define TPK_RUNNING_PLACE(value, place) (place)
#define TPK_RUNNING(name, Y, GIVES)                                                            \
    static __attribute__((unused)) void FN(name##_beside)(const T *x, int64_t lane_x,          \
                                                          int64_t sx, Y *y, int64_t sy,        \
                                                          int64_t n, int64_t lanes, int least) \
    {                                                                                          \
        T best[FN(scan_lanes)];                                                                \
        int64_t place[FN(scan_lanes)];                                                         \
        for (int64_t l = 0; l < lanes; l++) {                                                  \
            best[l] = TPK_RANK(x[l * lane_x]);                                                 \
            place[l] = 0;                                                                      \
            y[l] = GIVES(best[l], 0);                                                          \
        }                                                                                      \
        for (int64_t i = 1; i < n; i++) {                                                      \
            x += sx;                                                                           \
            y += sy;                                                                           \
            for (int64_t l = 0; l < lanes; l++) {                                              \
                const T v = TPK_RANK(x[l * lane_x]), b = best[l];                              \
                const int beats = (v >= b) | (v != v);                                         \
                best[l] = beats ? v : b;                                                       \
                place[l] = beats ? i : place[l];                                               \
                y[l] = GIVES(best[l], place[l]);                                               \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    static __attribute__((unused)) void FN(name##_of_rows)(const T *x, int64_t row_x,          \
                                                           int64_t sx, Y *y, int64_t row_y,    \
                                                           int64_t sy, int64_t n, int least)   \
    {                                                                                          \
        T b0 = TPK_RANK(x[0]), b1 = TPK_RANK(x[row_x]);                                        \
        T b2 = TPK_RANK(x[2 * row_x]), b3 = TPK_RANK(x[3 * row_x]);                            \
        int64_t p0 = 0, p1 = 0, p2 = 0, p3 = 0;                                                \
        for (int64_t i = 0; i < n; i++, x += sx, y += sy) {                                    \
            const T v0 = TPK_RANK(x[0]), v1 = TPK_RANK(x[row_x]);                              \
            const T v2 = TPK_RANK(x[2 * row_x]), v3 = TPK_RANK(x[3 * row_x]);                  \
            const int t0 = (v0 >= b0) | (v0 != v0), t1 = (v1 >= b1) | (v1 != v1);              \
            const int t2 = (v2 >= b2) | (v2 != v2), t3 = (v3 >= b3) | (v3 != v3);              \
            b0 = t0 ? v0 : b0, b1 = t1 ? v1 : b1, b2 = t2 ? v2 : b2, b3 = t3 ? v3 : b3;        \
            p0 = t0 ? i : p0, y[0] = GIVES(b0, p0);                                            \
            p1 = t1 ? i : p1, y[row_y] = GIVES(b1, p1);                                        \
            p2 = t2 ? i : p2, y[2 * row_y] = GIVES(b2, p2);                                    \
            p3 = t3 ? i : p3, y[3 * row_y] = GIVES(b3, p3);                                    \
        }                                                                                      \
    }                                                                                          \
    static __attribute__((unused)) int64_t FN(name)(const tpk_view *in, const tpk_view *out,   \
                                                    const int64_t *attr, int least)            \
    {                                                                                          \
        const int64_t axis = attr[0];                                                          \
        const tpk_view v[2] = {in[0], *out};                                                   \
        const int64_t across = FN(scan_across)(v, axis), rows = (T)0.5 != 0 && axis > across;  \
        const int64_t n = v[0].n[axis], n_lanes = across == axis ? 1 : v[0].n[across];         \
        const int64_t lane_x = v[0].s[across], sx = v[0].s[axis];                              \
        const int64_t lane_y = v[1].s[across], sy = v[1].s[axis];                              \
        int64_t n_groups = n > 0 ? 1 : 0, at[8] = {0}, offset[2] = {0};                        \
        for (int64_t i = 0; i < v[0].rank; i++) {                                              \
            n_groups *= i == axis || i == across ? 1 : v[0].n[i];                              \
        }                                                                                      \
        for (int64_t g = 0; g < n_groups; g++) {                                               \
            for (int64_t lane = 0, lanes; lane < n_lanes; lane += lanes) {                     \
                const T *x = (const T *)v[0].p + offset[0] + lane * lane_x;                    \
                Y *y = (Y *)v[1].p + offset[1] + lane * lane_y;                                \
                lanes = FN(scan_at_once)(rows, n_lanes - lane);                                \
                if (rows && lanes == FN(scan_rows)) {                                          \
                    FN(name##_of_rows)(x, lane_x, sx, y, lane_y, sy, n, least);                \
                } else {                                                                       \
                    FN(name##_beside)(x, lane_x, sx, y, sy, n, lanes, least);                  \
                }                                                                              \
            }                                                                                  \
            FN(scan_step)(v, axis, across, at, 2, offset);                                     \
        }                                                                                      \
        return 0;                                                                              \
    }
TPK_RUNNING(running_place, int64_t, TPK_RUNNING_PLACE)
TPK_RUNNING(running, T, TPK_RUNNING_VALUE)
#define TPK_CALL(name, of, least)                                                              \
    static __attribute__((unused)) int64_t FN(name)(const tpk_view *in, const tpk_view *out,   \
                                                    const int64_t *attr)                       \
    {                                                                                          \
        return FN(of)(in, out, attr, least);                                                   \
    }
TPK_CALL(argcummax, running_place, 0)
TPK_CALL(argcummin, running_place, 1)
TPK_CALL(cummax, running, 0)
TPK_CALL(cummin, running, 1)
#undef TPK_CALL
#undef TPK_RUNNING
#undef TPK_RUNNING_VALUE
#undef TPK_RUNNING_PLACE
#undef TPK_RANK
