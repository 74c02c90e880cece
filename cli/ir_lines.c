/* Takes the text of a graph apart, line by line and in place. The library wrote the text, so it is
 * well-formed; docs/ir.md describes it. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    char *p, *end; /* of the line */
    ir *v;
    int n_operands;
} reader;

static bool starts(const reader *r, const char *word)
{
    const size_t n = strlen(word);
    return (size_t)(r->end - r->p) >= n && memcmp(r->p, word, n) == 0;
}

static bool skip(reader *r, const char *word)
{
    if (!starts(r, word))
        return false;
    r->p += strlen(word);
    return true;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0;
}

char *cli_unquote(char **p)
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

/* What stands before one of the characters, which is overwritten and skipped. */
static const char *read_until(reader *r, const char *stops)
{
    char *const text = r->p;
    while (r->p < r->end && !strchr(stops, *r->p))
        r->p++;
    if (r->p < r->end)
        *r->p++ = 0;
    return text;
}

static void read_type(reader *r, const char **dtype, const char **dims)
{
    *dtype = read_until(r, "[");
    *dims = read_until(r, "]");
}

/* What stands before " : ", of which the first blank is overwritten and skipped. */
static const char *read_value(reader *r)
{
    char *const text = r->p, *colon = strstr(r->p, " : ");
    if (colon)
        *colon = 0;
    r->p = colon ? colon + 1 : r->end;
    return text;
}

static void read_cell(reader *r, ir_cell *c)
{
    strtol(r->p + 1, &r->p, 10);
    if (starts(r, " \"")) {
        r->p++;
        c->name = cli_unquote(&r->p);
    }
    skip(r, " = ");
    c->kind = read_until(r, " ");
    char *colon = strstr(r->p, ": ");
    r->p = colon ? colon + 2 : r->end;
    read_type(r, &c->dtype, &c->dims);
}

static void read_operands(reader *r, ir_node *n)
{
    n->in = r->v->operands + r->n_operands;
    while (skip(r, " %") || skip(r, ", %")) {
        n->in[n->n_in++] = (int)strtol(r->p, &r->p, 10);
        r->n_operands++;
    }
    if (skip(r, " {"))
        n->attrs = read_until(r, "}");
}

static void read_node(reader *r, ir_node *n)
{
    n->cell = -1;
    n->attrs = n->place = "";
    strtol(r->p + 1, &r->p, 10);
    if (starts(r, " \"")) {
        r->p++;
        n->name = cli_unquote(&r->p);
    }
    skip(r, " = ");
    char *const op = r->p;
    r->p += strcspn(r->p, " ");
    char *const op_end = r->p;
    if (skip(r, " @"))
        n->cell = (int)strtol(r->p, &r->p, 10);
    else if (op_end - op == 5 && memcmp(op, "const", 5) == 0 && skip(r, " "))
        n->value = read_value(r);
    else
        read_operands(r, n);
    if (!skip(r, " : "))
        skip(r, ": ");
    n->op = op;
    *op_end = 0;
    read_type(r, &n->dtype, &n->dims);
    skip(r, " constant");
    if (skip(r, " ; "))
        n->place = r->p;
}

static void read_lines(ir *v)
{
    reader r = {.v = v};
    for (char *line = v->text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        r.p = line;
        r.end = line + strlen(line);
        if (*line == '@')
            read_cell(&r, &v->cells[v->n_cells++]);
        else if (*line == '%')
            read_node(&r, &v->nodes[v->n_nodes++]);
    }
}

bool ir_read(ir *v, tp_ctx *tp, const tp_graph *g)
{
    *v = (ir){0};
    char *text = tp_graph_text(g);
    v->text = text ? strdup(text) : NULL;
    tp_free(tp, text);
    size_t n_cells = 0, n_nodes = 0, n_operands = 0;
    for (const char *p = v->text; p && *p; p++) {
        const bool first = p == v->text || p[-1] == '\n';
        n_cells += first && *p == '@';
        n_nodes += first && *p == '%';
        n_operands += *p == '%';
    }
    v->cells = calloc(n_cells + 1, sizeof *v->cells);
    v->nodes = calloc(n_nodes + 1, sizeof *v->nodes);
    v->operands = calloc(n_operands + 1, sizeof *v->operands);
    if (!v->text || !v->cells || !v->nodes || !v->operands)
        return false;
    read_lines(v);
    return true;
}

void ir_free(ir *v)
{
    free(v->text);
    free(v->cells);
    free(v->nodes);
    free(v->operands);
}

const ir_node *ir_find(const ir *v, const char *name)
{
    for (int i = 0; i < v->n_nodes; i++)
        if (v->nodes[i].name && strcmp(v->nodes[i].name, name) == 0)
            return &v->nodes[i];
    return NULL;
}

bool ir_axis(const char *dims, int axis, int64_t *size, char *word, size_t word_size)
{
    const char *p = dims;
    for (int i = 0; i < axis && *p; i++) {
        p += strcspn(p, ",");
        p += *p == ',';
    }
    if (!*p)
        return false;
    const size_t n = strcspn(p, ",");
    snprintf(word, word_size, "%.*s", (int)n, p);
    *size = strspn(p, "0123456789") == n ? strtoll(p, NULL, 10) : -1;
    return true;
}
