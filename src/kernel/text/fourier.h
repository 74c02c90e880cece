/* Discrete Fourier transforms of lines of complex numbers, which are pairs. Pasted once per float type: T is the
 * type, S its suffix, FN(name) is tpk_name_S.
 *
 * A line of n = r m numbers is r interleaved lines of m, whose transforms are joined by m transforms of r numbers each
 * (Cooley and Tukey). r is 2 where 2 divides n an odd number of times, else the first that divides n of 4, 3, 5, 7, 11, ...;
 * roots of unity come from a table. A product of two complex numbers a, b is (fma(ar, br, -(ai bi)), fma(ar, bi, ai br)).
 * A line of n real numbers, n even, is one of n / 2 complex ones. */

enum { FN(fft_most) = 79 }; /* the greatest prime factor */

typedef struct FN(fft_number) {
    T r, i;
} FN(fft_number);

/* Numbers `step` apart (as T), whose imaginary parts stand `pair` behind. */
typedef struct FN(fft_row) {
    const T *p;
    int64_t n, step, pair;
} FN(fft_row);

/* Roots of unity [n] and the sign of their imaginary parts; a transform's factors r, and what it reads. */
typedef struct FN(fft_plan) {
    FN(fft_row) root;
    T sign;
    int factor[64];
    FN(fft_row)
    x, before;    /* zeros stand behind x; `before`: none, or x is multiplied by it first */
    int64_t half; /* not 0: x is the first half + 1 numbers of a transform of real ones */
    T inner;      /* those but its ends are multiplied by this */
} FN(fft_plan);

static inline __attribute__((always_inline, unused)) FN(fft_number)
    FN(fft_add)(FN(fft_number) a, FN(fft_number) b)
{
    const FN(fft_number) y = {a.r + b.r, a.i + b.i};
    return y;
}
static inline __attribute__((always_inline, unused)) FN(fft_number)
    FN(fft_sub)(FN(fft_number) a, FN(fft_number) b)
{
    const FN(fft_number) y = {a.r - b.r, a.i - b.i};
    return y;
}
static inline __attribute__((always_inline, unused)) FN(fft_number)
    FN(fft_mul)(FN(fft_number) a, FN(fft_number) b)
{
    const FN(fft_number) y = {TPK_CAT(tpk_fma_, S)(a.r, b.r, -(a.i * b.i)),
                              TPK_CAT(tpk_fma_, S)(a.r, b.i, a.i * b.r)};
    return y;
}
static inline __attribute__((always_inline, unused)) FN(fft_number)
    FN(fft_at)(const FN(fft_row) * row, int64_t at)
{
    const T *const x = row->p + at * row->step;
    const FN(fft_number) y = {x[0], x[row->pair]};
    return y;
}
static inline __attribute__((always_inline, unused)) FN(fft_number)
    FN(fft_root)(const FN(fft_plan) * p, int64_t at)
{
    FN(fft_number) y = FN(fft_at)(&p->root, at);
    y.i *= p->sign;
    return y;
}
/* a times -i, for the sign +1: a quarter of a turn, the way the roots go. */
static inline __attribute__((always_inline, unused)) FN(fft_number)
    FN(fft_quarter)(const FN(fft_plan) * p, FN(fft_number) a)
{
    const FN(fft_number) y = {a.i * p->sign, -(a.r * p->sign)};
    return y;
}

/* The factors of n into `factor`; 0 behind them. */
static void __attribute__((unused)) FN(fft_factors)(int64_t n, int *factor)
{
    int used = 0, twos = 0;
    for (; n > 1 && n % 2 == 0; n /= 2) {
        twos++;
    }
    if (twos % 2 == 1) {
        factor[used++] = 2;
    }
    for (int i = 0; i < twos / 2; i++) {
        factor[used++] = 4;
    }
    for (int r = 3; r <= FN(fft_most); r += 2) {
        for (; n % r == 0; n /= r) {
            factor[used++] = r;
        }
    }
    factor[used++] = n > 1 ? -1 : 0; /* nobody asks for such a length (op/fourier.c) */
    factor[used] = 0;
}

