/* What examples of tp_vmap share: their arguments, and the loop over samples which they are checked by. */
#ifndef EXAMPLES_SAMPLE_LOOP_H
#define EXAMPLES_SAMPLE_LOOP_H

#include <tapir/tapir.h>

enum { SAMPLES_MOST = 8 }; /* arguments or results of a function of one sample */

typedef struct argument {
    const char *name; /* "--steps" */
    int64_t *value;   /* a whole number, 1 at least */
} argument;

/* Reads "NAME N" for n arguments, "--check", and a folder of data where `folder` is not NULL, which is else that of the
 * environment variable DATA. False, and said, when there is anything else. */
bool read_arguments(int argc, char **argv, int n, const argument *arguments, bool *check,
                    const char **folder);

/* n digits of the MNIST files `which` in a folder ("train" or "t10k"), or, where that is NULL, drawn: to[0], pictures f32
 * [n, 784] of 0 to 1, and to[1], labels i64 [n]. False, and said, when that is not possible. */
bool digit_tensors(tp_ctx *tp, const char *folder, const char *which, int64_t n,
                   tp_tensor **to);

/* The first n of many samples, as views. */
void first_samples(int64_t n, int n_in, tp_tensor *const *in, tp_tensor **first);

/* Gives the body each sample of in[n_in] alone, one after the other, and stacks what comes. */
void loop_over_samples(tp_body body, void *user, int n_in, tp_tensor *const *in, int n_out,
                       tp_tensor **out);

/* Have they, two by two, the same bits? Prints "bits_equal yes" or "bits_equal no". */
bool show_bits_equal(int n, tp_tensor *const *a, tp_tensor *const *b);

/* The same of what tp_vmap and the loop give. */
bool check_samples(tp_body body, void *user, int n_in, tp_tensor *const *in, int n_out);

/* Closes the context; the program's exit status: 0 where all is good and nothing failed, else 1, and an error is said. */
int close_and_tell(tp_ctx *tp, const char *program, bool good);

#endif
