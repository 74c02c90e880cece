/* tapir: status codes, errors, contexts and scopes.
 *
 * A context holds all state of the library; there are no globals. A scope owns the tensors
 * made while it is open. An error sticks to what it spoiled and to the context. */
#ifndef TAPIR_BASE_H
#define TAPIR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define TP_API __attribute__((visibility("default")))
#else
#define TP_API
#endif

/* Of the blocks that macros open: a variable for each line, and what ends it however it is left, where the compiler can
 * tell (gcc, clang). */
#define TP_JOIN_AS_THEY_ARE(a, b) a##b
#define TP_JOIN(a, b) TP_JOIN_AS_THEY_ARE(a, b)
#ifdef __GNUC__
#define TP_LEFT_BY(function) __attribute__((cleanup(function)))
#else
#define TP_LEFT_BY(function)
#endif

/* The place an op is blamed on: two arguments. A wrapper may redefine it to pass on its own
 * caller's place. */
#ifndef TP_PLACE
#define TP_PLACE __FILE__, __LINE__
#endif

/* Declares name(args), which bindings call, and name_at(file, line, args), which the macro of
 * the same name calls with TP_PLACE, so that errors name the user's line. */
#define TP_FN(type, name, ...)                                                                 \
    TP_API type name##_at(const char *file, int line, __VA_ARGS__);                            \
    TP_API type name(__VA_ARGS__)

