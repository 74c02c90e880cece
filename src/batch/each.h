/* The samples of a tp_batch_each (tapir/batching.h), each a fiber with scopes, a place in program order and a stack of its
 * own. One that looks at a value waits; when all wait, or have ended, the queue is computed, and they go on.
 *
 * Gradients come in the order of the loop because the tensors of sample i have numbers of program order from RANGE * (i + 1)
 * on. What a sample does to what others see takes turns: it waits until all samples before it have ended. */
#ifndef TAPIR_EACH_H
#define TAPIR_EACH_H

#include "batch/queue.h"

/* What waits is computed, and what the code that calls looks at is there. at_once: others do not go on meanwhile. */
void tpi_queue_settle(tpi_queue *w, bool at_once);

/* The code that calls does what others see. */
void tpi_samples_take_turn(tpi_queue *w);

/* NULL, or the failed tensor: an operand is another sample's, or there are too many tensors in this one. */
tp_tensor *tpi_samples_refuse(tpi_queue *w, tpi_at at, const char *what, int n,
                              tp_tensor *const *in);
tp_tensor *tpi_samples_refuse_assign(tpi_queue *w, tpi_at at, const tp_tensor *variable);
/* Before a draw from the context's stream. */
tp_tensor *tpi_samples_refuse_draw(tpi_queue *w, tpi_at at);

/* Is t of a sample that runs, or older? False in no sample. */
bool tpi_samples_share(const tpi_queue *w, const tp_tensor *t);

/* The code that calls is in no sample, though one runs: a body was left by longjmp. */
bool tpi_samples_left(const tpi_queue *w);
/* Then, and where a context is closed: samples are given up, and so is a queue that was opened for them. */
void tpi_samples_give_up(tpi_queue *w);

#endif
