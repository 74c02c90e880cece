/* Takes the text of a graph apart, line by line and in place. The library wrote the text, so it is
 * well-formed; docs/ir.md describes it. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    char *p, *end; /* of the line */
    ir *v;
    int n_operands, n_results;
    int body; /* whose results come next */
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

/* Behind "%": "3", or "2.3" in body 2. */
static int read_number(reader *r, int *body)
{
    const int number = (int)strtol(r->p, &r->p, 10);
    *body = 0;
    if (*r->p != '.')
        return number;
    *body = number;
    r->p++;
    return (int)strtol(r->p, &r->p, 10);
}

static void read_operands(reader *r, ir_node *n)
{
    int body;
    n->in = r->v->operands + r->n_operands;
    while (skip(r, " %") || skip(r, ", %")) {
        n->in[n->n_in++] = read_number(r, &body);
        r->n_operands++;
    }
    if (skip(r, " {"))
        n->attrs = read_until(r, "}");
}

/* Of a block: "then=(2), other=(3)" come first among its attributes. */
static void find_bodies(ir_node *n)
{
    n->n_bodies = strcmp(n->op, "cond") == 0 ? 2 : strcmp(n->op, "loop") == 0;
    const char *first = n->n_bodies ? strchr(n->attrs, '(') : NULL;
    n->body = first ? atoi(first + 1) : 0;
}

/* " <- carried %3" */
static void read_origin(reader *r, ir_node *n)
{
    int body;
    n->from = "";
    if (*r->p && *r->p != '%')
        n->from = read_until(r, " ");
    if (skip(r, "%"))
        n->from_node = read_number(r, &body);
}

static void read_node(reader *r)
{
    int body;
    r->p++;
    const int i = read_number(r, &body);
    ir_node *n = &r->v->bodies[body].nodes[i];
    r->body = body;
    n->cell = n->from_node = -1;
    n->attrs = n->place = "";
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
    find_bodies(n);
    read_type(r, &n->dtype, &n->dims);
    skip(r, " constant");
    if (skip(r, " <- "))
        read_origin(r, n);
    if (skip(r, " ; ") || skip(r, "; "))
        n->place = r->p;
}

/* `(2) then ; net.c:8` */
static void read_body(reader *r)
{
    ir_body *b = &r->v->bodies[strtol(r->p + 1, &r->p, 10)];
    skip(r, ") ");
    b->word = read_until(r, " ");
    b->place = skip(r, "; ") ? r->p : "";
    r->body = (int)(b - r->v->bodies);
}

/* `carry %2.3, %2.4`, of the body of the last line. */
static void read_results(reader *r)
{
    const char *word = read_until(r, " ");
    ir_body *b = NULL;
    while (skip(r, "%")) {
        int body;
        const int node = read_number(r, &body);
        skip(r, ", ");
        b = &r->v->bodies[body];
        if (!b->results)
            b->results = r->v->results + r->n_results;
        b->results[b->n_results++] = (ir_result){.word = word, .node = node};
        r->n_results++;
    }
}

static bool is_result(const char *line)
{
    static const char *const words[] = {"give", "while", "carry", "stack"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(line, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

static void read_lines(ir *v)
{
    reader r = {.v = v};
    for (char *line = v->text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        r.p = line + strspn(line, " ");
        r.end = line + strlen(line);
        if (*r.p == '@')
            read_cell(&r, &v->cells[v->n_cells++]);
        else if (*r.p == '%')
            read_node(&r);
        else if (*r.p == '(')
            read_body(&r);
        else if (r.p > line && is_result(r.p))
            read_results(&r);
    }
}

static bool count_lines(ir *v, size_t *n_cells, size_t *n_operands)
{
    v->n_bodies = 1;
    *n_cells = *n_operands = 0;
    for (const char *p = v->text; *p; p += strcspn(p, "\n"), p += *p != 0) {
        const char *start = p + strspn(p, " ");
        *n_cells += *start == '@';
        v->n_all += *start == '%';
        v->n_bodies += *start == '(';
        for (const char *at = start; *at && *at != '\n'; at++)
            *n_operands += *at == '%';
    }
    v->bodies = calloc((size_t)v->n_bodies, sizeof *v->bodies);
    return v->bodies;
}

/* Those of a body stand together, in its order. */
static void share_nodes(ir *v)
{
    reader r = {.v = v};
    for (char *p = v->text; *p; p += strcspn(p, "\n"), p += *p != 0) {
        int body;
        r.p = p + strspn(p, " ");
        if (*r.p++ != '%')
            continue;
        read_number(&r, &body);
        v->bodies[body].n_nodes++;
    }
    ir_node *next = v->all;
    for (int i = 0; i < v->n_bodies; i++) {
        v->bodies[i].nodes = next;
        v->bodies[i].place = "";
        next += v->bodies[i].n_nodes;
    }
    v->nodes = v->bodies->nodes;
    v->n_nodes = v->bodies->n_nodes;
}

bool ir_read(ir *v, tp_ctx *tp, const tp_graph *g)
{
    *v = (ir){0};
    char *text = tp_graph_text(g);
    v->text = text ? strdup(text) : NULL;
    tp_free(tp, text);
    size_t n_cells, n_operands;
    if (!v->text || !count_lines(v, &n_cells, &n_operands))
        return false;
    v->cells = calloc(n_cells + 1, sizeof *v->cells);
    v->all = calloc((size_t)v->n_all + 1, sizeof *v->all);
    v->operands = calloc(n_operands + 1, sizeof *v->operands);
    v->results = calloc(n_operands + 1, sizeof *v->results);
    if (!v->cells || !v->all || !v->operands || !v->results)
        return false;
    share_nodes(v);
    read_lines(v);
    return true;
}

void ir_free(ir *v)
{
    free(v->text);
    free(v->cells);
    free(v->all);
    free(v->bodies);
    free(v->operands);
    free(v->results);
}

const ir_node *ir_find(const ir *v, const char *name)
{
    for (int i = 0; i < v->n_nodes; i++)
        if (v->nodes[i].name && strcmp(v->nodes[i].name, name) == 0)
            return &v->nodes[i];
    return NULL;
}

/* Up to the comma behind a size; one may have commas in parentheses. */
static size_t size_length(const char *p)
{
    size_t n = 0;
    for (int depth = 0; p[n] && (p[n] != ',' || depth); n++)
        depth += (p[n] == '(') - (p[n] == ')');
    return n;
}

bool ir_axis(const char *dims, int axis, int64_t *size, char *word, size_t word_size)
{
    const char *p = dims;
    for (int i = 0; i < axis && *p; i++) {
        p += size_length(p);
        p += *p == ',';
    }
    if (!*p)
        return false;
    const size_t n = size_length(p);
    snprintf(word, word_size, "%.*s", (int)n, p);
    *size = strspn(p, "0123456789") == n ? strtoll(p, NULL, 10) : -1;
    return true;
}
