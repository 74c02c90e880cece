/* tapir: layers and optimisers, written with the public ops alone.
 *
 * A layer is a struct of parameters and a function from tensors to tensors; both may be used
 * eagerly and in graphs. What is made here belongs to the open scope, as all tensors do, except
 * the state of an optimiser. */
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
TP_FN(tp_dense, tp_dense_new, tp_ctx *tp, const char *name, int64_t n_in, int64_t n_out);
#define tp_dense_new(...) tp_dense_new_at(TP_PLACE, __VA_ARGS__)
/* x [..., n_in] -> [..., n_out]. */
TP_FN(tp_tensor *, tp_dense_apply, const tp_dense *l, tp_tensor *x);
#define tp_dense_apply(l, x) tp_dense_apply_at(TP_PLACE, l, TP_OPERAND(x))

typedef struct tp_conv_layer {
    tp_tensor *w, *b; /* params [oc, c, k, k], [oc] */
    tp_window window;
} tp_conv_layer;
/* Two spatial axes, square kernel, `pad` on all four sides; drawn as tp_dense_new with n_in =
 * c * k * k. */
TP_FN(tp_conv_layer, tp_conv_layer_new, tp_ctx *tp, const char *name, int64_t c, int64_t oc,
      int64_t k, int64_t stride, int64_t pad);
#define tp_conv_layer_new(...) tp_conv_layer_new_at(TP_PLACE, __VA_ARGS__)
/* x [n, c, h, w] -> [n, oc, h', w'], sizes as tp_conv says. */
TP_FN(tp_tensor *, tp_conv_layer_apply, const tp_conv_layer *l, tp_tensor *x);
#define tp_conv_layer_apply(l, x) tp_conv_layer_apply_at(TP_PLACE, l, TP_OPERAND(x))

/* ---- optimisers ---------------------------------------------------------------------------- */

/* Holds the n parameters and its own state until tp_optimizer_free or tp_close, whatever
 * scopes are open. The state is variables, so a saved graph saves it too. */
typedef struct tp_optimizer tp_optimizer;

/* v = momentum * v + g;  w = w - rate * v.  0 <= momentum < 1; v is "NAME.v". NULL on error. */
TP_FN(tp_optimizer *, tp_sgd_new, tp_ctx *tp, double rate, double momentum, int n,
      tp_tensor *const *params);
#define tp_sgd_new(...) tp_sgd_new_at(TP_PLACE, __VA_ARGS__)
/* Adam (Kingma and Ba, 2015): at step t = 1, 2, ...
 *     m = beta1 * m + (1 - beta1) * g;     m' = m / (1 - beta1^t);
 *     v = beta2 * v + (1 - beta2) * g * g; v' = v / (1 - beta2^t);
 *     w = (1 - rate * decay) * w - rate * m' / (sqrt(v') + eps)
 * 0 <= beta1, beta2 < 1; decay > 0 is AdamW. m and v are "NAME.m" and "NAME.v". */
TP_FN(tp_optimizer *, tp_adam_new, tp_ctx *tp, double rate, double beta1, double beta2,
      double eps, double decay, int n, tp_tensor *const *params);
#define tp_adam_new(...) tp_adam_new_at(TP_PLACE, __VA_ARGS__)
TP_API void tp_optimizer_free(tp_optimizer *o); /* NULL is fine */
/* The rate from now on; a graph reads it at each run. */
TP_FN(tp_status, tp_optimizer_set_rate, tp_optimizer *o, double rate);
#define tp_optimizer_set_rate(...) tp_optimizer_set_rate_at(TP_PLACE, __VA_ARGS__)

/* One step down the gradient of the sum of `loss`. Concrete: done now. Symbolic: adds the
 * gradients and the updates to the graph; fetch the result to take a step. Result: a bool,
 * true. The bits are the same both ways. When it fails no parameter has changed. */
TP_FN(tp_tensor *, tp_optimizer_step, tp_optimizer *o, tp_tensor *loss);
#define tp_optimizer_step(o, loss) tp_optimizer_step_at(TP_PLACE, o, TP_OPERAND(loss))

#ifdef __cplusplus
}
#endif
#endif
