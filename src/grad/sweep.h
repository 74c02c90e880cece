/* One reverse sweep, for tapes, graphs and the bodies of blocks alike.
 *
 * The nodes the roots were computed from are taken in program order; those that depend on what is
 * asked for are marked going forward; going back, each marked node's rule turns the gradient of its
 * result into contributions to its operands. Contributions add up as a left fold in that order
 * (newest node first, operands from first to last), which fixes the bits. The products with a
 * right matrix give it one contribution, the last, of all their rows joined, the newest product first: a
 * recursive network would add up a matrix as large as its weights at each node. What ranges along one axis are
 * read of, slices or the rows that a loop goes over, and nothing else but, later, the whole, gets them joined likewise, not a
 * sum of as many tensors of its size: the bits are those of the sum. Where ranges overlap it is that sum. So are slices at
 * places along an axis, as rows of an embedding, when the sweep is neither recorded nor captured: then the places are known.
 *
 * A call of a function is one node (op/call.h): what reaches its results waits until the sweep
 * comes to the call. There a sweep inside, by the same rules, goes from the results to the call's
 * operands, and what has added up there is the call's one contribution to each of them. But products
 * with an operand are joined outside: a cell that is called for each step gives its weights one
 * product, not a sum of as many as there are steps. The same holds for the turns of a loop and the
 * sides of an if. A sweep that is recorded, or of a graph, takes a state (op/add_rows.h) into these.
 *
 * A block of a graph is one node too: what reaches its outputs waits for it, and there its gradient
 * is built, as a block over bodies of its own (grad/vjp.h). A turn of a loop on concrete tensors, and
 * the side of an if that was taken, are calls. When their sweeps are recorded, these are calls as
 * well, as the turns of the loop that is the gradient of a loop are: what such a sweep reads of
 * the inside of the turn is made one of the turn's results.
 *
 * The files lean on each other in this order: sweep.c (nodes, sums), sweep_sums.c, sweep_products.c, sweep_rule.c,
 * sweep_ranges.c, sweep_places.c; sweep_call.c and vjp.c begin and end a sweep inside; sweep_go.c goes, into calls
 * and blocks, whose gradients (cond_grad.c, loop_grad.c) make it go through their bodies; backward.c asks. */
#ifndef TAPIR_SWEEP_H
#define TAPIR_SWEEP_H

#include "ir/body.h"
#include "op/op.h"

/* A product whose right matrix waits for its gradient. */
typedef struct tpi_product {
    tpi_at at;
    tp_tensor *x, *dy; /* its rows, the gradient of what they gave; a reference each, or NULL */
    int slot;          /* of the right matrix */
    int before;        /* the one met before it in the sweep; -1: none */
} tpi_product;

/* What a node gives an operand, in a sum that is put off. */
typedef struct tpi_contribution {
    tp_tensor *dx; /* one reference, or NULL when it was added */
    const tp_tensor *node;
    int before; /* the one to the same operand before it; -1: none */
} tpi_contribution;

/* A right matrix. What its products give it is a list, until a loop or a function with a loop in it
 * has to go on with the sum so far: then it is a state (op/add_rows.h), and a list of what came since. */
typedef struct tpi_right_matrix {
    int products;             /* that depend on what is asked for */
    int users;                /* they, calls and blocks that read it, those met taken off */
    int last;                 /* of the products in the list; -1: none */
    tp_tensor *state;         /* NULL, or what came before the list, one reference */
    const tp_tensor *outside; /* the state that it began with */
    tp_tensor *sum;           /* NULL, or what all products give it, one reference */
    tp_tensor *turned;        /* NULL, or its transpose in memory of its own, one reference */
} tpi_right_matrix;

typedef struct tpi_sweep {
    tp_ctx *ctx;
    tpi_at at;
    int depth;        /* in calls and bodies */
    int64_t left;     /* nodes that sweeps inside may still visit */
    tpi_nodes nodes;  /* program order; node->slot is the position */
    int32_t *outside; /* inside a call: the slots of the sweep outside, put back at the end */
    tp_tensor **grad; /* by slot: NULL, or the sum so far, one reference */
    bool *depends;    /* by slot: on something that is asked for */
    bool *ends;       /* by slot: where this sweep ends: an operand of the call, or a param */
    bool *outer;      /* by slot: an end, a matrix whose products are joined outside */
    bool *
        joined; /* by slot: joined with others of its like if `ranged` of its operand says so */
    /* By slot: positive when ranges along one axis are read of it, which are joined when they do not overlap, or slices at places
     * along one, and nothing else before the last of them; 0: nothing reads it; -1: other things do, or along several
     * axes. */
    int8_t *ranged;
    /* By slot; of a call, a block or what has ranges: the last of its results, outputs or ranges met so far; of one of
     * these: the one met before it; -1: none. NULL when there are none. */
    int *met;
    bool *wanted; /* one rule's operands */
    tp_tensor **dx;
    int max_in;
    bool now;    /* neither recorded nor captured: what is done may depend on values */
    bool enters; /* each slot's first contribution enters as a node of its own */
    tpi_right_matrix *shared; /* by slot; NULL when there is no product */
    tpi_product *products;
    int n_products, max_products;
    int32_t *last_put_off; /* by slot, in put_off; -1: none. NULL: nothing was */
    tpi_contribution *put_off;
    int32_t n_put_off, max_put_off;
    size_t bytes_put_off; /* of those that are not added yet */
} tpi_sweep;

