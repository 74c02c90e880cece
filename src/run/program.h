/* A program: what tp_graph_compile made of a graph, and what its runs need. */
#ifndef TAPIR_PROGRAM_H
#define TAPIR_PROGRAM_H

#include "cc/build.h"
#include "kernel/host/team_host.h"
#include "op/random_position.h"
#include "op/sizes.h"
#include "plan/arena.h"
#include "render/render.h"

/* A write to a variable, done when a run has succeeded. */
typedef struct tpi_commit {
    tp_tensor *variable; /* concrete */
    int root;            /* which of the program's roots is its value; or, of a patch */
    int index, rest;     /* (patch.h), its rows, and these where they belong; -1: none */
} tpi_commit;

/* Who is told of each kernel that begins: a profile (look/profile.c). */
typedef struct tpi_kernel_watch {
    /* Kernel number `kernel` of the outermost plan begins; -1: a run begins; the number of kernels: it
     * has ended. */
    void (*tick)(void *watch, int kernel);
    void (*free)(tpi_mem *m, struct tpi_kernel_watch *watch);
} tpi_kernel_watch;

/* The C program: made by render and cc, called by exec_c.c. */
typedef struct tpi_c_program {
    tpi_str source;
    const char *units[TPI_MAX_UNITS]; /* the texts that are compiled */
    tpi_build *build;
    tpi_entry entry; /* NULL until it is loaded */
    tpi_call *calls; /* library.call, by kernel */
    tpi_program_bytes scratch_bytes, packed_bytes;
    tpi_pack_layout pack_layout;
    tpi_pack pack;
} tpi_c_program;

/* Memory of the plan's buffers, at the sizes of the last run. */
typedef struct tpi_program_memory {
    int64_t *offsets; /* in their plan's arena */
    int64_t arena_bytes;
    char *arena; /* with the scratch memory behind it */
    size_t arena_size;
} tpi_program_memory;

/* Constants in the layout of contractions (packed.c). */
typedef struct tpi_packed {
    tpi_buf *packed; /* runners have it, too */
    bool is_packed;  /* for sizes that pack like these: */
    int64_t *sizes;  /* by symbol */
    int n_gone;      /* constants of which only the packed elements are there */
    bool keeps;      /* none is to go: the graph is shown */
} tpi_packed;

struct tp_program {
    tpi_owned owned;
    tp_ctx *ctx;
    tpi_bump lists;   /* memory of this, and of those that are as long always */
    const char *what; /* made it, for errors */
    bool leaves;      /* what is written to a file is all that it is for */
    bool all_writes;  /* assignments are done, whether what is fetched needs them or not */
    tp_graph *graph;  /* after passes */
    int n_feeds, n_fetches, n_roots, n_commits;
    tp_tensor **feeds; /* placeholders of the graph; NULL: not needed */
    char **feed_names;
    tp_tensor **roots; /* the fetched nodes, then the assign nodes */
    tpi_commit *commits;
    tp_engine engine;
    int64_t memory_limit;    /* of the arena, bytes; 0: none */
    const char *used;        /* by the last run */
    tpi_plan *plan;          /* NULL: it is run node by node */
    struct tpi_tiles *tiles; /* NULL: not run by tiles, or no longer */
    tpi_c_program c;
    tpi_team team;         /* who computes */
    tpk_library library;   /* what it calls of us */
    struct tpi_cuts *cuts; /* how kernels run together, at these sizes; NULL: they do not */
    double wave_ns;        /* what handing out work costs; tests lower it */
    /* at the sizes of the last run */
    bool checked; /* every op takes these sizes, but for those in bodies when it is partly: */
    bool partly;  /* a body does not. It is run node by node, and fails where it enters that */
    bool sized;   /* the plan's memory is for these sizes */
    int n_symbols;
    int64_t *symbols;  /* values; behind them the capacities (render/render.h) */
    int64_t *capacity; /* of late symbols: turns that there is memory for */
    bool *late;        /* by symbol: bound when its loop has run (late_sizes.c) */
    int n_late;
    tpi_program_memory memory;
    tpi_packed constants;
    void **pointers; /* by buffer */
    int n_random;
    int64_t *random;
    tp_program_stats stats;
    bool logged;     /* what there is to do */
    double may_work; /* operations that runs by the reference may still take; 0: any number */
    tpi_kernel_watch *watch;   /* of tp_program_profile, or NULL */
    struct tp_runner *runners; /* that use its code */
};

