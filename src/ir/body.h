/* Bodies: the graphs inside `cond` and `loop` nodes.
 *
 * A body is a graph of its own that shares the table of sizes with the graph it is in. It takes
 * `param` nodes, in order, and gives its outputs, in order; it reads nothing else: what a block
 * closes over (variables too) is an operand of its node, and a param inside. Constants may be
 * inside. Bodies belong to the graph they are in, and die with it.
 *
 *     %5 = cond %p, %x, %w {then=(body), other=(body)}        true; stands for its outputs
 *     %6 = output %5 {index=0}                                the first of them
 *
 *     %7 = loop %c, %z, %xs, %w {body=(body), carried=1, slices=1, stacked=1, pred=1, ...}
 *
 * cond:  operands  pred (bool, one element), then what the bodies take: params k <-> operand 1+k
 *        outputs   those of the body that runs; types and sizes are equal in both
 * loop:  operands  [pred], carried.., slices.., captures..
 *        params    turn (i64, rank 0), carried.., one element of each slice.., captures..
 *        body out  [pred], carried.., stacked..
 *        outputs   the last carried.., stacked.. with a leading axis of `length`
 *        With `counted` there are `count` turns; with `has_pred` a turn is taken only while pred is true;
 *        with both, whichever ends first. Turns are numbered from 0; with `back` turn t has the
 *        number count-1-t, which is also the element of slices and stacked it takes.
 *        `length`: number of turns taken. With has_pred it is a symbol of its own that the
 *        run of the loop binds; else count.
 * Only graphs have these nodes: concrete blocks run as C. */
#ifndef TAPIR_BODY_H
#define TAPIR_BODY_H

#include "ir/graph_def.h"

#include <string.h>

enum { TPI_MAX_NESTING = 64 }; /* of bodies in bodies */

typedef struct tpi_body {
    tp_graph *graph; /* graph->parent is the graph it is in; graph->dims is the parent's;
                        graph->body is this */
    int n_params;
    tp_tensor **params; /* nodes of graph, op param */
    tp_tensor **outers; /* by param: the node of the parent that a capture stands for, while the
                           body is open; else NULL */
    int n_outputs;
    tp_tensor **outputs; /* nodes of graph */
    int params_size, outputs_size;
    tpi_at at;        /* the block's line */
    bool closed;      /* takes no more captures */
    bool transformed; /* of a function that is transformed (transform/one_body.c) */
} tpi_body;

typedef struct tpi_cond_attrs {
    tpi_body *then, *other;
    int64_t
        n_writes; /* the first outputs are assigned to variables whenever the block is run */
} tpi_cond_attrs;

typedef struct tpi_loop_attrs {
    tpi_body *body;
    int64_t n_carried, n_slices, n_stacked;
    int64_t has_pred, counted, back;
    int64_t count;      /* a size; 0 when not counted */
    int64_t length;     /* a size: turns taken; 0 when nothing asks for it */
    int64_t n_writes;   /* as of a cond: the first of the carried values */
    int64_t checkpoint; /* gradients compute again what they need from every sqrt(n)th turn */
} tpi_loop_attrs;

typedef struct tpi_index_attrs { /* of param, output and row */
    int64_t index;
} tpi_index_attrs;

extern const tpi_op tpi_op_param, tpi_op_cond, tpi_op_loop, tpi_op_output;

static inline bool tpi_is_block(const tp_tensor *t)
{
    return t->op == &tpi_op_cond || t->op == &tpi_op_loop;
}
/* Does it stand for nodes inside of it, a call or a block? */
static inline bool tpi_has_inside(const tp_tensor *t)
{
    return t->op && (t->op == &tpi_op_call || tpi_is_block(t));
}
/* Are its results nodes of their own, which its gradient waits for? */
static inline bool tpi_has_results(const tp_tensor *t)
{
    return tpi_has_inside(t) || (t->op && t->op->joins);
}
/* What a node is to a block, or NULL when it is not: */
/* the attributes of a loop; they may be changed in place; */
static inline tpi_loop_attrs *tpi_loop_of(const tp_tensor *t)
{
    tpi_loop_attrs *a;
    memcpy(&a, &t->attrs, sizeof a);
    return t->op == &tpi_op_loop ? a : NULL;
}
/* the block of which it is an output; */
static inline tp_tensor *tpi_block_of(const tp_tensor *t)
{
    return t->op == &tpi_op_output ? t->in[0] : NULL;
}
/* the block that keeps it, an element for each turn of a loop, or for the side of a cond that ran; */
static inline tp_tensor *tpi_keeper_of(const tp_tensor *t)
{
    tp_tensor *block = tpi_block_of(t);
    const tpi_loop_attrs *loop = block ? tpi_loop_of(block) : NULL;
    return loop && ((const tpi_index_attrs *)t->attrs)->index < loop->n_carried ? NULL : block;
}
/* the body of which it is a param; */
static inline tpi_body *tpi_param_of(const tp_tensor *t)
{
    return t->op == &tpi_op_param ? t->graph->body : NULL;
}
/* the call or block of which it is a result or an output. */
static inline tp_tensor *tpi_token_of(const tp_tensor *t)
{
    tp_tensor *x = t->op && t->op->awaits ? t->in[t->op->awaits - 1] : NULL;
    return x && tpi_has_inside(x) ? x : NULL;
}
/* The number of a param, output or row among its like. */
static inline int64_t tpi_index_of(const tp_tensor *t)
{
    return ((const tpi_index_attrs *)t->attrs)->index;
}
/* The bodies of a block: 1 or 2 in out[]. */
int tpi_bodies_of(const tp_tensor *block, tpi_body **out);
/* How many outputs it has, and how many of them, the first ones, are what variables become. */
int tpi_n_outputs_of(const tp_tensor *block);
int tpi_n_writes_of(const tp_tensor *block);

