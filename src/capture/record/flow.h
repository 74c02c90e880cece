/* Flows: what a pure function does, so far as it is known, as a graph that runs without C.
 *
 * A *node* is an op, an assignment, a look, the return. Behind a look there is an edge for each
 * outcome seen, behind all else one. A flow is made from traces (trace.h): the first is a line;
 * a further one follows the nodes while it does the same, and where an outcome is new, new nodes are
 * added until what it does is what some node and those behind it do, to the return or to the next
 * outcome that is new: a *join*, or, when that node was passed before in this run, a *loop*. A loop
 * is made only at a look that traces have passed a different number of times, and it never runs more
 * turns than a trace had: C may count them.
 *
 * What an operand is follows from all traces. One that does not come from its own basic block, nor always
 * from outside, is a *phi*: on each edge it stays as it is or becomes what agrees with all traces that
 * took it (flow_values.c). Where traces leave it open which value C would use, the replay is abandoned and C tells.
 *
 * For running, nodes without a look between are a *basic block*: one program, with *registers* in
 * and out. All sizes are exact; a flow is for one way of being called (types, sizes, aliasing,
 * recording, watched bytes). */
#ifndef TAPIR_FLOW_H
#define TAPIR_FLOW_H

#include "capture/record/trace.h"

enum { TPI_NO_EXTERN = -1, TPI_ENTRY_NODE = 0, TPI_ANY_MAKER = -2 };

typedef struct tpi_edge {
    int32_t to;   /* node; when basic blocks are made: too */
    bool back;    /* of a loop */
    int16_t site; /* that loop's look */
    uint8_t size;
    int64_t taken;
    int32_t exit;     /* the first loop that is left by it; -1: none */
    int32_t merge;    /* its number, when other edges lead there too; -1 */
    int32_t entrance; /* which of the edges that lead there it is */
    /* Behind a look, the first of its numbers: one for each merge that can be the last one before it, by
     * entrance; else -1. */
    int32_t outcome;
    char seen[TPI_MAX_READ]; /* the outcome */
} tpi_edge;

/* Where an operand comes from. */
typedef enum tpi_source_kind {
    TPI_SOURCE_EXTERN, /* n: extern */
    TPI_SOURCE_NODE,   /* n: node, its last value */
    TPI_SOURCE_PHI,    /* n: phi */
    TPI_SOURCE_OPEN    /* it is not known */
} tpi_source_kind;

typedef struct tpi_source {
    tpi_source_kind kind;
    int32_t n;
} tpi_source;

typedef struct tpi_operand_of {
    int32_t outside; /* extern that it has been; TPI_NO_EXTERN: none */
    tpi_source
        source; /* found when all traces are in; of a node: one of the same basic block */
} tpi_operand_of;

typedef struct tpi_node {
    tpi_step_kind kind; /* TPI_STEP_ENTRY: the first */
    uint8_t dtype, rank, look;
    bool starts;  /* a basic block begins with it */
    bool unused;  /* in some trace nothing was computed from it */
    bool crosses; /* a phi becomes its value */
    bool loops;   /* a back edge leads here */
    uint32_t hash;
    const tpi_op *op;
    const void *attrs; /* of the trace that added it, as its item */
    tpi_at at;
    const tpi_item *item;
    const tpi_trace *trace; /* whose item that is */
    int32_t n_in;
    tpi_operand_of *in;
    int32_t n_edges;
    tpi_edge *edges;
    int32_t block, place; /* in which it is, and where */
    int32_t limit, turns; /* of a loop that begins here: at most; scratch of a walk, */
    uint64_t way, reads;  /* and so are by which way it was entered, and numbers read before */
    int32_t mark;         /* scratch */
} tpi_node;

/* A tensor from outside. */
typedef struct tpi_extern {
    tpi_from from;
    int arg;
    tp_tensor *tensor; /* one reference; of an argument: what is like the first one seen, or a
                          variable itself */
    uint64_t seq;      /* of that one: tells tensors apart */
    bool general;      /* ARG: others have been seen there */
    bool assigned;
    uint8_t flags; /* that are guarded */
} tpi_extern;

