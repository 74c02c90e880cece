/* Composites: plain functions over the public ops, so that gradients, graphs and export come for
 * nothing. What is refused here is refused with the composite's name and the user's line. */
#include "base/float_mode.h"
#include "ir/graph_def.h"
#include "op/sizes.h"

#undef TP_PLACE
#define TP_PLACE file, line

/* NULL, or the failed tensor to return when x, the first operand, is no good float tensor. The
 * others may be missing; they give a context to blame when x is NULL. */
static tp_tensor *refuse_float(const char *file, int line, const char *what, int n,
                               tp_tensor *const *in)
{
    const tpi_at at = TPI_AT(file, line);
    const tp_tensor *x = in[0];
    tp_tensor *failed =
        x ? tpi_refuse_operand(NULL, at, what, 0, x) : tpi_refuse_operands(at, what, n, in);
    if (failed || x->dtype >= TP_F32)
        return failed;
    return tpi_fail(x->ctx, at, what, TP_E_DTYPE, "x is %s; tp_cast it to f32 or f64 first",
                    tp_dtype_name((tp_dtype)x->dtype));
}

/* The same when `p`, unless it is NULL, is not one number for each of x's c. */
static tp_tensor *refuse_channels(const char *file, int line, const char *what,
                                  const char *name, const tp_tensor *x, int axis, tp_tensor *p)
{
    if (!p)
        return NULL;
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(x->ctx, at, what, 0, p);
    if (failed || (p->rank == 1 && p->shape[0] == x->shape[axis]))
        return failed;
    return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                    "%s is %s, not one number for axis %d of x %s", name, SHAPE(p), axis,
                    SHAPE(x));
}

static tp_tensor *refuse_eps(const char *file, int line, const char *what, const tp_tensor *x,
                             double eps)
{
    TPI_DEFAULT_FLOAT_MODE;
    if (tpi_is_near_handle(x->ctx, eps))
        return tpi_fail_near_handle(x->ctx, TPI_AT(file, line), what, eps);
    if (eps >= 0 && eps < 1e300)
        return NULL;
    return tpi_fail(x->ctx, TPI_AT(file, line), what, TP_E_VALUE, "eps is %g, not at least 0",
                    eps);
}

/* p as x's graph sees it. Without this an op on p alone would be computed while the graph is
 * built: a variable would be read only then, and a parameter would be lost to gradients. */
static tp_tensor *beside(const char *file, int line, const tp_tensor *x, tp_tensor *p)
{
    return p && x->graph && !p->graph ? tpi_graph_lift(tpi_graph_here(x), TPI_AT(file, line), p)
                                      : p;
}

/* ---- elementwise -------------------------------------------------------------------------------- */

tp_tensor *tp_square_at(const char *file, int line, tp_tensor *x)
{
    return tp_mul(x, x);
}
TPI_BARE(tp_tensor *, tp_square, (tp_tensor * x), x)

tp_tensor *tp_gelu_at(const char *file, int line, tp_tensor *x)
{
    tp_tensor *failed = refuse_float(file, line, "gelu", TPI_IN(x));
    if (failed)
        return failed;
    tp_tensor *normal = tp_erf(tp_mul(x, tp_scalar_like(x, 0.70710678118654752)));
    tp_tensor *half = tp_mul(x, tp_scalar_like(x, 0.5));
    return tp_mul(half, tp_add(normal, tp_scalar_like(x, 1)));
}
TPI_BARE(tp_tensor *, tp_gelu, (tp_tensor * x), x)

tp_tensor *tp_silu_at(const char *file, int line, tp_tensor *x)
{
    tp_tensor *failed = refuse_float(file, line, "silu", TPI_IN(x));
    return failed ? failed : tp_mul(x, tp_sigmoid(x));
}
TPI_BARE(tp_tensor *, tp_silu, (tp_tensor * x), x)

tp_tensor *tp_clip_at(const char *file, int line, tp_tensor *x, double lo, double hi)
{
    return tp_min(tp_max(x, tp_scalar_like(x, lo)), tp_scalar_like(x, hi));
}
TPI_BARE(tp_tensor *, tp_clip, (tp_tensor * x, double lo, double hi), x, lo, hi)

