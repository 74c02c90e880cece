#include "nn/rule.h"

enum { REST1, REST2, KEEP };

static void numbers(const void *options, tp_step *s)
{
    const tp_lion_options *o = options;
    s->number[REST1] = tp_sub(1, tp_scalar_like(s->count, o->beta1));
    s->number[REST2] = tp_sub(1, tp_scalar_like(s->count, o->beta2));
    if (!tpi_held_in_range(s->decay, 5e-324))
        s->number[KEEP] = tp_sub(1, tp_mul(s->rate, s->decay));
}

static void update(const void *options, tp_step *s)
{
    const tp_lion_options *o = options;
    tp_tensor *m = s->state[0], *const *k = s->number;
    tp_tensor *way = tp_sign(tp_add(tp_mul(m, o->beta1), tp_mul(s->g, k[REST1])));
    tp_tensor *w = k[KEEP] ? tp_mul(s->w, k[KEEP]) : s->w;
    s->w = tp_sub(w, tp_mul(s->rate, way));
    s->state[0] = tp_add(tp_mul(m, o->beta2), tp_mul(s->g, k[REST2]));
}

TPI_RULE_MAKER(tp_lion_new, tp_lion_options)
{
    static const tp_optimizer_kind kind = {.name = "lion",
                                           .state = {"m"},
                                           .numbers = numbers,
                                           .update = update,
                                           .options_size = sizeof o};
    if (!tpi_rule_is_beta(file, line, tp, "beta1", &o.beta1, 0.9) ||
        !tpi_rule_is_beta(file, line, tp, "beta2", &o.beta2, 0.99))
        return NULL;
    return tp_optimizer_new_at(file, line, tp, &kind, &o, rate, o.decay, n, params);
}
