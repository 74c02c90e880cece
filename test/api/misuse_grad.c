/* Misuse of grad.h and kernel.h. */
#include "misuse.h"

#include <math.h>

/* Each case's head looks like a call to it. */
/* clang-format off */

MISUSE(tp_require_grad)
{
    OPERAND(b, b->f, tp_require_grad(x));
    BAD(b, TP_E_DTYPE, tp_require_grad(b->i));
    assert_ptr_equal(tp_require_grad(b->node), b->node);
}

MISUSE(tp_requires_grad)
{
    assert_false(tp_requires_grad(NULL));
    assert_false(tp_requires_grad(b->dead));
    assert_false(tp_requires_grad(b->f));
    assert_true(tp_requires_grad(b->param));
    tp_requires_grad(b->failed);
    tp_requires_grad(b->gone);
}

MISUSE(tp_recording)
{
    (void)what;
    assert_false(tp_recording(NULL, true));
    assert_true(tp_recording(b->tp, true));
}

MISUSE(tp_backward)
{
    OPERAND(b, tp_sum(b->param, TP_ALL, false), tp_backward(x));
    BAD(b, TP_E_STATE, tp_backward(b->f));
    BAD(b, TP_E_SYMBOLIC, tp_backward(b->node));
    BAD(b, TP_E_STATE, tp_backward(b->i));
    BAD(b, TP_E_STATE, tp_backward(tp_detach(b->param)));
}

MISUSE(tp_grad_of)
{
    OPERAND(b, b->param, tp_grad_of(x));
    BAD(b, TP_E_STATE, tp_grad_of(b->f));
    BAD(b, TP_E_STATE, tp_grad_of(b->node));
}

MISUSE(tp_zero_grad)
{
    (void)what;
    tp_zero_grad(NULL);
    tp_zero_grad(b->failed);
    tp_zero_grad(b->dead);
    tp_zero_grad(b->gone);
    tp_zero_grad(b->f);
    tp_zero_grad(b->node);
    tp_zero_grad(tp_neg(NULL));
}

MISUSE(tp_grad)
{
    tp_tensor *y = tp_sum(b->param, TP_ALL, false);
    OPERAND(b, y, tp_grad(x, b->param));
    OPERAND(b, b->param, tp_grad(y, x));
    BAD(b, TP_E_NULL, tp_grad(y, NULL));
    BAD(b, TP_E_STATE, tp_grad(y, b->f));
    BAD(b, TP_E_DTYPE, tp_grad(y, b->i));
    BAD(b, TP_E_CTX, tp_grad(y, b->foreign));
    BAD_AS(b, "gradient", TP_E_DTYPE, tp_grad(b->i, b->param));
    tp_graph *g = tp_graph_new(b->tp);
    tp_tensor *other = tp_placeholder(g, "z", TP_F32, TP_DIMS(2, 3));
    BAD(b, TP_E_CTX, tp_grad(tp_neg(b->node), other));
}

MISUSE(tp_grads)
{
    what = "tp_grad";
    tp_tensor *y = tp_neg(b->param), *dx[2] = {NULL, NULL};
    tp_tensor *xs[2] = {b->param, b->param};
    OPERAND(b, y, tp_grads(x, NULL, 2, xs, dx));
    assert_int_equal(tp_grads(y, NULL, 0, xs, dx), TP_OK);
    assert_int_not_equal(tp_grads(y, NULL, 1, xs, NULL), TP_OK);
    tp_clear_error(b->tp);
    BAD(b, TP_E_NULL, tp_grads(y, NULL, 1, NULL, dx));
    assert_true(tp_failed(dx[0]));
    assert_int_not_equal(tp_grads(y, NULL, -1, xs, dx), TP_OK);
    tp_clear_error(b->tp);
    BAD_AS(b, "gradient", TP_E_SHAPE, tp_grads(y, b->t, 2, xs, dx));
    BAD_AS(b, "gradient", TP_E_SHAPE, tp_grads(y, b->along, 2, xs, dx));
    assert_true(tp_failed(dx[0]) && tp_failed(dx[1]));
    BAD_AS(b, "gradient", TP_E_CTX, tp_grads(y, b->foreign, 2, xs, dx));
    STICKS(b, tp_grads(y, b->failed, 2, xs, dx));
    BAD_AS(b, "gradient", TP_E_STATE, tp_grads(y, b->gone, 2, xs, dx));
    tp_tensor *mixed[2] = {b->param, b->f};
    BAD(b, TP_E_STATE, tp_grads(y, NULL, 2, mixed, dx));
    assert_true(tp_failed(dx[0]) && tp_failed(dx[1]));
}

