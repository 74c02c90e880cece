/* Gradients asked inside a function, from outside through a call of one, and of gradients; whole
 * training steps; recording switched; parameters swapped. */
#include "common/both.h"
#include "tapir/control.h"

typedef struct world {
    bed *b;
    int n, depth;
    double rate;
    tp_tensor *w, *v, *old;
    tp_tensor *params[2];
    tp_optimizer *o;
    tp_function *f, *g;
} world;

/* w [3, 2] and v [2] are parameters. */
static world open_world(bed *b)
{
    world s = {.b = b, .rate = 0.1};
    s.w = tp_param(pattern(b->tp, TP_DIMS(3, 2), 0.05), "w");
    s.v = tp_param(pattern(b->tp, TP_DIMS(2), 0.1), "v");
    s.params[0] = s.w;
    s.params[1] = s.v;
    return s;
}

static void note_state(bed *b, const world *s)
{
    note(b, "w", s->w);
    note(b, "v", s->v);
    note(b, "dw", tp_grad_of(s->w));
    note(b, "dv", tp_grad_of(s->v));
}

/* ---- from outside ------------------------------------------------------------------------ */

BODY(net)
{
    const world *s = user;
    tp_tensor *h = tp_tanh(tp_linear(in[0], s->w, s->v));
    tp_tensor *k =
        tp_add(tp_mul(h, h), tp_mul(h, s->v)); /* s->v: a third time, h: more often */
    if (s->n == 1)
        k = tp_relu(k);
    out[0] = tp_mul(tp_mul(k, s->v), tp_sum(s->w, TP_DIMS(0), false));
    if (n_out > 1)
        out[1] = tp_sum(tp_exp(h), TP_ALL, false);
    if (n_out > 2)
        out[2] = s->w;
    if (n_out > 3)
        out[3] = in[0];
}

static void backward_through_calls(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = open_world(b);
    tp_function *f = make(b, "net", net, &s);
    tp_tensor *marked = tp_require_grad(pattern(tp, TP_DIMS(2, 3), 0.2));
    uint64_t seed = 2;
    for (int i = 0; i < 16; i++) {
        s.n = i / 3 % 2;
        tp_scope_begin(tp);
        tp_tensor *x = i % 4 == 3 ? marked : draw(tp, &seed, TP_DIMS(2, 3)), *out[4];
        tp_function_call(f, TP_TENSORS(x), 1 + i % 4, out);
        tp_tensor *loss = tp_mean(tp_square(out[0]), TP_ALL, false);
        for (int k = 1; k < 1 + i % 4; k++)
            loss = tp_add(loss, tp_mean(out[k], TP_ALL, false));
        if (i % 5 == 4) /* beside the call, too */
            loss = tp_add(loss, tp_sum(tp_mul(s.v, s.v), TP_ALL, false));
        say(b, "%s", tp_status_name(tp_backward(loss)));
        note_state(b, &s);
        note(b, "dx", i % 4 == 3 ? tp_grad_of(marked) : x);
        note(b, "y", out[0]);
        tp_scope_end(tp);
        if (i % 3 == 2) { /* else they add up over calls */
            tp_zero_grad(s.w);
            tp_zero_grad(s.v);
        }
        if (i == 8)
            settle(b);
    }
    note_error(b, "backward");
}

/* The gradients of several calls of one function meet. */
static void a_chain_of_calls(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = open_world(b);
    s.w = tp_param(pattern(tp, TP_DIMS(2, 2), 0.1), "w");
    tp_function *f = make(b, "net", net, &s);
    for (int i = 0; i < 8; i++) {
        tp_scope_begin(tp);
        tp_tensor *x = tp_require_grad(pattern(tp, TP_DIMS(3, 2), 0.05 * (i + 1))), *h = x;
        tp_tensor *sum = tp_scalar(tp, TP_F32, 0);
        for (int k = 0; k < 2 + i % 4; k++) {
            h = call1(f, h);
            sum = tp_add(sum, tp_sum(h, TP_ALL, false));
            if (k == 1)
                h = tp_add(h, x);
        }
        tp_tensor *dx[3];
        tp_grads(sum, NULL, 3, (tp_tensor *const[]){x, s.w, s.v}, dx);
        for (int k = 0; k < 3; k++)
            note(b, "d", dx[k]);
        tp_backward(sum);
        note_state(b, &s);
        tp_scope_end(tp);
        if (i == 4)
            settle(b);
    }
}

