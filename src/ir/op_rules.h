/* What rules of ops are written with, and rules that ops share. */
#ifndef TAPIR_OP_RULES_H
#define TAPIR_OP_RULES_H

#include "ir/node.h"

/* For use in shape rules:  return tpi_refuse(q, TP_E_SHAPE, "...", ...);  gives false. */
#define tpi_refuse(q, status, ...)                                                             \
    ((q)->failed = tpi_fail((q)->ctx, (q)->at, (q)->op->name, (status), __VA_ARGS__), false)
/* In kernels: an index out of range and the like. */
#define tpi_run_fail(r, status, ...)                                                           \
    ((r)->failed = tpi_fail((r)->ctx, (r)->at, (r)->op->name, (status), __VA_ARGS__), false)

/* How many elements a shape without symbols has. */
static inline double tpi_elements_at(int rank, const int64_t *shape)
{
    double n = 1;
    for (int i = 0; i < rank; i++)
        n *= (double)shape[i];
    return n;
}

/* The result has the shape and type of operand i. */
bool tpi_infer_like(tpi_infer *q, int i);
/* Rules of ops that are their operand 0: enter, result, detach. */
bool tpi_same_infer(tpi_infer *q);
bool tpi_same_view(tpi_view *v);
bool tpi_same_kernel(tpi_run *r);
tp_tensor *tpi_same_simplify(const tpi_simplify *s);
/* Gradients pass, and the sweep itself knows how (grad/sweep_go.c). */
void tpi_grad_by_sweep(tpi_grad *g);
/* Of ops with tpi_index_attrs (ir/body.h). */
extern const tpi_attr tpi_index_table[];

#endif
