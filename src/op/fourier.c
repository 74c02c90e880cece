/* Discrete Fourier transforms. The op transforms the last axis but one of x [..., n, 2], unscaled; roots of unity are an
 * operand, a constant. A length with a large prime factor is made a convolution of a length without one: L. I. Bluestein,
 * "A linear filtering approach to the computation of discrete Fourier transform" (1970). */
#include "base/float_mode.h"
#include "ir/factors.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"
#include "op/set_calls.h"
#include "op/stacks.h"
#include "tapir/linalg.h"

#include <stddef.h>

#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f32
#define S f32
#include "kernel/text/fourier.h"
#undef T
#undef S
#define T tpk_f64
#define S f64
#include "kernel/text/fourier.h"
#undef T
#undef S
#undef FN

typedef struct fft_attrs {
    int64_t inverse;
} fft_attrs;

static const tpi_attr fft_table[] = {
    {"inverse",           TPI_ATTR_BOOL, offsetof(fft_attrs, inverse)},
    {0},
};

static bool fft_infer(tpi_infer *q)
{
    const tp_tensor *x = q->in[0], *w = q->in[1];
    if (x->dtype < TP_F32 || w->dtype != x->dtype)
        return tpi_refuse(q, TP_E_DTYPE, "x is %s, the roots are %s: not floats of one type",
                          tp_dtype_name((tp_dtype)x->dtype), tp_dtype_name((tp_dtype)w->dtype));
    if (x->rank < 2 || x->shape[x->rank - 1] != 2 || w->rank != 2 ||
        w->shape[0] != x->shape[x->rank - 2] || w->shape[1] != 2)
        return tpi_refuse(q, TP_E_SHAPE, "x %s, roots %s", SHAPE(x), SHAPE(w));
    return tpi_infer_like(q, 0);
}

static void fft_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    if (k == 0)
        tpi_stack_factors(t, k, f);
}

/* Back with the roots the other way. */
static void fft_grad(tpi_grad *g)
{
    const fft_attrs *a = g->attrs, back = {.inverse = !a->inverse};
    tpi_give(g, 0, tpi_apply(g->at, &tpi_op_fft, TPI_IN(g->dy, g->x[1]), &back));
}

TPI_AVX2_CALLS(fft)

const tpi_op tpi_op_fft = {
    .name = "fft",
    .code = TPI_OP_fft,
    .n_in = 2,
    .kind = TPI_CALL,
    .attrs = fft_table,
    .attrs_size = sizeof(fft_attrs),
    .infer = fft_infer,
    .factors = fft_factors,
    .grad = fft_grad,
    .text = "fourier",
    .fn = "fft",
    .call = fft_calls,
    .isa_call = TPI_ISA_of_op,
};

/* ---- roots of unity ------------------------------------------------------------------------------- */

#undef TP_PLACE
#define TP_PLACE at.file, at.line

#if defined(__x86_64__)
void tpi_isa_fft_roots_f32_avx2(int64_t n, tpk_f32 *pairs);
void tpi_isa_fft_roots_f64_avx2(int64_t n, tpk_f64 *pairs);
#else
#define tpi_isa_fft_roots_f32_avx2 tpk_fft_roots_f32
#define tpi_isa_fft_roots_f64_avx2 tpk_fft_roots_f64
#endif

/* exp(-2 pi i k / n) as pairs [n, 2] of like's type, a constant. */
static tp_tensor *roots(tpi_at at, const tp_tensor *like, int64_t n)
{
    TPI_DEFAULT_FLOAT_MODE;
    const bool wide = like->dtype == TP_F64, set = like->ctx->kernels->set != TPI_SET_base;
    const size_t bytes = (size_t)n * 2 * (wide ? sizeof(double) : sizeof(float));
    void *pairs = tpi_take(&like->ctx->mem, bytes);
    if (!pairs)
        return tpi_no_memory(like->ctx, at, "fft");
    if (wide)
        (set ? tpi_isa_fft_roots_f64_avx2 : tpk_fft_roots_f64)(n, pairs);
    else
        (set ? tpi_isa_fft_roots_f32_avx2 : tpk_fft_roots_f32)(n, pairs);
    tp_tensor *w = tp_tensor_new(like->ctx, (tp_dtype)like->dtype, TP_DIMS(n, 2), pairs);
    tpi_give_back(&like->ctx->mem, pairs, bytes);
    return w;
}

