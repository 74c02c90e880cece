/* Programs of blocks: each a body over x [n, 4], v [4], s [] f32 and k [] i64, in a state that it may
 * assign. block_run.c runs each in every way and compares. */
#ifndef TAPIR_TEST_BLOCK_CASES_H
#define TAPIR_TEST_BLOCK_CASES_H

#include "capture/both.h"
#include "tapir/control.h"

typedef struct state {
    tp_ctx *tp;
    tp_tensor *w, *p, *q, *z; /* params [4, 4], [4]; variables [4], [] */
    tp_tensor *mean, *var;    /* variables [4]: running statistics */
    tp_optimizer *adam;       /* of w and p */
    tp_function *helper;      /* (x, v) -> x of the same sizes */
} state;

enum { BLOCK_OUTS = 4 };

/* x, v, s, k -> up to BLOCK_OUTS tensors in out[], which are NULL at first. */
typedef void (*block_program)(state *st, tp_tensor *x, tp_tensor *v, tp_tensor *s, tp_tensor *k,
                              tp_tensor **out);

typedef struct block_case {
    const char *name;
    block_program run;
    bool gradients; /* are asked for too, to all it is made of */
} block_case;

extern const block_case block_cases[];
extern const int n_block_cases;

#endif
