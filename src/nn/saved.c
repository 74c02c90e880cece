/* Trees of parameters and optimisers in what is saved. */
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
