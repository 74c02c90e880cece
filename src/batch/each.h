/* The samples of a tp_batch_each (tapir/batching.h), each a fiber with scopes, a place in program order and a stack of its
 * own. One that looks at a value waits; when all wait, or have ended, the queue is computed, and they go on.
 *
 * Gradients come in the order of the loop because the tensors of sample i have numbers of program order from RANGE * (i + 1)
 * on. What a sample does to what others see takes turns: it waits until all samples before it have ended. */
#ifndef TAPIR_EACH_H
#define TAPIR_EACH_H

#include "batch/queue.h"

/* What waits is computed, and what the code that calls looks at is there. */
typedef enum tpi_others {
    TPI_OTHERS_GO_ON,
    TPI_OTHERS_STAY
} tpi_others; /* samples, meanwhile */
void tpi_queue_settle(tpi_queue *w, tpi_others others);

/* The code that calls does what others see. */
void tpi_samples_take_turn(tpi_queue *w);

/* Before a draw from the context's stream. */
tp_tensor *tpi_samples_refuse_draw(tpi_queue *w, tpi_at at);

/* The code that calls is in no sample, though one runs: a body was left by longjmp. */
bool tpi_samples_left(const tpi_queue *w);
/* Then, and where a context is closed: samples are given up, and so is a queue that was opened for them. */
void tpi_samples_give_up(tpi_queue *w);

#endif
