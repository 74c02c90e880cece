/* Attention, and the turning of positions that goes with it. */
#include "onnx/import/import.h"

#include <math.h>

/* [b, s, n * d] as [b, n, s, d]. */
static tp_tensor *by_head(tpi_onnx_op *o, tp_tensor *x, int64_t n)
{
    const int64_t shape[4] = {x->shape[0], x->shape[1], n, -1}, perm[4] = {0, 2, 1, 3};
    return tp_transpose(tp_reshape(x, 4, shape), 4, perm);
}

/* And back. */
static tp_tensor *join_heads(tpi_onnx_op *o, tp_tensor *y, const tp_tensor *like)
{
    const int64_t shape[3] = {like->shape[0], like->shape[1], -1}, perm[4] = {0, 2, 1, 3};
    return tp_reshape(tp_transpose(y, 4, perm), 3, shape);
}

/* Each head n times, side by side: [b, h, s, d] -> [b, h * n, s, d]. */
static tp_tensor *repeat_heads(tpi_onnx_op *o, tp_tensor *x, int64_t n)
{
    if (n == 1 || x->status != TP_OK)
        return x;
    const int64_t wide[5] = {x->shape[0], x->shape[1], n, x->shape[2], x->shape[3]};
    const int64_t shape[4] = {x->shape[0], tpi_onnx_dim_mul(o, x->shape[1], n), x->shape[2],
                              x->shape[3]};
    return tp_reshape(tp_broadcast(tp_unsqueeze(x, 2), 5, wide), 4, shape);
}

/* 0 where `good`, else -infinity. */
static tp_tensor *bias_of(tpi_onnx_op *o, tp_tensor *good, tp_dtype dtype)
{
    return tp_where(good, tp_scalar(o->ctx, dtype, 0), tp_scalar(o->ctx, dtype, -INFINITY));
}

static tp_tensor *biased(tpi_onnx_op *o, tp_tensor *a, tp_tensor *b)
{
    return a ? tp_add(a, b) : b;
}

/* What is added to the scores of s queries and t keys, or NULL: the mask, what lies ahead, and
 * what lies behind the end of a sample. */
static bool read_bias(tpi_onnx_op *o, int64_t s, int64_t t, tp_dtype dtype, tp_tensor **bias)
{
    *bias = NULL;
    tp_tensor *column = tpi_onnx_iota(o, t, TP_I64), *ends = NULL;
    if (tpi_onnx_has(o, 3)) {
        tp_tensor *mask = tpi_onnx_good_in(o, 3);
        if (!mask)
            return false;
        mask = mask->dtype == TP_BOOL ? bias_of(o, mask, dtype) : tp_cast(mask, dtype);
        const int rank = tp_rank(mask);
        const int64_t width = rank > 0 ? tp_dim(mask, -1) : 1;
        if (width > 1 && width < t) { /* what it does not speak of is masked */
            int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
            hi[rank - 1] = t - width;
            mask = tp_pad(mask, rank, lo, hi, -INFINITY);
        }
        *bias = mask;
    }
    if (o->n_in > 6 && tpi_onnx_has(o, 6))
        ends = tp_reshape(tp_cast(tpi_onnx_in(o, 6), TP_I64), 4, (int64_t[]){-1, 1, 1, 1});
    if (tpi_onnx_int(o, "is_causal")) {
        tp_tensor *row = tp_unsqueeze(tpi_onnx_iota(o, s, TP_I64), 1);
        tp_tensor *size = tpi_onnx_size_of(o, s, TP_I64);
        if (ends)
            row = tp_add(row, tp_sub(ends, size));
        else if (tpi_onnx_has(o, 4)) /* the keys that were there before */
            row = tp_add(row, tpi_onnx_size_of(o, tp_dim(tpi_onnx_in(o, 4), 2), TP_I64));
        *bias = biased(o, *bias, bias_of(o, tp_ge(row, column), dtype));
    }
    if (ends)
        *bias = biased(o, *bias, bias_of(o, tp_lt(column, ends), dtype));
    return true;
}

/* Queries, keys and values by heads, the past before what is new. */
static bool read_heads(tpi_onnx_op *o, tp_tensor **q, tp_tensor **k, tp_tensor **v)
{
    const int64_t hq = tpi_onnx_int(o, "q_num_heads"), hk = tpi_onnx_int(o, "kv_num_heads");
    *q = o->x[0];
    *k = o->x[1];
    *v = o->x[2];
    const int rank = (*q)->rank;
    if ((rank != 3 && rank != 4) || (*k)->rank != rank || (*v)->rank != rank ||
        (rank == 3 && (hq < 1 || hk < 1)))
        return tpi_onnx_refuse(o, "q is %s, k %s, v %s with %lld and %lld heads", SHAPE(*q),
                               SHAPE(*k), SHAPE(*v), (long long)hq, (long long)hk);
    if (rank == 3) {
        *q = by_head(o, *q, hq);
        *k = by_head(o, *k, hk);
        *v = by_head(o, *v, hk);
    }
    if (tpi_onnx_has(o, 4))
        *k = tp_concat(2, (tp_tensor *[]){tpi_onnx_in(o, 4), *k}, 2);
    if (tpi_onnx_has(o, 5))
        *v = tp_concat(2, (tp_tensor *[]){tpi_onnx_in(o, 5), *v}, 2);
    if (!tpi_onnx_good(o, *q) || !tpi_onnx_good(o, *k) || !tpi_onnx_good(o, *v))
        return false;
    const int64_t heads = (*q)->shape[1], given = (*k)->shape[1];
    if (heads == given)
        return true;
    return (heads >= 0 && given >= 1 && heads % given == 0) ||
           tpi_onnx_refuse(o, "%lld heads of queries and %lld of keys", (long long)heads,
                           (long long)given);
}

