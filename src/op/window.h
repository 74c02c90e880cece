/* Windows that slide over spatial axes: what convolution and pooling have in common. */
#ifndef TAPIR_WINDOW_H
#define TAPIR_WINDOW_H

#include "op/sizes.h"

enum { TPI_MAX_SPATIAL = 3 };

/* One entry per spatial axis in each list. */
typedef struct tpi_window {
    tpi_list stride, pad_lo, pad_hi, dilation;
} tpi_window;

#define TPI_WINDOW_ATTRS(type, member)                                                         \
    {"stride", TPI_ATTR_LIST, offsetof(type, member.stride)},                                  \
        {"pad_lo", TPI_ATTR_LIST, offsetof(type, member.pad_lo)},                              \
        {"pad_hi", TPI_ATTR_LIST, offsetof(type, member.pad_hi)},                              \
    {                                                                                          \
        "dilation", TPI_ATTR_LIST, offsetof(type, member.dilation)                             \
    }

/* Spatial axes of [n, c, s...], 0 when it is no such shape. */
static inline int tpi_spatial(const tp_tensor *x)
{
    const int n = x->rank - 2;
    return n < 1 || n > TPI_MAX_SPATIAL ? 0 : n;
}

/* In wrappers: what the user gave (NULL: nothing), 0 made the default; stride by default
 * `stride` (NULL: ones). */
void tpi_window_fill(tpi_window *w, const tp_window *given, int n, const int64_t *stride);
/* In shape rules: is operand 0 [n, c, s...] of floats, is all there for its axes, and within
 * reason? */
bool tpi_refuse_window(tpi_infer *q, const tpi_window *w);
/* Places of a window of `kernel` taps on axis i of size `size`; TPI_NO_DIM when it does not fit
 * or one of both is no size. */
int64_t tpi_window_places(tpi_dims *dims, const tpi_window *w, int i, int64_t size,
                          int64_t kernel);

#endif
