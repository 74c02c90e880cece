/* Text that lies squeezed in the library: its size in four bytes, the lowest first, and a block of
 * LZ4. A block is sequences of: a byte (upper half: how many literals; lower half: how long the
 * match is, less 4), the literals, two bytes of how far back the match begins. A half of 15 goes on in
 * bytes of its own, the last of which is below 255. The last sequence has no match.
 *
 * tools/embed.c squeezes, and reads back what it has written. */
#ifndef TAPIR_SQUEEZE_H
#define TAPIR_SQUEEZE_H

#include <stddef.h>
#include <string.h>

static inline size_t tpi_squeezed_size(const unsigned char *from)
{
    return from[0] | (size_t)from[1] << 8 | (size_t)from[2] << 16 | (size_t)from[3] << 24;
}

static inline size_t tpi_squeezed_count(size_t half, const unsigned char **from)
{
    size_t n = half;
    for (unsigned char more = half == 15 ? 255 : 0; more == 255;)
        n += more = *(*from)++;
    return n;
}

/* `out` has tpi_squeezed_size(from) bytes of room. */
static inline void tpi_unsqueeze(const unsigned char *from, char *out)
{
    char *const end = out + tpi_squeezed_size(from);
    for (from += 4;;) {
        const unsigned char token = *from++;
        const size_t literals = tpi_squeezed_count(token >> 4, &from);
        memcpy(out, from, literals);
        out += literals;
        from += literals;
        if (out == end)
            return;
        const char *match = out - (from[0] | (size_t)from[1] << 8);
        from += 2;
        for (size_t n = tpi_squeezed_count(token & 15, &from) + 4; n > 0; n--)
            *out++ = *match++;
    }
}

#endif
