/* Copies of graphs, with the bodies in them. */
#ifndef TAPIR_BODIES_H
#define TAPIR_BODIES_H

#include "base/bump.h"
#include "ir/body.h"

/* How nodes are copied to another graph. */
typedef struct tpi_copier {
    tp_ctx *ctx;
    tpi_bump *memory;
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
    bool prunes;   /* from a graph that is not a program's */
    int n_changes; /* blocks that lost something */
} tpi_copier;

/* Copies nodes[] of graph `from` in program order, what is needed of their bodies, and all that the graph
 * and these bodies take to be equal. feeds[] and roots[] become nodes of `to`, also feeds that are not among
 * nodes[]. False: the context's error is set; under that name when memory is out. */
bool tpi_copy_graph(tpi_copier *c, const char *what, const tpi_nodes *nodes,
                    const tp_graph *from, tp_graph *to, int n_feeds, tp_tensor **feeds,
                    int n_roots, tp_tensor **roots);

/* Nodes first.. of g, before number `end`, stand before node t, which is none of them. */
void tpi_put_before(tp_graph *g, const tp_tensor *t, int first, int end);
/* Operand k of t is x from now on. */
void tpi_replace_operand(tp_tensor *t, int k, tp_tensor *x);
/* Outputs of a block of a graph that is not yet copied are those of one that takes its place. */
void tpi_replace_block(tp_tensor *old, tp_tensor *made);

#endif