/* A transform of r numbers, z[q * m] for q < r, in place. */
static inline __attribute__((always_inline, unused)) void
FN(fft_two)(FN(fft_number) * z, int64_t m, FN(fft_number) b)
{
    const FN(fft_number) a = z[0];
    z[0] = FN(fft_add)(a, b);
    z[m] = FN(fft_sub)(a, b);
}
static inline __attribute__((always_inline, unused)) void
FN(fft_four)(const FN(fft_plan) * p, FN(fft_number) * z, int64_t m, FN(fft_number) b,
             FN(fft_number) c, FN(fft_number) d)
{
    const FN(fft_number) a = z[0];
    const FN(fft_number) ac = FN(fft_add)(a, c), a_c = FN(fft_sub)(a, c);
    const FN(fft_number) bd = FN(fft_add)(b, d);
    const FN(fft_number) b_d = FN(fft_quarter)(p, FN(fft_sub)(b, d));
    z[0] = FN(fft_add)(ac, bd);
    z[m] = FN(fft_add)(a_c, b_d);
    z[2 * m] = FN(fft_sub)(ac, bd);
    z[3 * m] = FN(fft_sub)(a_c, b_d);
}

/* Of an odd r: pairs q and r - q go together. v[0..r - 1] are the numbers, and are changed; w are the r roots. */
static inline __attribute__((always_inline, unused)) void
FN(fft_odd)(int64_t r, FN(fft_number) * z, int64_t m, FN(fft_number) * v,
            const FN(fft_number) * w)
{
    const int64_t half = r / 2;
    FN(fft_number) sum = v[0];
#pragma GCC unroll 2
    for (int64_t q = 1; q <= half; q++) {
        const FN(fft_number) a = v[q], b = v[r - q];
        v[q] = FN(fft_add)(a, b);
        v[r - q] = FN(fft_sub)(a, b);
        sum = FN(fft_add)(sum, v[q]);
    }
    z[0] = sum;
#pragma GCC unroll 2
    for (int64_t k = 1; k <= half; k++) {
        FN(fft_number) even = v[0], odd = {0, 0};
#pragma GCC unroll 2
        for (int64_t q = 1, at = k; q <= half; q++) {
            even.r = TPK_CAT(tpk_fma_, S)(v[q].r, w[at].r, even.r);
            even.i = TPK_CAT(tpk_fma_, S)(v[q].i, w[at].r, even.i);
            odd.r = TPK_CAT(tpk_fma_, S)(v[r - q].i, -w[at].i, odd.r);
            odd.i = TPK_CAT(tpk_fma_, S)(v[r - q].r, w[at].i, odd.i);
            at += k;
            at -= at >= r ? r : 0;
        }
        z[k * m] = FN(fft_add)(even, odd);
        z[(r - k) * m] = FN(fft_sub)(even, odd);
    }
}

/* r lines of m, one behind the other, become one of r m. */
static inline __attribute__((always_inline, unused)) void
FN(fft_join_by)(const int64_t r, const FN(fft_plan) * p, int64_t m, FN(fft_number) * z)
{
    const int64_t step = p->root.n / (r * m);
    FN(fft_number) v[FN(fft_most)], w[FN(fft_most)];
    for (int64_t q = 0; q < r && r % 2 == 1; q++) {
        w[q] = FN(fft_root)(p, q * (p->root.n / r));
    }
    for (int64_t j = 0; j < m; j++) {
        v[0] = z[j];
        for (int64_t q = 1; q < r; q++) {
            v[q] = FN(fft_mul)(z[j + q * m], FN(fft_root)(p, j * q * step));
        }
        if (r == 2) {
            FN(fft_two)(z + j, m, v[1]);
        } else if (r == 4) {
            FN(fft_four)(p, z + j, m, v[1], v[2], v[3]);
        } else {
            FN(fft_odd)(r, z + j, m, v, w);
        }
    }
}

