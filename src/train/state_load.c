/* Loading what a training saved, and what others did under names and in layouts of their own.
 *
 * A table of rows says to which variables the tensors of a file go; loading one's own file is the table of the one row
 * {"*", "*"}. First it is found what each variable is made of (find_sources), then whether that is all and fits
 * (refuse_mismatches), then all that may fail is done (prepare), and at last elements are copied (fill). */
#include "core/copy.h"
#include "train/archive_def.h"
#include "train/pattern.h"
#include "train/state_def.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the file, and how it is part of a variable. */
typedef struct source {
    const tpi_stored *in;
    const tp_transfer *row;
    struct source *next; /* of the same variable, by a later row */
    tp_tensor *ready;    /* one reference: its elements, where reading them may fail */
} source;

/* An entry that is loaded. */
typedef struct target {
    const tpi_state_entry *e;
    source *first;
} target;

typedef struct loading {
    tpi_at at;
    const char *what, *path, *pattern;
    int n_rows;
    const tp_transfer *rows;
    tp_state *s;
    tp_archive a;
    tpi_bump bump;
    target *targets; /* sorted by name */
    int n;
    bool *extra;   /* [a.n]: it goes nowhere, and no row says so */
    char *scratch; /* room for the largest tensor that is not copied as it is */
} loading;

static tp_status no_memory(const loading *l)
{
    return (tp_status)tpi_no_memory(l->s->ctx, l->at, l->what)->status;
}

/* ---- the table -------------------------------------------------------------------------------------- */

/* The next pieces of "0 3 1-2", from *first to *last; false: there are none, *at is NULL, if the text is wrong. */
static bool next_pieces(const char **at, int pieces, int *first, int *last)
{
    int64_t v[2];
    int n = 0;
    while (**at == ' ')
        ++*at;
    if (!**at)
        return false;
    do {
        if (n)
            ++*at;
        const char *digits = *at;
        for (v[n] = 0; **at >= '0' && **at <= '9' && v[n] < pieces; ++*at)
            v[n] = v[n] * 10 + **at - '0';
        if (*at == digits || v[n] >= pieces)
            return *at = NULL, false;
    } while (++n < 2 && **at == '-');
    *first = (int)v[0];
    *last = (int)v[n - 1];
    if (*last < *first || (**at && **at != ' '))
        *at = NULL;
    return *at;
}

/* How many pieces a row takes; 0: what it says is none. */
static int count_taken(const tp_transfer *row)
{
    const char *at = row->take;
    int first, last;
    int64_t n = 0;
    while (at && n <= INT32_MAX && next_pieces(&at, row->pieces, &first, &last))
        n += (int64_t)last - first + 1;
    return at && n <= INT32_MAX ? (int)n : 0;
}

static tp_status check_rows(const loading *l)
{
    for (int i = 0; i < l->n_rows; i++) {
        const tp_transfer *row = &l->rows[i];
        const char *why = NULL;
        tp_status status = TP_E_VALUE;
        if (!row->from)
            why = "has no `from`", status = TP_E_NULL;
        else if (tpi_pattern_stars(row->from) > TPI_MOST_STARS)
            why = "has more than 8 *";
        else if (row->to && tpi_pattern_stars(row->to) > tpi_pattern_stars(row->from))
            why = "has more * on the right than on the left";
        else if (row->pieces < 0 || !row->pieces != !row->take ||
                 (row->take && !count_taken(row)))
            why = "takes what are no pieces";
        if (why)
            return tpi_fail_status(l->s->ctx, l->at, l->what, status, "row %d (\"%.100s\") %s",
                                   i, row->from ? row->from : "", why);
    }
    return TP_OK;
}

/* ---- what goes where -------------------------------------------------------------------------------- */

static bool fits(const loading *l, const char *name)
{
    return !l->pattern || tpi_pattern_fits(l->pattern, name, NULL);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const target *)a)->e->name, ((const target *)b)->e->name);
}

