/* Elementwise ops of two operands, which broadcast and meet in one type. */
#include "op/elementwise.h"

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line

static bool infer_class(tpi_infer *q, tpi_elem e, bool compares, const char *cure)
{
    const tp_dtype t = (tp_dtype)q->in[0]->dtype;
    if (!tpi_elem_scalar(e, t))
        return tpi_refuse(q, TP_E_DTYPE, "not for elements of type %s: %s", tp_dtype_name(t),
                          cure);
    if (!tpi_infer_met(q, 0, 1))
        return false;
    return tpi_infer_broadcast(q, compares ? TP_BOOL : t);
}

#define BINARY(op, compares, rule, x, y, cure)                                                 \
    static bool op##_infer(tpi_infer *q)                                                       \
    {                                                                                          \
        return infer_class(q, TPI_ELEM_##op, compares, cure);                                  \
    }                                                                                          \
    TPI_ELEMENT_OP(op, 2, rule, x, y)                                                          \
    tp_tensor *tp_##op##_at(const char *file, int line, tp_tensor *a, tp_tensor *b)            \
    {                                                                                          \
        tpi_meet(TPI_AT(file, line), &a, &b);                                                  \
        return tpi_apply(TPI_AT(file, line), &tpi_op_##op, TPI_IN(a, b), NULL);                \
    }                                                                                          \
    TPI_BARE(tp_tensor *, tp_##op, (tp_tensor * a, tp_tensor * b), a, b)

/* ---- gradients ------------------------------------------------------------------------------- */

static void add_grad(tpi_grad *g)
{
    tpi_give(g, 0, g->dy);
    tpi_give(g, 1, g->dy);
}

static void sub_grad(tpi_grad *g)
{
    tpi_give(g, 0, g->dy);
    if (tpi_wants(g, 1))
        tpi_give(g, 1, tp_neg(g->dy));
}

static void mul_grad(tpi_grad *g)
{
    if (tpi_wants(g, 0))
        tpi_give(g, 0, tp_mul(g->dy, g->x[1]));
    if (tpi_wants(g, 1))
        tpi_give(g, 1, tp_mul(g->dy, g->x[0]));
}

static void div_grad(tpi_grad *g) /* 1 / b, -y / b */
{
    tp_tensor *da = tp_div(g->dy, g->x[1]);
    tpi_give(g, 0, da);
    if (tpi_wants(g, 1))
        tpi_give(g, 1, tp_neg(tp_mul(da, g->y)));
}

/* b a^(b-1), 0 where b = 0 (a^0 is constant, also at a = 0); y log(a), 0 where a = 0. What does not
 * count is left out before it is computed: it would be NaN. */
static void pow_grad(tpi_grad *g)
{
    tp_tensor *a = g->x[0], *b = g->x[1];
    if (tpi_wants(g, 0)) {
        tp_tensor *zero = tp_scalar_like(b, 0), *flat = tp_eq(b, zero);
        tp_tensor *less = tp_where(flat, zero, tp_sub(b, tp_scalar_like(b, 1)));
        tpi_give(g, 0, tp_mul(g->dy, tp_mul(tp_where(flat, zero, b), tp_pow(a, less))));
    }
    if (tpi_wants(g, 1)) {
        tp_tensor *zero = tp_scalar_like(a, 0), *one = tp_scalar_like(a, 1);
        tp_tensor *none = tp_eq(a, zero);
        tp_tensor *slope = tp_mul(tp_where(none, zero, g->y), tp_log(tp_where(none, one, a)));
        tpi_give(g, 1, tp_mul(g->dy, slope));
    }
}

/* To the operand that is the result; in halves when both are. */
static void extremum_grad(tpi_grad *g)
{
    tp_tensor *a = g->x[0], *b = g->x[1];
    tp_tensor *half = tp_mul(g->dy, tp_scalar_like(g->dy, 0.5));
    tp_tensor *zero = tp_scalar_like(g->dy, 0), *tie = tp_eq(a, b);
    for (int i = 0; i < 2; i++)
        if (tpi_wants(g, i)) {
            tp_tensor *mine = tp_where(tp_eq(g->x[i], g->y), g->dy, zero);
            tpi_give(g, i, tp_where(tie, half, mine));
        }
}

static void mod_grad(tpi_grad *g) /* a - floor(a / b) b */
{
    tpi_give(g, 0, g->dy);
    if (tpi_wants(g, 1)) {
        tp_tensor *turns = tp_floor(tp_div(g->x[0], g->x[1]));
        tpi_give(g, 1, tp_neg(tp_mul(g->dy, turns)));
    }
}

/* ---- ops ---------------------------------------------------------------------------------------- */

#define BOOL_CURE "tp_cast it to a number first"
#define BIT_CURE "compare floats first"

BINARY(add, false, add_grad, false, false, BOOL_CURE)
BINARY(sub, false, sub_grad, false, false, BOOL_CURE)
BINARY(mul, false, mul_grad, true, false, BOOL_CURE)
BINARY(div, false, div_grad, true, true, BOOL_CURE)
BINARY(pow, false, pow_grad, true, true, BOOL_CURE)
BINARY(min, false, extremum_grad, true, true, BOOL_CURE)
BINARY(max, false, extremum_grad, true, true, BOOL_CURE)
BINARY(mod, false, mod_grad, true, false, BOOL_CURE)
BINARY(eq, true, NULL, false, false, "")
BINARY(ne, true, NULL, false, false, "")
BINARY(lt, true, NULL, false, false, "")
BINARY(le, true, NULL, false, false, "")
BINARY(gt, true, NULL, false, false, "")
BINARY(ge, true, NULL, false, false, "")
BINARY(and, false, NULL, false, false, BIT_CURE)
BINARY(or, false, NULL, false, false, BIT_CURE)
BINARY(xor, false, NULL, false, false, BIT_CURE)