static __attribute__((noinline, unused)) void FN(fft_join_4)(const FN(fft_plan) * p, int64_t m,
                                                             FN(fft_number) * z)
{
    FN(fft_join_by)(4, p, m, z);
}

static void __attribute__((noinline, unused))
FN(fft_join)(const FN(fft_plan) * p, int64_t r, int64_t m, FN(fft_number) * z)
{
    if (r == 4) {
        FN(fft_join_4)(p, m, z);
    } else if (r == 3) {
        FN(fft_join_by)(3, p, m, z);
    } else if (r == 5) {
        FN(fft_join_by)(5, p, m, z);
    } else {
        FN(fft_join_by)(r, p, m, z);
    }
}

/* With y the first h + 1 numbers of a transform of 2 h real ones: number k of the h complex ones whose inverse transform
 * has the real ones as its parts, (y[k] + conj y[h - k]) + i (y[k] - conj y[h - k]) / root[k]. */
static inline __attribute__((always_inline, unused)) FN(fft_number)
    FN(fft_folded)(const FN(fft_plan) * p, int64_t k)
{
    FN(fft_number) a = FN(fft_at)(&p->x, k), b = FN(fft_at)(&p->x, p->half - k);
    if (k == 0) {
        a.i = b.i = 0;
    } else {
        a.r *= p->inner, a.i *= p->inner;
        b.r *= p->inner, b.i *= p->inner;
    }
    const FN(fft_number) less = {a.r - b.r, a.i + b.i};
    const FN(fft_number) odd = FN(fft_mul)(less, FN(fft_root)(p, k));
    const FN(fft_number) y = {(a.r + b.r) - odd.i, (a.i - b.i) + odd.r};
    return y;
}

/* Number `at` of those that are transformed. */
static inline __attribute__((always_inline, unused)) FN(fft_number)
    FN(fft_given)(const FN(fft_plan) * p, int64_t at)
{
    if (p->half != 0) {
        return FN(fft_folded)(p, at);
    }
    if (at >= p->x.n) {
        const FN(fft_number) zero = {0, 0};
        return zero;
    }
    const FN(fft_number) x = FN(fft_at)(&p->x, at);
    return p->before.p ? FN(fft_mul)(x, FN(fft_at)(&p->before, at)) : x;
}

/* The n numbers at, at + step, ... of what is given, to z. */
static void __attribute__((unused))
FN(fft_line)(const FN(fft_plan) * p, const int *factor, int64_t n, int64_t at, int64_t step,
             FN(fft_number) * z)
{
    const int64_t r = factor[0], m = r > 0 ? n / r : 0;
    if (r < 0) {
        for (int64_t q = 0; q < n; q++) {
            z[q].r = z[q].i = (T)TPK_NAN_F64;
        }
    } else if (m <= 1) {
        for (int64_t q = 0; q < n; q++) {
            z[q] = FN(fft_given)(p, at + q * step);
        }
    } else {
        for (int64_t q = 0; q < r; q++) {
            FN(fft_line)(p, factor + 1, m, at + q * step, step * r, z + q * m);
        }
    }
    if (r > 1) {
        FN(fft_join)(p, r, m, z);
    }
}

TPK_FN FN(fft_row) FN(fft_row_of)(const tpk_view *v, int paired)
{
    const int64_t axis = v->rank - 1 - paired;
    const FN(fft_row)
        row = {(const T *)v->p, v->n[axis], v->s[axis], paired ? v->s[axis + 1] : v->s[axis]};
    return row;
}

/* Where line l of v begins, whose last `own` axes are the line. */
TPK_FN const T *FN(fft_line_at)(const tpk_view *v, int own, int64_t l)
{
    const T *x = (const T *)v->p;
    for (int64_t i = v->rank - own - 1; i >= 0; l /= v->n[i], i--) {
        x += l % v->n[i] * v->s[i];
    }
    return x;
}

