/* Graphs as ONNX models.
 *
 * A model computes along a tree of blocks: a block without condition is a leaf and says which
 * nodes are the outputs; one with a condition goes on in one of two blocks, and leaves as If. All
 * nodes are those of one graph. What every path needs is computed before the first branch, the
 * rest in the branch that needs it. */
#ifndef TAPIR_ONNX_EXPORT_H
#define TAPIR_ONNX_EXPORT_H

#include "ir/graph_def.h"
#include "tapir/onnx.h"

typedef struct tpi_onnx_block {
    /* What is run here in the order of the program, the condition included. Only random numbers
     * ask for it: where a node's begin depends on all that were drawn before. NULL: what is
     * needed, as in a run of the graph. */
    int n_nodes;
    tp_tensor *const *nodes;
    tp_tensor *condition; /* one element, not 0: then_block. NULL: a leaf */
    const struct tpi_onnx_block *then_block, *else_block;
    tp_tensor *const *outputs; /* of a leaf: n_out nodes, in the order of the model's names */
} tpi_onnx_block;

typedef struct tpi_onnx_saving {
    const char *what; /* for errors: "tp_onnx_save" */
    tpi_at at;
    tp_graph *g;
    int n_in; /* nodes whose values are fed, and the names they leave under */
    tp_tensor *const *in;
    const char *const *in_names;
    int n_out;
    const char *const *out_names;
    const tpi_onnx_block *block;
    int64_t inline_bytes; /* weights of more bytes go to a file beside; 0: 2^30 */
} tpi_onnx_saving;

/* Writes it to `path`, whole or not at all (with weights beside, to "<path>.data" too). */
tp_status tpi_onnx_write(const tpi_onnx_saving *m, const char *path);

#endif
