/* What composites have in common: functions over the public ops, so that gradients, graphs and export come
 * for nothing. What one refuses is refused with its name and the user's line. */
#ifndef TAPIR_COMPOSITE_H
#define TAPIR_COMPOSITE_H

#include "base/float_mode.h"
#include "op/fused.h"
#include "op/sizes.h"
#include "tapir/control.h"
#include "tapir/indexing.h"
#include "tapir/nn.h"
#include "tapir/random.h"

/* The user's line, which composites and their helpers have as `at`. */
#undef TP_PLACE
#define TP_PLACE at.file, at.line

/* NULL, or the failed tensor to return when in[0] is no good float tensor. The others may be missing; they
 * give a context to blame when that is NULL. */
tp_tensor *tpi_refuse_float(tpi_at at, const char *what, int n, tp_tensor *const *in);
/* The same when `p`, unless it is NULL, is not one number for each element along x's axis. */
tp_tensor *tpi_refuse_channels(tpi_at at, const char *what, const char *name,
                               const tp_tensor *x, int axis, tp_tensor *p);
/* The same when the number that is called `name` is not in [lo, hi]; hi DBL_MAX: not at least lo. */
tp_tensor *tpi_refuse_number(tpi_at at, const char *what, const tp_tensor *x, const char *name,
                             double v, double lo, double hi);
/* The same of a whole number that is at least lo. */
tp_tensor *tpi_refuse_count(tpi_at at, const char *what, const tp_tensor *x, const char *name,
                            int64_t v, int64_t lo);
/* The same when t, operand i, is missing or no good, or is of no integer type. */
tp_tensor *tpi_refuse_integer(tpi_at at, const char *what, const tp_tensor *x, const char *name,
                              int i, tp_tensor *t);

/* The same of two operands that broadcast; NULL: each is as the other's graph sees it, and they have met in one type:
 * floats, or, unless `floats`, any numbers. */
tp_tensor *tpi_refuse_pair(tpi_at at, const char *what, bool floats, tp_tensor **a,
                           tp_tensor **b);

/* p as x's graph sees it. Without this an op on p alone would be computed while the graph is built: a
 * variable would be read only then, and a parameter would be lost to gradients. NULL stays NULL. */
tp_tensor *tpi_beside(tpi_at at, const tp_tensor *x, tp_tensor *p);
/* The same of several good operands, or NULLs, any of which may be symbolic. */
void tpi_all_beside(tpi_at at, int n, tp_tensor **const *t);

/* Which of the scores' classes, along the axis, labels name (i64): those below 0 none, and so a run is refused. */
tp_tensor *tpi_classes_of(tpi_at at, tp_tensor *labels, tp_tensor *scores, int64_t axis);

/* Has t, integers or a number, elements that can be read now, without gaps, and without a look that ends a
 * captured segment? */
bool tpi_is_here(const tp_tensor *t);
/* Then: an element; and of integers but u64 the first from `from` on that is not in [lo, hi], or how many there are. */
int64_t tpi_whole_at(const tp_tensor *t, int64_t i);
int64_t tpi_first_outside(const tp_tensor *t, int64_t from, int64_t lo, int64_t hi);
/* Lengths [n], good integers that are called `name`, as i64: each is 0 to the size of x's axis. Those that are here
 * are looked at, and *failed is set; of others, and in a replay, a run is refused. */
tp_tensor *tpi_lengths_of(tpi_at at, const char *what, const char *name, tp_tensor *lengths,
                          tp_tensor *x, int axis, tp_tensor **failed);

/* NULL, or the failed tensor to return when `how` is no reduction; and a loss reduced by it. */
tp_tensor *tpi_refuse_reduction(tpi_at at, const char *what, const tp_tensor *x,
                                tp_reduction how);
tp_tensor *tpi_reduced(tpi_at at, tp_tensor *loss, tp_reduction how);

/* The distance of lines: a and b [..., d] -> [...]. */
tp_tensor *tpi_distance(tpi_at at, tp_tensor *a, tp_tensor *b);

/* Operands, 1 to `most`, as the graph of a symbolic one among them sees them, into in[n]. NULL, or the failed
 * tensor to return. */
tp_tensor *tpi_together(tpi_at at, const char *what, int n, int most, tp_tensor *const *xs,
                        tp_tensor **in);

/* The axis counted from the front; below 0 and *failed when x is no good or has no such axis. */
int tpi_own_axis(tpi_at at, const char *what, const tp_tensor *x, int64_t axis,
                 tp_tensor **failed);

/* NULL when v is a number, or a size of x's graph. */
tp_tensor *tpi_refuse_size(tpi_at at, const char *what, const char *name, const tp_tensor *x,
                           int64_t v);

/* tp_diagonal for another composite, of an x that is good and has two axes. */
tp_tensor *tpi_diagonal(tpi_at at, tp_tensor *x, int64_t k);

/* A whole number as i64, symbolic when `like` is. */
tp_tensor *tpi_whole(tpi_at at, tp_tensor *like, double v);

/* log_softmax for another composite, which is named when x is refused. */
tp_tensor *tpi_log_softmax(tpi_at at, const char *what, tp_tensor *x, int64_t axis);

