/* Misuse of ragged.h. */
#include "misuse_forms.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

/* Two rows of b->f [2, 3], of one element each. */
static tp_tensor *offsets(bed *b)
{
    return tp_arange(b->tp, TP_I64, 3, 0, 1);
}

static tp_ragged rows(bed *b)
{
    return (tp_ragged){b->f, offsets(b)};
}

/* call: over `pair`, which has either tensor as x. */
#define PAIR(call)                                                                             \
    do {                                                                                       \
        tp_tensor *const o = offsets(b);                                                       \
        tp_ragged pair;                                                                        \
        OPERAND(b, b->f, (pair = (tp_ragged){x, o}, call));                                    \
        OPERAND(b, o, (pair = (tp_ragged){b->f, x}, call));                                    \
        BAD(b, TP_E_DTYPE, (pair = (tp_ragged){b->f, b->c}, call));                            \
        BAD(b, TP_E_SHAPE, (pair = (tp_ragged){b->f, b->along}, call));                        \
        BAD(b, TP_E_SHAPE, (pair = (tp_ragged){b->f, tp_slice(o, 0, 0, 0, 1)}, call));         \
        BAD(b, TP_E_SHAPE, (pair = (tp_ragged){tp_scalar(b->tp, TP_F32, 1), o}, call));        \
        BAD(b, TP_E_VALUE, (pair = (tp_ragged){b->f, b->i}, call));                            \
        BAD(b, TP_E_VALUE, (pair = (tp_ragged){b->f, tp_neg(o)}, call));                       \
        BAD(b, TP_E_CTX, (pair = (tp_ragged){b->f, b->foreign}, call));                           \
    } while (0)
#define OF_ROWS(fn)                                                                            \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        PAIR(fn(pair));                                                                        \
    }
#define OF_FLOATS(fn)                                                                          \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        PAIR(fn(pair));                                                                        \
        BAD(b, TP_E_DTYPE, fn((tp_ragged){b->along, offsets(b)}));                             \
    }

MISUSE(tp_ragged_new)
{
    PAIR(tp_ragged_new(pair.values, pair.offsets));
}

MISUSE(tp_ragged_of_lengths)
{
    tp_tensor *one = tp_full(b->tp, TP_I64, TP_DIMS(2), 1);
    OPERAND(b, b->f, tp_ragged_of_lengths(x, one));
    OPERAND(b, one, tp_ragged_of_lengths(b->f, x));
    BAD(b, TP_E_DTYPE, tp_ragged_of_lengths(b->f, b->c));
    BAD(b, TP_E_SHAPE, tp_ragged_of_lengths(b->f, b->along));
    BAD(b, TP_E_SHAPE, tp_ragged_of_lengths(tp_scalar(b->tp, TP_F32, 1), one));
    BAD(b, TP_E_VALUE, tp_ragged_of_lengths(b->f, b->i));
    BAD(b, TP_E_VALUE, tp_ragged_of_lengths(b->f, tp_neg(one)));
    BAD(b, TP_E_VALUE, tp_ragged_of_lengths(b->f, far(b, TP_DIMS(2))));
    BAD(b, TP_E_CTX, tp_ragged_of_lengths(b->f, b->foreign));
}

MISUSE(tp_ragged_of_padded)
{
    OPERAND(b, b->f, tp_ragged_of_padded(x, b->i));
    OPERAND(b, b->i, tp_ragged_of_padded(b->f, x));
    BAD(b, TP_E_DTYPE, tp_ragged_of_padded(b->f, b->c));
    BAD(b, TP_E_SHAPE, tp_ragged_of_padded(b->t, b->i));
    BAD(b, TP_E_SHAPE, tp_ragged_of_padded(b->c, b->i));
    BAD(b, TP_E_VALUE, tp_ragged_of_padded(b->f, far(b, TP_DIMS(2))));
    BAD(b, TP_E_CTX, tp_ragged_of_padded(b->f, b->foreign));
}

OF_ROWS(tp_ragged_lengths)
OF_ROWS(tp_ragged_ids)
OF_ROWS(tp_ragged_positions)
OF_ROWS(tp_ragged_by_time)

MISUSE(tp_ragged_pad)
{
    PAIR(tp_ragged_pad(pair, 2, 0));
    BAD(b, TP_E_VALUE, tp_ragged_pad(rows(b), -1, 0));
    const tp_ragged one = {b->f, tp_mul(tp_arange(b->tp, TP_I64, 2, 0, 1), 2)};
    BAD(b, TP_E_VALUE, tp_ragged_pad(one, 1, 0));
}

MISUSE(tp_ragged_unpad)
{
    PAIR(tp_ragged_unpad(b->f, pair));
    OPERAND(b, b->f, tp_ragged_unpad(x, rows(b)));
    BAD(b, TP_E_SHAPE, tp_ragged_unpad(b->t, rows(b)));
    BAD(b, TP_E_SHAPE, tp_ragged_unpad(b->c, rows(b)));
    BAD(b, TP_E_VALUE, tp_ragged_unpad(tp_slice(b->f, 1, 0, 0, 1), rows(b)));
    BAD(b, TP_E_CTX, tp_ragged_unpad(b->foreign, rows(b)));
}

MISUSE(tp_ragged_take)
{
    PAIR(tp_ragged_take(pair, b->i));
    const tp_ragged r = rows(b);
    OPERAND(b, b->i, tp_ragged_take(r, x));
    BAD(b, TP_E_DTYPE, tp_ragged_take(r, b->c));
    BAD(b, TP_E_SHAPE, tp_ragged_take(r, b->along));
    BAD_AS(b, "ragged_take|gather", TP_E_VALUE, tp_ragged_take(r, far(b, TP_DIMS(2))));
    BAD(b, TP_E_CTX, tp_ragged_take(r, b->foreign));
}

