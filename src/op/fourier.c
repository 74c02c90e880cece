/* Discrete Fourier transforms. The ops are of f64: what is f32 is transformed in it and rounded once, which takes no longer,
 * as numbers are joined one by one. fft transforms the last axis but one of x [..., n, 2], unscaled; roots of unity are an
 * operand, a constant. A length with a large prime factor is made a convolution of a length without one: L. I. Bluestein,
 * "A linear filtering approach to the computation of discrete Fourier transform" (1970). */
#include "base/float_mode.h"
#include "ir/factors.h"
#include "op/set_calls.h"
#include "op/sizes.h"
#include "tapir/linalg.h"

#include <stddef.h>

typedef struct fft_attrs {
    int64_t inverse, factors;
} fft_attrs;

enum { BEFORE = 1, AFTER = 2 }; /* of `factors` */

static const tpi_attr fft_table[] = {
    {"inverse",           TPI_ATTR_BOOL, offsetof(fft_attrs, inverse)},
    {"factors", TPI_ATTR_INT, offsetof(fft_attrs, factors)},
    {0                  },
};

/* Are all operands f64, and is each but x, which has to have `own` axes, pairs? */
static bool infer_operands(tpi_infer *q, int n_in, int own)
{
    const tp_tensor *x = q->in[0];
    if (q->n_in != n_in)
        return tpi_refuse(q, TP_E_VALUE, "%d operands, not %d", q->n_in, n_in);
    if (x->rank < own)
        return tpi_refuse(q, TP_E_SHAPE, "x %s has less than %d axes", SHAPE(x), own);
    for (int i = 0; i < n_in; i++) {
        const tp_tensor *t = q->in[i];
        if (t->dtype != TP_F64)
            return tpi_refuse(q, TP_E_DTYPE, "operand %d is %s, not f64", i,
                              tp_dtype_name((tp_dtype)t->dtype));
        if (i > 0 && (t->rank != 2 || t->shape[1] != 2 || tpi_dim_is_symbolic(t->shape[0])))
            return tpi_refuse(q, TP_E_SHAPE, "operand %d is %s, not [n, 2]", i, SHAPE(t));
    }
    return true;
}

static bool fft_infer(tpi_infer *q)
{
    const fft_attrs *a = q->attrs;
    if (a->factors < 0 || a->factors > (BEFORE | AFTER))
        return tpi_refuse(q, TP_E_VALUE, "factors %lld", (long long)a->factors);
    const int before = a->factors & BEFORE, after = a->factors & AFTER ? 1 : 0;
    if (!infer_operands(q, 2 + before + after, 2))
        return false;
    const tp_tensor *x = q->in[0], *w = q->in[1];
    const int64_t given = x->shape[x->rank - 2];
    if (x->shape[x->rank - 1] != 2 || tpi_dim_is_symbolic(given) || given > w->shape[0])
        return tpi_refuse(q, TP_E_SHAPE, "x %s, roots %s", SHAPE(x), SHAPE(w));
    if ((before && q->in[2]->shape[0] != given) ||
        (after && q->in[2 + before]->shape[0] != w->shape[0]))
        return tpi_refuse(q, TP_E_SHAPE, "x %s, roots %s, factors %s", SHAPE(x), SHAPE(w),
                          SHAPE(q->in[before && q->in[2]->shape[0] != given ? 2 : 2 + before]));
    tpi_infer_like(q, 0);
    q->shape[q->rank - 2] = w->shape[0];
    return true;
}

/* Lines are passed; an operand of roots or factors is needed whole. */
static void fft_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    tpi_pass_axes(f, 0, k == 0 ? t->in[0]->rank - 2 : 0, 0);
}

static void rfft_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    tpi_pass_axes(f, 0, k == 0 ? t->in[0]->rank - 1 : 0, 0);
}

static tp_tensor *conjugate(tpi_at at, tp_tensor *x);
static tp_tensor *longer(tpi_at at, tp_tensor *x, int64_t n, int64_t m);

#undef TP_PLACE
#define TP_PLACE at.file, at.line

