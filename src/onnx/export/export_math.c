/* Elementwise ops as operators of ONNX. */
#include "core/dim.h"
#include "kernel/text/math_f64.h"
#include "onnx/export/emit.h"

#include <math.h>
#include <string.h>

/* ---- one to one -------------------------------------------------------------------------- */

/* An operator of the op's operands, two at the most, and attributes. */
tpi_val tpi_export_plain(tpi_export *x, const tp_tensor *t, const char *name)
{
    const tp_dtype type = tpi_type(x, tpi_in(x, t, 0)), work = tpi_work_type(name, type);
    tpi_val in[2] = {0};
    for (int i = 0; i < t->n_in; i++)
        in[i] = tpi_type(x, tpi_in(x, t, i)) == type ? tpi_as(x, tpi_in(x, t, i), work)
                                                     : tpi_in(x, t, i);
    return tpi_as(x, tpi_put_alike(x, name, t, t->n_in, in), type);
}

/* A constant or variable, maybe behind views; or NULL. */
static const tp_tensor *source_of(const tpi_export *x, const tp_tensor *t)
{
    while (!tpi_is_fed(x, t) &&
           (t->op->code == TPI_OP_broadcast || t->op->code == TPI_OP_reshape))
        t = t->in[0];
    if (tpi_is_fed(x, t))
        return NULL;
    return t->op->code == TPI_OP_const || t->op->code == TPI_OP_variable ? t : NULL;
}

/* ONNX Runtime makes Relu of the maximum with 0, also of types for which it has none. */
tpi_val tpi_export_max(tpi_export *x, const tp_tensor *t)
{
    const tpi_val a = tpi_in(x, t, 0), b = tpi_in(x, t, 1);
    const tp_dtype work = tpi_work_type("Max", (tp_dtype)t->dtype);
    if (tpi_work_type("Relu", work) == work ||
        (!source_of(x, t->in[0]) && !source_of(x, t->in[1])))
        return tpi_native(x, "Max", TPI_V(a, b));
    return tpi_choose(x, tpi_put_typed(x, "Greater", TP_BOOL, TPI_V(a, b)), a, b);
}

/* Bools are numbers to comparisons. */
tpi_val tpi_export_compare(tpi_export *x, const tp_tensor *t, const char *name)
{
    tpi_val a = tpi_in(x, t, 0), b = tpi_in(x, t, 1);
    if (tpi_type(x, a) == TP_BOOL && t->op->code > TPI_OP_ne) {
        a = tpi_as(x, a, TP_I32);
        b = tpi_as(x, b, TP_I32);
    }
    const tpi_val y = tpi_put_typed(x, name, TP_BOOL, TPI_V(a, b));
    return t->op->code == TPI_OP_ne ? tpi_put(x, "Not", TPI_V(y)) : y;
}

tpi_val tpi_export_same(tpi_export *x, const tp_tensor *t)
{
    const tpi_val v = tpi_in(x, t, 0);
    return t->name ? tpi_put(x, "Identity", TPI_V(v)) : v;
}

tpi_val tpi_export_cast(tpi_export *x, const tp_tensor *t)
{
    const tpi_val v = tpi_in(x, t, 0);
    return tpi_type(x, v) == t->dtype ? tpi_export_same(x, t)
                                      : tpi_as(x, v, (tp_dtype)t->dtype);
}

tpi_val tpi_export_relu(tpi_export *x, const tp_tensor *t)
{
    const tpi_val v = tpi_in(x, t, 0), zero = tpi_scalar(x, (tp_dtype)t->dtype, 0);
    if (t->dtype >= TP_U8 && t->dtype <= TP_U64)
        return tpi_export_same(x, t);
    if (t->dtype != TP_I64)
        return tpi_native(x, "Relu", TPI_V(v));
    return tpi_choose(x, tpi_put_typed(x, "Greater", TP_BOOL, TPI_V(v, zero)), v, zero);
}

tpi_val tpi_export_rsqrt(tpi_export *x, const tp_tensor *t)
{
    const tpi_val root = tpi_put(x, "Sqrt", TPI_V(tpi_in(x, t, 0)));
    return tpi_put(x, "Reciprocal", TPI_V(root));
}

/* |a| < 1 */
static tpi_val is_small(tpi_export *x, tpi_val a, tpi_val one)
{
    return tpi_put_typed(x, "Less", TP_BOOL, TPI_V(tpi_native(x, "Abs", TPI_V(a)), one));
}

