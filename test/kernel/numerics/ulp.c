/* The largest errors of the elementary functions in units of the last place, against MPFR.
 *
 *     ulp [--long | --tenth N] [FUNCTION_TYPE]      exits 1 when an error is above its limit
 *
 * --tenth is --long for pow and every tenth other function: other ones for each N.
 *
 * A float function is compared with the double function of the C library, whose own error is
 * 2^-28 ULP of a float, on floats taken at equal distances over all bit patterns (--long: on
 * every float); its worst argument and a sample are then taken to MPFR. The arguments of a double
 * function are searched: random ones, then what is worse near the worst of these. The search asks the
 * long double function of the C library; what it ends with is taken to MPFR, and so is what longer
 * searches have found (`found`). Results next to overflow, and subnormal ones, which are rounded twice,
 * are searched apart. */
#include "ulp.h"

static double sigmoid_ref(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double rsqrt_ref(double x)
{
    return 1 / sqrt(x);
}

static long double sigmoid_long(long double x)
{
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}

static long double rsqrt_long(long double x)
{
    return 1 / sqrtl(x);
}

static int mpfr_sqrt_inv(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd)
{
    mpfr_sqrt(y, x, rnd);
    return mpfr_ui_div(y, 1, y, rnd);
}

/* Newton's steps from what is to be measured. erf(y) - x = (1 - x) - erfc(y): of |x|, for which the latter is exact. */
static long double erfinv_long(long double x)
{
    const long double a = fabsl(x),
                      root = 0.886226925452758013649083741670572591L; /* of pi, / 2 */
    long double y = (long double)tpk_erfinv_f64((double)a);
    for (int i = 0; i < 2 && a > 0 && a < 1; i++) {
        const long double over = a < 0.5L ? erfl(y) - a : (1 - a) - erfcl(y);
        y -= over * root * expl(y * y);
    }
    return copysignl(y, x);
}

static int mpfr_erfinv(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd)
{
    if (mpfr_zero_p(x) || mpfr_cmpabs_ui(x, 1) >= 0) {
        return mpfr_atanh(y, x, rnd); /* as infinite, as much no number */
    }
    mpfr_t v, d, e;
    mpfr_inits2(mpfr_get_prec(y), v, d, e, (mpfr_ptr)0);
    mpfr_set_ld(v, erfinv_long(mpfr_get_ld(x, rnd)), rnd);
    for (int i = 0; i < 8; i++) {
        if (mpfr_cmp_d(x, 0.5) < 0) {
            mpfr_erf(d, v, rnd);
            mpfr_sub(d, d, x, rnd);
        } else {
            mpfr_erfc(d, v, rnd);
            mpfr_add(d, d, x, rnd);
            mpfr_ui_sub(d, 1, d, rnd);
        }
        mpfr_sqr(e, v, rnd);
        mpfr_exp(e, e, rnd);
        mpfr_mul(d, d, e, rnd);
        mpfr_const_pi(e, rnd);
        mpfr_sqrt(e, e, rnd);
        mpfr_mul(d, d, e, rnd);
        mpfr_div_ui(d, d, 2, rnd);
        mpfr_sub(v, v, d, rnd);
        if (mpfr_zero_p(d) ||
            mpfr_get_exp(d) < mpfr_get_exp(v) - 50) { /* so the next is below 2^-100 */
            break;
        }
    }
    mpfr_set(y, v, rnd);
    mpfr_clears(v, d, e, (mpfr_ptr)0);
    return 0;
}

static const struct row {
    const char *name;
    float (*f32)(float);
    double (*f64)(double);
    double (*libm)(double);
    long double (*longer)(long double);
    mpfr_unary exact;
    double limit32, limit64;
    double range; /* most double arguments are taken from [-range, range] */
} rows[] = {
    {"exp",     tpk_exp_f32,     tpk_exp_f64,     exp,            expl,         mpfr_exp,      1.0, 1.0,  745 },
    {"log",     tpk_log_f32,     tpk_log_f64,     log,            logl,         mpfr_log,      1.0, 1.0,  4   },
    {"exp2",    tpk_exp2_f32,    tpk_exp2_f64,    exp2,           exp2l,        mpfr_exp2,     1.0, 1.0,  1080},
    {"log2",    tpk_log2_f32,    tpk_log2_f64,    log2,           log2l,        mpfr_log2,     1.0, 1.0,  4   },
    {"log10",   tpk_log10_f32,   tpk_log10_f64,   log10,          log10l,       mpfr_log10,    1.0, 1.0,  4   },
    {"expm1",   tpk_expm1_f32,   tpk_expm1_f64,   expm1,          expm1l,       mpfr_expm1,    1.5, 1.5,  745 },
    {"log1p",   tpk_log1p_f32,   tpk_log1p_f64,   log1p,          log1pl,       mpfr_log1p,    1.5, 1.5,  4   },
    {"sqrt",    tpk_sqrt_f32,    tpk_sqrt_f64,    sqrt,           sqrtl,        mpfr_sqrt,     0.5, 0.5,  1e9 },
    {"rsqrt",   tpk_rsqrt_f32,   tpk_rsqrt_f64,   rsqrt_ref,      rsqrt_long,   mpfr_sqrt_inv, 1.5, 1.5,
     1e9                                                                                                      },
    {"sin",     tpk_sin_f32,     tpk_sin_f64,     sin,            sinl,         mpfr_sin,      0.6, 1.0,  100 },
    {"cos",     tpk_cos_f32,     tpk_cos_f64,     cos,            cosl,         mpfr_cos,      0.6, 1.0,  100 },
    {"tanh",    tpk_tanh_f32,    tpk_tanh_f64,    tanh,           tanhl,        mpfr_tanh,     1.5, 1.5,  20  },
    {"sigmoid", tpk_sigmoid_f32, tpk_sigmoid_f64, sigmoid_ref,    sigmoid_long, mpfr_sigmoid,  1.5,
     1.5,                                                                                                 745 },
    {"erf",     tpk_erf_f32,     tpk_erf_f64,     erf,            erfl,         mpfr_erf,      1.1, 1.11, 6   },
    {"erfinv",  tpk_erfinv_f32,  tpk_erfinv_f64,  tpk_erfinv_f64, erfinv_long,  mpfr_erfinv,   1.0,
     2.0,                                                                                                 1   },
};

static double float_error(float got, double exact)
{
    if (isnan(exact) || isnan(got)) {
        return isnan(exact) && isnan(got) ? 0 : INFINITY;
    }
    if (got == (float)exact) {
        return 0; /* at most half a unit; the worst case is measured by MPFR */
    }
    if (isinf(exact)) {
        return INFINITY;
    }
    int e;
    (void)frexp(exact, &e);
    e = e - 1 < -126 ? -126 : e - 1 > 127 ? 127 : e - 1;
    const double g = isinf(got) ? copysign(0x1p128, got) : (double)got;
    return fabs(ldexp(g - exact, 23 - e));
}

static double exact_error32(const struct row *r, float x, mpfr_t in, mpfr_t out)
{
    mpfr_set_flt(in, x, MPFR_RNDN);
    r->exact(out, in, MPFR_RNDN);
    return ulp_error((double)r->f32(x), out, 24, -126);
}

static bool report(const char *name, const char *type, uint64_t n, double worst, const char *at,
                   double limit)
{
    const bool ok = worst <= limit;
    printf("  %-9s %-4s %11llu  %7.4f  %5.2f  %-22s %s\n", name, type, (unsigned long long)n,
           worst, limit, at, ok ? "ok" : "TOO LARGE");
    fflush(stdout);
    return ok;
}

static bool run32(const struct row *r, uint64_t step)
{
    double worst = -1;
    float at = 0;
    mpfr_t in, out;
    mpfr_inits2(160, in, out, (mpfr_ptr)0);
    uint64_t n = 0;
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += step, n++) {
        const float x = tpk_from_bits_f32((uint32_t)u);
        const double e = float_error(r->f32(x), r->libm((double)x));
        if (e > worst) {
            worst = e;
            at = x;
        }
    }
    worst = exact_error32(r, at, in, out);
    for (int i = 0; i < 20000; i++) {
        float x = tpk_from_bits_f32((uint32_t)next_random());
        if (i & 1) {
            x = (float)(r->range * (2 * unit_random() - 1));
        }
        const double e = exact_error32(r, x, in, out);
        if (e > worst) {
            worst = e;
            at = x;
        }
    }
    mpfr_clears(in, out, (mpfr_ptr)0);
    char text[40];
    snprintf(text, sizeof text, "%a", (double)at);
    return report(r->name, "f32", n, worst, text, r->limit32);
}

