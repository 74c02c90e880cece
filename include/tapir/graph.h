/* tapir: static graphs: placeholders, running, compiling, texts and files.
 *
 * A graph is built by the same ops that compute eagerly; an operand that comes from a
 * placeholder makes the result symbolic. Running a graph computes what is asked for and
 * nothing else, with the bits of the eager ops. */
#ifndef TAPIR_GRAPH_H
#define TAPIR_GRAPH_H

#include "grad.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tp_program tp_program;

/* ---- building ------------------------------------------------------------------------- */

/* An empty graph, NULL when out of memory (the context's error is set). It lives until
 * tp_graph_free or tp_close; its tensors live as long as it does. */
TP_API tp_graph *tp_graph_new(tp_ctx *tp);
TP_API void tp_graph_free(tp_graph *g);

/* A size known only at run time; the same name gives the same size. */
TP_API int64_t tp_symbol(tp_graph *g, const char *name);
/* Arithmetic on sizes, known or symbolic; tp_dim_div rounds down. A result that is no size
 * (a bad operand, division by 0) is refused where it is used. What C arithmetic makes of a
 * symbolic size (n + 1, 1.0 / n) is refused by whatever takes it, also by these. */
TP_API int64_t tp_dim_add(tp_graph *g, int64_t a, int64_t b);
TP_API int64_t tp_dim_mul(tp_graph *g, int64_t a, int64_t b);
TP_API int64_t tp_dim_div(tp_graph *g, int64_t a, int64_t b);

/* A value to be fed. Sizes may be symbols. */
TP_FN(tp_tensor *, tp_placeholder, tp_graph *g, const char *name, tp_dtype dtype, int rank,
      const int64_t *shape);
#define tp_placeholder(...) tp_placeholder_at(TP_PLACE, __VA_ARGS__)

/* The graph of a symbolic tensor, also of one made in a block of it; NULL for a concrete one. */
TP_API tp_graph *tp_graph_of(const tp_tensor *t);
#define tp_graph_of(t) tp_graph_of(TP_READ_OPERAND(t))
/* The node that reads a concrete tensor in g; a symbolic one comes back as it is. Ops do this by
 * themselves to concrete operands when another one is symbolic; what was recorded for such an
 * operand (because a gradient may be asked for) becomes nodes too. An expression of variables
 * that require no gradient is computed now, unless it starts from this. In an open block of g it
 * reads in the block. TP_E_STATE: the node of a variable, or a view of it, is read after the
 * graph assigned the variable, which on concrete tensors would show: take it from a new
 * tp_graph_read of the variable. */
TP_FN(tp_tensor *, tp_graph_read, tp_graph *g, tp_tensor *t);
#define tp_graph_read(g, t) tp_graph_read_at(TP_PLACE, g, TP_OPERAND(t))

/* A node that does nothing but need all the others: fetch it to run several assignments.
 * Its value is true. On concrete tensors: true. */
TP_FN(tp_tensor *, tp_group, int n, tp_tensor *const *xs);
#define tp_group(...) tp_group_at(TP_PLACE, __VA_ARGS__)

/* The node of that name; a failed tensor (TP_E_NAME) when there is none. */
TP_FN(tp_tensor *, tp_graph_find, tp_graph *g, const char *name);
#define tp_graph_find(...) tp_graph_find_at(TP_PLACE, __VA_ARGS__)
/* The variable of that name that the graph reads, concrete; a failed tensor (TP_E_NAME) when there is
 * none, or more than one. */
TP_FN(tp_tensor *, tp_graph_variable, tp_graph *g, const char *name);
#define tp_graph_variable(...) tp_graph_variable_at(TP_PLACE, __VA_ARGS__)
/* The variables that the graph reads, concrete, in the order it met them; tp_requires_grad tells
 * which are parameters. Out of range: a failed tensor. */
TP_API int tp_graph_n_variables(const tp_graph *g);
TP_FN(tp_tensor *, tp_graph_nth_variable, tp_graph *g, int i);
#define tp_graph_nth_variable(...) tp_graph_nth_variable_at(TP_PLACE, __VA_ARGS__)