static tp_status list_targets(loading *l)
{
    const tp_state *s = l->s;
    l->targets = tpi_bump_take(&l->bump, (size_t)s->n, sizeof *l->targets);
    l->extra = tpi_bump_take(&l->bump, (size_t)l->a.n, sizeof *l->extra);
    if (!l->extra)
        return no_memory(l);
    for (int i = 0; i < s->n; i++)
        if (fits(l, s->entries[i].name))
            l->targets[l->n++].e = &s->entries[i];
    if (l->pattern && l->n == 0)
        return tpi_fail_status(s->ctx, l->at, l->what, TP_E_NAME,
                               "nothing of the state has a name like \"%.150s\"", l->pattern);
    qsort(l->targets, (size_t)l->n, sizeof *l->targets, by_name);
    return TP_OK;
}

static target *find_target(const loading *l, const char *name)
{
    const tpi_state_entry e = {.name = (char *)name};
    const target key = {.e = &e};
    target *t = l->n ? bsearch(&key, l->targets, (size_t)l->n, sizeof key, by_name) : NULL;
    return t && t->e->t ? t : NULL;
}

/* Sources are in the order of their rows. */
static tp_status add_source(loading *l, target *t, const tpi_stored *in, const tp_transfer *row)
{
    source **at = &t->first, *new = tpi_bump_take(&l->bump, 1, sizeof *new);
    if (!new)
        return no_memory(l);
    while (*at && (*at)->row < row)
        at = &(*at)->next;
    if (*at && (*at)->row == row)
        return tpi_fail_status(l->s->ctx, l->at, l->what, TP_E_NAME,
                               "one row makes \"%.60s\" of both \"%.60s\" and \"%.60s\"",
                               t->e->name, (*at)->in->entry.name, in->entry.name);
    *new = (source){.in = in, .row = row, .next = *at};
    *at = new;
    return TP_OK;
}

/* By one row, which fits the name so. */
static tp_status go_by(loading *l, int i, const tp_transfer *row, const tpi_stars *stars)
{
    if (!row->to)
        return TP_OK;
    tpi_str name = TPI_STR(&l->s->ctx->mem);
    tpi_str_put(&name, "");
    tpi_pattern_put(&name, row->to, stars);
    target *t = name.failed ? NULL : find_target(l, name.text);
    const bool failed = name.failed;
    tpi_str_free(&name);
    l->extra[i] |= !t;
    return failed ? no_memory(l) : t ? add_source(l, t, &l->a.tensors[i], row) : TP_OK;
}

/* The first row that fits says it, and all of the same `from`. */
static tp_status find_sources(loading *l)
{
    tp_status status = TP_OK;
    for (int i = 0; i < l->a.n && status == TP_OK; i++) {
        const char *name = l->a.tensors[i].entry.name;
        tpi_stars stars;
        int k = 0;
        if (!fits(l, name))
            continue;
        while (k < l->n_rows && !tpi_pattern_fits(l->rows[k].from, name, &stars))
            k++;
        l->extra[i] = k == l->n_rows;
        for (int first = k; k < l->n_rows && status == TP_OK; k++)
            if (strcmp(l->rows[k].from, l->rows[first].from) == 0)
                status = go_by(l, i, &l->rows[k], &stars);
    }
    return status;
}

/* ---- does it fit? ----------------------------------------------------------------------------------- */

/* The shape that a source has when it is part of the variable; false: its pieces are not equal, or it has none. */
static bool part_shape(const source *p, int64_t shape[TP_MAX_RANK])
{
    const tp_archive_entry *e = &p->in->entry;
    const int rank = e->rank, pieces = p->row->pieces;
    memcpy(shape, e->shape, sizeof e->shape);
    if (p->row->turn && rank >= 2) {
        shape[rank - 1] = e->shape[rank - 2];
        shape[rank - 2] = e->shape[rank - 1];
    }
    if (!pieces)
        return true;
    if (rank == 0 || shape[rank - 1] % pieces)
        return false;
    return !__builtin_mul_overflow(shape[rank - 1] / pieces, count_taken(p->row),
                                   &shape[rank - 1]);
}

