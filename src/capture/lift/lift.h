/* Lifting a flow into a graph: joined branches become `cond` nodes, rolled loops `loop` nodes.
 *
 * flow_form.c finds the form: which basic blocks are in which loop, where the ways out of a look meet, and
 * which registers are read later. lift.c goes through the basic blocks in that form, with what each
 * register holds as nodes of the graph. What a flow may refuse at run time, a graph cannot: so
 * where recordings leave it open what C would do, it is not lifted, and a reason is given. */
#ifndef TAPIR_LIFT_H
#define TAPIR_LIFT_H

#include "capture/replay/blocks.h"

/* Sets of numbers below some n. */
typedef uint64_t tpi_bits;
static inline int tpi_bit_words(int n)
{
    return (n + 63) / 64;
}
static inline bool tpi_bit_has(const tpi_bits *v, int i)
{
    return v[i / 64] >> (i % 64) & 1;
}
static inline void tpi_bit_add(tpi_bits *v, int i)
{
    v[i / 64] |= UINT64_C(1) << (i % 64);
}
static inline void tpi_bit_drop(tpi_bits *v, int i)
{
    v[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* A way on from a basic block. */
typedef struct tpi_form_way {
    int32_t to;
    bool back;           /* to the next turn of the loop that begins there */
    int32_t block, edge; /* what is set on it: as on this edge */
    int32_t
        guard; /* it was not seen: this block's other way leads to the turn from which that edge leads out; -1 */
} tpi_form_way;

typedef struct tpi_form_loop {
    int32_t head; /* basic block */
    int32_t exit; /* where all ways out of it meet; -1: not found yet */
    int32_t size; /* basic blocks in it */
    tpi_bits *in; /* which */
} tpi_form_loop;

/* Places: the basic blocks, then the end behind all returns, then one per loop: its next turn. */
typedef struct tpi_form {
    tpi_mem *mem;
    const tpi_basic_blocks *bs;
    bool open; /* of a look one side may have been seen alone: then it has one way */
    bool calm; /* what recordings leave open stays as it is */
    int32_t n_blocks, end, n; /* n: of places */
    tpi_form_way (*ways)[2];  /* by block: of a look when it is true, when it is false */
    uint8_t *n_ways;
    int32_t n_loops;
    tpi_form_loop *loops; /* those around others come first */
    int32_t *join;        /* by basic block: where all ways on from it meet */
    tpi_bits *after;      /* by place: places that all ways on from it pass */
    tpi_bits *live;  /* by block: registers that are read there or later, before they are set */
    const char *why; /* it has none; NULL: memory was out */
    tpi_at where;
} tpi_form;

/* f: zeros, but for `open`. False: there is no such form (f->why), or memory is out. To be freed either
 * way. */
bool tpi_form_find(tpi_flow *w, tpi_form *f);
void tpi_form_free(tpi_form *f);
/* The loop that begins at the basic block; -1: none. */
int tpi_form_loop_at(const tpi_form *f, int block);
/* Registers that are read at a place or later, added to `live`. */
void tpi_form_live(const tpi_form *f, int place, tpi_bits *live);
/* What a register becomes on a way: the one whose value it gets; -1: that is open. */
int tpi_form_from(const tpi_form *f, const tpi_form_way *x, int reg);
/* Those that are read behind a basic block. */
void tpi_form_live_behind(const tpi_form *f, int block, tpi_bits *live);

/* ---- lift.c ------------------------------------------------------------------------------ */

/* What the flow computes, as nodes of g: out[w->n_out] from in[], placeholders by argument. `whole`:
 * assignments are done, random numbers drawn, and ways that were not seen fail the run. False: it
 * cannot be said (*why, *where), or memory is out (*why NULL, the context has the error). */
bool tpi_flow_lift(tpi_flow *w, tp_graph *g, bool whole, tp_tensor *const *in, tp_tensor **out,
                   const char **why, tpi_at *where);

/* ---- seen.c: ways that were not seen ----------------------------------------------------- */

/* A scalar that says: no such way has been taken; behind a look that was always `was` it is another one,
 * and a run in which the look is not fails there. */
tp_tensor *tpi_seen_all(tpi_at at, tp_graph *g);
tp_tensor *tpi_seen(tpi_at at, tp_tensor *seen, tp_tensor *truth, bool was);
/* The same, behind a draw. */
tp_tensor *tpi_drawn(tpi_at at, tp_tensor *seen, tp_tensor *draw);
/* y, which cannot be had when such a way was taken. */
tp_tensor *tpi_if_seen(tpi_at at, tp_tensor *seen, tp_tensor *y);
/* Why a model cannot have a look that was never this. */
const char *tpi_never_seen(bool truth);
/* tp_truth of t as one bool; never NULL. */
tp_tensor *tpi_truth_of(tpi_at at, tp_tensor *t);

#endif
