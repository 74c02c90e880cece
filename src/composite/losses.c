/* Losses. */
#include "composite/composite.h"

#include <float.h>

tp_tensor *tpi_refuse_reduction(tpi_at at, const char *what, const tp_tensor *x,
                                tp_reduction how)
{
    if (how == TP_MEAN || how == TP_SUM || how == TP_NONE)
        return NULL;
    return tpi_fail(x->ctx, at, what, TP_E_VALUE, "%d is no reduction", (int)how);
}

tp_tensor *tpi_reduced(tpi_at at, tp_tensor *loss, tp_reduction how)
{
    return how == TP_NONE  ? loss
           : how == TP_SUM ? tp_sum(loss, TP_ALL, false)
                           : tp_mean(loss, TP_ALL, false);
}

/* ---- of classes ------------------------------------------------------------------------------------- */

/* What a loss of labels is of, with the axis of the classes. */
typedef struct scores {
    const char *what;
    tp_tensor *logs;  /* [n, c, d...] */
    tp_tensor *given; /* what they were made of, or they themselves */
    tp_tensor *labels;
    tp_tensor *weights;
    const tp_loss_options *o;
    int axis;
    bool soft; /* the labels are probabilities, of the shape of the logarithms */
} scores;

static tp_tensor *refuse_loss_options(tpi_at at, const scores *s)
{
    const tp_loss_options *o = s->o;
    tp_tensor *failed = tpi_refuse_reduction(at, s->what, s->logs, o->reduction);
    if (failed ||
        (failed = tpi_refuse_number(at, s->what, s->logs, "smoothing", o->smoothing, 0, 1)) ||
        (failed = tpi_refuse_count(at, s->what, s->logs, "ignored", o->ignored, INT64_MIN)) ||
        (failed = tpi_refuse_channels(at, s->what, "weights", s->logs, s->axis, o->weights)))
        return failed;
    if (!o->ignores || !s->soft)
        return NULL;
    return tpi_fail(
        s->logs->ctx, at, s->what, TP_E_VALUE,
        "labels are probabilities, of which none is ignored: give them 0 for all classes");
}

/* Labels have the sizes of the logarithms, but for the axis of the classes. */
static bool have_labels_sizes(const scores *s)
{
    bool fit = s->labels->rank == s->logs->rank - 1;
    for (int i = 0; fit && i < s->labels->rank; i++)
        fit = s->labels->shape[i] == s->logs->shape[i + (i >= s->axis)];
    return fit;
}

static tp_tensor *refuse_labels(tpi_at at, scores *s)
{
    s->soft = s->labels->dtype >= TP_F32 && s->labels->rank == s->logs->rank;
    if (!s->soft) {
        tp_tensor *failed = tpi_refuse_integer(at, s->what, s->logs, "labels", 1, s->labels);
        if (failed)
            return failed;
    }
    if (s->soft ? tpi_same_shape(s->labels, s->logs) : have_labels_sizes(s))
        return NULL;
    return tpi_fail(s->logs->ctx, at, s->what, TP_E_SHAPE,
                    "labels are %s, not as scores %s are but for axis %d of the classes",
                    SHAPE(s->labels), SHAPE(s->logs), s->axis);
}

/* NULL, or the failed tensor to return. */
static tp_tensor *take_scores(tpi_at at, scores *s, const tp_loss_options *o)
{
    static const tp_loss_options plain;
    s->o = o ? o : &plain;
    tp_tensor *failed = tpi_refuse_float(at, s->what, TPI_IN(s->logs, s->labels));
    if (failed || (failed = tpi_refuse_operand(s->logs->ctx, at, s->what, 1, s->labels)))
        return failed;
    const int rank = s->logs->rank, axis = s->o->axis ? s->o->axis : rank > 1;
    s->axis = tpi_axis(axis, rank);
    if (s->axis < 0)
        return tpi_fail(s->logs->ctx, at, s->what, rank ? TP_E_AXIS : TP_E_SHAPE,
                        "axis %d of the classes is out of range for scores %s", axis,
                        SHAPE(s->logs));
    if ((failed = refuse_labels(at, s)) || (failed = refuse_loss_options(at, s)))
        return failed;
    s->weights = s->o->weights;
    tpi_all_beside(at, 3, (tp_tensor * *const[]){&s->logs, &s->labels, &s->weights});
    s->given = s->logs;
    return NULL;
}

