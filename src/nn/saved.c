/* Trees of parameters, optimisers and what is beside parameters in what is saved. */
#include "nn/held.h"
#include "tapir/state.h"

#include <stdio.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE file, line

/* Adds `t` under its name, below the prefix. */
static tp_status add_below(const char *file, int line, tp_state *s, const char *prefix,
                           const char *name, tp_tensor *t)
{
    if (!prefix || !name)
        return tp_state_add(s, name, t);
    tp_ctx *tp = tp_ctx_of(t);
    const size_t size = strlen(prefix) + strlen(name) + 2;
    char *full = tp_alloc(tp, size);
    if (full)
        snprintf(full, size, "%s.%s", prefix, name);
    const tp_status status = tp_state_add(s, full ? full : "", t);
    tp_free(tp, full);
    return full ? status : TP_E_MEMORY;
}

tp_status tp_state_add_params_at(const char *file, int line, tp_state *s, const char *prefix,
                                 const tp_params *p)
{
    tp_status status = s && p ? TP_OK : tp_state_add(s, NULL, NULL);
    for (int i = 0; i < tp_params_n(p) && status == TP_OK; i++)
        status = add_below(file, line, s, prefix, tp_params_name(p, i), tp_params_tensor(p, i));
    return status;
}

tp_status(tp_state_add_params)(tp_state *s, const char *prefix, const tp_params *p)
{
    return tp_state_add_params_at(NULL, 0, s, prefix, p);
}

tp_status tp_state_add_optimizer_at(const char *file, int line, tp_state *s, const char *prefix,
                                    const tp_optimizer *o)
{
    tp_status status = s && o ? TP_OK : tp_state_add(s, NULL, NULL);
    for (int i = 0; i < tp_optimizer_n_state(o) && status == TP_OK; i++) {
        tp_tensor *t = tp_optimizer_state(o, i);
        status = add_below(file, line, s, prefix, tp_name_of(t), t);
    }
    return status;
}

tp_status(tp_state_add_optimizer)(tp_state *s, const char *prefix, const tp_optimizer *o)
{
    return tp_state_add_optimizer_at(NULL, 0, s, prefix, o);
}

tp_status tp_state_add_variables_at(const char *file, int line, tp_state *s, const char *prefix,
                                    int n, tp_tensor *const *variables)
{
    tp_status status = s && n >= 0 && (!n || variables) ? TP_OK : tp_state_add(s, NULL, NULL);
    for (int i = 0; i < n && status == TP_OK; i++)
        status = add_below(file, line, s, prefix, tp_name_of(variables[i]), variables[i]);
    return status;
}

tp_status(tp_state_add_variables)(tp_state *s, const char *prefix, int n,
                                  tp_tensor *const *variables)
{
    return tp_state_add_variables_at(NULL, 0, s, prefix, n, variables);
}

tp_status tp_state_add_average_at(const char *file, int line, tp_state *s, const char *prefix,
                                  const tp_average *a)
{
    int n;
    tp_tensor *const *means = tpi_average_means(a, &n);
    return tp_state_add_variables_at(file, line, s, prefix, n, means);
}

tp_status(tp_state_add_average)(tp_state *s, const char *prefix, const tp_average *a)
{
    return tp_state_add_average_at(NULL, 0, s, prefix, a);
}

tp_status tp_state_add_gradient_sum_at(const char *file, int line, tp_state *s,
                                       const char *prefix, const tp_gradient_sum *sum)
{
    int n;
    tp_tensor *const *sums = tpi_gradient_sums(sum, &n);
    return tp_state_add_variables_at(file, line, s, prefix, n, sums);
}

tp_status(tp_state_add_gradient_sum)(tp_state *s, const char *prefix,
                                     const tp_gradient_sum *sum)
{
    return tp_state_add_gradient_sum_at(NULL, 0, s, prefix, sum);
}
