/* Gamma numbers and their slope by the concentration, computed in f64. Pasted for f64: T is the type, S its
 * suffix, FN(name) is tpk_name_S.
 *
 * G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables" (2000): d v, with v = (1 + c z)^3 of a
 * normal z, is taken where log u < z^2 / 2 + d - d v + d log v, which is in 95 of 100 tries or more. */

/* Each element has a key of its own, so how many tries it takes is no matter to others: try i reads blocks 2 i and
 * 2 i + 1 of Philox by that key. After 64, of which 20^-64 come, it is d. A concentration below 1 is one above it
 * times u^(1 / a), with a u that decided nothing. */
static __attribute__((unused)) double FN(gamma_of)(double a, uint64_t key)
{
    const double k = a < 1 ? a + 1 : a, d = k - 1.0 / 3, c = 1 / tpk_sqrt_f64(9 * d);
    double z[2], u[2], y = d;
    if (!(a > 0 && a <= 0x1.fffffffffffffp1023)) {
        return (double)__builtin_nanf("");
    }
    for (uint64_t i = 0, found = 0; i < 64 && !found; i++) {
        const tpk_words w = tpk_philox(key, 0, 2 * i), w2 = tpk_philox(key, 0, 2 * i + 1);
        tpk_normal_of_f64(w.w, z);
        tpk_uniform_of_f64(w2.w, u);
        const double t = 1 + c * z[0], v = t * t * t;
        found =
            v > 0 && tpk_log_f64(1 - u[0]) < z[0] * z[0] * 0.5 + d - d * v + d * tpk_log_f64(v);
        y = found ? d * v : y;
    }
    return a < 1 ? y * tpk_exp_f64(tpk_log_f64(1 - u[1]) / a) : y;
}

/* in: concentrations and keys (i64), of out's shape. */
static __attribute__((unused)) int64_t FN(gamma)(const tpk_view *in, const tpk_view *out,
                                                 const int64_t *attr)
{
    int64_t n = 1;
    (void)attr;
    for (int64_t i = 0; i < out->rank; i++) {
        n *= out->n[i];
    }
    for (int64_t j = 0; j < n; j++) {
        const T *a = (const T *)in[0].p;
        const int64_t *key = (const int64_t *)in[1].p;
        for (int64_t i = out->rank - 1, rest = j; i >= 0; rest /= out->n[i], i--) {
            a += rest % out->n[i] * in[0].s[i];
            key += rest % out->n[i] * in[1].s[i];
        }
        ((T *)out->p)[j] = (T)FN(gamma_of)((double)*a, (uint64_t)*key);
    }
    return 0;
}

/* The logarithmic derivative of gamma, a > 0. */
static __attribute__((unused)) double FN(digamma)(double a)
{
    double sum = 0;
    for (; a < 12; a += 1) {
        sum -= 1 / a;
    }
    const double r = 1 / (a * a);
    const double tail =
        r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132)))));
    return sum + tpk_log_f64(a) - 0.5 / a - tail;
}

/* By the series of the distribution P:  dx/da = - (dP/da) / (dP/dx) = sum u[i] (digamma(a + i + 1) - log x)  with
 * u[0] = x / a, u[i] = u[i - 1] x / (a + i). It loses as many digits as 1 - P has zeros. */
static __attribute__((unused)) double FN(gamma_series)(double a, double x)
{
    double u = x / a, m = FN(digamma)(a + 1) - tpk_log_f64(x), sum = u * m;
    for (double i = 1; i < 4096; i += 1) {
        u *= x / (a + i);
        m += 1 / (a + i);
        sum += u * m;
        if (a + i > x && u * (m < 0 ? -m : m) < 0x1p-56 * (sum < 0 ? -sum : sum)) {
            break;
        }
    }
    return sum;
}

/* For large a: the expansion of Cornish and Fisher, x as a function of the normal number z with the same probability
 * (H. Goldberg and H. Levine, 1946), by which z is found and along which a goes on. */
static __attribute__((unused)) double FN(gamma_far)(double a, double x)
{
    const double r = tpk_sqrt_f64(a);
    double z = (x - a) / r;
    for (int i = 0;; i++) {
        const double z2 = z * z, c2 = (z2 - 1) / 3, c3 = z * (z2 - 7) / 36;
        const double c4 = -((3 * z2 + 7) * z2 - 16) / 810;
        const double c5 = z * ((9 * z2 + 256) * z2 - 433) / 38880;
        const double c6 = (((12 * z2 - 243) * z2 - 923) * z2 + 1472) / 204120;
        if (i == 4) {
            return 1 + (0.5 * z - (0.5 * c3 + (c4 + (1.5 * c5 + 2 * c6 / r) / r) / r) / a) / r;
        }
        const double at = a + z * r + c2 + (c3 + (c4 + (c5 + c6 / r) / r) / r) / r;
        z -= (at - x) / (r + 2 * z / 3 + (3 * z2 - 7) / (36 * r));
    }
}

/* in: concentrations, and the gamma numbers that have come of them, of out's shape. */
static __attribute__((unused)) int64_t FN(gamma_slope)(const tpk_view *in, const tpk_view *out,
                                                       const int64_t *attr)
{
    int64_t n = 1;
    (void)attr;
    for (int64_t i = 0; i < out->rank; i++) {
        n *= out->n[i];
    }
    for (int64_t j = 0; j < n; j++) {
        const T *p[2] = {(const T *)in[0].p, (const T *)in[1].p};
        for (int64_t i = out->rank - 1, rest = j; i >= 0; rest /= out->n[i], i--) {
            p[0] += rest % out->n[i] * in[0].s[i];
            p[1] += rest % out->n[i] * in[1].s[i];
        }
        const double a = (double)*p[0], x = (double)*p[1];
        double y = x == 0 ? 0 : x; /* of no number none */
        if (x > 0 && x <= 0x1.fffffffffffffp1023) {
            y = a < 1000 ? FN(gamma_series)(a, x) : FN(gamma_far)(a, x);
        }
        ((T *)out->p)[j] = (T)y;
    }
    return 0;
}
