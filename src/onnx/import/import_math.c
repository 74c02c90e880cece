/* Operators of math and logic that go element by element. */
#include "onnx/import/import.h"

#include <math.h>
#include <string.h>

static bool has_symbol(const tpi_onnx_ints *k)
{
    bool any = false;
    for (int i = 0; i < k->n; i++)
        any |= tpi_dim_is_symbolic(k->v[i]);
    return any;
}

/* -n of sizes, as the start of a slice that counts from the end. */
bool tpi_onnx_import_neg(tpi_onnx_op *o)
{
    tpi_onnx_ints k;
    bool known = tpi_onnx_try_ints(o, 0, &k) && has_symbol(&k);
    for (int i = 0; known && i < k.n; i++) {
        k.v[i] = tpi_onnx_dim_sub(o, 0, k.v[i]);
        known = k.v[i] != TPI_NO_DIM;
    }
    return known ? tpi_onnx_out_ints(o, 0, &k) : tpi_onnx_out(o, 0, tp_neg(tpi_onnx_in(o, 0)));
}

/* Two lists of known integers, of which one is symbolic at least: as long as each other, or one
 * stretches. */
static bool pair_ints(tpi_onnx_op *o, int i, tpi_onnx_ints *a, tpi_onnx_ints *b)
{
    if (!tpi_onnx_try_ints(o, i, a) || !tpi_onnx_try_ints(o, i + 1, b) ||
        (!has_symbol(a) && !has_symbol(b)) || (a->n != b->n && a->n != 1 && b->n != 1))
        return false;
    const int n = a->n == 1 ? b->n : a->n, rank = a->rank > b->rank ? a->rank : b->rank;
    for (int k = a->n; k < n; k++)
        a->v[k] = a->v[0];
    for (int k = b->n; k < n; k++)
        b->v[k] = b->v[0];
    a->n = b->n = n;
    a->rank = b->rank = rank;
    return true;
}

/* Operands 0 and 1, whose sizes go with each other. */
static tp_tensor **pair_of(tpi_onnx_op *o)
{
    o->x[0] = tpi_onnx_in(o, 0);
    o->x[1] = tpi_onnx_in(o, 1);
    tpi_onnx_agree_pair(o);
    return o->x;
}

/* All operands, one after the other. */
static tp_tensor *folded(tpi_onnx_op *o, tpi_onnx_binary_function op)
{
    tp_tensor *y = tpi_onnx_in(o, 0);
    for (int i = 1; i < o->n_in; i++)
        y = tpi_onnx_joined(o, op, y, tpi_onnx_in(o, i));
    return y;
}

bool tpi_onnx_arithmetic(tpi_onnx_op *o, tpi_onnx_size_function sizes,
                         tpi_onnx_binary_function op)
{
    tpi_onnx_ints a, b;
    bool known = o->n_in == 2 && pair_ints(o, 0, &a, &b);
    for (int i = 0; known && i < a.n; i++) {
        a.v[i] = sizes(o, a.v[i], b.v[i]);
        known = a.v[i] != TPI_NO_DIM;
    }
    if (known)
        return tpi_onnx_out_ints(o, 0, &a);
    tp_tensor **in = o->n_in == 2 ? pair_of(o) : NULL;
    return tpi_onnx_out(o, 0, in ? op(TP_PLACE, in[0], in[1]) : folded(o, op));
}

/* A size is never negative, and equal to itself; more is not known of a symbolic one. */
bool tpi_onnx_import_equal(tpi_onnx_op *o)
{
    tpi_onnx_ints a, b;
    if (pair_ints(o, 0, &a, &b)) {
        uint8_t same[TPI_ONNX_INTS];
        bool known = true;
        const int64_t n = a.n;
        for (int i = 0; i < a.n; i++) {
            const bool sa = tpi_dim_is_symbolic(a.v[i]), sb = tpi_dim_is_symbolic(b.v[i]);
            same[i] = a.v[i] == b.v[i];
            known &= same[i] || (!sa && !sb) || (!sa && a.v[i] < 0) || (!sb && b.v[i] < 0);
        }
        if (known)
            return tpi_onnx_out(o, 0, tp_tensor_new(o->ctx, TP_BOOL, a.rank, &n, same));
    }
    tp_tensor **in = pair_of(o);
    return tpi_onnx_out(o, 0, tp_eq(in[0], in[1]));
}

