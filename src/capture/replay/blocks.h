/* Basic blocks of a flow, and how a replay runs them.
 *
 * A basic block is nodes of the flow that always run one after the other: only its last node can be a look
 * or the return, and edges lead only to its first. Its ops are one program. Values go from one basic
 * block to another in *registers*. A replay runs the program of a basic block, moves results into registers,
 * looks at a value, and goes on along the edge of the outcome. */
#ifndef TAPIR_BLOCKS_H
#define TAPIR_BLOCKS_H

#include "capture/record/flow.h"
#include "capture/record/segment_def.h"

/* What a value was computed from while nothing required a gradient, as core.h has it of a tensor: for a mark that comes
 * later. */
typedef struct tpi_unmarked {
    uint64_t from, since;
} tpi_unmarked;

/* A register holds the value of an extern, of a phi, or of a node. Memory that somebody else holds is never
 * written. */
typedef struct tpi_reg {
    tpi_buf *buf; /* one reference; NULL: an extern in its own memory, or no value yet */
    char *data;
    uint64_t stamp;  /* the call in which it got its value; an older one: it has none */
    int32_t ext;     /* it holds this extern; -1: none */
    int32_t init;    /* a call begins with this extern as its value; -1: with none */
    int32_t made;    /* the node that made its value; -1: it is from outside */
    tpi_unmarked of; /* kept while ops are recorded */
    bool dirty;      /* it is an extern that was assigned in this call */
    size_t bytes;
    tp_tensor *header; /* has its type and sizes; of an extern: the tensor itself */
} tpi_reg;

/* After the program has run the extern `to` is assigned: the value of port `from`, or of output ~from. All moves
 * happen at once. */
typedef struct tpi_move {
    int32_t to, from;
} tpi_move;

/* When the basic block is left by this edge, register `to` gets the value that register `from` has then; -1: none, as
 * recordings leave it open. */
typedef struct tpi_edge_move {
    int32_t edge, to, from;
    int32_t after; /* only when this basic block has run; -1: in any case. Those come last */
    int32_t made;  /* as of tpi_set */
} tpi_edge_move;

/* A value on its way from register to register. */
typedef struct tpi_held {
    tpi_buf *buf; /* one reference; NULL: a tensor's own memory */
    char *data;
    uint64_t stamp;
    int32_t made;
    tpi_unmarked of;
} tpi_held;

/* A result of the program. */
typedef struct tpi_output {
    int32_t place; /* which node of the basic block has this value */
    int32_t reg;   /* the register of that node */
    uint64_t
        reads; /* ports that a gradient of it would go to, as bits; the last one: from there on */
    tpi_buf *buf; /* its memory in this run, */
    bool fresh;   /* which is new, and not the register's */
} tpi_output;

typedef struct tpi_basic_block {
    int32_t n_nodes, nodes_size;
    int32_t *nodes;
    int32_t n_in, in_size, n_feeds;
    int32_t
        *in; /* registers that it reads, its ports; the first n_feeds are the program's feeds */
    int32_t n_out;
    tpi_output *out;
    int32_t n_moves, moves_size;
    tpi_move *moves;
    int32_t n_ends; /* what its last node looks at or returns: a port, or ~n for output n */
    int32_t *ends;
    int32_t n_edges;
    tpi_edge *edges; /* which lead to basic blocks */
    int32_t n_sets, sets_size;
    tpi_edge_move *sets;  /* what phis become when it is left */
    int32_t limit, turns; /* turns of the loop that begins here: at most, in this call */
    uint64_t way;         /* by which that loop was entered */
    bool loops;           /* one does */
    int32_t n_random;     /* random ops */
    int64_t runs;
    uint64_t call;       /* the last one that it ran in */
    tpi_shared *program; /* NULL: there is nothing to compute */
} tpi_basic_block;

struct tpi_basic_blocks {
    int32_t n;
    tpi_basic_block *v;
    int32_t n_regs;
    tpi_reg *regs;
    int32_t first_phi, n_phi_regs; /* registers of phis, behind those of externs */
    uint64_t call; /* how many replays there were: the stamp of values of this one */
    int32_t
        n_words; /* of `open`: the outcomes that recordings had behind all merges of this replay, as bits */
    uint64_t *open;
    int64_t nodes_size; /* how many nodes the flow had when these were made */
    int32_t *node_reg;  /* by node: its register; -1: none */
    int32_t most_sets;  /* of one block */
    tpi_held *held;     /* room for so many */
};

/* The register that has the value of a source; -1: it is open. */
static inline int32_t tpi_block_reg(const tpi_basic_blocks *bs, const tpi_flow *w, tpi_source s)
{
    return s.kind == TPI_SOURCE_OPEN     ? -1
           : s.kind == TPI_SOURCE_EXTERN ? s.n
           : s.kind == TPI_SOURCE_NODE   ? bs->node_reg[s.n]
                                         : w->phis[s.n].reg;
}

/* Makes w->blocks, the basic blocks of the flow, and their programs. NULL if that cannot be done: w->why. */
void tpi_basic_blocks_make(tpi_flow *w);
void tpi_basic_blocks_free(tpi_flow *w);
/* Takes over the limits of loops from the nodes, which a recording may have raised. */
void tpi_basic_blocks_limit(tpi_flow *w);

/* ---- pure.c: which flow a call is for ---------------------------------------------------- */

/* Does the call meet the guards of the flow? */
bool tpi_flow_is_for(const tpi_flow *w, int n_in, tp_tensor *const *in);
/* The flow of which it does so; NULL: none yet. */
tpi_flow *tpi_flow_find(const tp_function *f, int n_in, tp_tensor *const *in);
/* A flow may rely on certain tensors: state, and arguments for which only one tensor was ever given. Does this call
 * have the same ones? */
bool tpi_flow_same_tensors(const tpi_flow *w, tp_tensor *const *in);

/* ---- replay.c: what any replay does at its end -------------------------------------------- */

/* The value as a result of a call over all that it may have been computed from, of which no gradient is found: the first
 * result makes the call. NULL: memory is out. */
tp_tensor *tpi_flow_tape(const tpi_flow *w, tpi_at at, tp_tensor *const *in, tp_tensor *value,
                         tp_tensor **call);
/* The variable gets this memory, whose reference is taken over, or what is in it. */
void tpi_take_value(tp_tensor *var, tpi_buf *buf);
/* Results that were made since go again. */
void tpi_drop_results(tp_ctx *ctx, int32_t mark, int n_out, tp_tensor **out);

/* ---- replay.c, purity.c: the check mode -------------------------------------------------- */

/* What a replay would have done. The check mode compares it with what the body did. */
struct tpi_dry {
    tpi_flow *w;
    int32_t n_blocks, blocks_size;
    int32_t *blocks; /* the basic blocks that ran, in order */
    bool failed;     /* memory was out */
    int n_out;
    char **results; /* the bytes of each; NULL: it is a tensor from outside */
    size_t *bytes;
    char **assigned; /* by extern: the bytes that it was assigned; NULL: it was not */
};

#endif
