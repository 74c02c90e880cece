/* All passes over a program's graph. */
#ifndef TAPIR_OPTIMIZE_H
#define TAPIR_OPTIMIZE_H

#include "pass/pass.h"

/* Makes of a pruned graph, which is used up, one that can run (keep/recompute.c): no block reads what only
 * the turns of another one know the sizes of. NULL: the context's error tells. */
tp_graph *tpi_make_runnable(tp_graph *g, int n_feeds, tp_tensor **feeds, int n_roots,
                            tp_tensor **roots);
/* Is it one? No memory: `why` says that it is not. */
bool tpi_is_runnable(const tp_graph *g, tpi_rule_error *why);

/* Who looks at what passes do (check/validate.c); g, feeds[] and roots[] are only looked at. */
typedef struct tpi_witness {
    /* Before the first pass. */
    void (*begin)(struct tpi_witness *w, tp_graph *g, tp_tensor *const *feeds,
                  tp_tensor *const *roots);
    /* After run number `run` of a pass, from 0 on, one that changed something. False: the context's
     * error tells what it did wrong. */
    bool (*after)(struct tpi_witness *w, const tpi_pass *pass, int run, tp_graph *g,
                  tp_tensor *const *feeds, tp_tensor *const *roots);
} tpi_witness;

typedef struct tpi_optimizing {
    const char *skip, *stop_after; /* as in tp_compile_options */
    const tpi_pass *const *passes; /* ends with NULL; NULL: all */
    int most_runs;                 /* of passes; 0: until nothing changes */
    tpi_witness *witness;          /* NULL: none */
} tpi_optimizing;

/* The same, then the passes, until nothing changes, on a graph made by tpi_prune, which is used up;
 * roots[] and feeds[] are kept up to date. */
tp_graph *tpi_optimize(tp_graph *g, const tpi_optimizing *how, int n_feeds, tp_tensor **feeds,
                       int n_roots, tp_tensor **roots);

/* A copy of what the roots need, in program order; or of that with the loop split (keep/checkpoint.c), if it
 * can be. The graph is used up; NULL: the context's error tells. */
tp_graph *tpi_tidy(tp_graph *g, int n_feeds, tp_tensor **feeds, int n_roots, tp_tensor **roots);
tp_graph *tpi_split_loop(tp_graph *g, tp_tensor *loop, int n_feeds, tp_tensor **feeds,
                         int n_roots, tp_tensor **roots);

/* What may be skipped, and the first part of a list that is not among them, or NULL. */
extern const char tpi_pass_names[];
const char *tpi_unknown_pass(const char *list);
/* A pass that rewriting can stop after: one that runs, or "prune"? */
extern const char tpi_stop_names[];
bool tpi_is_stop(const char *name);
/* "a,b" contains name? */
bool tpi_list_has(const char *list, const char *name);

#endif
