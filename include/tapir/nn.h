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
    /* integer [n], each 0 to t, or a run fails (TP_E_VALUE): keys from there on are not seen */
    tp_tensor *lengths;
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
 * mean over n; TP_NONE: [n]. Labels as tp_cross_entropy has them; a time that is not 0 to t or a length that is not
 * 0 to s is refused, too (TP_E_VALUE). What cannot be read so costs infinity, without
 * a gradient. It is a loop (tapir/control.h) over t. */
TP_FN(tp_tensor *, tp_ctc_loss, tp_tensor *log_probs, tp_tensor *targets, tp_tensor *times,
      tp_tensor *lengths, int64_t blank, tp_reduction reduction);
#define tp_ctc_loss(log_probs, targets, times, lengths, ...)                                   \
    tp_ctc_loss_at(TP_PLACE, TP_OPERAND(log_probs), TP_OPERAND(targets), TP_OPERAND(times),    \
                   TP_OPERAND(lengths), __VA_ARGS__)

/* ---- recurrent ------------------------------------------------------------------------- */

/* The weights of a recurrent layer in one direction: g gates of m numbers each, side by side. RNN: 1; GRU: 3,
 * z (update), r (reset), n (new); LSTM: 4, i (in), o (out), f (forget), c (what is new). ONNX has the same
 * order; PyTorch has r, z, n and i, f, c, o. Both have w and r turned. */
typedef struct tp_recurrent {
    tp_tensor *w, *r;    /* of inputs [k, g * m], of the state [m, g * m] */
    tp_tensor *wb, *rb;  /* [g * m], added to either product; or NULL */
    tp_tensor *peephole; /* LSTM: [3 * m], by which gates i, o, f see c; or NULL */
} tp_recurrent;

/* NULL or zeroed: what PyTorch does. */
typedef struct tp_recurrent_options {
    bool batch_first;  /* x [n, t, k], y [n, t, m] */
    bool reverse;      /* the steps from the last to the first */
    bool both;         /* both directions, each with weights of its own: see tp_rnn */
    bool reset_before; /* GRU: n sees (r * h) times its matrix, and not r * (h times it) */
    bool couple;       /* LSTM: f is 1 - i */
    double clip;       /* what goes into an activation is cut to -clip..clip; 0: it is not */
    /* Of each sequence, [n] integer, each 0 to t, or a run fails (TP_E_VALUE); or NULL: all are t. */
    tp_tensor *lengths;
    /* In place of sigmoid for the gates (k 0), tanh for what is new (k 1) and for an LSTM's state
     * (k 2); or NULL. */
    tp_tensor *(*activation)(void *user, int k, tp_tensor *x);
    void *user;
} tp_recurrent_options;

/* One step:  x [n, k], the state h [n, m] (NULL: zeros)  ->  the state after it, [n, m].
 *     rnn:   tanh(x w + wb + h r + rb)
 *     gru:   z h + (1 - z) n,  n = tanh(x w + wb + r (h r + rb))
 *     lstm:  c = f c + i tanh(x w + wb + h r + rb),  h = o tanh(c)
 * with z, r, i, o, f the sigmoids of their parts of x w + wb + h r + rb. *c becomes the c after the step;
 * NULL: it is zeros, and nobody asks. All are of x's type, float. */
TP_FN(tp_tensor *, tp_rnn_cell, tp_tensor *x, tp_tensor *h, const tp_recurrent *w,
      const tp_recurrent_options *opt);
#define tp_rnn_cell(x, h, ...)                                                                 \
    tp_rnn_cell_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(h), __VA_ARGS__)
TP_FN(tp_tensor *, tp_gru_cell, tp_tensor *x, tp_tensor *h, const tp_recurrent *w,
      const tp_recurrent_options *opt);
#define tp_gru_cell(x, h, ...)                                                                 \
    tp_gru_cell_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(h), __VA_ARGS__)
TP_FN(tp_tensor *, tp_lstm_cell, tp_tensor *x, tp_tensor *h, tp_tensor **c,
      const tp_recurrent *w, const tp_recurrent_options *opt);
#define tp_lstm_cell(x, h, ...)                                                                \
    tp_lstm_cell_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(h), __VA_ARGS__)