/* Back with the roots the other way, from the conjugate of what y was multiplied by to that of x's. */
static void fft_grad(tpi_grad *g)
{
    const tpi_at at = g->at;
    const fft_attrs *a = g->attrs;
    const int before = a->factors & BEFORE, after = a->factors & AFTER ? 1 : 0;
    const int64_t given = g->x[0]->shape[g->x[0]->rank - 2], n = g->x[1]->shape[0];
    const fft_attrs back = {!a->inverse, (before ? AFTER : 0) | (after ? BEFORE : 0)};
    tp_tensor *in[4] = {g->dy, g->x[1]};
    if (after)
        in[2] = conjugate(at, g->x[2 + before]);
    if (before)
        in[2 + after] = longer(at, conjugate(at, g->x[2]), given, n);
    tp_tensor *dx = tpi_apply(at, &tpi_op_fft, 2 + before + after, in, &back);
    tpi_give(g, 0, given < n ? tp_slice(dx, -2, 0, given, 1) : dx);
}

#if defined(__x86_64__)
#define CALLS(name)                                                                            \
    extern tpi_isa_call_fn tpi_isa_##name##_f64_base, tpi_isa_##name##_f64_avx2;               \
    static const tpi_call name##_calls[TP_N_DTYPES + 2 * TPI_N_SETS] = {                       \
        [TP_F64] = tpi_isa_##name##_f64_base,                                                  \
        TPI_CALL_AT(avx2, 1) = tpi_isa_##name##_f64_avx2,                                      \
        TPI_CALL_AT(avx512, 1) = tpi_isa_##name##_f64_avx2};
#else
#define CALLS(name)                                                                            \
    extern tpi_isa_call_fn tpi_isa_##name##_f64_base;                                          \
    static const tpi_call name##_calls[TP_N_DTYPES + 2 * TPI_N_SETS] = {                       \
        [TP_F64] = tpi_isa_##name##_f64_base};
#endif
#define OP(name_, ...)                                                                         \
    const tpi_op tpi_op_##name_ = {.name = #name_,                                             \
                                   .code = TPI_OP_##name_,                                     \
                                   .kind = TPI_CALL,                                           \
                                   .attrs = name_##_table,                                     \
                                   .attrs_size = sizeof(name_##_attrs),                        \
                                   .infer = name_##_infer,                                     \
                                   .batch = TPI_BATCH_TABLES,                                  \
                                   .linear = TPI_LINEAR_IN_EACH,                               \
                                   .grad = name_##_grad,                                       \
                                   .text = "fourier",                                          \
                                   .fn = #name_,                                               \
                                   .call = name_##_calls,                                      \
                                   .isa_call = TPI_ISA_of_op,                                  \
                                   __VA_ARGS__}

CALLS(fft)
OP(fft, .n_in = -1, .factors = fft_factors);

/* ---- of real numbers: each of the two ops is, but for a factor of its inner numbers, what the other is transposed ---- */

typedef struct rfft_attrs {
    int64_t doubled;
} rfft_attrs;

static const tpi_attr rfft_table[] = {
    {"doubled",            TPI_ATTR_BOOL, offsetof(rfft_attrs, doubled)},
    {0},
};

typedef struct irfft_attrs {
    int64_t halved;
} irfft_attrs;

static const tpi_attr irfft_table[] = {
    {"halved",              TPI_ATTR_BOOL, offsetof(irfft_attrs, halved)},
    {0},
};

static bool rfft_infer(tpi_infer *q)
{
    if (!infer_operands(q, 2, 1))
        return false;
    const tp_tensor *x = q->in[0], *w = q->in[1];
    const int64_t n = w->shape[0];
    if (x->shape[x->rank - 1] != n || n < 2 || n % 2 != 0 || x->rank == TP_MAX_RANK)
        return tpi_refuse(q, TP_E_SHAPE, "x %s, roots %s", SHAPE(x), SHAPE(w));
    tpi_infer_like(q, 0);
    q->shape[q->rank - 1] = n / 2 + 1;
    q->shape[q->rank++] = 2;
    return true;
}

static bool irfft_infer(tpi_infer *q)
{
    if (!infer_operands(q, 2, 2))
        return false;
    const tp_tensor *x = q->in[0], *w = q->in[1];
    const int64_t n = w->shape[0];
    if (x->shape[x->rank - 1] != 2 || n < 2 || n % 2 != 0 || x->shape[x->rank - 2] != n / 2 + 1)
        return tpi_refuse(q, TP_E_SHAPE, "x %s, roots %s", SHAPE(x), SHAPE(w));
    tpi_infer_like(q, 0);
    q->shape[--q->rank - 1] = n;
    return true;
}

static void rfft_grad(tpi_grad *g)
{
    const rfft_attrs *a = g->attrs;
    const irfft_attrs back = {.halved = !a->doubled};
    tpi_give(g, 0, tpi_apply(g->at, &tpi_op_irfft, TPI_IN(g->dy, g->x[1]), &back));
}

