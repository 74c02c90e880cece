/* IDX files, the format of the MNIST digits: bytes in an array of up to four axes; plain or
 * packed by gzip. */
#ifndef EXAMPLES_IDX_FILE_H
#define EXAMPLES_IDX_FILE_H

#include <stddef.h>
#include <stdint.h>

typedef struct idx_array {
    int rank;
    int64_t shape[4];
    uint8_t *data; /* product(shape) bytes, to be freed */
} idx_array;

/* Reads a file, or the file's bytes. NULL, or what is wrong, and then nothing is to be freed. */
const char *idx_read(const char *path, idx_array *out);
const char *idx_parse(const uint8_t *bytes, size_t size, idx_array *out);

#endif
