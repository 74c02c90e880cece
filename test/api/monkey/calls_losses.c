/* Calls of losses, normalisations and attention. */
#include "monkey.h"

static tp_reduction reduction(monkey *m)
{
    return rarely(m) ? (tp_reduction)below(m, 9) : (tp_reduction)below(m, 3);
}

/* Two of one shape, now and then. */
static tp_tensor *pair(monkey *m, tp_tensor **y)
{
    tp_tensor *x = number_like(m);
    *y = below(m, 3) ? x : fellow(m, x);
    return x;
}

/* ---- losses -------------------------------------------------------------------------------------- */

#define PAIR(f)                                                                                \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *y, *x = pair(m, &y);                                                        \
        const tp_reduction how = reduction(m);                                                 \
        return put(m, BOTH(m, f, x, y, how));                                                  \
    }
PAIR(tp_l1)
PAIR(tp_hinge)
PAIR(tp_bce)
PAIR(tp_kl_div)
PAIR(tp_poisson_nll)

CALL(tp_huber)
{
    tp_tensor *y, *x = pair(m, &y);
    const double delta = number(m);
    return put(m, BOTH(m, tp_huber, x, y, delta, reduction(m)));
}

CALL(tp_bce_with_logits)
{
    tp_tensor *y, *x = pair(m, &y), *w = below(m, 2) ? fellow(m, x) : NULL;
    tp_tensor *p = below(m, 2) ? fellow(m, x) : NULL;
    return put(m, BOTH(m, tp_bce_with_logits, x, y, w, p, reduction(m)));
}

CALL(tp_cosine_similarity)
{
    tp_tensor *y, *x = pair(m, &y);
    const int along = axis(m);
    return put(m, BOTH(m, tp_cosine_similarity, x, y, along, number(m)));
}

CALL(tp_cosine_loss)
{
    tp_tensor *y, *x = pair(m, &y), *target = tensor(m);
    if (below(m, 3) == 0) {
        x = y = fresh(m, TP_F32, TP_DIMS(2, 3));
        target = fresh(m, TP_I64, TP_DIMS(2));
    }
    const double margin = number(m);
    return put(m, tp_cosine_loss(x, y, target, margin, reduction(m)));
}

CALL(tp_triplet)
{
    tp_tensor *y, *x = pair(m, &y), *z = below(m, 3) ? x : fellow(m, x);
    const double margin = number(m);
    return put(m, tp_triplet(x, y, z, margin, reduction(m)));
}

/* Scores, labels and options. */
#define LABELLED(f)                                                                            \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = number_like(m), *labels = below(m, 3) ? integers(m) : x;                \
        tp_loss_options o = {.reduction = reduction(m), .ignores = below(m, 2)};               \
        o.axis = below(m, 2) ? axis(m) : 0;                                                    \
        o.weights = below(m, 3) ? NULL : tensor(m);                                            \
        o.ignored = below(m, 2) ? size(m) : -1;                                                \
        o.smoothing = below(m, 2) ? number(m) : 0;                                             \
        if (below(m, 3) == 0) {                                                                \
            x = fresh(m, TP_F32, TP_DIMS(2, 3));                                               \
            labels = fresh(m, TP_I64, TP_DIMS(2));                                             \
        }                                                                                      \
        return put(m, BOTH(m, f, x, labels, below(m, 4) ? &o : NULL));                         \
    }
LABELLED(tp_cross_entropy_with)
LABELLED(tp_nll)

CALL(tp_ctc_loss)
{
    tp_tensor *x = number_like(m), *targets = integers(m), *n = integers(m), *t = integers(m);
    if (below(m, 2)) {
        x = fresh(m, TP_F32, TP_DIMS(3, 2, 4));
        targets = fresh(m, TP_I64, TP_DIMS(2, 1));
        n = t = fresh(m, TP_I64, TP_DIMS(2));
    }
    const int64_t blank = below(m, 3) ? 0 : size(m);
    return put(m, tp_ctc_loss(x, targets, n, t, blank, reduction(m)));
}

/* ---- normalisations ------------------------------------------------------------------------------ */

CALL(tp_rms_norm)
{
    tp_tensor *x = number_like(m), *scale = below(m, 2) ? NULL : tensor(m);
    return put(m, BOTH(m, tp_rms_norm, x, scale, number(m)));
}

CALL(tp_group_norm)
{
    tp_tensor *x = number_like(m), *scale = below(m, 2) ? NULL : tensor(m);
    tp_tensor *shift = below(m, 2) ? NULL : tensor(m);
    const int64_t groups = below(m, 2) ? 1 : size(m);
    return put(m, tp_group_norm(x, groups, scale, shift, number(m)));
}

CALL(tp_instance_norm)
{
    tp_tensor *x = below(m, 2) ? number_like(m) : fresh(m, TP_F32, TP_DIMS(2, 3, 4));
    tp_tensor *scale = below(m, 2) ? NULL : tensor(m), *shift = below(m, 2) ? NULL : tensor(m);
    return put(m, tp_instance_norm(x, scale, shift, number(m)));
}

CALL(tp_local_response_norm)
{
    tp_tensor *x = number_like(m);
    const int64_t n = below(m, 2) ? 1 + below(m, 5) : size(m);
    const double alpha = number(m), beta = number(m), bias = number(m);
    return put(m,
               tp_local_response_norm(x, n < 100 || n > 1 << 16 ? n : 100, alpha, beta, bias));
}

CALL(tp_normalize)
{
    tp_tensor *x = number_like(m);
    const double p = below(m, 2) ? 2 : number(m);
    const int along = axis(m);
    return put(m, BOTH(m, tp_normalize, x, p, along, number(m)));
}

/* ---- attention ----------------------------------------------------------------------------------- */

CALL(tp_attention)
{
    tp_tensor *q = number_like(m), *k = fellow(m, q), *v = fellow(m, q), *present[2];
    if (below(m, 2))
        q = k = v = fresh(m, TP_F32, TP_DIMS(1, 2, 3, 2));
    tp_attention_options o = {.causal = below(m, 2)};
    o.scale = below(m, 3) ? 0 : number(m);
    o.softcap = below(m, 3) ? 0 : number(m);
    o.before = below(m, 3) ? 0 : size(m);
    o.after = below(m, 3) ? 0 : size(m);
    o.mask = below(m, 3) ? NULL : tensor(m);
    o.lengths = below(m, 3) ? NULL : integers(m);
    o.past_key = below(m, 3) ? NULL : fellow(m, k);
    o.past_value = below(m, 3) ? NULL : fellow(m, v);
    return put(m, BOTH(m, tp_attention, q, k, v, below(m, 4) ? &o : NULL, present));
}

CALL(tp_rotary)
{
    tp_tensor *x = number_like(m), *c = fellow(m, x), *s = below(m, 2) ? c : fellow(m, x);
    if (below(m, 2)) {
        x = fresh(m, TP_F32, TP_DIMS(2, 4));
        c = s = fresh(m, TP_F32, TP_DIMS(2, 1 + below(m, 2)));
    }
    const bool neighbours = below(m, 2);
    return put(m, BOTH(m, tp_rotary, x, c, s, neighbours));
}
