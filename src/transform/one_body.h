/* A function of the user's (tp_body) as a body: its ops as nodes, over symbolic arguments. */
#ifndef TAPIR_ONE_BODY_H
#define TAPIR_ONE_BODY_H

#include "tapir/capture.h"
#include "transform/rules.h"

typedef struct tpi_one_call {
    const char *what; /* in messages */
    tpi_at at;
    tp_body function;
    void *user;
    int n_in, n_out;
    tp_tensor *const *in;
} tpi_one_call;

/* What is public: refuses a call that lacks something or has bad operands, else sets out[n] by `run`, which gives NULL
 * or the failed tensor, in a scope of its own. The results are the caller's scope's. */
tp_status tpi_one_call_run(const tpi_one_call *c,
                           tp_tensor *(*run)(const void *user, tp_tensor **out),
                           const void *user, int n, tp_tensor **out);

typedef struct tpi_one_body {
    tpi_body *body; /* its first params are the arguments, its outputs the results */
    int n_in;
    tp_graph
        *own; /* which it is in when all is concrete; NULL: in a graph that is being built */
} tpi_one_body;

/* Runs the function once. type gives the rank and sizes of argument i in the body. NULL, or the failed tensor; closed
 * either way. */
tp_tensor *tpi_one_open(const tpi_one_call *c,
                        int (*type)(const void *user, int i, int64_t *shape), const void *user,
                        tpi_one_body *to);
void tpi_one_close(const tpi_one_body *b);
/* The images of its outputs, in f's memory. `image`: of param i, an argument or one that stands for nothing outside.
 * NULL, and *failed is the failed tensor. */
tpi_image *tpi_one_images(const tpi_one_body *b, tpi_transform *f,
                          tpi_image (*image)(const void *user, int i), const void *user,
                          tp_tensor **failed);
/* The graph in which what stands for its nodes is put; NULL: none. */
static inline tp_graph *tpi_one_around(const tpi_one_body *b)
{
    return b->own ? NULL : b->body->graph->parent;
}

#endif
