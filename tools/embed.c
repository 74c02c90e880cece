/* Writes kernel headers as squeezed text, so that generated programs can carry it.
 *
 *     embed OUT.c OUT.h NAME.h...
 *
 * OUT.c defines `const unsigned char tpi_text_NAME[]` for each header and `tpi_text_codes`, with which
 * tpi_unsqueeze of src/base/squeeze.h reads them, OUT.h declares them. Comments, needless blanks and empty lines
 * are left out: a generated program compiles faster without them. So are the lines that include a sibling,
 * since the program carries that text before it. All else stays, include guards too. */
#include "../src/base/squeeze.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *file, const char *what)
{
    fprintf(stderr, "embed: %s: %s\n", file, what);
    exit(2);
}

static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        die(path, "cannot be opened");
    size_t room = 1 << 16, n = 0;
    char *text = malloc(room + 1);
    while (text) {
        n += fread(text + n, 1, room - n, f);
        if (n < room)
            break;
        room *= 2;
        char *grown = realloc(text, room + 1);
        if (!grown)
            free(text);
        text = grown;
    }
    if (!text)
        die(path, "out of memory");
    if (ferror(f))
        die(path, "cannot be read");
    fclose(f);
    text[n] = 0;
    if (memchr(text, 0, n))
        die(path, "has a zero byte");
    *size = n;
    return text;
}

/* In place; a comment becomes one space as in translation phase 3, so tokens stay apart. The
 * newlines inside a block comment go too, which keeps a directive on its one line. Of several
 * blanks one stays, except at the start of a line. */
static void strip_comments(const char *path, char *text)
{
    char *s = text, *out = text;
    bool indent = true; /* nothing but blanks on this line so far */
    char quote = 0;     /* the quote character of the literal we are in */
    while (*s) {
        if (quote) {
            if (*s == '\\' && s[1])
                *out++ = *s++;
            else if (*s == quote ||
                     *s == '\n') /* an apostrophe in #error text ends with its line */
                quote = 0;
            *out++ = *s++;
        } else if (*s == '/' && s[1] == '*') {
            s = strstr(s + 2, "*/");
            if (!s)
                die(path, "a comment does not end");
            s += 2;
            if (out == text || out[-1] != ' ')
                *out++ = ' ';
            indent = false;
        } else if (*s == '/' && s[1] == '/') {
            while (*s && *s != '\n')
                s += *s == '\\' && s[1] == '\n' ? 2 : 1;
        } else if (*s == ' ' && out != text && out[-1] == ' ' && !indent) {
            s++;
        } else {
            if (*s == '"' || *s == '\'')
                quote = *s;
            indent = *s == '\n' || (indent && *s == ' ');
            *out++ = *s++;
        }
    }
    *out = 0;
}

/* In place: the lines that stay, with a quarter of their indentation. How long they are together. */
static size_t keep_lines(const char *path, char *text)
{
    char *out = text;
    bool spliced = false; /* the line before ends with a backslash */
    for (char *line = text, *next; *line; line = next) {
        const size_t full = strcspn(line, "\n");
        next = line + full + (line[full] == '\n');
        size_t keep = full;
        while (keep && isspace((unsigned char)line[keep - 1]))
            keep--;
        if (keep < full && keep && line[keep - 1] == '\\')
            die(path, "a backslash is followed by blanks or a comment at the end of a line");
        const bool stays = (keep || spliced) && strncmp(line, "#include \"", 10) != 0;
        spliced = keep && line[keep - 1] == '\\';
        if (!stays)
            continue;
        if (line[full] != '\n')
            die(path, "the last line does not end");
        const size_t indent = keep ? strspn(line, " ") * 3 / 4 : 0;
        memmove(out, line + indent, keep - indent);
        out += keep - indent;
        *out++ = '\n';
    }
    return (size_t)(out - text);
}

/* ---- squeezing: see src/base/squeeze.h ------------------------------------------------------------ */

enum { FARTHEST = 65535 }; /* match, and the longest */

