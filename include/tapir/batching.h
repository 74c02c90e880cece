/* tapir: what many samples compute, told one after the other in C and computed together.
 *
 *     tp_batch (tp) {
 *         for (int i = 0; i < n; i++)
 *             loss[i] = tree_loss(&model, &tree[i]);          recursion, branches on data: ordinary C
 *         tp_optimizer_step(o, tp_mean(tp_stack(n, loss, 0), TP_ALL, false));
 *     }
 *
 * In the block ops on concrete tensors wait. What waits is computed when C looks at a value, when a variable is assigned,
 * and at the end of the block: ops that are alike, on operands of equal sizes and the same weights, are computed as one.
 * So are the calls of a function that is declared pure (capture.h), each as a whole, when its body can be: docs/batching.md
 * says when.
 * Every tensor, gradient and parameter has the bits that it has without the block, whatever is computed with what. */
#ifndef TAPIR_BATCHING_H
#define TAPIR_BATCHING_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tp_batch (tp) { }: ops wait in the block. gcc and clang see to its end also when it is left by break, goto or return.
 * Sizes and types are checked at once, so mistakes have their line; an index outside of its axis is told when it is
 * known: at the call, or, where it waits itself, when it is computed. A block in a block is part of it. In the body of a
 * captured function, and where tp_trap_nan is on, ops do not wait. The body of a function that is called in it is run, and its ops
 * wait, but for the calls that wait as a whole. */
#define tp_batch(tp)                                                                           \
    for (TP_LEFT_BY(tp_batch_left) tp_batch_block TP_BATCH = tp_batch_begin(tp);               \
         tp_batch_next(&TP_BATCH);)
typedef struct tp_batch_block {
    tp_ctx *tp;
    void *queue;
    bool entered;
} tp_batch_block;
#define TP_BATCH TP_JOIN(tp_batch_, __LINE__)
/* What the macro calls. Without memory for the block ops do not wait. */
TP_API tp_batch_block tp_batch_begin(tp_ctx *tp);
TP_API bool tp_batch_next(tp_batch_block *b);
TP_API void tp_batch_left(tp_batch_block *b);

/* Runs body(user, i) for each i from 0 to below n, as
 *
 *     tp_batch (tp)
 *         for (int64_t i = 0; i < n; i++)
 *             body(user, i);
 *
 * does, with the same bits; but a sample that looks at a value (tp_item, tp_truth, tp_read, tp_if and tp_while on tensors, ...)
 * waits, and the next ones run meanwhile. When all of them wait, or have ended, what waits is computed together, and they go
 * on from where they are. So bodies that decide by values, loop until something is reached, or recurse, are batched too:
 *
 *     static void refine(void *user, int64_t i)
 *     {
 *         model *m = user;
 *         tp_tensor *h = m->start[i];
 *         for (int step = 0; step < 50 && tp_truth(tp_gt(error_of(m, h), m->small)); step++)
 *             h = better(m, h);
 *         m->result[i] = h;
 *     }
 *
 * Each body runs on a stack of its own, of 512 KB, at most 1,024 of them at a time; others begin when these end. 32 stacks are kept
 * until tp_trim; they are the system's memory. Tensors that a body leaves to the open scope are in the scope that was open
 * at the call. What it sets by tp_random_stream, tp_recording and tp_training holds until it ends. An error tells
 * the number of the sample behind its text, and others go on; which of several is the context's first is a matter of who came first.
 *
 * What others may see comes in the order of the samples, and so waits until all before have ended: tp_backward, tp_grad_of,
 * tp_zero_grad, tp_grads through gradients of the user's, running a graph, printing and saving, and draws of random numbers, but those
 * from a stream that the body chose itself (tp_random_stream). Such a stream is that sample's: another one's draws from it
 * fail (TP_E_STATE).
 * What samples read that run meanwhile is not changed: to assign a variable from outside, also by an optimiser or a graph, to mark,
 * name or hook a tensor from outside, tp_seed, tp_trap_nan and loading a state fail (TP_E_STATE). So does an op on another
 * sample's tensor, and what makes more than 15 million tensors in one sample (TP_E_LIMIT). Between its looks a body must not
 * count on anything else that samples share: C variables, locks it holds, files, errno; tp_error and tp_clear_error are
 * of all samples.
 *
 * A body left by longjmp ends them all: the others are not gone on with (by TAPIR_FIBERS=0 that is noticed later, at the latest
 * by tp_close). No C++ exception may leave a body, and tp_close is not called in one.
 *
 * In a sample, in the body of a captured function, where tp_trap_nan is on, and by TAPIR_FIBERS=0, samples run one after the
 * other; by TAPIR_FIBERS=reverse the last one that may goes on first, which finds bodies that share what they must not.
 * TP_OK, also where samples failed; TP_E_NULL: no context, or no body; TP_E_VALUE: n is negative, or 2^31 - 1 or more;
 * TP_E_MEMORY: some bodies did not run, or results are lost. */
typedef void (*tp_sample_body)(void *user, int64_t sample);
TP_FN(tp_status, tp_batch_each, tp_ctx *tp, int64_t n, tp_sample_body body, void *user);
#define tp_batch_each(...) tp_batch_each_at(TP_PLACE, __VA_ARGS__)

/* Computes what waits before it would have more than so many bytes of results (256 MiB at first); returns what it was
 * before. 0, and 0 returned: no context. */
TP_API size_t tp_batch_budget(tp_ctx *tp, size_t bytes);

/* Of all blocks of the context so far. */
typedef struct tp_batch_counts {
    int64_t ops; /* and calls that waited, but for what only looks at memory in another way */
    int64_t kernels; /* as so many they were computed, a call's program being one */
    int64_t alone;   /* of these, for a single op */
    int64_t
        samples; /* bodies that tp_batch_each began, but for those that just ran one after the other */
    int64_t waits; /* of samples while others went on */
    int64_t least; /* while tp_batch_measure was on: kernels, however good the order */
} tp_batch_counts;
TP_API tp_batch_counts tp_batch_counts_of(const tp_ctx *tp);

/* Whether each flush is measured: `least` over `kernels` of a time in which it was on tells how good its order was, 1 at best.
 * Off at first: for each kind of op it goes over all that waits. */
TP_API bool tp_batch_measure(tp_ctx *tp, bool on); /* what it was before; false: no context */

#ifdef __cplusplus
}
#endif
#endif
