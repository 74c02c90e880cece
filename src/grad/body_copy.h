/* Copies of bodies, and of single nodes with other operands, within one table of sizes. */
#ifndef TAPIR_BODY_COPY_H
#define TAPIR_BODY_COPY_H

#include "ir/body.h"

/* Sizes that a copy has instead of symbols: by number of the symbol, or NULL: all stay. */
typedef struct tpi_renaming {
    tp_ctx *ctx;
    const int64_t *sizes; /* TPI_NO_DIM: the symbol itself */
    int n_sizes;
} tpi_renaming;

/* t's op over in[] in graph `to`, blocks with bodies of their own. Never NULL. */
tp_tensor *tpi_copy_node(const tpi_renaming *c, tp_graph *to, const tp_tensor *t,
                         tp_tensor *const *in);
/* All of `from` into an empty body: node i becomes node i. False: the error is set. */
bool tpi_copy_body(const tpi_renaming *c, const tpi_body *from, tpi_body *to);
/* What was appended to the bodies of a copied block since is appended to those of the original. */
bool tpi_mirror_block(const tp_tensor *copy, tp_tensor *original);
/* The attributes of a loop, to be changed in place. */
tpi_loop_attrs *tpi_loop_of(const tp_tensor *loop);

/* Marks the symbols that runs of loops inside g bind: in[n], by number. */
void tpi_mark_lengths(const tp_graph *g, int n_nodes, bool *in, int n);
/* Is a size of t made of such a symbol? */
bool tpi_is_sized_by(const tp_tensor *t, const bool *in, int n);

#endif
