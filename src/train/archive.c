/* Archives: opening, asking, and the tensors themselves. */
#include "base/crc32.h"
#include "train/archive_def.h"
#include "train/inflate.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---------------------------------------------------------------------------------------- */

static bool is_zip(const tpi_file_map *m)
{
    return m->size >= 4 && memcmp(m->data, "PK", 2) == 0 &&
           (memcmp(m->data + 2, "\3\4", 2) == 0 || memcmp(m->data + 2, "\5\6", 2) == 0);
}

/* Of JSON. */
static bool is_object(const tpi_file_map *m)
{
    size_t at = 0;
    while (at < m->size && m->data[at] && strchr(" \t\r\n", m->data[at]))
        at++;
    return at < m->size && m->data[at] == '{';
}

static bool read_any(tpi_archive_reader *r, const tpi_held_file *f)
{
    const tpi_file_map *m = &f->map;
    const bool headed = m->size > 8 && m->data[8] == '{'; /* a length may begin as a zip does */
    if (is_zip(m) && !headed)
        return tpi_npz_read(r, f);
    if (!tpi_is_safetensors(m->data, m->size) && is_object(m))
        return tpi_shards_read(r, f);
    return tpi_safetensors_read(r, f);
}

static bool opened(tp_archive *a, bool ok)
{
    if (!ok)
        tpi_archive_close(a);
    return ok;
}

static void begin(tp_archive *a, tp_ctx *ctx, tpi_file_error *error)
{
    *error = (tpi_file_error){0};
    *a = (tp_archive){.ctx = ctx, .bump = TPI_BUMP(&ctx->mem)};
}

bool tpi_archive_open(tp_archive *a, tp_ctx *ctx, const char *path, tpi_file_error *error)
{
    begin(a, ctx, error);
    tpi_archive_reader r = {a, path ? path : "", error};
    const tpi_held_file *f = tpi_archive_file(&r, path);
    return opened(a, f && read_any(&r, f));
}

bool tpi_archive_parse(tp_archive *a, tp_ctx *ctx, const char *path, const void *bytes,
                       size_t size, tpi_file_error *error)
{
    begin(a, ctx, error);
    tpi_archive_reader r = {a, path, error};
    tpi_held_file *f = tpi_archive_add_file(&r);
    if (f)
        f->map = (tpi_file_map){.data = bytes, .size = size};
    return opened(a, f && read_any(&r, f));
}

void tpi_archive_close(tp_archive *a)
{
    for (int i = 0; i < a->n_files; i++)
        tpi_held_file_release(a->files[i]);
    tpi_bump_free(&a->bump);
}

/* ---- elements --------------------------------------------------------------------------------------- */

void tpi_archive_copy(const tpi_stored *t, void *to)
{
    const tpi_file_map *map = &t->file->map;
    const size_t n = tpi_archive_count(t);
    tpi_file_map_copy(map, tpi_raw_place(&t->raw, n, to), map->data + t->begin,
                      n * t->raw.size);
    tpi_raw_settle(&t->raw, n, to);
}

/* Does what is there have its checksum? */
static bool has_sum(const tpi_stored *t)
{
    tpi_crc32_table table;
    if (!t->summed || t->squeezed)
        return true;
    tpi_crc32_begin(&table);
    const char *first = t->file->map.data + t->begin - t->head;
    return tpi_crc32(&table, 0, first, t->head + (size_t)(t->end - t->begin)) == t->sum;
}

/* To the place of its elements; NULL, or what is wrong. */
static const char *unsqueeze(const tpi_stored *t, tp_ctx *ctx, char *to)
{
    const tpi_squeezed in = {t->file->map.data + t->begin, (size_t)(t->end - t->begin), t->head,
                             tpi_archive_count(t) * t->raw.size};
    uint32_t sum;
    const char *why = tpi_inflate(&ctx->mem, &in, to, &sum);
    return why ? why : sum == t->sum ? NULL : "its checksum is another";
}

const char *tpi_archive_read(const tpi_stored *t, tp_ctx *ctx, char *to)
{
    const size_t n = tpi_archive_count(t), bytes = n * t->raw.size;
    char *at = tpi_raw_place(&t->raw, n, to), *all = NULL;
    if (!has_sum(t))
        return "its checksum is another";
    if (t->squeezed && !t->raw.fortran)
        return unsqueeze(t, ctx, at);
    const char *from = t->file->map.data + t->begin, *why = NULL;
    if (t->squeezed) {
        all = tpi_take(&ctx->mem, bytes);
        why = all ? unsqueeze(t, ctx, all) : tpi_inflate_no_memory;
        from = all;
    }
    if (!why)
        tpi_raw_gather(&t->raw, t->entry.rank, t->entry.shape, from, at);
    tpi_give_back(&ctx->mem, all, bytes);
    return why;
}

static tp_tensor *refuse(const tpi_stored *t, tp_ctx *ctx, tpi_at at, const char *what,
                         const char *why)
{
    const tp_status status = why == tpi_inflate_no_memory ? TP_E_MEMORY : TP_E_FORMAT;
    return tpi_fail(ctx, at, what, status, "\"%.60s\": %s", t->entry.name, why);
}

