/* Text that lies squeezed in the library: its size in four bytes, the lowest first, and then bits, each byte's
 * highest first. A word says what comes: a character (below TPI_SQUEEZE_MATCH), or how long a match is,
 * whose distance a second word says. Each kind of word has a Huffman code, which all texts share.
 *
 * A count of a match, v > 0, is told by the place of its highest bit and the bit below, which are in the
 * word: 0 for 1, 2 * b - 1 + bit for 2^b <= v < 2^(b + 1). The other b - 1 bits follow. Two bytes more follow a
 * text, since they may be read.
 *
 * tools/embed.c squeezes, and reads back what it has written. */
#ifndef TAPIR_SQUEEZE_H
#define TAPIR_SQUEEZE_H

#include <stddef.h>

enum {
    TPI_SQUEEZE_LONGEST = 15, /* bits of a word */
    TPI_SQUEEZE_MATCH = 128,
    TPI_SQUEEZE_COUNTS = 32,  /* words for counts */
    TPI_SQUEEZE_SHORTEST = 3, /* match; its length is counted from there, as 1 */
    TPI_SQUEEZE_WORDS = TPI_SQUEEZE_MATCH + TPI_SQUEEZE_COUNTS
};

/* A canonical code: how many words have so many bits, and the words, short ones first. */
typedef struct tpi_squeeze_code {
    unsigned char with[TPI_SQUEEZE_LONGEST + 1], word[TPI_SQUEEZE_WORDS];
} tpi_squeeze_code;

/* Of what comes next, and of distances. */
typedef struct tpi_squeeze_codes {
    tpi_squeeze_code next, back;
} tpi_squeeze_codes;

static inline size_t tpi_squeezed_size(const unsigned char *from)
{
    return from[0] | (size_t)from[1] << 8 | (size_t)from[2] << 16 | (size_t)from[3] << 24;
}

typedef struct tpi_squeezed_bits {
    const unsigned char *from;
    /* The lowest `left` of `bits` are still to be used; then comes *from. */
    unsigned bits, left;
} tpi_squeezed_bits;

/* Most words are short: these are looked up by the bits that come. */
enum { TPI_SQUEEZE_SHORT = 8 };
typedef struct tpi_squeeze_table {
    const tpi_squeeze_code *code;
    unsigned char word[1 << TPI_SQUEEZE_SHORT];
    unsigned char bits[1 << TPI_SQUEEZE_SHORT]; /* 0: a longer one */
} tpi_squeeze_table;

static inline void tpi_squeeze_table_make(tpi_squeeze_table *t, const tpi_squeeze_code *code)
{
    const unsigned char *word = code->word;
    unsigned at = 0;
    t->code = code;
    for (unsigned n = 1; n <= TPI_SQUEEZE_SHORT; n++)
        for (unsigned i = 0; i < code->with[n]; i++, word++)
            for (unsigned end = at + (1u << (TPI_SQUEEZE_SHORT - n)); at < end; at++) {
                t->word[at] = *word;
                t->bits[at] = (unsigned char)n;
            }
    for (; at < 1 << TPI_SQUEEZE_SHORT; at++)
        t->bits[at] = 0;
}

/* As many bits as the longest word has; so bytes are read ahead. */
static inline unsigned tpi_squeezed_peek(tpi_squeezed_bits *b)
{
    for (; b->left <= TPI_SQUEEZE_LONGEST; b->left += 8)
        b->bits = b->bits << 8 | *b->from++;
    return b->bits >> (b->left - TPI_SQUEEZE_LONGEST) & ((1u << TPI_SQUEEZE_LONGEST) - 1);
}

static inline unsigned tpi_squeezed_long_word(tpi_squeezed_bits *b,
                                              const tpi_squeeze_code *code, unsigned ahead)
{
    const unsigned char *word = code->word;
    unsigned at = 0; /* the place among the words of n bits, in order */
    int n = 0;
    do {
        word += code->with[n];
        at = 2 * (at - code->with[n]) + (ahead >> (TPI_SQUEEZE_LONGEST - 1 - n) & 1);
        n++;
    } while (at >= code->with[n]);
    b->left -= (unsigned)n;
    return word[at];
}

static inline unsigned tpi_squeezed_word(tpi_squeezed_bits *b, const tpi_squeeze_table *t)
{
    const unsigned ahead = tpi_squeezed_peek(b);
    const unsigned at = ahead >> (TPI_SQUEEZE_LONGEST - TPI_SQUEEZE_SHORT);
    if (t->bits[at] == 0)
        return tpi_squeezed_long_word(b, t->code, ahead);
    b->left -= t->bits[at];
    return t->word[at];
}

static inline size_t tpi_squeezed_count(tpi_squeezed_bits *b, unsigned word)
{
    if (word == 0)
        return 1;
    const unsigned n = (word - 1) / 2;
    const unsigned rest = tpi_squeezed_peek(b) >> (TPI_SQUEEZE_LONGEST - n);
    b->left -= n;
    return (size_t)(2 + (word - 1) % 2) << n | rest;
}

/* `out` has tpi_squeezed_size(from) bytes of room. */
static inline void tpi_unsqueeze(const tpi_squeeze_codes *codes, const unsigned char *from,
                                 char *out)
{
    char *const end = out + tpi_squeezed_size(from);
    tpi_squeezed_bits b = {from + 4, 0, 0};
    tpi_squeeze_table next, back;
    tpi_squeeze_table_make(&next, &codes->next);
    tpi_squeeze_table_make(&back, &codes->back);
    while (out < end) {
        const unsigned word = tpi_squeezed_word(&b, &next);
        if (word < TPI_SQUEEZE_MATCH) {
            *out++ = (char)word;
            continue;
        }
        size_t n = tpi_squeezed_count(&b, word - TPI_SQUEEZE_MATCH) + TPI_SQUEEZE_SHORTEST - 1;
        const char *match = out - tpi_squeezed_count(&b, tpi_squeezed_word(&b, &back));
        for (; n > 0; n--)
            *out++ = *match++;
    }
}

#endif
