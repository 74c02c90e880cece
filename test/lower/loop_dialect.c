#include "loop_dialect.h"

#include "base/bump.h"
#include "ir/notation.h"
#include "op/reduction.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 4096, /* points */
    HALVES = 6,   /* of at most 64 lanes, until one is left */
    LEVELS = 48,  /* of the tree over blocks: one of 2^level blocks each */
};

/* The op that takes one more point into a fold. */
static const char *const step_name[TPI_N_REDUCES] = {
    [TPI_REDUCE_SUM] = "add",
    [TPI_REDUCE_PROD] = "mul",
    [TPI_REDUCE_MAX] = "max",
    [TPI_REDUCE_MIN] = "min",
};

typedef struct printer {
    const loop_dialect *d;
    const tpi_loop *l;
    tpi_str *out;
    tpi_bump texts;
    int depth;
} printer;

/* ---- text ---------------------------------------------------------------------------------------------------- */

/* A text of the printer's; an empty one, and `out` failed, when out of memory. */
static const char *keep(printer *p, tpi_str *s)
{
    char *text = s->failed ? NULL : tpi_bump_take(&p->texts, s->len + 1, 1);
    if (text && s->text)
        memcpy(text, s->text, s->len);
    p->out->failed |= !text;
    tpi_str_free(s);
    return text ? text : "";
}

static const char *text(printer *p, const char *form, ...)
    __attribute__((format(printf, 2, 3)));
static const char *text(printer *p, const char *form, ...)
{
    va_list ap;
    va_start(ap, form);
    const int n = tpi_vprint(NULL, 0, form, ap);
    va_end(ap);
    char *to = tpi_bump_take(&p->texts, (size_t)n + 1, 1);
    va_start(ap, form);
    if (to)
        tpi_vprint(to, (size_t)n + 1, form, ap);
    va_end(ap);
    p->out->failed |= !to;
    return to ? to : "";
}

static void put_filled(tpi_str *out, const char *form, const char *const *part)
{
    for (const char *c = form; *c; c++)
        if (*c == '$')
            tpi_str_put(out, part[*++c - '1']);
        else
            tpi_str_add(out, c, 1);
}

static const char *filled(printer *p, const char *form, const char *a, const char *b,
                          const char *c)
{
    tpi_str s = TPI_STR(p->out->mem);
    put_filled(&s, form, (const char *const[]){a, b, c});
    return keep(p, &s);
}

static void line(printer *p, const char *form, const char *a, const char *b, const char *c)
{
    if (!form)
        return;
    tpi_str_printf(p->out, "%*s", 4 * p->depth, "");
    put_filled(p->out, form, (const char *const[]){a, b, c});
    tpi_str_put(p->out, "\n");
}

static void enter(printer *p, const char *form, const char *a, const char *b)
{
    line(p, form, a, b, NULL);
    p->depth++;
}

static void leave(printer *p)
{
    p->depth--;
    line(p, p->d->close, NULL, NULL, NULL);
}

static void assign(printer *p, const char *to, const char *value)
{
    line(p, p->d->assign, to, value, NULL);
}

/* ---- sizes, addresses, values -------------------------------------------------------------------------------- */

static const char *type_name(uint8_t type)
{
    return tp_dtype_name((tp_dtype)type);
}

static const char *mem_name(printer *p, int mem)
{
    return text(p, "%c%d", p->l->mem[mem].row ? 't' : 'v', mem);
}

static const char *value_name(printer *p, int statement)
{
    return text(p, "x%d", statement);
}

/* Of a region: "p7". */
static const char *own(printer *p, const char *what, int each)
{
    return text(p, "%s%d", what, each);
}

/* Of a fold, or its value: "x13_lane[l]"; of no index: "x13_level". */
static const char *part(printer *p, int fold, const char *what, const char *index)
{
    return index ? text(p, "x%d_%s[%s]", fold, what, index) : text(p, "x%d_%s", fold, what);
}

static const char *size_text(printer *p, int64_t size)
{
    int symbol;
    tpi_str s = TPI_STR(p->out->mem);
    if (!tpi_dim_is_symbolic(size))
        return text(p, size < 0 ? "(%" PRId64 ")" : "%" PRId64, size);
    if (p->d->symbol)
        tpi_dim_print_c(p->l->dims, size, p->d->symbol, &s);
    else
        tpi_dim_print(p->l->dims, size, &s);
    const char *sum = keep(p, &s);
    return tpi_dim_as_symbol(p->l->dims, size, &symbol) ? sum : text(p, "(%s)", sum);
}

