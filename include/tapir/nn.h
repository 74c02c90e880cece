/* tapir: layers and optimisers, written with the public ops alone.
 *
 * A layer is a struct of parameters and a function from tensors to tensors; both may be used
 * eagerly and in graphs. */
#ifndef TAPIR_NN_H
#define TAPIR_NN_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layers ------------------------------------------------------------------------------ */

typedef struct tp_dense {
    tp_tensor *w, *b; /* params [n_in, n_out], [n_out] */
} tp_dense;
/* Uniform in +-1/sqrt(n_in), drawn from the context's random numbers; names "name.w" and
 * "name.b"; f32. A failed layer has failed tensors. */
TP_API tp_dense tp_dense_new(tp_ctx *tp, const char *name, int64_t n_in, int64_t n_out);
TP_FN(tp_tensor *, tp_dense_apply, const tp_dense *l, tp_tensor *x); /* [..., n_in] */
#define tp_dense_apply(...) tp_dense_apply_at(TP_PLACE, __VA_ARGS__)

typedef struct tp_conv_layer {
    tp_tensor *w, *b; /* params [oc, c, kh, kw], [oc] */
    tp_window window;
} tp_conv_layer;
/* Two spatial axes, square kernel; drawn as tp_dense_new with n_in = c * k * k. */
TP_API tp_conv_layer tp_conv_layer_new(tp_ctx *tp, const char *name, int64_t c, int64_t oc,
                                       int64_t k, int64_t stride, int64_t pad);
TP_FN(tp_tensor *, tp_conv_layer_apply, const tp_conv_layer *l, tp_tensor *x);
#define tp_conv_layer_apply(...) tp_conv_layer_apply_at(TP_PLACE, __VA_ARGS__)

/* ---- optimisers ---------------------------------------------------------------------------- */

typedef struct tp_optimizer tp_optimizer;

/* v = momentum * v + g;  w = w - rate * v. */
TP_API tp_optimizer *tp_sgd_new(tp_ctx *tp, double rate, double momentum, int n,
                                tp_tensor *const *params);
/* Adam of Kingma and Ba (2015), with decoupled weight decay (AdamW) when `decay` > 0. */
TP_API tp_optimizer *tp_adam_new(tp_ctx *tp, double rate, double beta1, double beta2,
                                 double eps, double decay, int n, tp_tensor *const *params);
TP_API void tp_optimizer_free(tp_optimizer *o);
/* The step size from now on; a graph reads it at each run. */
TP_API tp_status tp_optimizer_set_rate(tp_optimizer *o, double rate);

/* One step down the gradient of `loss`. Concrete: done now. Symbolic: adds gradients and
 * updates to the graph; fetch the result to take the step. Result: a bool, true. */
TP_FN(tp_tensor *, tp_optimizer_step, tp_optimizer *o, tp_tensor *loss);
#define tp_optimizer_step(...) tp_optimizer_step_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
