/* Pooling: the greatest, its place, and the mean of each window, and the gradient of the mean, for
 * one float type: T is the type, S its suffix, FN(name) is tpk_name_S. Taps in the padding are
 * left out. Sums take the taps of a window in row-major order; the gradient of the mean takes the
 * windows in that order. Operands may have any strides, the result has no gaps. */

enum { FN(pooling_lanes) = 64 };

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
    *first = at < 0 ? (-at + d - 1) / d : 0;
    *last = at >= p->in[i] ? 0 : (p->in[i] - at - 1) / d + 1;
    *last = *last < p->ker[i] ? *last : p->ker[i];
    *last = *last > *first ? *last : *first;
}

/* Of the windows [from, from + lanes) of a row those [*first, *last), counted from `from`, whose
 * tap k is inside; *at is where the first of them has it. */
static __attribute__((unused)) void FN(pooling_lane)(const FN(pooling) * p, int64_t from,
                                                     int64_t lanes, int64_t k, int64_t *first,
                                                     int64_t *last, int64_t *at)
{
    const int64_t step = p->stride[2], at0 = from * step + k * p->dil[2] - p->pad[2];
    *first = at0 < 0 ? (-at0 + step - 1) / step : 0;
    *last = at0 >= p->in[2] ? 0 : (p->in[2] - at0 - 1) / step + 1;
    *last = *last < lanes ? *last : lanes;
    *at = at0 + *first * step;
}

/* What a row of windows is made of, with the inner loop of each op. */
#define FN_POOLING_ROWS(before, lane, after)                                                   \
    const T *const x = (const T *)in->p;                                                       \
    const FN(pooling) p = FN(pooling_of)(in, out, attr);                                       \
    int64_t s[3], first, last, at;                                                             \
    FN(pooling_strides)(in, s);                                                                \
    for (int64_t nc = 0; nc < p.n * p.c; nc++) {                                               \
        const T *const plane = x + nc / p.c * in->s[0] + nc % p.c * in->s[1];                  \
        for (int64_t dh = 0; dh < p.out[0] * p.out[1]; dh++) {                                 \
            int64_t d0, d1, h0, h1;                                                            \
            const int64_t d = dh / p.out[1], h = dh % p.out[1];                                \
            FN(pooling_taps)(&p, 0, d, &d0, &d1);                                              \
            FN(pooling_taps)(&p, 1, h, &h0, &h1);                                              \
            for (int64_t w = 0; w < p.out[2]; w += FN(pooling_lanes)) {                        \
                const int64_t left = p.out[2] - w;                                             \
                const int64_t lanes = left < FN(pooling_lanes) ? left : FN(pooling_lanes);     \
                before;                                                                        \
                for (int64_t t = 0; t < (d1 - d0) * (h1 - h0) * p.ker[2]; t++) {               \
                    const int64_t kh = h0 + t / p.ker[2] % (h1 - h0);                          \
                    const int64_t kd = d0 + t / p.ker[2] / (h1 - h0);                          \
                    const int64_t zd = d * p.stride[0] + kd * p.dil[0] - p.pad[0];             \
                    const int64_t zh = h * p.stride[1] + kh * p.dil[1] - p.pad[1];             \
                    FN(pooling_lane)(&p, w, lanes, t % p.ker[2], &first, &last, &at);          \
                    const T *const from = plane + zd * s[0] + zh * s[1] + at * s[2];           \
                    const int64_t step = p.stride[2] * s[2], many = last - first;              \
                    lane;                                                                      \
                }                                                                              \
                after;                                                                         \
                y += lanes;                                                                    \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    return 0

static __attribute__((unused)) int64_t FN(max_pool)(const tpk_view *in, const tpk_view *out,
                                                    const int64_t *attr)
{
    T *y = (T *)out->p;
    FN_POOLING_ROWS(
        for (int64_t j = 0; j < lanes; j++) { y[j] = (T)-__builtin_inff(); },
        for (int64_t j = 0; j < many;
             j++) { y[first + j] = FN(max)(y[first + j], from[j * step]); }, );
}

/* The place of the first greatest (or of the first NaN) in its plane, row-major. */
static __attribute__((unused)) int64_t
FN(max_pool_index)(const tpk_view *in, const tpk_view *out, const int64_t *attr)
{
    int64_t *y = (int64_t *)out->p;
    T best[FN(pooling_lanes)];
    int32_t found[FN(pooling_lanes)];
    FN_POOLING_ROWS(
        for (int64_t j = 0; j < lanes; j++) {
            y[j] = 0;
            best[j] = 0;
            found[j] = 0;
        },
        const int64_t z = (zd * p.in[1] + zh) * p.in[2] + at;
        for (int64_t j = 0; j < many; j++) {
            const T a = from[j * step];
            const T b = best[first + j];
            const int take = !found[first + j] || a > b || (a != a && b == b);
            y[first + j] = take ? z + j * p.stride[2] : y[first + j];
            best[first + j] = take ? a : b;
            found[first + j] = 1;
        }, );
}

/* attr: the lists, then count_pad. */
static __attribute__((unused)) int64_t FN(avg_pool)(const tpk_view *in, const tpk_view *out,
                                                    const int64_t *attr)
{
    T *y = (T *)out->p;
    FN_POOLING_ROWS(
        for (int64_t j = 0; j < lanes; j++) { y[j] = 0; },
        for (int64_t j = 0; j < many; j++) { y[first + j] += from[j * step]; },
        for (int64_t j = 0; j < lanes; j++) {
            FN(pooling_taps)(&p, 2, w + j, &first, &last);
            y[j] /= (T)(attr[45] ? p.all_taps : (d1 - d0) * (h1 - h0) * (last - first));
        });
}
#undef FN_POOLING_ROWS

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
