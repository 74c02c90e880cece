/* What a loss scale has in what is saved: see lbfgs_saved.c. */
#include "tapir/state.h"

tp_status tp_state_add_loss_scale_at(const char *file, int line, tp_state *s,
                                     const char *prefix, const tp_loss_scale *scale)
{
    tp_tensor *const held[] = {tp_loss_scale_state(scale, 0), tp_loss_scale_state(scale, 1)};
    return tp_state_add_variables_at(file, line, s, prefix, scale ? 2 : -1, held);
}

tp_status(tp_state_add_loss_scale)(tp_state *s, const char *prefix, const tp_loss_scale *scale)
{
    return tp_state_add_loss_scale_at(NULL, 0, s, prefix, scale);
}
