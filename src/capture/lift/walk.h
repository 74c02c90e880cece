/* A captured function as a graph, for who writes it to a file: its tree of steps, walked down with what each
 * step makes as a node, or the flow of a pure function (lift.h). */
#ifndef TAPIR_WALK_H
#define TAPIR_WALK_H

#include "capture/lift/lift.h"

/* A path down the tree: nodes by number of the step, tensors from outside by theirs, and which of both came into the
 * segment. */
typedef struct tpi_walk {
    tp_ctx *ctx;
    tpi_at at;
    const char *what;
    const tp_function *f;
    tp_graph *g;
    bool
        whole; /* assignments are done, random numbers drawn; ways that were not seen fail the run */
    int n_out;
    tp_tensor **steps, **outside; /* entries are set on the way down, and set anew beside it */
    int32_t *incoming;
    int n_steps, n_arguments, n_outside, incoming_size, n_incoming;
    const tpi_step *head; /* of the segment */
    bool seen_used;       /* there are ways that were not seen, or draws */
    const char *no_flow;  /* why a pure function's flow was no graph; NULL: none was tried */
    tpi_at no_flow_at;
} tpi_walk;

/* Room for the function's steps, and a graph; false: no memory, the error is set. tpi_walk_end in any case. */
bool tpi_walk_begin(tpi_walk *w);
void tpi_walk_end(tpi_walk *w);
/* False, and an error at the step; what was tried before says more. */
bool tpi_walk_refuse(const tpi_walk *w, const tpi_step *s, const char *text);
/* The node of operand k of the step that was met last, in the body that is open. */
tp_tensor *tpi_walk_node(const tpi_walk *w, const tpi_step *s, int k);
/* Goes on to a step: what comes in there is known. */
bool tpi_walk_meet(tpi_walk *w, const tpi_step *s);
/* What an op, a number or an assignment does, as nodes. */
bool tpi_walk_declare(tpi_walk *w, const tpi_step *s);
/* The results of the return that s is. */
bool tpi_walk_give(tpi_walk *w, const tpi_step *s, tp_tensor **out);
/* The step that followed s in good calls; NULL: there were several, or none (*n). */
const tpi_step *tpi_walk_next(const tpi_walk *w, const tpi_step *s, int *n);
/* Those that follow s where tp_truth was true, and false; NULL: never. False: refused. */
bool tpi_walk_sides(const tpi_walk *w, const tpi_step *s, const tpi_step *side[2]);
/* The arguments as placeholders, known as such on the way down. */
bool tpi_walk_arguments(tpi_walk *w, const tpi_step *entry, const char *const *names,
                        tp_tensor **in);
/* The flow of a pure function that was called in one way, as nodes: out[n_out] of in[n_in]. False: there is
 * none, it is no graph (no_flow), or the error tells; then the graph is a new one. */
bool tpi_walk_flow(tpi_walk *w, int n_in, const char *const *names, tp_tensor **in,
                   tp_tensor **out);
/* The whole tree as nodes, branches as `cond`: out[n_out]. False: the error tells. */
bool tpi_walk_tree(tpi_walk *w, const tpi_step *entry, tp_tensor **out);
/* Does the tree have a branch on tp_truth that C took? */
bool tpi_walk_branches(const tpi_walk *w, const tpi_step *entry);

#endif
