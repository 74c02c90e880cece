/* One case of misuse per public function: misuse_list.sh holds the list against the headers.
 *
 *     MISUSE(tp_add) { ... }
 *
 * is run with a fresh context and must leave it usable and clean. In it, a bad call is written
 *
 *     BAD(b, TP_E_SHAPE, tp_add(b->f, b->g));
 *
 * and is right when the call's result is bad, the context's error is that status and its text
 * begins with this file and line and names the function. */
#ifndef TAPIR_MISUSE_H
#define TAPIR_MISUSE_H

#include "common/unit.h"
#include "tapir/tapir.h"

typedef struct bed {
    tp_ctx *tp, *other; /* two contexts */
    tp_graph *g;        /* of tp */
    /* good operands of tp */
    tp_tensor *f;         /* f32 [2, 3] */
    tp_tensor *t;         /* f32 [3, 2] */
    tp_tensor *c;         /* f32 [3] */
    tp_tensor *i;         /* i64 [2], zeros */
    tp_tensor *along;     /* i64 [2, 3], zeros */
    tp_tensor *flag;      /* bool [2, 3] */
    tp_tensor *image;     /* f32 [1, 2, 4, 4] */
    tp_tensor *kernel;    /* f32 [3, 2, 2, 2] */
    tp_tensor *image_out; /* f32 [1, 3, 3, 3] */
    tp_tensor *var;       /* variable f32 [2, 3], "v" */
    tp_tensor *param;     /* the same, a gradient may be asked */
    tp_tensor *node;      /* placeholder "x" f32 [2, 3] of g */
    tp_tensor *batch;     /* placeholder "y" f32 [n, 3] of g */
    /* bad ones */
    tp_tensor *failed, *dead, *foreign, *gone;
} bed;

typedef struct misuse {
    const char *name;
    void (*run)(bed *b);
} misuse;

extern const misuse misuse_base[], misuse_tensor[], misuse_ops[], misuse_composites[],
    misuse_arrays[], misuse_functions[], misuse_indexing[], misuse_linalg[], misuse_random[],
    misuse_grad[], misuse_graph[], misuse_nn[], misuse_train[], misuse_control[],
    misuse_capture[], misuse_transform[], misuse_batching[],
    misuse_ragged[], misuse_onnx[]; /* up to one without a name */

/* The error of `what` is `status`, named so and placed there; it is cleared. */
void misuse_expect(bed *b, const char *file, int line, const char *what, tp_status status,
                   bool bad);
/* Without a place, as functions that take none. */
void misuse_expect_bare(bed *b, int line, const char *what, tp_status status, bool bad);

#define IS_BAD(r)                                                                              \
    _Generic((r),                                                                              \
        tp_tensor *: misuse_bad_tensor,                                                        \
        tp_ragged: misuse_bad_pair,                                                            \
        tp_status: misuse_bad_status,                                                          \
        tp_graph *: misuse_bad_pointer,                                                        \
        tp_program *: misuse_bad_pointer,                                                      \
        tp_optimizer *: misuse_bad_pointer,                                                    \
        tp_gradient_sum *: misuse_bad_pointer,                                                 \
        tp_loss_scale *: misuse_bad_pointer,                                                   \
        tp_lbfgs *: misuse_bad_pointer,                                                        \
        tp_average *: misuse_bad_pointer,                                                      \
        void *: misuse_bad_pointer,                                                            \
        char *: misuse_bad_pointer,                                                            \
        const void *: misuse_bad_pointer)(r)

static inline bool misuse_bad_tensor(const tp_tensor *t)
{
    return t && tp_failed(t) && tp_status_of(t) != TP_OK && *tp_error_text(t);
}

static inline bool misuse_bad_pair(tp_ragged r)
{
    return misuse_bad_tensor(r.values) && misuse_bad_tensor(r.offsets);
}

static inline bool misuse_bad_status(tp_status s)
{
    return s != TP_OK;
}

static inline bool misuse_bad_pointer(const void *p)
{
    return !p;
}

/* `what`: names one of which is in the text, as "neg|tp_neg"; "": any will do. */
#define BAD_AS(b, what, status, call)                                                          \
    misuse_expect((b), __FILE__, __LINE__, what, status, IS_BAD(call))
#define BAD(b, status, call) BAD_AS(b, what, status, call)
#define BAD_BARE(b, status, call) misuse_expect_bare((b), __LINE__, what, status, IS_BAD(call))
/* Bad, but with no context to tell it. */
#define BAD_NIL(b, call) assert_true(IS_BAD(call)), assert_int_equal(tp_error((b)->tp), TP_OK)
/* Bad operands on which nothing more is said than what they failed of. */
#define STICKS(b, call)                                                                        \
    do {                                                                                       \
        assert_true(IS_BAD(call));                                                             \
        tp_clear_error((b)->tp);                                                               \
    } while (0)

#define MISUSE(f)                                                                              \
    static void f##_run(bed *b, const char *what);                                             \
    static void f##_case(bed *b)                                                               \
    {                                                                                          \
        f##_run(b, #f);                                                                        \
    }                                                                                          \
    static void f##_run(__attribute__((unused)) bed *b,                                        \
                        __attribute__((unused)) const char *what)

#define LISTED(f)                                                                              \
    {                                                                                          \
#f, f##_case                                                                           \
    }

/* As an answer that is bad when `bad` holds. */
#define SAYS(bad) ((bad) ? (tp_status)TP_E_VALUE : (tp_status)TP_OK)

/* All bad operands in the place of x in `call`, which is good with x = ok. */
#define OPERAND(b, ok, call)                                                                   \
    do {                                                                                       \
        tp_tensor *x = (ok);                                                                   \
        assert_false(IS_BAD(call));                                                            \
        assert_int_equal(tp_error((b)->tp), TP_OK);                                            \
        x = NULL;                                                                              \
        assert_true(IS_BAD(call));                                                             \
        tp_clear_error((b)->tp);                                                               \
        x = (b)->failed;                                                                       \
        assert_true(IS_BAD(call));                                                             \
        tp_clear_error((b)->tp);                                                               \
        x = (b)->gone;                                                                         \
        misuse_expect((b), __FILE__, __LINE__, what, TP_E_STATE, IS_BAD(call));                \
        x = (b)->dead;                                                                         \
        if (x)                                                                                 \
            misuse_expect((b), __FILE__, __LINE__, what, TP_E_STATE, IS_BAD(call));            \
    } while (0)

#endif
