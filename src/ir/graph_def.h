/* Graphs: nodes in program order. A static graph holds what was declared; walks over recorded
 * tensors see the same nodes. */
#ifndef TAPIR_IR_GRAPH_H
#define TAPIR_IR_GRAPH_H

#include "base/bump.h"
#include "ir/node.h"
#include "tapir/graph.h"

/* The node that stands for a concrete tensor. After an assignment in the graph it is the
 * assigned value: what is read later, in program order, is the new one. */
typedef struct tpi_lifted {
    const tp_tensor *concrete; /* NULL: a free slot */
    tp_tensor *node;
} tpi_lifted;

/* Two sizes that are taken to be equal, for the node of that name: a run sees whether they are. */
typedef struct tpi_equation {
    int64_t a, b;
    const char *name; /* or NULL */
    tpi_at at;
} tpi_equation;

struct tp_graph {
    tpi_dims *dims; /* first: see tpi_dims_of */
    tpi_owned owned;
    tp_ctx *ctx;
    tp_tensor **nodes; /* program order, a reference each; node->index is the position */
    int n_nodes, nodes_size;
    tpi_lifted *lifted; /* open addressing, a power of two */
    int n_lifted, lifted_size;
    tpi_lifted *assigned; /* every assignment: the variable, and what it is from then on */
    int n_assigned, assigned_size;
    tp_tensor **named; /* open addressing by name, a power of two */
    int n_named, named_size;
    tp_tensor **outputs; /* of tp_graph_set_outputs, nodes of the graph */
    int n_outputs;
    char **strings; /* file names interned from texts */
    int n_strings;
    struct tpi_program_cache *programs; /* of tp_graph_run; freed through free_programs */
    void (*free_programs)(struct tpi_program_cache *c);
    tp_graph *parent;      /* of a body: the graph it is in, whose table of sizes it shares */
    struct tpi_body *body; /* of a body: what it is (ir/body.h) */
    struct tpi_body **bodies; /* of its blocks; freed with it */
    int n_bodies, bodies_size;
    /* Of one call (transform/one_body.c): concrete tensors are its leaves, whatever they were computed from. */
    bool borrows;
    bool
        leaves; /* it is made to be written to a file: kernels of the user's become what stands for them */
    /* Of a program's graph (pass/fold.c): its constants before any was folded, what folding may add to
     * them now, and what it has added since the last time. */
    size_t own_bytes, may_fold, was_folded;
    /* Of a program's graph, and of the bodies in it: what its assume nodes say, those included of which
     * nothing but the shape was needed (ir/equations.c). */
    tpi_equation *equations;
    int n_equations, equations_size;
};
_Static_assert(offsetof(tp_graph, dims) == 0, "tpi_dims_of reads it there");

/* Nodes:
 *   placeholder        fed at each run; n_in 0, has a name
 *   variable(concrete) in[0] is the concrete tensor it reads (a variable, or a view of one)
 *   const(concrete)    in[0] is the concrete tensor it is
 *   assign(v, x)       v a node of op variable or assign; value x; the variable changes at the
 *                      end of a run that needs this node
 *   group(x...)        true
 *   call(x...)         true; a call of a function (op/call.h)
 *   result(y, c)       y, which was computed inside the call c
 *   param              of a body (ir/body.h): what its block gives it
 *   cond, loop, output blocks and what comes out of them (ir/body.h)
 * Operands in[] of kind TPI_SOURCE are concrete tensors, of all others nodes of the graph. */

static inline bool tpi_graph_leaves(const tp_graph *g)
{
    while (g->parent)
        g = g->parent;
    return g->leaves;
}

/* Adds a node of given type and shape; never NULL. The result belongs to the open scope too. */
tp_tensor *tpi_graph_node(tp_graph *g, tpi_at at, const tpi_op *op, int n_in,
                          tp_tensor *const *in, const void *attrs, tp_dtype dtype, int rank,
                          const int64_t *shape);
/* The node for an operand: a symbolic one is itself; a concrete one becomes a const or variable
 * node, or, when it was recorded, the nodes it was computed by (once per graph). In a body, what
 * is of a graph around it, or no plain constant, becomes a param. Never NULL; failed when the
 * operand is of another graph, or shows a variable as it was before the graph assigned it
 * (ir/outer.c). */
tp_tensor *tpi_graph_lift(tp_graph *g, tpi_at at, tp_tensor *t);
/* The same of a concrete one, but in a body what is no variable is a constant of its own. */
tp_tensor *tpi_graph_constant(tp_graph *g, tpi_at at, tp_tensor *concrete);
/* The node that stands for a concrete tensor already; NULL: none. */
tp_tensor *tpi_graph_lifted(const tp_graph *g, const tp_tensor *t);
/* From now on the lifted variable is read as `node`; false: no memory. */
bool tpi_graph_assigned(tp_graph *g, const tp_tensor *variable, tp_tensor *node);
/* Is t the variable, a node that was it, or a view of one of these? */
bool tpi_shows(const tp_tensor *t, const tp_tensor *variable);
/* The graph that an op on the symbolic x is put in: the body that is traced, or x's. NULL for a
 * concrete x. */
