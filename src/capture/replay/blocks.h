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

/* A register holds the value of an extern, of a variable of the flow, or of a node. Memory that somebody else
 * holds is never written. */
typedef struct tpi_reg {
    tpi_buf *buf; /* one reference; NULL: an extern in its own memory, or no value yet */
    char *data;
    uint64_t stamp; /* when it got its value; older than this call: it has none */
    int32_t ext;    /* it holds this extern; -1: none */
    int32_t init;   /* a call begins with this extern as its value; -1: with none */
    int32_t node;   /* it holds values of this node, or of nodes like it; -1 */
    int32_t made;   /* the node that made the value it has; -1: the value is from outside */
    bool used;      /* another basic block reads it than the one that makes the value */
    bool dirty;     /* it is an extern that was assigned in this call */
    size_t bytes;
    tp_tensor *header; /* has its type and sizes; of an extern: the tensor itself */
} tpi_reg;

/* A reason why C might use another tensor than the one in a register: a basic block ran, or one of its edges was
 * taken, after the value was made, and recordings do not show what C does then. */
typedef struct tpi_doubt {
    int32_t block, edge; /* edge -1: that the basic block ran is enough */
    int32_t made;   /* it counts for values that this node made; -1: for values from outside */
    int32_t before; /* 1: it also counts if that was before the value was made */
} tpi_doubt;

/* A register that a basic block reads. */
typedef struct tpi_port {
    int32_t reg;
    int32_t alt;     /* is read instead, if `reg` has no value in this call; -1: nothing is */
    int32_t now;     /* the one of the two that this run reads */
    bool soft;       /* neither needs to have a value */
    int32_t node, k; /* it is operand k of this node (and maybe of others) */
    int32_t n_doubts;
    tpi_doubt *doubts;
    int32_t n_rivals; /* registers that C may mean, too: if one has another value, C runs */
    int32_t *rivals;
} tpi_port;

/* After the program has run register `to` gets a value: that of port `from`, or of output ~from. All moves happen
 * at once. */
typedef struct tpi_move {
    int32_t to, from;
} tpi_move;

/* When the basic block is left by this edge, register `to` gets the value of register `from`. */
typedef struct tpi_edge_move {
    int32_t edge, to, from;
} tpi_edge_move;

/* A result of the program. */
typedef struct tpi_output {
    int32_t place; /* which node of the basic block has this value */
    int32_t reg;   /* the register of that node */
    bool reuse;    /* the register's memory can be written: the basic block does not read it */
    int32_t pointer; /* index in the program's table of pointers */
    tpi_buf *buf;    /* its memory in this run, */
    bool fresh;      /* which is new, and not the register's */
} tpi_output;

typedef struct tpi_basic_block {
    int32_t n_nodes, nodes_size;
    int32_t *nodes;
    int32_t n_in, in_size, n_feeds;
    tpi_port *in;      /* the first n_feeds of them are the program's feeds */
    int32_t *pointers; /* by feed: index in the program's table of pointers; -1: unread */
    int32_t n_out;
    tpi_output *out;
    int32_t n_moves;
    tpi_move *moves;
    int32_t n_ends; /* what its last node looks at or returns: a port, or ~n for output n */
    int32_t *ends;
    int32_t n_edges;
    tpi_edge *edges; /* which lead to basic blocks */
    int32_t n_sets;
    tpi_edge_move *sets;
    int32_t limit, turns; /* turns of the loop that begins here: at most, in this call */
    bool loops;           /* one does */
    int32_t n_random;     /* random ops */
    uint64_t stamp;       /* when it ran last */
    int64_t runs;
    tpi_shared *program; /* NULL: there is nothing to compute */
    bool direct; /* its C program can be called at once, with pointers to the registers */
} tpi_basic_block;

struct tpi_basic_blocks {
    int32_t n;
    tpi_basic_block *v;
    int32_t n_regs;
    tpi_reg *regs;
    int32_t n_var_regs;
    uint64_t clock;     /* stamps are its values */
    uint64_t base;      /* its value when this call began */
    int64_t nodes_size; /* how many nodes the flow had when these were made */
    int32_t *node_reg;  /* by node: its register; -1: none */
};

/* Makes w->blocks, the basic blocks of the flow, and their programs. NULL if that cannot be done: w->why. */
void tpi_basic_blocks_make(tpi_flow *w);
void tpi_basic_blocks_free(tpi_flow *w);
/* Takes over the limits of loops from the nodes, which a recording may have raised. */
void tpi_basic_blocks_limit(tpi_flow *w);

/* ---- doubts.c ---------------------------------------------------------------------------- */

/* Finds the doubts, the rivals and `alt` of a port. False: memory is out. */
bool tpi_doubt_port(tpi_flow *w, tpi_basic_blocks *bs, tpi_port *p);
/* Could the port have doubts? */
bool tpi_may_doubt(const tpi_flow *w, const tpi_basic_blocks *bs, const tpi_port *p);
/* A variable of the flow that the operand may be: it was equal to the operand in all recordings, and the nodes that
 * make the operand make it. Its register; -1: there is none, or several that differ. */
int tpi_find_alt(const tpi_flow *w, int node, int k);
/* Might C mean this variable of the flow, which is set on edges? It was equal to the operand in all recordings. */
bool tpi_is_rival(const tpi_flow *w, const tpi_port *p, int var);

/* ---- pure.c: which flow a call is for ---------------------------------------------------- */

/* The flow whose guards this call meets; NULL: none yet. */
tpi_flow *tpi_flow_find(const tp_function *f, int n_in, tp_tensor *const *in);
/* A flow may rely on certain tensors: state, and arguments for which only one tensor was ever given. Does this call
 * have the same ones? */
bool tpi_flow_same_tensors(const tpi_flow *w, tp_tensor *const *in);

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
