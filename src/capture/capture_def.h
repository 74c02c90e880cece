/* Capture: what the layers of a captured function share.
 *
 * A *tree* records what the body has done so far: each *step* is an op call, a number made a
 * tensor, an assignment, a look at a value, or the return; where runs differed a step has several
 * next ones. A *frame* is one run of the body. It walks down the tree, adding steps where it
 * finds none, and keeps what is *pending*: ops called but not computed. They are computed
 * (*settled*) where C looks at a value and at the end, by *segments*: stretches of steps in which
 * no run ever ended or turned off. A segment that runs again gets a program; until that is there,
 * and whenever something does not fit, its ops are computed one by one, as they would have been
 * eagerly. So a program is a matter of speed only.
 *
 * Operands are compared by what they are in their segment: the number of the step in it that makes them, or ~n
 * for the n-th tensor that comes in (tp_tensor.code). So a segment does not depend on where it stands, and the turns of a
 * loop that C writes out are one: its end leads back to its beginning. */
#ifndef TAPIR_CAPTURE_DEF_H
#define TAPIR_CAPTURE_DEF_H

#include "capture/pace.h"
#include "core/variable.h"
#include "run/program.h"
#include "tapir/capture.h"

/* Does a step's op, NULL of other steps, draw random numbers? */
static inline bool tpi_is_draw(const tpi_op *op)
{
    return op && op->draws;
}

/* Limits. In the stress build some are met all the time. */
#ifdef TPI_STRESS
enum { TPI_MAX_STEPS = 300, TPI_MAX_TURNS = 4, TPI_MAX_PROGRAM_STEPS = 24 };
#else
enum {
    TPI_MAX_STEPS = 1 << 18,      /* of one tree: what comes on top runs eagerly */
    TPI_MAX_TURNS = 256,          /* different next steps of one step */
    TPI_MAX_PROGRAM_STEPS = 10000 /* in longer segments loops are cut at their turns */
};
#endif
enum {
    /* Of a segment that not every call runs so many more steps ask for one run more before it gets a
     * program: it may be cut yet. */
    TPI_STEPS_PER_RUN = 200,
    TPI_MAX_COMPILERS = 2, /* under way at once for one function */
    TPI_MAX_REBUILDS = 8,  /* programs of one segment, before its ops stay eager */
    TPI_MAX_OBSERVED = 4,  /* values of a size by which its rule is found */
    /* of functions declared pure: */
    TPI_MAX_FLOWS = 16, /* ways of being called that are replayed: each has memory of its own */
    TPI_FLOWS_AT_ONCE =
        4, /* so many ways are recorded when they come first, others when they come often */
    TPI_MAX_RARE = 64,      /* ways of which it is counted how often they come */
    TPI_MAX_TRACES = 256,   /* recordings of one: each is looked through at the next */
    TPI_MAX_ITEMS = 65536,  /* steps of a recording that is kept */
    TPI_MAX_READ = 64,      /* bytes of a value that is read and compared at each replay */
    TPI_MAX_OUTCOMES = 16,  /* values that one read has had: more are a number, not a choice */
    TPI_MAX_BLOCKS = 2048,  /* stretches of a flow: for each pair there is a bit */
    TPI_MAX_WATCHED = 4096, /* bytes: they are compared at each call */
    TPI_MAX_RELAUNCHES = 1024, /* calls whose launches are kept, */
    TPI_MAX_LAUNCH_BYTES =
        64 << 20,             /* in so many bytes; and one of them makes values of so many */
    TPI_MAX_LAUNCH_TRIES = 8, /* recordings that were none, until no more are made */
    TPI_CALM =
        64, /* replays without a recording, until a model may leave out what never came up */
    TPI_MAX_IMPURE = 3 /* recordings that contradict others, until it is no longer replayed */
};

