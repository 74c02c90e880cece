/* A folder for one build: in the cache, or where temporary files go. It goes with the build, with
 * tp_abandon, or, when the process was killed, with the next build that looks there. */
#ifndef TAPIR_SCRATCH_H
#define TAPIR_SCRATCH_H

#include "cc/folder.h"
#include "core/core.h"

typedef struct tpi_scratch {
    int parent, fd; /* -1: there is none */
    tpi_undone *undone;
    char name[32];
    char dir[TPI_PATH]; /* for messages and compilers */
} tpi_scratch;

/* A new one, private, in the folder `parent` of path `dir`; or, with NULL, where temporary files go.
 * What killed processes left there is removed. False with the reason in why[]. */
bool tpi_scratch_make(tpi_scratch *s, tp_ctx *ctx, int parent, const char *dir, char *why,
                      size_t size);
/* Removes it and the files in it. */
void tpi_scratch_remove(tpi_scratch *s);
/* Leaves it to the process that made it: this one is a fork. */
void tpi_scratch_leave(tpi_scratch *s);

#endif
