/* Local identities that keep every bit (NaNs count as one value).
 *
 *     %2 = neg %1      %3 = neg %2                    ->      %3 is %1
 *     %2 = broadcast %1 [4,3]   %3 = add %2, %x[4,3]  ->      %3 = add %1, %x
 *     %3 = pad %1 {lo=0, hi=2}  %4 = pad %2 {lo=3, hi=0}
 *     %5 = add %3, %4                                 ->      %5 = concat %1, %2    %6 = add %5, 0
 *
 * x + 0 and 0 * x are not among them: -0 + 0 is +0, and 0 * inf is NaN. */
#include "op/op.h"
#include "op/sizes.h"
#include "pass/pass.h"

#include <string.h>

typedef tp_tensor *(*tpi_rule)(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in);

static bool same_shape(const tp_tensor *a, const tp_tensor *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, sizeof(int64_t) * a->rank) == 0;
}

/* A one-element float constant of that value and sign. */
static bool is_number(const tp_tensor *t, double value)
{
    if (t->op != &tpi_op_const || t->dtype < TP_F32 || tpi_count(t->in[0]) != 1)
        return false;
    const double x = tpi_load_f64((tp_dtype)t->dtype, t->in[0]->data);
    return memcmp(&x, &value, sizeof x) == 0;
}

static tp_tensor *twice_is_none(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    (void)rw;
    return in[0]->op == t->op ? in[0]->in[0] : NULL;
}

static tp_tensor *twice_is_once(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    (void)rw;
    return in[0]->op == t->op ? in[0] : NULL;
}

static tp_tensor *identity(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    (void)rw, (void)t;
    return in[0];
}

static tp_tensor *mul_one(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    (void)rw;
    for (int i = 0; i < 2; i++)
        if (is_number(in[i], 1) && same_shape(in[1 - i], t))
            return in[1 - i];
    return NULL;
}

static tp_tensor *div_one(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    (void)rw;
    return is_number(in[1], 1) && same_shape(in[0], t) ? in[0] : NULL;
}

static tp_tensor *sub_zero(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    (void)rw;
    return is_number(in[1], 0) && same_shape(in[0], t) ? in[0] : NULL;
}

static tp_tensor *same_size(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    (void)rw;
    return same_shape(in[0], t) ? in[0] : NULL;
}

static tp_tensor *reshape_reshape(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    if (in[0]->op != &tpi_op_reshape)
        return NULL;
    return tpi_rewrite_node(rw, t, t->op, 1, in[0]->in, t->attrs);
}

static tp_tensor *transposes(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    const tpi_list *axes = t->attrs;
    bool still = true;
    for (int64_t i = 0; i < axes->n; i++)
        still &= axes->v[i] == i;
    if (still)
        return in[0];
    if (in[0]->op != &tpi_op_transpose)
        return NULL;
    const tpi_list *first = in[0]->attrs;
    tpi_list both = {.n = axes->n};
    for (int64_t i = 0; i < axes->n; i++)
        both.v[i] = first->v[axes->v[i]];
    return tpi_rewrite_node(rw, t, t->op, 1, in[0]->in, &both);
}

/* An elementwise op stretches its operands by itself. */
static tp_tensor *drop_broadcast(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    for (int i = 0; i < t->n_in; i++) {
        if (in[i]->op != &tpi_op_broadcast)
            continue;
        bool covered = false; /* another operand has the whole shape */
        for (int k = 0; k < t->n_in; k++)
            covered |= k != i && same_shape(in[k], t);
        if (!covered)
            continue;
        tp_tensor *operands[3] = {in[0], in[1], t->n_in > 2 ? in[2] : NULL};
        operands[i] = in[i]->in[0];
        return tpi_rewrite_node(rw, t, t->op, t->n_in, operands, t->attrs);
    }
    return NULL;
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
        return same_shape(t->in[0], t) && same_shape(t->in[1], t) &&
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
static tp_tensor *add_pads(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    parts p = {0};
    if (t->dtype < TP_F32 || !same_shape(in[0], t) || !same_shape(in[1], t) ||
        !gather_parts(&p, in[1]) || !gather_parts(&p, in[0]))
        return NULL;
    int64_t end = 0;
    for (int i = 0; i < p.n; end += p.x[i++]->shape[p.axis])
        if (p.lo[i] != end)
            return NULL;
    if (end != t->shape[p.axis])
        return NULL;
    const tpi_concat_attrs attrs = {.axis = p.axis};
    tp_tensor *zero =
        tpi_tensor_new(rw->ctx, TPI_AT(t->file, t->line), (tp_dtype)t->dtype, 0, NULL);
    if (zero->status != TP_OK)
        return zero;
    memset(zero->data, 0, tpi_bytes(zero));
    tp_tensor *sum[2] = {tpi_rewrite_node(rw, t, &tpi_op_concat, p.n, p.x, &attrs),
                         tpi_rewrite_const(rw, t, zero)};
    return tpi_rewrite_node(rw, t, t->op, 2, sum, NULL);
}

static const struct {
    const tpi_op *op; /* NULL: elementwise ops of two or three operands */
    tpi_rule rule;
} rules[] = {
    {&tpi_op_neg,       twice_is_none  },
    {&tpi_op_abs,       twice_is_once  },
    {&tpi_op_relu,      twice_is_once  },
    {&tpi_op_floor,     twice_is_once  },
    {&tpi_op_ceil,      twice_is_once  },
    {&tpi_op_round,     twice_is_once  },
    {&tpi_op_detach,    identity       },
    {&tpi_op_copy,      identity       },
    {&tpi_op_enter,     identity       },
    {&tpi_op_add,       add_pads       },
    {&tpi_op_mul,       mul_one        },
    {&tpi_op_div,       div_one        },
    {&tpi_op_sub,       sub_zero       },
    {&tpi_op_reshape,   same_size      },
    {&tpi_op_reshape,   reshape_reshape},
    {&tpi_op_broadcast, same_size      },
    {&tpi_op_transpose, transposes     },
    {NULL,              drop_broadcast },
};

static tp_tensor *algebra(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const bool applies =
            rules[i].op ? rules[i].op == t->op : t->op->kind == TPI_ELEMENT && t->n_in > 1;
        tp_tensor *made = applies ? rules[i].rule(rw, t, in) : NULL;
        if (made)
            return made;
    }
    return NULL;
}

const tpi_pass tpi_pass_algebra = {
    .name = "algebra", .about = "local identities", .visit = algebra};