/* exp(-pi i k k / n). */
static tp_tensor *chirp(tpi_at at, const tp_tensor *like, int64_t n)
{
    const size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *places = tpi_take(&like->ctx->mem, bytes);
    if (!places)
        return tpi_no_memory(like->ctx, at, "fft");
    for (int64_t k = 0, square = 0; k < n; k++) {
        places[k] = square;
        square = (square + 2 * k + 1) % (2 * n);
    }
    tp_tensor *index = tp_tensor_new(like->ctx, TP_I64, TP_DIMS(n), places);
    tpi_give_back(&like->ctx->mem, places, bytes);
    return tp_gather(roots(at, like, 2 * n), index, 0);
}

/* ---- a line of any length --------------------------------------------------------------------------- */

static tp_tensor *smooth(tpi_at at, tp_tensor *x, tp_tensor *w, bool inverse)
{
    const fft_attrs attrs = {.inverse = inverse};
    return tpi_apply(at, &tpi_op_fft, TPI_IN(x, w), &attrs);
}

/* n without its prime factors up to `most`. */
static int64_t without_factors(int64_t n, int64_t most)
{
    for (int64_t r = 2; r <= most && n > 1; r++)
        while (n % r == 0)
            n /= r;
    return n;
}

/* Pairs times pairs w [n, 2], part by part. */
static tp_tensor *times(tpi_at at, tp_tensor *x, tp_tensor *w)
{
    tp_tensor *re = tp_select(x, -1, 0), *im = tp_select(x, -1, 1);
    tp_tensor *c = tp_select(w, -1, 0), *s = tp_select(w, -1, 1);
    tp_tensor *both[] = {tp_sub(tp_mul(re, c), tp_mul(im, s)),
                         tp_add(tp_mul(re, s), tp_mul(im, c))};
    return tp_stack(2, both, -1);
}

static tp_tensor *conjugate(tpi_at at, tp_tensor *x)
{
    static const double sign[] = {1, -1};
    tp_tensor *s = tp_tensor_new(x->ctx, TP_F64, 1, (const int64_t[]){2}, sign);
    return tp_mul(x, tp_cast(s, (tp_dtype)x->dtype));
}

/* x [..., n, 2] with zeros behind, n becomes m. */
static tp_tensor *longer(tpi_at at, tp_tensor *x, int64_t n, int64_t m)
{
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    if (x->status != TP_OK)
        return x;
    hi[x->rank - 2] = m - n;
    return tp_pad(x, x->rank, lo, hi, 0);
}

/* With c[k] = exp(-pi i k k / n):  y[k] = c[k] sum over j of (x[j] c[j]) / c[k - j],  a convolution. */
static tp_tensor *bluestein(tpi_at at, tp_tensor *x, int64_t n, bool inverse)
{
    static const int64_t along[] = {0};
    int64_t m = 2 * n - 1;
    while (without_factors(m, 5) > 1)
        m++;
    tp_tensor *c = chirp(at, x, n), *w = roots(at, x, m), *back = conjugate(at, c);
    tp_tensor *mirrored = tp_flip(tp_slice(back, 0, 1, n, 1), 1, along);
    tp_tensor *ends[] = {longer(at, back, n, m - n + 1), mirrored};
    tp_tensor *filter = smooth(at, tp_concat(2, ends, 0), w, false);
    x = inverse ? conjugate(at, x) : x;
    tp_tensor *a = smooth(at, longer(at, times(at, x, c), n, m), w, false);
    tp_tensor *y = smooth(at, times(at, a, filter), w, true);
    y = times(at, tp_slice(tp_div(y, tp_scalar_like(y, (double)m)), -2, 0, n, 1), c);
    return inverse ? conjugate(at, y) : y;
}

/* Along the last axis but one. */
static tp_tensor *line(tpi_at at, tp_tensor *x, int64_t n, bool inverse)
{
    return without_factors(n, tpk_fft_most_f32) > 1 ? bluestein(at, x, n, inverse)
                                                    : smooth(at, x, roots(at, x, n), inverse);
}

