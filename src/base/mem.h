/* The one allocator: size classes over the allocator the user gave.
 *
 * Blocks of up to 64 KiB come from chunks and go back to a free list; larger ones are kept for
 * reuse up to a limit, because fresh pages cost more than most kernels. Under the address sanitizer and
 * in the stress build every block is one of the user allocator's, of the size that was asked for: what is
 * written past it, or read after it was given back, is seen. */
#ifndef TAPIR_MEM_H
#define TAPIR_MEM_H

#include "tapir/base.h"

#ifdef __SANITIZE_ADDRESS__
#define TPI_ADDRESS_SANITIZER
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define TPI_ADDRESS_SANITIZER
#endif
#endif
#if defined TPI_STRESS || defined TPI_ADDRESS_SANITIZER
#define TPI_OWN_BLOCKS
#endif

/* Who cuts a block into pieces of its own says which bytes are nobody's: under the address sanitizer a use of
 * them is reported. Pieces begin at multiples of 8 and are TPI_APART bytes apart. */
#ifdef TPI_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
enum { TPI_APART = 64 };
static inline void tpi_nobodys(const void *p, size_t size)
{
    __asan_poison_memory_region(p, size);
}
static inline void tpi_somebodys(const void *p, size_t size)
{
    __asan_unpoison_memory_region(p, size);
}
#else
enum { TPI_APART = 0 };
static inline void tpi_nobodys(const void *p, size_t size)
{
    (void)p, (void)size;
}
static inline void tpi_somebodys(const void *p, size_t size)
{
    (void)p, (void)size;
}
#endif

enum {
    TPI_N_CLASSES = 16 + 4 * 54 /* of 64 bytes to 1 KiB; then four per power of two */
};

typedef struct tpi_free_block {
    struct tpi_free_block *next;
} tpi_free_block;

typedef struct tpi_chunk {
    struct tpi_chunk *next;
    size_t size;
} tpi_chunk;

typedef struct tpi_mem {
    tp_allocator user;
    size_t in_use;     /* bytes handed out, by size asked for */
    uint64_t refused;  /* how often there was none: tells it from other reasons afterwards */
    size_t kept;       /* bytes of large blocks on the free lists */
    tpi_chunk *chunks; /* memory of the small blocks */
    char *chunk_at, *chunk_end;
    tpi_free_block *free[TPI_N_CLASSES];
} tpi_mem;

/* `user` NULL: the C library's allocator. */
void tpi_mem_init(tpi_mem *m, const tp_allocator *user);
/* Gives everything back that is not handed out. */
void tpi_mem_done(tpi_mem *m);
/* Gives the large blocks back that are kept for reuse. */
void tpi_mem_trim(tpi_mem *m);
/* 64-byte aligned, not zeroed; NULL when there is none. Size 0 is a block like any other. */
void *tpi_take(tpi_mem *m, size_t size);
/* `size` as it was asked for. NULL is fine. */
void tpi_give_back(tpi_mem *m, void *p, size_t size);
/* The same, but a large block is not kept for reuse. */
void tpi_give_away(tpi_mem *m, void *p, size_t size);
/* A block of `new_size` with the first bytes of `p`, which is given back; NULL leaves p as it
 * was. */
void *tpi_resize(tpi_mem *m, void *p, size_t old_size, size_t new_size);
/* A list of *size elements with room for one more than n: v itself, or v grown, and *size too. NULL
 * leaves both as they were. */
void *tpi_grow(tpi_mem *m, void *v, int n, int *size, size_t each);
/* A copy of the text, NULL when there is none; and its end. */
char *tpi_strdup(tpi_mem *m, const char *text);
void tpi_strfree(tpi_mem *m, char *text);

#endif
