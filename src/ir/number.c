/* Numbers as operands. Outside of graphs and captured functions a context keeps the tensors of those that it was
 * given last, so that none is made per call. */
#include "base/float_mode.h"
#include "core/dim.h"
#include "ir/graph_def.h"

#include <math.h>
#include <string.h>

static double as_double(tpi_number n)
{
    double v;
    memcpy(&v, &n.bits, sizeof v);
    return n.kind == TPI_FLOATING ? v
           : n.kind == TPI_SIGNED ? (double)(int64_t)n.bits
                                  : (double)n.bits;
}

static bool has_sign(tp_dtype dtype)
{
    return dtype >= TP_I8 && dtype <= TP_I64;
}

static bool fits(tp_dtype dtype, tpi_number n)
{
    const double v = as_double(n);
    if (dtype >= TP_F32)
        return dtype == TP_F64 || !isfinite(v) || isfinite((float)v);
    const int size = (int)tp_dtype_size(dtype);
    const int bits = dtype == TP_BOOL ? 1 : 8 * size - has_sign(dtype);
    const double half = (double)((uint64_t)1 << (bits - 1)); /* of the numbers from 0 on */
    if (n.kind == TPI_FLOATING)
        return v >= (has_sign(dtype) ? -2 * half : 0) && v < 2 * half &&
               v == (v < 0 ? (double)(int64_t)v : (double)(uint64_t)v);
    const bool below = n.kind == TPI_SIGNED && (int64_t)n.bits < 0;
    const uint64_t beyond = below ? ~n.bits : n.bits;
    return (!below || has_sign(dtype)) && (bits == 64 || beyond >> bits == 0);
}

static void store(tp_tensor *t, tpi_number n)
{
    const bool is_whole = n.kind != TPI_FLOATING && (t->dtype == TP_I64 || t->dtype == TP_U64);
    if (is_whole) /* which a double may not hold */
        memcpy(t->data, &n.bits, sizeof n.bits);
    else
        tpi_store_f64((tp_dtype)t->dtype, t->data, as_double(n));
}

static tp_tensor *refuse(const tp_tensor *x, tpi_at at, const char *what, tpi_number n)
{
    char text[32];
    if (n.kind == TPI_FLOATING)
        snprintf(text, sizeof text, "%.9g", as_double(n));
    else if (n.kind == TPI_SIGNED)
        snprintf(text, sizeof text, "%lld", (long long)n.bits);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)n.bits);
    return tpi_fail(x->ctx, at, what, TP_E_DTYPE,
                    "%s is no %s, the other operand's element type; tp_cast that one first",
                    text, tp_dtype_name((tp_dtype)x->dtype));
}

/* As the graph or the frame sees it; in memory of its own where a double would round it. */
static tp_tensor *make(tp_tensor *x, tpi_at at, tpi_number n)
{
    const tp_dtype dtype = (tp_dtype)x->dtype;
    const double v = as_double(n), exact = 0x1p53;
    if (n.kind == TPI_FLOATING || (v >= -exact && v <= exact) || dtype >= TP_F32)
        return tp_scalar_like_at(at.file, at.line, x, v);
    tp_tensor *t = tp_tensor_new_at(at.file, at.line, x->ctx, dtype, TP_SCALAR, NULL);
    if (t->status == TP_OK)
        store(t, n);
    return x->graph ? tpi_graph_lift(tpi_graph_here(x), at, t) : t;
}

/* A kept number is found by what C gave, so that nothing is computed to find it. */
static tpi_kept_number *kept(tp_ctx *ctx, int dtype, tpi_number n)
{
    const uint64_t key = n.bits * 3 + (uint64_t)n.kind, odd = 0x9e3779b97f4a7c15;
    return &ctx->numbers[((key * TP_N_DTYPES + (uint64_t)dtype) * odd) >>
                         (64 - TPI_NUMBERS_BITS)];
}

/* In place of the number that was kept there, which lasts as long as the open scope then. NULL: no memory. */
static tp_tensor *keep(tp_ctx *ctx, tpi_kept_number *k, tp_dtype dtype, tpi_number n)
{
    tp_tensor *t = tpi_tensor(ctx, TPI_AT(NULL, 0), dtype, TP_SCALAR);
    if (!t || !tpi_tensor_alloc(t))
        return NULL;
    store(t, n);
    tpi_disown(t);
    if (k->t)
        tpi_own(k->t); /* where t was */
    *k = (tpi_kept_number){n, t};
    return t;
}

static tp_tensor *first_use(tpi_at at, const char *what, tp_tensor *x, tpi_number n)
{
    TPI_DEFAULT_FLOAT_MODE;
    if (!fits((tp_dtype)x->dtype, n))
        return refuse(x, at, what, n);
    if (x->graph || x->ctx->frame)
        return make(x, at, n);
    tp_tensor *t = keep(x->ctx, kept(x->ctx, x->dtype, n), (tp_dtype)x->dtype, n);
    return t ? t : tpi_no_memory(x->ctx, at, what);
}

/* Is it what C makes of a size that is a symbol? */
static bool is_of_a_size(const tp_ctx *ctx, tpi_number n)
{
    return tpi_is_near_handle(ctx, as_double(n)) ||
           (n.kind == TPI_SIGNED && ctx->has_symbols && tpi_is_spoilt((int64_t)n.bits));
}

/* Beside an x that has ended: a number that says nothing, so that the op says which operand of its has. */
static tp_tensor *beside_ended(tp_ctx *ctx, tpi_at at, const char *what)
{
    TPI_ALONE(ctx, at, what);
    tp_tensor *t = tpi_tensor_new(ctx, at, TP_F32, TP_SCALAR);
    if (t->status == TP_OK)
        tpi_store_f64(TP_F32, t->data, 0);
    return t;
}

static tp_tensor *number(tpi_at at, const char *what, tp_tensor *x, tpi_number n)
{
    if (x && x->ctx && (x->refs <= 0 || (x->status != TP_OK && !x->error)))
        return beside_ended(x->ctx, at, what);
    if (!x || x->status != TP_OK)
        return tpi_refuse_operand(NULL, at, what, 0, x);
    TPI_ALONE(x->ctx, at, what);
    if (is_of_a_size(x->ctx, n))
        return tpi_fail_near_handle(x->ctx, at, what, as_double(n));
    const tpi_kept_number *k = kept(x->ctx, x->dtype, n);
    const bool is =
        k->t && k->number.bits == n.bits && k->number.kind == n.kind && k->t->dtype == x->dtype;
    return is && !x->graph && !x->ctx->frame ? k->t : first_use(at, what, x, n);
}

tp_tensor *tp_number_at(const char *file, int line, tp_tensor *x, double value)
{
    tpi_number n = {TPI_FLOATING, 0};
    memcpy(&n.bits, &value, sizeof value);
    return number(TPI_AT(file, line), "tp_number", x, n);
}
TPI_BARE(tp_tensor *, tp_number, (tp_tensor * x, double value), x, value)

tp_tensor *tp_integer_at(const char *file, int line, tp_tensor *x, int64_t value)
{
    return number(TPI_AT(file, line), "tp_integer", x,
                  (tpi_number){TPI_SIGNED, (uint64_t)value});
}
TPI_BARE(tp_tensor *, tp_integer, (tp_tensor * x, int64_t value), x, value)

tp_tensor *tp_natural_at(const char *file, int line, tp_tensor *x, uint64_t value)
{
    return number(TPI_AT(file, line), "tp_natural", x, (tpi_number){TPI_NATURAL, value});
}
TPI_BARE(tp_tensor *, tp_natural, (tp_tensor * x, uint64_t value), x, value)