static tp_tensor *fails(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    return tp_matmul(xs[0], user);
}

static tp_tensor *gives_null(void *user, int n, tp_tensor *const *xs)
{
    (void)user, (void)n, (void)xs;
    return NULL;
}

static tp_tensor *gives_symbolic(void *user, int n, tp_tensor *const *xs)
{
    (void)n, (void)xs;
    return user;
}

static tp_tensor *squares(void *user, int n, tp_tensor *const *xs)
{
    (void)user, (void)n;
    return tp_mul(xs[0], xs[0]);
}

/* At the call that `user` counts down to it fails. */
static tp_tensor *fails_later(void *user, int n, tp_tensor *const *xs)
{
    int *left = user;
    (void)n;
    return (*left)-- ? tp_square(xs[0])
                     : tp_fail(tp_ctx_of(xs[0]), TP_E_STATE, "f has enough");
}

MISUSE(tp_grad_check)
{
    tp_tensor *d = tp_full(b->tp, TP_F64, TP_DIMS(2, 3), 0.5);
    double worst = 0;
    OPERAND(b, d, tp_grad_check(squares, NULL, 1, &x, &worst));
    assert_int_equal(tp_grad_check(squares, NULL, 1, &d, &worst), TP_OK);
    assert_true(worst < 1e-6);
    assert_int_equal(tp_grad_check(squares, NULL, 1, &b->f, &worst), TP_E_DTYPE);
    assert_int_not_equal(tp_grad_check(NULL, NULL, 1, &d, &worst), TP_OK);
    assert_int_not_equal(tp_grad_check(squares, NULL, 0, &d, &worst), TP_OK);
    assert_int_not_equal(tp_grad_check(squares, NULL, -1, &d, &worst), TP_OK);
    assert_int_not_equal(tp_grad_check(squares, NULL, 1, NULL, &worst), TP_OK);
    assert_int_not_equal(tp_grad_check(squares, NULL, 1, &d, NULL), TP_OK);
    tp_clear_error(b->tp);
    for (int i = 0; i < 4; i++) {
        int left = i;
        assert_int_equal(tp_grad_check(fails_later, &left, 1, &d, &worst), TP_E_STATE);
        assert_non_null(strstr(tp_error_message(b->tp), "f has enough"));
        assert_true(worst != worst);
        tp_clear_error(b->tp);
    }
    BAD(b, TP_E_SYMBOLIC, tp_grad_check(squares, NULL, 1, &b->node, &worst));
    STICKS(b, tp_grad_check(fails, d, 1, &d, &worst));
    assert_int_not_equal(tp_grad_check(gives_null, NULL, 1, &d, &worst), TP_OK);
    tp_clear_error(b->tp);
    assert_int_not_equal(tp_grad_check(gives_symbolic, b->node, 1, &d, &worst), TP_OK);
    tp_clear_error(b->tp);
}

MISUSE(tp_no_grad_begin)
{
    tp_no_grad (NULL)
        assert_false(tp_recording(NULL, true));
    tp_no_grad (b->tp)
        assert_false(tp_requires_grad(tp_neg(b->param)));
    assert_true(tp_requires_grad(tp_neg(b->param)));
}

MISUSE(tp_no_grad_next)
{
    tp_no_grad_block open = tp_no_grad_begin(b->tp);
    assert_true(tp_no_grad_next(&open));
    assert_false(tp_no_grad_next(&open));
    assert_false(tp_no_grad_next(&open));
    assert_true(tp_recording(b->tp, true));
}

MISUSE(tp_no_grad_left)
{
    tp_no_grad_block open = tp_no_grad_begin(b->tp);
    tp_no_grad_left(&open);
    tp_recording(b->tp, true);
    tp_no_grad_left(&open);
    assert_true(tp_recording(b->tp, true));
}

