/* What the makers of optimisers share. In a rule `s` is the step. */
#ifndef TAPIR_RULE_H
#define TAPIR_RULE_H

#include "nn/held.h"
#include "tapir/train.h"

#include <math.h>
#include <stdio.h>

#undef TP_PLACE
#define TP_PLACE s->file, s->line

static inline bool tpi_rule_refuses(const char *file, int line, tp_ctx *tp, const char *name,
                                    const char *why)
{
    char text[100];
    snprintf(text, sizeof text, "%s is not %s", name, why);
    tp_fail_at(file, line, tp, TP_E_VALUE, text);
    return false;
}

/* Is it in [0, 1), or below a limit? Else an error. 0 stands for `otherwise`. */
static inline bool tpi_rule_is_below(const char *file, int line, tp_ctx *tp, const char *name,
                                     double *x, double otherwise, double limit)
{
    if (tpi_held_check_number(file, line, tp, name, *x) != TP_OK)
        return false;
    if (!tpi_held_in_range(*x, limit))
        return tpi_rule_refuses(file, line, tp, name, limit > 1 ? "at least 0" : "in [0, 1)");
    if (tpi_held_in_range(*x, 5e-324))
        *x = otherwise;
    return true;
}

/* The same of a decay of means, for which a negative number stands for 0. */
static inline bool tpi_rule_is_beta(const char *file, int line, tp_ctx *tp, const char *name,
                                    double *x, double otherwise)
{
    if (tpi_held_check_number(file, line, tp, name, *x) != TP_OK)
        return false;
    const bool none = !tpi_held_in_range(*x, (double)INFINITY);
    if (none)
        *x = 0;
    return none || tpi_rule_is_below(file, line, tp, name, x, otherwise, 1);
}

/* 1 - x, by ops: in C the caller's rounding would decide. */
static inline double tpi_rule_rest(const char *file, int line, tp_ctx *tp, double x)
{
    if (tp_scope_begin(tp) != TP_OK)
        return 0; /* nor is there memory for the optimiser */
    tp_tensor *rest = tp_sub_at(file, line, tp_scalar_at(file, line, tp, TP_F64, 1),
                                tp_scalar_at(file, line, tp, TP_F64, x));
    const double value = tp_item_at(file, line, rest);
    tp_scope_end_at(file, line, tp);
    return value;
}

/* g + decay * w */
static inline tp_tensor *tpi_rule_decayed(const tp_step *s)
{
    return tpi_held_in_range(s->decay, 5e-324) ? s->g : tp_add(tp_mul(s->w, s->decay), s->g);
}

/* Defines the maker tp_NAME_new and tp_NAME_new_at, whose body follows; it has `o`, a copy of the options, or
 * zeros. */
#define TPI_RULE_MAKER(maker, type)                                                            \
    static tp_optimizer *maker##_made(const char *file, int line, tp_ctx *tp, double rate,     \
                                      type o, int n, tp_tensor *const *params);                \
    tp_optimizer *maker##_at(const char *file, int line, tp_ctx *tp, double rate,              \
                             const type *opt, int n, tp_tensor *const *params)                 \
    {                                                                                          \
        return maker##_made(file, line, tp, rate, opt ? *opt : (type){0}, n, params);          \
    }                                                                                          \
    tp_optimizer *(maker)(tp_ctx * tp, double rate, const type *opt, int n,                    \
                          tp_tensor *const *params)                                            \
    {                                                                                          \
        return maker##_at(NULL, 0, tp, rate, opt, n, params);                                  \
    }                                                                                          \
    static tp_optimizer *maker##_made(const char *file, int line, tp_ctx *tp, double rate,     \
                                      type o, int n, tp_tensor *const *params)

#endif
