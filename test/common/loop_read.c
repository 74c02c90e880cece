#include "loop_read.h"

#include "ir/notation.h"
#include "lower/loop_text.h"

#include <setjmp.h>
#include <stdlib.h>

enum { MOST_REGIONS = TPI_LOOP_DEPTH + 1 }; /* one more than may be open */

typedef struct reader {
    tpi_loop *l;
    const char *p, *limit;
    char *why;
    int line, open[MOST_REGIONS], n_open;
    jmp_buf out;
} reader;

__attribute__((noreturn)) static void bad(reader *r, const char *what)
{
    snprintf(r->why, LOOP_READ_WHY, "line %d: %s, not \"%.20s\"", r->line, what, r->p);
    longjmp(r->out, 1);
}

/* ---- words --------------------------------------------------------------------------------------------------- */

static void skip_spaces(reader *r)
{
    while (r->p < r->limit && *r->p == ' ')
        r->p++;
}

static bool eat(reader *r, const char *word)
{
    skip_spaces(r);
    const size_t n = strlen(word);
    if ((size_t)(r->limit - r->p) < n || memcmp(r->p, word, n) != 0)
        return false;
    r->p += n;
    return true;
}

static void expect(reader *r, const char *word)
{
    if (!eat(r, word))
        bad(r, word);
}

static void end_line(reader *r)
{
    skip_spaces(r);
    if (r->p < r->limit && *r->p == ';')
        while (r->p < r->limit && *r->p != '\n')
            r->p++;
    expect(r, "\n");
    r->line++;
}

static int64_t number(reader *r)
{
    int64_t v = 0;
    const char *end = tpi_scan_i64(r->p, r->limit, &v);
    if (!end)
        bad(r, "a number");
    r->p = end;
    return v;
}

static int small(reader *r, const char *sign)
{
    expect(r, sign);
    const int64_t v = number(r);
    if (v < 0 || v > 9999)
        bad(r, "a number of four digits");
    return (int)v;
}

static int64_t size(reader *r)
{
    const char *end = r->p;
    skip_spaces(r);
    const int64_t d = tpi_dim_parse(r->l->dims, r->p, r->limit, &end);
    if (d == TPI_NO_DIM)
        bad(r, "a size");
    r->p = end;
    return d;
}

static int64_t factor(reader *r)
{
    if (!eat(r, "(")) {
        const int64_t v = number(r);
        if (tpi_is_spoilt(v) || v == TPI_NO_DIM)
            bad(r, "a number that is no symbol's handle");
        return v;
    }
    const int64_t d = size(r);
    expect(r, ")");
    return d;
}

static size_t word(reader *r)
{
    size_t n = 0;
    skip_spaces(r);
    while (r->p + n < r->limit && ((r->p[n] >= 'a' && r->p[n] <= 'z') ||
                                   (r->p[n] >= '0' && r->p[n] <= '9') || r->p[n] == '_'))
        n++;
    return n;
}

static int find(reader *r, int n_names, const char *const *names)
{
    const size_t len = word(r);
    for (int i = 0; i < n_names; i++)
        if (strlen(names[i]) == len && memcmp(names[i], r->p, len) == 0) {
            r->p += len;
            return i;
        }
    return -1;
}

static int maybe_type(reader *r)
{
    const char *names[TP_N_DTYPES];
    for (int t = 0; t < TP_N_DTYPES; t++)
        names[t] = tp_dtype_name((tp_dtype)t);
    return find(r, TP_N_DTYPES, names);
}

static uint8_t type(reader *r)
{
    const int t = maybe_type(r);
    if (t < 0)
        bad(r, "a type");
    return (uint8_t)t;
}

/* ---- statements ---------------------------------------------------------------------------------------------- */

/* Memory by its number, which rows have too. */
static tpi_loop_mem *memory(reader *r, int i)
{
    while (r->l->n_mems <= i && !r->l->memory->failed)
        tpi_loop_add_mem(r->l, (tpi_loop_mem){.node = -1});
    if (r->l->memory->failed)
        bad(r, "memory");
    return &r->l->mem[i];
}

