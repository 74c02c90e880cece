/* LeNet for pictures [n, 1, 28, 28] of ten classes. */
#ifndef TAPIR_BENCH_LENET_H
#define TAPIR_BENCH_LENET_H

#include <tapir/tapir.h>

enum { LENET_PARAMS = 10 };

typedef struct lenet {
    tp_conv_layer conv[2];
    tp_dense dense[3];
    tp_tensor *params[LENET_PARAMS];
} lenet;

lenet lenet_new(tp_ctx *tp);
/* The mean cross entropy of x with labels y [n], i64. */
tp_tensor *lenet_loss(const lenet *net, tp_tensor *x, tp_tensor *y);

#endif