static void second_order(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = open_world(b);
    tp_function *f = make(b, "net", net, &s);
    for (int i = 0; i < 6; i++) {
        tp_tensor *x = tp_require_grad(pattern(tp, TP_DIMS(2, 3), 0.05 * (i + 1)));
        tp_tensor *y = tp_sum(call1(f, x), TP_ALL, false);
        tp_tensor *dx = tp_grad(y, x), *dw = tp_grad(y, s.w);
        note(b, "dx", dx);
        note(b, "dw", dw);
        tp_tensor *size =
            tp_add(tp_sum(tp_square(dx), TP_ALL, false), tp_sum(tp_square(dw), TP_ALL, false));
        note(b, "ddx", tp_grad(size, x));
        note(b, "ddv", tp_grad(size, s.v));
        tp_tensor *third = tp_sum(tp_mul(tp_grad(size, s.w), s.w), TP_ALL, false);
        note(b, "third", tp_grad(third, s.w));
        tp_backward(size);
        note_state(b, &s);
        settle(b);
    }
    note_error(b, "second order");
}

BODY(nested)
{
    const world *s = user;
    tp_tensor *a = call1(s->f, in[0]);
    tp_tensor *c = call1(s->f, tp_neg(in[0]));
    out[0] = tp_add(tp_mul(a, c), s->v);
}

static void nested_calls(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = open_world(b);
    s.f = make(b, "net", net, &s);
    tp_function *f = make(b, "nested", nested, &s);
    for (int i = 0; i < 8; i++) {
        tp_tensor *x = tp_require_grad(pattern(tp, TP_DIMS(2, 3), 0.05 * (i + 1)));
        s.n = i % 3 == 2;
        tp_tensor *y = tp_mean(call1(f, x), TP_ALL, false);
        tp_tensor *dx = tp_grad(y, x);
        note(b, "dx", dx);
        note(b, "ddx", tp_grad(tp_sum(tp_square(dx), TP_ALL, false), x));
        tp_backward(y);
        note_state(b, &s);
        settle(b);
    }
}

/* f64, against central differences. */
static tp_tensor *checked(void *user, int n, tp_tensor *const *xs)
{
    return tp_function_apply(user, n, xs);
}

BODY(smooth)
{
    tp_tensor *h = tp_tanh(tp_matmul(in[0], in[1]));
    if (tp_truth(tp_gt(tp_mean(h, TP_ALL, false), tp_scalar_like(h, 0))))
        h = tp_sin(h);
    out[0] = tp_mul(tp_sigmoid(h), tp_sum(in[1], TP_DIMS(0), false));
}

static void against_differences(bed *b)
{
    tp_ctx *tp = b->tp;
    tp_function *f = make(b, "smooth", smooth, NULL);
    for (int i = 0; i < 4; i++) {
        tp_tensor *x = tp_cast(pattern(tp, TP_DIMS(2, 3), i % 2 ? 0.1 : -0.1), TP_F64);
        tp_tensor *w = tp_cast(pattern(tp, TP_DIMS(3, 2), 0.07 * (i + 1)), TP_F64);
        double error = 1;
        say(b, "%s",
            tp_status_name(tp_grad_check(checked, f, 2, (tp_tensor *const[]){x, w}, &error)));
        if (!(error < 1e-6))
            fail_msg("%s: the gradient is %g off", b->way->name, error);
        settle(b);
    }
    note_error(b, "differences");
}

