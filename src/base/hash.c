#include "base/hash.h"

#include <string.h>

static inline uint64_t turn(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

/* For a given state each step is one to one in the block, and for a given block in the state:
 * nothing is lost before the end. Shifting the upper half down keeps a change of the top bits
 * from staying one bit, which the next block could undo. */
static inline void block(tpi_hasher *h, const unsigned char *p)
{
    uint64_t x, y;
    memcpy(&x, p, 8);
    memcpy(&y, p + 8, 8);
    x *= UINT64_C(0x9fb21c651e98df25);
    y *= UINT64_C(0xd6e8feb86659fd93);
    h->a = turn((h->a ^ x ^ x >> 32) * UINT64_C(0xbf58476d1ce4e5b9), 29) + h->b;
    h->b = turn((h->b ^ y ^ y >> 32) * UINT64_C(0x94d049bb133111eb), 32) ^ h->a;
}

void tpi_hash_begin(tpi_hasher *h)
{
    *h = (tpi_hasher){.a = UINT64_C(0x243f6a8885a308d3), .b = UINT64_C(0x13198a2e03707344)};
}

void tpi_hash_add(tpi_hasher *h, const void *data, size_t size)
{
    if (!size)
        return;
    const unsigned char *p = data;
    const size_t held = h->total % 16;
    h->total += size;
    if (held) {
        const size_t more = size < 16 - held ? size : 16 - held;
        memcpy(h->part + held, p, more);
        if (held + more < 16)
            return;
        block(h, h->part);
        p += more;
        size -= more;
    }
    for (; size >= 16; p += 16, size -= 16)
        block(h, p);
    memcpy(h->part, p, size);
}

void tpi_hash_end(const tpi_hasher *h, uint64_t out[2])
{
    tpi_hasher last = *h;
    const size_t held = h->total % 16;
    memset(last.part + held, 0, 16 - held);
    block(&last, last.part);
    const uint64_t a = tpi_mix64(last.a + h->total); /* tells zeros at the end from filling */
    const uint64_t b = tpi_mix64(last.b ^ a);
    out[0] = a + b;
    out[1] = tpi_mix64(a ^ turn(b, 32));
}

uint64_t tpi_hash64(const void *data, size_t size)
{
    tpi_hasher h;
    uint64_t out[2];
    tpi_hash_begin(&h);
    tpi_hash_add(&h, data, size);
    tpi_hash_end(&h, out);
    return out[0];
}