/* What a program is made for. */
typedef struct tpi_purpose {
    const char *what; /* in errors */
    bool all_writes;  /* every assignment of the graph is done */
    bool leaves;      /* it is written to a file (pass/leave.h) */
} tpi_purpose;

/* As tp_graph_compile. */
tp_program *tpi_program_new(tp_graph *g, tpi_at at, const tpi_purpose *purpose, int n_feeds,
                            const char *const *feeds, int n, const char *const *fetches,
                            const tp_compile_options *opt);

/* tp_graph_save_c, for what may be called otherwise. */
typedef struct tpi_saving {
    const char *what, *path;
    tpi_at at;
    tp_graph *g;
    int n_in, n_out;
    const char *const *inputs, *const *outputs; /* the names that they get */
    const char *const *fetches;                 /* the outputs' names in the graph */
    bool all_writes;                            /* as of tpi_program_new */
    tp_c_options options;
} tpi_saving;
tp_status tpi_save_c(const tpi_saving *s);

/* Where the random nodes of one run draw from, when that is not at the context's positions: by the
 * `at` that their nodes have in the graph. */
typedef struct tpi_draws {
    int n;
    const struct tpi_draw {
        int64_t node, seed, at;
    } * v;
} tpi_draws;

/* One run. */
typedef struct tpi_session {
    tp_program *p;
    tpi_at at;
    tp_tensor *const *feeds;
    tp_tensor **values;          /* of the roots, one reference each */
    const tpi_draws *draws;      /* NULL: at the context's positions, which move on */
    const tpi_positions *begins; /* these, before it */
} tpi_session;

/* Seed and position for the next draw of a random node, whose attributes with the sizes of the run are `a`. */
void tpi_session_draw(const tpi_session *s, const tp_tensor *node, tpi_random_attrs *a);

/* One run of a program without assignments, of the C program if it is loaded, for who knows the
 * sizes already: `symbols` by number, in sizes that every op takes. values[n_roots] get one
 * reference each, none of them memory of a feed. False: the context's error tells. */
bool tpi_program_run_sized(tp_program *p, tpi_at at, const int64_t *symbols,
                           tp_tensor *const *feeds, const tpi_draws *draws, tp_tensor **values);

/* Before who has run the program by its C program enters that himself: the sizes are these, and its own buffers have
 * their memory. False: it does not take them, memory is out, or it has bodies. */
bool tpi_program_set_sizes(tp_program *p, tpi_at at, const int64_t *symbols);

/* Sizes at those of this run. */
static inline tpi_run_sizes tpi_program_sizes(const tp_program *p)
{
    return (tpi_run_sizes){p->graph->dims, p->symbols};
}
static inline void tpi_program_shape(const tp_program *p, const tp_tensor *node, int64_t *shape)
{
    const tpi_run_sizes sizes = tpi_program_sizes(p);
    tpi_shape_at(&sizes, node, shape);
}
static inline int64_t tpi_program_size(const tp_program *p, int64_t dim)
{
    const tpi_run_sizes sizes = tpi_program_sizes(p);
    return tpi_size_at(&sizes, dim);
}
static inline void tpi_program_attrs(const tp_program *p, const tp_tensor *node, void *out)
{
    const tpi_run_sizes sizes = tpi_program_sizes(p);
    tpi_attrs_at(&sizes, node, out);
}
/* Is every size a number, or known from the last run? */
bool tpi_program_knows_sizes(const tp_program *p);

/* Values of the symbols from the fed shapes; *changed when one is not what it was. False: the error tells. */
bool tpi_bind_sizes(tp_program *p, tpi_at at, tp_tensor *const *feeds, bool *changed);
/* Does the program take them, partly maybe? */
bool tpi_check_sizes(tp_program *p, tpi_at at);

