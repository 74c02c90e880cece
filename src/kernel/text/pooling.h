/* Pooling: the greatest, its place, and the mean of each window, and the gradients of the first and
 * the last, for one float type: T is the type, S its suffix, FN(name) is tpk_name_S. Taps in the
 * padding are left out. Operands may have any strides, the result has no gaps.
 *
 * A row of windows is worked on in two steps: first what each column of them gives (rows from top
 * to bottom), then each window takes its columns from left to right; vectors are neighbouring
 * columns, then neighbouring windows. So the mean is a sum of sums of columns. Between the steps
 * columns are in a buffer, in which those of the padding have what changes nothing: -infinity, or
 * 0, since a sum that begins with +0 is never -0. The gradient of the mean takes the windows in
 * row-major order. */

#define TPK_BITS TPK_CAT(TPK_BITS_, S)

enum { FN(pooling_room) = 2048, FN(pooling_most) = 8 }; /* of the buffer: columns, rows */

/* x is what windows slide over, y has one element per window. Three spatial axes, the missing
 * outer ones being of size 1. */
typedef struct FN(pooling) {
    int64_t n, c, in[3], out[3], ker[3], stride[3], dil[3], pad[3], all_taps;
} FN(pooling);

/* attr: kernel, stride, pad_lo, pad_hi, dilation (lists). */
static __attribute__((unused)) FN(pooling)
    FN(pooling_of)(const tpk_view *x, const tpk_view *y, const int64_t *attr)
{
    FN(pooling) p = {.n = y->n[0], .c = y->n[1], .all_taps = 1};
    for (int64_t i = 0; i < 3; i++) {
        const int64_t j = i - (5 - x->rank);
        p.in[i] = j < 0 ? 1 : x->n[j + 2];
        p.out[i] = j < 0 ? 1 : y->n[j + 2];
        p.ker[i] = j < 0 ? 1 : attr[1 + j];
        p.stride[i] = j < 0 ? 1 : attr[10 + j];
        p.pad[i] = j < 0 ? 0 : attr[19 + j];
        p.dil[i] = j < 0 ? 1 : attr[37 + j];
        p.all_taps *= p.ker[i];
    }
    return p;
}

/* The strides of three spatial axes. */
static __attribute__((unused)) void FN(pooling_strides)(const tpk_view *v, int64_t *s)
{
    for (int64_t i = 0; i < 3; i++) {
        const int64_t j = i - (5 - v->rank);
        s[i] = j < 0 ? 0 : v->s[j + 2];
    }
}

/* The taps [*first, *last) of the window at `place` on axis i that are inside. */
static __attribute__((unused)) void
FN(pooling_taps)(const FN(pooling) * p, int64_t i, int64_t place, int64_t *first, int64_t *last)
{
    const int64_t at = place * p->stride[i] - p->pad[i], d = p->dil[i];
    if (at >= 0 && at + (p->ker[i] - 1) * d < p->in[i]) {
        *first = 0;
        *last = p->ker[i];
        return;
    }
    *first = at < 0 ? (-at + d - 1) / d : 0;
    *last = at >= p->in[i] ? 0 : (p->in[i] - at - 1) / d + 1;
    *last = *last < p->ker[i] ? *last : p->ker[i];
    *last = *last > *first ? *last : *first;
}

/* The taps of one window that are inside: n along each axis, s apart from `at`, which is element
 * `number` of its plane. */
typedef struct FN(pooling_window) {
    int64_t n[3], s[3], number;
    const T *at;
} FN(pooling_window);

/* Window o of a plane with strides s. */
static __attribute__((unused)) FN(pooling_window)
    FN(pooling_window_at)(const FN(pooling) * p, const T *plane, const int64_t *s, int64_t o)
{
    const int64_t place[3] = {o / p->out[2] / p->out[1], o / p->out[2] % p->out[1],
                              o % p->out[2]};
    FN(pooling_window) w = {.at = plane};
    for (int64_t i = 0; i < 3; i++) {
        int64_t first, last;
        FN(pooling_taps)(p, i, place[i], &first, &last);
        const int64_t at = place[i] * p->stride[i] - p->pad[i] + first * p->dil[i];
        w.n[i] = last - first;
        w.s[i] = p->dil[i] * s[i];
        w.at += at * s[i];
        w.number = w.number * p->in[i] + at;
    }
    return w;
}

