/* Contexts, tensors and who owns them.
 *
 * A tensor is also a node: an op, operands and attributes, kept when it was recorded on a tape
 * or belongs to a graph. It is counted: the scope that made it, nodes that use it, graphs and
 * tp_retain each hold one reference. Operands are older than results, so there are no cycles. */
#ifndef TAPIR_CORE_H
#define TAPIR_CORE_H

#include "base/mem.h"
#include "base/stack.h"
#include "base/thread.h"
#include "base/undone.h"
#include "tapir/batching.h"
#include "tapir/tensor.h"

typedef struct tpi_op tpi_op;     /* ir/node.h */
typedef struct tpi_dims tpi_dims; /* core/dim.h */

/* The user's line. `file` lives as long as the program, or is interned. NULL: unknown. */
typedef struct tpi_at {
    const char *file;
    int line;
} tpi_at;

#define TPI_AT(file, line) ((tpi_at){(file), (line)})

/* Defines name(args), the function bindings call, from name_at. */
#define TPI_BARE(type, name, params, ...)                                                      \
    type(name) params                                                                          \
    {                                                                                          \
        return name##_at(NULL, 0, __VA_ARGS__);                                                \
    }

/* Memory of elements, shared by views. */
typedef struct tpi_buf {
    int32_t refs;
    uint32_t version; /* counts the writes to a variable */
    void *data;
    size_t size; /* bytes asked for, header included; 0: wrapped */
    void (*release)(void *user, void *data);
    void *user;
    struct tp_tensor *assigned; /* in a frame of capture: what it will be when that settles, one
                                   reference */
    bool lasts;   /* wrapped memory that neither changes nor ends while it is held: of a file */
    bool exposed; /* tp_data gave its address away: its elements stay where they are */
    bool lent;    /* constants of programs may lie in it: tpi_may_write */
    bool folded;  /* computed from constants while a graph was made or compiled */
    int32_t
        launched; /* capture: which value of the launches that are recorded; else anything */
} tpi_buf;

enum { TPI_ERROR_TEXT = 640 }; /* of two long paths and what they say; longer texts are cut */

typedef struct tpi_error {
    tp_status status;
    int32_t refs;
    char text[TPI_ERROR_TEXT];
} tpi_error;

enum {
    TPI_REQUIRES = 1,   /* a gradient may be asked of it or through it */
    TPI_LEAF = 2,       /* marked by tp_require_grad */
    TPI_VARIABLE = 4,   /* its value may be assigned, or it is a view of such */
    TPI_CONTIGUOUS = 8, /* row-major without gaps */
    TPI_CONSTANT = 16, /* a graph node, or a copy of a variable, made while recording was off */
    TPI_MARK = 32,     /* scratch of one walk; clear outside it */
    TPI_STATE = 64,    /* a variable itself, not a view of one */
    TPI_LAZY = 128,    /* of a frame: has strides, but no value yet */
    TPI_REPLACED = 128 /* a block of a program's graph: another is in its place */
};

