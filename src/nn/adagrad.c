#include "nn/rule.h"

static void update(const void *options, tp_step *s)
{
    const tp_adagrad_options *o = options;
    tp_tensor *g = tpi_rule_decayed(s), *v = tp_add(s->state[0], tp_mul(g, g));
    s->state[0] = v;
    s->w = tp_sub(s->w, tp_mul(s->rate, tp_div(g, tp_add(tp_sqrt(v), o->eps))));
}

TPI_RULE_MAKER(tp_adagrad_new, tp_adagrad_options)
{
    static const tp_optimizer_kind kind = {
        .name = "adagrad", .state = {"v"}, .update = update, .options_size = sizeof o};
    if (!tpi_rule_is_below(file, line, tp, "eps", &o.eps, 1e-10, INFINITY))
        return NULL;
    return tp_optimizer_new_at(file, line, tp, &kind, &o, rate, o.decay, n, params);
}
