/* Writing to variables, and naming. */
#ifndef TAPIR_VARIABLE_H
#define TAPIR_VARIABLE_H

#include "core/core.h"

/* tp_assign for two good concrete tensors of one context: writes `value` through var's strides;
 * they may be views of the same memory. Returns `var`, or a failed tensor. */
tp_tensor *tpi_assign_concrete(tpi_at at, tp_tensor *var, tp_tensor *value);
/* Of a concrete tensor; false when out of memory. */
bool tpi_set_name(tp_tensor *t, const char *name);

#endif