/* On this edge a phi becomes what the source is then; that of other phis is what they were before. */
typedef struct tpi_set {
    int32_t node, edge;
    int32_t after; /* only when this node has run; -1: in any case */
    int32_t made;  /* only a value that this node made; -1: one from outside; TPI_ANY_MAKER */
    tpi_source from;
} tpi_set;

/* A value that depends on the way: behind an edge on which it is not set it is what it was. */
typedef struct tpi_phi {
    int32_t node, k; /* it is operand k of this node, and of others */
    int32_t n_sets;
    tpi_set *sets; /* by edge */
    int32_t reg;   /* -1: none */
} tpi_phi;

/* Element type, rank and sizes of a value. */
typedef struct tpi_value_form {
    uint8_t dtype, rank;
    const int64_t *shape;
} tpi_value_form;

/* A look that traces pass a different number of times: of a loop that values end. */
typedef struct tpi_loop_site {
    uint32_t site; /* of the item */
    bool bounded;  /* C ends it too: it is not rolled */
    int32_t most;  /* turns that such a loop has had behind its first */
} tpi_loop_site;

/* By an edge recordings left a loop. Was it a value that ended it, or had C counted enough turns? A value, when
 * two that had the same outcomes before the loop left it after different numbers of turns; or, when no two of
 * TPI_MAX_WAYS recordings had, two that read the same numbers: a truth before a loop sets no bound (the promise). */
enum { TPI_MAX_WAYS = 8 };
typedef struct tpi_loop_exit {
    int32_t next; /* the next loop that this edge leaves; -1: none */
    int32_t head; /* the node that the loop begins with */
    bool by_value;
    bool differs; /* not all took the same number of turns */
    int32_t n;    /* ways by which it was entered, and after how many turns it was left then */
    int32_t turns[TPI_MAX_WAYS];
    uint64_t ways[TPI_MAX_WAYS], reads[TPI_MAX_WAYS];
} tpi_loop_exit;

typedef struct tpi_basic_blocks tpi_basic_blocks; /* blocks.h */

struct tpi_flow {
    tp_ctx *ctx;
    tp_function *f;
    /* guards: */
    int n_in, n_out;
    bool recording, training;
    uint64_t stream; /* of random numbers */
    char *watched;   /* what tp_function_watch named, as it was */
    size_t n_watched;
    int32_t n_externs, externs_size;
    tpi_extern *externs; /* arguments first, in order */
    int32_t n_args;      /* of them: different ones */
    int32_t *args;       /* by argument: which */
    /* what is known: */
    int n_traces;
    tpi_trace *traces[TPI_MAX_TRACES];
    int32_t n_nodes, nodes_size;
    tpi_node *nodes;
    int32_t n_phis, phis_size;
    tpi_phi *phis;
    int32_t n_exits, exits_size;
    tpi_loop_exit *exits;
    int32_t n_outcomes, n_merges, n_words;
    /* By merge, and one more as scratch: the outcomes that recordings had behind it, as bits. */
    uint64_t *followed;
    int n_sites;
    tpi_loop_site sites[64];
    int n_compared; /* the first traces, of which no two show a loop that C ends too */
    int32_t n_ways, ways_size;
    /* That the body went (tpi_way_behind), also in recordings that were not kept. */
    uint64_t *ways;
    int caution; /* 1: no loops; 2: no joins either */
    int32_t n_joins, n_loops;
    tpi_basic_blocks *blocks; /* NULL: not to be run */
    tpi_why why;              /* then: why */
    tpi_at why_at;
    int64_t replays, calm; /* calm: since the last recording */
};

/* ---- flow.c: traces become nodes and edges ----------------------------------------------- */

