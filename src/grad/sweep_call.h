/* A call in a sweep: one node to gradients, with a sweep inside, which the caller lets go in between. */
#ifndef TAPIR_SWEEP_CALL_H
#define TAPIR_SWEEP_CALL_H

#include "grad/sweep.h"

typedef struct tpi_call_sweep {
    tpi_sweep *s; /* that came to the call */
    const tp_tensor *call;
    int slot;
    tpi_sweep in;      /* the one inside */
    tp_tensor **roots; /* of the results met, the values inside; NULL: none were taken */
    int n_roots;
    uint64_t began;              /* nodes of the sweep inside are not older */
    const tpi_call_hooks *hooks; /* to be told of its end, or NULL */
    void *begun;
} tpi_call_sweep;

/* Makes c->in ready to go. False: the error is set. It ends either way. */
bool tpi_sweep_call_begin(tpi_call_sweep *c, tpi_sweep *s, const tp_tensor *call, int slot);
/* What has added up inside, if it has `swept`, goes to the sweep outside. False: not all is well. */
bool tpi_sweep_call_end(tpi_call_sweep *c, bool swept);

#endif