typedef struct header {
    const char *path, *name;
    int name_len;
    char *text;
    size_t size;
    size_t *before;               /* [i]: where the characters at i were last, + 1 */
    size_t *length, *from, *cost; /* [i]: the best match, none if 1, and bits from there on */
} header;

typedef struct code {
    size_t uses[TPI_SQUEEZE_WORDS];
    unsigned bits[TPI_SQUEEZE_WORDS]; /* 0: has no use */
    unsigned value[TPI_SQUEEZE_WORDS];
} code;

typedef struct codes {
    code next, back;
} codes;

static unsigned top_bit(size_t v)
{
    unsigned b = 0;
    while (v >> b > 1)
        b++;
    return b;
}

static unsigned count_word(size_t v)
{
    const unsigned b = top_bit(v);
    return b == 0 ? 0 : 2 * b - 1 + (unsigned)(v >> (b - 1) & 1);
}

static unsigned length_word(size_t length)
{
    return TPI_SQUEEZE_MATCH + count_word(length - TPI_SQUEEZE_SHORTEST + 1);
}

/* Bits of a count after its word. */
static unsigned count_rest(size_t v)
{
    const unsigned b = top_bit(v);
    return b == 0 ? 0 : b - 1;
}

static size_t word_cost(const code *c, unsigned word)
{
    return c->bits[word] ? c->bits[word] : TPI_SQUEEZE_LONGEST + 1;
}

static void find_before(header *h)
{
    static size_t last[1 << 16];
    memset(last, 0, sizeof last);
    for (size_t i = 0; i + TPI_SQUEEZE_SHORTEST <= h->size; i++) {
        const unsigned char *t = (const unsigned char *)h->text + i;
        size_t *const place = &last[(t[0] | t[1] << 6 | t[2] << 12) & 0xffff];
        h->before[i] = *place;
        *place = i + 1;
    }
}

/* A match at i that is longer than those before it may be worth its distance at any of its lengths. */
static void try_match(header *h, const codes *c, size_t i, size_t from, size_t *most)
{
    const size_t far = i - from;
    const size_t cost = word_cost(&c->back, count_word(far)) + count_rest(far);
    size_t n = 0;
    while (n < FARTHEST && i + n < h->size && h->text[from + n] == h->text[i + n])
        n++;
    for (size_t k = *most + 1; k <= n; k++) {
        const size_t all = cost + word_cost(&c->next, length_word(k)) +
                           count_rest(k - TPI_SQUEEZE_SHORTEST + 1) + h->cost[i + k];
        if (all < h->cost[i]) {
            h->cost[i] = all;
            h->length[i] = k;
            h->from[i] = from;
        }
    }
    *most = n > *most ? n : *most;
}

/* The cheapest way through a text, with the words' costs as they are. */
static void find_way(header *h, const codes *c)
{
    h->cost[h->size] = 0;
    for (size_t i = h->size; i-- > 0;) {
        size_t most = TPI_SQUEEZE_SHORTEST - 1;
        h->length[i] = 1;
        h->cost[i] = h->cost[i + 1] + word_cost(&c->next, (unsigned char)h->text[i]);
        for (size_t k = h->before[i]; k && i - (k - 1) <= FARTHEST; k = h->before[k - 1])
            try_match(h, c, i, k - 1, &most);
    }
}

static void count_uses(const header *h, codes *c)
{
    for (size_t i = 0; i < h->size; i += h->length[i]) {
        if (h->length[i] == 1) {
            c->next.uses[(unsigned char)h->text[i]]++;
            continue;
        }
        c->next.uses[length_word(h->length[i])]++;
        c->back.uses[count_word(i - h->from[i])]++;
    }
}

/* The two rarest of n nodes that have no parent yet; false if there is but one. */
static int rarest(const size_t *uses, const int *parent, int n, int two[2])
{
    two[0] = two[1] = -1;
    for (int i = 0; i < n; i++) {
        if (!uses[i] || parent[i])
            continue;
        if (two[0] < 0 || uses[i] < uses[two[0]]) {
            two[1] = two[0];
            two[0] = i;
        } else if (two[1] < 0 || uses[i] < uses[two[1]]) {
            two[1] = i;
        }
    }
    return two[1] >= 0;
}

