#include "fail_malloc.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_long n_asked, n_live, fails_at;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

static int refused(void)
{
    if (++n_asked != fails_at)
        return 0;
    errno = ENOMEM;
    return 1;
}

static void *counted(void *p)
{
    if (p)
        n_live++;
    return p;
}

#pragma GCC visibility push(default)

void *malloc(size_t size)
{
    return refused() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return refused() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
    if (refused())
        return NULL;
    void *q = __libc_realloc(p, size);
    if (!p && q)
        n_live++;
    else if (p && !q && size == 0)
        n_live--;
    return q;
}

void *memalign(size_t align, size_t size)
{
    return refused() ? NULL : counted(__libc_memalign(align, size));
}

void *aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
    void *block = memalign(align, size);
    if (!block)
        return ENOMEM;
    *p = block;
    return 0;
}

void free(void *p)
{
    if (p)
        n_live--;
    __libc_free(p);
}

#pragma GCC visibility pop

void fail_malloc_at(long n)
{
    fails_at = n ? n_asked + n : 0;
}

int fail_malloc_reached(void)
{
    return fails_at && n_asked >= fails_at;
}

long fail_malloc_live(void)
{
    return n_live;
}

/* ---- by LD_PRELOAD ---------------------------------------------------------------------------- */

static int count_file = -1;

/* The compilers that a program starts have all the memory. */
__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAIL_MALLOC_AT"), *path = getenv("FAIL_MALLOC_COUNT");
    const long n = at ? strtol(at, NULL, 10) : 0;
    if (path)
        count_file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (at || path) {
        unsetenv("LD_PRELOAD");
        unsetenv("FAIL_MALLOC_AT");
        unsetenv("FAIL_MALLOC_COUNT");
    }
    n_asked = 0;
    fails_at = n;
}

__attribute__((destructor)) static void end(void)
{
    char text[24];
    int at = sizeof text;
    if (count_file < 0)
        return;
    text[--at] = '\n';
    long n = n_asked;
    do
        text[--at] = (char)('0' + n % 10);
    while (n /= 10);
    if (write(count_file, text + at, sizeof text - (size_t)at) < 0)
        _exit(126);
}
