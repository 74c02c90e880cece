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
/* 1 at the first greatest element along the axis, else 0; without a gradient. */
TP_FN(tp_tensor *, tp_hardmax, tp_tensor *x, int axis);
#define tp_hardmax(x, ...) tp_hardmax_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* (x - mean) / sqrt(var + eps) * scale + shift over the last axis; scale and shift [c] or NULL. */
TP_FN(tp_tensor *, tp_layer_norm, tp_tensor *x, tp_tensor *scale, tp_tensor *shift, double eps);
#define tp_layer_norm(x, scale, shift, ...)                                                    \
    tp_layer_norm_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(scale), TP_OPERAND(shift), __VA_ARGS__)
/* x / sqrt(mean(x^2) + eps) * scale over the last axis; scale [c] or NULL. */
TP_FN(tp_tensor *, tp_rms_norm, tp_tensor *x, tp_tensor *scale, double eps);
#define tp_rms_norm(x, scale, ...)                                                             \
    tp_rms_norm_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(scale), __VA_ARGS__)
/* As tp_layer_norm, over each of so many equal groups of channels with their places: x [n, c, ...], scale
 * and shift [c] or NULL. The groups divide c, which is a number. */
TP_FN(tp_tensor *, tp_group_norm, tp_tensor *x, int64_t groups, tp_tensor *scale,
      tp_tensor *shift, double eps);
#define tp_group_norm(x, groups, scale, shift, ...)                                            \
    tp_group_norm_at(TP_PLACE, TP_OPERAND(x), groups, TP_OPERAND(scale), TP_OPERAND(shift),    \
                     __VA_ARGS__)
/* The same over the places of each channel: x [n, c, ...] of rank 3 at least. */
TP_FN(tp_tensor *, tp_instance_norm, tp_tensor *x, tp_tensor *scale, tp_tensor *shift,
      double eps);
#define tp_instance_norm(x, scale, shift, ...)                                                 \
    tp_instance_norm_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(scale), TP_OPERAND(shift),         \
                        __VA_ARGS__)
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
/* x / (bias + alpha / size * s)^beta, where s sums the squares of `size` neighbouring channels, (size - 1) / 2
 * of them before its own (rounded down): x [n, c, ...]. */
TP_FN(tp_tensor *, tp_local_response_norm, tp_tensor *x, int64_t size, double alpha,
      double beta, double bias);
#define tp_local_response_norm(x, ...)                                                         \
    tp_local_response_norm_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* x / max(norm, eps), with the norm (sum of |x|^p)^(1/p) along an axis; p > 0, INFINITY: the greatest |x|. The
 * norm has no gradient where it is 0. With eps 0 what is all 0 stays so. */
TP_FN(tp_tensor *, tp_normalize, tp_tensor *x, double p, int axis, double eps);
#define tp_normalize(x, ...) tp_normalize_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Zero with probability p, else x / (1 - p). 0 <= p < 1. */
TP_FN(tp_tensor *, tp_dropout, tp_tensor *x, double p);
#define tp_dropout(x, ...) tp_dropout_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* A zeroed struct, or NULL: every query sees every key. Query i is at place p = i of the keys, behind those of
 * the past; with lengths at p = lengths[n] - s + i. */
typedef struct tp_attention_options {
    double scale;   /* of the products; 0: 1 / sqrt(d) */
    double softcap; /* scores become softcap * tanh(score / softcap); 0: they stay */
    bool causal;    /* no keys behind p are seen */
    int64_t before; /* of the keys in front of p and p itself so many are seen; 0: all */
    int64_t after;  /* of p itself and the keys behind it so many are seen; 0: all */
    /* Broadcast to [n, h, s, t]: bool, true for what is seen, or float, to be added. */
    tp_tensor *mask;
    tp_tensor *lengths; /* integer [n], at most t: keys from there on are not seen */
    /* [n, hk, t', d] and [n, hk, t', e], which are before k and v. */
    tp_tensor *past_key, *past_value;
} tp_attention_options;
/* Scaled dot product attention: softmax(scale * q k^T, capped and masked) v.
 *     q [n, h, s, d],  k [n, hk, t, d],  v [n, hk, t, e]  ->  [n, h, s, e]
 * A head of k and v serves h / hk heads of q. A query that sees nothing gives 0. `present`, unless NULL,
 * is set to keys and values with the past before them. */