TPK_FN int64_t FN(fft_lines)(const tpk_view *v, int own)
{
    int64_t lines = 1;
    for (int i = 0; i < v->rank; i++) {
        lines *= i < v->rank - own || v->n[i] == 0 ? v->n[i] : 1;
    }
    return lines;
}

/* attr: inverse, factors.  in: x [..., k, 2], zeros behind up to n, and exp(-2 pi i j / n) as pairs [n, 2].
 * y[..., k] = sum over j of x[j] exp(-2 pi i j k / n), inverse: with +. factors & 1: x is multiplied by pairs [k, 2], the
 * next operand, first; factors & 2: y by pairs [n, 2], the last one. */
static __attribute__((unused)) int64_t FN(fft)(const tpk_view *in, const tpk_view *out,
                                               const int64_t *attr)
{
    const int64_t n = out->n[out->rank - 2], lines = FN(fft_lines)(out, 2);
    FN(fft_plan) p = {.root = FN(fft_row_of)(in + 1, 1), .sign = attr[0] ? -1 : 1};
    p.x = FN(fft_row_of)(in, 1);
    if (attr[1] & 1) {
        p.before = FN(fft_row_of)(in + 2, 1);
    }
    FN(fft_factors)(n, p.factor);
    for (int64_t l = 0; l < lines; l++) {
        FN(fft_number) *const z = (FN(fft_number) *)out->p + l * n;
        p.x.p = FN(fft_line_at)(in, 2, l);
        FN(fft_line)(&p, p.factor, n, 0, 1, z);
        if (attr[1] & 2) {
            const FN(fft_row) after = FN(fft_row_of)(in + 2 + (attr[1] & 1), 1);
            for (int64_t k = 0; k < n; k++) {
                z[k] = FN(fft_mul)(z[k], FN(fft_at)(&after, k));
            }
        }
    }
    return 0;
}

/* attr: doubled.  in: x [..., n], n even, and the roots [n, 2].  y[..., n / 2 + 1, 2] are the first numbers of x's
 * transform; `doubled`: those but the two ends are, which makes it what irfft is transposed. */
static __attribute__((unused)) int64_t FN(rfft)(const tpk_view *in, const tpk_view *out,
                                                const int64_t *attr)
{
    const int64_t h = out->n[out->rank - 2] - 1, lines = FN(fft_lines)(out, 2);
    const T f = attr[0] ? 1 : (T)0.5;
    FN(fft_plan) p = {.root = FN(fft_row_of)(in + 1, 1), .sign = 1};
    p.x = FN(fft_row_of)(in, 0);
    p.x.n = h;
    p.x.step *= 2;
    FN(fft_factors)(h, p.factor);
    for (int64_t l = 0; l < lines; l++) {
        FN(fft_number) *const z = (FN(fft_number) *)out->p + l * (h + 1);
        p.x.p = FN(fft_line_at)(in, 1, l);
        FN(fft_line)(&p, p.factor, h, 0, 1, z);
        const FN(fft_number) ends = z[0];
        z[0].r = ends.r + ends.i;
        z[h].r = ends.r - ends.i;
        z[0].i = z[h].i = 0;
        for (int64_t k = 1; 2 * k <= h; k++) {
            const FN(fft_number) a = z[k], b = z[h - k];
            const FN(fft_number) even = {(a.r + b.r) * f, (a.i - b.i) * f};
            FN(fft_number) odd = {(a.i + b.i) * f, (b.r - a.r) * f};
            odd = FN(fft_mul)(odd, FN(fft_root)(&p, k));
            z[k] = FN(fft_add)(even, odd);
            z[h - k].r = even.r - odd.r;
            z[h - k].i = odd.i - even.i;
        }
    }
    return 0;
}

/* attr: halved.  in: x [..., n / 2 + 1, 2], n even, and the roots [n, 2].  y[..., n] are the real numbers, times n, whose
 * transform begins with x; imaginary parts of its ends are not read; `halved`: those but the two ends are halved first,
 * which makes it what rfft is transposed. */