/* What the graph takes and gives: its placeholders in order, and the nodes named by
 * tp_graph_set_outputs (of an imported model: its outputs). Out of range: a failed tensor. */
TP_API int tp_graph_n_inputs(const tp_graph *g);
TP_FN(tp_tensor *, tp_graph_input, tp_graph *g, int i);
#define tp_graph_input(...) tp_graph_input_at(TP_PLACE, __VA_ARGS__)
TP_API int tp_graph_n_outputs(const tp_graph *g);
TP_FN(tp_tensor *, tp_graph_output, tp_graph *g, int i);
#define tp_graph_output(...) tp_graph_output_at(TP_PLACE, __VA_ARGS__)
/* Nodes of the graph, in no block, each with a name (tp_name). They replace those set before, and
 * are saved with it. */
TP_FN(tp_status, tp_graph_set_outputs, tp_graph *g, int n, tp_tensor *const *outputs);
#define tp_graph_set_outputs(...) tp_graph_set_outputs_at(TP_PLACE, __VA_ARGS__)

/* ---- running ---------------------------------------------------------------------------- */

typedef struct tp_feed {
    const char *name; /* of a placeholder, or of any node: its value is then not computed */
    tp_tensor *value; /* concrete */
} tp_feed;

/* Computes the named nodes into out[n], which belong to the open scope. Compiled on first use
 * for this set of names, and kept with the graph; sizes may differ from run to run. On failure
 * every out is failed and no variable has changed. */
TP_FN(tp_status, tp_graph_run, tp_graph *g, int n_feeds, const tp_feed *feeds, int n,
      const char *const *names, tp_tensor **out);
#define tp_graph_run(...) tp_graph_run_at(TP_PLACE, __VA_ARGS__)

/* Feeds as two arguments:  TP_FEEDS({"x", x}, {"y", y});  names as two arguments. In C only;
 * C++ passes arrays of its own. */
#ifndef __cplusplus
#define TP_FEEDS(...)                                                                          \
    (int)(sizeof((const tp_feed[]){__VA_ARGS__}) / sizeof(tp_feed)), (const tp_feed[])         \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }
#define TP_NAMES(...)                                                                          \
    (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)), (const char *const[])  \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }
#endif

typedef enum tp_engine {
    TP_ENGINE_AUTO,      /* tiles at once, the C program when (if) it is compiled */
    TP_ENGINE_REFERENCE, /* node by node, plain loops */
    TP_ENGINE_C,         /* a run waits for the C program; TP_E_COMPILER when it fails. What
                            cannot be one (tp_program_wait says why) is run node by node */
    TP_ENGINE_TILES      /* fused kernels by the library's own vector code: no compiler */
} tp_engine;

typedef struct tp_compile_options {
    tp_engine engine;
    const char *skip_passes; /* of "restack,checkpoint,hoist,fold,algebra,cse,sparse,pick,
                                remake,fuse,bands" those to leave out; the bits stay */
    bool freeze; /* variables are read now, once: constants, whose contractions are packed. They
                    lie in the variables' memory until these are assigned or freed; then what is
                    packed is kept in place of the elements */
    const char *stop_after; /* to look at a graph half way: the pass that is the last one, in
                               its first round ("remake" has one only, behind the rounds of
                               the others); "prune": none runs */
    int64_t memory_limit; /* most bytes of what lies between kernels, with what loops keep (the
                             arena of tp_program_memory_text); 0: none. To keep it, kernels run
                             in another order, and values are computed again instead of kept:
                             the same bits, slower; finding out takes time that grows with
                             the square of the kernels. TP_E_LIMIT names what is in the way,
                             and the least that can be; TP_E_VALUE when it is below 0. Where sizes
                             are symbols, or a loop's turns are known to its run only, nothing
                             is done but to refuse the run whose sizes take more. Not counted:
                             what is fed and fetched, constants and their packed copies,
                             variables, and the workspaces of products and convolutions */
} tp_compile_options;

/* A program for fixed names of feeds and fetches; `opt` may be NULL. NULL on error (see
 * tp_error). It takes the graph as it is now. Freed by tp_program_free or with the context. */
