/* Translation validation: after each pass the graph is run beside the one that was there before. */
#ifndef TAPIR_VALIDATE_H
#define TAPIR_VALIDATE_H

#include "pass/optimize.h"

/* Sizes and inputs. */
typedef struct tpi_sample {
    int n_symbols;
    int64_t *symbols;
    int n_feeds;
    tp_tensor **feeds; /* one reference each */
} tpi_sample;

struct tpi_trial;
/* Values of the roots, one reference each. False: it does not run so, or takes too long; the context's
 * error tells. */
typedef bool (*tpi_trial_run)(const struct tpi_trial *t, const tpi_sample *s,
                              tp_tensor **values);

/* A graph that is run, apart from any program. */
typedef struct tpi_trial {
    tpi_trial_run run;
    tp_graph *g;
    int n_feeds, n_roots;
    tp_tensor *const *feeds, *const *roots;
} tpi_trial;

/* As tpi_optimize, each of whose passes has to keep the bits of all roots, on small random inputs, which
 * graphs are `run` on. One that does not: NULL and TP_E_BUG with the pass, the op and its line, and a report
 * on file descriptor 2. What cannot be run (a size that no small one fits, a loop that does not end) is
 * not held to it; the log says so. */
tp_graph *tpi_optimize_validated(tp_graph *g, const tpi_optimizing *how, tpi_trial_run run,
                                 int n_feeds, tp_tensor **feeds, int n_roots,
                                 tp_tensor **roots);

/* t->run; where that fails the context's error is as before. */
bool tpi_try(const tpi_trial *t, const tpi_sample *s, tp_tensor **values);
/* The first element that has other bits, all NaNs being one; -1: none. Shapes and types are equal. */
int64_t tpi_first_other(const tp_tensor *a, const tp_tensor *b);
/* Says what a pass does wrong to a graph at a sample, on the smallest part of it that shows it: a report
 * on file descriptor 2, and the context's error. `t` has the feeds that `s` has values for. */
void tpi_report_wrong(const tpi_trial *t, const tpi_sample *s, const tpi_pass *pass);

#endif