/* The cell over sequences:  x [t, n, k]  ->  y [t, n, m], the h after each step. *h and *c, [n, m], are the
 * state before the first step (NULL: zeros) and become that after the last; either address may be NULL. Where
 * a sequence has ended y is 0 and the state stays. With `both` w points to two weights, forward and back,
 * y is [t, n, 2 * m] and a state [2, n, m]. A graph has one loop for all t. */
TP_FN(tp_tensor *, tp_rnn, tp_tensor *x, const tp_recurrent *w, const tp_recurrent_options *opt,
      tp_tensor **h);
#define tp_rnn(x, ...) tp_rnn_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_gru, tp_tensor *x, const tp_recurrent *w, const tp_recurrent_options *opt,
      tp_tensor **h);
#define tp_gru(x, ...) tp_gru_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_lstm, tp_tensor *x, const tp_recurrent *w,
      const tp_recurrent_options *opt, tp_tensor **h, tp_tensor **c);
#define tp_lstm(x, ...) tp_lstm_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* ---- windows and images ---------------------------------------------------------------- */

/* x [n, c, s...] float, 1 to 3 spatial axes, here and below.  -> [n, c, sizes...]. Of an axis of size s that
 * is to have o places, place i is the mean (the greatest) of the elements from floor(i s / o) to before
 * ceil((i + 1) s / o), as in PyTorch; equal ones share the gradient. Both are numbers, unless o is 1. */
TP_FN(tp_tensor *, tp_adaptive_avg_pool, tp_tensor *x, int n_sizes, const int64_t *sizes);
#define tp_adaptive_avg_pool(x, ...)                                                           \
    tp_adaptive_avg_pool_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_adaptive_max_pool, tp_tensor *x, int n_sizes, const int64_t *sizes);
#define tp_adaptive_max_pool(x, ...)                                                           \
    tp_adaptive_max_pool_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The mean, the greatest of each plane: [n, c, 1...]. */
TP_FN(tp_tensor *, tp_global_avg_pool, tp_tensor *x);
#define tp_global_avg_pool(x) tp_global_avg_pool_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_global_max_pool, tp_tensor *x);
#define tp_global_max_pool(x) tp_global_max_pool_at(TP_PLACE, TP_OPERAND(x))
/* (sum over each window of |x|^p)^(1/p), p >= 1. */
TP_FN(tp_tensor *, tp_lp_pool, tp_tensor *x, double p, const tp_window *window);
#define tp_lp_pool(x, ...) tp_lp_pool_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Zeros [n, c, sizes...] with each x where `index` says in its plane, as tp_max_pool_index does; of several at
 * one place the last. A run that finds one outside of its plane fails. */
TP_FN(tp_tensor *, tp_max_unpool, tp_tensor *x, tp_tensor *index, int n_sizes,
      const int64_t *sizes);
#define tp_max_unpool(x, index, ...)                                                           \
    tp_max_unpool_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(index), __VA_ARGS__)

/* Windows as columns (im2col):  x  ->  [n, c * k..., o...], the taps k and the places o of all axes as one
 * each; padding is 0. */
TP_FN(tp_tensor *, tp_unfold, tp_tensor *x, const tp_window *window);
#define tp_unfold(x, ...) tp_unfold_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* Back (col2im):  [n, c * k..., o...]  ->  [n, c, sizes...], where what lies at one place is added up. */
TP_FN(tp_tensor *, tp_fold, tp_tensor *x, int n_sizes, const int64_t *sizes,
      const tp_window *window);
#define tp_fold(x, ...) tp_fold_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* The transposed convolution, as a layer: tp_conv_dx of the sizes
 *     (o - 1) * stride + dilation * (k - 1) + 1 - pad_lo - pad_hi + more
 * for x [n, oc, o...], w [oc, c / groups, k...]  ->  [n, c, sizes...]. `more`, one entry per axis, is PyTorch's
 * output padding, behind; NULL: none. */
TP_FN(tp_tensor *, tp_conv_transpose, tp_tensor *x, tp_tensor *w, const tp_window *window,
      const int64_t *more);
