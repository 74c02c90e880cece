/* Words, types, attributes and places of a text. */
#include "ir/body.h"
#include "op/read/parser.h"

#include <string.h>

/* ---- errors ---- */

bool tpi_read_no_memory(tpi_reader *P)
{
    P->failed = true;
    tpi_no_memory(P->ctx, P->at, P->what);
    return false;
}

bool tpi_read_bad(tpi_reader *P, const char *fmt, ...)
{
    if (P->failed)
        return false;
    if (P->ctx->mem.refused != P->refused) /* sizes and rules fail then too */
        return tpi_read_no_memory(P);
    tpi_rule_error why;
    va_list ap;
    va_start(ap, fmt);
    tpi_vprint(why.text, sizeof why.text, fmt, ap);
    va_end(ap);
    P->failed = true;
    tpi_fail_status(P->ctx, P->at, P->what, TP_E_FORMAT, "line %d, column %d: %s", P->line,
                    (int)(P->p - P->line_start) + 1, why.text);
    return false;
}

/* ---- words ----------------------------------------------------------------------------------- */

void tpi_read_skip_spaces(tpi_reader *P)
{
    while (P->p < P->limit && *P->p == ' ')
        P->p++;
}

bool tpi_read_next_is(tpi_reader *P, char c)
{
    tpi_read_skip_spaces(P);
    return P->p < P->limit && *P->p == c;
}

bool tpi_read_eat(tpi_reader *P, char c)
{
    if (!tpi_read_next_is(P, c))
        return false;
    P->p++;
    return true;
}