tp_tensor *tp_dropout_at(const char *file, int line, tp_tensor *x, double p)
{
    TPI_DEFAULT_FLOAT_MODE;
    tp_tensor *failed = refuse_float(file, line, "dropout", TPI_IN(x));
    if (failed)
        return failed;
    if (tpi_is_near_handle(x->ctx, p))
        return tpi_fail_near_handle(x->ctx, TPI_AT(file, line), "dropout", p);
    if (!(p >= 0 && p < 1))
        return tpi_fail(x->ctx, TPI_AT(file, line), "dropout", TP_E_VALUE,
                        "p is %g, not in [0, 1)", p);
    tp_tensor *kept = tp_ge(tp_uniform_like(x, 0, 1), tp_scalar_like(x, p));
    tp_tensor *grown = tp_div(x, tp_scalar_like(x, 1 - p));
    return tp_where(kept, grown, tp_scalar_like(x, 0));
}
TPI_BARE(tp_tensor *, tp_dropout, (tp_tensor * x, double p), x, p)

/* ---- means ------------------------------------------------------------------------------------------ */

/* The mean of numbers far from 0 is off by some units of their last place, which may be more than they
 * differ by. What is left of it is the mean of the differences, whose own rounding is that of numbers
 * as small as they are. But for rounding it is 0, whatever x is, and so it has no gradient. */
tp_tensor *tpi_centred(tpi_at at, tp_tensor *x, int n, const int64_t *axes, tp_tensor **mean)
{
    const char *file = at.file;
    const int line = at.line;
    tp_tensor *about = tp_mean(x, n, axes, true), *away = tp_sub(x, about);
    tp_tensor *left = tp_detach(tp_mean(away, n, axes, true));
    if (mean)
        *mean = tp_add(about, left);
    return tp_sub(away, left);
}

/* ---- along an axis ------------------------------------------------------------------------------ */

/* x minus its greatest value along the axis, which shifts no softmax and so has no gradient.
 * NULL, and *failed, when x or the axis is no good. */
static tp_tensor *below_max(const char *file, int line, const char *what, tp_tensor *x,
                            int64_t *axis, tp_tensor **failed)
{
    *failed = refuse_float(file, line, what, TPI_IN(x));
    if (*failed)
        return NULL;
    const int found = tpi_axis(*axis, x->rank);
    if (found < 0) {
        *failed = tpi_fail(x->ctx, TPI_AT(file, line), what, TP_E_AXIS,
                           "axis %lld is out of range for %s", (long long)*axis, SHAPE(x));
        return NULL;
    }
    *axis = found;
    return tp_sub(x, tp_detach(tp_reduce_max(x, 1, axis, true)));
}

tp_tensor *tp_softmax_at(const char *file, int line, tp_tensor *x, int axis)
{
    tp_tensor *failed;
    int64_t a = axis;
    tp_tensor *below = below_max(file, line, "softmax", x, &a, &failed);
    if (!below)
        return failed;
    tp_tensor *e = tp_exp(below);
    tp_tensor *share = tp_div(tp_scalar_like(e, 1), tp_sum(e, 1, &a, true)); /* one division */
    return tp_mul(e, share);
}
TPI_BARE(tp_tensor *, tp_softmax, (tp_tensor * x, int axis), x, axis)

static tp_tensor *log_softmax(const char *file, int line, const char *what, tp_tensor *x,
                              int64_t axis)
{
    tp_tensor *failed;
    tp_tensor *below = below_max(file, line, what, x, &axis, &failed);
    if (!below)
        return failed;
    return tp_sub(below, tp_log(tp_sum(tp_exp(below), 1, &axis, true)));
}

tp_tensor *tp_log_softmax_at(const char *file, int line, tp_tensor *x, int axis)
{
    return log_softmax(file, line, "log_softmax", x, axis);
}
TPI_BARE(tp_tensor *, tp_log_softmax, (tp_tensor * x, int axis), x, axis)

tp_tensor *tp_layer_norm_at(const char *file, int line, tp_tensor *x, tp_tensor *scale,
                            tp_tensor *shift, double eps)
{
    const char *what = "layer_norm";
    tp_tensor *failed = refuse_float(file, line, what, TPI_IN(x, scale, shift));
    if (failed)
        return failed;
    if (x->rank == 0)
        return tpi_fail(x->ctx, TPI_AT(file, line), what, TP_E_AXIS, "x has no axes");
    const int64_t last = x->rank - 1;
    if ((failed = refuse_channels(file, line, what, "scale", x, (int)last, scale)) ||
        (failed = refuse_channels(file, line, what, "shift", x, (int)last, shift)) ||
        (failed = refuse_eps(file, line, what, x, eps)))
        return failed;
    tp_tensor *away = tpi_centred(TPI_AT(file, line), x, 1, &last, NULL);
    tp_tensor *var = tp_mean(tp_square(away), 1, &last, true);
    tp_tensor *y = tp_mul(away, tp_rsqrt(tp_add(var, tp_scalar_like(var, eps))));
    y = scale ? tp_mul(y, scale) : y;
    return shift ? tp_add(y, shift) : y;
}
TPI_BARE(tp_tensor *, tp_layer_norm,
         (tp_tensor * x, tp_tensor *scale, tp_tensor *shift, double eps), x, scale, shift, eps)