/* ---- inside ------------------------------------------------------------------------------ */

BODY(by_hand)
{
    world *s = user;
    tp_ctx *tp = s->b->tp;
    tp_tensor *h = tp_sigmoid(tp_linear(in[0], s->w, s->v));
    tp_tensor *loss = tp_mse(h, in[1]);
    if (s->n % 3 != 2) {
        tp_zero_grad(s->w);
        tp_zero_grad(s->v);
    }
    tp_backward(loss);
    const bool was = tp_recording(tp, false);
    for (int i = 0; i < 2; i++) {
        tp_tensor *p = s->params[i], *g = tp_grad_of(p);
        if (s->n == 5)
            note(s->b, "inside", g);
        tp_assign(p, tp_sub(p, tp_mul(g, tp_scalar_like(g, s->rate))));
    }
    tp_recording(tp, was);
    out[0] = loss;
}

static void descent_by_hand(bed *b)
{
    world s = open_world(b);
    tp_function *f = make(b, "by_hand", by_hand, &s);
    uint64_t seed = 6;
    for (s.n = 0; s.n < 18; s.n++) {
        s.rate = s.n < 9 ? 0.25 : 0.05;
        tp_scope_begin(b->tp);
        tp_tensor *x = draw(b->tp, &seed, TP_DIMS(4, 3)),
                  *y = draw(b->tp, &seed, TP_DIMS(4, 2));
        tp_tensor *loss = call2(f, x, y);
        note(b, "loss", loss);
        note_state(b, &s);
        tp_scope_end(b->tp);
        if (s.n == 8)
            settle(b);
    }
    note_error(b, "by hand");
    EXPECT_RECORDINGS(b, f, 6);
}

BODY(stepping)
{
    world *s = user;
    tp_tensor *h = tp_relu(tp_linear(in[0], s->w, s->v));
    tp_tensor *loss = tp_cross_entropy(h, in[1]);
    if (s->n == 14)
        tp_optimizer_set_rate(s->o, 0.01);
    tp_tensor *done = tp_optimizer_step(s->o, loss);
    out[0] = tp_failed(done) ? done : loss;
}

static void train(bed *b, world *s)
{
    tp_function *f = make(b, "stepping", stepping, s);
    uint64_t seed = 6;
    for (s->n = 0; s->n < 20; s->n++) {
        tp_scope_begin(b->tp);
        const int64_t labels[] = {s->n % 2, 1, 0, s->n % 3 == 0};
        tp_tensor *y = tp_tensor_new(b->tp, TP_I64, TP_DIMS(s->n == 17 ? 3 : 4), labels);
        tp_tensor *x = draw(b->tp, &seed, TP_DIMS(s->n == 17 ? 3 : 4, 3));
        note(b, "loss", call2(f, x, y));
        note(b, "w", s->w);
        note(b, "v", s->v);
        if (s->n == 10)
            tp_optimizer_set_rate(s->o, 0.02);
        tp_scope_end(b->tp);
        if (s->n == 7)
            settle(b);
    }
    EXPECT_RECORDINGS(b, f, 6);
    tp_optimizer_free(s->o);
    note_error(b, "train");
}

static void adam_inside(bed *b)
{
    world s = open_world(b);
    s.o = tp_adam_new(b->tp, 0.05, &(tp_adam_options){.decay = 0.01}, 2, s.params);
    train(b, &s);
}

static void momentum_inside(bed *b)
{
    world s = open_world(b);
    s.o = tp_sgd_new(b->tp, 0.1, &(tp_sgd_options){.momentum = 0.9}, 2, s.params);
    train(b, &s);
}

BODY(ignoring)
{
    world *s = user;
    const tp_loss_options options = {.ignores = true, .ignored = -1};
    tp_tensor *loss = tp_cross_entropy_with(tp_linear(in[0], s->w, s->v),
                                            tp_reshape(in[1], TP_DIMS(-1)), &options);
    tp_optimizer_step(s->o, loss);
    out[0] = loss;
}

