/* Misuse of train.h. */
#include "misuse.h"

#include <math.h>

/* Each case's head looks like a call to it. */
/* clang-format off */

/* What makers refuse. */
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
    OPTIMIZER(tp_sgd_new(tp, 0.1, &(tp_sgd_options){.momentum = 0.9}, n, x));
    STICKS(b, tp_sgd_new(b->tp, 0.1, NULL, 1, NULL));
}

MISUSE(tp_adam_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    OPTIMIZER(tp_adam_new(tp, 0.1, NULL, n, x));
    STICKS(b, tp_adam_new(b->tp, 0.1, NULL, 1, NULL));
}

MISUSE(tp_rmsprop_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    OPTIMIZER(tp_rmsprop_new(tp, 0.1, NULL, n, x));
    STICKS(b, tp_rmsprop_new(b->tp, 0.1, &(tp_rmsprop_options){.alpha = 1}, 1, &b->param));
}

MISUSE(tp_adagrad_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    OPTIMIZER(tp_adagrad_new(tp, 0.1, NULL, n, x));
    STICKS(b, tp_adagrad_new(b->tp, 0.1, &(tp_adagrad_options){.eps = -1}, 1, &b->param));
}

MISUSE(tp_lion_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    OPTIMIZER(tp_lion_new(tp, 0.1, NULL, n, x));
    STICKS(b, tp_lion_new(b->tp, 0.1, &(tp_lion_options){.beta1 = 1}, 1, &b->param));
}

MISUSE(tp_adafactor_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    OPTIMIZER(tp_adafactor_new(tp, 0.1, NULL, n, x));
    STICKS(b, tp_adafactor_new(b->tp, 0.1, &(tp_adafactor_options){.power = -1}, 1, &b->param));
    STICKS(b, tp_adafactor_new(b->tp, 0.1, &(tp_adafactor_options){.clip = -1}, 1, &b->param));
    STICKS(b, tp_adafactor_new(b->tp, 0.1, &(tp_adafactor_options){.decay = -1}, 1, &b->param));
}

static void descend(const void *options, tp_step *s)
{
    (void)options;
    s->w = tp_sub(s->w, s->g);
}

/* A first value of another context. */
static tp_tensor *foreign_first(const void *options, const tp_step *s, int k)
{
    (void)s, (void)k;
    tp_tensor *const *foreign = options;
    return *foreign;
}

MISUSE(tp_optimizer_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    static const tp_optimizer_kind kind = {.name = "own", .update = descend, .options_size = 4};
    static const tp_optimizer_kind no_name = {.update = descend}, no_rule = {.name = "own"};
    OPTIMIZER(tp_optimizer_new(tp, &kind, "1234", 0.1, 0, n, x));
    BAD(b, TP_E_NULL, tp_optimizer_new(b->tp, NULL, NULL, 0.1, 0, 1, &b->param));
    BAD(b, TP_E_NULL, tp_optimizer_new(b->tp, &kind, NULL, 0.1, 0, 1, &b->param));
    BAD(b, TP_E_NULL, tp_optimizer_new(b->tp, &no_name, NULL, 0.1, 0, 1, &b->param));
    BAD(b, TP_E_NULL, tp_optimizer_new(b->tp, &no_rule, NULL, 0.1, 0, 1, &b->param));
    BAD(b, TP_E_VALUE, tp_optimizer_new(b->tp, &kind, "1234", 0.1, -1, 1, &b->param));
    static const tp_optimizer_kind stranger = {.name = "own",
                                               .state = {"v"},
                                               .update = descend,
                                               .options_size = sizeof b->foreign,
                                               .first = foreign_first};
    BAD(b, TP_E_CTX, tp_optimizer_new(b->tp, &stranger, &b->foreign, 0.1, 0, 1, &b->param));
    STICKS(b, tp_optimizer_new(b->tp, &stranger, &b->node, 0.1, 0, 1, &b->param));
    STICKS(b, tp_optimizer_new(b->tp, &stranger, &b->failed, 0.1, 0, 1, &b->param));
}

