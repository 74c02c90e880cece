/* How much of its stack a thread has left: who calls what calls it again asks before. */
#ifndef TAPIR_STACK_H
#define TAPIR_STACK_H

#include <stdbool.h>

/* The stack of the thread that asked last. */
typedef struct tpi_stack {
    const char *low, *high;
} tpi_stack;

/* Is less left than kernels and the compiler may take? False where that cannot be told. */
bool tpi_stack_is_low(tpi_stack *s);

#endif
