/* Bytes that are squeezed by DEFLATE (RFC 1951), of zip files, by zlib, which is loaded when it is first needed. */
#ifndef TAPIR_INFLATE_H
#define TAPIR_INFLATE_H

#include "base/mem.h"

/* `size` bytes, which are to become `head` and then `bytes` bytes. */
typedef struct tpi_squeezed {
    const char *from;
    size_t size, head, bytes;
} tpi_squeezed;

/* Among what the functions below return. */
extern const char tpi_inflate_no_memory[];

/* The last `bytes` to `to`, and the checksum (base/crc32.h) of all. NULL, or what is wrong: what is there may be neither more
 * nor less. */
const char *tpi_inflate(tpi_mem *mem, const tpi_squeezed *in, char *to, uint32_t *sum);
/* As many of the first bytes as there are, at most *n, which is how many then. */
const char *tpi_inflate_first(tpi_mem *mem, const char *from, size_t size, char *to, size_t *n);

#endif
