/* The checksum of zip files: the CRC of 32 bits with the polynomial 0xedb88320, as ISO 3309 and gzip have it. */
#ifndef TAPIR_CRC32_H
#define TAPIR_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Tables by which eight bytes are taken at a time. */
typedef struct tpi_crc32_table {
    uint32_t of[8][256];
} tpi_crc32_table;

static inline void tpi_crc32_begin(tpi_crc32_table *t)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? 0xedb88320 : 0);
        t->of[0][i] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            t->of[k][i] = t->of[k - 1][i] >> 8 ^ t->of[0][t->of[k - 1][i] & 255];
}

/* The sum of bytes whose sum so far is `crc` (at first 0), `size` bytes longer. */
static inline uint32_t tpi_crc32(const tpi_crc32_table *t, uint32_t crc, const void *data,
                                 size_t size)
{
    const unsigned char *p = data;
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        const uint32_t low =
            crc ^ (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = t->of[7][low & 255] ^ t->of[6][low >> 8 & 255] ^ t->of[5][low >> 16 & 255] ^
              t->of[4][low >> 24] ^ t->of[3][p[4]] ^ t->of[2][p[5]] ^ t->of[1][p[6]] ^
              t->of[0][p[7]];
    }
    for (; size; size--)
        crc = crc >> 8 ^ t->of[0][(crc ^ *p++) & 255];
    return ~crc;
}

#endif
