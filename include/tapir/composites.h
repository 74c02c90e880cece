/* tapir: functions over the ops, which have gradients and run in every mode as those do. What is said
 * at the head of ops.h holds here too. */
#ifndef TAPIR_COMPOSITES_H
#define TAPIR_COMPOSITES_H

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise ------------------------------------------------------------------------ */

TP_FN(tp_tensor *, tp_square, tp_tensor *x);
#define tp_square(x) tp_square_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_clip, tp_tensor *x, double lo, double hi); /* min(max(x, lo), hi) */
#define tp_clip(x, ...) tp_clip_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* ---- activations; x is float --------------------------------------------------------------- */

TP_FN(tp_tensor *, tp_gelu, tp_tensor *x); /* x / 2 * (1 + erf(x / sqrt(2))) */
#define tp_gelu(x) tp_gelu_at(TP_PLACE, TP_OPERAND(x))
TP_FN(tp_tensor *, tp_silu, tp_tensor *x); /* x * sigmoid(x) */
#define tp_silu(x) tp_silu_at(TP_PLACE, TP_OPERAND(x))

#ifdef __cplusplus
}
#endif
#endif
