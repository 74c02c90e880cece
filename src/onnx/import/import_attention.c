/* Attention, and the turning of positions that goes with it. */
#include "composite/composite.h"
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

/* Queries, keys and values by heads. */
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
    return tpi_onnx_good(o, *q) && tpi_onnx_good(o, *k) && tpi_onnx_good(o, *v);
}

/* The mask for t keys: what it does not speak of is masked. */
static tp_tensor *wide_mask(tpi_onnx_op *o, tp_tensor *mask, int64_t t)
{
    const int rank = tp_rank(mask);
    const int64_t width = rank > 0 ? tp_dim(mask, -1) : 1;
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    if (width <= 1 || width >= t)
        return mask;
    hi[rank - 1] = t - width;
    return tp_pad(mask, rank, lo, hi, mask->dtype == TP_BOOL ? 0 : -INFINITY);
}

/* Operand i, unless it is left out; false after an error. */
static bool read_other(tpi_onnx_op *o, int i, tp_tensor **out)
{
    *out = tpi_onnx_has(o, i) ? tpi_onnx_good_in(o, i) : NULL;
    return *out || !tpi_onnx_has(o, i);
}

static bool read_options(tpi_onnx_op *o, const tp_tensor *k, tp_attention_options *opt)
{
    *opt = (tp_attention_options){
        .scale = tpi_onnx_given(o, "scale") ? tpi_onnx_float(o, "scale") : 0,
        .softcap = tpi_onnx_float(o, "softcap"),
        .causal = tpi_onnx_int(o, "is_causal") != 0,
    };
    if (!read_other(o, 3, &opt->mask) || !read_other(o, 4, &opt->past_key) ||
        !read_other(o, 5, &opt->past_value) || !read_other(o, 6, &opt->lengths))
        return false;
    int64_t t = k->shape[2];
    if (opt->past_key && tp_rank(opt->past_key) == 4)
        t = tpi_onnx_dim_add(o, opt->past_key->shape[2], t);
    opt->mask = opt->mask ? wide_mask(o, opt->mask, t) : NULL;
    return true;
}

bool tpi_onnx_import_attention(tpi_onnx_op *o)
{
    tp_attention_options opt;
    tp_tensor *q, *k, *v, *present[2], *stages[4] = {NULL};
    if (tpi_onnx_int(o, "left_window_size") >= 0 || tpi_onnx_int(o, "right_window_size") >= 0)
        return tpi_onnx_refuse(o, "windows are not supported");
    const int64_t mode = tpi_onnx_int(o, "qk_matmul_output_mode");
    if (mode < 0 || mode > 3)
        return tpi_onnx_refuse(o, "qk_matmul_output_mode is %lld", (long long)mode);
    if (!read_heads(o, &q, &k, &v) || !read_options(o, k, &opt))
        return false;
    tp_tensor *y = tpi_attention(o->at, q, k, v, &opt, present, stages), *given = o->x[0];
    if (given->rank == 3 && y->status == TP_OK)
        y = join_heads(o, y, given);
    return tpi_onnx_out(o, 0, y) && (!tpi_onnx_wants(o, 1) || tpi_onnx_out(o, 1, present[0])) &&
           (!tpi_onnx_wants(o, 2) || tpi_onnx_out(o, 2, present[1])) &&
           (!tpi_onnx_wants(o, 3) || tpi_onnx_out(o, 3, stages[mode]));
}

/* ---- RotaryEmbedding ---------------------------------------------------------------------------------- */

/* Of each position: cosines or sines, operand i, [b, 1, s, r / 2]. */
static tp_tensor *turn_in(tpi_onnx_op *o, int i)
{
    return tp_unsqueeze(o->x[3] ? tp_gather(o->x[i], o->x[3], 0) : o->x[i], 1);
}

tp_tensor *tpi_onnx_import_rotary_embedding(tpi_onnx_op *o, tp_tensor *given)
{
    tp_tensor *x = given, *cosine = turn_in(o, 1), *sine = turn_in(o, 2);
    const int64_t heads = tpi_onnx_int(o, "num_heads");
    const int64_t turned = tpi_onnx_int(o, "rotary_embedding_dim");
    if (given->rank != 4 && (given->rank != 3 || heads < 1))
        return tpi_onnx_refuse(o, "x is %s with %lld heads", SHAPE(given), (long long)heads);
    if (given->rank == 3)
        x = by_head(o, given, heads);
    if (!tpi_onnx_good(o, x) || !tpi_onnx_good(o, cosine))
        return NULL;
    if (turned && turned != 2 * cosine->shape[cosine->rank - 1])
        return tpi_onnx_refuse(o, "%lld elements to turn by cosines %s", (long long)turned,
                               SHAPE(cosine));
    tp_tensor *y = tp_rotary(x, cosine, sine, tpi_onnx_int(o, "interleaved") != 0);
    return given->rank == 3 && y->status == TP_OK ? join_heads(o, y, given) : y;
}