MISUSE(tp_optimizer_apply)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, NULL, 1, &b->param);
    tp_tensor *g = tp_mul(b->param, 1);
    assert_true(tp_failed(tp_optimizer_apply(NULL, &g)));
    STICKS(b, tp_optimizer_apply(o, NULL));
    tp_tensor *const bad[] = {NULL, b->failed, b->gone, b->foreign, b->i};
    for (int i = 0; i < 5; i++)
        STICKS(b, tp_optimizer_apply(o, &bad[i]));
    assert_true(tp_truth(tp_optimizer_apply(o, &g)));
}

MISUSE(tp_optimizer_apply_when)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, NULL, 1, &b->param);
    tp_tensor *g = tp_full(b->tp, TP_F32, TP_DIMS(2, 3), 1), *yes = tp_scalar(b->tp, TP_BOOL, 1);
    assert_true(tp_failed(tp_optimizer_apply_when(NULL, &g, yes)));
    STICKS(b, tp_optimizer_apply_when(o, NULL, yes));
    STICKS(b, tp_optimizer_apply_when(o, &b->failed, yes));
    tp_tensor *const bad[] = {NULL, b->failed, b->gone, b->dead, b->foreign};
    for (int i = 0; i < 5; i++)
        STICKS(b, tp_optimizer_apply_when(o, &g, bad[i]));
    BAD(b, TP_E_DTYPE, tp_optimizer_apply_when(o, &g, b->flag));
    BAD(b, TP_E_DTYPE, tp_optimizer_apply_when(o, &g, g));
    assert_true(tp_truth(tp_optimizer_apply_when(o, &g, yes)));
}

MISUSE(tp_lbfgs_new)
{
    what = ""; /* the texts name L-BFGS */
    OPTIMIZER(tp_lbfgs_new(tp, NULL, n, x));
    static const tp_lbfgs_options bad[] = {{.history = -1}, {.history = 101}, {.turns = -1},
                                           {.rate = -1}, {.gradient = -1}, {.change = (double)NAN}};
    for (int i = 0; i < 6; i++)
        BAD(b, TP_E_VALUE, tp_lbfgs_new(b->tp, &bad[i], 1, &b->param));
}

MISUSE(tp_lbfgs_free)
{
    (void)what;
    tp_lbfgs_free(NULL);
    tp_lbfgs_free(tp_lbfgs_new(b->tp, NULL, 1, &b->param));
    assert_non_null(tp_lbfgs_new(b->tp, NULL, 1, &b->param)); /* left to tp_close */
}

static tp_tensor *given(void *user)
{
    return user;
}

static tp_tensor *squares(void *user)
{
    return tp_square(user);
}

MISUSE(tp_lbfgs_step)
{
    what = ""; /* the texts name L-BFGS or the loss */
    tp_lbfgs *l = tp_lbfgs_new(b->tp, NULL, 1, &b->param);
    assert_true(tp_failed(tp_lbfgs_step(NULL, squares, b->param)));
    BAD(b, TP_E_NULL, tp_lbfgs_step(l, NULL, b->param));
    tp_tensor *const bad[] = {NULL, b->failed, b->gone, b->dead, b->foreign, b->f, b->node};
    for (int i = 0; i < 7; i++)
        STICKS(b, tp_lbfgs_step(l, given, bad[i]));
    assert_true(tp_item(tp_lbfgs_step(l, squares, b->param)) < 1e-9);
}

MISUSE(tp_lbfgs_n_state)
{
    (void)what;
    assert_int_equal(tp_lbfgs_n_state(NULL), 0);
    assert_int_equal(tp_lbfgs_n_state(tp_lbfgs_new(b->tp, NULL, 1, &b->param)), 5);
}

MISUSE(tp_lbfgs_state)
{
    (void)what;
    tp_lbfgs *l = tp_lbfgs_new(b->tp, NULL, 1, &b->param);
    assert_null(tp_lbfgs_state(NULL, 0));
    assert_null(tp_lbfgs_state(l, -1));
    assert_null(tp_lbfgs_state(l, 5));
    assert_string_equal(tp_name_of(tp_lbfgs_state(l, 0)), "lbfgs.s");
}

