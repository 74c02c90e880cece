/* A kernel of the user's own as an op.
 *
 *     %3 = own_kernel %0, %1 {dtype=f32, shape=[n,4]}
 *
 * Which function that is, is in no text: in the library it is an attribute, and programs in C have it called by the
 * number of their kernel. So all that computes comes to tpi_own_call.run (ir/node.h). */
#ifndef TAPIR_OWN_KERNEL_H
#define TAPIR_OWN_KERNEL_H

#include "kernel/abi/view.h"
#include "op/op.h"
#include "tapir/kernel.h"

/* Bytes that tpi_own_call.run takes for n operands, and for one of so many bytes with gaps. */
static inline size_t tpi_own_step(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}
static inline size_t tpi_own_room(int n)
{
    return tpi_own_step((size_t)n * sizeof(tp_elements));
}

#endif
