/* Saving and loading the state of a training. */
#include "tapir/state.h"

#include "train/safetensors.h"
#include "ir/notation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A variable, or a counter, or else the random numbers. */
typedef struct entry {
    char *name;
    tp_tensor *t; /* one reference */
    int64_t *counter;
} entry;

struct tp_state {
    tpi_owned base;
    tp_ctx *ctx;
    entry *entries;
    int n, size;
    bool spoiled; /* something could not be added */
};

/* ---- making ------------------------------------------------------------------------------------------- */

static void free_state(tpi_owned *o)
{
    tp_state *s = (tp_state *)o;
    tpi_mem *mem = &s->ctx->mem;
    for (int i = 0; i < s->n; i++) {
        tpi_strfree(s->ctx, s->entries[i].name);
        if (s->entries[i].t)
            tpi_unref(s->entries[i].t);
    }
    tpi_give_back(mem, s->entries, (size_t)s->size * sizeof *s->entries);
    tpi_give_back(mem, s, sizeof *s);
}

tp_state *tp_state_new_at(const char *file, int line, tp_ctx *tp)
{
    tp_state *s = tp ? tpi_take(&tp->mem, sizeof *s) : NULL;
    if (!s) {
        if (tp)
            tpi_no_memory(tp, TPI_AT(file, line), "tp_state_new");
        return NULL;
    }
    *s = (tp_state){.ctx = tp};
    tpi_object_add(tp, &s->base, free_state);
    return s;
}

TPI_BARE(tp_state *, tp_state_new, (tp_ctx * tp), tp)

void tp_state_free(tp_state *s)
{
    if (!s)
        return;
    tpi_object_remove(&s->base);
    free_state(&s->base);
}

/* ---- adding ------------------------------------------------------------------------------------------- */

static bool is_utf8(const char *text)
{
    const char *limit = text + strlen(text);
    int n = 1;
    for (; text < limit && n > 0; text += n)
        n = tpi_utf8_length(text, limit);
    return n > 0;
}

static tp_status refuse_name(tpi_at at, const char *what, const tp_state *s, const char *name)
{
    if (!name)
        return tpi_fail_status(s->ctx, at, what, TP_E_NULL, "the name is NULL");
    if (!*name || !is_utf8(name) || strcmp(name, "__metadata__") == 0)
        return tpi_fail_status(s->ctx, at, what, TP_E_NAME, "\"%.60s\" cannot be a name: %s",
                               name,
                               !*name           ? "it is empty"
                               : !is_utf8(name) ? "it is no UTF-8"
                                                : "the format has it for itself");
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->entries[i].name, name) == 0)
            return tpi_fail_status(s->ctx, at, what, TP_E_NAME,
                                   "the state has a \"%.150s\" already", name);
    return TP_OK;
}

static tp_status add(tpi_at at, const char *what, tp_state *s, const char *name, entry e)
{
    tp_status status = refuse_name(at, what, s, name);
    if (status != TP_OK)
        return status;
    entry *v = tpi_grow(&s->ctx->mem, s->entries, s->n, &s->size, sizeof *v);
    s->entries = v ? v : s->entries;
    e.name = v ? tpi_strdup(s->ctx, name) : NULL;
    if (!e.name)
        return (tp_status)tpi_no_memory(s->ctx, at, what)->status;
    if (e.t)
        tpi_ref(e.t);
    v[s->n++] = e;
    return TP_OK;
}

static tp_status spoil(tp_state *s, tp_status status)
{
    s->spoiled |= status != TP_OK;
    return status;
}

static tp_status refuse_variable(tpi_at at, const char *what, const tp_state *s,
                                 const tp_tensor *t)
{
    if (!tpi_is_live(t) || t->status != TP_OK || t->ctx != s->ctx)
        return tp_status_of(tpi_refuse_operand(s->ctx, at, what, 0, t));
    if (t->graph || !(t->flags & TPI_STATE))
        return tpi_fail_status(s->ctx, at, what, t->graph ? TP_E_SYMBOLIC : TP_E_STATE,
                               "the tensor is no variable of its own (tp_variable makes one)");
    for (int i = 0; i < s->n; i++)
        if (s->entries[i].t == t)
            return tpi_fail_status(s->ctx, at, what, TP_E_NAME,
                                   "the state has this variable already, as \"%.150s\"",
                                   s->entries[i].name);
    return TP_OK;
}

