/* tapir: functions, losses and layers of neural networks, over the public ops.
 *
 * A layer is a struct of parameters and a function from tensors to tensors; both may be used
 * eagerly and in graphs. What is made here belongs to the open scope, as all tensors do. */
#ifndef TAPIR_NN_H
#define TAPIR_NN_H

#include "composites.h"
#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- functions ------------------------------------------------------------------------- */

/* x [..., k] * w [k, n] + b [n] (or NULL) -> [..., n]. */
TP_FN(tp_tensor *, tp_linear, tp_tensor *x, tp_tensor *w, tp_tensor *b);
#define tp_linear(x, w, b) tp_linear_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(w), TP_OPERAND(b))
TP_FN(tp_tensor *, tp_softmax, tp_tensor *x, int axis); /* exp(x - max) * (1 / sum) */
#define tp_softmax(x, ...) tp_softmax_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_log_softmax, tp_tensor *x, int axis); /* x - max - log(sum(exp)) */
#define tp_log_softmax(x, ...) tp_log_softmax_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* (x - mean) / sqrt(var + eps) * scale + shift over the last axis; scale and shift [c] or NULL. */
TP_FN(tp_tensor *, tp_layer_norm, tp_tensor *x, tp_tensor *scale, tp_tensor *shift, double eps);
#define tp_layer_norm(x, scale, shift, ...)                                                    \
    tp_layer_norm_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(scale), TP_OPERAND(shift), __VA_ARGS__)
/* The same over all axes but axis 1, with the given mean and variance [c] (inference). */
TP_FN(tp_tensor *, tp_batch_norm, tp_tensor *x, tp_tensor *scale, tp_tensor *shift,
      tp_tensor *mean, tp_tensor *var, double eps);
#define tp_batch_norm(x, scale, shift, mean, var, ...)                                         \
    tp_batch_norm_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(scale), TP_OPERAND(shift),            \
                     TP_OPERAND(mean), TP_OPERAND(var), __VA_ARGS__)
/* Training: with the batch's own mean and variance; running_mean and running_var (variables,
 * or NULL) move by `momentum` of the way toward them (variance with n - 1). */
TP_FN(tp_tensor *, tp_batch_norm_train, tp_tensor *x, tp_tensor *scale, tp_tensor *shift,
      tp_tensor *running_mean, tp_tensor *running_var, double momentum, double eps);
#define tp_batch_norm_train(x, scale, shift, running_mean, running_var, ...)                   \
    tp_batch_norm_train_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(scale), TP_OPERAND(shift),      \
                           TP_OPERAND(running_mean), TP_OPERAND(running_var), __VA_ARGS__)
/* Zero with probability p, else x / (1 - p). 0 <= p < 1. */
TP_FN(tp_tensor *, tp_dropout, tp_tensor *x, double p);
#define tp_dropout(x, ...) tp_dropout_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* ---- losses ---------------------------------------------------------------------------- */

/* Mean over the batch of -log softmax at the label:  logits [n, c], labels [n] integer -> []. A label
 * that is not in 0..c-1 is refused; one below 0 is told less c. */
TP_FN(tp_tensor *, tp_cross_entropy, tp_tensor *logits, tp_tensor *labels);
#define tp_cross_entropy(logits, labels)                                                       \
    tp_cross_entropy_at(TP_PLACE, TP_OPERAND(logits), TP_OPERAND(labels))
TP_FN(tp_tensor *, tp_mse, tp_tensor *y, tp_tensor *target); /* mean((y - target)^2) -> [] */
#define tp_mse(y, target) tp_mse_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(target))

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

#ifdef __cplusplus
}
#endif
#endif