/* Of its own graph, are there equations with numbers of turns in them? Once the loops have run: do they hold? */
bool tpi_has_late_equations(const tp_program *p);
bool tpi_check_late_equations(const tp_program *p, tpi_at at);

/* Is a node one that the program can take, now that its sizes are known? False: the error tells. */
bool tpi_program_check(const tp_program *p, tpi_at at, const tp_tensor *node);

/* Before a body is run of a program that is checked partly: does it take the sizes of this run? */
bool tpi_program_check_body(tp_program *p, tpi_at at, const tp_graph *body);

/* When an index was out of range: was the node there to say so, in the words of its name (a side of an
 * imported If that does not fit)? Then these are the error. */
bool tpi_program_says_why(const tp_program *p, const tp_tensor *node);

/* Late symbols: numbers of turns, which a run tells. Which are there; false: no memory. */
bool tpi_find_late(tp_program *p);
/* At the start of a run: they have no value, or the most that there is memory for. */
void tpi_late_begin(tp_program *p);
void tpi_late_most(tp_program *p);
/* Does a size, a node's or its operands' sizes, depend on one? */
bool tpi_dim_is_late(const tp_program *p, int64_t dim);
bool tpi_is_late(const tp_program *p, const tp_tensor *node);
/* Sizes after a loop may be such that an op refuses them (a slice of what was stacked), or not
 * such that more turns need more memory. A program in which that can be is run node by node, where
 * each is checked when it is reached. The first node of which that is true, or NULL. */
const tp_tensor *tpi_late_refuser(const tp_program *p);

/* Compute s->values; false: the context's error tells, nothing has changed. */
bool tpi_execute_reference(tpi_session *s);
bool tpi_execute_plan(tpi_session *s, bool c); /* by the C program, or by tiles */

/* What is put together when these passes are skipped. No bands under a limit of memory. */
tpi_fusing tpi_program_fusing(const tp_program *p, const char *skip);

/* Plans the program's kernels, and makes ready to run them by tiles; false when memory is out. */
bool tpi_program_plan(tp_program *p, const char *skip);
/* Renders the plan and starts its compiler; false when memory is out. */
bool tpi_program_start_c(tp_program *p);
/* The library gets the kernels that this program calls. */
void tpi_program_hand(const tp_program *p, tpk_library *l);
/* Bytes of scratch memory for a run by this library and its cuts, but for waves; of a nest, for one thread. */
size_t tpi_program_scratch(const tp_program *p, const tpk_library *l);
size_t tpi_program_nest_room(const tp_program *p);
/* The kernels, run by the loaded program or by tiles. False: the context's error tells, or *full is
 * the symbol whose loop takes more turns than there is memory for. */
bool tpi_program_call(tpi_session *s, int *full);
bool tpi_tiles_call(tpi_session *s, int *full);
/* Memory for packed constants, those that are packed being kept where they fit; false: no memory.
 * Then they are packed, with the workspace of a run. */
bool tpi_program_pack_room(tp_program *p);
void tpi_program_pack(tp_program *p, char *scratch);
/* Gives all constants their elements, as a run does that is not of the C program. False: no memory. */
bool tpi_program_unpack(tp_program *p);
/* Is the C program loaded by now? wait_ms as of tpi_build_poll. */
bool tpi_program_has_c(tp_program *p, int wait_ms);
/* Was it clear, when that was asked last, that it will never be? */
bool tpi_program_broken(const tp_program *p);
/* The placement of a plan for this run: its own, or with steps side by side. */
const tpi_arena *tpi_program_arena(const tp_program *p, const tpi_plan *plan);
/* At the sizes of this run, as tpi_arena_at. */
bool tpi_program_place(const tp_program *p, const tpi_plan *plan, int64_t *bytes,
                       int64_t *offset, int64_t *arena);
/* Places the plan's buffers for the sizes of this run. False when out of memory, or when they take more
 * than the limit, which the error tells. */
bool tpi_program_resize(tp_program *p, tpi_at at);
/* The next run takes memory for its buffers anew. */
void tpi_program_give_arena_back(tp_program *p);
/* That, and the pointers to its own buffers. False: also when it has bodies, or constants are to be packed anew. */
bool tpi_program_lay_out(tp_program *p, tpi_at at);

#endif
