/* A factor of the loss. What it will be is chosen by values, not by branches, so that a graph and a captured function
 * have one way for all steps. */
#include "nn/rule.h"
#include "tapir/composites.h"

#undef TP_PLACE
#define TP_PLACE file, line

struct tp_loss_scale {
    tp_ctx *tp;
    tp_loss_scale_options o;
    tp_tensor *scale, *turns; /* variables: f64; i64, of updates in a row that were finite */
    tpi_changes changes;
};

/* The least and the greatest scale: normal numbers in f32. */
static const double least = 0x1p-126, most = 0x1p127;

/* ---- making ----------------------------------------------------------------------------------- */

/* Are they options that an update can take? Zeros become what they stand for. */
static bool check(const char *file, int line, tp_ctx *tp, tp_loss_scale_options *o)
{
    o->turns = o->turns ? o->turns : 2000;
    if (!tpi_rule_is_below(file, line, tp, "the first scale", &o->first, 65536, INFINITY) ||
        !tpi_rule_is_below(file, line, tp, "the growth", &o->growth, 2, INFINITY) ||
        !tpi_rule_is_below(file, line, tp, "the backoff", &o->backoff, 0.5, 1))
        return false;
    if (tpi_held_in_range(o->first, least) || tpi_held_in_range(most, o->first))
        return tpi_rule_refuses(file, line, tp, "the first scale", "in 2^-126 to 2^127");
    if (tpi_held_in_range(o->growth, 1))
        return tpi_rule_refuses(file, line, tp, "the growth", "at least 1");
    return o->turns > 0 || tpi_rule_refuses(file, line, tp, "the number of turns", "above 0");
}

static bool hold(const char *file, int line, tp_loss_scale *s)
{
    if (!tpi_changes_new(s->tp, &s->changes, 2) || tp_scope_begin(s->tp) != TP_OK)
        return false;
    s->scale =
        tpi_held_new(file, line, tp_scalar(s->tp, TP_F64, s->o.first), "loss_scale.scale");
    s->turns = tpi_held_new(file, line, tp_scalar(s->tp, TP_I64, 0), "loss_scale.turns");
    tp_scope_end(s->tp);
    return !tp_failed(s->scale) && !tp_failed(s->turns);
}

tp_loss_scale *tp_loss_scale_new_at(const char *file, int line, tp_ctx *tp,
                                    const tp_loss_scale_options *opt)
{
    tp_loss_scale_options o = opt ? *opt : (tp_loss_scale_options){0};
    if (!tp || tp_scope_begin(tp) != TP_OK)
        return NULL;
    const bool good = check(file, line, tp, &o);
    tp_scope_end(tp);
    tp_loss_scale *s = good ? tp_alloc(tp, sizeof *s) : NULL;
    if (!s)
        return NULL;
    *s = (tp_loss_scale){.tp = tp, .o = o};
    if (hold(file, line, s))
        return s;
    tp_loss_scale_free(s);
    return NULL;
}

tp_loss_scale *(tp_loss_scale_new)(tp_ctx *tp, const tp_loss_scale_options *opt)
{
    return tp_loss_scale_new_at(NULL, 0, tp, opt);
}

void tp_loss_scale_free(tp_loss_scale *s)
{
    if (!s)
        return;
    tp_ctx *tp = s->tp;
    tp_release(s->scale);
    tp_release(s->turns);
    tpi_changes_free(tp, &s->changes);
    tp_free(tp, s);
}

tp_tensor *tp_loss_scale_state(const tp_loss_scale *s, int i)
{
    return s && i == 0 ? s->scale : s && i == 1 ? s->turns : NULL;
}

/* ---- a step ------------------------------------------------------------------------------------- */

/* The scale in x's type. */
static tp_tensor *scale_of(const char *file, int line, const tp_loss_scale *s, tp_tensor *x)
{
    return tp_cast(tpi_held_now(file, line, x, s->scale), tp_dtype_of(x));
}

