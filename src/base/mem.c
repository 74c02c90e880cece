#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

enum {
    HUGE_PAGE = 2 << 20,
    ALIGN = 64,
    CHUNK_BYTES = 256 << 10,
    SMALL_MAX = 64 << 10, /* larger blocks are the user allocator's own */
};

/* Large blocks in large pages, where the system has them: touching a page for the first time costs
 * more than reading a weight into it. */
static void *libc_alloc(void *user, size_t size)
{
    (void)user;
    void *p = NULL;
    const bool large = size >= HUGE_PAGE;
    if (posix_memalign(&p, large ? HUGE_PAGE : ALIGN, size ? size : 1) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (large)
        madvise(p, size, MADV_HUGEPAGE);
#endif
    return p;
}

static void libc_release(void *user, void *p, size_t size)
{
    (void)user, (void)size;
    free(p);
}

void tpi_mem_init(tpi_mem *m, const tp_allocator *user)
{
    memset(m, 0, sizeof *m);
    if (user)
        m->user = *user;
    else
        m->user = (tp_allocator){.alloc = libc_alloc, .release = libc_release};
}

/* Class of a size and the bytes such a block has: 64 apart up to 1 KiB, then four steps per
 * power of two, so that at most a fifth is lost. */
static int class_of(size_t size, size_t *bytes)
{
    if (size <= 1024) {
        const size_t n = size ? (size + 63) / 64 : 1;
        *bytes = n * 64;
        return (int)n - 1;
    }
    const int top = 63 - __builtin_clzll((unsigned long long)size - 1); /* >= 10 */
    const size_t step = (size_t)1 << (top - 2);
    const size_t quarter = (size - 1 - ((size_t)1 << top)) / step; /* 0..3 */
    *bytes = ((size_t)1 << top) + (quarter + 1) * step;
    return 16 + (top - 10) * 4 + (int)quarter;
}

#ifdef TPI_OWN_BLOCKS

void *tpi_take(tpi_mem *m, size_t size)
{
    void *p = m->user.alloc(m->user.user, size);
    if (p)
        m->in_use += size;
    else
        m->refused++;
    return p;
}

void tpi_give_back(tpi_mem *m, void *p, size_t size)
{
    if (!p)
        return;
    m->in_use -= size;
    m->user.release(m->user.user, p, size);
}

void tpi_give_away(tpi_mem *m, void *p, size_t size)
{
    tpi_give_back(m, p, size);
}

#else

static const size_t kept_max = (size_t)1 << 30;

static void *carve(tpi_mem *m, size_t bytes)
{
    if ((size_t)(m->chunk_end - m->chunk_at) < bytes) {
        tpi_chunk *c = (tpi_chunk *)m->user.alloc(m->user.user, CHUNK_BYTES);
        if (!c)
            return NULL;
        c->size = CHUNK_BYTES;
        c->next = m->chunks;
        m->chunks = c;
        m->chunk_at = (char *)c + ALIGN;
        m->chunk_end = (char *)c + CHUNK_BYTES;
    }
    void *p = m->chunk_at;
    m->chunk_at += bytes;
    return p;
}

void *tpi_take(tpi_mem *m, size_t size)
{
    if (size - 1 < 1024) { /* nearly all: the headers and small values of eager ops */
        tpi_free_block *p = m->free[(size - 1) / 64];
        if (p) {
            m->free[(size - 1) / 64] = p->next;
            __builtin_prefetch(p->next); /* where the one behind it is written */
            m->in_use += size;
            return p;
        }
    }
    if (size > (size_t)1 << 56) {
        m->refused++;
        return NULL;
    }
    size_t bytes;
    const int c = class_of(size, &bytes);
    tpi_free_block *p = m->free[c];
    if (p) {
        m->free[c] = p->next;
        if (bytes > SMALL_MAX)
            m->kept -= bytes;
    } else {
        p = bytes <= SMALL_MAX ? carve(m, bytes) : m->user.alloc(m->user.user, bytes);
    }
    if (p)
        m->in_use += size;
    else
        m->refused++;
    return p;
}

void tpi_give_back(tpi_mem *m, void *p, size_t size)
{
    if (!p)
        return;
    m->in_use -= size;
    if (size - 1 < 1024) {
        tpi_free_block *b = p;
        b->next = m->free[(size - 1) / 64];
        m->free[(size - 1) / 64] = b;
        return;
    }
    size_t bytes;
    const int c = class_of(size, &bytes);
    if (bytes > SMALL_MAX) {
        if (m->kept + bytes > kept_max) {
            m->user.release(m->user.user, p, bytes);
            return;
        }
        m->kept += bytes;
    }
    tpi_free_block *b = p;
    b->next = m->free[c];
    m->free[c] = b;
}

void tpi_give_away(tpi_mem *m, void *p, size_t size)
{
    size_t bytes;
    class_of(size, &bytes);
    if (!p || bytes <= SMALL_MAX) {
        tpi_give_back(m, p, size);
        return;
    }
    m->in_use -= size;
    m->user.release(m->user.user, p, bytes);
}

#endif

void *tpi_resize(tpi_mem *m, void *p, size_t old_size, size_t new_size)
{
    size_t old_bytes, new_bytes;
    if (p && class_of(old_size, &old_bytes) == class_of(new_size, &new_bytes) &&
        new_size >= old_size) {
#ifndef TPI_OWN_BLOCKS
        m->in_use += new_size - old_size;
        return p;
#endif
    }
    void *q = tpi_take(m, new_size);
    if (!q)
        return NULL;
    if (p)
        memcpy(q, p, old_size < new_size ? old_size : new_size);
    tpi_give_back(m, p, old_size);
    return q;
}

void *tpi_grow(tpi_mem *m, void *v, int n, int *size, size_t each)
{
    if (n < *size)
        return v;
    const int more = *size ? *size * 2 : 8;
    v = tpi_resize(m, v, (size_t)*size * each, (size_t)more * each);
    if (v)
        *size = more;
    return v;
}

static size_t class_bytes(int c)
{
    const int quarter = (c - 16) & 3, top = 10 + (c - 16) / 4;
    return c < 16 ? (size_t)(c + 1) * 64
                  : ((size_t)1 << top) + (size_t)(quarter + 1) * ((size_t)1 << (top - 2));
}

static void release_large(tpi_mem *m)
{
    for (int c = 0; c < TPI_N_CLASSES; c++) {
        const size_t bytes = class_bytes(c);
        while (bytes > SMALL_MAX && m->free[c]) {
            tpi_free_block *b = m->free[c];
            m->free[c] = b->next;
            m->user.release(m->user.user, b, bytes);
        }
    }
    m->kept = 0;
}

void tpi_mem_trim(tpi_mem *m)
{
    release_large(m);
#ifdef __GLIBC__
    if (m->user.alloc == libc_alloc)
        malloc_trim(0);
#endif
}

void tpi_mem_done(tpi_mem *m)
{
    release_large(m);
    memset(m->free, 0, sizeof m->free);
    for (tpi_chunk *c = m->chunks, *next; c; c = next) {
        next = c->next;
        m->user.release(m->user.user, c, c->size);
    }
    m->chunks = NULL;
}

char *tpi_strdup(tpi_mem *m, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = tpi_take(m, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void tpi_strfree(tpi_mem *m, char *text)
{
    if (text)
        tpi_give_back(m, text, strlen(text) + 1);
}