struct tp_tensor {
    uint64_t seq; /* program order within the context; of a dead one: heads.born when it died */
    tp_ctx *ctx;  /* NULL in the nil tensor only */
    int32_t refs;
    uint8_t status, dtype, rank, flags;
    const tpi_op *op; /* NULL: a leaf */
    const char *file;
    int32_t line;
    int32_t n_in;
    tp_tensor **in; /* with versions and attributes in one block; NULL when not recorded */
    uint32_t *in_version;
    const void *attrs;
    size_t block_size;
    tpi_buf *buf; /* NULL when symbolic or failed */
    char *data;   /* the first element */
    tpi_error *error;
    tp_graph *graph;  /* of a symbolic tensor */
    tp_tensor *grad;  /* what tp_backward added up, one reference */
    char *name;       /* taken from mem, strlen + 1 bytes */
    int32_t owned_at; /* index in ctx->caller.owned; -1 when no scope owns it */
    int32_t retains;  /* references through tp_retain */
    union {
        int32_t index; /* of a symbolic one: position in its graph's list of nodes */
        int32_t code;  /* of another: what it is in the captured segment `frame` */
    };
    int32_t slot; /* scratch of one walk; sweeps nest, and put it back */
    uint32_t
        frame; /* the captured segment in which it was last met, an even number, and 1 more if its shape is
                       not the one that was recorded there; 0: none */
    int32_t number; /* what it is in the captured call that this segment is part of */
    tp_tensor *retained_next, *retained_prev;
    /* What is computed while recording is on and no operand requires a gradient is unrecorded. Should
     * a gradient be asked of what it was computed from, these tell (grad/late.c): */
    uint64_t
        read; /* 0, or the place in program order of the first such one that was computed from
                       this, and in the lowest 6 bits which bit of `from` stands for this */
    uint64_t from; /* what this was computed from, all the way, without a record */
    uint64_t
        since; /* 0, or the place of the oldest unrecorded one that this was computed from, itself
                       at least; of a marked tensor: of the mark */
    int64_t shape[TP_MAX_RANK];  /* elements, or handles of symbolic sizes (core/dim.h) */
    int64_t stride[TP_MAX_RANK]; /* in elements */
};

/* The memory of tensors themselves, without what they hold. */
typedef struct tpi_heads {
    struct tpi_slab *slabs, *open; /* all of them; the first that has headers nobody had yet */
    tp_tensor *dead_first, *dead_last; /* as they died, linked by retained_next */
    int64_t n_free, n_least;           /* dead ones, and those that nobody had */
    uint64_t born;                     /* tensors so far */
} tpi_heads;

/* A tensor that was marked by tp_require_grad when something had been computed from it. */
typedef struct tpi_late {
    const tp_tensor *t; /* not held: see tpi_late_is_same */
    uint64_t since;
} tpi_late;

typedef struct tpi_scope {
    int32_t mark; /* first of ctx->caller.owned that belongs to it */
} tpi_scope;

typedef struct tpi_alloc_head {
    struct tpi_alloc_head *next, *prev;
    size_t size;
} tpi_alloc_head;

/* What other layers keep in the context; each is freed, newest first, by tp_close. */
typedef struct tpi_owned {
    struct tpi_owned *next, *prev;
    void (*free)(struct tpi_owned *o);
} tpi_owned;

/* What a context keeps for the C code that calls it. Each sample of a tp_batch_each has its own. */
typedef struct tpi_caller {
    uint64_t seq;      /* of the next tensor: program order */
    tp_tensor **owned; /* by scopes, in order */
    int32_t n_owned, owned_size;
    tpi_scope *scopes;
    int32_t n_scopes, scopes_size;
    int32_t scope_floor;  /* scopes that the body of a function may not end */
    const char *function; /* the name of that function */
    int32_t calls;        /* of functions that run, in each other */
    int32_t sample;       /* of a tp_batch_each, from 1; 0: none. In one: */
    uint64_t first,
        others; /* tensors that it made have numbers from there on; and those of all samples */
    tpi_stack stack;         /* on which they run */
    struct tp_block *blocks; /* open ones, innermost first (control/control.c) */
    uint64_t stream;         /* of the draws that come (op/random_position.h) */
    bool recording;
    bool training;           /* see tp_training */
    struct tpi_caller *next; /* that waits too */
} tpi_caller;

/* Numbers of program order for each sample of a tp_batch_each, and how many of them are kept for what one call makes. */
enum { TPI_SAMPLE_RANGE = 1 << 24, TPI_SAMPLE_ROOM = 1 << 20 };

/* A hook on a marked tensor (grad/hook.c). */
typedef struct tpi_hung {
    tp_tensor *t; /* one reference */
    struct tp_hook *hook;
} tpi_hung;

