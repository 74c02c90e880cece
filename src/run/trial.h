/* How translation validation runs a graph (check/validate.h). */
#ifndef TAPIR_TRIAL_H
#define TAPIR_TRIAL_H

#include "check/validate.h"

/* By the reference; a run that takes more than some 10 ms is given up. */
bool tpi_trial_by_reference(const tpi_trial *t, const tpi_sample *s, tp_tensor **values);

#endif
