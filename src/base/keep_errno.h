/* errno is the host's: a call that succeeds leaves it as it was. */
#ifndef TAPIR_KEEP_ERRNO_H
#define TAPIR_KEEP_ERRNO_H

#include <errno.h>

static inline void tpi_errno_back(const int *was)
{
    errno = *was;
}

/* At the head of a function that asks the system for something: when it returns, errno is what it was. */
#define TPI_KEEP_ERRNO                                                                         \
    const int host_errno __attribute__((cleanup(tpi_errno_back), unused)) = errno

#endif
