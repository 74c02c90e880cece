/* Attention, and the turning of positions that goes with it. */
#include "composite/composite.h"

#include <float.h>
#include <math.h>

/* ---- attention -------------------------------------------------------------------------------------- */

/* What it is of: t keys in all, those of before among them, for s queries. */
typedef struct operands {
    tp_tensor *q, *k, *v; /* [n, h, s, d], [n, hk, t, d], [n, hk, t, e] */
    tp_tensor *mask, *lengths;
} operands;

static tp_tensor *refuse_options(tpi_at at, const char *what, const tp_tensor *q,
                                 const tp_attention_options *o)
{
    tp_tensor *failed;
    if ((failed = tpi_refuse_number(at, what, q, "scale", o->scale, -DBL_MAX, DBL_MAX)) ||
        (failed = tpi_refuse_number(at, what, q, "softcap", o->softcap, 0, DBL_MAX)) ||
        (failed = tpi_refuse_count(at, what, q, "before", o->before, 0)) ||
        (failed = tpi_refuse_count(at, what, q, "after", o->after, 0)) ||
        (o->lengths && (failed = tpi_refuse_integer(at, what, q, "lengths", 4, o->lengths))) ||
        (o->mask && (failed = tpi_refuse_operand(q->ctx, at, what, 3, o->mask))))
        return failed;
    if (o->mask && o->mask->dtype != TP_BOOL && o->mask->dtype < TP_F32)
        return tpi_fail(q->ctx, at, what, TP_E_DTYPE,
                        "mask is %s, neither bool, for what is seen, nor float, to be added",
                        tp_dtype_name((tp_dtype)o->mask->dtype));
    if (o->lengths && o->lengths->rank != 1)
        return tpi_fail(q->ctx, at, what, TP_E_SHAPE, "lengths are %s, not [n]",
                        SHAPE(o->lengths));
    return NULL;
}

static tp_tensor *refuse_shapes(tpi_at at, const char *what, const operands *p)
{
    const tp_tensor *q = p->q, *k = p->k, *v = p->v;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4)
        return tpi_fail(
            q->ctx, at, what, TP_E_SHAPE,
            "q is %s, k %s, v %s, not [n, heads, places, size] each: tp_unsqueeze or "
            "tp_reshape them",
            SHAPE(q), SHAPE(k), SHAPE(v));
    if (k->shape[3] != q->shape[3] || v->shape[1] != k->shape[1] || v->shape[2] != k->shape[2])
        return tpi_fail(q->ctx, at, what, TP_E_SHAPE,
                        "q is %s, k %s, v %s, not [n, h, s, d], [n, hk, t, d], [n, hk, t, e]",
                        SHAPE(q), SHAPE(k), SHAPE(v));
    const int64_t h = q->shape[1], hk = k->shape[1];
    if (h != hk && (h < 0 || hk < 1 || h % hk != 0))
        return tpi_fail(q->ctx, at, what, TP_E_SHAPE,
                        "q %s has not a whole number of heads for each of k %s", SHAPE(q),
                        SHAPE(k));
    return NULL;
}

/* The past before what is new. */
static tp_tensor *after_past(tpi_at at, tp_tensor *past, tp_tensor *t)
{
    return past ? tp_concat(2, (tp_tensor *[]){past, t}, 2) : t;
}

/* The operands, looked at. NULL, or the failed tensor to return. */
static tp_tensor *take(tpi_at at, const char *what, operands *p, const tp_attention_options *o)
{
    tp_tensor *past_k = o->past_key, *past_v = o->past_value;
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(p->q, p->k, p->v));
    if (failed || (failed = tpi_refuse_operand(p->q->ctx, at, what, 1, p->k)) ||
        (failed = tpi_refuse_operand(p->q->ctx, at, what, 2, p->v)) ||
        ((past_k || past_v) &&
         ((failed = tpi_refuse_operand(p->q->ctx, at, what, 5, past_k)) ||
          (failed = tpi_refuse_operand(p->q->ctx, at, what, 6, past_v)))) ||
        (failed = refuse_options(at, what, p->q, o)))
        return failed;
    p->mask = o->mask;
    p->lengths = o->lengths;
    tpi_all_beside(
        at, 7,
        (tp_tensor * *const[]){&p->q, &p->k, &p->v, &p->mask, &p->lengths, &past_k, &past_v});
    p->k = after_past(at, past_k, p->k);
    p->v = after_past(at, past_v, p->v);
    if (p->k->status != TP_OK || p->v->status != TP_OK)
        return p->k->status != TP_OK ? p->k : p->v;
    failed = refuse_shapes(at, what, p);
    if (!failed && p->lengths)
        p->lengths = tpi_lengths_of(at, what, "lengths", p->lengths, p->k, 2, &failed);
    return failed;
}

