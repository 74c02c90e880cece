/* Pooling: the greatest, its place, and the mean of each window, and the gradient of the mean, for
 * one float type: T is the type, S its suffix, FN(name) is tpk_name_S. Taps in the padding are
 * left out. Operands may have any strides, the result has no gaps.
 *
 * A row of windows is worked on in two steps: first what each column of them gives (rows from top
 * to bottom, neighbouring columns together), then each window takes its columns from left to
 * right. So the mean is a sum of sums of columns. The gradient of the mean takes the windows in
 * row-major order. */

enum { FN(pooling_columns_max) = 512 };

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

/* The maximum of elem.h, in a form that becomes vectors: only zeros need a second look. */
static inline __attribute__((always_inline, unused)) T FN(pooling_greater)(T a, T b)
{
    const T r = a > b ? a : b, sum = a + b;
    const T up = ((a == b) & (b == 0)) ? sum : r;
    return a != a ? a : up;
}

enum { FN(pooling_max), FN(pooling_index), FN(pooling_mean) };

/* A row of windows: rows [d0, d1) and [h0, h1) of taps at (d, h), columns at steps of s2. */
typedef struct FN(pooling_row) {
    const T *plane;
    int64_t s[3], d, h, d0, d1, h0, h1;
} FN(pooling_row);

/* What the columns [c, c + n) of x give: best[], and place[] in the plane. */
static inline __attribute__((always_inline, unused)) void
FN(pooling_columns)(const FN(pooling) * p, const FN(pooling_row) * r, int64_t c, int64_t n,
                    int kind, T *best, int64_t *place)
{
    int first = 1;
    for (int64_t i = 0; i < n; i++) {
        best[i] = kind == FN(pooling_mean) ? 0 : (T)-__builtin_inff();
    }
    for (int64_t kd = r->d0; kd < r->d1; kd++) {
        for (int64_t kh = r->h0; kh < r->h1; kh++) {
            const int64_t zd = r->d * p->stride[0] + kd * p->dil[0] - p->pad[0];
            const int64_t zh = r->h * p->stride[1] + kh * p->dil[1] - p->pad[1];
            const T *const x = r->plane + zd * r->s[0] + zh * r->s[1] + c * r->s[2];
            const int64_t z = (zd * p->in[1] + zh) * p->in[2] + c, step = r->s[2];
            if (kind == FN(pooling_max) && step == 1) {
                for (int64_t i = 0; i < n; i++) {
                    best[i] = FN(pooling_greater)(best[i], x[i]);
                }
            } else if (kind == FN(pooling_max)) {
                for (int64_t i = 0; i < n; i++) {
                    best[i] = FN(pooling_greater)(best[i], x[i * step]);
                }
            } else if (kind == FN(pooling_mean)) {
                for (int64_t i = 0; i < n; i++) {
                    best[i] += x[i * step];
                }
            } else {
                for (int64_t i = 0; i < n; i++) {
                    const T a = x[i * step], b = best[i];
                    const int take = first | (a > b) | ((a != a) & (b == b));
                    best[i] = take ? a : b;
                    place[i] = take ? z + i : place[i];
                }
            }
            first = 0;
        }
    }
}

/* Of the windows [w, w + n) of a row those [*first, *last), counted from w, whose tap k is
 * inside; *at is the column where the first of them has it. */
static __attribute__((unused)) void FN(pooling_inside)(const FN(pooling) * p, int64_t w,
                                                       int64_t n, int64_t k, int64_t *first,
                                                       int64_t *last, int64_t *at)
{
    const int64_t step = p->stride[2], from = w * step + k * p->dil[2] - p->pad[2];
    *first = from < 0 ? (-from + step - 1) / step : 0;
    *last = from >= p->in[2] ? 0 : (p->in[2] - from - 1) / step + 1;
    *last = *last < n ? *last : n;
    *at = from + *first * step;
}

