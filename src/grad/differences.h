/* Gradients against central differences (tp_grad_check), for who reports what differs. */
#ifndef TAPIR_DIFFERENCES_H
#define TAPIR_DIFFERENCES_H

#include "op/op.h"

/* Where both differ most: element `at` of x number `x`. */
typedef struct tpi_difference {
    double error; /* relative to max(1, |quotient|); NaN is the worst of all */
    double gradient, quotient;
    int x;
    int64_t at;
} tpi_difference;

/* Of concrete xs, n > 0 of them. NULL, or the failed tensor, of the open scope: then nothing was found. */
tp_tensor *tpi_grad_check(tpi_at at, tp_checked_function f, void *user, int n,
                          tp_tensor *const *xs, tpi_difference *worst);

#endif