MISUSE(tp_loss_scale_new)
{
    what = ""; /* the texts name the option */
    assert_null(tp_loss_scale_new(NULL, NULL));
    static const tp_loss_scale_options bad[] = {{.first = -1},     {.first = 1e-39},  {.first = 1e39},
                                                {.growth = 0.5},   {.growth = NAN},   {.turns = -1},
                                                {.backoff = 1},    {.backoff = -0.5}};
    for (int i = 0; i < 8; i++)
        BAD(b, TP_E_VALUE, tp_loss_scale_new(b->tp, &bad[i]));
}

MISUSE(tp_loss_scale_free)
{
    (void)what;
    tp_loss_scale_free(NULL);
    tp_loss_scale_free(tp_loss_scale_new(b->tp, NULL));
    assert_non_null(tp_loss_scale_new(b->tp, NULL)); /* left to tp_close */
}

MISUSE(tp_loss_scale_apply)
{
    what = ""; /* the texts name the ops */
    tp_loss_scale *s = tp_loss_scale_new(b->tp, NULL);
    assert_true(tp_failed(tp_loss_scale_apply(NULL, b->f)));
    tp_tensor *const bad[] = {NULL, b->failed, b->gone, b->dead, b->foreign};
    for (int i = 0; i < 5; i++)
        STICKS(b, tp_loss_scale_apply(s, bad[i]));
    assert_true(tp_item(tp_loss_scale_apply(s, tp_scalar(b->tp, TP_F32, 2))) == 131072);
}

MISUSE(tp_loss_scale_unscale)
{
    what = ""; /* the texts name the ops */
    tp_loss_scale *s = tp_loss_scale_new(b->tp, NULL);
    tp_tensor *out;
    assert_true(tp_failed(tp_loss_scale_unscale(NULL, 1, &b->f, &out)));
    tp_tensor *bad[] = {NULL, b->failed, b->gone, b->dead, b->foreign};
    for (int i = 0; i < 5; i++)
        STICKS(b, tp_loss_scale_unscale(s, 1, &bad[i], &out));
    assert_true(tp_truth(tp_loss_scale_unscale(s, 1, &b->f, &out)));
    STICKS(b, tp_loss_scale_unscale(s, 0, &b->f, &out));
    STICKS(b, tp_loss_scale_unscale(s, 1, NULL, &out));
    STICKS(b, tp_loss_scale_unscale(s, 1, &b->f, NULL));
}

MISUSE(tp_loss_scale_update)
{
    what = ""; /* the texts name what is wrong */
    tp_loss_scale *s = tp_loss_scale_new(b->tp, NULL);
    tp_tensor *yes = tp_scalar(b->tp, TP_BOOL, 1);
    assert_true(tp_failed(tp_loss_scale_update(NULL, yes)));
    tp_tensor *const bad[] = {NULL, b->failed, b->gone, b->dead, b->foreign};
    for (int i = 0; i < 5; i++)
        STICKS(b, tp_loss_scale_update(s, bad[i]));
    assert_true(tp_truth(tp_loss_scale_update(s, yes)));
    BAD(b, TP_E_DTYPE, tp_loss_scale_update(s, b->flag));
}

MISUSE(tp_loss_scale_state)
{
    (void)what;
    tp_loss_scale *s = tp_loss_scale_new(b->tp, NULL);
    assert_null(tp_loss_scale_state(NULL, 0));
    assert_null(tp_loss_scale_state(s, -1));
    assert_null(tp_loss_scale_state(s, 2));
    assert_non_null(tp_loss_scale_state(s, 1));
}

MISUSE(tp_optimizer_rate)
{
    (void)what;
    assert_true(tp_optimizer_rate(tp_sgd_new(b->tp, 0.5, NULL, 1, &b->param)) == 0.5);
    assert_true(isnan(tp_optimizer_rate(NULL)));
}

MISUSE(tp_optimizer_step_rate)
{
    (void)what;
    assert_true(tp_optimizer_step_rate(tp_sgd_new(b->tp, 0.5, NULL, 1, &b->param)) == 0.5);
    assert_true(isnan(tp_optimizer_step_rate(NULL)));
}

MISUSE(tp_optimizer_group)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, NULL, 1, &b->param);
    assert_int_not_equal(tp_optimizer_group(NULL, 1, 0, 1, &b->param), TP_OK);
    STICKS(b, tp_optimizer_group(o, 1, 0, 1, NULL));
    STICKS(b, tp_optimizer_group(o, 1, 0, -1, &b->param));
    STICKS(b, tp_optimizer_group(o, 1, 0, 1, &b->f));
    STICKS(b, tp_optimizer_group(o, (double)NAN, 0, 1, &b->param));
    assert_int_equal(tp_optimizer_group(o, 1, 0, 1, &b->param), TP_OK);
}