tp_tensor *tp_loss_scale_apply_at(const char *file, int line, tp_loss_scale *s, tp_tensor *loss)
{
    if (!s || !loss)
        return tp_fail(s ? s->tp : tp_ctx_of(loss), TP_E_NULL,
                       s ? "the loss is NULL" : "the loss scale is NULL");
    return tp_failed(loss) ? loss : tp_mul(loss, scale_of(file, line, s, loss));
}

tp_tensor *(tp_loss_scale_apply)(tp_loss_scale *s, tp_tensor *loss)
{
    return tp_loss_scale_apply_at(NULL, 0, s, loss);
}

/* NULL, or the failed tensor. */
static tp_tensor *refuse(const char *file, int line, const tp_loss_scale *s, int n,
                         tp_tensor *const *g, tp_tensor **out)
{
    if (!s || n < 1 || !g || !out)
        return tp_fail(s ? s->tp : NULL, TP_E_NULL,
                       s ? "there are no gradients to unscale" : "the loss scale is NULL");
    for (int i = 0; i < n; i++)
        if (!g[i] || tp_failed(g[i]))
            return g[i] ? g[i] : tp_fail(s->tp, TP_E_NULL, "a gradient is NULL");
    return NULL;
}

tp_tensor *tp_loss_scale_unscale_at(const char *file, int line, tp_loss_scale *s, int n,
                                    tp_tensor *const *g, tp_tensor **out)
{
    tp_tensor *finite = refuse(file, line, s, n, g, out);
    for (int i = 0; finite && out && i < n; i++)
        out[i] = finite;
    if (finite)
        return finite;
    for (int i = 0; i < n; i++) {
        out[i] = tp_div(g[i], scale_of(file, line, s, g[i]));
        tp_tensor *all = tp_all(tp_isfinite(out[i]), TP_ALL, false);
        finite = finite ? tp_and(finite, all) : all;
    }
    return finite;
}

tp_tensor *(tp_loss_scale_unscale)(tp_loss_scale *s, int n, tp_tensor *const *g,
                                   tp_tensor **out)
{
    return tp_loss_scale_unscale_at(NULL, 0, s, n, g, out);
}

/* Puts what an update makes into s->changes. */
static void plan(const char *file, int line, tp_loss_scale *s, tp_tensor *finite)
{
    tp_tensor *scale = tpi_held_now(file, line, finite, s->scale);
    tp_tensor *turns = tp_add(tpi_held_now(file, line, finite, s->turns), 1);
    tp_tensor *grows = tp_ge(turns, s->o.turns);
    tp_tensor *by = tp_where(grows, s->o.growth, tp_scalar_like(scale, 1));
    by = tp_where(finite, by, s->o.backoff);
    tp_tensor *next = tp_mul(scale, by);
    tp_tensor *stays = tp_or(tp_lt(next, least), tp_gt(next, most));
    s->changes.n = 0;
    tpi_change(&s->changes, s->scale, tp_where(stays, scale, next));
    tpi_change(&s->changes, s->turns, tp_where(tp_and(finite, tp_not(grows)), turns, 0));
}

tp_tensor *tp_loss_scale_update_at(const char *file, int line, tp_loss_scale *s,
                                   tp_tensor *finite)
{
    tp_tensor *failed = tpi_held_refuse_flag(file, line, s ? s->tp : NULL,
                                             "what says that all is finite", finite);
    if (failed || !s)
        return failed ? failed
                      : tp_fail(tp_ctx_of(finite), TP_E_NULL, "the loss scale is NULL");
    if (tp_scope_begin(s->tp) != TP_OK)
        return tp_fail(s->tp, TP_E_MEMORY, "out of memory");
    const bool was = tp_recording(s->tp, false);
    plan(file, line, s, finite);
    tp_tensor *done = tp_keep(tpi_changes_commit(file, line, &s->changes));
    tp_recording(s->tp, was);
    tp_scope_end(s->tp);
    return done;
}

tp_tensor *(tp_loss_scale_update)(tp_loss_scale *s, tp_tensor *finite)
{
    return tp_loss_scale_update_at(NULL, 0, s, finite);
}
