/* What networks are written with that become ONNX models: nets.c, nets_blocks.c. */
#ifndef TAPIR_TEST_NETS_H
#define TAPIR_TEST_NETS_H

#include "tapir/tapir.h"

enum { MOST = 24 };

typedef struct net {
    tp_ctx *tp;
    tp_graph *g;
    const char *dir, *name;
    int n_in, n_out, n_sets;
    const char *in[MOST], *out[MOST];
    bool failed;
} net;

/* Says what went wrong, with the context's error. */
void net_fail(net *n, const char *what);
/* Inputs and outputs are the model's, in the order of these calls. */
tp_tensor *input(net *n, const char *name, tp_dtype dtype, int rank, const int64_t *shape);
tp_tensor *output(net *n, const char *name, tp_tensor *t);
/* A parameter of random numbers, and values to feed. */
tp_tensor *weight(net *n, const char *name, int rank, const int64_t *shape);
tp_tensor *normal(net *n, int rank, const int64_t *shape);
/* The model, and then one set of data for each run. */
void save(net *n);
void run(net *n, tp_tensor *const *in);
/* A set of data that was computed elsewhere. */
void save_set(net *n, tp_tensor *const *in, tp_tensor *const *out);
/* Where the model goes; makes the folder. */
void model_path(const net *n, char *path, size_t size);

typedef struct net_row {
    const char *name;
    void (*make)(net *n);
} net_row;

extern const net_row block_nets[]; /* ends with a name that is NULL */

#endif