/* Why something stays eager. */
typedef enum tpi_why {
    TPI_WHY_none,
#define WHY(name, text) TPI_WHY_##name,
#include "capture/why.def"
#undef WHY
    TPI_N_WHYS
} tpi_why;

typedef enum tpi_step_kind {
    TPI_STEP_ENTRY,  /* in: the arguments */
    TPI_STEP_OP,     /* in: the operands */
    TPI_STEP_SCALAR, /* a tensor of rank 0 with `value` */
    TPI_STEP_ASSIGN, /* in: the variable, its new value */
    TPI_STEP_LOOK,   /* in: what is looked at, if anything in particular */
    TPI_STEP_RETURN  /* in: the results */
} tpi_step_kind;

/* What comes into a segment, where a step of it meets it first. */
typedef struct tpi_incoming {
    uint8_t dtype, rank;
    uint8_t varied; /* axes, as bits */
    bool swapped;   /* the tensor was not always one of the same elements */
    bool moved;     /* it was not always `source` */
    int32_t source; /* what it was in the call (tp_tensor.number) when it was recorded */
    tp_tensor *
        tensor; /* the last one, one reference; NULL: the call made it, or it is an argument, or wrapped */
    int64_t shape[TP_MAX_RANK]; /* when it was recorded */
    int n_seen; /* of an argument: other calls whose sizes are kept, the last one among them */
    int64_t (*seen)[TP_MAX_RANK]; /* so many as TPI_MAX_OBSERVED */
} tpi_incoming;

typedef struct tpi_segment tpi_segment;
typedef struct tpi_step tpi_step;
struct tpi_step {
    /* what a matched call reads, in one cache line: */
    const tpi_op *op;
    tpi_step *first, *next; /* of the steps that followed; beside it */
    int32_t *in;            /* few, or a longer list */
    int32_t few[2];
    uint8_t kind, dtype, rank;
    bool cut;            /* a segment ends behind it */
    int32_t n_in, n_new; /* operands; those that come in here */
    int32_t number;      /* of steps above it, in the call that added it */
    uint32_t taken;
    int64_t shape[TP_MAX_RANK]; /* of the value, when it was recorded: the next line */
    tpi_step *again;            /* where a loop begins that may turn here; NULL */
    void *attrs;
    tpi_incoming *new;
    double value;      /* of a SCALAR */
    tp_tensor *scalar; /* one reference */
    uint8_t look;      /* tpi_look */
    bool truth;        /* LOOK_TRUTH: what it was */
    bool by_block;     /* LOOK_TRUTH: a tp_if or tp_while asked */
    bool reads;        /* behind it C read a value */
    bool varied;       /* the value of a SCALAR, or sizes among the attributes, did */
    bool needed;       /* its value was needed outside its segment */
    bool any_number;   /* of operands, which are not told: a segment of its own */
    bool splits;       /* a cut behind it is being made */
    bool gone;         /* it was rolled into `first`, an equal step of the turn before */
    tpi_at at;
    tpi_step *above;
    tpi_segment *segment; /* that begins here */
    size_t bytes;
};

typedef struct tpi_tree {
    tpi_step top; /* above the entries */
    bool rolled;  /* there are loops */
    int64_t n_steps;
    tpi_step *gone; /* steps to be freed, by `next` */
} tpi_tree;

typedef struct tpi_pending {
    tpi_step *step;
    tp_tensor *value;       /* one reference; of an assignment: the variable */
    void *attrs;            /* of this run, when not the step's; else NULL */
    int32_t operands, n_in; /* first of its own in the frame's list, how many */
    int32_t counted;        /* scratch of settling: references of its value */
    uint64_t assigned;      /* operands that stand for a variable, by bits */
    bool view;              /* it will share its operand's memory */
    bool resized;           /* its shape is not the step's */
    bool alive, need;       /* while settling: somebody holds it; its elements are wanted */
} tpi_pending;

