/* A call of a pure function, for who stands between ops and their execution and may do it as one (tpi_frame_rules.call). */
#ifndef TAPIR_FUNCTION_CALL_H
#define TAPIR_FUNCTION_CALL_H

#include "core/core.h"
#include "tapir/capture.h"

typedef struct tpi_function_call {
    tpi_at at;
    const char *name; /* of the function */
    tp_body body;
    void *user;
    int n_in, n_out;
    tp_tensor *const *in; /* good, concrete */
    tp_tensor **out;      /* set when the call is taken */
    tp_engine engine;
    const void *watched; /* bytes that it looks at, as they are; */
    size_t n_watched;    /* NULL: none */
    /* What is kept for the function from call to call, NULL at first; whoever has the function frees it. */
    tpi_owned **kept;
    /* Set where the body is to run: whether C looked at values in it is to be told there. NULL: it does not matter. */
    bool **looked;
} tpi_function_call;

#endif