static void irfft_grad(tpi_grad *g)
{
    const irfft_attrs *a = g->attrs;
    const rfft_attrs back = {.doubled = !a->halved};
    tpi_give(g, 0, tpi_apply(g->at, &tpi_op_rfft, TPI_IN(g->dy, g->x[1]), &back));
}

CALLS(rfft)
OP(rfft, .n_in = 2, .factors = rfft_factors);
CALLS(irfft)
OP(irfft, .n_in = 2, .factors = fft_factors);

/* ---- roots of unity ------------------------------------------------------------------------------- */

void tpi_isa_fft_roots_base(int64_t n, tpk_f64 *pairs);
#if defined(__x86_64__)
void tpi_isa_fft_roots_avx2(int64_t n, tpk_f64 *pairs);
#else
#define tpi_isa_fft_roots_avx2 tpi_isa_fft_roots_base
#endif

/* exp(-2 pi i k / n) as pairs [n, 2] of f64, a constant. */
static tp_tensor *roots(tpi_at at, tp_ctx *ctx, int64_t n)
{
    TPI_DEFAULT_FLOAT_MODE;
    const size_t bytes = (size_t)n * 2 * sizeof(double);
    double *pairs = tpi_take(&ctx->mem, bytes);
    if (!pairs)
        return tpi_no_memory(ctx, at, "fft");
    (ctx->kernels->set != TPI_SET_base ? tpi_isa_fft_roots_avx2
                                       : tpi_isa_fft_roots_base)(n, pairs);
    tp_tensor *w = tp_tensor_new(ctx, TP_F64, TP_DIMS(n, 2), pairs);
    tpi_give_back(&ctx->mem, pairs, bytes);
    return w;
}

/* exp(-pi i k k / n). */
static tp_tensor *chirp(tpi_at at, tp_ctx *ctx, int64_t n)
{
    const size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *places = tpi_take(&ctx->mem, bytes);
    if (!places)
        return tpi_no_memory(ctx, at, "fft");
    for (int64_t k = 0, square = 0; k < n; k++) {
        places[k] = square;
        square = (square + 2 * k + 1) % (2 * n);
    }
    tp_tensor *index = tp_tensor_new(ctx, TP_I64, TP_DIMS(n), places);
    tpi_give_back(&ctx->mem, places, bytes);
    return tp_gather(roots(at, ctx, 2 * n), index, 0);
}

/* ---- a line of any length --------------------------------------------------------------------------- */

/* n without its prime factors up to `most`. */
static int64_t without_factors(int64_t n, int64_t most)
{
    for (int64_t r = 2; r <= most && n > 1; r++)
        while (n % r == 0)
            n /= r;
    return n;
}

static bool is_smooth(int64_t n)
{
    return without_factors(n, TPI_FFT_MOST) == 1;
}

static tp_tensor *conjugate(tpi_at at, tp_tensor *x)
{
    static const double sign[] = {1, -1};
    tp_tensor *s = tp_tensor_new(x->ctx, TP_F64, 1, (const int64_t[]){2}, sign);
    return tp_mul(x, s);
}

/* x [n, 2] with zeros behind, n becomes m. */
static tp_tensor *longer(tpi_at at, tp_tensor *x, int64_t n, int64_t m)
{
    const int64_t lo[] = {0, 0}, hi[] = {m - n, 0};
    return tp_pad(x, 2, lo, hi, 0);
}

/* The least product of powers of 2 and 3 that is at least n. */
static int64_t smooth_from(int64_t n)
{
    int64_t least = INT64_MAX;
    for (int64_t threes = 1; threes < 3 * n; threes *= 3) {
        int64_t m = threes;
        while (m < n)
            m *= 2;
        least = m < least ? m : least;
    }
    return least;
}

/* With c[k] = exp(-pi i k k / n):  y[k] = c[k] sum over j of (x[j] c[j]) / c[k - j],  a convolution of numbers with 1 / c.
 * Inverse: with the conjugate of c. */