typedef struct tpi_frame {
    tpi_frame_head head;
    tp_ctx *ctx;
    tp_function *f;
    tpi_tree *tree;
    tpi_step *at;       /* the last step */
    int32_t position;   /* its number in this call */
    uint32_t serial;    /* tensors that carry a number from here */
    uint32_t visit;     /* to here were met; the last one is of the segment that is run */
    bool ended;         /* which has ended */
    int32_t start;      /* the number of its first step in this call */
    int32_t n_incoming; /* tensors that came into it */
    int32_t n_arguments,
        n_outside;    /* tensors from outside that the call met, the arguments first */
    bool as_recorded; /* every size of what is pending is what it was when it was recorded */
    bool may_fail;    /* one of the pending */
    bool has_turns;   /* of blocks: gradients make results of what was recorded in them */
    bool has_views;   /* among the pending */
    bool settling;
    bool launches;           /* all it computed was launched (launches.h) */
    bool new_steps;          /* this run added some */
    bool lost;               /* it goes on eagerly */
    struct tpi_trace *trace; /* of a pure function: what this run does; NULL: not kept */
    tpi_pending *pending;
    int32_t n_pending, pending_size;
    int32_t base;         /* number of the first pending step */
    tp_tensor **operands; /* a reference each */
    int32_t n_operands, operands_size;
} tpi_frame;

/* A program that any segment with equal text uses. */
typedef struct tpi_shared tpi_shared;
typedef struct tpi_trace tpi_trace;       /* trace.h */
typedef struct tpi_flow tpi_flow;         /* flow.h */
typedef struct tpi_launches tpi_launches; /* launches.h */
typedef struct tpi_relaunch tpi_relaunch; /* relaunch.h */

typedef struct tpi_watch {
    const void *bytes;
    size_t n;
} tpi_watch;

/* What a pure function has beside its tree. */
typedef struct tpi_pure {
    int n_flows;
    tpi_flow *flows[TPI_MAX_FLOWS];
    int n_watches, watches_size;
    tpi_watch *watches;
    size_t n_watched; /* bytes */
    int n_called, called_size;
    tp_function **called; /* others that its calls call: what they watch it watches */
    bool stale;           /* that has changed: recordings go before the next call */
    bool asked;           /* for a gradient of what a call returned */
    tpi_owned *kept; /* by a tp_batch (batch/function_call.h); NULL: nothing */
    uint64_t hooks; /* that the context had come and gone then: so they do, when more have */
    int impure;     /* recordings that contradicted others */
    bool prepared;  /* a first call has made what later ones find */
    tpi_why why;    /* it is no longer replayed */
    tpi_at why_at;
    int64_t replays, abandoned;
    bool combined; /* a replay went a way that no recording had: the tree may not have it */
    int64_t rare_calls; /* calls of sizes that do not come often */
    struct tpi_rare {
        uint64_t sizes; /* a hash */
        int64_t calls;
    } rare[TPI_MAX_RARE];
    /* Calls without looks in which C wrote out loops: by sizes, what they ran. */
    bool rolls; /* the last call that was matched ran nothing else */
    int launch_tries;
    int n_relaunches, relaunches_size;
    tpi_relaunch **relaunches;
    size_t launch_bytes;
    int64_t crowded_out; /* calls in ways for which there was no room among the flows */
    tpi_at crowded_at;   /* the last of them */
    struct tpi_dry
        *dry; /* of the call under way: to be compared with what the body does; NULL */
} tpi_pure;

struct tp_function {
    tpi_owned owned;
    tp_ctx *ctx;
    char *name;
    tpi_at at;
    tp_body body;
    void *user;
    tp_function_options options;
    int64_t serial;
    int running;                /* calls under way */
    tpi_tree forward, backward; /* of the body; of the gradients of its calls */
    tpi_frame frame;
    tpi_shared *programs;
    tp_function_stats stats;
    tpi_pure pure;
    tpi_pace pace;
    int64_t lost; /* calls that went on eagerly */
    tpi_why why_lost;
    tpi_at lost_at;
};

