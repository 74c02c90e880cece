/* tapir: optimisers and what is around them, written with the public ops alone.
 *
 * A step is ops like others: on concrete tensors it is done now, in a graph it adds nodes, in a captured function it
 * is recorded. The bits are the same. When a step fails, no parameter and no state has changed. */
#ifndef TAPIR_TRAIN_H
#define TAPIR_TRAIN_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimisers ---------------------------------------------------------------------------- */

/* Holds n parameters (of tp_param) and its own state, until tp_optimizer_free or tp_close, whatever scopes are open.
 * The state is variables: a saved graph saves it too. Those of a parameter "w" are "w.m" and the like, its own
 * ones are "adam.rate" and "adam.count", two f64 numbers. Of the options below a zero stands for what is said
 * with it; NULL: all are zero. Makers give NULL on error. In what follows g is the gradient of w. */
typedef struct tp_optimizer tp_optimizer;

/* Stochastic gradient descent:  v = momentum * v + g;  w = w - rate * v. */
typedef struct tp_sgd_options {
    double momentum; /* in [0, 1) */
    double decay;    /* decay * w is added to g */
    bool nesterov;   /* w = w - rate * (g + momentum * v), with the new v */
} tp_sgd_options;
TP_FN(tp_optimizer *, tp_sgd_new, tp_ctx *tp, double rate, const tp_sgd_options *opt, int n,
      tp_tensor *const *params);
#define tp_sgd_new(...) tp_sgd_new_at(TP_PLACE, __VA_ARGS__)

/* Adam (Kingma and Ba, 2015), and AdamW (Loshchilov and Hutter, 2019) where decay > 0: at step t = 1, 2, ...
 *     m = beta1 * m + (1 - beta1) * g;      m' = m / (1 - beta1^t);
 *     v = beta2 * v + (1 - beta2) * g * g;  v' = v / (1 - beta2^t);
 *     w = (1 - rate * decay) * w - rate * m' / (sqrt(v') + eps) */
typedef struct tp_adam_options {
    double beta1; /* 0: 0.9; negative: 0 */
    double beta2; /* 0: 0.999; negative: 0 */
    double eps;   /* 0: 1e-8 */
    double decay;
    bool amsgrad; /* v' is the greatest so far (Reddi et al., 2018) */
} tp_adam_options;
TP_FN(tp_optimizer *, tp_adam_new, tp_ctx *tp, double rate, const tp_adam_options *opt, int n,
      tp_tensor *const *params);
#define tp_adam_new(...) tp_adam_new_at(TP_PLACE, __VA_ARGS__)

/* RMSProp (Hinton, 2012):  v = alpha * v + (1 - alpha) * g * g;  step = g / (sqrt(v) + eps);
 * w = w - rate * step, by way of a momentum as in SGD. */
typedef struct tp_rmsprop_options {
    double alpha; /* 0: 0.99 */
    double eps;   /* 0: 1e-8 */
    double momentum;
    double decay;  /* decay * w is added to g */
    bool centered; /* v less the square of a running mean of g */
} tp_rmsprop_options;
TP_FN(tp_optimizer *, tp_rmsprop_new, tp_ctx *tp, double rate, const tp_rmsprop_options *opt,
      int n, tp_tensor *const *params);
#define tp_rmsprop_new(...) tp_rmsprop_new_at(TP_PLACE, __VA_ARGS__)

/* Adagrad (Duchi et al., 2011):  v = v + g * g;  w = w - rate * g / (sqrt(v) + eps). */
typedef struct tp_adagrad_options {
    double eps;   /* 0: 1e-10 */
    double decay; /* decay * w is added to g */
} tp_adagrad_options;
TP_FN(tp_optimizer *, tp_adagrad_new, tp_ctx *tp, double rate, const tp_adagrad_options *opt,
      int n, tp_tensor *const *params);
#define tp_adagrad_new(...) tp_adagrad_new_at(TP_PLACE, __VA_ARGS__)

/* Lion (Chen et al., 2023):  w = (1 - rate * decay) * w - rate * sign(beta1 * m + (1 - beta1) * g);
 * m = beta2 * m + (1 - beta2) * g. */
