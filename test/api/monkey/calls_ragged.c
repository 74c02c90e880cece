/* Calls of ragged.h. */
#include "monkey.h"

/* Offsets of 4 elements in 4 rows, or whatever there is. */
static tp_tensor *offsets(monkey *m)
{
    static const int64_t at[][5] = {
        {0, 1, 1, 2, 4},
        {0, 0, 4, 4, 4},
        {0, 1, 3, 2, 4}
    };
    const int k = below(m, 12);
    return k < 4 ? integers(m)
                 : tp_tensor_new(m->tp, TP_I64, TP_DIMS(5), at[k == 4 ? 2 : k % 2]);
}

static tp_ragged ragged(monkey *m)
{
    tp_tensor *o = offsets(m);
    switch (below(m, 8)) {
    case 0:
        return (tp_ragged){tensor(m), o};
    case 1:
        return (tp_ragged){fresh(m, TP_I64, TP_DIMS(4)), o};
    default:
        return (tp_ragged){fresh(m, TP_F32, TP_DIMS(4, 2)), o};
    }
}

static int put_rows(monkey *m, tp_ragged r)
{
    return put_both(m, r.values, r.offsets);
}

static int64_t most(monkey *m)
{
    return below(m, 3) ? 4 * below(m, 2) : size(m);
}

#define OF_ROWS(f)                                                                             \
    CALL(f)                                                                                    \
    {                                                                                          \
        const tp_ragged r = ragged(m);                                                         \
        return put(m, BOTH(m, f, r));                                                          \
    }

CALL(tp_ragged_new)
{
    const tp_ragged r = ragged(m);
    return put_rows(m, BOTH(m, tp_ragged_new, r.values, r.offsets));
}

CALL(tp_ragged_of_lengths)
{
    tp_tensor *x = below(m, 3) ? fresh(m, TP_F32, TP_DIMS(4, 2)) : tensor(m);
    tp_tensor *l = below(m, 3) ? tp_full(m->tp, TP_I64, TP_DIMS(2), 2) : integers(m);
    return put_rows(m, BOTH(m, tp_ragged_of_lengths, x, l));
}

CALL(tp_ragged_of_padded)
{
    tp_tensor *x = below(m, 3) ? fresh(m, TP_F32, TP_DIMS(2, 3)) : tensor(m);
    tp_tensor *l = below(m, 3) ? fresh(m, TP_I64, TP_DIMS(2)) : integers(m);
    return put_rows(m, BOTH(m, tp_ragged_of_padded, x, l));
}

OF_ROWS(tp_ragged_lengths)
OF_ROWS(tp_ragged_ids)
OF_ROWS(tp_ragged_positions)
OF_ROWS(tp_ragged_by_time)

CALL(tp_ragged_pad)
{
    const tp_ragged r = ragged(m);
    const int64_t n = most(m);
    const double fill = number(m);
    return put(m, BOTH(m, tp_ragged_pad, r, n, fill));
}

CALL(tp_ragged_unpad)
{
    const tp_ragged r = ragged(m);
    tp_tensor *x = below(m, 3) ? fresh(m, TP_F32, TP_DIMS(4, 4)) : tensor(m);
    return put(m, BOTH(m, tp_ragged_unpad, x, r));
}

CALL(tp_ragged_take)
{
    const tp_ragged r = ragged(m);
    tp_tensor *i = below(m, 3) ? fresh(m, TP_I64, TP_DIMS(3)) : integers(m);
    return put_rows(m, BOTH(m, tp_ragged_take, r, i));
}

CALL(tp_ragged_join)
{
    const tp_ragged r = ragged(m);
    tp_tensor *outer = offsets(m);
    return put_rows(m, BOTH(m, tp_ragged_join, r, outer));
}

CALL(tp_ragged_bucket)
{
    const tp_ragged r = ragged(m);
    const int64_t n = most(m);
    return put_rows(m, BOTH(m, tp_ragged_bucket, r, n));
}

CALL(tp_ragged_spread)
{
    const tp_ragged r = ragged(m);
    tp_tensor *x = below(m, 3) ? fresh(m, TP_F32, TP_DIMS(4, 3)) : tensor(m);
    return put(m, BOTH(m, tp_ragged_spread, x, r));
}

OF_ROWS(tp_ragged_sum)
OF_ROWS(tp_ragged_mean)
OF_ROWS(tp_ragged_max)
OF_ROWS(tp_ragged_min)
OF_ROWS(tp_ragged_logsumexp)
OF_ROWS(tp_ragged_softmax)
OF_ROWS(tp_ragged_log_softmax)

CALL(tp_ragged_attention)
{
    const tp_attention_options o = {.causal = below(m, 2), .scale = rarely(m) ? number(m) : 0};
    tp_ragged q = ragged(m), k = {below(m, 8) ? fresh(m, TP_F32, TP_DIMS(4, 1, 2)) : tensor(m),
                                  below(m, 4) ? q.offsets : offsets(m)};
    tp_tensor *v = below(m, 8) ? k.values : fellow(m, k.values);
    const int64_t n = most(m);
    q.values = below(m, 8) ? fresh(m, TP_F32, TP_DIMS(4, 1, 2)) : q.values;
    return put(m, BOTH(m, tp_ragged_attention, q, k, v, n, below(m, 2) ? &o : NULL));
}
