/* What lift.c, lift_cond.c and lift_loop.c share. */
#ifndef TAPIR_LIFT_DEF_H
#define TAPIR_LIFT_DEF_H

#include "capture/lift/lift.h"
#include "ir/body.h"

enum { TPI_TO_NEXT = 1, TPI_OUT = 2, TPI_BOTH = TPI_TO_NEXT | TPI_OUT };

typedef struct tpi_lift_slot {
    tp_tensor *t; /* NULL: nothing on no way */
    uint8_t bad;  /* nothing on some of these ways */
} tpi_lift_slot;

/* Registers, then results, then `again`, then `seen`. */
typedef struct tpi_lift_state {
    tpi_lift_slot *v;
    uint8_t ways; /* that lead here: TPI_BOTH while a turn has not ended */
    bool ended;   /* it has; when some ways went on and some out, they are TPI_BOTH again */
} tpi_lift_state;

typedef struct tpi_lifter {
    tpi_flow *w;
    const tpi_basic_blocks *bs;
    tp_ctx *ctx;
    tp_graph *top, *g; /* g: that nodes are put in */
    tpi_form form;
    tpi_lift_state now;
    tpi_lift_slot *phis; /* scratch, by phi */
    int n_slots, results, again, seen;
    bool whole;          /* as of tpi_flow_lift */
    bool seen_used;      /* the last slot says more than it did at first */
    int loop;            /* whose turn is lifted; -1 */
    tp_tensor *yes, *no; /* constants */
    const char *why;
    tpi_at where;
} tpi_lifter;

static inline bool tpi_lift_good(const tp_tensor *t)
{
    return t && t->status == TP_OK;
}

/* Where a basic block begins in the user's file. */
tpi_at tpi_lift_place(const tpi_lifter *u, int block);
/* The first reason is kept. False. */
bool tpi_lift_refuse(tpi_lifter *u, tpi_at at, const char *why);
bool tpi_lift_no_memory(tpi_lifter *u);
/* A state of its own; tpi_lift_free ends it. */
bool tpi_lift_copy(tpi_lifter *u, const tpi_lift_state *from, tpi_lift_state *to);
void tpi_lift_free(tpi_lifter *u, tpi_lift_state *s);
/* A set of registers and results, empty. */
tpi_bits *tpi_lift_live(tpi_lifter *u);
/* Those that are read at the very end are added: results, what is assigned. */
void tpi_lift_keep(const tpi_lifter *u, tpi_bits *v);
void tpi_lift_live_free(tpi_lifter *u, tpi_bits *v);
/* Nodes are put in g from here on. */
void tpi_lift_into(tpi_lifter *u, tp_graph *g);
void tpi_lift_set(tpi_lifter *u, int i, tpi_lift_slot s);
/* The ops of a basic block. */
bool tpi_lift_block(tpi_lifter *u, int block);
/* The look that a basic block ends with; NULL: none. */
const tpi_node *tpi_lift_look(const tpi_lifter *u, int block);
/* What it looks at, as one bool; NULL: refused. */
tp_tensor *tpi_lift_condition(tpi_lifter *u, int block);
/* The moves of a way from one basic block to the next, and where it leads. */
void tpi_lift_pass(tpi_lifter *u, const tpi_form_way *x);
int tpi_lift_behind(const tpi_lifter *u, const tpi_form_way *x);
/* From a place up to `stop`; `in_turn`: it is the first basic block of the turn that is lifted. */
bool tpi_lift_on(tpi_lifter *u, int place, int stop, bool in_turn);
/* Zeros of its type and sizes, which nothing reads. */
tp_tensor *tpi_lift_filler(tpi_lifter *u, const tp_tensor *like);
/* A branch, up to where its sides meet. */
bool tpi_lift_cond(tpi_lifter *u, int block, int join);
/* All turns of a loop. */
bool tpi_lift_loop(tpi_lifter *u, int k);

#endif
