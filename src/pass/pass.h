/* Passes: rewrites of a program's graph that keep the bits of every result.
 *
 * A pass is a function that is shown each node, in program order, with its operands already
 * rewritten, and answers with the node that takes its place in the new graph. What nothing
 * needs any more is never visited, so dead code goes by itself. */
#ifndef TAPIR_PASS_H
#define TAPIR_PASS_H

#include "ir/check.h"

typedef struct tpi_rewrite {
    tp_ctx *ctx;
    tp_graph *to;
    int n_changes; /* nodes replaced by others */
    void *state;   /* of the pass */
} tpi_rewrite;

typedef struct tpi_pass {
    const char *name; /* tp_compile_options.skip_passes leaves it out: same bits, slower */
    const char *about;
    /* in[] are nodes of rw->to. NULL: keep the node as it is, over in[]. */
    tp_tensor *(*visit)(tpi_rewrite *rw, const tp_tensor *node, tp_tensor *const *in);
    size_t state_size; /* zeroed before; freed through `done` */
    void (*done)(tpi_rewrite *rw);
    /* NULL, or what changes the graph in place before it is copied: nodes that take the place of others
     * have their seq. Counts changes; false: no memory. */
    bool (*prepare)(tp_graph *g, int *n_changes);
} tpi_pass;

/* The bytes of the constants in g and its bodies: of those that were folded, or of the others. */
size_t tpi_constant_bytes(const tp_graph *g, bool folded);

/* For `prepare`: change(body) for the bodies of g's first n nodes. False when one of them is. */
bool tpi_each_body(tp_graph *g, int n, bool (*change)(tp_graph *g, int *n_changes),
                   int *n_changes);

extern const tpi_pass tpi_pass_restack, tpi_pass_checkpoint, tpi_pass_hoist, tpi_pass_fold,
    tpi_pass_algebra, tpi_pass_cse, tpi_pass_sparse, tpi_pass_pick, tpi_pass_remake;

/* A graph of what `roots` need, of which the fed nodes are placeholders, and, with `freeze`,
 * variables are constants of the value they have now. The results of calls are the values they
 * share. On success roots[] and
 * feeds[] are its nodes, also those that nothing needs, whose sizes count. NULL: the context's
 * error tells. */
tp_graph *tpi_prune(tp_graph *g, bool freeze, int n_feeds, tp_tensor **feeds, int n_roots,
                    tp_tensor **roots);
/* Makes of a pruned graph, which is used up, one that can run (recompute.c): no block reads what only
 * the turns of another one know the sizes of. NULL: the context's error tells. */
tp_graph *tpi_make_runnable(tp_graph *g, int n_feeds, tp_tensor **feeds, int n_roots,
                            tp_tensor **roots);
/* Is it one? No memory: `why` says that it is not. */
bool tpi_is_runnable(const tp_graph *g, tpi_why *why);

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

/* What one pass may do: only so many rewrites of nodes. The last one is told. */
typedef struct tpi_rewrites {
    int most, n;
    const char *op;
    tpi_at at;
} tpi_rewrites;
/* One pass over a graph, which is used up; `rewrites` NULL: all. Counts changes. */
tp_graph *tpi_run_pass(tp_graph *g, const tpi_pass *pass, tpi_rewrites *rewrites, int n_feeds,
                       tp_tensor **feeds, int n_roots, tp_tensor **roots, int *n_changes);

/* For a memory limit (plan/budget.c). */
typedef struct tpi_rearrangement {
    int n_again;
    const int *again; /* nodes that are computed once more, ascending: no sources, no blocks */
    const bool *late; /* by node: it reads them where they are computed again */
    const int64_t *key; /* by node: where it stands, as far as its operands allow */
    int64_t again_key;  /* where the copies stand */
} tpi_rearrangement;
/* In place, to be followed by tpi_tidy (rearrange.c). False: no memory. */
bool tpi_rearrange(tp_graph *g, const tpi_rearrangement *r);
/* A copy of what the roots need, in program order; or of that with the loop split (checkpoint.c), if it
 * can be. The graph is used up; NULL: the context's error tells. */
tp_graph *tpi_tidy(tp_graph *g, int n_feeds, tp_tensor **feeds, int n_roots, tp_tensor **roots);
tp_graph *tpi_split_loop(tp_graph *g, tp_tensor *loop, int n_feeds, tp_tensor **feeds,
                         int n_roots, tp_tensor **roots);

/* One level of tpi_make_runnable, in place (recompute.c). False: the error is set, or no memory. */
bool tpi_again(tp_graph *g, int *n_changes);
/* A visit of passes that only prepare. */
tp_tensor *tpi_keep_node(tpi_rewrite *rw, const tp_tensor *node, tp_tensor *const *in);
/* The node of rw->to for a concrete tensor, and one that is the node's op over other operands. */
tp_tensor *tpi_rewrite_const(tpi_rewrite *rw, const tp_tensor *like, tp_tensor *concrete);
tp_tensor *tpi_rewrite_node(tpi_rewrite *rw, const tp_tensor *node, const tpi_op *op, int n_in,
                            tp_tensor *const *in, const void *attrs);
/* The node of `to` for a variable or const node of another graph. */
tp_tensor *tpi_rewrite_source(tp_graph *to, tpi_at at, const tp_tensor *node);

/* How nodes are copied to another graph (bodies.c). */
typedef struct tpi_copier {
    tp_ctx *ctx;
    void *user;
    /* Is the node taken without its operands? NULL: none. Only sources are, otherwise. */
    bool (*is_leaf)(void *user, const tp_tensor *t);
    tpi_at (*place)(void *user, const tp_tensor *t);
    /* Sizes in the table of the copy; false: no memory. */
    bool (*sizes)(void *user, int64_t n, const int64_t *from, int64_t *to);
    /* What stands for a node that is no block and no output of one, over in[]. */
    tp_tensor *(*node)(void *user, tp_graph *to, const tp_tensor *t, tp_tensor *const *in);
    /* Around the nodes of a body; enter gives what leave gets, NULL: no memory. */
    void *(*enter)(void *user, tp_graph *to);
    void (*leave)(void *user, void *entered);
    int n_changes; /* blocks that lost something */
} tpi_copier;

/* Copies nodes[] of graph `from` in program order, what is needed of their bodies, and all that the graph
 * and these bodies take to be equal. map[], by index: the copies; what is in it already stays. False:
 * the context's error tells, or memory is out. */
bool tpi_copy_nodes(tpi_copier *c, const tpi_nodes *nodes, const tp_graph *from, tp_graph *to,
                    tp_tensor **map);

/* Outputs of a block of a graph that is not yet copied are those of one that takes its place. */
void tpi_replace_block(tp_tensor *old, tp_tensor *made);

/* What may be skipped, and the first part of a list that is not among them, or NULL. */
extern const char tpi_pass_names[];
const char *tpi_unknown_pass(const char *list);
/* A pass that rewriting can stop after: one that runs, or "prune"? */
extern const char tpi_stop_names[];
bool tpi_is_stop(const char *name);
/* "a,b" contains name? */
bool tpi_list_has(const char *list, const char *name);

#endif
