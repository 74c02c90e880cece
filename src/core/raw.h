/* Elements as files have them, which become those of a tensor. */
#ifndef TAPIR_RAW_H
#define TAPIR_RAW_H

#include "base/half.h"
#include "core/core.h"

typedef struct tpi_raw {
    tp_dtype dtype; /* what they become; TP_N_DTYPES: there is none for them */
    uint8_t size;   /* bytes of one in the file */
    uint8_t half;   /* 0, or 1 + the tpi_half that it is */
    bool swapped;   /* in the other order of bytes */
    bool fortran;   /* the first axis goes fastest */
} tpi_raw;

/* Bytes in the file of a tensor of this shape, whose sizes are at least 0; below 0: beyond 2^63. */
int64_t tpi_raw_bytes(const tpi_raw *r, int rank, const int64_t *shape);
/* Do they lie in the file as a tensor of this shape has them? */
bool tpi_raw_is_plain(const tpi_raw *r, int rank, const int64_t *shape);
/* Where in the memory of n elements those of the file are put, at its end; and what is put there becomes the n elements. */
char *tpi_raw_place(const tpi_raw *r, size_t n, void *to);
void tpi_raw_settle(const tpi_raw *r, size_t n, void *to);
/* Row-major, in the file's own bytes. */
void tpi_raw_gather(const tpi_raw *r, int rank, const int64_t *shape, const char *from,
                    char *to);

#endif
