#include "nn/rule.h"

static void sgd(const void *options, tp_step *s)
{
    (void)options;
    s->w = tp_sub(s->w, tp_mul(s->rate, tpi_rule_decayed(s)));
}

static void sgd_momentum(const void *options, tp_step *s)
{
    const tp_sgd_options *o = options;
    tp_tensor *g = tpi_rule_decayed(s), *v = tp_add(tp_mul(s->state[0], o->momentum), g);
    s->state[0] = v;
    if (o->nesterov)
        v = tp_add(g, tp_mul(v, o->momentum));
    s->w = tp_sub(s->w, tp_mul(s->rate, v));
}

TPI_RULE_MAKER(tp_sgd_new, tp_sgd_options)
{
    static const tp_optimizer_kind plain = {.name = "sgd", .update = sgd};
    static const tp_optimizer_kind heavy = {
        .name = "sgd", .state = {"v"}, .update = sgd_momentum, .options_size = sizeof o};
    if (!tpi_rule_is_below(file, line, tp, "the momentum", &o.momentum, 0, 1))
        return NULL;
    const bool is_plain = tpi_held_in_range(o.momentum, 5e-324);
    return tp_optimizer_new_at(file, line, tp, is_plain ? &plain : &heavy, &o, rate, o.decay, n,
                               params);
}
