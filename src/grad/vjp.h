/* The gradient of a body: what the gradients of blocks are made of.
 *
 * Into a scratch body goes a copy of the forward body, and there a sweep runs, from seeds at its
 * outputs to its params. What the nodes of that sweep read of the copy is the cut: the forward block
 * gets it as further outputs (appended: those it has stay as they are), and the backward body,
 * which is made of the sweep's nodes alone, takes it as further params. Nothing is computed twice,
 * random numbers are drawn once, and in a gradient of this gradient each value that crosses the cut
 * is one node, as it is when the block runs as C (grad/sweep_call.c). Passes may compute
 * again what is cheap (pass/keep/restack.c), and what has sizes that are known inside the body only (the
 * turns of a loop in it), of which no output can be kept (pass/keep/recompute.c). */
#ifndef TAPIR_VJP_H
#define TAPIR_VJP_H

#include "grad/body_copy.h"
#include "grad/sweep.h"

typedef struct tpi_vjp {
    tpi_sweep *s; /* the sweep that came to the block */
    tpi_at at;
    tp_graph *g; /* that the block is in */
    tpi_body *from;
    tpi_body *work; /* the scratch body; its params begin with copies of those of `from` */
    int n_forward;  /* nodes of work->graph that are copies of those of `from` */
    int n_params;   /* of `from` */
    tp_tensor **dx; /* by param of `from`: its contribution, a node of work; NULL: none */
    /* by param: of a matrix whose products are joined outside, what they have given so far, a param of
     * work, and with those inside, a node of work; NULL: there are none */
    tp_tensor **state, **joined;
    /* by node of work, when the cut is made */
    bool *need, *given; /* what it is computed from; is there with its result */
    tp_tensor **made;   /* the node that stands for it in the backward body */
    int n_nodes;
    tpi_nodes taps; /* nodes of work, values of the forward part that the rest reads */
} tpi_vjp;

typedef struct tpi_seed {
    int output;    /* of the body */
    tp_tensor *dy; /* a node of work */
} tpi_seed;

/* By node of a body: does it depend, for gradients, on a param marked in params[]? */
void tpi_body_depends(const tpi_body *b, const bool *params, bool *depends);
/* Marks in reached[], where outputs are marked, what gradients go to from there. */
void tpi_body_reach(const tpi_body *b, const bool *depends, bool *reached);

/* Begins: false, and nothing to close, when memory is out. */
bool tpi_vjp_open(tpi_vjp *v, tpi_sweep *s, tp_tensor *block, tpi_body *from);
void tpi_vjp_close(tpi_vjp *v);
/* A param more of the scratch body, of that type, or of an element of it (`lead`). */
tp_tensor *tpi_vjp_param(tpi_vjp *v, const tp_tensor *like, bool lead);
/* The param for the state of param i, a matrix; never NULL. */
tp_tensor *tpi_vjp_state(tpi_vjp *v, int i);
/* Makes the sweep ready to go, for the params marked in depends[]; products with those in outer[] are joined
 * outside. False: the error is set. It ends either way. */
bool tpi_vjp_begin(tpi_vjp *v, tpi_sweep *in, const bool *depends, const bool *outer, int n,
                   const tpi_seed *seeds);
/* If it has `swept`, sets dx, state and joined. False: not all is well. */
bool tpi_vjp_end(tpi_vjp *v, tpi_sweep *in, bool swept);
/* All of it (sweep_go.c). */
bool tpi_sweep_body(tpi_vjp *v, const bool *depends, const bool *outer, int n,
                    const tpi_seed *seeds);
/* Finds, anew, what the outputs out[n], nodes of work, need, and the taps. Params of `from` in kept[] are
 * taps too; others are there in the backward body. */
bool tpi_vjp_cut(tpi_vjp *v, const bool *kept, int n, tp_tensor *const *out);
/* The node of the forward body that tap i is the copy of; never NULL. */
tp_tensor *tpi_vjp_origin(tpi_vjp *v, int i);
/* From now on `node` of the backward body stands for t of work. */
void tpi_vjp_set(tpi_vjp *v, const tp_tensor *t, tp_tensor *node);
/* Makes the rest of what is needed, in `to`. */
bool tpi_vjp_fill(tpi_vjp *v, tpi_body *to);
static inline tp_tensor *tpi_vjp_made(const tpi_vjp *v, const tp_tensor *t)
{
    return v->made[t->index];
}

/* A block's gradient: cot[] by output (NULL: none), one reference each. False: the error is set. */
bool tpi_cond_back(tpi_sweep *s, tp_tensor *block, tp_tensor *const *cot);
bool tpi_loop_back(tpi_sweep *s, tp_tensor *block, tp_tensor *const *cot);

/* Is the gradient of operand k asked for? */
static inline bool tpi_wants_operand(const tpi_sweep *s, const tp_tensor *block, int k)
{
    return block->in[k]->dtype >= TP_F32 && s->depends[block->in[k]->slot];
}
/* The sum so far of operand k is now `sum`, which includes it. */
void tpi_set_sum(tpi_sweep *s, const tp_tensor *block, int k, tp_tensor *sum);
/* Output `index` of a block that was just made. */
tp_tensor *tpi_output_of(tp_tensor *block, int64_t index);

#endif