/* Huffman's tree; the bits of the longest word. */
static unsigned build_tree(code *c)
{
    size_t uses[2 * TPI_SQUEEZE_WORDS] = {0};
    int parent[2 * TPI_SQUEEZE_WORDS] = {0}, n = TPI_SQUEEZE_WORDS, two[2];
    memcpy(uses, c->uses, sizeof c->uses);
    for (; rarest(uses, parent, n, two); n++) {
        uses[n] = uses[two[0]] + uses[two[1]];
        parent[two[0]] = parent[two[1]] = n;
    }
    unsigned longest = 0;
    for (int i = 0; i < TPI_SQUEEZE_WORDS; i++) {
        c->bits[i] = uses[i] && !parent[i]; /* the only one */
        for (int k = i; parent[k]; k = parent[k])
            c->bits[i]++;
        longest = c->bits[i] > longest ? c->bits[i] : longest;
    }
    return longest;
}

static void make_code(code *c)
{
    while (build_tree(c) > TPI_SQUEEZE_LONGEST)
        for (int i = 0; i < TPI_SQUEEZE_WORDS; i++)
            c->uses[i] = (c->uses[i] + 1) / 2;
    unsigned value = 0;
    for (unsigned n = 1; n <= TPI_SQUEEZE_LONGEST; n++, value *= 2)
        for (int i = 0; i < TPI_SQUEEZE_WORDS; i++)
            if (c->bits[i] == n)
                c->value[i] = value++;
}

/* What words cost depends on the ways, and these on the costs: a few rounds settle both. */
static void make_codes(header *headers, int n, codes *c)
{
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < n; i++)
            find_way(&headers[i], c);
        memset(c, 0, sizeof *c);
        for (int i = 0; i < n; i++)
            count_uses(&headers[i], c);
        make_code(&c->next);
        make_code(&c->back);
    }
}

typedef struct bits {
    unsigned char *out;
    size_t n; /* bits */
} bits;

static void put_bits(bits *b, size_t value, unsigned n)
{
    while (n-- > 0) {
        unsigned char *const byte = &b->out[b->n / 8];
        *byte = (unsigned char)((b->n % 8 ? *byte : 0) | (value >> n & 1) << (7 - b->n % 8));
        b->n++;
    }
}

static void put_word(bits *b, const code *c, unsigned word)
{
    put_bits(b, c->value[word], c->bits[word]);
}

/* How many bytes it has become. */
static size_t squeeze(const header *h, const codes *c, unsigned char *out)
{
    bits b = {out + 4, 0};
    for (int byte = 0; byte < 4; byte++)
        out[byte] = (unsigned char)(h->size >> 8 * byte);
    for (size_t i = 0; i < h->size; i += h->length[i]) {
        if (h->length[i] == 1) {
            put_word(&b, &c->next, (unsigned char)h->text[i]);
            continue;
        }
        const size_t n = h->length[i] - TPI_SQUEEZE_SHORTEST + 1, far = i - h->from[i];
        put_word(&b, &c->next, length_word(h->length[i]));
        put_bits(&b, n, count_rest(n));
        put_word(&b, &c->back, count_word(far));
        put_bits(&b, far, count_rest(far));
    }
    put_bits(&b, 0, 16); /* may be read */
    return 4 + (b.n + 7) / 8;
}

/* ---- what is written ---------------------------------------------------------------------------- */

static void write_bytes(FILE *c, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(c, "%s%d,", i % 24 == 0 ? "\n    " : " ", bytes[i]);
}

static void write_code(FILE *c, const char *name, const code *from, tpi_squeeze_code *to)
{
    int words = 0;
    for (unsigned n = 1; n <= TPI_SQUEEZE_LONGEST; n++)
        for (int i = 0; i < TPI_SQUEEZE_WORDS; i++)
            if (from->bits[i] == n) {
                to->with[n]++;
                to->word[words++] = (unsigned char)i;
            }
    fprintf(c, ".%s = {.with = {", name);
    write_bytes(c, to->with, sizeof to->with);
    fputs("\n}, .word = {", c);
    write_bytes(c, to->word, sizeof to->word);
    fputs("\n}},\n", c);
}