#ifdef __cplusplus
extern "C" {
#endif

#define TP_VERSION_MAJOR 0
#define TP_VERSION_MINOR 1
#define TP_MAX_RANK 8 /* axes of a tensor */

typedef struct tp_ctx tp_ctx;       /* all state; used by one thread at a time */
typedef struct tp_tensor tp_tensor; /* a value, or a value to come */
typedef struct tp_graph tp_graph;   /* a static graph, see graph.h */

/* Around what a macro takes as a tensor, where C would also take a number other than 0, some compilers with no
 * more than a warning: it does not compile. tp_scalar_like makes a tensor of a number. Such an argument is one of
 * the macro's own: a comma in it stands in parentheses. */
#if defined(__GNUC__) && !defined(__cplusplus)
typedef union {
    tp_tensor *tensor;
} __attribute__((transparent_union)) tp_operand;
typedef union {
    const tp_tensor *tensor;
} __attribute__((transparent_union)) tp_read_operand;
static inline __attribute__((always_inline, artificial)) tp_tensor *
tp_tensor_not_number(tp_operand x)
{
    return x.tensor;
}
static inline __attribute__((always_inline, artificial)) const tp_tensor *
tp_read_tensor_not_number(tp_read_operand x)
{
    return x.tensor;
}
#define TP_OPERAND(x) __extension__ tp_tensor_not_number(x)
#define TP_READ_OPERAND(x) __extension__ tp_read_tensor_not_number(x) /* of a const one, too */
#else
#define TP_OPERAND(x) (x)
#define TP_READ_OPERAND(x) (x)
#endif

typedef enum tp_status {
    TP_OK,
    TP_E_NULL,     /* an operand is missing */
    TP_E_SHAPE,    /* sizes do not fit */
    TP_E_DTYPE,    /* an element type does not fit */
    TP_E_AXIS,     /* an axis out of range or named twice */
    TP_E_VALUE,    /* an argument or an index out of range */
    TP_E_STATE,    /* the call does not fit what was done before */
    TP_E_SYMBOLIC, /* a value was asked of a symbolic tensor */
    TP_E_CTX,      /* operands of different contexts or graphs */
    TP_E_NAME,     /* a name is unknown or taken */
    TP_E_MEMORY,   /* an allocation failed */
    TP_E_IO,       /* a file could not be read or written */
    TP_E_FORMAT,   /* a file or text is malformed */
    TP_E_COMPILER, /* the C compiler is missing or failed */
    TP_E_BUG,      /* a broken promise of the library itself */
    TP_E_LIMIT,    /* a limit that was given cannot be kept */
    TP_E_STOPPED,  /* tp_interrupt was called */
    TP_N_STATUS
} tp_status;

/* "shape", "dtype", ...: one word for a status. Static storage. */
TP_API const char *tp_status_name(tp_status s);
/* "0.1.0". Static storage. */
TP_API const char *tp_version(void);

/* ---- contexts ----------------------------------------------------------------------- */

/* The shared library stays in the process after dlclose, and contexts with it: opened again, it is the
 * same one. */

/* A context is used by one thread at a time, by which makes no difference. What makes, computes or assigns
 * tensors, takes gradients, calls a function, runs a program, or begins or ends a scope, and finds another
 * thread at such work in it, does nothing but fail (TP_E_STATE); a call's body is part of the call. That is a
 * help in finding the mistake, no protection from it. */

/* Results do not depend on the floating-point mode of the thread that calls (rounding, subnormals,
 * unmasked exceptions; a program linked with -ffast-math has one of its own): what computes, reads or
 * writes numbers does so in the default mode and leaves the caller's as it was. Bodies of captured
 * functions run in the caller's mode, allocators and what tp_grad_check calls in the default one. */

/* All memory of a context comes from here. `size` passed to `release` is the size asked for.
 * alloc returns memory aligned to 64 bytes, or NULL. Both may be called from the thread that
 * uses the context only. */
typedef struct tp_allocator {
    void *(*alloc)(void *user, size_t size);
    void (*release)(void *user, void *p, size_t size);
    void *user;
} tp_allocator;

typedef struct tp_options {
    const tp_allocator *allocator; /* NULL: the C library's */
    uint64_t seed;                 /* of the random ops; 0 is a seed like any other */
    const char *cache_dir; /* of compiled programs; NULL: TAPIR_CACHE or the user's cache */
    const char *compiler;  /* NULL: TAPIR_CC or "cc" */
    int threads;           /* 0: TAPIR_THREADS, or 1; see tp_threads */
    int64_t max_turns; /* of each loop of control.h, eagerly or in a graph: one that would take
                              more fails with TP_E_LIMIT and its line. 0: any number */
    bool
        direct_conv; /* f32 convolutions made from now on are plain sums. Otherwise those of 3 by 3
                          and stride 1 are taken by Winograd's tiles where that pays, in half
                          the time: docs/numerics.md states both orders. A graph keeps what its
                          nodes were made with */
} tp_options;

/* A new context; NULL when out of memory (every call takes a NULL context as an error).
 * `opt` may be NULL. */
TP_API tp_ctx *tp_open(const tp_options *opt);
/* Frees the context and everything made in it; NULL is fine. */
TP_API void tp_close(tp_ctx *tp);
/* From now on ops and programs of the context compute with n threads, the caller's among them (at
 * most 256, and never more than there are processors for this process); n <= 0 changes nothing. The bits
 * do not depend on it. Returns how many there are now: 1 where libpthreadpool is not installed
 * (TAPIR_LOG=threads tells), 0 for a NULL context. After a fork the child may go on with a context
 * that nothing was computed in during the fork: it makes threads of its own. */
TP_API int tp_threads(tp_ctx *tp, int n);
/* Bytes in use now, memory kept for reuse not counted. */
TP_API size_t tp_memory_bytes(const tp_ctx *tp);
/* Gives memory back to the allocator (the C library's: to the system) that is kept for reuse: worth
 * it when much was freed that will not be needed again, such as the graph of a large model whose
 * program has its weights. NULL is fine. */
TP_API void tp_trim(tp_ctx *tp);
/* Memory of the context for layers and optimisers, zeroed; freed by tp_free or tp_close. NULL
 * when out of memory (the context's error is set). tp_free(tp, NULL) is fine. */
TP_API void *tp_alloc(tp_ctx *tp, size_t size);
TP_API void tp_free(tp_ctx *tp, void *p);

/* ---- errors ------------------------------------------------------------------------- */

/* The first error since tp_open or tp_clear_error; TP_OK when there was none. Errors are values and nothing is printed,
 * unless the environment has TAPIR_LOG=error: then the first of each call is a line on standard error. */
TP_API tp_status tp_error(const tp_ctx *tp);
/* Its text: "net.c:41: matmul: inner sizes differ: a [32, 784], b [768, 128]"; "" when there
 * was none. Valid until tp_clear_error or tp_close. */
TP_API const char *tp_error_message(const tp_ctx *tp);
/* Forgets it, and a tp_interrupt. Failed tensors stay failed, and what is computed from one is no
 * new error. */
TP_API void tp_clear_error(tp_ctx *tp);
/* A failed tensor with an error of your own, for functions that refuse what they are given:
 * "net.c:41: TEXT". `status` is not TP_OK. */
TP_FN(tp_tensor *, tp_fail, tp_ctx *tp, tp_status status, const char *text);
#define tp_fail(...) tp_fail_at(TP_PLACE, __VA_ARGS__)

/* Stops what the context computes. It may be called from another thread and from a signal handler, at
 * any time until tp_close. Loops of control.h, eager ones and those of graphs in every engine, end
 * before their next turn, nobody waits for a compiler, and until tp_clear_error calls of functions,
 * runs of programs, tp_truth and tp_item fail too, with TP_E_STOPPED; the context is usable
 * afterwards. A run that fails leaves variables as they were. A function whose body was under way
 * fails when that returns; what the body assigned stays. A kernel is not cut short, and a loop of C
 * that asks neither for values nor for errors goes on. NULL is fine. */
TP_API void tp_interrupt(tp_ctx *tp);

/* Ends what the context has under way outside of its memory: kills the compilers that it started, removes
 * their folders and the files that are being saved. It is for signal handlers of programs that end
 * then, and may be called like tp_interrupt; without it a compiler runs on when its program is
 * killed, and files stay until the next build or save there. A save that goes on afterwards fails, a
 * program that was being compiled runs without. NULL is fine. */
TP_API void tp_abandon(tp_ctx *tp);

/* Turns the NaN trap on or off; returns how it was (TAPIR_TRAP=nan: on from the start). While it
 * is on, an op fails whose result has a NaN although no operand has one: TP_E_VALUE with the op's
 * line, "net.c:41: log: NaN at element [3, 0], and none in the operands". What is fed or made
 * of numbers may have NaN. Programs are run node by node, whatever their engine, and captured
 * functions eagerly: the same bits, slower. A run that fails leaves variables as they were. */
TP_API bool tp_trap_nan(tp_ctx *tp, bool on);

/* Says whether layers and tp_dropout_apply do as in training, or as in use; returns how it was. On at first. Captured
 * functions notice: what they recorded for one is there when it is that again. A graph keeps what it was built with. */
TP_API bool tp_training(tp_ctx *tp, bool on);
TP_API bool tp_trains(const tp_ctx *tp); /* how it is; false for NULL */

/* ---- scopes ------------------------------------------------------------------------- */

/* Opens a scope: every tensor made from now on belongs to it. */
TP_API tp_status tp_scope_begin(tp_ctx *tp);
/* Closes the innermost scope and releases its tensors, which must not be used any more: that is an error
 * (TP_E_STATE), noticed as long as no more than 4,096 tensors have been made since. What a tape, a graph or a retained
 * tensor still needs lives on inside the library. */
TP_FN(tp_status, tp_scope_end, tp_ctx *tp);
#define tp_scope_end(...) tp_scope_end_at(TP_PLACE, __VA_ARGS__)
/* Hands `t` to the scope outside the open one; does nothing when `t` is older than the open
 * scope. Returns `t`. */
TP_API tp_tensor *tp_keep(tp_tensor *t);
#define tp_keep(t) tp_keep(TP_OPERAND(t))
/* A handle that outlives all scopes until tp_release. Returns `t`. */
TP_API tp_tensor *tp_retain(tp_tensor *t);
#define tp_retain(t) tp_retain(TP_OPERAND(t))
TP_API void tp_release(tp_tensor *t);
#define tp_release(t) tp_release(TP_OPERAND(t))

/* ---- functions of others ------------------------------------------------------------ */

/* Around a call of a function that somebody else wrote, such as a loss or a layer that one is handed. The function ends no
 * scope that was open before (TP_E_STATE), and scopes and blocks that it leaves open are ended. `name`, which lives as
 * long, is what errors call it.
 *
 *     tp_callback c = tp_callback_begin(tp, "loss");
 *     y = tp_callback_end(&c, loss(user)); */
typedef struct tp_callback {
    tp_ctx *tp; /* all of it is for tp_callback_end */
    const char *outside;
    const void *blocks;
    int32_t floor, scopes;
} tp_callback;
TP_API tp_callback tp_callback_begin(tp_ctx *tp, const char *name);
/* Result: y, which now belongs to the scope that was open before. y may be NULL; a second time nothing happens. */
TP_API tp_tensor *tp_callback_end(tp_callback *c, tp_tensor *y);

/* ---- argument lists ----------------------------------------------------------------- */

/* Sizes or axes as two arguments, count and array:  tp_reshape(x, TP_DIMS(4, -1)). */
#ifdef __cplusplus
extern "C++" {
template <class... T> struct tp_dims_list {
    int64_t v[sizeof...(T)];
};
template <class... T> constexpr tp_dims_list<T...> tp_dims_of(T... sizes)
{
    return {{static_cast<int64_t>(sizes)...}};
}
}
#define TP_DIMS(...)                                                                           \
    static_cast<int>(sizeof(tp_dims_of(__VA_ARGS__)) / sizeof(int64_t)),                       \
        tp_dims_of(__VA_ARGS__).v
#else
#define TP_DIMS(...)                                                                           \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])         \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }
#endif
/* No sizes (a scalar's shape), or no axes named: all of them. */
#define TP_SCALAR 0, NULL
#define TP_ALL 0, NULL

#ifdef __cplusplus
}
#endif
#endif