tp_status tp_state_add_at(const char *file, int line, tp_state *s, const char *name,
                          tp_tensor *variable)
{
    const tpi_at at = TPI_AT(file, line);
    const char *what = "tp_state_add";
    if (!s)
        return tpi_fail_status(tp_ctx_of(variable), at, what, TP_E_NULL, "the state is NULL");
    TPI_ALONE_STATUS(s->ctx, at, what);
    const tp_status status = refuse_variable(at, what, s, variable);
    if (status != TP_OK)
        return spoil(s, status);
    return spoil(s, add(at, what, s, name ? name : variable->name, (entry){.t = variable}));
}

TPI_BARE(tp_status, tp_state_add, (tp_state * s, const char *name, tp_tensor *variable), s,
         name, variable)

tp_status tp_state_add_counter_at(const char *file, int line, tp_state *s, const char *name,
                                  int64_t *counter)
{
    const tpi_at at = TPI_AT(file, line);
    const char *what = "tp_state_add_counter";
    if (!s)
        return TP_E_NULL;
    TPI_ALONE_STATUS(s->ctx, at, what);
    if (!counter)
        return spoil(s, tpi_fail_status(s->ctx, at, what, TP_E_NULL, "the counter is NULL"));
    return spoil(s, add(at, what, s, name, (entry){.counter = counter}));
}

TPI_BARE(tp_status, tp_state_add_counter, (tp_state * s, const char *name, int64_t *counter), s,
         name, counter)

tp_status tp_state_add_random_at(const char *file, int line, tp_state *s)
{
    const tpi_at at = TPI_AT(file, line);
    if (!s)
        return TP_E_NULL;
    TPI_ALONE_STATUS(s->ctx, at, "tp_state_add_random");
    return spoil(s, add(at, "tp_state_add_random", s, "random", (entry){0}));
}

TPI_BARE(tp_status, tp_state_add_random, (tp_state * s), s)

/* ---- saving ------------------------------------------------------------------------------------------- */

enum { NUMBER = 48 }; /* room for the text of a counter, or of two numbers */

static tp_status refuse_spoiled(tpi_at at, const char *what, const tp_state *s)
{
    if (s->spoiled)
        return tpi_fail_status(s->ctx, at, what, TP_E_STATE,
                               "the state lacks what could not be added to it");
    for (int i = 0; i < s->n; i++)
        if (s->entries[i].t && s->entries[i].t->status != TP_OK)
            return tp_status_of(tpi_refuse_operand(s->ctx, at, what, i, s->entries[i].t));
    return TP_OK;
}

static tpi_st_item item_of(const tp_state *s, const entry *e, char *text)
{
    if (e->counter)
        tpi_print(text, NUMBER, "%" PRId64, *e->counter);
    else if (!e->t)
        tpi_print(text, NUMBER, "%" PRIu64 " %" PRIu64, s->ctx->seed, s->ctx->random_at);
    return (tpi_st_item){.name = e->name, .text = text, .t = e->t};
}

static tp_status save(tpi_at at, const char *what, const tp_state *s, const char *path)
{
    const size_t each = sizeof(tpi_st_item) + NUMBER, n = (size_t)s->n;
    tpi_st_item *items = tpi_take(&s->ctx->mem, n * each);
    if (!items)
        return (tp_status)tpi_no_memory(s->ctx, at, what)->status;
    char *texts = (char *)(items + n);
    for (size_t i = 0; i < n; i++)
        items[i] = item_of(s, &s->entries[i], texts + i * NUMBER);
    tpi_file_error e;
    const bool ok = tpi_safetensors_save(&s->ctx->mem, &s->ctx->undone, path, s->n, items, &e);
    tpi_give_back(&s->ctx->mem, items, n * each);
    return ok ? TP_OK : tpi_fail_status(s->ctx, at, what, e.status, "%s", e.text);
}