/* [c] along the axis of the classes. */
static tp_tensor *per_class(tpi_at at, const scores *s, tp_tensor *weights)
{
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < s->logs->rank; i++)
        shape[i] = i == s->axis ? s->logs->shape[i] : 1;
    return tp_reshape(weights, s->logs->rank, shape);
}

/* The sum of the logarithms along the classes, by their weights. */
static tp_tensor *spread(tpi_at at, const scores *s, tp_tensor *logs)
{
    logs = s->weights ? tp_mul(logs, per_class(at, s, s->weights)) : logs;
    return tp_sum(logs, 1, (int64_t[]){s->axis}, true);
}

/* x * (1 - smoothing) + all * smoothing / c */
static tp_tensor *smoothed(tpi_at at, const scores *s, tp_tensor *x, tp_tensor *all)
{
    if (s->o->smoothing == 0)
        return x;
    tp_tensor *c = tp_extent(s->logs, 1, (int64_t[]){s->axis}, (tp_dtype)s->logs->dtype);
    tp_tensor *part = tp_div(tp_scalar_like(s->logs, s->o->smoothing), c);
    x = tp_mul(x, tp_scalar_like(x, 1 - s->o->smoothing));
    return tp_add(x, tp_mul(all, part));
}

/* The negative of `gain`, whose axis of classes has size 1, reduced; weight: of the elements, or NULL. */
static tp_tensor *loss_of(tpi_at at, const scores *s, tp_tensor *gain, tp_tensor *weight)
{
    const tp_reduction how = s->o->reduction;
    if (how == TP_NONE)
        return tp_neg(tp_squeeze(gain, s->axis));
    tp_tensor *loss = tpi_reduced(at, gain, how == TP_MEAN && weight ? TP_SUM : how);
    if (how == TP_MEAN && weight)
        loss = tp_div(loss, tp_sum(weight, TP_ALL, false));
    return tp_neg(loss);
}

static tp_tensor *soft_loss(tpi_at at, const scores *s)
{
    tp_tensor *one = tp_scalar_like(s->logs, 1);
    tp_tensor *p = smoothed(at, s, tp_cast(s->labels, (tp_dtype)s->logs->dtype), one);
    return loss_of(at, s, spread(at, s, tp_mul(s->logs, p)), NULL);
}

/* What counts stays, the rest is 0, also where it is no number. */
static tp_tensor *counted(tpi_at at, tp_tensor *counts, tp_tensor *x)
{
    return counts ? tp_where(counts, x, 0) : x;
}

/* No class is counted from the end: labels below 0 are put where none is. */
tp_tensor *tpi_classes_of(tpi_at at, tp_tensor *labels, tp_tensor *of, int64_t axis)
{
    tp_tensor *below = tp_sub(labels, tp_extent(of, 1, &axis, TP_I64));
    return tp_where(tp_lt(labels, 0), below, labels);
}

/* Labels that are here are looked at before anything is computed: what is no class is told as such. */
static tp_tensor *refuse_classes(tpi_at at, const scores *s, const tp_tensor *labels)
{
    const int64_t classes = s->given->shape[s->axis];
    if (!tpi_is_here(labels) || tpi_dim_is_symbolic(classes))
        return NULL;
    const int64_t n = tpi_count(labels);
    for (int64_t i = 0; (i = tpi_first_outside(labels, i, 0, classes - 1)) < n; i++) {
        const int64_t v = tpi_whole_at(labels, i);
        if (!s->o->ignores || v != s->o->ignored)
            return tpi_fail(labels->ctx, at, s->what, TP_E_VALUE,
                            "label %lld at position %lld is none of the %lld classes from 0%s",
                            (long long)v, (long long)i, (long long)classes,
                            s->o->ignores ? ", nor the one that is ignored"
                                          : "; tp_loss_options can have one that is ignored");
    }
    return NULL;
}