/* The shape of all sources side by side; false: they do not lie so. */
static bool whole_shape(const source *first, int64_t shape[TP_MAX_RANK])
{
    const int rank = first->in->entry.rank;
    if (!part_shape(first, shape))
        return false;
    for (const source *p = first->next; p; p = p->next) {
        int64_t part[TP_MAX_RANK];
        bool same = p->in->entry.rank == rank && rank > 0 && part_shape(p, part) &&
                    p->in->raw.dtype == first->in->raw.dtype;
        for (int i = 0; i + 1 < rank && same; i++)
            same = part[i] == shape[i];
        if (!same || __builtin_add_overflow(shape[rank - 1], part[rank - 1], &shape[rank - 1]))
            return false;
    }
    return true;
}

static bool is_alike(const target *t)
{
    int64_t shape[TP_MAX_RANK];
    const tp_tensor *v = t->e->t;
    bool same = whole_shape(t->first, shape) && t->first->in->entry.rank == v->rank &&
                t->first->in->raw.dtype == (tp_dtype)v->dtype;
    for (int i = 0; i < v->rank && same; i++)
        same = shape[i] == v->shape[i];
    return same;
}

typedef enum mismatch { NONE, MISSING, OTHER, TOO_MUCH } mismatch;

static mismatch compare(const loading *l, const target *t)
{
    if (!t->e->t)
        return tp_archive_text(&l->a, t->e->name) ? NONE : MISSING;
    return !t->first ? MISSING : is_alike(t) ? NONE : OTHER;
}

static void put_name(tpi_str *out, mismatch kind, int nth, const char *name)
{
    static const char *const heads[] = {"", "missing", "of another type or shape", "too much"};
    enum { MOST = 4 };
    if (nth == 0)
        tpi_str_printf(out, "%s%s: ", out->len ? "; " : "", heads[kind]);
    if (nth < MOST)
        tpi_str_printf(out, "%s%.60s", nth ? ", " : "", name);
}

static void put_more(tpi_str *out, int n)
{
    if (n > 4)
        tpi_str_printf(out, " and %d more", n - 4);
}

static void put_shape(tpi_str *out, int rank, const int64_t *shape)
{
    for (int i = 0; i < rank; i++)
        tpi_str_printf(out, "%s%" PRId64, i ? ", " : "[", shape[i]);
    tpi_str_put(out, rank ? "]" : "[]");
}

/* "w is F32 [2, 3] and should be f32 [3]", or "w is made of c F32 [2, 3] and should ..." */
static void put_other(tpi_str *out, const target *t)
{
    const tp_tensor *v = t->e->t;
    for (const source *p = t->first; p; p = p->next) {
        const tp_archive_entry *e = &p->in->entry;
        const bool own = strcmp(e->name, t->e->name) == 0;
        tpi_str_put(out, p == t->first ? own ? " is " : " is made of " : ", ");
        if (!own)
            tpi_str_printf(out, "%.60s ", e->name);
        tpi_str_printf(out, "%s ", e->type);
        put_shape(out, e->rank, e->shape);
    }
    tpi_str_printf(out, " and should be %s ", tp_dtype_name((tp_dtype)v->dtype));
    put_shape(out, v->rank, v->shape);
}

/* All that does not fit. */
static void put_mismatches(const loading *l, tpi_str *out)
{
    for (mismatch kind = MISSING; kind <= OTHER; kind++) {
        int n = 0;
        for (int i = 0; i < l->n; i++) {
            const target *t = &l->targets[i];
            if (compare(l, t) != kind)
                continue;
            put_name(out, kind, n++, t->e->name);
            if (kind == OTHER && n <= 4)
                put_other(out, t);
        }
        put_more(out, n);
    }
    int n = 0;
    for (int i = 0; i < l->a.n; i++)
        if (l->extra[i])
            put_name(out, TOO_MUCH, n++, l->a.tensors[i].entry.name);
    put_more(out, n);
}