/* The number in its plane of the first greatest element (or of the first NaN); -1: there is
 * none. */
static __attribute__((unused)) int64_t FN(pooling_best)(const FN(pooling) * p,
                                                        const FN(pooling_window) * w)
{
    int64_t place = -1;
    T best = 0;
    for (int64_t d = 0; d < w->n[0]; d++) {
        for (int64_t h = 0; h < w->n[1]; h++) {
            const T *const x = w->at + d * w->s[0] + h * w->s[1];
            const int64_t row =
                w->number + (d * p->dil[0] * p->in[1] + h * p->dil[1]) * p->in[2];
            for (int64_t k = 0; k < w->n[2]; k++) {
                const T v = x[k * w->s[2]];
                if (place < 0 || v > best || (v != v && best == best)) {
                    best = v;
                    place = row + k * p->dil[2];
                }
            }
        }
    }
    return place;
}

enum { FN(pooling_max), FN(pooling_mean) };

/* What one window gives, and how many of its taps are inside. */
static __attribute__((unused)) T FN(pooling_one)(const FN(pooling_window) * w, int kind,
                                                 int64_t *taps)
{
    const T least = kind == FN(pooling_mean) ? 0 : (T)-__builtin_inff();
    T all = least;
    for (int64_t k = 0; k < w->n[2]; k++) {
        T column = least;
        for (int64_t d = 0; d < w->n[0]; d++) {
            for (int64_t h = 0; h < w->n[1]; h++) {
                const T v = w->at[d * w->s[0] + h * w->s[1] + k * w->s[2]];
                column = kind == FN(pooling_mean) ? column + v : FN(max)(column, v);
            }
        }
        all = kind == FN(pooling_mean) ? all + column : FN(max)(all, column);
    }
    *taps = w->n[0] * w->n[1] * w->n[2];
    return all;
}

/* VL elements, `step` apart; where there are only n, the others are those of v. */
TPK_IN TPK_V FN(pooling_load)(const T *x, int64_t step, int64_t n, TPK_V v)
{
    if (step == 1) {
        return n >= TPK_VL ? (TPK_V)TPK_LOAD(x) : TPK_LOADX(x, v, TPK_SPAN(0, n));
    }
    for (int64_t i = 0; i < TPK_VL && i < n; i++) {
        v[i] = x[i * step];
    }
    return v;
}

/* best[i] = what n columns of taps give: depth by height of them, s apart (the columns too). */
TPK_IN void FN(pooling_some_columns)(const T *x, const int64_t *s, int64_t depth,
                                     int64_t height, int64_t n, int kind, T *best)
{
    const T least = kind == FN(pooling_mean) ? 0 : (T)-__builtin_inff();
    const TPK_V start = TPK_SPLAT(least);
    for (int64_t i = 0; i < n; i += TPK_VL, x += TPK_VL * s[2]) {
        TPK_V v = start;
        for (int64_t d = 0; d < depth; d++) {
#pragma GCC unroll 3
            for (int64_t h = 0; h < height; h++) {
                const TPK_V a = FN(pooling_load)(x + d * s[0] + h * s[1], s[2], n - i, start);
                v = kind == FN(pooling_mean) ? v + a : TPK_MAX(v, a);
            }
        }
        TPK_STORE(best + i, v);
    }
}

/* Without loops in the loop where the sizes are the usual ones. */
TPK_IN void FN(pooling_columns)(const T *x, const int64_t *s, const int64_t *rows, int64_t n,
                                int kind, T *best)
{
    const int64_t one[3] = {s[0], s[1], 1};
    if (rows[0] == 1 && rows[1] == 3 && s[2] == 1) {
        FN(pooling_some_columns)(x, one, 1, 3, n, kind, best);
    } else {
        FN(pooling_some_columns)(x, s, rows[0], rows[1], n, kind, best);
    }
}

