/* One scenario, run eagerly and captured: what it notes has to be the same, to the bit.
 *
 * A scenario works in a context of its own and writes down what it sees: `note` a tensor (type,
 * sizes and bits), `say` anything else. The transcript of the eager run is the oracle; the one
 * of each captured run is compared with it line by line. */
#ifndef TAPIR_TEST_BOTH_H
#define TAPIR_TEST_BOTH_H

#include "common/unit.h"
#include "tapir/batching.h"
#include "tapir/capture.h"
#include "tapir/nn.h"
#include "tapir/onnx.h"
#include "tapir/random.h"
#include "tapir/train.h"

/* false, true: settle() waits for the compiler; random programs call their functions in a tp_batch. */
typedef enum both_how { BOTH_GOES_ON, BOTH_WAITS, BOTH_BATCHES } both_how;
typedef struct both_way {
    const char *name, *compiler; /* compiler NULL: the usual one */
    tp_function_options opt;
    both_how how;
} both_way;

enum { BOTH_FUNCTIONS = 64 };
/* The stress build meets the limits all the time: what is known after how many calls differs. */
#ifdef TPI_STRESS
enum { BOTH_STRESS = 1 };
#else
enum { BOTH_STRESS = 0 };
#endif

typedef struct bed {
    tp_ctx *tp;
    const both_way *way;
    bool eager;
    tp_function *made[BOTH_FUNCTIONS]; /* by make() */
    int n_made;
    char *text; /* the transcript */
    size_t n_text, size;
    const void *given; /* to the scenario */
} bed;

/* A function of the way the scenario is run. */
tp_function *make(bed *b, const char *name, tp_body body, void *user);
/* The same, declared pure. */
tp_function *make_pure(bed *b, const char *name, tp_body body, void *user);
/* Frees one that make() gave. */
void discard(bed *b, tp_function *f);
/* Waits for compilations, when the scenario is run in a way that does. */
void settle(bed *b);

/* A line of the transcript. */
void say(bed *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Type, sizes and bits of a tensor, or its error; every NaN is "nan". */
void note(bed *b, const char *what, const tp_tensor *t);
/* The context's error, when there is one; then it is cleared. */
void note_error(bed *b, const char *what);
/* What tp_print writes. */
void note_print(bed *b, const tp_tensor *t);

/* Runs a scenario in every way and compares; a cmocka test. */
typedef struct attack {
    void (*scenario)(bed *b);
} attack;
void both_run(void **state);
#define ATTACK(f)                                                                              \
    {                                                                                          \
        .name = #f, .test_func = both_run, .initial_state = (void *)&(attack)                  \
        {                                                                                      \
            f                                                                                  \
        }                                                                                      \
    }

/* The transcript of one way; to be freed. Memory that is still out after it fails the test. */
char *both_transcript(const both_way *way, void (*scenario)(bed *b), const void *given);
/* Where they first differ, in words. False: nowhere. */
bool both_differ(const both_way *way, const char *eager, const char *got, char *why,
                 size_t size);
/* Fails the test when they do. */
void both_compare(const both_way *way, const char *eager, const char *got);

/* Numbers that tell elements apart: scale * (a small integer), f32. */
tp_tensor *pattern(tp_ctx *tp, int rank, const int64_t *shape, double scale);
/* A random tensor of the test's own, which leaves the context's generator alone; in [-1, 1). */
tp_tensor *draw(tp_ctx *tp, uint64_t *seed, int rank, const int64_t *shape);
/* A body; not each looks at all it is given. */
#define BODY(name)                                                                             \
    static void name(__attribute__((unused)) void *user, __attribute__((unused)) int n_in,     \
                     __attribute__((unused)) tp_tensor *const *in,                             \
                     __attribute__((unused)) int n_out,                                        \
                     __attribute__((unused)) tp_tensor **out)

/* A function as an ONNX model that has been loaded again. */
typedef struct model {
    tp_program *program; /* NULL: it was not saved */
    char why[300];       /* then: why */
    int loops, ifs;      /* nodes, those in others too */
} model;

/* Inputs and outputs, at most two each. */
model model_of(bed *b, tp_function *f, const char *name, int n_in, int n_out);
/* Is it what was expected? refused: a part of why it is not saved, or NULL. */
void expect_model(const model *m, const char *name, const char *refused, int loops, int ifs);
/* Fails the test when the model gives other bits than out[]. */
void same_in_model(bed *b, const model *m, const char *name, tp_tensor *const *in, int n_out,
                   tp_tensor *const *out);

/* f(x) of one result. */
tp_tensor *call1(tp_function *f, tp_tensor *x);
tp_tensor *call2(tp_function *f, tp_tensor *x, tp_tensor *y);

/* What TAPIR_LOG=capture writes from log_begin to log_end; to be freed. */
void log_begin(void);
char *log_end(void);

/* Captured runs: no more calls recorded than this, and the body ran each time. */
void expect_recordings(bed *b, const tp_function *f, int64_t most, int line);
#define EXPECT_RECORDINGS(b, f, most) expect_recordings((b), (f), (most), __LINE__)

#endif
