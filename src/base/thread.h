/* Which thread this is. */
#ifndef TAPIR_THREAD_H
#define TAPIR_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* A number of its own, not 0, for each thread that runs; where one instruction knows it there is no call. */
static inline uintptr_t tpi_this_thread(void)
{
#if defined(__x86_64__) && defined(__ELF__)
    uintptr_t self;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    return self;
#else
    return (uintptr_t)pthread_self();
#endif
}

#endif
