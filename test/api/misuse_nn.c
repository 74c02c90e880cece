/* Misuse of nn.h. */
#include "misuse.h"

#include <math.h>

/* Each case's head looks like a call to it. */
/* clang-format off */

MISUSE(tp_dense_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    assert_true(tp_failed(tp_dense_new(NULL, "l", 3, 2).w));
    BAD(b, TP_E_NULL, tp_dense_new(b->tp, NULL, 3, 2).w);
    BAD(b, TP_E_SHAPE, tp_dense_new(b->tp, "l", -1, 2).w);
    BAD(b, TP_E_SHAPE, tp_dense_new(b->tp, "l", 3, -1).b);
    BAD(b, TP_E_SHAPE, tp_dense_new(b->tp, "l", INT64_MAX, INT64_MAX).w);
}

MISUSE(tp_dense_apply)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_dense l = tp_dense_new(b->tp, "l", 3, 2), empty = {0};
    OPERAND(b, b->f, tp_dense_apply(&l, x));
    STICKS(b, tp_dense_apply(NULL, b->f));
    STICKS(b, tp_dense_apply(&empty, b->f));
    STICKS(b, tp_dense_apply(&l, b->t));
    STICKS(b, tp_dense_apply(&l, b->foreign));
}

MISUSE(tp_conv_layer_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    assert_true(tp_failed(tp_conv_layer_new(NULL, "l", 2, 3, 2, 1, 0).w));
    BAD(b, TP_E_NULL, tp_conv_layer_new(b->tp, NULL, 2, 3, 2, 1, 0).w);
    BAD(b, TP_E_SHAPE, tp_conv_layer_new(b->tp, "l", -2, 3, 2, 1, 0).w);
    BAD(b, TP_E_SHAPE, tp_conv_layer_new(b->tp, "l", INT64_MAX, 3, INT64_MAX, 1, 0).w);
}

MISUSE(tp_conv_layer_apply)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_conv_layer l = tp_conv_layer_new(b->tp, "l", 2, 3, 2, 1, 0), empty = {0};
    OPERAND(b, b->image, tp_conv_layer_apply(&l, x));
    STICKS(b, tp_conv_layer_apply(NULL, b->image));
    STICKS(b, tp_conv_layer_apply(&empty, b->image));
    STICKS(b, tp_conv_layer_apply(&l, b->f));
}

/* What both makers refuse. */
#define OPTIMIZER(make)                                                                        \
    do {                                                                                       \
        tp_tensor *x[2] = {b->param, b->param};                                                \
        tp_ctx *tp = NULL;                                                                     \
        int n = 1;                                                                             \
        assert_null(make);                                                                     \
        tp = b->tp;                                                                            \
        x[0] = NULL;                                                                           \
        BAD(b, TP_E_NULL, make);                                                          \
        x[0] = b->failed;                                                                      \
        STICKS(b, make);                                                                       \
        x[0] = b->gone;                                                                        \
        BAD(b, TP_E_STATE, make);                                                         \
        x[0] = b->foreign;                                                                     \
        STICKS(b, make);                                                                       \
        x[0] = b->f;                                                                           \
        STICKS(b, make);                                                                       \
        x[0] = b->node;                                                                        \
        STICKS(b, make);                                                                       \
        x[0] = b->param;                                                                       \
        n = -1;                                                                                \
        STICKS(b, make);                                                                       \
    } while (0)

MISUSE(tp_sgd_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    OPTIMIZER(tp_sgd_new(tp, 0.1, 0.9, n, x));
    STICKS(b, tp_sgd_new(b->tp, 0.1, 0, 1, NULL));
}

MISUSE(tp_adam_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    OPTIMIZER(tp_adam_new(tp, 0.1, 0.9, 0.999, 1e-8, 0, n, x));
    STICKS(b, tp_adam_new(b->tp, 0.1, 0.9, 0.999, 1e-8, 0, 1, NULL));
}

MISUSE(tp_optimizer_free)
{
    (void)what;
    tp_optimizer_free(NULL);
    tp_optimizer_free(tp_sgd_new(b->tp, 0.1, 0.9, 1, &b->param));
    assert_non_null(tp_sgd_new(b->tp, 0.1, 0, 1, &b->param)); /* left to tp_close */
}

MISUSE(tp_optimizer_set_rate)
{
    what = ""; /* the texts name the layer or the optimizer */
    assert_int_not_equal(tp_optimizer_set_rate(NULL, 0.1), TP_OK);
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, 0.9, 1, &b->param);
    assert_int_equal(tp_optimizer_set_rate(o, 0.2), TP_OK);
    STICKS(b, tp_optimizer_set_rate(o, (double)NAN));
}

MISUSE(tp_optimizer_step)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, 0.9, 1, &b->param);
    tp_tensor *loss = tp_sum(b->param, TP_ALL, false);
    assert_true(tp_failed(tp_optimizer_step(NULL, loss)));
    tp_clear_error(b->tp);
    STICKS(b, tp_optimizer_step(o, NULL));
    STICKS(b, tp_optimizer_step(o, b->failed));
    STICKS(b, tp_optimizer_step(o, b->gone));
    STICKS(b, tp_optimizer_step(o, b->foreign));
    STICKS(b, tp_optimizer_step(o, b->i));
    float before[6], after[6];
    tp_read(b->param, before, sizeof before);
    STICKS(b, tp_optimizer_step(o, b->failed));
    tp_read(b->param, after, sizeof after);
    assert_memory_equal(before, after, sizeof after);
    assert_true(tp_truth(tp_optimizer_step(o, loss)));
    tp_read(b->param, after, sizeof after);
    assert_memory_not_equal(before, after, sizeof after);
}

const misuse misuse_nn[] = {
    LISTED(tp_dense_new),
    LISTED(tp_dense_apply),
    LISTED(tp_conv_layer_new),
    LISTED(tp_conv_layer_apply),
    LISTED(tp_sgd_new),
    LISTED(tp_adam_new),
    LISTED(tp_optimizer_free),
    LISTED(tp_optimizer_set_rate),
    LISTED(tp_optimizer_step),
    {0},
};