MISUSE(tp_ragged_join)
{
    tp_tensor *outer = tp_mul(tp_arange(b->tp, TP_I64, 2, 0, 1), 2);
    PAIR(tp_ragged_join(pair, outer));
    const tp_ragged r = rows(b);
    OPERAND(b, outer, tp_ragged_join(r, x));
    BAD(b, TP_E_DTYPE, tp_ragged_join(r, b->c));
    BAD(b, TP_E_SHAPE, tp_ragged_join(r, b->along));
    BAD(b, TP_E_VALUE, tp_ragged_join(r, b->i));
    BAD(b, TP_E_CTX, tp_ragged_join(r, b->foreign));
}

MISUSE(tp_ragged_bucket)
{
    PAIR(tp_ragged_bucket(pair, 3));
    BAD(b, TP_E_VALUE, tp_ragged_bucket(rows(b), 0));
    BAD(b, TP_E_VALUE, tp_ragged_bucket(rows(b), -3));
}

MISUSE(tp_ragged_spread)
{
    PAIR(tp_ragged_spread(b->f, pair));
    OPERAND(b, b->f, tp_ragged_spread(x, rows(b)));
    BAD(b, TP_E_SHAPE, tp_ragged_spread(b->t, rows(b)));
    BAD(b, TP_E_SHAPE, tp_ragged_spread(tp_scalar(b->tp, TP_F32, 1), rows(b)));
    BAD(b, TP_E_CTX, tp_ragged_spread(b->foreign, rows(b)));
}

MISUSE(tp_ragged_sum)
{
    PAIR(tp_ragged_sum(pair));
    BAD(b, TP_E_DTYPE, tp_ragged_sum((tp_ragged){b->flag, offsets(b)}));
}

OF_FLOATS(tp_ragged_mean)
OF_ROWS(tp_ragged_max)
OF_ROWS(tp_ragged_min)
OF_FLOATS(tp_ragged_logsumexp)
OF_FLOATS(tp_ragged_softmax)
OF_FLOATS(tp_ragged_log_softmax)

MISUSE(tp_ragged_attention)
{
    tp_tensor *x3 = tp_unsqueeze(b->f, 1);
    const tp_ragged r = {x3, offsets(b)}, one = {x3, tp_mul(tp_arange(b->tp, TP_I64, 2, 0, 1), 2)};
    OPERAND(b, x3, tp_ragged_attention(((tp_ragged){x, r.offsets}), r, x3, 2, NULL));
    OPERAND(b, x3, tp_ragged_attention(r, ((tp_ragged){x, r.offsets}), x3, 2, NULL));
    OPERAND(b, r.offsets, tp_ragged_attention(((tp_ragged){x3, x}), r, x3, 2, NULL));
    OPERAND(b, r.offsets, tp_ragged_attention(r, ((tp_ragged){x3, x}), x3, 2, NULL));
    OPERAND(b, x3, tp_ragged_attention(r, r, x, 2, NULL));
    BAD(b, TP_E_SHAPE, tp_ragged_attention(rows(b), r, x3, 2, NULL));
    BAD(b, TP_E_SHAPE, tp_ragged_attention(r, one, x3, 2, NULL));
    BAD(b, TP_E_SHAPE, tp_ragged_attention(r, r, b->f, 2, NULL));
    BAD(b, TP_E_SHAPE, tp_ragged_attention(r, r, tp_unsqueeze(b->t, 1), 2, NULL));
    BAD(b, TP_E_VALUE, tp_ragged_attention(r, r, x3, -1, NULL));
    BAD(b, TP_E_VALUE, tp_ragged_attention(one, one, x3, 1, NULL));
    BAD(b, TP_E_VALUE, tp_ragged_attention(r, r, x3, 2, &(tp_attention_options){.mask = b->flag}));
    BAD(b, TP_E_VALUE, tp_ragged_attention(r, r, x3, 2, &(tp_attention_options){.lengths = b->i}));
    BAD(b, TP_E_VALUE, tp_ragged_attention(r, r, x3, 2, &(tp_attention_options){.past_key = x3}));
    BAD_AS(b, "attention", TP_E_VALUE, tp_ragged_attention(r, r, x3, 2, &(tp_attention_options){.before = -1}));
    BAD(b, TP_E_CTX, tp_ragged_attention(r, r, tp_unsqueeze(b->foreign, 1), 2, NULL));
}

const misuse misuse_ragged[] = {
    LISTED(tp_ragged_new),
    LISTED(tp_ragged_of_lengths),
    LISTED(tp_ragged_of_padded),
    LISTED(tp_ragged_lengths),
    LISTED(tp_ragged_ids),
    LISTED(tp_ragged_positions),
    LISTED(tp_ragged_by_time),
    LISTED(tp_ragged_pad),
    LISTED(tp_ragged_unpad),
    LISTED(tp_ragged_take),
    LISTED(tp_ragged_join),
    LISTED(tp_ragged_bucket),
    LISTED(tp_ragged_spread),
    LISTED(tp_ragged_sum),
    LISTED(tp_ragged_mean),
    LISTED(tp_ragged_max),
    LISTED(tp_ragged_min),
    LISTED(tp_ragged_logsumexp),
    LISTED(tp_ragged_softmax),
    LISTED(tp_ragged_log_softmax),
    LISTED(tp_ragged_attention),
    {0},
};
