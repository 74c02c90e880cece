/* Results beside expected ones, by the rule of ONNX's own runner: |got - want| <= atol + rtol *
 * |want|; a NaN is near a NaN, an infinity near itself. Integers and bools have to be equal. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct exception {
    const char *name;
    bool prefix; /* and all that begin so */
    tolerance t;
} exception;

/* Cases that ONNX's runner, or its reference implementation, compares otherwise. */
static const exception exceptions[] = {
    {"light_densenet121",           false, {RULE_NEAR, 2e-3, 1e-7}},
    {"test_dft",                    false, {RULE_NEAR, 1e-3, 1e-6}}, /* float32 transforms */
    {"test_dft_axis",               false, {RULE_NEAR, 1e-3, 1e-6}},
    {"test_dft_inverse",            false, {RULE_NEAR, 1e-3, 1e-6}},
    {"test_dft_opset19",            false, {RULE_NEAR, 1e-3, 1e-6}},
    {"test_dft_axis_opset19",       false, {RULE_NEAR, 1e-3, 1e-6}},
    {"test_dft_inverse_opset19",    false, {RULE_NEAR, 1e-3, 1e-6}},
    {"test_celu_bfloat16_expanded", false, {RULE_NEAR, 1e-2, 1e-2}}, /* rounds at every step */
    {"test_bernoulli",              true,  {RULE_BERNOULLI, 0, 0} },
    {"test_training_dropout_zero",  true,  {RULE_NEAR, 1e-3, 1e-7}},
    {"test_training_dropout",       true,  {RULE_DROPOUT, 0, 0}   },
};

tolerance case_tolerance(const char *name)
{
    const char *last = strrchr(name, '/');
    last = last ? last + 1 : name;
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++) {
        const exception *e = &exceptions[i];
        if (e->prefix ? strncmp(last, e->name, strlen(e->name)) == 0
                      : strcmp(last, e->name) == 0)
            return e->t;
    }
    return (tolerance){RULE_NEAR, 1e-3, 1e-7};
}

static void put_type(const tp_tensor *t, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s[", tp_dtype_name(tp_dtype_of(t)));
    for (int i = 0; i < tp_rank(t) && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? "," : "",
                              (long long)tp_size(t, i));
    if (n < size)
        snprintf(out + n, size - n, "]");
}

static double element(tp_dtype dtype, const void *p)
{
    union {
        float f32;
        double f64;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } v;
    memcpy(&v, p, tp_dtype_size(dtype));
    switch (dtype) {
    case TP_F32:
        return v.f32;
    case TP_F64:
        return v.f64;
    case TP_I8:
        return v.i8;
    case TP_I16:
        return v.i16;
    case TP_I32:
        return v.i32;
    case TP_I64:
        return (double)v.i64;
    case TP_BOOL:
    case TP_U8:
        return v.u8;
    case TP_U16:
        return v.u16;
    case TP_U32:
        return v.u32;
    case TP_U64:
        return (double)v.u64;
    default:
        return NAN;
    }
}

static bool near(double got, double want, const tolerance *t)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want))
        return got == want;
    return fabs(got - want) <= t->atol + t->rtol * fabs(want);
}

/* Of a tensor of t's shape: "[1,0,2]". */
static void put_index(const tp_tensor *t, int64_t at, char *out, size_t size)
{
    int64_t index[TP_MAX_RANK] = {0};
    for (int i = tp_rank(t) - 1; i >= 0; i--) {
        index[i] = at % tp_size(t, i);
        at /= tp_size(t, i);
    }
    size_t n = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < tp_rank(t) && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? "," : "", (long long)index[i]);
    if (n < size)
        snprintf(out + n, size - n, "]");
}

static bool compare_elements(const tp_tensor *got, const tp_tensor *want, const tolerance *t,
                             char *why, size_t size)
{
    const tp_dtype dtype = tp_dtype_of(got);
    const size_t step = tp_dtype_size(dtype), count = (size_t)tp_count(got);
    const bool is_float = dtype == TP_F32 || dtype == TP_F64;
    char *a = malloc(count * step + 1), *b = malloc(count * step + 1);
    bool ok = a && b && tp_read(got, a, count * step) == TP_OK &&
              tp_read(want, b, count * step) == TP_OK;
    if (!ok)
        snprintf(why, size, "out of memory");
    size_t n_bad = 0, first = 0;
    for (size_t i = 0; i < count && ok; i++) {
        const char *x = a + i * step, *y = b + i * step;
        const bool same =
            is_float ? near(element(dtype, x), element(dtype, y), t) : memcmp(x, y, step) == 0;
        if (!same && n_bad++ == 0)
            first = i;
    }
    if (n_bad) {
        char index[100];
        put_index(got, (int64_t)first, index, sizeof index);
        snprintf(why, size, "element %s is %.9g, expected %.9g; %zu of %zu differ", index,
                 element(dtype, a + first * step), element(dtype, b + first * step), n_bad,
                 count);
    }
    free(a);
    free(b);
    return ok && n_bad == 0;
}

