/* tapir: gradients, by one reverse sweep over what ran or over a static graph.
 *
 * Ops on tensors that require a gradient are recorded while recording is on (as it is at
 * first). Gradients are made of ordinary ops, so gradients of gradients need nothing more. */
#ifndef TAPIR_GRAD_H
#define TAPIR_GRAD_H

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks a concrete float tensor that nothing was computed from yet as one gradients may be
 * asked of. What was computed from it before, while recording was on, is not recorded: where y depends on
 * it that way, tp_grad and tp_backward fail (TP_E_STATE); all else is taken, but for what was computed
 * between the first use and the mark in a program that reads more than 64 tensors without one. Symbolic
 * tensors need no mark.
 * Returns `t`. */
TP_FN(tp_tensor *, tp_require_grad, tp_tensor *t);
#define tp_require_grad(t) tp_require_grad_at(TP_PLACE, TP_OPERAND(t))
/* Is `t` marked, recorded as computed from something marked, or symbolic? */
TP_API bool tp_requires_grad(const tp_tensor *t);
#define tp_requires_grad(t) tp_requires_grad(TP_READ_OPERAND(t))

/* Turns recording on or off; returns how it was. What is made while it is off, in a graph too,
 * is a constant to gradients: no result depends on anything through it, so tp_grad gives zeros, and no error, where
 * there is no other way; tp_requires_grad is false of such a concrete tensor. */
TP_API bool tp_recording(tp_ctx *tp, bool on);

/* tp_no_grad (tp) { }: recording is off in the block, and then as it was. gcc and clang see to that also when the block
 * is left by break, goto or return. */
#define tp_no_grad(tp)                                                                         \
    for (TP_LEFT_BY(tp_no_grad_left) tp_no_grad_block TP_NO_GRAD = tp_no_grad_begin(tp);       \
         tp_no_grad_next(&TP_NO_GRAD);)
typedef struct tp_no_grad_block {
    tp_ctx *tp;
    bool was, entered;
} tp_no_grad_block;
#define TP_NO_GRAD TP_JOIN(tp_no_grad_, __LINE__)
/* What the macro calls. */
TP_API tp_no_grad_block tp_no_grad_begin(tp_ctx *tp);
TP_API bool tp_no_grad_next(tp_no_grad_block *b);
TP_API void tp_no_grad_left(tp_no_grad_block *b);

/* Adds d(sum of y's elements)/dt to the gradient of every marked t that y was computed from.
 * y is concrete. The sweep itself is not recorded. */
TP_FN(tp_status, tp_backward, tp_tensor *y);
#define tp_backward(y) tp_backward_at(TP_PLACE, TP_OPERAND(y))
/* What tp_backward has added up so far; zeros when nothing was. Like any result it belongs to the open
 * scope and keeps its value, also when more is added, or after tp_zero_grad. */
TP_FN(tp_tensor *, tp_grad_of, tp_tensor *t);
#define tp_grad_of(t) tp_grad_of_at(TP_PLACE, TP_OPERAND(t))
TP_API void tp_zero_grad(tp_tensor *t);
#define tp_zero_grad(t) tp_zero_grad(TP_OPERAND(t))

/* d(sum of y's elements)/dx, of x's shape; zeros when y does not depend on x, as a concrete y does not on
 * a symbolic x, or what was made in tp_no_grad on anything. A concrete x has to require a gradient (TP_E_STATE, as for
 * what a captured function computed and did not return). Recorded like any other computation. In a graph it adds nodes.
 * Contributions to dx add up in reverse order of the calls that made them. */
TP_FN(tp_tensor *, tp_grad, tp_tensor *y, tp_tensor *x);
#define tp_grad(y, x) tp_grad_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(x))
/* The same for n tensors at once, in one sweep, into dx[n]. `dy` of y's shape weighs its
 * elements (NULL: ones): the vector-Jacobian product. Every dx is set, failed ones included. */
TP_FN(tp_status, tp_grads, tp_tensor *y, tp_tensor *dy, int n, tp_tensor *const *xs,
      tp_tensor **dx);
#define tp_grads(y, dy, ...) tp_grads_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(dy), __VA_ARGS__)

/* ---- one's own gradient ------------------------------------------------------------------------
 *
 *     static void forward(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
 *     {
 *         out[0] = tp_clip(in[0], -1, 1);
 *     }
 *     static void backward(void *user, const tp_vjp *v)
 *     {
 *         v->din[0] = v->dout[0];         past the ends too
 *     }
 *     static const tp_custom soft_clip = {.name = "soft_clip", .forward = forward, .backward = backward};
 *
 *     y = tp_custom_apply(&soft_clip, NULL, 1, &x);
 *
 * Both are C functions of public ops, so this works on concrete and symbolic tensors, in captured functions and in
 * blocks; what leaves as C or ONNX is the ops that they called. A gradient of this gradient is that of the ops that
 * backward calls. In both a scope is open, as in the body of a function (capture.h). */