static const char *element(printer *p, int address)
{
    const tpi_loop_at *at = &p->l->at[address];
    const char *sum = at->offset ? size_text(p, at->offset) : "";
    for (int a = 0; a < p->l->rank; a++) {
        const int64_t stride = at->stride[a];
        if (stride != 0)
            sum = text(p, "%s%si%d%s%s", sum, *sum ? " + " : "", a, stride == 1 ? "" : " * ",
                       stride == 1 ? "" : size_text(p, stride));
    }
    return text(p, "%s[%s]", mem_name(p, at->mem), *sum ? sum : "0");
}

static const char *constant(printer *p, uint8_t type, const void *bits)
{
    uint64_t number = 0;
    tpi_str s = TPI_STR(p->out->mem);
    memcpy(&number, bits, tp_dtype_size((tp_dtype)type));
    tpi_put_element(&s, (tp_dtype)type, bits);
    const char *value = keep(p, &s), *hex = text(p, "0x%" PRIx64, number);
    return filled(p, type >= TP_F32 ? p->d->real : p->d->constant, type_name(type), hex, value);
}

static const char *operation(printer *p, const tpi_loop_stmt *s)
{
    const char *of = type_name(p->l->stmt[s->in[s->op->call_dtype]].type), *in = "";
    for (int o = 0; o < 3 && s->in[o] >= 0; o++)
        in = text(p, "%s%sx%d", in, o ? ", " : "", s->in[o]);
    if (s->op->attrs) /* the type */
        return filled(p, p->d->cast, of, type_name(s->type), in);
    return filled(p, p->d->op, s->op->name, of, in);
}

static const char *value(printer *p, const tpi_loop_stmt *s)
{
    switch ((tpi_loop_kind)s->kind) {
    case TPI_LOOP_CONST:
        return constant(p, s->type, &s->size);
    case TPI_LOOP_COUNT:
        return filled(p, p->d->cast, "i64", type_name(s->type), size_text(p, s->size));
    case TPI_LOOP_LOAD:
        return element(p, s->number);
    default:
        return operation(p, s);
    }
}

/* ---- folds --------------------------------------------------------------------------------------------------- */

static const char *joined(printer *p, const tpi_loop_stmt *fold, const char *a, const char *b)
{
    return filled(p, p->d->op, step_name[fold->fold], type_name(fold->type),
                  text(p, "%s, %s", a, b));
}

/* What a fold of nothing is. */
static const char *identity(printer *p, const tpi_loop_stmt *fold)
{
    const tpi_reduction none = {
        .code = fold->fold, .dtype = (tp_dtype)fold->type, .n_out = 1, .reduced_rank = 1};
    uint64_t bits = 0;
    tpi_reduce_reference(&none, NULL, (char *)&bits);
    return constant(p, fold->type, &bits);
}

/* The folds of a region. */
static int next_fold(const printer *p, int each, int after)
{
    int i = after + 1;
    while (i < p->l->stmt[each].end && p->l->stmt[i].kind != TPI_LOOP_FOLD)
        i = p->l->stmt[i].kind == TPI_LOOP_EACH ? p->l->stmt[i].end : i + 1;
    return i < p->l->stmt[each].end ? i : -1;
}

static int first_fold(const printer *p, int each)
{
    return next_fold(p, each, tpi_loop_inside(p->l, each) - 1);
}

static bool by_lanes(const printer *p, int fold)
{
    return p->l->stmt[fold].order == TPI_ORDER_lanes;
}

static const char *points_of(printer *p, int each)
{
    const char *n = "";
    for (int i = each + 1; i < tpi_loop_inside(p->l, each); i++)
        n = text(p, "%s%s%s", n, *n ? " * " : "", size_text(p, p->l->stmt[i].size));
    return *n ? n : "1";
}

static void begin_lanes(printer *p, int each, int fold)
{
    const tpi_loop_stmt *s = &p->l->stmt[fold];
    line(p, p->d->array, type_name(s->type), part(p, fold, "lane", NULL), "64");
    line(p, p->d->array, type_name(s->type), part(p, fold, "level", NULL),
         text(p, "%d", LEVELS));
    enter(p, p->d->loop, "l", own(p, "lanes", each));
    assign(p, part(p, fold, "lane", "l"), identity(p, s));
    leave(p);
}