static double pick64(uint64_t i, double range)
{
    const double sign = next_random() & 1 ? -1 : 1;
    switch (i % 8) {
    case 0:
        return tpk_from_bits_f64(next_random());
    case 1: /* spread over magnitudes */
        return sign * exp2(-60 + 80 * unit_random());
    case 2: /* close to 1 */
        return 1 + sign * exp2(-50 * unit_random());
    case 3: /* close to a multiple of pi / 2 */
        return (double)(next_random() >> (45 + next_random() % 19)) * 1.5707963267948966;
    case 4:
        return sign * unit_random();
    case 5: /* where exp and sigmoid are subnormal or overflow */
        return sign * range * (1 - 0.05 * unit_random());
    default:
        return sign * range * unit_random();
    }
}

/* The same error, as good as a long double is: 2^-10 ULP and more where it has the room. */
static double long_error(const struct row *r, double x)
{
    const double got = r->f64(x);
    const long double exact = r->longer((long double)x);
    if (!isfinite(got) || !isfinite((double)exact)) {
        return 0; /* the ends of the range are looked at by MPFR */
    }
    int e;
    (void)frexpl(exact, &e);
    e = e - 1 < -1022 ? -1022 : e - 1;
    return (double)fabsl(ldexpl((long double)got - exact, 52 - e));
}