/* What a loss makes of labels is known before the step ends, so the step is one segment; a label outside changes
 * nothing. */
static void labels_known_early(bed *b)
{
    world s = open_world(b);
    s.o = tp_adam_new(b->tp, 0.05, NULL, 2, s.params);
    tp_function *f = make(b, "ignoring", ignoring, &s);
    uint64_t seed = 11;
    for (s.n = 0; s.n < 14; s.n++) {
        tp_scope_begin(b->tp);
        const int64_t labels[] = {s.n % 2, s.n % 3 - 1, s.n == 10 ? 2 : s.n == 12 ? -2 : 0, 1};
        tp_tensor *x = draw(b->tp, &seed, TP_DIMS(4, 3));
        note(b, "loss", call2(f, x, tp_tensor_new(b->tp, TP_I64, TP_DIMS(2, 2), labels)));
        note(b, "w", s.w);
        note(b, "v", s.v);
        note_error(b, "labels");
        tp_scope_end(b->tp);
        if (s.n == 8) {
            settle(b);
            if (!b->eager && !BOTH_STRESS)
                assert_int_equal(tp_function_stats_of(f).segments, 1);
        }
    }
    tp_optimizer_free(s.o);
}

BODY(penalised)
{
    world *s = user;
    tp_tensor *x = tp_require_grad(tp_detach(in[0]));
    tp_tensor *y = tp_sum(tp_tanh(tp_linear(x, s->w, s->v)), TP_ALL, false);
    tp_tensor *dx = tp_grad(y, x);
    tp_tensor *loss = tp_add(tp_square(y), tp_sum(tp_square(dx), TP_ALL, false));
    tp_tensor *dp[2];
    tp_grads(loss, NULL, 2, s->params, dp);
    out[0] = loss;
    out[1] = dp[0];
    out[2] = dp[1];
    out[3] = dx;
    if (s->n % 2)
        tp_backward(loss);
}

static void gradients_of_gradients_inside(bed *b)
{
    world s = open_world(b);
    tp_function *f = make(b, "penalised", penalised, &s);
    for (s.n = 0; s.n < 8; s.n++) {
        tp_tensor *out[4], *x = pattern(b->tp, TP_DIMS(2, 3), 0.04 * (s.n + 1));
        tp_function_call(f, TP_TENSORS(x), 4, out);
        for (int k = 0; k < 4; k++)
            note(b, "out", out[k]);
        note(b, "once more", tp_grad(tp_sum(out[1], TP_ALL, false), s.w));
        note_state(b, &s);
        settle(b);
    }
    note_error(b, "penalised");
}

/* ---- what requires a gradient, and when -------------------------------------------------- */

BODY(plain)
{
    const world *s = user;
    tp_tensor *y = tp_mul(tp_sin(in[0]), s->w);
    if (tp_requires_grad(y))
        y = tp_add(y, tp_detach(y));
    out[0] = tp_sum(y, TP_ALL, false);
    out[1] = tp_detach(y);
}

static void marked_in_some_calls(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = open_world(b);
    tp_function *f = make(b, "plain", plain, &s);
    tp_tensor *frozen = tp_variable(s.w, "frozen"), *param = s.w;
    for (int i = 0; i < 24; i++) {
        tp_scope_begin(tp);
        s.w = i / 4 % 2 ? frozen : param; /* swapped for one that is not learned */
        tp_tensor *x = pattern(tp, TP_DIMS(3, 2), 0.1), *out[2];
        if (i % 2)
            tp_require_grad(x);
        const bool was = tp_recording(tp, i % 7 != 5);
        tp_function_call(f, TP_TENSORS(x), 2, out);
        tp_recording(tp, was);
        note(b, "y", out[0]);
        note(b, "detached", out[1]);
        if (tp_requires_grad(out[0])) {
            if (i % 2)
                note(b, "dx", tp_grad(out[0], x));
            tp_backward(out[0]);
        } else {
            say(b, "no gradient: %s", tp_status_name(tp_backward(out[0])));
            tp_clear_error(tp);
        }
        note(b, "dw", tp_grad_of(param));
        tp_scope_end(tp);
        if (i == 11)
            settle(b);
    }
}