/* ---- tree.c --------------------------------------------------------------------------------- */

/* What a step would be, before it is looked for. */
typedef struct tpi_call_of {
    tpi_step_kind kind;
    tpi_at at;
    const tpi_op *op;
    int32_t n_in, n_new;
    tp_tensor *const *operands;
    int32_t *in;       /* what they are */
    tp_tensor **new;   /* those that come in */
    int32_t n_outside; /* of the frame, before it */
    const void *attrs;
    double value;
    uint8_t dtype, look;
    bool truth;
} tpi_call_of;

/* The next step that is this call, NULL: none. *same: its attributes are equal, not just alike
 * (sizes differ). */
tpi_step *tpi_step_find(const tpi_step *above, const tpi_call_of *c, bool *same);
/* Adds one; NULL when memory is out, or a limit is reached (*why). */
tpi_step *tpi_step_add(tpi_tree *tree, tp_ctx *ctx, tpi_step *above, const tpi_call_of *c,
                       tpi_why *why);
/* From here on a segment ends behind this step. False: memory is out, nothing has changed. */
bool tpi_step_cut(tp_ctx *ctx, tpi_step *s);
/* The first step of its segment. */
tpi_step *tpi_step_head(tpi_step *s);
/* Cuts the segment that begins at `head` behind each step in it that `splits`, which is taken back. False:
 * memory is out, nothing else has changed. */
bool tpi_segment_split(tp_ctx *ctx, tpi_step *head);
/* How many bytes of its attributes are in the table. Behind them there may be pointers, to functions of the user's. */
size_t tpi_text_attrs(const tpi_op *op);
/* Equal attributes, but for sizes, and for where a random op draws? */
bool tpi_attrs_alike(const tpi_op *op, const void *a, const void *b);
/* The next step in program order, NULL at the end: depth first. */
tpi_step *tpi_tree_walk(const tpi_tree *tree, const tpi_step *s);
void tpi_tree_free(tpi_tree *tree, tp_ctx *ctx);
/* One step, which no other leads to or holds. */
void tpi_step_free(tp_ctx *ctx, tpi_step *s);
/* Nothing comes in there. */
void tpi_incoming_free(tp_ctx *ctx, tpi_step *s);
void tpi_segment_free(tp_ctx *ctx, tpi_segment *s);
/* Is this integer of the attributes (counted as flattened) a size, which may vary? */
bool tpi_attr_is_size(const tpi_op *op, int flat);

/* ---- turns.c: loops that C wrote out -------------------------------------------------------- */

/* The run goes on behind its last step by a call that did not follow before, so a segment ends there. When it is the
 * first time, a loop that ends there is cut at its turns, and those that are equal are rolled into one. An op that was called
 * with another number of operands becomes one of any number. The frame stands where it stood. False: memory is out. */
bool tpi_turn_off(tpi_frame *fr, const tpi_call_of *c);
/* Does so with the loops of many turns in the segment of `last`. */
bool tpi_roll_long(tpi_frame *fr, tpi_step *last);

/* ---- frame.c -------------------------------------------------------------------------------- */

extern const tpi_frame_rules tpi_capture_rules;
/* The frame of the captured function that runs; NULL: none does. */
static inline tpi_frame *tpi_frame_of(const tp_ctx *ctx)
{
    return ctx->frame && ctx->frame->rules == &tpi_capture_rules ? (tpi_frame *)ctx->frame
                                                                 : NULL;
}

/* Opens the function's frame in `tree`; false: not possible now, run eagerly. */
bool tpi_frame_open(tp_function *f, tpi_tree *tree, tpi_at at, int n_in, tp_tensor *const *in);
/* Settles and closes it, `out` being returned. */
void tpi_frame_close(tpi_frame *fr, tpi_at at, int n_out, tp_tensor *const *out);