bool tpi_onnx_import_where(tpi_onnx_op *o)
{
    tpi_onnx_ints c, a, b;
    if (pair_ints(o, 1, &a, &b) && tpi_onnx_try_ints(o, 0, &c) && (c.n == a.n || c.n == 1)) {
        for (int i = 0; i < a.n; i++)
            a.v[i] = c.v[c.n == 1 ? 0 : i] ? a.v[i] : b.v[i];
        a.rank = c.rank > a.rank ? c.rank : a.rank;
        return tpi_onnx_out_ints(o, 0, &a);
    }
    tp_tensor *in[3];
    for (int i = 0; i < 3; i++)
        in[i] = tpi_onnx_in(o, i);
    tpi_onnx_agree(o, 3, in, 0);
    return tpi_onnx_out(o, 0, tp_where(in[0], in[1], in[2]));
}

tp_tensor *tpi_onnx_import_sum(tpi_onnx_op *o)
{
    return folded(o, tp_add_at);
}

tp_tensor *tpi_onnx_import_mean(tpi_onnx_op *o)
{
    tp_tensor *y = folded(o, tp_add_at);
    return o->n_in > 1 ? tp_div(y, tp_scalar_like(y, o->n_in)) : y;
}

/* The result has the type of the base. */
tp_tensor *tpi_onnx_import_pow(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_agree_pair(o);
    tp_tensor *e = o->x[1];
    x = o->x[0];
    const tp_dtype base = tp_dtype_of(x), exponent = tp_dtype_of(e);
    if (base < TP_F32 && exponent >= TP_F32)
        return tp_cast(tp_pow(tp_cast(x, exponent), e), base);
    return tp_pow(x, base == exponent ? e : tp_cast(e, base));
}

tp_tensor *tpi_onnx_import_mod(tpi_onnx_op *o, tp_tensor *a)
{
    tpi_onnx_agree(o, 2, o->x, 0);
    tp_tensor *b = o->x[1];
    a = o->x[0];
    return tpi_onnx_int(o, "fmod") ? tp_fmod(a, b) : tp_mod(a, b);
}

/* Powers of 2 wrap to 0 where a shift leaves nothing, and x / 0 is 0. */
tp_tensor *tpi_onnx_import_bit_shift(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_agree(o, 2, o->x, 0);
    tp_tensor *by = o->x[1];
    x = o->x[0];
    tp_tensor *power = tp_pow(tp_scalar_like(by, 2), by);
    return tpi_onnx_choice(o, "direction") ? tp_div(x, power) : tp_mul(x, power);
}

/* ---- types ---------------------------------------------------------------------------------------- */

static bool cast_to(tpi_onnx_op *o, tp_dtype dtype)
{
    tpi_onnx_ints k;
    if (dtype == TP_N_DTYPES)
        return false;
    const bool holds = dtype == TP_I64 || dtype == TP_I32 || dtype >= TP_F32;
    if (holds && tpi_onnx_try_sizes(o, 0, &k) && has_symbol(&k)) {
        k.dtype = dtype;
        return tpi_onnx_out_ints(o, 0, &k);
    }
    return tpi_onnx_out(o, 0, tp_cast(tpi_onnx_in(o, 0), dtype));
}

/* Whole numbers of 64 bits that f64 would round: the last bits are made one that says that there were some,
 * which is all that a 16-bit float needs to know of them. */
static tp_tensor *sticky(tpi_onnx_op *o, tp_tensor *x)
{
    const double exact = 0x1p53;
    tp_tensor *zero = tp_scalar_like(x, 0);
    tp_tensor *rest = tp_mod(x, tp_scalar_like(x, 4096));
    tp_tensor *odd = tp_add(tp_sub(x, rest), tp_scalar_like(x, 2048));
    tp_tensor *large = tp_gt(x, tp_scalar_like(x, exact));
    if (tp_dtype_of(x) == TP_I64)
        large = tp_or(large, tp_lt(x, tp_scalar_like(x, -exact)));
    return tp_where(tp_and(large, tp_ne(rest, zero)), odd, x);
}