/* Over what the roots were computed from, down to the ends. `inside`: another sweep uses the slots.
 * False: no memory, and nothing is to be given back. */
bool tpi_sweep_start(tpi_sweep *s, tp_ctx *ctx, tpi_at at, int n_roots, tp_tensor *const *roots,
                     int n_ends, tp_tensor *const *ends, bool inside);
void tpi_sweep_done(tpi_sweep *s);
/* Does the gradient of node i depend on what is asked for, through the node? */
bool tpi_sweep_goes_through(const tpi_sweep *s, int i);
/* And is it a product of matrices? */
bool tpi_sweep_is_product(const tpi_sweep *s, int i);
/* Carries `depends` from what is asked for to the roots. */
void tpi_sweep_spread(tpi_sweep *s);
/* From the gradients that are there, to what is asked for; false: the context's error tells. */
bool tpi_sweep_go(tpi_sweep *s);
/* grad[slot] += dx, whose reference is taken over; `node` has the line. */
void tpi_sweep_fold(tpi_sweep *s, const tp_tensor *node, int slot, tp_tensor *dx);
/* In a queue: that, later, at tpi_sweep_settle; false: it is to be added now. */
bool tpi_sweep_put_off(tpi_sweep *s, const tp_tensor *node, int slot, tp_tensor *dx);
void tpi_sweep_add_put_off(tpi_sweep *s, int slot);
/* What was put off is added. */
static inline void tpi_sweep_settle(tpi_sweep *s, int slot)
{
    if (s->last_put_off && s->last_put_off[slot] >= 0)
        tpi_sweep_add_put_off(s, slot);
}
/* The same for what a sweep begins with. */
void tpi_sweep_seed(tpi_sweep *s, const tp_tensor *node, int slot, tp_tensor *dy);
/* Do gradients pass through t, from its result to its operands? A call's or block's token carries
 * none, and stands for its results. */
static inline bool tpi_passes_gradient(const tp_tensor *t)
{
    return t->in && t->op->kind != TPI_SOURCE && t->op->grad && !(t->flags & TPI_CONSTANT) &&
           (t->dtype >= TP_F32 || tpi_has_inside(t));
}
static inline bool tpi_in_sweep(const tpi_sweep *s, const tp_tensor *t)
{
    return t && t->slot >= 0 && t->slot < s->nodes.n && s->nodes.v[t->slot] == t;
}
/* A sweep inside another one: not deeper than the C stack, and not over the same again and again. */
bool tpi_sweep_enter(const tpi_sweep *s, const tp_tensor *node);

/* What x gets of the ranges, or slices at places, met; false: the error is set. */
bool tpi_sweep_ranges(tpi_sweep *s, const tp_tensor *x, int slot);
bool tpi_sweep_places(tpi_sweep *s, const tp_tensor *x, int slot, int axis);
/* Is t one of those that are joined? */
bool tpi_sweep_is_part(const tpi_sweep *s, const tp_tensor *t);
/* A variable that was assigned since would give the gradient of another function: operand k of t; NULL, or the failed
 * tensor. */
tp_tensor *tpi_refuse_stale(const tp_tensor *t, tpi_at at, const char *what, int k);
/* What the rule of node t gives its operands is added to theirs. */
bool tpi_sweep_rule(tpi_sweep *s, tp_tensor *t);
/* Fills `ranged`. */
void tpi_sweep_find_ranges(tpi_sweep *s);
/* Finds the right matrices; false: no memory. */
bool tpi_sweep_find_products(tpi_sweep *s);
/* A product: keeps what its right matrix's gradient will be made of, the rows x and dy. */
bool tpi_sweep_keep(tpi_sweep *s, tpi_at at, int slot, tp_tensor *x, tp_tensor *dy);
/* Node t, which may be a product, or have products inside, has been met: the gradients of matrices
 * that nothing older reads are made. */
bool tpi_sweep_met(tpi_sweep *s, const tp_tensor *t);
/* What products have given the matrix of this slot, as a state, none included; NULL: the error is set. */
tp_tensor *tpi_sweep_state(tpi_sweep *s, tpi_at at, int slot);
void tpi_sweep_set_state(tpi_sweep *s, int slot, tp_tensor *state);
/* The matrix of this slot, outside too, goes on with a state from there. */
static inline void tpi_sweep_go_on(tpi_sweep *s, int slot, tp_tensor *state)
{
    tpi_sweep_set_state(s, slot, state);
    s->shared[slot].outside = state;
}
/* Have products inside been added to it? */
static inline bool tpi_sweep_went_on(const tpi_sweep *s, int slot)
{
    return s->shared && s->shared[slot].state != s->shared[slot].outside;
}
/* Those of the sweep inside a call that are joined outside. */
bool tpi_sweep_hand_out(tpi_sweep *s, tpi_sweep *inside);
/* The transpose of a shared matrix, NULL where it is not worth making. */
tp_tensor *tpi_sweep_turned(const tpi_sweep *s, const tp_tensor *t, tpi_right_matrix *w);

/* tp_grads in a graph, of a sweep that begins with sums[i] at xs[i], those that are not NULL. */
tp_status tpi_grads_onto(tpi_at at, tp_tensor *y, tp_tensor *dy, int n, tp_tensor *const *xs,
                         tp_tensor *const *sums, tp_tensor **dx);

/* `value` in every element of a tensor like x. */
tp_tensor *tpi_all(tpi_at at, tp_tensor *x, double value);

#endif
