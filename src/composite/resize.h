/* Resizing along one axis after the other: each result is a sum of a few weighted neighbours (one, two, four; more
 * when it makes smaller and smooths). */
#ifndef TAPIR_RESIZE_H
#define TAPIR_RESIZE_H

#include "composite/places.h"

/* Where results lie, besides those of tp_coordinates. */
enum { TPI_ALIGNED_HALF_PIXEL = TP_ASYMMETRIC + 1, TPI_HALF_PIXEL_UP, TPI_SYMMETRIC, TPI_CROP };

typedef struct tpi_resizing {
    tpi_at at;
    const char *what;
    tp_interpolation mode;
    tp_rounding rounding;
    int where;    /* tp_coordinates, or one of those above */
    bool smooth;  /* antialias */
    bool exclude; /* neighbours outside count nothing */
    bool
        by_sizes; /* what is done may depend on which sizes are numbers, and with it the last bits */
    double a; /* of a cubic interpolation */
    double outside;
} tpi_resizing;

/* One axis: sizes may be symbolic. */
typedef struct tpi_line {
    int axis;
    int64_t in, out;
    double scale;      /* 0: out / in */
    double start, end; /* of TPI_CROP, as parts of the axis */
} tpi_line;

/* x with the axes of the lines resized; it is float unless neighbours are only picked. */
tp_tensor *tpi_resized(const tpi_resizing *r, tp_tensor *x, int n, const tpi_line *lines);

#endif