/* ---- batch normalisation ------------------------------------------------------------------------ */

/* [c] as [c, 1, ...], which broadcasts along axis 1 of x. */
static tp_tensor *per_channel(const char *file, int line, const tp_tensor *x, tp_tensor *p)
{
    const int64_t shape[TP_MAX_RANK] = {x->shape[1], 1, 1, 1, 1, 1, 1, 1};
    p = beside(file, line, x, p);
    return x->rank == 2 ? p : tp_reshape(p, x->rank - 1, shape);
}

static tp_tensor *refuse_batch(const char *file, int line, const char *what, tp_tensor *x,
                               tp_tensor *scale, tp_tensor *shift, double eps)
{
    tp_tensor *failed = refuse_float(file, line, what, TPI_IN(x, scale, shift));
    if (failed)
        return failed;
    if (x->rank < 2)
        return tpi_fail(x->ctx, TPI_AT(file, line), what, TP_E_SHAPE,
                        "x is %s, without an axis 1 of channels", SHAPE(x));
    failed = refuse_channels(file, line, what, "scale", x, 1, scale);
    if (!failed)
        failed = refuse_channels(file, line, what, "shift", x, 1, shift);
    return failed ? failed : refuse_eps(file, line, what, x, eps);
}

tp_tensor *tp_batch_norm_at(const char *file, int line, tp_tensor *x, tp_tensor *scale,
                            tp_tensor *shift, tp_tensor *mean, tp_tensor *var, double eps)
{
    const char *what = "batch_norm";
    tp_tensor *failed = refuse_batch(file, line, what, x, scale, shift, eps);
    if (failed || (failed = tpi_refuse_operand(x->ctx, TPI_AT(file, line), what, 3, mean)) ||
        (failed = tpi_refuse_operand(x->ctx, TPI_AT(file, line), what, 4, var)) ||
        (failed = refuse_channels(file, line, what, "mean", x, 1, mean)) ||
        (failed = refuse_channels(file, line, what, "var", x, 1, var)))
        return failed;
    var = beside(file, line, x, var);
    tp_tensor *factor = tp_rsqrt(tp_add(var, tp_scalar_like(var, eps)));
    factor = scale ? tp_mul(factor, scale) : factor;
    tp_tensor *away = tp_sub(x, per_channel(file, line, x, mean));
    tp_tensor *y = tp_mul(away, per_channel(file, line, x, factor));
    return shift ? tp_add(y, per_channel(file, line, x, shift)) : y;
}
TPI_BARE(tp_tensor *, tp_batch_norm,
         (tp_tensor * x, tp_tensor *scale, tp_tensor *shift, tp_tensor *mean, tp_tensor *var,
          double eps),
         x, scale, shift, mean, var, eps)

/* running += momentum * (now - running); `now` [1, c, 1, ...] */
static tp_tensor *move_toward(const char *file, int line, tp_tensor *running, tp_tensor *now,
                              double momentum)
{
    now = tp_reshape(tp_detach(now), 1, running->shape);
    now = tp_cast(now, (tp_dtype)running->dtype);
    tp_tensor *way = tp_mul(tp_sub(now, running), tp_scalar_like(running, momentum));
    return tp_assign(running, tp_add(running, way));
}

