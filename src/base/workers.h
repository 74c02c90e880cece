/* Threads that share work: those of libpthreadpool, which is loaded when a pool is first asked
 * for. Where it is not installed there is no pool, and one thread does all. */
#ifndef TAPIR_WORKERS_H
#define TAPIR_WORKERS_H

#include "base/mem.h"

typedef struct tpi_pool tpi_pool;

enum { TPI_MAX_THREADS = 256 };

/* A pool for work in so many parts, 2 or more: of as many threads, the caller's among them, or as
 * there are processors. NULL with the reason in why[]. After a fork the child's has threads of its own,
 * made when they are first needed. */
tpi_pool *tpi_pool_open(tpi_mem *m, int threads, char *why, size_t size);
/* NULL is fine. */
void tpi_pool_close(tpi_mem *m, tpi_pool *p);
/* The parts it was made for; 1 for NULL. */
int tpi_pool_threads(const tpi_pool *p);
/* The threads that there are for them, the caller's among them. */
int tpi_pool_workers(tpi_pool *p);
void tpi_pool_share(tpi_pool *p, void (*task)(void *env, size_t i), void *env, size_t n);
/* task(env, i) for all i below n, in any order and side by side; returns when all are done. Called
 * by one thread at a time, and by no task. A NULL pool does them one after the other. */
static inline void tpi_pool_run(tpi_pool *p, void (*task)(void *env, size_t i), void *env,
                                size_t n)
{
    if (n == 1)
        task(env, 0);
    else
        tpi_pool_share(p, task, env, n);
}

/* Half of the second cache of a processor, or what that is on most machines. */
int64_t tpi_near_bytes(void);

#endif
