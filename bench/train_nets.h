/* The nets whose training is measured, as the peers' scripts define them. */
#ifndef TAPIR_BENCH_TRAIN_NETS_H
#define TAPIR_BENCH_TRAIN_NETS_H

#include <tapir/tapir.h>

enum { NET_BLOCKS = 4, NET_PARAMS = 64 };

typedef struct net_norm {
    tp_tensor *scale, *shift;
} net_norm;

typedef struct net_block {
    net_norm before[2];
    tp_dense qkv, out, up, down;
} net_block;

typedef struct net {
    tp_dense dense[3]; /* of the MLP */
    tp_tensor *token, *place, *wx, *wh, *bx, *bh;
    net_block block[NET_BLOCKS];
    net_norm norm;
    tp_dense head;
    tp_tensor *params[NET_PARAMS];
    int n_params;
    tp_optimizer *adam;
} net;

typedef struct net_kind {
    const char *name;     /* as in the peers' rows */
    int64_t batch, width; /* x [batch, width] */
    tp_dtype type;        /* of x: f32, or i64: letters */
    int64_t answers;      /* y [batch, answers], i64 */
    int64_t classes;
    double flops; /* of a step, per sample */
    void (*make)(tp_ctx *tp, net *m);
    tp_tensor *(*loss)(const net *m, tp_tensor *x, tp_tensor *y);
} net_kind;

enum { NET_KINDS = 3 };
extern const net_kind net_kinds[NET_KINDS];

#endif