/* y[j] = what the window from column j * stride on gives; means are divided by taps[j]. */
TPK_IN void FN(pooling_some_windows)(int64_t ker, int64_t dil, int64_t step, int64_t n,
                                     const T *best, int kind, const T *taps, T *y)
{
    for (int64_t j = 0; j < n; j += TPK_VL) {
        const T *b = best + j * step;
        TPK_V v = {0};
#pragma GCC unroll 3
        for (int64_t k = 0; k < ker; k++, b += dil) {
            TPK_V a = TPK_LOAD(b);
            if (step == 2) {
                a = TPK_EVEN(a, TPK_LOAD(b + TPK_VL));
            } else if (step != 1) {
                a = FN(pooling_load)(b, step, n - j, a);
            }
            v = k == 0 ? a : kind == FN(pooling_mean) ? v + a : TPK_MAX(v, a);
        }
        if (kind == FN(pooling_mean)) {
            v /= TPK_LOAD(taps + j);
        }
        TPK_STOREM(y + j, v, TPK_MASK(n - j));
    }
}

TPK_IN void FN(pooling_windows)(const FN(pooling) * p, int64_t n, const T *best, int kind,
                                const T *taps, T *y)
{
    if (p->ker[2] == 3 && p->dil[2] == 1 && p->stride[2] == 2) {
        FN(pooling_some_windows)(3, 1, 2, n, best, kind, taps, y);
    } else {
        FN(pooling_some_windows)(p->ker[2], p->dil[2], p->stride[2], n, best, kind, taps, y);
    }
}

/* Of a mean: taps[j] = how many the window w + j has inside in `rows` rows. */
static __attribute__((unused)) void FN(pooling_count)(const FN(pooling) * p, int64_t w,
                                                      int64_t n, int64_t rows, int all, T *taps)
{
    for (int64_t j = 0; j < tpk_i_ceil(n, TPK_VL) * TPK_VL; j++) {
        int64_t first, last;
        FN(pooling_taps)(p, 2, w + tpk_i_min(j, n - 1), &first, &last);
        taps[j] = (T)(all ? p->all_taps : rows * (last - first));
    }
}

/* Windows [w, w + n) of all rows, whose columns fit the buffer. Several rows are taken together:
 * what has just been stored is loaded elsewhere only later. all: means are of all taps. */
TPK_IN void FN(pooling_band)(const FN(pooling) * p, const tpk_view *in, int64_t w, int64_t n,
                             int kind, int all, T *y)
{
    const int64_t begin = w * p->stride[2] - p->pad[2];
    const int64_t end = begin + (n - 1) * p->stride[2] + (p->ker[2] - 1) * p->dil[2] + 1;
    const int64_t from = begin < 0 ? 0 : begin, to = tpk_i_min(end, p->in[2]);
    const int64_t pitch = end - begin + 2 * TPK_VL, together = FN(pooling_room) / pitch;
    const int64_t most = together < FN(pooling_most) ? together : FN(pooling_most);
    T best[FN(pooling_room)], taps[FN(pooling_room)];
    int64_t s[3], counted = -1, rows[FN(pooling_most)][2];
    FN(pooling_strides)(in, s);
    const int64_t step[3] = {s[0] * p->dil[0], s[1] * p->dil[1], s[2]};
    for (int64_t i = 0; i < tpk_i_min(most, p->out[1]) * pitch; i++) {
        best[i] = kind == FN(pooling_mean) ? 0 : (T)-__builtin_inff();
    }
    for (int64_t i = 0; i < p->n * p->c * p->out[0]; i++) {
        const int64_t c = i / p->out[0], d = i % p->out[0];
        const T *const x = (const T *)in->p + c / p->c * in->s[0] + c % p->c * in->s[1];
        int64_t d0, h0, last;
        FN(pooling_taps)(p, 0, d, &d0, &last);
        const int64_t depth = last - d0, z = d * p->stride[0] - p->pad[0] + d0 * p->dil[0];
        for (int64_t h = 0; h < p->out[1]; h += most) {
            const int64_t many = tpk_i_min(most, p->out[1] - h);
            for (int64_t r = 0; r < many; r++) {
                FN(pooling_taps)(p, 1, h + r, &h0, &last);
                rows[r][0] = depth;
                rows[r][1] = last - h0;
                const int64_t row = (h + r) * p->stride[1] - p->pad[1] + h0 * p->dil[1];
                FN(pooling_columns)
                (x + z * s[0] + row * s[1] + from * s[2], step, rows[r], to - from, kind,
                 best + r * pitch + from - begin);
            }
            for (int64_t r = 0; r < many; r++, y += p->out[2]) {
                const int64_t count = rows[r][0] * rows[r][1];
                if (kind == FN(pooling_mean) && count != counted) {
                    FN(pooling_count)(p, w, n, count, all, taps);
                    counted = count;
                }
                FN(pooling_windows)(p, n, best + r * pitch, kind, taps, y + w);
            }
        }
    }
}

