/* What is in an archive: files that are held, tensors and texts, sorted. */
#include "ir/notation.h"
#include "train/archive_def.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- files that are held --------------------------------------------------------------------------- */

void tpi_held_file_release(tpi_held_file *f)
{
    if (--f->refs > 0)
        return;
    tpi_mem *mem = f->mem;
    tpi_file_map_close(mem, &f->map);
    tpi_give_back(mem, f, sizeof *f);
}

tpi_held_file *tpi_archive_add_file(const tpi_archive_reader *r)
{
    tp_archive *a = r->a;
    tpi_held_file **v =
        tpi_bump_grow(&a->bump, a->files, a->n_files, &a->files_size, sizeof *v);
    tpi_held_file *f = v ? tpi_take(&a->ctx->mem, sizeof *f) : NULL;
    if (!f) {
        tpi_archive_no_memory(r);
        return NULL;
    }
    *f = (tpi_held_file){.refs = 1, .mem = &a->ctx->mem};
    a->files = v;
    return v[a->n_files++] = f;
}

const tpi_held_file *tpi_archive_file(const tpi_archive_reader *r, const char *path)
{
    tpi_held_file *f = tpi_archive_add_file(r);
    return f && tpi_file_map_open(f->mem, path, &f->map, r->error) ? f : NULL;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

bool tpi_archive_no_memory(const tpi_archive_reader *r)
{
    return tpi_file_fail(r->error, TP_E_MEMORY, r->path, "out of memory");
}

char *tpi_archive_keep(const tpi_archive_reader *r, const char *text, size_t length)
{
    char *kept = tpi_bump_take(&r->a->bump, length + 1, 1);
    if (!kept)
        tpi_archive_no_memory(r);
    else if (length)
        memcpy(kept, text, length);
    return kept;
}

const char *tpi_archive_keep_string(const tpi_archive_reader *r, tpi_json *j)
{
    tpi_str s = TPI_STR(j->mem);
    const char *kept = tpi_json_string(j, &s) ? tpi_archive_keep(r, s.text, s.len - 1) : NULL;
    tpi_str_free(&s);
    return kept;
}

tpi_stored *tpi_archive_add(const tpi_archive_reader *r)
{
    tp_archive *a = r->a;
    tpi_stored *v = a->n < INT32_MAX
                        ? tpi_bump_grow(&a->bump, a->tensors, a->n, &a->size, sizeof *v)
                        : NULL;
    if (!v) {
        tpi_archive_no_memory(r);
        return NULL;
    }
    a->tensors = v;
    v[a->n] = (tpi_stored){0};
    return &v[a->n++];
}

bool tpi_archive_add_text(const tpi_archive_reader *r, const char *key, const char *text)
{
    tp_archive *a = r->a;
    tpi_stored_text *v = a->n_texts < INT32_MAX ? tpi_bump_grow(&a->bump, a->texts, a->n_texts,
                                                                &a->texts_size, sizeof *v)
                                                : NULL;
    if (!v)
        return tpi_archive_no_memory(r);
    a->texts = v;
    v[a->n_texts++] = (tpi_stored_text){key, text};
    return true;
}

bool tpi_archive_read_text(const tpi_archive_reader *r, tpi_json *j, bool loose)
{
    const char *key = tpi_archive_keep_string(r, j);
    if (!key || !tpi_json_expect(j, ':'))
        return false;
    const bool is_string = !loose || tpi_json_next(j) == '"';
    const char *first = j->at, *text = is_string ? tpi_archive_keep_string(r, j) : NULL;
    if (is_string ? !text : !tpi_json_skip(j))
        return false;
    if (!is_string && (*first == '{' || *first == '['))
        return true;
    text = text ? text : tpi_archive_keep(r, first, (size_t)(j->at - first));
    return text && tpi_archive_add_text(r, key, text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tpi_stored *)a)->entry.name, ((const tpi_stored *)b)->entry.name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const tpi_stored_text *)a)->key, ((const tpi_stored_text *)b)->key);
}

bool tpi_archive_sort(const tpi_archive_reader *r, int first)
{
    const tp_archive *a = r->a;
    if (a->n - first > 1)
        qsort(a->tensors + first, (size_t)(a->n - first), sizeof *a->tensors, by_name);
    for (int i = first + 1; i < a->n; i++)
        if (by_name(&a->tensors[i - 1], &a->tensors[i]) == 0)
            return TPI_ARCHIVE_BAD(r, "\"%.60s\" is there twice", a->tensors[i].entry.name);
    return true;
}

bool tpi_archive_sort_texts(const tpi_archive_reader *r, int first)
{
    const tp_archive *a = r->a;
    if (a->n_texts - first > 1)
        qsort(a->texts + first, (size_t)(a->n_texts - first), sizeof *a->texts, by_key);
    for (int i = first + 1; i < a->n_texts; i++)
        if (by_key(&a->texts[i - 1], &a->texts[i]) == 0)
            return TPI_ARCHIVE_BAD(r, "the text \"%.60s\" is there twice", a->texts[i].key);
    return true;
}

size_t tpi_archive_count(const tpi_stored *t)
{
    size_t n = 1;
    for (int i = 0; i < t->entry.rank; i++)
        n *= (size_t)t->entry.shape[i];
    return n;
}

bool tpi_archive_check_span(const tpi_archive_reader *r, const tpi_stored *t, uint64_t have)
{
    if (t->raw.dtype == TP_N_DTYPES)
        return true;
    const int64_t bytes = tpi_raw_bytes(&t->raw, t->entry.rank, t->entry.shape);
    if (bytes < 0 || bytes > INT64_MAX / 8)
        return TPI_ARCHIVE_BAD(r, "the sizes of \"%.60s\" multiply beyond 2^60 bytes",
                               t->entry.name);
    return have == (uint64_t)bytes ||
           TPI_ARCHIVE_BAD(r, "\"%.60s\" needs %" PRId64 " bytes, and %" PRIu64 " are its own",
                           t->entry.name, bytes, have);
}

const tpi_stored *tpi_archive_find(const tp_archive *a, const char *name)
{
    const tpi_stored key = {.entry.name = name};
    return a->n ? bsearch(&key, a->tensors, (size_t)a->n, sizeof key, by_name) : NULL;
}

const tpi_stored_text *tpi_archive_find_text(const tp_archive *a, const char *key)
{
    const tpi_stored_text k = {.key = key};
    return a->n_texts ? bsearch(&k, a->texts, (size_t)a->n_texts, sizeof k, by_key) : NULL;
}

/* ---- for writing ------------------------------------------------------------------------------------ */

const char *tpi_archive_elements(const tp_tensor *t, void **copy)
{
    *copy = NULL;
    if (t->flags & TPI_CONTIGUOUS)
        return t->data;
    *copy = tpi_take(&t->ctx->mem, tpi_bytes(t));
    if (*copy)
        tpi_copy_out(t, *copy);
    return *copy;
}

bool tpi_archive_is_utf8(const char *text)
{
    const char *limit = text + strlen(text), *at = text;
    for (int n = 1; at < limit && n > 0; at += n)
        n = tpi_utf8_length(at, limit);
    return at == limit;
}

const char *tpi_archive_why_no_name(const char *name)
{
    return !*name                              ? "it is empty"
           : !tpi_archive_is_utf8(name)        ? "it is no UTF-8"
           : strcmp(name, "__metadata__") == 0 ? "the format has it for itself"
                                               : NULL;
}
