/* One body in several forms, on the same inputs, each in a context of its own. The eager run is the
 * oracle: every other form has to give its bits. */
#ifndef EXAMPLES_FORMS_H
#define EXAMPLES_FORMS_H

#include <tapir/tapir.h>

enum { FORMS_MOST = 8 }; /* arguments or results of a body */

typedef struct work {
    const char *name;
    tp_body body;
    int n_in, n_out;
    int64_t calls;
    /* The body's `user` in a new context, from tp_alloc; NULL: there is none. */
    void *(*make)(tp_ctx *tp);
    /* The arguments of call number `call`. */
    void (*inputs)(tp_ctx *tp, int64_t call, tp_tensor **in);
    const char *varies; /* a letter per argument: 'n' when its leading size varies, "x  " ...;
                           NULL: none does */
} work;

typedef enum form {
    FORM_EAGER,
    FORM_MATCHED, /* captured; the C code runs on every call */
    FORM_PURE,    /* captured and declared pure */
    FORM_GRAPH    /* the body adds to a static graph, once */
} form;

typedef struct result {
    size_t at; /* in the bytes */
    int64_t n; /* elements */
    tp_dtype dtype;
} result;

typedef struct outcome {
    unsigned char *bytes; /* of all results of all calls, one after the other */
    size_t n_bytes, size;
    result *results; /* [calls, n_out] */
    int n_out;
    int64_t n_results;
    tp_function_stats stats; /* of a graph: runs, and what was built for them */
    bool good;
} outcome;

/* What the command line of an example asks for. */
typedef struct options {
    tp_engine engine;
    bool
        times; /* how long a call of each form takes once all is compiled, beside the eager one */
} options;

/* "eagerly", "matched", "pure", "as a graph". */
const char *form_name(form f);
/* Runs all calls. A failure is printed; the result is then not good. */
outcome work_run(const work *w, form f, tp_engine engine);
void outcome_free(outcome *o);
/* The results of one call, as doubles: f64, f32, i64, i32 and bool are read. `at` is the result's
 * number; returns how many elements there were, -1 when out of range. */
int64_t outcome_read(const outcome *o, int64_t call, int at, double *to, int64_t most);

/* Runs forms beside the eager one, prints a line of counts for each:
 *     NAME, pure:
 *     calls N user_calls N recordings N segments N compilations N bits_equal yes
 * or, where times are asked for, one line for all:
 *     NAME      eagerly N us   matched N   pure N
 * the form's time over the eager one's. `eager` gets the oracle, to be freed, when it is not NULL. False:
 * something failed or differs. */
bool work_show(const work *w, int n_forms, const form *forms, const options *o, outcome *eager);

/* Numbers in [lo, hi) that depend on `seed` alone; f32 or f64. */
tp_tensor *drawn(tp_ctx *tp, uint64_t seed, tp_dtype dtype, int rank, const int64_t *shape,
                 double lo, double hi);

/* The line. */
void show_counts(const tp_function_stats *s, bool bits_equal);
/* "what: WORST, at most BOUND"; false, and said, when it is more or no number. */
bool show_error(const char *what, double worst, double bound);

/* "reference", "auto" or "c"; false: it is none of them. */
bool engine_named(const char *name, tp_engine *engine);
/* `--engine reference|tiles|auto|c` and `--times`; false, and said, when there is anything else. */
bool parse_options(int argc, char **argv, options *o);

#endif
