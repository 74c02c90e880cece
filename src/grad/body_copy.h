/* Copies of bodies, and of single nodes with other operands, within one table of sizes. */
#ifndef TAPIR_BODY_COPY_H
#define TAPIR_BODY_COPY_H

#include "ir/body.h"

/* t's op over in[] in graph `to`, blocks with bodies of their own. Never NULL. */
tp_tensor *tpi_copy_node(tp_ctx *ctx, tp_graph *to, const tp_tensor *t, tp_tensor *const *in);
/* The same over what map[] has for its operands, by index; a `result` is its value. */
tp_tensor *tpi_copy_over(tp_graph *to, const tp_tensor *t, tp_tensor *const *map);
/* All of `from` into an empty body: node i becomes node i. False: the error is set. */
bool tpi_copy_body(const tpi_body *from, tpi_body *to);
/* What map[] has nothing for of a body, but for params, and all its outputs: copies go to a body that is new but for
 * params, and to map[]; what is taken to be equal, too. False: the error is set. */
bool tpi_copy_rest(const tpi_body *from, tpi_body *to, tp_tensor **map);
/* What was appended to the bodies of a copied block since is appended to those of the original. */
bool tpi_mirror_block(const tp_tensor *copy, tp_tensor *original);
/* Zeros like a tensor, in a body that takes no more captures. Never NULL. */
tp_tensor *tpi_zeros_in(tp_graph *body, tpi_at at, const tp_tensor *like);

#endif
