/* Writes kernel headers as squeezed text, so that generated programs can carry it.
 *
 *     embed OUT.c OUT.h NAME.h...
 *
 * OUT.c defines `const unsigned char tpi_text_NAME[]` for each header, which tpi_unsqueeze of
 * src/base/squeeze.h reads, OUT.h declares them. Comments, needless blanks and empty lines are left out: a generated program compiles faster without them. So are the lines that include a
 * sibling, since the program carries that text before it. All else stays, include guards too. */
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

enum { SHORTEST = 4, FARTHEST = 65535 };

static unsigned char *put_count(unsigned char *out, size_t n)
{
    if (n < 15)
        return out;
    for (n -= 15; n >= 255; n -= 255)
        *out++ = 255;
    *out++ = (unsigned char)n;
    return out;
}

static unsigned char *put_literals(unsigned char *out, const char *text, size_t n, size_t match)
{
    *out++ = (unsigned char)((n < 15 ? n : 15) << 4 | (match < 15 ? match : 15));
    out = put_count(out, n);
    memcpy(out, text, n);
    return out + n;
}

/* The longest match for what is at `i`, 0: none is long enough. before[k]: where the characters at k
 * were last, + 1. */
static size_t longest(const char *text, size_t size, const size_t *before, size_t i,
                      size_t *from)
{
    size_t most = 0;
    for (size_t k = before[i]; k && i - (k - 1) <= FARTHEST; k = before[k - 1]) {
        size_t n = 0;
        while (i + n < size && text[k - 1 + n] == text[i + n])
            n++;
        if (n > most && n >= SHORTEST) {
            most = n;
            *from = k - 1;
        }
    }
    return most;
}

/* How many bytes it has become. `before` has room for `size` numbers, `out` for 5 bytes more than
 * twice the text. */
static size_t squeeze(const char *text, size_t size, size_t *before, unsigned char *const out)
{
    static size_t last[1 << 16];
    memset(last, 0, sizeof last);
    for (size_t i = 0; i < size; i++) {
        unsigned word = 0;
        memcpy(&word, text + i, size - i < SHORTEST ? size - i : SHORTEST);
        size_t *const place = &last[(word * 2654435761u >> 16) & 0xffff];
        before[i] = *place;
        *place = i + 1;
    }
    unsigned char *to = out;
    for (int byte = 0; byte < 4; byte++)
        *to++ = (unsigned char)(size >> 8 * byte);
    size_t done = 0;
    for (size_t i = 0, from = 0, later; i < size;) {
        const size_t n = longest(text, size, before, i, &from);
        if (!n || (i + 1 < size && longest(text, size, before, i + 1, &later) > n + 1)) {
            i++;
            continue;
        }
        to = put_literals(to, text + done, i - done, n - SHORTEST);
        *to++ = (unsigned char)(i - from);
        *to++ = (unsigned char)((i - from) >> 8);
        to = put_count(to, n - SHORTEST);
        i += n;
        done = i;
    }
    return (size_t)(put_literals(to, text + done, size - done, 0) - out);
}

/* ---- one header --------------------------------------------------------------------------------- */

static void write_bytes(FILE *c, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(c, "%s%d,", i % 24 == 0 ? "\n    " : " ", bytes[i]);
}

static void embed(FILE *c, FILE *h, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const int len = (int)strcspn(name, ".");
    for (int i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            die(path, "the name is no C identifier");

    size_t size;
    char *text = read_file(path, &size);
    strip_comments(path, text);
    size = keep_lines(path, text);
    size_t *before = calloc(size + 1, sizeof *before);
    unsigned char *bytes = malloc(2 * size + 5);
    char *back = malloc(size + 1);
    if (!before || !bytes || !back)
        die(path, "out of memory");
    const size_t n = squeeze(text, size, before, bytes);
    tpi_unsqueeze(bytes, back);
    if (tpi_squeezed_size(bytes) != size || memcmp(back, text, size) != 0)
        die(path, "comes back as another text");

    fprintf(h, "extern const unsigned char tpi_text_%.*s[];\n", len, name);
    fprintf(c, "\nconst unsigned char tpi_text_%.*s[] = {", len, name);
    write_bytes(c, bytes, n);
    fputs("\n};\n", c);
    free(text);
    free(before);
    free(bytes);
    free(back);
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
    fputs("#include \"kernel/kernel_text.h\"\n", c);
    fputs("/* The text of the headers of src/kernel, without comments, squeezed. Made by "
          "tools/embed.c. */\n",
          h);
    fputs("#ifndef TPI_KERNEL_TEXT_H\n#define TPI_KERNEL_TEXT_H\n\n\n", h);
    for (int i = 3; i < argc; i++)
        embed(c, h, argv[i]);
    fputs("\n#endif\n", h);
    if (fclose(c) || fclose(h))
        die(argv[1], "cannot be written");
    return 0;
}
