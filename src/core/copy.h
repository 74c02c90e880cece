/* Copying elements between layouts. */
#ifndef TAPIR_COPY_H
#define TAPIR_COPY_H

#include <stddef.h>
#include <stdint.h>

/* For every index: dst[index . dst_stride] = src[index . src_stride]; elements of `size` bytes
 * (1, 2, 4 or 8), strides in elements, any sign, any alignment. The memories must not overlap. */
void tpi_copy_strided(size_t size, int rank, const int64_t *shape, void *dst,
                      const int64_t *dst_stride, const void *src, const int64_t *src_stride);

#endif