/* Is a tensor's number that in the frame's call? */
static inline bool tpi_has_number(const tpi_frame *fr, const tp_tensor *t)
{
    return t->frame - fr->serial <= fr->visit + 1 - fr->serial; /* they may pass 2^32 */
}

/* Which pending step makes t; -1: none. */
static inline int tpi_pending_of(const tpi_frame *fr, const tp_tensor *t)
{
    const int64_t i = (int64_t)t->number - fr->base;
    return i >= 0 && i < fr->n_pending && fr->pending[i].value == t &&
                   fr->pending[i].step->kind != TPI_STEP_ASSIGN
               ? (int)i
               : -1;
}

/* ---- trace.c: what a run does, kept for replays ----------------------------------------------- */

/* `in` as C gave them: a variable is its own name, whatever it will be. */
void tpi_traced_op(tpi_frame *fr, const tp_tensor *y, const tpi_op *op, const void *attrs,
                   int n_in, tp_tensor *const *in);
void tpi_traced_number(tpi_frame *fr, tp_tensor *t);
/* Where the variable is assigned, now or later. */
void tpi_traced_assign(tpi_frame *fr, tpi_at at, tp_tensor *var, tp_tensor *value);
void tpi_traced_look(tpi_frame *fr, tpi_at at, tp_tensor *t, tpi_look look, bool truth);
void tpi_traced_return(tpi_frame *fr, tpi_at at, int n, tp_tensor *const *out);
/* It cannot be replayed. */
void tpi_traced_stop(tpi_frame *fr, tpi_at at, tpi_why why);

/* ---- watch.c: what a pure function watches -------------------------------------------------- */

/* g is called in the call that the frame records. */
void tpi_traced_call(tpi_frame *fr, tpi_at at, tp_function *g);
/* Where in the list of what f's calls call; -1: nowhere. */
int tpi_find_called(const tp_function *f, const tp_function *g);
/* Of f itself, -1, or of one that it calls. */
static inline const tpi_pure *tpi_watcher(const tp_function *f, int i)
{
    return i < 0 ? &f->pure : &f->pure.called[i]->pure;
}
/* The bytes that f watches, and those that what it calls watches: how many, a copy. */
size_t tpi_watched_bytes(const tp_function *f);
void tpi_watched_copy(const tp_function *f, char *out);

/* ---- replay.c: calls of pure functions ---------------------------------------------------------- */

/* Computes a call without the body. False: nothing has happened, the body is to run. */
bool tpi_replay(tp_function *f, tpi_at at, int n_in, tp_tensor *const *in, int n_out,
                tp_tensor **out);
/* A trace for a run that is to be recorded; NULL: it is not. */
tpi_trace *tpi_pure_begin(tp_function *f, tpi_at at, int n_in, tp_tensor *const *in);
/* Takes the trace of a run that has ended. In the check mode the results become failed tensors when it
 * contradicts others. */
void tpi_pure_end(tp_function *f, tpi_at at, tpi_trace *t, tp_tensor *const *in, int n_out,
                  tp_tensor **out);

void tpi_pure_reset(tp_function *f);
/* ---- purity.c: the check mode ------------------------------------------------------------------- */

typedef struct tpi_dry tpi_dry; /* blocks.h */
/* Runs a call's replay, and leaves no trace of it; NULL: it was abandoned. */
tpi_dry *tpi_replay_dry(tp_function *f, tpi_at at, int n_in, tp_tensor *const *in, int n_out);
void tpi_dry_free(tp_ctx *ctx, tpi_dry *d);
/* Compares what the body has done with what the replay would have (f->pure.dry); where they differ the results
 * become failed tensors. Takes the dry run and the trace. */
void tpi_check_purity(tp_function *f, tpi_at at, tpi_trace *t, int n_out, tp_tensor **out);

/* ---- settle.c ------------------------------------------------------------------------------- */

