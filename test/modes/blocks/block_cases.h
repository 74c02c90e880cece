/* Programs of blocks: each a body over x [n, 4], v [4], s [] f32 and k [] i64, in a state that it may
 * assign. block_run.c runs each in every way and compares. state_cases.c has those about when a
 * variable is read. */
#ifndef TAPIR_TEST_BLOCK_CASES_H
#define TAPIR_TEST_BLOCK_CASES_H

#include "common/both.h"
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

extern const block_case block_cases[], state_cases[];
extern const int n_block_cases, n_state_cases;

#define PROGRAM(name)                                                                          \
    static void name(                                                                          \
        __attribute__((unused)) state *st, __attribute__((unused)) tp_tensor *x,               \
        __attribute__((unused)) tp_tensor *v, __attribute__((unused)) tp_tensor *s,            \
        __attribute__((unused)) tp_tensor *k, __attribute__((unused)) tp_tensor **out)

static inline tp_tensor *number(tp_tensor *like, double value)
{
    return tp_scalar_like(like, value);
}

static inline tp_tensor *up(tp_tensor *t, double by)
{
    return tp_add(t, number(t, by));
}

static inline tp_tensor *times(tp_tensor *t, double by)
{
    return tp_mul(t, number(t, by));
}

static inline tp_tensor *above(tp_tensor *t, double bound)
{
    return tp_gt(t, number(t, bound));
}

static inline tp_tensor *below(tp_tensor *t, double bound)
{
    return tp_lt(t, number(t, bound));
}

/* A variable's value as of now; in a graph, as of then. */
static inline tp_tensor *read_now(tp_tensor *variable, tp_tensor *like)
{
    return tp_mul(variable, number(like, 1));
}

static inline tp_tensor *mean(tp_tensor *t)
{
    return tp_mean(t, TP_ALL, false);
}

#endif
