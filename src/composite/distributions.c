/* Distributions made of uniform and of whole random numbers, one draw each. */
#include "composite/composite.h"
#include "kernel/text/elem.h"

#include <math.h>

/* NULL, or the failed tensor to return when a maker of floats is asked for what is none. */
static tp_tensor *refuse_floats(tpi_at at, const char *what, tp_ctx *tp, tp_dtype dtype,
                                int rank, const int64_t *shape)
{
    tp_tensor *failed;
    if (!tpi_check_maker(tp, at, what, dtype, rank, shape, &failed))
        return failed;
    if (dtype >= TP_F32)
        return NULL;
    return tpi_fail(tp, at, what, TP_E_DTYPE, "%s is no type of floats", tp_dtype_name(dtype));
}

/* ---- exponential: -log(1 - u) / rate ------------------------------------------------------------------ */

static tp_tensor *refuse_rate(tpi_at at, tp_ctx *tp, tp_dtype dtype, double rate)
{
    const double least = dtype == TP_F32 ? 0x1p-100 : 0x1p-960;
    if (tpi_is_near_handle(tp, rate))
        return tpi_fail_near_handle(tp, at, "exponential", rate);
    if (rate >= least && rate <= 1 / least)
        return NULL;
    return tpi_fail(tp, at, "exponential", TP_E_VALUE, "the rate is %g, not in [%g, %g]", rate,
                    least, 1 / least);
}

/* u = 0 stands for what is below the next number, in whose middle it is taken to lie. */
static tp_tensor *exponential_of(tpi_at at, tp_tensor *u, double rate)
{
    const double middle = tp_dtype_of(u) == TP_F32 ? 0x1p-25 : 0x1p-54;
    tp_tensor *x = tp_clip_min(tp_neg(tp_log1p(tp_neg(u))), middle);
    return tp_div(x, tp_scalar_like(x, rate));
}

TPI_COMPOSITE(tp_exponential,
              (tp_ctx * tp, tp_dtype dtype, int rank, const int64_t *shape, double rate), tp,
              dtype, rank, shape, rate)
{
    tp_tensor *failed = refuse_floats(at, "exponential", tp, dtype, rank, shape);
    if (failed || (failed = refuse_rate(at, tp, dtype, rate)))
        return failed;
    return exponential_of(at, tp_uniform(tp, dtype, rank, shape, 0, 1), rate);
}

TPI_FLOAT_COMPOSITE(exponential_like, (tp_tensor * x, double rate), x, rate)
{
    tp_tensor *failed = refuse_rate(at, x->ctx, (tp_dtype)x->dtype, rate);
    return failed ? failed : exponential_of(at, tp_uniform_like(x, 0, 1), rate);
}

/* ---- truncated normal: the normal's inverse, of a uniform number between its values at the ends ------- */

typedef struct truncated {
    double centre, stddev, lo, hi;
    double least, most; /* erf of the ends, in deviations over sqrt(2) */
} truncated;

static const double root = 1.4142135623730951;

/* Fills least and most. */
static tp_tensor *refuse_truncated(tpi_at at, tp_ctx *tp, tp_dtype dtype, truncated *t)
{
    const char *what = "truncated_normal";
    const double numbers[] = {t->centre, t->stddev, t->lo, t->hi};
    const double most = dtype == TP_F32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
    for (int i = 0; i < 4; i++)
        if (tpi_is_near_handle(tp, numbers[i]))
            return tpi_fail_near_handle(tp, at, what, numbers[i]);
    if (!(fabs(t->centre) <= most && t->stddev > 0 && t->stddev <= most / 2 && t->lo < t->hi))
        return tpi_fail(tp, at, what, TP_E_VALUE,
                        "no normal numbers of mean %g and deviation %g in [%g, %g]", t->centre,
                        t->stddev, t->lo, t->hi);
    const double next = dtype == TP_F32 ? 0x1p-24 : 0x1p-53;
    t->least = tpk_erf_f64((t->lo - t->centre) / (t->stddev * root));
    t->least = t->least > next - 1 ? t->least : next - 1; /* -1 would be infinite */
    t->most = tpk_erf_f64((t->hi - t->centre) / (t->stddev * root));
    if (t->most - t->least >= 0.002)
        return NULL;
    return tpi_fail(tp, at, what, TP_E_VALUE,
                    "[%g, %g] has less than a thousandth of the normal numbers of mean %g and "
                    "deviation %g",
                    t->lo, t->hi, t->centre, t->stddev);
}

static tp_tensor *truncated_of(tpi_at at, tp_tensor *u, const truncated *t)
{
    tp_tensor *x = tp_mul(tp_erfinv(u), tp_scalar_like(u, t->stddev * root));
    return tp_clip(tp_add(x, tp_scalar_like(x, t->centre)), t->lo, t->hi);
}

