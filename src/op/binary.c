/* Elementwise ops of two operands, which broadcast and meet in one type. */
#include "ir/graph_def.h"
#include "op/elementwise.h"
#include "op/sizes.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line

#define BINARY(op, rule, x, y, ...)                                                            \
    TPI_ELEMENT_OP(op, 2, rule, x, y, __VA_ARGS__)                                             \
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
        tp_tensor *less = tp_where(flat, zero, tp_sub(b, 1));
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
    tp_tensor *half = tp_mul(g->dy, 0.5);
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

/* ---- the same for less ----------------------------------------------------------------------- */

/* A one-element float constant of that value and sign. */
static bool is_number(const tp_tensor *t, double value)
{
    if (t->op != &tpi_op_const || t->dtype < TP_F32 || tpi_count(t->in[0]) != 1)
        return false;
    const double x = tpi_load_f64((tp_dtype)t->dtype, t->in[0]->data);
    return memcmp(&x, &value, sizeof x) == 0;
}

static tp_tensor *mul_one(const tpi_simplify *s)
{
    for (int i = 0; i < 2; i++)
        if (is_number(s->in[i], 1) && tpi_same_shape(s->in[1 - i], s->node))
            return s->in[1 - i];
    return NULL;
}

static tp_tensor *div_one(const tpi_simplify *s)
{
    return is_number(s->in[1], 1) && tpi_same_shape(s->in[0], s->node) ? s->in[0] : NULL;
}

static tp_tensor *sub_zero(const tpi_simplify *s)
{
    return is_number(s->in[1], 0) && tpi_same_shape(s->in[0], s->node) ? s->in[0] : NULL;
}

/* Values with zeros around them along one axis, in the order in which they lie there. */
typedef struct parts {
    int n, axis;
    int64_t lo[16];
    tp_tensor *x[16];
} parts;

/* Is t a sum of such values, or one? Adds them. */
static bool gather_parts(parts *p, const tp_tensor *t)
{
    if (t->op == &tpi_op_add)
        return tpi_same_shape(t->in[0], t) && tpi_same_shape(t->in[1], t) &&
               gather_parts(p, t->in[1]) && gather_parts(p, t->in[0]);
    int64_t lo = 0;
    const int axis = tpi_padded_axis(t, &lo);
    if (axis < 0 || p->n == 16 || (p->n && axis != p->axis))
        return false;
    p->axis = axis;
    int i = p->n++;
    for (; i > 0 && p->lo[i - 1] > lo; i--) {
        p->lo[i] = p->lo[i - 1];
        p->x[i] = p->x[i - 1];
    }
    p->lo[i] = lo;
    p->x[i] = t->in[0];
    return true;
}

/* The gradients of a split's parts. What zeros are added to is what it was, but for -0, which becomes
 * +0. */
static tp_tensor *add_pads(const tpi_simplify *s)
{
    const tp_tensor *t = s->node;
    parts p = {0};
    if (t->dtype < TP_F32 || !tpi_same_shape(s->in[0], t) || !tpi_same_shape(s->in[1], t) ||
        !gather_parts(&p, s->in[1]) || !gather_parts(&p, s->in[0]))
        return NULL;
    int64_t end = 0;
    for (int i = 0; i < p.n; end += p.x[i++]->shape[p.axis])
        if (p.lo[i] != end)
            return NULL;
    if (end != t->shape[p.axis])
        return NULL;
    const tpi_at at = TPI_AT(t->file, t->line);
    tp_tensor *zero = tpi_tensor_new(t->ctx, at, (tp_dtype)t->dtype, 0, NULL);
    if (zero->status != TP_OK)
        return zero;
    memset(zero->data, 0, tpi_bytes(zero));
    const tpi_concat_attrs attrs = {.axis = p.axis};
    tp_tensor *sum[2] = {tpi_simplify_node(s, &tpi_op_concat, p.n, p.x, &attrs),
                         tpi_graph_constant(s->to, at, zero)};
    return tpi_simplify_node(s, t->op, 2, sum, NULL);
}

/* ---- ops ---------------------------------------------------------------------------------------- */

BINARY(add, add_grad, false, false, add_pads)
BINARY(sub, sub_grad, false, false, sub_zero)
BINARY(mul, mul_grad, true, false, mul_one)
BINARY(div, div_grad, true, true, div_one)
BINARY(pow, pow_grad, true, true, NULL)
BINARY(min, extremum_grad, true, true, NULL, .bound = "at_most", .no_bound = 0.0)
BINARY(max, extremum_grad, true, true, NULL, .bound = "at_least", .no_bound = -0.0)
BINARY(mod, mod_grad, true, false, NULL, .by_row = true)
BINARY(eq, NULL, false, false, NULL)
BINARY(ne, NULL, false, false, NULL)
BINARY(lt, NULL, false, false, NULL)
BINARY(le, NULL, false, false, NULL)
BINARY(gt, NULL, false, false, NULL)
BINARY(ge, NULL, false, false, NULL)
BINARY(and, NULL, false, false, NULL)
BINARY(or, NULL, false, false, NULL)
BINARY(xor, NULL, false, false, NULL)
