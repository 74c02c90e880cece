/* Writing to variables, and naming. */
#ifndef TAPIR_VARIABLE_H
#define TAPIR_VARIABLE_H

#include "core/core.h"

/* tp_assign for two good concrete tensors of one context: writes `value` through var's strides;
 * they may be views of the same memory. Returns `var`, or a failed tensor. */
tp_tensor *tpi_assign_concrete(tpi_at at, tp_tensor *var, tp_tensor *value);
/* Moves a computed value of var's type and shape into a variable: by exchange of memory where
 * `mine` says that the caller alone looks at the value, and nobody else at either, else by a
 * copy. The variable's count of writes stays. */
void tpi_move_in(tp_tensor *var, tp_tensor *value, bool mine);
/* The failed tensor of an assignment that cannot be, or NULL. */
tp_tensor *tpi_refuse_assign(tpi_at at, const tp_tensor *var, const tp_tensor *value);
/* Of a concrete tensor; false when out of memory. */
bool tpi_set_name(tp_tensor *t, const char *name);

#endif