tp_tensor *tp_batch_norm_train_at(const char *file, int line, tp_tensor *x, tp_tensor *scale,
                                  tp_tensor *shift, tp_tensor *running_mean,
                                  tp_tensor *running_var, double momentum, double eps)
{
    const char *what = "batch_norm_train";
    tp_tensor *failed = refuse_batch(file, line, what, x, scale, shift, eps);
    if (failed ||
        (failed = refuse_channels(file, line, what, "running_mean", x, 1, running_mean)) ||
        (failed = refuse_channels(file, line, what, "running_var", x, 1, running_var)))
        return failed;
    int64_t axes[TP_MAX_RANK];
    int n_axes = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != 1)
            axes[n_axes++] = i;
    tp_tensor *mean = NULL;
    tp_tensor *away =
        tpi_centred(TPI_AT(file, line), x, n_axes, axes, running_mean ? &mean : NULL);
    tp_tensor *var = tp_mean(tp_square(away), n_axes, axes, true);
    tp_tensor *factor = tp_rsqrt(tp_add(var, tp_scalar_like(var, eps)));
    factor = scale ? tp_mul(factor, per_channel(file, line, x, scale)) : factor;

    tp_tensor *moved[2];
    int n_moved = 0;
    if (running_mean)
        moved[n_moved++] = move_toward(file, line, running_mean, mean, momentum);
    if (running_var) {
        tp_tensor *one = tp_scalar_like(var, 1);
        tp_tensor *n = tp_extent(x, n_axes, axes, (tp_dtype)x->dtype);
        tp_tensor *unbiased = tp_div(n, tp_max(tp_sub(n, one), one));
        moved[n_moved++] =
            move_toward(file, line, running_var, tp_mul(tp_detach(var), unbiased), momentum);
    }
    if (n_moved > 0) /* a graph that needs y then needs the assignments */
        factor = tp_where(tp_group(n_moved, moved), factor, tp_scalar_like(factor, 0));
    tp_tensor *y = tp_mul(away, factor);
    return shift ? tp_add(y, per_channel(file, line, x, shift)) : y;
}
TPI_BARE(tp_tensor *, tp_batch_norm_train,
         (tp_tensor * x, tp_tensor *scale, tp_tensor *shift, tp_tensor *running_mean,
          tp_tensor *running_var, double momentum, double eps),
         x, scale, shift, running_mean, running_var, momentum, eps)

/* ---- losses and layers --------------------------------------------------------------------------- */

tp_tensor *tp_cross_entropy_at(const char *file, int line, tp_tensor *logits, tp_tensor *labels)
{
    const char *what = "cross_entropy";
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = refuse_float(file, line, what, TPI_IN(logits, labels));
    if (failed || (failed = tpi_refuse_operand(logits->ctx, at, what, 1, labels)))
        return failed;
    if (logits->rank != 2 || labels->rank != 1 || logits->shape[0] != labels->shape[0])
        return tpi_fail(logits->ctx, at, what, TP_E_SHAPE,
                        "logits are %s and labels %s, not [n, c] and [n]", SHAPE(logits),
                        SHAPE(labels));
    if (labels->dtype == TP_BOOL || labels->dtype >= TP_F32)
        return tpi_fail(logits->ctx, at, what, TP_E_DTYPE,
                        "labels are %s; tp_cast them to an integer type first",
                        tp_dtype_name((tp_dtype)labels->dtype));
    tp_tensor *logs = log_softmax(file, line, what, logits, 1);
    labels = tpi_as_index(at, beside(file, line, logits, labels));
    /* No class is counted from the end: labels below 0 are put where none is. */
    tp_tensor *below = tp_sub(labels, tp_extent(logits, 1, (const int64_t[]){1}, TP_I64));
    labels = tp_where(tp_lt(labels, tp_scalar_like(labels, 0)), below, labels);
    return tp_neg(tp_mean(tp_take_along(logs, tp_unsqueeze(labels, 1), 1), TP_ALL, false));
}
TPI_BARE(tp_tensor *, tp_cross_entropy, (tp_tensor * logits, tp_tensor *labels), logits, labels)

tp_tensor *tp_mse_at(const char *file, int line, tp_tensor *y, tp_tensor *target)
{
    const char *what = "mse";
    tp_tensor *failed = refuse_float(file, line, what, TPI_IN(y, target));
    if (failed || (failed = tpi_refuse_operand(y->ctx, TPI_AT(file, line), what, 1, target)))
        return failed;
    /* [n, 1] and [n] would broadcast to [n, n]: hardly ever what is meant. */
    bool same = y->rank == target->rank;
    for (int i = 0; same && i < y->rank; i++)
        same = y->shape[i] == target->shape[i];
    if (!same)
        return tpi_fail(y->ctx, TPI_AT(file, line), what, TP_E_SHAPE,
                        "shapes differ: y %s, target %s", SHAPE(y), SHAPE(target));
    return tp_mean(tp_square(tp_sub(y, target)), TP_ALL, false);
}
TPI_BARE(tp_tensor *, tp_mse, (tp_tensor * y, tp_tensor *target), y, target)

tp_tensor *tp_linear_at(const char *file, int line, tp_tensor *x, tp_tensor *w, tp_tensor *b)
{
    tp_tensor *y = tp_matmul(x, w);
    return b ? tp_add(y, b) : y;
}
TPI_BARE(tp_tensor *, tp_linear, (tp_tensor * x, tp_tensor *w, tp_tensor *b), x, w, b)