TP_FN(tp_program *, tp_graph_compile, tp_graph *g, int n_feeds, const char *const *feeds, int n,
      const char *const *fetches, const tp_compile_options *opt);
#define tp_graph_compile(...) tp_graph_compile_at(TP_PLACE, __VA_ARGS__)
TP_API void tp_program_free(tp_program *p);
/* Runs it on feeds in the order of their names. As tp_graph_run. */
TP_FN(tp_status, tp_program_run, tp_program *p, tp_tensor *const *feeds, tp_tensor **out);
#define tp_program_run(...) tp_program_run_at(TP_PLACE, __VA_ARGS__)
/* Waits for the compiler; TP_E_COMPILER and why, when there will be no C program. */
TP_API tp_status tp_program_wait(tp_program *p);
/* What the last run used: "c", "tiles", "reference", or "eager": node by node, when the NaN trap is
 * set or the program can be run in no other way; "none" when none has begun. Static storage. */
TP_API const char *tp_program_engine(const tp_program *p);
/* The C program's source. Lives as long as the program; NULL when it has none. */
TP_API const char *tp_program_source(tp_program *p);

typedef struct tp_program_stats {
    int nodes;             /* after pruning and passes */
    int kernels;           /* of the C program, those of bodies of blocks included */
    int64_t arena_bytes;   /* at the sizes of the last run, with what loops stack; */
    int64_t scratch_bytes; /* workspaces of kernels, of all threads; */
    int64_t packed_bytes;  /* constants as products read them */
    double compile_ms;     /* from the start of the compiler to the loaded program */
    bool from_cache;
    double flops; /* of contractions and convolutions at the sizes of the last run: two per
                     multiply-add, of loops once per turn; 0 before the first run */
} tp_program_stats;
TP_API tp_program_stats tp_program_stats_of(const tp_program *p);

/* What is run: the graph after the passes, for tp_graph_text and tp_graph_dot. The program's, which from
 * then on keeps its constants beside the packed ones. NULL when out of memory. */
TP_API const tp_graph *tp_program_graph(const tp_program *p);
/* The C program's kernels in their order, a line each: what it computes (numbers as in the
 * text of the program's graph; ! marks a reduced axis), what it writes and reads; then its
 * buffers: where each lies, and between which kernels. NULL when out of memory; tp_free frees. */
TP_API char *tp_program_text(tp_program *p);
/* The same kernels, below each block what it does around the kernels of its bodies (c0 is where these read carried
 * value 0, n0 where they write it), and below each loop nest its *loop program*: what tiles interpret and C is printed
 * from. A line is a statement, behind it the place it was made for:
 *
 *     each i0 < batch, i1 < 10 {      a loop over each axis: its points in any order
 *       x4 = v0[i0*10 + i1]           an element of memory v0
 *       x5 = sum lanes x4             one value of all points of the loop, there when it has ended
 *
 * Below a call or a copy is what is called, with its operands and its result: where each begins in which buffer, and its
 * sizes with their strides:
 *
 *     sort(b0[0](batch:10, 10:1)) {axis=1, descending=false} -> b1[0](batch:10, 10:1)
 *
 * What a fold's order (lanes, blocks) means, docs/numerics.md says. NULL when out of memory; tp_free frees. */
TP_API char *tp_program_loops_text(tp_program *p);
/* The memory between the kernels: a line per buffer of the arena with its bytes, its place and the
 * kernels in which it is in use (a mark for each; for some, where there are many), bodies of blocks
 * below; then what the arena takes. Sizes that are symbols give formulas, and when a run has told
 * them, numbers too: a loop of run-time length has room for the turns it took, or more. NULL when
 * out of memory; tp_free frees. */
TP_API char *tp_program_memory_text(tp_program *p);

/* ---- running side by side --------------------------------------------------------------------- */

/* A program's C code with memory of its own: runners of one program run in different threads at
 * once, each in one at a time, and beside the context's own thread. They allocate nothing. */
typedef struct tp_runner tp_runner;

/* A runner for feeds of these types and sizes, with the values that variables have now; what they
 * are assigned later it does not see. Waits for the compiler, and runs the program once. NULL on error:
 * TP_E_COMPILER, or TP_E_STATE for a program that assigns variables, draws random numbers, or has
 * results whose sizes only a run tells, and while NaNs are trapped. Made and freed by the thread that uses the context; freed
 * with the program. */
