/* Variables that optimisers and the like hold beside parameters, and how they all change at once or not at all. */
#ifndef TAPIR_HELD_H
#define TAPIR_HELD_H

#include "tapir/train.h"

/* A variable that outlives the open scope, until tp_release. Failed ones too. */
tp_tensor *tpi_held_new(const char *file, int line, tp_tensor *init, const char *name);
/* The same under w's name and "." and part. */
tp_tensor *tpi_held_beside(const char *file, int line, tp_tensor *w, const char *part,
                           tp_tensor *init);
/* The same of w's shape and type, all zeros. */
tp_tensor *tpi_held_like(const char *file, int line, tp_tensor *w, const char *part);
/* What the graph of `like` reads of a variable, or the variable. */
tp_tensor *tpi_held_now(const char *file, int line, const tp_tensor *like, tp_tensor *var);

/* Are both of one shape and type, and of one context? */
bool tpi_held_are_alike(const tp_tensor *a, const tp_tensor *b);
/* Are they n parameters of tp_param, each of them once? Else an error; `what` takes them. */
tp_status tpi_held_check_params(const char *file, int line, tp_ctx *tp, const char *what, int n,
                                tp_tensor *const *params);
/* Is 0 <= x < limit? By the bits, which have the order of numbers without a sign: a host may have floating-point
 * exceptions unmasked, which a comparison would raise. */
bool tpi_held_in_range(double x, double limit);
/* Is it a finite number that a tensor would take? Else an error that names it. */
tp_status tpi_held_check_number(const char *file, int line, tp_ctx *tp, const char *name,
                                double x);

/* NULL, or the failed tensor: t is no bool []. `name` takes it; tp NULL: whatever t's context is. */
tp_tensor *tpi_held_refuse_flag(const char *file, int line, tp_ctx *tp, const char *name,
                                tp_tensor *t);
/* The same: it is no loss of `what` that a gradient may be asked of. */
tp_tensor *tpi_held_refuse_loss(const char *file, int line, tp_ctx *tp, const char *what,
                                tp_tensor *loss);

/* New values of variables. */
typedef struct tpi_changes {
    int n, size;
    tp_tensor **var, **value, **done; /* [size] */
} tpi_changes;
/* Memory for so many; false: there is none. */
bool tpi_changes_new(tp_ctx *tp, tpi_changes *c, int size);
void tpi_changes_free(tp_ctx *tp, tpi_changes *c);
void tpi_change(tpi_changes *c, tp_tensor *var, tp_tensor *value);
/* Where `when`, a bool [], is not true all of them stay as they are. */
void tpi_changes_when(const char *file, int line, tpi_changes *c, const tp_tensor *like,
                      tp_tensor *when);
/* Assigns all, or none and the first failed one is the result. Else a bool, true. */
tp_tensor *tpi_changes_commit(const char *file, int line, tpi_changes *c);

/* The variables of one, and how many; below 0: it is NULL. */
tp_tensor *const *tpi_average_means(const tp_average *a, int *n);
tp_tensor *const *tpi_gradient_sums(const tp_gradient_sum *s, int *n);
tp_tensor *const *tpi_lbfgs_history(const tp_lbfgs *l, int *n);

#endif