TPK_IN int64_t FN(pooling_run)(const tpk_view *in, const tpk_view *out, const int64_t *attr,
                               int kind)
{
    const FN(pooling) p = FN(pooling_of)(in, out, attr);
    const int all = kind == FN(pooling_mean) && attr[45];
    const int64_t room = FN(pooling_room) - 2 * TPK_VL - (p.ker[2] - 1) * p.dil[2] - 1;
    T *const y = (T *)out->p;
    if (room >= 0) {
        const int64_t most = room / p.stride[2] + 1;
        for (int64_t w = 0; w < p.out[2]; w += most) {
            FN(pooling_band)(&p, in, w, tpk_i_min(most, p.out[2] - w), kind, all, y);
        }
        return 0;
    }
    int64_t s[3], taps = 0;
    const int64_t places = p.out[0] * p.out[1] * p.out[2];
    FN(pooling_strides)(in, s);
    for (int64_t i = 0; i < p.n * p.c * places; i++) {
        const int64_t c = i / places;
        const T *const x = (const T *)in->p + c / p.c * in->s[0] + c % p.c * in->s[1];
        const FN(pooling_window) w = FN(pooling_window_at)(&p, x, s, i % places);
        const T v = FN(pooling_one)(&w, kind, &taps);
        y[i] = kind == FN(pooling_mean) ? v / (T)(all ? p.all_taps : taps) : v;
    }
    return 0;
}

/* The common case is done by itself: windows of 2 x 2 side by side, no padding, rows of x without
 * gaps. Rows are short, so nothing is kept in between. */
static __attribute__((unused)) int FN(pooling_quads)(const FN(pooling) * p,
                                                     int64_t column_stride)
{
    return p->in[0] == 1 && p->ker[0] == 1 && p->ker[1] == 2 && p->ker[2] == 2 &&
           p->stride[1] == 2 && p->stride[2] == 2 && p->dil[1] == 1 && p->dil[2] == 1 &&
           p->pad[0] == 0 && p->pad[1] == 0 && p->pad[2] == 0 && column_stride == 1 &&
           p->out[0] == 1 && 2 * p->out[1] <= p->in[1] && 2 * p->out[2] <= p->in[2];
}

static __attribute__((unused)) void FN(pooling_quads_max)(int64_t n, const T *a, const T *b,
                                                          T *y)
{
    for (int64_t j = 0; j < n; j += TPK_VL, a += 2 * TPK_VL, b += 2 * TPK_VL) {
        const TPK_M m0 = TPK_MASK(2 * (n - j)), m1 = TPK_MASK(2 * (n - j) - TPK_VL);
        const TPK_V lo = TPK_MAX(TPK_LOADM(a, m0), TPK_LOADM(b, m0));
        const TPK_V hi = TPK_MAX(TPK_LOADM(a + TPK_VL, m1), TPK_LOADM(b + TPK_VL, m1));
        TPK_STOREM(y + j, TPK_MAX(TPK_EVEN(lo, hi), TPK_ODD(lo, hi)), TPK_MASK(n - j));
    }
}