static tp_status refuse_mismatches(const loading *l)
{
    tpi_str out = TPI_STR(&l->s->ctx->mem);
    put_mismatches(l, &out);
    tp_status status = TP_OK;
    if (out.failed)
        status = no_memory(l);
    else if (out.len)
        status = tpi_fail_status(l->s->ctx, l->at, l->what, TP_E_NAME,
                                 "what %s has does not fit: %s", l->path, out.text);
    tpi_str_free(&out);
    return status;
}

/* ---- before anything changes: what could fail then -------------------------------------------------- */

static bool is_whole(const target *t)
{
    const source *p = t->first;
    return !p->next && !p->row->pieces && !(p->row->turn && p->in->entry.rank >= 2);
}

static size_t bytes_of(const source *p)
{
    return tpi_archive_count(p->in) * tp_dtype_size(p->in->raw.dtype);
}

static tp_status prepare_source(loading *l, source *p)
{
    if (tpi_archive_copies(p->in))
        return TP_OK;
    tp_tensor *t = tpi_archive_make(p->in, l->s->ctx, l->at, l->what);
    if (t->status != TP_OK)
        return (tp_status)t->status;
    tpi_ref(t);
    p->ready = t;
    return TP_OK;
}

static tp_status prepare_variable(loading *l, const target *t, size_t *scratch)
{
    tp_tensor *v = t->e->t;
    if (tpi_count(v) > 0 && !tpi_may_write(v))
        return no_memory(l);
    tp_status status = TP_OK;
    for (source *p = t->first; p && status == TP_OK; p = p->next) {
        status = prepare_source(l, p);
        if (!p->ready && !is_whole(t) && bytes_of(p) > *scratch)
            *scratch = bytes_of(p);
    }
    return status;
}

static tp_status prepare_text(const loading *l, const tpi_state_entry *e)
{
    const char *text = tp_archive_text(&l->a, e->name);
    if (tpi_state_is_text(e, text))
        return tpi_state_make_room(l->s, e, text) ? TP_OK : no_memory(l);
    return tpi_fail_status(l->s->ctx, l->at, l->what, TP_E_FORMAT,
                           "%s: the text of \"%.60s\" is \"%.60s\", which is no number",
                           l->path, e->name, text);
}

static tp_status prepare(loading *l)
{
    size_t scratch = 0;
    tp_status status = TP_OK;
    for (int i = 0; i < l->n && status == TP_OK; i++) {
        const target *t = &l->targets[i];
        status = t->e->t ? prepare_variable(l, t, &scratch) : prepare_text(l, t->e);
    }
    if (status != TP_OK || !scratch)
        return status;
    l->scratch = tpi_bump_take(&l->bump, scratch, 1);
    return l->scratch ? TP_OK : no_memory(l);
}

/* ---- elements --------------------------------------------------------------------------------------- */

/* Row-major, of the source's own shape. */
static const char *elements(const loading *l, const source *p)
{
    if (p->ready)
        return p->ready->data;
    tpi_archive_copy(p->in, l->scratch);
    return l->scratch;
}

/* Some pieces of it, from place `at` of the variable's last axis on; returns where the next ones go. */
static int64_t fill_pieces(const source *p, const char *from, tp_tensor *v, int64_t at,
                           int64_t first, int64_t n)
{
    const tp_archive_entry *e = &p->in->entry;
    const int last = e->rank - 1;
    const size_t size = tp_dtype_size(p->in->raw.dtype);
    int64_t shape[TP_MAX_RANK], stride[TP_MAX_RANK], step = 1;
    for (int i = last; i >= 0; i--) {
        shape[i] = e->shape[i];
        stride[i] = step;
        step *= e->shape[i];
    }
    if (p->row->turn && last > 0) {
        shape[last] = e->shape[last - 1];
        shape[last - 1] = e->shape[last];
        stride[last] = e->shape[last];
        stride[last - 1] = 1;
    }
    const int64_t each = shape[last] / (p->row->pieces ? p->row->pieces : 1);
    shape[last] = each * n;
    tpi_copy_strided(size, e->rank, shape, v->data + (size_t)at * size, v->stride,
                     from + (size_t)(first * each * stride[last]) * size, stride);
    return at + shape[last];
}

