/* Test cases as ONNX keeps them: a folder with model.onnx and folders test_data_set_N of inputs
 * and expected outputs. */
#ifndef TAPIR_CLI_CASES_H
#define TAPIR_CLI_CASES_H

#include "cli.h"

typedef struct test_case {
    char *path;
    const char *name; /* within path: what stands behind the folder that was asked for */
} test_case;

typedef struct test_cases {
    int n, size;
    test_case *v;
    bool failed; /* a message was given */
} test_cases;

/* Adds the case that `path` is, or all in the folders below it, sorted. */
void cases_find(test_cases *cases, const char *path);
void cases_free(test_cases *cases);

typedef enum verdict { CASE_PASSED, CASE_FAILED, CASE_SKIPPED, N_VERDICTS } verdict;

typedef struct case_result {
    verdict verdict;
    char reason[600]; /* "" when it passed */
} case_result;

typedef struct case_options {
    bool reference, tiles, c; /* engines */
    int threads;              /* 0: not told */
    double rtol, atol;        /* negative: as ONNX's own runner */
} case_options;

/* Runs one in a context of its own. Prints nothing. */
void case_run(const test_case *c, const case_options *opt, case_result *result);

/* ---- comparing ----------------------------------------------------------------------------------- */

typedef enum case_rule {
    RULE_NEAR,      /* floats within tolerance, others equal */
    RULE_BERNOULLI, /* drawn at random: each 1 as often as the input says, else 0 */
    RULE_DROPOUT    /* each the input's or 0, as often as the second input says */
} case_rule;

typedef struct tolerance {
    case_rule rule;
    double rtol, atol;
} tolerance;

/* What ONNX's runner allows for the case of that name. */
tolerance case_tolerance(const char *name);
/* Writes why they differ to `why`; true when they do not. */
bool case_compare(const tp_tensor *got, const tp_tensor *want, const tolerance *t, char *why,
                  size_t size);
/* The same of what is drawn at random from inputs: of the outputs only types and shapes are told before. */
bool case_compare_random(case_rule rule, int n_in, tp_tensor *const *in, int n_out,
                         tp_tensor *const *out, char *why, size_t size);

#endif