/* What C did when it looked at values. */
typedef enum tpi_look {
    TPI_LOOK_READ,
    TPI_LOOK_TRUTH,
    TPI_LOOK_ASSIGN,
    TPI_LOOK_OTHER,
    TPI_LOOK_SHOW, /* printed, saved */
    /* It looked at nothing, and did what a replay would leave out: */
    TPI_LOOK_EFFECT, /* in any case */
    TPI_LOOK_KEEP,   /* if the open scope is the body's own, whose tensors go to the caller's */
    TPI_LOOK_MARK,   /* if the tensor was there before the body */
    /* It asked of a symbol what a concrete tensor may answer otherwise: is it symbolic, marked, named. */
    TPI_LOOK_SYMBOL
} tpi_look;

struct tpi_function_call; /* batch/function_call.h */
struct tpi_cell_side;     /* batch/cell.h */

/* A frame of capture (src/capture), or a queue of ops that wait (src/batch), stands between the ops and their execution.
 * While ctx->frame is not NULL, ops on concrete tensors come here. */
typedef struct tpi_frame_rules {
    /* An op call with good operands (of no graph); `requires`: one of them requires a gradient. */
    tp_tensor *(*apply)(tp_ctx *ctx, tpi_at at, const tpi_op *op, int n_in,
                        tp_tensor *const *in, const void *attrs, bool requires);
    /* A tensor of rank 0 made from a number. */
    tp_tensor *(*scalar)(tp_ctx *ctx, tpi_at at, tp_dtype dtype, double value);
    /* A call of a pure function; false: its body is to run. NULL: always. */
    bool (*call)(tp_ctx *ctx, const struct tpi_function_call *c);
    /* The body of a captured function begins to run; NULL: it does not matter. */
    void (*entered)(tp_ctx *ctx);
    /* Has a call by a cell's program wait, whose results y[] do; false: no memory. NULL: it is computed. */
    bool (*wait)(tp_ctx *ctx, const struct tpi_cell_side *s, tp_tensor *const *in,
                 tp_tensor *const *y);
    tp_tensor *(*assign)(tpi_at at, tp_tensor *var, tp_tensor *value);
    /* In a sample of a tp_batch_each: before what is to come in the order of the samples; and ends the sample if a longjmp has
     * left it. NULL: there are no samples. */
    void (*take_turn)(tp_ctx *ctx);
    void (*come_back)(tp_ctx *ctx);
    /* Before a draw from the current stream: the failed tensor where it may not be; NULL: always. */
    tp_tensor *(*refuse_draw)(tp_ctx *ctx, tpi_at at);
    /* C looks at the value of t (NULL: at any): computes what is pending if that matters. */
    void (*look)(tp_ctx *ctx, tpi_at at, const tp_tensor *t, tpi_look look);
    /* What tp_truth of t answered. */
    void (*answered)(tp_ctx *ctx, tpi_at at, const tp_tensor *t, bool truth);
    /* Computes what is pending if it may fail: before an error is made, or C asks for one. */
    void (*before_error)(tp_ctx *ctx, bool asks);
    /* Ends the frame of a body that never returned. */
    void (*leave)(tp_ctx *ctx);
} tpi_frame_rules;
/* What each of them begins with. */
typedef struct tpi_frame_head {
    const tpi_frame_rules *rules;
} tpi_frame_head;

/* Around the sweep of gradients inside a call (grad/backward.c), for the layer that made the call.
 * They leave the slots of tensors as they are. */
typedef struct tpi_call_hooks {
    /* Before the first op of the sweep; `call` is the node, `at` the line that asks. */
    void *(*sweep_begin)(tp_ctx *ctx, const tp_tensor *call, tpi_at at);
    /* After the last one, also when it failed; the sums are alive. Gets what sweep_begin returned. */
    void (*sweep_end)(tp_ctx *ctx, void *begun);
} tpi_call_hooks;