/* a b / c, or a where c is 0 */
static tpi_val corrected(tpi_export *x, tpi_val a, tpi_val b, tpi_val c)
{
    const tpi_val zero = tpi_scalar(x, tpi_type(x, a), 0);
    const tpi_val none = tpi_put_typed(x, "Equal", TP_BOOL, TPI_V(c, zero));
    const tpi_val product = tpi_put(x, "Mul", TPI_V(a, b));
    return tpi_choose(x, none, a, tpi_put(x, "Div", TPI_V(product, c)));
}

/* What the rounding of u = exp(v) and of u = 1 + v takes away is made up for (Kahan; Higham, Accuracy and Stability
 * of Numerical Algorithms, 1.14): v (u - 1) / log(u) and v log(u) / (u - 1), which is for small results. */
tpi_val tpi_export_expm1(tpi_export *x, const tp_tensor *t)
{
    const tpi_val v = tpi_in(x, t, 0), one = tpi_scalar(x, (tp_dtype)t->dtype, 1);
    const tpi_val u = tpi_put(x, "Exp", TPI_V(v)), less = tpi_put(x, "Sub", TPI_V(u, one));
    const tpi_val near = corrected(x, v, less, tpi_put(x, "Log", TPI_V(u)));
    return tpi_choose(x, is_small(x, v, one), near, less);
}

tpi_val tpi_export_log1p(tpi_export *x, const tp_tensor *t)
{
    const tpi_val v = tpi_in(x, t, 0), one = tpi_scalar(x, (tp_dtype)t->dtype, 1);
    const tpi_val u = tpi_put(x, "Add", TPI_V(one, v)), log = tpi_put(x, "Log", TPI_V(u));
    const tpi_val near = corrected(x, v, log, tpi_put(x, "Sub", TPI_V(u, one)));
    return tpi_choose(x, is_small(x, v, one), near, log);
}

tpi_val tpi_export_exp2(tpi_export *x, const tp_tensor *t)
{
    const tpi_val v = tpi_in(x, t, 0);
    return tpi_put(x, "Pow", TPI_V(tpi_scalar(x, tpi_type(x, v), 2), v));
}

/* v as f64, in which log v / log base is right for f32; of f64 it is put right at powers of the base. */
tpi_val tpi_export_log_to_base(tpi_export *x, const tp_tensor *t)
{
    const bool two = t->op->code == TPI_OP_log2;
    const tpi_val v = tpi_as(x, tpi_in(x, t, 0), TP_F64);
    const tpi_val base = tpi_scalar(x, TP_F64, two ? 2 : 10);
    const tpi_val factor =
        tpi_scalar(x, TP_F64, two ? 1.4426950408889634 : 0.43429448190325183);
    const tpi_val y = tpi_put(x, "Mul", TPI_V(tpi_put(x, "Log", TPI_V(v)), factor));
    if (t->dtype != TP_F64)
        return tpi_as(x, y, (tp_dtype)t->dtype);
    const tpi_val whole = tpi_put(x, "Round", TPI_V(y));
    const tpi_val power = tpi_put(x, "Pow", TPI_V(base, whole));
    return tpi_choose(x, tpi_put_typed(x, "Equal", TP_BOOL, TPI_V(power, v)), whole, y);
}

/* With the coefficients c, the last of which is that of 1. */
static tpi_val polynomial(tpi_export *x, tpi_val v, int n, const double *c)
{
    tpi_val y = tpi_scalar(x, TP_F64, c[0]);
    for (int i = 1; i < n; i++)
        y = tpi_put(x, "Add",
                    TPI_V(tpi_put(x, "Mul", TPI_V(y, v)), tpi_scalar(x, TP_F64, c[i])));
    return y;
}

/* As tpk_erfinv_f64. There is no fma, so 1 - v^2 is (1 - v) (1 + v). */
tpi_val tpi_export_erfinv(tpi_export *x, const tp_tensor *t)
{
#define NUMBER(c) c,
    static const double over[] = {TPK_ERFINV_P(NUMBER)}, under[] = {TPK_ERFINV_Q(NUMBER)};
#undef NUMBER
    const int n = sizeof over / sizeof *over;
    const tpi_val v = tpi_as(x, tpi_in(x, t, 0), TP_F64), one = tpi_scalar(x, TP_F64, 1);
    const tpi_val beside = tpi_put(
        x, "Mul", TPI_V(tpi_put(x, "Sub", TPI_V(one, v)), tpi_put(x, "Add", TPI_V(one, v))));
    const tpi_val l = tpi_put(x, "Log", TPI_V(beside));
    const tpi_val rest =
        tpi_put(x, "Div", TPI_V(polynomial(x, l, n, over), polynomial(x, l, n, under)));
    const tpi_val line = polynomial(x, l, 2, (const double[]){-0.1875, 1});
    const tpi_val y = tpi_put(x, "Mul", TPI_V(v, tpi_put(x, "Add", TPI_V(line, rest))));
    const tpi_val end =
        tpi_put_typed(x, "Equal", TP_BOOL, TPI_V(tpi_put(x, "Abs", TPI_V(v)), one));
    const tpi_val endless = tpi_put(x, "Mul", TPI_V(v, tpi_scalar(x, TP_F64, INFINITY)));
    return tpi_as(x, tpi_choose(x, end, endless, y), (tp_dtype)t->dtype);
}

