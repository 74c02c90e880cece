#define _GNU_SOURCE
#include "base/stack.h"

#include "base/keep_errno.h"

#include <pthread.h>
#include <stddef.h>

enum { RESERVE = 512 << 10 }; /* of a small stack half */

/* Only where addresses of this thread's stack are not known: the main thread's is looked up in a file. */
static void find(tpi_stack *s)
{
    TPI_KEEP_ERRNO;
    pthread_attr_t attr;
    void *low;
    size_t size;
    *s = (tpi_stack){NULL, NULL};
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &low, &size) == 0)
        *s = (tpi_stack){low, (const char *)low + size};
    pthread_attr_destroy(&attr);
}

bool tpi_stack_is_low(tpi_stack *s)
{
    const char *here = __builtin_frame_address(0);
    if (here < s->low || here >= s->high)
        find(s);
    if (here < s->low || here >= s->high) /* a stack of the program's own making */
        return false;
    const ptrdiff_t half = (s->high - s->low) / 2;
    return here - s->low < (half < RESERVE ? half : RESERVE);
}