enum { WORST = 48 };

typedef struct worst_list {
    double x[WORST], error[WORST];
    int least; /* the place of the smallest of them */
} worst_list;

static void keep_worst(worst_list *w, double x, double error)
{
    if (error <= w->error[w->least]) {
        return;
    }
    for (int i = 0; i < WORST; i++) {
        if (w->x[i] == x) {
            return;
        }
    }
    w->x[w->least] = x;
    w->error[w->least] = error;
    for (int i = 0; i < WORST; i++) {
        w->least = w->error[i] < w->error[w->least] ? i : w->least;
    }
}

/* From one of the worst on: up to 2^48 bit patterns away, so in the same binade or a near one. */
static void climb(const struct row *r, double *x, double *error, uint64_t tries)
{
    for (uint64_t i = 0; i < tries; i++) {
        const uint64_t step = next_random() >> (16 + next_random() % 48);
        const uint64_t bits = tpk_bits_f64(*x);
        const double y = tpk_from_bits_f64(next_random() & 1 ? bits + step : bits - step);
        const double e = isnan(y) ? 0 : long_error(r, y);
        if (e > *error) {
            *error = e;
            *x = y;
        }
    }
}

static double exact_error64(const struct row *r, double x, mpfr_t in, mpfr_t out)
{
    mpfr_set_d(in, x, MPFR_RNDN);
    r->exact(out, in, MPFR_RNDN);
    return ulp_error(r->f64(x), out, 53, -1022);
}

/* The largest that were found by longer searches. */
static const struct known {
    const char *name;
    double x, y;
} found[] = {
    {"erf", 0x1.0ef6c98bf8c32p+0,  0                  },
    {"exp", -0x1.625f6bee2f7dcp+9, 0                  },
    {"exp", -708.74865612165854,   0                  },
    {"pow", 1.2127852261983807,    -3673.8452618947122},
};

/* n random arguments, as many again around the worst; a part of the random ones is taken to MPFR. */
static bool run64(const struct row *r, uint64_t n)
{
    double largest = -1, at = 0;
    worst_list w = {.least = 0};
    mpfr_t in, out;
    mpfr_inits2(160, in, out, (mpfr_ptr)0);
    for (uint64_t i = 0; i < n; i++) {
        const double x = pick64(i, r->range);
        const double e = i % 64 ? 0 : exact_error64(r, x, in, out);
        if (e > largest) {
            largest = e;
            at = x;
        }
        keep_worst(&w, x, long_error(r, x));
    }
    for (int i = 0; i < WORST; i++) {
        climb(r, &w.x[i], &w.error[i], n / WORST);
        const double e = exact_error64(r, w.x[i], in, out);
        if (e > largest) {
            largest = e;
            at = w.x[i];
        }
    }
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        const double e =
            strcmp(found[i].name, r->name) == 0 ? exact_error64(r, found[i].x, in, out) : 0;
        if (e > largest) {
            largest = e;
            at = found[i].x;
        }
    }
    mpfr_clears(in, out, (mpfr_ptr)0);
    char text[40];
    snprintf(text, sizeof text, "%a", at);
    return report(r->name, "f64", 2 * n, largest, text, r->limit64);
}

static double exact_pow_error(bool single, double x, double y, mpfr_t a, mpfr_t b, mpfr_t out)
{
    mpfr_set_d(a, x, MPFR_RNDN);
    mpfr_set_d(b, y, MPFR_RNDN);
    mpfr_pow(out, a, b, MPFR_RNDN);
    return single ? ulp_error((double)tpk_pow_f32((float)x, (float)y), out, 24, -126)
                  : ulp_error(tpk_pow_f64(x, y), out, 53, -1022);
}