static void operands(reader *r)
{
    expect(r, "kernel (");
    while (!eat(r, ")")) {
        const int i = small(r, "v");
        const bool written = eat(r, "out");
        if (!written)
            expect(r, "in");
        *memory(r, i) = (tpi_loop_mem){.type = type(r), .written = written, .node = i};
        eat(r, ",");
    }
    expect(r, "{");
    end_line(r);
}

static void each(reader *r)
{
    if (r->n_open == MOST_REGIONS)
        bad(r, "fewer regions");
    const int at = tpi_loop_add(r->l, (tpi_loop_stmt){.kind = TPI_LOOP_EACH});
    while (!eat(r, "{")) {
        const int a = small(r, "i");
        if (a >= TP_MAX_RANK)
            bad(r, "an axis below 8");
        expect(r, "<");
        r->l->size[a] = size(r);
        r->l->rank = a + 1 > r->l->rank ? a + 1 : r->l->rank;
        r->l->kept = at ? r->l->kept : r->l->rank;
        tpi_loop_add(
            r->l, (tpi_loop_stmt){.kind = TPI_LOOP_AXIS, .number = a, .size = r->l->size[a]});
        eat(r, ",");
    }
    r->open[r->n_open++] = at;
}

static void row(reader *r)
{
    const int i = small(r, "t");
    *memory(r, i) = (tpi_loop_mem){.type = type(r), .row = true, .node = -1};
    expect(r, "[");
    r->l->mem[i].size = size(r);
    expect(r, "]");
    tpi_loop_add(r->l,
                 (tpi_loop_stmt){.kind = TPI_LOOP_ROW, .type = r->l->mem[i].type, .number = i});
}

static int address(reader *r)
{
    tpi_loop_at at = {.mem = small(r, *r->p == 't' ? "t" : "v")};
    memory(r, at.mem);
    expect(r, "[");
    if (!eat(r, "i")) {
        at.offset = factor(r);
        if (eat(r, "]"))
            return tpi_loop_add_at(r->l, &at);
        expect(r, "+");
        expect(r, "i");
    }
    do {
        const int64_t a = number(r);
        if (a < 0 || a >= TP_MAX_RANK)
            bad(r, "an axis below 8");
        at.stride[a] = 1;
        if (eat(r, "*"))
            at.stride[a] = factor(r);
    } while (eat(r, "+ i"));
    expect(r, "]");
    return tpi_loop_add_at(r->l, &at);
}

static void in(reader *r, tpi_loop_stmt *s)
{
    int n = 0;
    do {
        if (n == 3)
            bad(r, "three operands");
        s->in[n++] = small(r, "x");
    } while (eat(r, ","));
}

static uint8_t type_of(const reader *r, int x)
{
    return x >= 0 && x < r->l->n_stmts ? r->l->stmt[x].type : 0;
}

/* "f32 1.5", "f32 size n" */
static void literal(reader *r, tpi_loop_stmt *s)
{
    skip_spaces(r);
    s->kind = TPI_LOOP_COUNT;
    if (eat(r, "size")) {
        s->size = size(r);
        return;
    }
    s->kind = TPI_LOOP_CONST;
    const char *end = tpi_scan_element(r->p, r->limit, (tp_dtype)s->type, &s->size);
    if (!end)
        bad(r, "an element");
    r->p = end;
}

/* "sum lanes x4" */
static bool fold(reader *r, tpi_loop_stmt *s)
{
    static const char *const orders[] = {
#define ORDER(name) #name,
#include "lower/order.def"
#undef ORDER
    };
    const char *const from = r->p;
    const int kind = find(r, TPI_N_REDUCES, tpi_fold_name),
              order = find(r, TPI_N_ORDERS, orders);
    if (kind < 0 || order < 0) {
        r->p = from;
        return false;
    }
    s->kind = TPI_LOOP_FOLD;
    s->fold = (uint8_t)kind;
    s->order = (uint8_t)order;
    in(r, s);
    s->type = type_of(r, s->in[0]);
    return true;
}

