#define _GNU_SOURCE /* sched_getaffinity */
#include "base/workers.h"

#include "base/float_mode.h"
#include "base/keep_errno.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What is used of pthreadpool.h, whose ABI is that of libpthreadpool.so.0. */
typedef void *(*create_fn)(size_t threads);
typedef void (*run_fn)(void *pool, void (*task)(void *env, size_t i), void *env, size_t n,
                       uint32_t flags);
typedef size_t (*count_fn)(void *pool);
typedef void (*destroy_fn)(void *pool);

struct tpi_pool {
    void *library, *threads;
    int n;
    pid_t maker; /* of the threads */
    create_fn create;
    run_fn run;
    count_fn count;
    destroy_fn destroy;
};

/* The library is not instrumented, so that ThreadSanitizer has to be told who waits for whom. */
#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#ifdef TSAN
void __tsan_acquire(void *at);
void __tsan_release(void *at);
#define ACQUIRE(at) __tsan_acquire(at)
#define RELEASE(at) __tsan_release(at)
#else
#define ACQUIRE(at) (void)(at)
#define RELEASE(at) (void)(at)
#endif

typedef struct job {
    void (*task)(void *env, size_t i);
    void *env;
    char begun, done;
} job;

static void run_part(void *env, size_t i)
{
    job *j = env;
    ACQUIRE(&j->begun);
    j->task(j->env, i);
    RELEASE(&j->done);
}

/* ISO C has no cast from an object's address to a function's. */
static bool symbol(void *library, const char *name, void *to)
{
    void *at = dlsym(library, name);
    memcpy(to, &at, sizeof at);
    return at;
}

/* Those that this process may use. */
static long processors(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    return sysconf(_SC_NPROCESSORS_ONLN);
}

/* More threads than processors would only wait for each other. Threads have the floating-point mode of
 * the one that makes them. */
static void make_threads(tpi_pool *p)
{
    TPI_DEFAULT_FLOAT_MODE;
    const long most = processors();
    p->maker = getpid();
    p->threads = p->create(most > 0 && most < p->n ? (size_t)most : (size_t)p->n);
}

/* A fork has no threads but the one that forked: it makes its own, and leaves what the others were
 * told by as it is. */
static bool has_threads(tpi_pool *p)
{
    if (p->maker != getpid())
        make_threads(p);
    return p->threads;
}

tpi_pool *tpi_pool_open(tpi_mem *m, int threads, char *why, size_t size)
{
    TPI_KEEP_ERRNO;
    tpi_pool *p = tpi_take(m, sizeof *p);
    const char *reason = "out of memory";
    if (p) {
        *p = (tpi_pool){.n = threads};
        p->library = dlopen("libpthreadpool.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!p->library)
            reason = "libpthreadpool.so.0 is not installed";
        else if (!symbol(p->library, "pthreadpool_create", &p->create) ||
                 !symbol(p->library, "pthreadpool_parallelize_1d", &p->run) ||
                 !symbol(p->library, "pthreadpool_get_threads_count", &p->count) ||
                 !symbol(p->library, "pthreadpool_destroy", &p->destroy))
            reason = "libpthreadpool.so.0 is not the library of that name";
        else
            make_threads(p);
    }
    if (p && p->threads)
        return p;
    snprintf(why, size, "%s", reason);
    tpi_pool_close(m, p);
    return NULL;
}

void tpi_pool_close(tpi_mem *m, tpi_pool *p)
{
    TPI_KEEP_ERRNO;
    if (!p)
        return;
    if (p->threads && p->maker == getpid())
        p->destroy(p->threads);
    if (p->library)
        dlclose(p->library);
    tpi_give_back(m, p, sizeof *p);
}

int tpi_pool_threads(const tpi_pool *p)
{
    return p ? p->n : 1;
}

int tpi_pool_workers(tpi_pool *p)
{
    return p && has_threads(p) ? (int)p->count(p->threads) : 1;
}

void tpi_pool_share(tpi_pool *p, void (*task)(void *env, size_t i), void *env, size_t n)
{
    if (!p || !has_threads(p)) {
        for (size_t i = 0; i < n; i++)
            task(env, i);
        return;
    }
    job j = {.task = task, .env = env};
    RELEASE(&j.begun);
    p->run(p->threads, run_part, &j, n, 0);
    ACQUIRE(&j.done);
}

int64_t tpi_near_bytes(void)
{
    TPI_KEEP_ERRNO;
    enum { LEAST = 256 << 10, USUAL = 512 << 10, MOST = 1 << 20 };
    int64_t half = USUAL;
#ifdef _SC_LEVEL2_CACHE_SIZE
    const long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
    half = size > 0 ? size / 2 : USUAL;
#endif
    return half < LEAST ? LEAST : half < MOST ? half : MOST;
}
