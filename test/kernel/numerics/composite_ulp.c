/* The largest errors of composites in units in the last place, against MPFR.
 *
 *     composite_ulp [--long] [FUNCTION]        exits 1 when an error is above its limit
 *
 * Arguments are even over the range of a row, and spread over all magnitudes within it. The units are those of the
 * result, or of what a row says besides, where a result is the small difference of two numbers. */
#include "tapir/tapir.h"
#include "ulp.h"

/* ---- the functions once more ---------------------------------------------------------------------- */

#define MPFR(name) static int name(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r)

MPFR(exact_reciprocal)
{
    return mpfr_ui_div(y, 1, x, r);
}

MPFR(exact_lgamma)
{
    int sign;
    return mpfr_lgamma(y, &sign, x, r);
}

MPFR(exact_gelu)
{
    mpfr_t s;
    mpfr_init2(s, mpfr_get_prec(y));
    mpfr_sqrt_ui(s, 2, r);
    mpfr_div(s, x, s, r);
    mpfr_neg(s, s, r);
    mpfr_erfc(s, s, r);
    mpfr_mul(y, x, s, r);
    mpfr_clear(s);
    return mpfr_div_ui(y, y, 2, r);
}

MPFR(exact_gelu_tanh) /* x / (1 + exp(-2 u)) */
{
    mpfr_t u, c;
    mpfr_inits2(mpfr_get_prec(y), u, c, (mpfr_ptr)0);
    mpfr_sqr(u, x, r);
    mpfr_set_str(c, "0.044715", 10, r);
    mpfr_mul(u, u, c, r);
    mpfr_add_ui(u, u, 1, r);
    mpfr_mul(u, u, x, r);
    mpfr_const_pi(c, r);
    mpfr_ui_div(c, 8, c, r);
    mpfr_sqrt(c, c, r);
    mpfr_mul(u, u, c, r);
    mpfr_sigmoid(u, u, r);
    mpfr_mul(y, x, u, r);
    mpfr_clears(u, c, (mpfr_ptr)0);
    return 0;
}

MPFR(exact_silu)
{
    mpfr_t s;
    mpfr_init2(s, mpfr_get_prec(y));
    mpfr_sigmoid(s, x, r);
    mpfr_mul(y, x, s, r);
    mpfr_clear(s);
    return 0;
}

MPFR(exact_softplus)
{
    mpfr_exp(y, x, r);
    return mpfr_log1p(y, y, r);
}

MPFR(exact_logsigmoid)
{
    mpfr_sigmoid(y, x, r);
    return mpfr_log(y, y, r);
}

MPFR(exact_mish)
{
    mpfr_t s;
    mpfr_init2(s, mpfr_get_prec(y));
    exact_softplus(s, x, r);
    mpfr_tanh(s, s, r);
    mpfr_mul(y, x, s, r);
    mpfr_clear(s);
    return 0;
}

MPFR(exact_elu)
{
    return mpfr_sgn(x) > 0 ? mpfr_set(y, x, r) : mpfr_expm1(y, x, r);
}

MPFR(exact_selu)
{
    exact_elu(y, x, r);
    if (mpfr_sgn(x) <= 0) {
        mpfr_mul_d(y, y, 1.6732632423543772, r);
    }
    return mpfr_mul_d(y, y, 1.0507009873554805, r);
}

MPFR(exact_softsign)
{
    mpfr_t d;
    mpfr_init2(d, mpfr_get_prec(y));
    mpfr_abs(d, x, r);
    mpfr_add_ui(d, d, 1, r);
    mpfr_div(y, x, d, r);
    mpfr_clear(d);
    return 0;
}

static tp_tensor *elu_1(tp_tensor *x)
{
    return tp_elu(x, 1);
}

/* y = x beside 1 - x, rounded. */
static bool is_single; /* what is being measured */

static tp_tensor *atan2_of(tp_tensor *x)
{
    return tp_atan2(x, tp_sub(tp_scalar_like(x, 1), x));
}