/* Each head n times, side by side: [b, h, s, d] -> [b, h * n, s, d]. */
static tp_tensor *repeat_heads(tpi_at at, tp_tensor *x, int64_t n)
{
    if (n == 1 || x->status != TP_OK)
        return x;
    const int64_t wide[5] = {x->shape[0], x->shape[1], n, x->shape[2], x->shape[3]};
    const int64_t shape[4] = {x->shape[0], x->shape[1] * n, x->shape[2], x->shape[3]};
    return tp_reshape(tp_broadcast(tp_unsqueeze(x, 2), 5, wide), 4, shape);
}

static tp_tensor *both(tpi_at at, tp_tensor *a, tp_tensor *b)
{
    return a ? tp_and(a, b) : b;
}

/* Which of t keys each of s queries sees by its place, or NULL: all. [s, t], or [n, 1, s, t] */
static tp_tensor *seen_of(tpi_at at, const operands *p, const tp_attention_options *o)
{
    tp_tensor *seen = NULL, *ends = NULL;
    if (!p->lengths && !o->causal && !o->before && !o->after)
        return NULL;
    tp_tensor *column = tpi_iota(at, p->k, p->k->shape[2]);
    tp_tensor *row = tp_unsqueeze(tpi_iota(at, p->q, p->q->shape[2]), 1);
    if (p->lengths) {
        ends = tp_reshape(p->lengths, 4, (int64_t[]){-1, 1, 1, 1});
        seen = tp_lt(column, ends);
        row = tp_add(row, tp_sub(ends, tp_extent(p->q, 1, (int64_t[]){2}, TP_I64)));
    } else if (o->past_key) {
        row = tp_add(row, tp_extent(o->past_key, 1, (int64_t[]){2}, TP_I64));
    }
    if (o->causal)
        seen = both(at, seen, tp_ge(row, column));
    if (o->after)
        seen =
            both(at, seen, tp_gt(tp_add(row, tp_scalar_like(row, (double)o->after)), column));
    if (o->before)
        seen =
            both(at, seen, tp_lt(tp_sub(row, tp_scalar_like(row, (double)o->before)), column));
    return seen;
}

/* What is added to the scores, or NULL. */
static tp_tensor *bias_of(tpi_at at, const operands *p, const tp_attention_options *o)
{
    tp_tensor *seen = seen_of(at, p, o), *added = NULL, *mask = p->mask;
    if (mask && mask->dtype == TP_BOOL)
        seen = both(at, seen, mask);
    else if (mask)
        added = tp_cast(mask, (tp_dtype)p->q->dtype);
    if (!seen)
        return added;
    const tp_dtype dtype = (tp_dtype)p->q->dtype;
    return tp_where(seen, added ? added : tp_scalar(p->q->ctx, dtype, 0),
                    tp_scalar(p->q->ctx, dtype, -INFINITY));
}

/* Softmax along the keys; a query that is kept from all of them gets nothing. */
static tp_tensor *shares_of(tpi_at at, tp_tensor *score, tp_tensor *bias)
{
    if (!bias)
        return tp_softmax(score, -1);
    tp_tensor *top = tp_detach(tp_reduce_max(bias, 1, (int64_t[]){-1}, true));
    tp_tensor *none = tp_eq(top, -INFINITY);
    return tp_where(none, 0, tp_softmax(tp_where(none, 0, score), -1));
}

