#include "base/bump.h"

#include <string.h>

enum { FIRST_BYTES = 1 << 10, BLOCK_BYTES = 32 << 10 };

/* Its bytes are a block of their own: a list of twice the size before has a size that the allocator has, too. */
typedef struct tpi_bump_block {
    struct tpi_bump_block *next;
    char *bytes;
    size_t size;
} block;

/* Each twice as large as the one before it, up to BLOCK_BYTES: little work takes little memory. */
static bool add_block(tpi_bump *b, size_t bytes)
{
    const size_t next = b->blocks ? 2 * b->blocks->size : FIRST_BYTES,
                 usual = next < BLOCK_BYTES ? next : BLOCK_BYTES,
                 size = bytes > usual ? bytes : usual;
    block *new = tpi_take(b->mem, sizeof *new);
    char *at = new ? tpi_take(b->mem, size) : NULL;
    if (!at) {
        tpi_give_back(b->mem, new, sizeof *new);
        return false;
    }
    *new = (block){.next = b->blocks, .bytes = at, .size = size};
    b->blocks = new;
    b->at = at;
    b->left = size;
    tpi_nobodys(b->at, b->left);
    return true;
}

void *tpi_bump_take(tpi_bump *b, size_t count, size_t size)
{
    size_t asked;
    const bool fits = !__builtin_mul_overflow(count, size, &asked) && asked <= SIZE_MAX / 2;
    const size_t bytes = fits ? (asked ? (asked + 15) & ~(size_t)15 : 16) + TPI_APART : 0;
    if (b->failed || !fits || (bytes > b->left && !add_block(b, bytes))) {
        b->failed = true;
        return NULL;
    }
    void *p = b->at;
    b->at += bytes;
    b->left -= bytes;
    tpi_somebodys(p, asked);
    return memset(p, 0, asked);
}

void *tpi_bump_copy(tpi_bump *b, const void *from, size_t count, size_t size)
{
    void *to = tpi_bump_take(b, count, size);
    if (to && count)
        memcpy(to, from, count * size);
    return to;
}

void *tpi_bump_grow(tpi_bump *b, void *list, int32_t n, int32_t *size, size_t each)
{
    if (n < *size)
        return list;
    const int32_t half = *size ? *size : 4;
    void *longer = half <= INT32_MAX / 2 ? tpi_bump_take(b, 2 * (size_t)half, each) : NULL;
    if (!longer) {
        b->failed = true;
        return NULL;
    }
    if (n)
        memcpy(longer, list, (size_t)n * each);
    *size = 2 * half;
    return longer;
}

void tpi_bump_release(tpi_bump *b, const tpi_bump *mark)
{
    while (b->blocks != mark->blocks) {
        block *old = b->blocks;
        b->blocks = old->next;
        tpi_somebodys(old->bytes, old->size);
        tpi_give_back(b->mem, old->bytes, old->size);
        tpi_give_back(b->mem, old, sizeof *old);
    }
    b->at = mark->at;
    b->left = mark->left;
    if (b->left)
        tpi_nobodys(b->at, b->left);
}

void tpi_bump_free(tpi_bump *b)
{
    tpi_bump_release(b, &TPI_BUMP(b->mem));
}