/* Of the layer that opens blocks; there while one is open or was given up. */
typedef struct tpi_block_rules {
    /* Gives the innermost up, with an error; why: NULL, or what came instead of its end. */
    void (*leave)(tp_ctx *ctx, const char *why);
    void (*free_left)(tp_ctx *ctx);
    /* The failed tensor for a variable that is made while one is open. */
    tp_tensor *(*refuse_variable)(tp_ctx *ctx, tpi_at at, const char *what, const char *name);
    /* An assignment in the body of one, of graph g. */
    tp_tensor *(*assign)(tpi_at at, tp_graph *g, tp_tensor *variable, tp_tensor *value);
} tpi_block_rules;

/* A number as C gave it. */
typedef enum tpi_number_kind { TPI_FLOATING, TPI_SIGNED, TPI_NATURAL } tpi_number_kind;
typedef struct tpi_number {
    tpi_number_kind kind;
    uint64_t bits; /* of a double, or an integer of 64 bits */
} tpi_number;

/* The tensor that was made of one, one reference; NULL: none was. */
typedef struct tpi_kept_number {
    tpi_number number;
    tp_tensor *t;
} tpi_kept_number;
enum { TPI_NUMBERS_BITS = 6, TPI_NUMBERS = 1 << TPI_NUMBERS_BITS };

/* Where the draws of a numbered stream go on. */
typedef struct tpi_stream {
    uint64_t number, at;
    uint64_t sample; /* that drew last: 1 more than where its tensors begin; 0: none */
} tpi_stream;

struct tp_ctx {
    tpi_mem mem;
    tp_status status;
    char error[TPI_ERROR_TEXT]; /* text of the first error */
    tpi_caller caller;          /* that calls now; */
    tpi_caller *callers;        /* those that wait meanwhile */
    struct tpi_fiber *fibers;   /* idle ones, for samples (base/fiber.h) */
    uint64_t seed;
    uint64_t random_at;  /* position of the draws of stream 0 */
    tpi_stream *streams; /* those that were named, but for 0, in the order of their numbers */
    int32_t n_streams, streams_size;
    uint64_t failures;   /* errors so far */
    int32_t attempts;    /* tpi_error_aside: what fails is logged when it turns out to stay */
    tpi_undones undone;  /* outside of its memory */
    uintptr_t thread;    /* that computes; 0: none */
    int32_t interrupted; /* by tp_interrupt, from whatever thread; until tp_clear_error */
    int64_t max_turns;   /* of a loop */
    bool has_symbols;    /* C has been given handles of sizes, maybe */
    bool reads_file;     /* what is made now is what a file says: C computed nothing of it */
    bool has_custom;     /* some gradients are the user's (op/custom.h) */
    bool unfolding;      /* what was fused is called op by op (op/fused.h) */
    bool trap_nan;       /* see tp_trap_nan */
    const tpi_call_hooks *call_hooks;  /* or NULL */
    const struct tpi_kernels *kernels; /* of this machine's instruction set */
    struct tpi_pool *pool;             /* threads; NULL: one */
    bool direct_conv;                  /* as of tp_options */
    int64_t near_bytes;                /* half of the second cache; tests make it less, */
    int64_t far_bytes;                 /* and so what of the third one a thread can count on; */
    uint64_t chance;                   /* not 0: they cut kernels by chance (plan/cut.h) */
    uint64_t n_read;                   /* tensors whose `read` was set */
    tpi_late *late;                    /* dead ones among them go when it is full */
    int32_t n_late, late_size;
    tpi_frame_head
        *frame; /* of the captured function that runs (tpi_frame), or a tpi_queue; NULL: none */
    uint32_t frames;              /* so far */
    uint64_t looks;               /* while ops waited in a tp_batch, and what else C did */
    bool batch_measured;          /* see tp_batch_measure */
    size_t batch_budget;          /* of tp_batch, */
    tp_batch_counts batch_counts; /* and what it has done */
    tp_graph
        *tracing; /* the body that ops on tensors of the graphs around it are put in; or NULL */
    bool sweeps;  /* a gradient is being built, or settled: bodies of ended blocks take nodes */
    /* Of the layer of programs: moves their constants out of a variable's memory; NULL: there are
     * none. False: no memory. */
    bool (*unlend)(tp_ctx *ctx, tpi_buf *b);
    struct tp_block *left; /* those that were given up */
    const tpi_block_rules *block_rules;
    tp_tensor *retained;   /* list of those with retains > 0 */
    uint64_t retained_sum; /* changes with what is in it, and how often */
    tpi_owned objects;     /* ring of graphs and programs */
    tpi_owned *fused;      /* programs of fused composites, one of them; NULL: there are none */
    tpi_hung *hung;        /* in the order in which they were hung on */
    int32_t n_hung, hung_size;
    uint64_t hooks_made, hooks_changed;
    tpi_alloc_head allocs; /* ring of tp_alloc's blocks */
    tp_tensor *dead;       /* worklist of tpi_unref, linked by retained_next */
    tpi_heads heads;
    bool sweeping;
    tpi_kept_number numbers[TPI_NUMBERS]; /* ir/number.c */
    char *cache_dir, *compiler;           /* of tp_options, or NULL */
    tp_tensor nil;                        /* the result when memory is out */
    tpi_error nil_error;
};