TP_FN(tp_tensor *, tp_attention, tp_tensor *q, tp_tensor *k, tp_tensor *v,
      const tp_attention_options *options, tp_tensor **present);
#define tp_attention(q, k, v, ...)                                                             \
    tp_attention_at(TP_PLACE, TP_OPERAND(q), TP_OPERAND(k), TP_OPERAND(v), __VA_ARGS__)
/* Pairs (a, b) of elements, turned by an angle: (a cos - b sin, a sin + b cos).
 *     x [..., d],  cos and sin [..., r / 2], broadcast, r <= d
 * a is element i and b element i + r / 2; neighbours: a is element 2i and b 2i + 1. From r on x stays. */
TP_FN(tp_tensor *, tp_rotary, tp_tensor *x, tp_tensor *cos, tp_tensor *sin, bool neighbours);
#define tp_rotary(x, cos, sin, ...)                                                            \
    tp_rotary_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(cos), TP_OPERAND(sin), __VA_ARGS__)

/* ---- losses ---------------------------------------------------------------------------- */

/* What becomes of the losses of elements, or lines. */
typedef enum tp_reduction { TP_MEAN, TP_SUM, TP_NONE } tp_reduction;

/* ---- of classes */

/* Mean over the batch of -log softmax at the label:  logits [n, c], labels [n] integer -> []. A label
 * that is not in 0..c-1 is refused; one below 0 is told less c. */
TP_FN(tp_tensor *, tp_cross_entropy, tp_tensor *logits, tp_tensor *labels);
#define tp_cross_entropy(logits, labels)                                                       \
    tp_cross_entropy_at(TP_PLACE, TP_OPERAND(logits), TP_OPERAND(labels))
/* A zeroed struct, or NULL: as tp_cross_entropy. */
typedef struct tp_loss_options {
    tp_reduction reduction; /* TP_MEAN of labels: by their weights */
    int axis;               /* of the classes; 0: the second one, or the only one */
    tp_tensor *weights;     /* [c], of the classes; NULL: all 1 */
    bool ignores;           /* the label `ignored`, any number, has weight 0 */
    int64_t ignored;
    double smoothing; /* in [0, 1]: so much of a label is spread evenly over all classes */
} tp_loss_options;
/* logits [n, c, d...] and labels [n, d...] integer, or their probabilities [n, c, d...] float
 *     -> [], or [n, d...] of TP_NONE:  -sum over c of weights * probability * log softmax */
TP_FN(tp_tensor *, tp_cross_entropy_with, tp_tensor *logits, tp_tensor *labels,
      const tp_loss_options *options);
#define tp_cross_entropy_with(logits, labels, ...)                                             \
    tp_cross_entropy_with_at(TP_PLACE, TP_OPERAND(logits), TP_OPERAND(labels), __VA_ARGS__)
/* The same of logarithms of probabilities, such as tp_log_softmax. */
TP_FN(tp_tensor *, tp_nll, tp_tensor *log_probs, tp_tensor *labels,
      const tp_loss_options *options);
#define tp_nll(log_probs, labels, ...)                                                         \
    tp_nll_at(TP_PLACE, TP_OPERAND(log_probs), TP_OPERAND(labels), __VA_ARGS__)

/* ---- of elements: two operands of one shape -> [], or that shape of TP_NONE */

TP_FN(tp_tensor *, tp_mse, tp_tensor *y, tp_tensor *target); /* mean((y - target)^2) -> [] */
#define tp_mse(y, target) tp_mse_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(target))
TP_FN(tp_tensor *, tp_l1, tp_tensor *y, tp_tensor *target,
      tp_reduction reduction); /* |y - target| */
#define tp_l1(y, target, ...) tp_l1_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(target), __VA_ARGS__)
/* (y - target)^2 / 2 where |y - target| <= delta, else delta * (|y - target| - delta / 2). Smooth L1 is that
 * divided by delta. */
TP_FN(tp_tensor *, tp_huber, tp_tensor *y, tp_tensor *target, double delta,
      tp_reduction reduction);
#define tp_huber(y, target, ...)                                                               \
    tp_huber_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(target), __VA_ARGS__)
/* max(1 - y * target, 0), targets -1 and 1. */
TP_FN(tp_tensor *, tp_hinge, tp_tensor *y, tp_tensor *target, tp_reduction reduction);
#define tp_hinge(y, target, ...)                                                               \
    tp_hinge_at(TP_PLACE, TP_OPERAND(y), TP_OPERAND(target), __VA_ARGS__)