MPFR(exact_atan2)
{
    mpfr_t d;
    mpfr_init2(d, mpfr_get_prec(y));
    mpfr_ui_sub(d, 1, x, r);
    mpfr_set_d(d, is_single ? (double)mpfr_get_flt(d, r) : mpfr_get_d(d, r), r);
    mpfr_atan2(y, x, d, r);
    mpfr_clear(d);
    return 0;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

enum {
    OF_RESULT,
    OF_ARGUMENT,
    OF_ONE
}; /* the last two: of that, where it is greater than the result */

static const struct row {
    const char *name;
    tp_tensor *(*f)(tp_tensor *x);
    mpfr_unary exact;
    double limit32, limit64, lo, hi;
    int units;
} rows[] = {
    {"reciprocal", (tp_reciprocal), exact_reciprocal, 0.5, 0.5, -1e30, 1e30, OF_RESULT  },
    {"tan",        (tp_tan),        mpfr_tan,         2.5, 2.5, -100,  100,  OF_RESULT  },
    {"asin",       (tp_asin),       mpfr_asin,        4,   4,   -1,    1,    OF_RESULT  },
    {"acos",       (tp_acos),       mpfr_acos,        4,   4,   -1,    1,    OF_RESULT  },
    {"atan",       (tp_atan),       mpfr_atan,        3,   3,   -10,   10,   OF_RESULT  },
    {"atan2",      atan2_of,        exact_atan2,      4,   4,   -3,    3,    OF_RESULT  },
    {"sinh",       (tp_sinh),       mpfr_sinh,        4,   4,   -89,   89,   OF_RESULT  },
    {"cosh",       (tp_cosh),       mpfr_cosh,        4,   4,   -89,   89,   OF_RESULT  },
    {"asinh",      (tp_asinh),      mpfr_asinh,       4,   4,   -1e9,  1e9,  OF_RESULT  },
    {"acosh",      (tp_acosh),      mpfr_acosh,       4,   4,   1,     1e9,  OF_RESULT  },
    {"atanh",      (tp_atanh),      mpfr_atanh,       4,   4,   -1,    1,    OF_RESULT  },
    {"erfc",       (tp_erfc),       mpfr_erfc,        1,   6,   -6,    27,   OF_RESULT  },
    {"lgamma",     (tp_lgamma),     exact_lgamma,     1,   8,   0,     1000, OF_RESULT  },
    {"lgamma",     (tp_lgamma),     exact_lgamma,     2,   10,  -50,   0,    OF_ONE     },
    {"gelu",       (tp_gelu),       exact_gelu,       3,   3,   -20,   20,   OF_ARGUMENT},
    {"gelu_tanh",  (tp_gelu_tanh),  exact_gelu_tanh,  3,   3,   -20,   20,   OF_ARGUMENT},
    {"silu",       (tp_silu),       exact_silu,       3,   3,   -80,   80,   OF_RESULT  },
    {"softplus",   (tp_softplus),   exact_softplus,   3,   3,   -80,   80,   OF_RESULT  },
    {"logsigmoid", (tp_logsigmoid), exact_logsigmoid, 3,   3,   -80,   80,   OF_RESULT  },
    {"mish",       (tp_mish),       exact_mish,       5,   5,   -80,   80,   OF_RESULT  },
    {"elu",        elu_1,           exact_elu,        1.5, 1.5, -80,   10,   OF_RESULT  },
    {"selu",       (tp_selu),       exact_selu,       4,   4,   -80,   10,   OF_RESULT  },
    {"softsign",   (tp_softsign),   exact_softsign,   1.5, 1.5, -100,  100,  OF_RESULT  },
};

/* ---- measuring ----------------------------------------------------------------------------------------- */

static double draw(const struct row *r, bool single)
{
    double x = r->lo + (r->hi - r->lo) * unit_random();
    if (next_random() & 1) {
        const double size = exp2(-30 * unit_random());
        const double end = next_random() & 1 ? r->lo : r->hi;
        x = next_random() & 1 || r->lo > 0 ? end - (end - x) * size : x * size;
    }
    return single ? (double)(float)x : x;
}

/* The error of `got` at x, in units of the last place of what the row says. */
static double error_at(const struct row *r, double x, double got, bool single, mpfr_t in,
                       mpfr_t out)
{
    mpfr_set_d(in, x, MPFR_RNDN);
    r->exact(out, in, MPFR_RNDN);
    const int bits = single ? 24 : 53;
    const double e = ulp_error(got, out, bits, single ? -126 : -1022);
    const double unit = r->units == OF_ARGUMENT ? x : 1, y = mpfr_get_d(out, MPFR_RNDN);
    if (r->units == OF_RESULT || fabs(unit) <= fabs(y) || !isfinite(e)) {
        return e;
    }
    return ldexp(e, ilogb(y) - ilogb(unit));
}

enum { BATCH = 2000 };

static bool run(tp_ctx *tp, const struct row *r, bool single, int batches)
{
    double worst = -1, at = 0;
    is_single = single;
    static double x[BATCH];
    static float f[BATCH];
    mpfr_t in, out;
    mpfr_inits2(200, in, out, (mpfr_ptr)0);
    for (int i = 0; i < batches; i++) {
        for (int k = 0; k < BATCH; k++) {
            x[k] = draw(r, single);
            f[k] = (float)x[k];
        }
        tp_scope_begin(tp);
        const void *given = single ? (const void *)f : (const void *)x;
        const void *y =
            tp_data(r->f(tp_tensor_new(tp, single ? TP_F32 : TP_F64, TP_DIMS(BATCH), given)));
        for (int k = 0; k < BATCH; k++) {
            const double got = single ? (double)((const float *)y)[k] : ((const double *)y)[k];
            const double e = error_at(r, x[k], got, single, in, out);
            at = e > worst ? x[k] : at;
            worst = e > worst ? e : worst;
        }
        tp_scope_end(tp);
    }
    mpfr_clears(in, out, (mpfr_ptr)0);
    const double limit = single ? r->limit32 : r->limit64;
    printf("  %-10s %s  %7.4f  %5.2f  %-24a %s\n", r->name, single ? "f32" : "f64", worst,
           limit, at, worst <= limit ? "ok" : "TOO LARGE");
    return worst <= limit;
}

int main(int argc, char **argv)
{
    bool ok = true;
    int batches = 3;
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--long")) {
            batches = 100;
        } else {
            only = argv[i];
        }
    }
    tp_ctx *tp = tp_open(NULL);
    printf("largest errors in ULP (seed %llu)\n", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int single = 1; single >= 0 && (!only || !strcmp(only, rows[i].name)); single--) {
            ok &= run(tp, &rows[i], single, batches);
        }
    }
    tp_close(tp);
    mpfr_free_cache();
    return ok ? 0 : 1;
}
