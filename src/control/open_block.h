/* Blocks while they are open: what tapir/control.h's macros work on. control.c has the statements
 * and the run on concrete tensors, turn.c what is called inside, block_trace.c what becomes of
 * a block in a graph. */
#ifndef TAPIR_OPEN_BLOCK_H
#define TAPIR_OPEN_BLOCK_H

#include "ir/body.h"
#include "tapir/control.h"

/* What a loop goes over. */
typedef struct tpi_each {
    tp_tensor *xs;    /* as the user gave it, one reference */
    tp_tensor *rows;  /* concrete: what entered, one reference; symbolic: the param */
    tp_tensor *row;   /* concrete: the element of this turn, one reference; NULL: not yet */
    uint32_t version; /* concrete: of the memory of xs, when it entered */
} tpi_each;

/* What is stacked: one element per turn (concrete), or the node in the body. */
typedef struct tpi_emit {
    tp_tensor **place;
    int n, size;
    tp_tensor **items; /* one reference each */
    bool copied;       /* the last one is a copy that tp_emit made (tpi_block_value) */
} tpi_emit;

/* What a block in a graph assigns. */
typedef struct tpi_write {
    tp_tensor *variable; /* concrete, one reference */
    tp_tensor *param;    /* of a loop: what it is before the turn */
} tpi_write;

/* A tensor that a block inside left in a variable that it does not list. */
typedef struct tpi_stray {
    const tp_tensor *tensor; /* of the scope of this turn; NULL: none */
    int line;                /* of that block */
} tpi_stray;

struct tp_block {
    tp_ctx *ctx;
    tp_block *outer;
    const char *what; /* tp_if, tp_while, tp_for */
    tpi_at at;
    bool is_loop, symbolic;
    bool over;   /* it was given up: `outer` is the next such one */
    bool failed; /* the variables have been set to the failed tensor */
    int stage;   /* of the macros: how often `next` said yes */
    /* the listed variables */
    int n;
    tp_tensor ***vars; /* where they are */
    tpi_stray *strays; /* in this turn, by variable */
    /* before the block; of a loop, before this turn; one reference each when live */
    tp_tensor **before;
    /* the scope of a turn */
    int32_t scopes, floor;
    const char *function;
    uint64_t began; /* of a loop: what is younger was made in it */
    uint64_t entry; /* what is computed in the turn is younger */
    /* if */
    bool truth;
    tp_tensor *pred; /* symbolic: a node of g */
    /* loop */
    bool counted, back, checkpoint;
    int64_t count, turn;
    int n_each, each_size, n_emit, emit_size;
    tpi_each *each;
    tpi_emit *emit;
    /* in a graph */
    tp_graph *g;         /* the node is put in */
    tp_graph *traced;    /* ctx->tracing outside of it */
    tpi_body *body[2];   /* then, other; or the body of the loop */
    tp_tensor **then_at; /* the variables at the end of the first side */
    int n_writes, writes_size;
    tpi_write *writes;
};

/* Open a block over variables at vars[n]; NULL: they have been set to the failed tensor. */
tp_block *tpi_begin_if(tpi_at at, tp_tensor *pred, int n, tp_tensor **const *vars);
tp_block *tpi_begin_while(tpi_at at, int n, tp_tensor **const *vars);
tp_block *tpi_begin_for(tpi_at at, bool back, int64_t count, int n, tp_tensor **const *vars);

/* The variables, and what is stacked, become failed tensors; the block runs no more. */
void tpi_block_fail(tp_block *b, tp_tensor *failed);
/* What goes into a loop, or out of a turn, is a value: of what shares a variable's memory a copy.
 * Others, and nodes of graphs, are themselves. Never NULL. */
tp_tensor *tpi_block_value(tpi_at at, tp_tensor *t);
/* The failed tensor of variable i if its value is such that it cannot leave the block; else NULL. */
tp_tensor *tpi_refuse_var(const tp_block *b, int i);
/* The failed tensor: a turn has assigned what tp_each goes over. */
tp_tensor *tpi_refuse_each(const tp_block *b);
/* Room for one more in an array; NULL: no memory, the block has failed. */
void *tpi_block_room(tp_block *b, void *v, int n, int *size, size_t each);

/* Opens the next body: from here on ops on symbolic tensors are put in it. False: failed. */
bool tpi_trace_open(tp_block *b, int side);
/* Ends it; the variables at its end become its outputs (of a loop with `pred`). */
bool tpi_trace_close(tp_block *b, int side, tp_tensor *pred);
/* Makes the node, and sets the variables to its outputs. */
void tpi_trace_finish(tp_block *b);
/* In a graph, the loop's param for an element of xs; never NULL. */
tp_tensor *tpi_trace_each(tp_block *b, tpi_at at, tp_tensor *xs);
/* In body g the variable is `value` from here on, and outside when the block has ended; never
 * NULL. */
tp_tensor *tpi_block_assign(tpi_at at, tp_graph *g, tp_tensor *variable, tp_tensor *value);

#endif
