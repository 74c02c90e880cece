#include "nn/rule.h"

enum { REST };

/* 1 - alpha, by ops: in C the caller's rounding would decide. */
static void numbers(const void *options, tp_step *s)
{
    const tp_rmsprop_options *o = options;
    s->number[REST] = tp_sub(1, tp_scalar_like(s->count, o->alpha));
}

/* state: the mean of squares, of gradients when it is centered, the momentum. */
static void update(const void *options, tp_step *s)
{
    const tp_rmsprop_options *o = options;
    tp_tensor *g = tpi_rule_decayed(s), *rest = s->number[REST];
    tp_tensor *v = tp_add(tp_mul(s->state[0], o->alpha), tp_mul(tp_mul(g, g), rest));
    s->state[0] = v;
    if (o->centered) {
        tp_tensor *mean = tp_add(tp_mul(s->state[2], o->alpha), tp_mul(g, rest));
        s->state[2] = mean;
        v = tp_sub(v, tp_mul(mean, mean));
    }
    tp_tensor *step = tp_div(g, tp_add(tp_sqrt(v), o->eps));
    s->state[1] = step = tp_add(tp_mul(s->state[1], o->momentum), step);
    s->w = tp_sub(s->w, tp_mul(s->rate, step));
}

TPI_RULE_MAKER(tp_rmsprop_new, tp_rmsprop_options)
{
    static const tp_optimizer_kind about_zero = {
        .name = "rmsprop",
        .state = {"v", "step"},
        .numbers = numbers,
        .update = update,
        .options_size = sizeof o
    };
    static const tp_optimizer_kind about_mean = {
        .name = "rmsprop",
        .state = {"v", "step", "mean"},
        .numbers = numbers,
        .update = update,
        .options_size = sizeof o
    };
    if (!tpi_rule_is_below(file, line, tp, "alpha", &o.alpha, 0.99, 1) ||
        !tpi_rule_is_below(file, line, tp, "the momentum", &o.momentum, 0, 1) ||
        !tpi_rule_is_below(file, line, tp, "eps", &o.eps, 1e-8, INFINITY))
        return NULL;
    return tp_optimizer_new_at(file, line, tp, o.centered ? &about_mean : &about_zero, &o, rate,
                               o.decay, n, params);
}