TPI_COMPOSITE(tp_truncated_normal,
              (tp_ctx * tp, tp_dtype dtype, int rank, const int64_t *shape, double mean,
               double stddev, double lo, double hi),
              tp, dtype, rank, shape, mean, stddev, lo, hi)
{
    truncated t = {.centre = mean, .stddev = stddev, .lo = lo, .hi = hi};
    tp_tensor *failed = refuse_floats(at, "truncated_normal", tp, dtype, rank, shape);
    if (failed || (failed = refuse_truncated(at, tp, dtype, &t)))
        return failed;
    return truncated_of(at, tp_uniform(tp, dtype, rank, shape, t.least, t.most), &t);
}

TPI_FLOAT_COMPOSITE(truncated_normal_like,
                    (tp_tensor * x, double mean, double stddev, double lo, double hi), x, mean,
                    stddev, lo, hi)
{
    truncated t = {.centre = mean, .stddev = stddev, .lo = lo, .hi = hi};
    tp_tensor *failed = refuse_truncated(at, x->ctx, (tp_dtype)x->dtype, &t);
    return failed ? failed : truncated_of(at, tp_uniform_like(x, t.least, t.most), &t);
}

/* ---- permutation: the order of draws of 64 bits --------------------------------------------------------- */

TPI_COMPOSITE(tp_permutation, (tp_ctx * tp, int64_t n), tp, n)
{
    tp_tensor *failed;
    if (!tpi_check_maker(tp, at, "permutation", TP_I64, 1, &n, &failed))
        return failed;
    return tp_argsort(tp_randint(tp, TP_I64, 1, &n, INT64_MIN, INT64_MAX), 0, false);
}

TPI_COMPOSITE(tp_permutation_like, (tp_tensor * x, int axis), x, axis)
{
    tp_tensor *failed;
    const int own = tpi_own_axis(at, "permutation_like", x, axis, &failed);
    if (own < 0)
        return failed;
    tp_tensor *like = tp_broadcast(tpi_whole(at, x, 0), 1, &x->shape[own]);
    return tp_argsort(tp_randint_like(like, INT64_MIN, INT64_MAX), 0, false);
}

/* ---- bernoulli -------------------------------------------------------------------------------------------- */

TPI_FLOAT_COMPOSITE(bernoulli, (tp_tensor * x), x)
{
    tp_tensor *is = tp_cast(tp_lt(tp_uniform_like(x, 0, 1), x), (tp_dtype)x->dtype);
    tp_tensor *is_probability =
        tp_and(tp_ge(x, tp_scalar_like(x, 0)), tp_le(x, tp_scalar_like(x, 1)));
    return tp_where(is_probability, is, tp_scalar_like(x, (double)NAN));
}

/* ---- categorical: the class within whose part of the sum of exponentials a uniform number lies ----------- */

/* Of [..., n] numbers v how many of the sums are not above: at most as many as there are when v is NaN. Few are
 * compared with all sums, many are sorted among them. */
static tp_tensor *class_at(tpi_at at, tp_tensor *sums, tp_tensor *v, int64_t n)
{
    if (n < 0 || n > 32) /* below 0: a size that a run binds */
        return tp_searchsorted(sums, v, true);
    tp_tensor *above = tp_gt(tp_unsqueeze(sums, -2), tp_unsqueeze(v, -1));
    const int64_t last = -1;
    return tp_sum(tp_cast(tp_not(above), TP_I64), 1, &last, false);
}

TPI_FLOAT_COMPOSITE(categorical, (tp_tensor * x, int64_t n), x, n)
{
    const char *what = "categorical";
    int64_t shape[TP_MAX_RANK];
    const int last = x->rank - 1;
    tp_tensor *failed = tpi_refuse_size(at, what, "n", x, n);
    if (failed ||
        (!tpi_dim_is_symbolic(n) && (failed = tpi_refuse_count(at, what, x, "n", n, 0))))
        return failed;
    if (last < 0 || x->shape[last] == 0)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "logits %s have no classes", SHAPE(x));
    tp_tensor *wide = tp_cast(x, TP_F64);
    tp_tensor *most = tp_reduce_max(wide, 1, (int64_t[]){last}, true);
    tp_tensor *sums = tp_cumsum(tp_exp(tp_sub(wide, most)), last, false, false);
    for (int i = 0; i < last; i++)
        shape[i] = x->shape[i];
    shape[last] = n;
    /* below the last sum, since a number below 1 times it is rounded to one below it */
    tp_tensor *all =
        tp_broadcast(tp_unsqueeze(tp_select(sums, last, -1), last), x->rank, shape);
    tp_tensor *class = class_at(at, sums, tp_mul(tp_uniform_like(all, 0, 1), all), n);
    const int64_t bad =
        tpi_is_here(class) ? tpi_first_outside(class, 0, 0, x->shape[last] - 1) : 0;
    if (tpi_is_here(class) && bad < tpi_count(class))
        return tpi_fail(x->ctx, at, what, TP_E_VALUE,
                        "line %lld of the logits %s has a NaN or infinity, or only -infinity",
                        (long long)(bad / n), SHAPE(x));
    return tp_gather(tpi_iota(at, x, x->shape[last]), class, 0); /* refuses one too many */
}