MISUSE(tp_optimizer_schedule)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, NULL, 1, &b->param);
    assert_int_not_equal(tp_optimizer_schedule(NULL, &(tp_schedule){0}), TP_OK);
    STICKS(b, tp_optimizer_schedule(o, NULL));
    STICKS(b, tp_optimizer_schedule(o, &(tp_schedule){.kind = TP_COSINE}));
    STICKS(b, tp_optimizer_schedule(o, &(tp_schedule){.kind = (tp_schedule_kind)-1}));
    assert_int_equal(tp_optimizer_schedule(o, &(tp_schedule){0}), TP_OK);
}

MISUSE(tp_optimizer_n_state)
{
    (void)what;
    assert_int_equal(tp_optimizer_n_state(NULL), 0);
    assert_int_equal(tp_optimizer_n_state(tp_sgd_new(b->tp, 0.1, NULL, 1, &b->param)), 2);
}

MISUSE(tp_optimizer_state)
{
    (void)what;
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, NULL, 1, &b->param);
    assert_null(tp_optimizer_state(NULL, 0));
    assert_null(tp_optimizer_state(o, -1));
    assert_null(tp_optimizer_state(o, 2));
    assert_non_null(tp_optimizer_state(o, 1));
}

MISUSE(tp_clip_norm)
{
    what = ""; /* the texts name the ops */
    tp_tensor *out;
    OPERAND(b, b->f, tp_clip_norm(1, &x, 1, &out));
    STICKS(b, tp_clip_norm(0, &b->f, 1, &out));
    STICKS(b, tp_clip_norm(1, &b->f, 1, NULL));
    STICKS(b, tp_clip_norm(1, NULL, 1, &out));
}

MISUSE(tp_clip_value)
{
    what = ""; /* the texts name the ops */
    tp_tensor *out;
    assert_int_equal(tp_clip_value(1, &b->f, 1, &out), TP_OK);
    STICKS(b, tp_clip_value(1, &b->failed, 1, &out));
    STICKS(b, tp_clip_value(0, &b->f, 1, &out));
    STICKS(b, tp_clip_value(1, &b->f, 1, NULL));
}

MISUSE(tp_gradient_sum_new)
{
    what = ""; /* the texts name the sum */
    OPTIMIZER(tp_gradient_sum_new(tp, n, x));
}

MISUSE(tp_gradient_sum_free)
{
    (void)what;
    tp_gradient_sum_free(NULL);
    tp_gradient_sum_free(tp_gradient_sum_new(b->tp, 1, &b->param));
    assert_non_null(tp_gradient_sum_new(b->tp, 1, &b->param)); /* left to tp_close */
}

MISUSE(tp_gradient_sum_add)
{
    what = ""; /* the texts name the sum */
    tp_gradient_sum *s = tp_gradient_sum_new(b->tp, 1, &b->param);
    tp_tensor *loss = tp_sum(b->param, TP_ALL, false);
    assert_true(tp_failed(tp_gradient_sum_add(NULL, loss, 1)));
    tp_clear_error(b->tp);
    STICKS(b, tp_gradient_sum_add(s, NULL, 1));
    STICKS(b, tp_gradient_sum_add(s, b->failed, 1));
    STICKS(b, tp_gradient_sum_add(s, b->gone, 1));
    STICKS(b, tp_gradient_sum_add(s, b->foreign, 1));
    assert_true(tp_truth(tp_gradient_sum_add(s, loss, 1)));
}

MISUSE(tp_gradient_sum_take)
{
    what = ""; /* the texts name the sum */
    tp_gradient_sum *s = tp_gradient_sum_new(b->tp, 1, &b->param);
    tp_tensor *out;
    assert_true(tp_failed(tp_gradient_sum_take(NULL, NULL, &out)));
    STICKS(b, tp_gradient_sum_take(s, NULL, NULL));
    assert_true(tp_truth(tp_gradient_sum_take(s, NULL, &out)));
}

