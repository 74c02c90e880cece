/* Connectionist temporal classification: Graves, Fernandez, Gomez and Schmidhuber, 2006.
 *
 * A reading of s labels goes through 2 s + 1 states: blank, label, blank, ..., label, blank. In one turn it stays, goes
 * on to the next state, or leaves out a blank between labels that differ. `alpha` [n, 2 s + 1] is the logarithm of the
 * probability of being in a state after so many turns, and -infinity where there is no way. */
#include "composite/composite.h"
#include "tapir/control.h"

#include <math.h>

typedef struct reading {
    tp_tensor *log_probs;       /* [t, n, c] */
    tp_tensor *targets;         /* i64 [n, s] */
    tp_tensor *times, *lengths; /* i64 [n, 1] */
    double blank;
} reading;

static tp_tensor *refuse(tpi_at at, const char *what, const reading *r, int64_t blank)
{
    const tp_tensor *x = r->log_probs, *y = r->targets;
    tp_tensor *failed;
    if ((failed = tpi_refuse_integer(at, what, x, "targets", 1, r->targets)) ||
        (failed = tpi_refuse_integer(at, what, x, "times", 2, r->times)) ||
        (failed = tpi_refuse_integer(at, what, x, "lengths", 3, r->lengths)) ||
        (failed = tpi_refuse_count(at, what, x, "blank", blank, 0)))
        return failed;
    if (x->rank != 3 || y->rank != 2 || r->times->rank != 1 || r->lengths->rank != 1 ||
        y->shape[0] != x->shape[1] || r->times->shape[0] != x->shape[1] ||
        r->lengths->shape[0] != x->shape[1])
        return tpi_fail(
            x->ctx, at, what, TP_E_SHAPE,
            "log_probs are %s, targets %s, times %s, lengths %s, not [t, n, c], [n, s], "
            "[n], [n]",
            SHAPE(x), SHAPE(y), SHAPE(r->times), SHAPE(r->lengths));
    if (x->shape[2] >= 0 && blank >= x->shape[2])
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "blank is %lld, no class of %s",
                        (long long)blank, SHAPE(x));
    return NULL;
}

/* [n, s] of what is between and what is there -> [n, 2 s + 1], which begins and ends with what is between. */
static tp_tensor *between(tpi_at at, tp_tensor *gap, tp_tensor *of, double value)
{
    tp_tensor *pairs[] = {tp_broadcast(gap, 2, of->shape), of};
    return tp_pad(tp_flatten(tp_stack(2, pairs, 2), 1), 2, (int64_t[]){0, 0}, (int64_t[]){0, 1},
                  value);
}

/* The elements of each line `by` places on, behind that many of `value`. */
static tp_tensor *moved(tpi_at at, tp_tensor *x, int64_t by, double value)
{
    tp_tensor *wide = tp_pad(x, 2, (int64_t[]){0, by}, (int64_t[]){0, 0}, value);
    return tpi_slice(at, wide, 1, 0, by, 1);
}

/* log(exp(a) + exp(b) + exp(c)), where -infinity is no number that anything is taken from. */
static tp_tensor *log_of_sum(tpi_at at, tp_tensor *a, tp_tensor *b, tp_tensor *c)
{
    tp_tensor *top = tp_detach(tp_max(a, tp_max(b, c)));
    tp_tensor *dead = tp_eq(top, -INFINITY);
    top = tp_where(dead, 0, top);
    tp_tensor *sum =
        tp_add(tp_add(tp_exp(tp_sub(a, top)), tp_exp(tp_sub(b, top))), tp_exp(tp_sub(c, top)));
    sum = tp_where(dead, 1, sum);
    return tp_where(dead, -INFINITY, tp_add(top, tp_log(sum)));
}