typedef struct tp_lion_options {
    double beta1; /* 0: 0.9; negative: 0 */
    double beta2; /* 0: 0.99; negative: 0 */
    double decay;
} tp_lion_options;
TP_FN(tp_optimizer *, tp_lion_new, tp_ctx *tp, double rate, const tp_lion_options *opt, int n,
      tp_tensor *const *params);
#define tp_lion_new(...) tp_lion_new_at(TP_PLACE, __VA_ARGS__)

/* Adafactor (Shazeer and Stern, 2018), which keeps r + c numbers of a matrix [..., r, c]; as PyTorch has it. With
 * rms(x), the root of the mean of all x * x, and part = t^-power:
 *     a matrix:  row = row + part * (mean of g * g over c - row);  col = col + part * (mean of g * g over r - col);
 *                v = row * col / max(mean of row over r, eps1)
 *     else:      v = v + part * (g * g - v)
 *     u = g / sqrt(max(v, eps1 * eps1));  u = u / max(1, rms(u) / clip);
 *     w = (1 - rate * decay) * w - max(eps2, rms(w)) * min(rate, 1 / sqrt(t)) * u */
typedef struct tp_adafactor_options {
    double power; /* 0: 0.8 */
    double eps1;  /* 0: the distance from 1 to the next number of w's type */
    double eps2;  /* 0: 1e-3 */
    double clip;  /* 0: 1 */
    double decay;
    bool absolute; /* rate * u is subtracted, whatever w and t are */
} tp_adafactor_options;
TP_FN(tp_optimizer *, tp_adafactor_new, tp_ctx *tp, double rate,
      const tp_adafactor_options *opt, int n, tp_tensor *const *params);
#define tp_adafactor_new(...) tp_adafactor_new_at(TP_PLACE, __VA_ARGS__)

/* Not while a step of it runs (TP_E_STATE, and nothing is freed). NULL is fine. */
TP_API void tp_optimizer_free(tp_optimizer *o);

/* One step down the gradient of the sum of `loss`. Result: a bool, true; in a graph it is fetched to take the step.
 * TP_E_STATE: by what a step of it calls. */
TP_FN(tp_tensor *, tp_optimizer_step, tp_optimizer *o, tp_tensor *loss);
#define tp_optimizer_step(o, loss) tp_optimizer_step_at(TP_PLACE, o, TP_OPERAND(loss))
/* The same with gradients that are there: one per parameter, of its shape and type. */
TP_FN(tp_tensor *, tp_optimizer_apply, tp_optimizer *o, tp_tensor *const *grads);
#define tp_optimizer_apply(...) tp_optimizer_apply_at(TP_PLACE, __VA_ARGS__)
/* The same where `when`, a bool [], is true; else the step changes nothing, not even the count. Result: `when`, to be
 * fetched like that of a step. */
TP_FN(tp_tensor *, tp_optimizer_apply_when, tp_optimizer *o, tp_tensor *const *grads,
      tp_tensor *when);
#define tp_optimizer_apply_when(o, grads, when)                                                \
    tp_optimizer_apply_when_at(TP_PLACE, o, grads, TP_OPERAND(when))

/* The rate from now on; graphs and captured functions read it at each run. */
TP_FN(tp_status, tp_optimizer_set_rate, tp_optimizer *o, double rate);
#define tp_optimizer_set_rate(...) tp_optimizer_set_rate_at(TP_PLACE, __VA_ARGS__)
TP_API double tp_optimizer_rate(const tp_optimizer *o); /* NaN on error */

/* The rate of the step that was taken last, as its schedule has it (tp_optimizer_schedule); before the first that of the
 * first. Of a group times its scale. NaN on error. */
TP_API double tp_optimizer_step_rate(const tp_optimizer *o);

/* n of its parameters have a rate of `scale` times the optimiser's, and a decay of their own: no decay for biases, a
 * smaller rate for layers that were trained before. Before the first step; a parameter is in one group at most
 * (TP_E_VALUE). */
TP_FN(tp_status, tp_optimizer_group, tp_optimizer *o, double scale, double decay, int n,
      tp_tensor *const *params);
#define tp_optimizer_group(...) tp_optimizer_group_at(TP_PLACE, __VA_ARGS__)

