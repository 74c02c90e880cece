/* tp_index: the text of an index is read into items, then they are done, one op each:
 *
 *     "1:, ..., -1"   of x [4, 3, 2]   ->   tp_slice(x, 0, 1, TP_END, 1), tp_select(x, 2, -1) */
#include "composite/composite.h"

#include <string.h>

typedef enum item_kind { ROW, RANGE, REST, NEW_AXIS } item_kind;

typedef struct item {
    item_kind kind;
    int column; /* where it begins, from 1 */
    int64_t start, stop, step;
} item;

/* No axis reaches that far, and what lies beyond may be mistaken for a symbolic size. */
#define FAR (((int64_t)1 << 40) - 1)

typedef struct reader {
    tpi_at at;
    tp_tensor *x;
    const char *text, *p;
    tp_tensor *failed;               /* NULL: nothing has been refused */
    item items[2 * TP_MAX_RANK + 1]; /* an axis each, as many new ones, and "..." */
    int n, n_axes;                   /* items; those that take an axis of x each */
    bool has_rest;
} reader;

/* False. The error quotes the text and the column. */
#define REFUSE(r, status, column, fact, ...)                                                   \
    ((r)->failed =                                                                             \
         tpi_fail((r)->x->ctx, (r)->at, "index", (status), "\"%.120s\", column %d: " fact,     \
                  (r)->text, (column), ##__VA_ARGS__),                                         \
     false)

/* ---- reading ------------------------------------------------------------------------------------ */

static int column(const reader *r)
{
    return (int)(r->p - r->text) + 1;
}

static void skip_spaces(reader *r)
{
    r->p += strspn(r->p, " \t\n");
}

static bool skip(reader *r, const char *word)
{
    const size_t n = strlen(word);
    const bool is = strncmp(r->p, word, n) == 0;
    r->p += is ? n : 0;
    skip_spaces(r);
    return is;
}

/* A number, if there is one: true. */
static bool read_number(reader *r, int64_t *v)
{
    const bool minus = *r->p == '-', sign = minus || *r->p == '+';
    const char *p = r->p + sign;
    int64_t n = 0;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++)
        n = n < FAR / 10 ? 10 * n + (*p - '0') : FAR;
    r->p = p;
    skip_spaces(r);
    *v = minus ? -n : n;
    return true;
}

/* start:stop:step, of which each may be missing; the start has been read. */
static bool read_range(reader *r, item *i, bool has_start)
{
    i->kind = RANGE;
    i->step = 1;
    const bool has_stop = read_number(r, &i->stop);
    if (skip(r, ":"))
        read_number(r, &i->step);
    if (i->step == 0)
        return REFUSE(r, TP_E_VALUE, i->column, "the step is 0");
    if (!has_start)
        i->start = i->step > 0 ? 0 : -1;
    if (!has_stop)
        i->stop = TP_END;
    return true;
}

static bool read_item(reader *r, item *i)
{
    *i = (item){.column = column(r)};
    if (skip(r, "...")) {
        i->kind = REST;
        if (r->has_rest)
            return REFUSE(r, TP_E_FORMAT, i->column, "a second \"...\"");
        return r->has_rest = true;
    }
    if (skip(r, "None") || skip(r, "newaxis")) {
        i->kind = NEW_AXIS;
        return true;
    }
    const bool has_start = read_number(r, &i->start);
    r->n_axes++;
    if (skip(r, ":"))
        return read_range(r, i, has_start);
    return has_start || REFUSE(r, TP_E_FORMAT, i->column,
                               "expected a number, a range such as 1:-1, \"...\" or None");
}

static bool read_items(reader *r)
{
    skip_spaces(r);
    do {
        if (r->n == sizeof r->items / sizeof *r->items)
            return REFUSE(r, TP_E_AXIS, column(r), "more than %d entries", r->n);
        if (!read_item(r, &r->items[r->n++]))
            return false;
        if (*r->p && *r->p != ',')
            return REFUSE(r, TP_E_FORMAT, column(r), "expected a comma or the end");
    } while (skip(r, ",") && *r->p);
    return true;
}

/* ---- doing ---------------------------------------------------------------------------------------- */

/* How many axes of x an item takes, and how many the result has for it. */
static int taken(const reader *r, const item *i)
{
    return i->kind == REST ? r->x->rank - r->n_axes : i->kind != NEW_AXIS;
}

static int given(const reader *r, const item *i)
{
    return i->kind == REST ? r->x->rank - r->n_axes : i->kind != ROW;
}

static bool check_axes(reader *r)
{
    int n_taken = 0, n_given = r->x->rank - r->n_axes; /* of what "..." stands for */
    for (int k = 0; k < r->n; k++) {
        const item *i = &r->items[k];
        n_taken += i->kind == ROW || i->kind == RANGE;
        n_given += i->kind == NEW_AXIS || i->kind == RANGE;
        if (n_taken > r->x->rank)
            return REFUSE(r, TP_E_AXIS, i->column, "x %s has %d axes", SHAPE(r->x), r->x->rank);
        if (n_given > TP_MAX_RANK)
            return REFUSE(r, TP_E_AXIS, i->column, "the result has more than %d axes",
                          TP_MAX_RANK);
    }
    return true;
}

static bool check_rows(reader *r)
{
    for (int k = 0, axis = 0; k < r->n; k++) {
        const item *i = &r->items[k];
        const int64_t size = i->kind == ROW ? r->x->shape[axis] : -1;
        if (size >= 0 && (i->start < -size || i->start >= size))
            return REFUSE(r, TP_E_VALUE, i->column, "%lld is out of range for axis %d of x %s",
                          (long long)i->start, axis, SHAPE(r->x));
        axis += taken(r, i);
    }
    return true;
}

/* Ranges and rows, of which the axis goes, then new axes: so no step has more axes than x or the result. */
static tp_tensor *done(const reader *r, tpi_at at)
{
    tp_tensor *y = r->x;
    for (int k = 0, axis = 0; k < r->n; k++) {
        const item *i = &r->items[k];
        if (i->kind == ROW)
            y = tp_select(y, axis, i->start);
        else if (i->kind == RANGE && (i->start != 0 || i->stop != TP_END || i->step != 1))
            y = tp_slice(y, axis, i->start, i->stop, i->step);
        axis += i->kind == ROW ? 0 : taken(r, i);
    }
    for (int k = 0, axis = 0; k < r->n; k++) {
        const item *i = &r->items[k];
        if (i->kind == NEW_AXIS)
            y = tp_unsqueeze(y, axis);
        axis += given(r, i);
    }
    return y;
}

TPI_COMPOSITE(tp_index, (tp_tensor * x, const char *text), x, text)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "index", 0, x);
    if (failed)
        return failed;
    if (!text)
        return tpi_fail(x->ctx, at, "index", TP_E_NULL, "the text is NULL");
    reader r = {.at = at, .x = x, .text = text, .p = text};
    return read_items(&r) && check_axes(&r) && check_rows(&r) ? done(&r, at) : r.failed;
}
