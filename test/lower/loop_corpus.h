/* Loop programs to test with: the nests of the golden corpus, of every fold along each axis, of every elementwise op in
 * each type, and of random graphs. */
#ifndef TAPIR_TEST_LOOP_CORPUS_H
#define TAPIR_TEST_LOOP_CORPUS_H

#include "loop_run.h"
#include "lower/nest.h"

typedef struct loop_case {
    tp_ctx *tp;
    tp_program *program;
    const tpi_plan *plan;
    const tpi_kernel *nest;
    const char *what; /* the graph */
    bool orders;      /* also at the sizes around what their orders take together */
    bool corners;     /* elements are any bits, too */
} loop_case;

typedef void loop_visit(void *user, const loop_case *c);

/* Visits each nest, those of `count` random graphs last. Returns how many graphs did not compile, which it prints. */
int loop_corpus(int count, uint64_t seed, loop_visit *visit, void *user);

/* Gives the symbols of the program their values for run number 0, 1, ...; false: that were all. */
bool loop_set_sizes(const loop_case *c, int run, uint64_t *seed);

/* Memory by its number in a loop program, with elements that come from *seed, twice: for what it means, and for what is
 * compared with that. */
enum { LOOP_MEMORIES = TPI_MAX_NEST_OPERANDS + TPI_MAX_NEST_NODES };
typedef struct loop_memories {
    char *of[LOOP_MEMORIES], *copy[LOOP_MEMORIES];
    int64_t elements[LOOP_MEMORIES];
    size_t bytes[LOOP_MEMORIES];
} loop_memories;

/* False: it is too much, or sizes are none. Either way loop_release frees it. */
bool loop_take(const loop_case *c, const tpi_loop *l, uint64_t *seed, loop_memories *m);
/* As many elements as the addresses of a program reach whose sizes are numbers. */
void loop_take_reached(const tpi_loop *l, uint64_t *seed, loop_memories *m);
void loop_release(loop_memories *m);
/* False: `why` says which element is another one `by` what made the copy. */
bool loop_compare(const tpi_loop *l, const loop_memories *m, const char *by,
                  char why[LOOP_RUN_WHY]);

#endif