/* Computes all that is pending. Without memory for a segment's end the frame is lost. */
void tpi_settle(tpi_frame *fr);
/* A view, whose base has its elements now, gets its own. False: it has not, or it is no view now. */
bool tpi_pending_share(const tpi_frame *fr, const tpi_pending *p);
/* The operand of a pending step. */
static inline tp_tensor *tpi_operand(const tpi_frame *fr, const tpi_pending *p, int k)
{
    return fr->operands[p->operands + k];
}
static inline const void *tpi_attrs_of(const tpi_pending *p)
{
    return p->attrs ? p->attrs : p->step->attrs;
}

/* ---- segment.c: programs for pending stretches ------------------------------------------------ */

/* Runs pending steps [from, to) by the segment's program. False: compute them one by one. */
bool tpi_segment_run(tpi_frame *fr, int from, int to);
void tpi_shared_free(tp_function *f);
/* Waits for all compilers; false: one failed. */
bool tpi_shared_wait(tp_function *f);
/* Is none under way? Those that nobody has asked for wait. */
bool tpi_shared_done(const tp_function *f);
/* Declares step t, the i-th of the segment that begins at `first`, in a graph in which operands
 * are found by what they are in it; sizes that varied are what they followed from. */
typedef struct tpi_nodes_of {
    tp_tensor *(*node)(void *user, int32_t code);
    void *user;
} tpi_nodes_of;
tp_tensor *tpi_segment_declare(tp_graph *g, const tpi_step *first, int i, const tpi_step *t,
                               const tpi_nodes_of *nodes);
/* For people: what became of it. */
typedef struct tpi_segment_state {
    int64_t runs, program_runs;
    int programs, kernels;
    double compile_ms;
    const char *program; /* what became of it: "ready", "is being compiled", ... */
} tpi_segment_state;
tpi_segment_state tpi_segment_state_of(const tpi_segment *s);

/* ---- segment_count.c ---------------------------------------------------------------------------- */

/* How many different ones there are in both trees; when memory is out, how many in all. */
int64_t tpi_count_segments(const tp_function *f);

/* ---- rules.c: sizes that vary as expressions of few -------------------------------------------- */

/* Values that were seen of one size or number. */
typedef struct tpi_quantity {
    int64_t seen[TPI_MAX_OBSERVED];
    int symbol;     /* a symbol of its own: its number; -1: computed from others */
    int rule, a, b; /* quantities */
    int64_t c;
} tpi_quantity;

/* Finds for each a symbol, or a rule over earlier ones that fits all n_seen values. Returns the
 * number of symbols. */
int tpi_find_rules(int n, tpi_quantity *q, int n_seen);
/* Is the value what the rule says? */
bool tpi_rule_holds(const tpi_quantity *q, int i, const int64_t *values);
/* The same as a size expression. */
int64_t tpi_rule_dim(tpi_dims *dims, const tpi_quantity *q, int i, const int64_t *symbols);

/* ---- why.c ---------------------------------------------------------------------------------- */

const char *tpi_why_text(tpi_why why); /* for people */
void tpi_capture_log(const tp_function *f, tpi_at at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The call goes on eagerly. */
void tpi_function_lost(tp_function *f, tpi_at at, tpi_why why);

/* ---- flow_text.c ---------------------------------------------------------------------------- */

void tpi_pure_text(const tp_function *f, struct tpi_str *out);

/* For who writes a function to a file (arguments.c): how it was called most often with so many
 * arguments, NULL (and an error) when it was not; these arguments as placeholders of g, sizes that varied as
 * symbols. */
const tpi_step *tpi_function_entry(const tp_function *f, tpi_at at, const char *what, int n_in);
bool tpi_function_arguments(const tp_function *f, const tpi_step *entry, tpi_at at,
                            const char *what, tp_graph *g, const char *const *names,
                            tp_tensor **in);

#endif
