#include "nn/rule.h"

enum { RATE, SCALE, KEEP };

typedef struct adam_numbers {
    tp_adam_options o;
    double rest1, rest2; /* 1 - beta1, 1 - beta2 */
} adam_numbers;

/* rate / (1 - beta1^t), 1 / sqrt(1 - beta2^t), 1 - rate * decay */
static void numbers(const void *options, tp_step *s)
{
    const tp_adam_options *o = &((const adam_numbers *)options)->o;
    s->number[RATE] = tp_div(s->rate, tp_sub(1, tp_pow(o->beta1, s->count)));
    s->number[SCALE] = tp_rsqrt(tp_sub(1, tp_pow(o->beta2, s->count)));
    if (!tpi_held_in_range(s->decay, 5e-324))
        s->number[KEEP] = tp_sub(1, tp_mul(s->rate, s->decay));
}

static void update(const void *options, tp_step *s)
{
    const adam_numbers *n = options;
    const tp_adam_options *o = &n->o;
    tp_tensor *const *k = s->number;
    tp_tensor *m = tp_add(tp_mul(s->state[0], o->beta1), tp_mul(s->g, n->rest1));
    tp_tensor *v = tp_add(tp_mul(s->state[1], o->beta2), tp_mul(tp_mul(s->g, s->g), n->rest2));
    s->state[0] = m;
    s->state[1] = v;
    if (o->amsgrad)
        s->state[2] = v = tp_max(s->state[2], v);
    tp_tensor *below = tp_add(tp_mul(tp_sqrt(v), k[SCALE]), o->eps);
    tp_tensor *w = k[KEEP] ? tp_mul(s->w, k[KEEP]) : s->w;
    s->w = tp_sub(w, tp_mul(k[RATE], tp_div(m, below)));
}

TPI_RULE_MAKER(tp_adam_new, tp_adam_options)
{
    static const tp_optimizer_kind adam = {
        .name = "adam",
        .state = {"m", "v"},
        .numbers = numbers,
        .update = update,
        .options_size = sizeof(adam_numbers)
    };
    static const tp_optimizer_kind amsgrad = {
        .name = "adam",
        .state = {"m", "v", "top"},
        .numbers = numbers,
        .update = update,
        .options_size = sizeof(adam_numbers)
    };
    if (!tpi_rule_is_beta(file, line, tp, "beta1", &o.beta1, 0.9) ||
        !tpi_rule_is_beta(file, line, tp, "beta2", &o.beta2, 0.999) ||
        !tpi_rule_is_below(file, line, tp, "eps", &o.eps, 1e-8, INFINITY))
        return NULL;
    const adam_numbers own = {o, tpi_rule_rest(file, line, tp, o.beta1),
                              tpi_rule_rest(file, line, tp, o.beta2)};
    return tp_optimizer_new_at(file, line, tp, o.amsgrad ? &amsgrad : &adam, &own, rate,
                               o.decay, n, params);
}