bool case_compare(const tp_tensor *got, const tp_tensor *want, const tolerance *t, char *why,
                  size_t size)
{
    char a[200], b[200];
    put_type(got, a, sizeof a);
    put_type(want, b, sizeof b);
    if (strcmp(a, b) != 0) {
        snprintf(why, size, "it is %s, expected %s", a, b);
        return false;
    }
    return t->rule != RULE_NEAR || compare_elements(got, want, t, why, size);
}

/* ---- what is drawn at random ----------------------------------------------------------------- */

/* Its elements, or those of a rank-0 tensor n times; NULL: no memory, or others. Freed by free(). */
static double *elements(const tp_tensor *t, size_t n)
{
    const size_t step = tp_dtype_size(tp_dtype_of(t)), count = (size_t)tp_count(t);
    char *bytes = malloc(count * step + 1);
    double *v = malloc(n * sizeof *v + 1);
    const bool ok = bytes && v && (count == n || tp_rank(t) == 0) &&
                    tp_read(t, bytes, count * step) == TP_OK;
    for (size_t i = 0; i < n && ok; i++)
        v[i] = element(tp_dtype_of(t), bytes + (count == n ? i : 0) * step);
    free(bytes);
    if (ok)
        return v;
    free(v);
    return NULL;
}

/* A draw: what it is when it is kept, how often that should be, what it is. */
typedef struct draws {
    size_t n;
    double *kept, *chance, *got;
} draws;

/* As many are kept as should be, within six standard deviations? */
static bool right_number(const draws *d, char *why, size_t size)
{
    double n_kept = 0, mean = 0, variance = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (d->kept[i] == 0)
            continue;
        n_kept += d->got[i] != 0;
        mean += d->chance[i];
        variance += d->chance[i] * (1 - d->chance[i]);
    }
    const bool good = fabs(n_kept - mean) <= 6 * sqrt(variance) + 1e-3;
    if (!good)
        snprintf(why, size, "%g of %zu are drawn, where about %g should be", n_kept, d->n,
                 mean);
    return good;
}

static bool right_draws(const draws *d, const tp_tensor *out, char *why, size_t size)
{
    for (size_t i = 0; i < d->n; i++) {
        const double got = d->got[i], kept = d->kept[i];
        if (got == 0 || fabs(got - kept) <= 1e-3 * fabs(kept))
            continue;
        char index[100];
        put_index(out, (int64_t)i, index, sizeof index);
        snprintf(why, size, "element %s is %.9g, which is neither 0 nor %.9g", index, got,
                 kept);
        return false;
    }
    return right_number(d, why, size);
}

/* The mask says what is kept. */
static bool right_mask(const draws *d, const tp_tensor *mask, char *why, size_t size)
{
    double *m = elements(mask, d->n);
    bool good = m;
    for (size_t i = 0; i < d->n && good; i++)
        good = d->kept[i] == 0 || (m[i] != 0) == (d->got[i] != 0);
    free(m);
    if (!good)
        snprintf(why, size, "the mask is not that of the output");
    return good;
}

bool case_compare_random(case_rule rule, int n_in, tp_tensor *const *in, int n_out,
                         tp_tensor *const *out, char *why, size_t size)
{
    const size_t n = n_out > 0 ? (size_t)tp_count(out[0]) : 0;
    const bool drops = rule == RULE_DROPOUT, given = drops && n_in > 1;
    snprintf(why, size, "the inputs are not those of such a case, or out of memory");
    if (n_in < 1 || n_out < 1)
        return false;
    draws d = {n, elements(in[0], n), elements(in[given], n), elements(out[0], n)};
    bool good = d.kept && d.chance && d.got;
    for (size_t i = 0; i < n && good; i++) {
        if (drops) {
            d.chance[i] = 1 - (given ? d.chance[i] : 0.5);
            d.kept[i] /= d.chance[i];
        } else {
            d.kept[i] = 1;
        }
    }
    good = good && right_draws(&d, out[0], why, size) &&
           (!drops || n_out < 2 || right_mask(&d, out[1], why, size));
    free(d.kept);
    free(d.chance);
    free(d.got);
    return good;
}