tp_status tp_state_save_at(const char *file, int line, tp_state *s, const char *path)
{
    const tpi_at at = TPI_AT(file, line);
    const char *what = "tp_state_save";
    if (!s)
        return TP_E_NULL;
    TPI_ALONE_STATUS(s->ctx, at, what);
    tpi_look_at_all(s->ctx, at, TPI_LOOK_SHOW);
    const tp_status status = refuse_spoiled(at, what, s);
    return status == TP_OK ? save(at, what, s, path) : status;
}

TPI_BARE(tp_status, tp_state_save, (tp_state * s, const char *path), s, path)

/* ---- loading ------------------------------------------------------------------------------------------ */

typedef struct loading {
    tpi_at at;
    const char *what, *path, *pattern;
    tp_state *s;
    tpi_safetensors f;
} loading;

/* Does the pattern, in which * stands for any characters, fit all of the name? */
static bool fits(const char *pattern, const char *name)
{
    const char *star = NULL,
               *from = NULL; /* behind the last *, and what comes after what it stands for */
    if (!pattern)
        return true;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

static bool is_alike(const tpi_st_tensor *a, const tp_tensor *t)
{
    bool same = a->type->dtype == (tp_dtype)t->dtype && a->rank == t->rank;
    for (int i = 0; i < t->rank && same; i++)
        same = a->shape[i] == t->shape[i];
    return same;
}

typedef enum mismatch { NONE, MISSING, OTHER, TOO_MUCH, N_MISMATCHES } mismatch;

static mismatch compare(const loading *l, const entry *e)
{
    if (!fits(l->pattern, e->name))
        return NONE;
    if (!e->t)
        return tpi_safetensors_text(&l->f, e->name) ? NONE : MISSING;
    const tpi_st_tensor *in = tpi_safetensors_find(&l->f, e->name);
    return !in ? MISSING : is_alike(in, e->t) ? NONE : OTHER;
}

static bool has(const tp_state *s, const char *name)
{
    bool is = false;
    for (int i = 0; i < s->n && !is; i++)
        is = s->entries[i].t && strcmp(s->entries[i].name, name) == 0;
    return is;
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

/* "w is F32 [2, 3] and should be f64 [3]" */
static void put_other(tpi_str *out, const tpi_st_tensor *in, const tp_tensor *t)
{
    tpi_str_printf(out, " is %s [", in->type->name);
    for (int a = 0; a < in->rank; a++)
        tpi_str_printf(out, "%s%" PRId64, a ? ", " : "", in->shape[a]);
    tpi_str_printf(out, "] and should be %s %s", tp_dtype_name((tp_dtype)t->dtype), SHAPE(t));
}

/* All that does not fit. */
static void put_mismatches(const loading *l, tpi_str *out)
{
    for (mismatch kind = MISSING; kind <= OTHER; kind++) {
        int n = 0;
        for (int i = 0; i < l->s->n; i++) {
            const entry *e = &l->s->entries[i];
            if (compare(l, e) != kind)
                continue;
            put_name(out, kind, n++, e->name);
            if (kind == OTHER && n <= 4)
                put_other(out, tpi_safetensors_find(&l->f, e->name), e->t);
        }
        put_more(out, n);
    }
    int n = 0;
    for (int i = 0; i < l->f.n_tensors; i++)
        if (fits(l->pattern, l->f.tensors[i].name) && !has(l->s, l->f.tensors[i].name))
            put_name(out, TOO_MUCH, n++, l->f.tensors[i].name);
    put_more(out, n);
}

static tp_status refuse_mismatches(const loading *l)
{
    int n = 0;
    for (int i = 0; i < l->s->n; i++)
        n += fits(l->pattern, l->s->entries[i].name);
    if (l->pattern && n == 0)
        return tpi_fail_status(l->s->ctx, l->at, l->what, TP_E_NAME,
                               "nothing of the state has a name like \"%.150s\"", l->pattern);
    tpi_str out = TPI_STR(&l->s->ctx->mem);
    put_mismatches(l, &out);
    tp_status status = TP_OK;
    if (out.failed)
        status = (tp_status)tpi_no_memory(l->s->ctx, l->at, l->what)->status;
    else if (out.len)
        status = tpi_fail_status(l->s->ctx, l->at, l->what, TP_E_NAME,
                                 "what %s has does not fit: %s", l->path, out.text);
    tpi_str_free(&out);
    return status;
}

/* A number in decimal; NULL: there is none. */
static const char *scan_natural(const char *p, uint64_t *v)
{
    const char *first = p;
    for (*v = 0; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, *p - '0', v))
            return NULL;
    return p > first ? p : NULL;
}

static bool read_counter(const char *text, int64_t *v)
{
    const char *end = text + strlen(text);
    return tpi_scan_i64(text, end, v) == end;
}

static bool read_random(const char *text, uint64_t *seed, uint64_t *position)
{
    const char *end = scan_natural(text, seed);
    end = end && *end == ' ' ? scan_natural(end + 1, position) : NULL;
    return end && !*end;
}

/* Before anything changes: what could fail then. */
static tp_status prepare(const loading *l, const entry *e)
{
    tp_ctx *ctx = l->s->ctx;
    if (e->t)
        return tpi_count(e->t) == 0 || tpi_may_write(e->t)
                   ? TP_OK
                   : (tp_status)tpi_no_memory(ctx, l->at, l->what)->status;
    const char *text = tpi_safetensors_text(&l->f, e->name);
    int64_t counter;
    uint64_t seed, position;
    return (e->counter ? read_counter(text, &counter) : read_random(text, &seed, &position))
               ? TP_OK
               : tpi_fail_status(ctx, l->at, l->what, TP_E_FORMAT,
                                 "%s: the text of \"%.60s\" is \"%.60s\", which is no number",
                                 l->path, e->name, text);
}

static void fill(const loading *l, const entry *e)
{
    if (e->t) {
        tpi_safetensors_copy(&l->f, tpi_safetensors_find(&l->f, e->name), e->t->data);
        e->t->buf->version++;
        return;
    }
    const char *text = tpi_safetensors_text(&l->f, e->name);
    if (e->counter)
        read_counter(text, e->counter);
    else
        read_random(text, &l->s->ctx->seed, &l->s->ctx->random_at);
}

static tp_status load(const loading *l)
{
    tp_status status = refuse_mismatches(l);
    for (int i = 0; i < l->s->n && status == TP_OK; i++)
        if (fits(l->pattern, l->s->entries[i].name))
            status = prepare(l, &l->s->entries[i]);
    for (int i = 0; i < l->s->n && status == TP_OK; i++)
        if (fits(l->pattern, l->s->entries[i].name))
            fill(l, &l->s->entries[i]);
    return status;
}

tp_status tp_state_load_at(const char *file, int line, tp_state *s, const char *path,
                           const char *pattern)
{
    loading l = {TPI_AT(file, line), "tp_state_load", path, pattern, s, {0}};
    if (!s)
        return TP_E_NULL;
    TPI_ALONE_STATUS(s->ctx, l.at, l.what);
    tpi_look_at_all(s->ctx, l.at, TPI_LOOK_OTHER);
    tp_status status = refuse_spoiled(l.at, l.what, s);
    if (status != TP_OK)
        return status;
    tpi_file_error e;
    if (!tpi_safetensors_open(&s->ctx->mem, path, &l.f, &e))
        return tpi_fail_status(s->ctx, l.at, l.what, e.status, "%s", e.text);
    status = load(&l);
    tpi_safetensors_close(&l.f);
    return status;
}

TPI_BARE(tp_status, tp_state_load, (tp_state * s, const char *path, const char *pattern), s,
         path, pattern)