static void write_codes(FILE *c, FILE *h, const codes *from, tpi_squeeze_codes *to)
{
    fputs("\nextern const struct tpi_squeeze_codes tpi_text_codes;\n", h);
    fputs("\nconst tpi_squeeze_codes tpi_text_codes = {\n", c);
    write_code(c, "next", &from->next, &to->next);
    write_code(c, "back", &from->back, &to->back);
    fputs("};\n", c);
}

static void write_header(FILE *c, FILE *h, const header *x, const codes *made,
                         const tpi_squeeze_codes *given)
{
    unsigned char *bytes = malloc(4 * x->size + 10); /* a character takes two bytes at most */
    char *back = calloc(x->size + 1, 1);
    if (!bytes || !back)
        die(x->path, "out of memory");
    const size_t n = squeeze(x, made, bytes);
    tpi_unsqueeze(given, bytes, back);
    if (tpi_squeezed_size(bytes) != x->size || memcmp(back, x->text, x->size) != 0)
        die(x->path, "comes back as another text");
    fprintf(h, "extern const unsigned char tpi_text_%.*s[];\n", x->name_len, x->name);
    fprintf(c, "\nconst unsigned char tpi_text_%.*s[] = {", x->name_len, x->name);
    write_bytes(c, bytes, n);
    fputs("\n};\n", c);
    free(bytes);
    free(back);
}

/* ---- headers ------------------------------------------------------------------------------------ */

static void read_header(header *x, const char *path)
{
    const char *slash = strrchr(path, '/');
    x->path = path;
    x->name = slash ? slash + 1 : path;
    x->name_len = (int)strcspn(x->name, ".");
    for (int i = 0; i < x->name_len; i++)
        if (!isalnum((unsigned char)x->name[i]) && x->name[i] != '_')
            die(path, "the name is no C identifier");
    x->text = read_file(path, &x->size);
    strip_comments(path, x->text);
    x->size = keep_lines(path, x->text);
    for (size_t i = 0; i < x->size; i++)
        if ((unsigned char)x->text[i] >= TPI_SQUEEZE_MATCH)
            die(path, "has a character that is not ASCII");
    size_t *const room = calloc(4 * (x->size + 1), sizeof *room);
    if (!room)
        die(path, "out of memory");
    x->before = room;
    x->length = x->before + x->size + 1;
    x->from = x->length + x->size + 1;
    x->cost = x->from + x->size + 1;
    find_before(x);
}

static void embed(FILE *c, FILE *h, char **paths, int n)
{
    static codes made;
    static tpi_squeeze_codes given;
    header *const headers = calloc((size_t)n + 1, sizeof *headers);
    if (!headers)
        die("headers", "out of memory");
    for (int i = 0; i < n; i++)
        read_header(&headers[i], paths[i]);
    make_codes(headers, n, &made);
    write_codes(c, h, &made, &given);
    for (int i = 0; i < n; i++) {
        write_header(c, h, &headers[i], &made, &given);
        free(headers[i].text);
        free(headers[i].before);
    }
    free(headers);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: embed OUT.c OUT.h NAME.h...\n", stderr);
        return 2;
    }
    FILE *c = fopen(argv[1], "w"), *h = fopen(argv[2], "w");
    if (!c || !h)
        die(argv[c ? 2 : 1], "cannot be written");
    fputs("/* Made by tools/embed.c from the headers of src/kernel. */\n", c);
    fputs("#include \"kernel/kernel_text.h\"\n#include \"base/squeeze.h\"\n", c);
    fputs("/* The text of the headers of src/kernel, without comments, squeezed. Made by "
          "tools/embed.c. */\n",
          h);
    fputs("#ifndef TPI_KERNEL_TEXT_H\n#define TPI_KERNEL_TEXT_H\n\n\n", h);
    embed(c, h, argv + 3, argc - 3);
    fputs("\n#endif\n", h);
    if (fclose(c) || fclose(h))
        die(argv[1], "cannot be written");
    return 0;
}
