/* Small graphs whose generated text is kept: what the compiler makes of each kind of thing. */
#ifndef TAPIR_TEST_GOLDEN_CORPUS_H
#define TAPIR_TEST_GOLDEN_CORPUS_H

#include "tapir/tapir.h"

/* Draws on an empty graph; what it names as outputs (tp_graph_set_outputs) is compiled. */
typedef struct golden_case {
    const char *name;
    void (*draw)(tp_ctx *tp, tp_graph *g);
    bool alone; /* its C file is kept too */
} golden_case;

extern const golden_case golden_corpus[]; /* ends with a name that is NULL */

#endif