bool tpi_onnx_import_cast(tpi_onnx_op *o)
{
    const int64_t to = tpi_onnx_int(o, "to");
    if (to != TPI_PB_F16 && to != TPI_PB_BF16)
        return cast_to(o, tpi_onnx_elem_type(o, to));
    /* From what f32 does not hold by way of f64, so that it is rounded once. */
    tp_tensor *x = tpi_onnx_in(o, 0);
    const tp_dtype from = tp_dtype_of(x);
    const bool wide = from == TP_F64 || (from < TP_F32 && tp_dtype_size(from) > 2);
    if (from == TP_I64 || from == TP_U64)
        x = sticky(o, x);
    x = tpi_onnx_round(o, tp_cast(x, wide ? TP_F64 : TP_F32), to);
    return tpi_onnx_out(o, 0, tp_cast(x, TP_F32));
}

bool tpi_onnx_import_cast_like(tpi_onnx_op *o)
{
    return cast_to(o, tpi_onnx_in_dtype(o, 1));
}

tp_tensor *tpi_onnx_import_is_inf(tpi_onnx_op *o, tp_tensor *x)
{
    const bool above = tpi_onnx_int(o, "detect_positive") != 0;
    const bool below = tpi_onnx_int(o, "detect_negative") != 0;
    if (above == below)
        return above ? tp_isinf(x) : tp_lt(x, x);
    return tp_eq(x, tp_scalar_like(x, above ? (double)INFINITY : -(double)INFINITY));
}

/* ---- activations ----------------------------------------------------------------------------------- */

tp_tensor *tpi_onnx_import_gelu(tpi_onnx_op *o, tp_tensor *x)
{
    return tpi_onnx_choice(o, "approximate") ? tp_gelu_tanh(x) : tp_gelu(x);
}

/* ---- expressions ----------------------------------------------------------------------------------- */

/* What the expressions of the table are written with. */
#define A(name) tpi_onnx_float(o, #name) /* an attribute, */
#define TIMES(t, k) tpi_onnx_times(o, t, k)
#define PLUS(t, k) tpi_onnx_plus(o, t, k)

tp_tensor *tpi_onnx_expression(tpi_onnx_op *o, tp_tensor *x)
{
    switch (o->row) {
#define EXPRESSION(name, attributes, expression, ...)                                          \
    case TPI_OPERATOR_##name:                                                                  \
        return expression;
#define OP(name, ...)
#define OPS OP
#define SOURCE OP
#define BINARY OP
#define ARITHMETIC OP
#include "onnx/operators.def"
    }
    return NULL;
}

/* ---- others ---------------------------------------------------------------------------------------- */

/* The slope broadcasts to x; before operator set 7 it was one per channel, axis 1. */
tp_tensor *tpi_onnx_import_prelu(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *slope = o->x[1];
    if (o->opset < 7 && tp_rank(slope) == 1)
        for (int i = 2; i < tp_rank(x); i++)
            slope = tp_unsqueeze(slope, i - 1);
    tp_tensor *in[2] = {slope, x};
    tpi_onnx_agree(o, 2, in, 0);
    return tp_prelu(in[1], in[0]);
}

/* A bound: one number when it is known. NULL: none, or an error. */
static tp_tensor *bound(tpi_onnx_op *o, tp_tensor *x, const char *name, int i, bool *ok)
{
    double v;
    if (!tpi_onnx_given(o, name))
        return NULL;
    if (o->opset >= 11 && (!tpi_onnx_is_known(o, i) || tp_dtype_of(x) < TP_F32))
        return tpi_onnx_in(o, i);
    *ok = tpi_onnx_number(o, name, &v);
    return *ok ? tp_scalar_like(x, v) : NULL;
}

tp_tensor *tpi_onnx_import_clip(tpi_onnx_op *o, tp_tensor *y)
{
    bool ok = true;
    tp_tensor *lo = bound(o, y, "min", 1, &ok), *hi = ok ? bound(o, y, "max", 2, &ok) : NULL;
    y = lo ? tp_max(y, lo) : y;
    return !ok ? NULL : hi ? tp_min(y, hi) : y;
}
