/* Data of a model that lies in files beside it. A location is a relative path within the model's
 * folder; it does not go up, and no part of it is a symbolic link. */
#ifndef TAPIR_ONNX_EXTERNAL_H
#define TAPIR_ONNX_EXTERNAL_H

#include "onnx/format/wire.h"
#include "tapir/base.h"

typedef struct tpi_external {
    const char *folder; /* NULL: none is allowed */
    tpi_span location;  /* of the file that is open: mostly there is only one */
    int fd;             /* -1: none */
    int64_t size;
} tpi_external;

/* Reads `bytes` bytes at `offset` of a file into `out`; with out NULL it only checks that they are
 * there. Not TP_OK: why not, in `why`. */
tp_status tpi_external_read(tpi_external *e, tpi_span location, int64_t offset, int64_t bytes,
                            void *out, char *why, size_t why_size);
void tpi_external_close(tpi_external *e);

#endif
