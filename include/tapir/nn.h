/* tapir: functions, losses and layers of neural networks, over the public ops.
 */
#ifndef TAPIR_NN_H
#define TAPIR_NN_H

#include "composites.h"
#include "graph.h"
#include "params.h"

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

/* ---- layers ------------------------------------------------------------------------------
 *
 * A layer is a struct of parameters, which lie in a tree (params.h) below its name, and a function from tensors to
 * tensors. Both may be used eagerly, in graphs and in captured functions. Parameters are f32. A layer that
 * failed has failed tensors. */

/* First values. For n_in inputs of each output, n_out outputs of each input (of a convolution times the product
 * of the kernel's sizes), and `gain` (0: 1): */
typedef enum tp_init {
    TP_INIT_FAN_IN,          /* uniform in +-gain / sqrt(n_in) */
    TP_INIT_KAIMING_UNIFORM, /* uniform in +-gain * sqrt(6 / n_in): He et al. (2015), for relu */
    TP_INIT_KAIMING_NORMAL,  /* normal, deviation gain * sqrt(2 / n_in) */
    TP_INIT_XAVIER_UNIFORM, /* uniform in +-gain * sqrt(6 / (n_in + n_out)): Glorot and Bengio (2010) */
    TP_INIT_XAVIER_NORMAL, /* normal, deviation gain * sqrt(2 / (n_in + n_out)) */
    TP_INIT_NORMAL,        /* normal, deviation gain */
    TP_INIT_ZEROS
} tp_init;
/* Such values of any shape, f32, drawn from the context's random numbers. */
TP_FN(tp_tensor *, tp_initial, tp_ctx *tp, tp_init init, double gain, int rank,
      const int64_t *shape, int64_t n_in, int64_t n_out);
#define tp_initial(...) tp_initial_at(TP_PLACE, __VA_ARGS__)

/* Of dense and convolution layers; NULL: zeros. A bias is drawn uniformly in +-1 / sqrt(n_in). */
typedef struct tp_layer_options {
    tp_init init;
    double gain;
    bool no_bias;
} tp_layer_options;

typedef struct tp_dense {
    tp_tensor *w, *b; /* "name.w" [n_in, n_out], "name.b" [n_out] or NULL */
} tp_dense;
TP_FN(tp_dense, tp_dense_new, tp_params *p, const char *name, int64_t n_in, int64_t n_out,
      const tp_layer_options *opt);
#define tp_dense_new(...) tp_dense_new_at(TP_PLACE, __VA_ARGS__)
/* x [..., n_in] -> [..., n_out]. */
TP_FN(tp_tensor *, tp_dense_apply, const tp_dense *l, tp_tensor *x);
#define tp_dense_apply(l, x) tp_dense_apply_at(TP_PLACE, l, TP_OPERAND(x))

typedef struct tp_conv_layer {
    tp_tensor *w, *b; /* "name.w" [oc, c / groups, k...], "name.b" [oc] or NULL */
    tp_window window;
} tp_conv_layer;
/* As many spatial axes as window->kernel has sizes above 0. */
TP_FN(tp_conv_layer, tp_conv_layer_new, tp_params *p, const char *name, int64_t c, int64_t oc,
      const tp_window *window, const tp_layer_options *opt);
#define tp_conv_layer_new(...) tp_conv_layer_new_at(TP_PLACE, __VA_ARGS__)
/* x [n, c, s...] -> [n, oc, s'...], sizes as tp_conv says. */
TP_FN(tp_tensor *, tp_conv_layer_apply, const tp_conv_layer *l, tp_tensor *x);
#define tp_conv_layer_apply(l, x) tp_conv_layer_apply_at(TP_PLACE, l, TP_OPERAND(x))
/* In C, a window of two axes with a kernel of k by k:
 *     tp_conv_layer_new(p, "conv", 1, 8, TP_SQUARE(5, 1, 2), NULL) */
#ifndef __cplusplus
/* clang-format off */
#define TP_SQUARE(k, step, pad)                                                                \
    &(const tp_window){.kernel = {(k), (k)}, .stride = {(step), (step)},                       \
                       .pad_lo = {(pad), (pad)}, .pad_hi = {(pad), (pad)}}
/* clang-format on */
#endif

typedef struct tp_embedding {
    tp_tensor *table; /* "name.table" [n, size], normal with deviation 1 */
    int64_t padding;
} tp_embedding;
/* Rows for n words. `padding`: a word whose row is zeros and stays so; -1: none. */
TP_FN(tp_embedding, tp_embedding_new, tp_params *p, const char *name, int64_t n, int64_t size,
      int64_t padding);
#define tp_embedding_new(...) tp_embedding_new_at(TP_PLACE, __VA_ARGS__)
/* index [...] integer -> [..., size]; one that is not in 0..n-1 is refused as by tp_gather, which counts negative ones
 * from the end. */
TP_FN(tp_tensor *, tp_embedding_apply, const tp_embedding *l, tp_tensor *index);
#define tp_embedding_apply(l, index) tp_embedding_apply_at(TP_PLACE, l, TP_OPERAND(index))

typedef struct tp_norm_layer {
    tp_tensor *scale, *shift; /* "name.scale", "name.shift" [c], ones and zeros */
    tp_tensor *mean, *var;    /* batch norm: "name.mean", "name.var" [c], state */
    double eps, momentum;
} tp_norm_layer;
/* Over the last axis, of size c. eps 0: 1e-5. */
TP_FN(tp_norm_layer, tp_layer_norm_new, tp_params *p, const char *name, int64_t c, double eps);
#define tp_layer_norm_new(...) tp_layer_norm_new_at(TP_PLACE, __VA_ARGS__)
/* Over all axes but axis 1, of size c: with the batch's own mean and variance while the context trains
 * (tp_training), toward which the running ones move by `momentum` (0: 0.1) of the way; else with the running ones. */
TP_FN(tp_norm_layer, tp_batch_norm_new, tp_params *p, const char *name, int64_t c,
      double momentum, double eps);
#define tp_batch_norm_new(...) tp_batch_norm_new_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_norm_layer_apply, const tp_norm_layer *l, tp_tensor *x);
#define tp_norm_layer_apply(l, x) tp_norm_layer_apply_at(TP_PLACE, l, TP_OPERAND(x))

/* tp_dropout while the context trains, else x. */
TP_FN(tp_tensor *, tp_dropout_apply, tp_tensor *x, double p);
#define tp_dropout_apply(x, ...) tp_dropout_apply_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
