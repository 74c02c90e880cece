/* Numbers in files, their lowest byte first. */
#ifndef TAPIR_BYTES_H
#define TAPIR_BYTES_H

#include <stdint.h>

static inline uint64_t tpi_little(const char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return v;
}

static inline void tpi_put_little(char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (char)(v >> (8 * i));
}

#endif