/* The windows [w, w + n) of a row, from the columns: column c is at best[c - c0]. c0 < 0: there
 * are too many to keep, n is 1, and each is made when it is needed. */
static inline __attribute__((always_inline, unused)) void
FN(pooling_windows)(const FN(pooling) * p, const FN(pooling_row) * r, int64_t w, int64_t n,
                    int64_t c0, int kind, int all, T *best, int64_t *place, char *out)
{
    T sum[FN(pooling_columns_max)], *const y =
                                        kind == FN(pooling_index) ? sum : (T *)(void *)out;
    int64_t *const z = (int64_t *)(void *)out, step = p->stride[2], first, last, at;
    for (int64_t j = 0; j < n; j++) {
        y[j] = kind == FN(pooling_mean) ? 0 : (T)-__builtin_inff();
    }
    for (int64_t j = 0; kind == FN(pooling_index) && j < n; j++) {
        z[j] = INT64_MAX;
    }
    for (int64_t k = 0; k < p->ker[2]; k++) {
        FN(pooling_inside)(p, w, n, k, &first, &last, &at);
        const int64_t c = c0 < 0 ? 0 : at - c0, many = last - first;
        if (c0 < 0 && many > 0) {
            FN(pooling_columns)(p, r, at, 1, kind, best, place);
        }
        const T *const b = best + c;
        T *const to = y + first;
        if (kind == FN(pooling_max) && step == 2) { /* said so that it becomes vectors */
            for (int64_t j = 0; j < many; j++) {
                to[j] = FN(pooling_greater)(to[j], b[j * 2]);
            }
        } else if (kind == FN(pooling_max)) {
            for (int64_t j = 0; j < many; j++) {
                to[j] = FN(pooling_greater)(to[j], b[j * step]);
            }
        } else if (kind == FN(pooling_mean)) {
            for (int64_t j = 0; j < many; j++) {
                to[j] += b[j * step];
            }
        } else {
            for (int64_t j = 0; j < many; j++) {
                const T old = to[j], a = b[j * step];
                const int64_t was = z[first + j], is = place[c + j * step];
                const int same = (a == old) | ((a != a) & (old != old));
                const int take = (a > old) | ((a != a) & (old == old)) | (same & (is < was));
                to[j] = take ? a : old;
                z[first + j] = take ? is : was;
            }
        }
    }
    for (int64_t j = 0; kind == FN(pooling_index) && j < n; j++) {
        z[j] = z[j] == INT64_MAX ? 0 : z[j];
    }
    for (int64_t j = 0; kind == FN(pooling_mean) && j < n; j++) {
        FN(pooling_taps)(p, 2, w + j, &first, &last);
        const int64_t taps = (r->d1 - r->d0) * (r->h1 - r->h0) * (last - first);
        y[j] /= (T)(all ? p->all_taps : taps);
    }
}

static inline __attribute__((always_inline, unused)) int64_t
FN(pooling_run)(const tpk_view *in, const tpk_view *out, const int64_t *attr, int kind)
{
    const int64_t most = FN(pooling_columns_max);
    const FN(pooling) p = FN(pooling_of)(in, out, attr);
    const int64_t reach = (p.ker[2] - 1) * p.dil[2] + 1;
    const int64_t room = reach > most ? 1 : (most - reach) / p.stride[2] + 1;
    const int64_t size =
        kind == FN(pooling_index) ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(T);
    T best[FN(pooling_columns_max)];
    int64_t place[FN(pooling_columns_max)];
    char *y = (char *)out->p;
    FN(pooling_row) r;
    FN(pooling_strides)(in, r.s);
    for (int64_t nc = 0; nc < p.n * p.c; nc++) {
        r.plane = (const T *)in->p + nc / p.c * in->s[0] + nc % p.c * in->s[1];
        for (int64_t dh = 0; dh < p.out[0] * p.out[1]; dh++) {
            r.d = dh / p.out[1];
            r.h = dh % p.out[1];
            FN(pooling_taps)(&p, 0, r.d, &r.d0, &r.d1);
            FN(pooling_taps)(&p, 1, r.h, &r.h0, &r.h1);
            for (int64_t w = 0; w < p.out[2]; w += room) {
                const int64_t windows = p.out[2] - w < room ? p.out[2] - w : room;
                const int64_t at = w * p.stride[2] - p.pad[2];
                const int64_t end = at + (windows - 1) * p.stride[2] + reach;
                int64_t c0 = at < 0 ? 0 : at;
                if (reach > most) {
                    c0 = -1; /* too wide to keep: each window makes its columns itself */
                } else {
                    FN(pooling_columns)
                    (&p, &r, c0, (end < p.in[2] ? end : p.in[2]) - c0, kind, best, place);
                }
                FN(pooling_windows)
                (&p, &r, w, windows, c0, kind, kind == FN(pooling_mean) && attr[45], best,
                 place, y);
                y += windows * size;
            }
        }
    }
    return 0;
}

