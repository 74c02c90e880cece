/* Reading the text of a graph, which docs/ir.md describes. It names ops, so it comes after all of them. */
#ifndef TAPIR_PARSE_H
#define TAPIR_PARSE_H

#include "ir/graph_def.h"

/* The values that go with a text, in little-endian order of bytes. */
typedef struct tpi_blob {
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK];
    const void *bytes;
} tpi_blob;

/* blobs: of the memory cells in order, then of the constants #0, ...; NULL: all zero. Their
 * types and number are checked. NULL after tpi_fail_status. */
tp_graph *tpi_parse(tp_ctx *ctx, tpi_at at, const char *what, const char *text, size_t size,
                    int n_blobs, const tpi_blob *blobs);

#endif
