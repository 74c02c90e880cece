/* How the space of a loop program is cut into tiles, at the sizes of a run: what tile_space.c chooses and
 * tile_nest.c makes instructions of. */
#ifndef TAPIR_TILE_SPACE_H
#define TAPIR_TILE_SPACE_H

#include "lower/loop.h"
#include "run/tiles.h"

typedef struct tpi_tile_builder {
    tp_ctx *ctx;
    const tpi_plan *plan;
    const tpi_loop *l;
    tpi_nest *n;
    int chunk_axis;    /* -1: none */
    bool aliased;      /* a result is written over an operand */
    struct held *held; /* by statement; this and the rest are of tile_nest.c */
    int *free;         /* slots of scratch that nothing reads any more */
    size_t *free_bytes;
    int n_free;
} tpi_tile_builder;

/* Chooses the tile: all of b->n that is not of tile_nest.c. */
void tpi_tile_space(tpi_tile_builder *b);
/* Strides of memory over the axes of the box of full values, or of row values. */
void tpi_tile_strides(const tpi_tile_builder *b, bool wide, const int64_t *stride,
                      int64_t *out);

#endif