/* Is it one of those, which all users of the number share? */
static inline bool tpi_is_kept_number(const tp_tensor *t)
{
    bool is = false;
    for (int i = 0; i < TPI_NUMBERS && t->rank == 0; i++)
        is |= t->ctx->numbers[i].t == t;
    return is;
}

extern const tp_tensor tpi_nil; /* the result when there is no operand to take a context from */
extern const tp_tensor tpi_crowd; /* the result when another thread is in the context */

/* ---- errors ------------------------------------------------------------------------------ */

/* Every error is born here: break on tpi_fail. Sets the context's error when it is the first,
 * returns a failed tensor of the open scope. Text: "file:line: what: " and the format. `ctx`
 * may be NULL (the nil tensor comes back). */
tp_tensor *tpi_fail(tp_ctx *ctx, tpi_at at, const char *what, tp_status status, const char *fmt,
                    ...) __attribute__((format(printf, 5, 6)));
/* The same when no tensor is returned. */
tp_status tpi_fail_status(tp_ctx *ctx, tpi_at at, const char *what, tp_status status,
                          const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* What would change a number that others use too. */
tp_tensor *tpi_fail_kept_number(const tp_tensor *t, tpi_at at, const char *what);
/* Out of memory: needs none. */
tp_tensor *tpi_no_memory(tp_ctx *ctx, tpi_at at, const char *what);

/* An error that was there already is put aside, so that what comes next is told by its own; and
 * put back, as it was the first. What failed between and was not forgotten is logged then. */
typedef struct tpi_aside {
    tp_status status;
    char text[TPI_ERROR_TEXT];
} tpi_aside;
void tpi_error_aside(tp_ctx *ctx, tpi_aside *a);
void tpi_error_back(tp_ctx *ctx, const tpi_aside *a);

/* tp_clear_error without its tp_interrupt. */
void tpi_forget_error(tp_ctx *ctx);

/* Is what runs to stop? The failed tensor that tells of it, or NULL. */
static inline bool tpi_is_interrupted(const tp_ctx *ctx)
{
    return __atomic_load_n(&ctx->interrupted, __ATOMIC_RELAXED) != 0;
}
tp_tensor *tpi_refuse_interrupted(tp_ctx *ctx, tpi_at at, const char *what);
/* The same for turn number `turn` of a loop, which may be one too many. */
tp_tensor *tpi_refuse_turn(tp_ctx *ctx, tpi_at at, const char *what, int64_t turn);

/* ---- one thread at a time ------------------------------------------------------------------- */

/* Around what computes. False: another thread is computing, or came in between. That is noticed, not
 * prevented. */
static inline bool tpi_enter(tp_ctx *ctx, uintptr_t *was)
{
    const uintptr_t self = tpi_this_thread();
    *was = __atomic_load_n(&ctx->thread, __ATOMIC_RELAXED);
    if (*was && *was != self)
        return false;
    __atomic_store_n(&ctx->thread, self, __ATOMIC_RELAXED);
    return true;
}
static inline bool tpi_leave(tp_ctx *ctx, uintptr_t was)
{
    const bool undisturbed =
        __atomic_load_n(&ctx->thread, __ATOMIC_RELAXED) == tpi_this_thread();
    __atomic_store_n(&ctx->thread, was, __ATOMIC_RELAXED);
    return undisturbed;
}
/* out[n] are this failed tensor, whose status it is. */
tp_status tpi_fail_all(tp_tensor *failed, int n, tp_tensor **out);
/* Then: the error, without a look at anything that the other thread may be changing. Not NULL. */
tp_tensor *tpi_refuse_crowd(tp_ctx *ctx, tpi_at at, const char *what);

/* The same for a whole function, which the other thread may be found in while it runs. */
typedef struct tpi_visit {
    tp_ctx *ctx; /* NULL: nothing is to be left */
    uintptr_t was;
    tpi_at at;
    const char *what;
} tpi_visit;
tp_tensor *tpi_visit_begin(tpi_visit *a, tp_ctx *ctx, tpi_at at, const char *what);
void tpi_visit_end(const tpi_visit *a);
/* At the head of a function that begins to work in ctx, which may be NULL: returns the failed tensor, or the
 * value of `refused`, in which it is `crowd`. */
#define TPI_ALONE_OR(ctx, at, what, refused)                                                   \
    tpi_visit visit __attribute__((cleanup(tpi_visit_end)));                                   \
    const tp_tensor *const crowd = tpi_visit_begin(&visit, ctx, at, what);                     \
    if (crowd)                                                                                 \
    return refused
#define TPI_ALONE(ctx, at, what) TPI_ALONE_OR(ctx, at, what, (tp_tensor *)crowd)
#define TPI_ALONE_STATUS(ctx, at, what) TPI_ALONE_OR(ctx, at, what, (tp_status)crowd->status)

/* Memory of the caller's (tp_tensor_wrap), which may change, or end, when nobody holds it. */
static inline bool tpi_is_wrapped(const tp_tensor *t)
{
    return t->buf && !t->buf->size && !t->buf->lasts;
}

/* ---- capture ----------------------------------------------------------------------------- */

/* Before anything but an op reads t's elements: they are computed. Afterwards t may have
 * failed. */
static inline void tpi_look_at(tpi_at at, const tp_tensor *t, tpi_look look)
{
    if (t->ctx->frame)
        t->ctx->frame->rules->look(t->ctx, at, t, look);
}
/* A public function does something beside the ops that is seen when the body has returned. */
static inline void tpi_note_effect(tp_ctx *ctx, const tp_tensor *t, tpi_look effect)
{
    if (ctx->frame)
        ctx->frame->rules->look(ctx, TPI_AT(NULL, 0), t, effect);
}
/* Do other samples see t (NULL: the context) too? */
static inline bool tpi_is_shared(const tp_ctx *ctx, const tp_tensor *t)
{
    return ctx->caller.sample && (!t || t->seq < ctx->caller.first);
}
/* A sample may not change that. */
tp_tensor *tpi_fail_shared(tp_ctx *ctx, tpi_at at, const char *what);
/* NULL, or the failed tensor: one of them is another sample's, which may not be there yet, or there are too many in this one. */
tp_tensor *tpi_refuse_others(tp_ctx *ctx, tpi_at at, const char *what, int n,
                             tp_tensor *const *in);
/* Before the caller's part of the context is read or set. */
static inline void tpi_come_back(tp_ctx *ctx)
{
    if (ctx->caller.sample && ctx->frame && ctx->frame->rules->come_back)
        ctx->frame->rules->come_back(ctx);
}
static inline void tpi_take_turn(tp_ctx *ctx)
{
    if (ctx->frame && ctx->frame->rules->take_turn)
        ctx->frame->rules->take_turn(ctx);
}
/* Of t, live, which may be concrete. */
static inline void tpi_note_symbol(const tp_tensor *t)
{
    if (t->graph && t->ctx->frame)
        t->ctx->frame->rules->look(t->ctx, TPI_AT(NULL, 0), t, TPI_LOOK_SYMBOL);
}
/* Before elements of any tensors are read. */
static inline void tpi_look_at_all(tp_ctx *ctx, tpi_at at, tpi_look look)
{
    if (ctx->frame)
        ctx->frame->rules->look(ctx, at, NULL, look);
}
/* C code of the user's that the library runs, a body or a callback: it may end no scope that was open before,
 * and what it leaves open is ended. */
typedef struct tpi_user_code {
    tp_ctx *ctx;
    const char *outside; /* of the context, to be set again */
    const struct tp_block *blocks;
    int32_t floor, scopes;
} tpi_user_code;
void tpi_user_code_enter(tpi_user_code *u, tp_ctx *ctx, const char *name);
/* First the blocks, which set their variables; then the rest, scopes among it. */
void tpi_user_code_end_blocks(const tpi_user_code *u);
void tpi_user_code_leave(const tpi_user_code *u);
/* A result goes to the open scope, unless one outside has it. The reference, taken before scopes were ended, is taken
 * over. */
tp_tensor *tpi_hand_out(tp_tensor *t, tpi_at at);

/* Building, loading and running a graph is no part of what goes on around it: of the captured
 * function, which could not follow, or of an open block of another graph. */
typedef struct tpi_paused {
    tpi_frame_head *frame;
    tp_graph *tracing;
} tpi_paused;
static inline tpi_paused tpi_pause(tp_ctx *ctx, tpi_at at)
{
    tpi_look_at_all(ctx, at, TPI_LOOK_OTHER);
    const tpi_paused around = {ctx->frame, ctx->tracing};
    ctx->frame = NULL;
    ctx->tracing = NULL;
    return around;
}
static inline void tpi_resume(tp_ctx *ctx, tpi_paused around)
{
    ctx->frame = around.frame;
    ctx->tracing = around.tracing;
}

/* ---- tensors ----------------------------------------------------------------------------- */

static inline bool tpi_is_live(const tp_tensor *t)
{
    return t && t->refs > 0;
}

/* NULL when `t` is a good operand of `ctx` (NULL: of any), else the failed tensor to return:
 * t itself when it failed before. */
tp_tensor *tpi_refuse_operand(tp_ctx *ctx, tpi_at at, const char *what, int i,
                              const tp_tensor *t);

/* A tensor without value of the open scope; NULL when out of memory. Shape as given, flags
 * 0, no strides. */
tp_tensor *tpi_tensor(tp_ctx *ctx, tpi_at at, tp_dtype dtype, int rank, const int64_t *shape);
/* Gives it row-major strides and memory, not zeroed. False when out of memory. */
bool tpi_tensor_alloc(tp_tensor *t);
/* Makes it a view: shares src's memory; its strides are set by the caller, its first element is
 * `offset` elements after src's. */
void tpi_tensor_share(tp_tensor *t, tp_tensor *src, int64_t offset);
/* Both at once, for a computed value: never NULL (the context's nil tensor when memory is out). */
tp_tensor *tpi_tensor_new(tp_ctx *ctx, tpi_at at, tp_dtype dtype, int rank,
                          const int64_t *shape);
/* Checks rank and sizes (>= 0, product of bytes within int64). False after tpi_fail; `out` is
 * then the failed tensor. */
bool tpi_check_shape(tp_ctx *ctx, tpi_at at, const char *what, int rank, const int64_t *shape,
                     tp_tensor **out);
/* The same, and context and element type: in functions that make tensors. */
bool tpi_check_maker(tp_ctx *ctx, tpi_at at, const char *what, tp_dtype dtype, int rank,
                     const int64_t *shape, tp_tensor **failed);
void tpi_set_strides(tp_tensor *t);     /* row-major */
void tpi_note_contiguous(tp_tensor *t); /* sets or clears TPI_CONTIGUOUS from the strides */
/* Rank and sizes, known or symbolic. */
static inline bool tpi_same_shape(const tp_tensor *a, const tp_tensor *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}
/* Bytes of an element: tp_dtype_size, which is a call. */
static inline int64_t tpi_elem_size(const tp_tensor *t)
{
    static const uint8_t sizes[TP_N_DTYPES] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    return sizes[t->dtype];
}
int64_t tpi_count(const tp_tensor *t); /* elements of a concrete tensor */
size_t tpi_bytes(const tp_tensor *t);  /* SIZE_MAX when there is no such number */

void tpi_heads_reserve(tp_ctx *ctx);
void tpi_heads_free(tp_ctx *ctx);

void tpi_ref(const tp_tensor *t);
void tpi_unref(const tp_tensor *t);
/* Takes `t` out of the scope that owns it; the caller then holds its reference. */
void tpi_disown(tp_tensor *t);
/* What c owns from there on is let go, and then its memory. */
void tpi_drop_owned(tpi_caller *c, int32_t mark);
void tpi_caller_free(tp_ctx *ctx, tpi_caller *c);
/* Puts a tensor whose reference the caller holds into the open scope; false (and unref'd) when
 * out of memory. */
bool tpi_own(tp_tensor *t);

tpi_buf *tpi_buf_new(tp_ctx *ctx, size_t bytes);
tpi_buf *tpi_buf_copy(tp_ctx *ctx,
                      const tpi_buf *b); /* with memory of its own; NULL: no memory */
void tpi_buf_unref(tp_ctx *ctx, tpi_buf *b);

/* Before a variable's elements change: programs for which it is a constant get a copy. False: no
 * memory. */
static inline bool tpi_may_write(const tp_tensor *variable)
{
    tpi_buf *b = variable->buf;
    return !b->lent || b->refs == 1 || variable->ctx->unlend(variable->ctx, b);
}

/* Records op, operands (a reference each) and a copy of the attributes; false: no memory. */
bool tpi_record(tp_tensor *t, const tpi_op *op, int n_in, tp_tensor *const *in,
                const void *attrs, size_t attrs_size);

void tpi_object_add(tp_ctx *ctx, tpi_owned *o, void (*free)(tpi_owned *o));
void tpi_object_remove(tpi_owned *o);

/* Elements of concrete tensors of any strides to row-major memory, and back. */
void tpi_copy_out(const tp_tensor *t, void *out);
void tpi_copy_in(tp_tensor *t, const void *in);
/* Element at a memory address as a double or an integer (saturating). */
double tpi_load_f64(tp_dtype dtype, const void *p);
int64_t tpi_load_i64(tp_dtype dtype, const void *p);
/* Writes `value` cast to dtype. */
void tpi_store_f64(tp_dtype dtype, void *p, double value);

/* An axis counted from the end made positive; -1 when out of range. */
static inline int tpi_axis(int64_t axis, int rank)
{
    return axis < -rank || axis >= rank ? -1 : (int)(axis < 0 ? axis + rank : axis);
}

/* "[2, batch, 3]" in a buffer of the caller's: SHAPE(t). */
typedef struct tpi_shape_text {
    char text[160];
} tpi_shape_text;
const char *tpi_shape_format(tpi_shape_text *buf, const tp_tensor *t);
/* The table of a symbolic tensor's sizes, NULL for a concrete one. A graph begins with it. */
static inline tpi_dims *tpi_dims_of(const tp_tensor *t)
{
    return t->graph ? *(tpi_dims *const *)(const void *)t->graph : NULL;
}
/* tp_scalar, for `what`: the context is fine, and may not be looked into by another thread. */
tp_tensor *tpi_make_scalar(tp_ctx *ctx, tpi_at at, const char *what, tp_dtype dtype,
                           double value);
#define SHAPE(t) tpi_shape_format(&(tpi_shape_text){{0}}, (t))

#endif