/* Before region 7: n7 points, of which p7 have been taken, and each fold with its lanes, or its block. */
static void begin_folds(printer *p, int each)
{
    const int first = first_fold(p, each);
    if (first < 0)
        return;
    line(p, p->d->integer, own(p, "n", each), points_of(p, each), NULL);
    line(p, p->d->integer, own(p, "p", each), "0", NULL);
    if (by_lanes(p, first))
        line(p, p->d->integer, own(p, "lanes", each), text(p, "n%d < 256 ? 16 : 64", each),
             NULL);
    for (int i = first; i >= 0; i = next_fold(p, each, i)) {
        const tpi_loop_stmt *s = &p->l->stmt[i];
        line(p, p->d->variable, type_name(s->type), value_name(p, i), identity(p, s));
        if (by_lanes(p, i))
            begin_lanes(p, each, i);
        else
            line(p, p->d->variable, type_name(s->type), part(p, i, "block", NULL),
                 identity(p, s));
    }
}

/* A point's value goes into the lane whose turn it is, or into the block. */
static void put_step(printer *p, int each, int fold)
{
    const tpi_loop_stmt *s = &p->l->stmt[fold];
    const char *to =
        by_lanes(p, fold)
            ? part(p, fold, "lane", text(p, "p%d %% %d %% lanes%d", each, BLOCK, each))
            : part(p, fold, "block", NULL);
    assign(p, to, joined(p, s, to, value_name(p, s->in[0])));
}

/* One half of the lanes joins the other until one is left, which is the block's; all are empty again. */
static void join_lanes(printer *p, int each, int fold)
{
    const tpi_loop_stmt *s = &p->l->stmt[fold];
    const char *half = text(p, "(lanes%d >> (h + 1))", each),
               *lane = part(p, fold, "lane", "l");
    enter(p, p->d->loop, "h", text(p, "%d", HALVES));
    enter(p, p->d->loop, "l", half);
    assign(p, lane, joined(p, s, lane, part(p, fold, "lane", text(p, "l + %s", half))));
    leave(p);
    leave(p);
    line(p, p->d->variable, type_name(s->type), part(p, fold, "block", NULL),
         part(p, fold, "lane", "0"));
    enter(p, p->d->loop, "l", own(p, "lanes", each));
    assign(p, lane, identity(p, s));
    leave(p);
}

/* Block number b goes into the tree as 1 is added to the binary number b: level k has a value where b has a 1. The
 * block joins these from the lowest on, up to the first level that has none. */
static void push_block(printer *p, int fold)
{
    const tpi_loop_stmt *s = &p->l->stmt[fold];
    const char *block = part(p, fold, "block", NULL), *level = part(p, fold, "level", "k");
    enter(p, p->d->loop, "k", text(p, "%d", LEVELS));
    enter(p, p->d->when, "(b + 1) >> k << k == b + 1", NULL);
    enter(p, p->d->when, "(b >> k) % 2 == 0", NULL);
    assign(p, level, block);
    leave(p);
    enter(p, p->d->when, "(b >> k) % 2 == 1", NULL);
    assign(p, block, joined(p, s, level, block));
    leave(p);
    leave(p);
    leave(p);
}

static void end_block(printer *p, int each, int fold)
{
    const tpi_loop_stmt *s = &p->l->stmt[fold];
    const char *block = part(p, fold, "block", NULL), *to = value_name(p, fold);
    if (by_lanes(p, fold)) {
        join_lanes(p, each, fold);
        push_block(p, fold);
    } else {
        assign(p, to, text(p, "b == 0 ? %s : %s", block, joined(p, s, to, block)));
        assign(p, block, identity(p, s));
    }
}

/* After each point. */
static void end_point(printer *p, int each)
{
    const int first = first_fold(p, each);
    if (first < 0)
        return;
    const char *at = own(p, "p", each);
    assign(p, at, text(p, "%s + 1", at));
    enter(p, p->d->when, text(p, "%s %% %d == 0 || %s == n%d", at, BLOCK, at, each), NULL);
    line(p, p->d->integer, "b", text(p, "(%s - 1) / %d", at, BLOCK), NULL);
    for (int i = first; i >= 0; i = next_fold(p, each, i))
        end_block(p, each, i);
    leave(p);
}