/* Of each turn and state its logarithm, [t, n, 2 s + 1]; *skips: whether the blank before a state may be left out. */
static tp_tensor *emissions(tpi_at at, const reading *r, tp_tensor **skips)
{
    tp_tensor *place = tpi_iota(at, r->targets, r->targets->shape[1]);
    tp_tensor *blank = tp_scalar_like(r->targets, r->blank);
    tp_tensor *labels = tp_where(tp_lt(place, r->lengths), r->targets, blank);
    labels = tpi_classes_of(at, labels, r->log_probs, 2);
    tp_tensor *differs = tp_ne(labels, moved(at, labels, 1, -1));
    *skips = between(at, tp_ne(blank, blank), differs, 0);
    labels = tp_unsqueeze(between(at, blank, labels, r->blank), 0);
    if (labels->status != TP_OK)
        return labels;
    const int64_t shape[3] = {r->log_probs->shape[0], labels->shape[1], labels->shape[2]};
    return tp_take_along(r->log_probs, tp_broadcast(labels, 3, shape), 2);
}

/* Before the first turn: as if in the first blank, which is stayed in, or left. [n, 2 s + 1] */
static tp_tensor *begin(tpi_at at, const reading *r, tp_tensor *skips)
{
    tp_tensor *state = tpi_iota(at, r->log_probs, skips->shape[1]);
    tp_tensor *zero = tp_scalar_like(r->log_probs, 0);
    tp_tensor *alpha = tp_where(tp_eq(state, 0), zero, tp_scalar_like(r->log_probs, -INFINITY));
    return tp_broadcast(alpha, 2, skips->shape);
}

/* In the last label, or in the blank after it: [n] */
static tp_tensor *end(tpi_at at, const reading *r, tp_tensor *alpha)
{
    tp_tensor *last = tp_mul(r->lengths, 2), *none = tp_scalar_like(alpha, -INFINITY);
    tp_tensor *in_label = tp_take_along(alpha, tp_max(tp_sub(last, 1), 0), 1);
    in_label = tp_where(tp_eq(r->lengths, 0), -INFINITY, in_label);
    tp_tensor *in_blank = tp_take_along(alpha, last, 1);
    return tp_squeeze(log_of_sum(at, in_label, in_blank, none), 1);
}

static tp_tensor *likelihood(tpi_at at, const reading *r)
{
    tp_tensor *skips = NULL, *emitted = emissions(at, r, &skips);
    if (emitted->status != TP_OK)
        return emitted;
    tp_tensor *alpha = begin(at, r, skips);
    tp_for (r->log_probs->shape[0], &alpha) {
        tp_tensor *left_out = tp_where(skips, moved(at, alpha, 2, -INFINITY), -INFINITY);
        tp_tensor *now = log_of_sum(at, alpha, moved(at, alpha, 1, -INFINITY), left_out);
        now = tp_add(now, tp_each(emitted));
        alpha = tp_where(tp_lt(tp_turn(alpha->ctx), r->times), now, alpha);
    }
    return alpha->status != TP_OK ? alpha : end(at, r, alpha);
}

TPI_COMPOSITE(tp_ctc_loss,
              (tp_tensor * log_probs, tp_tensor *targets, tp_tensor *times, tp_tensor *lengths,
               int64_t blank, tp_reduction reduction),
              log_probs, targets, times, lengths, blank, reduction)
{
    const char *what = "ctc_loss";
    reading r = {log_probs, targets, times, lengths, (double)blank};
    tp_tensor *failed = tpi_refuse_float(at, what, TPI_IN(log_probs, targets, times, lengths));
    if (failed || (failed = refuse(at, what, &r, blank)) ||
        (failed = tpi_refuse_reduction(at, what, log_probs, reduction)))
        return failed;
    tpi_all_beside(at, 4,
                   (tp_tensor * *const[]){&r.log_probs, &r.targets, &r.times, &r.lengths});
    r.targets = tpi_as_index(at, r.targets);
    r.times = tpi_lengths_of(at, what, "times", r.times, r.log_probs, 0, &failed);
    if (!failed)
        r.lengths = tpi_lengths_of(at, what, "lengths", r.lengths, r.targets, 1, &failed);
    if (failed)
        return failed;
    r.times = tp_unsqueeze(r.times, 1);
    r.lengths = tp_unsqueeze(r.lengths, 1);
    tp_tensor *loss = tp_neg(likelihood(at, &r));
    if (reduction == TP_MEAN) {
        tp_tensor *n = tp_cast(tp_squeeze(r.lengths, 1), (tp_dtype)log_probs->dtype);
        loss = tp_div(loss, tp_max(n, 1));
    }
    return tpi_reduced(at, loss, reduction);
}
