/* What is printed: messages, and text of others within JSON, HTML and tables. */
#include "cli.h"

#include <string.h>
#include <time.h>

int cli_refuse(const char *file, const char *fmt, ...)
{
    va_list ap;
    fflush(stdout); /* what was printed before comes before */
    fputs("tapir: ", stderr);
    if (file) {
        put_plain_text(stderr, file);
        fputs(": ", stderr);
    }
    char what[3000];
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    for (size_t n = strlen(what); n && what[n - 1] == '\n'; n--)
        what[n - 1] = 0;
    for (char *line = what, *next; line; line = next) { /* a compiler says more than a line */
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        fputs(line == what ? "" : "    ", stderr);
        put_plain_text(stderr, line);
        fputc('\n', stderr);
    }
    return CLI_BAD;
}

/* Behind `start`, when the text begins with it and then ": ". */
static const char *behind(const char *text, const char *start, size_t len)
{
    return len && strncmp(text, start, len) == 0 && strncmp(text + len, ": ", 2) == 0
               ? text + len + 2
               : NULL;
}

/* The same for a path, of which the library shortens a long one to "...its/end". */
static const char *behind_path(const char *text, const char *path)
{
    const size_t len = strlen(path);
    const char *end = strncmp(text, "...", 3) == 0 ? strstr(text, ": ") : NULL;
    const size_t n = end ? (size_t)(end - text) - 3 : 0;
    if (end && n <= len && memcmp(path + len - n, text + 3, n) == 0)
        return end + 2;
    return behind(text, path, len);
}

const char *cli_plain(const char *library_message, const char *file)
{
    static const char again[] = "the run failed";
    const char *p = library_message, *next = p;
    while (next) {
        p = next;
        const size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");
        next = strncmp(p, "tp_", 3) == 0 ? behind(p, p, n) : NULL;
        next = next ? next : behind(p, again, sizeof again - 1);
        next = next || !file ? next : behind_path(p, file);
    }
    return p;
}

int cli_refuse_error(const char *file, const tp_ctx *tp)
{
    if (!tp)
        return cli_no_memory();
    return cli_refuse(file, "%s", cli_plain(tp_error_message(tp), file));
}

/* Bytes of the character at p, 0 when it is not well-formed UTF-8. */
static int utf8_length(const unsigned char *p)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    const int n = *p < 0x80 ? 1 : *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : *p >= 0xc0 ? 2 : 0;
    unsigned c = n == 1 ? *p : *p & (0x7fu >> n);
    if (n == 0 || *p > 0xf7)
        return 0;
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    const bool surrogate = c >= 0xd800 && c < 0xe000;
    return c < least[n] || c > 0x10ffff || surrogate ? 0 : n;
}

/* The next character, or U+FFFD for a bad byte. */
static const char *next_character(const char **p, int *n)
{
    const char *at = *p;
    *n = utf8_length((const unsigned char *)at);
    *p += *n ? *n : 1;
    if (*n)
        return at;
    *n = 3;
    return "\xef\xbf\xbd";
}

void put_json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *p = text; *p;) {
        int n;
        const char *c = next_character(&p, &n);
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || *c == 0x7f ||
                 *c == '<') /* no tag within a script */
            fprintf(out, "\\u%04x", *c);
        else
            fwrite(c, 1, (size_t)n, out);
    }
    fputc('"', out);
}

void put_html_text(FILE *out, const char *text)
{
    for (const char *p = text; *p;) {
        int n;
        const char *c = next_character(&p, &n);
        if (*c == '&' || *c == '<' || *c == '>' || *c == '"' || *c == '\'')
            fprintf(out, "&#%d;", *c);
        else if (((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f)
            fputs("\xef\xbf\xbd", out);
        else
            fwrite(c, 1, (size_t)n, out);
    }
}

void put_plain_text(FILE *out, const char *text)
{
    for (const char *p = text; *p;) {
        int n;
        const char *c = next_character(&p, &n);
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            fputc('?', out);
        else
            fwrite(c, 1, (size_t)n, out);
    }
}

double cli_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