#define tp_conv_transpose(x, w, ...)                                                           \
    tp_conv_transpose_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(w), __VA_ARGS__)

/* Blocks of pixels from channels, and back, x of any type. pixel_shuffle: channel (c r + i) r + j is pixel
 * i, j of each block of channel c, as in PyTorch (ONNX: CRD); depth_to_space: channel (i r + j) C + c is, as in
 * TensorFlow (ONNX: DCR).
 *     [n, c * r * r, h, w]  <->  [n, c, h * r, w * r] */
TP_FN(tp_tensor *, tp_pixel_shuffle, tp_tensor *x, int64_t r);
#define tp_pixel_shuffle(x, ...) tp_pixel_shuffle_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_pixel_unshuffle, tp_tensor *x, int64_t r);
#define tp_pixel_unshuffle(x, ...) tp_pixel_unshuffle_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_depth_to_space, tp_tensor *x, int64_t r);
#define tp_depth_to_space(x, ...) tp_depth_to_space_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_space_to_depth, tp_tensor *x, int64_t r);
#define tp_space_to_depth(x, ...) tp_space_to_depth_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

typedef enum tp_interpolation {
    TP_INTERPOLATE_NEAREST,
    TP_INTERPOLATE_LINEAR, /* of 2 neighbours along each axis */
    TP_INTERPOLATE_CUBIC   /* of 4 */
} tp_interpolation;
/* Where result i of `out` lies among the `in` elements of an axis; s is out / in. */
typedef enum tp_coordinates {
    TP_HALF_PIXEL,    /* (i + 0.5) / s - 0.5 */
    TP_ALIGN_CORNERS, /* i * (in - 1) / (out - 1) */
    TP_ASYMMETRIC     /* i / s */
} tp_coordinates;
/* The nearest element; halves go to the one before or after. */
typedef enum tp_rounding {
    TP_ROUND_HALF_DOWN,
    TP_ROUND_HALF_UP,
    TP_ROUND_DOWN,
    TP_ROUND_UP
} tp_rounding;
/* PyTorch's "nearest" is TP_ASYMMETRIC with TP_ROUND_DOWN; its antialias excludes what is outside, and has
 * a cubic of -0.5. */
typedef struct tp_resize_options {
    tp_interpolation mode;
    tp_coordinates where;
    tp_rounding rounding; /* of TP_INTERPOLATE_NEAREST */
    bool antialias;       /* to make smaller: wider sums; sizes are numbers then */
    bool exclude_outside; /* what is outside of x counts nothing; else it is x's edge */
    double cubic;         /* the coefficient of TP_INTERPOLATE_CUBIC; 0: -0.75 */
} tp_resize_options;
/* The last axes of x get these sizes. x is float, unless the mode is TP_INTERPOLATE_NEAREST. opt NULL: the zeroed one. */
TP_FN(tp_tensor *, tp_resize, tp_tensor *x, int n_sizes, const int64_t *sizes,
      const tp_resize_options *opt);
#define tp_resize(x, ...) tp_resize_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* All spatial axes so many times as long. */
TP_FN(tp_tensor *, tp_upsample, tp_tensor *x, int64_t times, tp_interpolation mode);
#define tp_upsample(x, ...) tp_upsample_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

typedef enum tp_padding {
    TP_PAD_ZEROS,
    TP_PAD_EDGE,    /* the nearest element */
    TP_PAD_REFLECT, /* mirrored, as often as need be; tp_pad_with: without the edge itself */
    TP_PAD_WRAP     /* from the other end */
} tp_padding;
/* tp_pad with elements of x in place of a number: lo[i] before and hi[i] after axis i. */
TP_FN(tp_tensor *, tp_pad_with, tp_tensor *x, int rank, const int64_t *lo, const int64_t *hi,
      tp_padding padding);
#define tp_pad_with(x, ...) tp_pad_with_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
/* x at the places of a grid, whose last axis has them as x, y (, z): that of the last axis of x first.
 *     x [n, c, s...],  grid [n, o..., axes] float  ->  [n, c, o...]
 * -1 and 1 are the middles of the first and last element (align_corners) or their outer edges. Outside of x
 * comes what `padding` says, but for TP_PAD_WRAP, which is refused. */
