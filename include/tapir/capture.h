/* tapir: capture: an ordinary C function, run as it is, compiled behind its back.
 *
 * The first call runs the body eagerly and records its ops. On later calls the body runs too, but
 * each op is only checked against what was recorded, and returns a tensor that is not computed
 * yet; where C looks at a value, and at the end, what is pending runs as compiled segments. So
 * whatever C does between two ops is honoured: prints, counters, flags, swapped weights. What
 * differs from the record goes on eagerly and is recorded as a branch. The bits are those of
 * the eager run. */
#ifndef TAPIR_CAPTURE_H
#define TAPIR_CAPTURE_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tp_function tp_function;

/* Computes out[n_out] from in[n_in]. `user` is the pointer given to tp_function_new. Other
 * tensors it reaches (through user) are state: read at each call, assigned in place. State may be made in the first call,
 * `if (!s->w) s->w = tp_params_add(s->params, "w", init);` and is kept where a tree or tp_retain holds it; a layer that is
 * made at each call is refused in the second, since its tree has the name (TP_E_NAME). */
typedef void (*tp_body)(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out);

typedef struct tp_function_options {
    tp_engine
        engine; /* of the segments. AUTO: the eager kernels until the C program is there, and for
                         whole calls where they are measured to be faster (docs/capture.md); C:
                         a segment that has one waits for its compiler, and stays eager when that
                         fails (tp_function_wait tells); REFERENCE, TILES: those */
    bool eager; /* the body runs eagerly, as with TAPIR_EAGER=1 */
    bool pure; /* a promise: the body need not run when what it would do is known. No C variable
                   that is set inside a branch or from a value read is used after that branch
                   ends, except tensors; nothing else is kept or looked at, but what
                   tp_function_watch names. docs/capture.md says more. */
    bool check; /* of a pure one, as with TAPIR_CHECK_PURE=1: the body runs at each replay too;
                   what differs is an error that names the line of the first op that does */
} tp_function_options;

/* A captured function; `name` is copied and shows in logs. `opt` may be NULL. NULL on error (see
 * tp_error). It lives until tp_function_free or tp_close. */
TP_FN(tp_function *, tp_function_new, tp_ctx *tp, const char *name, tp_body body, void *user,
      const tp_function_options *opt);
#define tp_function_new(...) tp_function_new_at(TP_PLACE, __VA_ARGS__)
/* Not while a call of it runs (TP_E_STATE, and nothing is freed). NULL is fine. */
TP_API void tp_function_free(tp_function *f);

/* Calls it. A call is a scope: what the body makes dies with it, but for results, gradients and what it
 * retained. In every mode (captured, eager, symbolic, inside another function) a call is one
 * node to gradients: contributions inside are added up inside first. A body may call its own
 * function, 1000 deep at most, and less where that would take more than the thread's stack has
 * (TP_E_LIMIT). With a symbolic argument
 * the body adds to that graph. Failed results are failed tensors; the status is the first
 * one's. */
TP_FN(tp_status, tp_function_call, tp_function *f, int n_in, tp_tensor *const *in, int n_out,
      tp_tensor **out);
#define tp_function_call(...) tp_function_call_at(TP_PLACE, __VA_ARGS__)
/* The same for a function of one result. */
TP_FN(tp_tensor *, tp_function_apply, tp_function *f, int n_in, tp_tensor *const *in);
#define tp_function_apply(...) tp_function_apply_at(TP_PLACE, __VA_ARGS__)

/* A pure function looks at these bytes (a flag, a rate, a pointer to a weight that may be
 * swapped): when one has changed since it was recorded, the body runs. They must stay readable
 * until the function is freed. */
TP_FN(tp_status, tp_function_watch, tp_function *f, const void *bytes, size_t n);
#define tp_function_watch(...) tp_function_watch_at(TP_PLACE, __VA_ARGS__)

/* Tensors as two arguments, count and array: tp_function_apply(f, TP_TENSORS(x, y)). In C only. */
#ifndef __cplusplus
#define TP_TENSORS(...)                                                                        \
    (int)(sizeof((tp_tensor *const[]){__VA_ARGS__}) / sizeof(tp_tensor *)),                    \
        (tp_tensor *const[])                                                                   \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }
#endif

typedef struct tp_function_stats {
    int64_t calls;        /* of the function */
    int64_t user_calls;   /* runs of its body */
    int64_t recordings;   /* calls that recorded something new */
    int64_t segments;     /* what is computed between two points where C looks at a value: equal
                             ones, however many ways lead to them, count once */
    int64_t compilations; /* programs made for segments; equal segments share one */
} tp_function_stats;
TP_API tp_function_stats tp_function_stats_of(const tp_function *f);

/* The tree of segments with the user's lines: ops, branches and how often each was taken, programs, what
 * stayed eager and why. NULL when out of memory; tp_free frees. */
TP_API char *tp_function_text(const tp_function *f);
/* Waits for all compilations under way; TP_E_COMPILER when one failed (its segment stays
 * eager). */
TP_API tp_status tp_function_wait(tp_function *f);

/* Writes a function as C that needs no library, as tp_graph_save_c does, its arguments and results
 * named in order. It has to have been called: types and sizes are those of the calls, and sizes
 * that varied are free. All that the body assigns is assigned in each run of the C: a training step
 * with its optimiser is one function. Without a branch on tp_truth the body runs once more, on
 * symbolic arguments. With one, what calls have recorded is written: each way that they took, joined
 * and in loops where the function is declared pure and was called in one way. A run that goes another
 * way is given up with a code, and the line of the tp_truth. TP_E_STATE, and the line, for what C alone
 * knows: a number or a size that varied, a value read (tp_item), a way chosen by no tensor. */
TP_FN(tp_status, tp_function_save_c, tp_function *f, const char *path, int n_in,
      const char *const *inputs, int n_out, const char *const *outputs,
      const tp_c_options *opt);
#define tp_function_save_c(...) tp_function_save_c_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
