/* tapir: random numbers. What is said at the head of ops.h holds here too.
 *
 * They come from Philox 4x32-10 at the context's seed, the stream that is current, and its position, and each call moves
 * that position on: by how much is decided by shape and type alone. A run of a graph that needs any of its draws makes
 * them all, in the order of the calls, so it draws what the same calls draw eagerly. C does not say which argument of a
 * call is evaluated first, so two draws belong in two statements. */
#ifndef TAPIR_RANDOM_H
#define TAPIR_RANDOM_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- seed, streams and positions ---------------------------------------------------------------- */

/* Restarts from `seed`, position 0 in every stream. */
TP_API void tp_seed(tp_ctx *tp, uint64_t seed);
/* Says from which stream the draws of the calls that follow come; returns which one it was, 0 at first. Each has its own
 * numbers and its own position, so that what draws from one does not change what others give:
 *
 *     const uint64_t was = tp_random_stream(tp, SHUFFLING);
 *     tp_tensor *order = tp_permutation(tp, n);
 *     tp_random_stream(tp, was);
 *
 * Any number is a stream but 2^64 - 1 (TP_E_VALUE; the current one stays). A graph's node, and a model's, keeps the stream
 * that was current when it was made. Captured functions notice, as of tp_training. A context keeps 16 bytes for each
 * stream that it has had. */
TP_FN(uint64_t, tp_random_stream, tp_ctx *tp, uint64_t stream);
#define tp_random_stream(...) tp_random_stream_at(TP_PLACE, __VA_ARGS__)
/* Seed of all streams, and where the current one is, and from where it goes on: what was drawn before is not drawn
 * again. Either pointer may be NULL. */
TP_API void tp_random_position(tp_ctx *tp, uint64_t *seed, uint64_t *position);
TP_API void tp_set_random_position(tp_ctx *tp, uint64_t seed, uint64_t position);
/* A seed for number i of what draws beside each other in contexts of their own: workers, replicas of a model. A function
 * of its arguments alone, by words of Philox that no draw reads; two of n numbers get one seed with probability
 * n^2 2^-65. */
TP_API uint64_t tp_split_seed(uint64_t seed, uint64_t i);

/* ---- by numbers ----------------------------------------------------------------------------------
 *
 * What has no operand is drawn at once, also where a graph is built, but not in an open block. The form whose
 * name ends in _like gives x's shape and type; it is symbolic when x is, and then drawn anew at each run. Floats f32 are
 * made of 24 random bits, f64 of 53 (tp_normal: of 63 and 106 for two). Constants to gradients: a mean or a rate that has
 * one is a factor or a term beside a draw. Numbers that describe no distribution are TP_E_VALUE. */

TP_FN(tp_tensor *, tp_uniform, tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape,
      double lo, double hi); /* in [lo, hi) */
#define tp_uniform(...) tp_uniform_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_uniform_like, tp_tensor *x, double lo, double hi);
#define tp_uniform_like(x, ...) tp_uniform_like_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_normal, tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape,
      double mean, double stddev);
#define tp_normal(...) tp_normal_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_normal_like, tp_tensor *x, double mean, double stddev);
#define tp_normal_like(x, ...) tp_normal_like_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* Of such normal numbers those in [lo, hi], either of which may be infinite; by the inverse of the distribution, so
 * [lo, hi] has to hold a thousandth of the normal one at least (TP_E_VALUE). */
TP_FN(tp_tensor *, tp_truncated_normal, tp_ctx *tp, tp_dtype dtype, int rank,
      const int64_t *shape, double mean, double stddev, double lo, double hi);
#define tp_truncated_normal(...) tp_truncated_normal_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_truncated_normal_like, tp_tensor *x, double mean, double stddev,
      double lo, double hi);
#define tp_truncated_normal_like(x, ...)                                                       \
    tp_truncated_normal_like_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* Of mean 1 / rate: the time to the next of events that come `rate` a unit of time. Above 0; times the rate
 * at most 16.7, in f64 36.8. The rate is in [2^-100, 2^100], of f64 in [2^-960, 2^960]. */
TP_FN(tp_tensor *, tp_exponential, tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape,
      double rate);
#define tp_exponential(...) tp_exponential_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_exponential_like, tp_tensor *x, double rate);
#define tp_exponential_like(x, ...) tp_exponential_like_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* Whole numbers in [lo, hi), of an integer type that has them all. Each has probability 1 / (hi - lo) but for 2^-32 of
 * that at most; 2^-64 where there are more than 2^32 of them. */
TP_FN(tp_tensor *, tp_randint, tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape,
      int64_t lo, int64_t hi);
#define tp_randint(...) tp_randint_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_randint_like, tp_tensor *x, int64_t lo, int64_t hi);
#define tp_randint_like(x, ...) tp_randint_like_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* 0 to n - 1 in random order, i64 [n]: rows in that order are tp_gather(x, order, 0). Each order has probability 1 / n!
 * but for n^2 2^-65 in all, which is how likely two of n draws of 64 bits are equal. */
TP_FN(tp_tensor *, tp_permutation, tp_ctx *tp, int64_t n);
#define tp_permutation(...) tp_permutation_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_permutation_like, tp_tensor *x, int axis); /* n is x's size there */
#define tp_permutation_like(x, ...) tp_permutation_like_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* ---- by tensors ---------------------------------------------------------------------------------------
 *
 * Floats; what comes is symbolic when they are. */

/* 1 with probability p, else 0, of p's shape and type. The probability is p rounded up to 24 bits behind the point (f64:
 * 53), so 0 and 1 are exact. NaN where p is not in [0, 1]. A constant to gradients. */
TP_FN(tp_tensor *, tp_bernoulli, tp_tensor *p);
#define tp_bernoulli(p) tp_bernoulli_at(TP_PLACE, TP_OPERAND(p))

/* Of density x^(a - 1) exp(-x) / gamma(a), a the concentration, of its shape and type: of rate b it is tp_gamma(a) / b,
 * and x / (x + y) of two such numbers is a beta number. 0 where it is less than the type has, which is common below
 * 0.01; NaN where a is not in (0, infinity). The gradient is that of the inverse of the distribution at the same
 * probability, within 1e-8 unless that or its rest is below 1e-6; there is no second gradient (TP_E_STATE). */
TP_FN(tp_tensor *, tp_gamma, tp_tensor *concentration);
#define tp_gamma(concentration) tp_gamma_at(TP_PLACE, TP_OPERAND(concentration))

/* n classes per line of logits, each drawn with the probabilities softmax(logits) from all of them, so one may come
 * more than once; computed in f64, each within 2^-53 times the number of classes. A logit of -infinity is never drawn.
 *
 *     logits [..., classes]  ->  [..., n] i64
 *
 * A run fails (TP_E_VALUE) where a line has a NaN or an infinite logit, or -infinity alone. */
TP_FN(tp_tensor *, tp_categorical, tp_tensor *logits, int64_t n);
#define tp_categorical(logits, ...) tp_categorical_at(TP_PLACE, TP_OPERAND(logits), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