/* -(target * log(p) + (1 - target) * log(1 - p)), p in [0, 1]. A logarithm below -100 counts as -100, and has
 * no gradient. */
TP_FN(tp_tensor *, tp_bce, tp_tensor *p, tp_tensor *target, tp_reduction reduction);
#define tp_bce(p, target, ...)                                                                 \
    tp_bce_at(TP_PLACE, TP_OPERAND(p), TP_OPERAND(target), __VA_ARGS__)
/* tp_bce of sigmoid(x), for x of any size: log(1 + exp(x)) - target * x. weight multiplies it, and pos_weight
 * its part with target; both broadcast, or NULL. */
TP_FN(tp_tensor *, tp_bce_with_logits, tp_tensor *x, tp_tensor *target, tp_tensor *weight,
      tp_tensor *pos_weight, tp_reduction reduction);
#define tp_bce_with_logits(x, target, weight, pos_weight, ...)                                 \
    tp_bce_with_logits_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(target), TP_OPERAND(weight),     \
                          TP_OPERAND(pos_weight), __VA_ARGS__)
/* p * (log(p) - log_q), without a share of p = 0. TP_MEAN: of all elements, not of the batch. */
TP_FN(tp_tensor *, tp_kl_div, tp_tensor *log_q, tp_tensor *p, tp_reduction reduction);
#define tp_kl_div(log_q, p, ...)                                                               \
    tp_kl_div_at(TP_PLACE, TP_OPERAND(log_q), TP_OPERAND(p), __VA_ARGS__)
/* exp(x) - target * x, x the logarithm of the expected count. */
TP_FN(tp_tensor *, tp_poisson_nll, tp_tensor *x, tp_tensor *target, tp_reduction reduction);
#define tp_poisson_nll(x, target, ...)                                                         \
    tp_poisson_nll_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(target), __VA_ARGS__)

/* ---- of lines [..., d] -> [], or [...] of TP_NONE */

/* sum(a * b) along an axis, which goes, over the product of the norms, each at least eps; without a reduction. */
TP_FN(tp_tensor *, tp_cosine_similarity, tp_tensor *a, tp_tensor *b, int axis, double eps);
#define tp_cosine_similarity(a, b, ...)                                                        \
    tp_cosine_similarity_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b), __VA_ARGS__)
/* With their cosine: 1 - cos where target [...] is above 0, else max(cos - margin, 0). */
TP_FN(tp_tensor *, tp_cosine_loss, tp_tensor *a, tp_tensor *b, tp_tensor *target, double margin,
      tp_reduction reduction);
#define tp_cosine_loss(a, b, target, ...)                                                      \
    tp_cosine_loss_at(TP_PLACE, TP_OPERAND(a), TP_OPERAND(b), TP_OPERAND(target), __VA_ARGS__)
/* max(|anchor - positive| - |anchor - negative| + margin, 0), with the distances of lines, which have no
 * gradient where they are 0. */
TP_FN(tp_tensor *, tp_triplet, tp_tensor *anchor, tp_tensor *positive, tp_tensor *negative,
      double margin, tp_reduction reduction);
#define tp_triplet(anchor, positive, negative, ...)                                            \
    tp_triplet_at(TP_PLACE, TP_OPERAND(anchor), TP_OPERAND(positive), TP_OPERAND(negative),    \
                  __VA_ARGS__)

/* ---- of sequences */

/* Connectionist temporal classification (Graves et al., 2006): -log of the probability that log_probs
 * [t, n, c], of which times[n] are there, are read as the first lengths[n] labels of targets [n, s], with
 * any repeats and blanks (class `blank`) between. TP_MEAN: each divided by its length (at least 1), then the
 * mean over n; TP_NONE: [n]. Labels as tp_cross_entropy has them. What cannot be read so costs infinity, without
 * a gradient. It is a loop (tapir/control.h) over t. */
TP_FN(tp_tensor *, tp_ctc_loss, tp_tensor *log_probs, tp_tensor *targets, tp_tensor *times,
      tp_tensor *lengths, int64_t blank, tp_reduction reduction);
#define tp_ctc_loss(log_probs, targets, times, lengths, ...)                                   \
    tp_ctc_loss_at(TP_PLACE, TP_OPERAND(log_probs), TP_OPERAND(targets), TP_OPERAND(times),    \
                   TP_OPERAND(lengths), __VA_ARGS__)

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