TP_FN(tp_runner *, tp_runner_new, tp_program *p, tp_tensor *const *feeds);
#define tp_runner_new(...) tp_runner_new_at(TP_PLACE, __VA_ARGS__)
TP_API void tp_runner_free(tp_runner *r);
/* From in[] to out[], arrays in row-major order without gaps, of the types and sizes of the feeds
 * and fetches; an unused in[] may be NULL. TP_E_NULL, TP_E_VALUE for an index out of range, TP_E_STOPPED
 * or TP_E_LIMIT where a loop was stopped (out is then worth nothing). */
TP_API tp_status tp_runner_run(tp_runner *r, const void *const *in, void *const *out);

/* ---- C files ------------------------------------------------------------------------------- */

typedef struct tp_c_options {
    const char *name; /* what all its names begin with; NULL: as the file is called */
    bool beside; /* weights go to a file of their own, whose bytes the caller hands over, and
                    not into the source */
    bool state;  /* variables that nothing assigns can be assigned by the caller; otherwise they
                   are constants, and prepared as such */
    int64_t
        memory_limit; /* as of tp_compile_options; the sizes have to be numbers (TP_E_SHAPE) */
} tp_c_options;

/* Writes what computes the named outputs from the named inputs as C that needs no library
 * (docs/standalone.md): `path` ends in ".c", its header goes beside it, so do weights that are
 * asked for beside ("net.c", "net.h", "net.weights"). Inputs are mostly placeholders; any node may be
 * one. Assignments are done as by tp_graph_run; variables begin with the values they have now, random
 * numbers with seed and positions of now. `opt` may be NULL. On error no file is new: TP_E_NAME,
 * TP_E_VALUE, TP_E_IO, TP_E_COMPILER for what no C program can be (tp_program_wait), or TP_E_SHAPE
 * and TP_E_LIMIT for a memory limit. */
TP_FN(tp_status, tp_graph_save_c, tp_graph *g, const char *path, int n_in,
      const char *const *inputs, int n_out, const char *const *outputs,
      const tp_c_options *opt);
#define tp_graph_save_c(...) tp_graph_save_c_at(TP_PLACE, __VA_ARGS__)

/* Measures each kernel of the runs that follow, by the clock, or (false) forgets what was measured.
 * Runs take some 50 ns longer per kernel. TP_E_STATE for a program of the reference engine. */
TP_API tp_status tp_program_profile(tp_program *p, bool on);
/* A table, a line per kernel in their order: its mean time and its share of all, its time in the
 * fastest run of it, the kilobytes it reads and writes, its operations in millions (two per
 * multiply-add), how much of the fastest time the machine needs at least: to multiply so much, or to
 * move so much, which is measured now, on one thread, in some 50 ms; its ops, the name of what it
 * gives, and the lines they are from. A block (a loop) is one kernel, whose turns are added up. NULL
 * when no run was measured; tp_free frees. */
TP_API char *tp_program_profile_text(tp_program *p);
/* The last run as a JSON object for chrome://tracing and its like. NULL as above; tp_free frees. */
TP_API char *tp_program_profile_trace(tp_program *p);
/* The same as a file, written whole or not at all. */
TP_FN(tp_status, tp_program_profile_save, tp_program *p, const char *path);
#define tp_program_profile_save(...) tp_program_profile_save_at(TP_PLACE, __VA_ARGS__)

/* ---- nodes -------------------------------------------------------------------------------------- */

/* A node as it is now, what stands in its line of tp_graph_text (docs/ir.md). Its texts and tensors
 * are the graph's, and live as long as that. */
typedef struct tp_node {
    const char *op;   /* "matmul", "placeholder", "const", ...; NULL: there is no such node */
    const char *name; /* NULL: it has none */
    const char *file; /* the user's line; NULL: it is not known */
    int line;
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK]; /* as of tp_dim */
    int n_operands, n_attributes, n_bodies;
    bool constant;          /* to gradients: it was made while recording was off */
    const tp_tensor *value; /* concrete, of a variable or a const; NULL: it is none */
    /* Of a view of a variable: the node of the variable itself or, where none reads that, of the first
     * view of it; -1: it is none. */
    int view_of;
    /* Of a param of a body: "turn", "carried", "slice", or "" for a node as it is; NULL: it is none. And
     * that node, the first that is carried, or what is sliced, in the graph around; -1: none. */
    const char *takes;
    int from;
} tp_node;