enum { IS_FLOAT, IS_NUM = 0, IS_BIT = 0, IS_ANY = 0, IS_COMPARE };
static const bool compares[TPI_N_OPS] = {
#define ELEM(class, n_in, name, effort) [TPI_OP_##name] = IS_##class,
#include "kernel/text/elem.def"
#undef ELEM
};

static void op(reader *r, tpi_loop_stmt *s)
{
    const size_t n = word(r);
    s->kind = TPI_LOOP_OP;
    s->op = tpi_op_find(r->p, n);
    if (!s->op)
        bad(r, "an op");
    r->p += n;
    const int to = maybe_type(r);
    in(r, s);
    int last = 2;
    while (last > 0 && s->in[last] < 0)
        last--;
    s->type = to >= 0 ? (uint8_t)to : compares[s->op->code] ? TP_BOOL : type_of(r, s->in[last]);
}

static void value(reader *r)
{
    tpi_loop_stmt s = {
        .in = {-1, -1, -1}
    };
    if (small(r, "x") != r->l->n_stmts)
        bad(r, "the number of the statement before it");
    expect(r, "=");
    skip_spaces(r);
    if ((*r->p == 'v' || *r->p == 't') && r->p[1] >= '0' && r->p[1] <= '9') {
        s.kind = TPI_LOOP_LOAD;
        s.number = address(r);
        s.type = r->l->mem[r->l->at[s.number].mem].type;
    } else {
        const int t = maybe_type(r);
        s.type = (uint8_t)(t < 0 ? 0 : t);
        if (t >= 0)
            literal(r, &s);
        else if (!fold(r, &s))
            op(r, &s);
    }
    tpi_loop_add(r->l, s);
}

static void store(reader *r)
{
    tpi_loop_stmt s = {
        .kind = TPI_LOOP_STORE, .in = {-1, -1, -1},
             .number = address(r)
    };
    s.type = r->l->mem[r->l->at[s.number].mem].type;
    expect(r, "=");
    s.in[0] = small(r, "x");
    tpi_loop_add(r->l, s);
}

static void statement(reader *r)
{
    skip_spaces(r);
    if (eat(r, "}")) {
        if (r->n_open == 0)
            bad(r, "the end");
        tpi_loop_end(r->l, r->open[--r->n_open]);
    } else if (eat(r, "each")) {
        each(r);
    } else if (eat(r, "row")) {
        skip_spaces(r);
        row(r);
    } else if (*r->p == 'x') {
        value(r);
    } else {
        store(r);
    }
    end_line(r);
}

bool loop_read(tpi_bump *memory, tp_graph *g, const char *text, tpi_loop *out,
               char why[LOOP_READ_WHY])
{
    reader r = {.l = out, .p = text, .limit = text + strlen(text), .why = why, .line = 1};
    *out = (tpi_loop){.memory = memory, .dims = g->dims};
    if (setjmp(r.out))
        return false;
    operands(&r);
    do
        statement(&r);
    while (r.n_open > 0);
    expect(&r, "}");
    end_line(&r);
    if (memory->failed)
        bad(&r, "memory");
    return true;
}

bool loop_same_text(tp_graph *g, const tpi_loop *l, char why[LOOP_READ_WHY])
{
    tpi_bump memory = TPI_BUMP(&g->ctx->mem);
    tpi_loop again;
    tpi_str first = TPI_STR(&g->ctx->mem), second = TPI_STR(&g->ctx->mem);
    tpi_loop_print(l, 0, &first);
    bool same = loop_read(&memory, g, first.text, &again, why);
    if (same) {
        for (int i = 0; i < l->n_stmts && i < again.n_stmts; i++)
            again.stmt[i].node = l->stmt[i].node; /* places are no part of it */
        tpi_loop_print(&again, 0, &second);
        same = strcmp(first.text, second.text) == 0;
        if (!same)
            snprintf(why, LOOP_READ_WHY, "it reads as another program");
    }
    tpi_bump_free(&memory);
    tpi_str_free(&first);
    tpi_str_free(&second);
    return same;
}

char *loop_read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    if (!f || fread(text, 1, (1 << 16) - 1, f) == 0)
        text[0] = 0;
    if (f)
        fclose(f);
    return text;
}
