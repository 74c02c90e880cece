/* Cases that several lists have: a macro each, over the function. */
#ifndef TAPIR_MISUSE_FORMS_H
#define TAPIR_MISUSE_FORMS_H

#include "misuse.h"

/* clang-format off */

/* One operand, and nothing else: the good one is b->GOOD. */
#define ONE(fn, GOOD)                                                                          \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->GOOD, fn(x));                                                            \
    }
/* The same, of floats alone. */
#define FLOAT_ONE(fn)                                                                          \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x));                                                               \
        BAD(b, TP_E_DTYPE, fn(b->i));                                                          \
        BAD(b, TP_E_DTYPE, fn(b->flag));                                                       \
    }

/* A node of another graph than b->g. */
static inline tp_tensor *other_graph(bed *b)
{
    tp_graph *g = tp_graph_new(b->tp);
    return tp_placeholder(g, "z", TP_F32, TP_DIMS(2, 3));
}

/* Two operands that broadcast. */
#define TWO_SHAPED(fn) TWO_SHAPED_OF(fn, what)
/* `inner`: what names two graphs. */
#define TWO_SHAPED_OF(fn, inner)                                                               \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, b->f));                                                         \
        OPERAND(b, b->f, fn(b->f, x));                                                         \
        BAD(b, TP_E_NULL, fn(b->f, NULL));                                                     \
        BAD(b, TP_E_NULL, fn(NULL, b->f));                                                     \
        BAD(b, TP_E_CTX, fn(b->f, b->foreign));                                                \
        BAD(b, TP_E_SHAPE, fn(b->f, b->t));                                                    \
        BAD(b, TP_E_SHAPE, fn(b->node, b->t));                                                 \
        BAD_AS(b, inner, TP_E_CTX, fn(b->node, other_graph(b)));                               \
    }

/* An axis, and what comes behind it. */
#define ALONG(fn, ...)                                                                         \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, 0 __VA_ARGS__));                                                \
        BAD(b, TP_E_AXIS, fn(b->f, 2 __VA_ARGS__));                                            \
        BAD(b, TP_E_AXIS, fn(b->node, -3 __VA_ARGS__));                                        \
        BAD(b, TP_E_AXIS, fn(b->f, INT32_MIN __VA_ARGS__));                                    \
        BAD(b, TP_E_AXIS, fn(b->f, INT32_MAX __VA_ARGS__));                                    \
    }

/* Indices far outside. */
static inline tp_tensor *far(bed *b, int rank, const int64_t *shape)
{
    return tp_full(b->tp, TP_I64, rank, shape, 1e18);
}

#endif