bool tpi_read_expect(tpi_reader *P, char c)
{
    return tpi_read_eat(P, c) || tpi_read_bad(P, "'%c' is missing", c);
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

size_t tpi_read_word(tpi_reader *P, const char **start)
{
    tpi_read_skip_spaces(P);
    *start = P->p;
    while (P->p < P->limit && is_word_char(*P->p))
        P->p++;
    return (size_t)(P->p - *start);
}

bool tpi_read_eat_word(tpi_reader *P, const char *expected)
{
    tpi_read_skip_spaces(P);
    const size_t n = strlen(expected);
    const char *end = P->p + n;
    if ((size_t)(P->limit - P->p) < n || memcmp(P->p, expected, n) != 0 ||
        (end < P->limit && is_word_char(*end)))
        return false;
    P->p = end;
    return true;
}

bool tpi_read_number(tpi_reader *P, int64_t *v)
{
    tpi_read_skip_spaces(P);
    const char *end = tpi_scan_i64(P->p, P->limit, v);
    if (!end)
        return tpi_read_bad(P, "a whole number is missing, or does not fit 64 bits");
    P->p = end;
    return true;
}

bool tpi_read_reference(tpi_reader *P, char sign, int n, const char *kind, int *i)
{
    int64_t v = 0;
    if (!tpi_read_eat(P, sign))
        return tpi_read_bad(P, "'%c' and the number of a %s are missing", sign, kind);
    if (!tpi_read_number(P, &v))
        return false;
    if (v < 0 || v >= n)
        return tpi_read_bad(P, "no %s %c%lld comes before this line", kind, sign, (long long)v);
    *i = (int)v;
    return true;
}

bool tpi_read_node_number(tpi_reader *P, int body, int64_t *i)
{
    if (!tpi_read_eat(P, '%'))
        return tpi_read_bad(P, "'%%' and the number of a node are missing");
    if (!tpi_read_number(P, i))
        return false;
    if (!body)
        return true;
    if (*i != body)
        return tpi_read_bad(P, "nodes of this body are %%%d.0, %%%d.1 and so on", body, body);
    if (P->p >= P->limit || *P->p != '.')
        return tpi_read_bad(P, "'.' is missing");
    P->p++;
    return tpi_read_number(P, i);
}

static bool string(tpi_reader *P, size_t *len)
{
    const char *end = tpi_scan_string(P->p, P->limit, P->scratch, len);
    if (!end)
        return tpi_read_bad(P, "a quoted name is malformed");
    P->scratch[*len] = 0;
    P->p = end;
    return true;
}

bool tpi_read_maybe_name(tpi_reader *P, tpi_text_name *name)
{
    *name = (tpi_text_name){0};
    if (!tpi_read_next_is(P, '"'))
        return true;
    if (!string(P, &name->len))
        return false;
    name->text = tpi_strdup(&P->ctx->mem, P->scratch);
    return name->text || tpi_read_no_memory(P);
}

bool tpi_read_end_of_line(tpi_reader *P)
{
    tpi_read_skip_spaces(P);
    if (P->p < P->limit && *P->p != '\n')
        return tpi_read_bad(P, "the line should end here");
    return true;
}

bool tpi_read_at_line_end(tpi_reader *P)
{
    tpi_read_skip_spaces(P);
    return P->p >= P->limit || *P->p == '\n';
}

void tpi_read_next_line(tpi_reader *P)
{
    while (P->p < P->limit && *P->p == '\n') {
        P->line_start = ++P->p;
        P->line++;
    }
}

/* ---- types, attributes, places ------------------------------------------------------------- */

static bool dtype(tpi_reader *P, int64_t *out)
{
    const char *start;
    const size_t n = tpi_read_word(P, &start);
    for (int t = 0; t < TP_N_DTYPES; t++) {
        const char *name = tp_dtype_name((tp_dtype)t);
        if (strlen(name) == n && memcmp(name, start, n) == 0) {
            *out = t;
            return true;
        }
    }
    P->p = start;
    return tpi_read_bad(P, "no element type is called so");
}

/* A size of the graph; `symbolic` false: a number. */
static bool size(tpi_reader *P, bool symbolic, int64_t *out)
{
    tpi_read_skip_spaces(P);
    const int known = tpi_dim_n_symbols(P->g->dims);
    const char *end = P->p;
    *out = tpi_dim_parse(symbolic ? P->g->dims : NULL, P->p, P->limit, &end);
    if (*out == TPI_NO_DIM || !tpi_dim_is_size(symbolic ? P->g->dims : NULL, *out))
        return tpi_read_bad(P, symbolic ? "this is no size" : "this is no number of elements");
    if (tpi_dim_n_symbols(P->g->dims) != known)
        return tpi_read_bad(P, "a symbol is not in the line of symbols");
    P->p = end;
    return true;
}

bool tpi_read_list(tpi_reader *P, bool sizes, bool symbolic, int64_t *n, int64_t *v)
{
    *n = 0;
    if (!tpi_read_expect(P, '['))
        return false;
    if (tpi_read_eat(P, ']'))
        return true;
    do {
        if (*n == TP_MAX_RANK)
            return tpi_read_bad(P, "more than %d numbers in a list", TP_MAX_RANK);
        if (sizes ? !size(P, symbolic, &v[*n]) : !tpi_read_number(P, &v[*n]))
            return false;
        ++*n;
    } while (tpi_read_eat(P, ','));
    return tpi_read_expect(P, ']');
}

bool tpi_read_type(tpi_reader *P, bool symbolic, tpi_text_type *t)
{
    int64_t code = 0, rank = 0, bytes;
    if (!dtype(P, &code) || !tpi_read_list(P, true, symbolic, &rank, t->shape))
        return false;
    t->dtype = (tp_dtype)code;
    t->rank = (int)rank;
    bytes = 8;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] > 0 && __builtin_mul_overflow(bytes, t->shape[i], &bytes))
            return tpi_read_bad(P, "the sizes multiply beyond 2^63 bytes");
    return true;
}

/* `(3)`: a new body, with the next number. */
static bool body(tpi_reader *P, char *p)
{
    int64_t k = 0;
    int depth = 0;
    for (const tp_graph *g = P->g; g->parent; g = g->parent)
        depth++;
    if (!tpi_read_expect(P, '(') || !tpi_read_number(P, &k))
        return false;
    if (k != (int64_t)P->n_bodies + 1)
        return tpi_read_bad(P, "the next body is (%d)", P->n_bodies + 1);
    if (depth >= TPI_MAX_NESTING)
        return tpi_read_bad(P, "bodies nest deeper than %d", TPI_MAX_NESTING);
    if (!tpi_read_expect(P, ')'))
        return false;
    tpi_body *b = tpi_body_new(P->g, TPI_AT(NULL, 0));
    if (!b)
        return tpi_read_no_memory(P);
    b->closed = true; /* it takes what the text says */
    P->n_bodies++;
    memcpy(p, &b, sizeof b);
    return true;
}

