/* Normalisations, and softmax. */
#include "composite/composite.h"
#include "onnx/import/import.h"

/* ---- parts -------------------------------------------------------------------------------------- */

static double epsilon(const tpi_onnx_op *o)
{
    return tpi_onnx_float(o, "epsilon");
}

/* y * scale + shift; what is not there is left out. */
static tp_tensor *scaled(tpi_onnx_op *o, tp_tensor *y, tp_tensor *scale, tp_tensor *shift)
{
    y = tpi_onnx_joined(o, tp_mul_at, y, scale);
    return shift ? tpi_onnx_joined(o, tp_add_at, y, shift) : y;
}

/* Scale and shift, operands 1 up to `last`, with the size of x's axis 1. */
static void agree_channels(tpi_onnx_op *o, tp_tensor *x, int last)
{
    for (int k = 1; k <= last && x->rank > 1; k++)
        if (!tp_failed(o->x[k]) && tp_rank(o->x[k]) == 1)
            o->x[k] = tpi_onnx_fitted(o, o->x[k], 0, x->shape[1]);
}

/* The same of channels. */
static tp_tensor *scaled_channels(tpi_onnx_op *o, tp_tensor *y, int rank)
{
    tp_tensor *scale = tpi_onnx_per_channel(o, o->x[1], rank);
    return scaled(o, y, scale, tpi_onnx_per_channel(o, o->x[2], rank));
}

static tp_tensor *as_type_of(tpi_onnx_op *o, tp_tensor *t, const tp_tensor *like)
{
    return tp_cast(t, (tp_dtype)like->dtype);
}

/* ---- with running numbers ------------------------------------------------------------------------ */

/* now, by `momentum` still what it was. */
static bool out_running(tpi_onnx_op *o, int k, tp_tensor *was, tp_tensor *now)
{
    const double momentum = tpi_onnx_float(o, "momentum");
    now = as_type_of(o, tp_reshape(now, 1, (const int64_t[]){-1}), was);
    return tpi_onnx_out(o, k,
                        tp_add(tp_mul(was, tp_scalar_like(was, momentum)),
                               tp_mul(now, tp_scalar_like(now, 1 - momentum))));
}

bool tpi_onnx_import_batch_norm(tpi_onnx_op *o)
{
    tp_tensor *x = o->x[0], *scale = o->x[1], *shift = o->x[2];
    tp_tensor *mean = o->x[3], *var = o->x[4];
    const bool train = o->opset >= 14 && tpi_onnx_int(o, "training_mode") != 0;
    if (!tpi_onnx_int(o, "spatial"))
        return tpi_onnx_refuse(o, "spatial 0 is not supported");
    for (int k = 1; k < o->n_out && !train; k++)
        if (tpi_onnx_wants(o, k))
            return tpi_onnx_refuse(o, "output %d is there in training only, from opset 14 on",
                                   k);
    tp_tensor **const own[] = {&scale, &shift, &mean, &var};
    for (int k = 0; k < 4 && x->rank > 1; k++)
        if (!tp_failed(*own[k]) && tp_rank(*own[k]) == 1)
            tpi_onnx_agree_on(o, &x, 1, own[k], 0);
    if (!train)
        return tpi_onnx_out(
            o, 0, as_type_of(o, tp_batch_norm(x, scale, shift, mean, var, epsilon(o)), x));
    int64_t axes[TP_MAX_RANK];
    int n = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != 1)
            axes[n++] = i;
    const tpi_standard now = tpi_standardise(o->at, x, n, axes, epsilon(o));
    tp_tensor *y = tp_mul(now.y, tpi_onnx_per_channel(o, scale, x->rank));
    y = tp_add(y, tpi_onnx_per_channel(o, shift, x->rank));
    return tpi_onnx_out(o, 0, as_type_of(o, y, x)) &&
           (!tpi_onnx_wants(o, 1) || out_running(o, 1, mean, now.mean)) &&
           (!tpi_onnx_wants(o, 2) || out_running(o, 2, var, now.var));
}

/* ---- of what is there ----------------------------------------------------------------------------- */

tp_tensor *tpi_onnx_import_instance_norm(tpi_onnx_op *o, tp_tensor *x)
{
    agree_channels(o, x, 2);
    return tp_instance_norm(x, o->x[1], o->x[2], epsilon(o));
}

bool tpi_onnx_import_layer_norm(tpi_onnx_op *o)
{
    int64_t axes[TP_MAX_RANK];
    const int n = tpi_onnx_axes_from(o->axis, o->x[0]->rank, axes);
    const tpi_standard s = tpi_standardise(o->at, o->x[0], n, axes, epsilon(o));
    tp_tensor *y = scaled(o, s.y, o->x[1], o->x[2]);
    const tp_dtype stash = tpi_onnx_type_or(o, "stash_type", TP_F32);
    return tpi_onnx_out(o, 0, y) &&
           (!tpi_onnx_wants(o, 1) || tpi_onnx_out(o, 1, tp_cast(s.mean, stash))) &&
           (!tpi_onnx_wants(o, 2) || tpi_onnx_out(o, 2, tp_cast(s.factor, stash)));
}

