/* Attention within rows: padded, and masked where a row of keys has ended. */
#include "composite/packed.h"
#include "op/sizes.h"

static tp_tensor *refuse_heads(tpi_at at, const char *what, const tpi_ragged *q, tpi_ragged *k,
                               tp_tensor **v)
{
    const tp_tensor *x = q->values, *y = k->values;
    if (x->rank != 3 || y->rank != 3 || (*v)->rank != 3 || !tpi_takes_size(at, v, 0, k->total))
        return tpi_fail(
            x->ctx, at, what, TP_E_SHAPE,
            "q is %s, k %s, v %s, not [total, heads, size] each, k and v of one total",
            SHAPE(x), SHAPE(y), SHAPE(*v));
    if (!tpi_takes_size(at, &k->lengths, 0, q->rows) ||
        !tpi_takes_size(at, &k->starts, 0, q->rows))
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                        "offsets of q are %s, and of k %s: they have to have as many rows",
                        SHAPE(q->offsets), SHAPE(k->offsets));
    return NULL;
}

static tp_tensor *refuse_options(tpi_at at, const char *what, const tp_tensor *q,
                                 const tp_attention_options *o)
{
    if (!o || !(o->mask || o->lengths || o->past_key || o->past_value))
        return NULL;
    return tpi_fail(q->ctx, at, what, TP_E_VALUE,
                    "options have %s, which rows have not: tp_ragged_pad them for tp_attention",
                    o->mask      ? "a mask"
                    : o->lengths ? "lengths"
                                 : "a past");
}

/* [rows, heads, most, size] */
static tp_tensor *padded(tpi_at at, const tpi_ragged *p, tp_tensor *columns)
{
    return tp_swap(tpi_padded(at, p, columns, 0), 1, 2);
}

TPI_COMPOSITE(tp_ragged_attention,
              (tp_ragged q, tp_ragged k, tp_tensor *v, int64_t most,
               const tp_attention_options *options),
              q, k, v, most, options)
{
    const char *what = "ragged_attention";
    tpi_ragged of_q, of_k, of_v;
    const bool same = q.offsets == k.offsets;
    tp_tensor *failed =
        tpi_ragged_of(at, what, q, &of_q, 3, (tp_tensor * *const[]){&k.values, &k.offsets, &v});
    if (failed || (failed = tpi_ragged_of(at, what, k, &of_k, 0, NULL)) ||
        (failed = refuse_heads(at, what, &of_q, &of_k, &v)) ||
        (failed = tpi_refuse_most(at, what, &of_q, most)) ||
        (failed = tpi_refuse_most(at, what, &of_k, most)) ||
        (failed = refuse_options(at, what, of_q.values, options)))
        return failed;
    of_v = of_k;
    of_v.values = v;
    tp_tensor *queries = most ? tpi_iota(at, of_q.offsets, most) : tpi_up_to_longest(at, &of_q);
    tp_tensor *keys = most || same ? queries : tpi_up_to_longest(at, &of_k);
    if (tp_failed(queries) || tp_failed(keys))
        return tp_failed(queries) ? queries : keys;
    tp_attention_options o = options ? *options : (tp_attention_options){0};
    o.mask = tp_lt(keys, tp_reshape(of_k.lengths, TP_DIMS(-1, 1, 1, 1)));
    tp_tensor *y = tpi_attention(at, padded(at, &of_q, queries), padded(at, &of_k, keys),
                                 padded(at, &of_v, keys), &o, NULL, NULL);
    if (tp_failed(y))
        return y;
    tp_tensor *ids = tpi_ragged_ids(at, &of_q);
    return tpi_unpadded(at, tp_swap(y, 1, 2), ids, tpi_positions_of(at, of_q.offsets, ids));
}