/* ---- along an axis ---------------------------------------------------------------------------------- */

/* NULL, or the failed tensor: x, whose last axis is `pairs` when there are, is to be transformed along `axis`. */
static tp_tensor *refuse(tpi_at at, const char *what, tp_tensor *x, bool pairs, int *axis)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (failed)
        return failed;
    if (x->dtype < TP_F32)
        return tpi_fail(x->ctx, at, what, TP_E_DTYPE, "x is %s; tp_cast it to f32 or f64 first",
                        tp_dtype_name((tp_dtype)x->dtype));
    const int place = tpi_axis(*axis, x->rank);
    if (place < 0 || place >= x->rank - pairs)
        return tpi_fail(x->ctx, at, what, TP_E_AXIS, "axis %d is no axis of %s for x %s", *axis,
                        pairs ? "numbers" : "size", SHAPE(x));
    if (pairs && x->shape[x->rank - 1] != 2)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                        "x is %s: its last axis is not that of 2 parts", SHAPE(x));
    if (!pairs && x->rank == TP_MAX_RANK)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "x is %s: no room for an axis of 2 parts",
                        SHAPE(x));
    if (tpi_dim_is_symbolic(x->shape[place]))
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                        "axis %d of x %s is no number: a length has to be known", *axis,
                        SHAPE(x));
    *axis = place;
    return NULL;
}

static tp_tensor *transform(tpi_at at, tp_tensor *x, int axis, bool inverse)
{
    if (x->status != TP_OK)
        return x;
    const int64_t n = x->shape[axis];
    const bool turned = axis != x->rank - 2;
    tp_tensor *y = turned ? tp_swap(x, axis, -2) : x;
    y = n > 1 ? line(at, y, n, inverse) : y;
    if (inverse)
        y = tp_div(y, tp_scalar_like(y, n > 0 ? (double)n : 1));
    return turned ? tp_swap(y, axis, -2) : y;
}

tp_tensor *tp_fft_at(const char *file, int line, tp_tensor *x, int axis)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = refuse(at, "fft", x, true, &axis);
    return failed ? failed : transform(at, x, axis, false);
}
TPI_BARE(tp_tensor *, tp_fft, (tp_tensor * x, int axis), x, axis)

tp_tensor *tp_ifft_at(const char *file, int line, tp_tensor *x, int axis)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = refuse(at, "ifft", x, true, &axis);
    return failed ? failed : transform(at, x, axis, true);
}
TPI_BARE(tp_tensor *, tp_ifft, (tp_tensor * x, int axis), x, axis)

tp_tensor *tp_rfft_at(const char *file, int line, tp_tensor *x, int axis)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = refuse(at, "rfft", x, false, &axis);
    if (failed)
        return failed;
    tp_tensor *pairs[] = {x, tpi_zeros(at, x, x->rank, x->shape)};
    tp_tensor *y = transform(at, tp_stack(2, pairs, -1), axis, false);
    return tp_slice(y, axis, 0, x->shape[axis] / 2 + 1, 1);
}
TPI_BARE(tp_tensor *, tp_rfft, (tp_tensor * x, int axis), x, axis)

tp_tensor *tp_irfft_at(const char *file, int line, tp_tensor *x, int axis, int64_t n)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = refuse(at, "irfft", x, true, &axis);
    if (failed)
        return failed;
    if (tpi_is_spoilt(n))
        return tpi_fail_spoilt(x->ctx, at, "irfft", TP_E_VALUE, n);
    if (n < 1 || x->shape[axis] != n / 2 + 1)
        return tpi_fail(x->ctx, at, "irfft", TP_E_SHAPE, "x %s is no half of %lld numbers",
                        SHAPE(x), (long long)n);
    const int64_t along = axis;
    if (n > 2) { /* else there are no conjugates */
        tp_tensor *rest = tp_flip(tp_slice(x, axis, 1, (n + 1) / 2, 1), 1, &along);
        tp_tensor *both[] = {x, conjugate(at, rest)};
        x = tp_concat(2, both, axis);
    }
    return tp_select(transform(at, x, axis, true), -1, 0);
}
TPI_BARE(tp_tensor *, tp_irfft, (tp_tensor * x, int axis, int64_t n), x, axis, n)