tp_graph *tpi_graph_here(const tp_tensor *x);
/* Names a node. TP_E_NAME: another one has the name, or the node has one; TP_E_MEMORY. */
tp_status tpi_graph_name(tp_graph *g, tp_tensor *node, const char *name);
/* The node, with that name (NULL: none) where it can have it, or as it failed before; a failed tensor
 * when memory is out. */
tp_tensor *tpi_graph_named(tp_graph *g, tp_tensor *node, const char *name);
tp_tensor *tpi_graph_by_name(const tp_graph *g, const char *name, size_t len); /* or NULL */
void tpi_graph_free_outputs(tp_graph *g);
/* `text` copied once per graph; NULL when out of memory. */
const char *tpi_graph_intern(tp_graph *g, const char *text, size_t len);

extern const tpi_op tpi_op_placeholder, tpi_op_variable, tpi_op_const, tpi_op_assign,
    tpi_op_group, tpi_op_call, tpi_op_result;

/* What nodes stand for, NULL when a node is none of these: */
/* the concrete tensor that a constant is; */
static inline tp_tensor *tpi_constant_of(const tp_tensor *t)
{
    return t->op == &tpi_op_const ? t->in[0] : NULL;
}
/* the variable, or view of one, that is read; */
static inline tp_tensor *tpi_variable_of(const tp_tensor *t)
{
    return t->op == &tpi_op_variable ? t->in[0] : NULL;
}
/* what a variable is assigned; */
static inline tp_tensor *tpi_assigned_of(const tp_tensor *t)
{
    return t->op == &tpi_op_assign ? t->in[1] : NULL;
}
/* the value inside the call, of its result. */
static inline tp_tensor *tpi_inside_of(const tp_tensor *t)
{
    return t->op == &tpi_op_result ? t->in[0] : NULL;
}

/* Which operands of a `result` a walk enters. */
typedef enum tpi_way {
    TPI_WAY_ALL,
    TPI_WAY_VALUES, /* the value: what a run needs */
    TPI_WAY_CALLS   /* the call: what a gradient sees from outside */
} tpi_way;

/* Adds one, unless the graph has it; texts are kept with the outermost graph. False: no memory. */
bool tpi_graph_equate(tp_graph *g, const tpi_equation *e);
/* All of the list of a graph, or body, that has the same table of sizes and the same texts, to a new one
 * that takes its place. False: no memory. */
bool tpi_graph_equate_all(tp_graph *g, const tp_graph *from);
/* What assume node t says of an axis; false: nothing. */
bool tpi_graph_equation_of(const tp_tensor *t, int axis, tpi_equation *e);

/* A list of tensors. */
typedef struct tpi_nodes {
    tp_ctx *ctx;
    tpi_bump
        *room; /* where it lies; NULL: in the context's memory, and tpi_nodes_free is called */
    tpi_way way; /* of tpi_collect */
    /* It leaves fused composites as they are (op/fused.h), and calls that are one node (batch/cell.h); else it unfolds
     * them. */
    bool folded, whole;
    tp_tensor **v;
    int n, size;
    bool failed; /* out of memory */
} tpi_nodes;
void tpi_nodes_push(tpi_nodes *l, tp_tensor *t);
void tpi_nodes_free(tpi_nodes *l);
/* All that the roots were computed from (roots included), in program order. Descends into
 * recorded operands; concrete operands of TPI_SOURCE nodes are not entered. Nodes for which
 * `stop` (may be NULL) is true are taken but not entered. */
bool tpi_collect(tpi_nodes *out, int n_roots, tp_tensor *const *roots,
                 bool (*stop)(void *user, const tp_tensor *t), void *user);
/* All that the roots were computed from, down to the ends: these are taken, needed or not, and
 * not entered. */
bool tpi_collect_from(tpi_nodes *out, int n_roots, tp_tensor *const *roots, int n_ends,
                      tp_tensor *const *ends);
/* The operands of t that a walk enters are in[first] .. in[end - 1]. */
static inline int tpi_way_first(tpi_way way, const tp_tensor *t)
{
    return way == TPI_WAY_CALLS && tpi_inside_of(t);
}
static inline int tpi_way_end(tpi_way way, const tp_tensor *t)
{
    return way == TPI_WAY_VALUES && tpi_inside_of(t) ? 1 : t->n_in;
}

#endif
