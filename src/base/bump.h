/* Memory of one piece of work, such as a model that is loaded: taken piece by piece, freed whole (a bump
 * allocator).
 *
 * When there was none once, there is none from then on, so that one check does for a stage of the work. Until that
 * check a caller may take more, release to a mark, and read the pieces it has; what it just took it may not touch.
 * So of several pieces in a row the last is enough to look at: it is there only if all are. */
#ifndef TAPIR_BUMP_H
#define TAPIR_BUMP_H

#include "base/mem.h"

typedef struct tpi_bump {
    tpi_mem *mem;
    struct tpi_bump_block *blocks; /* the newest first */
    char *at;                      /* what is free in that */
    size_t left;
    bool failed; /* there was no memory once: it sticks, also where a mark is released */
} tpi_bump;

#define TPI_BUMP(mem) ((tpi_bump){(mem), NULL, NULL, 0, false})

/* Room for so many elements, zeroed and aligned to 16 bytes. NULL: there is none, or was none, or they are too
 * many. */
void *tpi_bump_take(tpi_bump *b, size_t count, size_t size);
/* So many elements as they are there; NULL likewise. */
void *tpi_bump_copy(tpi_bump *b, const void *from, size_t count, size_t size);
/* A list of *size elements with room for one more than n: `list`, or a copy in more memory, and *size
 * too. NULL leaves both as they were. */
void *tpi_bump_grow(tpi_bump *b, void *list, int32_t n, int32_t *size, size_t each);
/* All that is taken from a mark on is freed: `b` as it was then. */
void tpi_bump_release(tpi_bump *b, const tpi_bump *mark);
void tpi_bump_free(tpi_bump *b);

#endif
