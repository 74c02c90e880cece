/* Programs as C files that stand alone (docs/standalone.md): what render.c writes of a plan, in a
 * frame that holds the weights, says where memory lies, and is called by names of its own. */
#ifndef TAPIR_STANDALONE_H
#define TAPIR_STANDALONE_H

#include "base/strbuf.h"
#include "plan/plan.h"

typedef struct tpi_standalone {
    tp_ctx *ctx;
    tpi_at at;
    const char *what;   /* for errors: "tp_graph_save_c" */
    const char *prefix; /* of all its names, an identifier */
    const char *header; /* the header's file name, as the source includes it */
    tp_graph *graph;    /* after the passes */
    int n_in, n_out, n_writes;
    tp_tensor *const *in; /* placeholders of the graph; NULL: not needed */
    const char *const *in_names;
    tp_tensor **roots; /* the outputs, then what is written; may become copies of these */
    const char *const *out_names;
    tp_tensor *const *written; /* [n_writes] concrete: the variables that become it */
    const bool *late;          /* by symbol: a loop sets it (run/late_sizes.c) */
    int64_t seed;
    bool beside; /* weights are not in the source */
} tpi_standalone;

/* Header, source and (beside) weights, appended to what is empty. False: the context's error
 * tells. */
bool tpi_standalone_write(const tpi_standalone *q, tpi_str *header, tpi_str *source,
                          tpi_str *weights);

#endif
