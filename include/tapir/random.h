/* tapir: random numbers. What is said at the head of ops.h holds here too.
 *
 * They come from Philox 4x32-10 at the context's seed and position, and each call moves the position on: by how much
 * is decided by shape and type alone. A run of a graph that needs any of its draws makes them all, in the order of the
 * calls, so it draws what the same calls draw eagerly. C does not say which argument of a call is evaluated first,
 * so two draws belong in two statements. */
#ifndef TAPIR_RANDOM_H
#define TAPIR_RANDOM_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- seed and position ------------------------------------------------------------------------- */

/* Restarts from `seed`, position 0. */
TP_API void tp_seed(tp_ctx *tp, uint64_t seed);
/* Where the random ops are, and from where they go on: what was drawn before is not drawn again. Either pointer may be
 * NULL. */
TP_API void tp_random_position(tp_ctx *tp, uint64_t *seed, uint64_t *position);
TP_API void tp_set_random_position(tp_ctx *tp, uint64_t seed, uint64_t position);

/* ---- floats -------------------------------------------------------------------------------------- */

TP_FN(tp_tensor *, tp_uniform, tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape,
      double lo, double hi); /* in [lo, hi) */
#define tp_uniform(...) tp_uniform_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_tensor *, tp_normal, tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape,
      double mean, double stddev);
#define tp_normal(...) tp_normal_at(TP_PLACE, __VA_ARGS__)
/* Of x's shape and type; symbolic when x is, and then drawn anew at each run. */
TP_FN(tp_tensor *, tp_uniform_like, tp_tensor *x, double lo, double hi);
#define tp_uniform_like(x, ...) tp_uniform_like_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_normal_like, tp_tensor *x, double mean, double stddev);
#define tp_normal_like(x, ...) tp_normal_like_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