static tp_tensor *copied(const tpi_stored *t, tp_ctx *ctx, tpi_at at, const char *what)
{
    tp_tensor *out = tpi_tensor_new(ctx, at, t->raw.dtype, t->entry.rank, t->entry.shape);
    if (out->status != TP_OK || tpi_count(out) == 0)
        return out;
    const char *why = tpi_archive_read(t, ctx, out->data);
    if (why)
        return refuse(t, ctx, at, what, why);
    tpi_raw_settle(&t->raw, tpi_archive_count(t), out->data);
    return out;
}

/* Can its elements stay where they are? */
static bool lies_well(const tpi_stored *t)
{
    const char *first = t->file->map.data + t->begin;
    return !t->squeezed && t->end > t->begin &&
           tpi_raw_is_plain(&t->raw, t->entry.rank, t->entry.shape) &&
           (uintptr_t)first % t->raw.size == 0;
}

/* Of a tensor that lies in it. */
static void let_tensor_go(void *user, void *data)
{
    (void)data;
    tpi_held_file_release(user);
}

static tp_tensor *placed(const tpi_stored *t, tp_ctx *ctx, tpi_at at, const char *what)
{
    if (!has_sum(t))
        return refuse(t, ctx, at, what, "its checksum is another");
    tpi_held_file *f = (tpi_held_file *)t->file; /* counts are not what a tensor is */
    tp_tensor *out =
        tp_tensor_wrap_at(at.file, at.line, ctx, t->raw.dtype, t->entry.rank, t->entry.shape,
                          (char *)f->map.data + t->begin, let_tensor_go, f);
    if (out->status == TP_OK) {
        out->buf->lasts = true;
        f->refs++;
    }
    return out;
}

tp_tensor *tpi_archive_make(const tpi_stored *t, tp_ctx *ctx, tpi_at at, const char *what)
{
    if (t->raw.dtype == TP_N_DTYPES)
        return tpi_fail(ctx, at, what, TP_E_DTYPE,
                        "the elements of \"%.60s\" are %s, which no tensor has", t->entry.name,
                        t->entry.type);
    tp_tensor *failed;
    if (!tpi_check_shape(ctx, at, what, t->entry.rank, t->entry.shape, &failed))
        return failed;
    return lies_well(t) ? placed(t, ctx, at, what) : copied(t, ctx, at, what);
}

/* ---- the public functions --------------------------------------------------------------------------- */

static void free_archive(tpi_owned *o)
{
    tp_archive *a = (tp_archive *)o;
    tpi_mem *mem = &a->ctx->mem;
    tpi_archive_close(a);
    tpi_give_back(mem, a, sizeof *a);
}

tp_archive *tp_archive_open_at(const char *file, int line, tp_ctx *tp, const char *path)
{
    const tpi_at at = TPI_AT(file, line);
    static const char what[] = "tp_archive_open";
    if (!tp)
        return NULL;
    TPI_ALONE_OR(tp, at, what, NULL);
    tp_archive *a = tpi_take(&tp->mem, sizeof *a);
    if (!a) {
        tpi_no_memory(tp, at, what);
        return NULL;
    }
    tpi_file_error e;
    if (!tpi_archive_open(a, tp, path, &e)) {
        tpi_give_back(&tp->mem, a, sizeof *a);
        tpi_fail_status(tp, at, what, e.status, "%s", e.text);
        return NULL;
    }
    tpi_object_add(tp, &a->base, free_archive);
    return a;
}

TPI_BARE(tp_archive *, tp_archive_open, (tp_ctx * tp, const char *path), tp, path)

void tp_archive_free(tp_archive *a)
{
    if (!a)
        return;
    tpi_object_remove(&a->base);
    free_archive(&a->base);
}

int tp_archive_n(const tp_archive *a)
{
    return a ? a->n : 0;
}

const tp_archive_entry *tp_archive_entry_of(const tp_archive *a, int i)
{
    return a && i >= 0 && i < a->n ? &a->tensors[i].entry : NULL;
}

const tp_archive_entry *tp_archive_find(const tp_archive *a, const char *name)
{
    return a && name ? (const tp_archive_entry *)tpi_archive_find(a, name) : NULL;
}

const char *tp_archive_key(const tp_archive *a, int i)
{
    return a && i >= 0 && i < a->n_texts ? a->texts[i].key : NULL;
}

const char *tp_archive_text(const tp_archive *a, const char *key)
{
    const tpi_stored_text *t = a && key ? tpi_archive_find_text(a, key) : NULL;
    return t ? t->text : NULL;
}

tp_tensor *tp_archive_tensor_at(const char *file, int line, tp_archive *a, const char *name)
{
    const tpi_at at = TPI_AT(file, line);
    static const char what[] = "tp_archive_tensor";
    if (!a)
        return (tp_tensor *)&tpi_nil;
    TPI_ALONE(a->ctx, at, what);
    if (!name)
        return tpi_fail(a->ctx, at, what, TP_E_NULL, "the name is NULL");
    const tpi_stored *t = tpi_archive_find(a, name);
    if (!t)
        return tpi_fail(a->ctx, at, what, TP_E_NAME, "there is no \"%.150s\"", name);
    return tpi_archive_make(t, a->ctx, at, what);
}

