/* Elementwise ops of one operand. */
#include "op/elementwise.h"

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line /* rules blame the line of the node they are for */

static bool infer_class(tpi_infer *q, tpi_elem e, const char *cure)
{
    const tp_dtype t = (tp_dtype)q->in[0]->dtype;
    if (!tpi_elem_scalar(e, t))
        return tpi_refuse(q, TP_E_DTYPE, "not for elements of type %s: %s", tp_dtype_name(t),
                          cure);
    return tpi_infer_like(q, 0);
}

/* The struct and the entry of an op whose scalar function is listed in elem.def; `rule` is its
 * gradient, `x` and `y` whether that reads their values. */
#define UNARY(op, rule, x, y, simple, cure)                                                    \
    static bool op##_infer(tpi_infer *q)                                                       \
    {                                                                                          \
        return infer_class(q, TPI_ELEM_##op, cure);                                            \
    }                                                                                          \
    TPI_ELEMENT_OP(op, 1, rule, x, y, simple)                                                  \
    tp_tensor *tp_##op##_at(const char *file, int line, tp_tensor *a)                          \
    {                                                                                          \
        return tpi_apply(TPI_AT(file, line), &tpi_op_##op, TPI_IN(a), NULL);                   \
    }                                                                                          \
    TPI_BARE(tp_tensor *, tp_##op, (tp_tensor * a), a)

/* ---- gradients: dx from dy, x and y -------------------------------------------------------- */

static void neg_grad(tpi_grad *g)
{
    tpi_give(g, 0, tp_neg(g->dy));
}

static void abs_grad(tpi_grad *g)
{
    tpi_give(g, 0, tp_mul(g->dy, tp_sign(g->x[0])));
}

static void zero_grad(tpi_grad *g)
{
    (void)g; /* constant almost everywhere */
}

static void relu_grad(tpi_grad *g)
{
    /* of y, which what comes after it keeps anyway: above 0 where x is */
    tp_tensor *zero = tp_scalar_like(g->y, 0);
    tpi_give(g, 0, tp_where(tp_gt(g->y, zero), g->dy, zero));
}

static void exp_grad(tpi_grad *g)
{
    tpi_give(g, 0, tp_mul(g->dy, g->y));
}

static void log_grad(tpi_grad *g)
{
    tpi_give(g, 0, tp_div(g->dy, g->x[0]));
}

static void sqrt_grad(tpi_grad *g) /* dy / (2 y) */
{
    tpi_give(g, 0, tp_div(g->dy, tp_add(g->y, g->y)));
}

static void rsqrt_grad(tpi_grad *g) /* -y^3 / 2 */
{
    tp_tensor *y3 = tp_mul(tp_mul(g->y, g->y), g->y);
    tpi_give(g, 0, tp_mul(g->dy, tp_mul(y3, tp_scalar_like(g->y, -0.5))));
}

static void sin_grad(tpi_grad *g)
{
    tpi_give(g, 0, tp_mul(g->dy, tp_cos(g->x[0])));
}

static void cos_grad(tpi_grad *g)
{
    tpi_give(g, 0, tp_neg(tp_mul(g->dy, tp_sin(g->x[0]))));
}

static void tanh_grad(tpi_grad *g) /* 1 - y^2 */
{
    tpi_give(g, 0, tp_mul(g->dy, tp_sub(tp_scalar_like(g->y, 1), tp_mul(g->y, g->y))));
}

static void sigmoid_grad(tpi_grad *g) /* y (1 - y) */
{
    tp_tensor *slope = tp_mul(g->y, tp_sub(tp_scalar_like(g->y, 1), g->y));
    tpi_give(g, 0, tp_mul(g->dy, slope));
}

static void erf_grad(tpi_grad *g) /* 2 / sqrt(pi) exp(-x^2) */
{
    tp_tensor *e = tp_exp(tp_neg(tp_mul(g->x[0], g->x[0])));
    tpi_give(g, 0, tp_mul(g->dy, tp_mul(e, tp_scalar_like(e, 1.1283791670955126))));
}

/* ---- the same for less --------------------------------------------------------------------- */

static tp_tensor *twice_is_none(const tpi_simplify *s)
{
    return s->in[0]->op == s->node->op ? s->in[0]->in[0] : NULL;
}

static tp_tensor *twice_is_once(const tpi_simplify *s)
{
    return s->in[0]->op == s->node->op ? s->in[0] : NULL;
}

/* ---- ops --------------------------------------------------------------------------------------- */

#define CAST_CURE "tp_cast it to f32 or f64 first"
#define BOOL_CURE "tp_cast it to a number first"

UNARY(neg, neg_grad, false, false, twice_is_none, BOOL_CURE)
UNARY(abs, abs_grad, true, false, twice_is_once, BOOL_CURE)
UNARY(sign, zero_grad, false, false, NULL, BOOL_CURE)
UNARY(relu, relu_grad, false, true, twice_is_once, BOOL_CURE)
UNARY(exp, exp_grad, false, true, NULL, CAST_CURE)
UNARY(log, log_grad, true, false, NULL, CAST_CURE)
UNARY(sqrt, sqrt_grad, false, true, NULL, CAST_CURE)
UNARY(rsqrt, rsqrt_grad, false, true, NULL, CAST_CURE)
UNARY(sin, sin_grad, true, false, NULL, CAST_CURE)
UNARY(cos, cos_grad, true, false, NULL, CAST_CURE)
UNARY(tanh, tanh_grad, false, true, NULL, CAST_CURE)
UNARY(sigmoid, sigmoid_grad, false, true, NULL, CAST_CURE)
UNARY(erf, erf_grad, true, false, NULL, CAST_CURE)
UNARY(floor, zero_grad, false, false, twice_is_once, CAST_CURE)
UNARY(ceil, zero_grad, false, false, twice_is_once, CAST_CURE)
UNARY(round, zero_grad, false, false, twice_is_once, CAST_CURE)
UNARY(not, NULL, false, false, NULL, "compare it with 0 for a bool")