static __attribute__((unused)) int64_t FN(max_pool)(const tpk_view *in, const tpk_view *out,
                                                    const int64_t *attr)
{
    const FN(pooling) p = FN(pooling_of)(in, out, attr);
    int64_t s[3];
    T *y = (T *)out->p;
    FN(pooling_strides)(in, s);
    if (!FN(pooling_quads)(&p, s[2])) {
        return FN(pooling_run)(in, out, attr, FN(pooling_max));
    }
    for (int64_t i = 0; i < p.n * p.c; i++) {
        const T *x = (const T *)in->p + i / p.c * in->s[0] + i % p.c * in->s[1];
        for (int64_t h = 0; h < p.out[1]; h++, x += 2 * s[1], y += p.out[2]) {
            FN(pooling_quads_max)(p.out[2], x, x + s[1], y);
        }
    }
    return 0;
}

/* The place of the first greatest (or of the first NaN) in its plane, row-major. */
static __attribute__((unused)) int64_t
FN(max_pool_index)(const tpk_view *in, const tpk_view *out, const int64_t *attr)
{
    const FN(pooling) p = FN(pooling_of)(in, out, attr);
    const int64_t places = p.out[0] * p.out[1] * p.out[2];
    int64_t s[3], *const y = (int64_t *)out->p;
    FN(pooling_strides)(in, s);
    for (int64_t i = 0; i < p.n * p.c * places; i++) {
        const int64_t c = i / places;
        const T *const x = (const T *)in->p + c / p.c * in->s[0] + c % p.c * in->s[1];
        const FN(pooling_window) w = FN(pooling_window_at)(&p, x, s, i % places);
        const int64_t best = FN(pooling_best)(&p, &w);
        y[i] = best < 0 ? 0 : best;
    }
    return 0;
}

/* attr: the lists, then count_pad. */
static __attribute__((unused)) int64_t FN(avg_pool)(const tpk_view *in, const tpk_view *out,
                                                    const int64_t *attr)
{
    return FN(pooling_run)(in, out, attr, FN(pooling_mean));
}

/* Operand dy:  dx[i] = the sum over the windows that hold i of dy / taps of the window. */
static __attribute__((unused)) int64_t FN(avg_pool_dx)(const tpk_view *in, const tpk_view *out,
                                                       const int64_t *attr)
{
    const FN(pooling) p = FN(pooling_of)(out, in, attr);
    const int64_t plane = p.in[0] * p.in[1] * p.in[2];
    const int64_t dense[3] = {p.in[1] * p.in[2], p.in[2], 1};
    int64_t s[3];
    T *x = (T *)out->p;
    FN(pooling_strides)(in, s);
    for (int64_t nc = 0; nc < p.n * p.c; nc++, x += plane) {
        const T *const y = (const T *)in->p + nc / p.c * in->s[0] + nc % p.c * in->s[1];
        for (int64_t i = 0; i < plane; i++) {
            x[i] = 0;
        }
        for (int64_t o = 0; o < p.out[0] * p.out[1] * p.out[2]; o++) {
            const FN(pooling_window) w = FN(pooling_window_at)(&p, x, dense, o);
            const int64_t taps = attr[45] ? p.all_taps : w.n[0] * w.n[1] * w.n[2];
            const int64_t at = o / p.out[2] / p.out[1] * s[0] + o / p.out[2] % p.out[1] * s[1] +
                               o % p.out[2] * s[2];
            const T part = y[at] / (T)taps;
            for (int64_t d = 0; d < w.n[0]; d++) {
                for (int64_t h = 0; h < w.n[1]; h++) {
                    T *const row = x + w.number + d * w.s[0] + h * w.s[1];
                    for (int64_t k = 0; k < w.n[2]; k++) {
                        row[k * w.s[2]] += part;
                    }
                }
            }
        }
    }
    return 0;
}

/* d in those of the lanes *left in which x is the greatest or NaN; they are then no longer left. */
TPK_IN TPK_V FN(pooling_give)(TPK_V x, TPK_V top, TPK_V d, TPK_VI *left)
{
    const TPK_VI here = *left & ((TPK_VI)(x == top) | (TPK_VI)(x != x));
    *left &= ~here;
    return (TPK_V)((TPK_VI)d & here);
}

/* A row of n windows of 2 x 2 in rows a and b: what comes back goes to the first greatest (or
 * first NaN) of the four, zero to the others. */