static void negates(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in;
    for (int i = 0; i < n_out; i++)
        out[i] = tp_neg(in[0]);
}

static void negates_back(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] = tp_neg(v->dout[0]);
}

static const tp_custom negation = {
    .name = "negation", .forward = negates, .backward = negates_back};

/* Descriptions that lack something. */
static const tp_custom nameless = {.forward = negates, .backward = negates_back},
                       no_forward = {.name = "negation", .backward = negates_back},
                       no_backward = {.name = "negation", .forward = negates};

MISUSE(tp_custom_call)
{
    tp_tensor *out[2];
    what = "negation";
    OPERAND(b, b->param, tp_custom_call(&negation, NULL, 1, &x, 2, out));
    what = "tp_custom_call";
    BAD(b, TP_E_NULL, tp_custom_call(NULL, NULL, 1, &b->f, 1, out));
    BAD(b, TP_E_NULL, tp_custom_call(&nameless, NULL, 1, &b->f, 1, out));
    BAD(b, TP_E_NULL, tp_custom_call(&no_forward, NULL, 1, &b->f, 1, out));
    BAD(b, TP_E_NULL, tp_custom_call(&no_backward, NULL, 1, &b->f, 1, out));
    BAD_NIL(b, tp_custom_call(&negation, NULL, 0, &b->f, 1, out));
    BAD_NIL(b, tp_custom_call(&negation, NULL, 1, NULL, 1, out));
    assert_true(tp_failed(out[0]));
    BAD(b, TP_E_NULL, tp_custom_call(&negation, NULL, 1, &b->f, 0, out));
    BAD(b, TP_E_NULL, tp_custom_call(&negation, NULL, 1, &b->f, 1, NULL));
}

MISUSE(tp_custom_apply)
{
    what = "negation";
    OPERAND(b, b->f, tp_custom_apply(&negation, NULL, 1, &x));
    what = "tp_custom_call";
    BAD(b, TP_E_NULL, tp_custom_apply(&no_forward, NULL, 1, &b->f));
    BAD_NIL(b, tp_custom_apply(&negation, NULL, -1, &b->f));
}

MISUSE(tp_straight_through)
{
    what = "straight_through";
    OPERAND(b, b->param, tp_straight_through(b->f, x));
    OPERAND(b, b->f, tp_straight_through(x, b->param));
    BAD(b, TP_E_SHAPE, tp_straight_through(b->t, b->param));
    BAD(b, TP_E_SHAPE, tp_straight_through(b->along, b->param));
    BAD(b, TP_E_CTX, tp_straight_through(b->foreign, b->param));
}

static tp_tensor *keeps(void *user, tp_tensor *g)
{
    (void)user, (void)g;
    return NULL;
}

MISUSE(tp_hook_new)
{
    assert_null(tp_hook_new(NULL, keeps, NULL));
    BAD(b, TP_E_NULL, (void *)tp_hook_new(b->tp, NULL, NULL));
}

MISUSE(tp_hook_free)
{
    tp_hook_free(NULL);
    tp_hook *h = tp_hook_new(b->tp, keeps, NULL);
    assert_int_equal(tp_hook_on(b->param, h), TP_OK);
    assert_int_equal(tp_hook_on(b->param, h), TP_OK);
    tp_hook_free(h);
    assert_false(tp_failed(tp_grad(tp_neg(b->param), b->param)));
}

MISUSE(tp_hooked)
{
    tp_hook *h = tp_hook_new(b->tp, keeps, NULL), *other = tp_hook_new(b->other, keeps, NULL);
    OPERAND(b, b->param, tp_hooked(x, h));
    BAD(b, TP_E_DTYPE, tp_hooked(b->i, h));
    BAD(b, TP_E_NULL, tp_hooked(b->param, NULL));
    BAD(b, TP_E_CTX, tp_hooked(b->param, other));
}

MISUSE(tp_hook_on)
{
    tp_hook *h = tp_hook_new(b->tp, keeps, NULL), *other = tp_hook_new(b->other, keeps, NULL);
    OPERAND(b, b->param, tp_hook_on(x, h));
    BAD(b, TP_E_STATE, tp_hook_on(b->f, h));
    BAD(b, TP_E_STATE, tp_hook_on(b->node, h));
    BAD(b, TP_E_NULL, tp_hook_on(b->param, NULL));
    BAD(b, TP_E_CTX, tp_hook_on(b->param, other));
}

