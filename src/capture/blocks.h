/* Blocks: a flow as stretches without a look, each one program with registers in and out. */
#ifndef TAPIR_BLOCKS_H
#define TAPIR_BLOCKS_H

#include "capture/flow.h"
#include "capture/segment_def.h"

/* A value while a call is replayed. Values are never written over while somebody holds them. */
typedef struct tpi_reg {
    tpi_buf *buf; /* one reference; NULL: an extern's own memory, or none yet */
    char *data;
    uint64_t stamp; /* when it was made; before this call began: it has none */
    int32_t ext;    /* the extern that it is; -1 */
    int32_t init;   /* the extern that it is at first; -1 */
    int32_t node;   /* whose value it is; -1 */
    int32_t made;   /* which node made what it is now; -1: it comes from outside */
    bool used;      /* by another block than that which makes it */
    bool dirty;     /* an extern that was assigned in this call */
    size_t bytes;
    tp_tensor *header; /* type, sizes; of an extern: the tensor */
} tpi_reg;

/* If that block ran, or that edge of it was taken, since a value was made, C may mean another one. */
typedef struct tpi_doubt {
    int32_t block, edge; /* edge -1: the block */
    int32_t made;        /* when the value was made there: a node; -1: outside */
    int32_t before;      /* 1: also when it ran before that */
} tpi_doubt;

/* What a block reads. */
typedef struct tpi_port {
    int32_t reg, alt; /* alt: instead, when that has no value in this call; -1 */
    int32_t now;      /* the one of them, in this run */
    bool soft;        /* it may have none */
    int32_t node, k;  /* an operand that it is */
    int32_t n_doubts;
    tpi_doubt *doubts;
    int32_t n_rivals; /* registers that C may mean as well: where they differ, it tells */
    int32_t *rivals;
} tpi_port;

/* All at once, when the program has run. from: a port, or ~n for the n-th output. */
typedef struct tpi_move {
    int32_t to, from;
} tpi_move;

/* When the block is left by that edge. */
typedef struct tpi_edge_move {
    int32_t edge, to, from; /* registers */
} tpi_edge_move;

typedef struct tpi_output {
    int32_t place, reg;
    bool reuse;      /* its memory is free to be written while the block runs */
    int32_t pointer; /* of the program's table */
    tpi_buf *buf;    /* in this run */
    bool fresh;      /* not the register's */
} tpi_output;

typedef struct tpi_basic_block {
    int32_t n_nodes, nodes_size;
    int32_t *nodes;
    int32_t n_in, in_size, n_feeds; /* those that the program reads come first */
    tpi_port *in;
    int32_t *pointers; /* of feeds, in the program's table; -1: not read */
    int32_t n_out;
    tpi_output *out;
    int32_t n_moves;
    tpi_move *moves;
    int32_t n_ends; /* what is looked at, or the results: a port, or ~n */
    int32_t *ends;
    int32_t n_edges;
    tpi_edge *edges; /* to: block */
    int32_t n_sets;
    tpi_edge_move *sets;
    int32_t limit, turns;
    bool loops;
    int32_t n_random;
    uint64_t stamp; /* when it ran last */
    int64_t runs;
    tpi_shared *program; /* NULL: nothing to compute */
    bool direct;         /* it may be entered without a detour */
} tpi_basic_block;

struct tpi_basic_blocks {
    int32_t n;
    tpi_basic_block *v;
    int32_t n_regs;
    tpi_reg *regs;
    int32_t n_var_regs;
    uint64_t clock, base; /* base: when this call began */
    int64_t nodes_size;   /* of the flow when they were made */
    int32_t *node_reg;    /* by node; -1 */
};

/* Makes the blocks and their programs: w->blocks, NULL when that cannot be (w->why). */
void tpi_basic_blocks_make(tpi_flow *w);
void tpi_basic_blocks_free(tpi_flow *w);
/* Their loops may take as many turns as the nodes' may now. */
void tpi_basic_blocks_limit(tpi_flow *w);

/* ---- doubts.c ---------------------------------------------------------------------------- */

/* Finds the doubts and rivals of a port, and what stands in for it. False: memory is out. */
bool tpi_doubt_port(tpi_flow *w, tpi_basic_blocks *bs, tpi_port *p);
/* Can there be any? */
bool tpi_may_doubt(const tpi_flow *w, const tpi_basic_blocks *bs, const tpi_port *p);
/* The register of the variable that an operand is part of, and was equal to wherever it was seen; -1:
 * none, or several that differ. */
int tpi_find_alt(const tpi_flow *w, int node, int k);
bool tpi_is_rival(const tpi_flow *w, const tpi_port *p, int var);

/* ---- pure.c: which flow a call is for ---------------------------------------------------- */

/* The flow for such a call; NULL: there is none yet. */
tpi_flow *tpi_flow_find(const tp_function *f, int n_in, tp_tensor *const *in);
/* Tensors that are themselves, not what is given: are they the same ones as before? */
bool tpi_flow_same_tensors(const tpi_flow *w, tp_tensor *const *in);

/* ---- replay.c, purity.c: replays beside the C code --------------------------------------- */

/* What a replay would have done. */
struct tpi_dry {
    tpi_flow *w;
    int32_t n_blocks, blocks_size;
    int32_t *blocks; /* that ran, in order */
    bool failed;     /* memory was out */
    int n_out;
    char **results; /* bytes; NULL: a tensor from outside */
    size_t *bytes;
    char **assigned; /* by extern: bytes; NULL: not */
};

#endif