static tp_tensor *hard_loss(tpi_at at, const scores *s)
{
    tp_tensor *given = tpi_as_index(at, s->labels), *counts = NULL, *weight = NULL;
    tp_tensor *failed = refuse_classes(at, s, given);
    if (failed)
        return failed;
    tp_tensor *labels = tpi_classes_of(at, given, s->given, s->axis);
    if (s->o->ignores) {
        counts = tp_ne(given, tp_tensor_new(given->ctx, TP_I64, TP_SCALAR, &s->o->ignored));
        labels = tp_where(counts, labels, 0);
        counts = tp_unsqueeze(counts, s->axis);
    }
    labels = tp_unsqueeze(labels, s->axis);
    tp_tensor *gain = tp_take_along(s->logs, labels, s->axis);
    if (s->weights)
        weight = counted(at, counts, tp_gather(s->weights, labels, 0));
    else if (counts)
        weight = tp_cast(counts, (tp_dtype)s->logs->dtype);
    gain = s->weights ? tp_mul(gain, weight) : gain;
    tp_tensor *all = s->o->smoothing != 0 ? spread(at, s, s->logs) : NULL;
    return loss_of(at, s, counted(at, counts, smoothed(at, s, gain, all)), weight);
}

static tp_tensor *loss_of_scores(tpi_at at, scores *s)
{
    return s->soft ? soft_loss(at, s) : hard_loss(at, s);
}

static tp_tensor *cross_entropy(tpi_at at, const char *what, tp_tensor *logits,
                                tp_tensor *labels, const tp_loss_options *o)
{
    scores s = {.what = what, .logs = logits, .labels = labels};
    tp_tensor *failed = take_scores(at, &s, o);
    if (failed)
        return failed;
    s.logs = tpi_log_softmax(at, what, s.logs, s.axis);
    return loss_of_scores(at, &s);
}

TPI_COMPOSITE(tp_cross_entropy, (tp_tensor * logits, tp_tensor *labels), logits, labels)
{
    return cross_entropy(at, "cross_entropy", logits, labels, NULL);
}

TPI_COMPOSITE(tp_cross_entropy_with,
              (tp_tensor * logits, tp_tensor *labels, const tp_loss_options *options), logits,
              labels, options)
{
    return cross_entropy(at, "cross_entropy_with", logits, labels, options);
}

TPI_COMPOSITE(tp_nll,
              (tp_tensor * log_probs, tp_tensor *labels, const tp_loss_options *options),
              log_probs, labels, options)
{
    scores s = {.what = "nll", .logs = log_probs, .labels = labels};
    tp_tensor *failed = take_scores(at, &s, options);
    return failed ? failed : loss_of_scores(at, &s);
}

/* ---- of elements ------------------------------------------------------------------------------------ */

/* Two operands of one shape, of floats in the end. [n, 1] and [n] would broadcast to [n, n]: hardly ever what is meant. */
static tp_tensor *take_pair(tpi_at at, const char *what, const char *name, tp_tensor **y,
                            tp_tensor **target, tp_reduction how)
{
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(*y, *target));
    if (failed || (failed = tpi_refuse_operand((*y)->ctx, at, what, 1, *target)) ||
        (failed = tpi_refuse_reduction(at, what, *y, how)))
        return failed;
    if (!tpi_same_shape(*y, *target))
        return tpi_fail((*y)->ctx, at, what, TP_E_SHAPE, "shapes differ: %s %s, target %s",
                        name, SHAPE(*y), SHAPE(*target));
    tpi_all_beside(at, 2, (tp_tensor * *const[]){y, target});
    if ((*target)->dtype < TP_F32)
        *target = tp_cast(*target, (tp_dtype)(*y)->dtype);
    return NULL;
}

TPI_COMPOSITE(tp_mse, (tp_tensor * y, tp_tensor *target), y, target)
{
    tp_tensor *failed = take_pair(at, "mse", "y", &y, &target, TP_MEAN);
    return failed ? failed : tp_mean(tp_square(tp_sub(y, target)), TP_ALL, false);
}

TPI_COMPOSITE(tp_l1, (tp_tensor * y, tp_tensor *target, tp_reduction reduction), y, target,
              reduction)
{
    tp_tensor *failed = take_pair(at, "l1", "y", &y, &target, reduction);
    return failed ? failed : tpi_reduced(at, tp_abs(tp_sub(y, target)), reduction);
}

