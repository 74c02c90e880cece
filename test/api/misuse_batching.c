/* batching.h, used wrongly; test/batch has what waits. */
#include "misuse.h"

MISUSE(tp_batch_begin)
{
    tp_tensor *y = NULL;
    tp_batch (NULL)
        y = tp_neg(b->f);
    assert_false(tp_failed(y));
    tp_batch (b->tp) {
        STICKS(b, tp_neg(b->failed));
        assert_true(tp_failed(tp_add(b->f, b->foreign)));
        tp_clear_error(b->tp);
        y = tp_neg(b->f);
    }
    assert_false(tp_failed(y));
}

MISUSE(tp_batch_next)
{
    tp_batch_block open = tp_batch_begin(b->tp);
    assert_true(tp_batch_next(&open));
    assert_false(tp_batch_next(&open));
    assert_false(tp_batch_next(&open));
    assert_false(tp_batch_next(NULL));
    assert_null(b->tp->frame);
}

MISUSE(tp_batch_left)
{
    tp_batch_block open = tp_batch_begin(b->tp), inner = tp_batch_begin(b->tp);
    tp_batch_left(&inner);
    assert_non_null(b->tp->frame);
    tp_batch_left(&open);
    tp_batch_left(&open);
    tp_batch_left(NULL);
    assert_null(b->tp->frame);
}

static void add_failed(void *user, int64_t i)
{
    bed *b = user;
    STICKS(b, tp_neg(b->failed));
    assert_true(tp_failed(tp_add(b->f, b->foreign)) || i < 0);
}

MISUSE(tp_batch_each)
{
    assert_int_equal(tp_batch_each(NULL, 1, add_failed, b), TP_E_NULL);
    assert_int_equal(tp_batch_each(b->tp, 1, NULL, b), TP_E_NULL);
    assert_int_equal(tp_batch_each(b->tp, -1, add_failed, b), TP_E_VALUE);
    assert_int_equal(tp_batch_each(b->tp, INT64_MAX, add_failed, b), TP_E_VALUE);
    tp_clear_error(b->tp);
    assert_int_equal(tp_batch_each(b->tp, 3, add_failed, b), TP_OK);
    assert_int_equal(tp_error(b->tp), TP_E_CTX);
    tp_clear_error(b->tp);
}

MISUSE(tp_batch_budget)
{
    assert_int_equal(tp_batch_budget(NULL, 1), 0);
    const size_t was = tp_batch_budget(b->tp, SIZE_MAX);
    assert_int_equal(tp_batch_budget(b->tp, was), SIZE_MAX);
}

MISUSE(tp_batch_counts_of)
{
    assert_int_equal(tp_batch_counts_of(NULL).kernels, 0);
    assert_int_equal(tp_batch_counts_of(b->tp).alone, 0);
}

MISUSE(tp_batch_measure)
{
    assert_false(tp_batch_measure(NULL, true));
    assert_false(tp_batch_measure(b->tp, true));
    assert_true(tp_batch_measure(b->tp, false));
}

/* clang-format off */
const misuse misuse_batching[] = {
    LISTED(tp_batch_begin),
    LISTED(tp_batch_next),
    LISTED(tp_batch_left),
    LISTED(tp_batch_each),
    LISTED(tp_batch_budget),
    LISTED(tp_batch_counts_of),
    LISTED(tp_batch_measure),
    {0},
};
/* clang-format on */