TP_FN(tp_tensor *, tp_grid_sample, tp_tensor *x, tp_tensor *grid, tp_interpolation mode,
      tp_padding padding, bool align_corners);
#define tp_grid_sample(x, grid, ...)                                                           \
    tp_grid_sample_at(TP_PLACE, TP_OPERAND(x), TP_OPERAND(grid), __VA_ARGS__)
/* Such a grid, of 2 or 3 sizes: theta [n, d, d + 1]  ->  [n, sizes..., d], theta times the place (x, y.., 1). */
TP_FN(tp_tensor *, tp_affine_grid, tp_tensor *theta, int n_sizes, const int64_t *sizes,
      bool align_corners);
#define tp_affine_grid(theta, ...) tp_affine_grid_at(TP_PLACE, TP_OPERAND(theta), __VA_ARGS__)

/* ---- layers ------------------------------------------------------------------------------
 *
 * A layer is a struct of parameters, which lie in a tree (params.h) below its name, and a function from tensors to
 * tensors. Both may be used eagerly, in graphs and in captured functions. Parameters are f32. A layer that
 * failed has failed tensors. */

/* A layer as a value, for lists of layers: what it makes of x, for the user's line. One's own is such a struct too; what
 * it leaves open, scopes and blocks, is ended. */
typedef struct tp_layer {
    const char *name; /* "dense" */
    tp_tensor *(*apply)(const char *file, int line, const void *of, tp_tensor *x);
    const void *of;
    /* Where it was put into a list, which is the line of errors in it; NULL: where it is applied. */
    const char *file;
    int line;
} tp_layer;

/* First values. For n_in inputs of each output, n_out outputs of each input (of a convolution times the product
 * of the kernel's sizes), and `gain` (0: 1): */
typedef enum tp_init {
    TP_INIT_FAN_IN,          /* uniform in +-gain / sqrt(n_in) */
    TP_INIT_KAIMING_UNIFORM, /* uniform in +-gain * sqrt(6 / n_in): He et al. (2015), for relu */
    TP_INIT_KAIMING_NORMAL,  /* normal, deviation gain * sqrt(2 / n_in) */
    TP_INIT_XAVIER_UNIFORM, /* uniform in +-gain * sqrt(6 / (n_in + n_out)): Glorot and Bengio (2010) */
    TP_INIT_XAVIER_NORMAL, /* normal, deviation gain * sqrt(2 / (n_in + n_out)) */
    TP_INIT_NORMAL,        /* normal, deviation gain */
    TP_INIT_ZEROS,
    TP_INIT_TRUNCATED_NORMAL, /* of such normal numbers those within 2 * gain */
    /* A matrix of shape[0] rows whose rows or columns, whichever are fewer, are orthogonal and of length gain: Saxe
     * et al. (2014). Two axes at least. */
    TP_INIT_ORTHOGONAL
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
    bool transposed; /* w [c, oc / groups, k...] */
    int64_t more[3]; /* of a transposed one */
} tp_conv_layer;
/* As many spatial axes as window->kernel has sizes above 0. */
TP_FN(tp_conv_layer, tp_conv_layer_new, tp_params *p, const char *name, int64_t c, int64_t oc,
      const tp_window *window, const tp_layer_options *opt);
#define tp_conv_layer_new(...) tp_conv_layer_new_at(TP_PLACE, __VA_ARGS__)
/* The transposed convolution (tp_conv_transpose) from c channels to oc; more [spatial axes], or NULL: none. First values
 * are those of the convolution from oc channels to c, which it transposes, as in PyTorch. */
TP_FN(tp_conv_layer, tp_conv_transpose_new, tp_params *p, const char *name, int64_t c,
      int64_t oc, const tp_window *window, const int64_t *more, const tp_layer_options *opt);
#define tp_conv_transpose_new(...) tp_conv_transpose_new_at(TP_PLACE, __VA_ARGS__)
/* x [n, c, s...] -> [n, oc, s'...], sizes as tp_conv and tp_conv_transpose say. */
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
/* index [...] integer -> [..., size]. Negative ones count from the end, as those of tp_gather do; one that names no word
 * is refused (TP_E_VALUE). */