BODY(switching)
{
    const world *s = user;
    tp_ctx *tp = s->b->tp;
    tp_tensor *a = tp_mul(in[0], s->w);
    const bool was = tp_recording(tp, s->n % 3 == 1);
    tp_tensor *c = tp_exp(s->w);
    say(s->b, "was %d, c requires %d", was, tp_requires_grad(c));
    tp_recording(tp, true);
    out[0] = tp_sum(tp_mul(a, c), TP_ALL, false);
    if (s->n != 7)
        tp_recording(tp, was);
}

static void recording_switched_inside(bed *b)
{
    world s = open_world(b);
    tp_function *f = make(b, "switching", switching, &s);
    for (s.n = 0; s.n < 12; s.n++) {
        tp_recording(b->tp, s.n % 4 != 2);
        tp_tensor *y = call1(f, pattern(b->tp, TP_DIMS(3, 2), 0.1));
        note(b, "y", y);
        if (tp_requires_grad(y))
            note(b, "dw", tp_grad(y, s.w));
        settle(b);
        say(b, "recording %d", tp_recording(b->tp, true));
        note_error(b, "switching");
    }
}

/* What leaves a block while recording is off is a constant to gradients, in a body too. */
BODY(block_unrecorded)
{
    const world *s = user;
    tp_tensor *h = s->v;
    tp_recording(s->b->tp, false);
    tp_if (tp_gt(tp_sum(in[0], TP_ALL, false), tp_scalar_like(in[0], 0)), &h) {}
    tp_recording(s->b->tp, true);
    out[0] = tp_sum(tp_mul(tp_mul(tp_matmul(in[0], s->w), h), s->v), TP_ALL, false);
}

static void blocks_unrecorded(bed *b)
{
    world s = open_world(b);
    tp_function *f = make(b, "block_unrecorded", block_unrecorded, &s);
    for (s.n = 0; s.n < 6; s.n++) {
        tp_tensor *y = call1(f, pattern(b->tp, TP_DIMS(2, 3), s.n % 2 ? 0.1 : -0.1));
        note(b, "dv", tp_grad(y, s.v));
        tp_backward(y);
        note_state(b, &s);
        settle(b);
    }
    note_error(b, "block_unrecorded");
}

/* A parameter assigned between the call and the sweep: the error names the line inside. */
static void assigned_since(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = open_world(b);
    tp_function *f = make(b, "net", net, &s);
    for (int i = 0; i < 8; i++) {
        tp_tensor *x = tp_require_grad(pattern(tp, TP_DIMS(2, 3), 0.1));
        tp_tensor *y = tp_sum(call1(f, x), TP_ALL, false);
        if (i % 2)
            tp_assign(i % 4 == 1 ? s.v : tp_select(s.w, 0, 1), tp_neg(s.v));
        say(b, "%s", tp_status_name(tp_backward(y)));
        note_error(b, "assigned since");
        note_state(b, &s);
        note(b, "dx", tp_grad_of(x));
        settle(b);
    }
}

BODY(assigning)
{
    const world *s = user;
    tp_tensor *y = tp_mul(in[0], s->w);
    tp_assign(s->w, tp_add(s->w, tp_scalar_like(s->w, 0.5))); /* y's rule needs the old one */
    out[0] = tp_sum(s->n % 2 ? tp_add(y, s->w) : tp_mul(y, s->w), TP_ALL, false);
    if (s->n % 4 == 3)
        say(s->b, "inside %s", tp_status_name(tp_backward(out[0])));
}

