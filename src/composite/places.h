/* Sizes and places along axes, as tensors: what functions of images and windows are written with. */
#ifndef TAPIR_PLACES_H
#define TAPIR_PLACES_H

#include "composite/composite.h"
#include "core/dim.h"

/* A size, which is symbolic only where `like` is, as a number of that type. */
tp_tensor *tpi_size_of(tpi_at at, tp_tensor *like, int64_t size, tp_dtype dtype);
/* v [n] as something of the given rank, along one of its axes. */
tp_tensor *tpi_along(tpi_at at, tp_tensor *v, int rank, int axis);
/* The elements of x at places[i] [size] along axes[i], for i < n, in ascending order; no place is below 0.
 * `together`: axes that follow one another may be read in one go, so that nothing lies between, also where gradients go
 * back. Whether they are depends on which sizes are numbers, and with it the order of sums in these. */
tp_tensor *tpi_at_places(tpi_at at, tp_tensor *x, int n, const int *axes,
                         tp_tensor *const *places, bool together);
/* tp_pad_with, whose numbers are good; `together` as above. (padding.c) */
tp_tensor *tpi_padded_with(tpi_at at, tp_tensor *x, const int64_t *lo, const int64_t *hi,
                           tp_padding padding, bool together);
/* What a neighbour at the distance d, 0 to 2, weighs in a cubic interpolation. */
tp_tensor *tpi_cubic(tpi_at at, tp_tensor *d, double a);

/* NULL, or the failed tensor: there are not `wanted` sizes, or one is no size beside x, or below 1. */
tp_tensor *tpi_refuse_sizes(tpi_at at, const char *what, const tp_tensor *x, int wanted, int n,
                            const int64_t *sizes);
/* NULL, or the failed tensor: in[0] is not [n, c, s...] of floats with 1 to 3 spatial axes. The others are as
 * in tpi_refuse_float. */
tp_tensor *tpi_refuse_image(tpi_at at, const char *what, int n, tp_tensor *const *in);

#endif
