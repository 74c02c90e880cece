#include "nn/rule.h"

typedef struct rmsprop_numbers {
    tp_rmsprop_options o;
    double rest; /* 1 - alpha */
} rmsprop_numbers;

/* state: the mean of squares, of gradients when it is centered, the momentum. */
static void update(const void *options, tp_step *s)
{
    const rmsprop_numbers *n = options;
    const tp_rmsprop_options *o = &n->o;
    tp_tensor *g = tpi_rule_decayed(s);
    tp_tensor *v = tp_add(tp_mul(s->state[0], o->alpha), tp_mul(tp_mul(g, g), n->rest));
    s->state[0] = v;
    if (o->centered) {
        tp_tensor *mean = tp_add(tp_mul(s->state[2], o->alpha), tp_mul(g, n->rest));
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
        .update = update,
        .options_size = sizeof(rmsprop_numbers)
    };
    static const tp_optimizer_kind about_mean = {
        .name = "rmsprop",
        .state = {"v", "step", "mean"},
        .update = update,
        .options_size = sizeof(rmsprop_numbers)
    };
    if (!tpi_rule_is_below(file, line, tp, "alpha", &o.alpha, 0.99, 1) ||
        !tpi_rule_is_below(file, line, tp, "the momentum", &o.momentum, 0, 1) ||
        !tpi_rule_is_below(file, line, tp, "eps", &o.eps, 1e-8, INFINITY))
        return NULL;
    const rmsprop_numbers own = {o, tpi_rule_rest(file, line, tp, o.alpha)};
    return tp_optimizer_new_at(file, line, tp, o.centered ? &about_mean : &about_zero, &own,
                               rate, o.decay, n, params);
}