/* What backward is given, and gives. */
typedef struct tp_vjp {
    const char *file; /* of the call, for TP_PLACE */
    int line;
    int n_in, n_out;
    tp_tensor *const *in;  /* of forward, */
    tp_tensor *const *out; /* what it gave, */
    /* and of each result the gradient: zeros where none came; NULL when it is no float. */
    tp_tensor *const *dout;
    const bool *wanted; /* [n_in]: whose gradient is asked for */
    /* [n_in], to be set: of in's shape and type; NULL, which they are, are zeros. */
    tp_tensor **din;
} tp_vjp;

typedef struct tp_custom {
    const char *name; /* in messages */
    /* Sets out[n_out]; floats among them are of one type. No gradient goes through the ops that it calls. What backward
     * needs beside its arguments is a result more. */
    void (*forward)(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out);
    void (*backward)(void *user, const tp_vjp *v);
    /* At each call on concrete tensors outside of captured functions backward is compared with central differences of
     * forward at `in` as f64 (tp_grad_check); TP_E_VALUE when they differ by more than 1e-5. What fails in either is the
     * error of the call; results of which none is a float have nothing to compare. */
    bool check;
} tp_custom;

/* out[n_out] = forward(in[n_in]). `c` and `user` are used as long as gradients may be asked: of concrete tensors until
 * these are gone, of a graph until it is freed; a captured function notices when they are others. n_in >= 1. Failed
 * results are failed tensors; the status is the first one's. */
TP_FN(tp_status, tp_custom_call, const tp_custom *c, void *user, int n_in, tp_tensor *const *in,
      int n_out, tp_tensor **out);
#define tp_custom_call(...) tp_custom_call_at(TP_PLACE, __VA_ARGS__)
/* The same for a function of one result. */
TP_FN(tp_tensor *, tp_custom_apply, const tp_custom *c, void *user, int n_in,
      tp_tensor *const *in);
#define tp_custom_apply(...) tp_custom_apply_at(TP_PLACE, __VA_ARGS__)

/* The value of y, and the gradient of x: that of the result goes to x as it is, none to y. y has x's shape and type.
 * With y = tp_round(x), the straight-through estimator (Bengio et al., 2013). */
TP_FN(tp_tensor *, tp_straight_through, tp_tensor *y, tp_tensor *x);
#define tp_straight_through(y, x) tp_straight_through_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(x))

/* ---- hooks -------------------------------------------------------------------------------------- */

/* Sees a gradient; gives what takes its place, of its shape and type, or NULL: it stays. */
typedef tp_tensor *(*tp_hook_function)(void *user, tp_tensor *g);
typedef struct tp_hook tp_hook;

/* Lives until tp_hook_free or tp_close. NULL on error. */
TP_FN(tp_hook *, tp_hook_new, tp_ctx *tp, tp_hook_function f, void *user);
#define tp_hook_new(...) tp_hook_new_at(TP_PLACE, __VA_ARGS__)
/* From now on gradients pass as if it had not been; those that a graph or a recorded call has stay. NULL is fine. */
TP_API void tp_hook_free(tp_hook *h);

/* x; the gradient of the result, all contributions added up, goes through h before it goes on to x. */
TP_FN(tp_tensor *, tp_hooked, tp_tensor *x, tp_hook *h);
#define tp_hooked(x, h) tp_hooked_at(TP_PLACE, TP_OPERAND(x), h)
/* The same of a marked tensor (tp_require_grad, tp_param) for whoever asks: what tp_grad, tp_grads and an optimiser
 * get, and what one tp_backward adds to tp_grad_of(x), goes through h; several in the order in which they were hung on. Zeros
 * that stand for "y does not depend on x" do not.
 * TP_E_STATE: x is not marked. A pure function runs again when hooks have come or gone. */
TP_FN(tp_status, tp_hook_on, tp_tensor *x, tp_hook *h);
#define tp_hook_on(x, h) tp_hook_on_at(TP_PLACE, TP_OPERAND(x), h)

/* ---- a check ------------------------------------------------------------------------------------ */

/* Compares the gradient of f at xs (concrete: f64, integers are left as they are, f32 is TP_E_DTYPE) with central
 * differences. f gives any shape; its elements are weighed by fixed random numbers. `max_error` gets the largest difference,
 * relative to max(1, |difference quotient|). When f fails, so does this. */
typedef tp_tensor *(*tp_checked_function)(void *user, int n, tp_tensor *const *xs);
TP_FN(tp_status, tp_grad_check, tp_checked_function f, void *user, int n, tp_tensor *const *xs,
      double *max_error);
#define tp_grad_check(...) tp_grad_check_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
