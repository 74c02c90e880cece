/* control.h, used wrongly; test/control has what blocks refuse. */
#include "misuse.h"

static void nothing(void *user, int n, tp_tensor **v)
{
    (void)user, (void)n, (void)v;
}

static tp_tensor *never(void *user, int n, tp_tensor *const *v)
{
    (void)user, (void)n;
    return tp_lt(tp_sum(v[0], TP_ALL, false), tp_scalar_like(v[0], -1e30));
}

static void scans(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x, int n_ys,
                  tp_tensor **y)
{
    (void)user, (void)n, (void)n_xs, (void)n_ys;
    v[0] = tp_add(v[0], x[0]);
    y[0] = v[0];
}

static tp_tensor *yes(const bed *b)
{
    return tp_scalar(b->tp, TP_BOOL, 1);
}

/* The variable of a block that began badly has failed, and the block is none. */
#define BEGINS_BADLY(b, v, begin)                                                              \
    do {                                                                                       \
        assert_null((void *)(begin));                                                          \
        assert_true(tp_failed(v));                                                             \
        tp_clear_error((b)->tp);                                                               \
    } while (0)

MISUSE(tp_if_begin)
{
    tp_tensor *v = b->f;
    BEGINS_BADLY(b, v, tp_if_begin(TP_PLACE, NULL, &v, TP_BLOCK_END));
    v = b->f;
    BEGINS_BADLY(b, v, tp_if_begin(TP_PLACE, b->failed, &v, TP_BLOCK_END));
    v = b->f;
    BEGINS_BADLY(b, v, tp_if_begin(TP_PLACE, b->gone, &v, TP_BLOCK_END));
    v = b->f; /* no bool, and six of them */
    tp_tensor *const bad[] = {b->f, b->flag};
    for (int i = 0; i < 2; i++)
        BAD_AS(b, "tp_if", TP_E_DTYPE, (void *)tp_if_begin(TP_PLACE, bad[i], &v, TP_BLOCK_END));
    assert_true(tp_failed(v));
}

MISUSE(tp_if_next)
{
    tp_block *none = NULL;
    assert_false(tp_if_next(&none));
    assert_false(tp_if_next(NULL));
    tp_tensor *v = NULL; /* no side gives it a value */
    tp_if (yes(b), &v) {
        tp_neg(b->f);
    }
    assert_null(v);
}

MISUSE(tp_if_side)
{
    assert_false(tp_if_side(NULL));
    tp_tensor *v = b->f;
    tp_if (yes(b), &v) {
        v = b->failed;
    }
    assert_true(tp_failed(v));
    tp_clear_error(b->tp);
}

MISUSE(tp_while_begin)
{
    tp_tensor *v = NULL;
    BEGINS_BADLY(b, v, tp_while_begin(TP_PLACE, &v, TP_BLOCK_END));
    v = b->failed;
    BEGINS_BADLY(b, v, tp_while_begin(TP_PLACE, &v, TP_BLOCK_END));
    tp_tensor *good = b->f;
    v = b->gone;
    BEGINS_BADLY(b, v, tp_while_begin(TP_PLACE, &good, &v, TP_BLOCK_END));
    good = b->f;
    v = b->foreign;
    BEGINS_BADLY(b, v, tp_while_begin(TP_PLACE, &good, &v, TP_BLOCK_END));
    tp_clear_error(b->other);
}

MISUSE(tp_while_next)
{
    tp_block *none = NULL;
    assert_false(tp_while_next(&none, NULL));
    assert_false(tp_while_next(NULL, yes(b)));
    tp_tensor *v = b->f;
    tp_while (b->failed, &v) {
        fail();
    }
    assert_true(tp_failed(v));
    tp_clear_error(b->tp);
    v = b->f;
    tp_while (b->flag, &v) {
        fail();
    }
    assert_true(tp_failed(v));
    assert_int_equal(tp_error(b->tp), TP_E_DTYPE);
    tp_clear_error(b->tp);
}

MISUSE(tp_for_begin)
{
    tp_tensor *v = b->f;
    BEGINS_BADLY(b, v, tp_for_begin(TP_PLACE, 0, (int64_t)-1, &v, TP_BLOCK_END));
    v = NULL;
    BEGINS_BADLY(b, v, tp_for_begin(TP_PLACE, 0, (int64_t)2, &v, TP_BLOCK_END));
    v = b->f;
    tp_for (tp_dim(b->batch, 0), &v) { /* nothing says of which graph */
        fail();
    }
    assert_true(tp_failed(v));
    assert_int_equal(tp_error(b->tp), TP_E_SYMBOLIC);
    tp_clear_error(b->tp);
}

MISUSE(tp_for_next)
{
    tp_block *none = NULL;
    assert_false(tp_for_next(&none));
    assert_false(tp_for_next(NULL));
    tp_tensor *v = b->f;
    tp_for (2, &v) {
        v = b->c;
    }
    assert_true(tp_failed(v));
    assert_int_equal(tp_error(b->tp), TP_E_SHAPE);
    tp_clear_error(b->tp);
}

