/* How the space of a loop program is cut into tiles, at the sizes of a run: what tile_space.c chooses and
 * tile_nest.c makes instructions of. */
#ifndef TAPIR_TILE_SPACE_H
#define TAPIR_TILE_SPACE_H

#include "lower/loop.h"
#include "run/tiles.h"

/* Chooses the tile: all of n that is not of tile_nest.c. */
void tpi_tile_space(const tpi_loop *l, tpi_nest *n);
/* Strides of memory over the axes of the box of full values, or of row values. */
void tpi_tile_strides(const tpi_loop *l, const tpi_nest *n, bool wide, const int64_t *stride,
                      int64_t *out);

#endif
