/* Writes kernel headers as C strings, so that generated programs can carry their text.
 *
 *     embed OUT.c OUT.h NAME.h...
 *
 * OUT.c defines `const char tpi_text_NAME[]` and `const size_t tpi_text_NAME_size` (without the
 * final zero) for each header, OUT.h declares them. Comments, needless blanks and empty lines
 * are left out: a generated program compiles faster without them. So are the lines that include a
 * sibling, since the program carries that text before it. All else stays, include guards too. */
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

/* With a quarter of its indentation. */
static void write_line(FILE *c, const char *s, size_t n)
{
    fputs("    \"", c);
    for (size_t i = n ? strspn(s, " ") * 3 / 4 : 0; i < n; i++) {
        const unsigned char ch = (unsigned char)s[i];
        if (ch == '"' || ch == '\\' || ch == '?') /* `?`: no trigraphs */
            fprintf(c, "\\%c", ch);
        else if (ch >= ' ' && ch < 127)
            fputc(ch, c);
        else
            fprintf(c, "\\%03o", ch);
    }
    fputs("\\n\"\n", c);
}

static void embed(FILE *c, FILE *h, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const size_t len = strcspn(name, ".");
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            die(path, "the name is no C identifier");

    size_t size;
    char *text = read_file(path, &size);
    strip_comments(path, text);

    const int n = (int)len;
    fprintf(h, "extern const char tpi_text_%.*s[];\n", n, name);
    fprintf(h, "extern const size_t tpi_text_%.*s_size;\n", n, name);
    fprintf(c, "\nconst char tpi_text_%.*s[] = \"\"\n", n, name);
    bool spliced = false; /* the line before ends with a backslash */
    for (char *line = text; *line;) {
        const size_t full = strcspn(line, "\n");
        size_t keep = full;
        while (keep && isspace((unsigned char)line[keep - 1]))
            keep--;
        if (keep < full && keep && line[keep - 1] == '\\')
            die(path, "a backslash is followed by blanks or a comment at the end of a line");
        const bool sibling = strncmp(line, "#include \"", 10) == 0;
        if ((keep || spliced) && !sibling)
            write_line(c, line, keep);
        spliced = keep && line[keep - 1] == '\\';
        line += full + (line[full] == '\n');
    }
    fputs("    ;\n", c);
    fprintf(c, "const size_t tpi_text_%.*s_size = sizeof tpi_text_%.*s - 1;\n", n, name, n,
            name);
    free(text);
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
    fputs("/* Made by tools/embed.c from src/kernel/NAME.h. */\n", c);
    fputs("#include \"kernel/text.h\"\n", c);
    fputs("/* The text of src/kernel/NAME.h, without comments. Made by tools/embed.c. */\n", h);
    fputs("#ifndef TPI_KERNEL_TEXT_H\n#define TPI_KERNEL_TEXT_H\n\n#include <stddef.h>\n\n", h);
    for (int i = 3; i < argc; i++)
        embed(c, h, argv[i]);
    fputs("\n#endif\n", h);
    if (fclose(c) || fclose(h))
        die(argv[1], "cannot be written");
    return 0;
}
