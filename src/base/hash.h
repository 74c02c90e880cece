/* Hashes for tables and for names of files made from content. Not for use against an opponent:
 * where equality matters, the bytes are compared. */
#ifndef TAPIR_HASH_H
#define TAPIR_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Every bit of the result depends on every bit of x; one to one. */
static inline uint64_t tpi_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The hash of a sequence whose hash so far is `h`, one value longer. */
static inline uint64_t tpi_hash_step(uint64_t h, uint64_t x)
{
    return tpi_mix64(h + UINT64_C(0x9e3779b97f4a7c15) + tpi_mix64(x));
}

uint64_t tpi_hash64(const void *data, size_t size);

/* 128 bits of content given piece by piece; where it is cut makes no difference. */
typedef struct tpi_hasher {
    uint64_t a, b, total;
    unsigned char part[16]; /* total % 16 bytes of it are waiting */
} tpi_hasher;

void tpi_hash_begin(tpi_hasher *h);
void tpi_hash_add(tpi_hasher *h, const void *data, size_t size);
void tpi_hash_end(const tpi_hasher *h, uint64_t out[2]);

#endif
