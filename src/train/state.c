/* Saving and loading the state of a training. */
#include "ir/notation.h"
#include "op/random_position.h"
#include "train/archive_def.h"
#include "train/state_def.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ------------------------------------------------------------------------------------------- */

static void free_state(tpi_owned *o)
{
    tp_state *s = (tp_state *)o;
    tpi_mem *mem = &s->ctx->mem;
    for (int i = 0; i < s->n; i++) {
        tpi_strfree(&s->ctx->mem, s->entries[i].name);
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

static tp_status refuse_name(tpi_at at, const char *what, const tp_state *s, const char *name)
{
    if (!name)
        return tpi_fail_status(s->ctx, at, what, TP_E_NULL, "the name is NULL");
    const char *why = tpi_archive_why_no_name(name);
    if (why)
        return tpi_fail_status(s->ctx, at, what, TP_E_NAME, "\"%.60s\" cannot be a name: %s",
                               name, why);
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->entries[i].name, name) == 0)
            return tpi_fail_status(s->ctx, at, what, TP_E_NAME,
                                   "the state has a \"%.150s\" already", name);
    return TP_OK;
}

static tp_status add(tpi_at at, const char *what, tp_state *s, const char *name,
                     tpi_state_entry e)
{
    tp_status status = refuse_name(at, what, s, name);
    if (status != TP_OK)
        return status;
    tpi_state_entry *v = tpi_grow(&s->ctx->mem, s->entries, s->n, &s->size, sizeof *v);
    s->entries = v ? v : s->entries;
    e.name = v ? tpi_strdup(&s->ctx->mem, name) : NULL;
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
    return spoil(
        s, add(at, what, s, name ? name : variable->name, (tpi_state_entry){.t = variable}));
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
    return spoil(s, add(at, what, s, name, (tpi_state_entry){.counter = counter}));
}

TPI_BARE(tp_status, tp_state_add_counter, (tp_state * s, const char *name, int64_t *counter), s,
         name, counter)

tp_status tp_state_add_random_at(const char *file, int line, tp_state *s)
{
    const tpi_at at = TPI_AT(file, line);
    if (!s)
        return TP_E_NULL;
    TPI_ALONE_STATUS(s->ctx, at, "tp_state_add_random");
    return spoil(s, add(at, "tp_state_add_random", s, "random", (tpi_state_entry){0}));
}

TPI_BARE(tp_status, tp_state_add_random, (tp_state * s), s)

/* ---- saving ------------------------------------------------------------------------------------------- */

/* Room for the text of a counter, and of the random numbers: seed and position, and for each other stream that is not
 * where it begins its number and position. */
enum { NUMBER = 48 };

static size_t text_room(const tp_ctx *ctx)
{
    return NUMBER * (1 + (size_t)ctx->n_streams);
}

static void put_random(const tp_ctx *ctx, char *text, size_t room)
{
    size_t n = (size_t)tpi_print(text, room, "%" PRIu64 " %" PRIu64, ctx->seed, ctx->random_at);
    for (int32_t i = 0; i < ctx->n_streams; i++) {
        const tpi_stream *s = &ctx->streams[i];
        if (s->at)
            n += (size_t)tpi_print(text + n, room - n, " %" PRIu64 " %" PRIu64, s->number,
                                   s->at);
    }
}

tp_status tpi_state_check(tpi_at at, const char *what, const tp_state *s)
{
    if (s->spoiled)
        return tpi_fail_status(s->ctx, at, what, TP_E_STATE,
                               "the state lacks what could not be added to it");
    for (int i = 0; i < s->n; i++)
        if (s->entries[i].t && s->entries[i].t->status != TP_OK)
            return tp_status_of(tpi_refuse_operand(s->ctx, at, what, i, s->entries[i].t));
    return TP_OK;
}

static tp_archive_item item_of(const tp_state *s, const tpi_state_entry *e, char *text,
                               size_t room)
{
    if (e->counter)
        tpi_print(text, room, "%" PRId64, *e->counter);
    else if (!e->t)
        put_random(s->ctx, text, room);
    return (tp_archive_item){.name = e->name, .tensor = e->t, .text = text};
}

static tp_status save(tpi_at at, const char *what, const tp_state *s, const char *path)
{
    const size_t room = text_room(s->ctx), each = sizeof(tp_archive_item) + room,
                 n = (size_t)s->n;
    tp_archive_item *items = tpi_take(&s->ctx->mem, n * each);
    if (!items)
        return (tp_status)tpi_no_memory(s->ctx, at, what)->status;
    char *texts = (char *)(items + n);
    for (size_t i = 0; i < n; i++)
        items[i] = item_of(s, &s->entries[i], texts + i * room, room);
    tpi_file_error e;
    const bool ok = tpi_archive_write(s->ctx, path, s->n, items, &e);
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
    const tp_status status = tpi_state_check(at, what, s);
    return status == TP_OK ? save(at, what, s, path) : status;
}

TPI_BARE(tp_status, tp_state_save, (tp_state * s, const char *path), s, path)

/* ---- texts -------------------------------------------------------------------------------------------- */

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

/* The next two numbers, behind a space but for the first. */
static const char *scan_pair(const char *p, bool first, uint64_t *a, uint64_t *b)
{
    p = first ? p : *p == ' ' ? p + 1 : NULL;
    p = p ? scan_natural(p, a) : NULL;
    return p && *p == ' ' ? scan_natural(p + 1, b) : NULL;
}

bool tpi_state_is_text(const tpi_state_entry *e, const char *text)
{
    int64_t counter;
    uint64_t seed, position, stream, last = 0;
    if (e->counter)
        return read_counter(text, &counter);
    const char *p = scan_pair(text, true, &seed, &position);
    while (p && *p) {
        p = scan_pair(p, false, &stream, &position);
        if (!p || stream <= last || stream == UINT64_MAX)
            return false;
        last = stream;
    }
    return p;
}

bool tpi_state_make_room(tp_state *s, const tpi_state_entry *e, const char *text)
{
    uint64_t stream, position;
    bool ok = true;
    const char *p = e->counter ? "" : scan_pair(text, true, &stream, &position);
    while (*p && ok) {
        p = scan_pair(p, false, &stream, &position);
        ok = tpi_stream_add(s->ctx, stream);
    }
    return ok;
}

void tpi_state_take_text(tp_state *s, const tpi_state_entry *e, const char *text)
{
    tp_ctx *ctx = s->ctx;
    if (e->counter) {
        read_counter(text, e->counter);
        return;
    }
    uint64_t stream, position;
    const char *p = scan_pair(text, true, &ctx->seed, &ctx->random_at);
    for (int32_t i = 0; i < ctx->n_streams; i++)
        ctx->streams[i].at = 0;
    while (*p) {
        p = scan_pair(p, false, &stream, &position);
        *tpi_stream_position(ctx, stream) = position;
    }
}