static bool fills(void *user, int n_in, const tp_elements *in, const tp_elements *out)
{
    (void)user, (void)n_in, (void)in;
    memset(out->data, 0, (size_t)out->count * tp_dtype_size(out->dtype));
    return true;
}

MISUSE(tp_kernel_apply)
{
    static const tp_kernel zeros = {.name = "zeros", .compute = fills}, no_name = {.compute = fills},
                           no_compute = {.name = "zeros"};
    const int64_t many[TP_MAX_RANK + 1] = {0};
    what = "zeros";
    OPERAND(b, b->f, tp_kernel_apply(&zeros, NULL, 1, &x, TP_F32, TP_DIMS(2)));
    OPERAND(b, b->param, tp_kernel_apply(&zeros, NULL, 2, ((tp_tensor *[]){b->i, x}), TP_BOOL, 0, NULL));
    BAD_NIL(b, tp_kernel_apply(&zeros, NULL, 0, &b->f, TP_F32, TP_DIMS(2)));
    BAD_NIL(b, tp_kernel_apply(&zeros, NULL, -1, &b->f, TP_F32, TP_DIMS(2)));
    BAD_NIL(b, tp_kernel_apply(&zeros, NULL, 1, NULL, TP_F32, TP_DIMS(2)));
    BAD(b, TP_E_SHAPE, tp_kernel_apply(&zeros, NULL, 1, &b->f, TP_F32, TP_MAX_RANK + 1, many));
    BAD(b, TP_E_SHAPE, tp_kernel_apply(&zeros, NULL, 1, &b->f, TP_F32, -1, many));
    BAD(b, TP_E_NULL, tp_kernel_apply(&zeros, NULL, 1, &b->f, TP_F32, 1, NULL));
    what = "own_kernel";
    BAD(b, TP_E_SHAPE, tp_kernel_apply(&zeros, NULL, 1, &b->f, TP_F32, TP_DIMS(-2)));
    BAD(b, TP_E_SHAPE, tp_kernel_apply(&zeros, NULL, 1, &b->node, TP_F32, TP_DIMS(-2)));
    BAD(b, TP_E_SHAPE, tp_kernel_apply(&zeros, NULL, 1, &b->f, TP_F32, TP_DIMS(tp_symbol(b->g, "n"))));
    BAD(b, TP_E_DTYPE, tp_kernel_apply(&zeros, NULL, 1, &b->f, TP_N_DTYPES, TP_DIMS(2)));
    BAD(b, TP_E_DTYPE, tp_kernel_apply(&zeros, NULL, 1, &b->f, (tp_dtype)-1, TP_DIMS(2)));
    what = "tp_kernel_apply";
    BAD(b, TP_E_NULL, tp_kernel_apply(NULL, NULL, 1, &b->f, TP_F32, TP_DIMS(2)));
    BAD(b, TP_E_NULL, tp_kernel_apply(&no_name, NULL, 1, &b->f, TP_F32, TP_DIMS(2)));
    BAD(b, TP_E_NULL, tp_kernel_apply(&no_compute, NULL, 1, &b->f, TP_F32, TP_DIMS(2)));
}

const misuse misuse_grad[] = {
    LISTED(tp_require_grad),
    LISTED(tp_requires_grad),
    LISTED(tp_recording),
    LISTED(tp_backward),
    LISTED(tp_grad_of),
    LISTED(tp_zero_grad),
    LISTED(tp_grad),
    LISTED(tp_grads),
    LISTED(tp_grad_check),
    LISTED(tp_no_grad_begin),
    LISTED(tp_no_grad_next),
    LISTED(tp_no_grad_left),
    LISTED(tp_custom_call),
    LISTED(tp_custom_apply),
    LISTED(tp_straight_through),
    LISTED(tp_hook_new),
    LISTED(tp_hook_free),
    LISTED(tp_hooked),
    LISTED(tp_hook_on),
    LISTED(tp_kernel_apply),
    {0},
};