static void assigned_inside(bed *b)
{
    world s = open_world(b);
    tp_function *f = make(b, "assigning", assigning, &s);
    for (s.n = 0; s.n < 12; s.n++) {
        tp_tensor *y = call1(f, tp_require_grad(pattern(b->tp, TP_DIMS(3, 2), 0.1)));
        note_error(b, "inside");
        say(b, "%s", tp_status_name(tp_backward(y)));
        note_error(b, "assigned inside");
        note_state(b, &s);
        settle(b);
    }
}

BODY(looking_back)
{
    world *s = user;
    tp_tensor *y = tp_sum(tp_mul(tp_tanh(in[0]), s->w), TP_ALL, false);
    if (s->old)
        say(s->b, "backward of the last call's: %s", tp_status_name(tp_backward(s->old)));
    if (s->n % 3 == 1) { /* twice, over one tape */
        tp_backward(y);
        tp_backward(y);
    }
    tp_release(s->old);
    s->old = s->n % 4 == 3 ? NULL : tp_retain(s->n % 2 ? y : tp_add(y, in[1]));
    out[0] = y;
}

static void tapes_of_other_calls(bed *b)
{
    world s = open_world(b);
    tp_function *f = make(b, "looking_back", looking_back, &s);
    for (s.n = 0; s.n < 14; s.n++) {
        tp_tensor *x = pattern(b->tp, TP_DIMS(3, 2), 0.05 * s.n);
        tp_tensor *outside = tp_sum(tp_square(s.v), TP_ALL, false);
        tp_tensor *y = call2(f, x, outside);
        note(b, "y", y);
        note_state(b, &s);
        if (s.n % 5 == 4) {
            tp_backward(tp_add(y, outside));
            note_state(b, &s);
        }
        if (s.n == 8)
            settle(b);
    }
    tp_release(s.old);
    note_error(b, "looking back");
}

static void gradient_after_the_free(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = open_world(b);
    for (int i = 0; i < 4; i++) {
        tp_function *f = make(b, "net", net, &s);
        tp_tensor *y[3], *x = tp_require_grad(pattern(tp, TP_DIMS(2, 3), 0.1));
        for (int k = 0; k < 3; k++)
            y[k] = call1(f, x);
        if (i == 2)
            settle(b);
        discard(b, f);
        for (int k = 0; k < 3; k++) {
            note(b, "y", y[k]);
            tp_tensor *dx = tp_grad(tp_sum(y[k], TP_ALL, false), x);
            note(b, "dx", dx);
            note(b, "ddw", tp_grad(tp_sum(tp_square(dx), TP_ALL, false), s.w));
        }
        tp_backward(y[1]);
        note_state(b, &s);
    }
}

BODY(normalising)
{
    world *s = user;
    tp_tensor *h = tp_matmul(in[0], s->w);
    if (s->n % 5 == 4)
        h = tp_batch_norm(h, s->v, NULL, s->params[0], s->params[1], 1e-5);
    else
        h = tp_batch_norm_train(h, s->v, NULL, s->params[0], s->params[1], 0.1, 1e-5);
    out[0] = h;
}

static void running_statistics(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = open_world(b);
    s.params[0] = tp_variable(tp_full(tp, TP_F32, TP_DIMS(2), 0), "mean");
    s.params[1] = tp_variable(tp_full(tp, TP_F32, TP_DIMS(2), 1), "var");
    tp_function *f = make(b, "normalising", normalising, &s);
    uint64_t seed = 12;
    for (s.n = 0; s.n < 12; s.n++) {
        tp_tensor *y = call1(f, draw(tp, &seed, TP_DIMS(4 + s.n % 3, 3)));
        note(b, "y", y);
        tp_backward(tp_mean(tp_mul(y, tp_sigmoid(y)), TP_ALL, false));
        note_state(b, &s);
        note(b, "mean", s.params[0]);
        note(b, "var", s.params[1]);
        if (s.n == 7)
            settle(b);
    }
    note_error(b, "batch norm");
}