static tp_tensor *bluestein(tpi_at at, tp_tensor *x, int64_t n, bool inverse)
{
    static const int64_t along[] = {0};
    static const fft_attrs plain = {0}, there = {false, BEFORE}, back = {true, BEFORE | AFTER};
    const int64_t m = smooth_from(2 * n - 1);
    tp_tensor *w = roots(at, x->ctx, m), *c = chirp(at, x->ctx, n), *over = conjugate(at, c);
    if (inverse) {
        tp_tensor *const was = c;
        c = over;
        over = was;
    }
    tp_tensor *mirrored = tp_flip(tp_slice(over, 0, 1, n, 1), 1, along);
    tp_tensor *ends[] = {longer(at, over, n, m - n + 1), mirrored};
    tp_tensor *filter = tpi_apply(at, &tpi_op_fft, TPI_IN(tp_concat(2, ends, 0), w), &plain);
    filter = tp_div(filter, tp_scalar_like(filter, (double)m));
    tp_tensor *a = tpi_apply(at, &tpi_op_fft, TPI_IN(x, w, c), &there);
    tp_tensor *y = tpi_apply(at, &tpi_op_fft, TPI_IN(a, w, filter, longer(at, c, n, m)), &back);
    return tp_slice(y, -2, 0, n, 1);
}

/* Along the last axis but one. */
static tp_tensor *line(tpi_at at, tp_tensor *x, int64_t n, bool inverse)
{
    const fft_attrs attrs = {.inverse = inverse};
    return is_smooth(n) ? tpi_apply(at, &tpi_op_fft, TPI_IN(x, roots(at, x->ctx, n)), &attrs)
                        : bluestein(at, x, n, inverse);
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

/* y, of f64, in the type of `like`. */
static tp_tensor *narrowed(tpi_at at, tp_tensor *y, const tp_tensor *like)
{
    return tp_cast(y, (tp_dtype)like->dtype);
}

tp_tensor *tp_fft_at(const char *file, int line, tp_tensor *x, int axis)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = refuse(at, "fft", x, true, &axis);
    return failed ? failed : narrowed(at, transform(at, tp_cast(x, TP_F64), axis, false), x);
}
TPI_BARE(tp_tensor *, tp_fft, (tp_tensor * x, int axis), x, axis)

tp_tensor *tp_ifft_at(const char *file, int line, tp_tensor *x, int axis)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = refuse(at, "ifft", x, true, &axis);
    return failed ? failed : narrowed(at, transform(at, tp_cast(x, TP_F64), axis, true), x);
}
TPI_BARE(tp_tensor *, tp_ifft, (tp_tensor * x, int axis), x, axis)

/* Are n real numbers transformed as n / 2 pairs? */
static bool halves(int64_t n)
{
    return n > 0 && n % 2 == 0 && is_smooth(n / 2);
}

static tp_tensor *rfft_of(tpi_at at, tp_tensor *x, int axis)
{
    const int64_t n = x->shape[axis];
    if (halves(n)) {
        static const rfft_attrs attrs = {0};
        x = axis == x->rank - 1 ? x : tp_swap(x, axis, -1);
        x = tpi_apply(at, &tpi_op_rfft, TPI_IN(x, roots(at, x->ctx, n)), &attrs);
        return axis == x->rank - 2 ? x : tp_swap(x, axis, -2);
    }
    tp_tensor *pairs[] = {x, tpi_zeros(at, x, x->rank, x->shape)};
    tp_tensor *y = transform(at, tp_stack(2, pairs, -1), axis, false);
    return tp_slice(y, axis, 0, n / 2 + 1, 1);
}

tp_tensor *tp_rfft_at(const char *file, int line, tp_tensor *x, int axis)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = refuse(at, "rfft", x, false, &axis);
    return failed ? failed : narrowed(at, rfft_of(at, tp_cast(x, TP_F64), axis), x);
}
TPI_BARE(tp_tensor *, tp_rfft, (tp_tensor * x, int axis), x, axis)

static tp_tensor *irfft_of(tpi_at at, tp_tensor *x, int axis, int64_t n)
{
    const int64_t along = axis;
    if (halves(n)) {
        static const irfft_attrs attrs = {0};
        x = axis == x->rank - 2 ? x : tp_swap(x, axis, -2);
        x = tpi_apply(at, &tpi_op_irfft, TPI_IN(x, roots(at, x->ctx, n)), &attrs);
        x = tp_div(x, tp_scalar_like(x, (double)n));
        return axis == x->rank - 1 ? x : tp_swap(x, axis, -1);
    }
    if (n > 2) { /* else there are no conjugates */
        tp_tensor *rest = tp_flip(tp_slice(x, axis, 1, (n + 1) / 2, 1), 1, &along);
        tp_tensor *both[] = {x, conjugate(at, rest)};
        x = tp_concat(2, both, axis);
    }
    return tp_select(transform(at, x, axis, true), -1, 0);
}

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
    return narrowed(at, irfft_of(at, tp_cast(x, TP_F64), axis, n), x);
}
TPI_BARE(tp_tensor *, tp_irfft, (tp_tensor * x, int axis, int64_t n), x, axis, n)
