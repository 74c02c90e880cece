/* Running sums, first-order recurrences and places of extremes along an axis, in plain order. Pasted once per
 * element type: T is the type, S its suffix, FN(name) is tpk_name_S.
 *
 * A line is the elements of one axis. Neighbours on the last axis are worked on together, so
 * that both memories are read and written in their order; what each line gives is the same. */

enum { FN(scan_lanes) = 256 };

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

/* attr: axis, exclusive, reverse.  y[i] = x[0] + ... + x[i], from left to right; exclusive: the
 * one before, and 0 at the start. */
static __attribute__((unused)) int64_t FN(cumsum)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    const int64_t axis = attr[0], exclusive = attr[1], reverse = attr[2];
    const tpk_view v[2] = {in[0], *out};
    const int64_t last = v[0].rank - 1, n = v[0].n[axis];
    const int64_t n_lanes = axis == last ? 1 : v[0].n[last];
    const int64_t sx = reverse ? -v[0].s[axis] : v[0].s[axis];
    const int64_t sy = reverse ? -v[1].s[axis] : v[1].s[axis];
    const int64_t lane_x = v[0].s[last];
    int64_t n_groups = n > 0 ? 1 : 0, at[8] = {0};
    int64_t offset[2] = {reverse ? -(n - 1) * sx : 0, reverse ? -(n - 1) * sy : 0};
    for (int64_t i = 0; i < last; i++) {
        n_groups *= i == axis ? 1 : v[0].n[i];
    }
    for (int64_t g = 0; g < n_groups; g++) {
        for (int64_t lane = 0; lane < n_lanes; lane += FN(scan_lanes)) {
            const int64_t left = n_lanes - lane;
            const int64_t lanes = left < FN(scan_lanes) ? left : FN(scan_lanes);
            const T *x = (const T *)v[0].p + offset[0] + lane * lane_x;
            T *y = (T *)v[1].p + offset[1] + lane;
            T sum[FN(scan_lanes)];
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
        FN(scan_step)(v, axis, last, at, 2, offset);
    }
    return 0;
}

/* attr: axis, reverse. Operands a and b of one shape:  y[0] = b[0];  y[i] = a[i] * y[i - 1] + b[i],
 * product and sum rounded one by one. a[0] is not read. */
static __attribute__((unused)) int64_t FN(recur)(const tpk_view *in, const tpk_view *out,
                                                 const int64_t *attr)
{
    const int64_t axis = attr[0], reverse = attr[1];
    const tpk_view v[3] = {in[0], in[1], *out};
    const int64_t last = v[0].rank - 1, n = v[0].n[axis];
    const int64_t n_lanes = axis == last ? 1 : v[0].n[last];
    int64_t n_groups = n > 0 ? 1 : 0, at[8] = {0}, s[3], offset[3];
    for (int64_t k = 0; k < 3; k++) {
        s[k] = reverse ? -v[k].s[axis] : v[k].s[axis];
        offset[k] = reverse ? -(n - 1) * s[k] : 0;
    }
    for (int64_t i = 0; i < last; i++) {
        n_groups *= i == axis ? 1 : v[0].n[i];
    }
    const int64_t lane_a = v[0].s[last], lane_b = v[1].s[last];
    for (int64_t g = 0; g < n_groups; g++) {
        for (int64_t lane = 0; lane < n_lanes; lane += FN(scan_lanes)) {
            const int64_t left = n_lanes - lane;
            const int64_t lanes = left < FN(scan_lanes) ? left : FN(scan_lanes);
            const T *a = (const T *)v[0].p + offset[0] + lane * lane_a;
            const T *b = (const T *)v[1].p + offset[1] + lane * lane_b;
            T *y = (T *)v[2].p + offset[2] + lane;
            T state[FN(scan_lanes)];
            for (int64_t l = 0; l < lanes; l++) {
                y[l] = state[l] = b[l * lane_b];
            }
            for (int64_t i = 1; i < n; i++) {
                a += s[0];
                b += s[1];
                y += s[2];
                for (int64_t l = 0; l < lanes; l++) {
                    const T grown = TPK_CAT(tpk_mul_, S)(a[l * lane_a], state[l]);
                    y[l] = state[l] = TPK_CAT(tpk_add_, S)(grown, b[l * lane_b]);
                }
            }
        }
        FN(scan_step)(v, axis, last, at, 3, offset);
    }
    return 0;
}

/* name: attr is axis.  y[i] = the place of the greatest (least) of x[0] to x[i], of equal ones the last; the last NaN
 * is the greatest and the least. */
#define TPK_RUNNING(name, rel)                                                                 \
    static __attribute__((unused)) void FN(name##_lanes)(const T *x, int64_t lane_x,           \
                                                         int64_t sx, int64_t *y, int64_t sy,   \
                                                         int64_t n, int64_t lanes)             \
    {                                                                                          \
        T best[FN(scan_lanes)];                                                                \
        int64_t place[FN(scan_lanes)];                                                         \
        for (int64_t l = 0; l < lanes; l++) {                                                  \
            best[l] = x[l * lane_x];                                                           \
            y[l] = place[l] = 0;                                                               \
        }                                                                                      \
        for (int64_t i = 1; i < n; i++) {                                                      \
            x += sx;                                                                           \
            y += sy;                                                                           \
            for (int64_t l = 0; l < lanes; l++) {                                              \
                const T v = x[l * lane_x], b = best[l];                                        \
                const int beats = (v rel b) | (v != v);                                        \
                best[l] = beats ? v : b;                                                       \
                y[l] = place[l] = beats ? i : place[l];                                        \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    static __attribute__((unused)) int64_t FN(name)(const tpk_view *in, const tpk_view *out,   \
                                                    const int64_t *attr)                       \
    {                                                                                          \
        const int64_t axis = attr[0];                                                          \
        const tpk_view v[2] = {in[0], *out};                                                   \
        const int64_t last = v[0].rank - 1, n = v[0].n[axis];                                  \
        const int64_t n_lanes = axis == last ? 1 : v[0].n[last], lane_x = v[0].s[last];        \
        int64_t n_groups = n > 0 ? 1 : 0, at[8] = {0}, offset[2] = {0};                        \
        for (int64_t i = 0; i < last; i++) {                                                   \
            n_groups *= i == axis ? 1 : v[0].n[i];                                             \
        }                                                                                      \
        for (int64_t g = 0; g < n_groups; g++) {                                               \
            for (int64_t lane = 0; lane < n_lanes; lane += FN(scan_lanes)) {                   \
                const int64_t left = n_lanes - lane;                                           \
                FN(name##_lanes)                                                               \
                ((const T *)v[0].p + offset[0] + lane * lane_x, lane_x, v[0].s[axis],          \
                 (int64_t *)v[1].p + offset[1] + lane, v[1].s[axis], n,                        \
                 left < FN(scan_lanes) ? left : FN(scan_lanes));                               \
            }                                                                                  \
            FN(scan_step)(v, axis, last, at, 2, offset);                                       \
        }                                                                                      \
        return 0;                                                                              \
    }
TPK_RUNNING(argcummax, >=)
TPK_RUNNING(argcummin, <=)
#undef TPK_RUNNING
