/* Passes: rewrites of a program's graph that keep the bits of every result.
 *
 * A pass is a function that is shown each node, in program order, with its operands already
 * rewritten, and answers with the node that takes its place in the new graph. What nothing
 * needs any more is never visited, so dead code goes by itself. */
#ifndef TAPIR_PASS_H
#define TAPIR_PASS_H

#include "base/bump.h"
#include "ir/check.h"

typedef struct tpi_rewrite {
    tp_ctx *ctx;
    tp_graph *to;
    int n_changes; /* nodes replaced by others */
    tpi_bump *memory;
    void *state; /* of the pass, in that memory */
} tpi_rewrite;

typedef struct tpi_pass {
    const char *name; /* tp_compile_options.skip_passes leaves it out: same bits, slower */
    const char *about;
    /* in[] are nodes of rw->to. NULL: keep the node as it is, over in[]. */
    tp_tensor *(*visit)(tpi_rewrite *rw, const tp_tensor *node, tp_tensor *const *in);
    size_t state_size; /* zeroed before */
    /* NULL, or what changes the graph in place before it is copied: nodes that take the place of others
     * have their seq. Counts changes; false: no memory. */
    bool (*prepare)(tp_graph *g, int *n_changes);
} tpi_pass;

#define PASS(name) extern const tpi_pass tpi_pass_##name;
#include "pass/passes.def"
PASS(remake)
#undef PASS

/* For `prepare`: change(body) for the bodies of g's first n nodes. False when one of them is. */
bool tpi_each_body(tp_graph *g, int n, bool (*change)(tp_graph *g, int *n_changes),
                   int *n_changes);

/* A visit of passes that only prepare. */
tp_tensor *tpi_keep_node(tpi_rewrite *rw, const tp_tensor *node, tp_tensor *const *in);
/* The node of rw->to for a concrete tensor, and one that is the node's op over other operands. */
tp_tensor *tpi_rewrite_const(tpi_rewrite *rw, const tp_tensor *like, tp_tensor *concrete);
tp_tensor *tpi_rewrite_node(tpi_rewrite *rw, const tp_tensor *node, const tpi_op *op, int n_in,
                            tp_tensor *const *in, const void *attrs);
/* The node of `to` for a variable or const node of another graph. */
tp_tensor *tpi_rewrite_source(tp_graph *to, tpi_at at, const tp_tensor *node);

/* What one pass may do: only so many rewrites of nodes. The last one is told. */
typedef struct tpi_rewrites {
    int most, n;
    const char *op;
    tpi_at at;
} tpi_rewrites;
/* One pass over a graph, which is used up; `rewrites` NULL: all. Counts changes. */
tp_graph *tpi_run_pass(tp_graph *g, const tpi_pass *pass, tpi_rewrites *rewrites, int n_feeds,
                       tp_tensor **feeds, int n_roots, tp_tensor **roots, int *n_changes);

/* change(g), in place; `change` NULL: nothing. False: the context's error is set, under that name when memory
 * is out. */
bool tpi_change_graph(const char *name, bool (*change)(tp_graph *g, int *n_changes),
                      tp_graph *g, int *n_changes);
/* A graph that whoever makes it owns, not the context; NULL: no memory. */
tp_graph *tpi_program_graph(tp_ctx *ctx);

#endif