/* The rate of step t = 0, 1, ... in parts of what tp_optimizer_set_rate says:
 *     (t + 1) / warmup           while t < warmup, which may be 0; after that, with p = (t - warmup) / (steps - warmup),
 *                                at most 1,
 *     TP_COSINE                  last + (1 - last) * (1 + cos(pi * p)) / 2
 *     TP_LINEAR                  last + (1 - last) * (1 - p)
 *     TP_EXPONENTIAL             last ^ p
 *     TP_STAIRS                  last ^ floor((t - warmup) / steps) */
typedef enum tp_schedule_kind {
    TP_CONSTANT,
    TP_COSINE,
    TP_LINEAR,
    TP_EXPONENTIAL,
    TP_STAIRS
} tp_schedule_kind;
typedef struct tp_schedule {
    tp_schedule_kind kind;
    int64_t warmup, steps; /* steps > warmup, but for TP_CONSTANT and TP_STAIRS: > 0 */
    double last;
} tp_schedule;
/* From now on; before the first step that a graph has. */
TP_FN(tp_status, tp_optimizer_schedule, tp_optimizer *o, const tp_schedule *s);
#define tp_optimizer_schedule(...) tp_optimizer_schedule_at(TP_PLACE, __VA_ARGS__)

/* All variables of its own, to be saved: numbers from 0 to tp_optimizer_n_state() - 1. NULL when out of range. */
TP_API int tp_optimizer_n_state(const tp_optimizer *o);
TP_API tp_tensor *tp_optimizer_state(const tp_optimizer *o, int i);

/* ---- one's own optimiser ------------------------------------------------------------------- */

/* What a step is made of. In `numbers` rate and count are f64, and so is what it puts into number; in `update` rate
 * and number have w's type. All are rank 0 but w, g and state. */
enum { TP_STEP_STATES = 4, TP_STEP_NUMBERS = 8 };
typedef struct tp_step {
    const char *file; /* the user's line, for TP_PLACE */
    int line;
    tp_tensor *rate;
    tp_tensor *count; /* f64: of steps, this one included */
    double decay;
    tp_tensor *number[TP_STEP_NUMBERS];
    tp_tensor *w, *g; /* of one parameter; update puts the new w in w's place, */
    tp_tensor *state[TP_STEP_STATES]; /* and the new state in that of the old */
} tp_step;

/* A rule of one, by public ops, with TP_PLACE as `s->file, s->line`:
 *
 *     static void update(const void *options, tp_step *s)
 *     {
 *         s->w = tp_sub(s->w, tp_mul(s->rate, tp_sign(s->g)));
 *     }
 *     static const tp_optimizer_kind sign_descent = {.name = "sign", .update = update}; */
typedef struct tp_optimizer_kind {
    const char *name; /* of its variables: "name.rate" */
    /* Names of what it keeps for each parameter; NULL: no more. */
    const char *state[TP_STEP_STATES];
    /* Once per step, type and group; or NULL. */
    void (*numbers)(const void *options, tp_step *s);
    void (*update)(const void *options, tp_step *s); /* for each parameter */
    size_t options_size;                             /* the optimiser keeps a copy */
    /* The first value of state k of s->w, of any shape and type, which it keeps. Where it gives NULL the parameter has no
     * such state, and s->state[k] is NULL in each step. Or NULL: zeros of w's shape and type. */
    tp_tensor *(*first)(const void *options, const tp_step *s, int k);
} tp_optimizer_kind;
TP_FN(tp_optimizer *, tp_optimizer_new, tp_ctx *tp, const tp_optimizer_kind *kind,
      const void *options, double rate, double decay, int n, tp_tensor *const *params);
#define tp_optimizer_new(...) tp_optimizer_new_at(TP_PLACE, __VA_ARGS__)

/* ---- L-BFGS ---------------------------------------------------------------------------------- */

/* L-BFGS with a line search for the strong Wolfe conditions: Nocedal and Wright, Numerical Optimization (2006),
 * algorithms 7.5, 3.5 and 3.6. For a loss that is the same function at each call: all data, no dropout. It evaluates the
 * loss where it likes, and goes on by what comes out: eagerly and in captured functions, pure ones too, not in graphs. */