MISUSE(tp_average_new)
{
    what = ""; /* the texts name the average */
    OPTIMIZER(tp_average_new(tp, 0.9, n, x));
    STICKS(b, tp_average_new(b->tp, 1, 1, &b->param));
}

MISUSE(tp_average_free)
{
    (void)what;
    tp_average_free(NULL);
    tp_average_free(tp_average_new(b->tp, 0.5, 1, &b->param));
    assert_non_null(tp_average_new(b->tp, 0.5, 1, &b->param)); /* left to tp_close */
}

MISUSE(tp_average_update)
{
    (void)what;
    assert_true(tp_failed(tp_average_update(NULL, NULL)));
    assert_true(tp_truth(tp_average_update(tp_average_new(b->tp, 0.5, 1, &b->param), NULL)));
}

MISUSE(tp_average_swap)
{
    (void)what;
    assert_int_equal(tp_average_swap(NULL), TP_E_NULL);
    assert_int_equal(tp_average_swap(tp_average_new(b->tp, 0.5, 1, &b->param)), TP_OK);
}

MISUSE(tp_patience_over)
{
    (void)what;
    assert_false(tp_patience_over(NULL, 1));
    assert_true(tp_patience_over(&(tp_patience){0}, (double)NAN));
}

MISUSE(tp_optimizer_free)
{
    (void)what;
    tp_optimizer_free(NULL);
    tp_optimizer_free(tp_sgd_new(b->tp, 0.1, &(tp_sgd_options){.momentum = 0.9}, 1, &b->param));
    assert_non_null(tp_sgd_new(b->tp, 0.1, NULL, 1, &b->param)); /* left to tp_close */
}

MISUSE(tp_optimizer_set_rate)
{
    what = ""; /* the texts name the layer or the optimizer */
    assert_int_not_equal(tp_optimizer_set_rate(NULL, 0.1), TP_OK);
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, &(tp_sgd_options){.momentum = 0.9}, 1, &b->param);
    assert_int_equal(tp_optimizer_set_rate(o, 0.2), TP_OK);
    STICKS(b, tp_optimizer_set_rate(o, (double)NAN));
    STICKS(b, tp_optimizer_set_rate(o, -0.1));
    STICKS(b, tp_optimizer_group(o, -1, 0, 1, &b->param));
}

MISUSE(tp_optimizer_step)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, &(tp_sgd_options){.momentum = 0.9}, 1, &b->param);
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

const misuse misuse_train[] = {
    LISTED(tp_sgd_new),
    LISTED(tp_adam_new),
    LISTED(tp_rmsprop_new),
    LISTED(tp_adagrad_new),
    LISTED(tp_lion_new),
    LISTED(tp_lbfgs_new),
    LISTED(tp_lbfgs_free),
    LISTED(tp_lbfgs_step),
    LISTED(tp_lbfgs_n_state),
    LISTED(tp_lbfgs_state),
    LISTED(tp_optimizer_apply_when),
    LISTED(tp_loss_scale_new),
    LISTED(tp_loss_scale_free),
    LISTED(tp_loss_scale_apply),
    LISTED(tp_loss_scale_unscale),
    LISTED(tp_loss_scale_update),
    LISTED(tp_loss_scale_state),
    LISTED(tp_adafactor_new),
    LISTED(tp_optimizer_new),
    LISTED(tp_optimizer_apply),
    LISTED(tp_optimizer_rate),
    LISTED(tp_optimizer_step_rate),
    LISTED(tp_optimizer_group),
    LISTED(tp_optimizer_schedule),
    LISTED(tp_optimizer_n_state),
    LISTED(tp_optimizer_state),
    LISTED(tp_clip_norm),
    LISTED(tp_clip_value),
    LISTED(tp_gradient_sum_new),
    LISTED(tp_gradient_sum_free),
    LISTED(tp_gradient_sum_add),
    LISTED(tp_gradient_sum_take),
    LISTED(tp_average_new),
    LISTED(tp_average_free),
    LISTED(tp_average_update),
    LISTED(tp_average_swap),
    LISTED(tp_patience_over),
    LISTED(tp_optimizer_free),
    LISTED(tp_optimizer_set_rate),
    LISTED(tp_optimizer_step),
    {0},
};