/* How many nodes it has, without those of bodies. They are numbered in program order, operands
 * before what reads them. */
TP_API int tp_graph_n_nodes(const tp_graph *g);
/* Node number i, %i in the text. When there is no such node, `view_of` and `from` are -1, all else is zero. */
TP_API tp_node tp_graph_node(const tp_graph *g, int i);
/* The number of operand k of node i; -1 when there is none. */
TP_API int tp_node_operand(const tp_graph *g, int i, int k);
/* Attribute k of node i, in the order of the text and as it stands there; `*name` (which may be
 * NULL) is set to its name, static storage. Bodies are none; a const of up to 16 elements has one,
 * "value". NULL when there is none, and when out of memory; tp_free frees. */
TP_API char *tp_node_attribute(const tp_graph *g, int i, int k, const char **name);

/* A body: a graph for the functions of this part, tp_graph_n_outputs, tp_graph_text and
 * tp_graph_dot. It lives as long as the one around it. */
typedef struct tp_node_body {
    const tp_graph *graph; /* NULL: there is no such body */
    const char *word;      /* "then" and "other" of a cond, "body" of a loop */
    const char *file;      /* the user's line; NULL: it is not known */
    int line;
} tp_node_body;
/* Body k of block i. */
TP_API tp_node_body tp_node_body_of(const tp_graph *g, int i, int k);
/* The number of the node that is output k of a graph (tp_graph_n_outputs tells how many there are);
 * -1 when there is none. Outputs of a body are what it gives: of a loop the condition for the next
 * turn, where its attribute pred is true, then what is carried, then what goes into the stacks. */
TP_API int tp_node_of_output(const tp_graph *g, int k);
/* A size of the graph, a number or a symbolic one, as it stands in texts: "12", "2*batch+1". NULL
 * on error: TP_E_SHAPE for what is no size of it; tp_free frees. */
TP_API char *tp_dim_text(const tp_graph *g, int64_t size);

/* ---- texts and files ----------------------------------------------------------------------- */

/* A line per node:  %3 = mul %1, %2 : f32[batch,10] ; net.c:8, below a block's those of its
 * bodies. Of a symbolic tensor's graph, or of what was recorded for a concrete one. NULL when out
 * of memory; tp_free frees. */
TP_API char *tp_graph_text(const tp_graph *g);
TP_API char *tp_tape_text(const tp_tensor *y);
#define tp_tape_text(y) tp_tape_text(TP_READ_OPERAND(y))
/* The same as a Graphviz drawing. */
TP_API char *tp_graph_dot(const tp_graph *g);
TP_API char *tp_tape_dot(const tp_tensor *y);
#define tp_tape_dot(y) tp_tape_dot(TP_READ_OPERAND(y))
/* Reads what tp_graph_text prints: an equal graph; variables, and constants of more than 16
 * elements, are zero. NULL on error. */
TP_FN(tp_graph *, tp_graph_parse, tp_ctx *tp, const char *text, size_t size_bytes);
#define tp_graph_parse(...) tp_graph_parse_at(TP_PLACE, __VA_ARGS__)
/* Checks every rule of the IR; TP_E_BUG names the node and the rule that is broken. */
TP_API tp_status tp_graph_verify(const tp_graph *g);

/* Graph, constants and the values of its variables, as one file, whole or not at all. */
TP_FN(tp_status, tp_graph_save, const tp_graph *g, const char *path);
#define tp_graph_save(...) tp_graph_save_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_graph *, tp_graph_load, tp_ctx *tp, const char *path);
#define tp_graph_load(...) tp_graph_load_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_graph *, tp_graph_load_bytes, tp_ctx *tp, const void *bytes, size_t size_bytes);
#define tp_graph_load_bytes(...) tp_graph_load_bytes_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
