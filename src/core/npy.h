/* The header of a .npy file. */
#ifndef TAPIR_NPY_H
#define TAPIR_NPY_H

#include "base/strbuf.h"
#include "core/raw.h"

typedef struct tpi_npy {
    char type[24]; /* "<f4"; "[": records */
    tpi_raw raw;
    int rank;
    int64_t shape[TP_MAX_RANK];
    size_t head; /* bytes before the elements */
} tpi_npy;

enum { TPI_NPY_WHY = 160 };

/* From a file's first bytes. False: what is wrong, in `why`. */
bool tpi_npy_read(const char *bytes, size_t size, tpi_npy *out, char why[TPI_NPY_WHY]);
/* Can the elements be read, and are there as many bytes as the shape needs, at least? */
bool tpi_npy_check(const tpi_npy *h, uint64_t have, char why[TPI_NPY_WHY]);
/* A header; `descr` is "<f4" and the like. It is so long that the elements begin at a multiple of 64. */
void tpi_npy_put(tpi_str *out, const char *descr, int rank, const int64_t *shape);
/* "<f4", of elements of so many bytes in this machine's order. */
void tpi_npy_descr(tp_dtype dtype, size_t size, char out[8]);

#endif