typedef struct tp_lbfgs tp_lbfgs;
/* NULL: zeros. */
typedef struct tp_lbfgs_options {
    int history;     /* so many of the last moves are kept, at most 100; 0: 10 */
    int turns;       /* line searches in a step, at most; 0: 20 */
    double rate;     /* the first length that a search tries, in parts of the direction; 0: 1 */
    double gradient; /* a step ends where no element of the gradient is greater; 0: 1e-7 */
    double change;   /* and where the loss, or all parameters, have changed by less; 0: 1e-9 */
} tp_lbfgs_options;
/* Of n parameters (of tp_param) of one type. It holds them and its own variables until tp_lbfgs_free or tp_close. NULL on
 * error. */
TP_FN(tp_lbfgs *, tp_lbfgs_new, tp_ctx *tp, const tp_lbfgs_options *opt, int n,
      tp_tensor *const *params);
#define tp_lbfgs_new(...) tp_lbfgs_new_at(TP_PLACE, __VA_ARGS__)
/* Not while a step of it runs (TP_E_STATE, and nothing is freed). NULL is fine. */
TP_API void tp_lbfgs_free(tp_lbfgs *l);
/* The loss of the parameters as they are, which is summed when it has several elements. What it leaves open, scopes and
 * blocks, is ended. */
typedef tp_tensor *tp_loss_function(void *user);
/* Result: the loss of the new parameters, f64 []. When it fails nothing has changed. TP_E_STATE: by the loss. */
TP_FN(tp_tensor *, tp_lbfgs_step, tp_lbfgs *l, tp_loss_function *loss, void *user);
#define tp_lbfgs_step(...) tp_lbfgs_step_at(TP_PLACE, __VA_ARGS__)
/* Its variables, "lbfgs.s" and so on, to be saved. NULL when out of range. */
TP_API int tp_lbfgs_n_state(const tp_lbfgs *l);
TP_API tp_tensor *tp_lbfgs_state(const tp_lbfgs *l, int i);

/* ---- gradients ------------------------------------------------------------------------------ */

/* out[i] = g[i] * min(1, most / (norm + 1e-6)), where norm is the root of the sum of all squares, which is
 * returned ([], of g[0]'s type). `out` may be g. A failed g is what it gives; NaN in one is NaN in the norm. */
TP_FN(tp_tensor *, tp_clip_norm, int n, tp_tensor *const *g, double most, tp_tensor **out);
#define tp_clip_norm(...) tp_clip_norm_at(TP_PLACE, __VA_ARGS__)
/* Each element into [-most, most]. */
TP_FN(tp_status, tp_clip_value, int n, tp_tensor *const *g, double most, tp_tensor **out);
#define tp_clip_value(...) tp_clip_value_at(TP_PLACE, __VA_ARGS__)

/* Sums of gradients over several batches, for tp_optimizer_apply. Its variables are "w.sum". NULL on error. */
typedef struct tp_gradient_sum tp_gradient_sum;
TP_FN(tp_gradient_sum *, tp_gradient_sum_new, tp_ctx *tp, int n, tp_tensor *const *params);
#define tp_gradient_sum_new(...) tp_gradient_sum_new_at(TP_PLACE, __VA_ARGS__)
TP_API void tp_gradient_sum_free(tp_gradient_sum *s); /* NULL is fine */
/* Adds `weight` times the gradient of the sum of `loss`. Result as of tp_optimizer_step. */
TP_FN(tp_tensor *, tp_gradient_sum_add, tp_gradient_sum *s, tp_tensor *loss, double weight);
#define tp_gradient_sum_add(s, loss, ...)                                                      \
    tp_gradient_sum_add_at(TP_PLACE, s, TP_OPERAND(loss), __VA_ARGS__)
/* The sums into out[n], and zeros in their place; `like` is any tensor of the graph that this is for, or NULL. */
TP_FN(tp_tensor *, tp_gradient_sum_take, tp_gradient_sum *s, tp_tensor *like, tp_tensor **out);
#define tp_gradient_sum_take(s, like, ...)                                                     \
    tp_gradient_sum_take_at(TP_PLACE, s, TP_OPERAND(like), __VA_ARGS__)

/* ---- loss scaling ---------------------------------------------------------------------------- */

