/* Elementwise ops of one operand. */
#include "op/elementwise.h"

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line /* rules blame the line of the node they are for */

/* The struct and the entry of an op whose scalar function is listed in elem.def; `rule` is its
 * gradient, `x` and `y` whether that reads their values. */
#define UNARY(op, rule, x, y, ...)                                                             \
    TPI_ELEMENT_OP(op, 1, rule, x, y, __VA_ARGS__)                                             \
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

static void exp2_grad(tpi_grad *g) /* y ln 2 */
{
    tpi_give(g, 0, tp_mul(g->dy, tp_mul(g->y, 0.69314718055994531)));
}

static void log2_grad(tpi_grad *g) /* 1 / (x ln 2) */
{
    tpi_give(g, 0, tp_div(tp_mul(g->dy, 1.4426950408889634), g->x[0]));
}

static void log10_grad(tpi_grad *g) /* 1 / (x ln 10) */
{
    tpi_give(g, 0, tp_div(tp_mul(g->dy, 0.43429448190325183), g->x[0]));
}

static void expm1_grad(tpi_grad *g) /* y + 1 */
{
    tpi_give(g, 0, tp_mul(g->dy, tp_add(g->y, 1)));
}

static void log1p_grad(tpi_grad *g) /* 1 / (1 + x) */
{
    tpi_give(g, 0, tp_div(g->dy, tp_add(g->x[0], 1)));
}

static void sqrt_grad(tpi_grad *g) /* dy / (2 y) */
{
    tpi_give(g, 0, tp_div(g->dy, tp_add(g->y, g->y)));
}

static void rsqrt_grad(tpi_grad *g) /* -y^3 / 2 */
{
    tp_tensor *y3 = tp_mul(tp_mul(g->y, g->y), g->y);
    tpi_give(g, 0, tp_mul(g->dy, tp_mul(y3, -0.5)));
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
    tpi_give(g, 0, tp_mul(g->dy, tp_sub(1, tp_mul(g->y, g->y))));
}

static void sigmoid_grad(tpi_grad *g) /* y (1 - y) */
{
    tp_tensor *slope = tp_mul(g->y, tp_sub(1, g->y));
    tpi_give(g, 0, tp_mul(g->dy, slope));
}

static void erf_grad(tpi_grad *g) /* 2 / sqrt(pi) exp(-x^2) */
{
    tp_tensor *e = tp_exp(tp_neg(tp_mul(g->x[0], g->x[0])));
    tpi_give(g, 0, tp_mul(g->dy, tp_mul(e, 1.1283791670955126)));
}

static void erfinv_grad(tpi_grad *g) /* sqrt(pi) / 2 exp(y^2) */
{
    tp_tensor *e = tp_exp(tp_mul(g->y, g->y));
    tpi_give(g, 0, tp_mul(g->dy, tp_mul(e, 0.88622692545275801)));
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

UNARY(neg, neg_grad, false, false, twice_is_none)
UNARY(abs, abs_grad, true, false, twice_is_once)
UNARY(sign, zero_grad, false, false, NULL)
UNARY(relu, relu_grad, false, true, twice_is_once)
UNARY(exp, exp_grad, false, true, NULL, .down = true)
UNARY(log, log_grad, true, false, NULL)
UNARY(exp2, exp2_grad, false, true, NULL)
UNARY(log2, log2_grad, true, false, NULL)
UNARY(log10, log10_grad, true, false, NULL)
UNARY(expm1, expm1_grad, false, true, NULL)
UNARY(log1p, log1p_grad, true, false, NULL)
UNARY(sqrt, sqrt_grad, false, true, NULL)
UNARY(rsqrt, rsqrt_grad, false, true, NULL)
UNARY(sin, sin_grad, true, false, NULL)
UNARY(cos, cos_grad, true, false, NULL)
UNARY(tanh, tanh_grad, false, true, NULL)
UNARY(sigmoid, sigmoid_grad, false, true, NULL)
UNARY(erf, erf_grad, true, false, NULL)
UNARY(erfinv, erfinv_grad, false, true, NULL)
UNARY(floor, zero_grad, false, false, twice_is_once)
UNARY(ceil, zero_grad, false, false, twice_is_once)
UNARY(round, zero_grad, false, false, twice_is_once)
UNARY(not, NULL, false, false, NULL)