TPI_BARE(tp_tensor *, tp_archive_tensor, (tp_archive * a, const char *name), a, name)

/* ---- writing ---------------------------------------------------------------------------------------- */

/* Texts, and then tensors, those of large elements first, so that all are aligned; by name. */
static int by_size(const void *a, const void *b)
{
    const tp_archive_item *x = a, *y = b;
    if (!x->tensor != !y->tensor)
        return x->tensor ? 1 : -1;
    const int64_t d = x->tensor ? tpi_elem_size(y->tensor) - tpi_elem_size(x->tensor) : 0;
    return d ? (d < 0 ? -1 : 1) : strcmp(x->name, y->name);
}

static bool is_npz(const char *path)
{
    const size_t n = path ? strlen(path) : 0;
    return n >= 4 && strcmp(path + n - 4, ".npz") == 0;
}

bool tpi_archive_write(tp_ctx *ctx, const char *path, int n, tp_archive_item *items,
                       tpi_file_error *error)
{
    *error = (tpi_file_error){0};
    if (n > 1)
        qsort(items, (size_t)n, sizeof *items, by_size);
    return (is_npz(path) ? tpi_npz_save : tpi_safetensors_save)(ctx, path, n, items, error);
}

static tp_status refuse_item(tp_ctx *ctx, tpi_at at, const char *what, int i,
                             const tp_archive_item *item)
{
    const tp_tensor *t = item->tensor;
    if (!item->name || (!t && !item->text))
        return tpi_fail_status(ctx, at, what, TP_E_NULL, "item %d has no %s", i,
                               item->name ? "tensor and no text" : "name");
    const char *why = tpi_archive_why_no_name(item->name);
    if (why)
        return tpi_fail_status(ctx, at, what, TP_E_NAME, "\"%.60s\" cannot be a name: %s",
                               item->name, why);
    if (!t)
        return tpi_archive_is_utf8(item->text)
                   ? TP_OK
                   : tpi_fail_status(ctx, at, what, TP_E_VALUE,
                                     "the text \"%.60s\" is no UTF-8", item->name);
    if (!tpi_is_live(t) || t->status != TP_OK || t->ctx != ctx)
        return tp_status_of(tpi_refuse_operand(ctx, at, what, i, t));
    return t->graph ? tpi_fail_status(ctx, at, what, TP_E_SYMBOLIC,
                                      "\"%.60s\" is symbolic: its value is known only when its "
                                      "graph is run",
                                      item->name)
                    : TP_OK;
}

static int by_item_name(const void *a, const void *b)
{
    return strcmp(((const tp_archive_item *)a)->name, ((const tp_archive_item *)b)->name);
}

/* `v`: a copy of the items, to be sorted. */
static tp_status save(tp_ctx *ctx, tpi_at at, const char *what, const char *path, int n,
                      tp_archive_item *v)
{
    tp_status status = TP_OK;
    for (int i = 0; i < n && status == TP_OK; i++)
        status = refuse_item(ctx, at, what, i, &v[i]);
    if (status != TP_OK)
        return status;
    if (n > 1)
        qsort(v, (size_t)n, sizeof *v, by_item_name);
    for (int i = 1; i < n; i++)
        if (strcmp(v[i - 1].name, v[i].name) == 0)
            return tpi_fail_status(ctx, at, what, TP_E_NAME, "\"%.150s\" is there twice",
                                   v[i].name);
    tpi_file_error e;
    return tpi_archive_write(ctx, path, n, v, &e)
               ? TP_OK
               : tpi_fail_status(ctx, at, what, e.status, "%s", e.text);
}

tp_status tp_archive_save_at(const char *file, int line, tp_ctx *tp, const char *path, int n,
                             const tp_archive_item *items)
{
    const tpi_at at = TPI_AT(file, line);
    static const char what[] = "tp_archive_save";
    if (!tp)
        return TP_E_NULL;
    TPI_ALONE_STATUS(tp, at, what);
    if (n < 0 || (n && !items))
        return tpi_fail_status(tp, at, what, n < 0 ? TP_E_VALUE : TP_E_NULL, "%d items%s", n,
                               n < 0 ? "" : ", and they are NULL");
    tpi_look_at_all(tp, at, TPI_LOOK_SHOW);
    const size_t bytes = (size_t)n * sizeof *items;
    tp_archive_item *v = tpi_take(&tp->mem, bytes);
    if (!v)
        return (tp_status)tpi_no_memory(tp, at, what)->status;
    if (n)
        memcpy(v, items, bytes);
    const tp_status status = save(tp, at, what, path, n, v);
    tpi_give_back(&tp->mem, v, bytes);
    return status;
}

TPI_BARE(tp_status, tp_archive_save,
         (tp_ctx * tp, const char *path, int n, const tp_archive_item *items), tp, path, n,
         items)