/* A factor of the loss that keeps small gradients from becoming 0, and is found while one trains (Micikevicius et al.,
 * 2018; PyTorch's GradScaler). A step whose gradients are not all finite is left out:
 *
 *     tp_grads(tp_loss_scale_apply(s, loss), NULL, n, params, g);
 *     tp_tensor *finite = tp_loss_scale_unscale(s, n, g, g);
 *     tp_optimizer_apply_when(o, g, finite);
 *     tp_loss_scale_update(s, finite);
 *
 * It is held until tp_loss_scale_free or tp_close. */
typedef struct tp_loss_scale tp_loss_scale;
/* NULL: zeros. */
typedef struct tp_loss_scale_options {
    double first; /* 0: 65536 */
    /* After so many updates in a row that were finite it is multiplied by this, >= 1; 0: 2. */
    double growth;
    int turns;      /* 0: 2000 */
    double backoff; /* after one that was not, by this, in (0, 1); 0: 0.5 */
} tp_loss_scale_options;
/* NULL on error. */
TP_FN(tp_loss_scale *, tp_loss_scale_new, tp_ctx *tp, const tp_loss_scale_options *opt);
#define tp_loss_scale_new(...) tp_loss_scale_new_at(TP_PLACE, __VA_ARGS__)
TP_API void tp_loss_scale_free(tp_loss_scale *s); /* NULL is fine */
/* loss * scale, of the loss's type. */
TP_FN(tp_tensor *, tp_loss_scale_apply, tp_loss_scale *s, tp_tensor *loss);
#define tp_loss_scale_apply(s, loss) tp_loss_scale_apply_at(TP_PLACE, s, TP_OPERAND(loss))
/* out[i] = g[i] / scale. Result: a bool [], are all elements finite? `out` may be g. A failed g is what it gives. */
TP_FN(tp_tensor *, tp_loss_scale_unscale, tp_loss_scale *s, int n, tp_tensor *const *g,
      tp_tensor **out);
#define tp_loss_scale_unscale(...) tp_loss_scale_unscale_at(TP_PLACE, __VA_ARGS__)
/* The scale of the next step. It stays where it would leave 2^-126 to 2^127. Result as of tp_optimizer_step. */
TP_FN(tp_tensor *, tp_loss_scale_update, tp_loss_scale *s, tp_tensor *finite);
#define tp_loss_scale_update(s, finite) tp_loss_scale_update_at(TP_PLACE, s, TP_OPERAND(finite))
/* Its variables, to be saved: 0: "loss_scale.scale", f64; 1: "loss_scale.turns", i64. NULL when out of range. */
TP_API tp_tensor *tp_loss_scale_state(const tp_loss_scale *s, int i);

/* ---- averaged weights ------------------------------------------------------------------------ */

/* Means of parameters over steps:  mean = mean + (1 - decay) * (w - mean); at first the parameters.
 * Its variables are "w.mean". NULL on error. */
typedef struct tp_average tp_average;
TP_FN(tp_average *, tp_average_new, tp_ctx *tp, double decay, int n, tp_tensor *const *params);
#define tp_average_new(...) tp_average_new_at(TP_PLACE, __VA_ARGS__)
TP_API void tp_average_free(tp_average *a); /* NULL is fine */
/* After a step, whose result is `after` (NULL: eagerly): a graph takes the new weights. Result as of
 * tp_optimizer_step. */
TP_FN(tp_tensor *, tp_average_update, tp_average *a, tp_tensor *after);
#define tp_average_update(a, after) tp_average_update_at(TP_PLACE, a, TP_OPERAND(after))
/* Parameters and means trade values: before and after a validation. Concrete. */
TP_FN(tp_status, tp_average_swap, tp_average *a);
#define tp_average_swap(...) tp_average_swap_at(TP_PLACE, __VA_ARGS__)

/* ---- patience -------------------------------------------------------------------------------- */

/* For early stopping, lower rates on a plateau, and the best of many checkpoints (better). Zeroed at first. */
typedef struct tp_patience {
    int turns;     /* true after so many without a better one */
    double margin; /* better by more than this; >= 0 */
    bool rises;    /* greater is better */
    bool begun;
    bool better; /* the value of the last turn is the best so far */
    double best;
    int since; /* turns since the best, or since it ran out */
} tp_patience;
/* Has it run out? It begins to count anew then. NaN is never better. */
TP_API bool tp_patience_over(tp_patience *p, double value);

#ifdef __cplusplus
}
#endif
#endif