TP_FN(tp_tensor *, tp_embedding_apply, const tp_embedding *l, tp_tensor *index);
#define tp_embedding_apply(l, index) tp_embedding_apply_at(TP_PLACE, l, TP_OPERAND(index))

typedef enum tp_norm_kind {
    TP_NORM_LAYER,
    TP_NORM_BATCH,
    TP_NORM_GROUP,
    TP_NORM_RMS
} tp_norm_kind;
typedef struct tp_norm_layer {
    tp_tensor *scale, *shift; /* "name.scale", "name.shift" [c], ones and zeros */
    tp_tensor *mean, *var;    /* batch norm: "name.mean", "name.var" [c], state */
    double eps, momentum;
    tp_norm_kind kind;
    int64_t groups; /* group norm */
} tp_norm_layer;
/* Over the last axis, of size c. eps 0: 1e-5. */
TP_FN(tp_norm_layer, tp_layer_norm_new, tp_params *p, const char *name, int64_t c, double eps);
#define tp_layer_norm_new(...) tp_layer_norm_new_at(TP_PLACE, __VA_ARGS__)
/* tp_rms_norm over the last axis, of size c; no shift. eps 0: 1e-5. */
TP_FN(tp_norm_layer, tp_rms_norm_new, tp_params *p, const char *name, int64_t c, double eps);
#define tp_rms_norm_new(...) tp_rms_norm_new_at(TP_PLACE, __VA_ARGS__)
/* tp_group_norm of x [n, c, ...]; the groups divide c (TP_E_SHAPE). eps 0: 1e-5. */
TP_FN(tp_norm_layer, tp_group_norm_new, tp_params *p, const char *name, int64_t c,
      int64_t groups, double eps);
#define tp_group_norm_new(...) tp_group_norm_new_at(TP_PLACE, __VA_ARGS__)
/* Over all axes but axis 1, of size c: with the batch's own mean and variance while the context trains
 * (tp_training), toward which the running ones move by `momentum` (0: 0.1) of the way; else with the running ones. */
TP_FN(tp_norm_layer, tp_batch_norm_new, tp_params *p, const char *name, int64_t c,
      double momentum, double eps);
#define tp_batch_norm_new(...) tp_batch_norm_new_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_norm_layer_apply, const tp_norm_layer *l, tp_tensor *x);
#define tp_norm_layer_apply(l, x) tp_norm_layer_apply_at(TP_PLACE, l, TP_OPERAND(x))

/* NULL: zeros. */
typedef struct tp_recurrent_layer_options {
    int layers;       /* one on top of the other, at most TP_MAX_RECURRENT; 0: 1 */
    bool both;        /* both directions */
    bool batch_first; /* x [n, t, k], y [n, t, m] */
    bool no_bias;
    double dropout; /* tp_dropout_apply of what goes from one layer to the next */
} tp_recurrent_layer_options;
#define TP_MAX_RECURRENT 8
/* Layer i has "name.i.w", "name.i.r", "name.i.wb", "name.i.rb" (struct tp_recurrent), all uniform in +-1 / sqrt(m) as
 * in PyTorch, and with both directions the same again below "name.i.back". */
typedef struct tp_recurrent_layer {
    tp_recurrent w[TP_MAX_RECURRENT][2]; /* forward, back */
    int n_gates;                         /* 4: LSTM, 3: GRU, 1: RNN */
    tp_recurrent_layer_options options;
} tp_recurrent_layer;
/* k inputs, m numbers of state; layers above the first have m or, of both directions, 2 * m inputs. After an error
 * the first weights are failed tensors. */
TP_FN(tp_recurrent_layer, tp_lstm_new, tp_params *p, const char *name, int64_t k, int64_t m,
      const tp_recurrent_layer_options *opt);
#define tp_lstm_new(...) tp_lstm_new_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_recurrent_layer, tp_gru_new, tp_params *p, const char *name, int64_t k, int64_t m,
      const tp_recurrent_layer_options *opt);