bool tpi_onnx_import_attention(tpi_onnx_op *o)
{
    tp_tensor *q, *k, *v, *bias, *results[4];
    if (tpi_onnx_int(o, "left_window_size") >= 0 || tpi_onnx_int(o, "right_window_size") >= 0)
        return tpi_onnx_refuse(o, "windows are not supported");
    const int64_t mode = tpi_onnx_int(o, "qk_matmul_output_mode");
    if (mode < 0 || mode > 3)
        return tpi_onnx_refuse(o, "qk_matmul_output_mode is %lld", (long long)mode);
    if (!read_heads(o, &q, &k, &v))
        return false;
    const tp_dtype dtype = (tp_dtype)q->dtype;
    if (!read_bias(o, q->shape[2], k->shape[2], dtype, &bias) ||
        (tpi_onnx_wants(o, 1) && !tpi_onnx_out(o, 1, k)) ||
        (tpi_onnx_wants(o, 2) && !tpi_onnx_out(o, 2, v)))
        return false;
    const int64_t group = q->shape[1] == k->shape[1] ? 1 : q->shape[1] / k->shape[1];
    tp_tensor *scale = tp_scalar(o->ctx, dtype, tpi_onnx_float(o, "scale"));
    if (!tpi_onnx_given(o, "scale"))
        scale = tp_rsqrt(tpi_onnx_size_of(o, q->shape[3], dtype));
    tp_tensor *turned = tp_swap(repeat_heads(o, k, group), -1, -2);
    tp_tensor *score = results[0] = results[1] = tp_matmul(tp_mul(q, scale), turned);
    const double cap = tpi_onnx_float(o, "softcap");
    if (cap > 0) {
        tp_tensor *c = tp_scalar(o->ctx, dtype, cap);
        score = results[1] = tp_mul(tp_tanh(tp_div(score, c)), c);
    }
    score = results[2] = bias ? tp_add(score, bias) : score;
    tp_tensor *share = tp_softmax(score, -1);
    if (bias) { /* a query that is kept from all keys gets nothing */
        const int64_t last = -1;
        tp_tensor *top = tp_reduce_max(bias, 1, &last, true);
        tp_tensor *none = tp_eq(top, tp_scalar(o->ctx, dtype, -INFINITY));
        share = tp_where(none, tp_scalar(o->ctx, dtype, 0), share);
    }
    results[3] = share;
    tp_tensor *y = tp_matmul(share, repeat_heads(o, v, group)), *given = o->x[0];
    if (given->rank == 3)
        y = join_heads(o, y, given);
    return tpi_onnx_out(o, 0, y) &&
           (!tpi_onnx_wants(o, 3) || tpi_onnx_out(o, 3, results[mode]));
}

/* ---- RotaryEmbedding ---------------------------------------------------------------------------------- */

/* Of each position: cosines or sines, operand i, [b, 1, s, r]. */
static tp_tensor *turn_in(tpi_onnx_op *o, int i)
{
    return tp_unsqueeze(o->x[3] ? tp_gather(o->x[i], o->x[3], 0) : o->x[i], 1);
}

/* Pairs of elements, halves of each head or neighbours, turned by an angle of their position. */
tp_tensor *tpi_onnx_import_rotary_embedding(tpi_onnx_op *o, tp_tensor *given)
{
    tp_tensor *x = given, *a, *b;
    const int64_t heads = tpi_onnx_int(o, "num_heads");
    if (given->rank != 4 && (given->rank != 3 || heads < 1))
        return tpi_onnx_refuse(o, "x is %s with %lld heads", SHAPE(given), (long long)heads);
    if (given->rank == 3)
        x = by_head(o, given, heads);
    if (!tpi_onnx_good(o, x))
        return NULL;
    const int64_t size = x->shape[3], said = tpi_onnx_int(o, "rotary_embedding_dim");
    const int64_t turned = said ? said : size;
    if (size < 2 || turned < 2 || turned > size || turned % 2 != 0)
        return tpi_onnx_refuse(o, "%lld elements of %s to turn", (long long)turned, SHAPE(x));
    const bool mixed = tpi_onnx_int(o, "interleaved") != 0;
    tp_tensor *part = tp_slice(x, 3, 0, turned, 1);
    a = mixed ? tp_slice(part, 3, 0, TP_END, 2) : tp_slice(part, 3, 0, turned / 2, 1);
    b = mixed ? tp_slice(part, 3, 1, TP_END, 2) : tp_slice(part, 3, turned / 2, TP_END, 1);
    tp_tensor *cosine = turn_in(o, 1), *sine = turn_in(o, 2);
    tp_tensor *both[] = {tp_sub(tp_mul(cosine, a), tp_mul(sine, b)),
                         tp_add(tp_mul(sine, a), tp_mul(cosine, b))};
    tp_tensor *y =
        mixed ? tp_reshape(tp_stack(2, both, 4), 4, part->shape) : tp_concat(2, both, 3);
    if (turned < size)
        y = tp_concat(2, (tp_tensor *[]){y, tp_slice(x, 3, turned, TP_END, 1)}, 3);
    return given->rank == 3 ? join_heads(o, y, given) : y;
}
