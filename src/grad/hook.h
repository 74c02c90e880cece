/* Hooks on marked tensors (tapir/grad.h), for who has found a gradient of one. */
#ifndef TAPIR_HOOK_H
#define TAPIR_HOOK_H

#include "core/core.h"

/* What takes the place of g, the gradient of x, a marked tensor or the node of one: of the open scope, or g. It may
 * have failed. */
tp_tensor *tpi_through_hooks(tpi_at at, tp_tensor *x, tp_tensor *g);

#endif