MISUSE(tp_block_left)
{
    tp_block *none = NULL;
    tp_block_left(&none);
    tp_block_left(NULL);
    tp_tensor *v = b->f;
    tp_for (2, &v) {
        break;
    }
    assert_int_equal(tp_error(b->tp), TP_E_STATE);
    tp_clear_error(b->tp);
}

MISUSE(tp_each)
{
    BAD(b, TP_E_STATE, tp_each(b->f)); /* no loop */
    tp_tensor *v = b->f;
    tp_for (2, &v) {
        OPERAND(b, b->f, tp_each(x));
        BAD(b, TP_E_SHAPE, tp_each(b->t));
        BAD(b, TP_E_SHAPE, tp_each(tp_scalar(b->tp, TP_F32, 1)));
    }
    assert_false(tp_failed(v));
}

MISUSE(tp_emit)
{
    tp_tensor *ys = NULL, *v = b->f;
    BAD(b, TP_E_STATE, tp_emit(&ys, b->f)); /* no loop */
    assert_int_equal(tp_emit(&ys, NULL), TP_E_NULL);
    BAD(b, TP_E_NULL, tp_emit(NULL, b->f));
    tp_for (2, &v) {
        STICKS(b, tp_emit(&ys, b->failed));
        BAD(b, TP_E_STATE, tp_emit(&v, b->f));
        assert_int_equal(tp_emit(&ys, v), TP_OK);
        BAD(b, TP_E_STATE, tp_emit(&ys, v)); /* twice */
    }
    assert_int_equal(tp_dim(ys, 0), 2);
}

MISUSE(tp_turn)
{
    assert_true(tp_failed(tp_turn(NULL)));
    BAD(b, TP_E_STATE, tp_turn(b->tp));
}

MISUSE(tp_checkpoint)
{
    assert_int_equal(tp_checkpoint(NULL), TP_E_NULL);
    BAD(b, TP_E_STATE, tp_checkpoint(b->tp));
}

MISUSE(tp_cond)
{
    tp_tensor *v[] = {b->f};
    assert_int_equal(tp_cond(NULL, nothing, NULL, NULL, 0, NULL), TP_E_NULL);
    BAD(b, TP_E_NULL, tp_cond(yes(b), NULL, NULL, NULL, 1, v));
    BAD(b, TP_E_NULL, tp_cond(yes(b), nothing, NULL, NULL, 1, NULL));
    BAD(b, TP_E_NULL, tp_cond(yes(b), nothing, NULL, NULL, -1, v));
    assert_int_equal(tp_cond(yes(b), nothing, NULL, NULL, 1, v), TP_OK);
}

MISUSE(tp_while_loop)
{
    tp_tensor *v[] = {b->f};
    assert_int_equal(tp_while_loop(never, nothing, NULL, 0, NULL), TP_E_NULL);
    BAD(b, TP_E_NULL, tp_while_loop(NULL, nothing, NULL, 1, v));
    BAD(b, TP_E_NULL, tp_while_loop(never, NULL, NULL, 1, v));
    assert_int_equal(tp_while_loop(never, nothing, NULL, 1, v), TP_OK);
}

MISUSE(tp_scan)
{
    tp_tensor *v[] = {b->c}, *ys[1];
    assert_int_equal(tp_scan(2, NULL, scans, NULL, 0, NULL, 0, NULL, 0, NULL), TP_E_NULL);
    BAD(b, TP_E_NULL, tp_scan(2, NULL, NULL, NULL, 1, v, 1, &b->f, 1, ys));
    BAD(b, TP_E_NULL, tp_scan(2, NULL, scans, NULL, 1, v, 1, NULL, 1, ys));
    BAD(b, TP_E_NULL, tp_scan(2, NULL, scans, NULL, 1, v, 1, &b->f, 1, NULL));
    assert_int_equal(tp_scan(2, NULL, scans, NULL, 1, v, 1, &b->f, 1, ys), TP_OK);
    assert_int_equal(tp_dim(ys[0], 0), 2);
}

/* a line each, for misuse_list.sh */
/* clang-format off */
const misuse misuse_control[] = {
    LISTED(tp_if_begin),
    LISTED(tp_if_next),
    LISTED(tp_if_side),
    LISTED(tp_while_begin),
    LISTED(tp_while_next),
    LISTED(tp_for_begin),
    LISTED(tp_for_next),
    LISTED(tp_block_left),
    LISTED(tp_each),
    LISTED(tp_emit),
    LISTED(tp_turn),
    LISTED(tp_checkpoint),
    LISTED(tp_cond),
    LISTED(tp_while_loop),
    LISTED(tp_scan),
    {0},
};
/* clang-format on */