/* What is left of the tree: the lowest level is carried up. */
static void end_folds(printer *p, int each)
{
    const int first = first_fold(p, each);
    if (first < 0 || !by_lanes(p, first))
        return;
    const char *blocks = own(p, "b", each);
    line(p, p->d->integer, blocks, text(p, "(n%d + %d) / %d", each, BLOCK - 1, BLOCK), NULL);
    for (int i = first; i >= 0; i = next_fold(p, each, i)) {
        const char *level = part(p, i, "level", "k"), *to = value_name(p, i);
        enter(p, p->d->loop, "k", text(p, "%d", LEVELS));
        enter(p, p->d->when, text(p, "(%s >> k) %% 2 == 1", blocks), NULL);
        assign(p, to,
               text(p, "%s >> k << k == %s ? %s : %s", blocks, blocks, level,
                    joined(p, &p->l->stmt[i], level, to)));
        leave(p);
        leave(p);
    }
}

/* ---- statements ---------------------------------------------------------------------------------------------- */

static void put_region(printer *p, int each);

static void put_statement(printer *p, int each, int i)
{
    const tpi_loop_stmt *s = &p->l->stmt[i];
    switch ((tpi_loop_kind)s->kind) {
    case TPI_LOOP_EACH:
        put_region(p, i);
        break;
    case TPI_LOOP_ROW:
        line(p, p->d->row, type_name(s->type), mem_name(p, s->number),
             size_text(p, p->l->mem[s->number].size));
        break;
    case TPI_LOOP_STORE:
        assign(p, element(p, s->number), value_name(p, s->in[0]));
        break;
    case TPI_LOOP_FOLD:
        put_step(p, each, i);
        break;
    case TPI_LOOP_AXIS:
    case TPI_LOOP_KINDS:
        break;
    default:
        line(p, p->d->value, type_name(s->type), value_name(p, i), value(p, s));
    }
}

/* The outermost axis has points that need not wait for each other. */
static void put_region(printer *p, int each)
{
    const int inside = tpi_loop_inside(p->l, each), end = p->l->stmt[each].end;
    begin_folds(p, each);
    for (int i = each + 1; i < inside; i++)
        enter(p, i == 1 ? p->d->parallel : p->d->loop, text(p, "i%d", p->l->stmt[i].number),
              size_text(p, p->l->stmt[i].size));
    for (int i = inside; i < end; i++) {
        put_statement(p, each, i);
        i = p->l->stmt[i].kind == TPI_LOOP_EACH ? p->l->stmt[i].end - 1 : i;
    }
    end_point(p, each);
    for (int i = each + 1; i < inside; i++)
        leave(p);
    end_folds(p, each);
}

/* ---- a kernel ------------------------------------------------------------------------------------------------ */

static void put_parameter(printer *p, int *n, const char *form, const char *a, const char *b)
{
    if (!form)
        return;
    tpi_str_put(p->out, (*n)++ ? ", " : "");
    put_filled(p->out, form, (const char *const[]){a, b, NULL});
}

static void put_parameters(printer *p)
{
    const loop_dialect *d = p->d;
    int n = 0;
    for (int rows = 0; rows < 2; rows++)
        for (int i = 0; i < p->l->n_mems; i++) {
            const tpi_loop_mem *m = &p->l->mem[i];
            if (m->row == rows)
                put_parameter(p, &n,
                              rows         ? d->scratch
                              : m->written ? d->out
                                           : d->in,
                              type_name(m->type), mem_name(p, i));
        }
    for (int i = 0; d->symbol && i < tpi_dim_n_symbols(p->l->dims); i++)
        put_parameter(p, &n, d->size, text(p, "%s%d", d->symbol, i), NULL);
}

void loop_print_dialect(const loop_dialect *d, const tpi_loop *l, const char *name,
                        tpi_str *out)
{
    printer p = {.d = d, .l = l, .out = out, .texts = TPI_BUMP(out->mem)};
    put_filled(out, d->kernel, (const char *const[]){name});
    put_parameters(&p);
    tpi_str_put(out, d->begin);
    tpi_str_put(out, "\n");
    p.depth++;
    put_region(&p, 0);
    p.depth--;
    line(&p, d->end, NULL, NULL, NULL);
    tpi_bump_free(&p.texts);
}