static __attribute__((unused)) void FN(pooling_quads_dx)(int64_t n, const T *a, const T *b,
                                                         const T *dy, int64_t dy_step, T *da,
                                                         T *db)
{
    for (int64_t j = 0; j < n;
         j += TPK_VL, a += 2 * TPK_VL, b += 2 * TPK_VL, da += 2 * TPK_VL, db += 2 * TPK_VL) {
        const int64_t many = 2 * (n - j), rest = many - TPK_VL;
        const TPK_M m0 = TPK_MASK(many), m1 = TPK_MASK(rest);
        const TPK_V al = TPK_LOADM(a, m0), ah = TPK_LOADM(a + TPK_VL, m1);
        const TPK_V bl = TPK_LOADM(b, m0), bh = TPK_LOADM(b + TPK_VL, m1);
        const TPK_V x0 = TPK_EVEN(al, ah), x1 = TPK_ODD(al, ah);
        const TPK_V x2 = TPK_EVEN(bl, bh), x3 = TPK_ODD(bl, bh);
        const TPK_V top = TPK_MAX(TPK_MAX(x0, x1), TPK_MAX(x2, x3));
        const TPK_V d = 0 + FN(pooling_load)(dy + j * dy_step, dy_step, n - j, (TPK_V){0});
        TPK_VI left = ~(TPK_VI){0};
        const TPK_V d0 = FN(pooling_give)(x0, top, d, &left);
        const TPK_V d1 = FN(pooling_give)(x1, top, d, &left);
        const TPK_V d2 = FN(pooling_give)(x2, top, d, &left);
        const TPK_V d3 = FN(pooling_give)(x3, top, d, &left);
        TPK_STOREM(da, TPK_ILO(d0, d1), m0);
        TPK_STOREM(da + TPK_VL, TPK_IHI(d0, d1), m1);
        TPK_STOREM(db, TPK_ILO(d2, d3), m0);
        TPK_STOREM(db + TPK_VL, TPK_IHI(d2, d3), m1);
    }
}

/* Operands x and dy: what comes back to a window goes to its first greatest element (or first
 * NaN); an element of several windows takes them in row-major order. */
static __attribute__((unused)) int64_t FN(max_pool_dx)(const tpk_view *in, const tpk_view *out,
                                                       const int64_t *attr)
{
    const tpk_view *x = &in[0], *dy = &in[1];
    const FN(pooling) p = FN(pooling_of)(x, dy, attr);
    const int64_t plane = p.in[0] * p.in[1] * p.in[2];
    int64_t s[3], t[3];
    T *dx = (T *)out->p;
    FN(pooling_strides)(x, s);
    FN(pooling_strides)(dy, t);
    const int quads = FN(pooling_quads)(&p, s[2]);
    const int covered = quads && 2 * p.out[1] == p.in[1] && 2 * p.out[2] == p.in[2];
    for (int64_t nc = 0; nc < p.n * p.c; nc++, dx += plane) {
        const T *const a = (const T *)x->p + nc / p.c * x->s[0] + nc % p.c * x->s[1];
        const T *const g = (const T *)dy->p + nc / p.c * dy->s[0] + nc % p.c * dy->s[1];
        for (int64_t i = 0; i < plane && !covered; i++) {
            dx[i] = 0;
        }
        for (int64_t h = 0; h < p.out[1] && quads; h++) {
            const T *const row = a + 2 * h * s[1];
            T *const to = dx + 2 * h * p.in[2];
            FN(pooling_quads_dx)
            (p.out[2], row, row + s[1], g + h * t[1], t[2], to, to + p.in[2]);
        }
        for (int64_t o = 0; o < p.out[0] * p.out[1] * p.out[2] && !quads; o++) {
            const FN(pooling_window) w = FN(pooling_window_at)(&p, a, s, o);
            const int64_t place = FN(pooling_best)(&p, &w);
            if (place >= 0) {
                dx[place] += g[o / p.out[2] / p.out[1] * t[0] + o / p.out[2] % p.out[1] * t[1] +
                               o % p.out[2] * t[2]];
            }
        }
    }
    return 0;
}
#undef TPK_BITS