tp_tensor *tpi_attention(tpi_at at, tp_tensor *q, tp_tensor *k, tp_tensor *v,
                         const tp_attention_options *o, tp_tensor **present, tp_tensor **stages)
{
    static const tp_attention_options plain;
    tp_tensor *stage[4];
    operands p = {.q = q, .k = k, .v = v};
    o = o ? o : &plain;
    stages = stages ? stages : stage;
    tp_tensor *failed = take(at, "attention", &p, o);
    for (int i = 0; i < 2 && present; i++)
        present[i] = failed ? failed : i ? p.v : p.k;
    if (failed)
        return failed;
    const int64_t group = p.q->shape[1] == p.k->shape[1] ? 1 : p.q->shape[1] / p.k->shape[1];
    tp_tensor *scale = o->scale != 0
                           ? tp_scalar_like(p.q, o->scale)
                           : tp_rsqrt(tp_extent(p.q, 1, (int64_t[]){3}, (tp_dtype)p.q->dtype));
    tp_tensor *turned = tp_swap(repeat_heads(at, p.k, group), -1, -2);
    stages[0] = stages[1] = tp_matmul(tp_mul(p.q, scale), turned);
    if (o->softcap > 0) {
        tp_tensor *c = tp_scalar_like(p.q, o->softcap);
        stages[1] = tp_mul(tp_tanh(tp_div(stages[0], c)), c);
    }
    tp_tensor *bias = bias_of(at, &p, o);
    stages[2] = bias ? tp_add(stages[1], bias) : stages[1];
    stages[3] = shares_of(at, stages[2], p.mask || p.lengths || o->before ? bias : NULL);
    return tp_matmul(stages[3], repeat_heads(at, p.v, group));
}

TPI_COMPOSITE(tp_attention,
              (tp_tensor * q, tp_tensor *k, tp_tensor *v, const tp_attention_options *options,
               tp_tensor **present),
              q, k, v, options, present)
{
    return tpi_attention(at, q, k, v, options, present, NULL);
}

/* ---- positions --------------------------------------------------------------------------------------- */

/* Elements lo, lo + step, ... before stop of the last axis of x. */
static tp_tensor *every(tpi_at at, tp_tensor *x, int64_t lo, int64_t stop, int64_t step)
{
    return tp_slice(x, x->rank - 1, lo, stop, step);
}

TPI_COMPOSITE(tp_rotary, (tp_tensor * x, tp_tensor *cos, tp_tensor *sin, bool neighbours), x,
              cos, sin, neighbours)
{
    const char *what = "rotary";
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(x, cos, sin));
    if (failed || (failed = tpi_refuse_operand(x->ctx, at, what, 1, cos)) ||
        (failed = tpi_refuse_operand(x->ctx, at, what, 2, sin)))
        return failed;
    tpi_all_beside(at, 3, (tp_tensor * *const[]){&x, &cos, &sin});
    const int64_t size = x->rank ? x->shape[x->rank - 1] : 0;
    const int64_t half = cos->rank ? cos->shape[cos->rank - 1] : 0;
    const int64_t turned = tpi_dim_mul(tpi_dims_of(x), half, 2);
    if (!x->rank || !cos->rank || cos->rank > x->rank || !tpi_same_shape(cos, sin) ||
        half == 0 || (size >= 0 && turned > size))
        return tpi_fail(
            x->ctx, at, what, TP_E_SHAPE,
            "x is %s, cosines %s, sines %s, not [..., d] and twice [..., r / 2], r <= d",
            SHAPE(x), SHAPE(cos), SHAPE(sin));
    tp_tensor *a = neighbours ? every(at, x, 0, turned, 2) : every(at, x, 0, half, 1);
    tp_tensor *b = neighbours ? every(at, x, 1, turned, 2) : every(at, x, half, turned, 1);
    tp_tensor *y[3] = {tp_sub(tp_mul(cos, a), tp_mul(sin, b)),
                       tp_add(tp_mul(sin, a), tp_mul(cos, b))};
    const int axis = x->rank - 1;
    if (neighbours)
        y[0] = tp_flatten(tp_stack(2, y, x->rank), axis);
    int n = neighbours ? 1 : 2;
    if (turned != size)
        y[n++] = every(at, x, turned, TP_END, 1);
    return n == 1 ? y[0] : tp_concat(n, y, axis);
}
