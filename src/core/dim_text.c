/* The text of symbolic sizes: what is printed is what is read. */
#include "core/dim_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 32 }; /* of parentheses in a text */

/* ---- printing ------------------------------------------------------------------------------- */

/* prefix: of C variables; NULL: the symbols' own names. */
static void print_dim(const tpi_dims *d, int64_t dim, const char *prefix, tpi_str *out);

static void print_least(const tpi_dims *d, const atom *a, const char *prefix, tpi_str *out)
{
    tpi_str_put(out, prefix ? "TPK_LEAST(" : "min(");
    print_dim(d, a->num, prefix, out);
    tpi_str_put(out, ",");
    print_dim(d, a->den, prefix, out);
    tpi_str_put(out, ")");
}

static void print_division(const tpi_dims *d, const atom *a, const char *prefix, tpi_str *out)
{
    const int64_t parts[2] = {a->num, a->den};
    for (int i = 0; i < 2; i++) {
        int symbol_number;
        const bool bare = parts[i] >= 0 || tpi_dim_as_symbol(d, parts[i], &symbol_number);
        tpi_str_put(out, i ? "/" : "");
        tpi_str_put(out, bare ? "" : "(");
        print_dim(d, parts[i], prefix, out);
        tpi_str_put(out, bare ? "" : ")");
    }
}

static void print_term(const tpi_dims *d, const term *t, bool first, const char *prefix,
                       tpi_str *out)
{
    if (t->coef < 0)
        tpi_str_put(out, "-");
    else if (!first)
        tpi_str_put(out, "+");
    const int64_t size = t->coef < 0 ? -t->coef : t->coef;
    const bool factor = size != 1 || t->n == 0;
    if (factor)
        tpi_str_printf(out, "%" PRId64, size);
    for (int i = 0; i < t->n; i++) {
        const atom *a = &d->atoms[t->atom[i]];
        tpi_str_put(out, i || factor ? "*" : "");
        if (a->name && prefix) {
            tpi_str_printf(out, "%s%d", prefix, (int)a->symbol);
        } else if (a->name) {
            tpi_str_put(out, a->name);
        } else if (a->least) {
            print_least(d, a, prefix, out);
        } else {
            const bool alone = t->n == 1 && !factor;
            tpi_str_put(out, alone ? "" : "(");
            print_division(d, a, prefix, out);
            tpi_str_put(out, alone ? "" : ")");
        }
    }
}

static void print_dim(const tpi_dims *d, int64_t dim, const char *prefix, tpi_str *out)
{
    if (dim >= 0) {
        tpi_str_printf(out, "%" PRId64, dim);
        return;
    }
    const expr *e = tpi_dim_expr(d, dim);
    if (!e) {
        tpi_str_put(out, "?");
        return;
    }
    for (int i = 0; i < e->n; i++)
        print_term(d, &e->terms[i], i == 0, prefix, out);
}

void tpi_dim_print(const tpi_dims *table, int64_t d, tpi_str *out)
{
    print_dim(table, d, NULL, out);
}

void tpi_dim_print_c(const tpi_dims *table, int64_t d, const char *prefix, tpi_str *out)
{
    print_dim(table, d, prefix, out);
}

const char *tpi_shape_format(tpi_shape_text *buf, const tp_tensor *t)
{
    const size_t size = sizeof buf->text;
    tpi_str s = TPI_STR(&t->ctx->mem);
    tpi_str_put(&s, "[");
    for (int i = 0; i < t->rank; i++) {
        tpi_str_put(&s, i ? ", " : "");
        tpi_dim_print(tpi_dims_of(t), t->shape[i], &s);
    }
    tpi_str_put(&s, "]");
    snprintf(buf->text, size, "%s", s.failed ? "[...]" : s.text);
    tpi_str_free(&s);
    return buf->text;
}

/* ---- parsing -------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

size_t tpi_dim_name_length(const char *s, const char *limit)
{
    size_t n = 0;
    while (s + n < limit && (is_letter(s[n]) || (n > 0 && (is_digit(s[n]) || s[n] == '.'))))
        n++;
    return n;
}

typedef struct parser {
    tpi_dims *table;
    const char *at, *limit;
    int depth;
} parser;

static bool eat(parser *p, char c)
{
    if (p->at == p->limit || *p->at != c)
        return false;
    p->at++;
    return true;
}

static int64_t parse_sum(parser *p);

/* Behind a parenthesis: a sum, or the lesser of two. */
static int64_t parse_inner(parser *p, bool least)
{
    if (p->depth == MAX_DEPTH)
        return TPI_NO_DIM;
    p->depth++;
    int64_t d = parse_sum(p);
    if (least)
        d = eat(p, ',') ? tpi_dim_min(p->table, d, parse_sum(p)) : TPI_NO_DIM;
    p->depth--;
    return d != TPI_NO_DIM && eat(p, ')') ? d : TPI_NO_DIM;
}

static int64_t parse_factor(parser *p)
{
    if (eat(p, '('))
        return parse_inner(p, false);
    if (p->limit - p->at > 4 && memcmp(p->at, "min(", 4) == 0) {
        p->at += 4;
        return parse_inner(p, true);
    }
    const size_t len = tpi_dim_name_length(p->at, p->limit);
    if (len) {
        p->at += len;
        return tpi_dim_symbol_of(p->table, p->at - len, len);
    }
    if (p->at == p->limit || !is_digit(*p->at))
        return TPI_NO_DIM;
    int64_t n = 0;
    for (; p->at < p->limit && is_digit(*p->at); p->at++) {
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p->at - '0', &n))
            return TPI_NO_DIM;
    }
    return n;
}

static int64_t parse_product(parser *p)
{
    int64_t d = parse_factor(p);
    while (d != TPI_NO_DIM) {
        if (eat(p, '*'))
            d = tpi_dim_mul(p->table, d, parse_factor(p));
        else if (eat(p, '/'))
            d = tpi_dim_div(p->table, d, parse_factor(p));
        else
            break;
    }
    return d;
}

/* What is added and what is taken away are summed apart: -3+n is a size, -3 is none. */
static int64_t parse_sum(parser *p)
{
    int64_t sums[2] = {0, 0};
    bool minus = eat(p, '-');
    do {
        sums[minus] = tpi_dim_add(p->table, sums[minus], parse_product(p));
        if (sums[minus] == TPI_NO_DIM)
            return TPI_NO_DIM;
        minus = p->at < p->limit && *p->at == '-';
    } while (eat(p, '+') || eat(p, '-'));
    return tpi_dim_sub(p->table, sums[0], sums[1]);
}

int64_t tpi_dim_parse(tpi_dims *table, const char *text, const char *limit, const char **end)
{
    parser p = {.table = table, .at = text, .limit = limit};
    const int64_t d = parse_sum(&p);
    if (end)
        *end = p.at;
    return d;
}