tpi_flow *tpi_flow_new(tp_function *f, const tpi_trace *t, bool recording);
void tpi_flow_free(tpi_flow *w);
/* The extern that a tensor from outside becomes; -1: memory is out. */
int tpi_flow_add_extern(tpi_flow *w, const tpi_origin *o);
/* Takes the trace; false: memory is out, it contradicts others (*impure, then the flow is as it was
 * before), or there are too many of them or of basic blocks (w->why). *known: nothing is new but numbers of turns and combinations of ways. */
bool tpi_flow_add(tpi_flow *w, tpi_trace *t, bool *impure, bool *known);

/* ---- flow_nodes.c: nodes, edges, and what a trace does beside them ------------------------- */

/* The edge for this outcome (of anything but a look: the only one); NULL: none. */
tpi_edge *tpi_flow_edge(const tpi_node *n, const char *seen, int size);
/* The edge that a trace takes from the node that its item i is; NULL: none. */
tpi_edge *tpi_flow_edge_behind(const tpi_flow *w, int node, const tpi_trace *t, int i);
/* Of what form operand k of the node is. */
tpi_value_form tpi_flow_operand_form(const tpi_flow *w, const tpi_node *n, int k);
bool tpi_same_form(tpi_value_form a, tpi_value_form b);
/* Does the item do what the node does, operands from outside included? */
bool tpi_flow_same(const tpi_flow *w, const tpi_node *n, const tpi_trace *t, const tpi_item *x);
/* Which extern a tensor of a trace is; -1: none. */
int tpi_flow_extern(const tpi_flow *w, const tpi_origin *o);

/* ---- flow_loops.c: loops ----------------------------------------------------------------- */

/* Looks that the last trace passes another number of times than others do are those of loops. *any: there is a new
 * one. False: memory is out. */
bool tpi_flow_find_sites(tpi_flow *w, bool *any);
bool tpi_flow_is_site(const tpi_flow *w, uint32_t site);
/* The site of a rolled loop of which equal turns were and were not the last one, so that no value ends it;
 * -1: none. */
int tpi_flow_find_counted(tpi_flow *w);
/* Turns that loops have had, how they were left, and which outcomes came behind which merge. False: memory
 * is out. */
bool tpi_flow_gather(tpi_flow *w);
void tpi_flow_forget_merges(tpi_flow *w);
/* Is each step of the trace known? Then its turns and combinations are noted; *combines: one of these is new. */
bool tpi_flow_confirms(tpi_flow *w, tpi_trace *t, bool *combines);
static inline uint64_t *tpi_flow_followed(const tpi_flow *w, int merge)
{
    return w->followed + (size_t)merge * (size_t)w->n_words;
}
static inline size_t tpi_flow_merge_bytes(const tpi_flow *w)
{
    return ((size_t)w->n_merges + 1) * (size_t)w->n_words * sizeof *w->followed;
}
/* Is it known that C leaves a loop by this edge, after so many turns, when it was entered by this way? */
bool tpi_may_leave(const tpi_loop_exit *x, uint64_t way, int32_t turns);
/* Has the body gone this way? */
bool tpi_flow_recorded(const tpi_flow *w, uint64_t way);
/* A way is all outcomes since the call began, as a hash. */
static inline uint64_t tpi_way_behind(const tpi_flow *w, uint64_t way, int node, int edge)
{
    if (w->nodes[node].kind != TPI_STEP_LOOK)
        return way;
    return (way ^ ((uint64_t)node << 16 | (uint64_t)edge)) * 0x9E3779B97F4A7C15u;
}

/* ---- flow_values.c: what operands are ---------------------------------------------------- */

/* Finds the source of each operand; false: memory is out, none fits (*misfit), or there are too many basic blocks
 * (w->why). */
bool tpi_flow_values(tpi_flow *w, bool *misfit);
void tpi_flow_forget_values(tpi_flow *w);
/* What the source of an operand of item i is in a trace; false: it is open. */
bool tpi_source_value(const tpi_flow *w, tpi_source s, const tpi_trace *t, int i, tpi_code *c);

#endif