tpi_val tpi_export_where(tpi_export *x, const tp_tensor *t)
{
    const tpi_val a = tpi_in(x, t, 1), b = tpi_in(x, t, 2);
    return tpi_choose(x, tpi_in(x, t, 0), a, b);
}

tpi_val tpi_choose(tpi_export *x, tpi_val c, tpi_val a, tpi_val b)
{
    const tp_dtype type = tpi_type(x, a), work = tpi_work_type("Where", type);
    const tpi_val y =
        tpi_put_typed(x, "Where", work, TPI_V(c, tpi_as(x, a, work), tpi_as(x, b, work)));
    return tpi_as(x, y, type);
}

/* ---- division ---------------------------------------------------------------------------- */

/* Is an operand known not to hold 0 (and, signed, -1)? Runtimes stop at such divisors. */
static bool divides_safely(const tpi_export *x, const tp_tensor *t)
{
    const tp_tensor *source = source_of(x, t);
    if (!source || source->op->code != TPI_OP_const)
        return false;
    const tp_tensor *v = source->in[0];
    int64_t at[TP_MAX_RANK] = {0};
    for (int64_t n = tpi_count(v); n > 0; n--) {
        int64_t offset = 0;
        for (int i = 0; i < v->rank; i++)
            offset += at[i] * v->stride[i];
        const char *p = v->data + offset * (int64_t)tp_dtype_size((tp_dtype)v->dtype);
        const int64_t divisor = tpi_load_i64((tp_dtype)v->dtype, p);
        if (divisor == 0 || divisor == -1)
            return false;
        for (int i = v->rank - 1; i >= 0 && ++at[i] == v->shape[i]; i--)
            at[i] = 0;
    }
    return true;
}

/* y = a op b, but what is said for b = 0 and, of signed types, for b = -1. */
static tpi_val divide_integers(tpi_export *x, const tp_tensor *t, const char *op)
{
    const tpi_val a = tpi_in(x, t, 0), b = tpi_in(x, t, 1);
    const tp_dtype type = tpi_type(x, a);
    if (divides_safely(x, t->in[1]))
        return tpi_put(x, op, TPI_V(a, b));
    const tpi_val zero = tpi_scalar(x, type, 0), one = tpi_scalar(x, type, 1);
    const tpi_val by_zero = tpi_put_typed(x, "Equal", TP_BOOL, TPI_V(b, zero));
    if (type >= TP_U8)
        return tpi_choose(x, by_zero, zero,
                          tpi_put(x, op, TPI_V(a, tpi_choose(x, by_zero, one, b))));
    const tpi_val by_minus =
        tpi_put_typed(x, "Equal", TP_BOOL, TPI_V(b, tpi_scalar(x, type, -1)));
    const tpi_val special = tpi_put(x, "Or", TPI_V(by_zero, by_minus));
    const tpi_val y = tpi_put(x, op, TPI_V(a, tpi_choose(x, special, one, b)));
    if (t->op->code == TPI_OP_mod)
        return tpi_choose(x, special, zero, y);
    return tpi_choose(x, by_zero, zero,
                      tpi_choose(x, by_minus, tpi_native(x, "Neg", TPI_V(a)), y));
}

tpi_val tpi_export_div(tpi_export *x, const tp_tensor *t)
{
    if (t->dtype >= TP_F32)
        return tpi_put(x, "Div", TPI_V(tpi_in(x, t, 0), tpi_in(x, t, 1)));
    return divide_integers(x, t, "Div");
}