tp_tensor *tpi_onnx_import_rms_norm(tpi_onnx_op *o, tp_tensor *x)
{
    int64_t axes[TP_MAX_RANK];
    const int n = tpi_onnx_axes_from(o->axis, x->rank, axes);
    return scaled(o, tpi_over_rms(o->at, x, n, axes, epsilon(o)), o->x[1], NULL);
}

/* Scale and shift are of a group before opset 21, of a channel from there on. */
tp_tensor *tpi_onnx_import_group_norm(tpi_onnx_op *o, tp_tensor *x)
{
    const int64_t groups = tpi_onnx_int(o, "num_groups");
    if (o->opset >= 21) {
        agree_channels(o, x, 2);
        return tp_group_norm(x, groups, o->x[1], o->x[2], epsilon(o));
    }
    tp_tensor *y = tp_group_norm(x, groups, NULL, NULL, epsilon(o));
    const int64_t grouped[3] = {x->shape[0], groups, -1};
    y = scaled_channels(o, tp_reshape(y, 3, grouped), 3);
    return tp_reshape(y, x->rank, x->shape);
}

tp_tensor *tpi_onnx_import_lp_norm(tpi_onnx_op *o, tp_tensor *x)
{
    const int64_t p = tpi_onnx_int(o, "p");
    if (p != 1 && p != 2)
        return tpi_onnx_refuse(o, "p is %lld, not 1 or 2", (long long)p);
    return tp_normalize(x, (double)p, o->axis, 0);
}

tp_tensor *tpi_onnx_import_mean_variance_norm(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_ints axes;
    if (!tpi_onnx_axes(o, x->rank, &axes))
        return NULL;
    if (!tpi_onnx_given(o, "axes")) {
        if (x->rank != 4)
            return tpi_onnx_refuse(o, "x is %s, and no axes are named", SHAPE(x));
        axes = (tpi_onnx_ints){
            .n = 3, .v = {0, 2, 3}
        };
    }
    tp_tensor *away = tpi_centred(o->at, x, axes.n, axes.v, NULL);
    tp_tensor *spread = tp_sqrt(tp_mean(tp_square(away), axes.n, axes.v, true));
    return tp_div(away, tp_add(spread, tp_scalar_like(spread, 1e-9)));
}

tp_tensor *tpi_onnx_import_lrn(tpi_onnx_op *o, tp_tensor *x)
{
    const int64_t size = tpi_onnx_int(o, "size");
    if (size > 1 && !tpi_onnx_spend(o, 2 * (size < 1 << 16 ? size : 1 << 16)))
        return NULL;
    return tp_local_response_norm(x, size, tpi_onnx_float(o, "alpha"),
                                  tpi_onnx_float(o, "beta"), tpi_onnx_float(o, "bias"));
}

/* ---- softmax --------------------------------------------------------------------------------------- */

/* Before opset 13 all axes from `axis` on are one. */
static bool soft_axes(tpi_onnx_op *o, const tp_tensor *x, int *n, int64_t *axes)
{
    int axis = 0;
    const int64_t named = tpi_onnx_int(o, "axis");
    if (o->opset < 13 && named == x->rank) { /* lines of one element each */
        *n = 0;
        return true;
    }
    if (!tpi_onnx_positive(o, named, x->rank, &axis))
        return false;
    *n = tpi_onnx_axes_from(axis, o->opset < 13 ? x->rank : axis + 1, axes);
    return true;
}

tp_tensor *tpi_onnx_import_softmax(tpi_onnx_op *o, tp_tensor *x)
{
    int n;
    int64_t axes[TP_MAX_RANK];
    const bool logs = o->row == TPI_OPERATOR_LogSoftmax;
    if (!soft_axes(o, x, &n, axes))
        return NULL;
    if (n == 0)
        return tp_add(tp_sub(x, x), tp_scalar_like(x, !logs));
    if (n == 1)
        return logs ? tp_log_softmax(x, (int)axes[0]) : tp_softmax(x, (int)axes[0]);
    tp_tensor *flat = tp_flatten(x, (int)axes[0]);
    flat = logs ? tp_log_softmax(flat, -1) : tp_softmax(flat, -1);
    return tp_reshape(flat, x->rank, x->shape);
}

tp_tensor *tpi_onnx_import_hardmax(tpi_onnx_op *o, tp_tensor *x)
{
    int n;
    int64_t axes[TP_MAX_RANK];
    if (!soft_axes(o, x, &n, axes))
        return NULL;
    if (n == 0)
        return tp_add(tp_sub(x, x), tp_scalar_like(x, 1));
    if (n == 1)
        return tp_hardmax(x, (int)axes[0]);
    return tp_reshape(tp_hardmax(tp_flatten(x, (int)axes[0]), -1), x->rank, x->shape);
}