/* x without its mean over the axes; *mean, unless that is NULL, with the axes kept. */
tp_tensor *tpi_centred(tpi_at at, tp_tensor *x, int n, const int64_t *axes, tp_tensor **mean);

/* -x where that holds, else x. With x < 0 this is |x|, whose gradient at 0 is that of its right side, not 0. */
tp_tensor *tpi_turned(tpi_at at, tp_tensor *negative, tp_tensor *x);
typedef struct tpi_standard {
    tp_tensor *y;                   /* x without its mean, times factor */
    tp_tensor *mean, *var, *factor; /* with the axes kept; factor is 1 / sqrt(var + eps) */
} tpi_standard;
tpi_standard tpi_standardise(tpi_at at, tp_tensor *x, int n, const int64_t *axes, double eps);
/* x / sqrt(mean(x^2) + eps), the mean over the axes. */
tp_tensor *tpi_over_rms(tpi_at at, tp_tensor *x, int n, const int64_t *axes, double eps);

/* tp_attention; stages[4], unless that is NULL: the scores as products, with the cap, with what is added, and
 * their softmax. */
tp_tensor *tpi_attention(tpi_at at, tp_tensor *q, tp_tensor *k, tp_tensor *v,
                         const tp_attention_options *o, tp_tensor **present,
                         tp_tensor **stages);

/* Defines a public composite, name and name_at, whose body follows and runs in the default mode of numbers:
 *
 *     TPI_COMPOSITE(tp_silu, (tp_tensor * x), x)
 *     {
 *         return tp_mul(x, tp_sigmoid(x));
 *     }
 */
#define TPI_COMPOSITE(name, params, ...)                                                       \
    static tp_tensor *name##_made(tpi_at at, TPI_COMPOSITE_LIST params);                       \
    tp_tensor *name##_at(const char *file, int line, TPI_COMPOSITE_LIST params)                \
    {                                                                                          \
        TPI_DEFAULT_FLOAT_MODE;                                                                \
        return name##_made(TPI_AT(file, line), __VA_ARGS__);                                   \
    }                                                                                          \
    TPI_BARE(tp_tensor *, name, params, __VA_ARGS__)                                           \
    static tp_tensor *name##_made(tpi_at at, TPI_COMPOSITE_LIST params)
#define TPI_COMPOSITE_LIST(...) __VA_ARGS__

/* The same of tp_<name> whose x has to be a float tensor, and is one in the body that follows. */
#define TPI_FLOAT_COMPOSITE(name, params, ...)                                                 \
    static tp_tensor *name##_of(tpi_at at, TPI_COMPOSITE_LIST params);                         \
    TPI_COMPOSITE(tp_##name, params, __VA_ARGS__)                                              \
    {                                                                                          \
        tp_tensor *failed = tpi_refuse_float(at, #name, TPI_IN(x));                            \
        return failed ? failed : name##_of(at, __VA_ARGS__);                                   \
    }                                                                                          \
    static tp_tensor *name##_of(tpi_at at, TPI_COMPOSITE_LIST params)

/* Of a composite whose ops are name_of(at, operands in[] and numbers v[]): what TPI_FUSE takes. The kind is that of
 * tpi_fused_kind behind TPI_FUSED_. */
#define TPI_FUSED(name, kind, ...)                                                             \
    static tp_tensor *name##_ops(tpi_at at, tp_tensor *const *in, const double *v)             \
    {                                                                                          \
        (void)v;                                                                               \
        return name##_of(at, __VA_ARGS__);                                                     \
    }                                                                                          \
    static const tpi_fused name##_fused = {#name, name##_ops, TPI_FUSED_##kind};
/* Its result for operands in parentheses and the numbers behind them: see tpi_fuse. */
#define TPI_FUSE(name, operands, ...)                                                          \
    tpi_fuse(at, &(const tpi_fused_call){&name##_fused, TPI_IN operands, {__VA_ARGS__}})

/* The same as TPI_FLOAT_COMPOSITE of a function of single elements, and fused. */
#define TPI_ELEMENT_COMPOSITE(name, params, ...)                                               \
    static tp_tensor *name##_of(tpi_at at, TPI_COMPOSITE_LIST params);                         \
    TPI_FUSED(name, ELEMENTS,                                                                  \
              TPI_4TH(__VA_ARGS__, TPI_ELEMENT_2, TPI_ELEMENT_1, TPI_ELEMENT_0, ))             \
    TPI_COMPOSITE(tp_##name, params, __VA_ARGS__)                                              \
    {                                                                                          \
        tp_tensor *failed = tpi_refuse_float(at, #name, TPI_IN(x));                            \
        return failed ? failed : TPI_FUSE(name, (x), TPI_BEHIND_1ST(__VA_ARGS__));             \
    }                                                                                          \
    static tp_tensor *name##_of(tpi_at at, TPI_COMPOSITE_LIST params)
#define TPI_ELEMENT_0 in[0]
#define TPI_ELEMENT_1 in[0], v[0]
#define TPI_ELEMENT_2 in[0], v[0], v[1]
#define TPI_4TH(a, b, c, d, ...) d
#define TPI_BEHIND_1ST(a, ...) __VA_ARGS__

#endif