#define tp_gru_new(...) tp_gru_new_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_recurrent_layer, tp_rnn_new, tp_params *p, const char *name, int64_t k, int64_t m,
      const tp_recurrent_layer_options *opt);
#define tp_rnn_new(...) tp_rnn_new_at(TP_PLACE, __VA_ARGS__)
/* x [t, n, k] -> [t, n, m], or [t, n, 2 * m] of both directions, from the last layer. lengths [n], *h and *c as for
 * tp_lstm, but the states of all layers: [layers, n, m], or [layers * 2, n, m], of each layer forward and back. Only an
 * LSTM has *c. */
TP_FN(tp_tensor *, tp_recurrent_layer_apply, const tp_recurrent_layer *l, tp_tensor *x,
      tp_tensor *lengths, tp_tensor **h, tp_tensor **c);
#define tp_recurrent_layer_apply(l, x, lengths, ...)                                           \
    tp_recurrent_layer_apply_at(TP_PLACE, l, TP_OPERAND(x), TP_OPERAND(lengths), __VA_ARGS__)

typedef struct tp_attention_layer {
    tp_dense q, k, v, out; /* "name.q.w" and so on */
    int64_t heads, kv_heads;
} tp_attention_layer;
/* So many heads of size / heads numbers; kv_heads: of keys and values (0: heads), each for heads / kv_heads of them.
 * What does not divide so is TP_E_SHAPE. q and out are [size, size], k and v [size, kv_heads * size / heads]. */
TP_FN(tp_attention_layer, tp_attention_layer_new, tp_params *p, const char *name, int64_t size,
      int64_t heads, int64_t kv_heads, const tp_layer_options *opt);
#define tp_attention_layer_new(...) tp_attention_layer_new_at(TP_PLACE, __VA_ARGS__)
/* tp_attention of queries from x and of keys and values from the memory (NULL: x), with its options and `present`:
 *     x [n, s, size],  memory [n, t, size]  ->  [n, s, size] */
TP_FN(tp_tensor *, tp_attention_layer_apply, const tp_attention_layer *l, tp_tensor *x,
      tp_tensor *memory, const tp_attention_options *options, tp_tensor **present);
#define tp_attention_layer_apply(l, x, memory, ...)                                            \
    tp_attention_layer_apply_at(TP_PLACE, l, TP_OPERAND(x), TP_OPERAND(memory), __VA_ARGS__)

/* tp_dropout while the context trains, else x. */
TP_FN(tp_tensor *, tp_dropout_apply, tp_tensor *x, double p);
#define tp_dropout_apply(x, ...) tp_dropout_apply_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

typedef enum tp_pool_kind {
    TP_POOL_MAX, /* tp_max_pool and so on */
    TP_POOL_AVG,
    TP_POOL_ADAPTIVE_MAX,
    TP_POOL_ADAPTIVE_AVG,
    TP_POOL_GLOBAL_MAX,
    TP_POOL_GLOBAL_AVG
} tp_pool_kind;
/* Has no parameters:  const tp_pool_layer halve = {TP_POOL_MAX, {.kernel = {2, 2}}}; */
typedef struct tp_pool_layer {
    tp_pool_kind kind;
    tp_window window; /* of TP_POOL_MAX and TP_POOL_AVG */
    int64_t sizes[3]; /* of adaptive ones */
} tp_pool_layer;
/* x [n, c, s...] -> [n, c, s'...] */
TP_FN(tp_tensor *, tp_pool_layer_apply, const tp_pool_layer *l, tp_tensor *x);
#define tp_pool_layer_apply(l, x) tp_pool_layer_apply_at(TP_PLACE, l, TP_OPERAND(x))

/* A function of one tensor: of the library by its name with _at, tp_relu_at, or of one's own. */
typedef tp_tensor *(*tp_layer_function)(const char *file, int line, tp_tensor *x);