static bool attr(tpi_reader *P, const tpi_attr *a, char *p)
{
    int64_t v = 0;
    tpi_list l = {0};
    double f = 0;
    const char *end;
    switch (a->type) {
    case TPI_ATTR_INT:
        if (!tpi_read_number(P, &v))
            return false;
        break;
    case TPI_ATTR_BOOL:
        v = tpi_read_eat_word(P, "true");
        if (!v && !tpi_read_eat_word(P, "false"))
            return tpi_read_bad(P, "true or false is missing");
        break;
    case TPI_ATTR_DTYPE:
        if (!dtype(P, &v))
            return false;
        break;
    case TPI_ATTR_DIM:
        if (!size(P, true, &v))
            return false;
        break;
    case TPI_ATTR_F64:
        tpi_read_skip_spaces(P);
        end = tpi_scan_f64(P->p, P->limit, &f);
        if (!end)
            return tpi_read_bad(P, "a number is missing");
        P->p = end;
        memcpy(p, &f, sizeof f);
        return true;
    case TPI_ATTR_LIST:
    case TPI_ATTR_DIMS:
        if (!tpi_read_list(P, a->type == TPI_ATTR_DIMS, true, &l.n, l.v))
            return false;
        memcpy(p, &l, sizeof l);
        return true;
    case TPI_ATTR_BODY:
        return body(P, p);
    }
    memcpy(p, &v, sizeof v);
    return true;
}

/* As in a text of a version that did not have it yet. */
static bool is_missing(tpi_reader *P, const tpi_op *op, const tpi_attr *a)
{
    return tpi_read_bad(P, "attribute %s of %s is missing", a->name, op->name);
}

/* Those of a block that are zero are left out, except bodies. */
static bool attribute(tpi_reader *P, const tpi_op *op, const tpi_attr *a, char *attrs)
{
    const char *const start = P->p;
    const bool first = a == op->attrs,
               may_miss = op->kind == TPI_BLOCK && !first && a->type != TPI_ATTR_BODY;
    if (may_miss && !tpi_read_next_is(P, ','))
        return true;
    if (!first && tpi_read_next_is(P, '}'))
        return is_missing(P, op, a);
    if (!first && !tpi_read_expect(P, ','))
        return false;
    if (!tpi_read_eat_word(P, a->name)) {
        if (!may_miss)
            return is_missing(P, op, a);
        P->p = start;
        return true;
    }
    if (!tpi_read_expect(P, '=') || !attr(P, a, attrs + a->offset))
        return false;
    int64_t v;
    memcpy(&v, attrs + a->offset, sizeof v);
    return !may_miss || v != 0 ||
           tpi_read_bad(P, "attribute %s is zero, and is left out then", a->name);
}

bool tpi_read_attributes(tpi_reader *P, const tpi_op *op, char *attrs)
{
    if (!op->attrs)
        return true;
    if (!tpi_read_eat(P, '{'))
        return is_missing(P, op, op->attrs);
    for (const tpi_attr *a = op->attrs; a->name; a++)
        if (!attribute(P, op, a, attrs))
            return false;
    if (op->kind == TPI_BLOCK && tpi_read_next_is(P, ','))
        return tpi_read_bad(P, "%s has no such attribute, or not here", op->name);
    return tpi_read_expect(P, '}');
}

static bool is_file_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-+./", c));
}

bool tpi_read_place(tpi_reader *P, tpi_at *at)
{
    *at = TPI_AT(NULL, 0);
    if (!tpi_read_eat(P, ';'))
        return true;
    tpi_read_skip_spaces(P);
    const char *start = P->p;
    size_t len;
    if (tpi_read_next_is(P, '"')) {
        if (!string(P, &len))
            return false;
        start = P->scratch;
    } else {
        while (P->p < P->limit && is_file_char(*P->p))
            P->p++;
        len = (size_t)(P->p - start);
        if (len == 0)
            return tpi_read_bad(P, "a file name is missing");
    }
    at->file = tpi_graph_intern(P->root, start, len);
    if (!at->file)
        return tpi_read_no_memory(P);
    int64_t line = 0;
    if (!tpi_read_expect(P, ':') || !tpi_read_number(P, &line))
        return false;
    if (line < INT32_MIN || line > INT32_MAX)
        return tpi_read_bad(P, "a line number is out of range");
    at->line = (int)line;
    return true;
}
