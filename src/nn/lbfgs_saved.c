/* What L-BFGS has in what is saved: by itself, so that only programs that save it are linked with it. */
#include "nn/held.h"
#include "tapir/state.h"

tp_status tp_state_add_lbfgs_at(const char *file, int line, tp_state *s, const char *prefix,
                                const tp_lbfgs *l)
{
    int n;
    tp_tensor *const *history = tpi_lbfgs_history(l, &n);
    return tp_state_add_variables_at(file, line, s, prefix, n, history);
}

tp_status(tp_state_add_lbfgs)(tp_state *s, const char *prefix, const tp_lbfgs *l)
{
    return tp_state_add_lbfgs_at(NULL, 0, s, prefix, l);
}
