#include "nn/rule.h"

enum { KEEP };

typedef struct lion_numbers {
    tp_lion_options o;
    double rest1, rest2; /* 1 - beta1, 1 - beta2 */
} lion_numbers;

static void numbers(const void *options, tp_step *s)
{
    (void)options;
    if (!tpi_held_in_range(s->decay, 5e-324))
        s->number[KEEP] = tp_sub(1, tp_mul(s->rate, s->decay));
}

static void update(const void *options, tp_step *s)
{
    const lion_numbers *n = options;
    const tp_lion_options *o = &n->o;
    tp_tensor *m = s->state[0], *const *k = s->number;
    tp_tensor *way = tp_sign(tp_add(tp_mul(m, o->beta1), tp_mul(s->g, n->rest1)));
    tp_tensor *w = k[KEEP] ? tp_mul(s->w, k[KEEP]) : s->w;
    s->w = tp_sub(w, tp_mul(s->rate, way));
    s->state[0] = tp_add(tp_mul(m, o->beta2), tp_mul(s->g, n->rest2));
}

TPI_RULE_MAKER(tp_lion_new, tp_lion_options)
{
    static const tp_optimizer_kind kind = {.name = "lion",
                                           .state = {"m"},
                                           .numbers = numbers,
                                           .update = update,
                                           .options_size = sizeof(lion_numbers)};
    if (!tpi_rule_is_beta(file, line, tp, "beta1", &o.beta1, 0.9) ||
        !tpi_rule_is_beta(file, line, tp, "beta2", &o.beta2, 0.99))
        return NULL;
    const lion_numbers own = {o, tpi_rule_rest(file, line, tp, o.beta1),
                              tpi_rule_rest(file, line, tp, o.beta2)};
    return tp_optimizer_new_at(file, line, tp, &kind, &own, rate, o.decay, n, params);
}
