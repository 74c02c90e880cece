/* A random program: literals, so that it runs eagerly and as a graph, whole or in part. */
#ifndef TAPIR_TEST_PROGRAM_H
#define TAPIR_TEST_PROGRAM_H

#include "ir/graph_def.h"
#include "op/op.h"
#include "tapir/tapir.h"

#include <inttypes.h>

enum { MAX_INPUTS = 5, MAX_STEPS = 48, MAX_VALUES = MAX_INPUTS + MAX_STEPS, MAX_WANTED = 3 };

/* What a step does to values a, b (and c); i and j say more, see program_apply. */
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
    bool gradients;         /* of the sum of their means, too */
} program;

enum { MAX_RESULTS = MAX_WANTED + MAX_INPUTS };

/* The same program for the same seed; its steps are tried eagerly while it is made. */
void program_make(tp_ctx *tp, uint64_t seed, program *p);
/* Input values; on concrete tensors marked for gradients. */
void program_inputs(tp_ctx *tp, const program *p, tp_tensor **in);
/* Results over concrete or symbolic inputs; the number of them. */
int program_run(const program *p, tp_tensor *const *in, tp_tensor **out);
/* Leaves out the steps that no wanted value needs. */
void program_trim(program *p);

#endif