/* ONNX's remainder of floats has the sign of a; ours has that of b. */
tpi_val tpi_export_mod(tpi_export *x, const tp_tensor *t)
{
    if (t->dtype < TP_F32)
        return divide_integers(x, t, "Mod");
    const tpi_val a = tpi_in(x, t, 0), b = tpi_in(x, t, 1);
    const tpi_val zero = tpi_scalar(x, (tp_dtype)t->dtype, 0);
    const tpi_val r = tpi_put(x, "Mod", TPI_V(a, b));
    tpi_put_int(x, "fmod", 1);
    const tpi_val r_below = tpi_put_typed(x, "Less", TP_BOOL, TPI_V(r, zero));
    const tpi_val b_below = tpi_put_typed(x, "Less", TP_BOOL, TPI_V(b, zero));
    const tpi_val even = tpi_put_typed(x, "Equal", TP_BOOL, TPI_V(r, zero));
    const tpi_val differ = tpi_put(x, "Xor", TPI_V(r_below, b_below));
    const tpi_val move = tpi_put(x, "And", TPI_V(differ, tpi_put(x, "Not", TPI_V(even))));
    return tpi_choose(x, move, tpi_put(x, "Add", TPI_V(r, b)), r);
}

/* ---- bits -------------------------------------------------------------------------------- */

/* -1 - v, or of unsigned types the greatest number - v. */
tpi_val tpi_export_not(tpi_export *x, const tp_tensor *t)
{
    const tpi_val v = tpi_in(x, t, 0);
    const uint64_t ones = UINT64_MAX;
    if (t->dtype == TP_BOOL)
        return tpi_put(x, "Not", TPI_V(v));
    return tpi_put(x, "Sub", TPI_V(tpi_constant(x, (tp_dtype)t->dtype, 0, 1, &ones), v));
}

/* v >> 0, v >> 1, ... along a new last axis, as u64. */
tpi_val tpi_shifts_of(tpi_export *x, tpi_val v, int n_bits)
{
    uint64_t shift[64];
    for (int i = 0; i < 64; i++)
        shift[i] = (uint64_t)i;
    const tpi_val wide = tpi_as(x, v, TP_U64);
    const tpi_val column = tpi_put(x, "Unsqueeze", TPI_V(wide, tpi_int(x, -1)));
    const tpi_val y =
        tpi_put(x, "BitShift", TPI_V(column, tpi_constant(x, TP_U64, 1, n_bits, shift)));
    tpi_put_text(x, "direction", "RIGHT");
    return y;
}

tpi_val tpi_of_bits(tpi_export *x, tpi_val bits, int n_bits)
{
    uint64_t weight[64];
    for (int i = 0; i < 64; i++)
        weight[i] = UINT64_C(1) << i;
    const tpi_val row = tpi_constant(x, TP_U64, 1, n_bits, weight);
    const tpi_val column = tpi_put(x, "Unsqueeze", TPI_V(row, tpi_int(x, -1)));
    const tpi_val sum = tpi_put(x, "MatMul", TPI_V(bits, column));
    return tpi_put(x, "Squeeze", TPI_V(sum, tpi_int(x, -1)));
}

static tpi_val odd(tpi_export *x, tpi_val v)
{
    return tpi_put(x, "Mod", TPI_V(v, tpi_scalar(x, TP_U64, 2)));
}

/* ONNX has bitwise operators from opset 18 on: here bits become numbers. */
tpi_val tpi_export_bits(tpi_export *x, const tp_tensor *t, const char *name)
{
    const int which = t->op->code - TPI_OP_and;
    const tpi_val a = tpi_in(x, t, 0), b = tpi_in(x, t, 1);
    if (t->dtype == TP_BOOL)
        return tpi_put(x, name, TPI_V(a, b));
    const int n_bits = 8 * (int)tp_dtype_size((tp_dtype)t->dtype);
    const tpi_val p = tpi_shifts_of(x, a, n_bits), q = tpi_shifts_of(x, b, n_bits);
    const tpi_val y = which == 0   ? tpi_put(x, "Mul", TPI_V(odd(x, p), odd(x, q)))
                      : which == 1 ? tpi_put(x, "Max", TPI_V(odd(x, p), odd(x, q)))
                                   : odd(x, tpi_put(x, "Add", TPI_V(p, q)));
    return tpi_as(x, tpi_of_bits(x, y, n_bits), (tp_dtype)t->dtype);
}

/* part: the determinant, its sign, the logarithm of its size. */
tpi_val tpi_export_det(tpi_export *x, const tp_tensor *t)
{
    const int64_t part = tpi_attr_int(t, "part");
    const tpi_val a = tpi_in(x, t, 0), y = tpi_native(x, "Det", 1, &a);
    return part == 0   ? y
           : part == 1 ? tpi_put(x, "Sign", TPI_V(y))
                       : tpi_put(x, "Log", TPI_V(tpi_put(x, "Abs", TPI_V(y))));
}