/* ---- marked too late --------------------------------------------------------------------- */

BODY(scaled)
{
    const world *s = user;
    out[0] = tp_exp(tp_mul(in[0], s->old ? s->old : in[0]));
}

/* y was there, or what it comes from was, when x was marked. */
static void marked_too_late(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = open_world(b);
    tp_function *f[] = {make(b, "scaled", scaled, &s), make_pure(b, "pure", scaled, &s)};
    for (int i = 0; i < 10; i++) {
        tp_tensor *x = pattern(tp, TP_DIMS(2, 3), 0.1 * i), *k = tp_neg(x);
        tp_tensor *y = call1(f[i % 2], x), *table = pattern(tp, TP_DIMS(2, 3), 0.3);
        if (i >= 8)
            y = tp_mul(tp_tanh(k), tp_sum(s.w, TP_ALL, false));
        tp_require_grad(x);
        note(b, "dx", tp_grad(y, x));
        note_error(b, "error");
        note(b, "later", tp_grad(tp_mul(call1(f[i % 2], x), table), x));
        note(b, "in part", tp_grad(tp_mul(y, x), x));
        note_error(b, "error in part");
        note(b, "with another", tp_grad(tp_mul(k, s.w), s.w));
        note(b, "nothing to do with it", tp_grad(tp_mul(table, table), x));
        note_error(b, "no error");
    }
}

enum { GOOD, LATE };

static void expect(bed *b, int want, tp_tensor *dx)
{
    note(b, "dx", dx);
    note_error(b, "error");
    if (want == GOOD && tp_failed(dx))
        fail_msg("%s", tp_error_text(dx));
    if (want == LATE && (tp_status_of(dx) != TP_E_STATE ||
                         !strstr(tp_error_text(dx), "before tp_require_grad marked it")))
        fail_msg("taken, or refused otherwise: %s", tp_error_text(dx));
    tp_clear_error(b->tp);
}

/* Refused is what y depends on by way of what was there before the mark, and nothing else. */
static void marked_after_a_use(bed *b)
{
    tp_ctx *tp = b->tp;
    tp_tensor *x = pattern(tp, TP_DIMS(2, 3), 0.1), *gone = tp_tanh(tp_exp(x));
    tp_tensor *other = pattern(tp, TP_DIMS(2, 3), 0.2), *apart = tp_exp(tp_neg(other));
    tp_tensor *mask = tp_cast(tp_gt(x, other), TP_F32), *cut = tp_exp(tp_detach(x));
    tp_recording(tp, false);
    tp_tensor *z = pattern(tp, TP_DIMS(2, 3), 0.1), *constant = tp_tanh(z);
    tp_recording(tp, true);
    tp_require_grad(x);
    tp_require_grad(z);
    expect(b, LATE, tp_grad(tp_neg(gone), x));
    expect(b, LATE, tp_grad(tp_mul(gone, x), x));
    expect(b, LATE, tp_grad(tp_add(tp_mul(x, x), tp_exp(tp_neg(gone))), x));
    expect(b, GOOD, tp_grad(tp_neg(constant), z));
    expect(b, GOOD, tp_grad(tp_mul(gone, z), z));
    expect(b, GOOD, tp_grad(tp_mul(apart, x), x));
    expect(b, GOOD, tp_grad(tp_mul(tp_mul(apart, other), x), x));
    expect(b, GOOD, tp_grad(tp_mul(mask, x), x));
    expect(b, GOOD, tp_grad(tp_mul(cut, x), x));
    expect(b, GOOD, tp_grad(tp_mul(tp_mul(x, z), tp_detach(tp_mul(x, x))), x));
    tp_require_grad(gone); /* marked too, it is still computed from x */
    expect(b, GOOD, tp_grad(tp_mul(gone, z), gone));
    expect(b, LATE, tp_grad(tp_mul(gone, x), x));
    tp_require_grad(other);
    expect(b, LATE, tp_grad(tp_mul(apart, x), other));
    expect(b, GOOD, tp_grad(tp_mul(gone, x), other));

    expect(b, GOOD, tp_backward(tp_mul(z, tp_square(z))) == TP_OK ? tp_grad_of(z) : NULL);
    assert_int_equal(tp_backward(tp_mul(apart, z)),
                     TP_E_STATE); /* tp_grad_of(other) would be 0 */
    assert_non_null(strstr(tp_error_message(tp), "before tp_require_grad marked it"));
    tp_clear_error(tp);
    assert_int_equal(tp_backward(tp_add(x, gone)), TP_E_STATE);
    tp_clear_error(tp);
    note(b, "as it was", tp_grad_of(x));
}

