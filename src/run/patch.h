/* Writes to a few rows of a variable, in place of all of it. */
#ifndef TAPIR_PATCH_H
#define TAPIR_PATCH_H

#include "run/program.h"

/* Finds the commits that can be patches, and makes roots of what they take; once the graph is
 * optimised. False: no memory. */
bool tpi_find_patches(tp_program *p);
/* Does a commit, with the values of the roots. Nothing can fail. */
void tpi_commit_now(const tpi_commit *c, tp_tensor *const *values);

#endif
