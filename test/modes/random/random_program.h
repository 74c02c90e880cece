/* A random program: literals, so that it runs eagerly and as a graph, whole or in part. */
#ifndef TAPIR_TEST_PROGRAM_H
#define TAPIR_TEST_PROGRAM_H

#include "ir/graph_def.h"
#include "op/op.h"
#include "tapir/control.h"
#include "tapir/tapir.h"

#include <inttypes.h>

enum { MAX_INPUTS = 5, MAX_STEPS = 48, MAX_VALUES = MAX_INPUTS + MAX_STEPS, MAX_WANTED = 3 };

/* What a step does to values a, b (and c), by step_apply; i and j say more. */
typedef struct step {
    int kind, a, b, c;
    int64_t i, j;
} step;

typedef struct program {
    uint64_t seed;
    int n_inputs, n_steps, n_wanted;
    int rank[MAX_INPUTS];
    int64_t shape[MAX_INPUTS][TP_MAX_RANK];
    step steps[MAX_STEPS];
    int wanted[MAX_WANTED]; /* values that are results */
    int order;              /* gradients of the sum of their means, and of those: 0, 1, 2 */
} program;

enum { MAX_RESULTS = MAX_WANTED + 2 * MAX_INPUTS };

/* ---- steps (random_step.c, random_window.c, random_turns.c) ----------------------------------- */

/* Over concrete or symbolic values; NULL: the step does not fit them. */
tp_tensor *step_apply(const step *s, tp_tensor *const *v);
extern const int n_step_kinds;
/* Does it take long, or make much? Then there are fewer of them. */
bool step_is_costly(const step *s);
/* Which of a, b and c it reads, as bits: what is drawn at random has to be needed, since a graph draws
 * no more than it needs. */
unsigned step_reads(const step *s);
/* Is it a block? A graph's gradient through one may have +0 where the eager one has -0. */
bool step_is_block(const step *s);

tp_tensor *window_step(int64_t i, int64_t j, tp_tensor *a, tp_tensor *b);
tp_tensor *branch_step(int64_t i, int64_t j, tp_tensor *a, tp_tensor *b);
tp_tensor *while_step(int64_t i, int64_t j, tp_tensor *a, tp_tensor *b);
tp_tensor *rows_step(int64_t i, int64_t j, tp_tensor *a, tp_tensor *b);
tp_tensor *cell_step(int64_t i, int64_t j, tp_tensor *a, tp_tensor *b);

/* ---- programs ---------------------------------------------------------------------------------- */

/* The same program for the same seed; its steps are tried eagerly while it is made. */
void program_make(tp_ctx *tp, uint64_t seed, program *p);
/* Input values, marked for gradients; `other`: of sizes that are larger by one, where they are not
 * 1. */
void program_inputs(tp_ctx *tp, const program *p, bool other, tp_tensor **in);
/* Results over concrete or symbolic inputs; the number of them. */
int program_run(const program *p, tp_tensor *const *in, tp_tensor **out);
/* Leaves out the steps that no wanted value needs. */
void program_trim(program *p);
bool program_has_block(const program *p);

/* ---- smaller (random_shrink.c) ----------------------------------------------------------------- */

/* Makes the program smaller, as long as `wrong` says that it still is. */
void program_shrink(program *p, bool (*wrong)(void *user, const program *p), void *user);

#endif
