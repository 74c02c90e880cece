/* Discrete Fourier transforms of lines of complex numbers, which are pairs. Pasted once per float type: T is the
 * type, S its suffix, FN(name) is tpk_name_S.
 *
 * A line of n = r m numbers is r interleaved lines of m, whose transforms are joined by m transforms of r numbers each
 * (Cooley and Tukey). The first r that divides n is taken of 4, 2, 3, 5, 7, 11, ...; roots of unity come from a table.
 * A product of two complex numbers a, b is (fma(ar, br, -(ai bi)), fma(ar, bi, ai br)). */

enum { FN(fft_most) = 127 }; /* the greatest prime factor */

typedef struct FN(fft_number) {
    T r, i;
} FN(fft_number);

/* The table of roots [n], its steps, and the sign of their imaginary parts. */
typedef struct FN(fft_plan) {
    const T *root;
    int64_t n, step, pair;
    T sign;
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
    FN(fft_root)(const FN(fft_plan) * p, int64_t at)
{
    const T *const root = p->root + at * p->step;
    const FN(fft_number) y = {root[0], root[p->pair] * p->sign};
    return y;
}
/* a times -i, for the sign +1: a quarter of a turn, the way the roots go. */
static inline __attribute__((always_inline, unused)) FN(fft_number)
    FN(fft_quarter)(const FN(fft_plan) * p, FN(fft_number) a)
{
    const FN(fft_number) y = {a.i * p->sign, -(a.r * p->sign)};
    return y;
}

static int64_t __attribute__((unused)) FN(fft_factor)(int64_t n)
{
    if (n % 4 == 0) {
        return 4;
    }
    for (int64_t r = 2; r <= FN(fft_most); r++) {
        if (n % r == 0) {
            return r;
        }
    }
    return n;
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

/* Of an odd r: pairs q and r - q go together. v[0..r - 1] are the numbers, and are changed. */
static inline __attribute__((always_inline, unused)) void
FN(fft_odd)(const FN(fft_plan) * p, int64_t r, FN(fft_number) * z, int64_t m,
            FN(fft_number) * v)
{
    const int64_t step = p->n / r, half = r / 2;
    FN(fft_number) sum = v[0];
    for (int64_t q = 1; q <= half; q++) {
        const FN(fft_number) a = v[q], b = v[r - q];
        v[q] = FN(fft_add)(a, b);
        v[r - q] = FN(fft_sub)(a, b);
        sum = FN(fft_add)(sum, v[q]);
    }
    z[0] = sum;
    for (int64_t k = 1; k <= half; k++) {
        FN(fft_number) even = v[0], odd = {0, 0};
        for (int64_t q = 1, at = k; q <= half; q++) {
            const FN(fft_number) w = FN(fft_root)(p, at * step);
            even.r = TPK_CAT(tpk_fma_, S)(v[q].r, w.r, even.r);
            even.i = TPK_CAT(tpk_fma_, S)(v[q].i, w.r, even.i);
            odd.r = TPK_CAT(tpk_fma_, S)(v[r - q].i, -w.i, odd.r);
            odd.i = TPK_CAT(tpk_fma_, S)(v[r - q].r, w.i, odd.i);
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
    const int64_t step = p->n / (r * m);
    FN(fft_number) v[FN(fft_most)];
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
            FN(fft_odd)(p, r, z + j, m, v);
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
    } else if (r == 2) {
        FN(fft_join_by)(2, p, m, z);
    } else if (r == 3) {
        FN(fft_join_by)(3, p, m, z);
    } else if (r == 5) {
        FN(fft_join_by)(5, p, m, z);
    } else {
        FN(fft_join_by)(r, p, m, z);
    }
}

/* n numbers x, `step` apart (as T, with imaginary parts `pair` behind), to z. */
static void __attribute__((unused)) FN(fft_line)(const FN(fft_plan) * p, int64_t n, const T *x,
                                                 int64_t step, int64_t pair, FN(fft_number) * z)
{
    const int64_t r = n > 1 ? FN(fft_factor)(n) : 1, m = n / r;
    for (int64_t q = 0; q < r; q++) {
        if (m > 1) {
            FN(fft_line)(p, m, x + q * step, step * r, pair, z + q * m);
        } else {
            z[q].r = x[q * step];
            z[q].i = x[q * step + pair];
        }
    }
    if (r > FN(fft_most)) { /* nobody asks for such a length (op/fourier.c) */
        for (int64_t q = 0; q < r; q++) {
            z[q].r = z[q].i = (T)TPK_NAN_F64;
        }
    } else if (r > 1) {
        FN(fft_join)(p, r, m, z);
    }
}

/* attr: inverse.  in: x [..., n, 2], exp(-2 pi i k / n) as pairs [n, 2].  y[k] = sum over j of x[j] exp(-2 pi i j k / n),
 * inverse: with +. */
static __attribute__((unused)) int64_t FN(fft)(const tpk_view *in, const tpk_view *out,
                                               const int64_t *attr)
{
    const int64_t last = out->rank - 1, n = out->n[last - 1];
    const FN(fft_plan) p = {(const T *)in[1].p, n, in[1].s[0], in[1].s[1], attr[0] ? -1 : 1};
    int64_t lines = n > 0 ? 1 : 0;
    for (int64_t i = 0; i < last - 1; i++) {
        lines *= out->n[i];
    }
    for (int64_t l = 0; l < lines; l++) {
        const T *x = (const T *)in->p;
        for (int64_t i = last - 2, rest = l; i >= 0; rest /= out->n[i], i--) {
            x += rest % out->n[i] * in->s[i];
        }
        FN(fft_line)
        (&p, n, x, in->s[last - 1], in->s[last], (FN(fft_number) *)out->p + l * n);
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