/* NULL: zeros. */
typedef struct tp_transformer_options {
    int64_t kv_heads; /* as of tp_attention_layer_new */
    int64_t hidden;   /* 0: 4 * size */
    bool causal;
    bool post_norm; /* the norms come last: Vaswani et al. (2017); else first, as in GPT-2 */
    bool rms;       /* tp_rms_norm_new in place of tp_layer_norm_new */
    double eps;     /* of the norms */
    double dropout;
    tp_layer_function activation; /* NULL: tp_gelu_at */
    tp_init init;                 /* of all weights, as in tp_layer_options */
    double gain;
    bool no_bias;
} tp_transformer_options;
typedef struct tp_transformer_block {
    tp_attention_layer attention; /* "name.attn" */
    tp_norm_layer norm[2];        /* "name.norm1", "name.norm2" */
    tp_dense up, down;            /* "name.up" [size, hidden], "name.down" [hidden, size] */
    tp_transformer_options options;
} tp_transformer_block;
TP_FN(tp_transformer_block, tp_transformer_block_new, tp_params *p, const char *name,
      int64_t size, int64_t heads, const tp_transformer_options *opt);
#define tp_transformer_block_new(...) tp_transformer_block_new_at(TP_PLACE, __VA_ARGS__)
/* x [n, s, size] -> [n, s, size]:
 *     norms first:  h = x + drop(attention(norm1(x)));  h + drop(down(activation(up(norm2(h)))))
 *     norms last:   h = norm1(x + drop(attention(x)));  norm2(h + drop(down(activation(up(h)))))
 * The attention is of the options (NULL: zeros) and causal if either says so. `cache`, unless NULL, is of two tensors: keys
 * and values of what came before (both NULL at first), which become those with x. */
TP_FN(tp_tensor *, tp_transformer_block_apply, const tp_transformer_block *l, tp_tensor *x,
      const tp_attention_options *options, tp_tensor **cache);
#define tp_transformer_block_apply(l, x, ...)                                                  \
    tp_transformer_block_apply_at(TP_PLACE, l, TP_OPERAND(x), __VA_ARGS__)

/* Layers in turn:
 *
 *     static const tp_layer_function relu = tp_relu_at;
 *     const tp_layer layers[] = {tp_layer_of_dense(&a), tp_layer_of_function(&relu), tp_layer_of_dense(&b)};
 *     tp_sequential_apply(&(tp_sequential){3, layers}, x) */
typedef struct tp_sequential {
    int n;
    const tp_layer *layers;
} tp_sequential;
TP_FN(tp_tensor *, tp_sequential_apply, const tp_sequential *l, tp_tensor *x);
#define tp_sequential_apply(l, x) tp_sequential_apply_at(TP_PLACE, l, TP_OPERAND(x))
/* tp_dropout_apply as a layer. */
typedef struct tp_dropout_layer {
    double p;
} tp_dropout_layer;
/* Each is its _apply of x, without options or states. The layer has to live as long. */
TP_FN(tp_layer, tp_layer_of_dense, const tp_dense *l);
#define tp_layer_of_dense(...) tp_layer_of_dense_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_layer, tp_layer_of_conv, const tp_conv_layer *l);
#define tp_layer_of_conv(...) tp_layer_of_conv_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_layer, tp_layer_of_embedding, const tp_embedding *l);
#define tp_layer_of_embedding(...) tp_layer_of_embedding_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_layer, tp_layer_of_norm, const tp_norm_layer *l);
#define tp_layer_of_norm(...) tp_layer_of_norm_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_layer, tp_layer_of_recurrent, const tp_recurrent_layer *l);
#define tp_layer_of_recurrent(...) tp_layer_of_recurrent_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_layer, tp_layer_of_attention, const tp_attention_layer *l);
#define tp_layer_of_attention(...) tp_layer_of_attention_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_layer, tp_layer_of_transformer, const tp_transformer_block *l);
#define tp_layer_of_transformer(...) tp_layer_of_transformer_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_layer, tp_layer_of_pool, const tp_pool_layer *l);
#define tp_layer_of_pool(...) tp_layer_of_pool_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_layer, tp_layer_of_dropout, const tp_dropout_layer *l);
#define tp_layer_of_dropout(...) tp_layer_of_dropout_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_layer, tp_layer_of_sequential, const tp_sequential *l);
#define tp_layer_of_sequential(...) tp_layer_of_sequential_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_layer, tp_layer_of_function, const tp_layer_function *f);
#define tp_layer_of_function(...) tp_layer_of_function_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