/* A graph takes a concrete tensor unmarked: what was computed from it before is a constant there. */
static void used_before_in_graphs(bed *b)
{
    tp_ctx *tp = b->tp;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *p = tp_placeholder(g, "p", TP_F32, TP_DIMS(2, 3));
    tp_tensor *x = pattern(tp, TP_DIMS(2, 3), 0.1), *gone = tp_exp(x);
    tp_tensor *v = tp_variable(pattern(tp, TP_DIMS(2, 3), 0.2), "v"), *of_v = tp_neg(v);
    expect(b, LATE, tp_grad(tp_mul(tp_mul(gone, p), x), x));
    expect(b, GOOD, tp_grad(tp_mul(p, x), x));
    expect(b, GOOD, tp_grad(tp_mul(tp_mul(gone, p), v), v));
    expect(b, LATE, tp_grad(tp_mul(tp_add(p, of_v), v), v));
    tp_require_grad(x);
    expect(b, LATE, tp_grad(tp_mul(tp_mul(gone, p), x), x));
    tp_tensor *recorded = tp_exp(x);
    expect(b, GOOD, tp_grad(tp_mul(tp_mul(recorded, p), x), x));
    tp_graph_free(g);
}

/* Many tensors share the bits of the set; their order tells most of them apart. */
static void used_before_among_many(bed *b)
{
    tp_ctx *tp = b->tp;
    for (int i = 0; i < 300; i++)
        tp_neg(pattern(tp, TP_DIMS(2), 0.1 * i));
    tp_tensor *old = tp_exp(tp_exp(pattern(tp, TP_DIMS(2), 0.1)));
    for (int i = 0; i < 64; i++)
        old = tp_neg(old);
    tp_tensor *x = pattern(tp, TP_DIMS(2), 0.3), *gone = tp_neg(x);
    tp_require_grad(x);
    tp_tensor *young = pattern(tp, TP_DIMS(2), 0.1);
    for (int i = 0; i < 200; i++)
        young = tp_neg(young);
    expect(b, LATE, tp_grad(tp_mul(gone, x), x));
    expect(b, GOOD, tp_grad(tp_mul(old, x), x));
    expect(b, GOOD, tp_grad(tp_mul(young, x), x));
    expect(b, LATE, tp_grad(tp_mul(tp_neg(tp_sub(gone, young)), x), x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACK(backward_through_calls),
        ATTACK(a_chain_of_calls),
        ATTACK(second_order),
        ATTACK(nested_calls),
        ATTACK(against_differences),
        ATTACK(descent_by_hand),
        ATTACK(adam_inside),
        ATTACK(momentum_inside),
        ATTACK(labels_known_early),
        ATTACK(gradients_of_gradients_inside),
        ATTACK(marked_in_some_calls),
        ATTACK(recording_switched_inside),
        ATTACK(blocks_unrecorded),
        ATTACK(assigned_since),
        ATTACK(assigned_inside),
        ATTACK(tapes_of_other_calls),
        ATTACK(gradient_after_the_free),
        ATTACK(running_statistics),
        ATTACK(marked_too_late),
        ATTACK(marked_after_a_use),
        ATTACK(used_before_in_graphs),
        ATTACK(used_before_among_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