/* The common case is done by itself: windows of 2 x 2 side by side, no padding, rows of x without
 * gaps. */
static __attribute__((unused)) int FN(pooling_quads)(const FN(pooling) * p,
                                                     int64_t column_stride)
{
    return p->in[0] == 1 && p->ker[0] == 1 && p->ker[1] == 2 && p->ker[2] == 2 &&
           p->stride[1] == 2 && p->stride[2] == 2 && p->dil[1] == 1 && p->dil[2] == 1 &&
           p->pad[0] == 0 && p->pad[1] == 0 && p->pad[2] == 0 && column_stride == 1 &&
           p->out[0] == 1 && 2 * p->out[1] <= p->in[1] && 2 * p->out[2] <= p->in[2];
}

/* Rows of windows are short, so as many of them are done at once as fit here (columns of x). */
enum { FN(pooling_group) = 512 };

static __attribute__((unused)) int64_t FN(pooling_rows_at_once)(const FN(pooling) * p)
{
    const int64_t rows = FN(pooling_group) / (2 * p->out[2]);
    return rows < 1 ? 0 : rows < p->out[1] ? rows : p->out[1];
}

/* `rows` rows of n columns, two apart in x, one after the other. */
static __attribute__((unused)) void FN(pooling_gather)(int64_t rows, int64_t n, int64_t stride,
                                                       const T *restrict x, T *restrict to)
{
    for (int64_t r = 0; r < rows; r++, x += 2 * stride, to += n) {
        for (int64_t i = 0; i < n; i++) {
            to[i] = x[i];
        }
    }
}

/* The upper of two rows beside the lower, then neighbouring columns. */
static __attribute__((unused)) void FN(max_pool_quads)(int64_t rows, int64_t n, int64_t stride,
                                                       const T *restrict x, T *restrict y)
{
    T best[FN(pooling_group)];
    for (int64_t r = 0; r < rows; r++) {
        const T *const a = x + 2 * r * stride, *const b = a + stride;
        for (int64_t i = 0; i < 2 * n; i++) {
            best[r * 2 * n + i] = FN(max)(a[i], b[i]);
        }
    }
    for (int64_t w = 0; w < rows * n; w++) {
        y[w] = FN(max)(best[2 * w], best[2 * w + 1]);
    }
}

/* dy goes to the first greatest (or first NaN) of four, zero to the others. */
static __attribute__((unused)) void FN(max_pool_dx_quads)(int64_t n, const T *restrict a,
                                                          const T *restrict b,
                                                          const T *restrict dy, T *restrict da,
                                                          T *restrict db)
{
    for (int64_t w = 0; w < n; w++) {
        const T x0 = a[2 * w], x1 = a[2 * w + 1], x2 = b[2 * w], x3 = b[2 * w + 1];
        const T top = FN(max)(FN(max)(x0, x1), FN(max)(x2, x3)), d = 0 + dy[w];
        const int nan = top != top;
        const int is0 = nan ? x0 != x0 : x0 == top;
        const int is1 = (is0 ^ 1) & (nan ? x1 != x1 : x1 == top);
        const int is2 = ((is0 | is1) ^ 1) & (nan ? x2 != x2 : x2 == top);
        da[2 * w] = is0 ? d : 0;
        da[2 * w + 1] = is1 ? d : 0;
        db[2 * w] = is2 ? d : 0;
        db[2 * w + 1] = is0 | is1 | is2 ? 0 : d;
    }
}