static __attribute__((unused)) int64_t FN(irfft)(const tpk_view *in, const tpk_view *out,
                                                 const int64_t *attr)
{
    const int64_t h = out->n[out->rank - 1] / 2, lines = FN(fft_lines)(out, 1);
    FN(fft_plan) p = {.root = FN(fft_row_of)(in + 1, 1), .sign = -1};
    p.x = FN(fft_row_of)(in, 1);
    p.half = h;
    p.inner = attr[0] ? (T)0.5 : 1;
    FN(fft_factors)(h, p.factor);
    for (int64_t l = 0; l < lines; l++) {
        p.x.p = FN(fft_line_at)(in, 2, l);
        FN(fft_line)(&p, p.factor, h, 0, 1, (FN(fft_number) *)out->p + l * h);
    }
    return 0;
}

/* ---- roots of unity ----------------------------------------------------------------------------------- */

#ifndef TPK_FFT_BLOCK
#define TPK_FFT_BLOCK 4
/* n cosines and sines of turn * (from / whole), turn * ((from + step) / whole), ...; by vectors all of a block. */
static void __attribute__((noinline, unused))
tpk_fft_turns(int64_t n, int64_t from, int64_t step, int64_t whole, tpk_f64 turn,
              tpk_f64 *restrict c, tpk_f64 *restrict s)
{
    tpk_f64 angle[TPK_FFT_BLOCK];
    const int64_t all = TPK_VBYTES > 16 || n > TPK_FFT_BLOCK ? TPK_FFT_BLOCK : n;
    for (int64_t i = 0; i < all; i++) {
        angle[i] = (tpk_f64)(from + i * step) / (tpk_f64)whole * turn;
    }
    for (int64_t i = 0; i < all; i++) {
        c[i] = tpk_cos_f64(angle[i]);
        s[i] = tpk_sin_f64(angle[i]);
    }
}
#endif

/* From k to before `end`: cosines and sines, or exchanged, of turn * (from / n) on; `left`: of the left half. */
static void __attribute__((noinline, unused))
FN(fft_arc)(FN(fft_number) * w, int64_t k, int64_t end, int64_t n, int64_t from, int64_t step,
            tpk_f64 turn, int exchanged, int left)
{
    tpk_f64 of[2][TPK_FFT_BLOCK];
    for (; k < end; k += TPK_FFT_BLOCK, from += step * TPK_FFT_BLOCK) {
        tpk_fft_turns(end - k, from, step, n, turn, of[exchanged], of[!exchanged]);
        for (int64_t i = 0; i < TPK_FFT_BLOCK && k + i < end; i++) {
            w[k + i].r = left ? -(T)of[0][i] : (T)of[0][i];
            w[k + i].i = -(T)of[1][i];
        }
    }
}

/* All n of them; of angles up to an eighth of a turn sines and cosines are computed. */
static void __attribute__((unused)) FN(fft_roots)(int64_t n, T *pairs)
{
    FN(fft_number) *const w = (FN(fft_number) *)(void *)pairs;
    const tpk_f64 turn = 6.283185307179586;
    const int64_t a = n / 8 + 1, b = n / 4 + 1, c = (3 * n + 7) / 8, d = n / 2 + 1;
    FN(fft_arc)(w, 0, a, n, 0, 1, turn, 0, 0);
    FN(fft_arc)(w, a, b, n, n - 4 * a, -4, turn / 4, 1, 0); /* a quarter less k / n turns */
    FN(fft_arc)(w, b, c, n, 4 * b - n, 4, turn / 4, 1, 1);  /* what is more than a quarter */
    const int64_t last = c > b ? c : b;
    FN(fft_arc)(w, last, d, n, n - 2 * last, -2, turn / 2, 0, 1); /* a half less so many */
    for (int64_t k = d; k < n; k++) {
        w[k].r = w[n - k].r;
        w[k].i = -w[n - k].i;
    }
}