TPI_COMPOSITE(tp_huber,
              (tp_tensor * y, tp_tensor *target, double delta, tp_reduction reduction), y,
              target, delta, reduction)
{
    tp_tensor *failed = take_pair(at, "huber", "y", &y, &target, reduction);
    if (failed || (failed = tpi_refuse_number(at, "huber", y, "delta", delta, 0, DBL_MAX)))
        return failed;
    tp_tensor *away = tp_sub(y, target), *size = tp_abs(away);
    tp_tensor *half = tp_scalar_like(away, 0.5), *most = tp_scalar_like(away, delta);
    tp_tensor *far = tp_mul(most, tp_sub(size, tp_mul(half, most)));
    tp_tensor *loss = tp_where(tp_le(size, most), tp_mul(half, tp_square(away)), far);
    return tpi_reduced(at, loss, reduction);
}

TPI_COMPOSITE(tp_hinge, (tp_tensor * y, tp_tensor *target, tp_reduction reduction), y, target,
              reduction)
{
    tp_tensor *failed = take_pair(at, "hinge", "y", &y, &target, reduction);
    if (failed)
        return failed;
    tp_tensor *inside = tp_mul(y, target);
    return tpi_reduced(at, tp_relu(tp_sub(1, inside)), reduction);
}

/* log(p), at least -100; without a gradient there. */
static tp_tensor *log_at_least(tpi_at at, tp_tensor *p)
{
    tp_tensor *low = tp_le(tp_abs(p), 3.720075976020836e-44); /* exp(-100) */
    tp_tensor *log = tp_log(tp_where(low, 1, p));
    return tp_where(low, -100, log);
}

TPI_COMPOSITE(tp_bce, (tp_tensor * p, tp_tensor *target, tp_reduction reduction), p, target,
              reduction)
{
    tp_tensor *failed = take_pair(at, "bce", "p", &p, &target, reduction);
    if (failed)
        return failed;
    tp_tensor *yes = tp_mul(target, log_at_least(at, p));
    tp_tensor *no = tp_mul(tp_sub(1, target), log_at_least(at, tp_sub(1, p)));
    return tpi_reduced(at, tp_neg(tp_add(yes, no)), reduction);
}

static tp_tensor *refuse_weight(tpi_at at, const char *what, const tp_tensor *x, int i,
                                tp_tensor *w)
{
    return w ? tpi_refuse_operand(x->ctx, at, what, i, w) : NULL;
}

TPI_COMPOSITE(tp_bce_with_logits,
              (tp_tensor * x, tp_tensor *target, tp_tensor *weight, tp_tensor *pos_weight,
               tp_reduction reduction),
              x, target, weight, pos_weight, reduction)
{
    const char *what = "bce_with_logits";
    tp_tensor *failed = take_pair(at, what, "x", &x, &target, reduction);
    if (failed || (failed = refuse_weight(at, what, x, 2, weight)) ||
        (failed = refuse_weight(at, what, x, 3, pos_weight)))
        return failed;
    tpi_all_beside(at, 4, (tp_tensor * *const[]){&x, &target, &weight, &pos_weight});
    tp_tensor *loss;
    if (pos_weight) { /* (1 - t) x + (1 + (w - 1) t) log(1 + exp(-x)) */
        tp_tensor *grown = tp_add(1, tp_mul(tp_sub(pos_weight, 1), target));
        loss = tp_add(tp_mul(tp_sub(1, target), x), tp_mul(grown, tp_softplus(tp_neg(x))));
    } else {
        loss = tp_sub(tp_softplus(x), tp_mul(x, target));
    }
    return tpi_reduced(at, weight ? tp_mul(loss, weight) : loss, reduction);
}

TPI_COMPOSITE(tp_kl_div, (tp_tensor * log_q, tp_tensor *p, tp_reduction reduction), log_q, p,
              reduction)
{
    tp_tensor *failed = take_pair(at, "kl_div", "log_q", &log_q, &p, reduction);
    if (failed)
        return failed;
    tp_tensor *zero = tp_eq(p, 0);
    tp_tensor *log_p = tp_log(tp_where(zero, 1, p));
    tp_tensor *loss = tp_mul(p, tp_sub(log_p, log_q));
    return tpi_reduced(at, tp_where(zero, 0, loss), reduction);
}

