/* The rules of the IR, for what comes from texts and files and between passes. docs/ir.md
 * lists them. */
#ifndef TAPIR_IR_CHECK_H
#define TAPIR_IR_CHECK_H

#include "ir/body.h"

/* Which rule is broken, and how. */
typedef struct tpi_rule_error {
    char text[240];
} tpi_rule_error;

/* Are there as many operands as the op takes? */
bool tpi_check_operands(const tpi_op *op, int n_in, tpi_rule_error *why);
/* May a node of that op be in `body` (NULL: in no body)? */
bool tpi_check_place(const tpi_op *op, const tpi_body *body, tpi_rule_error *why);
/* May it read what these are? A block is read by its outputs alone. */
bool tpi_check_reads(const tpi_op *op, int n_in, tp_tensor *const *in, tpi_rule_error *why);
/* A symbol that a loop binds when it has run (ir/body.h, `length`) is bound where it is read: after
 * that loop, in the same body or further inside; and once at a time. What a block keeps for its
 * gradient may have sizes that only its bodies know, unless `all` must be known, as for a run
 * (pass/keep/recompute.c). False: `why`, or no memory. */
bool tpi_check_turns(tp_ctx *ctx, const tpi_dims *dims, int n, tp_tensor *const *nodes,
                     bool all, tpi_rule_error *why);
/* Is every attribute within what its type allows? The op's own rule looks closer. */
bool tpi_check_attrs(const tpi_dims *dims, const tpi_op *op, const void *attrs,
                     tpi_rule_error *why);
/* Runs the shape rule of q->op, which has one, and leaves no trace in the context. On failure
 * its words are in `why`; TP_E_MEMORY stays what it is. */
tp_status tpi_infer_again(tpi_infer *q, tpi_rule_error *why);
/* Does a node's type and shape differ from what its rule gives? Then says so. */
bool tpi_check_answer(const tpi_infer *q, tp_dtype dtype, int rank, const int64_t *shape,
                      tpi_rule_error *why);

/* Checks nodes in program order, and the bodies of blocks: every node comes after its operands (tensors that are no
 * sources of a recorded past included), each as its op's rules say. Names are unique. The
 * error, TP_E_BUG, names the node, its line and the rule; `after` says after what ("pass cse"),
 * or is NULL. */
tp_status tpi_verify(tp_ctx *ctx, const char *after, tpi_dims *dims, int n,
                     tp_tensor *const *nodes);

#endif