static void fill_parts(const loading *l, const target *t)
{
    int64_t at = 0;
    for (const source *p = t->first; p; p = p->next) {
        const char *from = elements(l, p), *take = p->row->take;
        int first, last;
        if (!take)
            at = fill_pieces(p, from, t->e->t, at, 0, 1);
        while (take && next_pieces(&take, p->row->pieces, &first, &last))
            at = fill_pieces(p, from, t->e->t, at, first, last - first + 1);
    }
}

static void fill(const loading *l, const target *t)
{
    tp_tensor *v = t->e->t;
    if (!v) {
        tpi_state_take_text(l->s, t->e, tp_archive_text(&l->a, t->e->name));
        return;
    }
    const source *p = t->first;
    if (tpi_count(v) == 0)
        return;
    if (!is_whole(t))
        fill_parts(l, t);
    else if (p->ready)
        memcpy(v->data, p->ready->data, tpi_bytes(v));
    else
        tpi_archive_copy(p->in, v->data);
    v->buf->version++;
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static tp_status go(loading *l)
{
    tp_status status = list_targets(l);
    if (status == TP_OK)
        status = find_sources(l);
    if (status == TP_OK)
        status = refuse_mismatches(l);
    if (status == TP_OK)
        status = prepare(l);
    for (int i = 0; i < l->n && status == TP_OK; i++)
        fill(l, &l->targets[i]);
    for (int i = 0; i < l->n; i++)
        for (const source *p = l->targets[i].first; p; p = p->next)
            if (p->ready)
                tpi_unref(p->ready);
    return status;
}

static tp_status load(loading *l)
{
    tp_ctx *ctx = l->s->ctx;
    if (tpi_is_shared(ctx, NULL))
        return (tp_status)tpi_fail_shared(ctx, l->at, l->what)->status;
    tpi_look_at_all(ctx, l->at, TPI_LOOK_OTHER);
    tp_status status = tpi_state_check(l->at, l->what, l->s);
    if (status == TP_OK)
        status = check_rows(l);
    if (status == TP_OK)
        status = tp_scope_begin(ctx);
    if (status != TP_OK)
        return status;
    tpi_file_error e;
    l->bump = TPI_BUMP(&ctx->mem);
    if (tpi_archive_open(&l->a, ctx, l->path, &e)) {
        status = go(l);
        tpi_archive_close(&l->a);
    } else {
        status = tpi_fail_status(ctx, l->at, l->what, e.status, "%s", e.text);
    }
    tpi_bump_free(&l->bump);
    tp_scope_end(ctx);
    return status;
}

tp_status tp_state_load_at(const char *file, int line, tp_state *s, const char *path,
                           const char *pattern)
{
    static const tp_transfer as_it_is = {.from = "*", .to = "*"};
    loading l = {.at = TPI_AT(file, line),
                 .what = "tp_state_load",
                 .path = path,
                 .pattern = pattern,
                 .n_rows = 1,
                 .rows = &as_it_is,
                 .s = s};
    if (!s)
        return TP_E_NULL;
    TPI_ALONE_STATUS(s->ctx, l.at, l.what);
    return load(&l);
}

TPI_BARE(tp_status, tp_state_load, (tp_state * s, const char *path, const char *pattern), s,
         path, pattern)

tp_status tp_state_transfer_at(const char *file, int line, tp_state *s, const char *path, int n,
                               const tp_transfer *rows)
{
    loading l = {.at = TPI_AT(file, line),
                 .what = "tp_state_transfer",
                 .path = path,
                 .n_rows = n,
                 .rows = rows,
                 .s = s};
    if (!s)
        return TP_E_NULL;
    TPI_ALONE_STATUS(s->ctx, l.at, l.what);
    if (n < 0 || (n && !rows))
        return tpi_fail_status(s->ctx, l.at, l.what, n < 0 ? TP_E_VALUE : TP_E_NULL,
                               "%d rows%s", n, n < 0 ? "" : ", and they are NULL");
    return load(&l);
}

TPI_BARE(tp_status, tp_state_transfer,
         (tp_state * s, const char *path, int n, const tp_transfer *rows), s, path, n, rows)