TPI_COMPOSITE(tp_poisson_nll, (tp_tensor * x, tp_tensor *target, tp_reduction reduction), x,
              target, reduction)
{
    tp_tensor *failed = take_pair(at, "poisson_nll", "x", &x, &target, reduction);
    return failed ? failed : tpi_reduced(at, tp_sub(tp_exp(x), tp_mul(target, x)), reduction);
}

/* ---- of lines --------------------------------------------------------------------------------------- */

TPI_COMPOSITE(tp_cosine_similarity, (tp_tensor * a, tp_tensor *b, int axis, double eps), a, b,
              axis, eps)
{
    const char *what = "cosine_similarity";
    tp_tensor *failed = take_pair(at, what, "a", &a, &b, TP_MEAN);
    if (failed)
        return failed;
    const int64_t along = tpi_own_axis(at, what, a, axis, &failed);
    if (failed)
        return failed;
    if ((failed = tpi_refuse_number(at, what, a, "eps", eps, 0, DBL_MAX)))
        return failed;
    a = tp_normalize(a, 2, (int)along, eps);
    b = tp_normalize(b, 2, (int)along, eps);
    return tp_sum(tp_mul(a, b), 1, &along, false);
}

/* Lines a and b [n, d], and a margin. */
static tp_tensor *take_lines(tpi_at at, const char *what, tp_tensor **a, tp_tensor **b,
                             double margin, tp_reduction how)
{
    tp_tensor *failed = take_pair(at, what, "a", a, b, how);
    if (failed ||
        (failed = tpi_refuse_number(at, what, *a, "margin", margin, -DBL_MAX, DBL_MAX)))
        return failed;
    return (*a)->rank ? NULL
                      : tpi_fail((*a)->ctx, at, what, TP_E_SHAPE, "a and b have no axes");
}

TPI_COMPOSITE(tp_cosine_loss,
              (tp_tensor * a, tp_tensor *b, tp_tensor *target, double margin,
               tp_reduction reduction),
              a, b, target, margin, reduction)
{
    const char *what = "cosine_loss";
    tp_tensor *failed = take_lines(at, what, &a, &b, margin, reduction);
    if (failed || (failed = tpi_refuse_operand(a->ctx, at, what, 2, target)))
        return failed;
    bool fits = target->rank == a->rank - 1;
    for (int i = 0; fits && i < target->rank; i++)
        fits = target->shape[i] == a->shape[i];
    if (!fits)
        return tpi_fail(a->ctx, at, what, TP_E_SHAPE,
                        "target is %s, not one number for each line of a %s", SHAPE(target),
                        SHAPE(a));
    tpi_all_beside(at, 3, (tp_tensor * *const[]){&a, &b, &target});
    tp_tensor *cos = tp_cosine_similarity(a, b, -1, 1e-8);
    tp_tensor *alike = tp_sub(1, cos);
    tp_tensor *apart = tp_relu(tp_sub(cos, tp_scalar_like(cos, margin)));
    tp_tensor *same = tp_gt(target, 0);
    return tpi_reduced(at, tp_where(same, alike, apart), reduction);
}

TPI_COMPOSITE(tp_triplet,
              (tp_tensor * anchor, tp_tensor *positive, tp_tensor *negative, double margin,
               tp_reduction reduction),
              anchor, positive, negative, margin, reduction)
{
    const char *what = "triplet";
    tp_tensor *failed = take_lines(at, what, &anchor, &positive, margin, reduction);
    if (failed || (failed = take_lines(at, what, &anchor, &negative, margin, reduction)))
        return failed;
    tpi_all_beside(at, 3, (tp_tensor * *const[]){&anchor, &positive, &negative});
    tp_tensor *more =
        tp_sub(tpi_distance(at, anchor, positive), tpi_distance(at, anchor, negative));
    return tpi_reduced(at, tp_relu(tp_add(more, tp_scalar_like(more, margin))), reduction);
}