/* One plane. */
static __attribute__((unused)) void FN(max_pool_dx_plane)(const FN(pooling) * p, const T *x,
                                                          int64_t stride, const T *dy,
                                                          const int64_t *dy_stride, T *dx)
{
    T a[FN(pooling_group)], b[FN(pooling_group)], da[FN(pooling_group)], db[FN(pooling_group)],
        d[FN(pooling_group)];
    const int64_t n = p->out[2], step = FN(pooling_rows_at_once)(p);
    for (int64_t h = 0; h < p->out[1]; h += step) {
        const int64_t rows = p->out[1] - h < step ? p->out[1] - h : step;
        FN(pooling_gather)(rows, 2 * n, stride, x + 2 * h * stride, a);
        FN(pooling_gather)(rows, 2 * n, stride, x + (2 * h + 1) * stride, b);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t w = 0; w < n; w++) {
                d[r * n + w] = dy[(h + r) * dy_stride[1] + w * dy_stride[2]];
            }
        }
        FN(max_pool_dx_quads)(rows * n, a, b, d, da, db);
        for (int64_t r = 0; r < rows; r++) {
            T *const row = dx + 2 * (h + r) * p->in[2];
            for (int64_t i = 0; i < 2 * n; i++) {
                row[i] = da[r * 2 * n + i];
                row[p->in[2] + i] = db[r * 2 * n + i];
            }
        }
    }
}

static __attribute__((unused)) int64_t FN(max_pool)(const tpk_view *in, const tpk_view *out,
                                                    const int64_t *attr)
{
    const FN(pooling) p = FN(pooling_of)(in, out, attr);
    int64_t s[3];
    FN(pooling_strides)(in, s);
    const int64_t step = FN(pooling_rows_at_once)(&p);
    if (!FN(pooling_quads)(&p, s[2]) || !step) {
        return FN(pooling_run)(in, out, attr, FN(pooling_max));
    }
    T *y = (T *)out->p;
    for (int64_t nc = 0; nc < p.n * p.c; nc++) {
        const T *const x = (const T *)in->p + nc / p.c * in->s[0] + nc % p.c * in->s[1];
        for (int64_t h = 0; h < p.out[1]; h += step) {
            const int64_t rows = p.out[1] - h < step ? p.out[1] - h : step;
            FN(max_pool_quads)(rows, p.out[2], s[1], x + 2 * h * s[1], y);
            y += rows * p.out[2];
        }
    }
    return 0;
}

/* The place of the first greatest (or of the first NaN) in its plane, row-major. */
static __attribute__((unused)) int64_t
FN(max_pool_index)(const tpk_view *in, const tpk_view *out, const int64_t *attr)
{
    return FN(pooling_run)(in, out, attr, FN(pooling_index));
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
    int64_t s[3], d0, d1, h0, h1, w0, w1;
    T *x = (T *)out->p;
    FN(pooling_strides)(in, s);
    for (int64_t nc = 0; nc < p.n * p.c; nc++, x += plane) {
        const T *const y = (const T *)in->p + nc / p.c * in->s[0] + nc % p.c * in->s[1];
        for (int64_t i = 0; i < plane; i++) {
            x[i] = 0;
        }
        for (int64_t o = 0; o < p.out[0] * p.out[1] * p.out[2]; o++) {
            const int64_t w = o % p.out[2], h = o / p.out[2] % p.out[1];
            const int64_t d = o / p.out[2] / p.out[1];
            FN(pooling_taps)(&p, 0, d, &d0, &d1);
            FN(pooling_taps)(&p, 1, h, &h0, &h1);
            FN(pooling_taps)(&p, 2, w, &w0, &w1);
            const int64_t taps = attr[45] ? p.all_taps : (d1 - d0) * (h1 - h0) * (w1 - w0);
            const T part = y[d * s[0] + h * s[1] + w * s[2]] / (T)taps;
            for (int64_t kd = d0; kd < d1; kd++) {
                for (int64_t kh = h0; kh < h1; kh++) {
                    const int64_t zd = d * p.stride[0] + kd * p.dil[0] - p.pad[0];
                    const int64_t zh = h * p.stride[1] + kh * p.dil[1] - p.pad[1];
                    T *const row =
                        x + (zd * p.in[1] + zh) * p.in[2] + w * p.stride[2] - p.pad[2];
                    for (int64_t kw = w0; kw < w1; kw++) {
                        row[kw * p.dil[2]] += part;
                    }
                }
            }
        }
    }
    return 0;
}

