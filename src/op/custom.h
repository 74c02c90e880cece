/* A value whose gradient is a C function of the user's.
 *
 *     %5 = custom %4, %0, %1      is %4; its gradient goes to %0 and %1, as the function says, and none to %4
 *
 * Of several results the floats are one value, end to end, so that the function is called once for all of them. */
#ifndef TAPIR_CUSTOM_H
#define TAPIR_CUSTOM_H

#include "op/op.h"

typedef struct tpi_custom_attrs {
    int64_t n_out;
    /* In no text: a node that was read from one has no rule. */
    const tp_custom *rule;
    void *user;
    int64_t hook; /* not 0: the number of a hook (grad/hook.c), in place of user */
} tpi_custom_attrs;

/* out[n], what the forward function gave, with the gradient of the rule for in[n_in]. False: out[] has
 * failed tensors. */
bool tpi_custom_tie(tpi_at at, const tpi_custom_attrs *a, int n_in, tp_tensor *const *in,
                    int n_out, tp_tensor **out);

/* Is it such a value, or one with a hook? */
static inline bool tpi_is_custom(const tp_tensor *t)
{
    return t->op == &tpi_op_custom;
}

int tpi_custom_count_floats(int n, tp_tensor *const *t);
/* The floats among t[n], some, all of one type, end to end; the only one as it is. */
tp_tensor *tpi_custom_joined(tpi_at at, int n, tp_tensor *const *t);

#endif