/* A pair; of half of them the result does not overflow, of many it is next to an end of the range. */
static void pick_pair(uint64_t i, bool single, double *x, double *y)
{
    *x = pick64(i / 8, 20);
    *y = pick64(next_random() % 8, 20);
    if (i & 1) {
        *x = fabs(*x);
    }
    const double least = single ? -150 : -1075, most = single ? 128 : 1024;
    if (i & 2) {
        const double part = unit_random();
        *y = (i & 4    ? least + (single ? 24 : 53) * part /* subnormal */
              : i & 32 ? most - 0.1 * part
                       : (most + 0.01) * (2 * part - 1)) /
             log2(fabs(*x));
    }
    if (single) {
        *x = (double)(float)*x;
        *y = (double)(float)*y;
    }
}

/* As long_error. */
static double long_pow_error(double x, double y)
{
    const double got = tpk_pow_f64(x, y);
    const long double exact = powl((long double)x, (long double)y);
    if (!isfinite(got) || !isfinite((double)exact)) {
        return 0;
    }
    int e;
    (void)frexpl(exact, &e);
    e = e - 1 < -1022 ? -1022 : e - 1;
    return (double)fabsl(ldexpl((long double)got - exact, 52 - e));
}

/* Up to 2^48 bit patterns away, mostly fewer. */
static double beside(double x)
{
    const uint64_t step = next_random() >> (16 + next_random() % 48);
    return tpk_from_bits_f64(tpk_bits_f64(x) + (next_random() & 1 ? step : 0 - step));
}

typedef struct pair {
    double x, y, error;
} pair;

static bool run_pow(bool single, uint64_t n)
{
    pair worst[WORST] = {{0}}, largest = {.error = -1};
    mpfr_t a, b, out;
    mpfr_inits2(160, a, b, out, (mpfr_ptr)0);
    for (uint64_t i = 0; i < n; i++) {
        pair p;
        pick_pair(i, single, &p.x, &p.y);
        p.error = exact_pow_error(single, p.x, p.y, a, b, out);
        largest = p.error > largest.error ? p : largest;
        pair *own = &worst[i % WORST]; /* so that the worst are of every kind */
        *own = p.error > own->error ? p : *own;
    }
    for (int i = 0; i < WORST && !single; i++) {
        pair p = worst[i];
        for (uint64_t k = 0; k < 2 * n / WORST; k++) {
            pair q = {.x = next_random() & 1 ? beside(p.x) : p.x, .y = beside(p.y)};
            q.error = isnan(q.x) || isnan(q.y) ? 0 : long_pow_error(q.x, q.y);
            p = q.error > p.error ? q : p;
        }
        p.error = exact_pow_error(single, p.x, p.y, a, b, out);
        largest = p.error > largest.error ? p : largest;
    }
    for (size_t i = 0; i < sizeof found / sizeof *found && !single; i++) {
        pair p = {.x = found[i].x, .y = found[i].y};
        p.error = strcmp(found[i].name, "pow") == 0
                      ? exact_pow_error(single, p.x, p.y, a, b, out)
                      : 0;
        largest = p.error > largest.error ? p : largest;
    }
    mpfr_clears(a, b, out, (mpfr_ptr)0);
    char text[80];
    snprintf(text, sizeof text, "%a,%a", largest.x, largest.y);
    return report("pow", single ? "f32" : "f64", n, largest.error, text, single ? 0.6 : 1.0);
}

int main(int argc, char **argv)
{
    bool ok = true;
    int each = 0, first = 0; /* of so many functions one is looked at closely; 0: none is */
    const char *only = "";
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--long")) {
            each = 1;
        } else if (!strcmp(argv[i], "--tenth") && i + 1 < argc) {
            each = 10;
            first = atoi(argv[++i]);
        } else {
            only = argv[i];
        }
    }
    printf("largest errors in ULP (seed %llu)\n  %-9s %-4s %11s  %7s  %5s  %s\n",
           (unsigned long long)seed, "function", "type", "arguments", "error", "limit", "at");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bool all = each && ((int)i + first) % each == 0;
        char name[2][24];
        snprintf(name[0], sizeof name[0], "%s_f32", rows[i].name);
        snprintf(name[1], sizeof name[1], "%s_f64", rows[i].name);
        if (!*only || !strcmp(only, name[0])) {
            ok &= run32(&rows[i], all ? 1 : 1621);
        }
        if (!*only || !strcmp(only, name[1])) {
            ok &= run64(&rows[i], all ? 20000000 : 500000);
        }
    }
    if (!*only || !strcmp(only, "pow_f32")) {
        ok &= run_pow(true, each ? 2000000 : 60000);
    }
    if (!*only || !strcmp(only, "pow_f64")) {
        ok &= run_pow(false, each ? 2000000 : 60000);
    }
    mpfr_free_cache();
    return ok ? 0 : 1;
}
