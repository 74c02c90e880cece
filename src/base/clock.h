/* Time that only goes on. */
#ifndef TAPIR_CLOCK_H
#define TAPIR_CLOCK_H

#include <stdint.h>
#include <time.h>

/* In ns, a whole number: what is polled between the steps of a host computes nothing in its floating-point mode. */
static inline int64_t tpi_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