/* Operands x and dy: what comes back to a window goes to its first greatest element (or first
 * NaN); an element of several windows takes them in row-major order. */
static __attribute__((unused)) int64_t FN(max_pool_dx)(const tpk_view *in, const tpk_view *out,
                                                       const int64_t *attr)
{
    const tpk_view *x = &in[0], *dy = &in[1];
    const FN(pooling) p = FN(pooling_of)(x, dy, attr);
    const int64_t plane = p.in[0] * p.in[1] * p.in[2];
    int64_t s[3], t[3], d0, d1, h0, h1, w0, w1;
    T *dx = (T *)out->p;
    FN(pooling_strides)(x, s);
    FN(pooling_strides)(dy, t);
    const int quads = FN(pooling_quads)(&p, s[2]) && FN(pooling_rows_at_once)(&p) > 0;
    const int covered = quads && 2 * p.out[1] == p.in[1] && 2 * p.out[2] == p.in[2];
    for (int64_t nc = 0; nc < p.n * p.c; nc++, dx += plane) {
        const T *const a = (const T *)x->p + nc / p.c * x->s[0] + nc % p.c * x->s[1];
        const T *const g = (const T *)dy->p + nc / p.c * dy->s[0] + nc % p.c * dy->s[1];
        for (int64_t i = 0; i < plane && !covered; i++) {
            dx[i] = 0;
        }
        if (quads) {
            FN(max_pool_dx_plane)(&p, a, s[1], g, t, dx);
        }
        for (int64_t o = 0; o < p.out[0] * p.out[1] * p.out[2] && !quads; o++) {
            const int64_t w = o % p.out[2], h = o / p.out[2] % p.out[1];
            const int64_t d = o / p.out[2] / p.out[1];
            FN(pooling_taps)(&p, 0, d, &d0, &d1);
            FN(pooling_taps)(&p, 1, h, &h0, &h1);
            FN(pooling_taps)(&p, 2, w, &w0, &w1);
            int64_t place = -1;
            T best = 0;
            for (int64_t kd = d0; kd < d1; kd++) {
                for (int64_t kh = h0; kh < h1; kh++) {
                    const int64_t zd = d * p.stride[0] + kd * p.dil[0] - p.pad[0];
                    const int64_t zh = h * p.stride[1] + kh * p.dil[1] - p.pad[1];
                    for (int64_t kw = w0; kw < w1; kw++) {
                        const int64_t zw = w * p.stride[2] + kw * p.dil[2] - p.pad[2];
                        const T v = a[zd * s[0] + zh * s[1] + zw * s[2]];
                        if (place < 0 || v > best || (v != v && best == best)) {
                            best = v;
                            place = (zd * p.in[1] + zh) * p.in[2] + zw;
                        }
                    }
                }
            }
            if (place >= 0) {
                dx[place] += g[d * t[0] + h * t[1] + w * t[2]];
            }
        }
    }
    return 0;
}
