/* Times of a program's kernels. */
#ifndef TAPIR_PROFILE_H
#define TAPIR_PROFILE_H

#include "run/program.h"

typedef struct tpi_profile tpi_profile;

/* What the executors tell while a profile is on: kernel number `kernel` of the outermost plan
 * begins; -1: a run begins; the number of kernels: it has ended. */
void tpi_profile_tick(void *profile, int kernel);
void tpi_profile_free(tpi_mem *m, tpi_profile *profile);

#endif