/* Random numbers follow the graph, not what is read of it: a run makes all draws of its graph, in
 * program order, also those that nothing reads, as eager calls do. Is the node one that nothing
 * may leave out, for it draws, itself or in its bodies? */
bool tpi_node_draws(const tp_tensor *t);
bool tpi_graph_draws(const tp_graph *g);
/* How many turns a block has, a size; TPI_NO_DIM: values decide. */
int64_t tpi_turns_of(const tp_tensor *block);
/* Puts these of a graph in the list. */
void tpi_push_draws(tpi_nodes *l, const tp_graph *g);
/* tpi_collect of what a run of a program's graph computes. */
bool tpi_collect_run(tpi_nodes *out, const tp_graph *g, int n_roots, tp_tensor *const *roots);

/* An empty body of a new graph in g, which owns it; NULL: no memory, or too deep (the error is
 * set). While it is open, lifting a tensor of an outer graph, or a concrete one that is no plain
 * constant, makes a param of it, a capture (ir/outer.c). To have ops of outer tensors put in it,
 * set ctx->tracing to its graph. */
tpi_body *tpi_body_new(tp_graph *g, tpi_at at);
/* Frees a body of g that no node has. */
void tpi_body_drop(tp_graph *g, tpi_body *b);
/* A new param of that type and shape, the last one; never NULL. `outer` may be NULL. */
tp_tensor *tpi_body_param(tpi_body *b, tpi_at at, tp_dtype dtype, int rank,
                          const int64_t *shape, tp_tensor *outer);
/* The params in another order, all of them. */
void tpi_body_order(tpi_body *b, tp_tensor *const *params);
/* The param of body g, new or not, for what is outside of it; as a place to put it, whether or not
 * the body may read it. Never NULL. */
tp_tensor *tpi_capture(tp_graph *g, tpi_at at, tp_tensor *t);
/* A node of the body's graph as its next output; false: no memory. */
bool tpi_body_output(tpi_body *b, tp_tensor *t);
/* The operands that block nodes take for captures are b->outers of the params that have one. */

/* All bodies of `from` (a graph that is about to be freed) belong to `to`, which has its table of sizes. */
bool tpi_bodies_move(tp_graph *from, tp_graph *to);

/* The nodes: operands are of graph g. Never NULL. A loop's operands and body as above. */
tp_tensor *tpi_cond_node(tp_graph *g, tpi_at at, const tpi_cond_attrs *a, int n_in,
                         tp_tensor *const *in);
tp_tensor *tpi_loop_node(tp_graph *g, tpi_at at, const tpi_loop_attrs *a, int n_in,
                         tp_tensor *const *in);
/* A cond over bodies whose outputs are there: what one reads of outside, the other takes too. Never
 * NULL. */
tp_tensor *tpi_cond_close(tp_graph *g, tpi_at at, tp_tensor *pred, tpi_body *then,
                          tpi_body *other);
/* Output number `index` of a block; never NULL. One node per index and call. */
tp_tensor *tpi_output_node(tp_graph *g, tpi_at at, tp_tensor *block, int64_t index);

/* Type and sizes of output number `index`; shape has room for one axis more than TP_MAX_RANK. */
void tpi_output_type(const tp_tensor *block, int64_t index, tp_dtype *dtype, int *rank,
                     int64_t *shape);

/* The symbol that a loop's run binds; -1: none, or no loop. */
int tpi_binds(const tpi_dims *dims, const tp_tensor *t);
/* Is the symbol bound by the run of a loop of g, of a graph around it, or further inside? */
bool tpi_is_turns(const tp_graph *g, int64_t size);
/* Is xs what such a loop kept of `count` turns, so that who reads it knows that number? */
bool tpi_tells_turns(const tp_tensor *xs, int64_t count);

/* Is what is put in g part of a function that is transformed? */
static inline bool tpi_is_transformed(const tp_graph *g)
{
    while (g && g->body && !g->body->transformed)
        g = g->parent;
    return g && g->body;
}
/* Is g inside `outer`, at any depth, or the same? */
bool tpi_graph_within(const tp_graph *g, const tp_graph *outer);
/* Is it the body of a block that has ended? Gradients go on in such. */
bool tpi_is_over(const tp_graph *g);
/* May what is put in g read tensors of graph t (NULL: concrete ones)? */
bool tpi_may_read(const tp_graph *g, const tp_graph *t);
/* For what is made like t, without being an op on it: the failed tensor when such an op would be refused for
 * where t was made, or NULL. */
tp_tensor *tpi_refuse_like(const tp_tensor *t, tpi_at at, const char *what);
/* The failed tensor for an operand that g may not read. */
tp_tensor *tpi_refuse_outside(const tp_graph *g, tpi_at at, const char *what,
                              const tp_tensor *t);
/* The one for a value made in the block of that line, which has ended. */
tp_tensor *tpi_refuse_ended(tp_ctx *ctx, tpi_at at, const char *what, const tp_tensor *t,
                            int block);
/* The graph that is in no other. */
tp_graph *tpi_graph_root(tp_graph *g);
/* A fresh symbol of the graph's table: "turns", "turns.2", ... TPI_NO_DIM: no memory. */
int64_t tpi_fresh_symbol(tp_graph *g, const char *stem);

#endif
