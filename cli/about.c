/* Takes the text of tp_onnx_summary apart, in place. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0;
}

/* A quoted string, decoded in place; *p moves from its first quote to behind its last one. */
static char *unquote(char **p)
{
    char *const text = ++*p, *to = text, *from = text;
    while (*from && *from != '"') {
        char c = *from++;
        if (c == '\\' && *from) {
            c = *from++;
            if (c == 'n') {
                c = '\n';
            } else if (c == 'x' && from[0] && from[1]) {
                c = (char)(hex_digit(from[0]) * 16 + hex_digit(from[1]));
                from += 2;
            }
        }
        *to++ = c;
    }
    *p = *from ? from + 1 : from;
    *to = 0;
    return text;
}

static bool skip(char **p, const char *word)
{
    const size_t n = strlen(word);
    if (strncmp(*p, word, n) != 0)
        return false;
    *p += n;
    return true;
}

/* "20 "domain" "name"", the name only in lines of operators. */
static counted read_counted(char *p)
{
    counted c = {.n = (int)strtol(p, &p, 10), .domain = "", .op = ""};
    if (skip(&p, " "))
        c.domain = unquote(&p);
    if (skip(&p, " "))
        c.op = unquote(&p);
    return c;
}

static declared read_declared(char *p)
{
    declared d = {.name = unquote(&p)};
    skip(&p, " ");
    d.type = p;
    p += strcspn(p, " ");
    if (*p)
        *p++ = 0;
    if (*p == '?')
        d.rank = -1;
    while (d.rank >= 0 && d.rank < TP_MAX_RANK && *p) {
        d.size[d.rank] = -1;
        if (*p == '"')
            d.free[d.rank] = unquote(&p);
        else
            d.size[d.rank] = strtoll(p, &p, 10);
        d.rank++;
        skip(&p, " ");
    }
    return d;
}

/* The most frequent first. */
static int by_count(const void *a, const void *b)
{
    const counted *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->op, y->op);
}

bool about_read(about *a, tp_ctx *tp, const char *path)
{
    *a = (about){0};
    char *text = tp_onnx_summary(tp, path);
    if (!text) {
        cli_refuse_error(path, tp);
        return false;
    }
    const bool ok = about_parse(a, text);
    tp_free(tp, text);
    return ok;
}

bool about_parse(about *a, const char *summary)
{
    size_t n_lines = 1;
    for (const char *p = summary; *p; p++)
        n_lines += *p == '\n';
    *a = (about){.text = strdup(summary)};
    a->opsets = calloc(n_lines, sizeof *a->opsets);
    a->in = calloc(n_lines, sizeof *a->in);
    a->out = calloc(n_lines, sizeof *a->out);
    a->ops = calloc(n_lines, sizeof *a->ops);
    if (!a->text || !a->opsets || !a->in || !a->out || !a->ops) {
        cli_no_memory();
        return false;
    }
    for (char *line = a->text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        if (skip(&line, "ir_version "))
            a->ir_version = strtol(line, NULL, 10);
        else if (skip(&line, "opset "))
            a->opsets[a->n_opsets++] = read_counted(line);
        else if (skip(&line, "input "))
            a->in[a->n_in++] = read_declared(line);
        else if (skip(&line, "output "))
            a->out[a->n_out++] = read_declared(line);
        else if (skip(&line, "op "))
            a->ops[a->n_ops++] = read_counted(line);
    }
    qsort(a->ops, (size_t)a->n_ops, sizeof *a->ops, by_count);
    return true;
}

void about_free(about *a)
{
    free(a->text);
    free(a->opsets);
    free(a->in);
    free(a->out);
    free(a->ops);
}
